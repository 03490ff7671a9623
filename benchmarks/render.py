"""Puts the figures of benchmarks/results into the documents: python benchmarks/render.py [--check]

In README.md and docs/ what stands between `<!-- results: OP VIEW -->` and `<!-- end of results -->` is made
here, for each device that has results. Plots lie beside the results and carry the hash of the file they were
drawn from. --check changes nothing and fails where a document or a plot differs from the results.
"""

import argparse
import hashlib
import importlib.metadata
import json
import re
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
MARKED = re.compile(r"(<!-- results: (\w+) (\w+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


# ---- Results ---------------------------------------------------------------------------------------------


def write_results(path, document):
    """One record a line, so that a change of one figure is a change of one line."""
    head = {key: value for key, value in document.items() if key != "records"}
    lines = [f'  "{key}": {json.dumps(value)},' for key, value in head.items()]
    records = ",\n".join("    " + json.dumps(record) for record in document["records"])
    path.write_text("{\n" + "\n".join(lines) + '\n  "records": [\n' + records + "\n  ]\n}\n")


def versions(device):
    """Those of the peers that are installed."""
    found = {}
    for library in ("torch", "triton") if device == "cuda" else ("numpy", "onnxruntime", "torch"):
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def best_peers(record):
    """The fastest time of each library, whatever the formulation."""
    best = {}
    for name, us in record["peers"].items():
        library = name.split(",")[0]
        best[library] = min(us, best.get(library, us))
    return best


def holds(limit):
    value, bound = limit["value"], limit["limit"]
    return value >= bound if limit["sense"] == ">=" else value <= bound


def results_of(op):
    """By path, devices in the order of their names."""
    return {path: json.loads(path.read_text()) for path in sorted(HERE.glob(f"results/*/{op}.json"))}


# ---- Tables ----------------------------------------------------------------------------------------------


def table(head, rows, left=1):
    marks = ["---" if i < left else "---:" for i in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, marks, *rows])


def device_of(document):
    return document.get("cpu") or document["gpu"]


def caption(document):
    threads = f", {document['threads']} threads" if "threads" in document else ""
    driver = f", driver {document['driver']}, CUDA {document['cuda']}" if "gpu" in document else ""
    peers = ", ".join(f"{library} {version}" for library, version in document["versions"].items())
    changed = " with changes" if document["commit"].endswith("-dirty") else ""
    build = f"sluice {document['library']} at `{document['commit'][:12]}`{changed}, {document['date']}"
    return f"{device_of(document)}{threads}{driver}; {build}" + (f"; {peers}" if peers else "")


def microseconds(us):
    return f"{us:,.0f}" if us >= 100 else f"{us:.1f}" if us >= 10 else f"{us:.2f}"


def rows_of(times, libraries):
    for t in times:
        best = best_peers(t)
        yield [
            t["case"],
            t["dtype"],
            microseconds(t["us"]),
            f"{t['bytes'] / t['us'] / 1e3:.1f}",
            f"{t['ratio']:.2f}",
            *(f"{best[library] / t['us']:.1f}x" if library in best else "" for library in libraries),
        ]


def times_view(document, keep):
    """Tables of the cases that `keep` lets through, forward and backward."""
    times = [r for r in document["records"] if r["kind"] == "time" and keep(r)]
    libraries = sorted({library for t in times for library in best_peers(t)})
    parts = []
    for direction in ("forward", "backward"):
        chosen = [t for t in times if t["pass"] == direction]
        if chosen:
            head = [
                direction,
                "dtype",
                "us",
                "GB/s",
                "share of the floor",
                *(f"over {name}" for name in libraries),
            ]
            parts.append(table(head, rows_of(chosen, libraries), left=2))
    return "\n\n".join(parts)


def summary(document, _path):
    def keep(t):
        if t["pass"] != "forward" or "gpu" not in document:
            return t["pass"] == "forward" and (
                t["case"].startswith(("64 MiB", "dim 1")) or t["dtype"] != "float32"
            )
        lengths = (128, 1000, 4096, 32768, 128256, 1048576)
        rows = re.fullmatch(r"\d+ MiB, (\d+) columns", t["case"])
        return t["dtype"] != "float16" and (int(rows[1]) in lengths if rows else t["case"][0] != "l")

    return caption(document) + ":\n\n" + times_view(document, keep)


def times(document, _path):
    return caption(document) + ":\n\n" + times_view(document, lambda t: True)


def accuracy(document, _path):
    """One line an input, one column a kind of result."""
    lines, kinds = {}, []
    for r in document["records"]:
        if r["kind"] == "limit" and r["unit"] == "ulp":
            kind, name = r["case"].split(": ", 1)
            kinds += [kind] if kind not in kinds else []
            beyond = f", {r['value']:.2f} beyond \\|d\\|" if "default" in kind else ""
            value = f"{r.get('largest', r['value']):.2f}{beyond}"
            lines.setdefault(name, {})[kind] = value if holds(r) else f"**{value}**"
    parts = []
    for chosen in (
        [k for k in kinds if "log" not in k and "lse" not in k],
        [k for k in kinds if k.endswith(("log", "lse"))],
    ):
        rows = [[name, *(values.get(kind, "") for kind in chosen)] for name, values in lines.items()]
        if rows:
            parts.append(table(["ulp", *chosen], rows))
    return caption(document) + ":\n\n" + "\n\n".join(parts) if parts else ""


def limits(document, _path):
    found = [r for r in document["records"] if r["kind"] == "limit" and r["unit"] != "ulp"]
    rows = [
        [
            r["case"],
            f"{r['value']:.2f}",
            f"{r['sense']} {r['limit']} {r['unit']}",
            "yes" if holds(r) else "**no**",
        ]
        for r in found
    ]
    return caption(document) + ":\n\n" + table(["case", "measured", "bar", "holds"], rows)


def plots(document, path):
    image = picture(path).relative_to(ROOT)
    return f"![Share of the memory floor against row length, {device_of(document)}](ROOT/{image})"


VIEWS = {"accuracy": accuracy, "summary": summary, "times": times, "limits": limits, "plots": plots}


def rendered(text, depth):
    """`text` with every marked part made anew; `depth` folders lie between the document and the root."""

    def part(match):
        op, view = match.group(2), match.group(3)
        parts = [VIEWS[view](document, path) for path, document in results_of(op).items()]
        parts = [part for part in parts if part]
        body = "\n\n".join(parts) if parts else "Nothing has been measured yet."
        body = body.replace("(ROOT/", "(" + "../" * depth)
        return f"{match.group(1)}\n{body}\n\n{match.group(4)}"

    return MARKED.sub(part, text)


# ---- Plots -----------------------------------------------------------------------------------------------


def picture(path):
    return path.with_suffix(".png")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def drawn_from(image):
    """The hash that plot() left in a PNG's text chunk "Source"."""
    data, at = image.read_bytes() if image.exists() else b"", 8
    while at + 8 <= len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if kind == b"tEXt" and body.startswith(b"Source\0"):
            return body[7:].decode("latin-1")
        at += 12 + length
    return ""


SWEPT = re.compile(r"(\d+ MiB), (\d+) columns")


def panels_of(document):
    """{(pass, dtype): cases} of the row lengths that were swept, and the size of the tensors."""
    found = {}
    for r in document["records"]:
        swept = SWEPT.fullmatch(r["case"])
        if swept and r["kind"] == "time":
            found.setdefault(swept[1], {}).setdefault((r["pass"], r["dtype"]), []).append(r)
    size = max(found, key=lambda size: sum(map(len, found[size].values())))
    return {key: cases for key, cases in found[size].items() if len(cases) > 2}, size


def plot(path):
    """Share of the floor against row length, one line a library, one panel a pass and dtype."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print("skipped: the plot: matplotlib is not installed")
        return
    document = json.loads(path.read_text())
    panels, size = panels_of(document)
    # A dtype has a row of panels; where there is but one, as on the CPU, they stand side by side.
    dtypes = list(dict.fromkeys(dtype for _, dtype in panels))
    passes = list(dict.fromkeys(direction for direction, _ in panels))
    shape = (len(dtypes), len(passes))
    figure, axes = pyplot.subplots(*shape, figsize=(5.5 * shape[1], 4 * shape[0]), squeeze=False)
    for (direction, dtype), chosen in panels.items():
        axis = axes[dtypes.index(dtype)][passes.index(direction)]
        lines = {"sluice": [(t["shape"][-1], t["ratio"]) for t in chosen]}
        for t in chosen:
            for library, us in best_peers(t).items():
                lines.setdefault(library, []).append((t["shape"][-1], t["floor_us"] / us))
        for library, points in lines.items():
            axis.plot(*zip(*points), marker="o", label=library, linewidth=2 if library == "sluice" else 1)
        axis.set(xscale="log", ylim=(0, 1.05), xlabel="columns", ylabel="share of the floor")
        axis.set_title(f"{path.stem} {direction}, {dtype}, {size}")
        axis.grid(alpha=0.3)
        axis.legend()
    figure.suptitle(device_of(document), fontsize=9)
    figure.tight_layout()
    figure.savefig(picture(path), dpi=100, metadata={"Source": digest(path), "Software": None})
    pyplot.close(figure)


# ---- Command ---------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail where something differs")
    check = parser.parse_args().check

    stale = []
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = document.read_text()
        depth = len(document.relative_to(ROOT).parts) - 1
        made = rendered(text, depth)
        if made != text:
            stale.append(str(document.relative_to(ROOT)))
            if not check:
                document.write_text(made)
    for path in sorted(HERE.glob("results/*/*.json")):
        if drawn_from(picture(path)) != digest(path):
            stale.append(str(picture(path).relative_to(ROOT)))
            if not check:
                plot(path)

    for name in stale:
        print(f"{name} differs from benchmarks/results" if check else f"wrote {name}")
    if check and stale:
        sys.exit("run: python benchmarks/render.py")


if __name__ == "__main__":
    main()
