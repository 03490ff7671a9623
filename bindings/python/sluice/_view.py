"""What a binding knows of an array beside its address: the vocabulary of intake and allocation."""

from __future__ import annotations

import sys
from typing import Any, Callable, NamedTuple

from . import _abi
from ._errors import Error, error

CPU, CUDA, PINNED, MANAGED = 1, 2, 3, 13  # DLPack's device types

Dtype = tuple[int, int, int]
"""DLPack's code, bits and lanes."""

DTYPES: dict[str, Dtype] = {
    **{f"float{bits}": (2, bits, 1) for bits in (16, 32, 64)},
    "bfloat16": (4, 16, 1),
    **{f"int{bits}": (0, bits, 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits, 1) for bits in (8, 16, 32, 64)},
    "bool": (6, 8, 1),
    "complex64": (5, 64, 1),
    "complex128": (5, 128, 1),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

Geometry = tuple[Any, ...]
"""Everything about an array but its address, hashable and cheap to get; `View.of` works out what it means."""

Reader = Callable[[Any, "list[Geometry]", "list[Any]"], int]
"""Gives an array's address; appends its geometry, and what must live as long as the address is used."""


class View(NamedTuple):
    """What a geometry means."""

    library: str  # whose array it is: numpy, torch, cupy, jax, buffer, number, or another's module
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in elements; None: compact row-major
    dtype: Dtype
    device: tuple[int, int] | None  # DLPack's type and ordinal; None: CUDA, of an ordinal that nobody says
    readonly: bool = False
    stream: int | None = None  # that the array's interface names
    kind: Any = None  # what the library needs beside these to make another such array
    byte_offset: int = 0

    @staticmethod
    def of(geometry: Geometry) -> View:
        view: View = geometry[0](*geometry[1:])
        return view


def compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def in_elements(strides: Any, bits: int, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of bytes as strides of elements."""
    if strides is None:
        return None
    size = bits // 8
    # An axis of one element is never stepped along, and libraries leave odd strides there.
    if any(step % size for step, extent in zip(strides, shape) if extent > 1):
        text = f"sluice: strides of {tuple(strides)} bytes are no multiples of an element's {size} bytes"
        raise error(_abi.SLUICE_INVALID_ARGUMENT, text)
    return tuple(step // size for step in strides)


_LETTERS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}


def from_typestr(typestr: str) -> Dtype:
    """The dtype that array interfaces write as '<f4'."""
    order, letter, size = typestr[0], typestr[1], typestr[2:]
    name = "bool" if typestr[1:] == "b1" else f"{_LETTERS.get(letter)}{8 * int(size)}"
    if name not in DTYPES or order not in ("|", "=", "<" if sys.byteorder == "little" else ">"):
        raise unknown_dtype(typestr)
    return DTYPES[name]


def unknown_dtype(dtype: object) -> Error:
    return error(_abi.SLUICE_UNSUPPORTED_DTYPE, f"sluice: no operand takes dtype {dtype}")


def invalid_device(what: str) -> Error:
    text = f"sluice: {what}, want the CPU's or a CUDA device's"
    return error(_abi.SLUICE_INVALID_DEVICE, text)


def full_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def package(kind: type) -> str:
    """The top-level package that a type comes from."""
    name = kind.__module__.partition(".")[0]
    return "jax" if name == "jaxlib" else name
