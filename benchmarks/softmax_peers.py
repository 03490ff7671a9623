"""What softmax is compared with on the CPU: numpy, onnxruntime and torch, each as fast as a user can make it.

contestants(case) gives {name: prepare}, where prepare(sets) makes that many sets of buffers and answers a
function of a set's index. A library that cannot be imported or does not take the case appears in the second
result, with the reason. Only numpy is needed.
"""

import contextlib
import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

CORES = len(os.sched_getaffinity(0))
BLOCK_BYTES = 1 << 18  # of x: with y it stays in a core's second-level cache


def numbers(shape, seed=0):
    """float32 of either sign and magnitudes up to 8."""
    values = np.random.default_rng(seed).random(shape, dtype=np.float32)
    values -= np.float32(0.5)
    values *= np.float32(16)
    return values


# ---- numpy: the same arithmetic, written in the ways that differ in speed --------------------------------


def plain(x, y, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    y[...] = e / e.sum(axis, keepdims=True)


def in_place(x, y, axis):
    np.subtract(x, x.max(axis, keepdims=True), out=y)
    np.exp(y, out=y)
    np.divide(y, y.sum(axis, keepdims=True), out=y)


def in_place_reciprocal(x, y, axis):
    np.subtract(x, x.max(axis, keepdims=True), out=y)
    np.exp(y, out=y)
    np.multiply(y, 1 / y.sum(axis, keepdims=True), out=y)


def in_place_dot(x, y, axis):
    np.subtract(x, x.max(axis, keepdims=True), out=y)
    np.exp(y, out=y)
    total = np.einsum("...j->...", np.moveaxis(y, axis, -1))
    np.multiply(y, np.expand_dims(1 / total, axis), out=y)


def backward_plain(y, dy, dx, axis):
    dx[...] = y * (dy - (y * dy).sum(axis, keepdims=True))


def backward_in_place(y, dy, dx, axis):
    np.multiply(y, dy, out=dx)
    total = dx.sum(axis, keepdims=True)
    np.subtract(dy, total, out=dx)
    np.multiply(dx, y, out=dx)


def backward_dot(y, dy, dx, axis):
    total = np.einsum("...j,...j->...", np.moveaxis(y, axis, -1), np.moveaxis(dy, axis, -1))
    total = np.expand_dims(total, axis)
    np.subtract(dy, total, out=dx)
    np.multiply(dx, y, out=dx)


def log_sum_exp(x, lse, axis):
    m = x.max(axis, keepdims=True)
    e = np.subtract(x, m)
    np.exp(e, out=e)
    lse[...] = (m + np.log(e.sum(axis, keepdims=True))).squeeze(axis)


def in_float32(x, y, axis):
    wide = x.astype(np.float32)
    in_place_reciprocal(wide, wide, axis)
    y[...] = wide


def blocks(formula, axis, arrays, pool=None):
    """Cuts the arrays along axes that the formula does not reduce, so that a block stays in the cache."""
    shape = arrays[0].shape
    room = BLOCK_BYTES // arrays[0].itemsize // shape[axis]  # elements of the other axes in a block
    steps = [1] * len(shape)
    for a in reversed(range(len(shape))):
        steps[a] = shape[a] if a == axis else max(1, min(shape[a], room))
        room = room if a == axis else room // steps[a]

    def piece(starts):
        index = tuple(slice(start, start + step) for start, step in zip(starts, steps))
        formula(*(a[index[: a.ndim]] for a in arrays), axis)

    starts = itertools.product(*(range(0, extent, step) for extent, step in zip(shape, steps)))
    list((pool.map if pool else map)(piece, starts))


def numpy_contestants(case):
    if case["dtype"] == "bfloat16":
        return {}, {"numpy": "has no bfloat16"}
    # The last of each list is the one that blocks are made of.
    if case["pass"] == "backward":
        formulas = {
            "plain": backward_plain,
            "in place": backward_in_place,
            "in place, einsum": backward_dot,
        }
    elif case["case"].startswith("logsumexp"):
        formulas = {"plain": log_sum_exp}
    elif case["dtype"] == "float16":
        formulas = {"in float32": in_float32}  # numpy's own float16 takes a tenth of a second a million
    else:
        formulas = {
            "plain": plain,
            "in place": in_place,
            "in place, einsum": in_place_dot,
            "in place, reciprocal": in_place_reciprocal,
        }
    axis, shape, dtype = case["axis"], case["shape"], case["dtype"]
    inputs = 2 if case["pass"] == "backward" else 1
    out_shape = shape[:axis] if case["case"].startswith("logsumexp") else shape

    def prepare(call):
        def with_buffers(sets):
            data = [numbers((1, *shape), seed).astype(dtype).repeat(sets, 0) for seed in range(inputs)]
            data.append(np.zeros((sets, *out_shape), dtype))
            views = [[array[i] for array in data] for i in range(sets)]
            return lambda i: call(views[i])

        return with_buffers

    found = {f"numpy, {name}": prepare(lambda a, f=f: f(*a, axis)) for name, f in formulas.items()}
    if np.prod(shape) > shape[axis]:
        formula = list(formulas.values())[-1]
        pool = ThreadPoolExecutor(CORES)
        found["numpy, blocks"] = prepare(lambda a: blocks(formula, axis, a))
        found["numpy, blocks on all threads"] = prepare(lambda a: blocks(formula, axis, a, pool))
    return found, {}


# ---- onnxruntime -----------------------------------------------------------------------------------------


def onnx_model(axis, rank, dtype):
    """A model of one Softmax node, written byte by byte: the onnx package is not needed to run one."""
    types = {"float32": 1, "float16": 10, "bfloat16": 16}

    def varint(value):
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    def field(number, payload):
        if isinstance(payload, int):
            return varint(number << 3) + varint(payload)
        if isinstance(payload, str):
            payload = payload.encode()
        return varint(number << 3 | 2) + varint(len(payload)) + payload

    def value_info(name):
        dims = b"".join(field(1, field(2, f"d{i}")) for i in range(rank))
        return field(1, name) + field(2, field(1, field(1, types[dtype]) + field(2, dims)))

    attribute = field(1, "axis") + field(3, axis) + field(20, 2)
    node = field(1, "x") + field(2, "y") + field(4, "Softmax") + field(5, attribute)
    graph = field(1, node) + field(2, "g") + field(11, value_info("x")) + field(12, value_info("y"))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def onnxruntime_contestants(case):
    try:
        import onnxruntime as ort
    except ImportError:
        return {}, {"onnxruntime": "not installed"}
    if case["pass"] == "backward" or case["case"].startswith("logsumexp"):
        return {}, {"onnxruntime": "has no such operator"}
    if case["dtype"] == "bfloat16":
        return {}, {"onnxruntime": "takes no bfloat16 from numpy"}
    options = ort.SessionOptions()
    options.intra_op_num_threads = CORES
    options.log_severity_level = 4
    try:
        model = onnx_model(case["axis"], len(case["shape"]), case["dtype"])
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as refused:
        return {}, {"onnxruntime": str(refused).splitlines()[0][:100]}

    def prepare(sets):
        x = numbers((1, *case["shape"])).astype(case["dtype"]).repeat(sets, 0)
        y = np.zeros_like(x)
        bindings = []
        for i in range(sets):
            binding = session.io_binding()
            binding.bind_input("x", "cpu", 0, x.dtype, case["shape"], x[i].ctypes.data)
            binding.bind_output("y", "cpu", 0, y.dtype, case["shape"], y[i].ctypes.data)
            bindings.append(binding)
        return lambda i, keep=(x, y): session.run_with_iobinding(bindings[i])

    return {"onnxruntime": prepare}, {}


# ---- torch -----------------------------------------------------------------------------------------------


def torch_contestants(case):
    try:
        import torch
    except ImportError:
        return {}, {"torch": "not installed"}
    with contextlib.suppress(RuntimeError):
        torch.set_num_threads(CORES)
    dtype, axis = getattr(torch, case["dtype"]), case["axis"]

    def tensors(sets, seed=0):
        one = torch.from_numpy(numbers((1, *case["shape"]), seed)).to(dtype)
        return one.repeat(sets, *([1] * len(case["shape"])))

    def forward(sets):
        x = tensors(sets)
        y = torch.empty_like(x)
        return lambda i: torch.softmax(x[i], axis, out=y[i])

    def allocating(sets):
        x = tensors(sets)
        return lambda i: torch.softmax(x[i], axis)

    def backward(sets):
        y, dy = torch.softmax(tensors(sets), axis + 1), tensors(sets, 1)
        dx = torch.empty_like(y)
        return lambda i: torch._softmax_backward_data(dy[i], y[i], axis, dtype, grad_input=dx[i])

    def log_sum_exp(sets):
        x = tensors(sets)
        return lambda i: torch.logsumexp(x[i], axis)

    if case["pass"] == "backward":
        return {"torch": backward}, {}
    if case["case"].startswith("logsumexp"):
        return {"torch": log_sum_exp}, {}
    return {"torch": forward, "torch, allocating": allocating}, {}


def contestants(case):
    if "causal" in case["case"]:
        return {}, {}  # they would be handed a mask: other bytes, another case
    found, absent = {}, {}
    for library in (numpy_contestants, onnxruntime_contestants, torch_contestants):
        more, missing = library(case)
        found.update(more)
        absent.update(missing)
    return found, absent
