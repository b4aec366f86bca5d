"""What all mechanisms do alike around their runs: a pattern clause after clause, and a slice part after part.

A slice is found in consecutive parts, so that memory does not grow with the number of matches. The order of matches is
that of their last events, so a slice may be cut between any two events: the parts, each in order, follow each other in
order. It is known only when a part has been run how many matches it has; one with too many is given up and cut: a
kernel gets that far in less time than it takes to write the matches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from cep_pipeline.detection.limits import SMALL, ask_for, named
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Mechanism, Orders, Owned
from cep_pipeline.detection.negated_structures import unrejected_by_structures
from cep_pipeline.detection.ordering import order_matches
from cep_pipeline.detection.preferred.walk import preferred_of
from cep_pipeline.errors import NoRoom, TooManyMatches
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block, without_earlier
from cep_pipeline.slices.ownership import Finality, earliest_row, finality_of, owned_matches, waits_for_later_events
from cep_pipeline.slices.prepared import Boundary, PreparedEvents


class ClauseSlice(NamedTuple):
    """One clause of a pattern over one slice, and which of its matches are wanted.

    Attributes
    ----------
    events
        The slice's own events with the look-back before them.
    owned
        The slice `[start, end)`.
    finality
        When a match of the clause counts as final.
    """

    pattern: Pattern
    clause: Clause
    events: PreparedEvents
    owned: Owned = EVERYTHING
    finality: Finality = Finality.LAST_EVENT

    @property
    def first_row(self) -> int:
        """The first row of the slice's own events."""
        return self.events.rows_in(self.owned)[0]

    @property
    def end_row(self) -> int:
        """The row behind the slice's last event."""
        return self.events.rows_in(self.owned)[1]

    @property
    def earliest_row(self) -> int:
        """The first row that a wanted match may begin with."""
        return earliest_row(self.pattern, self.events, self.owned)

    def owns(self, first: Array, last: Array) -> Array:
        """bool: the matches that are wanted, by the rows of their first and last events."""
        return owned_matches(self.pattern, self.events, self.owned, self.finality, first, last)


class ClauseRun(Protocol):
    """A run of one clause over one slice."""

    def __iter__(self) -> Iterator[Block]: ...

    def count(self, counters: Counters) -> None:
        """Add what the finished run did."""
        ...


def find_by_clause(
    pattern: Pattern,
    plans: Orders,
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
    start: Callable[[ClauseSlice, Any], ClauseRun],
) -> Iterator[Block]:
    """The owned matches of a pattern by runs of its clauses.

    Parameters
    ----------
    start
        Makes the run of a clause by an order or a tree, as if it had no negated structures.

    Notes
    -----
    A binding that two clauses match is final at the earlier of their points: the run of the later one leaves it out.
    """
    planned = list(zip(pattern.clauses, plans, strict=True))
    for clause, plan in planned:
        finality = finality_of(pattern, clause)
        run = start(ClauseSlice(pattern, clause, events, owned, finality), plan)
        earlier = [
            unrejected_by_structures(
                pattern, other, events, start(ClauseSlice(pattern, other, events, owned, finality), other_plan)
            )
            for other, other_plan in planned
            if owned != EVERYTHING and other.positive == clause.positive and finality_of(pattern, other) < finality
        ]
        yield from without_earlier(unrejected_by_structures(pattern, clause, events, run), earlier)
        run.count(counters)


MATCHES_AT_ONCE = 1 << 22
"""Most matches held and sorted at once, unless more end with one event."""


@dataclass(frozen=True, eq=False)
class JointRun:
    """A run of a mechanism over a slice for patterns together.

    Parameters
    ----------
    patterns, mechanism, orders, events, owned, counters
        As `Mechanism.find_many` takes them; a mechanism without it runs one pattern after another.
    most
        For each pattern, the most matches that may be listed of it; None: no limit.
    """

    patterns: Sequence[Pattern]
    mechanism: Mechanism
    orders: Sequence[Orders]
    events: PreparedEvents
    owned: Owned
    counters: Counters
    most: Sequence[int | None]

    def parts(self, limit: int | None = None) -> Iterator[list[list[Block]]]:
        """The owned matches, part after part of the slice.

        Parameters
        ----------
        limit
            Most matches of a part of more than one event, of all patterns; `MATCHES_AT_ONCE` where none is given.

        Yields
        ------
        list of list of Block
            For each pattern all its matches of one part. Every match of a later part comes after every match of an
            earlier one.

        Raises
        ------
        TooManyMatches
            A pattern has more than may be listed.
        """
        limit = MATCHES_AT_ONCE if limit is None else limit
        listed = _Listed(self.patterns, self.most, self.events)
        if not any(map(waits_for_later_events, self.patterns)):
            yield from self._cut(limit, listed)
            return
        # Matches that wait are owned when final, which need not be in the order of the last events: they come whole.
        whole: list[list[Block]] = [[] for _ in self.patterns]
        preferred = any(pattern.output.is_preferred for pattern in self.patterns)
        for parts in self._cut(limit if preferred else None, listed):
            for own, pattern, blocks in zip(whole, self.patterns, parts, strict=True):
                own += preferred_of(pattern, blocks) if pattern.output.is_preferred else blocks
        yield whole

    def count(self) -> list[int]:
        """The number of owned matches of each pattern, which are found for it.

        They are held, part after part, only where clauses may bind the same events.

        Raises
        ------
        TooManyMatches
            A pattern has more than may be listed.
        """
        counts = [0] * len(self.patterns)
        if any(_bind_alike(pattern.clauses) or pattern.output.is_preferred for pattern in self.patterns):
            for parts in self.parts():
                for number, blocks in enumerate(parts):
                    counts[number] += count_blocks(blocks, self.events)
            return counts
        for number, block in self._find(self.owned, self.counters):
            counts[number] += len(block)
            most = self.most[number]
            if most is not None and counts[number] > most:
                raise TooManyMatches(self.patterns[number].name, most)
        return counts

    def _cut(self, limit: int | None, listed: _Listed) -> Iterator[list[list[Block]]]:
        """Parts of the slice, each of which is run by itself; without a limit one."""
        events, (start, stop_at) = self.events, self.owned
        begin, end = events.rows_in(self.owned)
        first, size = begin, end - begin
        # A slice without events owns the matches of earlier ones that become final in it.
        waiting = not size and any(map(waits_for_later_events, self.patterns))
        while first < end or waiting:
            waiting = False
            stop = min(first + size, end)
            part = start if first == begin else self._point(first), stop_at if stop == end else self._point(stop)
            whole = stop - first == end - begin
            counted = self.counters.anew()
            # What is prepared for the whole slice serves other patterns too, what is for a part serves nobody else.
            with nullcontext() if whole else events.forgetting():
                found = listed.take(self._find(part, counted), limit if stop - first > 1 else None)
            if found is None:
                size = (stop - first + 1) // 2
                continue
            self.counters.add(counted)
            yield found
            first = stop
            if limit is not None and 2 * sum(len(block) for blocks in found for block in blocks) < limit:
                size *= 2

    def _find(self, owned: Owned, counters: Counters) -> Iterable[tuple[int, Block]]:
        """The matches that a part of the slice owns, each with the number of its pattern."""
        if self.mechanism.find_many is not None and len(self.patterns) > 1:
            yield from self.mechanism.find_many(self.patterns, self.orders, self.events, owned, counters)
            return
        for number, (pattern, own) in enumerate(zip(self.patterns, self.orders, strict=True)):
            with named(pattern.name):
                for block in self.mechanism.find(pattern, own, self.events, owned, counters):
                    yield number, block

    def _point(self, row: int) -> Boundary:
        return int(self.events.timestamps[row]), int(self.events.seqs[row])


def count_blocks(blocks: list[Block], events: PreparedEvents) -> int:
    """The number of matches of one pattern in blocks: bindings that clauses of the same variables share count once."""
    if _bind_alike({block.clause.index: block.clause for block in blocks}.values()):
        return len(order_matches(blocks, events.seqs))
    return sum(map(len, blocks))


def _bind_alike(clauses: Collection[Clause]) -> bool:
    """True if two clauses have the same variables, so that both may bind the same events."""
    return len({frozenset(one.name for one in clause.positive) for clause in clauses}) < len(clauses)


class _Listed:
    """The matches of patterns by part, each pattern up to the most that may be listed of it."""

    def __init__(self, patterns: Sequence[Pattern], most: Sequence[int | None], events: PreparedEvents) -> None:
        self._patterns, self._most, self._events = patterns, most, events
        self._before = [0] * len(patterns)

    def take(self, found: Iterable[tuple[int, Block]], limit: int | None) -> list[list[Block]] | None:
        """The blocks of one part for each pattern, or None as soon as all have more matches than the limit."""
        blocks: list[list[Block]] = [[] for _ in self._patterns]
        own = [0] * len(self._patterns)
        held = 0
        room = RoomForMatches()
        for number, block in found:
            own[number] += len(block)
            held += len(block)
            most = self._most[number]
            # One part may have more than anybody can list; a binding of several clauses comes from each of them.
            if most is not None and own[number] > most * len(self._patterns[number].clauses):
                raise TooManyMatches(self._patterns[number].name, most)
            if limit is not None and held > limit:
                return None
            try:
                room.ask(_size_of(block, held), held, self._patterns[number].name)
            except TooManyMatches:
                if limit is None:
                    raise
                return None
            if len(block):
                blocks[number].append(block)
        for number, most in enumerate(self._most):
            if most is not None:
                self._before[number] += count_blocks(blocks[number], self._events)
                if self._before[number] > most:
                    raise TooManyMatches(self._patterns[number].name, most)
        return blocks


class RoomForMatches:
    """Asks for memory for the matches that are held, as often as they have doubled."""

    def __init__(self) -> None:
        self._sure = SMALL

    def ask(self, size: int, held: int, pattern: str) -> None:
        """Ask for so many bytes for the matches that are held.

        Raises
        ------
        TooManyMatches
            There is no memory for that.
        """
        if size <= self._sure:
            return
        self._sure = 2 * size
        try:
            ask_for(size, f"{held:,} matches are held at a time")
        except NoRoom as error:
            raise TooManyMatches(pattern, held, memory=size) from error


def _size_of(block: Block, matches: int) -> int:
    """The bytes that ordering and writing so many matches takes, if they are as wide as those of a block."""
    return _BYTES_OF_AN_ELEMENT * block.rows.size * matches // max(len(block), 1)


_BYTES_OF_AN_ELEMENT = 32
"""An event of a match as a row number and a variable, twice as many of them, and in order."""
