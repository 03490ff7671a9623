"""softmax as its header words it, in numpy: each line in the compute type, e^v and its sums in float64."""

import ml_dtypes
import numpy as np

FLOATS = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def softmax(
    x,
    axis=-1,
    scale=None,
    temperature=None,
    mask=None,
    keep=None,
    lengths=None,
    slopes=None,
    sink=None,
    softcap=None,
    log=False,
    empty_row="nan",
    causal=False,
    diagonal="top_left",
    diagonal_offset=0,
    window=0,
    wide=False,
):
    """y, lse, max, and d = v - max, all float64, with `axis` last in all but y and d's own place for it.

    `wide` says that some operand or result is float64, so that the lines are too.
    """
    kind = np.float64 if wide or x.dtype == np.float64 else np.float32
    whole = lambda a: np.moveaxis(np.broadcast_to(a, x.shape), axis, -1)  # noqa: E731
    v = np.moveaxis(x, axis, -1).astype(kind)
    rows = lambda a: np.broadcast_to(np.asarray(a), v.shape[:-1])[..., None]  # noqa: E731
    n = v.shape[-1]
    queries = v.shape[-2] if v.ndim > 1 else 1
    i = np.arange(queries)[:, None] if v.ndim > 1 else 0
    p = i + diagonal_offset + (n - queries if diagonal == "bottom_right" else 0)
    distance = np.abs(np.arange(n) - p)

    with np.errstate(all="ignore"):
        v = v * kind(1 if scale is None else scale)
        if softcap:
            v = kind(softcap) * np.tanh(v / kind(softcap))
        if slopes is not None:
            v = v - rows(slopes).astype(kind) * distance.astype(kind)
        counts = np.ones(v.shape, bool)
        if mask is not None:
            v = v + whole(mask).astype(kind)
            counts &= whole(mask) != -np.inf
        if temperature is not None:
            v = v / rows(temperature).astype(kind)
        if keep is not None:
            counts &= whole(keep) != 0
        if causal:
            counts &= np.arange(n) <= p
        if window:
            counts &= distance < window
        if lengths is not None:
            counts &= np.arange(n) < rows(lengths)

        v = np.where(counts, v, -np.inf).astype(np.float64)
        last = v if sink is None else np.concatenate([v, rows(sink).astype(kind)], -1).astype(np.float64)
        m = last.max(-1, keepdims=True, initial=-np.inf)
        base = np.where(m == -np.inf, 0, m)
        s = np.exp(last - base).sum(-1, keepdims=True)
        lse = base + np.log(s)
        d = v - base
        y = d - np.log(s) if log else np.exp(d) / s
        empty = m == -np.inf
        fill = {"nan": np.nan, "zero": 0.0, "uniform": 1 / max(n, 1)}[empty_row]
        y = np.where(empty, np.log(fill) if log else fill, y)
        spoiled = np.isnan(m) | (m == np.inf)
        y, lse, m = (np.where(spoiled, np.nan, a) for a in (y, lse, m))
    return np.moveaxis(y, -1, axis), lse[..., 0], m[..., 0], np.moveaxis(d, -1, axis)


# Digits of a significand, and the exponent of the smallest subnormal.
FORMATS = {"float32": (24, -149), "float64": (53, -1074), "float16": (11, -24), "bfloat16": (8, -133)}


def ulp(values, dtype):
    """The distance between neighbours of `dtype` at these values."""
    digits, lowest = FORMATS[np.dtype(dtype).name]
    exponent = np.frexp(np.asarray(values, np.float64))[1]
    return np.ldexp(1.0, np.maximum(exponent - digits, lowest))


def assert_softmax(y, expected, d, *, log=False, slack=0.0):
    """y within the header's bound for the default accuracy; `slack` is an error of v allowed besides."""
    dtype = y.dtype.name
    got, want = y.astype(np.float64), expected
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    got, want, d = got[finite], want[finite], np.abs(d[finite])
    d = np.where(np.isfinite(d), d, 0)
    if log:
        bound = 4 * ulp(np.maximum(1, np.abs(want)), "float64" if dtype == "float64" else "float32")
    else:
        bound = (d + 4) * ulp(want, "float64" if dtype == "float64" else "float32")
    if dtype in ("float16", "bfloat16"):
        bound = bound + 0.51 * ulp(want, dtype)
    bound = bound + slack * (1 if log else want)
    worst = np.max(np.abs(got - want) / bound, initial=0)
    assert worst <= 1, f"{worst:.2f} times what is allowed"
