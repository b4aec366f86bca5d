"""All that commands print: no text from data or configuration controls the terminal, or is taken for markup.

Commands print by `say`, `say_json` and a `Terminal`, and never by click or rich themselves; ruff refuses those.
Times, rates and ratios are written with the figures that count. A `ConsoleObserver` shows how far a long command is.
Commands that are named in a text can be pasted (`complete`).
"""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from cep_pipeline.foreign_text import MOST_IN_CELL, shortened, shortened_message, visible

if TYPE_CHECKING:
    from rich.status import Status

    from cep_pipeline.pipeline.day_work import Progress as Told

PIPE_WIDTH = 160


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text to stdout, or to stderr."""
    click.echo(visible(text), err=err, nl=nl)


def show_file(path: Path) -> None:
    """Copy a text file to stdout: as it is into a file or a pipe, harmless on a terminal."""
    with path.open(encoding="utf-8", newline="") as file:
        for line in file:
            sys.stdout.write(visible(line) if sys.stdout.isatty() else line)


def say_json(value: Any) -> None:
    """Print the one JSON document of a command with `--json`, in which all but ASCII is escaped."""
    document = json.dumps(plain_value(value), indent=1, allow_nan=False, default=_as_text)
    click.echo(document.replace("\x7f", "\\u007f"))


def plain_value(value: Any) -> Any:
    """A value as JSON has it: records are objects; NaN, the infinities and numbers beyond 64 bits are text.

    Examples
    --------
    >>> plain_value({"low": float("nan"), "matches": (7, 2**64)})
    {'low': 'NaN', 'matches': [7, '18446744073709551616']}
    """
    if isinstance(value, Mapping):
        return {_as_text(name) if isinstance(name, date) else name: plain_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int) and value.bit_length() > 64:
        from cep_pipeline.storage import decimal_text

        return decimal_text(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_value(getattr(value, field.name)) for field in fields(value)}
    return value


def _as_text(value: object) -> str:
    """A day, a moment, a path or an id as text."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, PurePath | UUID):
        return str(value)
    raise TypeError(f"JSON has nothing for a {type(value).__name__}")


def styled(*parts: str | tuple[str, str]) -> Text:
    """Text of several parts, each plain or with a style, such as `("violated", "bold red")`."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((visible(text), style) for text, style in pairs))


def table_of(
    columns: Iterable[str],
    rows: Iterable[Iterable[object]],
    title: str | None = None,
    *,
    right: slice = slice(0),
    optional: Container[str] = (),
    caption: str | None = None,
) -> Table:
    """A table of rows of values; the numbers in the columns on the `right` stand below each other.

    An `optional` column is left out where no row has a value in it.
    """
    names = list(columns)
    cells = [[_cell(value) for value in row] for row in rows]
    kept = [place for place, name in enumerate(names) if name not in optional or any(row[place] for row in cells)]
    table = Table(title=title, caption=caption)
    for place in kept:
        table.add_column(names[place], justify="right" if place in range(len(names))[right] else "left")
    for row in cells:
        table.add_row(*(row[place] for place in kept))
    return table


def _cell(value: object) -> str | Text:
    """A value as a table shows it: nothing for None, numbers with their thousands, seconds with a tenth."""
    if value is None or isinstance(value, (str, Text)):
        return value or ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}" if isinstance(value, float) else str(value)


class Terminal(Console):
    """A console that shows each string as it is: cells, titles and lines have no markup; `styled` gives them style."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make what is shown of a string; rich calls this for all strings in whatever is printed."""
        return super().render_str(visible(text), **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts and tables; of a long cell the ends are shown, and a table that is too wide can be read."""
        super().print(*(self._readable(one) if isinstance(one, Table) else one for one in objects), **options)

    def _readable(self, table: Table) -> Table:
        """A table as it is, with its cells wrapped between words, or with a block of lines for each row.

        A row becomes a block where even the longest words side by side are too wide, or where that takes fewer lines.
        """
        for column in table.columns:
            column._cells = [_cut(cell) for cell in column.cells]
        unbounded = self.options.update(max_width=sys.maxsize)
        cells = [
            [Measurement.get(self, unbounded, cell) for cell in (column.header, *column.cells)]
            for column in table.columns
        ]
        room = self.width - 3 * len(cells) - 1
        widest = [max(cell.maximum for cell in column) for column in cells]
        if sum(widest) <= room:
            return table
        needed = [
            max(cell.maximum if column.no_wrap else cell.minimum for cell in measured)
            for column, measured in zip(table.columns, cells, strict=True)
        ]
        blocks = _blocks(table)
        if sum(needed) > room:
            return blocks
        for column, width in zip(table.columns, _shared_out(room, needed, widest), strict=True):
            column.width = width
        return min(table, blocks, key=lambda form: len(self.render_lines(form, pad=False)))

    def note(self, text: str) -> None:
        """Tell a person something beside the result; it is one line in a log."""
        self.print(f"note: {shortened_message(text)}", highlight=False, soft_wrap=not self.is_terminal)

    def status(self, status: Any, **options: Any) -> Status:
        """A spinner with a text beside it."""
        return super().status(styled(status) if isinstance(status, str) else status, **options)


def _cut(cell: Any) -> Any:
    """A cell of a table, as far as it is shown."""
    if isinstance(cell, Text) and len(cell) > MOST_IN_CELL:
        return Text(shortened(cell.plain, MOST_IN_CELL), cell.style)
    return shortened(cell, MOST_IN_CELL) if isinstance(cell, str) else cell


def _blocks(table: Table) -> Table:
    """The rows of a table below each other: a line for each cell that is not empty, after its column's name."""
    shown = Table(title=table.title, box=None, show_header=False, title_justify="left", padding=(0, 2, 0, 0))
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    for row in zip(*(column.cells for column in table.columns), strict=True):
        for column, cell in zip(table.columns, row, strict=True):
            if f"{cell}".strip():
                shown.add_row(column.header, cell)
        shown.add_row()
    return shown


def _shared_out(room: int, needed: list[int], widest: list[int]) -> list[int]:
    """Widths of columns: at least as needed, and what room is left goes to the narrowest that could use more."""
    widths = list(needed)
    for _ in range(room - sum(needed)):
        place = min((at for at in range(len(widths)) if widths[at] < widest[at]), key=widths.__getitem__)
        widths[place] += 1
    return widths


def output_console(*, stderr: bool = False) -> Terminal:
    """The console for tables: as wide as the terminal, or wide enough for a file or a pipe."""
    console = Terminal(stderr=stderr)
    return console if console.is_terminal else Terminal(stderr=stderr, width=PIPE_WIDTH)


def format_seconds(seconds: float) -> str:
    """Seconds with a unit that reads well.

    Examples
    --------
    >>> format_seconds(0.0000432), format_seconds(0.0123), format_seconds(2.5)
    ('43 us', '12.3 ms', '2.50 s')
    """
    if 0 < seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def count_per_s(rate: float) -> str:
    """A rate with three figures that count.

    Examples
    --------
    >>> [count_per_s(rate) for rate in (153_400_000, 41_234, 0.5e6, 812)]
    ['153 M', '41.2 k', '500 k', '812']
    """
    for unit, letter in ((1e6, " M"), (1e3, " k"), (1.0, "")):
        if rate >= unit:
            scaled = rate / unit
            return f"{scaled:.0f}{letter}" if scaled >= 99.95 else f"{scaled:.3g}{letter}"
    return f"{rate:.2g}"


def times_as_fast(ratio: float) -> str:
    """A ratio with three figures that count, or as a whole number.

    Examples
    --------
    >>> [times_as_fast(ratio) for ratio in (0.2589, 8.0, 32.6, 141.4, 12_431)]
    ['0.259', '8.00', '32.6', '141', '12,431']
    """
    if ratio >= 100:
        return f"{ratio:,.0f}"
    return f"{ratio:#.3g}"


class ConsoleObserver(Progress):
    """Shows the steps of a command as progress bars, and keeps its notes above them."""

    def __init__(self, console: Terminal) -> None:
        self._terminal = console
        bars = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        super().__init__(SpinnerColumn(), *bars, console=console, transient=True, disable=not console.is_terminal)

    @contextmanager
    def step(self, what: str) -> Iterator[Told]:
        if not self._terminal.is_terminal:  # a log: one line a step, no bars
            self._terminal.print(what)
        task = self.add_task(visible(what), total=None)

        def told(done: int, total: int) -> None:
            self.update(task, completed=done, total=total)

        try:
            yield told
        finally:
            self.remove_task(task)

    def note(self, text: str) -> None:
        self._terminal.note(complete(text))


# -- commands in what is printed, and notes ----------------------------------------------------------------------------

_COMMAND = re.compile(r"\bcep (?P<name>[a-z]+)\b(?=(?P<rest>[^`\n;]*))")
"""A command in a text, and what stands behind it, to the end of the line or of the sentence at the most."""


def repeated() -> dict[str, object]:
    """The options by which the present command was told what it works on; its next steps have them too."""
    context = click.get_current_context(silent=True)
    found = None if context is None else context.find_object(dict)
    return {} if found is None else found


def complete(text: str) -> str:
    """Give the `cep` commands in a text what the present command works on, so that they can be pasted."""
    given = repeated()
    return completed(text, click.get_current_context().find_root().command, given) if given else text


def completed(text: str, commands: click.Command, given: Mapping[str, object]) -> str:
    """A text whose `cep` commands have the given options, as far as they take them and do not have them."""
    assert isinstance(commands, click.Group)

    def with_given(found: re.Match[str]) -> str:
        command = commands.get_command(click.Context(commands), found["name"])
        takes = {} if command is None else {option: one for one in command.params for option in one.opts}
        more = ""
        for option, value in given.items():
            values = value if isinstance(value, tuple) else (value,)
            if option in takes and (len(values) == 1 or takes[option].multiple) and option not in found["rest"].split():
                more += "".join(f" {option} {shlex.quote(str(one))}" for one in values)
        return found[0] + more

    return _COMMAND.sub(with_given, text) if given else text


def next_command(*words: object, **options: object) -> str:
    """Return a command that can be pasted into a shell, with what the present command works on (`complete`).

    An option that is None or False is left out.

    Examples
    --------
    >>> next_command("explain", stream="trades", pattern_set="big ones", version=None, analyze=True)
    "cep explain --stream trades --pattern-set 'big ones' --analyze"
    """
    given: list[str] = []
    for name, value in options.items():
        if value is not None and value is not False:
            given += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return complete(shlex.join(["cep", *map(str, words), *given]))


def tell_notes(notes: Iterable[str]) -> None:
    """Tell what stands beside the result of a command."""
    for note in notes:
        say(f"note: {complete(note)}", err=True)
