"""What Python adds: the time of `import sluice`, and of a call over the same call from C. On a GPU, also what a
call from C adds to a bare launch."""

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

# The host's time: as many calls at once as the benchmark in C makes, fewer than a stream takes without waiting.
GPU_CALL = """
import statistics, time
import sluice, torch
x = torch.randn((1, 256), device="cuda")
y = torch.empty_like(x)
softmax = sluice.softmax
samples = []
for _ in range(61):
    start = time.perf_counter()
    for _ in range(256):
        softmax(x, out=y)
    samples.append((time.perf_counter() - start) / 256 * 1e6)
    torch.cuda.synchronize()
print(statistics.median(samples[20:]))
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


def measure(library, call):
    """`call`: the benchmark's record of a call from C; it has launch_us if that went to a GPU."""
    gpu = "launch_us" in call
    found = []
    if gpu:
        over = call["us"] - call["launch_us"]
        found.append(limit("sluice_softmax over a bare launch, one row of 256", over, 1, "us"))
    try:
        # The first import writes byte code; the others are what a user meets.
        imports = [] if gpu else [python(IMPORT, library) for _ in range(16)][1:]
        calls = [python(GPU_CALL if gpu else CALL, library) for _ in range(3)]
    except RuntimeError as reason:
        print(f"skipped: Python's overheads: {reason}")
        return found
    if imports:
        found.append(limit("import sluice, numpy not imported", statistics.median(imports), 5, "ms"))
    over = statistics.median(calls) - call["us"]
    found.append(limit("sluice.softmax(x, out=y) over the C call, one row of 256", over, 3, "us"))
    return found
