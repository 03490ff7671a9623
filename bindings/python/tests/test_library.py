"""Finding and judging the shared library, with stand-ins made by the C compiler."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "sluice"
COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no cc")

STANDIN = """
unsigned sluice_version(void) { return VERSION; }
const char *sluice_build_info(void) { return "a stand-in"; }
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package without a library of its own."""
    to = tmp_path / "site" / "sluice"
    shutil.copytree(PACKAGE, to, ignore=shutil.ignore_patterns("lib", "__pycache__"))
    return to


def build(path, version=None, source=STANDIN):
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.with_suffix(".c")
    file.write_text(source)
    define = [f"-DVERSION={version}"] if version is not None else []
    subprocess.run([COMPILER, "-shared", "-fPIC", *define, "-o", str(path), str(file)], check=True)
    return path


def run(package, code, **environment):
    kept = {k: v for k, v in os.environ.items() if k not in ("SLUICE_LIBRARY", "LD_LIBRARY_PATH")}
    kept |= {"PYTHONPATH": str(package.parent), **{k: str(v) for k, v in environment.items()}}
    code = f"import sluice\nassert sluice.__file__.startswith({str(package)!r})\n{code}"
    # -S: a checkout that was made importable must not come first.
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=kept, cwd=package.parent)


def refusal(package, **environment):
    code = (
        "try: sluice.version()\n"
        "except sluice.Unavailable as e: print(e)\n"
        "else: print('loaded', sluice.library_path(), sluice.build_info())"
    )
    done = run(package, code, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return done.stdout.strip()


def test_nothing_there(package):
    text = refusal(package)
    if text.startswith("loaded"):
        pytest.skip("the system has a libsluice.so.0")
    assert f"{package}/lib/libsluice.so.0: " in text
    assert "cannot open shared object file" in text
    assert "; libsluice.so.0: " in text
    assert text.count("To mend it, ") == 1


def test_the_named_file_and_no_other(package, tmp_path):
    missing = tmp_path / "missing.so"
    text = refusal(package, SLUICE_LIBRARY=missing)
    assert str(missing) in text and "/lib/libsluice.so.0" not in text
    assert "correct SLUICE_LIBRARY" in text


def test_no_library_at_all(package, tmp_path):
    text = tmp_path / "text.so"
    text.write_text("not an object file")
    assert f"{text}: " in refusal(package, SLUICE_LIBRARY=text)


@needs_compiler
def test_a_library_of_another_kind(package, tmp_path):
    other = build(tmp_path / "other.so", source="int other(void) { return 1; }")
    assert f"{other} has no sluice_version" in refusal(package, SLUICE_LIBRARY=other)


@needs_compiler
@pytest.mark.parametrize("version, dotted", [(99, "0.0.99"), (10000, "1.0.0"), (20100, "2.1.0")])
def test_a_version_that_does_not_fit(package, tmp_path, version, dotted):
    other = build(tmp_path / "other.so", version)
    text = refusal(package, SLUICE_LIBRARY=other)
    assert f"{other} is version {dotted}, this package needs 0.1.0" in text


@needs_compiler
@pytest.mark.parametrize("version", [100, 101, 9999])
def test_a_version_that_fits(package, tmp_path, version):
    other = build(tmp_path / "other.so", version)
    assert refusal(package, SLUICE_LIBRARY=other) == f"loaded {other} a stand-in"


@needs_compiler
def test_order(package, tmp_path):
    """The named file, then the package's own, then the loader's."""
    named = build(tmp_path / "named.so", 103)
    own = build(package / "lib" / "libsluice.so.0", 102)
    systems = build(tmp_path / "system" / "libsluice.so.0", 101)
    path = {"LD_LIBRARY_PATH": systems.parent}
    assert str(named) in refusal(package, SLUICE_LIBRARY=named, **path)
    assert str(own) in refusal(package, **path)
    own.unlink()
    assert str(systems) in refusal(package, **path)


@needs_compiler
def test_an_own_copy_that_does_not_load_is_an_error(package, tmp_path):
    systems = build(tmp_path / "system" / "libsluice.so.0", 101)
    own = package / "lib" / "libsluice.so.0"
    own.parent.mkdir()
    own.write_text("truncated")
    text = refusal(package, LD_LIBRARY_PATH=systems.parent)
    assert f"{own}: " in text and not text.startswith("loaded")


@needs_compiler
def test_a_function_that_is_missing(package, tmp_path):
    """It troubles only who calls it, and says which library lacks what."""
    other = build(tmp_path / "other.so", 100)
    done = run(package, "print(sluice.build_info()); sluice.op_names()", SLUICE_LIBRARY=other)
    assert done.stdout == "a stand-in\n"
    assert f"Unavailable: sluice: {other} has no sluice_op_count" in done.stderr


def test_symbols_stay_private():
    """RTLD_LOCAL: another library must not bind to ours by accident."""
    import ctypes

    import sluice

    sluice.version()
    assert not hasattr(ctypes.CDLL(None), "sluice_version")
