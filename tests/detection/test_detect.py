"""`detect` and `detect_slice`: their answers, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.errors import InputError, PlanError, UnsupportedPattern
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

ROWS = [
    {"timestamp": 0, "kind": "A", "x": 1},
    {"timestamp": 5, "kind": "B", "x": 3},
    {"timestamp": 5, "kind": "B", "x": 0},
    {"timestamp": 9, "kind": "A", "x": 2},
    {"timestamp": 12, "kind": "B", "x": 7},
]
RISE = "NAME rise PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 us RETURN b.x - a.x AS d"


def parse(text: str, **params: Any) -> list[Any]:
    return cep.parse_patterns(text, stream_schema(), params)


def bindings_of(table: pa.Table) -> list[list[tuple[str, int]]]:
    return [[(b["variable"], b["seq"]) for b in match] for match in table.column("bindings").to_pylist()]


def test_tables_come_in_the_order_of_the_patterns_empty_ones_too() -> None:
    patterns = parse(
        f"NAME none PATTERN A a WHERE a.x > 99 WITHIN 1 second; {RISE}; NAME all PATTERN B b WITHIN 1 second"
    )
    tables = cep.detect(patterns, events_table(ROWS))
    assert list(tables) == ["none", "rise", "all"]
    assert tables["none"].num_rows == 0
    assert bindings_of(tables["rise"]) == [[("a", 0), ("b", 1)], [("a", 3), ("b", 4)]]
    assert tables["rise"].column("d").to_pylist() == [2, 5]
    assert tables["all"].num_rows == 3


def test_no_patterns_and_no_events() -> None:
    assert cep.detect([], events_table(ROWS)) == {}
    assert cep.detect(parse(RISE), events_table([]))["rise"].num_rows == 0


@settings(max_examples=examples(60), deadline=None)
@given(rows(min_size=1), st.data())
def test_the_form_of_the_columns_does_not_matter(drawn: list[Row], data: st.DataObject) -> None:
    """Strings plain or as dictionaries, times as timestamps or integers, one chunk or several."""
    patterns = parse(
        "PATTERN SEQ(A a, Ev b) WHERE a.s <= b.s AND a.x < b.y WITHIN 4 seconds "
        "RETURN a.h AS h, b.s AS s, a.x + b.id AS n"
    )
    events = events_table(drawn)
    expected = comparable(evaluate(patterns, events))
    columns = {}
    for name in events.column_names:
        column = events.column(name)
        if pa.types.is_string(column.type) and data.draw(st.booleans()):
            column = column.dictionary_encode()
        if name == "timestamp" and data.draw(st.booleans()):
            column = column.cast(pa.int64())
        cut = data.draw(st.integers(0, len(column)))
        columns[name] = pa.chunked_array([*column.slice(0, cut).chunks, *column.slice(cut).chunks], column.type)
    assert comparable(from_tables(patterns, cep.detect(patterns, pa.table(columns)))) == expected


# -- slices --------------------------------------------------------------------------------------------------------


def test_slices_own_each_match_once_and_in_order() -> None:
    patterns = parse(f"{RISE}; NAME both PATTERN AND(A a, B b) WITHIN 10 us")
    events = events_table(ROWS)
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, events))
    whole = cep.detect(patterns, events, plan=plan)
    for timestamp, seq in ((0, 0), (5, 1), (5, 2), (9, 0), (12, 99)):
        parts: dict[str, list[str]] = {pattern.name: [] for pattern in patterns}
        counted = dict.fromkeys(parts, 0)

        def keep(pattern: Any, batch: pa.RecordBatch, parts: dict[str, list[str]] = parts) -> None:
            parts[pattern.name] += batch.column("match_id").to_pylist()

        for owned in ((None, (timestamp, seq)), ((timestamp, seq), None)):
            result = detect_slice(patterns, plan, events, owned, keep)
            counted = {name: counted[name] + count for name, count in result.matches.items()}
        assert parts == {name: table.column("match_id").to_pylist() for name, table in whole.items()}
        assert counted == {name: table.num_rows for name, table in whole.items()}


# -- metrics and counts --------------------------------------------------------------------------------------------


def test_metrics_tell_the_nodes_of_the_plan() -> None:
    patterns = parse(RISE)
    tables, metrics = cep.detect(patterns, events_table(ROWS), metrics=True)
    assert tables["rise"].num_rows == 2
    assert metrics.mechanisms == {"rise": "fused"}
    first, last = metrics.nodes
    assert len(first.node) == 1
    assert set(last.node) == {"a", "b"}
    assert (last.candidates, last.passes) == (3, 2)
    assert metrics.condition_evaluations == 3


def test_count_output() -> None:
    tables = cep.detect(
        parse(f"{RISE}; NAME no PATTERN A a WHERE a.x > 9 WITHIN 1 second"), events_table(ROWS), output="count"
    )
    assert tables["rise"].to_pylist() == [{"pattern": "rise", "count": "2"}]
    assert tables["no"].to_pylist() == [{"pattern": "no", "count": "0"}]


# -- refusals ------------------------------------------------------------------------------------------------------


def refused(
    error: type[Exception], match: str, events: pa.Table | None = None, text: str = RISE, **options: Any
) -> None:
    with pytest.raises(error, match=match):
        cep.detect(parse(text), events_table(ROWS) if events is None else events, **options)


def test_an_unknown_mechanism_names_those_there_are() -> None:
    refused(InputError, rf"no mechanism 'fusd'; there are: {', '.join(MECHANISMS)}", mechanism="fusd")


def test_outputs() -> None:
    refused(InputError, "no output 'verbos'; there are: verbose, compressed, count", output="verbos")


@pytest.mark.parametrize("clauses", ["OUTPUT NON_OVERLAP", "CONSUME MATCHED", "OUTPUT NON_OVERLAP CONSUME MATCHED"])
def test_matches_that_are_not_all_kept_are_not_counted(clauses: str) -> None:
    text = f"{RISE.replace(' RETURN', f' {clauses} RETURN')}; NAME other PATTERN A a WITHIN 1 second"
    with pytest.raises(UnsupportedPattern) as caught:
        cep.detect(parse(text), events_table(ROWS), output="count")
    assert caught.value.feature == f"output 'count' with {clauses}"
    assert "'rise'" in str(caught.value)
    assert bindings_of(cep.detect(parse(text), events_table(ROWS))["rise"])[0] == [("a", 0), ("b", 1)]


def test_two_patterns_of_one_name() -> None:
    with pytest.raises(InputError, match="two patterns are named 'rise'"):
        cep.detect([*parse(RISE), *parse(RISE)], events_table(ROWS))


def test_a_plan_for_other_patterns() -> None:
    events = events_table(ROWS)
    other = parse("NAME other PATTERN SEQ(A a, B b) WITHIN 1 second")
    plan = cep.plan(other, cep.estimate_statistics(other, events))
    refused(PlanError, "no pattern 'rise'", plan=plan)
    same_name = parse("NAME rise PATTERN SEQ(A a, B c) WITHIN 1 second")
    plan = cep.plan(same_name, cep.estimate_statistics(same_name, events))
    refused(PlanError, "'rise'", plan=plan)


def test_a_missing_column() -> None:
    refused(InputError, "the events have no column 'x'; they have", events_table(ROWS).drop_columns(["x"]))
    refused(InputError, "no column 'seq'", events_table(ROWS).drop_columns(["seq"]))
    assert cep.detect(parse(RISE), events_table(ROWS).drop_columns(["y", "h"]))["rise"].num_rows == 2


def replaced(name: str, values: Any) -> pa.Table:
    events = events_table(ROWS)
    return events.set_column(events.column_names.index(name), name, values)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("x", pa.array(["1"] * 5), "column 'x' of the events has the type string; the patterns were parsed with int64"),
        ("x", pa.array([1.0] * 5), "column 'x' of the events has the type double"),
        ("kind", pa.array([1] * 5), "column 'kind' of the events has the type int64"),
        ("timestamp", pa.array([0.0] * 5), "must be int64 microseconds or timestamp"),
        (
            "seq",
            pa.array([0, 1, 2, 3, 4], pa.int32()),
            "column 'seq' of the events has the type int32; it must be int64",
        ),
        ("timestamp", pa.array([0, 5, 5, None, 12]), "'timestamp' of the events has 1 nulls"),
        (
            "timestamp",
            pa.array([0, 5, 4, 9, 12]),
            r"not sorted by \(timestamp, seq\): row 2 has \(4, 2\) after \(5, 1\)",
        ),
        ("seq", pa.array([0, 2, 1, 3, 4]), r"not sorted by \(timestamp, seq\): row 2 has \(5, 1\) after \(5, 2\)"),
        ("seq", pa.array([0, 1, 2, 0, 4]), "have the seq 0 twice"),
        ("seq", pa.array([0, 1, 1, 3, 4]), "not sorted"),
        (
            "timestamp",
            pa.array([0, 1, 2, 3, 4], pa.timestamp("ns")),
            "'timestamp' of the events does not fit timestamp",
        ),
    ],
)
def test_events_that_do_not_fit(name: str, values: pa.Array, message: str) -> None:
    refused(InputError, message, replaced(name, values))


def test_events_in_other_forms_are_accepted() -> None:
    expected = bindings_of(cep.detect(parse(RISE), events_table(ROWS))["rise"])
    for name, values in (
        ("x", pa.array([1, 3, 0, 2, 7], pa.int8())),
        ("timestamp", pa.array([0, 5, 5, 9, 12], pa.timestamp("us"))),
        ("timestamp", pa.array([0, 5, 5, 9, 12])),
        ("timestamp", pa.array([0, 5000, 5000, 9000, 12000], pa.timestamp("ns", "Europe/Berlin"))),
        ("kind", pa.array(list("ABBAB"), pa.string_view())),
        ("kind", pa.array(list("ABBAB")).cast(pa.large_string())),
    ):
        assert bindings_of(cep.detect(parse(RISE), replaced(name, values))["rise"]) == expected
    whole = cep.detect(parse("NAME p PATTERN A a WHERE a.y > 1.5 WITHIN 1 second"), replaced("y", pa.array(range(5))))
    assert bindings_of(whole["p"]) == [[("a", 3)]]
    with pytest.raises(InputError, match="column 'y' of the events"):
        cep.detect(
            parse("NAME p PATTERN A a WHERE a.y > 1 WITHIN 1 second"), replaced("y", pa.array(np.full(5, 2**53 + 1)))
        )


def test_seqs_may_go_down_with_time_as_long_as_each_is_its_own() -> None:
    events = replaced("seq", pa.array([9, 7, 8, 6, 5]))
    assert bindings_of(cep.detect(parse(RISE), events)["rise"]) == [[("a", 9), ("b", 7)], [("a", 6), ("b", 5)]]
