"""Operations in the idiom of Python: outputs are made like the inputs, any axis, words for enums. One file
each; what has none is reached by `sluice.raw`."""

from __future__ import annotations

from .softmax import log_softmax, logsumexp, softmax
from .softmax_backward import softmax_backward

__all__ = ["log_softmax", "logsumexp", "softmax", "softmax_backward"]
