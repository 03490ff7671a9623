"""Readers for the protocols by which libraries show each other their memory: DLPack, the array interfaces,
and Python's buffers. See _view.py for what a reader gives."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi
from ._view import (
    CPU,
    CUDA,
    MANAGED,
    NAMES,
    Dtype,
    Geometry,
    View,
    from_typestr,
    full_name,
    in_elements,
    package,
    unknown_dtype,
)

# ---- DLPack ----

_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_named = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


class _Versioned(ctypes.Structure):
    """What stands before the tensor in a DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


_READ_ONLY, _COPIED = 1, 2  # what is written to a copy would be lost, so a copy counts as read-only


def read_dlpack(array: Any, geometries: list[Geometry], holds: list[Any]) -> int:
    """Reads the capsule without consuming it, so that it stays the producer's and ends with our reference."""
    # -1: the producer need not wait, the caller's stream orders the work.
    options = {"stream": -1} if array.__dlpack_device__()[0] in (CUDA, MANAGED) else {}
    try:
        capsule = array.__dlpack__(max_version=(1, 1), **options)
    except TypeError:
        capsule = array.__dlpack__(**options)

    flags = 0
    if _is_named(capsule, b"dltensor_versioned"):
        address = _pointer(capsule, b"dltensor_versioned")
        head = _Versioned.from_address(address)
        if head.major != 1:
            raise BufferError(f"sluice: DLPack {head.major}.{head.minor} is not 1.x")
        flags, address = head.flags, address + ctypes.sizeof(_Versioned)
    elif _is_named(capsule, b"dltensor"):
        address = _pointer(capsule, b"dltensor")
    else:
        raise BufferError(f"sluice: {full_name(type(array))}.__dlpack__ gave no fresh DLPack capsule")

    t = _abi.Tensor.from_address(address)
    extents = ctypes.c_int64 * t.ndim
    shape = tuple(extents.from_address(t.shape)) if t.ndim else ()
    strides = tuple(extents.from_address(t.strides)) if t.ndim and t.strides else None
    library = package(type(array))
    readonly = (
        bool(flags & (_READ_ONLY | _COPIED)) or library == "jax"
    )  # jax promises that arrays never change
    dtype, device = (t.dtype.code, t.dtype.bits, t.dtype.lanes), (t.device.type, t.device.id)
    geometries.append((dlpack_view, library, shape, strides, dtype, device, readonly, type(array)))
    holds.append(capsule)
    return int(t.data or 0) + int(t.byte_offset)


def dlpack_view(
    library: str, shape: Any, strides: Any, dtype: Dtype, device: tuple[int, int], readonly: bool, kind: type
) -> View:
    if dtype not in NAMES:
        raise unknown_dtype("of DLPack's code {}, {} bits and {} lanes".format(*dtype))
    return View(library, shape, strides, dtype, device, readonly, kind=kind)


# ---- array interfaces ----


def _layout(interface: Any) -> tuple[Any, Any, str]:
    if interface.get("mask") is not None:
        raise TypeError("sluice: the array interface has a mask, which would be ignored")
    strides = interface.get("strides")
    return tuple(interface["shape"]), None if strides is None else tuple(strides), interface["typestr"]


def read_cuda_interface(array: Any, geometries: list[Geometry], holds: list[Any]) -> int:
    interface = array.__cuda_array_interface__
    address, readonly = interface["data"]
    geometry = (*_layout(interface), bool(readonly), interface.get("stream"), type(array))
    geometries.append((cuda_interface_view, *geometry))
    holds.append(interface)
    return address or 0  # None where there are no elements


def cuda_interface_view(
    shape: Any, strides: Any, typestr: str, readonly: bool, stream: int | None, kind: type
) -> View:
    if package(kind) == "torch" and typestr[1:] == "f2":
        raise TypeError(
            "sluice: torch has named both 16-bit floats f2 in this interface; pass the tensor itself"
        )
    dtype = from_typestr(typestr)
    return View(
        package(kind), shape, in_elements(strides, dtype[1], shape), dtype, None, readonly, stream, kind
    )


def read_interface(array: Any, geometries: list[Geometry], holds: list[Any]) -> int:
    interface = array.__array_interface__
    data = interface.get("data")
    if isinstance(data, tuple):
        (address, readonly), hold = data, interface
    else:
        hold = memoryview(array if data is None else data)
        address, readonly = _address(hold) + interface.get("offset", 0), hold.readonly
    geometries.append((interface_view, *_layout(interface), bool(readonly)))
    holds.append(hold)
    return address or 0


def interface_view(shape: Any, strides: Any, typestr: str, readonly: bool) -> View:
    dtype = from_typestr(typestr)
    return View("numpy", shape, in_elements(strides, dtype[1], shape), dtype, (CPU, 0), readonly)


# ---- buffers ----

_get_buffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi)
)
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyBuffer_Release", ctypes.pythonapi))
_STRIDES = 0x18  # PyBUF_STRIDES: read-only memory too, and an error for memory that is not one block
_Buffer = ctypes.c_void_p * 10  # Py_buffer, 80 bytes, of which the first member is the address


def _address(view: memoryview) -> int:
    """Where a memoryview's memory starts; it stays there as long as the view lives."""
    buffer = _Buffer()
    _get_buffer(view, buffer, _STRIDES)
    address = buffer[0] or 0
    _release_buffer(buffer)
    return address


_FORMATS = (
    dict.fromkeys("efd", "f") | dict.fromkeys("bhilqn", "i") | dict.fromkeys("BHILQN", "u") | {"?": "b"}
)


def read_buffer(buffer: Any, geometries: list[Geometry], holds: list[Any]) -> int:
    view = memoryview(buffer)
    geometry = (view.shape, view.strides, view.format, view.itemsize, view.readonly, type(buffer))
    geometries.append((buffer_view, *geometry))
    holds.append(view)
    return _address(view)


def buffer_view(shape: Any, strides: Any, form: str, itemsize: int, readonly: bool, kind: type) -> View:
    order = form[0] if form[0] in "<>!" else "="
    dtype = from_typestr(f"{order}{_FORMATS.get(form.lstrip('@=<>!'), '?')}{itemsize}")
    return View("buffer", shape, in_elements(strides, dtype[1], shape), dtype, (CPU, 0), readonly, kind=kind)
