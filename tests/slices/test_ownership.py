"""Who owns a match: slices between every two events own each match once, whatever end of a window it waits for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.mechanisms import Owned, choose_mechanisms, in_pattern_order
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import Finality, closing_rows, earliest_row, owned_matches
from cep_pipeline.slices.prepared import PreparedEvents
from tests.contracts.mechanisms import runnable
from tests.pattern_strategies import WHOLE_LANGUAGE, Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

FINAL = replace(WHOLE_LANGUAGE, max_operands=3, output=False, consume=False, returns=False, parameters=False)


def found_by_slices(pattern: Pattern, events: pa.Table, points: list[tuple[int, int] | None]) -> list[str]:
    """The ids of the matches of the slices between these points; each reads everything up to its end."""
    snapshot = cep.estimate_statistics([pattern], events)
    plan = cep.plan([pattern], snapshot, in_pattern_order=in_pattern_order(choose_mechanisms([pattern])))
    found: list[str] = []
    for start, end in pairwise(points):
        seen = events if end is None else events.slice(0, prepared(pattern, events).rows_before(end))
        detect_slice([pattern], plan, seen, (start, end), lambda _, batch: found.extend(batch["match_id"].to_pylist()))
    return found


def prepared(pattern: Pattern, events: pa.Table) -> PreparedEvents:
    return PreparedEvents(events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)


@settings(deadline=None, max_examples=examples(150))
@given(statement=statements(FINAL), stream_rows=rows(), size=st.integers(1, 7))
def test_count_windows_are_owned_once_by_slices_between_all_events(
    statement: Statement, stream_rows: list[Row], size: int
) -> None:
    pattern = runnable(statement.within(f"{size} EVENTS"))
    events = events_table(stream_rows)
    times, seqs = events["timestamp"].cast(pa.int64()).to_pylist(), events["seq"].to_pylist()
    points = [None, *zip(times, seqs, strict=True), None]
    whole = cep.detect([pattern], events)[pattern.name]["match_id"].to_pylist()
    assert sorted(found_by_slices(pattern, events, points)) == sorted(whole)


def numbered(kinds: str) -> pa.Table:
    """Events of the types A, B, ... at 0, 1, ... us, whose id is the number of their type; `-` has no id."""
    ids = {"A": 1, "B": 2}
    return events_table([{"timestamp": t, "kind": kind, "id": ids.get(kind)} for t, kind in enumerate(kinds)])


def test_the_closing_event_is_counted_in_the_partition() -> None:
    (pattern,) = cep.parse_patterns("PATTERN SEQ(Ev a, ~Ev b) WITHIN 3 EVENTS PARTITION BY id", stream_schema())
    events = prepared(pattern, numbered("ABB-ABBA"))
    rows_of_all = pa.array(range(8)).to_numpy()
    assert closing_rows(pattern, events, rows_of_all).tolist() == [7, 5, 6, 3, 8, 8, 8, 8]


def test_a_match_waits_for_its_closing_event_and_no_longer_than_the_stream() -> None:
    (pattern,) = cep.parse_patterns("PATTERN SEQ(A a, ~B b) WITHIN 3 EVENTS", stream_schema())
    events = prepared(pattern, numbered("A--A-"))
    first = last = pa.array([0, 3]).to_numpy()

    def owned(*slice_: tuple[int, int] | None) -> list[bool]:
        boundaries: Owned = (slice_[0], slice_[1])
        return owned_matches(pattern, events, boundaries, Finality.WINDOW_END, first, last).tolist()

    assert owned((0, 0), (2, 2)) == [False, False]
    assert owned((2, 2), (3, 3)) == [True, False]
    assert owned((3, 3), (9, 0)) == [False, False]
    assert owned((3, 3), None) == [False, True]
    assert owned((2, 2), None) == [True, True]
    assert earliest_row(pattern, events, ((3, 3), None)) == 1
