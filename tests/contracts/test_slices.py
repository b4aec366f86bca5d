"""Slices of a stream give together what one detection over all of it gives."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.matches import candidates_of
from cep_pipeline.detection.output_policy import KeptMatches, decides_in_order
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import counts_in_partitions, look_back, waits_for_later_events
from tests.contracts.mechanisms import bindings, drawn, match_ids, planned
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples


def first_row_read(pattern: Pattern, stream_rows: list[Row], start_us: int) -> int:
    """The first row of the look-back; all rows where positions are counted in partitions."""
    reach = look_back([pattern])
    if counts_in_partitions(pattern):
        return 0
    by_time = sum(row["timestamp"] < start_us - reach.time_us for row in stream_rows)
    by_position = max(sum(row["timestamp"] < start_us for row in stream_rows) - reach.positions, 0)
    if reach.positions:  # under TIES ANY events of one time are in no order
        by_position = sum(row["timestamp"] < stream_rows[by_position]["timestamp"] for row in stream_rows)
    return by_time if pattern.window.time_us is not None else by_position


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_slices_between_every_two_events(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    check_slices(mechanism, drawn(data, mechanism, preferred=data.draw(st.booleans())).pattern, stream_rows)


def together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """All the batches as one, or none."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []


def check_slices(mechanism: str, pattern: Pattern, stream_rows: list[Row]) -> None:
    """Each slice reads its look-back and its own events only, and the slices' answers follow each other in order.

    Those whose matches wait for events behind them follow in the order in which they are final.
    """
    # What OUTPUT and CONSUME keep of matches that wait is tested over days (tests/pipeline/test_union_of_days.py).
    preferred = pattern.output.is_preferred
    assume(preferred or not (decides_in_order(pattern) and waits_for_later_events(pattern)))
    table = events_table(stream_rows)
    plan = planned(pattern, table, "dp_left_deep", mechanism)
    points = [(row["timestamp"], row["seq"]) for row in stream_rows]
    found: list[tuple[tuple[str, int], ...]] = []
    ids: list[str] = []
    state: dict[str, Any] = {}
    for start, end in pairwise([None, *points, None]):
        first = 0 if start is None else first_row_read(pattern, stream_rows, start[0])
        read = [row for row in stream_rows[first:] if end is None or (row["timestamp"], row["seq"]) < end]
        batches: list[pa.RecordBatch] = []
        result = detect_slice(
            [pattern], plan, events_table(read), (start, end), lambda _, batch, to=batches: to.append(batch), mechanism
        )
        assert result.matches == {pattern.name: sum(batch.num_rows for batch in batches)}
        if decides_in_order(pattern):  # one pass over what all slices found, its state handed on as text
            policy = KeptMatches(pattern, json.loads(json.dumps(state)))
            batches = [batch.filter(pa.array(policy.keep(candidates_of(batch)))) for batch in together(batches)]
            if end is not None:
                policy.forget(end[0] - (pattern.window.time_us or 2**62))
            state = policy.to_json()
        of_slice = [
            tuple((binding["variable"], binding["seq"]) for binding in row)
            for batch in batches
            for row in batch.column("bindings").to_pylist()
        ]
        found.extend(of_slice)
        ids.extend(match_id for batch in batches for match_id in batch.column("match_id").to_pylist())
    expected, expected_ids = bindings(evaluate([pattern], table)), match_ids(mechanism, pattern, table)
    if waits_for_later_events(pattern):
        assert sorted(found) == sorted(expected)
        assert sorted(ids) == sorted(expected_ids)
    else:
        assert found == expected
        assert ids == expected_ids


@pytest.mark.parametrize("mechanism", ["fused", "evaluation_tree"])
def test_matches_with_one_first_event_are_final_together(mechanism: str) -> None:
    """Under TIES ANY too, where one of two waits for the events of the time of its last event."""
    text = "PATTERN AND(Ev a, Ev b) WITHIN 3 EVENTS TIES ANY OUTPUT PREFERRED"
    [pattern] = parse_patterns(text, stream_schema())
    found = [{"timestamp": second * 1_000_000, "seq": seq, "kind": "A"} for seq, second in enumerate([0, 0, 1, 1])]
    check_slices(mechanism, pattern, found)
