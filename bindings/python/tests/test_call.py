"""raw, bind, workspaces, contexts with hooks, threads and forks, and how long a call takes."""

import gc
import os
import threading
import timeit

import numpy as np
import pytest
import sluice
from sluice import _call, _context


@pytest.fixture
def x(rng):
    return rng.normal(size=(6, 50)).astype(np.float32)


def gradient_with_workspace(x, **options):
    """A call that wants scratch: the gradient of a shared operand is summed in pieces."""
    lse = sluice.logsumexp(x, slopes=np.float32([0.25]))
    return sluice.softmax_backward(x, x=x, lse=lse, slopes=np.float32([0.25]), want="d_slopes", **options)


def test_raw(x):
    y, lse = np.empty_like(x), np.empty(6, np.float32)
    result = sluice.raw("softmax", x, y, lse=lse, scale=2.0, causal=True, diagonal="bottom_right", mask=None)
    assert result is None
    expected = sluice.softmax(x, scale=2.0, causal=True, diagonal="bottom_right", return_lse=True)
    assert np.array_equal(y, expected.y) and np.array_equal(lse, expected.lse)
    sluice.raw("softmax", x, None, max=lse)
    assert np.array_equal(lse, x.max(-1))


def test_raw_reaches_every_operation():
    from sluice import _abi

    assert set(sluice.op_names()) == set(_abi.OPS)


# ---- bind ----


def test_bind(x):
    y = np.full_like(x, 7)
    step = sluice.bind("softmax", x, out=y, temperature=0.7)
    assert (y == 7).all()  # nothing ran yet
    for _ in range(2):
        assert step() is y
        assert np.array_equal(y, sluice.softmax(x, temperature=0.7))
        x += np.arange(50, dtype=np.float32)


def test_bind_makes_outputs_once_and_keeps_all(x):
    step = sluice.bind("softmax", x.copy(), return_lse=True, mask=np.zeros(50, np.float32), lengths=20)
    gc.collect()
    first = step()
    assert np.array_equal(first.y, sluice.softmax(x, lengths=20))
    assert step() is first


def test_bind_of_other_functions(x):
    assert np.array_equal(sluice.bind("logsumexp", x, axis=0)(), sluice.logsumexp(x, axis=0))
    assert np.array_equal(sluice.bind("log_softmax", x)(), sluice.log_softmax(x))
    y = sluice.softmax(x)
    step = sluice.bind("softmax_backward", x, y=y)
    assert np.array_equal(step(), sluice.softmax_backward(x, y=y))
    lse = sluice.logsumexp(x, slopes=np.float32([0.25]))
    step = sluice.bind("softmax_backward", x, x=x, lse=lse, slopes=np.float32([0.25]), want="d_slopes")
    assert step() == step() == gradient_with_workspace(x)


def test_bind_refuses_at_once(x):
    with pytest.raises(ValueError, match=r"softmax: y\.shape\[1\] is 49, want 50"):
        sluice.bind("softmax", x, out=np.empty((6, 49), np.float32))
    with pytest.raises(ValueError, match="no operation"):
        sluice.bind("hardmax", x)


# ---- workspace ----


def test_workspace(x):
    expected = gradient_with_workspace(x)
    room = np.empty(1 << 16, np.uint8)
    room = room[-room.ctypes.data % 256 :]
    assert gradient_with_workspace(x, workspace=room) == expected
    assert gradient_with_workspace(x, workspace=room.view(np.float32)[:4096]) == expected
    with pytest.raises(ValueError) as refused:
        gradient_with_workspace(x, workspace=room[:0])
    assert refused.value.code == 1003
    with pytest.raises(ValueError):
        gradient_with_workspace(x, workspace=room[1:])
    with pytest.raises(ValueError, match="in one piece"):
        gradient_with_workspace(x, workspace=room[::2])
    assert gradient_with_workspace(x) == expected
    assert np.array_equal(sluice.softmax(x, workspace=room), sluice.softmax(x))


# ---- contexts ----


def test_context(x):
    expected = sluice.softmax(x)
    for context in (
        sluice.Context(),
        sluice.Context("cpu", threads=1),
        sluice.Context(("cpu", 0), debug_sync=True),
    ):
        assert np.array_equal(sluice.softmax(x, context=context), expected)
    assert repr(context) == "<sluice.Context cpu>"
    with pytest.raises(ValueError, match="device is 'gpu'"):
        sluice.Context("gpu")
    with pytest.raises(ValueError):
        sluice.Context(threads=-1)
    with pytest.raises(ValueError):
        sluice.Context(alloc=lambda bytes_, stream: None)
    del context
    gc.collect()


def test_hook_parallel_for(x):
    wide = np.tile(x, (200, 40))
    seen = []

    def parallel_for(n, body):
        seen.append(n)
        workers = [threading.Thread(target=lambda w=w: [body(i) for i in range(w, n, 3)]) for w in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    context = sluice.Context(parallel_for=parallel_for)
    assert np.array_equal(sluice.softmax(wide, context=context), sluice.softmax(wide))
    assert seen and min(seen) > 1


def test_hook_calls_back_into_sluice(x):
    """The same geometry in the same thread, while the outer call still uses what was prepared for it."""
    wide = np.tile(x, (200, 40))
    inner = wide[::-1].copy()
    results = []

    def parallel_for(n, body):
        if not results:
            results.append(None)
            results.append(sluice.softmax(inner, context=context))
        for i in range(n):
            body(i)

    context = sluice.Context(parallel_for=parallel_for)
    assert np.array_equal(sluice.softmax(wide, context=context), sluice.softmax(wide))
    assert np.array_equal(results[1], sluice.softmax(inner))


def test_hook_alloc(x):
    rooms, given = {}, []

    def alloc(size, stream):
        assert stream == 0
        room = np.empty(size + 256, np.uint8)
        address = room.ctypes.data + -room.ctypes.data % 256
        rooms[address] = room
        given.append(size)
        return address

    def release(address, size, stream):
        del rooms[address]
        given.append(-size)

    context = sluice.Context(alloc=alloc, release=release)
    assert gradient_with_workspace(x, context=context) == gradient_with_workspace(x)
    assert given and sum(given) == 0 and not rooms

    empty = sluice.Context(alloc=lambda size, stream: None, release=release)
    with pytest.raises(MemoryError) as refused:
        gradient_with_workspace(x, context=empty)
    assert refused.value.code == 3000


def test_hook_that_raises(x):
    def fails(*_):
        raise KeyError("from the hook")

    with pytest.raises(KeyError, match="from the hook"):
        gradient_with_workspace(x, context=sluice.Context(alloc=fails, release=fails))
    wide = np.tile(x, (200, 40))
    context = sluice.Context(parallel_for=fails)
    for _ in range(2):
        with pytest.raises(KeyError, match="from the hook"):
            sluice.softmax(wide, context=context)


# ---- threads, forks ----


def test_threads(rng):
    """Each call has a prepared one for itself, so calls of one geometry at once do not mix."""
    arrays = [rng.normal(size=(64, 500)).astype(np.float32) for _ in range(4)]
    expected = [sluice.softmax(a) for a in arrays]
    wrong = []

    def work(a, e):
        for _ in range(100):
            if not np.array_equal(sluice.softmax(a), e):
                wrong.append(a)

    workers = [threading.Thread(target=work, args=pair) for pair in zip(arrays, expected)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_fork(x):
    """The child makes a context of its own, and calls with geometries that the parent prepared still work."""
    wide = np.tile(x, (200, 40))
    expected, y = sluice.softmax(wide), np.empty_like(wide)
    for _ in range(2):
        sluice.softmax(wide, out=y)
    parent = dict(_context._default)
    child = os.fork()
    if child == 0:
        good = not _context._default
        good = good and np.array_equal(sluice.softmax(wide, out=y), expected)
        good = good and np.array_equal(sluice.softmax(wide), expected)
        good = good and len(_context._default) == 1
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert _context._default == parent
    assert np.array_equal(sluice.softmax(wide), expected)


# ---- prepared calls ----


def test_prepared_calls_are_few():
    for n in range(1, _call._KEPT + 100):
        x = np.zeros(n, np.float32)
        sluice.softmax(x, out=x)
    assert len(_call._plans) <= _call._KEPT


def test_prepared_calls_hold_no_arrays(x):
    import weakref

    y = np.empty_like(x)
    sluice.softmax(x, out=y)
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None


def test_time_of_a_call(record_property):
    """What Python adds with `out=` and a geometry seen before. The bound is far above what it takes."""
    x = np.zeros((1, 16), np.float32)
    y = np.empty_like(x)
    softmax, step = sluice.softmax, sluice.bind("softmax", x, out=y)
    softmax(x, out=y)
    whole = sorted(timeit.repeat(lambda: softmax(x, out=y), number=100, repeat=200))[100] * 1e4
    bare = sorted(timeit.repeat(step, number=100, repeat=200))[100] * 1e4
    record_property("us_over_bound", whole - bare)
    print(f"softmax(x, out=y) {whole:.2f} us, bound {bare:.2f} us")
    assert whole - bare < 15
