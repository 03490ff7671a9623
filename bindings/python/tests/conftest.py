"""What the tests share: dtypes, a generator, other Python processes, and the library's name on top."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sluice
from reference import FLOATS


def pytest_report_header():
    try:
        return f"sluice: {sluice.library_path()}, {sluice.build_info()}"
    except sluice.Unavailable as missing:
        return str(missing)


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture(params=FLOATS)
def dtype(request):
    return FLOATS[request.param]


@pytest.fixture
def python():
    """Runs code in another process, with the package that is tested here; gives what it prints."""

    def run(code):
        home = str(Path(sluice.__file__).parents[1])
        path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))
        command, environment = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
