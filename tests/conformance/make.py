#!/usr/bin/env python3
"""Writes the conformance cases: <op>.json, and the same as a flat text, <op>.cases. With --check, only compares.

Every number here is exact or correctly rounded: inputs are made of integers and powers of two, and expectations come
from decimal arithmetic of forty digits. So the files are the same whatever machine makes them. README.md documents
both formats.
"""

import argparse
import json
import sys
from pathlib import Path

import softmax
import softmax_backward

HERE = Path(__file__).parent
OPERATIONS = {"softmax": softmax.cases, "softmax_backward": softmax_backward.cases}


def as_json(op, cases):
    """One line per member of a case, so that a change shows as a small difference."""
    lines = [f'{{"op": {json.dumps(op)}, "cases": [']
    for number, case in enumerate(cases):
        members = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in case.items()]
        end = "}" if number == len(cases) - 1 else "},"
        lines.append(" {" + ",\n  ".join(members) + end)
    return "\n".join(lines) + "\n]}\n"


def shape_text(shape):
    return ",".join(map(str, shape)) or "-"


def fill_text(fill):
    if isinstance(fill, list):
        return " ".join(["list", *fill])
    if "hash" in fill:
        return "hash {hash} {bits} {minus} {shift}".format(**fill)
    if "periodic" in fill:
        return " ".join(["periodic", *fill["periodic"]])
    return "ascending {ascending}".format(**fill)


def as_text(op, cases):
    lines = ["sluice-cases 1", f"op {op}"]
    for case in cases:
        lines += ["", f"case {case['name']}"]
        lines += [f"desc {field} {value}" for field, value in case["desc"].items()]
        for kind in ("inputs", "outputs"):
            for name, tensor in case[kind].items():
                parts = [kind[:-1], name, tensor["dtype"], shape_text(tensor["shape"])]
                if kind == "inputs":
                    parts.append(fill_text(tensor["fill"]))
                lines.append(" ".join(parts))
                if "device" in tensor:
                    lines.append("device {} {} {}".format(name, *tensor["device"]))
        if "workspace" in case:
            lines.append(f"workspace {case['workspace']}")
        expect = case["expect"]
        lines.append(f"status {expect['status']}")
        if "text" in expect:
            lines.append(f"text {expect['text']}")
        for name, values in expect.items():
            if name in ("status", "text"):
                continue
            if isinstance(values, dict):
                lines.append(" ".join(["at", name, *map(str, values["at"])]))
                values = values["values"]
            lines.append(" ".join(["values", name, *values]))
        lines += [
            f"tolerance {name} {t.get('ulp', 0)} {t.get('absolute', 0)}"
            for name, t in case["tolerance"].items()
        ]
        lines.append("end")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    check = parser.parse_args().check
    stale = []
    for op, cases in OPERATIONS.items():
        made = cases()
        names = [case["name"] for case in made]
        assert len(set(names)) == len(names), f"{op}: two cases of one name"
        for suffix, text in ((".json", as_json(op, made)), (".cases", as_text(op, made))):
            path = HERE / (op + suffix)
            if check:
                if not path.exists() or path.read_text() != text:
                    stale.append(path.name)
            else:
                path.write_text(text)
    if stale:
        sys.exit(f"stale, run tests/conformance/make.py: {', '.join(stale)}")


if __name__ == "__main__":
    main()
