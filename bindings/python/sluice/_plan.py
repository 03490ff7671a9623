"""One call of an operation, prepared: everything the C function wants, filled in except for addresses.

Nothing here knows an operation. A recipe does: a function of the operands' views and the caller's options
that says which operation, which descriptor fields, which outputs to make, and what to give back.
"""

from __future__ import annotations

import ctypes
from array import array
from collections import namedtuple
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Callable, NamedTuple

from . import _abi, _allocate
from ._context import Context, default_context
from ._errors import Error, error, invalid
from ._library import library
from ._op import Op
from ._stream import handle_of, stream_for
from ._tensor import number_as, read
from ._view import CPU, CUDA, DTYPES, NAMES, PINNED, Geometry, View, compact

_NONE: Mapping[str, str] = MappingProxyType({})


class Work(NamedTuple):
    """What a recipe decides."""

    op: str
    options: dict[str, Any]  # descriptor fields; words for enums; None: the default
    made: tuple[tuple[str, tuple[int, ...], str], ...] = ()  # outputs to make: operand, shape, dtype
    returns: tuple[str, ...] = ()  # operands to give back
    place: Callable[[str, View], View] | None = None  # the view that C gets of an operand
    numbers: Mapping[str, str] = _NONE  # operands that may be Python numbers, and their dtype then
    note: str = ""  # what to add to an error's text


Recipe = Callable[..., Work]

_ZERO = ctypes.c_size_t(0)
_SIZE = ctypes.sizeof(_abi.Tensor)
WORDS = _SIZE // 8
_Words = ctypes.POINTER(ctypes.c_uint64)


class Plan:
    """Belongs to one call at a time, which writes addresses into it."""

    def __init__(
        self, recipe: Recipe, options: Any, slots: Any, geometries: list[Geometry], context: Context | None
    ) -> None:
        views = {slot: View.of(geometry) for slot, geometry in zip(slots, geometries)}
        lead = next((view for view in views.values() if view.library != "number"), None)
        if lead is None:
            raise TypeError("sluice: none of the operands is an array")
        # The CUDA array interface does not say on which device it is: the context's, or else the first.
        known = (context and context.device, lead.device)
        on_cuda = next((place for place in known if place and place[0] == CUDA), (CUDA, 0))
        device = lead.device or on_cuda
        self.lead = lead = lead._replace(device=device)
        kind, self.ordinal = context.device if context else device
        self.cuda = kind not in (CPU, PINNED)

        work = recipe(views, *options)
        op = _abi.OPS[work.op]
        self.note = work.note
        self.makers: list[_allocate.Maker] = []
        self.finish: dict[int, Callable[[Any], Any]] = {}
        self.uploads: dict[int, Callable[[Any, int], Any]] = {}
        outputs = {t.name for t in (*op.operands, *op.tensors) if t.direction == "out"}
        for index, (slot, view) in enumerate(views.items()):
            if view.library == "number":
                view = self._number(work, slot, view, index)
            elif view.readonly and slot in outputs:
                raise invalid(f"{work.op}: {slot} is read-only, want an array that can be written")
            views[slot] = view if view.device else view._replace(device=on_cuda)
        for slot, shape, dtype in work.made:
            make, finish = _allocate.maker(lead, shape, dtype)
            if finish:
                self.finish[len(views)] = finish
            self.makers.append(make)
            views[slot] = View(lead.library, shape, compact(shape), DTYPES[dtype], device)

        names = list(views)
        self.returns = [names.index(slot) for slot in work.returns]
        self.result = _result_type(work.op, work.returns) if len(work.returns) > 1 else None

        # The tensors, and the target of a pointer. An array's items are written faster than ctypes' fields.
        self._words = array("Q", bytes(_SIZE * len(views) + ctypes.sizeof(_Words)))
        self._extents: list[Any] = []
        placed = [work.place(slot, view) if work.place else view for slot, view in views.items()]
        present = {name: self._tensor(i, view) for i, (name, view) in enumerate(zip(names, placed))}
        self._desc = _descriptor(op, work.options, present)
        operands = [present.get(t.name) for t in op.operands]
        handle = ctypes.c_char.from_address(context.handle if context else default_context(device))
        # What byref makes goes to C as it is; a c_void_p would be converted again in each call.
        given = (handle, self._desc, *operands)
        pointers = [None if argument is None else ctypes.byref(argument) for argument in given]
        self.arguments: list[Any] = [*pointers, None, _ZERO, None]
        self.function = library().untyped(op.function)
        self._query = library().untyped(op.query)
        self._size: int | None = None  # of the workspace, once asked
        # For `repeatable`. The workspace's size is None as well: a NULL is the same eight zero bytes.
        target = _Words.from_buffer(self._words, _SIZE * len(views))
        self.bare = (self.function, (*pointers, None, None, None), self._words, target)
        self._short = not (self.cuda or work.made or context) and (len(views), self.returns) == (2, [1])

    def _number(self, work: Work, slot: str, view: View, index: int) -> View:
        if slot not in work.numbers:
            raise TypeError(f"{work.op}: {slot} is a number, want an array")
        dtype = work.numbers[slot]
        if dtype == "int64" and NAMES[view.dtype] != dtype:
            raise TypeError(f"{work.op}: {slot} is no whole number")
        view = number_as(view, dtype)
        if not self.cuda:
            return view._replace(device=(CPU, 0))
        self.uploads[index] = _allocate.number_maker(self.lead, dtype)
        return view._replace(device=self.lead.device, byte_offset=0)

    def _tensor(self, index: int, view: View) -> _abi.Tensor:
        ndim = len(view.shape)
        extents = (ctypes.c_int64 * ndim)(*view.shape)
        strides = None if view.strides is None else (ctypes.c_int64 * ndim)(*view.strides)
        self._extents += [extents, strides]
        tensor = _abi.Tensor.from_buffer(self._words, index * _SIZE)
        tensor.ndim, tensor.shape, tensor.byte_offset = ndim, ctypes.addressof(extents), view.byte_offset
        tensor.strides = None if strides is None else ctypes.addressof(strides)
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = view.dtype
        tensor.device.type, tensor.device.id = view.device or (0, 0)
        return tensor

    def prepare(self, arrays: list[Any], addresses: list[int], stream: Any) -> None:
        """Adds the outputs to make to `arrays`, and writes all addresses."""
        where = 0
        if self.cuda:
            where = stream_for(stream, self.lead, self.ordinal)
            self.arguments[-1] = ctypes.c_void_p(where)
            for index, upload in self.uploads.items():
                arrays[index] = upload(arrays[index], where)
                addresses[index] = address_of(arrays[index])
        else:
            # C has a word for a stream on the CPU.
            self.arguments[-1] = None if stream is None else ctypes.c_void_p(handle_of(stream))
        for make in self.makers:
            array = make(where)
            arrays.append(array)
            addresses.append(address_of(array))
        for index, address in enumerate(addresses):
            self._words[index * WORDS] = address

    def ask(self) -> int:
        """How many bytes of workspace the call wants with these addresses. 0 where it would be refused: the
        call itself then says why."""
        size = ctypes.c_size_t()
        if self._query(*self.arguments[:-3], ctypes.byref(size)):
            return 0
        self._size = size.value
        return self._size

    @property
    def accepted(self) -> bool:
        return self._size is not None

    @property
    def short(self) -> bool:
        """That the call is no more than C's with two addresses put in, of which the second is given back."""
        return self._short and self._size == 0

    def call(self, workspace: Any, context: Context | None, kept: list[Any]) -> None:
        """Calls C; `kept` is where idle CPU scratch is kept."""
        arguments = self.arguments
        ours = workspace is None and not (context and context.lends_memory)
        if ours:
            room = self.scratch(self.ask() if self._size is None else self._size, kept)
        else:
            room = None if workspace is None else self.lend(workspace)
        code = self.function(*arguments)
        if code == _abi.SLUICE_WORKSPACE_TOO_SMALL and ours:
            # At another alignment the same geometry may want more than it did before.
            room = self.scratch(self.ask(), kept)
            code = self.function(*arguments)
        if room is not None:
            arguments[-3], arguments[-2] = None, _ZERO
            if ours and not self.cuda:
                _allocate.keep(kept, room)
        if context:
            context.raise_pending()
        if code:
            self.check(code)

    def lend(self, workspace: Any) -> Any:
        """Puts the caller's workspace into the arguments."""
        addresses, geometries, holds = read([workspace])
        (address,), view = addresses, View.of(geometries[0])
        size = view.dtype[1] // 8
        for extent in view.shape:
            size *= extent
        if view.readonly or (size and view.strides not in (None, compact(view.shape))):
            raise invalid("sluice: workspace is read-only or has gaps, want memory in one piece")
        # Of nothing an address may be any, and C would find it unaligned.
        self.arguments[-3] = ctypes.c_void_p(address if size else None)
        self.arguments[-2] = ctypes.c_size_t(size)
        return [workspace, holds]

    def scratch(self, size: int, kept: list[Any]) -> Any:
        """Puts memory of our own into the arguments."""
        if not size:
            return None
        stream = self.arguments[-1].value or 0 if self.cuda else 0
        room, address = _allocate.scratch(self.lead, size, stream, kept)
        self.arguments[-3] = ctypes.c_void_p(address or address_of(room))
        self.arguments[-2] = ctypes.c_size_t(size)
        return room

    def check(self, code: int) -> None:
        """Raises what a status says, with the recipe's note."""
        try:
            library().check(code)
        except Error as exception:
            if not self.note:
                raise
            raise error(code, f"{exception}{self.note}") from None

    def results(self, arrays: list[Any]) -> Any:
        if self.finish:
            for index, finish in self.finish.items():
                arrays[index] = finish(arrays[index])
        if len(self.returns) == 1:
            return arrays[self.returns[0]]
        return self.result(*[arrays[i] for i in self.returns]) if self.result else None


def address_of(array: Any) -> int:
    return read([array])[0][0]


_results: dict[tuple[str, ...], Any] = {}


def _result_type(op: str, names: tuple[str, ...]) -> Any:
    """A named tuple with the C names of the outputs; one class for each choice of outputs."""
    key = (op, *names)
    if key not in _results:
        _results[key] = namedtuple(f"{op}_result", names)  # which ones are known at run time only
    return _results[key]


def _descriptor(op: Op, options: dict[str, Any], tensors: dict[str, _abi.Tensor]) -> Any:
    if op.desc is None:
        return None
    desc = op.desc(struct_size=ctypes.sizeof(op.desc))
    for name, value in options.items():
        words = op.options[name]
        if value is None:
            continue
        if words is not None and isinstance(value, str):
            if value not in words:
                wanted = " or ".join(map(repr, words))
                raise invalid(f"{op.name}: {name} is {value!r}, want {wanted}")
            value = words[value]
        try:
            setattr(desc, name, value)
        except TypeError:
            field = getattr(desc, name)
            kind = "a number" if isinstance(field, float) else "a whole number"
            raise TypeError(f"{op.name}: {name} is a {type(value).__name__}, want {kind}") from None
        if isinstance(getattr(desc, name), int) and getattr(desc, name) != value:
            raise invalid(f"{op.name}: {name} is {value}, which is out of range")
    for operand in op.tensors:
        if operand.name in tensors:
            setattr(desc, operand.name, ctypes.addressof(tensors[operand.name]))
    # NULL means the same as a descriptor of defaults, and is quicker to check.
    return None if bytes(desc) == bytes(op.desc(struct_size=desc.struct_size)) else desc
