"""Errors by status class. The text is the C library's own line, the code its status."""

# ruff: noqa: N818 -- named after what happened, as the statuses are

from __future__ import annotations

from . import _abi


class Error(Exception):
    """Base of every error that sluice raises about a call. `except sluice.Error` catches all of them, and so
    does the built-in class that each kind also is."""

    code: int | None = None
    """The C status, such as 1001; None where no library answered."""


class InvalidArgument(Error, ValueError):
    """Class 1: a value, shape, device or workspace outside what the operation documents."""


class Unsupported(Error, NotImplementedError):
    """Class 2: well formed, but not offered by this build."""


class OutOfMemory(Error, MemoryError):
    """Class 3: no memory, from the context's `alloc` hook or the host."""


class Failed(Error, RuntimeError):
    """Classes 4 and 9: the device or a callback failed, or sluice has a defect."""


class Unavailable(Error, RuntimeError):
    """Class 5: a device, or the library itself, is absent on this machine."""


_CLASSES: dict[int, type[Error]] = {1: InvalidArgument, 2: Unsupported, 3: OutOfMemory, 5: Unavailable}


def error(code: int, text: str) -> Error:
    """The exception for a status. A class that a newer library may add is a Failed."""
    exception = _CLASSES.get(code // 1000, Failed)(text)
    exception.code = code
    return exception


def invalid(text: str) -> Error:
    """What the binding itself finds wrong, before C is asked."""
    return error(_abi.SLUICE_INVALID_ARGUMENT, text)
