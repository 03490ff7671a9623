"""Adds up what the stages of scripts/test left in their folders of build/results.

Reads each stage's checks.tsv: a line is `passed|failed|skipped NAME REASON`, or `cases RUNNER FILE`, where
FILE is JUnit XML of ctest or pytest. Lists what failed and what was skipped, and ends with
`N passed, N failed, N skipped`.
"""

from __future__ import annotations

import collections
import re
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    name: str
    verdict: str
    reason: str


def junit_cases(path: Path) -> Iterator[Case]:
    """The cases of one file in the dialect of pytest, GoogleTest or ctest."""
    for case in ElementTree.parse(path).iter("testcase"):
        group, name = case.get("classname", ""), case.get("name", "")
        name = name if group in ("", name) else f"{group}.{name}"
        skipped = case.find("skipped")
        bad = [child for tag in ("failure", "error") for child in case.findall(tag)]
        if bad:
            yield Case(name, "failed", words(bad[0].get("message"), bad[0].text))
        elif skipped is not None or case.get("status") in ("notrun", "disabled"):
            yield Case(name, "skipped", skip_reason(skipped, case.findtext("system-out") or ""))
        else:
            yield Case(name, "passed", "")


def words(*texts: str | None) -> str:
    """The first lines of the first text that has any, without GoogleTest's line of file and number."""
    for text in texts:
        lines = [line.strip() for line in (text or "").splitlines()]
        lines = [line for line in lines if line and not re.fullmatch(r"\S+:\d+", line)]
        if lines:
            return "; ".join(lines[:3])
    return ""


def skip_reason(skipped: ElementTree.Element | None, said: str) -> str:
    """Where the message names only the runner's own rule, the reason is in the text or in what the test said."""
    if skipped is None:
        return "disabled"
    message = skipped.get("message", "")
    if message == "collection skipped":  # pytest, of a whole file
        return re.sub(r"(?s).*Skipped: (.*).\)", r"\1", skipped.text or "")
    if not message.startswith("SKIP_"):
        return words(message) or "disabled"
    before = re.search(r"^(.*)\n\[  SKIPPED \]", said, re.MULTILINE)  # GoogleTest, run by ctest case by case
    return before[1] if before else words(*reversed(said.splitlines())) or message


def ctest_cases(path: Path) -> Iterator[Case]:
    """ctest's own entries; one that left GoogleTest's XML counts by its cases instead."""
    for entry in junit_cases(path):
        inner = path.parent / "gtest" / f"{entry.name}.xml"
        if not inner.exists():
            yield entry
            continue
        cases = list(junit_cases(inner))
        yield from (case._replace(name=f"{entry.name}: {case.name}") for case in cases)
        if entry.verdict == "failed" and all(case.verdict != "failed" for case in cases):
            yield entry  # it ended badly after its last case


def stage_cases(folder: Path) -> Iterator[Case]:
    for line in (folder / "checks.tsv").read_text().splitlines():
        verdict, name, rest = line.split("\t")
        if verdict != "cases":
            yield Case(name, verdict, rest)
            continue
        path = Path(rest)
        try:
            cases = list(ctest_cases(path) if path.name == "ctest.xml" else junit_cases(path))
        except (OSError, ElementTree.ParseError, ValueError) as error:
            yield Case(name, "failed", f"left no results: {error}")
            continue
        yield from cases or [Case(name, "failed", "ran no case")]


def skipped_by_reason(cases: list[Case]) -> dict[str, collections.Counter[str]]:
    """How often each test was skipped; its parameters, "test[a]" or "suite.test/a", are left out."""
    found: dict[str, collections.Counter[str]] = {}
    for case in cases:
        if case.verdict == "skipped":
            test = (
                case.name.partition("[")[0]
                if case.name.endswith("]")
                else re.sub(r"(\..*)/.*", r"\1", case.name)
            )
            found.setdefault(case.reason, collections.Counter())[test] += 1
    return found


def main(folders: list[Path]) -> int:
    cases = [
        case._replace(name=f"{folder.name}: {case.name}")
        for folder in folders
        for case in stage_cases(folder)
    ]
    by_verdict = collections.Counter(case.verdict for case in cases)

    for reason, names in skipped_by_reason(cases).items():
        print(f"\nskipped ({names.total()}): {reason}")
        listed = ", ".join(name + (f" ({count})" if count > 1 else "") for name, count in names.items())
        print(
            textwrap.fill(
                listed, 110, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False
            )
        )

    for case in cases:
        if case.verdict == "failed":
            print(f"\nFAILED {case.name}" + (f": {case.reason}" if case.reason else ""))

    print()
    print(", ".join(f"{by_verdict[verdict]} {verdict}" for verdict in ("passed", "failed", "skipped")))
    return 1 if by_verdict["failed"] or not by_verdict["passed"] else 0


if __name__ == "__main__":
    sys.exit(main([Path(argument) for argument in sys.argv[1:]]))
