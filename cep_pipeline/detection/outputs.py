"""The forms of output: how many matches there are, buffers of them, and no more rows than a user wants.

Whatever the mechanism, matches over Kleene variables are counted and compressed by merged runs where no condition asks
for the lists themselves; everything else is found by the mechanism, within the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from cep_pipeline.detection.blocks import Block
from cep_pipeline.detection.matches import match_batches
from cep_pipeline.detection.mechanism import EVERYTHING, Counters, Mechanism, Orders, Owned
from cep_pipeline.detection.ordering import order_matches
from cep_pipeline.detection.output_policy import KeptMatches, has_output_policy
from cep_pipeline.detection.parts import matches_in_parts
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.errors import TooManyMatches
from cep_pipeline.patterns.pattern import Pattern


def listed_because(pattern: Pattern) -> str | None:
    """What keeps the matches of a pattern from being counted and compressed without listing them; None: nothing does.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> [pattern] = cep.parse_patterns("PATTERN A+ a[] WHERE sum(a[].x) > 3 WITHIN 1 minute", schema)
    >>> listed_because(pattern)
    "sum() over the list 'a'"
    """
    from cep_pipeline.detection.shared_buffer.groups import reason_to_list

    return reason_to_list(pattern)


def _binds_lists(pattern: Pattern) -> bool:
    return any(operand.kleene for operand in pattern.operands)


def count_blocks(blocks: list[Block], events: PreparedEvents) -> int:
    """The number of matches of one pattern in blocks: clauses may share bindings, which count once."""
    if len({block.clause.index for block in blocks}) > 1:
        return len(order_matches(blocks, events.seqs))
    return sum(map(len, blocks))


class Detection:
    """One pattern over prepared events, by one mechanism and the orders of a plan.

    Parameters
    ----------
    limit
        Most matches that may be listed; None: no limit.
    """

    def __init__(
        self,
        pattern: Pattern,
        mechanism: Mechanism,
        orders: Orders,
        events: PreparedEvents,
        counters: Counters,
        limit: int | None = None,
    ) -> None:
        self.pattern, self.mechanism, self.orders, self.events = pattern, mechanism, orders, events
        self.counters, self.limit = counters, limit

    def parts(self) -> Iterator[list[Block]]:
        """All matches as the mechanism lists them, part after part.

        Raises
        ------
        TooManyMatches
            There are more than the limit.
        """
        if self.limit is None or has_output_policy(self.pattern):
            yield from matches_in_parts(
                self.pattern, self.mechanism, self.orders, self.events, EVERYTHING, self.counters
            )
            return
        limit, found = self.limit, 0
        guarded = replace(self.mechanism, find=lambda *asked: self._guarded(asked, limit))
        for blocks in matches_in_parts(self.pattern, guarded, self.orders, self.events, EVERYTHING, self.counters):
            found += count_blocks(blocks, self.events)
            if found > limit:
                raise TooManyMatches(self.pattern.name, limit)
            yield blocks

    def _guarded(self, asked: tuple[Pattern, Orders, PreparedEvents, Owned, Counters], limit: int) -> Iterator[Block]:
        """The blocks of one part of the events; one part may have more matches than anybody can list."""
        found = 0
        for block in self.mechanism.find(*asked):
            found += len(block)
            if found > limit * len(
                self.pattern.clauses
            ):  # a binding that several clauses match comes from each of them
                raise TooManyMatches(self.pattern.name, limit)
            yield block

    def count(self) -> int:
        """The number of matches.

        Raises
        ------
        TooManyMatches
            They must be listed to be counted, and are more than the limit.
        """
        counted = self._counted_at_once()
        if counted is not None:
            return counted
        limit = self.limit if _binds_lists(self.pattern) else None
        detection = Detection(self.pattern, self.mechanism, self.orders, self.events, self.counters, limit)
        return sum(count_blocks(blocks, self.events) for blocks in detection.parts())

    def _counted_at_once(self) -> int | None:
        """The number of matches over Kleene variables, if they need not be listed."""
        counted = self.mechanism.count(self.pattern, self.orders, self.events, self.counters)
        if counted is None and _binds_lists(self.pattern):
            from cep_pipeline.detection.shared_buffer.counting import count_merged

            counted = count_merged(self.pattern, self.events, self.counters)
        return counted

    def compressed(self) -> pa.Table:
        """The matches as buffers, one for all that end with the same event.

        Raises
        ------
        TooManyMatches
            They must be listed to be compressed, and are more than the limit.
        """
        from cep_pipeline.detection.shared_buffer.compressing import compress_listed, compress_merged

        if listed_because(self.pattern) is None:
            return compress_merged(self.pattern, self.events, self.counters)
        return compress_listed(self.pattern, self.parts(), self.events)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The matches as rows in the page's order, a batch at a time.

        Raises
        ------
        TooManyMatches
            There are more than the limit: raised before the first batch where they can be counted.
        """
        policy = has_output_policy(self.pattern)
        if self.limit is not None and not policy and (not _binds_lists(self.pattern) or self._is_countable):
            unlimited = Detection(self.pattern, self.mechanism, self.orders, self.events, Counters())
            count = unlimited.count()
            if count > self.limit:
                raise TooManyMatches(self.pattern.name, self.limit, count)
        kept = KeptMatches(self.pattern) if policy else None
        rows = 0
        for blocks in self.parts():
            found = [block for block in blocks if len(block)]
            if not found:
                continue
            ordered = order_matches(found, self.events.seqs)
            for batch in match_batches(self.pattern, ordered, self.events, kept, typed=True):
                rows += batch.num_rows
                if self.limit is not None and rows > self.limit:
                    raise TooManyMatches(self.pattern.name, self.limit)
                yield batch

    @property
    def _is_countable(self) -> bool:
        return listed_because(self.pattern) is None


def first_matches(detection: Detection) -> Iterable[pa.RecordBatch]:
    """The matches in the page's order, the first ones as soon as they are known; for output that may not end.

    Notes
    -----
    Where lists need not be made to be compressed, the matches are read from buffers: the first of 2**60 come at once.
    """
    pattern = detection.pattern
    if (
        detection.limit is not None
        or has_output_policy(pattern)
        or not _binds_lists(pattern)
        or listed_because(pattern)
    ):
        return detection.batches()
    from cep_pipeline.detection.shared_buffer.expansion import expand

    lazily: Iterable[pa.RecordBatch] = expand(detection.compressed())
    return lazily
