"""A shared plan over input whose types are exchanged all the time: the first one, and plans made anew (MCEP [0150])."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import pyarrow as pa

from benchmarks.experiments.cells import Figure
from benchmarks.experiments.multi_pattern.runs import (
    MAX_PAIRS,
    MULTITREE,
    prepared_events,
    run_plan,
    same_matches,
    snapshot_for,
)
from benchmarks.experiments.multi_pattern.streams import STREAMS, WorkloadStream, permuted
from benchmarks.experiments.multi_pattern.workloads import Shape, draw_workload_for, pool_of
from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.decisions import ConstantThreshold, InvariantBased, Static
from cep_pipeline.adaptation.report import AdaptationReport
from cep_pipeline.detection.mechanisms import Counters, Owned
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.ownership import look_back
from cep_pipeline.slices.prepared import Boundary
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

STATIC, FIRST, HINDSIGHT, PHASES = "static", "first", "hindsight", "phases"
"""Plans of the statistics of the stream as it was, of the first exchanged events, of all of them, and of each phase."""
LOOP, INVARIANTS, LOOP_STATIC = "loop", "loop, invariants", "loop static"
"""The product's own loop, component by component, by a threshold and by invariants; and the same with the static plan.
"""


ANEW, ON_TOP = "drawn anew", "on top of each other"
"""Two ways to read what the patent says of the input: an exchange changes the stream as it was, or what the exchange
before has left."""
EXCHANGES = (ANEW, ON_TOP)


@dataclass(frozen=True)
class AdaptiveSizes:
    """The extent of this part.

    Attributes
    ----------
    patterns, size
        Of the workload.
    windows, window_events
        How many windows of a stream are read; and the events of a window.
    phases
        x: events after which types are exchanged anew; the patent has 10 to 1,000.
    workloads
        How many are drawn for the reading that is judged by; of the others it is one.
    every_windows
        Windows between two checks of the statistics.
    reach_windows
        Windows that the statistics reach back.
    steps
        Of the search that makes a plan, from the current one on.
    threshold
        By what share a rate or a selectivity has to have moved for it.
    minimum_gain
        The share of its cost that a new plan has to save.
    """

    patterns: int
    size: int
    windows: int
    window_events: int
    phases: tuple[int, ...]
    workloads: int
    every_windows: int
    reach_windows: int
    steps: int
    threshold: float
    minimum_gain: float

    def cells(self) -> list[tuple[str, str, int, int]]:
        """The measurements: stream, reading, x, and number of the workload."""
        return [
            *((s, ANEW, x, n) for s, x, n in product(STREAMS, self.phases, range(self.workloads))),
            *((s, ON_TOP, x, 0) for s, x in product(STREAMS, self.phases)),
        ]


@dataclass(frozen=True)
class _Span:
    """Events from one row up to another, and the plan that runs them."""

    first: int
    end: int
    plan: Plan


def measure_adaptive(
    stream: WorkloadStream, exchange: str, phase: int, number: int, sizes: AdaptiveSizes, seed: int
) -> dict[str, Figure]:
    """Run the plan that was made for the stream as it is over the stream with its types exchanged, and adapt it.

    Parameters
    ----------
    number
        Which workload.

    Raises
    ------
    CepError
        The plans led to other matches.
    """
    window_s = f"{stream.window_s} seconds"
    shape = Shape(sizes.patterns, sizes.size, window=window_s, kleene=False, all_compared=stream.longer > 1)
    exchanged = permuted(stream, phase, pool_of(stream, shape, number, seed), seed, on_top=exchange == ON_TOP)
    patterns = draw_workload_for(stream, exchanged, shape, number, seed).patterns
    events = exchanged.events
    window = round(events.num_rows / stream.windows)
    every, reach = sizes.every_windows * window, sizes.reach_windows * window
    plan_of = partial(_searched, patterns, steps=sizes.steps, seed=seed)
    known = snapshot_for(patterns, stream.events)
    static = plan_of(known)
    all_of_it = partial(_Span, 0, events.num_rows)
    spans = {
        STATIC: [all_of_it(static)],
        FIRST: [all_of_it(plan_of(snapshot_for(patterns, events.slice(0, every))))],
        HINDSIGHT: [all_of_it(plan_of(snapshot_for(patterns, events)))],
        PHASES: [
            _Span(row, row + part.num_rows, plan_of(snapshot_for(patterns, part)))
            for row, part in _parts(events, max(phase, reach))
        ],
    }
    ran = {name: _run(exchanged, patterns, own) for name, own in spans.items()}
    matches = {name: found for name, (_, _, found) in ran.items()}
    reports = {}
    decisions = {LOOP_STATIC: Static(), LOOP: ConstantThreshold(sizes.threshold), INVARIANTS: InvariantBased()}
    for name, decision in decisions.items():
        loop = AdaptiveDetection(
            mechanism=MULTITREE,
            decision=decision,
            every_events=every,
            window=reach,
            seed=seed,
            max_pairs=MAX_PAIRS,
            minimum_gain=sizes.minimum_gain,
            clock=time.process_time,
            search={"steps": sizes.steps, "seed": seed},
        )
        tables, reports[name] = loop.detect(patterns, events, static, known, output="count")
        matches[name] = {of: int(table.column("count")[0].as_py()) for of, table in tables.items()}
    for name, found in matches.items():
        same_matches(name, found, matches[STATIC])
    figures: dict[str, Figure] = {"events": events.num_rows, "window": window, "matches": sum(matches[STATIC].values())}
    for name, (seconds, candidates, _) in ran.items():
        figures |= {f"{name}:seconds": seconds, f"{name}:plans": len(spans[name]), f"{name}:candidates": candidates}
    for name, report in reports.items():
        figures |= {f"{name}:{figure}": value for figure, value in _of_loop(report).items()}
    return figures


def _of_loop(report: AdaptationReport) -> dict[str, Figure]:
    """The figures of a run of the loop; `seconds` are those of detection, with the networks made for each stretch."""
    return {
        "seconds": report.total.detecting,
        "deciding": report.total.deciding,
        "planning": report.total.planning,
        "candidates": sum(node.candidates for node in report.metrics.nodes),
        "checks": len(report.checks),
        "planned": report.replannings,
        "switches": len(report.switches),
    }


def _searched(patterns: Sequence[Pattern], snapshot: StatisticsSnapshot, steps: int, seed: int) -> Plan:
    return plan_workload(patterns, snapshot, "simulated_annealing", steps=steps, seed=seed)


def _parts(events: pa.Table, size: int) -> list[tuple[int, pa.Table]]:
    return [(row, events.slice(row, size)) for row in range(0, events.num_rows, size)]


def _run(
    stream: WorkloadStream, patterns: Sequence[Pattern], spans: Sequence[_Span]
) -> tuple[float, int, dict[str, int]]:
    """Run plans one after another, each from a window before its first event on, so that no match is lost.

    Returned are the seconds, the candidates that were tested, and the matches of each pattern.
    """
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
    return seconds, sum(node.candidates for node in counters.nodes.values()), found


def _point(events: pa.Table, row: int) -> Boundary | None:
    if row in (0, events.num_rows):
        return None
    stream_point = events.slice(row, 1)
    return stream_point.column("timestamp").cast(pa.int64())[0].as_py(), stream_point.column("seq")[0].as_py()
