"""Matches of a slice in consecutive parts, so that memory does not grow with their number.

The order of matches is that of their last events, so a slice may be cut between any two events: the parts, each in
order, follow each other in order. How many matches a part has is known only when it has been run. A part with too many
is given up and cut; a kernel gets that far in less time than it takes to write the matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext

from cep_pipeline.detection.blocks import Block
from cep_pipeline.detection.finality import Finality, finality_of
from cep_pipeline.detection.mechanism import Counters, Mechanism, Orders, Owned
from cep_pipeline.detection.prepared import Boundary, PreparedEvents
from cep_pipeline.patterns.pattern import Pattern

MATCHES_AT_ONCE = 1 << 22
"""Most matches held and sorted at once, unless more end with one event."""


def matches_in_parts(
    pattern: Pattern,
    mechanism: Mechanism,
    orders: Orders,
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
    limit: int | None = None,
) -> Iterator[list[Block]]:
    """The owned matches of a pattern, part after part of the slice.

    Parameters
    ----------
    pattern, mechanism, orders, events, owned, counters
        As `Mechanism.find` takes them.
    limit
        Most matches of a part of more than one event; `MATCHES_AT_ONCE` where none is given.

    Yields
    ------
    list of Block
        All matches of one part. Every match of a later part comes after every match of an earlier one.
    """
    limit = MATCHES_AT_ONCE if limit is None else limit
    first = begin = 0 if owned[0] is None else events.rows_before(owned[0])
    end = len(events) if owned[1] is None else events.rows_before(owned[1])
    if any(finality_of(pattern, clause) is not Finality.LAST_EVENT for clause in pattern.clauses):
        # Owned when final, which need not be in the order of the last events.
        yield list(mechanism.find(pattern, orders, events, owned, counters))
        return
    size = end - first
    while first < end:
        stop = min(first + size, end)
        part = (
            owned[0] if first == begin else _point(events, first),
            owned[1] if stop == end else _point(events, stop),
        )
        counted = Counters()
        at_most = limit if stop - first > 1 else None
        # What is prepared for the whole slice serves other patterns too, what is for a part serves nobody else.
        with nullcontext() if stop - first == end - begin else events.forgetting():
            found = _up_to(mechanism.find(pattern, orders, events, part, counted), at_most)
        if found is None:
            size = (stop - first + 1) // 2
            continue
        if stop - first == end - begin:  # nothing else is held: what tells the peak can stay until somebody asks
            counters.peaks += counted.peaks
            counted.peaks.clear()
        counters.add(counted)
        yield found
        first = stop
        if 2 * sum(map(len, found)) < limit:
            size *= 2


def _point(events: PreparedEvents, row: int) -> Boundary:
    return int(events.timestamps[row]), int(events.seqs[row])


def _up_to(blocks: Iterable[Block], limit: int | None) -> list[Block] | None:
    """All blocks, or None as soon as they have more matches than the limit."""
    found: list[Block] = []
    matches = 0
    for block in blocks:
        matches += len(block)
        if limit is not None and matches > limit:
            return None
        if len(block):
            found.append(block)
    return found
