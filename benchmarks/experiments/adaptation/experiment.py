"""`cep experiment adaptation`: decisions to plan again where a plan is dear, as daily jobs make them (ACEP patent)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import pyarrow as pa

from benchmarks.experiments.adaptation.jobs import MADE_COUNTS, JobSuccession, PlannedBy
from benchmarks.experiments.adaptation.patterns import PatternDrawing, pattern_of_discrepancy
from benchmarks.experiments.adaptation.sizes import (
    DAYS,
    DEAR,
    DISCREPANCY,
    FREE,
    FREQUENCY,
    FULL,
    PRICED,
    SMALL,
    STATIC,
    TOGETHER,
    DaysCase,
    DearCase,
    Sizes,
    decisions_of,
)
from benchmarks.experiments.adaptation.streams import (
    BARS,
    PER_S,
    TRAFFIC,
    days_of_bars,
    days_of_traffic,
    stretches_of_discrepancy,
    stretches_of_trades,
)
from benchmarks.experiments.cells import Cell, Figure, Row
from benchmarks.experiments.experiment import Experiment, Request, Work
from benchmarks.experiments.page import Page
from benchmarks.measure import one_core
from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.decisions import DecisionFunction, DecisionState, Verdict
from cep_pipeline.errors import CepError
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics

MECHANISMS = {
    "dp_left_deep": PlannedBy("dp_left_deep", "lazy_chain_nfa"),
    "greedy": PlannedBy("greedy", "lazy_chain_nfa"),
    "dp_bushy": PlannedBy("dp_bushy", "evaluation_tree", "instances"),
    "zstream": PlannedBy("zstream", "evaluation_tree", "instances"),
    TOGETHER: PlannedBy(TOGETHER, "multitree"),
}
"""Planner -> how its plans are run."""
DAY_WINDOW_S: Mapping[str, int] = {TRAFFIC: 900, BARS: 1_800}
DAY_SIZES, DAY_SELECTIVITIES = (3, 4, 5), (0.01, 0.1)
DEAR_WINDOW_S, SET_WINDOW_S, DEAR_SELECTIVITIES = 150, 20, (0.025, 0.025)
DISCREPANCY_WINDOW_S = 160
FREQUENCY_WINDOW_S, FREQUENCY_SIZE, FREQUENCY_SELECTIVITIES = 60, 5, (0.02, 0.02)
FEW_PAIRS = 512
"""Pairs that the statistics test a scope between two of many decisions a window."""
REACH = 4
"""Jobs that the statistics of short jobs reach back; those of days are of the day."""


def plan_work(request: Request) -> Work:
    """The measurements, and their page."""
    sizes: Sizes = request.sizes or (FULL if request.full else SMALL)

    def page(rows: Sequence[Row]) -> Page:
        from benchmarks.experiments.adaptation.page import write_page

        return write_page(rows, sizes, request)

    return Work([*_cells(sizes, request)], page)


def _cells(sizes: Sizes, request: Request) -> Iterator[Cell]:
    """The cells, the cheap ones first; all repetitions of a case follow each other."""
    repetitions = range(1, sizes.repetitions + 1)
    tried: dict[str, Figure] = {
        "thresholds": " ".join(f"{t:g}" for t in sizes.thresholds),
        "distances": " ".join(f"{d:g}" for d in sizes.distances),
    }
    for planner, number in product(("greedy", "zstream"), repetitions):
        key: dict[str, Figure] = {
            "part": DISCREPANCY,
            "planner": planner,
            "jobs": sizes.stretches,
            "seconds a job": sizes.stretch_s,
        }
        seed = request.seed * 1_000 + number
        yield Cell({**key, **tried, "repetition": number}, partial(_discrepancy, planner, sizes, seed))
    for case, number in product(sizes.dear, repetitions):
        key = {"part": DEAR, "planner": case.planner, "size": case.size, "jobs": case.jobs, "events a job": case.events}
        seed = request.seed * 1_000 + number
        yield Cell({**key, **tried, "repetition": number}, partial(_dear, case, sizes, seed))
    few: dict[str, Figure] = {"few": " ".join(f"{one:g}" for of in sizes.few for one in of)}
    for (often, windows), planner, number in product(sizes.frequencies, ("greedy", "zstream"), repetitions):
        key = {"part": FREQUENCY, "planner": planner, "a window": often, "windows": windows}
        seed = request.seed * 1_000 + number
        yield Cell({**key, **few, "repetition": number}, partial(_frequency, planner, often, windows, sizes, seed))
    for days, stream, number in product(sizes.days, (TRAFFIC, BARS), repetitions):
        key = {"part": DAYS, "stream": stream, "planner": days.planner, "size": days.patterns, "jobs": days.days}
        seed = request.seed * 1_000 + number
        yield Cell({**key, **tried, "repetition": number}, partial(_days, stream, days, sizes, request, seed))


def _days(name: str, case: DaysCase, sizes: Sizes, request: Request, seed: int) -> dict[str, Figure]:
    if name == TRAFFIC:
        stream = days_of_traffic(request.data, max(one.days for one in sizes.days) + 1, request.seed)
    else:
        stream = days_of_bars(max(one.days for one in sizes.days) + 1, seed)
    drawing = PatternDrawing(stream, DAY_WINDOW_S[name], DAY_SELECTIVITIES, seed)
    patterns = drawing.many(case.patterns, DAY_SIZES)
    jobs = stream.jobs[: case.days + 1]
    by = MECHANISMS[case.planner]
    figures = JobSuccession(patterns, jobs, by, 1, daily=True, seed=seed).measure(
        decisions_of(sizes.thresholds, sizes.distances)
    )
    return {"stream is": stream.description, **figures}


def _dear(case: DearCase, sizes: Sizes, seed: int) -> dict[str, Figure]:
    by = MECHANISMS[case.planner]
    stream = stretches_of_trades(case.jobs + 1, case.events, seed)
    drawing = PatternDrawing(stream, SET_WINDOW_S if by.together else DEAR_WINDOW_S, DEAR_SELECTIVITIES, seed)
    patterns = drawing.many(case.size, DAY_SIZES) if by.together else [drawing.one(case.size)]
    succession = JobSuccession(patterns, stream.jobs, by, REACH, daily=False, seed=seed)
    return succession.measure(decisions_of(sizes.thresholds, sizes.distances, rules=True))


def _discrepancy(planner: str, sizes: Sizes, seed: int) -> dict[str, Figure]:
    stream = stretches_of_discrepancy(sizes.stretches + 1, sizes.stretch_s, seed)
    pattern = pattern_of_discrepancy(stream, DISCREPANCY_WINDOW_S)
    succession = JobSuccession([pattern], stream.jobs, MECHANISMS[planner], 1, daily=False, seed=seed)
    return succession.measure(decisions_of(sizes.thresholds, sizes.distances, rules=True))


def _frequency(planner: str, often: int, windows: int, sizes: Sizes, seed: int) -> dict[str, Figure]:
    """Run the product's loop, in which the old plan reads on for a window wherever the plan is switched."""
    events_a_window = round(FREQUENCY_WINDOW_S * PER_S)
    stream = stretches_of_trades(windows + 1, events_a_window, seed)
    pattern = PatternDrawing(stream, FREQUENCY_WINDOW_S, FREQUENCY_SELECTIVITIES, seed).one(FREQUENCY_SIZE)
    by, begin = MECHANISMS[planner], stream.jobs[0]
    known = estimate_statistics([pattern], begin, seed=seed)
    settled = AdaptiveDetection(
        planner=by.planner,
        cost=by.cost,
        mechanism=by.mechanism,
        every_events=events_a_window // often,
        window=events_a_window,
        seed=seed,
        max_pairs=FEW_PAIRS,
        clock=time.process_time,
    )
    # What is loaded or compiled on first use is no part of any decision function's time.
    settled.detect([pattern], begin, snapshot=known, output="count")
    figures: dict[str, Figure] = {"decisions": windows * often, "events": stream.events.num_rows}
    from_us = begin.column("timestamp").cast(pa.int64())[-1].as_py()
    for price, (name, decision) in product((FREE, PRICED), decisions_of(*sizes.few).items()):
        own = name if price == FREE else f"{name}, {price}"
        if price == PRICED and name == STATIC:
            continue
        loop = replace(settled, decision=Later(decision, from_us), minimum_gain=0.0 if price == FREE else None)
        with one_core():
            tables, report = loop.detect([pattern], stream.events, snapshot=known, output="count")
        matches = int(tables[pattern.name].column("count")[0].as_py())
        if figures.setdefault("matches", matches) != matches:
            raise CepError(f"adaptation: {own} finds {matches:,} matches, where {figures['matches']:,} were found")
        figures |= {
            f"{own}:alarms": report.replannings,
            f"{own}:switches": len(report.switches),
            f"{own}:deciding": report.total.deciding if name != STATIC else 0.0,
            f"{own}:planning": report.total.planning,
            f"{own}:detecting": report.total.detecting,
            f"{own}:tries": sum(node.candidates + MADE_COUNTS * node.created for node in report.metrics.nodes),
        }
    return figures


@dataclass(frozen=True)
class Later(DecisionFunction):
    """Decides as another one does, but not before an instant: until then the statistics are those of a few events."""

    decided_by: DecisionFunction
    from_us: int

    def begin(self, plan: Plan, *others: Any, **settings: Any) -> DecisionState:
        return self.decided_by.begin(plan, *others, **settings)

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        if snapshot.end_us is None or snapshot.end_us <= self.from_us:
            return Verdict(False, "the statistics do not reach back as far as they are to")
        return self.decided_by.decide(state, snapshot)

    def replanned(self, state: DecisionState, *others: Any, **settings: Any) -> DecisionState:
        return self.decided_by.replanned(state, *others, **settings)


EXPERIMENT = Experiment("adaptation", plan_work)
