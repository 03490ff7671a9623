"""Compiles and runs every C and Python block of the documents: python docs/check_snippets.py [--library PATH]

A block marked `c` is a whole program, compiled as C11 with warnings as errors; one marked `python` is a
script. Each must end with status 0. Blocks with any other mark are not looked at.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(c|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def documents():
    yield from sorted(ROOT.glob("*.md"))
    for folder in ("docs", "benchmarks", "bindings/python"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def newest_library():
    built = sorted(ROOT.glob("build/*/libsluice.so.0"), key=lambda path: path.stat().st_mtime)
    if not built:
        sys.exit("no library under build/: build one, or name it with --library")
    return built[-1]


def commands(language, code, folder, library):
    """What to run, one after the other, for a block."""
    if language == "python":
        (folder / "block.py").write_text(code)
        return [[sys.executable, "block.py"]]
    (folder / "block.c").write_text(code)
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    places = [f"-I{ROOT / 'include'}", str(library), f"-Wl,-rpath,{library.parent}"]
    return [[os.environ.get("CC", "cc"), *warnings, "block.c", *places, "-o", "block"], ["./block"]]


def run(language, code, library):
    """None, or what went wrong."""
    environment = dict(os.environ, SLUICE_LIBRARY=str(library), PYTHONPATH=str(ROOT / "bindings" / "python"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command in commands(language, code, folder, library):
            answer = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
            if answer.returncode:
                return answer.stderr.strip() or f"{command[0]} ended with {answer.returncode}"
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", type=Path, help="libsluice.so.0 (default: the newest under build/)")
    arguments = parser.parse_args()
    library = (arguments.library or newest_library()).resolve()
    if not shutil.which(os.environ.get("CC", "cc")):
        sys.exit("no C compiler: set CC")

    failures = count = 0
    for document in documents():
        text = document.read_text()
        for block in BLOCK.finditer(text):
            count += 1
            line = text.count("\n", 0, block.start()) + 1
            name = f"{document.relative_to(ROOT)}:{line} ({block.group(1)})"
            wrong = run(block.group(1), block.group(2), library)
            print(f"{'FAILED' if wrong else 'ok    '} {name}")
            if wrong:
                failures += 1
                print(wrong)
    print(f"{count} blocks, {failures} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
