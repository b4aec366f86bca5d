"""Plans of one pattern, run in turn over the same events."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import median

import pyarrow as pa

from benchmarks.experiments.experiment import Row, refuse_different_matches
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Orders
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Join
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.observed import NodeCounts

SLOW_S = 0.5
"""A plan that takes longer than this is run only once."""


@dataclass(frozen=True)
class PlanRun:
    """A way to run a pattern: a mechanism, and for each clause an order or a tree."""

    mechanism: str
    orders: Orders

    @property
    def key(self) -> Hashable:
        """The same for runs that do the same."""
        return self.mechanism, tuple(one if isinstance(one, Join) else tuple(one) for one in self.orders)


@dataclass(frozen=True)
class MeasuredRun:
    """The measurements of a run.

    Attributes
    ----------
    times
        Processor seconds of each of the counted runs.
    matches
        How many were found.
    counters
        The most partial matches, and the most events outside them, held at a time; and what happened at the nodes.
    """

    times: tuple[float, ...]
    matches: int
    counters: Counters

    @property
    def seconds(self) -> float:
        """The median of the times."""
        return max(median(self.times), 1e-9)

    @property
    def nodes(self) -> tuple[NodeCounts, ...]:
        """What happened at the nodes of the plan."""
        return tuple(self.counters.nodes.values())

    @property
    def candidates(self) -> int:
        """Tuples of events that conditions were tested on."""
        return sum(node.candidates for node in self.nodes)


def measure_runs(
    pattern: Pattern, runs: Mapping[str, PlanRun], events: pa.Table, repetitions: int = 3
) -> dict[str, MeasuredRun]:
    """List all matches of a pattern in several ways, in turn; ways that are the same are measured once.

    Parameters
    ----------
    runs
        Name -> how.
    events
        An events table. Reading it into a mechanism's columns is part of a run; what is compiled, is not: there is one
        run before those that count, which counts where it took long.
    repetitions
        Counted runs; with none, the one before them counts.

    Raises
    ------
    CepError
        Two of them found different numbers of matches.
    UnsupportedPattern, PlanError
        A mechanism does not run the pattern, or the order or tree.
    """
    distinct = {run.key: run for run in runs.values()}
    seconds: dict[Hashable, list[float]] = {key: [] for key in distinct}
    measured: dict[Hashable, MeasuredRun] = {}
    for repetition in range(repetitions + 1):
        for key, run in distinct.items():
            slow = bool(seconds[key]) and seconds[key][-1] > SLOW_S
            if slow and repetition > 1:
                continue
            if slow and seconds[key][-1] > 4 * SLOW_S:  # what it compiled is little beside that
                continue
            if repetition == 1:
                seconds[key].clear()
            taken, matches, counters = _run(pattern, run, events)
            seconds[key].append(taken)
            measured[key] = MeasuredRun(tuple(seconds[key]), matches, counters)
    found = {name: measured[run.key] for name, run in runs.items()}
    told: list[Row] = [
        {"pattern": pattern.name, "who": f"{name} on {runs[name].mechanism}", "matches": run.matches}
        for name, run in found.items()
    ]
    refuse_different_matches(told, ["pattern"], "who")
    return found


def _run(pattern: Pattern, run: PlanRun, events: pa.Table) -> tuple[float, int, Counters]:
    counters = Counters()
    begin = time.process_time()
    prepared = PreparedEvents(events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    blocks = MECHANISMS[run.mechanism].find(pattern, run.orders, prepared, EVERYTHING, counters)
    matches = sum(len(block) for block in blocks)
    return time.process_time() - begin, matches, counters
