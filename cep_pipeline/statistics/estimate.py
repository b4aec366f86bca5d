"""Estimate a snapshot from events: leaves are counted, conditions are tested on pairs and tuples of their scope.

The statistics of the slices of a stream add up to those of the stream.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.composing import plain_pattern
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from cep_pipeline.statistics.joint import DEPENDENT_FACTOR, check_factor, split_joints
from cep_pipeline.statistics.samples import PairCount, Sample, Terms, rows_of_leaves, sample_scopes
from cep_pipeline.statistics.snapshot import (
    LeafRate,
    Selectivity,
    Source,
    StatisticsSnapshot,
    effective_number,
    span_seconds,
    wilson_interval,
)
from cep_pipeline.statistics.windowed import EPSILON, WindowedStatistics


@dataclass(frozen=True)
class PartialStatistics:
    """Counts of one slice: its own events, and the pairs whose later event is its own.

    `a + b` is the statistics of both slices together; the order of adding changes no more than rounding.
    """

    stream: str
    events: int
    start_us: int | None
    end_us: int | None
    leaves: Mapping[str, int]
    conditions: Mapping[str, PairCount]

    def __add__(self, other: PartialStatistics) -> PartialStatistics:
        if other.stream != self.stream:
            raise InputError(
                f"statistics of the streams {self.stream!r} and {other.stream!r} do not add up: make a snapshot of each"
            )
        return PartialStatistics(
            stream=self.stream,
            events=self.events + other.events,
            start_us=min((t for t in (self.start_us, other.start_us) if t is not None), default=None),
            end_us=max((t for t in (self.end_us, other.end_us) if t is not None), default=None),
            leaves={key: self.leaves.get(key, 0) + other.leaves.get(key, 0) for key in {**self.leaves, **other.leaves}},
            conditions={
                key: self.conditions.get(key, PairCount()) + other.conditions.get(key, PairCount())
                for key in {**self.conditions, **other.conditions}
            },
        )


def snapshot_of(
    whole: PartialStatistics, dependent_factor: float = DEPENDENT_FACTOR, **described: Any
) -> StatisticsSnapshot:
    """The snapshot of what was counted; `described` are further fields of it, such as its kind and window.

    Conditions on the same two events that are off from the product of their selectivities by more than
    `dependent_factor` get their joint selectivity.
    """
    check_factor(dependent_factor)
    span_s = span_seconds(whole.start_us, whole.end_us)
    # A scope without pairs says nothing of its condition: the snapshot's reader falls back to the prior.
    selectivities, joints = split_joints(
        (selectivity_of(condition, count) for condition, count in whole.conditions.items() if count.tested),
        dependent_factor,
    )
    return StatisticsSnapshot(
        stream=whole.stream,
        events=whole.events,
        start_us=whole.start_us,
        end_us=whole.end_us,
        rates=tuple(
            LeafRate(leaf, count / span_s, count, Source.COUNT, count / span_s, count / span_s)
            for leaf, count in whole.leaves.items()
        ),
        selectivities=selectivities,
        joints=joints,
        **described,
    )


def selectivity_of(condition: str, count: PairCount) -> Selectivity:
    """The share of pairs that pass, and its interval: a point where all of them were tested."""
    share = count.passing / count.pairs
    if not count.squares:
        return Selectivity(condition, share, count.pairs, count.tested, Source.ALL_PAIRS, share, share)
    low, high = wilson_interval(share, effective_number(count.pairs, share, count.squares, count.passing_squares))
    return Selectivity(condition, share, count.pairs, count.tested, Source.SAMPLED_PAIRS, low, high)


Array = np.ndarray[Any, Any]

logger = logging.getLogger(__name__)
MAX_PAIRS = 65_536
"""Pairs that are tested a scope unless told otherwise: a share of 1/2 is then known to 0.4 %, at 95 %."""
ROUGH_PAIRS, ROUGH_FIRST = 4_096, 1_024
"""Pairs that are tested a scope for a plan that is used once, and first events by which its pairs are estimated."""
PAIRS_A_SLICE = 16_384
"""Pairs that are tested a scope in each slice, unless told otherwise."""
CELLS = 512
"""Parts of a slice, of equal numbers of events, that the tested pairs of a scope are told apart by."""


def estimate_statistics(
    patterns: Pattern | Sequence[Pattern],
    events: pa.Table,
    seed: int = 0,
    max_pairs: int = MAX_PAIRS,
    dependent_factor: float = DEPENDENT_FACTOR,
) -> StatisticsSnapshot:
    """Estimate all that planning the patterns needs, as the public function of this name says.

    A pattern that composes others is estimated alone, over its longer stream.

    Raises
    ------
    InputError
        The patterns are of several streams, `max_pairs` is below 1, or the events are not in the order of time.
    """
    patterns = [patterns] if isinstance(patterns, Pattern) else patterns
    logger.info("statistics of %s patterns over %s events", len(patterns), events.num_rows)
    prepared = in_order(prepare(patterns, events))
    return snapshot_of(partial_statistics(patterns, prepared, seed=seed, max_pairs=max_pairs), dependent_factor)


def partial_statistics(
    patterns: Sequence[Pattern],
    events: pa.Table | PreparedEvents,
    *,
    start: Boundary | int | None = None,
    end: Boundary | None = None,
    seed: int = 0,
    max_pairs: int = MAX_PAIRS,
    most_first: int | None = None,
) -> PartialStatistics:
    """Count one slice of a stream, to be added to the others.

    Parameters
    ----------
    events
        The events of the slice, with the look-back before `start` that the longest window takes.
    start, end
        The slice is `[start, end)`: its events are counted, and the pairs whose later event it has. A number is the row
        of `events` that it begins with.
    most_first
        As `sample_scopes` takes it.

    Raises
    ------
    InputError
        As `estimate_statistics`.
    """
    if max_pairs < 1:
        raise InputError(f"max_pairs is {max_pairs}: at least one pair must be tested")
    prepared = prepare(patterns, events)
    first, last = owned_rows(prepared, start, end)
    terms = Terms.of(patterns)
    rows = rows_of_leaves(terms.leaves, prepared)
    counts = {}
    for leaf, found in rows.items():  # bounds of the rows' own type, else NumPy copies all rows
        begin, end = np.searchsorted(found, np.array([first, last], found.dtype))
        counts[leaf.key] = int(end - begin)
    conditions: dict[str, PairCount] = {}
    for scope, sample in sample_scopes(
        terms, prepared, rows, (first, last), seed=seed, max_pairs=max_pairs, most_first=most_first
    ):
        for condition in terms.scopes[scope]:
            conditions[condition.key] = sample.counted(condition.key)
    own = prepared.timestamps[first:last]
    return PartialStatistics(
        stream=patterns[0].stream,
        events=last - first,
        start_us=int(own[0]) if len(own) else None,
        end_us=int(own[-1]) if len(own) else None,
        leaves=counts,
        conditions=conditions,
    )


def rough_statistics(patterns: Sequence[Pattern], events: PreparedEvents) -> StatisticsSnapshot:
    """Estimate what planning some patterns for one call needs, in less time than detection takes.

    Leaves are counted. Selectivities are known to about 1.5 % at 95 %: enough to tell orders apart whose costs differ.
    """
    return snapshot_of(partial_statistics(patterns, events, max_pairs=ROUGH_PAIRS, most_first=ROUGH_FIRST))


def prepare(patterns: Sequence[Pattern], events: pa.Table | PreparedEvents) -> PreparedEvents:
    """The events of a slice, prepared; InputError where the patterns are of several streams, or of none."""
    streams = {(one.stream, one.type_attribute, one.base_type) for one in map(plain_pattern, patterns)}
    if len(streams) != 1:
        names = ", ".join(sorted(stream for stream, _, _ in streams)) or "none"
        raise InputError(f"statistics are of one stream; the patterns are of {names}: estimate them stream by stream")
    if isinstance(events, PreparedEvents):
        return events
    _, type_attribute, base_type = next(iter(streams))
    return PreparedEvents(events, type_attribute=type_attribute, base_type=base_type)


def in_order(prepared: PreparedEvents) -> PreparedEvents:
    """The same events; InputError where they are not in the order of time."""
    if (prepared.timestamps[1:] < prepared.timestamps[:-1]).any():
        raise InputError("the events are not in the order of time: sort them by (timestamp, seq)")
    return prepared


def owned_rows(prepared: PreparedEvents, start: Boundary | int | None, end: Boundary | None) -> tuple[int, int]:
    """The rows `[first, last)` of the slice `[start, end)`."""
    first, last = prepared.rows_in((None if isinstance(start, int) else start, end))
    first = start if isinstance(start, int) else first
    return first, max(first, last)


def windowed_statistics(
    patterns: Sequence[Pattern],
    events: pa.Table | PreparedEvents,
    window: Window,
    epsilon: float = EPSILON,
    *,
    start: Boundary | None = None,
    end: Boundary | None = None,
    seed: int = 0,
    max_pairs: int = PAIRS_A_SLICE,
) -> WindowedStatistics:
    """Count one slice of a stream, as a state to merge with those of the slices before and after it.

    Parameters
    ----------
    patterns
        Patterns of one stream.
    events
        The events of the slice, with the look-back before `start` that the longest window of a pattern takes.
    start, end
        The slice is `[start, end)`: its events are counted, and the pairs whose later event it has.
    seed
        Decides which pairs are drawn.
    max_pairs
        At most this many pairs are tested a scope; where there are fewer, all are.

    Raises
    ------
    InputError
        The patterns are of several streams, or the events are not in the order of time.
    """
    prepared = in_order(prepare(patterns, events))
    times = prepared.timestamps
    owned = owned_rows(prepared, start, end)
    terms = Terms.of(patterns)
    rows = rows_of_leaves(terms.leaves, prepared)
    state = WindowedStatistics(patterns[0].stream, window, epsilon, [leaf.key for leaf in terms.leaves], terms.keys)
    first, last = owned
    own = times[first:last]
    if not len(own):
        return state
    arrivals = {}
    for leaf in terms.leaves:
        found = rows[leaf]
        mine = found[np.searchsorted(found, first) : np.searchsorted(found, last)]
        arrivals[leaf.key] = own if len(mine) == len(own) else times[mine]
    edges = first + np.arange(CELLS + 1) * len(own) // CELLS
    cells = {
        scope.key: _cells(sample, state.scopes[scope.key], times, edges)
        for scope, sample in sample_scopes(terms, prepared, rows, owned, seed=seed, max_pairs=max_pairs)
    }
    state.take_in(own, arrivals, cells)
    return state


def _cells(sample: Sample, conditions: Sequence[str], times: Array, edges: Array) -> tuple[Array, Array]:
    """The tested tuples of a slice by the cell of their last event: spans, and the sums of each."""
    cell = np.searchsorted(edges, sample.last, "right") - 1
    count = len(edges) - 1
    weights = np.ones(len(sample.last)) if sample.whole else sample.weights
    squared = np.zeros(len(weights)) if sample.whole else weights * weights
    rows = [np.bincount(cell, weights, count), np.bincount(cell, minlength=count), np.bincount(cell, squared, count)]
    for condition in conditions:
        holds = sample.holds[condition]
        rows += [np.bincount(cell[holds], by[holds], count) for by in (weights, squared)]
    some = edges[1:] > edges[:-1]
    spans = np.stack((times[edges[:-1][some]], times[edges[1:][some] - 1]))
    return spans, np.stack(rows)[:, some].astype(np.float64)
