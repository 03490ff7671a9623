"""`f(x, out=out)` on numpy arrays again and again, which takes a shorter way than other calls: it must give the
same results and refusals whatever became of the arrays meanwhile."""

import contextlib
import gc
import inspect
import itertools
import sys
import threading
import weakref

import numpy as np
import pytest
import sluice
from sluice import _call, _tensor

NOTHING = np.empty(0, np.uint8)  # as a workspace it changes nothing, but such a call goes the long way


@pytest.fixture
def x(rng):
    return rng.normal(size=(6, 8)).astype(np.float32)


@pytest.fixture
def long_way(monkeypatch):
    """A list with an entry for each call that took it."""
    taken = []

    def noting(arrays):
        taken.append(len(arrays))
        return _tensor.read(arrays)

    monkeypatch.setattr(_call, "read", noting)
    return taken


def expected(x, **options):
    """By the long way, which a call without `out` takes."""
    return sluice.softmax(x, **options)


def same(y, x):
    return y.dtype == x.dtype and np.array_equal(y, expected(x), equal_nan=True)


def refusal(*arrays, **options):
    with pytest.raises(sluice.Error) as refused:
        sluice.softmax(*arrays, **options)
    assert refused.value.__context__ is None or refused.value.__suppress_context__
    return type(refused.value), refused.value.code, str(refused.value)


# ---- which calls ----


def test_other_arrays_of_a_known_geometry(x, long_way):
    for _ in range(2):  # the first call of all finds out what numpy's class is
        sluice.softmax(x, out=np.empty_like(x))
    arrays = [x + i for i in range(5)]
    expectations = [expected(a) for a in arrays]
    long_way.clear()
    for a, e in zip(arrays, expectations):
        y = np.empty_like(a)
        assert sluice.softmax(a, out=y) is y and np.array_equal(y, e)
        assert sluice.softmax(a, out=a) is a and np.array_equal(a, e)  # in place
    assert not long_way


@pytest.mark.parametrize("function", [sluice.log_softmax, sluice.logsumexp])
def test_other_functions(x, long_way, function):
    e = function(x)
    for _ in range(2):
        long_way.clear()
        out = np.empty_like(e)
        assert function(x, out=out) is out and np.array_equal(out, e)
    assert not long_way


@pytest.mark.parametrize(
    "choices",
    [
        {"axis": (0, 1, -1, -2)},
        {"scale": (None, 1, 0.5, -2.0, np.float32(0.5))},
        {"softcap": (0.0, 2.0, 30.0), "scale": (1.0, 2.0)},
        {"log": (False, True), "accuracy": ("default", "high")},
        {"causal": (False, True), "diagonal": ("top_left", "bottom_right"), "diagonal_offset": (0, 3, -2)},
        {"window": (0, 2), "diagonal_offset": (6, 9), "empty_row": ("nan", "zero", "uniform")},
        {"dtype": (None, "float32")},
    ],
)
def test_options(x, long_way, choices):
    x = np.concatenate([x, x[:2]])  # a square, where a wrong axis fits too
    every = [dict(zip(choices, chosen)) for chosen in itertools.product(*choices.values())]
    for _ in range(2):
        expectations = [expected(x, **options) for options in every]
        long_way.clear()
        for options, e in zip(every, expectations):
            out = np.empty_like(x)
            assert sluice.softmax(x, out=out, **options) is out and np.array_equal(out, e, equal_nan=True)
    assert not long_way or "axis" in choices  # other axes want a workspace


def test_options_that_are_operands(x):
    for options in (
        {"temperature": 0.7},
        {"temperature": 0.9},
        {"lengths": 3},
        {"lengths": 5},
        {"sink": 1.0},
    ):
        for _ in range(2):
            out = np.empty_like(x)
            assert np.array_equal(sluice.softmax(x, out=out, **options), expected(x, **options))


def test_options_that_are_refused(x):
    out = np.empty_like(x)
    for _ in range(2):
        for options in ({"axis": 2}, {"scale": 0}, {"accuracy": "low"}, {"window": -1}):
            assert refusal(x, out=out, **options) == refusal(x, out=out, workspace=NOTHING, **options)
        for options in ({"scale": [1.0]}, {"axis": "last"}, {"scale": x}, {"window": 0.5}, {"hardness": 1}):
            with pytest.raises(TypeError):
                sluice.softmax(x, out=out, **options)


def test_layouts(x, long_way):
    """Each for itself, since the shape and the kind of element are those of the others too."""
    wide = np.repeat(x, 2, 1)
    layouts = (x, wide[:, ::2], np.asfortranarray(x), x[::-1, ::-1], np.broadcast_to(x[0], x.shape))
    for _ in range(2):
        for a in layouts:
            e = expected(a)
            long_way.clear()
            for out in (np.empty_like(x), np.zeros_like(wide)[:, ::2], np.empty_like(x, order="F")):
                assert sluice.softmax(a, out=out) is out and np.array_equal(out, e)
    assert not long_way


def test_strides_that_are_never_stepped_along(x, long_way):
    """They make no difference, so numpy calls all of these contiguous."""
    tall = np.lib.stride_tricks.as_strided(x, (1, 8), (4096, 4))
    for a in (x[:1], tall, x[2:3]):
        assert a.flags.c_contiguous
        assert same(sluice.softmax(a, out=np.empty_like(a)), a)
    long_way.clear()
    sluice.softmax(tall, out=np.empty((1, 8), np.float32))
    assert not long_way


def test_subclasses_and_their_views(x):
    class Sub(np.ndarray):
        pass

    for _ in range(2):
        sluice.softmax(x, out=np.empty_like(x))
        out = np.empty_like(x).view(Sub)
        assert sluice.softmax(x.view(Sub), out=out) is out and same(np.asarray(out), x)
        out = np.empty_like(x)
        assert sluice.softmax(x.view(Sub), out=out) is out and same(out, x)


def test_signatures():
    names = inspect.signature(sluice.softmax).parameters
    assert next(iter(names)) == "x" and "temperature" in names and "options" not in names
    for call in (
        lambda x: sluice.softmax(),
        lambda x: sluice.softmax(x, x),
        lambda x: sluice.softmax(x, no=1),
    ):
        with pytest.raises(TypeError):
            call(np.zeros(4))
    assert np.array_equal(sluice.softmax(x=np.zeros(2), out=np.empty(2)), [0.5, 0.5])


# ---- what becomes of an array between two calls ----


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_shape_and_strides_set_in_place(x):
    y = np.empty_like(x)
    for shape in ((6, 8), (8, 6), (6, 8), (48,), (2, 3, 8), (1, 48), (6, 8)):
        x.shape = shape
        if shape != (6, 8):
            assert refusal(x, out=y) == refusal(x, out=y, workspace=NOTHING)
        y.shape = shape
        assert same(sluice.softmax(x, out=y), x)
    x.strides = (4, 24)
    assert same(sluice.softmax(x, out=y), x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_dtype_set_in_place(x):
    y = np.empty_like(x)
    sluice.softmax(x, out=y)
    for dtype in ("int32", ">f4", "u4"):
        x.dtype = dtype
        assert refusal(x, out=y) == refusal(x, out=y, workspace=NOTHING)
        assert refusal(x, out=y)[1] == 2001
    x.dtype = y.dtype = "float16"
    x[:] = np.arange(16)
    assert same(sluice.softmax(x, out=y), x)


def test_views_of_another_dtype(x):
    y = np.empty_like(x)
    sluice.softmax(x, out=y)
    swapped = x.astype(">f4")
    assert swapped.shape == x.shape and swapped.strides == x.strides
    for a, out in ((swapped, y), (x.view("int32"), y), (x, y.view("int32")), (x, y.view(">f4"))):
        assert refusal(a, out=out) == refusal(a, out=out, workspace=NOTHING)


def test_locked_later(x):
    y = np.empty_like(x)
    for _ in range(2):
        sluice.softmax(x, out=y)
    before = y.copy()
    y.flags.writeable = False
    x += 1
    x[0, 0] = 9
    assert refusal(x, out=y) == refusal(x, out=y, workspace=NOTHING)
    assert np.array_equal(y, before)
    y.flags.writeable = True
    x.flags.writeable = False
    assert same(sluice.softmax(x, out=y), x)


def test_memory_moved(rng):
    """A resize that grows an array gives it other memory."""
    x, y = rng.normal(size=(1, 8)).astype(np.float32), np.empty((1, 8), np.float32)
    spoiled = []
    for columns in (8, 1 << 20, 8, 1 << 18, 8, 1 << 21, 8):
        for a in (x, y):
            a.resize((1, columns), refcheck=False)
        x[:] = rng.normal(size=columns)
        spoiled.append(np.full((1, 8), 7, np.float32))  # takes what was freed
        assert same(sluice.softmax(x, out=y), x)
    assert all((a == 7).all() for a in spoiled)


def test_another_array_at_the_same_place(rng):
    """The address of the Python object says nothing: arrays come and go."""
    y = np.empty((2, 8), np.float32)
    for i in range(200):
        x = np.full((2, 8), i, np.float32)
        x[:, : i % 8] = -np.inf
        assert same(sluice.softmax(x, out=y), x)
        del x


def test_alignment(x):
    """The same geometry at an address that C refuses."""
    sluice.softmax(x, out=np.empty_like(x))
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    assert refusal(odd, out=x) == refusal(odd, out=x, workspace=NOTHING)
    assert refusal(x, out=odd) == refusal(x, out=odd, workspace=NOTHING)


def test_overlap(rng):
    whole = rng.normal(size=100).astype(np.float32)
    sluice.softmax(whole[:50], out=whole[50:])
    before = whole.copy()
    assert refusal(whole[:50], out=whole[25:75]) == refusal(whole[:50], out=whole[25:75], workspace=NOTHING)
    assert np.array_equal(whole, before)


def test_no_axes_no_elements():
    for shape in ((0,), (3, 0), (0, 3)):
        for _ in range(2):
            y = np.empty(shape, np.float32)
            assert sluice.softmax(np.empty(shape, np.float32), out=y) is y
    point = np.zeros((), np.float32)
    assert (
        refusal(point, out=point) == refusal(point, out=point) == refusal(point, out=point, workspace=NOTHING)
    )


def test_pairs_that_do_not_fit(x):
    y = np.empty_like(x)
    sluice.softmax(x, out=y)
    for out in (np.empty((6, 7), np.float32), np.empty(48, np.float32), np.empty((8, 6), np.float32)):
        assert refusal(x, out=out) == refusal(x, out=out, workspace=NOTHING)
    for out in ([0.0], None, y.tolist()):
        if out is None:
            assert same(sluice.softmax(x, out=out), x)
        else:
            with pytest.raises(TypeError, match="no array"):
                sluice.softmax(x, out=out)


def test_holds_no_arrays(x):
    arrays = [x.copy(), np.empty_like(x)]
    for _ in range(3):
        sluice.softmax(arrays[0], out=arrays[1])
    gone = [weakref.ref(a) for a in arrays]
    arrays.clear()
    gc.collect()
    assert [r() for r in gone] == [None, None]


# ---- several at once ----


def test_threads(rng):
    """Of one geometry, each with its own arrays, and switched between as often as possible."""
    interval, wrong = sys.getswitchinterval(), []

    def work(seed):
        x = np.random.default_rng(seed).normal(size=(2, 32)).astype(np.float32)
        e, y = expected(x), np.empty_like(x)
        for _ in range(2000):
            y.fill(7)
            if sluice.softmax(x, out=y) is not y or not np.array_equal(y, e):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    try:
        sys.setswitchinterval(1e-6)
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def between_its_steps(call, do, steps=("opcode", "line")):
    """Runs `call`, and `do` before each step of the function under test. Python 3.12 tells of lines alone."""
    inside = []

    def trace(frame, event, _):
        if inside or frame.f_code is not sluice.softmax.__code__:
            return None
        frame.f_trace_opcodes = "opcode" in steps
        if event in steps:
            inside.append(True)
            try:
                do()
            finally:
                inside.clear()
        return trace

    outer = sys.gettrace()
    try:
        sys.settrace(trace)
        return call()
    finally:
        sys.settrace(outer)


def test_a_call_inside_a_call(x):
    """As from a signal handler: the same geometry, at any point of another call."""
    y, other, inner = np.empty_like(x), x[::-1].copy(), np.empty_like(x)
    e, inner_e = expected(x), expected(other)
    sluice.softmax(x, out=y)
    y.fill(7)
    count = []

    def do():
        count.append(1)
        inner.fill(7)
        assert sluice.softmax(other, out=inner) is inner and np.array_equal(inner, inner_e)

    assert between_its_steps(lambda: sluice.softmax(x, out=y), do) is y
    assert np.array_equal(y, e) and len(count) > 10


def test_an_exception_inside_a_call(x, long_way):
    """As from Ctrl-C: whatever was half done is not used again."""
    y, e = np.empty_like(x), expected(x)
    for point in range(30):
        sluice.softmax(x, out=y)
        left = [point]

        def do(left=left):
            left[0] -= 1
            if left[0] == -1:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            between_its_steps(lambda: sluice.softmax(x, out=y), do, steps=["line"])
        y.fill(7)
        assert np.array_equal(sluice.softmax(x, out=y), e)
    long_way.clear()
    sluice.softmax(x, out=y)
    assert not long_way


# ---- where the shortcut does not hold ----


def test_ndarray_laid_out_otherwise(python):
    """Where the data's address is not found where it is expected, all goes the long way."""
    python(
        "import numpy as np, sluice\n"
        "from sluice import _tensor, _call\n"
        "_tensor._HEAD += 8\n"
        "x = np.arange(12, dtype='float32').reshape(3, 4); y = np.empty_like(x)\n"
        "for _ in range(3): assert np.array_equal(sluice.softmax(x, out=y), sluice.softmax(x))\n"
        "assert _tensor.plain_ndarray is None\n"
        "assert _tensor.READERS[np.ndarray] is _tensor.read_numpy"
    )


def test_the_address_is_a_word_behind_the_head_of_an_object(x):
    """On builds without the GIL that head is longer, and `object` says how long."""
    assert object.__basicsize__ == _tensor.DATA * 8
    sluice.softmax(x)
    assert _tensor.plain_ndarray is np.ndarray
