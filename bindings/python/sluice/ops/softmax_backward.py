"""The gradient of softmax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._call import run
from .._context import Context
from .._errors import invalid
from .._plan import Work
from .._view import NAMES, View
from . import _axis
from .softmax import dtype_named, row_numbers

GRADIENTS = ("dx", "d_mask", "d_slopes", "d_sink", "d_temperature")


def softmax_backward(
    dy: Any,
    *,
    y: Any = None,
    x: Any = None,
    lse: Any = None,
    d_lse: Any = None,
    want: str | Iterable[str] = ("dx",),
    axis: int = -1,
    scale: float | None = None,
    temperature: Any = None,
    mask: Any = None,
    keep: Any = None,
    lengths: Any = None,
    slopes: Any = None,
    sink: Any = None,
    softcap: float | None = None,
    log: bool = False,
    empty_row: str = "nan",
    causal: bool = False,
    diagonal: str = "top_left",
    diagonal_offset: int = 0,
    window: int = 0,
    dtype: str | None = None,
    dx: Any = None,
    d_mask: Any = None,
    d_slopes: Any = None,
    d_sink: Any = None,
    d_temperature: Any = None,
    stream: Any = None,
    workspace: Any = None,
    context: Context | None = None,
    _run: Any = run,
) -> Any:
    """The gradient of `softmax`: of x, and of the operands around it.

    Parameters
    ----------
    dy : array or None
        Gradient of y, of its shape. None where only `d_lse` comes in.
    y, x, lse : array
        What the forward call took and gave. dx without softcap needs y, or x and lse. dx with softcap and
        every other gradient needs x and lse; a float64 lse makes the call compute in float64.
    d_lse : array
        Gradient of lse.
    want : str or iterable of str
        Which gradients to make, of ``"dx"``, ``"d_mask"``, ``"d_slopes"``, ``"d_sink"``, ``"d_temperature"``.
    axis, scale, temperature, mask, keep, lengths, slopes, sink, softcap, log, empty_row, causal, diagonal, \
diagonal_offset, window
        As in the forward call.
    dtype : str
        That of dx by name. None: that of x, or else dy, or else y. Other gradients have their operand's.
    dx, d_mask, d_slopes, d_sink, d_temperature : array
        Written instead of new arrays; each is wanted without being named in `want`. `dx` may be dy, x or y.
    stream, workspace, context
        As in `softmax`.

    Returns
    -------
    array or named tuple
        The gradients wanted, in the order above.

    Raises
    ------
    ValueError, NotImplementedError, MemoryError, RuntimeError, TypeError
        As `softmax`; ValueError where something that a gradient needs is missing.

    Notes
    -----
    The gradient of a broadcast operand is summed over the rows that share it, always in the same order: the
    same bits every time. Excluded columns get 0.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0, 1.0, 2.0]])
    >>> y = sluice.softmax(x)
    >>> bool(abs(sluice.softmax_backward(np.ones_like(y), y=y)).max() < 1e-15)
    True
    """
    if scale == 0:
        raise invalid("softmax_backward: scale is 0, want a factor other than 0")
    gradients = (dx, d_mask, d_slopes, d_sink, d_temperature)
    named = {want} if isinstance(want, str) else set(want)
    if not named <= set(GRADIENTS):
        raise invalid(f"softmax_backward: want has {min(named - set(GRADIENTS))!r}, want one of {GRADIENTS}")
    named |= {name for name, array in zip(GRADIENTS, gradients) if array is not None}
    operands = {
        "dy": dy,
        "y": y,
        "x": x,
        "lse": lse,
        "d_lse": d_lse,
        "mask": mask,
        "keep": keep,
        "lengths": lengths,
        "slopes": slopes,
        "sink": sink,
        "temperature": temperature,
        **dict(zip(GRADIENTS, gradients)),
    }
    slots = tuple(name for name, array in operands.items() if array is not None)
    returns = tuple(name for name in GRADIENTS if name in named)
    fields = (scale, softcap, log, empty_row, causal, diagonal, diagonal_offset, window)
    arrays = [operands[name] for name in slots]
    return _run(_backward, (axis, dtype, returns, *fields), slots, arrays, stream, workspace, context)


_FIELDS = ("scale", "softcap", "log", "empty_row", "causal", "diagonal", "diagonal_offset", "window")


def _backward(
    views: dict[str, View], axis: int, dtype: str | None, returns: tuple[str, ...], *fields: Any
) -> Work:
    like = next((views[name] for name in ("x", "dy", "y") if name in views), None)
    if like is None:
        raise invalid("softmax_backward: dy, y and x are all None, want at least one of them")
    place, note = _axis.last("softmax_backward", axis, len(like.shape), "dy y x dx", "mask keep d_mask")
    computed = "float64" if NAMES[like.dtype] == "float64" else "float32"
    made = []
    for name in returns:
        if name in views:
            continue
        if name == "dx":
            made.append((name, like.shape, dtype_named("softmax_backward", dtype, like)))
            continue
        operand = views.get(name[2:])
        if operand is None:
            raise invalid(f"softmax_backward: {name} is wanted without {name[2:]}")
        kind = computed if operand.library == "number" else NAMES[operand.dtype]
        made.append((name, operand.shape, kind))
    options = dict(zip(_FIELDS, fields))
    return Work("softmax_backward", options, tuple(made), returns, place, row_numbers(computed), note)
