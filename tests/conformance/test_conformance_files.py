"""The conformance files are what make.py makes, and both formats say the same."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_files_are_fresh():
    made = subprocess.run([sys.executable, HERE / "make.py", "--check"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def test_every_operation_has_cases():
    umbrella = (HERE.parents[1] / "include" / "sluice" / "sluice.h").read_text()
    for line in umbrella.splitlines():
        if line.startswith("#include <sluice/ops/"):
            op = line.split("/")[-1].removesuffix(".h>")
            cases = json.loads((HERE / f"{op}.json").read_text())
            assert cases["op"] == op
            assert sum(case["expect"]["status"] != "SLUICE_OK" for case in cases["cases"]) >= 5


def test_formats_agree():
    for path in HERE.glob("*.json"):
        names = [case["name"] for case in json.loads(path.read_text())["cases"]]
        lines = path.with_suffix(".cases").read_text().splitlines()
        assert [line.split()[1] for line in lines if line.startswith("case ")] == names
