"""LLVM IR as text: the lines of one function in the making, and the table that compression looks masks up in."""

from __future__ import annotations

from functools import cache
from itertools import count

WIDTH = 16
"""Doubles compared at a time: columns need as many readable elements behind their end."""


class FunctionText:
    """Lines of the current block, and the variables of the entry block, which LLVM turns into registers."""

    def __init__(self) -> None:
        self.allocas: list[str] = []
        self.lines: list[str] = []
        self._names = count()

    def emit(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def value(self, expression: str) -> str:
        name = f"%v{next(self._names)}"
        self.emit(f"{name} = {expression}")
        return name

    def label(self, hint: str) -> str:
        return f"{hint}{next(self._names)}"

    def begin(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def variable(self, initial: str) -> str:
        name = f"%a{next(self._names)}"
        self.allocas.append(f"  {name} = alloca i64")
        self.set(name, initial)
        return name

    def get(self, variable: str) -> str:
        return self.value(f"load i64, ptr {variable}")

    def set(self, variable: str, value: str) -> None:
        self.emit(f"store i64 {value}, ptr {variable}")

    def add_to(self, variable: str, value: str) -> None:
        self.set(variable, self.value(f"add i64 {self.get(variable)}, {value}"))

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        self.emit(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def at(self, base: str, index: str, kind: str) -> str:
        return self.value(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def int32_at(self, base: str, index: str) -> str:
        return self.value(f"load i32, ptr {self.at(base, index, 'i32')}, align 4")

    def splat(self, value: str, kind: str, width: int) -> str:
        one = self.value(f"insertelement <{width} x {kind}> poison, {kind} {value}, i32 0")
        return self.value(
            f"shufflevector <{width} x {kind}> {one}, <{width} x {kind}> poison, <{width} x i32> zeroinitializer"
        )


@cache
def offsets_table() -> str:
    """`@offsets`: for each mask of 8 bits the places of its bits, then zeros."""
    entries = []
    for mask in range(256):
        places = [bit for bit in range(8) if mask >> bit & 1]
        places += [0] * (8 - len(places))
        entries.append("<8 x i8> <" + ", ".join(f"i8 {place}" for place in places) + ">")
    return f"@offsets = internal constant [256 x <8 x i8>] [{', '.join(entries)}], align 64"
