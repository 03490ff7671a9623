"""Runs operations. The first call with some geometry prepares a plan; later ones find it again and only put
in new addresses."""

from __future__ import annotations

import ctypes
import os
from functools import partial, wraps
from typing import Any, Callable, TypeVar, cast

from . import _abi, _tensor
from ._context import Context
from ._errors import invalid
from ._plan import WORDS, Plan, Recipe, Work
from ._stream import stream_for
from ._tensor import DATA, read
from ._view import View

_KEPT = 1024  # geometries; a plan takes a few kilobytes
_plans: dict[Any, list[Plan]] = {}
"""The idle ones of each geometry. A call takes one out, so that no other thread, and no call from a hook inside
this one, uses it at the same time, and puts it back if no exception left it half done."""
_NONE: list[Plan] = []  # stays empty

_scratch: list[Any] = []
"""Idle too: memory for workspaces on the CPU."""

# Plans hold the handle of a context that a forked child must not use.
os.register_at_fork(after_in_child=_plans.clear)


def run(
    recipe: Recipe,
    options: tuple[Any, ...],
    slots: tuple[str, ...],
    arrays: list[Any],
    stream: Any = None,
    workspace: Any = None,
    context: Context | None = None,
    note: Callable[[Plan, list[Plan]], None] | None = None,
) -> Any:
    """Calls what `recipe` decides on `arrays`, whose operands `slots` names. Gives back what it says. `note` is
    told the plan and where it is kept."""
    addresses, geometries, _held = read(arrays)
    key = (recipe, options, slots, context and context.serial, *geometries)
    try:
        idle = _plans.get(key, _NONE)
    except TypeError as problem:
        if "unhashable" not in str(problem):
            raise
        raise TypeError(f"sluice: an option is no plain value: {problem}") from None
    try:
        plan = idle.pop()
    except IndexError:
        plan = None
    if plan is None:  # not above, lest its errors come with the IndexError as their context
        plan = Plan(recipe, options, slots, geometries, context)
    plan.prepare(arrays, addresses, stream)
    plan.call(workspace, context, _scratch)
    if idle is _NONE:
        idle = _keep(_plans, key, [])  # or in place of one that another thread made meanwhile
    idle.append(plan)
    if note is not None:
        note(plan, idle)
    return plan.results(arrays)


def _keep(plans: dict[Any, list[Plan]], key: Any, idle: list[Plan]) -> list[Plan]:
    if len(plans) >= _KEPT:
        plans.clear()
    plans[key] = idle
    return idle


Function = TypeVar("Function", bound=Callable[..., Any])
_OUT, _TARGET = WORDS, 2 * WORDS  # where in a plan's words the second address goes, and the pointer's


def repeatable(*values: str) -> Callable[[Function], Function]:
    """Makes `f(x, out=out)` short for numpy arrays and a geometry that was seen before, also with options of
    which `values` says that they are neither operands nor about where to run. It costs 1.3 us over the call of
    C, by the way of `run` 4.

    Such a call reads of the arrays whatever may have changed since: numpy lets a program set an array's shape,
    dtype and flags in place, and move its memory.
    """
    plain = frozenset(values)

    def shortened(function: Function) -> Function:
        known: dict[Any, list[Plan]] = {}
        os.register_at_fork(after_in_child=known.clear)

        @wraps(function)
        def call(x: Any, *, out: Any = None, **options: Any) -> Any:
            ours = type(x) is type(out) is _tensor.plain_ndarray
            if not ours or (options and not plain.issuperset(options)):
                return function(x, out=out, **options)
            # Where an array is contiguous its strides follow from its shape; carray: and it can be written.
            layout = x.flags.c_contiguous or x.strides
            out_layout = out.flags.carray or (out.strides, out.flags.writeable)
            key: Any = (x.shape, x.dtype, layout, out.shape, out.dtype, out_layout)
            if options:
                key += tuple(options.items())
            try:
                idle = known.get(key, _NONE)
                plan = idle.pop()
            except (IndexError, TypeError):  # there is none; a value that cannot be looked up
                plan = None
            if plan is None:
                note = partial(_learn, known, key)
                return function(x, out=out, _run=partial(run, note=note), **options)
            c_function, arguments, words, target = plan.bare
            words[_TARGET] = id(x)
            words[0] = target[DATA]
            words[_TARGET] = id(out)
            words[_OUT] = target[DATA]
            code = c_function(*arguments)
            idle.append(plan)
            return out if code == 0 else function(x, out=out, **options)  # which says what is wrong

        return cast(Function, call)

    return shortened


def _learn(known: dict[Any, list[Plan]], key: Any, plan: Plan, idle: list[Plan]) -> None:
    if plan.short:
        _keep(known, key, idle)


def bound(
    recipe: Recipe,
    options: tuple[Any, ...],
    slots: tuple[str, ...],
    arrays: list[Any],
    stream: Any = None,
    workspace: Any = None,
    context: Context | None = None,
) -> Bound:
    """`run`, prepared and not yet done."""
    addresses, geometries, holds = read(arrays)
    plan = Plan(recipe, options, slots, geometries, context)
    if plan.finish:
        raise TypeError("sluice: jax arrays never change: a bound call has nothing to write into; pass out=")
    plan.prepare(arrays, addresses, stream)
    size = plan.ask()
    if not plan.accepted:
        plan.call(workspace, context, [])  # raises what is wrong
    room = plan.lend(workspace) if workspace is not None else None
    if workspace is None and not (context and context.lends_memory):
        room = plan.scratch(size, [])
    return Bound(plan, plan.results(arrays), stream, context, [arrays, holds, room])


class Bound:
    """A call with everything prepared, for loops that run it again and again on the same memory.

    Calling it runs the operation on what the operands now hold, and gives back the same outputs each time. It
    keeps its operands alive. Use it from one thread at a time.
    """

    def __init__(self, plan: Plan, results: Any, stream: Any, context: Context | None, held: Any) -> None:
        self._plan, self._results, self._stream, self._context, self._held = (
            plan,
            results,
            stream,
            context,
            held,
        )

    def __call__(self) -> Any:
        plan = self._plan
        if plan.cuda:
            where = stream_for(self._stream, plan.lead, plan.ordinal)
            plan.arguments[-1] = ctypes.c_void_p(where)
        code = plan.function(*plan.arguments)
        if self._context is not None:
            self._context.raise_pending()
        if code:
            plan.check(code)
        return self._results


def raw(
    op: str,
    *operands: Any,
    stream: Any = None,
    workspace: Any = None,
    context: Context | None = None,
    _run: Any = run,
    **fields: Any,
) -> Any:
    """Any operation of the library, as its C header has it: nothing is made, permuted or given back.

    Parameters
    ----------
    op : str
        Its name, such as ``"softmax"``.
    *operands : array or None
        Its tensors in the order of the C arguments, outputs among them.
    **fields
        Fields of its descriptor: tensors, numbers, or an enum's words.
    stream, workspace, context
        As for `sluice.softmax`.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.zeros((2, 4), "float32"), np.empty((2, 4), "float32")
    >>> sluice.raw("softmax", x, y, scale=2.0)
    >>> y[0].tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    known = _abi.OPS.get(op)
    if known is None:
        raise invalid(f"sluice: no operation {op!r}, want one of {', '.join(_abi.OPS)}")
    if len(operands) != len(known.operands):
        names = ", ".join(t.name for t in known.operands)
        raise TypeError(f"{op}: {len(operands)} operands, want {names}")
    given = dict(zip((t.name for t in known.operands), operands))
    tensors = {t.name for t in known.tensors}
    unknown = [name for name in fields if name not in tensors and name not in known.options]
    if unknown:
        raise TypeError(f"{op}: the descriptor has no field {unknown[0]}")
    given.update((name, value) for name, value in fields.items() if name in tensors)
    given = {name: value for name, value in given.items() if value is not None}
    numbers = tuple((name, value) for name, value in fields.items() if name not in tensors)
    return _run(_as_given, (op, numbers), tuple(given), list(given.values()), stream, workspace, context)


def _as_given(views: dict[str, View], op: str, numbers: tuple[tuple[str, Any], ...]) -> Work:
    return Work(op, dict(numbers))


def bind(op: str, *arguments: Any, **options: Any) -> Bound:
    """A call prepared once, for loops that run it on the same memory again and again, such as decoding.

    Parameters
    ----------
    op : str
        A function of `sluice.ops`, such as ``"softmax"``, or any other operation as `sluice.raw` takes it.
    *arguments, **options
        As for that function. Nothing runs yet; outputs and workspace that it would make are made now.

    Returns
    -------
    callable
        ``step()`` runs the operation on what the arrays hold at that moment, and gives back the same
        outputs each time. It keeps all arrays alive, and belongs to one thread at a time. On a CUDA device,
        unless `stream` was given, it goes to the stream that is current when it is called.

    Examples
    --------
    >>> import numpy as np
    >>> logits, y = np.zeros((1, 4)), np.empty((1, 4))
    >>> step = sluice.bind("softmax", logits, out=y, temperature=0.7)
    >>> logits[0, 0] = -np.inf
    >>> bool(step()[0, 0] == 0)
    True
    """
    from . import ops

    if op in ops.__all__:
        result = getattr(ops, op)(*arguments, _run=bound, **options)
    else:
        result = raw(op, *arguments, _run=bound, **options)
    assert isinstance(result, Bound)
    return result
