"""softmax, log_softmax, logsumexp and their gradient."""

from __future__ import annotations

from typing import Any

from .._call import repeatable, run
from .._context import Context
from .._errors import invalid
from .._plan import Work
from .._view import DTYPES, NAMES, View
from . import _axis

_FIELDS = (
    "scale",
    "softcap",
    "log",
    "accuracy",
    "empty_row",
    "causal",
    "diagonal",
    "diagonal_offset",
    "window",
)

_X: tuple[str, ...] = ("x",)
_Y: tuple[str, ...] = ("y",)
_X_Y: tuple[str, ...] = ("x", "y")


@repeatable("axis", "dtype", *_FIELDS)
def softmax(
    x: Any,
    *,
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
    accuracy: str = "default",
    empty_row: str = "nan",
    causal: bool = False,
    diagonal: str = "top_left",
    diagonal_offset: int = 0,
    window: int = 0,
    dtype: str | None = None,
    return_lse: bool = False,
    return_max: bool = False,
    probabilities: bool = True,
    out: Any = None,
    lse_out: Any = None,
    max_out: Any = None,
    stream: Any = None,
    workspace: Any = None,
    context: Context | None = None,
    _run: Any = run,
) -> Any:
    """Softmax along an axis, with what attention and sampling put around it.

    In this order, each line left out where its argument is not given::

        v = scale * x
        v = softcap * tanh(v / softcap)
        v = v - slopes * |j - p(i)|
        v = v + mask
        v = v / temperature
        v = -inf where keep, lengths, causal or window exclude j, or mask is -inf
        y = e^(v - max) / (sum over j of e^(v - max), plus e^(sink - max))

    with j the index along `axis`, i that along the axis before it (0 where x has one axis), and p(i) = i +
    diagonal_offset, to which "bottom_right" adds the extent of `axis` minus that of the axis before it.

    Parameters
    ----------
    x : array
        float32, float64, float16 or bfloat16, of any shape and strides. numpy, torch, CuPy and jax arrays,
        and anything that has DLPack, an array interface or a buffer. Never copied.
    axis : int
        Any axis runs without a copy. With an axis other than the last, `mask` and `keep` still broadcast
        against x as it is; "the axis before it" is then the last of the others.
    scale : float
        Finite and not 0; None is 1.
    temperature, slopes, sink : array or float
        One value a row: any float dtype, broadcast against x's shape without `axis`. A Python number is
        float32, or float64 if x is. sink is the logit of a column that only the denominator sees.
    mask : array
        Added; any float dtype, broadcast against x. -inf excludes.
    keep : array
        bool, uint8 or int8, broadcast against x. True keeps, False excludes.
    lengths : array or int
        int32 or int64: how many columns of a row count; like temperature.
    softcap : float
        At least 0; None or 0 leaves it out.
    log : bool
        y is its logarithm.
    accuracy : {"default", "high"}
        For float32: |v - max| + 4 ulp, or 4 ulp.
    empty_row : {"nan", "zero", "uniform"}
        y where every column of a row is excluded or -inf and there is no sink.
    causal : bool
        Excludes j > p(i).
    diagonal : {"top_left", "bottom_right"}
        Where p(i) = j: at the first i and j, or at the last.
    diagonal_offset : int
        Moves it.
    window : int
        w > 0 excludes |j - p(i)| >= w.
    dtype : str
        That of y by name, such as "float32"; None: x's.
    return_lse, return_max : bool
        Gives back the logarithm of the denominator and the maximum too: x's shape without `axis`, float64
        if x is, else float32.
    probabilities : bool
        False: no y, only lse or max.
    out, lse_out, max_out : array
        Written instead of new arrays. `out` may be x itself.
    stream : int or stream object
        Of a CUDA device. None: the current one of x's library if it has such a thing; else the one that x's
        interface names; else 0.
    workspace : array
        Scratch for the rare calls that need it, which otherwise comes from x's library.
    context : sluice.Context
        None: the one of x's device.

    Returns
    -------
    array or named tuple
        y; or of y, lse and max what was asked for, in this order. New arrays are of x's library: what has a
        buffer only gives an array.array or a memoryview.

    Raises
    ------
    ValueError, NotImplementedError, MemoryError, RuntimeError
        Each also a `sluice.Error` with the status as `.code`. No output was touched then.
    TypeError
        What is no array; a torch tensor that requires grad.

    Notes
    -----
    What is excluded is not read, NaN included. A NaN or +inf among the rest makes its row NaN. The bits of
    a row depend on its own values and these arguments alone: not on other rows, strides, threads or the
    run.

    On a CUDA device the call returns when the work is enqueued.

    Examples
    --------
    >>> import numpy as np
    >>> sluice.softmax(np.array([[1.0, 1.0, 1.0, 1.0]]), lengths=2)
    array([[0.5, 0.5, 0. , 0. ]])
    >>> y, lse = sluice.softmax(np.zeros((2, 8)), temperature=0.7, return_lse=True)
    >>> y.shape, lse.shape
    ((2, 8), (2,))
    """
    slots, arrays = (_X, [x]) if out is None else (_X_Y, [x, out])
    if not (mask is keep is lengths is slopes is sink is temperature is lse_out is max_out is None):
        names = ("mask", "keep", "lengths", "slopes", "sink", "temperature", "lse", "max")
        values = (mask, keep, lengths, slopes, sink, temperature, lse_out, max_out)
        slots += tuple(name for name, value in zip(names, values) if value is not None)
        arrays += [value for value in values if value is not None]
    want = _Y
    if return_lse or return_max or lse_out is not None or max_out is not None or not probabilities:
        if out is not None and not probabilities:
            raise invalid("softmax: out is given though probabilities is False")
        wanted = (probabilities, return_lse or lse_out is not None, return_max or max_out is not None)
        want = tuple(name for name, is_wanted in zip(("y", "lse", "max"), wanted) if is_wanted)
    options = (
        axis,
        dtype,
        None,
        want,
        scale,
        softcap,
        log,
        accuracy,
        empty_row,
        causal,
        diagonal,
        diagonal_offset,
        window,
    )
    return _run(_forward, options, slots, arrays, stream, workspace, context)


@repeatable("axis", "dtype", *_FIELDS)
def log_softmax(x: Any, **options: Any) -> Any:
    """The logarithm of softmax. Takes what `softmax` takes, except `log`.

    Examples
    --------
    >>> import numpy as np
    >>> sluice.log_softmax(np.zeros(4)) == -np.log(4)
    array([ True,  True,  True,  True])
    """
    return softmax(x, log=True, **options)


@repeatable("axis", "dtype", *_FIELDS)
def logsumexp(x: Any, *, dtype: str | None = None, out: Any = None, **options: Any) -> Any:
    """The logarithm of softmax's denominator along an axis, from one read of x.

    Takes what `softmax` takes as far as it concerns the denominator. The result has x's shape without the
    axis, and x's dtype unless `dtype` names another; `out` is written instead of a new array.

    Examples
    --------
    >>> import numpy as np
    >>> sluice.logsumexp(np.zeros((2, 4)), lengths=1)
    array([0., 0.])
    """
    for name in ("log", "lse_out", "max_out", "return_lse", "return_max", "probabilities"):
        if name in options:
            raise TypeError(f"logsumexp: takes no {name}")
    deliver = options.pop("_run", run)

    def as_x(recipe: Any, given: tuple[Any, ...], *rest: Any) -> Any:
        return deliver(recipe, (*given[:2], dtype or "x", *given[3:]), *rest)

    return softmax(x, probabilities=False, return_lse=True, lse_out=out, _run=as_x, **options)


def _forward(
    views: dict[str, View],
    axis: int,
    dtype: str | None,  # of y
    statistics: str | None,  # of lse; "x": like x; None: what the call computes in
    want: tuple[str, ...],
    *fields: Any,
) -> Work:
    if fields[0] == 0:
        raise invalid("softmax: scale is 0, want a factor other than 0")
    x = views["x"]
    place, note = _axis.last("softmax", axis, len(x.shape), "x y", "mask keep")
    computed = "float64" if NAMES[x.dtype] == "float64" else "float32"
    kinds = {"y": dtype_named("softmax", dtype, x), "lse": computed, "max": computed}
    if statistics is not None:
        kinds["lse"] = dtype_named("logsumexp", None if statistics == "x" else statistics, x)
    rows = _axis.without(x.shape, axis)
    made = tuple((name, x.shape if name == "y" else rows, kinds[name]) for name in want if name not in views)
    return Work("softmax", dict(zip(_FIELDS, fields)), made, want, place, row_numbers(computed), note)


def row_numbers(computed: str) -> dict[str, str]:
    """The operands of a row that may be Python numbers. Never a wider type than the call computes in: a
    float64 operand would make all of it float64."""
    return {"temperature": computed, "slopes": computed, "sink": computed, "lengths": "int64"}


def dtype_named(op: str, name: str | None, like: View) -> str:
    if name is None:
        return NAMES[like.dtype]
    if name not in DTYPES:
        raise invalid(f"{op}: dtype is {name!r}, want a name such as 'float32' or 'bfloat16'")
    return name
