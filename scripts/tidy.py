"""Runs clang-tidy over the host sources of a build: tidy.py BUILD.

A file whose own text, compile command and surroundings (all headers, configuration, clang-tidy itself) are
those of its last clean run is not looked at again.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / ".venv/bin/clang-tidy"


def surroundings() -> bytes:
    digest = hashlib.sha256(subprocess.run([TOOL, "--version"], check=True, capture_output=True).stdout)
    headers = sorted(path for room in ("include", "src") for path in (ROOT / room).rglob("*.h*"))
    for path in [ROOT / ".clang-tidy", *headers]:
        digest.update(str(path).encode() + path.read_bytes())
    return digest.digest()


def finding(build: Path, source: Path, stamp: Path) -> str:
    """What clang-tidy says of one file, "" if nothing."""
    run = subprocess.run([TOOL, "-p", build, "--quiet", source], capture_output=True, text=True)
    if run.returncode == 0:
        stamp.touch()
        return ""
    return run.stdout + run.stderr


def main(build: Path) -> int:
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)
    around = surroundings()

    due: list[tuple[Path, Path]] = []
    fresh: set[Path] = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if source.suffix != ".cpp" or ROOT / "src" not in source.parents:
            continue
        key = hashlib.sha256(around + entry["command"].encode() + source.read_bytes()).hexdigest()
        stamp = stamps / f"{source.stem}-{key[:20]}"
        fresh.add(stamp)
        if not stamp.exists():
            due.append((source, stamp))
    for stale in set(stamps.iterdir()) - fresh:
        stale.unlink()

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        findings = [text for text in pool.map(lambda job: finding(build, *job), due) if text]
    print(f"clang-tidy: looked at {len(due)} of {len(fresh)} files, {len(findings)} with findings")
    print("".join(findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
