"""The examples in docstrings, run."""

import doctest

import pytest
import sluice
from sluice import _call, _info
from sluice.ops import softmax, softmax_backward


@pytest.mark.parametrize(
    "function",
    [
        softmax,
        sluice.log_softmax,
        sluice.logsumexp,
        softmax_backward,
        _call.bind,
        _call.raw,
        _info.supports,
    ],
    ids=lambda f: f.__name__,
)
def test_docstring(function):
    examples = doctest.DocTestFinder(recurse=False).find(function, globs={"sluice": sluice})
    assert any(test.examples for test in examples)
    for test in examples:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
