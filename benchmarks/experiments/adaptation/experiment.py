"""`cep experiment adaptation`: decisions to plan again, over streams whose best plan changes (ACEP patent)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from benchmarks.experiments.adaptation.decisions import META, UNCONDITIONAL, decisions_of, named
from benchmarks.experiments.adaptation.patterns import SEQUENCE, SETS, pattern_of
from benchmarks.experiments.adaptation.streams import AARHUS, STOCKS, TRAFFIC, has_month, stretch_of
from benchmarks.experiments.cells import Cell, Figure, Row
from benchmarks.experiments.experiment import Experiment, Request, Work
from benchmarks.experiments.page import Page
from benchmarks.measure import one_core
from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.report import AdaptationReport
from cep_pipeline.errors import CepError
from cep_pipeline.statistics import estimate_statistics

MECHANISMS = {
    "greedy": ("lazy_chain_nfa", "throughput"),
    "zstream": ("evaluation_tree", "throughput"),
    "zstream, instances": ("evaluation_tree", "instances"),
}
"""Planner -> the mechanism that runs its plans, and their cost."""
PRICED = "a price"
"""A switch has to pay for its price, which is the product's default; elsewhere any gain is enough, as in the patent."""
REACH = 2
"""Windows that the statistics reach back."""
MAX_PAIRS = 512
"""Pairs that the statistics test a scope between two decisions."""


@dataclass(frozen=True)
class Sizes:
    """The extent of what is measured.

    Attributes
    ----------
    repetitions
        Stretches of each stream.
    parameters
        What is tried of t, of each kind, and of d beside 0.
    frequencies
        Decisions a window, each with the number of windows of a generated stretch.
    sets
        Sets of patterns and their sizes, which all decide as often as the first of `frequencies` says.
    base
        The set and the size for all frequencies.
    planners
        Of `MECHANISMS`.
    """

    repetitions: int
    parameters: tuple[float, ...]
    frequencies: tuple[tuple[int, int], ...]
    sets: tuple[tuple[str, int], ...]
    base: tuple[str, int]
    planners: tuple[str, ...]


SMALL = Sizes(4, (0.1, 0.6, 3.6), ((4, 20), (64, 4)), (), (SEQUENCE, 5), ("greedy", "zstream"))
FULL = Sizes(
    5,
    (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8),
    ((4, 450), (16, 300), (64, 150)),
    tuple(product(SETS, range(3, 9))),
    (SEQUENCE, 5),
    tuple(MECHANISMS),
)


def plan_work(request: Request) -> Work:
    """The measurements, and their page."""
    sizes: Sizes = request.sizes or (FULL if request.full else SMALL)

    def page(rows: Sequence[Row]) -> Page:
        from benchmarks.experiments.adaptation.page import write_page

        return write_page(rows, sizes, request)

    return Work([*_cells(sizes, request)], page)


def _cells(sizes: Sizes, request: Request) -> Iterator[Cell]:
    """The cells; all repetitions of a case follow each other."""
    often, windows = sizes.frequencies[0]
    cases = [
        *((*sizes.base, *frequency) for frequency in sizes.frequencies),
        *((*one, often, windows) for one in sizes.sets if one != sizes.base),
    ]
    # The real month is as long as it is: where decisions are frequent it would take too many of them.
    streams = [(TRAFFIC, cases), (STOCKS, cases), *([(AARHUS, cases[:1])] if has_month(request.data) else [])]
    of_streams = [(stream, planner, case) for stream, own in streams for planner, case in product(sizes.planners, own)]
    for (stream, planner, case), number in product(of_streams, range(1, sizes.repetitions + 1)):
        kind, size, often, windows = case
        key: dict[str, Figure] = {"stream": stream, "planner": planner, "set": kind, "size": size, "a window": often}
        key |= {"windows": windows, "parameters": " ".join(f"{one:g}" for one in sizes.parameters)}
        run = partial(_measure, stream, planner, case, number, sizes.parameters, request)
        yield Cell({**key, "repetition": number}, run)


def _measure(
    name: str,
    planner: str,
    case: tuple[str, int, int, int],
    number: int,
    parameters: Sequence[float],
    request: Request,
) -> dict[str, Figure]:
    """Run one pattern over one stretch by all decision functions.

    Decision functions that switch to the same plans at the same events share a run of detection: then it is their
    decisions that differ, not the noise of the machine.

    Raises
    ------
    CepError
        Two decision functions found different matches.
    """
    kind, size, often, windows = case
    stretch = stretch_of(name, windows, number, request.seed, request.data)
    pattern = pattern_of(stretch_of(name, windows, 1, request.seed, request.data), kind, size, request.seed)
    begin = stretch.events.slice(0, REACH * stretch.window)
    known = estimate_statistics([pattern], begin, seed=number)
    mechanism, cost = MECHANISMS[planner]
    settled = AdaptiveDetection(
        planner=planner.partition(",")[0],
        cost=cost,
        mechanism=mechanism,
        every_events=max(stretch.window // often, 1),
        window=REACH * stretch.window,
        minimum_gain=0.0,
        seed=number,
        max_pairs=MAX_PAIRS,
        clock=time.process_time,
    )
    figures: dict[str, Figure] = {"stream is": stretch.description, "events": stretch.events.num_rows}
    runs: dict[tuple[tuple[int, str], ...], tuple[int, AdaptationReport]] = {}

    def run(loop: AdaptiveDetection) -> tuple[int, AdaptationReport]:
        tables, report = loop.detect([pattern], stretch.events, snapshot=known, output="count")
        return int(tables[pattern.name].column("count")[0].as_py()), report

    def keep(own: str, decided: AdaptationReport, found: tuple[int, AdaptationReport]) -> None:
        matches, report = found
        if figures.setdefault("matches", matches) != matches:
            raise CepError(f"adaptation: {own} finds {matches:,} matches, where {figures['matches']:,} were found")
        figures.update(
            {
                f"{own}:alarms": decided.replannings,
                f"{own}:switches": len(decided.switches),
                f"{own}:estimating": decided.seconds_estimating,
                f"{own}:deciding": decided.total.deciding,
                f"{own}:planning": decided.total.planning,
                f"{own}:detecting": report.total.detecting,
                f"{own}:tries": sum(node.candidates for node in report.metrics.nodes),
            }
        )

    with one_core():
        # What is loaded or compiled on first use is no part of any decision function's time.
        settled.detect([pattern], begin, snapshot=known, output="count")
        for own, decision in decisions_of(parameters).items():
            loop = replace(settled, decision=decision)
            if own == META:  # it learns from the work that a switch has saved
                found = run(loop)
                keep(own, found[1], found)
                continue
            _, decided = run(replace(loop, find=False))
            switches = tuple((one.row, one.orders) for one in decided.switches)
            if switches not in runs:
                runs[switches] = run(loop)
            keep(own, decided, runs[switches])
        for own in (UNCONDITIONAL, named("d", 0.0)):
            found = run(replace(settled, decision=decisions_of(())[own], minimum_gain=None))
            keep(f"{own}, {PRICED}", found[1], found)
    figures["decisions"] = len(found[1].checks)
    return figures


EXPERIMENT = Experiment("adaptation", plan_work)
