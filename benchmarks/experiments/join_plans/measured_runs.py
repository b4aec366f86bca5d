"""Plans of one pattern, run in turn over the same events."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import pyarrow as pa

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Orders
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.outputs import Detection
from cep_pipeline.errors import CepError, TooManyMatches
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
    mechanism
        What ran it.
    times
        Processor seconds of each of the counted runs.
    events, matches
        Events of the stream, and the matches found.
    peak_instances, events_buffered
        The most partial matches, and the most events outside them, held at a time.
    nodes
        What happened at the nodes of the plan.
    """

    mechanism: str
    times: tuple[float, ...]
    events: int
    matches: int
    peak_instances: int
    events_buffered: int
    nodes: tuple[NodeCounts, ...]

    @property
    def seconds(self) -> float:
        """The median of the times."""
        return max(median(self.times), 1e-9)

    @property
    def per_s(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def candidates(self) -> int:
        """Tuples of events that conditions were tested on."""
        return sum(node.candidates for node in self.nodes)


def measure_runs(
    pattern: Pattern, runs: Mapping[str, PlanRun], events: pa.Table, repetitions: int = 3, limit: int | None = None
) -> dict[str, MeasuredRun]:
    """List all matches of a pattern in several ways, in turn; ways that are the same are measured once.

    Parameters
    ----------
    pattern
        The pattern; where it has an output policy, that is part of the run.
    runs
        Name -> how.
    events
        An events table. Reading it into a mechanism's columns is part of a run; what is compiled, is not: there is one
        run before those that count, which counts where it took long.
    repetitions
        Counted runs; with none, the one before them counts.
    limit
        Most matches that may be listed; None: no limit.

    Raises
    ------
    TooManyMatches
        There are more than the limit.
    CepError
        Two of them found different numbers of matches.
    UnsupportedPattern, PlanError
        A mechanism does not run the pattern, or the order or tree.
    """
    distinct = {run.key: run for run in runs.values()}
    seconds: dict[Hashable, list[float]] = {key: [] for key in distinct}
    found: dict[Hashable, tuple[int, Counters]] = {}
    for repetition in range(repetitions + 1):
        for key, run in distinct.items():
            slow = bool(seconds[key]) and seconds[key][-1] > SLOW_S
            if slow and repetition > 1:
                continue
            if slow and seconds[key][-1] > 4 * SLOW_S:  # what it compiled is little beside that
                continue
            if repetition == 1:
                seconds[key].clear()
            taken, matches, counters = _run(pattern, run, events, limit)
            seconds[key].append(taken)
            found[key] = matches, counters
    _refuse_different_matches(pattern, runs, {name: found[run.key][0] for name, run in runs.items()})
    measured = {key: _measured(run, events, seconds[key], *found[key]) for key, run in distinct.items()}
    return {name: measured[run.key] for name, run in runs.items()}


def _run(pattern: Pattern, run: PlanRun, events: pa.Table, limit: int | None) -> tuple[float, int, Counters]:
    mechanism, counters = MECHANISMS[run.mechanism], Counters()
    begin = time.process_time()
    prepared = PreparedEvents(events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    if has_output_policy(pattern):
        kept = Detection(pattern, mechanism, run.orders, prepared, counters).batches()
        numbers = (batch.num_rows for batch in kept)
    else:
        numbers = (len(block) for block in mechanism.find(pattern, run.orders, prepared, EVERYTHING, counters))
    matches = 0
    for number in numbers:
        matches += number
        if limit is not None and matches > limit:
            raise TooManyMatches(pattern.name, limit)
    return time.process_time() - begin, matches, counters


def _measured(
    run: PlanRun, events: pa.Table, seconds: Sequence[float], matches: int, counters: Counters
) -> MeasuredRun:
    return MeasuredRun(
        run.mechanism,
        tuple(seconds),
        events.num_rows,
        matches,
        counters.peak_instances,
        counters.events_buffered,
        tuple(counters.nodes.values()),
    )


def _refuse_different_matches(pattern: Pattern, runs: Mapping[str, PlanRun], matches: Mapping[str, int]) -> None:
    names = iter(matches)
    first = next(names, None)
    for name in names:
        assert first is not None
        if matches[name] != matches[first]:
            raise CepError(
                f"pattern {pattern.name!r}: {name} on {runs[name].mechanism} finds {matches[name]:,} matches, {first} "
                f"on {runs[first].mechanism} finds {matches[first]:,}; all plans and mechanisms must find the same"
            )
