"""A shared plan over input whose types are exchanged all the time: the first one, and plans made anew (MCEP [0150])."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from cep_pipeline.adaptation.decisions import ConstantThreshold
from cep_pipeline.adaptation.plan_quality import ln_cost_on
from cep_pipeline.adaptation.thresholds import deviations, numbers_now, questions_of
from cep_pipeline.detection.extent import look_back
from cep_pipeline.detection.mechanism import Counters, Owned
from cep_pipeline.detection.prepared import Boundary
from cep_pipeline.experiments.cells import Figure
from cep_pipeline.experiments.multi_pattern_loop import run_loop
from cep_pipeline.experiments.multi_pattern_runs import MULTITREE, Ran, prepared_events, run_plan, same_matches
from cep_pipeline.experiments.multi_pattern_streams import WorkloadStream, permuted
from cep_pipeline.experiments.multi_pattern_workloads import Shape, draw_workload
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern import plan_workload
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

STATIC, ADAPTIVE, HINDSIGHT = "static", "adaptive", "hindsight"
"""The plan of the stream as it was; plans made as it goes on; and the plan of all that is to come, which nobody has."""
LOOP, LOOP_STATIC = "loop", "loop static"
"""The product's own loop by the same threshold, component by component; and by the first plan."""
PAIRS_A_CHECK = 1_000
"""Pairs that the statistics test a scope between two checks."""


@dataclass(frozen=True)
class AdaptiveSizes:
    """How much is measured of it.

    Attributes
    ----------
    patterns, size
        Of the workload.
    windows
        Stream -> how many windows of it are read.
    phases
        x: events after which types are exchanged anew.
    every_windows
        Windows between two checks of the statistics, which are of the events in between.
    steps
        Of the search that makes a plan, from the current one on.
    threshold
        By what share a rate or a selectivity has to have moved for it.
    """

    patterns: int
    size: int
    windows: Mapping[str, int]
    phases: tuple[int, ...]
    every_windows: int
    steps: int
    threshold: float


@dataclass(frozen=True)
class _Span:
    """Events from one row up to another, and the plan that runs them."""

    first: int
    end: int
    plan: Plan


@dataclass
class _Decided:
    spans: list[_Span]
    deciding: float = 0.0
    planning: float = 0.0
    planned: int = 0
    checks: int = 0


def measure_adaptive(stream: WorkloadStream, phase: int, sizes: AdaptiveSizes, seed: int) -> dict[str, Figure]:
    """Run the plan that was made for the stream as it is over the stream with its types exchanged, and adapt it.

    Raises
    ------
    CepError
        The plans led to other matches.
    """
    workload = draw_workload(stream, Shape(sizes.patterns, sizes.size, kleene=False), 0, seed)
    patterns = workload.patterns
    exchanged = permuted(stream, phase, workload.pool, seed)
    known = estimate_statistics(patterns, stream.events, max_pairs=PAIRS_A_CHECK)
    first = _searched(patterns, known, sizes.steps, seed, None)
    events = exchanged.events
    every = sizes.every_windows * round(events.num_rows / stream.windows)
    decided = _decide(patterns, events, first, known, every, sizes, seed)
    static = _run(exchanged, patterns, [_Span(0, events.num_rows, first)])
    adaptive = _run(exchanged, patterns, decided.spans)
    same_matches(ADAPTIVE, adaptive.matches, static.matches)
    of_all = estimate_statistics(patterns, events, max_pairs=PAIRS_A_CHECK)
    best = _searched(patterns, of_all, sizes.steps, seed, None)
    hindsight = _run(exchanged, patterns, [_Span(0, events.num_rows, best)])
    same_matches(HINDSIGHT, hindsight.matches, static.matches)
    loops = {}
    for name, decision in ((LOOP_STATIC, None), (LOOP, ConstantThreshold(sizes.threshold))):
        loops[name] = run_loop(exchanged, patterns, first, known, decision, every=every, steps=sizes.steps, seed=seed)
        same_matches(name, loops[name].matches, static.matches)
    return {
        "events": events.num_rows,
        "matches": sum(static.matches.values()),
        **_figures(STATIC, static),
        **_figures(ADAPTIVE, adaptive),
        **_figures(HINDSIGHT, hindsight),
        f"{ADAPTIVE}:deciding": decided.deciding,
        f"{ADAPTIVE}:planning": decided.planning,
        f"{ADAPTIVE}:planned": decided.planned,
        f"{ADAPTIVE}:checks": decided.checks,
        f"{ADAPTIVE}:plans": len(decided.spans),
        **loops[LOOP_STATIC].figures(LOOP_STATIC),
        **loops[LOOP].figures(LOOP),
    }


def _figures(name: str, ran: Ran) -> dict[str, Figure]:
    return {
        f"{name}:seconds": ran.seconds,
        f"{name}:candidates": sum(node.candidates for node in ran.counters.nodes.values()),
        f"{name}:created": sum(node.created for node in ran.counters.nodes.values()),
    }


def _searched(
    patterns: Sequence[Pattern], snapshot: StatisticsSnapshot, steps: int, seed: int, start: Plan | None
) -> Plan:
    return plan_workload(patterns, snapshot, "simulated_annealing", steps=steps, seed=seed, start=start)


def _decide(
    patterns: Sequence[Pattern],
    events: pa.Table,
    first: Plan,
    known: StatisticsSnapshot,
    every: int,
    sizes: AdaptiveSizes,
    seed: int,
) -> _Decided:
    """Which plan runs which events: at each check the numbers that the plan was made by are compared with the latest.

    What a plan finds has no part in it, so that all is decided before any of it is run.
    """
    questions = questions_of(patterns)

    def numbers(snapshot: StatisticsSnapshot) -> Mapping[str, Mapping[str, float]]:
        return {name: numbers_now(clauses, snapshot) for name, clauses in questions.items()}

    before, plan = numbers(known), first
    decided = _Decided([_Span(0, events.num_rows, first)])
    for row in range(every, events.num_rows, every):
        decided.checks += 1
        latest = estimate_statistics(patterns, events.slice(row - every, every), max_pairs=PAIRS_A_CHECK)
        begun = time.process_time()
        moved = any(one.relative >= sizes.threshold for one in deviations(before, questions, latest))
        decided.deciding += time.process_time() - begun
        if not moved:
            continue
        begun = time.process_time()
        decided.planned += 1
        new = _searched(patterns, latest, sizes.steps, seed, plan)
        cheaper = ln_cost_on(new, patterns, latest) < ln_cost_on(plan, patterns, latest)
        decided.planning += time.process_time() - begun
        before = numbers(latest)
        if cheaper:
            plan = new
            last = decided.spans.pop()
            decided.spans += [_Span(last.first, row, last.plan), _Span(row, last.end, plan)]
    return decided


def _run(stream: WorkloadStream, patterns: Sequence[Pattern], spans: Sequence[_Span]) -> Ran:
    """Run plans one after another, each from a window before its first event on, so that no match is lost."""
    seconds, counters = 0.0, Counters()
    found = {pattern.name: 0 for pattern in patterns}
    time_us = look_back(patterns).time_us
    timestamps = stream.events.column("timestamp").cast(pa.int64()).to_numpy()
    for span in spans:
        begin = int(timestamps.searchsorted(timestamps[span.first] - time_us, "left"))
        owned: Owned = (_point(stream.events, span.first), _point(stream.events, span.end))
        events = prepared_events(stream, stream.events.slice(begin, span.end - begin))
        ran = run_plan(patterns, span.plan, MULTITREE, events, owned)
        seconds += ran.seconds
        counters.add(ran.counters)
        for name, count in ran.matches.items():
            found[name] += count
    return Ran(seconds, found, counters)


def _point(events: pa.Table, row: int) -> Boundary | None:
    if row in (0, events.num_rows):
        return None
    stream_point = events.slice(row, 1)
    return stream_point.column("timestamp").cast(pa.int64())[0].as_py(), stream_point.column("seq")[0].as_py()
