"""Measures operations beside the memory floor and beside other libraries: python benchmarks/run.py softmax

Our side is the executable <op>_bench, which also finds the floor: the fastest of a list of plain kernels
that move the same bytes. The peers are what can be imported here. On the CPU everything is run in several
rounds, and each figure is the median of its rounds. A complete run writes
benchmarks/results/<device>/<op>.json; render.py puts the figures into the documents.
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


def gpu_facts():
    """Of the first GPU; empty where there is none."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    name, driver = answer.splitlines()[0].split(", ")
    return {"gpu": name, "driver": driver}


def device_facts(device):
    """What the results say of the device, and the folder they go to."""
    facts = {"cpu": " ".join(cpu_name())} if device == "cpu" else gpu_facts()
    if not facts:
        sys.exit("no GPU: nvidia-smi names none")
    name = next(iter(facts.values()))
    return facts, re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def commit():
    def git(*arguments):
        asked = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)
        return asked.stdout.strip() if asked.returncode == 0 else ""

    head = git("rev-parse", "HEAD")
    # Results and documents may differ from the commit; what was measured may not.
    changed = git(
        "status", "--porcelain", "--", "include", "src", "benchmarks/*.c*", "CMakeLists.txt", "cmake"
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
    """Its records, as they come."""
    command = [executable, "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            yield json.loads(line)
        trouble = running.stderr.read().strip()
    if running.returncode:
        sys.exit(trouble or f"{executable} failed with {running.returncode}")


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
    only = f"^{re.escape(case_id)}$"
    lines = list(bench(executable, "--device", "cpu", "--case", only, *(["--quick"] if quick else [])))
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
    if "us_among_peers" in first:
        record["us_among_peers"] = first["us_among_peers"]
    record["bytes"] = first["bytes"]
    record["declared_bytes"] = first["declared_bytes"]
    record["floors"] = {n: median([r["floors"][n] for r in rounds]) for n in first["floors"]}
    return record


def describe(record):
    line = f"{record['us']:11,.1f} us {record['bytes'] / record['us'] / 1e3:8.2f} GB/s"
    line += f"  {record['ratio']:.2f} of the floor"
    for library, us in render.best_peers(record).items():
        line += f"  {us / record['us']:.2f}x {library}"
    return line


def chosen(executable, arguments):
    listed = [line["id"] for line in bench(executable, "--device", arguments.device, "--list")]
    cases = [case for case in listed if re.search(arguments.case, case)]
    if not cases:
        sys.exit(f"no case fits {arguments.case!r}; there are: " + "; ".join(listed))
    return cases


def measure_on_cpu(op, arguments):
    executable = arguments.bench or find_bench(op)
    peers = None if arguments.no_peers else importlib.import_module(f"{op}_peers")
    cases = chosen(executable, arguments)
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
    overhead = overheads.measure(arguments.library, {"us": statistics.median(calls)}) if calls else []
    bars = importlib.import_module(f"{op}_bars").limits(records, "cpu")
    errors = importlib.import_module(f"{op}_accuracy").measure(arguments.library) if calls else []
    return machine, records + bars + overhead + errors


def measure_on_gpu(op, arguments):
    """Our side in one go, which takes turns with the floor by itself; then the peers, with us among them."""
    executable = arguments.bench or find_bench(op)
    cases = chosen(executable, arguments)
    machine, taken, floors, call = {}, [], {}, None
    quick = ["--quick"] if arguments.quick else []
    for line in bench(executable, "--device", "cuda", "--case", arguments.case, *quick):
        if line["kind"] == "machine":
            machine = line
        elif line["kind"] == "call":
            call = line
        elif line["kind"] == "floor":
            floors.setdefault(line["id"], {})[line["name"]] = line["us"]
        else:
            taken.append({**line, "floors": floors[line["id"]], "peers": {}})
            print(f"[{len(taken):2}/{len(cases)}] {line['id']:66}{describe(combine(taken[-1:]))}", flush=True)

    if not arguments.no_peers:
        add_peers(op, taken, arguments)
    records = [combine([record]) for record in taken]
    overhead = overheads.measure(arguments.library, call) if call else []
    return machine, records + importlib.import_module(f"{op}_bars").limits(records, "cuda") + overhead


def add_peers(op, taken, arguments):
    sys.path.insert(0, str(ROOT / "bindings" / "python"))
    if arguments.library:
        os.environ["SLUICE_LIBRARY"] = str(arguments.library.resolve())
    try:
        import gpu_peers
    except ImportError as absent:
        print(f"skipped: all peers: {absent}")
        return
    missing = {}
    for record, (times, absent) in zip(taken, gpu_peers.measure(op, taken, arguments.quick)):
        missing.update({name: f"{record['id']}: {reason}" for name, reason in absent.items()})
        if "sluice" in times:
            record["us_among_peers"] = float(f"{times.pop('sluice'):.6g}")
        record["peers"] = {name: float(f"{us:.6g}") for name, us in times.items()}
        figures = "  ".join(f"{name} {us:.2f}" for name, us in record["peers"].items())
        print(f"[peers] {record['id']:66}  {figures}", flush=True)
    for name, reason in missing.items():
        print(f"skipped: {name}: {reason}")


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
    parser.add_argument("--device", choices=["cpu", "cuda"], help="cuda where there is a GPU, else cpu")
    parser.add_argument(
        "--quick", action="store_true", help="one short round; writes results only with --out"
    )
    parser.add_argument("--rounds", type=int, help="on the CPU, how often everything is measured (3)")
    parser.add_argument("--case", default="", help="only the cases in whose name this regex is found")
    parser.add_argument("--no-peers", action="store_true", help="our side and the floor alone")
    parser.add_argument("--bench", type=Path, help="the executable (default: the newest under build/)")
    parser.add_argument("--library", type=Path, help="libsluice.so for what is measured through Python")
    parser.add_argument("--commit", help="the commit that was built, where there is no git")
    parser.add_argument("--out", type=Path, help="folder of results (default: benchmarks/results/<device>)")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    complete = not (arguments.quick or arguments.case or arguments.no_peers)

    arguments.device = arguments.device or ("cuda" if gpu_facts() else "cpu")
    facts, slug = device_facts(arguments.device)
    for op in arguments.ops:
        measure = measure_on_gpu if arguments.device == "cuda" else measure_on_cpu
        machine, records = measure(op, arguments)
        document = {
            "commit": arguments.commit or commit(),
            "date": datetime.date.today().isoformat(),
            **facts,
            **{key: machine[key] for key in ("cuda", "library", "threads") if key in machine},
            "versions": render.versions(arguments.device),
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
