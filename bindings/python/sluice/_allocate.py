"""Makes arrays with the library that an input came from: outputs, scratch, and numbers that a GPU must
read."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import math
import sys
from typing import Any, Callable

from ._stream import stream_for
from ._view import CPU, DTYPES, PINNED, View, full_name

Maker = Callable[[int], Any]
"""Makes an array for work on this stream. The stream matters to libraries that reuse freed memory in its
order."""


def maker(like: View, shape: tuple[int, ...], dtype: str) -> tuple[Maker, Callable[[Any], Any] | None]:
    """What makes a compact array like `like`, and what turns it into the result once it is written (None:
    nothing).

    Raises TypeError for a library that we do not know how to ask."""
    host = like.device is not None and like.device[0] in (CPU, PINNED)
    if like.library == "numpy":
        return _numpy(shape, dtype), None
    if like.library == "torch":
        return _torch(like, shape, dtype), None
    if like.library == "cupy" and not host:
        return _cupy(like, shape, dtype), None
    if like.library == "jax":
        if not host:
            raise TypeError(
                "sluice: jax arrays never change, so outputs on a GPU cannot be written into them; pass out=,"
                " such as an array of CuPy's or torch's"
            )
        return _jax(shape, dtype)
    if like.library == "buffer":
        return _buffer(like, shape, dtype), None
    raise TypeError(f"sluice: cannot make outputs like a {full_name(like.kind)}; pass them, as in out=")


def _numpy_dtype(name: str) -> Any:
    numpy = importlib.import_module("numpy")
    if name == "bfloat16":  # numpy itself has none
        return numpy.dtype(importlib.import_module("ml_dtypes").bfloat16)
    return numpy.dtype(name)


_LINE = 64  # bytes; memory that starts on a cache line is written up to 1.3 times as fast
_LARGE = 1 << 16  # bytes, from which on that is worth the 2 us that it takes


def _numpy(shape: tuple[int, ...], name: str, large: int = _LARGE) -> Maker:
    empty, dtype = importlib.import_module("numpy").empty, _numpy_dtype(name)
    size = math.prod(shape) * dtype.itemsize

    def make(stream: int) -> Any:
        room = empty(size + _LINE, "uint8")  # numpy itself aligns to 16
        start = -room.ctypes.data % _LINE
        return room[start : start + size].view(dtype).reshape(shape)

    return make if size >= large else lambda stream: empty(shape, dtype)


def _torch(like: View, shape: tuple[int, ...], name: str) -> Maker:
    torch = sys.modules["torch"]
    empty, dtype, device = torch.empty, getattr(torch, name), like.kind

    def make(stream: int) -> Any:
        with _torch_stream(like, stream):
            return empty(shape, dtype=dtype, device=device)

    return (lambda stream: empty(shape, dtype=dtype, device=device)) if device.type == "cpu" else make


def _torch_stream(like: View, stream: int) -> Any:
    """Makes `stream` torch's current one, if it is not."""
    if like.device is None or stream == stream_for(None, like, like.device[1]):
        return contextlib.nullcontext()
    cuda = sys.modules["torch"].cuda
    return cuda.stream(cuda.ExternalStream(stream, device=like.kind))


def _cupy(like: View, shape: tuple[int, ...], name: str) -> Maker:
    cupy = sys.modules["cupy"]
    dtype, ordinal = _numpy_dtype(name), like.device[1] if like.device else 0

    def make(stream: int) -> Any:
        with cupy.cuda.Device(ordinal):
            if stream == stream_for(None, like, ordinal):
                return cupy.empty(shape, dtype)
            with cupy.cuda.ExternalStream(stream, ordinal):
                return cupy.empty(shape, dtype)

    return make


def _jax(shape: tuple[int, ...], name: str) -> tuple[Maker, Callable[[Any], Any]]:
    """numpy memory that becomes jax's. bfloat16 crosses as uint16, because numpy's DLPack cannot name it;
    memory that starts at a multiple of 64 bytes is not copied."""
    jax = sys.modules["jax"]
    plain = "uint16" if name == "bfloat16" else name

    def finish(array: Any) -> Any:
        result = jax.dlpack.from_dlpack(array.view(plain))
        return result.view("bfloat16") if plain != name else result

    return _numpy(shape, name, large=1), finish


def _buffer(like: View, shape: tuple[int, ...], name: str) -> Maker:
    """An array.array for an array.array where one axis is all there is, else a memoryview."""
    form: Any = {"float32": "f", "float64": "d"}.get(name)
    if form is None:
        raise TypeError(
            f"sluice: buffers made here hold float32 or float64, not {name}; pass the outputs, as in out="
        )
    size = math.prod(shape)
    if full_name(like.kind) == "array.array" and len(shape) == 1:
        return lambda stream: like.kind(form, [0.0]) * size
    room = size * (DTYPES[name][1] // 8)
    # A memoryview cannot be cast to a shape with a zero in it.
    return lambda stream: memoryview(bytearray(room)).cast("B").cast(form, shape if size else (0,))


def number_maker(like: View, dtype: str) -> Callable[[Any, int], Any]:
    """Makes a tensor of one number where `like` lives."""
    if like.library not in ("torch", "cupy"):
        raise TypeError(
            "sluice: cannot bring a Python number to the device; pass it as an array that is there"
        )
    make = maker(like, (), dtype)[0]

    def upload(number: Any, stream: int) -> Any:
        cell = make(stream)
        if like.library == "torch":
            with _torch_stream(like, stream):
                return cell.fill_(number)
        with sys.modules["cupy"].cuda.ExternalStream(stream, like.device[1] if like.device else 0):
            cell.fill(number)
        return cell

    return upload


def scratch(like: View, size: int, stream: int, kept: list[Any]) -> tuple[Any, int | None]:
    """`size` bytes at a multiple of 256 for one call: their owner, and their address if it is known here.

    On the CPU they are taken from what is kept, if that is enough."""
    if like.device is None or like.device[0] not in (CPU, PINNED):
        if like.library not in ("torch", "cupy"):
            raise TypeError(f"sluice: this call needs a workspace of {size} bytes; pass workspace=")
        return maker(like, (size,), "uint8")[0](stream), None
    try:
        room = kept.pop()
    except IndexError:
        room = None
    if room is None or ctypes.sizeof(room) < size + 255:
        room = (ctypes.c_char * (size + 255))()
    return room, -(-ctypes.addressof(room) // 256) * 256


def keep(kept: list[Any], room: Any) -> None:
    """Keeps CPU scratch for a later call. It was not in `kept` while in use: other threads, or a hook from
    inside the call, may call meanwhile."""
    if ctypes.sizeof(room) <= 1 << 24:
        kept.append(room)
