"""What may be passed, what comes back for it, and what is refused."""

import array
import ctypes
import sys

import numpy as np
import pytest
import sluice
from producers import CudaInterface, Interface, Producer, bf16


@pytest.fixture
def x(rng):
    return rng.normal(size=(3, 8)).astype(np.float32)


# ---- numpy ----


def test_numpy_layouts(x):
    expected = sluice.softmax(x)
    for other in (np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1, ::-1][::-1, ::-1], x[:, :]):
        assert np.array_equal(sluice.softmax(other), expected)
    spread = np.empty((5, 30), np.float32)[1:4, 5:29:3]
    assert np.array_equal(sluice.softmax(x, out=spread), expected)
    record = np.zeros((3, 8), dtype=[("pad", np.int32), ("x", np.float32)])
    record["x"] = x
    assert np.array_equal(sluice.softmax(record["x"]), expected)


def test_numpy_broadcast_and_unaligned(x):
    row = np.broadcast_to(x[0], (3, 8))
    assert np.array_equal(sluice.softmax(row)[2], sluice.softmax(x)[0])
    bytes_ = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 8)
    with pytest.raises(ValueError):
        sluice.softmax(bytes_)


def test_numpy_subclasses(x):
    assert np.array_equal(sluice.softmax(x.view(type("Sub", (np.ndarray,), {}))), sluice.softmax(x))
    with pytest.raises(TypeError, match="mask would be ignored"):
        sluice.softmax(np.ma.masked_less(x, 0))


def test_numpy_read_only(x):
    x.flags.writeable = False
    assert sluice.softmax(x).flags.writeable
    with pytest.raises(ValueError, match="softmax: y is read-only"):
        sluice.softmax(x, out=x)


def test_numpy_read_only_after_the_same_geometry_writable(x):
    """What was prepared for arrays that could be written must not be used for one that cannot."""
    y, d_lse = np.empty_like(x), np.ones(3, np.float32)
    for _ in range(2):
        sluice.softmax(x, out=y)
        sluice.softmax(x, out=x)
        sluice.raw("softmax_backward", None, y, y=x, d_lse=d_lse)
    locked = y.copy()
    locked.flags.writeable = False
    assert sluice.softmax(locked, out=x) is x
    for call in (
        lambda: sluice.softmax(x, out=locked),
        lambda: sluice.softmax(locked, out=locked),
        lambda: sluice.raw("softmax_backward", None, locked, y=x, d_lse=d_lse),
    ):
        with pytest.raises(ValueError, match="is read-only"):
            call()
    assert np.array_equal(locked, y)


@pytest.mark.parametrize("dtype", [">f4", "f2,f2", "U4", "O", "M8[s]", np.longdouble])
def test_numpy_dtypes_nobody_takes(dtype):
    with pytest.raises(NotImplementedError, match="no operand takes dtype") as refused:
        sluice.softmax(np.zeros((2, 4), dtype))
    assert refused.value.code == 2001


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "complex64"])
def test_numpy_dtypes_softmax_does_not_take(dtype):
    with pytest.raises(NotImplementedError, match=r"softmax: x\.dtype is") as refused:
        sluice.softmax(np.zeros((2, 4), dtype))
    assert refused.value.code == 2001


def test_strides_between_elements():
    x = np.zeros((4, 7), np.uint8)[:, :4].view(np.float32)
    with pytest.raises(ValueError, match="no multiples"):
        sluice.softmax(x)


# ---- DLPack ----


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack(x, versioned):
    expected, out = sluice.softmax(x), np.empty_like(x)
    producer = Producer(x, versioned=versioned, offset=16)
    assert sluice.softmax(producer, out=out) is out
    assert np.array_equal(out, expected)
    assert all("stream" not in call for call in producer.calls)
    target = Producer(np.empty_like(x), versioned=versioned, strides=False)
    sluice.softmax(Producer(x.T.copy().T), out=target)
    assert np.array_equal(target.array, expected)


def test_dlpack_bfloat16(x):
    out = bf16(np.empty_like(x))
    sluice.softmax(Producer(bf16(x)), out=Producer(out))
    assert np.array_equal(out, sluice.softmax(bf16(x)))


def test_dlpack_is_not_consumed(x):
    """The capsule keeps its name, so its producer stays the one who frees it."""
    kept = []

    class Keeping(Producer):
        def __dlpack__(self, **options):
            kept.append(super().__dlpack__(**options))
            return kept[-1]

    sluice.softmax(Keeping(x), out=np.empty_like(x))
    assert '"dltensor_versioned"' in repr(kept[0])
    references = sys.getrefcount(kept[0])
    assert references == 2  # the list's, and the question's own


def test_dlpack_of_a_consumed_capsule(x):
    producer = Producer(x)
    producer.__class__ = type("Used", (Producer,), {"__dlpack__": lambda self, **_: object()})
    with pytest.raises(BufferError, match="no fresh DLPack capsule"):
        sluice.softmax(producer)


@pytest.mark.parametrize("flags", [1, 2])
def test_dlpack_read_only_or_copied_is_no_output(x, flags):
    assert np.array_equal(sluice.softmax(Producer(x, flags=flags), out=np.empty_like(x)), sluice.softmax(x))
    with pytest.raises(ValueError, match="y is read-only"):
        sluice.softmax(x, out=Producer(x, flags=flags))


def test_dlpack_refusals(x):
    with pytest.raises(BufferError, match=r"DLPack 2\.0 is not 1\.x"):
        sluice.softmax(Producer(x, major=2))
    with pytest.raises(ValueError, match="DLPack device type 8") as refused:
        sluice.softmax(Producer(x, device=(8, 0)), out=x)
    assert refused.value.code == 1002
    with pytest.raises(NotImplementedError) as refused:
        sluice.softmax(Producer(x, dtype="float8"), out=x)
    assert refused.value.code == 2001
    with pytest.raises(TypeError, match=r"cannot make outputs like a producers\.Producer; pass them"):
        sluice.softmax(Producer(x))


def test_dlpack_devices(x):
    out = np.empty_like(x)
    sluice.softmax(Producer(x, device=(3, 0)), out=out)  # pinned memory is the host's
    assert np.array_equal(out, sluice.softmax(x))
    on_gpu = Producer(x, device=(2, 0))
    with pytest.raises(ValueError) as refused:
        sluice.softmax(x, mask=on_gpu)
    assert refused.value.code == 1002
    assert on_gpu.calls[0]["stream"] == -1


# ---- interfaces ----


def test_array_interface(x):
    expected = sluice.softmax(x)
    y = sluice.softmax(Interface(x))
    assert isinstance(y, np.ndarray) and np.array_equal(y, expected)
    assert np.array_equal(sluice.softmax(Interface(x.T)), sluice.softmax(x.T))
    store = x.tobytes()
    assert np.array_equal(sluice.softmax(Interface(x, data=b"12345678" + store, offset=8)), expected)
    with pytest.raises(ValueError, match="y is read-only"):
        sluice.softmax(x, out=Interface(x, data=store))
    with pytest.raises(TypeError, match="mask"):
        sluice.softmax(Interface(x, mask=np.ones(x.shape, bool)))
    with pytest.raises(NotImplementedError):
        sluice.softmax(Interface(x, typestr=">f4"))


def test_array_interface_without_elements():
    nothing = np.zeros((3, 0), np.float32)
    assert sluice.softmax(Interface(nothing, data=(0, False))).shape == (3, 0)


def test_cuda_array_interface_goes_to_a_cuda_device(x):
    """Here there is none, or memory that is not its own: either way it never reaches a kernel."""
    if has_cuda():
        pytest.skip("its memory is not the GPU's")
    with pytest.raises(sluice.Unavailable) as refused:
        sluice.softmax(CudaInterface(x), out=CudaInterface(x))
    assert refused.value.code == 5000
    with pytest.raises(ValueError) as refused:
        sluice.softmax(CudaInterface(x), out=CudaInterface(x), context=sluice.Context("cpu"))
    assert refused.value.code == 1002
    with pytest.raises(ValueError) as refused:
        sluice.softmax(x, mask=CudaInterface(x))
    assert refused.value.code == 1002
    with pytest.raises(TypeError, match="mask"):
        sluice.softmax(CudaInterface(x, mask=x))


def has_cuda():
    try:
        sluice.Context("cuda")
    except sluice.Unavailable:
        return False
    return True


# ---- buffers ----


def test_buffers_come_back_as_buffers(x):
    expected = sluice.softmax(x[0])
    y = sluice.softmax(array.array("f", x[0]))
    assert type(y) is array.array and y.typecode == "f" and np.array_equal(y, expected)
    view = memoryview(x.tobytes()).cast("f", x.shape)
    y = sluice.softmax(view)
    assert type(y) is memoryview and np.array_equal(y, sluice.softmax(x))
    assert np.array_equal(sluice.softmax(view, axis=0), sluice.softmax(x, axis=0))
    y, lse = sluice.softmax(array.array("d", x[0]), return_lse=True)
    assert y.typecode == "d" and lse.shape == () and lse.format == "d"
    assert np.array_equal(sluice.softmax((ctypes.c_float * 8)(*x[0])), expected)
    assert sluice.softmax(array.array("f")).tolist() == []


def test_buffers_as_outputs(x):
    out = array.array("f", [0.0] * 8)
    assert sluice.softmax(x[0], out=out) is out
    assert np.array_equal(out, sluice.softmax(x[0]))
    with pytest.raises(ValueError, match="y is read-only"):
        sluice.softmax(x[0], out=memoryview(bytes(32)).cast("f"))
    with pytest.raises(TypeError, match="hold float32 or float64"):
        sluice.softmax(array.array("f", x[0]), dtype="float16")
    strided = memoryview(array.array("f", x[0]))[::-2]
    assert np.array_equal(sluice.softmax(strided), sluice.softmax(x[0, ::-2]))


@pytest.mark.parametrize("thing", [[1.0, 2.0], "text", 3.0, None, True, object(), {}, (1.0,)])
def test_no_array_at_all(thing):
    with pytest.raises(TypeError):
        sluice.softmax(thing)


# ---- numbers ----


def test_numbers_are_no_wider_than_the_call(x):
    """A Python number counts as float32, so its bits are those of a float32 array."""
    for name in ("temperature", "slopes", "sink"):
        number = sluice.softmax(x, **{name: 0.7})
        assert number.dtype == np.float32
        assert np.array_equal(number, sluice.softmax(x, **{name: np.float32([0.7])}))
        wide = x.astype(np.float64)
        assert np.array_equal(
            sluice.softmax(wide, **{name: 0.7}), sluice.softmax(wide, **{name: np.float64([0.7])})
        )
    assert np.array_equal(sluice.softmax(x, lengths=3), sluice.softmax(x, lengths=np.int64([3])))
    assert np.array_equal(sluice.softmax(x, lengths=np.int32(3)), sluice.softmax(x, lengths=3))
    assert np.array_equal(sluice.softmax(x, temperature=2), sluice.softmax(x, temperature=2.0))


@pytest.mark.parametrize(
    "options", [{"mask": 1.0}, {"keep": 1}, {"out": 1.0}, {"lengths": 2.5}, {"keep": True}]
)
def test_numbers_where_none_belongs(x, options):
    with pytest.raises(TypeError):
        sluice.softmax(x, **options)


# ---- libraries ----


def test_jax(x):
    jax = pytest.importorskip("jax")
    on_cpu = jax.device_put(x, jax.devices("cpu")[0])
    for given in (on_cpu, on_cpu.astype("bfloat16"), on_cpu.astype("float16")):
        y, lse = sluice.softmax(given, return_lse=True)
        assert isinstance(y, jax.Array) and y.dtype == given.dtype and lse.dtype == np.float32
        assert np.array_equal(np.asarray(y), sluice.softmax(np.asarray(given)))
    assert isinstance(sluice.softmax_backward(y, y=y), jax.Array)
    out = np.empty_like(x)
    assert sluice.softmax(on_cpu, out=out) is out
    with pytest.raises(ValueError, match="y is read-only"):
        sluice.softmax(x, out=on_cpu)
    with pytest.raises(TypeError, match=r"jax\.pure_callback"):
        jax.jit(sluice.softmax)(on_cpu)
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    traced = jax.jit(lambda given: jax.pure_callback(sluice.softmax, like, given))
    assert np.array_equal(traced(on_cpu), sluice.softmax(x))
    with pytest.raises(TypeError, match="never change"):
        sluice.bind("softmax", on_cpu)


def test_torch(x):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        given = torch.tensor(x).to(dtype)
        y, lse = sluice.softmax(given, return_lse=True, temperature=0.7)
        assert (
            isinstance(y, torch.Tensor)
            and isinstance(lse, torch.Tensor)
            and y.dtype == dtype
            and y.shape == given.shape
        )
        exact = torch.softmax(given.double() / float(np.float32(0.7)), -1)
        torch.testing.assert_close(
            y.double(), exact, rtol=1e-2 if given.element_size() == 2 else 1e-5, atol=0
        )
    transposed = torch.tensor(x).T
    out = torch.empty_like(transposed)
    assert sluice.softmax(transposed, out=out, axis=0) is out
    learned = torch.tensor(x, requires_grad=True)
    with pytest.raises(TypeError, match=r"sluice\.torch"):
        sluice.softmax(learned)
    with torch.no_grad():
        sluice.softmax(learned)
    with pytest.raises(ValueError, match="meta"):
        sluice.softmax(torch.empty(2, 2, device="meta"), out=out)


def test_cupy(x):
    cupy = pytest.importorskip("cupy")
    if not has_cuda():
        pytest.skip("cupy without a CUDA device")
    y, lse = sluice.softmax(cupy.asarray(x), return_lse=True, temperature=0.7)
    assert isinstance(y, cupy.ndarray) and isinstance(lse, cupy.ndarray)
    np.testing.assert_allclose(y.get(), sluice.softmax(x, temperature=0.7), rtol=1e-5)


STANDIN = """
import sys, types, numpy
torch = types.ModuleType("torch"); sys.modules["torch"] = torch

class Tensor:
    requires_grad = False
    def __init__(self, array): self.array = array; self.dtype = "torch." + array.dtype.name
    shape = property(lambda self: self.array.shape)
    device = type("device", (), {"type": "cpu", "index": None})()
    def stride(self): return tuple(s // self.array.itemsize for s in self.array.strides)
    def data_ptr(self): return self.array.ctypes.data
    def is_neg(self): return getattr(self, "negated", False)
    def __dlpack__(self, **_): raise AssertionError("a torch tensor needs no DLPack")

Tensor.__module__ = "torch"
torch.Tensor = Tensor
torch.float32 = "torch.float32"
torch.is_grad_enabled = lambda: True
torch.empty = lambda shape, dtype, device: Tensor(numpy.empty(shape, dtype[6:]))

import sluice
x = numpy.arange(12, dtype="float32").reshape(3, 4)
y = sluice.softmax(Tensor(x.T), axis=0)
assert type(y) is Tensor and numpy.array_equal(y.array.T, sluice.softmax(x))
for change, word in (("requires_grad", "x.detach()"), ("negated", "resolve_neg")):
    t = Tensor(x)
    setattr(t, change, True)
    try:
        sluice.softmax(t)
    except TypeError as refused:
        assert word in str(refused), refused
    else:
        raise AssertionError(change)
"""


def test_torch_is_known_by_name_alone(python):
    """A stand-in with torch's names, because torch itself is rarely there."""
    python(STANDIN)
