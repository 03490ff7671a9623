"""What importing the package and making the first call do to a process."""

import statistics

import sluice


def test_import_is_short(python):
    """Less than 5 ms of this process's own time, which other processes on the machine do not lengthen."""
    code = "import time; t = time.process_time(); import sluice; print(time.process_time() - t)"
    times = [float(python(code)) for _ in range(10)]
    print(f"import sluice: {1e3 * statistics.median(times):.2f} ms, at best {1e3 * min(times):.2f} ms")
    assert min(times) < 5e-3


def test_import_loads_nothing(python):
    loaded = python(
        "import sys, sluice, os;"
        "print([m for m in ('numpy', 'ctypes', 'torch', 'jax', 'cupy') if m in sys.modules],"
        "len(os.listdir('/proc/self/task')), 'libsluice' in open('/proc/self/maps').read())"
    )
    assert loaded.split() == ["[]", "1", "False"]


def test_a_call_on_the_cpu_loads_no_array_library_and_no_cuda(python):
    found = python(
        "import sys, os, array, sluice;"
        "y = sluice.softmax(array.array('f', [1.0, 2.0, 3.0, 4.0]));"
        "maps = open('/proc/self/maps').read();"
        "print([m for m in ('numpy', 'torch', 'jax', 'cupy') if m in sys.modules],"
        "len(os.listdir('/proc/self/task')), 'libcuda' in maps, 'libsluice' in maps)"
    )
    assert found.split() == ["[]", "1", "False", "True"]


def test_names():
    for name in sluice.__all__:
        assert getattr(sluice, name) is not None
    assert set(sluice.__all__) <= set(dir(sluice))
    assert sluice.ops.softmax is sluice.softmax
    assert sluice.version().split(".")[0] == sluice.__version__.split(".")[0]
    assert sluice.build_info().startswith(sluice.version())
    try:
        sluice.hardmax  # noqa: B018
    except AttributeError as missing:
        assert "hardmax" in str(missing)
    else:
        raise AssertionError


def test_help_has_what_the_manual_promises():
    for function in (sluice.softmax, sluice.softmax_backward, sluice.bind, sluice.Context, sluice.supports):
        for section in ("Parameters\n", "-------"):
            assert section in function.__doc__
    for function in (sluice.softmax, sluice.softmax_backward):
        for section in ("Returns\n", "Raises\n", "Notes\n", "Examples\n"):
            assert section in function.__doc__
