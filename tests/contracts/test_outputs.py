"""The forms of output say the same: the count, the buffers and their expansion, the rows, and the limit on rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.errors import TooManyMatches
from tests.answers import comparable, from_tables
from tests.contracts.mechanisms import answer, drawn
from tests.oracle import evaluate
from tests.pattern_strategies import Statement
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples


def check_compressed(mechanism: str, statement: Statement, stream_rows: list[Row]) -> None:
    pattern, table = statement.pattern, events_table(stream_rows)
    expected = evaluate([pattern], table)
    compressed = cep.detect([pattern], table, mechanism=mechanism, output="compressed")[pattern.name]
    assert compressed.column_names == ["pattern", "end_seq", "end_ts", "count", "buffer"]
    ends = [max(match.bindings, key=lambda binding: place_of(table, binding[1]))[1] for match in expected]
    assert compressed.column("end_seq").to_pylist() == list(dict.fromkeys(ends))
    assert compressed.column("count").to_pylist() == [str(ends.count(end)) for end in dict.fromkeys(ends)]
    assert compressed.column("end_ts").cast(pa.int64()).to_pylist() == [
        {match.end_ts for match, seq in zip(expected, ends, strict=True) if seq == end}.pop()
        for end in dict.fromkeys(ends)
    ]
    expanded = cep.expand(compressed).read_all()
    assert comparable(from_tables([pattern], {pattern.name: expanded})) == comparable(expected)
    listed = cep.detect([pattern], table, mechanism=mechanism)[pattern.name]
    assert expanded.schema == listed.schema
    assert expanded.column("match_id").to_pylist() == listed.column("match_id").to_pylist()


def place_of(table: pa.Table, seq: int) -> int:
    place: int = table.column("seq").to_pylist().index(seq)
    return place


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_expansion_is_the_verbose_output(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    check_compressed(mechanism, drawn(data, mechanism, output=False, consume=False), stream_rows)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data(), stream_rows=rows(), below=st.integers(0, 3))
def test_no_more_rows_than_the_limit(mechanism: str, data: st.DataObject, stream_rows: list[Row], below: int) -> None:
    pattern, table = drawn(data, mechanism).pattern, events_table(stream_rows)
    found = answer(mechanism, pattern, table)
    count = len(found)
    limit = max(count - below, 0)
    if limit == count:
        allowed = cep.detect([pattern], table, mechanism=mechanism, limit=limit)
        assert comparable(from_tables([pattern], allowed)) == comparable(found)
        return
    with pytest.raises(TooManyMatches) as caught:
        cep.detect([pattern], table, mechanism=mechanism, limit=limit)
    assert caught.value.count in (None, count)
    assert caught.value.limit == limit
