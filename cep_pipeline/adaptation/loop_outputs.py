"""The output of the detection-adaptation loop: its matches as rows, as buffers or as a number.

Stretches of the stream are detected one after another, and matches belong to the stretch that they begin in. So once
all stretches before a row are done, all matches that end before it are known: they leave in the page's order, and
their events are let go of. What is held are the matches that end behind that row, which is a window at most. Preferred
matches are decided about when they are found, in the order of their first events, which is that of the stretches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.adaptation.plan_switch import (
    Reading,
    SlicesOfStream,
    Stretch,
    matches_of_stretch,
    moved,
)
from cep_pipeline.detection.clause_runs import count_blocks
from cep_pipeline.detection.counting.choice import binds_lists
from cep_pipeline.detection.detect import COUNT_SCHEMA, count_table
from cep_pipeline.detection.matches import match_batches, matches_schema
from cep_pipeline.detection.mechanisms import Counters, Mechanism, Sink
from cep_pipeline.detection.ordering import joined_lists, order_matches
from cep_pipeline.detection.output_policy import Candidates, KeptMatches, has_output_policy
from cep_pipeline.detection.outputs import route_of
from cep_pipeline.errors import TooManyMatches
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.storage import from_decimal_text

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Finding:
    """The detection of one pattern: its mechanism, the stream, and what is read of the stream.

    Attributes
    ----------
    reading
        Of all patterns that follow its plan.
    limit
        Most matches that may be listed; None: no limit.
    """

    pattern: Pattern
    mechanism: Mechanism
    stream: EventStream
    slices: SlicesOfStream
    reading: Reading
    counters: Counters
    limit: int | None = None

    def over(self, blocks: list[Block]) -> tuple[list[Block], PreparedEvents, int]:
        """The part of the stream that these matches, at least one, lie in: with its rows, its events, its first row."""
        first = min(int(block.first_rows().min()) for block in blocks)
        stop = max(int(block.last_rows().max()) for block in blocks) + 1
        row = self.slices.first + first
        events = self.slices.prepared(self.pattern, (row, row + stop - first))
        return [moved(block, -first) for block in blocks], events, row


class LoopOutput(ABC):
    """The output of one pattern's matches.

    Attributes
    ----------
    finding
        What matches are found with.
    schema
        Of the batches.
    most
        The most matches that may be listed; None: no limit.
    """

    schema: pa.Schema

    def __init__(self, finding: Finding) -> None:
        self.finding, self.most = finding, finding.limit

    def find_unlisted(self, stretch: Stretch) -> bool:
        """Find the matches of the next stretch without listing them; False: they are to be listed, and `take` is told.

        All of its events have come.
        """
        return False

    @abstractmethod
    def take(self, blocks: list[Block]) -> None:
        """Take all listed matches of a part of the next stretch, with rows that count from the first event held."""

    @abstractmethod
    def ready(self, before: int | None) -> Iterator[pa.RecordBatch]:
        """The finished output once all matches that begin before a row are known; None: all there are."""

    @abstractmethod
    def needs_from(self, begin: int) -> int:
        """The row from which on events are needed, where the stretches before `begin` are done."""


class RowsOutput(LoopOutput):
    """A row a match, in the page's order, those that OUTPUT and CONSUME keep.

    Matches are listed, and wait until all that come before them are known.
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.schema = matches_schema(finding.pattern)
        self._waiting = _Waiting(finding)
        self._listed = 0
        self._kept = _KeptOfStream(finding.pattern)
        if has_output_policy(finding.pattern):  # of what OUTPUT and CONSUME decide about any number may be listed
            self.most = None

    def take(self, blocks: list[Block]) -> None:
        self._waiting.add(self._kept.preferred(self.finding, blocks))

    def ready(self, before: int | None) -> Iterator[pa.RecordBatch]:
        blocks = self._waiting.ending(before)
        if blocks:
            pattern, limit = self.finding.pattern, self.finding.limit
            blocks, events, self._kept.first = self.finding.over(blocks)
            ordered = order_matches(blocks, events.seqs)
            kept = None if pattern.output.is_preferred else self._kept  # else they are kept already
            for batch in match_batches(pattern, ordered, events, kept, typed=True):
                self._listed += batch.num_rows
                if limit is not None and self._listed > limit:
                    raise TooManyMatches(pattern.name, limit)
                yield batch
        if before is not None:
            self._kept.forget_rows(self.finding.reading.window_before(before))

    def needs_from(self, begin: int) -> int:
        return min(self.finding.reading.reads_from(begin), self._waiting.needs_from(begin))


class NumberOutput(LoopOutput):
    """The number of matches, of any size."""

    schema = COUNT_SCHEMA

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self._lists = binds_lists(finding.pattern)
        self._kept = _KeptOfStream(finding.pattern)
        if not self._lists or has_output_policy(finding.pattern):
            self.most = None
        self._merges = self._lists and not route_of(finding.pattern, Sink.COMPRESS).lists
        self._number = 0

    def find_unlisted(self, stretch: Stretch) -> bool:
        if self._merges:
            self._number += sum(map(from_decimal_text, _merged(self.finding, stretch).column("count").to_pylist()))
        return self._merges

    def take(self, blocks: list[Block]) -> None:
        blocks = self._kept.preferred(self.finding, blocks)
        if not blocks:
            return
        blocks, events, _ = self.finding.over(blocks)
        self._number += count_blocks(blocks, events)
        if self.most is not None and self._number > self.most:
            raise TooManyMatches(self.finding.pattern.name, self.most)

    def ready(self, before: int | None) -> Iterator[pa.RecordBatch]:
        if before is not None:
            self._kept.forget_rows(self.finding.reading.window_before(before))
        else:
            yield from count_table(self.finding.pattern, self._number).to_batches()

    def needs_from(self, begin: int) -> int:
        reading = self.finding.reading
        return reading.ends_read_from(begin) if self._merges else reading.reads_from(begin)


def find_together(outputs: Sequence[LoopOutput], stretch: Stretch) -> None:
    """Find the matches of the next stretch of patterns that follow one plan; what must be listed in runs of many."""
    for group in _run_together([one for one in outputs if not one.find_unlisted(stretch)], shares=stretch.shares):
        findings = [output.finding for output in group]
        first, patterns = findings[0], [finding.pattern for finding in findings]
        reading = first.reading
        most = [output.most for output in group]
        for part in matches_of_stretch(patterns, first.mechanism, stretch, reading, first.slices, first.counters, most):
            for output, own in zip(group, part, strict=True):
                output.take(own)


def _run_together(outputs: Iterable[LoopOutput], *, shares: bool) -> Iterable[list[LoopOutput]]:
    """The patterns that are found in one run, by a plan that lets them share their work or not."""
    groups: dict[Hashable, list[LoopOutput]] = {}
    for output in outputs:
        pattern, mechanism = output.finding.pattern, output.finding.mechanism
        alone = None if shares or mechanism.always_shares else pattern.name
        groups.setdefault((mechanism.find, pattern.type_attribute, pattern.base_type, alone), []).append(output)
    return groups.values()


class _Waiting:
    """Matches that have been found and wait for others that come before them in the page's order."""

    def __init__(self, finding: Finding) -> None:
        self._slices = finding.slices
        self._blocks: list[Block] = []
        self._first = finding.slices.first

    def add(self, blocks: list[Block]) -> None:
        """Take matches whose rows count from the first event held now."""
        self._renumber()
        self._blocks += blocks

    def ending(self, before: int | None) -> list[Block]:
        """Take out those that end before a row of the stream, or all."""
        self._renumber()
        if before is None:
            found, self._blocks = self._blocks, []
            return found
        found = []
        waiting: list[Block] = []
        for block in self._blocks:
            ends = block.last_rows() < before - self._first
            for chosen, into in ((ends, found), (~ends, waiting)):
                if chosen.any():
                    into.append(block.take(chosen))
        self._blocks = waiting
        return found

    def needs_from(self, begin: int) -> int:
        """The row of the first event that one of them holds; `begin` where none waits."""
        self._renumber()
        return min((int(block.first_rows().min()) + self._first for block in self._blocks), default=begin)

    def _renumber(self) -> None:
        gone, self._first = self._slices.first - self._first, self._slices.first
        self._blocks = [moved(block, -gone) for block in self._blocks]


class _KeptOfStream(KeptMatches):
    """The matches that OUTPUT and CONSUME have kept, by rows of the stream; candidates come with rows of a part of it.

    Attributes
    ----------
    first
        The row that the part begins with.
    """

    def __init__(self, pattern: Pattern) -> None:
        super().__init__(pattern)
        self.first = 0
        self._counts = pattern.window.events is not None and not pattern.partition_by

    def keep(self, candidates: Candidates) -> Array:
        return super().keep(replace(candidates, positions=candidates.positions + self.first))

    def preferred(self, finding: Finding, blocks: list[Block]) -> list[Block]:
        """Select those that are kept of the preferred matches that begin in the next stretch; of others all."""
        blocks = [block for block in blocks if len(block)]
        if not blocks or not self.pattern.output.is_preferred:
            return blocks
        here, events, self.first = finding.over(blocks)
        ends = np.cumsum([len(block) for block in blocks])
        kept = np.split(self.keep(Candidates.of(self.pattern, joined_lists(here), events)), ends[:-1])
        return [block.take(own) for block, own in zip(blocks, kept, strict=True) if own.any()]

    def forget_rows(self, before: int) -> None:
        """Forget events that no later match can hold: those before a row. Time windows see to that themselves."""
        if self._counts:
            self.forget_partitions({"[]": before})


def _merged(finding: Finding, stretch: Stretch) -> pa.Table:
    """The matches that end in a stretch as buffers, without listing them."""
    from cep_pipeline.detection.compressed.tables import compress_merged

    pattern, reading = finding.pattern, finding.reading
    start, stop = reading.rows_of_ends(stretch.first, stretch.stop)
    events = finding.slices.prepared(pattern, (start, stop))
    events.split(operand.event_type for operand in pattern.operands)
    return compress_merged(pattern, events, finding.counters, ending=(stretch.first - start, stretch.stop - start))
