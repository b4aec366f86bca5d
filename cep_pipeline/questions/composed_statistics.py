"""Statistics of patterns that compose others: what they compose is detected, and its matches are events for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from cep_pipeline.detection.composition import longer_stream
from cep_pipeline.detection.detect import DetectionRun
from cep_pipeline.patterns.pattern import Pattern, with_composed
from cep_pipeline.slices.events_input import events_for
from cep_pipeline.statistics.estimate import MAX_PAIRS
from cep_pipeline.statistics.estimate import estimate_statistics as statistics_over
from cep_pipeline.statistics.joint import DEPENDENT_FACTOR
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


def estimate_statistics(
    patterns: Pattern | Sequence[Pattern],
    events: pa.Table,
    seed: int = 0,
    max_pairs: int = MAX_PAIRS,
    dependent_factor: float = DEPENDENT_FACTOR,
) -> StatisticsSnapshot:
    """Estimate all that planning the patterns needs, in one pass over the events.

    Parameters
    ----------
    patterns
        Patterns of one stream, or one pattern. What they compose is detected, since its matches are events for them.
    events
        Events of that stream, sorted by (timestamp, seq).
    seed
        Decides which pairs are drawn; the same seed, patterns and events give the same snapshot.
    max_pairs
        At most this many pairs are tested a scope; where there are fewer, all are.
    dependent_factor
        Conditions on the same two events, tested together, get a joint selectivity where that is off from the product
        of theirs by more than this factor.

    Raises
    ------
    InputError
        The patterns are of several streams, `max_pairs` is below 1, or the events are not in the order of time.

    Notes
    -----
    O(events) for the split by type and for each distinct scope. Rates are over the span of the data, from its first
    to its last timestamp.
    """
    patterns = [patterns] if isinstance(patterns, Pattern) else patterns
    asked = (seed, max_pairs, dependent_factor)
    composing = [pattern for pattern in patterns if pattern.composes]
    if not composing:
        return statistics_over(patterns, events, *asked)
    matches = DetectionRun().composed(composing, events)
    whole = [pattern for pattern in with_composed(patterns) if not pattern.composes]
    found = [statistics_over(whole, events, *asked)]
    for pattern in composing:
        stream = longer_stream(pattern, events_for([pattern], events), matches)
        found.append(statistics_over(pattern, stream, *asked))
    # Of a leaf or a condition that several streams have, the first number stands.
    return replace(
        found[0],
        rates=_first_of([one.rates for one in found], lambda rate: rate.leaf),
        selectivities=_first_of([one.selectivities for one in found], lambda one: one.condition),
        joints=_first_of([one.joints for one in found], lambda joint: joint.members),
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
    )


_Number = TypeVar("_Number")


def _first_of(numbers: Iterable[Sequence[_Number]], key: Callable[[_Number], Any]) -> tuple[_Number, ...]:
    """The numbers of several snapshots, of those of one key the first, sorted by key."""
    found: dict[Any, _Number] = {}
    for own in numbers:
        for number in own:
            found.setdefault(key(number), number)
    return tuple(found[known] for known in sorted(found))
