"""Define an experiment and run it: cell after cell, then the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.experiments.cells import Cell, CellStore, Row, code_digest
from benchmarks.experiments.page import Page
from benchmarks.measure import Progress


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
class Work:
    """The cells that an experiment measures, and the files that it writes.

    Attributes
    ----------
    cells
        The measurements, in order.
    page
        Makes the page of the cells' rows, which come in the order of the cells.
    """

    cells: Sequence[Cell]
    page: Callable[[Sequence[Row]], Page]


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    Attributes
    ----------
    name
        As it is asked for.
    plan
        What is to be measured for a request.
    """

    name: str
    plan: Callable[[Request], Work]


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
    work = experiment.plan(request)
    progress.begin(f"{experiment.name}: {len(work.cells)} measurements", len(work.cells))
    rows: list[Row] = []
    for cell in work.cells:
        row = None if store is None else store.finished(cell)
        if row is None:
            row = {**cell.key, **cell.run()}
            if store is not None:
                store.keep(cell, row)
        rows.append(row)
        progress.advance()
    return work.page(rows)


def store_beside(page: Path, experiment: Experiment, request: Request) -> CellStore:
    """The finished cells of earlier runs that asked for the same and ran the same code; those of others are dropped."""
    context: Mapping[str, str | int | bool] = {
        "experiment": experiment.name,
        "seed": request.seed,
        "data": "" if request.data is None else str(request.data),
        "code": code_digest(),
    }
    return CellStore(page.with_suffix(".cells.jsonl"), context)
