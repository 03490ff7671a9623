"""Times peers on a GPU as gpu_race.cu times ours: replays of CUDA graphs of several calls, in turns.

A contestant is a function of a buffer set's index that enqueues on torch's current stream and returns its
result. The module of an operation, <op>_peers_cuda, has contestants(case), which answers {name: function}
and {name: reason} of those that are absent.
"""

import importlib
import math
import multiprocessing
import os
import statistics

import torch
import torch._inductor.config

# compile_ahead() has a process for each core. A choice that was tuned while they shared the GPU must not stay.
torch._inductor.config.compile_threads = 1
torch._inductor.config.autotune_local_cache = False

SAMPLE_US = 1000  # of one replay: what launching a graph takes does not count then
FASTEST = 5e6  # bytes a microsecond that nobody exceeds by much


class Replay:
    def __init__(self, call, sets, calls):
        self.calls = calls
        # Kept, or the next call would be given the same memory, still in the cache.
        results = [None] * sets
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for i in range(calls):
                results[i % sets] = call(i % sets)
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def enqueue(self):
        self.begin.record()
        self.graph.replay()
        self.end.record()

    def us(self):
        return self.begin.elapsed_time(self.end) * 1e3 / self.calls


def warmed(call, sets, least_us):
    """Calls in a graph; afterwards everything is compiled and loaded."""
    torch.cuda.synchronize()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
    for i, mark in enumerate(marks):
        call(i % sets)
        mark.record()
    torch.cuda.synchronize()
    once = min(a.elapsed_time(b) for a, b in zip(marks, marks[1:])) * 1e3
    if once < 200:  # perhaps it was the host that took this long
        once = least_us
    return min(4096, max(sets, math.ceil(SAMPLE_US / once)))


def distance(a, b):
    a, b = a.float(), b.float()
    return float((a - b).norm() / b.norm())


def race(calls, case, quick):
    """Microseconds of one call by name, and who had to stay out. The first is who the others must agree with."""
    sets, replays, absent, right = case["buffer_sets"], {}, {}, None
    for name, call in calls.items():
        try:
            count = warmed(call, sets, max(case["bytes"] / FASTEST, 1.5))
            right = call(0).clone() if right is None else right  # a copy: others write to the same memory
            if not (off := distance(call(0), right)) < 0.02:
                raise ValueError(f"differs by {off:.3g} of the norm")
            replays[name] = Replay(call, sets, count)
            replays[name].enqueue()
        except Exception as refused:  # a peer that cannot do a case must not end the run
            absent[name] = (str(refused).splitlines() or [type(refused).__name__])[0][:80]
    torch.cuda.synchronize()

    names = list(replays)
    turn = sum(replay.us() * replay.calls for replay in replays.values())
    budget = (6_000 if quick else 25_000) * len(names)
    samples = {name: [] for name in names}
    for sample in range(int(min(31, max(5 if quick else 9, budget / turn))) if names else 0):
        shift = sample % len(names)
        for name in names[shift:] + names[:shift]:
            replays[name].enqueue()
        torch.cuda.synchronize()
        for name, replay in replays.items():
            samples[name].append(replay.us())
    return {name: statistics.median(taken) for name, taken in samples.items()}, absent


# ---- Compiling ahead -------------------------------------------------------------------------------------


def compile_case(op, case):
    """Fills the compilers' caches on disk; what fails here is reported by the race."""
    torch.set_num_threads(1)
    calls, _ = importlib.import_module(f"{op}_peers_cuda").contestants(dict(case, buffer_sets=1))
    for call in calls.values():
        try:
            call(0)
        except Exception:
            continue
    torch.cuda.synchronize()
    del calls
    torch.cuda.empty_cache()


def compile_ahead(op, cases):
    """Most of a run would be torch.compile and Triton on one core: all cores do it before anything is timed."""
    workers = min(len(os.sched_getaffinity(0)), 12, len(cases) // 2)
    if workers < 2:
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        pool.starmap(compile_case, [(op, case) for case in cases], chunksize=1)


def measure(op, cases, quick):
    """For each case {name: us} and {name: reason}."""
    compile_ahead(op, cases)
    module = importlib.import_module(f"{op}_peers_cuda")
    for case in cases:
        calls, absent = module.contestants(case)
        times, refused = race(calls, case, quick)
        yield times, {**absent, **refused}
        del calls
        torch.cuda.empty_cache()
