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
from cep_pipeline.detection.extent import look_back_us
from cep_pipeline.detection.finality import Finality, finality_of
from cep_pipeline.detection.matches import candidates_of
from cep_pipeline.detection.output_policy import KeptMatches, has_output_policy
from tests.contracts.mechanisms import bindings, drawn, match_ids, parsed, planned
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=80, deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_slices_between_every_two_events(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    """Each slice reads its look-back and its own events only, and the slices' answers follow each other in order.

    Those whose matches wait for events behind them follow in the order in which they are final.
    """
    pattern, table = parsed(drawn(data, mechanism)), events_table(stream_rows)
    assume(pattern.window.time_us is not None)
    plan = planned(pattern, table, "dp_left_deep", mechanism)
    points = [(row["timestamp"], row["seq"]) for row in stream_rows]
    found: list[tuple[tuple[str, int], ...]] = []
    ids: list[str] = []
    state: dict[str, Any] = {}
    for start, end in pairwise([None, *points, None]):
        earliest = None if start is None else start[0] - look_back_us([pattern])
        read = [
            row
            for row in stream_rows
            if (earliest is None or row["timestamp"] >= earliest)
            and (end is None or (row["timestamp"], row["seq"]) < end)
        ]
        batches: list[pa.RecordBatch] = []
        result = detect_slice(
            [pattern], plan, events_table(read), (start, end), lambda _, batch, to=batches: to.append(batch), mechanism
        )
        assert result.matches == {pattern.name: sum(batch.num_rows for batch in batches)}
        if has_output_policy(pattern):  # one pass over what all slices found, its state handed on as text
            policy = KeptMatches(pattern, json.loads(json.dumps(state)))
            batches = [batch.filter(pa.array(policy.keep(candidates_of(batch)))) for batch in batches]
            if end is not None:
                policy.forget(end[0] - (pattern.window.time_us or 0))
            state = policy.to_json()
        of_slice = [
            tuple((binding["variable"], binding["seq"]) for binding in row)
            for batch in batches
            for row in batch.column("bindings").to_pylist()
        ]
        found.extend(of_slice)
        ids.extend(match_id for batch in batches for match_id in batch.column("match_id").to_pylist())
    expected, expected_ids = bindings(evaluate([pattern], table)), match_ids(mechanism, pattern, table)
    if any(finality_of(pattern, clause) is not Finality.LAST_EVENT for clause in pattern.clauses):
        assert sorted(found) == sorted(expected)
        assert sorted(ids) == sorted(expected_ids)
    else:
        assert found == expected
        assert ids == expected_ids
