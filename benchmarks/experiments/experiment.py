"""Define an experiment and run it: cell after cell, then the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.experiments.cells import Cell, CellStore, Figure, Row, code_digest
from benchmarks.experiments.page import Page
from benchmarks.measure import Progress
from benchmarks.report import cores
from cep_pipeline.errors import CepError


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
    processes
        How many cells are measured at a time, each in a process of its own; there are no more than the machine has
        processors.
    weight
        How much work a cell is, about: where several are measured at a time those of most work are begun first, so
        that none of them is left to the end alone.
    """

    cells: Sequence[Cell]
    page: Callable[[Sequence[Row]], Page]
    processes: int = 1
    weight: Callable[[Cell], float] = lambda cell: 0.0


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    Attributes
    ----------
    name
        As it is asked for.
    title, paper
        Heading of its page, and the paper with its section.
    plan
        What is to be measured for a request.
    """

    name: str
    title: str
    paper: str
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
    rows: dict[int, Row] = {}
    left = []
    for place, cell in enumerate(work.cells):
        row = None if store is None else store.finished(cell)
        if row is None:
            left.append(place)
        else:
            rows[place] = row
            progress.advance()
    for place, figures in _measured(experiment, request, work, left):
        cell = work.cells[place]
        rows[place] = {**cell.key, **figures}
        if store is not None:
            store.keep(cell, rows[place])
        progress.advance()
    return work.page([rows[place] for place in range(len(work.cells))])


def _measured(
    experiment: Experiment, request: Request, work: Work, places: Sequence[int]
) -> Iterator[tuple[int, Mapping[str, Figure]]]:
    """The figures of cells, by their places among all, as they are finished."""
    processes = min(work.processes, len(places), cores())
    if processes <= 1:
        for place in places:
            yield place, work.cells[place].run()
        return
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_plan, initargs=(experiment.plan, request)
    ) as pool:
        heaviest_first = sorted(places, key=lambda place: -work.weight(work.cells[place]))
        running = {pool.submit(_run, place): place for place in heaviest_first}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BrokenProcessPool as error:
            raise CepError(
                f"{experiment.name}: a process that measured was ended from outside, most likely for want of memory; "
                "what was measured is kept: run the same command again, and it goes on from there"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_PLANNED: list[Work] = []
"""The experiment whose cells this process measures."""


def _plan(plan: Callable[[Request], Work], request: Request) -> None:
    _PLANNED[:] = [plan(request)]


def _run(place: int) -> Mapping[str, Figure]:
    return _PLANNED[0].cells[place].run()


def store_beside(page: Path, experiment: Experiment, request: Request) -> CellStore:
    """The finished cells of earlier runs that asked for the same and ran the same code; those of others are dropped."""
    context: Mapping[str, str | int | bool] = {
        "experiment": experiment.name,
        "seed": request.seed,
        "data": "" if request.data is None else str(request.data),
        "code": code_digest(),
    }
    return CellStore(page.with_suffix(".cells.jsonl"), context)
