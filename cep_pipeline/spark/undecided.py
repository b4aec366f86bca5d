"""OUTPUT and CONSUME of matches that wait: which are final but stand behind others that are not final yet.

Matches are decided about in the page's order, which is that of their last events. Matches that wait, for the end of a
window say, become final in another order. So of such a pattern all candidates of a day are brought into the page's
order, with those that are not final when the day ends, and in each partition deciding stops at the first of these. What
is behind it is held, and handed on to the next day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.matches import CANDIDATES, MANY_PATTERNS, UTC_MICROSECONDS, candidates_of
from cep_pipeline.detection.ordering import page_order
from cep_pipeline.detection.output_policy import KeptMatches
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.warehouse.data_files import read_data_file
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA

CANDIDATES_SCHEMA = pa.schema([*MATCHES_SCHEMA, *list(CANDIDATES)[len(MANY_PATTERNS) :]])
"""Columns of a file of candidates: those of the matches table, and what deciding about them needs."""
_PENDING = "_pending"
_UNDECIDED = ("match_id", "start_ts", "end_ts", "bindings", "returns", "instants", "partition")


class Deciding:
    """Decides about the candidates of one pattern, as far as all before them are final.

    Parameters
    ----------
    pattern
        A pattern with OUTPUT or CONSUME.
    kept
        What is kept so far.
    """

    def __init__(self, pattern: Pattern, kept: KeptMatches) -> None:
        self.pattern, self.kept = pattern, kept
        self._blocked: set[str | None] = set()
        self._held: list[pa.Table] = []

    def decide(self, candidates: pa.Table) -> pa.Table:
        """Decide about the next candidates, which all end after those of earlier calls; returns those that are kept.

        Parameters
        ----------
        candidates
            `CANDIDATES_SCHEMA` and whether they are not final yet, in any order.
        """
        ordered = candidates.take(pa.array(_page_order(self.pattern, candidates)))
        partitions = ordered["partition"].combine_chunks().dictionary_encode()
        names = [*partitions.dictionary.to_pylist(), None]
        number = partitions.indices.fill_null(len(names) - 1).to_numpy()
        pending = ordered[_PENDING].to_numpy()
        blocked_from = np.array([0 if name in self._blocked else len(ordered) for name in names], np.int64)
        np.minimum.at(blocked_from, number[pending], np.flatnonzero(pending))
        self._blocked.update(name for name, row in zip(names, blocked_from, strict=True) if row < len(ordered))
        free = np.arange(len(ordered)) < blocked_from[number]
        self._held.append(ordered.filter(pa.array(~free)))
        decided = ordered.filter(pa.array(free))
        return decided.filter(pa.array(self.kept.keep(_candidates(decided))))

    def held(self) -> pa.Table:
        """What is not final, and what is but waits behind it and may still be kept; in the page's order."""
        held = pa.concat_tables([_marked(CANDIDATES_SCHEMA.empty_table(), False), *self._held])
        return held.filter(pa.array(~self.kept.rules_out(_candidates(held)) | held[_PENDING].to_numpy()))


def candidates_by_time(
    pattern: str, files: Iterable[str], pending: Iterable[str], carried: pa.Table, points_us: Sequence[int]
) -> Iterator[pa.Table]:
    """The candidates of a pattern, those that end between two points after one another, so that few are held at once.

    Parameters
    ----------
    files, pending
        Files of candidates, and of those that are not final yet.
    carried
        What the day before handed on.
    points_us
        Ascending timestamps, such as the ends of slices.
    """
    sources = [*((path, False) for path in files), *((path, True) for path in pending)]
    for low, high in pairwise([None, *sorted(set(points_us)), None]):
        chosen = pc.field("pattern") == pattern
        if low is not None:
            chosen &= pc.field("end_ts") >= pa.scalar(low).cast(UTC_MICROSECONDS)
        if high is not None:
            chosen &= pc.field("end_ts") < pa.scalar(high).cast(UTC_MICROSECONDS)
        parts = [_marked(read_data_file(path, CANDIDATES_SCHEMA, chosen), waits) for path, waits in sources]
        found = pa.concat_tables([_marked(carried.filter(chosen), False), *parts])
        if found.num_rows:
            yield found


def undecided_to_json(held: pa.Table) -> list[list[Any]]:
    """Those of `Deciding.held` that are final, in JSON form: a list each, with what the next day needs of it."""
    rows = held.filter(pc.invert(held[_PENDING]))
    instants = [rows[name].cast(pa.int64()).to_pylist() for name in ("start_ts", "end_ts")]
    bindings = [[[binding["variable"], binding["seq"]] for binding in row] for row in rows["bindings"].to_pylist()]
    others = [rows[name].to_pylist() for name in _UNDECIDED[4:]]
    return [list(row) for row in zip(rows["match_id"].to_pylist(), *instants, bindings, *others, strict=True)]


def undecided_from_json(rows: Sequence[Sequence[Any]], constants: Mapping[str, Any]) -> pa.Table:
    """The candidates that a day handed on, with the constant columns of the day that reads them."""
    columns: dict[str, Sequence[Any]] = {name: [row[place] for row in rows] for place, name in enumerate(_UNDECIDED)}
    columns["bindings"] = [[{"variable": v, "seq": seq} for v, seq in row] for row in columns["bindings"]]
    arrays = []
    for field in CANDIDATES_SCHEMA:
        if field.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[field.name], field.type), len(rows)))
        elif field.type == UTC_MICROSECONDS:
            arrays.append(pa.array(columns[field.name], pa.int64()).cast(field.type))
        else:
            arrays.append(pa.array(columns[field.name], field.type))
    return pa.table(arrays, schema=CANDIDATES_SCHEMA)


def earliest_instant_us(held: pa.Table) -> int | None:
    """The timestamp of the first event of all these candidates, None without any."""
    earliest = pc.min(pc.list_flatten(held["instants"])).as_py()
    return None if earliest is None else int(earliest)


def final_rows(held: pa.Table) -> int:
    """How many of the candidates that are held are final."""
    return int(held.num_rows - pc.sum(held[_PENDING].cast(pa.int64())).as_py()) if held.num_rows else 0


def _marked(candidates: pa.Table, pending: bool) -> pa.Table:
    return candidates.append_column(_PENDING, pa.repeat(pending, candidates.num_rows))


def _candidates(table: pa.Table) -> Any:
    batches = table.combine_chunks().to_batches()
    return candidates_of(batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema))


def _page_order(pattern: Pattern, table: pa.Table) -> Array:
    found = table["bindings"].combine_chunks()
    offsets = found.offsets.to_numpy().astype(np.int64)
    elements = found.flatten()
    names = pa.array([operand.variable for operand in pattern.operands])
    variables = pc.index_in(elements.field("variable"), names).to_numpy().astype(np.int64)
    return page_order(offsets - offsets[0], elements.field("seq").to_numpy(), variables)
