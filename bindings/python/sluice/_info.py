"""What the library says of itself."""

from __future__ import annotations

from typing import Any

from . import _abi
from ._context import default_context, parse_device
from ._errors import Unsupported, invalid
from ._library import library
from ._view import DTYPES


def version() -> str:
    """The loaded library's version, such as '0.1.0'. `sluice.__version__` is the package's."""
    return library().version()


def build_info() -> str:
    """One line: version, CUDA toolkit and architectures, and the CPU's instruction set that calls here
    use."""
    text: bytes = library()["sluice_build_info"]()
    return text.decode()


def library_path() -> str:
    """The file that was loaded."""
    return library().path


def op_names() -> tuple[str, ...]:
    """The operations of the loaded library."""
    count = library()["sluice_op_count"]()
    return tuple(library()["sluice_op_name"](index).decode() for index in range(count))


def supports(op: str, *dtypes: str, device: str | tuple[str, int] = "cpu") -> bool:
    """Whether an operation takes these dtypes on a device.

    Parameters
    ----------
    op : str
        Its name, such as ``"softmax"``.
    *dtypes : str
        Those of its required operands in the order of the C arguments, outputs among them.
    device : str or (str, int)
        As for `sluice.Context`.

    Returns
    -------
    bool
        False also for an operation that the library does not have.

    Raises
    ------
    sluice.Unavailable
        There is no such device.
    ValueError
        The operation takes another number of operands.

    Examples
    --------
    >>> sluice.supports("softmax", "bfloat16", "float32")
    True
    >>> sluice.supports("softmax", "int32", "int32")
    False
    """
    values: Any = (_abi.Dtype * len(dtypes))()
    for value, name in zip(values, dtypes):
        if name not in DTYPES:
            raise invalid(f"sluice: no dtype {name!r}, want one of {', '.join(DTYPES)}")
        value.code, value.bits, value.lanes = DTYPES[name]
    context = default_context(parse_device(device))
    try:
        library().check(library()["sluice_op_supports"](context, op.encode(), values, len(dtypes)))
    except Unsupported:
        return False
    return True
