"""Which stream a call on a CUDA device goes to. Decided here and nowhere else."""

from __future__ import annotations

import sys
from typing import Any

from ._view import View


def stream_for(stream: Any, view: View, device_id: int) -> int:
    """The stream argument if there is one: an address, or an object of torch (`cuda_stream`), CuPy (`ptr`)
    or another library (`__cuda_stream__`). Else the current stream of the input's library, if that library
    has one and is imported; else the stream that the input's array interface names; else 0, the legacy
    default stream.
    """
    if stream is not None:
        return handle_of(stream)
    if view.library == "torch":
        torch = sys.modules["torch"]
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # private, and ten times as fast
        return int(raw(device_id) if raw else torch.cuda.current_stream(device_id).cuda_stream)
    if view.library == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream(device_id).ptr)
    return view.stream or 0


def handle_of(stream: Any) -> int:
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise TypeError(
        f"sluice: stream is a {type(stream).__name__}, want an address or a library's stream object"
    )
