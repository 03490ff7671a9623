"""What a generic caller needs to know of an operation; _abi.py holds an Op for each in the header."""

from __future__ import annotations

from typing import Any, NamedTuple


class Operand(NamedTuple):
    name: str
    direction: str  # in, out
    optional: bool


class Op(NamedTuple):
    name: str
    function: str
    query: str  # the function that says how much workspace, and whether a call would be accepted
    handle: str  # what the first argument is
    desc: Any  # the descriptor's class, None without one
    operands: tuple[Operand, ...]  # arguments, in their order
    tensors: tuple[Operand, ...]  # tensors in the descriptor
    options: dict[str, dict[str, int] | None]  # other fields of it, with the words that an enum field takes
    workspace: bool
    stream: bool
