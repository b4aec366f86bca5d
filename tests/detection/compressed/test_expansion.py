"""Buffers of matches, expanded lazily in the page's order."""

from __future__ import annotations

import struct
import time
from dataclasses import replace
from itertools import islice
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import costs, outputs
from cep_pipeline.detection.compressed import buffers, runs, tables
from cep_pipeline.detection.compressed.buffers import ListedMatches, MatchesOfEvent, Paths
from cep_pipeline.detection.compressed.tables import compress_merged, statements_in
from cep_pipeline.detection.limits import LimitReached, at_most_seconds
from cep_pipeline.detection.matches import MANY_PATTERNS
from cep_pipeline.detection.mechanisms import Counters, Sink
from cep_pipeline.detection.outputs import route_of
from cep_pipeline.errors import InputError, PlanError, TooManyMatches, UnsupportedPattern
from cep_pipeline.slices.prepared import PreparedEvents
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

LANGUAGE = replace(ANY_MATCH_LANGUAGE, output=False, consume=False)
SIXTY = "NAME sixty PATTERN SEQ(A a, B+ v[], C c) WITHIN 1 day RETURN v.LEN AS n, v[1].x AS first, c.s"


def stream(middle: int) -> pa.Table:
    kinds = ["A", *["B"] * middle, "C"]
    return stream_schema().table([{"timestamp": t, "kind": kind, "x": t, "s": "é"} for t, kind in enumerate(kinds)])


def never_listed(*_: object) -> None:
    """In place of listing a few matches: merged runs make all buffers."""
    return


def compressed(text: str, table: pa.Table) -> pa.Table:
    [found] = cep.detect(cep.parse_patterns(text, stream_schema()), table, output="compressed").values()
    return found


@settings(max_examples=examples(80), deadline=None)
@given(statement=statements(LANGUAGE), stream_rows=rows(), data=st.data())
def test_part_by_part_and_all_at_once(statement: Statement, stream_rows: list[Row], data: st.DataObject) -> None:
    pattern = statement.pattern
    assume(not route_of(pattern, Sink.COMPRESS).lists)
    table = events_table(stream_rows)
    listing = data.draw(st.sampled_from([outputs._listed_up_to, never_listed]))
    with (
        patch.object(runs, "RUNS_AT_ONCE", data.draw(st.sampled_from([1 << 21, 1]))),
        patch.object(buffers, "MATCHES_AT_ONCE", data.draw(st.sampled_from([1 << 17, 1, 8]))),
        patch.object(buffers, "EDGES_AT_ONCE", data.draw(st.sampled_from([1 << 20, 1, 8]))),
        patch.object(buffers, "MOST_COUNTED", data.draw(st.sampled_from([1 << 61, 1]))),
        patch.object(runs, "MOST_OF_ENDS", data.draw(st.sampled_from([0, 2, 100]))),
        patch.object(runs, "EDGES_AT_ONCE", data.draw(st.sampled_from([1 << 25, 8]))),
        patch.object(outputs, "_listed_up_to", listing),
    ):
        found = cep.detect([pattern], table, output="compressed")[pattern.name]
    with (
        patch.object(tables, "AT_ONCE", data.draw(st.sampled_from([0, 0, 3, 1 << 17]))),
        patch.object(tables, "FIRST_ROWS", data.draw(st.sampled_from([1, 64]))),
        patch.object(tables, "MOST_ROWS", data.draw(st.sampled_from([1, 5, 1 << 16]))),
        patch.object(tables, "MATCHES_AN_EDGE", data.draw(st.sampled_from([0, 0, 1]))),
    ):
        expanded = cep.expand(found).read_all()
    assert comparable(from_tables([pattern], {pattern.name: expanded})) == comparable(evaluate([pattern], table))


OF_SINGLE_EVENTS = {
    "SEQ({T} a, {T} b, {T} c)": [
        "a.x < b.x",
        "a.x != c.x AND b.y >= a.y",
        "a.s < b.s AND b.s = c.s",
        "b.y - 1 > a.x + a.y",
        "a.timestamp + 3 < c.timestamp",
        "a.f = c.f",
    ],
    "AND({T} a, {T} b)": ["a.x <= b.x", "a.y = b.y AND a.x > b.x"],
    "SEQ({T}+ v[], {T} b)": ["v[i].x > v[i-1].x", "v[1].x < b.x", "v[v.LEN].y >= b.y", "v[i].y <= v[1].y"],
    "SEQ({T} b, {T}+ v[], {T}+ w[])": [
        "v.x > b.x AND w[i].x >= w[i-1].x",
        "v[i].y != b.y",
        "v[1].x < w[1].x AND v[1].y > b.y",
        "w.x > v[v.LEN].x",
        "w[i].x > v[1].x",
    ],
    "AND({T} b, {T}+ v[])": ["v[1].x >= b.x", "v[i].x < v[i-1].x"],
    "SEQ({T} a, OR({T}+ v[], B b))": ["a.x > 0", "v[i].x > v[i-1].x"],
}
"""Structures with conditions that runs ask of single events."""


@settings(max_examples=examples(120), deadline=None)
@given(stream_rows=rows(), data=st.data())
def test_conditions_on_single_events(stream_rows: list[Row], data: st.DataObject) -> None:
    structure = data.draw(st.sampled_from([*OF_SINGLE_EVENTS]))
    condition = data.draw(st.sampled_from(["a.x > 0", *OF_SINGLE_EVENTS[structure]]))
    condition = condition if condition != "a.x > 0" or " a" in structure else "b.x > 0"
    window = data.draw(st.sampled_from(["3 us", "6 us", "1 day", "4 events"]))
    text = f"NAME p PATTERN {structure} WHERE {condition} WITHIN {window} RETURN b.x AS x"
    text = text if " b" in structure and not structure.startswith("OR") else text.split(" RETURN", maxsplit=1)[0]
    text = text.replace("{T}", data.draw(st.sampled_from(["A", "Ev"])))
    patterns = cep.parse_patterns(text, stream_schema())
    table = events_table(stream_rows)
    with (
        patch.object(outputs, "_listed_up_to", never_listed),
        patch.object(runs, "MOST_OF_ENDS", data.draw(st.sampled_from([0, 2, 100]))),
    ):
        found = cep.detect(patterns, table, output="compressed")["p"]
    expanded = cep.expand(found).read_all()
    assert comparable(from_tables(patterns, {"p": expanded})) == comparable(evaluate(patterns, table))


@pytest.mark.parametrize("at_once", [0, 1 << 17])
@pytest.mark.parametrize("structure", ["SEQ(A a, B+ v[], C c)", "SEQ(Ev+ v[], Ev+ w[])", "AND(A a, B+ v[], C+ c[])"])
def test_seqs_that_do_not_grow_with_time(structure: str, at_once: int) -> None:
    seqs = [4, 1, 8, 0, 7, 2, 6, 5]
    stream_rows = [{"timestamp": t, "seq": seq, "kind": "ABBCBABC"[t]} for t, seq in enumerate(seqs)]
    patterns = cep.parse_patterns(f"NAME p PATTERN {structure} WITHIN 1 day", stream_schema())
    events = events_table(stream_rows)
    with patch.object(tables, "AT_ONCE", at_once), patch.object(tables, "MATCHES_AN_EDGE", 0):
        expanded = cep.expand(cep.detect(patterns, events, output="compressed")["p"]).read_all()
    assert comparable(from_tables(patterns, {"p": expanded})) == comparable(evaluate(patterns, events))
    assert expanded.num_rows > 10


@pytest.mark.parametrize("between", [0, 1, 100])
def test_events_of_a_buffer_may_lie_far_apart(between: int) -> None:
    """The events of one end are put in order by the rows between them, or by sorting where those are many."""
    kinds = [kind for kind in "BABABACC" for kind in (*["X.1"] * between, kind)]
    table = stream_schema().table([{"timestamp": t, "kind": kind, "x": t} for t, kind in enumerate(kinds)])
    text = "NAME p PATTERN AND(A a, B b, C c) WITHIN 1 day"
    patterns = cep.parse_patterns(text, stream_schema())
    expanded = cep.expand(compressed(text, table)).read_all()
    assert comparable(from_tables(patterns, {"p": expanded})) == comparable(evaluate(patterns, table))
    assert expanded.num_rows == 18


def test_a_buffer_has_each_partial_match_once() -> None:
    """Rising lists that begin with different events go on alike: their buffers do not grow with the beginnings."""
    ranks = [7 * t % 40 for t in range(120)]
    table = stream_schema().table([{"timestamp": t, "kind": "A", "x": x} for t, x in enumerate(ranks)])
    text = "NAME p PATTERN A+ v[] WHERE v[i].x > v[i-1].x WITHIN 40 events"
    patterns = cep.parse_patterns(text, stream_schema())
    with (
        patch.object(outputs, "_listed_up_to", never_listed),
    ):
        merged = cep.detect(patterns, table, output="compressed")["p"]
    assert merged.num_rows == 120
    for buffer in buffers_of(merged):
        matches = buffer.matches
        assert isinstance(matches, Paths)
        assert matches.nodes <= 40 + 1
    assert cep.expand(merged).read_all().equals(cep.detect(patterns, table)["p"])


def test_the_first_of_very_many_matches_come_at_once() -> None:
    table = compressed(SIXTY, stream(60))
    assert table.select(["pattern", "end_seq", "count"]).to_pylist() == [
        {"pattern": "sixty", "end_seq": 61, "count": str(2**60 - 1)}
    ]
    reader = cep.expand(table)
    batches = [*islice(reader, 2)]
    assert all(tables.FIRST_ROWS <= batch.num_rows < 1_000 for batch in batches)
    small = cep.detect(cep.parse_patterns(SIXTY, stream_schema()), stream(12))["sixty"]
    # The first lists of 60 are those that take all of the first 48, and then go on as lists of 12 do.
    found = pa.Table.from_batches(batches).to_pylist()
    for row, alike in zip(found, small.to_pylist(), strict=False):
        seqs = [binding["seq"] for binding in row["bindings"]]
        assert seqs == [*range(49), *(binding["seq"] + 48 for binding in alike["bindings"][1:])]
    assert found[0]["n"] == 60
    assert found[0]["first"] == 1


def test_iterating_gives_matches_of_the_first_pattern_first() -> None:
    patterns = cep.parse_patterns(f"{SIXTY}; NAME pairs PATTERN SEQ(A a, B b) WITHIN 1 day", stream_schema())
    found = [*islice(cep.detect_batches(patterns, stream(60)), 3)]
    assert [name for name, _ in found] == ["sixty"] * 3
    whole = [*cep.detect_batches(patterns, stream(6))]
    assert [name for name, _ in whole] == ["sixty", "pairs"]
    verbose = cep.detect(patterns, stream(6))
    assert [pa.Table.from_batches([batch]).to_pylist() for _, batch in whole] == [
        table.to_pylist() for table in verbose.values()
    ]


@pytest.mark.parametrize("few", [True, False])
def test_few_matches_are_listed_rather_than_read_from_buffers(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are the same."""
    patterns = cep.parse_patterns(SIXTY, stream_schema())
    if few:
        monkeypatch.setattr(outputs, "compressed_together", lambda _: pytest.fail("buffers are made"))
    else:
        monkeypatch.setattr(costs, "FEW_COMPRESSED", 100)
        monkeypatch.setattr(outputs, "batches_together", lambda _: pytest.fail("matches are listed"))
    batches = [batch for _, batch in cep.detect_batches(patterns, stream(9))]
    monkeypatch.undo()
    assert pa.Table.from_batches(batches).to_pylist() == cep.detect(patterns, stream(9))["sixty"].to_pylist()


def test_tables_of_several_patterns_and_without_rows() -> None:
    patterns = cep.parse_patterns(
        f"{SIXTY}; NAME none PATTERN SEQ(C c, A a) WITHIN 1 day RETURN c.x; NAME bs PATTERN B+ b[] WITHIN 2 us",
        stream_schema(),
    )
    tables = cep.detect(patterns, stream(5), output="compressed")
    verbose = cep.detect(patterns, stream(5))
    empty = cep.expand(tables["none"]).read_all()
    assert empty.schema == verbose["none"].schema
    assert empty.num_rows == 0
    expanded = cep.expand(pa.concat_tables(tables.values()).replace_schema_metadata(None)).read_all()
    assert expanded.schema == MANY_PATTERNS
    assert expanded.column("match_id").to_pylist() == [
        match_id for table in verbose.values() for match_id in table.column("match_id").to_pylist()
    ]


def test_buffers_outlive_a_file(tmp_path: object) -> None:
    text = "NAME up PATTERN SEQ(A a, B+ v[], C c) WHERE v[i].x > v[i-1].x WITHIN 1 day RETURN v[v.LEN].x AS x, a.h AS h"
    table = compressed(text, stream(6))
    pq.write_table(table, f"{tmp_path}/c.parquet")
    read = cep.expand(pq.read_table(f"{tmp_path}/c.parquet")).read_all()
    assert read.equals(cep.expand(table).read_all())
    assert read.num_rows == 2**6 - 1


def test_few_matches_are_listed_and_very_many_are_not() -> None:
    """The page's rows are the same either way, with every type of attribute; the count of very many is not listed."""
    text = "NAME all PATTERN {} WITHIN 1 day RETURN {}a.x AS x, c.y AS y, c.s AS s, a.f AS f, a.h AS h, c.kind AS kind"
    rows = [
        {"timestamp": t, "kind": kind, "x": t, "y": t / 3, "s": "é" * t, "f": t % 2 == 0, "h": [t, None]}
        | ({"x": None, "y": None, "s": None, "f": None, "h": None} if t in (3, 7) else {})
        for t, kind in enumerate("ABBABCCABC")
    ]
    events = events_table([{"seq": row["timestamp"], **row} for row in rows])
    for structure, item in (
        ("SEQ(A a, B b, C c)", ""),
        ("SEQ(A a, B+ b[], C c)", "b.LEN AS n, "),
        ("SEQ(A a, OR(B b, C d), C c)", ""),
    ):
        patterns = cep.parse_patterns(text.format(structure, item), stream_schema())
        listed = cep.detect(patterns, events, output="compressed")["all"]
        with (
            patch.object(outputs, "_listed_up_to", never_listed),
        ):
            merged = cep.detect(patterns, events, output="compressed")["all"]
        kinds = [{type(buffer.matches) for buffer in buffers_of(table)} for table in (listed, merged)]
        assert kinds == [{ListedMatches}, {Paths}]
        assert listed.drop_columns("buffer").equals(merged.drop_columns("buffer"))
        rows_of = [cep.expand(table).read_all() for table in (listed, merged)]
        assert rows_of[0].equals(rows_of[1])
        assert rows_of[0].equals(cep.detect(patterns, events)["all"])
        assert rows_of[0].num_rows > 8
    [graph] = buffers_of(compressed(SIXTY, stream(60)))
    assert isinstance(graph.matches, Paths)


def buffers_of(table: pa.Table) -> list[MatchesOfEvent]:
    """The contents of all buffers of a compressed table."""
    statements = statements_in(table)
    return [MatchesOfEvent.from_bytes(data, statements) for data in table.column("buffer").to_pylist()]


@pytest.mark.parametrize("version", [1, 2])
def test_buffers_of_earlier_releases_are_read(version: int) -> None:
    """Listed matches were buffers with their statements, at first compressed."""
    table = compressed("NAME up PATTERN SEQ(A a, B b) WITHIN 1 day", stream(3))
    old = []
    for buffer in buffers_of(table):
        statement = buffer.statement.encode()
        listed = buffer.matches
        assert isinstance(listed, ListedMatches)
        events, matches = buffer.events.num_rows, len(listed.offsets) - 1
        clocks = [buffer.events.column(name).to_numpy() for name in ("timestamp", "seq")]
        if version == 2:
            rest = struct.pack("<IIIII", len(statement), events, matches, 0, 4) + statement
            rest += b"".join(clock.astype(np.int64).tobytes() for clock in clocks)
            rest += np.diff(listed.offsets).astype(np.uint32).tobytes()
            rest += listed.variables.astype(np.int16).tobytes() + listed.events.astype(np.int32).tobytes()
            old.append(struct.pack("<4sBBxxQ", b"CEPB", 2, 1, len(rest)) + rest)
            continue
        statement += b"\0" * (-len(statement) % 8)
        rest = struct.pack("<II", len(statement), 0) + statement
        rest += struct.pack("<III", events, len(listed.events), matches)
        arrays = (*(np.diff(clock, prepend=0) for clock in clocks), np.diff(listed.offsets))
        rest += b"".join(array.astype(np.int64).tobytes() for array in arrays)
        rest += listed.events.astype(np.int32).tobytes() + listed.variables.astype(np.int16).tobytes()
        compressed_rest = pa.Codec("zstd").compress(rest, asbytes=True)
        old.append(struct.pack("<4sBBxxQ", b"CEPB", 1, 1, len(rest)) + compressed_rest)
    earlier = table.set_column(4, "buffer", pa.array(old, pa.binary()))
    assert cep.expand(earlier).read_all().equals(cep.expand(table).read_all())
    assert cep.expand(earlier).read_all().num_rows == 3


def test_matches_that_must_be_listed_are_compressed_within_the_limit() -> None:
    text = "NAME sums PATTERN SEQ(A a, B+ v[], C c) WHERE sum(v[].x) > 3 WITHIN 1 day"
    patterns = cep.parse_patterns(text, stream_schema())
    table = cep.detect(patterns, stream(6), output="compressed", limit=61)["sums"]
    assert table.column("count").to_pylist() == ["59"]
    assert cep.expand(table).read_all().equals(cep.detect(patterns, stream(6))["sums"])
    for output in ("compressed", "count", "verbose"):
        with pytest.raises(TooManyMatches, match="more than 1,000 matches") as caught:
            cep.detect(patterns, stream(40), output=output, limit=1000)
        assert caught.value.count is None


def test_a_limit_tells_the_count() -> None:
    patterns = cep.parse_patterns(SIXTY, stream_schema())
    with pytest.raises(TooManyMatches, match="1,152,921,504,606,846,975 matches") as caught:
        cep.detect(patterns, stream(60), limit=1_000_000)
    assert caught.value.count == 2**60 - 1
    assert caught.value.exit_code == 2
    assert "compressed" in str(caught.value)
    assert cep.detect(patterns, stream(60), output="count", limit=1)["sixty"].num_rows == 1
    assert cep.detect(patterns, stream(3), limit=7)["sixty"].num_rows == 7
    with pytest.raises(InputError, match="limit is -1"):
        cep.detect(patterns, stream(3), limit=-1)


def test_single_events_are_counted_whatever_the_limit_and_by_the_plan() -> None:
    patterns = cep.parse_patterns("NAME pairs PATTERN SEQ(B a, B b) WITHIN 1 day", stream_schema())
    assert cep.detect(patterns, stream(9), output="count", limit=3)["pairs"].column("count").to_pylist() == ["36"]
    with pytest.raises(TooManyMatches) as caught:
        cep.detect(patterns, stream(9), limit=3)
    assert caught.value.count == 36
    patterns = cep.parse_patterns(SIXTY, stream_schema())
    other = cep.plan(patterns, cep.estimate_statistics(patterns, stream(60)), "dp_left_deep", "throughput")
    for output in ("count", "compressed"):
        with pytest.raises(PlanError, match="in the pattern's order"):
            cep.detect(patterns, stream(60), plan=other, mechanism="eager_nfa", output=output)


def test_policies_are_refused() -> None:
    patterns = cep.parse_patterns("PATTERN A+ a[] WITHIN 1 day CONSUME MATCHED", stream_schema())
    with pytest.raises(UnsupportedPattern, match="'compressed' with CONSUME MATCHED"):
        cep.detect(patterns, stream(3), output="compressed")


def test_what_cannot_be_expanded_is_refused() -> None:
    table = compressed(SIXTY, stream(3))
    with pytest.raises(InputError, match="has the columns pattern, end_seq"):
        cep.expand(table.drop_columns(["buffer"]))
    with pytest.raises(InputError, match="metadata have been lost"):
        cep.expand(table.slice(0, 0).replace_schema_metadata(None))
    [good] = table.column("buffer").to_pylist()
    later = good[:4] + b"\x09" + good[5:]
    for bad, said in (
        (b"no", "damaged"),
        (b"x" * 80, "no buffer of matches"),
        (good[:-9], "damaged"),
        (later, "version 9"),
    ):
        with pytest.raises(InputError, match=said):
            cep.expand(table.set_column(4, "buffer", pa.array([bad]))).read_all()


def test_compiled_runs_of_one_long_window_can_be_ended() -> None:
    """One lane asks 10^9 comparisons: a time limit ends it in between."""
    kinds = ["A"] * 30_000 + ["B"] * 30_000
    table = stream_schema().table([{"timestamp": t, "kind": kind, "x": -t} for t, kind in enumerate(kinds)])
    patterns = cep.parse_patterns("NAME p PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 1 day", stream_schema())
    table = pa.concat_tables([table, stream_schema().table([{"timestamp": 70_000, "seq": 70_000, "kind": "C"}])])
    [pattern] = patterns
    events = PreparedEvents(table, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    with pytest.raises(LimitReached), at_most_seconds(0.2, time.process_time):
        compress_merged(pattern, events, Counters())


def test_a_statement_stands_once_and_is_found_from_any_part_of_a_table() -> None:
    """The first buffer of each pattern has it, and so have the metadata, with which any rows can be read."""
    patterns = cep.parse_patterns(
        "NAME up PATTERN SEQ(A a, B b) WITHIN 1 day; NAME ends PATTERN SEQ(B b, B c) WITHIN 1 day RETURN b.s AS s",
        stream_schema(),
    )
    tables = [*cep.detect(patterns, stream(9), output="compressed").values()]
    wholes = [cep.expand(table).read_all() for table in tables]
    for table, whole in zip(tables, wholes, strict=True):
        assert [data[4] for data in table.column("buffer").to_pylist()] == [2] + [3] * (table.num_rows - 1)
        parts = [cep.expand(table.slice(row, 1)).read_all() for row in range(table.num_rows)]
        assert len(parts) > 2
        assert pa.concat_tables(parts).equals(whole)
    together = pa.concat_tables(tables).replace_schema_metadata(None)
    backwards = together.take([*reversed(range(together.num_rows))])
    ids = [row for whole in wholes for row in whole.column("match_id").to_pylist()]
    assert cep.expand(together).read_all().column("match_id").to_pylist() == ids
    assert sorted(cep.expand(backwards).read_all().column("match_id").to_pylist()) == sorted(ids)
    with pytest.raises(InputError, match="give the whole table"):
        cep.expand(together.slice(1)).read_all()


@settings(max_examples=examples(200), deadline=None)
@given(statements(LANGUAGE), rows(max_size=12))
def test_buffers_that_are_read_together_are_those_read_one_by_one(statement: Statement, stream_rows: list[Row]) -> None:
    assume(not statement.pattern.summary)
    table = cep.detect([statement.pattern], events_table(stream_rows), output="compressed")[statement.pattern.name]
    together = cep.expand(table).read_all()
    alone = pa.concat_tables([together[:0], *(cep.expand(table.slice(row, 1)).read_all() for row in range(len(table)))])
    assert alone.schema == together.schema
    assert repr(alone.to_pylist()) == repr(together.to_pylist())  # NaN equals NaN


def test_few_events_whose_seqs_do_not_rise_are_read_together() -> None:
    """Each seq stands once in a buffer; where it stands twice, the buffer is refused."""
    rows = [{"seq": 90 - t, "timestamp": t // 2, "kind": kind} for t, kind in enumerate("AABABCBCC")]
    patterns = cep.parse_patterns("NAME p PATTERN SEQ(A a, B b, C c) WITHIN 1 day TIES ARRIVAL", stream_schema())
    table = cep.detect(patterns, events_table(rows), output="compressed")["p"]
    assert table.num_rows > 1
    assert buffers.runs_of_alike(table.column("buffer").chunk(0)).tolist() == [
        1,
        table.num_rows,
    ]  # one has its statement
    assert cep.expand(table).read_all().equals(cep.detect(patterns, events_table(rows))["p"])
    last = bytearray(table.column("buffer")[-1].as_py())
    events = int.from_bytes(last[16:20], "little")
    seqs = slice(32 + 8 * events, 32 + 16 * events)
    last[seqs] = last[seqs][:8] * events
    table = table.set_column(
        4, "buffer", pa.array([*table.column("buffer").to_pylist()[:-1], bytes(last)], pa.binary())
    )
    with pytest.raises(InputError, match="each once"):
        cep.expand(table).read_all()
