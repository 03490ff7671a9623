"""softmax, log_softmax and logsumexp with every option, against reference.py."""

import numpy as np
import pytest
import reference
import sluice
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import FLOATS

B, H, Q, N = 2, 3, 5, 40


def options(rng):
    """Every option alone, and some together; shapes are those of x [B, H, Q, N]."""
    mask = rng.normal(size=(Q, N)).astype(np.float32)
    mask[rng.random(mask.shape) < 0.3] = -np.inf
    keep = rng.random((B, 1, 1, N)) < 0.6
    lengths = rng.integers(0, N + 9, (B, 1, 1)).astype(np.int32)
    slopes = np.float32(2.0) ** -np.arange(1, H + 1, dtype=np.float32)[:, None]
    sink = rng.normal(size=(H, 1)).astype(np.float32)
    temperature = (0.5 + rng.random((B, H, Q))).astype(np.float32)
    return {
        "plain": {},
        "scale": {"scale": 0.125},
        "negative_scale": {"scale": -2.5},
        "softcap": {"softcap": 3.0},
        "mask": {"mask": mask},
        "mask_f64": {"mask": mask.astype(np.float64), "wide": True},
        "mask_bf16": {"mask": mask.astype(FLOATS["bfloat16"])},
        "keep": {"keep": keep},
        "keep_uint8": {"keep": keep.astype(np.uint8) * 2},
        "keep_int8": {"keep": -keep.astype(np.int8)},
        "lengths": {"lengths": lengths},
        "lengths_i64_negative": {"lengths": lengths.astype(np.int64) - 5},
        "lengths_number": {"lengths": 7},
        "slopes": {"slopes": slopes},
        "slopes_number": {"slopes": 0.25},
        "sink": {"sink": sink},
        "sink_number": {"sink": 1.5},
        "temperature": {"temperature": temperature},
        "temperature_number": {"temperature": 0.7},
        "temperature_numpy_number": {"temperature": np.float32(0.7)},
        "causal": {"causal": True},
        "causal_bottom_right": {"causal": True, "diagonal": "bottom_right"},
        "causal_offset": {"causal": True, "diagonal_offset": 3},
        "causal_nothing": {"causal": True, "diagonal_offset": -3, "empty_row": "zero"},
        "window": {"window": 4, "diagonal": "bottom_right"},
        "causal_window": {"window": 4, "causal": True, "diagonal_offset": 11},
        "empty_nan": {"lengths": 0},
        "empty_zero": {"lengths": 0, "empty_row": "zero"},
        "empty_uniform": {"lengths": 0, "empty_row": "uniform"},
        "empty_with_sink": {"lengths": 0, "sink": sink},
        "attention": {
            "scale": 0.125,
            "softcap": 5.0,
            "slopes": slopes,
            "mask": mask,
            "temperature": temperature,
            "keep": keep,
            "lengths": lengths,
            "sink": sink,
            "causal": True,
            "diagonal": "bottom_right",
            "empty_row": "zero",
        },
    }


def split(chosen):
    """What sluice takes, and how much v may be off: tanh is not correctly rounded."""
    return {k: v for k, v in chosen.items() if k != "wide"}, 1e-5 if "softcap" in chosen else 0.0


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("name", options(np.random.default_rng(0)))
def test_options(rng, dtype, name, log):
    x = (3 * rng.normal(size=(B, H, Q, N))).astype(dtype)
    chosen = options(rng)[name]
    given_, slack = split(chosen)
    y, lse, m = sluice.softmax(x, log=log, return_lse=True, return_max=True, **given_)
    expected, exact_lse, exact_max, d = reference.softmax(x, log=log, **chosen)
    assert y.dtype == x.dtype and y.shape == x.shape
    assert lse.dtype == m.dtype == (np.float64 if dtype == np.float64 else np.float32)
    reference.assert_softmax(y, expected, d, log=log, slack=slack)
    reference.assert_softmax(lse, exact_lse, np.zeros_like(exact_lse), log=True, slack=slack)
    np.testing.assert_allclose(m, exact_max, rtol=1e-6, atol=slack)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -4, -2])
@pytest.mark.parametrize(
    "name", ["plain", "mask", "keep", "causal_bottom_right", "temperature_number", "window"]
)
def test_axis(rng, axis, name):
    x = rng.normal(size=(B, H, Q, N)).astype(np.float32)
    chosen = options(rng)[name]
    y, lse = sluice.softmax(x, axis=axis, return_lse=True, **chosen)
    expected, exact_lse, _, d = reference.softmax(x, axis=axis, **chosen)
    assert lse.shape == exact_lse.shape
    reference.assert_softmax(y, expected, d)
    assert np.array_equal(
        sluice.softmax(np.moveaxis(x, axis, -1)), np.moveaxis(sluice.softmax(x, axis=axis), axis, -1)
    )


def test_axis_of_rows_in_their_shape(rng):
    x = rng.normal(size=(4, 50, 6)).astype(np.float32)
    temperature, lengths = (0.5 + rng.random((4, 6))).astype(np.float32), rng.integers(1, 50, (4, 1))
    y = sluice.softmax(x, axis=1, temperature=temperature, lengths=lengths)
    expected, _, _, d = reference.softmax(x, axis=1, temperature=temperature, lengths=lengths)
    reference.assert_softmax(y, expected, d)


@pytest.mark.parametrize("to", FLOATS)
def test_output_dtype(rng, dtype, to):
    x = rng.normal(size=(7, 33)).astype(dtype)
    y = sluice.softmax(x, dtype=to)
    assert y.dtype == FLOATS[to]
    expected, _, _, d = reference.softmax(x, wide=to == "float64")
    if to == "float64" or dtype != np.float64:
        reference.assert_softmax(y, expected, d)
    else:
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=1e-2)


def test_out_in_place_and_statistics(rng):
    x = rng.normal(size=(3, 100)).astype(np.float32)
    expected = sluice.softmax(x)
    y, lse, m = np.empty_like(x), np.empty(3, np.float64), np.empty(3, np.float32)
    result = sluice.softmax(x, out=y, lse_out=lse, max_out=m)
    assert result.y is y and result.lse is lse and result.max is m
    np.testing.assert_allclose(y, expected, rtol=1e-6)  # a float64 lse makes all of it float64
    assert np.array_equal(m, x.max(-1))
    assert sluice.softmax(x, out=x) is x
    assert np.array_equal(x, expected)


def test_statistics_alone(rng):
    x = rng.normal(size=(3, 100)).astype(np.float32)
    lse = sluice.softmax(x, probabilities=False, return_lse=True)
    assert np.array_equal(lse, sluice.logsumexp(x))
    both = sluice.softmax(x, probabilities=False, return_lse=True, return_max=True)
    assert both._fields == ("lse", "max")
    assert np.array_equal(both.lse, lse)
    with pytest.raises(ValueError, match="y is NULL"):
        sluice.softmax(x, probabilities=False)
    with pytest.raises(ValueError, match="out is given"):
        sluice.softmax(x, probabilities=False, out=x)


def test_logsumexp(rng, dtype):
    x = rng.normal(size=(3, 100)).astype(dtype)
    out = np.empty(3, dtype)
    for lse in (sluice.logsumexp(x), sluice.logsumexp(x, out=out)):
        assert lse.dtype == dtype
        reference.assert_softmax(lse, reference.softmax(x)[1], np.zeros(3), log=True)
    assert sluice.logsumexp(x, axis=0, dtype="float64").dtype == np.float64
    assert sluice.logsumexp(x, axis=0, temperature=2.0).shape == (100,)
    with pytest.raises(TypeError, match="takes no return_max"):
        sluice.logsumexp(x, return_max=True)


def test_log_softmax(rng, dtype):
    x = rng.normal(size=(3, 100)).astype(dtype)
    assert np.array_equal(sluice.log_softmax(x, scale=2.0), sluice.softmax(x, log=True, scale=2.0))


def test_high_accuracy(rng):
    x = (50 * rng.normal(size=(20, 500))).astype(np.float32)
    y, (expected, *_) = sluice.softmax(x, accuracy="high"), reference.softmax(x)
    assert np.max(np.abs(y - expected) / reference.ulp(expected, np.float32)) <= 4


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 5), (1,), (1, 1)])
def test_no_and_one_element(shape):
    x = np.full(shape, 3.0, np.float32)
    y, lse, m = sluice.softmax(x, return_lse=True, return_max=True)
    assert np.array_equal(y, np.ones(shape, np.float32))
    assert np.array_equal(m, x.max(-1, initial=-np.inf))
    assert np.array_equal(lse, m)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values(value):
    x = np.zeros((2, 6), np.float32)
    x[0, 2] = value
    expected, exact_lse, _, d = reference.softmax(x)
    y, lse = sluice.softmax(x, return_lse=True)
    reference.assert_softmax(y, expected, d)
    reference.assert_softmax(lse, exact_lse, np.zeros(2), log=True)
    keep = np.ones(6, bool)
    keep[2] = False
    assert np.isfinite(sluice.softmax(x, keep=keep)).all()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_geometry(data):
    """Any shape, axis and strides, negative ones among them; nothing around the output changes."""
    draw = data.draw
    ndim = draw(st.integers(1, 4))
    shape = tuple(draw(st.lists(st.integers(0, 7), min_size=ndim, max_size=ndim)))
    axis = draw(st.integers(-ndim, ndim - 1))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))

    def view(dtype, fill):
        """An array of `shape` inside a larger one."""
        order = draw(st.permutations(range(ndim)))
        steps = [draw(st.sampled_from([1, 2, 3, -1, -2])) for _ in range(ndim)]
        extents = [shape[a] * abs(steps[a]) + 2 for a in order]
        base = fill(extents).astype(dtype)
        whole = base.transpose(np.argsort(order))
        cut = tuple(slice(1, 1 + n * abs(s)) for n, s in zip(shape, steps))
        return base, whole[cut][tuple(slice(None, None, s) for s in steps)]

    dtype = FLOATS[draw(st.sampled_from(sorted(FLOATS)))]
    _, x = view(dtype, lambda extents: 4 * rng.normal(size=extents))
    base, out = view(dtype, lambda extents: np.full(extents, 77.0))
    before = base.copy()
    assert x.shape == out.shape == shape
    assert sluice.softmax(x, axis=axis, out=out) is out
    expected, _, _, d = reference.softmax(x, axis=axis)
    reference.assert_softmax(out, expected, d)
    out[...] = 77.0
    assert np.array_equal(base, before)
