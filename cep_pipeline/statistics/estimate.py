"""Estimate a snapshot from events: leaves are counted, conditions are tested on pairs of their scope."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from zlib import crc32

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.evaluate import conjunct_holds
from cep_pipeline.detection.prepared import Boundary, PreparedEvents
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.pairs import draw_pairs, pair_ranges
from cep_pipeline.statistics.partial import PairCount, PartialStatistics, combine
from cep_pipeline.statistics.snapshot import StatisticsSnapshot
from cep_pipeline.statistics.terms import (
    FIRST,
    SECOND,
    Leaf,
    PairCondition,
    PairScope,
    agreeing_attributes,
    agreement,
    leaf_of,
    pair_of,
    positive_conjuncts,
)

MAX_PAIRS = 65_536
"""Pairs that are tested a scope unless told otherwise: a share of 1/2 is then known to 0.4 %, at 95 %."""

_UNITS_US = {
    "us": 1,
    "ms": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}


def estimate_statistics(
    patterns: Sequence[Pattern],
    events: pa.Table,
    window: str | None = None,
    seed: int = 0,
    max_pairs: int = MAX_PAIRS,
) -> StatisticsSnapshot:
    """Estimate all that planning the patterns needs, in one pass over the events.

    Parameters
    ----------
    patterns
        Patterns of one stream.
    events
        Events of that stream, sorted by (timestamp, seq).
    window
        Only the latest events of this length count, such as `"20 minutes"`. None: all events.
    seed
        Decides which pairs are drawn; the same seed, patterns and events give the same snapshot.
    max_pairs
        At most this many pairs are tested a scope; where there are fewer, all are.

    Raises
    ------
    InputError
        The patterns are of several streams, or `window` or `max_pairs` is no length or number.

    Notes
    -----
    O(events) for the split by type, plus O(n log n) in the events of the leaves for each distinct scope. Rates are
    over the span of the data, from its first to its last timestamp.
    """
    if window is not None and events.num_rows:
        length_us = parse_duration_us(window)
        timestamps = events.column("timestamp").cast(pa.int64()).to_numpy()
        events = events.slice(int(np.searchsorted(timestamps, timestamps[-1] - length_us, "left")))
    return combine([partial_statistics(patterns, events, seed=seed, max_pairs=max_pairs)])


def partial_statistics(
    patterns: Sequence[Pattern],
    events: pa.Table | PreparedEvents,
    *,
    start: Boundary | None = None,
    end: Boundary | None = None,
    seed: int = 0,
    max_pairs: int = MAX_PAIRS,
) -> PartialStatistics:
    """Count one slice of a stream, to be combined with the others by `combine`.

    Parameters
    ----------
    events
        The events of the slice, with the look-back before `start` that the longest window takes.
    start, end
        The slice is `[start, end)`: its events are counted, and the pairs whose later event it has.

    Raises
    ------
    InputError
        As `estimate_statistics`.
    """
    if max_pairs < 1:
        raise InputError(f"max_pairs is {max_pairs}: at least one pair must be tested")
    stream, type_attribute, base_type = _stream_of(patterns)
    prepared = (
        events
        if isinstance(events, PreparedEvents)
        else PreparedEvents(events, type_attribute=type_attribute, base_type=base_type)
    )
    first = prepared.rows_before(start) if start is not None else 0
    last = prepared.rows_before(end) if end is not None else len(prepared)
    last = max(first, last)
    leaves, conditions = terms_of(patterns)
    rows = _rows_of_leaves(leaves, prepared)
    counts = {
        leaf.key: int(np.searchsorted(found, last) - np.searchsorted(found, first)) for leaf, found in rows.items()
    }
    scopes: dict[PairScope, list[PairCondition]] = {}
    for condition in conditions:
        scopes.setdefault(condition.scope, []).append(condition)
    tested: dict[str, PairCount] = {}
    for scope, asked in scopes.items():
        tested.update(_test_scope(scope, asked, prepared, rows, (first, last), seed, max_pairs))
    own = prepared.timestamps[first:last]
    return PartialStatistics(
        stream=stream,
        events=last - first,
        start_us=int(own[0]) if len(own) else None,
        end_us=int(own[-1]) if len(own) else None,
        leaves=counts,
        conditions=tested,
    )


def terms_of(patterns: Iterable[Pattern]) -> tuple[list[Leaf], list[PairCondition]]:
    """The leaves and pairwise conditions of patterns, each once, in the order of first mention."""
    leaves: dict[Leaf, None] = {}
    conditions: dict[PairCondition, None] = {}
    for pattern in patterns:
        for clause in pattern.clauses:
            for variable in (*clause.positive, *clause.negated):
                leaves[leaf_of(pattern, clause, variable.name)] = None
            for conjunct in positive_conjuncts(clause):
                measured = pair_of(pattern, clause, conjunct)
                if measured is not None:
                    conditions[measured] = None
            for attribute in agreeing_attributes(pattern, clause):
                for one, other in combinations(clause.positive, 2):
                    conditions[agreement(pattern, clause, attribute, one.name, other.name)] = None
    for condition in conditions:
        leaves[condition.scope.first] = None
        leaves[condition.scope.second] = None
    return list(leaves), list(conditions)


_LONGEST_US = 2**62
"""Half of what timestamps may span, so that a time minus a length of time stays an int64."""


def parse_duration_us(text: str) -> int:
    """Microseconds of a length of time as the pattern language writes it.

    Raises
    ------
    InputError
        The text is no positive length of time.

    Examples
    --------
    >>> parse_duration_us("20 minutes"), parse_duration_us("1.5 ms")
    (1200000000, 1500)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|second|minute|hour|day)((?<!us|ms)s)?\s*", text)
    length = round(float(match[1]) * _UNITS_US[match[2]]) if match else 0
    if length <= 0:
        raise InputError(f"{text!r} is no length of time; write a number and us, ms, seconds, minutes, hours or days")
    if length > _LONGEST_US:
        raise InputError(f"{text!r} is longer than the {_LONGEST_US // 86_400_000_000:,} days of all timestamps")
    return length


def _stream_of(patterns: Sequence[Pattern]) -> tuple[str, str, str | None]:
    streams = {(pattern.stream, pattern.type_attribute, pattern.base_type) for pattern in patterns}
    if len(streams) != 1:
        names = ", ".join(sorted(stream for stream, _, _ in streams)) or "none"
        raise InputError(f"statistics are of one stream; the patterns are of {names}: estimate them stream by stream")
    return next(iter(streams))


def _rows_of_leaves(leaves: Sequence[Leaf], prepared: PreparedEvents) -> dict[Leaf, Array]:
    prepared.split(leaf.event_type for leaf in leaves)
    passing: dict[tuple[str, Conjunct], Array] = {}
    rows = {}
    for leaf in leaves:
        candidates = prepared.leaf_rows(leaf.event_type)
        holds = np.ones(len(candidates), dtype=bool)
        for conjunct in leaf.filters:
            asked = (leaf.event_type, conjunct)
            if asked not in passing:
                passing[asked] = conjunct_holds(conjunct, prepared, {FIRST: candidates})
            holds &= passing[asked]
        rows[leaf] = candidates[holds] if leaf.filters else candidates
    return rows


def _test_scope(
    scope: PairScope,
    conditions: Sequence[PairCondition],
    prepared: PreparedEvents,
    rows: dict[Leaf, Array],
    owned: tuple[int, int],
    seed: int,
    max_pairs: int,
) -> dict[str, PairCount]:
    """All conditions of one scope, on the same pairs."""
    ranges = pair_ranges(
        prepared.timestamps,
        rows[scope.first],
        rows[scope.second],
        window=scope.window,
        ordered=scope.ordered,
        ties=scope.ties,
        owned=owned,
    )
    # A seed of its own for each scope and slice: what else is estimated must not change a scope's sample.
    entropy = np.random.SeedSequence([seed & (2**63 - 1), crc32(scope.key.encode()), owned[1] - owned[0]])
    first, second = draw_pairs(ranges, max_pairs, entropy)
    counts = {}
    for condition in conditions:
        passed = 0
        if len(first):
            holds = conjunct_holds(condition.conjunct, prepared, {FIRST: first, SECOND: second})
            passed = int(np.count_nonzero(holds))
        pairs = ranges.count
        passing = passed * (pairs / len(first)) if len(first) else 0.0
        exact = float(passed) if len(first) == pairs else min(passing, float(pairs))
        counts[condition.key] = PairCount(pairs, len(first), exact)
    return counts
