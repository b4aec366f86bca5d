"""The patterns in the pages `tour`, `language`, `patterns` and `coming_from` of `docs`, with their matches.

A page holds each pattern in a fenced block named `sase`. After the block stands its result: a quoted line that begins
with "Finds" (for several patterns: what the last one finds) or, for SUMMARIZE, "Gives"; or, where the pattern is
refused, a fenced block named `text` with the message. Results are never typed:

    python -m tests.docs.pattern_pages

runs every pattern and writes its result into the page. `test_pattern_pages.py` asserts that this changes nothing.

A pattern runs on the first day of `cep generate`. Where a fenced block named `csv` stands before it in its section, it
runs on the trades of that block, and its matches are listed by their rows. Values of a `$name` stand in a comment of
the pattern, as `--param name=value,value`. To add a refused pattern, write an empty `text` block after it.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import cep_pipeline as cep
from cep_pipeline.cli.options import counted, parse_parameters
from cep_pipeline.errors import PatternError
from cep_pipeline.events.event_files import load_events
from cep_pipeline.language.tokens import PatternWarning
from cep_pipeline.patterns.pattern import Pattern
from tests.cli.command_line import CHECKOUT
from tests.cli.command_line import cep as run_cep

PAGES = {name: CHECKOUT / "docs" / f"{name}.md" for name in ("tour", "language", "patterns", "coming_from")}
SCHEMA = CHECKOUT / "streams" / "generated_trades.yaml"
DAY = Path("var", "generated_trades", "2025-01-06", "trades.csv.gz")
"""The first day that `cep generate` makes."""

FIXED = ("pattern", "match_id", "start_ts", "end_ts", "bindings", "composed")
"""The columns of a match that no RETURN gives."""
_LIMIT = 1_000_000
"""Most matches that a pattern of a page may have."""


@dataclass(frozen=True)
class Example:
    """A pattern of a page with the result that the page gives.

    Attributes
    ----------
    line
        Line of the page on which the pattern's block begins, counted from 1.
    text
        The pattern.
    rows
        The trades as CSV that it runs on; empty for the generated day.
    result
        The lines after the block that are its result.
    end
        Number of lines of the page up to the end of the result.
    """

    line: int
    text: str
    rows: str
    result: tuple[str, ...]
    end: int

    @property
    def is_refused(self) -> bool:
        return self.result[:1] == ("```text",)

    @property
    def name(self) -> str | None:
        """The word after NAME."""
        found = re.search(r"^NAME (\w+)", self.text, re.MULTILINE)
        return found and found.group(1)


def examples_of(page: str) -> Iterator[Example]:
    """The patterns of a page in order."""
    lines = page.splitlines()
    rows = ""
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("#"):
            rows = ""
        if not line.startswith("```") or line == "```":
            continue
        start = number
        number = lines.index("```", start) + 1
        content = "\n".join(lines[start : number - 1]) + "\n"
        if line == "```csv":
            rows = content
        if line == "```sase":
            result = _result_after(lines, number)
            number += 1 + len(result) if result else 0
            yield Example(start, content, rows, result, number)


def _result_after(lines: list[str], number: int) -> tuple[str, ...]:
    """The result that follows a block which ends before line `number`, after one empty line."""
    first = number + 1
    if first >= len(lines) or lines[number]:
        return ()
    if lines[first] == "```text":
        return tuple(lines[first : lines.index("```", first + 1) + 1])
    if lines[first].startswith(("> Finds ", "> Gives ")):
        return (lines[first],)
    return ()


class Answers:
    """Results of examples, over the events that they run on.

    Parameters
    ----------
    folder
        An empty folder, for the generated day and for the trades of `csv` blocks.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.schema = cep.StreamSchema.load(SCHEMA)
        done = run_cep("generate", "--days", "1", folder=folder)
        assert done.code == 0, done.errors
        self.day = self._load(folder / DAY)

    def result(self, example: Example) -> tuple[str, ...]:
        """The lines that belong after an example."""
        try:
            patterns = self._parsed(example)
        except PatternError as error:
            if not example.is_refused:
                raise
            return ("```text", *str(error).splitlines(), "```")
        assert not example.is_refused, f"line {example.line}: this pattern is no longer refused"
        events = self._events(example)
        matches = cep.detect(patterns, events, limit=_LIMIT)[patterns[-1].name]
        if patterns[-1].summary is not None:
            return (f"> Gives {_counted(matches.num_rows, 'row')}. The first: {_values(matches, ['pattern'])}.",)
        return (f"> Finds {_told(matches, events if example.rows else None)}.",)

    def _parsed(self, example: Example) -> list[Pattern]:
        given = re.findall(r"--param (\S+)", example.text)
        with warnings.catch_warnings():
            warnings.simplefilter("error", PatternWarning)
            return cep.parse_patterns(example.text, self.schema, parse_parameters(tuple(given)), "my.sase")

    def _events(self, example: Example) -> pa.Table:
        if not example.rows:
            return self.day
        file = self.folder / "few.csv"
        file.write_text(example.rows)
        return self._load(file)

    def _load(self, file: Path) -> pa.Table:
        loaded = load_events(self.schema, [file])
        assert loaded.rejected == 0, loaded.notes
        return loaded.events


def _told(matches: pa.Table, few: pa.Table | None) -> str:
    """A sentence about matches: their number, and the first one, or all of them by rows of `few` events."""
    number = _counted(matches.num_rows, "match")
    if matches.num_rows == 0:
        return number
    if few is not None:
        row = {seq: index for index, seq in enumerate(few["seq"].to_pylist(), start=1)}
        bindings = matches["bindings"].to_pylist()
        return f"{number}: " + "; ".join(_rows_of(binding, row) for binding in bindings)
    shown = _values(matches, FIXED)
    return f"{number}. The first: {shown}" if shown else number


def _counted(number: int, noun: str) -> str:
    return f"**{counted(number, noun)}**"


def _values(table: pa.Table, without: Collection[str]) -> str:
    """The values of the first row of a table, but those of some columns."""
    first = {name: table[name][0].as_py() for name in table.column_names if name not in without}
    return ", ".join(f"{name} = {_shown(value)}" for name, value in first.items())


def _rows_of(binding: list[dict[str, object]], row: dict[int, int]) -> str:
    """The rows of a match by variable, such as `a 1, b 2 3`."""
    of_variable: dict[object, list[str]] = {}
    for bound in binding:
        assert isinstance(bound["seq"], int)
        of_variable.setdefault(bound["variable"], []).append(str(row[bound["seq"]]))
    return ", ".join(f"{variable} {' '.join(rows)}" for variable, rows in of_variable.items())


def _shown(value: object) -> str:
    if value is None:
        return "null"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def remade(page: str, answers: Answers) -> str:
    """A page with the results of its patterns as they are now."""
    lines = page.splitlines()
    for example in reversed(list(examples_of(page))):
        before = example.end - (len(example.result) + 1 if example.result else 0)
        lines[before : example.end] = ["", *answers.result(example)]
    return "\n".join(lines) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        answers = Answers(Path(folder))
        for page in PAGES.values():
            page.write_text(remade(page.read_text(encoding="utf-8"), answers), encoding="utf-8")


if __name__ == "__main__":
    main()
