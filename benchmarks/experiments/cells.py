"""Cells: single measurements of an experiment, kept on disk one by one, so that a long run goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

Figure = str | int | float | bool | None
Row = Mapping[str, Figure]
"""A finished cell: what identifies it, and the figures that were measured."""


def rows_of(rows: Iterable[Row], **wanted: Figure) -> list[Row]:
    """The rows that have these figures.

    Examples
    --------
    >>> rows_of([{"n": 1, "cost": 5}, {"n": 2, "cost": 7}], n=2)
    [{'n': 2, 'cost': 7}]
    """
    return [row for row in rows if all(row.get(name) == figure for name, figure in wanted.items())]


def number(row: Row, name: str) -> float:
    """A figure of a row that is a number."""
    return cast(float, row[name])


def taken_apart(row: Row, mark: str = ".") -> tuple[Row, dict[str, dict[str, Figure]]]:
    """What identifies a cell; and its figures by what was measured, where they are named `WHAT.FIGURE`.

    Examples
    --------
    >>> taken_apart({"n": 1, "one.cost": 5, "other.cost": 7})
    ({'n': 1}, {'one': {'cost': 5}, 'other': {'cost': 7}})
    """
    key: dict[str, Figure] = {}
    measured: dict[str, dict[str, Figure]] = {}
    for name, figure in row.items():
        what, found, of = name.partition(mark)
        if found:
            measured.setdefault(what, {})[of] = figure
        else:
            key[name] = figure
    return key, measured


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Attributes
    ----------
    key
        What identifies it among the cells of its experiment, sizes included.
    run
        Measures; its figures join the key in the cell's row.
    """

    key: Mapping[str, Figure]
    run: Callable[[], Mapping[str, Figure]] = field(compare=False, repr=False)

    @property
    def text(self) -> str:
        """The key as canonical JSON."""
        return _canonical(self.key)


class CellStore:
    """Finished cells in a file of JSON lines; the first line says what they belong to.

    Parameters
    ----------
    path
        The file. One that belongs to something else is begun anew when the first cell is kept.
    context
        What the cells belong to, beyond their keys.
    """

    def __init__(self, path: Path, context: Mapping[str, Figure]) -> None:
        self.path = path
        self._head = _canonical({"cells of": dict(context)})
        self._rows: dict[str, Row] = {}
        self._begun = False
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            return
        if lines[0] != self._head:
            return
        self._begun = True
        for line in lines[1:-1]:  # behind the last line end is what a killed run did not finish
            entry = json.loads(line)
            self._rows[entry["cell"]] = entry["row"]
        if lines[-1]:
            path.write_text("\n".join([*lines[:-1], ""]), encoding="utf-8")

    def __len__(self) -> int:
        return len(self._rows)

    def finished(self, cell: Cell) -> Row | None:
        """The row of a cell, if it has been measured."""
        return self._rows.get(cell.text)

    def keep(self, cell: Cell, row: Row) -> None:
        """Keep the row of a finished cell on disk."""
        with self.path.open("a" if self._begun else "w", encoding="utf-8") as file:
            if not self._begun:
                file.write(self._head + "\n")
            file.write(_canonical({"cell": cell.text, "row": dict(row)}) + "\n")
        self._begun = True
        self._rows[cell.text] = row

    def forget(self) -> None:
        """Drop all finished cells."""
        self.path.unlink(missing_ok=True)
        self._rows.clear()
        self._begun = False


def code_digest() -> str:
    """A digest of the sources of package and benchmarks: figures of other code are not mixed with this one's."""
    digest = hashlib.sha256()
    checkout = Path(__file__).resolve().parents[2]
    for folder in ("benchmarks", "cep_pipeline"):
        for file in sorted((checkout / folder).rglob("*.py")):
            digest.update(str(file.relative_to(checkout)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)
