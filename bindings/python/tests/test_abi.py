"""abi.json and what is made of it: up to date, and right about the header."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest
from sluice import _abi

BINDINGS = Path(__file__).parent.parent.parent
ABI = json.loads((BINDINGS / "abi.json").read_text())


def generator():
    """abi.py as a module, with the header it read."""
    pytest.importorskip("clang.cindex", reason="no libclang")
    sys.path.insert(0, str(BINDINGS))
    try:
        import abi
    finally:
        sys.path.remove(str(BINDINGS))
    return abi


def test_nothing_is_stale():
    pytest.importorskip("clang.cindex", reason="no libclang")
    done = subprocess.run([sys.executable, BINDINGS / "abi.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_stale_file_is_seen(tmp_path, monkeypatch):
    abi = generator()
    (tmp_path / "python" / "sluice").mkdir(parents=True)
    for name in ("abi.json", "python/sluice/_abi.py"):
        (tmp_path / name).write_text(
            (BINDINGS / name).read_text().replace("sluice_softmax_desc", "sluice_other")
        )
    monkeypatch.setattr(abi, "HERE", tmp_path)
    monkeypatch.setattr(sys, "argv", ["abi.py", "--check"])
    with pytest.raises(SystemExit) as stale:
        abi.main()
    assert "sluice_other" in stale.value.code and "stale; run bindings/abi.py" in stale.value.code


NO_PARAM = "sluice_status sluice_f(const sluice_context *context, const sluice_tensor *x);"
NO_DIRECTION = """
typedef struct sluice_f_desc {
  size_t struct_size;
  const sluice_tensor *a; /**< No word. */
} sluice_f_desc;
/** @param[in] desc d. */
sluice_status sluice_f(const sluice_f_desc *desc);
"""


@pytest.mark.parametrize(
    "header, text",
    [
        (NO_PARAM, "sluice_f: neither @param[in] nor @param[out] for context"),
        (NO_DIRECTION, "sluice_f_desc.a: its comment starts with neither [in] nor [out]"),
    ],
)
def test_a_comment_that_says_too_little(tmp_path, monkeypatch, header, text):
    abi = generator()
    (tmp_path / "sluice").mkdir()
    (tmp_path / "sluice" / "sluice.h").write_text(
        "#include <stddef.h>\n#define SLUICE_VERSION 100u\n"
        "typedef enum sluice_status { SLUICE_OK = 0 } sluice_status;\n"
        "typedef struct sluice_context sluice_context; typedef struct sluice_tensor sluice_tensor;\n"
        f"{header}\nsluice_status sluice_f_workspace(void);\n"
    )
    monkeypatch.setattr(abi, "INCLUDE", tmp_path)
    with pytest.raises(SystemExit, match=r"abi\.py") as refused:
        abi.describe(abi.Header(abi.parse()))
    assert text in refused.value.code


def test_layouts():
    for struct in ABI["structs"]:
        name = "".join(word.capitalize() for word in struct["name"].split("_")[1:])
        made = getattr(_abi, name)
        assert ctypes.sizeof(made) == struct["size"]
        assert [f[0] for f in made._fields_] == [f[0] for f in struct["fields"]]
        assert [getattr(made, f[0]).offset for f in made._fields_] == [f[2] for f in struct["fields"]]


def test_operations():
    softmax = _abi.OPS["softmax"]
    assert [(t.name, t.direction, t.optional) for t in softmax.operands] == [
        ("x", "in", False),
        ("y", "out", True),
    ]
    assert {t.name for t in softmax.tensors if t.direction == "out"} == {"lse", "max"}
    assert softmax.options["empty_row"] == {"nan": 0, "zero": 1, "uniform": 2}
    backward = _abi.OPS["softmax_backward"]
    assert backward.options["diagonal"] == softmax.options["diagonal"]  # through "As forward"
    assert [t.optional for t in backward.operands] == [True, True]
    for op in _abi.OPS.values():
        assert {op.function, op.query} <= set(_abi.FUNCTIONS)
        assert "reserved0" not in op.options and "struct_size" not in op.options


def test_what_softmax_offers_is_in_python():
    """A field that is added to a descriptor must not be forgotten in the function."""
    import inspect

    import sluice

    names = {"lse": "return_lse", "max": "return_max"}
    for op, function in (("softmax", sluice.softmax), ("softmax_backward", sluice.softmax_backward)):
        described = _abi.OPS[op]
        wanted = {t.name for t in described.tensors} | set(described.options)
        offered = set(inspect.signature(function).parameters)
        if op == "softmax":
            wanted = {names.get(name, name) for name in wanted}
        assert wanted <= offered, wanted - offered


def test_comments_of_callbacks_and_constants():
    assert ABI["version"] == ABI["constants"]["SLUICE_VERSION"] == _abi.SLUICE_VERSION
    assert ABI["abi"] == ABI["version"] // 10000
    assert {c["name"] for c in ABI["callbacks"]} >= {"sluice_hooks.alloc", "sluice_hooks.parallel_for.body"}
    assert ABI["opaque"] == ["sluice_context"]
