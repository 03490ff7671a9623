"""What softmax is held to: each bar becomes a record of kind "limit"."""

import re

import render


def limit(case, value, sense, bound, unit):
    return {
        "kind": "limit",
        "case": case,
        "value": round(value, 4),
        "sense": sense,
        "limit": bound,
        "unit": unit,
    }


def limits(times, device):
    return limits_on_gpu(times) if device == "cuda" else limits_on_cpu(times)


# ---- CPU -------------------------------------------------------------------------------------------------


def limits_on_cpu(times):
    found = []
    by_id = {f"{t['pass']} {t['dtype']} {t['case']}": t for t in times}

    for t in times:
        if t["pass"] != "forward" or t["dtype"] != "float32" or "columns" not in t["case"]:
            continue
        if not t["case"].startswith(("64 MiB", "one row")):
            continue
        for library, us in render.best_peers(t).items():
            bound = 1.5 if library == "numpy" else 1.0
            found.append(
                limit(f"float32, {t['case']}: speed over {library}'s", us / t["us"], ">=", bound, "x")
            )

    for case, bound in (
        ("256 MiB, 4096 columns", 0.85),
        ("256 MiB, 128256 columns", 0.85),
        ("dim 1 of (32, 1024, 2048)", 0.75),
    ):
        t = by_id.get(f"forward float32 {case}")
        if t:
            found.append(
                limit(f"float32, {case}: share of the copy", t["ratio"], ">=", bound, "of the floor")
            )

    single = by_id.get("forward float32 256 MiB, 128256 columns")
    for dtype in ("bfloat16", "float16"):
        half = by_id.get(f"forward {dtype} 256 MiB, 128256 columns")
        if single and half:
            rate = (half["bytes"] / half["us"]) / (single["bytes"] / single["us"])
            found.append(
                limit(f"{dtype}, 256 MiB, 128256 columns: bytes a second", rate, ">=", 0.7, "of float32's")
            )
    return found


# ---- GPU -------------------------------------------------------------------------------------------------

# Least share of the floor, 256 MiB, by columns: float32, 16-bit dtypes.
FORWARD = {
    32: (0.96, 0.96),
    128: (0.96, 0.96),
    512: (0.96, 0.96),
    1000: (0.93, 0.93),
    1024: (0.96, 0.96),
    4096: (0.96, 0.96),
    4097: (0.93, 0.93),
    8192: (0.96, 0.96),
    16384: (0.96, 0.96),
    32768: (0.95, 0.93),
    65536: (0.93, 0.90),
    128255: (0.88, 0.88),
    128256: (0.93, 0.90),
    262144: (0.93, 0.90),
    524288: (0.89, 0.86),
    1048576: (0.85, 0.80),
}
BACKWARD = {512: 0.96, 4096: 0.96, 32768: 0.96, 65536: 0.92, 128256: 0.92, 262144: 0.92, 1048576: 0.85}
FEW_ROWS = {1: (3.5, 3.5), 32: (12, 8)}  # microseconds at most, rows of 128256

LOGSUMEXP = 0.94
OTHER_AXIS = 0.90
MASKED = round(1 / 1.08, 3)
BEST_PEER = 1.02  # of its time at most


def share_of_floor(t):
    """The bar of a case, or None."""
    wide = t["dtype"] == "float32"
    if t["case"].startswith("logsumexp"):
        return LOGSUMEXP
    if t["case"].startswith("dim 1"):
        return OTHER_AXIS
    if t["case"].endswith(("causal", "lengths")):
        return MASKED
    columns = re.fullmatch(r"\d+ MiB, (\d+) columns", t["case"])
    if not columns:
        return None
    if t["pass"] == "backward":
        return BACKWARD.get(int(columns[1]))
    return FORWARD[int(columns[1])][0 if wide else 1]


def limits_on_gpu(times):
    found = []
    for t in times:
        name = f"{t['pass']} {t['dtype']}, {t['case']}"
        bound = share_of_floor(t)
        if bound:
            found.append(limit(f"{name}: share of the floor", t["ratio"], ">=", bound, "of the floor"))
        few = re.fullmatch(r"(\d+) rows?, \d+ columns", t["case"])
        if few:
            bound = FEW_ROWS[int(few[1])][0 if t["dtype"] == "float32" else 1]
            found.append(limit(name, t["us"], "<=", bound, "us"))
        if t["peers"]:
            # Ours as timed among the peers, through Python, where that was possible.
            us = t.get("us_among_peers", t["us"])
            best = min(t["peers"], key=t["peers"].get)
            case = f"{name}: time over the fastest peer's, {best}"
            found.append(limit(case, us / t["peers"][best], "<=", BEST_PEER, "x"))
    return found
