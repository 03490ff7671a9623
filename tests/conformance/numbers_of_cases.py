"""Numbers of the conformance cases: exact fills, roundings to each dtype, and decimal arithmetic."""

import decimal
import math
from decimal import Decimal

import numpy as np

decimal.getcontext().prec = 40
decimal.getcontext().Emin = -999999
decimal.getcontext().Emax = 999999

INF, NAN = math.inf, math.nan
# Digits of a significand, and the exponent of the smallest subnormal.
FORMATS = {"float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149), "float64": (53, -1074)}
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
MASK = (1 << 64) - 1


def splitmix64(seed, index):
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def hashed(seed, bits, shift, signed=True):
    """A fill of random integers of so many bits, times 2^shift."""
    return {"hash": seed, "bits": bits, "minus": 1 << (bits - 1) if signed else 0, "shift": shift}


def listed(*values):
    return [text(v) for v in values]


def text(value):
    """A float as the shortest decimal that comes back as the same float64."""
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if float(value).is_integer() and abs(value) < 1 << 53:
        return str(int(value))
    return repr(float(value))


def expand(fill, count):
    """The values of a fill, as float64."""
    if isinstance(fill, list):
        assert len(fill) == count, f"{len(fill)} values for {count} elements"
        return [float(v) for v in fill]
    if "periodic" in fill:
        values = [float(v) for v in fill["periodic"]]
        return [values[i % len(values)] for i in range(count)]
    if "ascending" in fill:
        return [i * float(fill["ascending"]) for i in range(count)]
    scale = 2.0 ** fill["shift"]
    return [
        ((splitmix64(fill["hash"], i) >> (64 - fill["bits"])) - fill["minus"]) * scale for i in range(count)
    ]


def round_to(dtype, value):
    """To nearest, ties to even, from a float64."""
    if dtype not in FORMATS or math.isnan(value) or math.isinf(value) or value == 0 or dtype == "float64":
        return value
    digits, lowest = FORMATS[dtype]
    exponent = max(math.frexp(value)[1] - digits, lowest)
    rounded = math.ldexp(float(round(math.ldexp(value, -exponent))), exponent)
    return math.copysign(INF, value) if abs(rounded) > LARGEST[dtype] else rounded


def ulp(dtype, value):
    digits, lowest = FORMATS[dtype]
    return 2.0 ** max(math.frexp(value)[1] - digits, lowest) if value else 2.0**lowest


def numpy_type(wide):
    return np.float64 if wide else np.float32


def exp(value):
    """e^value for an exact float or Decimal; a float64 infinity is let through."""
    if isinstance(value, float):
        if math.isnan(value):
            return Decimal("nan")
        if math.isinf(value):
            return Decimal(0) if value < 0 else Decimal("inf")
        value = Decimal(value)
    return Decimal(0) if value < -100000 else value.exp()


def tanh(value):
    if math.isnan(value):
        return Decimal("nan")
    e = exp(-2 * abs(Decimal(value)))
    magnitude = (1 - e) / (1 + e)
    return -magnitude if value < 0 else magnitude
