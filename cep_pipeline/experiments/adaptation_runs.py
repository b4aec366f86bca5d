"""One pattern under every decision function: decisions are timed, then detection once for all with the same plans."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from cep_pipeline.adaptation import AdaptationReport, AdaptiveDetection, Distances
from cep_pipeline.adaptation.decisions import (
    ConstantThreshold,
    DecisionFunction,
    InvariantBased,
    Static,
    Unconditional,
)
from cep_pipeline.adaptation.distance import Fixed, MetaAdaptive, average_relative_difference
from cep_pipeline.adaptation.invariants import Invariant
from cep_pipeline.benchmarks.measure import one_core
from cep_pipeline.errors import CepError
from cep_pipeline.experiments.adaptation_patterns import PAIRS_A_CHECK, Fitted, matches_in, output_of
from cep_pipeline.experiments.adaptation_prediction import prediction
from cep_pipeline.experiments.adaptation_sizes import (
    AVERAGE,
    INTERVALS_AT_ONCE,
    META,
    OTHER_K,
    STATIC,
    UNCONDITIONAL,
    Contender,
    Sizes,
    distance_name,
    threshold_name,
)
from cep_pipeline.experiments.adaptation_streams import ExperimentStream
from cep_pipeline.experiments.cells import Figure
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.ordering import tightest_of_blocks
from cep_pipeline.planning.plans import Plan

SWEPT_BYTES = 1 << 24
"""More than the caches of a core hold."""
Asked = tuple[tuple[int, str], ...]
"""Which plans a mechanism is to run from which events on, after the first one."""


@dataclass
class _Noted:
    """The average relative difference of each block's tightest comparison, and that of all, noted as it is found."""

    found: float = 0.0
    of_all: float = 0.0

    def begin(self, plan: Plan) -> Distances:
        clauses = [clause.comparisons for pattern in plan.patterns for clause in pattern.clauses]
        self.of_all = average_relative_difference(one for comparisons in clauses for one in comparisons)
        self.found = average_relative_difference(
            one for comparisons in clauses for one in tightest_of_blocks(comparisons, 1)
        )
        return Distances(self.found)

    def after_replanning(self, distances: Distances, violated: Sequence[Invariant], gain: float) -> Distances:
        return distances


def decisions_of(contender: Contender, sizes: Sizes, average: _Noted) -> dict[str, DecisionFunction]:
    """What is compared: the four decision functions, with all that is tried of t and d."""
    return {
        STATIC: Static(),
        UNCONDITIONAL: Unconditional(),
        **{threshold_name(t): ConstantThreshold(t) for t in sizes.thresholds},
        **{distance_name(d): InvariantBased(contender.k, Fixed(d)) for d in sizes.distances},
        AVERAGE: InvariantBased(contender.k, average),
        META: InvariantBased(contender.k, MetaAdaptive()),
        OTHER_K: InvariantBased(contender.other_k),
    }


@dataclass
class _Decided:
    """What a decision function did; of what was timed the least."""

    report: AdaptationReport
    least: dict[str, float] = field(default_factory=dict)

    def add(self, report: AdaptationReport) -> None:
        total = report.total
        times = {"deciding": total.deciding, "planning": total.planning, "estimating": report.seconds_estimating}
        self.least = {name: min(seconds, self.least.get(name, seconds)) for name, seconds in times.items()}

    @property
    def asked(self) -> Asked:
        """What the mechanism is asked to run."""
        return tuple((switch.row, switch.orders) for switch in self.report.switches)


@dataclass
class _Detected:
    """What a mechanism found, how many events it tried on partial matches, and the least time that it took."""

    output: pa.Table
    candidates: int
    seconds: float


def measure(
    contender: Contender, stream: ExperimentStream, fitted: Fitted, sizes: Sizes, seed: int
) -> dict[str, Figure]:
    """Run a pattern under every decision function, so often as is asked for.

    What is decided does not depend on what is found. So decisions are timed first, without detection: in between the
    caches are swept, as detection would. Then the mechanism runs, once for all decision functions that switched to the
    same plans at the same events, which ask the same of it.

    Returns
    -------
    dict of str to figure
        For each decision function `NAME:` and a figure; seconds of processor time.

    Raises
    ------
    CepError
        A decision function led to other matches.
    """
    average, pattern, every = _Noted(), fitted.pattern, fitted.every
    events = stream.events.slice(0, sizes.checks[stream.name] * every)
    loops = {
        name: AdaptiveDetection(
            planner=contender.planner,
            cost=contender.cost,
            mechanism=contender.mechanism,
            decision=decision,
            every_events=every,
            window=sizes.reach[stream.name] * every,
            seed=seed,
            max_pairs=PAIRS_A_CHECK,
            detect_events=INTERVALS_AT_ONCE * every,
            clock=time.process_time,
        )
        for name, decision in decisions_of(contender, sizes, average).items()
    }
    decided: dict[str, _Decided] = {}
    gc.collect()
    for _ in range(sizes.repetitions):
        for name, loop in loops.items():
            _, report = _run(replace(loop, find=False), pattern, _swept(events, every))
            decided.setdefault(name, _Decided(report)).add(report)
    detected: dict[Asked, _Detected] = {}
    for _ in range(contender.unmeasured + sizes.repetitions):
        for asked, name in {of.asked: name for name, of in reversed(decided.items())}.items():
            output, report = _run(loops[name], pattern, events)
            first = next(iter(detected.values()), None)
            if first is not None and not output.equals(first.output):
                raise CepError(
                    f"adaptation: {name} on {contender.mechanism} finds {matches_in(output):,} matches in the "
                    f"{stream.name}, where {matches_in(first.output):,} were found; plans must not change what is found"
                )
            candidates, seconds = sum(node.candidates for node in report.metrics.nodes), report.total.detecting
            of = detected.setdefault(asked, _Detected(output, candidates, seconds))
            of.seconds = min(of.seconds, seconds)
    told = prediction(loops[UNCONDITIONAL], pattern, events)
    figures: dict[str, Figure] = {
        "events_read": events.num_rows,
        "interval": every,
        "average_d": average.found,
        "average_d_of_all": average.of_all,
        "by_latest": told.by_latest,
        "by_next": told.by_next,
        **{f"error_{reach}": error for reach, error in told.error.items()},
    }
    for name, by in decided.items():
        figures |= {f"{name}:{figure}": value for figure, value in _figures(by, detected[by.asked]).items()}
    return figures


def _run(
    loop: AdaptiveDetection, pattern: Pattern, events: pa.Table | Iterator[pa.Table]
) -> tuple[pa.Table, AdaptationReport]:
    with one_core(), _nothing_collected():
        tables, report = loop.detect([pattern], events, output=output_of(pattern))
    return tables[pattern.name], report


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """What runs leave behind is not swept up in the middle of a plan."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _swept(events: pa.Table, every: int) -> Iterator[pa.Table]:
    """The stream in the parts between decisions, with nothing left in the caches of the one before."""
    sweep = np.zeros(SWEPT_BYTES // 8)
    for first in range(0, events.num_rows, every):
        sweep += 1.0
        yield events.slice(first, every)


def _figures(decided: _Decided, detected: _Detected) -> dict[str, Figure]:
    report = decided.report
    return {
        **decided.least,
        "detecting": detected.seconds,
        "matches": matches_in(detected.output),
        "checks": len(report.checks),
        "planned": report.replannings,
        "switches": len(report.switches),
        "candidates": detected.candidates,
    }
