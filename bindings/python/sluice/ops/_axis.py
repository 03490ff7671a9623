"""Operations work along the last axis; a view in another order costs nothing."""

from __future__ import annotations

import operator
from typing import Any, Callable

from .._errors import invalid
from .._view import View, compact

Place = Callable[[str, View], View]


def last(op: str, axis: Any, ndim: int, whole: str, broadcast: str) -> tuple[Place | None, str]:
    """What views operands so that `axis` comes last: those in `whole`, which have all axes, and those in
    `broadcast`, which numpy's rule aligns with them. None: it is last already. And a note for errors, which
    count axes in the new order."""
    try:
        axis = operator.index(axis)
    except TypeError:
        raise TypeError(f"{op}: axis is a {type(axis).__name__}, want a whole number") from None
    if ndim == 0:
        return None, ""  # C says what is wrong with an array without axes
    if not -ndim <= axis < ndim:
        raise invalid(f"{op}: axis is {axis}, want {-ndim} to {ndim - 1}")
    axis %= ndim
    if axis == ndim - 1:
        return None, ""
    order = [*range(axis), *range(axis + 1, ndim), axis]
    whole_names, broadcast_names = whole.split(), broadcast.split()

    def place(slot: str, view: View) -> View:
        missing = ndim - len(view.shape)
        if not ((slot in whole_names and missing == 0) or (slot in broadcast_names and missing >= 0)):
            return view
        shape = (1,) * missing + view.shape
        strides = (1,) * missing + (compact(view.shape) if view.strides is None else view.strides)
        return view._replace(shape=tuple(shape[i] for i in order), strides=tuple(strides[i] for i in order))

    return place, f" (with axis {axis} moved to the end)"


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    if not shape:
        return ()
    axis %= len(shape)
    return shape[:axis] + shape[axis + 1 :]
