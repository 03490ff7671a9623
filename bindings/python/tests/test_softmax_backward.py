"""softmax_backward against differences of softmax itself, in float64."""

import numpy as np
import pytest
import sluice
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import FLOATS

STEP = 1e-5
ALL = ("dx", "d_mask", "d_slopes", "d_sink", "d_temperature")


def differences(loss, array):
    """d loss / d array, by central differences."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + STEP
        above = loss()
        array[index] = kept - STEP
        gradient[index] = (above - loss()) / (2 * STEP)
        array[index] = kept
    return gradient


def operands(rng, shape, axis=-1):
    rows = np.delete(shape, axis)
    return {
        "mask": rng.normal(size=(shape[-2], shape[-1])),
        "slopes": rng.normal(size=(rows[-2], 1)) / 4,
        "sink": rng.normal(size=(rows[0], 1, 1)),
        "temperature": 0.5 + rng.random((1, rows[-1])),
    }


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("causal", [False, True])
def test_every_gradient(rng, axis, log, softcap, causal):
    shape = (2, 3, 4, 5)
    x, dy = rng.normal(size=shape), rng.normal(size=shape)
    d_lse = rng.normal(size=tuple(np.delete(shape, axis)))
    around = operands(rng, shape, axis)
    options = {
        "axis": axis,
        "log": log,
        "softcap": softcap,
        "causal": causal,
        "scale": 0.7,
        "keep": np.ones(5, bool),
    }
    options["keep"][0 if not causal else 4] = False

    def loss():
        y, lse = sluice.softmax(x, return_lse=True, **around, **options)
        return (np.where(np.isfinite(y), y, 0) * dy).sum() + (lse * d_lse).sum()

    _, lse = sluice.softmax(x, return_lse=True, **around, **options)
    gradients = sluice.softmax_backward(dy, x=x, lse=lse, d_lse=d_lse, want=ALL, **around, **options)
    assert gradients._fields == ALL
    for name, array in {"dx": x, **{f"d_{k}": v for k, v in around.items()}}.items():
        assert getattr(gradients, name).shape == array.shape
        np.testing.assert_allclose(
            getattr(gradients, name), differences(loss, array), atol=1e-8, err_msg=name
        )


@pytest.mark.parametrize("log", [False, True])
def test_dx_from_y_alone(rng, dtype, log):
    x, dy = rng.normal(size=(4, 30)).astype(dtype), rng.normal(size=(4, 30)).astype(dtype)
    y = sluice.softmax(x, log=log)
    dx = sluice.softmax_backward(dy, y=y, log=log)
    assert dx.dtype == dtype
    wide = y.astype(np.float64), dy.astype(np.float64)
    p = np.exp(wide[0]) if log else wide[0]
    total = (wide[1] if log else p * wide[1]).sum(-1, keepdims=True)
    exact = wide[1] - p * total if log else p * (wide[1] - total)
    np.testing.assert_allclose(
        dx.astype(np.float64),
        exact,
        rtol=float(np.finfo(np.float32).eps),
        atol=2e-2 if np.dtype(dtype).itemsize == 2 else 1e-6,
    )


def test_outputs_given_and_made(rng):
    x, dy = rng.normal(size=(3, 6)), rng.normal(size=(3, 6))
    lse = sluice.logsumexp(x, temperature=0.5)
    expected = sluice.softmax_backward(dy, x=x, lse=lse, temperature=0.5, want=("d_temperature", "dx"))
    assert expected._fields == ("dx", "d_temperature")
    assert expected.d_temperature.shape == ()

    d_temperature = np.empty(())
    alone = sluice.softmax_backward(dy, x=x, lse=lse, temperature=0.5, want=(), d_temperature=d_temperature)
    assert alone is d_temperature and alone == expected.d_temperature
    assert sluice.softmax_backward(dy, x=x, lse=lse, temperature=0.5, dx=dy) is dy
    assert np.array_equal(dy, expected.dx)


def test_d_lse_alone(rng):
    x = rng.normal(size=(3, 6))
    y, lse = sluice.softmax(x, return_lse=True)
    ones = np.ones(3)
    np.testing.assert_allclose(sluice.softmax_backward(None, x=x, lse=lse, d_lse=ones), y, rtol=1e-12)
    np.testing.assert_allclose(sluice.softmax_backward(None, y=y, d_lse=ones), y, rtol=1e-12)


def test_dtype_of_dx(rng):
    dy, y = np.ones((2, 4), np.float32), np.full((2, 4), 0.25, np.float32)
    assert sluice.softmax_backward(dy, y=y, dtype="bfloat16").dtype == FLOATS["bfloat16"]
    x = np.zeros((2, 4), np.float16)
    lse = np.full(2, np.log(4), np.float32)
    assert sluice.softmax_backward(dy, x=x, lse=lse).dtype == np.float16


def test_what_is_missing(rng):
    dy = y = np.full((2, 4), 0.25, np.float32)
    with pytest.raises(ValueError, match="d_mask is wanted without mask"):
        sluice.softmax_backward(dy, y=y, want="d_mask")
    with pytest.raises(ValueError, match="want has 'dz'"):
        sluice.softmax_backward(dy, y=y, want=("dx", "dz"))
    with pytest.raises(ValueError, match="dy, y and x are all None"):
        sluice.softmax_backward(None, lse=np.zeros(2))
    with pytest.raises(TypeError, match="none of the operands"):
        sluice.softmax_backward(None)
    with pytest.raises(ValueError) as missing:
        sluice.softmax_backward(dy, y=y, softcap=2.0)
    assert "x" in str(missing.value) and missing.value.code == 1000


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_rows_of_gradients_sum_to_zero(data):
    """A constant added to a row of x changes nothing, so its gradient sums to zero, whatever the axis."""
    ndim = data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=ndim, max_size=ndim)))
    axis = data.draw(st.integers(-ndim, ndim - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    x, dy = rng.normal(size=shape), rng.normal(size=shape[::-1]).T
    y = sluice.softmax(x, axis=axis)
    dx = sluice.softmax_backward(dy, y=y, axis=axis)
    assert dx.shape == shape
    np.testing.assert_allclose(dx.sum(axis), 0, atol=1e-14)
