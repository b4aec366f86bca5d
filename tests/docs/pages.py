"""The pages in `docs/` as tests read them: blocks of code and tables, each with the heading above it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A block of code: its language, the file that it is (title), its text, and the heading above it."""

    language: str
    title: str | None
    text: str
    heading: str


def blocks(page: str, language: str | None = None) -> list[Block]:
    """The blocks of code of a page, of one language or all."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = [
        Block(fence["language"], fence["title"], dedent(fence["text"]), _heading(text[: fence.start()]))
        for fence in _FENCE.finditer(text)
    ]
    return [block for block in found if language in (None, block.language)]


def _heading(before: str) -> str:
    before = _FENCE.sub("", before)
    headings: list[str] = re.findall(r"^#+ (.+)$", before, re.M)
    return headings[-1] if headings else ""


def table_after(page: str, header: str) -> list[list[str]]:
    """The cells of the table of a page whose header line begins so; backticks are taken off."""
    lines = iter((DOCS / page).read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(f"| {header} |"):
            next(lines)
            return [_cells(row) for row in _rows(lines)]
    raise AssertionError(f"{page} has no table {header!r}")


def _rows(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("|"):
            return
        yield line


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split(" |")]
