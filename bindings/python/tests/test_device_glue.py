"""What is decided for a CUDA device before C is called: stream, context, allocations. Without a GPU, by a
stand-in library that notes its arguments, and stand-ins for torch and CuPy.
"""

import shutil
import subprocess
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
from sluice import _stream
from sluice._view import View

COMPILER = shutil.which("cc")

LIBRARY = """
#include <string.h>
#include <sluice/sluice.h>
static long long note[8];
long long *noted(void) { return note; }
uint32_t sluice_version(void) { return SLUICE_VERSION; }
const char *sluice_last_error(void) { return "stand-in"; }
const char *sluice_status_name(sluice_status s) { (void)s; return ""; }
sluice_status sluice_context_create(const sluice_context_desc *d, sluice_context **out) {
  *out = (sluice_context *)(size_t)(1000 * d->device_type + d->device_id);
  return SLUICE_OK;
}
void sluice_context_destroy(sluice_context *c) { (void)c; }
sluice_status sluice_softmax_workspace(const sluice_context *c, const sluice_softmax_desc *d,
                                       const sluice_tensor *x, const sluice_tensor *y, size_t *bytes) {
  (void)c, (void)x, (void)y;
  *bytes = d && d->sink ? 1000 : 0;
  return SLUICE_OK;
}
sluice_status sluice_softmax(const sluice_context *c, const sluice_softmax_desc *d, const sluice_tensor *x,
                             const sluice_tensor *y, void *workspace, size_t bytes, sluice_stream stream) {
  long long now[8] = {(long long)c,       (long long)stream, (long long)workspace, (long long)bytes,
                      (long long)x->data, 0,                 x->device.id,         (long long)y->data};
  if (d && d->temperature) {
    now[5] = (long long)d->temperature->data + (long long)d->temperature->byte_offset;
    if (d->temperature->device.type != 2) return SLUICE_INVALID_DEVICE;
  }
  memcpy(note, now, sizeof note);
  return SLUICE_OK;
}
"""

STANDINS = """
import contextlib, ctypes, sys, types
import numpy
import sluice

def noted():
    from sluice._library import library
    function = library()._opened["noted"]
    function.restype = ctypes.POINTER(ctypes.c_longlong * 8)
    names = ("context", "stream", "workspace", "bytes", "x", "temperature", "ordinal", "y")
    return dict(zip(names, function().contents))

current = 77
made = []  # (what, shape, stream that was current)

class Streamed:
    def __init__(self, handle): self.handle = handle
    def __enter__(self):
        global current
        self.kept, current = current, self.handle
    def __exit__(self, *_):
        global current
        current = self.kept

class Kind:
    def __init__(self, type, index): self.type, self.index = type, index

class Tensor:
    requires_grad = False
    def __init__(self, array, device):
        self.array, self.device, self.dtype = array, device, f"torch.{array.dtype.name}"
    shape = property(lambda self: self.array.shape)
    def stride(self): return tuple(s // self.array.itemsize for s in self.array.strides)
    def data_ptr(self): return self.array.ctypes.data
    def is_neg(self): return False
    def fill_(self, value):
        made.append(("fill", value, current))
        self.array.fill(value)
        return self

Tensor.__module__ = "torch"
torch = sys.modules["torch"] = types.ModuleType("torch")
torch.float32, torch.uint8 = "torch.float32", "torch.uint8"
torch.is_grad_enabled = lambda: True
torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: current)
torch.cuda = types.SimpleNamespace(ExternalStream=lambda handle, device: handle, stream=Streamed)

def empty(shape, dtype, device):
    made.append(("empty", shape, current))
    return Tensor(numpy.empty(shape, dtype[6:]), device)

torch.empty = empty
cuda1 = Kind("cuda", 1)
x = Tensor(numpy.zeros((2, 4), "float32"), cuda1)
"""


@pytest.fixture(scope="module")
def standin(tmp_path_factory):
    if COMPILER is None:
        pytest.skip("no cc")
    from pathlib import Path

    include = Path(__file__).parents[3] / "include"
    if not include.exists():
        pytest.skip("no checkout around the package")
    folder = tmp_path_factory.mktemp("standin")
    (folder / "standin.c").write_text(LIBRARY)
    made = folder / "standin.so"
    source = str(folder / "standin.c")
    subprocess.run([COMPILER, "-shared", "-fPIC", f"-I{include}", "-o", str(made), source], check=True)
    return made


@pytest.fixture
def run(python, standin, monkeypatch):
    monkeypatch.setenv("SLUICE_LIBRARY", str(standin))
    return lambda code: python(STANDINS + textwrap.dedent(code))


def test_torch_on_its_current_stream(run):
    run(
        """
        y = sluice.softmax(x)
        now = noted()
        assert type(y) is Tensor and y.device is cuda1
        assert now["context"] == 2001 and now["ordinal"] == 1 and now["stream"] == 77
        assert now["x"] == x.data_ptr() and now["y"] == y.data_ptr()
        current = 78
        sluice.softmax(x)
        assert noted()["stream"] == 78 and made == [("empty", (2, 4), 77), ("empty", (2, 4), 78)]
        """
    )


def test_torch_on_a_given_stream(run):
    """What is made for a call belongs to the stream that the call goes to."""
    run(
        """
        sluice.softmax(x, stream=5, temperature=0.5, sink=0.25)
        now = noted()
        assert now["stream"] == 5 and now["bytes"] == 1000 and now["workspace"]
        assert all(stream == 5 for *_, stream in made) and current == 77
        assert [what for what, *_ in made].count("fill") == 2 and ("empty", (1000,), 5) in made
        sluice.softmax(x, stream=types.SimpleNamespace(cuda_stream=6))
        assert noted()["stream"] == 6
        """
    )


def test_a_number_is_brought_to_the_device(run):
    run(
        """
        for t in (0.5, 0.75):
            sluice.softmax(x, temperature=t)
            assert ("fill", t, 77) in made and noted()["temperature"]
        """
    )


def test_bind_follows_the_current_stream(run):
    run(
        """
        out = Tensor(numpy.empty((2, 4), "float32"), cuda1)
        step = sluice.bind("softmax", x, out=out, temperature=0.5, sink=0.5)
        before = len(made)
        for current in (1, 2):
            assert step() is out and noted()["stream"] == current and noted()["bytes"] == 1000
        assert len(made) == before
        fixed = sluice.bind("softmax", x, out=out, stream=9)
        fixed()
        assert noted()["stream"] == 9
        """
    )


def test_the_interface_names_a_stream(run):
    run(
        """
        class Device:
            def __init__(self, array, **more):
                of = array.__array_interface__
                of = {key: of[key] for key in ("shape", "typestr", "data")}
                self.array = array
                self.__cuda_array_interface__ = {**of, "version": 3, "strides": None, **more}
        a, b = Device(x.array, stream=42), Device(x.array.copy())
        sluice.softmax(a, out=b)
        assert noted()["stream"] == 42 and noted()["context"] == 2000
        sluice.softmax(b, out=a)
        assert noted()["stream"] == 0
        sluice.softmax(b, out=a, context=sluice.Context("cuda:3"))
        assert noted()["context"] == 2003 and noted()["ordinal"] == 3
        for options, words in (
            ({}, "cannot make outputs like"),
            ({"out": b, "temperature": 0.5}, "Python number"),
            ({"out": b, "sink": x}, "workspace of 1000 bytes"),
        ):
            try:
                sluice.softmax(a, **options)
            except TypeError as refused:
                assert words in str(refused), refused
            else:
                raise AssertionError(words)
        """
    )


def test_context_of_another_device(run):
    run(
        """
        sluice.softmax(x, context=sluice.Context(("cuda", 1)))
        assert noted()["context"] == 2001
        """
    )


def test_which_stream(monkeypatch):
    view = View("torch", (), (), (2, 32, 1), (2, 1))
    seen = []
    cuda = SimpleNamespace(
        current_stream=lambda ordinal: seen.append(ordinal) or SimpleNamespace(cuda_stream=11)
    )
    monkeypatch.setitem(__import__("sys").modules, "torch", SimpleNamespace(_C=None, cuda=cuda))
    assert _stream.stream_for(None, view, 1) == 11 and seen == [1]  # without the private shortcut
    streams = SimpleNamespace(get_current_stream=lambda ordinal: SimpleNamespace(ptr=12))
    monkeypatch.setitem(__import__("sys").modules, "cupy", SimpleNamespace(cuda=streams))
    assert _stream.stream_for(None, view._replace(library="cupy"), 1) == 12
    assert _stream.stream_for(None, view._replace(library="numba", stream=2), 1) == 2
    assert _stream.stream_for(None, view._replace(library="numba"), 1) == 0
    assert _stream.stream_for(3, view, 1) == 3
    assert _stream.handle_of(SimpleNamespace(ptr=13)) == 13
    assert _stream.handle_of(SimpleNamespace(__cuda_stream__=lambda: (0, 14))) == 14
    with pytest.raises(TypeError, match="stream is a float"):
        _stream.handle_of(np.float64(1).item())
