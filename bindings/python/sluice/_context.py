"""Contexts: one per device, made when first needed and kept for ever; and those that a caller makes."""

from __future__ import annotations

import ctypes
import itertools
import os
from typing import Any, Callable

from . import _abi
from ._errors import invalid
from ._library import library
from ._view import CPU, CUDA, MANAGED, PINNED, invalid_device

_default: dict[tuple[int, int], int] = {}


def default_context(device: tuple[int, int]) -> int:
    """The handle of the one context of a device (type, ordinal). Memory of the host that is pinned counts as
    the CPU's, managed memory as its CUDA device's."""
    if device[0] not in (CPU, CUDA, PINNED, MANAGED):
        raise invalid_device(f"memory on DLPack device type {device[0]}")
    key = (CPU, 0) if device[0] in (CPU, PINNED) else (CUDA, device[1])
    handle = _default.get(key)
    if handle is None:
        mine = _create(_abi.ContextDesc(device_type=key[0], device_id=key[1]))
        handle = _default.setdefault(key, mine)
        if handle != mine:  # another thread was faster
            library()["sluice_context_destroy"](mine)
    return handle


# A forked child has none of its parent's threads, and no CUDA: it starts with contexts of its own.
os.register_at_fork(after_in_child=_default.clear)


def _create(desc: _abi.ContextDesc) -> int:
    desc.struct_size = ctypes.sizeof(desc)
    out = ctypes.c_void_p()
    library().check(library()["sluice_context_create"](ctypes.byref(desc), ctypes.byref(out)))
    return out.value or 0


def parse_device(device: str | tuple[str, int]) -> tuple[int, int]:
    """'cpu', 'cuda', 'cuda:1' or ('cuda', 1) as DLPack's type and ordinal."""
    name, _, ordinal = device.partition(":") if isinstance(device, str) else (device[0], "", str(device[1]))
    if name not in ("cpu", "cuda") or not (ordinal or "0").isdecimal():
        raise invalid(f"sluice: device is {device!r}, want 'cpu', 'cuda' or 'cuda:<ordinal>'")
    return (CPU if name == "cpu" else CUDA, int(ordinal or 0))


_serials = itertools.count(1)


class Context:
    """A device and what the caller lends to it; pass it as ``context=``. Any number of threads may share one.

    Most programs need none: without it every call uses one context per device that lives as long as the
    process.

    Parameters
    ----------
    device : str or (str, int)
        ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``("cuda", 1)``.
    threads : int
        Of a CPU context: 0, one per core this process may use; 1, the caller alone; at most 1024. They start
        with the first call that has work for them.
    debug_sync : bool
        Waits after every call, so that a fault is reported by the call that caused it.
    alloc, release : callable
        ``alloc(bytes, stream) -> address`` lends scratch memory, 256-byte aligned and ordered by the stream
        (None: there is none), and ``release(address, bytes, stream)`` takes it back. Both or neither.
    log : callable
        ``log(level, line)``: 0 error, 1 warning, 2 information.
    parallel_for : callable
        ``parallel_for(n, body)`` calls ``body(i)`` for every i from 0 to n - 1, in any order and on any
        threads, and returns when all are done. CPU contexts only.

    Raises
    ------
    sluice.Unavailable
        No such device, no driver, or a library without a CUDA half. Making a context is how to find out.

    Notes
    -----
    An exception in a hook is raised by the call during which it happened, and the outputs of that call are
    then unspecified. A CUDA context does not survive a fork.
    """

    def __init__(
        self,
        device: str | tuple[str, int] = "cpu",
        *,
        threads: int = 0,
        debug_sync: bool = False,
        alloc: Callable[[int, int], int | None] | None = None,
        release: Callable[[int, int, int], object] | None = None,
        log: Callable[[int, str], object] | None = None,
        parallel_for: Callable[[int, Callable[[int], None]], object] | None = None,
    ) -> None:
        self.handle = 0
        self.device = parse_device(device)
        self.serial = next(
            _serials
        )  # unlike an address it is never used again, so calls may be kept under it
        self.lends_memory = alloc is not None
        self._raised: list[BaseException] = []
        desc = _abi.ContextDesc(device_type=self.device[0], device_id=self.device[1], debug_sync=debug_sync)
        desc.threads = threads
        if alloc or release or log or parallel_for:
            self._hooks = _hooks(alloc, release, log, parallel_for, self._raised)
            desc.hooks = ctypes.addressof(self._hooks)
        self._destroy = library()["sluice_context_destroy"]  # at the interpreter's end too late to look it up
        self.handle = _create(desc)

    def __del__(self) -> None:
        if self.handle:
            self._destroy(self.handle)

    def __repr__(self) -> str:
        name = "cpu" if self.device[0] == CPU else f"cuda:{self.device[1]}"
        return f"<sluice.Context {name}>"

    def raise_pending(self) -> None:
        """Raises what a hook raised: an exception cannot pass through C."""
        if self._raised:
            raise self._raised.pop()


def _hooks(alloc: Any, release: Any, log: Any, parallel_for: Any, raised: list[BaseException]) -> _abi.Hooks:
    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(_self: Any, *arguments: Any) -> Any:
            try:
                return function(*arguments)
            except BaseException as exception:
                raised.append(exception)
                return None

        return call

    @guarded
    def on_alloc(size: int, stream: int | None) -> int | None:
        address: int | None = alloc(size, stream or 0)
        return address

    @guarded
    def on_release(address: int, size: int, stream: int | None) -> None:
        release(address, size, stream or 0)

    @guarded
    def on_log(level: int, line: bytes) -> None:
        log(level, line.decode(errors="replace"))

    @guarded
    def on_parallel_for(n: int, body: int, argument: int | None) -> None:
        call = _abi.HooksParallelForBody(body)
        parallel_for(n, lambda i: call(argument, i))

    hooks = _abi.Hooks(struct_size=ctypes.sizeof(_abi.Hooks))
    if alloc:
        hooks.alloc = _abi.HooksAlloc(on_alloc)
    if release:
        hooks.release = _abi.HooksRelease(on_release)
    if log:
        hooks.log = _abi.HooksLog(on_log)
    if parallel_for:
        hooks.parallel_for = _abi.HooksParallelFor(on_parallel_for)
    return hooks
