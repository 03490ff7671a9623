"""Errors: class, code, text, and that nothing was written."""

import numpy as np
import pytest
import sluice

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def wrong(code, text, **options):
    return pytest.param(code, text, options, id=text[:40])


@pytest.mark.parametrize(
    "code, text, options",
    [
        wrong(1000, "softmax: axis is 2, want -2 to 1", axis=2),
        wrong(1000, "softmax: axis is -3, want -2 to 1", axis=-3),
        wrong(1000, "softmax: scale is 0, want a factor other than 0", scale=0),
        wrong(1000, "softmax: accuracy is 'best', want 'default' or 'high'", accuracy="best"),
        wrong(1000, "softmax: empty_row is 'one', want 'nan' or 'zero' or 'uniform'", empty_row="one"),
        wrong(1000, "softmax: diagonal is 'left', want 'top_left' or 'bottom_right'", diagonal="left"),
        wrong(1000, "softmax: window is 18446744073709551616, which is out of range", window=1 << 64),
        wrong(1000, "softmax: desc.window is -1, want 0 to 2^61", window=-1),
        wrong(1000, "softmax: desc.log is 2, want 0 or 1", log=2),
        wrong(1000, "softmax: desc.scale is inf", scale=np.inf),
        wrong(1000, "softmax: desc.softcap is -1", softcap=-1.0),
        wrong(1000, "softmax: stream is 0x7, want NULL on a CPU context", stream=7),
        wrong(1000, "softmax: dtype is 'float', want a name", dtype="float"),
        wrong(1001, "softmax: desc.mask.shape[1] is 3", mask=np.zeros((3, 3), np.float32)),
        wrong(1001, "softmax: desc.temperature.ndim is 2", temperature=np.zeros((3, 4), np.float32)),
        wrong(2001, "softmax: desc.mask.dtype is int32", mask=np.zeros((3, 4), np.int32)),
        wrong(2001, "softmax: desc.keep.dtype is float32", keep=np.zeros((3, 4), np.float32)),
        wrong(2001, "softmax: desc.lengths.dtype is uint8", lengths=np.zeros(3, np.uint8)),
        wrong(2001, "softmax: y.dtype is int32", dtype="int32"),
    ],
)
def test_code_and_text(code, text, options):
    out = np.full(X.shape, 77, np.float32)
    builtin = ValueError if code < 2000 else NotImplementedError
    with pytest.raises(builtin) as refused:
        sluice.softmax(X, **({"out": out} if "dtype" not in options else {}), **options)
    assert isinstance(refused.value, sluice.Error)
    assert refused.value.code == code
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)
    assert (out == 77).all()


@pytest.mark.parametrize(
    "text, options",
    [
        ("axis is a str", {"axis": "last"}),
        ("axis is a float", {"axis": 1.0}),
        ("scale is a str, want a number", {"scale": "2"}),
        ("window is a float, want a whole number", {"window": 2.5}),
        ("an option is no plain value", {"softcap": [1.0]}),
        ("stream is a str", {"stream": "default"}),
        ("unexpected keyword", {"heat": 2.0}),
    ],
)
def test_types(text, options):
    with pytest.raises(TypeError, match=text):
        sluice.softmax(X, **options)


def test_axis_is_named_where_it_moved():
    with pytest.raises(ValueError, match=r"y\.shape\[1\] is 2, want 3 \(with axis 0 moved to the end\)"):
        sluice.softmax(X, axis=0, out=np.empty((2, 4), np.float32))


def test_an_error_does_not_stay(rng):
    """The same call with good arrays works before and after a bad one."""
    out = np.empty_like(X)
    expected = sluice.softmax(X)
    for bad in (np.empty((3, 5), np.float32), np.empty((3, 4), np.int32)):
        for _ in range(2):
            with pytest.raises(sluice.Error):
                sluice.softmax(X, out=bad)
        assert np.array_equal(sluice.softmax(X, out=out), expected)


def test_outputs_that_overlap():
    with pytest.raises(ValueError):
        sluice.softmax(X, out=np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (3, 4), (0, 4)))
    room = np.zeros(20, np.float32)
    with pytest.raises(ValueError):
        sluice.softmax(room[:12].reshape(3, 4), out=room[4:16].reshape(3, 4))


def test_classes():
    """Each kind is caught by its built-in class and by the common base, and by nothing unrelated."""
    from sluice._errors import error

    kinds = {1000: ValueError, 1999: ValueError, 2001: NotImplementedError, 3000: MemoryError}
    kinds |= {
        4000: RuntimeError,
        5000: RuntimeError,
        9000: RuntimeError,
        6000: RuntimeError,
        70000: RuntimeError,
    }
    for code, builtin in kinds.items():
        made = error(code, "text")
        assert isinstance(made, builtin) and isinstance(made, sluice.Error)
        assert made.code == code and str(made) == "text"
        others = {ValueError, NotImplementedError, MemoryError} - {builtin}
        assert not isinstance(made, tuple(others))
    assert isinstance(error(5000, ""), sluice.Unavailable)
    assert not isinstance(error(4000, ""), sluice.Unavailable)


def test_raw_names_what_it_wants():
    y = np.empty_like(X)
    with pytest.raises(ValueError, match="no operation 'hardmax', want one of softmax"):
        sluice.raw("hardmax", X, y)
    with pytest.raises(TypeError, match="1 operands, want x, y"):
        sluice.raw("softmax", X)
    with pytest.raises(TypeError, match="no field heat"):
        sluice.raw("softmax", X, y, heat=y)
    with pytest.raises(TypeError, match="mask is a number"):
        sluice.raw("softmax", X, y, mask=1.0)


def test_supports():
    assert sluice.supports("softmax", "float32", "bfloat16")
    assert not sluice.supports("softmax", "int8", "float32")
    with pytest.raises(ValueError, match="no dtype 'float'"):
        sluice.supports("softmax", "float", "float32")
    assert not sluice.supports("hardmax", "float32")
    with pytest.raises(ValueError, match="count is 1, want 2"):
        sluice.supports("softmax", "float32")
    with pytest.raises(ValueError, match="device is 'gpu'"):
        sluice.supports("softmax", "float32", "float32", device="gpu")
