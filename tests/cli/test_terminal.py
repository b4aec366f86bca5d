"""Tables in terminals of any width: nothing is cut off, and no line is wider than the terminal."""

from __future__ import annotations

import re
from datetime import date

import pytest
from rich.table import Table
from rich.text import Text

from cep_pipeline.cli.terminal import Terminal, table_of

ROWS = [
    ("20250305T061500-0a1b2c", "2025-03-03", "succeeded", "four words of text"),
    ("20250305T061600-3d4e5f", "2025-03-04", "", "a longer text of more than four words"),
]


def printed(width: int, *, no_wrap: bool = False) -> str:
    shown = Table("run", "day", "status", "what was said", title="runs")
    shown.columns[3].no_wrap = no_wrap
    for row in ROWS:
        shown.add_row(*row)
    console = Terminal(width=width, color_system=None)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()


@pytest.mark.parametrize("width", [40, 60, 68, 80, 90, 200])
def test_a_table_is_whole_at_any_width(width: int) -> None:
    lines = printed(width).splitlines()
    assert max(map(len, lines)) <= width
    words = re.findall(r"[\w.-]+", "\n".join(lines))
    assert "…" not in "".join(lines)
    assert {word for row in ROWS for cell in row for word in cell.split()} <= set(words)
    assert lines[0].strip() == "runs"


@pytest.mark.parametrize("cell", ["x" * 20_000_000, "one word " * 1_000_000, Text("x" * 20_000_000, "red")])
def test_of_a_long_cell_the_ends_are_shown(cell: str | Text) -> None:
    shown = Table("symbol", "price")
    shown.add_row(cell, "1.5")
    console = Terminal(width=80, color_system=None)
    with console.capture() as captured:
        console.print(shown)
    assert len(captured.get()) < 10_000
    assert "characters left out" in " ".join(captured.get().split()) and "1.5" in captured.get()


def test_a_wide_terminal_gets_lines_and_a_narrow_one_gets_blocks() -> None:
    assert printed(200).count("│") == 2 * 5
    narrow = printed(60)
    assert "│" not in narrow
    first, second = narrow.split("\n", 1)[1].split("\n" + " " * len(narrow.splitlines()[1]) + "\n", 1)
    assert [line.split()[0] for line in first.splitlines()] == ["run", "day", "status", "what"]
    assert "status" not in second, "a cell that is empty takes no line"


def test_a_cell_that_must_not_be_wrapped_is_whole() -> None:
    assert ROWS[1][3] in printed(70, no_wrap=True)


def test_a_table_shows_values_and_leaves_out_optional_columns_without_any() -> None:
    rows = [(date(2025, 3, 4), 1200, None, 0.25), (None, 0, None, None)]
    table = table_of(
        ("day", "events", "pending", "seconds"), rows, right=slice(1, None), optional={"pending", "seconds"}
    )
    assert [column.header for column in table.columns] == ["day", "events", "seconds"]
    assert [list(column.cells) for column in table.columns] == [["2025-03-04", ""], ["1,200", "0"], ["0.2", ""]]
    assert [column.justify for column in table.columns] == ["left", "right", "right"]
