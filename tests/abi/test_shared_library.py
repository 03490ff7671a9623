"""What the shared library shows to the world: its symbols, what it needs, and that loading it does nothing."""

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = os.environ.get("SLUICE_LIBRARY")
# Parts of glibc alone: no C++ runtime, no CUDA.
MAY_NEED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}
# What the oldest machine that builds us brings.
NEWEST_GLIBC = (2, 39)

pytestmark = pytest.mark.skipif(not LIBRARY, reason="SLUICE_LIBRARY names no library")


def readelf(*options):
    return subprocess.run(
        ["readelf", "--wide", *options, LIBRARY], check=True, capture_output=True, text=True
    ).stdout


def header_functions():
    text = "".join(path.read_text() for path in sorted((ROOT / "include").rglob("*.h")))
    return set(re.findall(r"^SLUICE_API\b[^;(]*?(\w+)\(", text, re.M))


def exported_symbols():
    names = set()
    for line in readelf("--dyn-syms").splitlines():
        fields = line.split()
        # Num: Value Size Type Bind Vis Ndx Name
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK", "UNIQUE") and fields[6] not in ("UND", "ABS"):
            names.add(fields[7].split("@")[0])
    return names


def test_exports_are_the_functions_of_the_header():
    assert len(header_functions()) >= 14
    assert exported_symbols() == header_functions()


def test_exports_are_the_functions_of_abi_json():
    path = ROOT / "bindings" / "abi.json"
    if not path.exists():
        pytest.skip("no bindings/abi.json")
    functions = {function["name"] for function in json.loads(path.read_text())["functions"]}
    assert exported_symbols() == functions


def test_symbols_carry_our_version():
    versions = set(re.findall(r"@@?(SLUICE_\S+)", readelf("--dyn-syms")))
    assert versions == {"SLUICE_0.1"}


def test_name_and_needs():
    dynamic = readelf("--dynamic")
    assert re.search(r"SONAME.*\[libsluice\.so\.0\]", dynamic)
    needed = set(re.findall(r"NEEDED.*\[(.+)\]", dynamic))
    assert {name for name in needed if not name.startswith("ld-linux")} <= MAY_NEED, needed
    assert not re.search(r"R(UN)?PATH", dynamic), "a search path of the machine that built it"
    assert "TEXTREL" not in dynamic


def test_newest_glibc():
    versions = {
        tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", readelf("--version-info"))
    }
    print("newest symbol version: GLIBC_" + ".".join(map(str, max(versions))))
    assert max(versions) <= NEWEST_GLIBC


def test_stack_is_not_executable():
    assert re.search(r"GNU_STACK.* RW ", readelf("--program-headers"))


def in_a_process(code):
    """What a fresh Python prints that has the library loaded as `library`."""
    head = f"import ctypes, os\nbefore = len(os.listdir('/proc/self/task'))\nlibrary = ctypes.CDLL({LIBRARY!r})\n"
    return subprocess.run(
        [sys.executable, "-c", head + code], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_loading_starts_no_thread_and_opens_no_driver():
    found = in_a_process(
        "maps = open('/proc/self/maps').read()\n"
        "print(len(os.listdir('/proc/self/task')) - before, 'libcuda' in maps, 'nvidia' in maps)"
    )
    assert found == "0 False False"


def test_no_device_is_a_status_with_a_reason():
    class Desc(ctypes.Structure):
        _fields_ = (
            ("struct_size", ctypes.c_size_t),
            ("device_type", ctypes.c_int32),
            ("device_id", ctypes.c_int32),
            ("rest", ctypes.c_byte * 16),
        )

    library = ctypes.CDLL(LIBRARY)
    library.sluice_last_error.restype = ctypes.c_char_p
    context = ctypes.c_void_p()
    desc = Desc(ctypes.sizeof(Desc), 2, 0)
    status = library.sluice_context_create(ctypes.byref(desc), ctypes.byref(context))
    if status == 0:
        library.sluice_context_destroy(context)
        pytest.skip("this machine has a CUDA device")
    assert status == 5000
    text = library.sluice_last_error().decode()
    assert text.startswith("context_create: ") and len(text) > 30 and "\n" not in text


def test_unloading_is_harmless():
    """A program may close the library while its threads still run: the library stays."""
    code = (
        "import _ctypes\n"
        "context = ctypes.c_void_p()\n"
        "assert library.sluice_context_create(None, ctypes.byref(context)) == 0\n"
        "library.sluice_context_destroy(context)\n"
        "_ctypes.dlclose(library._handle)\n"
        "print('libsluice' in open('/proc/self/maps').read())"
    )
    assert in_a_process(code) == "True"
