"""Takes anything array-like: chooses its reader, and holds those of numpy, torch and plain numbers.

The choice goes by type, the first that fits: torch tensors, numpy arrays, Python numbers, then
`__dlpack__`, `__cuda_array_interface__`, `__array_interface__` and the buffer protocol (_exchange.py). No
array library is ever imported for it. numpy skips DLPack because some of its versions refuse read-only
arrays there; for others DLPack precedes the interfaces because they cannot name bfloat16.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from numbers import Real
from typing import Any

from . import _exchange
from ._view import (
    CPU,
    CUDA,
    DTYPES,
    Geometry,
    Reader,
    View,
    full_name,
    in_elements,
    invalid_device,
    unknown_dtype,
)

READERS: dict[type, Reader] = {}
"""By exact type; `reader_for` fills it."""


def reader_for(array: Any) -> Reader:
    """Chooses the reader of a type that is seen for the first time, and remembers it."""
    reader = READERS[type(array)] = _choose(array)
    return reader


def read(arrays: Iterable[Any]) -> tuple[list[int], list[Geometry], list[Any]]:
    """The arrays' addresses, their geometries, and what must live until a call that uses them returns."""
    addresses: list[int] = []
    geometries: list[Geometry] = []
    holds: list[Any] = []
    for array in arrays:
        reader = READERS.get(type(array)) or reader_for(array)
        addresses.append(reader(array, geometries, holds))
    return addresses, geometries, holds


def _choose(array: Any) -> Reader:
    kind = type(array)
    ancestors = {(base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__}
    if ("torch", "Tensor") in ancestors:
        return read_torch
    if ("numpy", "ndarray") in ancestors:
        if ("numpy", "MaskedArray") in ancestors:
            raise TypeError("sluice: a masked array's mask would be ignored; pass its .data, and keep=~mask")
        return _numpy_reader(kind)
    if isinstance(array, Real) and not isinstance(array, bool):
        return read_number
    if any(library == "jax" and name == "Tracer" for library, name in ancestors):
        raise TypeError(
            "sluice: a traced jax array has no memory yet; call sluice outside jax.jit or by jax.pure_callback"
        )
    if hasattr(array, "__dlpack__"):
        return _exchange.read_dlpack
    if hasattr(array, "__cuda_array_interface__"):
        return _exchange.read_cuda_interface
    if hasattr(array, "__array_interface__"):
        return _exchange.read_interface
    try:
        memoryview(array)
    except TypeError:
        text = f"sluice: {full_name(kind)} is no array: it has no DLPack, array interface or buffer"
        raise TypeError(text) from None
    return _exchange.read_buffer


# ---- numpy ----


_HEAD = object.__basicsize__
DATA = _HEAD // 8
"""Where an ndarray, which is a public C structure, has its data's address: right after what every object begins
with, in words. Extension modules have it compiled in, so numpy cannot move it without all of them."""

plain_ndarray: Any = None
"""numpy's own class, once an array of it came by and its data's address was found at DATA."""

_pointer_at = ctypes.c_void_p.from_address


def read_numpy_at_once(array: Any, geometries: list[Geometry], holds: list[Any]) -> int:
    """Reading the address where it is takes 0.1 us, through `__array_interface__` 0.9."""
    geometries.append((numpy_view, array.shape, array.strides, array.dtype, array.flags.writeable))
    return _pointer_at(id(array) + _HEAD).value or 0


def _numpy_reader(kind: type) -> Reader:
    """The shortcut only where it gives what the interface gives."""
    global plain_ndarray
    ndarray: Any = next(base for base in kind.__mro__ if base.__name__ == "ndarray")
    if sys.implementation.name != "cpython" or ndarray.__basicsize__ < _HEAD + ctypes.sizeof(ctypes.c_void_p):
        return read_numpy
    whole = ndarray((4,), "float32")
    probes = (whole, whole[1:], whole[::-2])
    if any(read_numpy_at_once(p, [], []) != read_numpy(p, [], []) for p in probes):
        return read_numpy
    if kind is ndarray:
        plain_ndarray = ndarray
    return read_numpy_at_once


def read_numpy(array: Any, geometries: list[Geometry], holds: list[Any]) -> int:
    geometries.append((numpy_view, array.shape, array.strides, array.dtype, array.flags.writeable))
    address: int = array.__array_interface__["data"][0]
    return address


def numpy_view(shape: Any, strides: Any, dtype: Any, writeable: bool) -> View:
    found = DTYPES.get(dtype.name)
    if found is None or not dtype.isnative:
        raise unknown_dtype(dtype)
    return View("numpy", shape, in_elements(strides, found[1], shape), found, (CPU, 0), not writeable)


# ---- torch ----


def read_torch(tensor: Any, geometries: list[Geometry], holds: list[Any]) -> int:
    if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise TypeError(
            "sluice: the tensor requires grad, which sluice does not follow; pass x.detach(), and see"
            " softmax_backward for gradients"
        )
    negated = tensor.is_neg()
    geometries.append((torch_view, tensor.shape, tensor.stride(), tensor.dtype, tensor.device, negated))
    address: int = tensor.data_ptr()
    return address


def torch_view(shape: Any, strides: Any, dtype: Any, device: Any, negated: bool) -> View:
    if negated:
        raise TypeError("sluice: the tensor's negation is still pending; pass x.resolve_neg()")
    found = DTYPES.get(str(dtype).partition(".")[2])
    if found is None:
        raise unknown_dtype(dtype)
    if device.type not in ("cpu", "cuda"):
        raise invalid_device(f"a torch tensor on {device}")
    place = (CPU, 0) if device.type == "cpu" else (CUDA, device.index or 0)
    return View("torch", tuple(shape), tuple(strides), found, place, kind=device)


# ---- numbers ----


class _Number(ctypes.Structure):
    """A number in each form that an operand may want; the view's byte_offset picks one."""

    _fields_ = (("float64", ctypes.c_double), ("float32", ctypes.c_float), ("int64", ctypes.c_int64))


def read_number(number: Any, geometries: list[Geometry], holds: list[Any]) -> int:
    value, whole = float(number), isinstance(number, int)
    if type(number) is not float and not whole:  # numpy's integers are no int
        whole = value.is_integer() and hasattr(number, "dtype")
    cell = _Number(value, value, int(number) if whole else 0)
    geometries.append((number_view, whole))
    holds.append(cell)
    return ctypes.addressof(cell)


def number_view(whole: bool) -> View:
    return View("number", (), (), DTYPES["int64" if whole else "float32"], None, readonly=True)


def number_as(view: View, dtype: str) -> View:
    """The number in the form that an operand takes."""
    return view._replace(dtype=DTYPES[dtype], byte_offset=getattr(_Number, dtype).offset)
