"""Errors of softmax against wider arithmetic, as records of kind "limit" in ulp.

python benchmarks/softmax_accuracy.py [--library PATH] shows them; run.py softmax keeps them with its results,
from where they come into docs/ops/softmax.md.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bindings" / "python"))

DIGITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
SMALLEST = {"float64": -1074, "float32": -149, "float16": -24, "bfloat16": -133}


def ulp(value, dtype):
    """Distance of the dtype's neighbours at |value|."""
    exponent = np.frexp(np.abs(value))[1] - 1
    return np.ldexp(np.ones_like(value), np.maximum(exponent - DIGITS[dtype], SMALLEST[dtype]))


def inputs():
    """(name, rows in float64): what logits look like, and what is hard."""
    rng = np.random.default_rng(0)
    for n, rows in ((1000, 256), (128256, 16)):
        yield f"normal, deviation 1, {n} columns", rng.standard_normal((rows, n))
        yield f"normal, deviation 10, {n} columns", 10 * rng.standard_normal((rows, n))
    yield "around 1e4, deviation 10, 4096 columns", 1e4 + 10 * rng.standard_normal((64, 4096))
    yield "around -1e4, deviation 10, 4096 columns", -1e4 + 10 * rng.standard_normal((64, 4096))
    # Every argument in a chunk is rounded the same way, by nearly half an ulp: the worst for the sum. A
    # search found the gaps.
    for n in (1000, 4096, 128256):
        gaps = np.array([-2.5, -4.174, -8.195738792419434, -8.5, -12.5]).astype(np.float32)
        rows = np.repeat(gaps[:, None], n, 1)
        rows[:, ::4096] = 0.49 * np.spacing(np.abs(gaps))[:, None]
        yield f"a value repeated below each maximum, {n} columns", rows.astype(np.float64)


def exact(v):
    """p, v - m and lse in the type of v."""
    m = v.max(-1, keepdims=True)
    d = v - m
    e = np.exp(d)
    s = e.sum(-1, keepdims=True)
    return e / s, d, m + np.log(s)


def record(case, value, limit, largest=None):
    found = {"kind": "limit", "case": case, "value": round(float(value), 3), "sense": "<="}
    found.update({"limit": limit, "unit": "ulp"})
    if largest is not None:
        found["largest"] = round(float(largest), 3)
    return found


def measure(library=None):
    if library:
        os.environ["SLUICE_LIBRARY"] = str(Path(library).resolve())
    try:
        import sluice

        sluice.softmax(np.zeros(1))
    except (ImportError, RuntimeError) as reason:
        print(f"skipped: accuracy: {reason}")
        return []
    records = []
    for name, rows in inputs():
        for dtype, accuracy in (("float32", "default"), ("float32", "high"), ("float64", "default")):
            x = rows.astype(dtype)
            p, d, lse = exact(x.astype(np.longdouble if dtype == "float64" else np.float64))
            off = np.abs(sluice.softmax(x, accuracy=accuracy) - p) / ulp(p, dtype)
            beyond = off if accuracy == "high" else off - np.abs(d)
            what = f"{dtype}, accuracy {accuracy}: {name}"
            records.append(record(what, beyond.max(), 4, off.max()))
            if accuracy == "high":
                continue
            log_p, got = d - (lse - x.max(-1, keepdims=True)), sluice.log_softmax(x)
            off = np.abs(got - log_p) / ulp(np.maximum(1, np.abs(log_p)), dtype)
            records.append(record(f"{dtype}, log: {name}", off.max(), 4))
            off = np.abs(sluice.logsumexp(x)[:, None] - lse) / ulp(np.maximum(1, np.abs(lse)), dtype)
            records.append(record(f"{dtype}, lse: {name}", off.max(), 4))
        for dtype in ("float16", "bfloat16"):
            if dtype == "bfloat16":
                try:
                    import ml_dtypes
                except ImportError:
                    continue
            x = rows.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
            p, _, _ = exact(x.astype(np.float64))
            off = np.abs(sluice.softmax(x).astype(np.float64) - p) / ulp(p, dtype)
            records.append(record(f"{dtype}: {name}", off.max(), 0.51))
    return records


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", help="libsluice.so")
    records = measure(parser.parse_args().library)
    for found in records:
        mark = "      " if found["value"] <= found["limit"] else "BROKEN"
        largest = f"  (largest {found['largest']:.2f})" if "largest" in found else ""
        print(f"{mark} {found['value']:8.3f} <= {found['limit']} ulp  {found['case']}{largest}")


if __name__ == "__main__":
    main()
