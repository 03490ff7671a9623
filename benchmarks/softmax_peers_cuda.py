"""What softmax is compared with on a GPU: torch, torch.compile, a fused Triton kernel of our own, and cuDNN.

sluice runs among them through its Python package: beside whom it is timed, it is compared with. See
gpu_peers.py for what a contestant is.
"""

import ctypes
import functools
import math

import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None


# ---- Tensors ---------------------------------------------------------------------------------------------


class Tensors:
    """Of a case: `sets` of each, of either sign and magnitudes up to 8."""

    def __init__(self, case):
        self.axis, self.n = case["axis"], case["shape"][case["axis"]]
        self.dtype, shape, sets = getattr(torch, case["dtype"]), case["shape"], range(case["buffer_sets"])

        def numbers(shape=shape):
            return torch.rand(shape, device="cuda").sub_(0.5).mul_(16).to(self.dtype)

        self.x = [numbers() for _ in sets]
        self.out = [torch.empty_like(x) for x in self.x]
        self.mask = self.lengths = None
        if case["pass"] == "backward":
            self.y = [torch.softmax(x, self.axis) for x in self.x]
            self.dy, self.x = self.x, None
        if "mask" in case["case"]:
            batch, _, queries, n = shape
            self.mask = numbers((batch, 1, queries, n))
            self.lengths = n - torch.arange(batch, device="cuda", dtype=torch.int32) * n // (2 * batch)


# ---- torch -----------------------------------------------------------------------------------------------


def formula(case, t):
    """What a user would write, as a function of the tensors of one set."""
    if case["pass"] == "backward":
        return lambda y, dy: torch._softmax_backward_data(dy, y, t.axis, t.dtype)
    if case["case"].startswith("logsumexp"):
        return lambda x: torch.logsumexp(x, t.axis)
    columns = torch.arange(t.n, device="cuda")
    if t.mask is not None:
        excluded = columns >= t.lengths[:, None, None, None]
        return lambda x: torch.softmax((x * 0.125 + t.mask).masked_fill(excluded, -math.inf), -1)
    if "causal" in case["case"]:
        return lambda x: torch.softmax(x.masked_fill(columns > columns[:, None], -math.inf), -1)
    return lambda x: torch.softmax(x, t.axis)


def torch_contestants(case, t):
    plain = formula(case, t)
    torch._dynamo.reset()
    compiled = torch.compile(plain, dynamic=False, fullgraph=True)
    if case["pass"] == "backward":
        return {
            "torch": lambda i: torch._softmax_backward_data(
                t.dy[i], t.y[i], t.axis, t.dtype, grad_input=t.out[i]
            ),
            "torch.compile": lambda i: compiled(t.y[i], t.dy[i]),
        }
    eager = {"torch": lambda i: plain(t.x[i])}
    if case["case"].endswith("columns") and not case["case"].startswith("logsumexp"):
        eager = {"torch": lambda i: torch.softmax(t.x[i], t.axis, out=t.out[i])}
    return {**eager, "torch.compile": lambda i: compiled(t.x[i])}


# ---- Triton: rows held whole as far as registers reach, two sweeps beyond --------------------------------

if triton:

    @triton.jit
    def whole_rows(x, y, rows, n, tile_rows: tl.constexpr, tile: tl.constexpr):
        row = tl.program_id(0).to(tl.int64) * tile_rows + tl.arange(0, tile_rows)[:, None]
        column = tl.arange(0, tile)[None, :]
        inside = (row < rows) & (column < n)
        v = tl.load(x + row * n + column, mask=inside, other=float("-inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 1)[:, None])
        tl.store(y + row * n + column, e / tl.sum(e, 1)[:, None], mask=inside)

    @triton.jit
    def long_rows(x, y, n, tile: tl.constexpr):
        x += tl.program_id(0).to(tl.int64) * n
        y += tl.program_id(0).to(tl.int64) * n
        m = tl.full([tile], float("-inf"), tl.float32)
        s = tl.zeros([tile], tl.float32)
        for start in range(0, n, tile):
            column = start + tl.arange(0, tile)
            v = tl.load(x + column, mask=column < n, other=float("-inf")).to(tl.float32)
            larger = tl.maximum(m, v)  # finite: the first tile is full
            s = s * tl.exp(m - larger) + tl.exp(v - larger)
            m = larger
        largest = tl.max(m, 0)
        inverse = 1 / tl.sum(s * tl.exp(m - largest), 0)
        for start in range(0, n, tile):
            column = start + tl.arange(0, tile)
            v = tl.load(x + column, mask=column < n, other=float("-inf")).to(tl.float32)
            tl.store(y + column, tl.exp(v - largest) * inverse, mask=column < n)

    @triton.jit
    def whole_rows_backward(y, dy, dx, rows, n, tile_rows: tl.constexpr, tile: tl.constexpr):
        row = tl.program_id(0).to(tl.int64) * tile_rows + tl.arange(0, tile_rows)[:, None]
        column = tl.arange(0, tile)[None, :]
        inside = (row < rows) & (column < n)
        p = tl.load(y + row * n + column, mask=inside, other=0).to(tl.float32)
        g = tl.load(dy + row * n + column, mask=inside, other=0).to(tl.float32)
        tl.store(dx + row * n + column, p * (g - tl.sum(p * g, 1)[:, None]), mask=inside)

    @triton.jit
    def long_rows_backward(y, dy, dx, n, tile: tl.constexpr):
        y += tl.program_id(0).to(tl.int64) * n
        dy += tl.program_id(0).to(tl.int64) * n
        dx += tl.program_id(0).to(tl.int64) * n
        parts = tl.zeros([tile], tl.float32)
        for start in range(0, n, tile):
            column = start + tl.arange(0, tile)
            p = tl.load(y + column, mask=column < n, other=0).to(tl.float32)
            parts += p * tl.load(dy + column, mask=column < n, other=0).to(tl.float32)
        dot = tl.sum(parts, 0)
        for start in range(0, n, tile):
            column = start + tl.arange(0, tile)
            p = tl.load(y + column, mask=column < n, other=0).to(tl.float32)
            g = tl.load(dy + column, mask=column < n, other=0).to(tl.float32)
            tl.store(dx + column, p * (g - dot), mask=column < n)


def triton_contestants(case, t):
    if not triton:
        return {}, {"triton": "not installed"}
    if not case["case"].endswith("columns") or case["case"].startswith("logsumexp"):
        return {}, {}
    rows, n = case["shape"]
    backward = case["pass"] == "backward"
    longest = 32768 if backward else 65536  # of a row that 1024 threads hold

    def call(*tensors):
        if n > longest:
            kernel = long_rows_backward if backward else long_rows
            kernel[(rows,)](*tensors, n, tile=8192, num_warps=16)
        else:
            tile = triton.next_power_of_2(n)
            tile_rows = max(1, 2048 // tile)
            kernel = whole_rows_backward if backward else whole_rows
            warps = min(32, max(4, tile // 512))
            grid = (triton.cdiv(rows, tile_rows),)
            kernel[grid](*tensors, rows, n, tile_rows=tile_rows, tile=tile, num_warps=warps)
        return tensors[-1]

    if backward:
        return {"triton": lambda i: call(t.y[i], t.dy[i], t.out[i])}, {}
    return {"triton": lambda i: call(t.x[i], t.out[i])}, {}


# ---- cuDNN, the library that torch brings along ----------------------------------------------------------


@functools.cache
def cudnn():
    library, handle = ctypes.CDLL("libcudnn.so.9"), ctypes.c_void_p()
    must(library.cudnnCreate(ctypes.byref(handle)))
    return library, handle


def must(status):
    if status:
        raise RuntimeError(f"cudnn answers {status}")


def cudnn_contestants(case, t):
    if not case["case"].endswith("columns") and not case["case"].startswith("dim 1"):
        return {}, {}
    if case["case"].startswith("logsumexp"):
        return {}, {}
    try:
        library, handle = cudnn()
    except (OSError, AttributeError, RuntimeError) as refused:
        return {}, {"cudnn": str(refused)}
    accurate, per_channel, nchw = 1, 1, 0
    kind = {"float32": 0, "float16": 2, "bfloat16": 9}[case["dtype"]]
    extents = (*case["shape"], 1, 1)[:4]  # the channels are the axis of softmax
    layout = ctypes.c_void_p()
    must(library.cudnnCreateTensorDescriptor(ctypes.byref(layout)))
    must(library.cudnnSetTensor4dDescriptor(layout, nchw, kind, *extents))
    one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))

    def address(tensor):
        return ctypes.c_void_p(tensor.data_ptr())

    def begin():
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        must(library.cudnnSetStream(handle, stream))
        return handle, accurate, per_channel, one, layout

    def forward(i):
        must(library.cudnnSoftmaxForward(*begin(), address(t.x[i]), zero, layout, address(t.out[i])))
        return t.out[i]

    def backward(i):
        y, dy, dx = address(t.y[i]), address(t.dy[i]), address(t.out[i])
        must(library.cudnnSoftmaxBackward(*begin(), y, layout, dy, zero, layout, dx))
        return t.out[i]

    return {"cudnn": backward if case["pass"] == "backward" else forward}, {}


# ---- sluice ----------------------------------------------------------------------------------------------


def sluice_contestants(case, t):
    try:
        import sluice
    except ImportError as refused:
        return {}, {"sluice": str(refused)}
    if case["pass"] == "backward":
        return {"sluice": lambda i: sluice.softmax_backward(t.dy[i], y=t.y[i], dx=t.out[i])}, {}
    if case["case"].startswith("logsumexp"):
        return {"sluice": lambda i: sluice.logsumexp(t.x[i], dtype="float32")}, {}
    options = {"axis": t.axis, "causal": "causal" in case["case"]}
    if t.mask is not None:
        options.update(scale=0.125, mask=t.mask, lengths=t.lengths[:, None, None])
    return {"sluice": lambda i: sluice.softmax(t.x[i], out=t.out[i], **options)}, {}


def contestants(case):
    t = Tensors(case)
    found, absent = torch_contestants(case, t), {}
    for library in (sluice_contestants, triton_contestants, cudnn_contestants):
        more, missing = library(case, t)
        found.update(more)
        absent.update(missing)
    return found, absent
