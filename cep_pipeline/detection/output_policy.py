"""OUTPUT NON_OVERLAP and CONSUME MATCHED: the last step of every mechanism (docs/language.md, section 5).

Whether a match is kept depends on all matches kept before it: in the page's order, or with OUTPUT PREFERRED in that of
their first events. So the matches of a pattern pass here in that order, batch after batch, and what later batches need
to know is the state of a `KeptMatches`: the last kept event of each partition, and the events of kept matches that a
later match could still hold. The state has a JSON form, so that a stream may be run day by day.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.ordering import OrderedLists, OrderedMatches
from cep_pipeline.expressions.columns import Array, Column, ColumnSource
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.pattern import Consume, Output, Pattern
from cep_pipeline.slices.prepared import PreparedEvents

_ALONE = ""
"""The key of the partition of matches that are alone in theirs.

Such a match is one event. Matches come in the order of their last events, so all such matches may share a key: one
of them overlaps the one kept before exactly if it is the same event.
"""
_BEFORE_ALL = np.iinfo(np.int64).min

_keep_matches = NativeKernel(
    "cep_pipeline.detection.match_kernels",
    "keep_matches",
    ("int64", *("int64*",) * 6, "uint8*", "int64", "int64", "uint8*"),
)


def has_output_policy(pattern: Pattern) -> bool:
    """Return whether OUTPUT or CONSUME may drop matches of the pattern."""
    return pattern.output is not Output.ALL or pattern.consume is not Consume.NONE


def decides_in_order(pattern: Pattern) -> bool:
    """Return whether which matches are kept depends on those kept before, not on matches with the same first event."""
    return pattern.output.is_apart or pattern.consume is not Consume.NONE


def policy_text(pattern: Pattern) -> str:
    """The OUTPUT and CONSUME clauses that drop matches, as they are written."""
    clauses = []
    if pattern.output is not Output.ALL:
        clauses.append(f"OUTPUT {pattern.output.value}")
    if pattern.consume is not Consume.NONE:
        clauses.append(f"CONSUME {pattern.consume.value}")
    return " ".join(clauses)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Matches of one pattern in the page's order, before OUTPUT and CONSUME; their widths may differ.

    Attributes
    ----------
    offsets
        int64, shape (n + 1,): match m has the events from `offsets[m]` to `offsets[m + 1]`, at least one.
    positions, instants
        int64, shape (events,): a number of each event that grows with the stream (seq, or the row in a table), and
        its timestamp in microseconds.
    partitions
        The values of PARTITION BY as text, shape (n,), null where the match is alone.
    """

    offsets: Array
    positions: Array
    instants: Array
    partitions: pa.DictionaryArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, pattern: Pattern, matches: OrderedMatches | OrderedLists, events: PreparedEvents) -> Candidates:
        """The candidates that ordered matches are; positions are row numbers."""
        offsets, rows, _ = matches.elements()
        partitions = partition_keys(pattern, events, rows[offsets[:-1]])
        return cls(offsets, rows.astype(np.int64), events.timestamps[rows], partitions)

    def first_positions(self) -> Array:
        """The position of the first event of each: int64, shape (n,)."""
        return np.asarray(np.minimum.reduceat(self.positions, self.offsets[:-1]) if len(self) else self.positions[:0])

    def take(self, order: Array) -> Candidates:
        """The candidates of these numbers, in their order."""
        lengths = np.diff(self.offsets)[order]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        events = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][order] - offsets[:-1], lengths)
        partitions = self.partitions.take(pa.array(order))
        return Candidates(offsets, self.positions[events], self.instants[events], partitions)


class KeptMatches:
    """The matches of one pattern that are kept so far, as far as they decide about later ones.

    Parameters
    ----------
    pattern
        The pattern; without OUTPUT and CONSUME everything is kept.
    state
        What `to_json` gave after the matches before; None or {} at the beginning of the stream.
    in_order
        Whether all matches come in the page's order, so that what lies a window behind them may be forgotten. False
        where those of one partition may come long after those of others.
    """

    def __init__(self, pattern: Pattern, state: Mapping[str, Any] | None = None, *, in_order: bool = True) -> None:
        state = state or {}
        self._in_order = in_order
        self.pattern = pattern
        self._non_overlap = pattern.output.is_apart
        self._consume = pattern.consume is Consume.MATCHED
        self._window_us = pattern.window.time_us
        ends: Mapping[str, list[int]] = state.get("ends", {})
        self._numbers = {key: number for number, key in enumerate(ends)}
        self._ends = np.array([end[0] for end in ends.values()], np.int64)
        self._end_instants = np.array([end[1] for end in ends.values()], np.int64)
        consumed: Sequence[Sequence[Any]] = state.get("consumed", [])
        self._consumed = np.array([event[0] for event in consumed], np.int64)
        self._consumed_instants = np.array([event[1] for event in consumed], np.int64)
        # Where a window counts the events of a partition, what may be forgotten depends on it.
        self._by_partition = pattern.window.events is not None and bool(pattern.partition_by)
        self._consumed_in = self._numbered([event[2] if self._by_partition else _ALONE for event in consumed])

    def keep(self, candidates: Candidates) -> Array:
        """Decide about the next candidates, which all come after those of earlier calls.

        With OUTPUT PREFERRED that is by their first events: those of one call may have any order, and it is in the
        order of their first events that they are decided about.

        Returns
        -------
        np.ndarray
            bool, shape (n,): whether each is kept.

        Notes
        -----
        Time O(e log e) for e events of the candidates with CONSUME, else O(e).
        """
        count = len(candidates)
        if count == 0 or not (self._non_overlap or self._consume):
            return np.ones(count, dtype=bool)
        if self.pattern.output.is_preferred:
            order, chosen = np.argsort(candidates.first_positions(), kind="stable"), np.zeros(count, dtype=bool)
            chosen[order] = self._keep(candidates.take(order))
            return chosen
        return self._keep(candidates)

    def _keep(self, candidates: Candidates) -> Array:
        """Decide about candidates in the order in which they are."""
        count = len(candidates)
        offsets = np.ascontiguousarray(candidates.offsets, np.int64)
        positions = np.ascontiguousarray(candidates.positions, np.int64)
        first, last = candidates.first_positions(), np.maximum.reduceat(positions, offsets[:-1])
        partitions = self._partition_numbers(candidates.partitions)
        if self._consume:
            distinct, where, events = np.unique(positions, return_index=True, return_inverse=True)
            events = np.ascontiguousarray(events.reshape(-1), np.int64)
            used = np.isin(distinct, self._consumed).astype(np.uint8)
        else:
            distinct = where = events = np.zeros(1, np.int64)
            used = np.zeros(1, np.uint8)
        before = used.copy()
        keep = np.zeros(count, np.uint8)
        policy = int(self._non_overlap), int(self._consume)
        _keep_matches(count, first, last, partitions, self._ends, offsets, events, used, *policy, keep)
        kept: Array = keep.astype(bool)
        ends = np.maximum.reduceat(candidates.instants, offsets[:-1])
        self._end_instants[partitions[kept]] = ends[kept]  # in order: the last one stays
        if self._consume:
            newly = where[used > before]
            self._consumed = np.concatenate((self._consumed, positions[newly]))
            self._consumed_instants = np.concatenate((self._consumed_instants, candidates.instants[newly]))
            match_of = np.searchsorted(offsets, newly, "right") - 1
            self._consumed_in = np.concatenate((self._consumed_in, partitions[match_of]))
            if self._window_us is not None and self._in_order:
                self._forget_consumed(self._consumed_instants >= int(ends[-1]) - self._window_us)
        return kept

    def rules_out(self, candidates: Candidates) -> Array:
        """Select the candidates that will not be kept, whatever is decided about others first: bool, shape (n,).

        They overlap the last kept match of their partition, or hold a consumed event.
        """
        ruled_out = np.zeros(len(candidates), dtype=bool)
        if not len(candidates):
            return ruled_out
        offsets = candidates.offsets[:-1]
        if self._non_overlap:
            partitions = self._partition_numbers(candidates.partitions)  # before `_ends`, which gets the new ones
            ruled_out |= candidates.first_positions() <= self._ends[partitions]
        if self._consume:
            ruled_out |= np.logical_or.reduceat(np.isin(candidates.positions, self._consumed), offsets)
        return ruled_out

    def forget(self, before_us: int) -> None:
        """Forget what decides about no match whose events all lie at `before_us` or later."""
        self._forget_consumed(self._consumed_instants >= before_us)
        self._ends[self._end_instants < before_us] = _BEFORE_ALL

    def forget_partitions(self, reachable: Mapping[str | None, int]) -> None:
        """Forget what decides about no match whose events, where they are in one of these partitions, are reachable.

        Parameters
        ----------
        reachable
            Partition (None: that of events which are alone) -> the position of its first event that a match may hold.
            Of other partitions everything stays.
        """
        first = {key if key is not None else _ALONE: position for key, position in reachable.items()}
        limits = np.array([first.get(key, _BEFORE_ALL) for key in self._numbers], np.int64)
        self._forget_consumed(self._consumed >= limits[self._consumed_in])
        self._ends[self._ends < limits] = _BEFORE_ALL

    def to_json(self) -> dict[str, Any]:
        """The state in JSON form, {} where nothing is remembered; equal states have equal forms.

        `ends`: partition -> [position, instant] of its last kept event; `consumed`: the same of each consumed event,
        with its partition where the window counts the events of one.
        """
        state: dict[str, Any] = {}
        if self._non_overlap:
            ends = {
                key: [int(self._ends[number]), int(self._end_instants[number])]
                for key, number in sorted(self._numbers.items())
                if self._ends[number] != _BEFORE_ALL
            }
            if ends:
                state["ends"] = ends
        if len(self._consumed):
            order = np.argsort(self._consumed)
            columns = [self._consumed[order].tolist(), self._consumed_instants[order].tolist()]
            if self._by_partition:
                keys = [*self._numbers]
                columns.append([keys[number] for number in self._consumed_in[order]])
            state["consumed"] = [list(event) for event in zip(*columns, strict=True)]
        return state

    def _forget_consumed(self, remembered: Array) -> None:
        self._consumed, self._consumed_instants = self._consumed[remembered], self._consumed_instants[remembered]
        self._consumed_in = self._consumed_in[remembered]

    def _partition_numbers(self, partitions: pa.DictionaryArray) -> Array:
        """The number of each candidate's partition; partitions that are new get the next numbers."""
        keys = partitions.dictionary.to_pylist()
        known = [*keys, _ALONE] if partitions.null_count else keys
        numbers = self._numbered(known)
        chosen: Array = numbers[partitions.indices.fill_null(len(keys)).to_numpy().astype(np.int64)]
        return chosen

    def _numbered(self, keys: Sequence[str]) -> Array:
        numbers = np.array([self._numbers.setdefault(key, len(self._numbers)) for key in keys], np.int64)
        unknown = np.full(len(self._numbers) - len(self._ends), _BEFORE_ALL)
        self._ends = np.append(self._ends, unknown)
        self._end_instants = np.append(self._end_instants, unknown)
        return numbers


def partition_keys(pattern: Pattern, events: ColumnSource, rows: Array) -> pa.DictionaryArray:
    """The values of PARTITION BY of events as JSON text, null where one of them is null or NaN.

    Equal values have equal texts whatever slice they come from. Without PARTITION BY everything is in one partition.
    """
    if not pattern.partition_by:
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), pa.array(["[]"]))
    return partition_texts([events.column(name).take(rows) for name in pattern.partition_by])


def partition_texts(columns: Sequence[Column]) -> pa.DictionaryArray:
    """The values of some columns, row by row, as JSON text; null where one of them is null or NaN."""
    count = len(columns[0])
    alone = np.zeros(count, dtype=bool)
    codes = np.zeros(count, np.int64)
    texts = [""]
    for column in columns:
        absent = _absent(column)
        alone |= absent
        distinct, code = np.unique(
            np.where(absent, np.zeros(1, column.values.dtype), column.values), return_inverse=True
        )
        values = _json_texts(column, distinct)
        pairs, codes = np.unique(codes * len(values) + code.reshape(-1), return_inverse=True)
        codes = codes.reshape(-1)
        texts = [f"{texts[pair // len(values)]}{',' if texts[0] else ''}{values[pair % len(values)]}" for pair in pairs]
    keys = pa.array([f"[{text}]" for text in texts], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=alone), keys)


def _absent(column: Column) -> Array:
    absent = np.zeros(len(column), dtype=bool) if column.valid is None else ~column.valid
    return absent | np.isnan(column.values) if column.type is ValueType.FLOAT64 else absent


def _json_texts(column: Column, distinct: Array) -> list[str]:
    if column.dictionary is not None:
        return [
            json.dumps(column.dictionary[code] if len(column.dictionary) else "", ensure_ascii=False)
            for code in distinct
        ]
    if column.type is ValueType.FLOAT64:
        distinct = distinct + 0.0  # -0.0 is 0.0
    return json.dumps(distinct.tolist(), separators=(",", ":"))[1:-1].split(",") if len(distinct) else []
