"""`cep experiment adaptation`: four decisions about replanning, over streams that change (acep-invariants patent)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import cast

from benchmarks.experiments.adaptation.patterns import (
    CHAIN_BY,
    CONJUNCTION,
    INTERVALS_A_WINDOW,
    KLEENE,
    LONGER,
    MOST_BYTES,
    SEQUENCE,
    SETS,
    TREE_BY,
    fitted_pattern,
)
from benchmarks.experiments.adaptation.prediction import REACHES
from benchmarks.experiments.adaptation.runs import intervals_read, measure
from benchmarks.experiments.adaptation.sizes import (
    CHAIN,
    CHANGES,
    COMPARISON,
    CONTENDERS,
    FREQUENCY,
    FULL,
    OF_THE_PATENT,
    SMALL,
    Contender,
    Sizes,
)
from benchmarks.experiments.adaptation.streams import (
    LONGEST_S,
    PER_S,
    PERMUTED,
    STOCKS,
    TRAFFIC,
    ExperimentStream,
    drifting_stocks,
    permuted_rates,
    traffic_readings,
)
from benchmarks.experiments.cells import Cell, Figure, Row
from benchmarks.experiments.experiment import Experiment, Request, Work
from benchmarks.experiments.page import Page
from cep_pipeline.detection.room import at_most
from cep_pipeline.errors import NoRoom


class _Streams:
    """The streams, each made when it is first asked for; of those that are permuted the last one is kept."""

    def __init__(self, request: Request, sizes: Sizes) -> None:
        self._request, self._sizes = request, sizes
        self._kept: dict[str, ExperimentStream] = {}
        self._permuted: tuple[int, ExperimentStream] | None = None

    def named(self, name: str) -> ExperimentStream:
        if name not in self._kept:
            seconds, seed = self._longest_s(name), self._request.seed
            if name == STOCKS:
                self._kept[name] = drifting_stocks(round(seconds * PER_S), seed)
            else:
                self._kept[name] = traffic_readings(self._request.data, seconds, seed)
        return self._kept[name]

    def permuted(self, phase: int) -> ExperimentStream:
        if self._permuted is None or self._permuted[0] != phase:
            self._permuted = phase, permuted_rates(round(self._longest_s(PERMUTED) * PER_S), phase, self._request.seed)
        return self._permuted[1]

    def _longest_s(self, name: str) -> int:
        """Seconds that the lightest patterns read."""
        return -(-intervals_read(self._sizes.checks[name], max(REACHES)) * LONGEST_S[name] // INTERVALS_A_WINDOW)

    @property
    def descriptions(self) -> dict[str, str]:
        """The descriptions of stocks and traffic, for people."""
        return {name: self.named(name).description for name in (STOCKS, TRAFFIC)}


def plan_work(request: Request) -> Work:
    """The measurements, and their page."""
    sizes: Sizes = request.sizes or (FULL if request.full else SMALL)
    streams = _Streams(request, sizes)
    parts = _comparison_cells, _change_cells, _frequency_cells
    cells = [cell for part in parts for cell in part(sizes, streams, request.seed)]

    def page(rows: Sequence[Row]) -> Page:
        from benchmarks.experiments.adaptation.page import write_page

        return write_page(rows, sizes, request, streams.descriptions)

    return Work(cells, page, processes=sizes.processes, weight=_weight)


def _weight(cell: Cell) -> float:
    """In the traffic the static plan of a long pattern is much more work than others: it was made for the night."""
    return cast(int, cell.key["size"]) if cell.key["stream"] == TRAFFIC else 0


def _comparison_cells(sizes: Sizes, streams: _Streams, seed: int) -> Iterator[Cell]:
    def run(stream: str, kind: str, size: int, contender: Contender) -> Row:
        return _measured(streams.named(stream), kind, size, contender, sizes, seed)

    for stream, kind in product((STOCKS, TRAFFIC), SETS):
        contenders: tuple[Contender, ...] = CONTENDERS if kind in sizes.beside else OF_THE_PATENT
        if (stream, kind) == (TRAFFIC, KLEENE):
            # All roads of a class report at one instant: a tree would hold all lists of them.
            contenders = (CHAIN,)
        for size, contender in product(sizes.sequences if kind == SEQUENCE else sizes.others, contenders):
            key = {**_key(COMPARISON, stream, sizes), "set": kind, "size": size, "contender": contender.name}
            yield Cell(key, partial(run, stream, kind, size, contender))


def _change_cells(sizes: Sizes, streams: _Streams, seed: int) -> Iterator[Cell]:
    def run(phase: int, contender: Contender) -> Row:
        return _measured(streams.permuted(phase), SEQUENCE, sizes.phase_size, contender, sizes, seed)

    for phase, contender in product(sizes.phases, CONTENDERS):
        key = {**_key(CHANGES, PERMUTED, sizes), "phase": phase, "size": sizes.phase_size}
        yield Cell({**key, "contender": contender.name}, partial(run, phase, contender))


def _frequency_cells(sizes: Sizes, streams: _Streams, seed: int) -> Iterator[Cell]:
    def run(kind: str, intervals: int, contender: Contender) -> Row:
        return _measured(streams.named(STOCKS), kind, sizes.frequency_size, contender, sizes, seed, intervals)

    for kind, intervals, contender in product((SEQUENCE, CONJUNCTION), sizes.frequencies, OF_THE_PATENT):
        key = {**_key(FREQUENCY, STOCKS, sizes), "set": kind, "size": sizes.frequency_size, "a window": intervals}
        yield Cell({**key, "contender": contender.name}, partial(run, kind, intervals, contender))


def _measured(
    stream: ExperimentStream,
    kind: str,
    size: int,
    contender: Contender,
    sizes: Sizes,
    seed: int,
    intervals: int | None = None,
) -> dict[str, Figure]:
    """Intervals: decisions while a window passes, where they are not the usual ones; statistics reach as far back.

    Where a plan of the stream holds more than there is memory for, the window is a shorter one.
    """
    by = CHAIN_BY if contender is CHAIN else TREE_BY
    most_s, shortened = None, 0
    while True:
        fitted = fitted_pattern(stream, kind, size, seed, sizes.work, sizes.checks[stream.name], by, most_s)
        reaches: Sequence[int] = REACHES
        if intervals is not None:
            fitted, reaches = fitted.decided(intervals), (intervals,)
        try:
            with at_most(MOST_BYTES):
                figures = measure(contender, stream, fitted, sizes, seed, reaches, hindsight=intervals is None)
        except NoRoom:
            if fitted.window_s == 1:
                raise
            most_s, shortened = int(fitted.window_s / LONGER), shortened + 1
        else:
            return {"pattern": fitted.text, "window_s": fitted.window_s, "shortened": shortened, **figures}


def _key(part: str, stream: str, sizes: Sizes) -> dict[str, Figure]:
    """The part of a key that says what figures depend on beside the pattern."""
    return {
        "part": part,
        "stream": stream,
        "decisions": sizes.checks[stream],
        "work": sizes.work,
        "distances": " ".join(f"{d:g}" for d in sizes.distances),
        "thresholds": " ".join(f"{t:g}" for t in sizes.thresholds),
        "repetitions": sizes.repetitions,
    }


EXPERIMENT = Experiment(
    "adaptation",
    "The plan follows the data: invariants and other decisions to plan again",
    "Kolchinsky, Schuster: Efficient Adaptive Detection of Complex Event Patterns (patent), Experimental Evaluation",
    plan_work,
)
