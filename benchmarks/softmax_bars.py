"""What softmax on the CPU is held to: each bar becomes a record of kind "limit"."""

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


def limits(times):
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
