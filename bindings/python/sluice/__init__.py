"""Sequence operations for CPUs and CUDA devices, from one shared library and for any array library.

    y = sluice.softmax(x, temperature=0.7, mask=mask)

`x` may be a numpy, torch, CuPy or jax array, or anything with DLPack, an array interface or a buffer; `y`
is of the same library. Importing this package loads nothing: the shared library is opened by the first
call, and array libraries are never imported, only recognised.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # what checkers take it to be, without importing typing
if TYPE_CHECKING:
    from ._call import Bound, bind, raw
    from ._context import Context
    from ._errors import Error, Failed, InvalidArgument, OutOfMemory, Unavailable, Unsupported
    from ._info import build_info, library_path, op_names, supports, version
    from .ops.softmax import log_softmax, logsumexp, softmax
    from .ops.softmax_backward import softmax_backward

_HOME = {
    "_call": ("Bound", "bind", "raw"),
    "_context": ("Context",),
    "_errors": ("Error", "Failed", "InvalidArgument", "OutOfMemory", "Unavailable", "Unsupported"),
    "_info": ("build_info", "library_path", "op_names", "supports", "version"),
    "ops": ("log_softmax", "logsumexp", "softmax", "softmax_backward"),
}

__all__ = [
    "Bound",
    "Context",
    "Error",
    "Failed",
    "InvalidArgument",
    "OutOfMemory",
    "Unavailable",
    "Unsupported",
    "bind",
    "build_info",
    "library_path",
    "log_softmax",
    "logsumexp",
    "op_names",
    "raw",
    "softmax",
    "softmax_backward",
    "supports",
    "version",
]


def __getattr__(name: str) -> object:
    """Imports the file that holds a name when the name is first used, which keeps `import sluice` short."""
    from importlib import import_module

    if name == "ops":
        return import_module("sluice.ops")
    for module, names in _HOME.items():
        if name in names:
            value = getattr(import_module(f"sluice.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'sluice' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "ops"])
