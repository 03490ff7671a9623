#!/usr/bin/env python3
"""The C header in a form that other languages can read.

Reads include/sluice/sluice.h, and all it includes, with libclang. Writes `abi.json`, which says everything
a binding needs, and from it `python/sluice/_abi.py`. Both are checked in, so that nobody who installs a
binding needs libclang.

    abi.py            writes both
    abi.py --check    writes nothing; fails with a diff where a file differs from what the header says now

Beside the declarations it reads what only comments say: the direction of operands (`@param[in]`,
`@param[out]`) and of a descriptor's tensors (`[in]`, `[out]`), the enum behind an int32_t field (its comment
starts with the enum's name, or with "As forward"), and which operand may be absent (its text says NULL). A
comment that leaves a direction out is an error that names the declaration.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from clang.cindex import Cursor, CursorKind, Index, TranslationUnit, Type, TypeKind

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parent / "include"
WIDTH = 110

# The two standard headers in our own words: libclang's wheel has none, and the result must not depend on the
# machine's.
STANDARD = {
    "stddef.h": "typedef __SIZE_TYPE__ size_t;",
    "stdint.h": "".join(
        f"typedef __{u.upper()}INT{bits}_TYPE__ {u}int{bits}_t;"
        for u in ("", "u")
        for bits in (8, 16, 32, 64)
    ),
}


def fail(where: str, what: str) -> NoReturn:
    sys.exit(f"abi.py: {where}: {what}")


# ---- reading the header ----


def parse() -> TranslationUnit:
    standard = INCLUDE / "standard"  # exists only in unsaved_files
    unit = Index.create().parse(
        str(INCLUDE / "sluice" / "sluice.h"),
        args=["-xc", "-std=c11", "--target=x86_64-linux-gnu", "-nostdinc", f"-I{INCLUDE}", f"-I{standard}"],
        unsaved_files=[(str(standard / name), text) for name, text in STANDARD.items()],
        options=TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD,
    )
    for problem in unit.diagnostics:
        fail(str(problem.location), problem.spelling)
    return unit


def comment(cursor: Cursor) -> str:
    """A comment's words on one line, without its stars."""
    lines = re.sub(r"^/\*\*<?|\*/$", "", cursor.raw_comment or "").splitlines()
    return " ".join(re.sub(r"^\s*\*\s?", "", line).strip() for line in lines).strip()


def prototype(kind: Type) -> Type | None:
    """The function type behind a pointer to one."""
    to = kind.get_canonical().get_pointee()
    return to if to.kind == TypeKind.FUNCTIONPROTO else None


def spelled(kind: Type) -> str:
    return "callback" if prototype(kind) else str(kind.spelling)


def parameters(cursor: Cursor) -> list[Cursor]:
    return [a for a in cursor.get_children() if a.kind == CursorKind.PARM_DECL]


def arguments(cursor: Cursor) -> list[list[str]]:
    return [[a.spelling, spelled(a.type)] for a in parameters(cursor)]


def callbacks(name: str, cursor: Cursor) -> list[dict[str, Any]]:
    """The function pointer that `cursor` declares, and before it those among its arguments."""
    signature = prototype(cursor.type)
    if signature is None:
        return []
    inner = [c for a in parameters(cursor) for c in callbacks(f"{name}.{a.spelling}", a)]
    return [*inner, {"name": name, "returns": signature.get_result().spelling, "args": arguments(cursor)}]


class Header:
    """Our declarations, by name, in the order of the header."""

    def __init__(self, unit: TranslationUnit) -> None:
        self.functions: dict[str, Cursor] = {}
        self.structs: dict[str, Cursor] = {}
        self.enums: dict[str, dict[str, int]] = {}
        self.opaque: list[str] = []
        self.constants: dict[str, int] = {}
        for c in unit.cursor.get_children():
            name = c.spelling
            if not name.lower().startswith("sluice_"):
                continue
            if c.kind == CursorKind.FUNCTION_DECL:
                self.functions[name] = c
            elif c.kind == CursorKind.ENUM_DECL:
                self.enums[name] = {v.spelling: v.enum_value for v in c.get_children()}
            elif c.kind == CursorKind.STRUCT_DECL and c.is_definition():
                self.structs[name] = c
            elif c.kind == CursorKind.STRUCT_DECL and name not in self.opaque:
                self.opaque.append(name)
            elif c.kind == CursorKind.MACRO_DEFINITION:
                words = [t.spelling for t in c.get_tokens()][1:]
                if len(words) == 1 and (number := re.fullmatch(r"(0x[0-9a-f]+|\d+)[uUlL]*", words[0])):
                    self.constants[name] = int(number[1], 0)
        self.opaque = [name for name in self.opaque if name not in self.structs]

    def fields(self, struct: str) -> list[Cursor]:
        return list(self.structs[struct].type.get_fields())

    def enum_of(self, struct: str, field: Cursor) -> str | None:
        """The enum that an int32_t field holds, by the first words of its comment."""
        text = comment(field)
        if text.startswith("As forward"):
            struct = struct.replace("_backward_desc", "_desc")
            text = next(comment(f) for f in self.fields(struct) if f.spelling == field.spelling)
        word = re.split(r"\W", text)[0]
        return word if word in self.enums else None


def operation(header: Header, function: str) -> dict[str, Any]:
    """What a generic caller needs to know of the op `function`, which stands beside its `_workspace`."""
    text = comment(header.functions[function])
    documented = {name: (way, words) for way, name, words in PARAMETER.findall(text)}
    kinds = dict(arguments(header.functions[function]))
    op: dict[str, Any] = {
        "name": function.removeprefix("sluice_"),
        "function": function,
        "query": f"{function}_workspace",
        "handle": pointee(next(iter(kinds.values()))),
        "desc": pointee(kinds["desc"]) if "desc" in kinds else None,
        "operands": [],
        "tensors": [],
        "options": [],
        "workspace": "workspace" in kinds,
        "stream": "stream" in kinds,
    }
    for name, kind in kinds.items():
        if name not in documented:
            fail(function, f"neither @param[in] nor @param[out] for {name}")
        if kind == "const sluice_tensor *":
            way, words = documented[name]
            op["operands"].append(
                {"name": name, "direction": way, "optional": bool(re.search(r"\bNULL\b", words))}
            )

    for field in header.fields(op["desc"]) if op["desc"] else ():
        name, kind = field.spelling, spelled(field.type)
        if kind == "const sluice_tensor *":
            found = re.match(r"\[(in|out)\]", comment(field))
            if not found:
                fail(f"{op['desc']}.{name}", "its comment starts with neither [in] nor [out]")
            op["tensors"].append({"name": name, "direction": found[1]})
        elif name != "struct_size" and not name.startswith("reserved"):
            enum = header.enum_of(op["desc"], field) if kind == "int32_t" else None
            op["options"].append({"name": name, "type": kind, **({"enum": enum} if enum else {})})
    return op


PARAMETER = re.compile(r"@param\[(in|out)\] (\w+) (.*?)(?=@param|@return|$)")


def pointee(kind: str) -> str:
    return kind.removeprefix("const ").removesuffix(" *")


def describe(header: Header) -> dict[str, Any]:
    version = header.constants["SLUICE_VERSION"]
    functions, structs = header.functions, header.structs
    return {
        "abi": version // 10000,
        "version": version,
        "functions": [
            {"name": name, "returns": c.result_type.spelling, "args": arguments(c)}
            for name, c in functions.items()
        ],
        "structs": [
            {
                "name": name,
                "size": c.type.get_size(),
                "fields": [
                    [f.spelling, spelled(f.type), f.get_field_offsetof() // 8] for f in header.fields(name)
                ],
            }
            for name, c in structs.items()
        ],
        "enums": [{"name": name, "values": values} for name, values in header.enums.items()],
        "opaque": header.opaque,
        "callbacks": [
            c for name in structs for f in header.fields(name) for c in callbacks(f"{name}.{f.spelling}", f)
        ],
        "constants": header.constants,
        "ops": [operation(header, name) for name in functions if f"{name}_workspace" in functions],
    }


# ---- abi.json ----


def pretty(value: Any, used: int = 0, indent: int = 0) -> str:
    """JSON with what fits on a line left on it, so that a diff shows one declaration a line."""
    flat = json.dumps(value)
    if not isinstance(value, (dict, list)) or used + len(flat) < WIDTH:
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, list):
        inner = [pad + pretty(v, indent + 1, indent + 1) for v in value]
    else:
        inner = [f'{pad}"{k}": ' + pretty(v, indent + len(k) + 5, indent + 1) for k, v in value.items()]
    left, right = "[]" if isinstance(value, list) else "{}"
    return "\n".join([left, ",\n".join(inner), " " * indent + right])


# ---- Python ----


CTYPES = {"void": "None", "double": "c_double", "size_t": "c_size_t", "const char *": "c_char_p"} | {
    f"{u}int{bits}_t": f"c_{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)
}


class PythonModule:
    """_abi.py, one thing a line and a comma after each, which is how formatters leave it."""

    def __init__(self, abi: dict[str, Any]) -> None:
        self.structs = {s["name"] for s in abi["structs"]}
        self.enums = {e["name"]: e["values"] for e in abi["enums"]}
        self.lines: list[str] = []
        put = self.put

        for name, value in [*abi["constants"].items(), *(v for e in self.enums.values() for v in e.items())]:
            put(f"{name} = {value}")
        for callback in abi["callbacks"]:
            put("", self.block(f"{self.title(callback['name'])} = CFUNCTYPE(", self.signature(callback), ")"))
        for struct in abi["structs"]:
            fields = [
                f'("{name}", {self.field(struct["name"], name, kind)})' for name, kind, _ in struct["fields"]
            ]
            put("", "", f"class {self.title(struct['name'])}(Structure):")
            put(self.block("    _fields_ = (", fields, ")"))
        put("", "", "# Size, then the offset of each field, as the C compiler lays them out.", "LAYOUTS = {")
        for struct in abi["structs"]:
            numbers = [struct["size"], *(offset for _, _, offset in struct["fields"])]
            put(self.block(f"    {self.title(struct['name'])}: (", numbers, "),"))
        put("}", "", "# Result, then arguments.", "FUNCTIONS = {")
        for f in abi["functions"]:
            if f["args"]:
                put(self.block(f'    "{f["name"]}": (', self.signature(f), "),"))
            else:
                put(f'    "{f["name"]}": ({self.type(f["returns"])},),')
        put("}", "", "OPS = {", *(self.op(op) for op in abi["ops"]), "}")

    def text(self) -> str:
        body = "\n".join(self.lines)
        names = {"CFUNCTYPE", "Structure", *re.findall(r"\bc_\w+", body)}
        # The order of import sorters: constants, classes, the rest, and numbers by their value.
        natural = sorted(names, key=lambda n: (n.islower(), re.sub(r"\d+", lambda d: d[0].zfill(3), n)))
        head = [
            '"""The C ABI as ctypes sees it. Made by bindings/abi.py from include/sluice: do not edit."""',
            "",
            self.block("from ctypes import (", natural, ")"),
            "",
            "from ._op import Op, Operand",
            "",
        ]
        return "\n".join([*head, body, ""])

    def put(self, *lines: str) -> None:
        self.lines += lines

    @staticmethod
    def block(head: str, items: Iterable[object], close: str) -> str:
        pad = " " * (len(head) - len(head.lstrip()))
        inner = [f"{pad}    {item}" for item in items]
        return "\n".join([head, *(i if "  # " in i else i + "," for i in inner), pad + close])

    @staticmethod
    def title(name: str) -> str:
        """sluice_softmax_desc: SoftmaxDesc."""
        return "".join(word.capitalize() for word in re.split(r"[_.]", name)[1:])

    def type(self, kind: str) -> str:
        """Pointers are c_void_p, which takes an address: callers keep alive what it points to. Enums are
        c_int32, which takes any code, known or not."""
        if kind in self.structs:
            return self.title(kind)
        if kind in self.enums:
            return "c_int32"
        if kind not in CTYPES and not kind.endswith("*") and kind not in ("sluice_stream", "callback"):
            fail(kind, "no ctypes counterpart is known")
        return CTYPES.get(kind, "c_void_p")

    def field(self, struct: str, name: str, kind: str) -> str:
        return self.title(f"{struct}.{name}") if kind == "callback" else self.type(kind)

    def signature(self, function: dict[str, Any]) -> list[str]:
        return [self.type(function["returns"])] + [
            f"{self.type(k)},  # {name}" for name, k in function["args"]
        ]

    def op(self, op: dict[str, Any]) -> str:
        def operands(key: str) -> str:
            rows = [f'Operand("{t["name"]}", "{t["direction"]}", {t.get("optional", True)})' for t in op[key]]
            return self.block(f"        {key}=(", rows, "),") if rows else f"        {key}=(),"

        options = []
        for option in op["options"]:
            prefix = option.get("enum", "").upper() + "_"
            words = {
                n.removeprefix(prefix).lower(): value
                for n, value in self.enums.get(option.get("enum", ""), {}).items()
                if not n.endswith("_FORCE32")
            }
            flat = f'"{option["name"]}": {json.dumps(words or None)}'.replace("null", "None")
            pairs = [f"{json.dumps(word)}: {value}" for word, value in words.items()]
            exploded = self.block(f'            "{option["name"]}": {{', pairs, "}").strip()
            options.append(flat if len(flat) < 90 else exploded)
        return "\n".join(
            [
                f'    "{op["name"]}": Op(',
                *(f'        {key}="{op[key]}",' for key in ("name", "function", "query", "handle")),
                f"        desc={self.title(op['desc']) if op['desc'] else None},",
                operands("operands"),
                operands("tensors"),
                self.block("        options={", options, "},") if options else "        options={},",
                f"        workspace={op['workspace']},",
                f"        stream={op['stream']},",
                "    ),",
            ]
        )


def main() -> None:
    abi = describe(Header(parse()))
    products = {
        HERE / "abi.json": pretty(abi) + "\n",
        HERE / "python/sluice/_abi.py": PythonModule(abi).text(),
    }
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: abi.py [--check]")
    stale: list[str] = []
    for path, text in products.items():
        if "--check" in sys.argv:
            old = path.read_text().splitlines() if path.exists() else []
            name = str(path.relative_to(HERE.parent))
            stale += difflib.unified_diff(old, text.splitlines(), name, "from the header", lineterm="")
        else:
            path.write_text(text)
    if stale:
        sys.exit("\n".join([*stale, "abi.py: stale; run bindings/abi.py"]))


if __name__ == "__main__":
    main()
