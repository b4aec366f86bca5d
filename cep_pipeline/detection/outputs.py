"""The forms of output: how many matches there are, buffers of them, and no more rows than a user wants.

Whatever the mechanism, matches over Kleene variables are counted and compressed by merged runs where no condition asks
for the lists themselves; everything else is found by the mechanism, within the limit.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa

from cep_pipeline.detection.clause_runs import JointRun, RoomForMatches
from cep_pipeline.detection.compressed.fields import groups_of, reason_to_list
from cep_pipeline.detection.compressed.runs import LaneEvents, least_seconds
from cep_pipeline.detection.compressed.tables import ListedBuffers, compress_merged, count_merged, expand
from cep_pipeline.detection.costs import COUNTED_SHARE, COUNTING_S, FEW_S, READ_S, few_matches, listed_in
from cep_pipeline.detection.counting.choice import binds_lists
from cep_pipeline.detection.counting.owned import route_to_count
from cep_pipeline.detection.limits import LimitReached, at_most_seconds
from cep_pipeline.detection.matches import (
    BATCH_ROWS,
    match_batches,
    matches_schema,
    return_arrays,
)
from cep_pipeline.detection.mechanisms import (
    CHOSEN_AMONG,
    EVERYTHING,
    LISTED_SOONER,
    LISTS_LATER,
    NODES_ASKED,
    Counters,
    Executor,
    Mechanism,
    Orders,
    Route,
    Sink,
)
from cep_pipeline.detection.ordering import as_found, order_matches
from cep_pipeline.detection.output_policy import Candidates, KeptMatches, decides_in_order, has_output_policy
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.detection.summaries.unlisted import not_summarized_because, summarize_unlisted
from cep_pipeline.errors import NoRoom, TooManyMatches
from cep_pipeline.patterns.composing import EVENT_TYPE
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents


def route_of(pattern: Pattern, sink: Sink, *, columnar: bool = True) -> Route:
    """The executor for many matches of a pattern, by the pattern alone.

    Parameters
    ----------
    columnar
        Whether its mechanism is columnar (`Mechanism.is_columnar`): no other one counts by sweeps or by parts.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> [free] = cep.parse_patterns("PATTERN SEQ(A a, B b) WITHIN 1 day", schema)
    >>> [total] = cep.parse_patterns("PATTERN A+ a[] WHERE sum(a[].x) > 3 WITHIN 1 minute", schema)
    >>> print(route_of(free, Sink.COUNT), route_of(total, Sink.COMPRESS), sep="\\n")
    counted by a semiring sweep over the events
    compressed by finding each match: sum() over the list 'a'
    """
    if sink is Sink.LIST:
        return Route(sink, Executor.MECHANISM)
    if sink is Sink.SUMMARIZE:
        reason = not_summarized_because(pattern)
        return Route(sink, Executor.SWEEP) if reason is None else Route(sink, Executor.MECHANISM, reason)
    if sink is Sink.COUNT:
        return route_to_count(pattern, columnar=columnar)
    if has_output_policy(pattern):
        return Route(sink, Executor.MECHANISM, CHOSEN_AMONG)
    reason = reason_to_list(pattern)
    return Route(sink, Executor.GRAPH) if reason is None else Route(sink, Executor.MECHANISM, reason)


@dataclass(frozen=True, eq=False)
class Detection:
    """One pattern over prepared events, by one mechanism and the orders of a plan.

    Attributes
    ----------
    limit
        Most matches that may be listed; None: no limit.
    """

    pattern: Pattern
    mechanism: Mechanism
    orders: Orders
    events: PreparedEvents
    counters: Counters
    limit: int | None = None

    @property
    def most(self) -> int | None:
        """The most matches that may be listed; of a pattern with an output policy only those count that it keeps."""
        return None if has_output_policy(self.pattern) else self.limit

    def to_count(self) -> Detection:
        """The same with the limit for matches that are listed only to be counted: single events need none."""
        return self if self.limit is None or binds_lists(self.pattern) else replace(self, limit=None)

    def counted_at_once(self) -> int | None:
        """The number of matches, if they need not be listed."""
        if has_output_policy(self.pattern):
            return None
        counted = self.mechanism.count(self.pattern, self.orders, self.events, self.counters)
        if counted is None and binds_lists(self.pattern):
            counted = _counted_by_listing(self)
        if counted is None and binds_lists(self.pattern):
            counted = count_merged(self.pattern, self.events, self.counters)
            if counted is not None:
                self.counters.went(self.pattern.name, Route(Sink.COUNT, Executor.GRAPH))
        return counted

    def route(self, sink: Sink) -> Route:
        """The executor that makes many matches by the pattern alone."""
        return route_of(self.pattern, sink, columnar=self.mechanism.is_columnar)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The matches as rows in the page's order, a batch at a time, as `batches_together` has them."""
        return (batch for _, batch in batches_together([self]))

    @property
    def is_read_from_buffers(self) -> bool:
        """True if rows are read from buffers of lists that need not be made: there may be more than can be listed."""
        if self.limit is not None or has_output_policy(self.pattern) or self.pattern.type_attribute == EVENT_TYPE:
            return False
        return binds_lists(self.pattern) and not self.route(Sink.COMPRESS).lists

    @property
    def counts_first(self) -> bool:
        """True if matches are counted before they are written, because of a limit, and can be."""
        if self.limit is None or has_output_policy(self.pattern):
            return False
        if any(clause.negated_structures for clause in self.pattern.clauses):
            return False  # they are counted by being listed
        return not binds_lists(self.pattern) or not self.route(Sink.COMPRESS).lists


class RowsOf:
    """Writes the parts of one pattern's matches, one after another, as rows in the page's order."""

    def __init__(self, detection: Detection) -> None:
        self._detection = detection
        self._kept = kept_in_order(detection.pattern)
        self._rows = 0

    def of_part(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """The matches of a part.

        Raises
        ------
        TooManyMatches
            With those of earlier parts, there are more than the limit.
        """
        detection = self._detection
        found = [block for block in blocks if len(block)]
        if not found:
            return
        ordered = order_matches(found, detection.events.seqs, growing=detection.events.seqs_grow)
        for batch in match_batches(detection.pattern, ordered, detection.events, self._kept, typed=True):
            self._rows += batch.num_rows
            if detection.limit is not None and self._rows > detection.limit:
                raise TooManyMatches(detection.pattern.name, detection.limit)
            yield batch


def first_matches(detection: Detection) -> Iterable[pa.RecordBatch]:
    """The matches in the page's order, the first ones as soon as they are known; for output that may not end.

    Notes
    -----
    Where lists need not be made to be compressed, the matches are read from buffers: the first of 2**60 come at once.
    So few that they can be listed sooner are counted before.
    """
    if not detection.is_read_from_buffers:
        return detection.batches()
    count = _count_soon(detection, FEW_S)
    if count is not None and count <= few_matches(detection.events):
        return detection.batches()
    detection.counters.went(detection.pattern.name, Route(Sink.LIST, Executor.GRAPH, LISTS_LATER))
    lazily: Iterable[pa.RecordBatch] = expand(*compressed_together([detection]))
    return lazily


def listed_in_parts(detections: Sequence[Detection]) -> Iterator[list[list[Block]]]:
    """All matches of patterns that are run together, as their mechanism lists them, part after part.

    Parameters
    ----------
    detections
        Of one mechanism over the same events, with one place to count.

    Raises
    ------
    TooManyMatches
        A pattern has more than its limit.
    """
    yield from _together(detections).parts()


def _together(detections: Sequence[Detection]) -> JointRun:
    """One run for patterns of one mechanism over the same events, with one place to count."""
    first, orders = detections[0], [detection.orders for detection in detections]
    patterns, most = [detection.pattern for detection in detections], [detection.most for detection in detections]
    return JointRun(patterns, first.mechanism, orders, first.events, EVERYTHING, first.counters, most)


def count_together(detections: Sequence[Detection]) -> list[int]:
    """The number of matches of each pattern; what must be listed to be counted is listed in one run.

    Raises
    ------
    TooManyMatches
        They must be listed to be counted, and are more than the limit.
    """
    counts = [detection.counted_at_once() for detection in detections]
    for detection, count in zip(detections, counts, strict=True):
        if count is None:
            because = NODES_ASKED if detection.counters.wanted else detection.route(Sink.COUNT).because or LISTED_SOONER
            detection.counters.went(detection.pattern.name, Route(Sink.COUNT, Executor.MECHANISM, because))
    for number, detection in enumerate(detections):
        if decides_in_order(detection.pattern):
            counts[number] = sum(batch.num_rows for batch in detection.batches())
    listed = [detection.to_count() for detection, count in zip(detections, counts, strict=True) if count is None]
    found = iter(_together(listed).count() if listed else ())
    return [next(found) if count is None else count for count in counts]


def compressed_together(detections: Sequence[Detection]) -> list[pa.Table]:
    """The matches of each pattern as buffers, one for all that end with the same event.

    What must be listed to be compressed is listed in one run.

    Raises
    ------
    TooManyMatches
        They must be listed to be compressed, and are more than the limit.
    """
    routes = {id(detection): detection.route(Sink.COMPRESS) for detection in detections}
    listed = [detection for detection in detections if routes[id(detection)].lists]
    buffers = [ListedBuffers(detection.pattern, detection.events) for detection in listed]
    for parts in listed_in_parts(listed) if listed else ():
        for own, blocks in zip(buffers, parts, strict=True):
            own.add(blocks)
    tables = {detection.pattern.name: own.table() for detection, own in zip(listed, buffers, strict=True)}
    for detection in detections:
        if detection not in listed:
            table = _compressed_by_listing(detection)
            if table is None:
                table = compress_merged(detection.pattern, detection.events, detection.counters)
            else:
                routes[id(detection)] = Route(Sink.COMPRESS, Executor.MECHANISM, LISTED_SOONER)
            tables[detection.pattern.name] = table
        detection.counters.went(detection.pattern.name, routes[id(detection)])
    return [tables[detection.pattern.name] for detection in detections]


def _compressed_by_listing(detection: Detection) -> pa.Table | None:
    """The buffers of a pattern's matches, listed; None where merged runs make them sooner, or in less memory.

    Where nobody knows soon how many matches there are, they are listed as long as that costs less than merged runs
    surely do.
    """
    pattern, events = detection.pattern, detection.events
    at_least = few_matches(events)
    table = _listed_up_to(detection, at_least, FEW_S)
    if table is not None:
        return table
    seconds = _least_seconds(pattern, events)
    most = listed_in(seconds, pattern)
    if most <= at_least and seconds <= FEW_S:
        return None
    count = _count_soon(detection, COUNTED_SHARE * seconds)
    return _listed_up_to(detection, most, seconds) if count is None or count <= most else None


def _counted_by_listing(detection: Detection) -> int | None:
    """The number of matches, listed sooner than merged runs have read the events; None where they are not.

    Where that is not done by then, they are listed for a share of the time that merged runs surely take.
    """
    pattern, events = detection.pattern, detection.events
    if detection.route(Sink.COMPRESS).lists:
        return None
    count = _number_up_to(detection, few_matches(events), READ_S * len(events))
    if count is None:
        seconds = COUNTED_SHARE * _least_seconds(pattern, events)
        if seconds > READ_S * len(events):
            count = _number_up_to(detection, listed_in(seconds, pattern), seconds)
    if count is not None:
        detection.counters.went(pattern.name, Route(Sink.COUNT, Executor.MECHANISM, LISTED_SOONER))
    return count


def _number_up_to(detection: Detection, most: int, seconds: float) -> int | None:
    """The number of listed matches; None where there are more, or they are looked for longer than so many seconds."""
    counters = detection.counters.anew()
    try:
        with at_most_seconds(seconds, time.process_time):
            [count] = _together([replace(detection, counters=counters, limit=most)]).count()
    except (TooManyMatches, NoRoom, MemoryError, LimitReached):
        return None
    detection.counters.add(counters)
    return count


def _least_seconds(pattern: Pattern, events: PreparedEvents) -> float:
    """The seconds that merged runs of a pattern take at least."""
    return sum(least_seconds(LaneEvents(pattern, group, events)) for group in groups_of(pattern))


def _listed_up_to(detection: Detection, most: int, seconds: float) -> pa.Table | None:
    """The buffers of listed matches; None where there are more, or lists are looked for longer than so many seconds."""
    counters = detection.counters.anew()
    buffers = ListedBuffers(detection.pattern, detection.events)
    patience = at_most_seconds(seconds, time.process_time) if binds_lists(detection.pattern) else nullcontext()
    try:
        with patience:
            for [blocks] in listed_in_parts([replace(detection, counters=counters, limit=most)]):
                buffers.add(blocks)
    except (TooManyMatches, NoRoom, MemoryError, LimitReached):
        return None
    detection.counters.add(counters)
    return buffers.table()


def batches_together(detections: Sequence[Detection]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The matches of patterns as rows, found in one run: those of each in the page's order, those of all in turns.

    Yields
    ------
    (int, pa.RecordBatch)
        The place of a pattern among them, and some of its rows.

    Raises
    ------
    TooManyMatches
        There are more than the limit: raised before the first batch where they can be counted.
    """
    counted = [detection for detection in detections if detection.counts_first]
    if counted:
        counters = Counters(wanted=False)
        unlimited = [replace(detection, counters=counters, limit=None) for detection in counted]
        for detection, count in zip(counted, count_together(unlimited), strict=True):
            if detection.limit is not None and count > detection.limit:
                raise TooManyMatches(detection.pattern.name, detection.limit, count)
    rows = [RowsOf(detection) for detection in detections]
    for detection in detections:
        detection.counters.went(detection.pattern.name, detection.route(Sink.LIST))
    for parts in listed_in_parts(detections):
        for number, blocks in enumerate(parts):
            for batch in rows[number].of_part(blocks):
                yield number, batch


class SummaryOf:
    """Puts the values of one pattern's matches together, part after part; no match of a part is held behind it.

    Parameters
    ----------
    kept
        Decides which matches OUTPUT and CONSUME keep; None: all of them count.
    """

    def __init__(self, pattern: Pattern, kept: KeptMatches | None = None) -> None:
        self._pattern, self._kept = pattern, kept
        self.summary = PartialSummary(pattern)

    def add(self, blocks: Iterable[Block], events: PreparedEvents) -> int:
        """Take the matches of a part, over whose events their row numbers count; return how many they are."""
        found = [block for block in blocks if len(block)]
        if not found:
            return 0
        # Their order decides which are kept, and shows which are there twice: those of one block differ.
        alone = self._kept is None and len(found) == 1
        ordered = as_found(found[0]) if alone else order_matches(found, events.seqs, growing=events.seqs_grow)
        kept = self._kept
        if kept is not None and self._pattern.output.is_preferred:
            ordered, kept = ordered.where(kept.keep(Candidates.of(self._pattern, ordered, events))), None
        for start in range(0, len(ordered), BATCH_ROWS):
            part = ordered.between(start, min(start + BATCH_ROWS, len(ordered)))
            if kept is not None:
                part = part.where(kept.keep(Candidates.of(self._pattern, part, events)))
            if len(part):
                ends_us = events.timestamps[part.last_rows()]
                self.summary.add_matches(ends_us, return_arrays(self._pattern, part, events))
        return len(ordered)


def summaries_together(detections: Sequence[Detection]) -> list[pa.Table]:
    """The rows of SUMMARIZE of each pattern; what must be listed for them is listed in one run.

    Raises
    ------
    TooManyMatches
        They must be listed, and are more than the limit.
    """
    found = {id(one): summarize_unlisted(one.pattern, one.events, EVERYTHING, one.counters) for one in detections}
    listed = [one for one in detections if found[id(one)] is None]
    made = [SummaryOf(detection.pattern, kept_in_order(detection.pattern)) for detection in listed]
    for parts in listed_in_parts(listed) if listed else ():
        for own, blocks, detection in zip(made, parts, listed, strict=True):
            own.add(blocks, detection.events)
    summaries = {**found, **{id(one): own.summary for one, own in zip(listed, made, strict=True)}}
    return [summary.table() for one in detections if (summary := summaries[id(one)]) is not None]


def kept_in_order(pattern: Pattern) -> KeptMatches | None:
    """The matches of a pattern that OUTPUT NON_OVERLAP and CONSUME keep, still none; None where it has neither."""
    return KeptMatches(pattern) if decides_in_order(pattern) else None


def _held_rows(detections: Sequence[Detection]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of `batches_together`, as long as there is memory for all of them."""
    rows, sizes, room = [0] * len(detections), [0] * len(detections), RoomForMatches()
    for number, batch in batches_together(detections):
        rows[number] += batch.num_rows
        sizes[number] += batch.nbytes
        largest = sizes.index(max(sizes))
        room.ask(sum(sizes), rows[largest], detections[largest].pattern.name)
        yield number, batch


def _count_soon(detection: Detection, seconds: float = COUNTING_S) -> int | None:
    """The number of matches, if it is known in so many seconds without listing them."""
    alone = replace(detection, counters=Counters(wanted=False), limit=None)
    if has_output_policy(detection.pattern):
        return None
    try:
        with at_most_seconds(seconds):
            return alone.counted_at_once()
    except (LimitReached, NoRoom, MemoryError):
        return None


def tables_together(detections: Sequence[Detection]) -> list[pa.Table]:
    """The matches of each pattern as rows in the page's order, found in one run; of SUMMARIZE its rows, in another.

    Raises
    ------
    TooManyMatches
        As `batches_together`.
    """
    if not detections:
        return []
    summarized = [detection for detection in detections if detection.pattern.summary is not None]
    if summarized:
        others = [detection for detection in detections if detection.pattern.summary is None]
        tables = {id(one): table for one, table in zip(summarized, summaries_together(summarized), strict=True)}
        tables |= {id(one): table for one, table in zip(others, tables_together(others), strict=True)}
        return [tables[id(detection)] for detection in detections]
    batches: list[list[pa.RecordBatch]] = [[] for _ in detections]
    try:
        for number, batch in _held_rows(detections):
            batches[number].append(batch)
    except TooManyMatches as error:
        if error.memory is None or error.count is not None:
            raise
        batches.clear()
        [limited] = [detection for detection in detections if detection.pattern.name == error.pattern]
        raise TooManyMatches(error.pattern, error.limit, _count_soon(limited), error.memory) from error
    return [
        pa.Table.from_batches(own, matches_schema(detection.pattern))
        for own, detection in zip(batches, detections, strict=True)
    ]
