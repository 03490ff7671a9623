"""The cases that every language runs (tests/conformance): on the CPU always, on a GPU where there is one."""

import json
from pathlib import Path

import numpy as np
import pytest
import reference
import sluice
from producers import Producer
from reference import FLOATS
from sluice import _abi

FOLDER = Path(__file__).parents[3] / "tests" / "conformance"
CASES = [
    pytest.param(document["op"], case, id=f"{document['op']}-{case['name']}")
    for document in (json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json")))
    for case in document["cases"]
]
POISON = 0xA5


def dtype_of(name):
    return np.dtype(FLOATS.get(name, name))


def splitmix64(seed, count):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def filled(tensor):
    """An input: what is listed rounds to the dtype, what is made by rule is exact in it."""
    fill, shape, dtype = tensor["fill"], tensor["shape"], dtype_of(tensor["dtype"])
    count = int(np.prod(shape))
    if isinstance(fill, list):
        values = np.array([float(text) for text in fill])
    elif "periodic" in fill:
        values = np.resize([float(text) for text in fill["periodic"]], count)
    elif "ascending" in fill:
        values = np.arange(count) * float(fill["ascending"])
    else:
        top = splitmix64(fill["hash"], count) >> np.uint64(64 - fill["bits"])
        values = (top.astype(np.int64) - fill["minus"]) * 2.0 ** fill["shift"]
    array = values.astype(dtype).reshape(shape)
    exact = np.array_equal(array.astype(np.float64).ravel(), values, equal_nan=True)
    assert exact or isinstance(fill, list)
    return array


def poisoned(tensor):
    dtype, shape = dtype_of(tensor["dtype"]), tensor["shape"]
    return np.full(int(np.prod(shape)) * dtype.itemsize, POISON, np.uint8).view(dtype).reshape(shape)


def on_cpu(array, tensor):
    return Producer(array, device=tuple(tensor["device"])) if "device" in tensor else array


def call(op, case, arrays, **options):
    described = _abi.OPS[op]
    operands = [arrays.pop(t.name, None) for t in described.operands]
    if "workspace" in case:
        options["workspace"] = aligned(case["workspace"])
    sluice.raw(op, *operands, **arrays, **case["desc"], **options)


def aligned(size):
    room = np.empty(size + 256, np.uint8)
    start = -room.ctypes.data % 256
    return room[start : start + size]


def check(case, outputs):
    """The outputs as numpy arrays."""
    for name, values in case["expect"].items():
        if name in ("status", "text"):
            continue
        got = outputs[name].astype(np.float64).ravel()
        if isinstance(values, dict):
            got, values = got[values["at"]], values["values"]
        want = np.array([float(text) for text in values])
        tolerance = case["tolerance"].get(name, {})
        with np.errstate(invalid="ignore"):
            allowed = tolerance.get("ulp", 0) * reference.ulp(want, outputs[name].dtype) + tolerance.get(
                "absolute", 0
            )
            good = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= allowed)
        assert good.all(), f"{name}[{np.flatnonzero(~good)[0]}] is {got[~good][0]}, want {want[~good][0]}"


def refused(op, case, arrays, **options):
    expect = case["expect"]
    with pytest.raises(sluice.Error) as error:
        call(op, case, arrays, **options)
    assert error.value.code == getattr(_abi, expect["status"])
    if "text" in expect:
        assert str(error.value) == expect["text"]


@pytest.mark.parametrize("op, case", CASES)
def test_cpu(op, case):
    inputs = {name: filled(tensor) for name, tensor in case["inputs"].items()}
    outputs = {name: poisoned(tensor) for name, tensor in case["outputs"].items()}
    arrays = {name: on_cpu(array, case["inputs"][name]) for name, array in inputs.items()} | {
        name: on_cpu(array, case["outputs"][name]) for name, array in outputs.items()
    }
    if case["expect"]["status"] == "SLUICE_OK":
        call(op, case, arrays)
        check(case, outputs)
    else:
        refused(op, case, arrays, context=sluice.Context("cpu"))
        assert all((array.view(np.uint8) == POISON).all() for array in outputs.values())


@pytest.fixture(scope="module")
def to_gpu():
    """Functions that bring arrays to the GPU and back, and wait for it."""
    try:
        sluice.Context("cuda")
    except sluice.Unavailable as missing:
        pytest.skip(str(missing))
    torch = pytest.importorskip("torch", reason="no library that owns memory of the GPU")

    def there(array):
        if array.dtype == FLOATS["bfloat16"]:
            return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16).cuda()
        return torch.from_numpy(array.copy()).cuda()

    def back(tensor, dtype):
        tensor = tensor.cpu()
        if dtype == FLOATS["bfloat16"]:
            return tensor.view(torch.int16).numpy().view(dtype)
        return tensor.numpy()

    return there, back


@pytest.mark.parametrize("op, case", CASES)
def test_cuda(op, case, to_gpu):
    if any("device" in tensor for tensor in (*case["inputs"].values(), *case["outputs"].values())):
        pytest.skip("names a device of its own, for the CPU")
    there, back = to_gpu
    kinds = {name: dtype_of(tensor["dtype"]) for name, tensor in case["outputs"].items()}
    outputs = {name: there(poisoned(tensor)) for name, tensor in case["outputs"].items()}
    arrays = {name: there(filled(tensor)) for name, tensor in case["inputs"].items()} | outputs
    if case["expect"]["status"] == "SLUICE_OK":
        call(op, case, arrays)
        check(case, {name: back(tensor, kinds[name]) for name, tensor in outputs.items()})
    else:
        if "workspace" in case:
            pytest.skip("its workspace is the CPU's")
        refused(op, case, arrays)


def test_there_are_cases():
    if not FOLDER.exists():
        pytest.skip("no checkout around the package")
    assert len(CASES) > 50
