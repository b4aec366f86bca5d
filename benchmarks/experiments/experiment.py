"""An experiment and its cells: single measurements, kept on disk one by one, and then the page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchmarks.measure import Progress
from cep_pipeline.errors import CepError

if TYPE_CHECKING:
    from benchmarks.experiments.page import Page

Figure = str | int | float | bool | None
Row = Mapping[str, Figure]
"""A finished cell: what identifies it, and the figures that were measured."""


def having(**wanted: Figure) -> Callable[[Row], bool]:
    """The question whether a row has these figures."""
    return lambda row: all(row.get(name) == figure for name, figure in wanted.items())


def rows_of(rows: Iterable[Row], **wanted: Figure) -> list[Row]:
    """The rows that have these figures.

    Examples
    --------
    >>> rows_of([{"n": 1, "cost": 5}, {"n": 2, "cost": 7}], n=2)
    [{'n': 2, 'cost': 7}]
    """
    return list(filter(having(**wanted), rows))


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Figure, ...], list[Row]]:
    """The rows by these figures, in the order in which they come.

    Examples
    --------
    >>> [*grouped([{"n": 1, "cost": 5}, {"n": 2, "cost": 7}, {"n": 1, "cost": 6}], "n").values()]
    [[{'n': 1, 'cost': 5}, {'n': 1, 'cost': 6}], [{'n': 2, 'cost': 7}]]
    """
    groups: dict[tuple[Figure, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups


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


def refuse_different_matches(rows: Iterable[Row], of: Sequence[str], who: str) -> None:
    """Raise where two contenders found different numbers of matches in the same events.

    Parameters
    ----------
    rows
        A row for each contender.
    of, who
        The columns that say of which events and which pattern; and the one that names the contender.

    Raises
    ------
    CepError
        It names them.
    """
    found: dict[tuple[Figure, ...], Row] = {}
    for row in rows:
        other = found.setdefault(tuple(row.get(name) for name in of), row)
        if other["matches"] != row["matches"]:
            raise CepError(
                f"{row[who]} finds {row['matches']:,} matches where {other[who]} finds {other['matches']:,}, of "
                f"{', '.join(f'{name} {row[name]}' for name in of if name in row)}; all must find the same"
            )


def refuse_different_counts(found: Mapping[str, Mapping[str, int]]) -> None:
    """Raise as `refuse_different_matches` does; given are contender -> pattern -> matches."""
    told: Iterator[Row] = (
        {"pattern": of, "who": who, "matches": n} for who, own in found.items() for of, n in own.items()
    )
    refuse_different_matches(told, ["pattern"], "who")


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
        first, *lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else [""]
        self._begun = first == self._head
        *finished, cut_off = (
            lines if self._begun else [""]
        )  # behind the last line end is what a killed run did not finish
        self._rows: dict[str, Row] = {entry["cell"]: entry["row"] for entry in map(json.loads, finished)}
        if cut_off:
            path.write_text("\n".join([first, *finished, ""]), encoding="utf-8")

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


@dataclass(frozen=True)
class Request:
    """The options with which an experiment is run.

    Attributes
    ----------
    full
        The paper's extent instead of one of minutes.
    seed
        Of all draws.
    data
        Folder of public data; where it lacks what an experiment reads, generated data take its place.
    sizes
        Other sizes than those of the experiment; for tests.
    """

    full: bool = False
    seed: int = 1
    data: Path | None = None
    sizes: Any = None


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    Attributes
    ----------
    name
        As it is asked for.
    small, full
        The extent of minutes, and that of the paper.
    make_cells
        The measurements of an extent and a request, in order.
    write_page
        Makes the page of the rows of the cells, in their order.
    """

    name: str
    small: Any
    full: Any
    make_cells: Callable[[Any, Request], Iterable[Cell]]
    write_page: Callable[[Sequence[Row], Any, Request], Page]

    def sizes(self, request: Request) -> Any:
        """The extent that is asked for."""
        return request.sizes or (self.full if request.full else self.small)

    def cells(self, request: Request) -> list[Cell]:
        """The measurements that are asked for."""
        return list(self.make_cells(self.sizes(request), request))


def run_experiment(experiment: Experiment, request: Request, store: CellStore | None, progress: Progress) -> Page:
    """Run the cells that are not finished yet, and make the page.

    Parameters
    ----------
    experiment, request
        What to run, and how.
    store
        Where finished cells are kept, and found again; None keeps them nowhere.
    progress
        Told of every cell.

    Raises
    ------
    CepError
        Two mechanisms found different matches in the same events.
    """
    cells = experiment.cells(request)
    progress.begin(f"{experiment.name}: {len(cells)} measurements", len(cells))
    rows: list[Row] = []
    for cell in cells:
        row = None if store is None else store.finished(cell)
        if row is None:
            row = {**cell.key, **cell.run()}
            if store is not None:
                store.keep(cell, row)
        rows.append(row)
        progress.advance()
    return experiment.write_page(rows, experiment.sizes(request), request)


def store_beside(page: Path, experiment: Experiment, request: Request) -> CellStore:
    """The finished cells of earlier runs that asked for the same and ran the same code; those of others are dropped."""
    context: Mapping[str, str | int | bool] = {
        "experiment": experiment.name,
        "seed": request.seed,
        "data": "" if request.data is None else str(request.data),
        "code": code_digest(),
    }
    return CellStore(page.with_suffix(".cells.jsonl"), context)
