"""Runs operations. The first call with some geometry prepares a plan; later ones find it again and only put
in new addresses."""

from __future__ import annotations

import ctypes
import os
from _thread import _local
from typing import Any

from . import _abi
from ._context import Context
from ._errors import invalid
from ._plan import Plan, Recipe, Work
from ._stream import stream_for
from ._tensor import HEAD, READERS, numpy_view, pointer_at, read, read_numpy_at_once
from ._view import View


class _Here(_local):
    """What belongs to one thread."""

    def __init__(self) -> None:
        self.plans: dict[Any, Plan] = {}  # the oldest first
        self.scratch: list[Any] = []


_here = _Here()
_KEPT = 256  # plans a thread; one takes a few kilobytes


# Plans hold the handle of a context that a forked child must not use.
os.register_at_fork(after_in_child=lambda: _here.plans.clear())


def run(
    recipe: Recipe,
    options: tuple[Any, ...],
    slots: tuple[str, ...],
    arrays: list[Any],
    stream: Any = None,
    workspace: Any = None,
    context: Context | None = None,
) -> Any:
    """Calls what `recipe` decides on `arrays`, whose operands `slots` names. Gives back what it says."""
    serial = context and context.serial
    try:
        if len(arrays) == 2 and workspace is None and stream is None:
            # Two arrays of numpy, such as x and out: what stands below, written out. It saves 0.7 us of 3.
            first, second = arrays
            if READERS.get(type(first)) is READERS.get(type(second)) is read_numpy_at_once:
                one = (numpy_view, first.shape, first.strides, first.dtype, True)  # or False: it is only read
                two = (numpy_view, second.shape, second.strides, second.dtype, second.flags.writeable)
                plan = _here.plans.get((recipe, options, slots, serial, one, two))
                if plan is not None and plan.bare is not None and not plan.busy:
                    plan.busy = True
                    plan.tensors[0].data = pointer_at(id(first) + HEAD).value
                    plan.tensors[1].data = pointer_at(id(second) + HEAD).value
                    if plan.function(*plan.bare) == 0:
                        plan.busy = False
                        return plan.results(arrays) if plan.only is None else arrays[plan.only]
                    plan.busy = False  # the call below says what is wrong

        addresses, geometries, _held = read(arrays)
        key = (recipe, options, slots, serial, *geometries)
        plan = _here.plans.get(key)
    except TypeError as problem:
        if "unhashable" not in str(problem):
            raise
        raise TypeError(f"sluice: an option is no plain value: {problem}") from None
    # Busy: a hook of the host's calls us again from inside that call, or an exception left it half done.
    if plan is None or plan.busy:
        plan = Plan(recipe, options, slots, geometries, context)
        _keep(key, plan)
    plan.busy = True
    plan.prepare(arrays, addresses, stream)
    plan.call(workspace, context, _here.scratch)
    plan.busy = False
    return plan.results(arrays)


def _keep(key: Any, plan: Plan) -> None:
    plans = _here.plans
    if len(plans) >= _KEPT:
        del plans[next(iter(plans))]
    plans[key] = plan


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
