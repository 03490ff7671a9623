"""torch on a GPU: values, streams, graphs. Skipped without both."""

import numpy as np
import pytest
import sluice

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def device():
    try:
        sluice.Context("cuda")
    except sluice.Unavailable as missing:
        pytest.skip(str(missing))
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")


@pytest.fixture
def x():
    return torch.randn(64, 1000, device="cuda", generator=torch.Generator("cuda").manual_seed(1))


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_values(x, name):
    x = x.to(getattr(torch, name))
    y, lse = sluice.softmax(x, temperature=0.5, return_lse=True)
    assert y.is_cuda and y.dtype == x.dtype
    exact = torch.softmax(x.double() / 0.5, -1)
    tolerance = {"float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-12}.get(name, 1e-5)
    torch.testing.assert_close(y.double(), exact, rtol=tolerance, atol=1e-7)
    torch.testing.assert_close(lse.double(), torch.logsumexp(x.double() / 0.5, -1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sluice.softmax(x.T, axis=0).T, sluice.softmax(x), rtol=0, atol=0)


def test_gradient(x):
    x, dy = x.double().requires_grad_(), torch.randn_like(x, dtype=torch.float64)
    torch.softmax(x, -1).backward(dy)
    y = sluice.softmax(x.detach())
    torch.testing.assert_close(sluice.softmax_backward(dy, y=y), x.grad)


def test_streams(x):
    expected = sluice.softmax(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        current = sluice.softmax(x, temperature=1.0)
    given = sluice.softmax(x, stream=stream)
    handle = sluice.softmax(x, stream=stream.cuda_stream)
    stream.synchronize()
    for y in (current, given, handle):
        assert torch.equal(y, expected)


def test_graph(x):
    y = torch.empty_like(x)
    sluice.softmax(x, out=y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sluice.softmax(x, out=y, lengths=500)
    x += torch.arange(1000, device="cuda") / 100
    graph.replay()
    assert torch.equal(y, sluice.softmax(x, lengths=500))


def test_the_cpu_stays_the_cpus(x):
    with pytest.raises(ValueError) as refused:
        sluice.softmax(x, mask=np.zeros(1000, np.float32))
    assert refused.value.code == 1002
