"""What Python adds: the time of `import sluice`, and of a call over the same call from C."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

IMPORT = """
import sys, time
start = time.perf_counter()
import sluice
taken = time.perf_counter() - start
assert "numpy" not in sys.modules, "import sluice imported numpy"
print(taken * 1e3)
"""

# `out=` and arrays that keep their shape: the call is prepared once.
CALL = """
import statistics, time
import numpy as np
import sluice
x = np.random.default_rng(0).standard_normal((1, 256), dtype=np.float32)
y = np.empty_like(x)
softmax = sluice.softmax
for _ in range(5000):
    softmax(x, out=y)
samples = []
for _ in range(41):
    start = time.perf_counter()
    for _ in range(1000):
        softmax(x, out=y)
    samples.append((time.perf_counter() - start) * 1e3)
print(statistics.median(samples))
"""


def python(code, library):
    environment = dict(os.environ)
    paths = [str(ROOT / "bindings" / "python"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    if library:
        environment["SLUICE_LIBRARY"] = str(Path(library).resolve())
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    if answer.returncode:
        raise RuntimeError((answer.stderr.strip().splitlines() or ["no reason given"])[-1])
    return float(answer.stdout)


def limit(case, value, bound, unit):
    return {
        "kind": "limit",
        "case": case,
        "value": round(value, 3),
        "sense": "<=",
        "limit": bound,
        "unit": unit,
    }


def measure(library, c_call_us):
    try:
        # The first import writes byte code; the others are what a user meets.
        imports = [python(IMPORT, library) for _ in range(16)][1:]
        calls = [python(CALL, library) for _ in range(3)]
    except RuntimeError as reason:
        print(f"skipped: Python's overheads: {reason}")
        return []
    over = statistics.median(calls) - c_call_us
    return [
        limit("import sluice, numpy not imported", statistics.median(imports), 5, "ms"),
        limit("sluice.softmax(x, out=y) over the C call, one row of 256", over, 3, "us"),
    ]
