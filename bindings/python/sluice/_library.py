"""Finds the shared library, opens it, and checks that it fits this package. Nothing else opens it.

SLUICE_LIBRARY names a file, and then that file alone is tried. Otherwise the package's own copy, if it has
one, before what the system's loader finds: the file we were shipped with is the one we were tested with.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from . import _abi
from ._errors import Unavailable, error

SONAME = "libsluice.so.0"
_OWN = Path(__file__).parent / "lib" / SONAME


class Library:
    """An opened library. A function is looked up when it is first called, so that one that is missing
    troubles only those who call it."""

    def __init__(self, opened: ctypes.CDLL, path: str) -> None:
        self._opened = opened
        self._functions: dict[str, Any] = {}
        self.path = path

    def __getitem__(self, name: str) -> Any:
        function: Any = self._functions.get(name)
        if function is None:
            try:
                function = self._opened[name]
            except AttributeError:
                raise Unavailable(
                    f"sluice: {self.path} has no {name}: it is too old, or not sluice"
                ) from None
            result, *arguments = _abi.FUNCTIONS[name]
            function.restype, function.argtypes = result, arguments
            self._functions[name] = function
        return function

    def untyped(self, name: str) -> Any:
        """A function for arguments that are ctypes objects or None, which carry their types: to convert them
        once more would take 0.4 us a call."""
        self[name]  # for the error where it is missing
        function = self._opened[name]
        function.restype = _abi.FUNCTIONS[name][0]
        return function

    def version(self) -> str:
        return dotted(self["sluice_version"]())

    def check(self, code: int) -> None:
        """Raises what a status other than SLUICE_OK says."""
        if code:
            text = self["sluice_last_error"]().decode()
            raise error(code, text or self["sluice_status_name"](code).decode())


def dotted(version: int) -> str:
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


_library: Library | None = None


def library() -> Library:
    """The library, opened on the first call."""
    global _library
    if _library is None:
        _check_layouts()
        _library = _find()
    return _library


def _find() -> Library:
    exact = os.environ.get("SLUICE_LIBRARY")
    if exact:
        # Absolute, because a name without a slash would send the loader on a search.
        paths, remedy = [str(Path(exact).absolute())], "correct SLUICE_LIBRARY, or unset it"
    else:
        # A copy of our own that does not load is an error; only one that is not there sends us on.
        paths = [str(_OWN)] if _OWN.exists() else [str(_OWN), SONAME]
        remedy = f"install sluice, or set SLUICE_LIBRARY to a {SONAME} that you built"
    refusals = []
    for path in paths:
        try:
            return _open(path)
        except OSError as refusal:
            refusals.append(f"{path}: {refusal}")
    raise Unavailable("sluice: no library: " + "; ".join(refusals) + f". To mend it, {remedy}")


def _open(path: str) -> Library:
    found = Library(ctypes.CDLL(path, mode=os.RTLD_LOCAL), path)
    if path == SONAME:
        found.path = _mapped() or path
    try:
        version = found["sluice_version"]()
    except Unavailable as foreign:
        raise OSError(str(foreign)) from None
    if version // 10000 != _abi.SLUICE_VERSION // 10000 or version < _abi.SLUICE_VERSION:
        need = dotted(_abi.SLUICE_VERSION)
        raise OSError(
            f"{found.path} is version {dotted(version)}, this package needs {need} or a newer {need[0]}.x"
        )
    return found


def _mapped() -> str | None:
    """The file behind a name that the loader looked up, for messages."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    return next((line.split(maxsplit=5)[5] for line in lines if "/libsluice.so" in line), None)


def _check_layouts() -> None:
    """That ctypes lays structures out as the compiler of the header did; another ABI would corrupt memory."""
    for struct, (size, *offsets) in _abi.LAYOUTS.items():
        here = [getattr(struct, name).offset for name, *_ in struct._fields_]
        if ctypes.sizeof(struct) != size or here != offsets:
            raise Unavailable(f"sluice: {struct.__name__} is laid out otherwise on this platform")
