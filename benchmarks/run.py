"""Measures operations beside the memory floor and beside other libraries: python benchmarks/run.py softmax

Our side is the executable <op>_bench, which also finds the floor: the fastest of a list of plain kernels
that move the same bytes. The peers are what can be imported here. Everything is run in several rounds, and
each figure is the median of its rounds. A complete run writes benchmarks/results/<device>/<op>.json;
render.py puts the figures into the documents.
"""

import argparse
import datetime
import importlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import overheads
import render

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


# ---- This machine ----------------------------------------------------------------------------------------


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return re.sub(r"\((R|TM)\)|CPU|@.*", "", line.split(":")[1]).split()
    return [platform.machine()]


def device_facts(device):
    """What the results say of the device, and the folder they go to."""
    assert device == "cpu"
    name = " ".join(cpu_name())
    return {"cpu": name}, re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def commit():
    def git(*arguments):
        asked = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)
        return asked.stdout.strip() if asked.returncode == 0 else ""

    head = git("rev-parse", "HEAD")
    # Results and documents may differ from the commit; what was measured may not.
    changed = git(
        "status", "--porcelain", "--", "include", "src", "benchmarks/*.cpp", "CMakeLists.txt", "cmake"
    )
    return (head or "unknown") + ("-dirty" if changed else "")


def find_bench(op):
    built = sorted(ROOT.glob(f"build/**/{op}_bench"), key=lambda path: path.stat().st_mtime)
    if not built:
        sys.exit(
            f"{op}_bench is not built: cmake --preset cpu -DSLUICE_BENCHMARKS=ON && cmake --build build/cpu"
        )
    return built[-1]


# ---- Measuring -------------------------------------------------------------------------------------------


def bench(executable, *arguments):
    answer = subprocess.run([executable, *arguments], capture_output=True, text=True, check=False)
    if answer.returncode:
        sys.exit(answer.stderr.strip() or f"{executable} failed with {answer.returncode}")
    return [json.loads(line) for line in answer.stdout.splitlines()]


def time_peer(prepare, sets, quick):
    """Microseconds of one call, warm: the median of samples of at least 200 us."""
    call = prepare(sets)
    turn, once = 0, float("inf")
    for _ in range(3):
        start = time.perf_counter()
        call(turn % sets)
        once, turn = min(once, time.perf_counter() - start), turn + 1
        if once > 1:
            break
    batch = max(1, min(100_000, round(200e-6 / once + 0.5)))
    least = 1 if once > 1 else 3 if quick else 5
    count = int(min(41, max(least, (0.06 if quick else 0.4) / (once * batch))))
    samples = []
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(batch):
            call(turn % sets)
            turn += 1
        samples.append((time.perf_counter() - start) / batch)
    return statistics.median(samples) * 1e6


def one_round(executable, case_id, peers, quick):
    """One case beside its peers: our record, the floor's kernels, the peers' times and who was absent."""
    lines = bench(executable, "--case", case_id, *(["--quick"] if quick else []))
    ours = next(line for line in lines if line["kind"] in ("time", "call"))
    ours["floors"] = {line["name"]: line["us"] for line in lines if line["kind"] == "floor"}
    ours["peers"], absent = {}, {}
    if peers and ours["kind"] == "time":
        found, absent = peers.contestants(ours)
        for name, prepare in found.items():
            try:
                ours["peers"][name] = round(time_peer(prepare, ours["buffer_sets"], quick), 3)
            except Exception as refused:  # a peer that cannot do a case must not end the run
                absent[name] = str(refused).splitlines()[0][:80]
    machine = next(line for line in lines if line["kind"] == "machine")
    return ours, absent, machine


def combine(rounds):
    """The median over rounds; the floor is the fastest kernel of each round."""

    def median(values):
        return float(f"{statistics.median(values):.6g}")

    first = rounds[0]
    record = {"kind": "time"}
    record.update({k: first[k] for k in ("op", "pass", "case", "dtype", "shape", "axis", "variant")})
    record["us"] = median([r["us"] for r in rounds])
    record["us_spread"] = median([r["us_spread"] for r in rounds])
    record["floor_us"] = median([r["floor_us"] for r in rounds])
    record["ratio"] = round(record["floor_us"] / record["us"], 4)
    record["peers"] = {n: median([r["peers"][n] for r in rounds if n in r["peers"]]) for n in first["peers"]}
    record["bytes"] = first["bytes"]
    record["floors"] = {n: median([r["floors"][n] for r in rounds]) for n in first["floors"]}
    return record


def describe(record):
    line = f"{record['us']:11,.1f} us {record['bytes'] / record['us'] / 1e3:8.2f} GB/s"
    line += f"  {record['ratio']:.2f} of the floor"
    for library, us in render.best_peers(record).items():
        line += f"  {us / record['us']:.2f}x {library}"
    return line


def measure(op, arguments):
    executable = arguments.bench or find_bench(op)
    peers = None if arguments.no_peers else importlib.import_module(f"{op}_peers")
    listed = [line["id"] for line in bench(executable, "--list")]
    cases = [case for case in listed if arguments.case in case]
    if not cases:
        sys.exit(f"no case holds {arguments.case!r}; there are: " + "; ".join(listed))

    rounds, missing, machine = {case: [] for case in cases}, {}, {}
    for number in range(arguments.rounds):
        for i, case in enumerate(cases):
            head = f"[round {number + 1}/{arguments.rounds}, {i + 1:2}/{len(cases)}] {case}"
            print(f"{head:75}", end="", flush=True)
            ours, absent, machine = one_round(executable, case, peers, arguments.quick)
            rounds[case].append(ours)
            missing.update(absent)
            single = ours["kind"] == "call"
            print(f"{ours['us']:11.2f} us" if single else describe(combine([ours])))
    for library, reason in missing.items():
        print(f"skipped: {library}: {reason}")

    records = [combine(taken) for taken in rounds.values() if taken[0]["kind"] == "time"]
    calls = [taken["us"] for taken in rounds.get("call", [])]
    overhead = overheads.measure(arguments.library, statistics.median(calls)) if calls else []
    bars = importlib.import_module(f"{op}_bars").limits(records)
    errors = importlib.import_module(f"{op}_accuracy").measure(arguments.library) if calls else []
    return machine, records + bars + overhead + errors


# ---- Reporting -------------------------------------------------------------------------------------------


def report(op, document):
    times = [record for record in document["records"] if record["kind"] == "time"]
    limits = [record for record in document["records"] if record["kind"] == "limit"]
    for record in times:
        name = f"{record['pass']} {record['dtype']} {record['case']}"
        print(f"\n{name}: {describe(record)}  ({record['variant']})")
        for name, us in sorted(record["floors"].items(), key=lambda item: item[1]):
            print(f"    floor  {us:11,.1f} us  {name}")
        for name, us in sorted(record["peers"].items(), key=lambda item: item[1]):
            print(f"    peer   {us:11,.1f} us  {name}")
    print()
    for record in limits:
        holds = render.holds(record)
        bound = f"{record['sense']} {record['limit']} {record['unit']}"
        print(f"{'holds ' if holds else 'BROKEN'} {record['value']:8.3f}  {bound:24} {record['case']}")
    broken = sum(not render.holds(record) for record in limits)
    print(f"\n{op}: {len(times)} cases, {len(limits)} limits, {broken} broken")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ops", nargs="*", default=["softmax"], help="operations (default: softmax)")
    parser.add_argument("--device", choices=["cpu"], default="cpu")
    parser.add_argument(
        "--quick", action="store_true", help="one short round; writes results only with --out"
    )
    parser.add_argument("--rounds", type=int, help="how often everything is measured (3; with --quick 1)")
    parser.add_argument("--case", default="", help="only the cases whose name holds this text")
    parser.add_argument("--no-peers", action="store_true", help="our side and the floor alone")
    parser.add_argument("--bench", type=Path, help="the executable (default: the newest under build/)")
    parser.add_argument("--library", type=Path, help="libsluice.so for what is measured through Python")
    parser.add_argument("--commit", help="the commit that was built, where there is no git")
    parser.add_argument("--out", type=Path, help="folder of results (default: benchmarks/results/<device>)")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    complete = not (arguments.quick or arguments.case or arguments.no_peers)

    facts, slug = device_facts(arguments.device)
    for op in arguments.ops:
        machine, records = measure(op, arguments)
        document = {
            "commit": arguments.commit or commit(),
            "date": datetime.date.today().isoformat(),
            **facts,
            "library": machine["library"],
            "threads": machine["threads"],
            "versions": render.versions(),
            "records": records,
        }
        report(op, document)
        if arguments.out or complete:
            folder = arguments.out or HERE / "results" / slug
            folder.mkdir(parents=True, exist_ok=True)
            render.write_results(folder / f"{op}.json", document)
            print(f"wrote {os.path.relpath(folder / f'{op}.json')}")
            render.plot(folder / f"{op}.json")


if __name__ == "__main__":
    main()
