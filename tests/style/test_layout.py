"""Where things live, who may include whom, and how a file begins. Each failure names the file."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".py", ".rs", ".jl"}
C_LIKE = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh"}
# Made by a program, and as long as that makes them.
GENERATED = re.compile(r"^bindings/.*(_abi\.py|LibSluice\.jl|bindings\.rs)$|\.inc$")
LONGEST = 500


def listed_files():
    """Files of the checkout that are not ignored, whether or not they are committed."""
    made = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return sorted(Path(line) for line in made.stdout.splitlines() if (ROOT / line).is_file())


FILES = listed_files()
CODE = [path for path in FILES if path.suffix in SOURCES and not GENERATED.search(path.as_posix())]
OPS = [
    match[1]
    for match in re.finditer(
        r"^#include <sluice/ops/(\w+)\.h>", (ROOT / "include/sluice/sluice.h").read_text(), re.M
    )
]


def text_of(path):
    return (ROOT / path).read_text()


def complain(found):
    assert not found, "\n".join(found)


# ---- Who may include whom ------------------------------------------------------------------------------------------

# The rooms of src/ that each room may look into, beside itself.
ROOMS = {
    "core": set(),
    "cpu": {"core"},
    "cuda": {"core"},
    "comm": {"core", "cuda"},
    "abi": {"core", "cpu", "cuda", "comm"},
    "ops": {"core", "cpu", "cuda", "comm", "abi"},
}
# Libraries, by how their includes begin, and the rooms that may use them. CUDA's own headers never reach a host file
# that a build without CUDA compiles.
LIBRARIES = {
    "hwy/": {"cpu", "ops"},
    "cuda": {"cuda", "ops", "comm", "tests", "benchmarks"},
    "cub/": {"cuda", "ops"},
    "thrust/": set(),
    "nccl": {"comm"},
    "omp.h": set(),
    "gtest/": {"tests"},
    "benchmark/": {"benchmarks"},
    "dlpack/": {"tests"},
    "onnxruntime": {"bindings"},
}


def includes(path):
    """(written with <>, name) of every include."""
    pattern = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
    return [(mark == "<", name) for mark, name in pattern.findall(text_of(path))]


def room_of(path):
    return path.parts[1] if path.parts[0] == "src" else path.parts[0]


def target_of(name):
    """Where an include of the tree leads: (top folder or room, rest of the path)."""
    parts = Path(name).parts
    return (parts[0], parts[1:]) if len(parts) > 1 else (None, parts)


def breach_in_src(path, name):
    room, own_op = room_of(path), path.parts[2] if room_of(path) == "ops" and len(path.parts) > 3 else None
    target, rest = target_of(name)
    if target not in ROOMS:
        # The build writes the list of operations and what it knows of itself.
        return None if name in ("sluice_ops.inc", "sluice_build_info.inc") else "leads out of src"
    if target != room:
        return None if target in ROOMS[room] else f"{room} may not include {target}"
    if room != "ops" or not own_op:
        return None if room != "ops" or rest[-1] == f"{rest[0]}.hpp" else "only contracts of operations"
    if rest[0] != own_op and rest != (rest[0], f"{rest[0]}.hpp"):
        return f"of another operation only {rest[0]}/{rest[0]}.hpp"
    return None


def breach_outside(path, name):
    room, (target, rest) = path.parts[0], target_of(name)
    if room in ("bindings", "examples"):
        return None if target not in ROOMS else "only the public headers"
    if path.parts[:2] == ("tests", "testkit") and name == "abi/context.hpp":
        return None  # a context that pretends to be another device's
    if room in ("tests", "benchmarks") and target in ROOMS:
        # tests/ops and src/ops share the first part of their paths: a file of the own folder is no breach.
        if (ROOT / room / name).exists():
            return None
        contract = target == "ops" and len(rest) == 2 and rest[1] == f"{rest[0]}.hpp"
        replaces = (path.as_posix(), name) == ("tests/testkit/any_isa.cpp", "cpu/isa.hpp")
        return None if target == "core" or contract or replaces else "only core and contracts of operations"
    return None


def test_includes():
    found = []
    for path in FILES:
        if path.suffix not in C_LIKE:
            continue
        for angled, name in includes(path):
            if name.startswith("sluice/"):
                continue
            why = None
            if path.parts[0] == "include":
                why = (
                    None
                    if re.fullmatch(r"std(def|int|bool)\.h", name)
                    else "a public header needs only sluice's"
                )
            for library, rooms in LIBRARIES.items():
                if angled and name.startswith(library) and room_of(path) not in rooms:
                    why = f"not for {room_of(path)}"
            if not angled and path.parts[0] == "src":
                why = breach_in_src(path, name)
            elif not angled:
                why = breach_outside(path, name)
            if why:
                found.append(f"{path} includes {name}: {why}")
    complain(found)


# ---- Files ---------------------------------------------------------------------------------------------------------


def test_top_level():
    allowed = {
        *(
            "include",
            "src",
            "bindings",
            "tests",
            "docs",
            "examples",
            "benchmarks",
            "scripts",
            "cmake",
            "packaging",
        ),
        *(".ci", ".github"),
    }
    complain(
        [f"{path}: no such room" for path in FILES if len(path.parts) > 1 and path.parts[0] not in allowed]
    )


@pytest.mark.parametrize("op", OPS)
def test_an_operation_has_its_files(op):
    wanted = [
        f"include/sluice/ops/{op}.h",
        *(f"src/ops/{op}/{op}{end}" for end in (".hpp", ".cpp", "_cpu.cpp", "_cuda.cu")),
        f"tests/ops/{op}_test.cpp",
        f"tests/conformance/{op}.json",
        f"tests/conformance/{op}.cases",
        f"docs/ops/{op}.md",
    ]
    missing = [name for name in wanted if not (ROOT / name).exists()]
    if not any((ROOT / f"benchmarks/{op}_bench{end}").exists() for end in (".cpp", ".cu")):
        missing.append(f"benchmarks/{op}_bench.cpp")
    complain([f"{name} is missing" for name in missing])


def test_length():
    complain(
        [
            f"{path} has {lines} lines, at most {LONGEST}"
            for path in CODE
            if path.parts[0] != "include" and (lines := len(text_of(path).splitlines())) > LONGEST
        ]
    )


def test_names_say_something():
    vague = re.compile(r"(^|_)(utils?|common|misc|helpers?)(_|$)")
    complain([f"{path}: name it after what it decides" for path in FILES if vague.search(path.stem)])


def test_sources_begin_with_a_title():
    """A comment that opens with the file's own name, or for Python a docstring."""
    found = []
    for path in CODE:
        lines = [line for line in text_of(path).splitlines() if not line.startswith("#!")]
        if not lines:  # a package's empty marker
            continue
        first = next(line for line in lines if line.strip())
        if path.parts[0] in ("examples", "scripts") and path.suffix in C_LIKE:
            fine = re.match(r"(//|/\*) ?\S", first)  # what a user copies says what it shows
        elif path.suffix in C_LIKE:
            fine = re.match(rf"(//|/\*\*?) (@file )?{re.escape(path.name)}\b", first)
        elif path.suffix == ".py":
            fine = re.match(r'r?"""\S', first)
        else:
            fine = re.match(r"(//!?|#=?|\"\"\") ?\S", first)
        if not fine:
            found.append(f"{path} begins with {first!r}")
    complain(found)


def test_public_names():
    found = []
    for path in FILES:
        if path.parts[0] != "include" or path.suffix != ".h":
            continue
        code = re.sub(r"/\*.*?\*/", "", text_of(path), flags=re.S)
        own = set(re.findall(r"\b(?:sluice|SLUICE)_\w+", code))
        found += [f"{path}: {name} ends in _t, which POSIX owns" for name in own if name.endswith("_t")]
        for kind, name in re.findall(r"\b(struct|enum|union) (\w+)", code):
            if not name.startswith("sluice_") and name != "CUstream_st":
                found.append(f"{path}: {kind} {name} lacks our prefix")
        for word in (r"\blong\b", r"\bbool\b", r"\bshort\b", r"\.\.\."):
            found += [f"{path}: {word} in the ABI" for _ in re.findall(word, code)]
    complain(found)


def test_nothing_is_left_for_later():
    # Spelled so that this file does not find itself.
    later = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|not (yet )?imple" r"mented", re.I)
    found = []
    for path in FILES:
        if path.suffix not in SOURCES | {".md", ".txt", ".cmake", ".sh", ".toml", ".yml"}:
            continue
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if later.search(line) and path != Path(__file__).relative_to(ROOT):
                found.append(f"{path}:{number}: {line.strip()}")
    complain(found)


# ---- The rules themselves ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name", "fine"),
    [
        ("src/core/view.cpp", "core/view.hpp", True),
        ("src/core/view.cpp", "abi/guard.hpp", False),
        ("src/cpu/pool.cpp", "core/limits.hpp", True),
        ("src/cpu/pool.cpp", "cuda/device.hpp", False),
        ("src/abi/context.cpp", "cuda/device.hpp", True),
        ("src/abi/context.cpp", "ops/softmax/softmax.hpp", False),
        ("src/ops/softmax/softmax.cpp", "ops/softmax/run.hpp", True),
        ("src/ops/softmax/softmax.cpp", "ops/topk/topk.hpp", True),
        ("src/ops/softmax/softmax.cpp", "ops/topk/select.hpp", False),
        ("src/ops/registry.cpp", "ops/topk/topk.hpp", True),
        ("src/ops/registry.cpp", "ops/topk/select.hpp", False),
        ("src/ops/registry.cpp", "sluice_ops.inc", True),
        ("src/ops/softmax/softmax.cpp", "softmax.hpp", False),
    ],
)
def test_the_table_in_src(path, name, fine):
    assert (breach_in_src(Path(path), name) is None) == fine


@pytest.mark.parametrize(
    ("path", "name", "fine"),
    [
        ("tests/ops/a_test.cpp", "driver/driver.hpp", True),
        ("tests/ops/a_test.cpp", "core/dtype.hpp", True),
        ("tests/ops/a_test.cpp", "ops/softmax/softmax.hpp", True),
        ("tests/ops/a_test.cpp", "ops/softmax/run.hpp", False),
        ("tests/ops/a_test.cpp", "cpu/pool.hpp", False),
        ("tests/ops/a_test.cpp", "abi/context.hpp", False),
        ("tests/testkit/a.cpp", "abi/context.hpp", True),
        ("bindings/xla/a.cpp", "core/dtype.hpp", False),
        ("examples/c/a.c", "abi/context.hpp", False),
        ("examples/c/a.c", "local.h", True),
    ],
)
def test_the_table_outside(path, name, fine):
    assert (breach_outside(Path(path), name) is None) == fine
