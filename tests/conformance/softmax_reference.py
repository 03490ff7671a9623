"""The reference of softmax that its conformance cases and those of its gradient come from."""

import itertools
import math
from decimal import Decimal

import numpy as np
from numbers_of_cases import INF, NAN, exp, expand, numpy_type, tanh

PER_ROW = ("lengths", "slopes", "sink", "temperature")


def count(shape):
    return math.prod(shape)


def broadcast_index(shape, index):
    """Flat position in a right-aligned, broadcast operand of `shape`."""
    flat = 0
    for extent, i in zip(shape, index[len(index) - len(shape) :]):
        flat = flat * extent + (0 if extent == 1 else i)
    return flat


class Row:
    """Final logits of one row as exact float64 values, their maximum and the sum of e^(v - m)."""

    def __init__(self, call, index):
        self.v, self.distance, self.cap = [], [], []
        self.wide = call.wide
        shape, desc, real = call.shape, call.desc, numpy_type(call.wide)
        n = shape[-1]
        query, queries = (index[-1], shape[-2]) if index else (0, 1)
        p = query + desc.get("diagonal_offset", 0) + (n - queries if desc.get("diagonal") else 0)
        per_row = {k: call.at(k, index) for k in PER_ROW if k in call.inputs}
        length = min(max(int(per_row.get("lengths", n)), 0), n)
        scale, softcap = real(desc.get("scale", 0) or 1), real(desc.get("softcap", 0))
        window = desc.get("window", 0)
        for j in range(n):
            at = (*index, j)
            mask = real(call.at("mask", at)) if "mask" in call.inputs else None
            distance = abs(j - p)
            out = (
                (mask is not None and mask == -INF)
                or ("keep" in call.inputs and call.at("keep", at) == 0)
                or (desc.get("causal") and j > p)
                or (window and distance >= window)
                or j >= length
            )
            self.distance.append(distance)
            self.cap.append(Decimal(1))
            if out:
                self.v.append(None)
                continue
            with np.errstate(all="ignore"):
                v = real(scale * real(call.at("x", at)))
                if softcap:
                    t = tanh(float(v / softcap))
                    self.cap[-1] = 1 - t * t
                    v = real(softcap * real(float(t)))
                if "slopes" in per_row:
                    v = real(v - real(real(per_row["slopes"]) * real(distance)))
                if mask is not None:
                    v = real(v + mask)
                if "temperature" in per_row:
                    v = real(v / real(per_row["temperature"]))
            self.v.append(float(v))
        self.sink = float(real(per_row["sink"])) if "sink" in per_row else -INF
        self.temperature = float(real(per_row.get("temperature", 1)))
        counted = [v for v in self.v if v is not None]
        self.nan = (
            math.isnan(self.sink) or self.sink == INF or any(math.isnan(v) or v == INF for v in counted)
        )
        self.m = NAN if self.nan else max([self.sink, *counted])
        self.empty = self.m == -INF
        if not self.nan and not self.empty:
            self.s = sum(
                (exp(Decimal(v) - Decimal(self.m)) for v in [*counted, self.sink] if v != -INF), Decimal(0)
            )

    def y(self, j, log, policy):
        """Float64 nearest to y, and |v - m| where the result holds a number that was computed."""
        if self.nan or (self.empty and policy == 0):
            return NAN, 0
        n = len(self.v)
        if self.empty and policy == 2:
            return (-float(Decimal(n).ln()) if log else float(1 / Decimal(n))), 0
        if self.v[j] is None or self.v[j] == -INF:
            return (-INF if log else 0.0), 0
        d = Decimal(self.v[j]) - Decimal(self.m)
        return float(d - self.s.ln() if log else exp(d) / self.s), float(abs(d))

    def lse(self):
        return NAN if self.nan else -INF if self.empty else float(Decimal(self.m) + self.s.ln())


class Call:
    """A case's tensors as values that rows read from."""

    def __init__(self, shape, desc, inputs, outputs=()):
        self.shape, self.desc = shape, desc
        self.inputs = {k: (t["shape"], expand(t["fill"], count(t["shape"]))) for k, t in inputs.items()}
        types = [t["dtype"] for t in [*inputs.values(), *outputs]]
        self.wide = "float64" in types

    def at(self, name, index):
        shape, values = self.inputs[name]
        return values[broadcast_index(shape, index)]

    def rows(self):
        return [Row(self, index) for index in itertools.product(*map(range, self.shape[:-1]))]
