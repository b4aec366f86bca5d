"""Composition: matches of earlier statements as events of later ones, in memory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.composition import WRITTEN_SEQ, events_read, longer_stream, plain_pattern
from cep_pipeline.detection.match_ids import MatchIdentity
from cep_pipeline.detection.results import opened
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.composing import COMPOSED_MATCH, EVENT_TYPE
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.order import partitions_of
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

PAIR = "NAME pair PATTERN SEQ(A a, B b) WITHIN 9 seconds RETURN a.x AS x, b.y AS y, a.id AS id;"
ROWS = [
    {"timestamp": 0, "kind": "A", "x": 1, "y": 0.5, "id": 1},
    {"timestamp": 1_000_000, "kind": "A", "x": 2, "y": 1.0, "id": 2},
    {"timestamp": 2_000_000, "kind": "B", "x": 3, "y": 2.5, "id": 1},
    {"timestamp": 2_000_000, "kind": "C", "x": 4, "y": 3.0, "id": 2},
    {"timestamp": 4_000_000, "kind": "B", "x": 5, "y": 4.0, "id": 2},
    {"timestamp": 5_000_000, "kind": "pair", "x": 6, "y": 5.0, "id": 1},
]
SEQS = [10, 20, 30, 40, 50, 60]
EVENTS = events_table([{"seq": seq, **row} for seq, row in zip(SEQS, ROWS, strict=True)])


def parse(text: str, **params: Any) -> list[Pattern]:
    return cep.parse_patterns(text, stream_schema(), params)


def bound(table: pa.Table) -> list[list[tuple[str, int]]]:
    return [[(one["variable"], one["seq"]) for one in row] for row in table.column("bindings").to_pylist()]


def composed(table: pa.Table, *others: pa.Table) -> list[list[tuple[str, int]]]:
    """Variable and number of each composed match, counted through the tables."""
    numbers = [one for table in others for one in table.column("match_id").to_pylist()]
    return [[(one["variable"], numbers.index(one["match_id"])) for one in row] for row in table["composed"].to_pylist()]


@pytest.mark.parametrize("mechanism", [None, *MECHANISMS])
def test_matches_are_events_behind_their_last_one(mechanism: str | None) -> None:
    patterns = parse(PAIR + "NAME then PATTERN SEQ(pair p, C c) WHERE p.x = 1 WITHIN 9 seconds RETURN p.seq, c.x")
    found = cep.detect(patterns, EVENTS, mechanism=mechanism)
    assert bound(found["pair"]) == [[("a", 10), ("b", 30)], [("a", 20), ("b", 30)], [("a", 10), ("b", 50)], [
        ("a", 20),
        ("b", 50),
    ]]  # fmt: skip
    assert bound(found["then"]) == [[("p", 30), ("c", 40)]]
    assert composed(found["then"], found["pair"]) == [[("p", 0)]]
    assert found["then"].column("p.seq").to_pylist() == [30]
    assert found["then"].column_names[4:6] == ["bindings", "composed"]
    [match_id] = found["then"].column("match_id").to_pylist()
    inside = found["pair"].column("match_id").to_pylist()[0]
    assert match_id == MatchIdentity.of(patterns[1]).id_of([("p", 30), ("c", 40)], [("p", inside)])
    assert match_id != MatchIdentity.of(patterns[1]).id_of([("p", 30), ("c", 40)])


def test_the_longer_stream_and_its_places() -> None:
    patterns = parse(
        PAIR + "NAME two PATTERN SEQ(pair p, Ev e) WITHIN 9 seconds; PATTERN AND(two t, pair p) WITHIN 1 ms"
    )
    found = cep.detect(patterns[:2], EVENTS)
    stream = longer_stream(patterns[2], EVENTS, found)
    names = ["A", "A", "B", "pair", "pair", "C", "two", "two", "B", "pair", "pair", "two", "two", None]
    # An event whose type is called like a statement has no type that a variable can name; pairs end with it, too.
    assert stream.column(EVENT_TYPE).to_pylist()[:9] == names[:9]
    assert stream.column(EVENT_TYPE).to_pylist().count(None) == 1
    assert stream.column("seq").to_pylist() == list(range(stream.num_rows))
    assert stream.column(WRITTEN_SEQ).to_pylist()[:9] == [10, 20, 30, 30, 30, 40, 40, 40, 50]
    assert (np.diff(stream.column("timestamp").cast(pa.int64()).to_numpy()) >= 0).all()
    assert stream.column(COMPOSED_MATCH).null_count == len(ROWS)


@pytest.mark.parametrize(
    ("text", "seqs"),
    [
        ("SEQ(pair p, C c) WITHIN 9 seconds", [40]),
        ("SEQ(pair p, ~A a, C c) WITHIN 9 seconds", [10, 20, 40]),
        ("SEQ(pair p, (B|C)+ c[]) WHERE skip_till_next_match { TRUE } WITHIN 9 seconds", [30, 40, 50]),
        ("SEQ(pair p, Ev e) WITHIN 9 seconds", SEQS),
        ("SEQ(pair p, C c) WITHIN 9 EVENTS", SEQS),
        ("SEQ(pair p, C c) WHERE strict_contiguity { TRUE } WITHIN 9 seconds", SEQS),
        ("SEQ(pair p, C c) WHERE partition_contiguity { TRUE } WITHIN 9 seconds PARTITION BY id", SEQS),
    ],
)
def test_events_of_types_that_a_composing_pattern_does_not_name_are_not_read(text: str, seqs: list[int]) -> None:
    pattern = parse(f"{PAIR} PATTERN {text}")[-1]
    assert events_read(pattern, EVENTS).column("seq").to_pylist() == seqs
    encoded = EVENTS.set_column(EVENTS.column_names.index("kind"), "kind", EVENTS.column("kind").dictionary_encode())
    pieces = pa.concat_tables([encoded.slice(0, 2), encoded.slice(2)])
    assert events_read(pattern, pieces).column("seq").to_pylist() == seqs
    turned = EVENTS.set_column(EVENTS.column_names.index("seq"), "seq", pa.array(SEQS[::-1]))
    assert len(events_read(pattern, turned)) == len(EVENTS), "composed matches are found by seqs that ascend"


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data(), events=rows(max_size=14, types=("A", "B", "C", "pair")))
def test_matches_are_those_over_the_stream_of_all_events(data: st.DataObject, events: list[Row]) -> None:
    structure = data.draw(
        st.sampled_from(
            [
                "SEQ(pair p, C c)",
                "AND(B b, pair p)",
                "SEQ(pair p, pair q)",
                "SEQ(pair p, ~A n, C c)",
                "SEQ(A a, pair+ p[])",
                "OR(SEQ(pair p, C c), SEQ(pair q, B b, A a))",
            ]
        )
    )
    strategy = data.draw(st.sampled_from(["", "WHERE skip_till_next_match { TRUE }", "WHERE [id]"]))
    window = data.draw(st.sampled_from(["WITHIN 3 seconds", "WITHIN 1 us", "WITHIN 4 EVENTS"]))
    rest = data.draw(
        st.sampled_from(["", "TIES ANY", "TIES STRICT", "PARTITION BY id", "OUTPUT NON_OVERLAP", "CONSUME MATCHED"])
    )
    assume("next" not in strategy or ("TIES" not in rest and structure.startswith("SEQ")))
    pattern = parse(f"{PAIR} NAME whole PATTERN {structure} {strategy} {window} {rest}")[-1]
    table = events_table(events)
    found = cep.detect([pattern], table)["whole"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("cep_pipeline.detection.detect.events_read", lambda _, every: every)
        assert cep.detect([pattern], table)["whole"].equals(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SEQ(B b, pair p) WITHIN 1 us", [[("b", 30), ("p", 30)]] * 2 + [[("b", 50), ("p", 50)]] * 2),
        ("SEQ(B b, pair p) WITHIN 1 us TIES STRICT", []),
        ("SEQ(pair p, B b) WITHIN 1 us", []),
        ("SEQ(pair p, B b) WITHIN 1 us TIES ANY", [[("p", 30), ("b", 30)]] * 2 + [[("p", 50), ("b", 50)]] * 2),
        ("SEQ(pair p, pair q) WITHIN 1 us", [[("p", 30), ("q", 30)], [("p", 50), ("q", 50)]]),
        ("SEQ(A a, ~pair p, C c) WITHIN 9 seconds", []),
        ("SEQ(C c, ~pair p, Ev e) WITHIN 9 seconds", [[("c", 40), ("e", 50)]]),
        ("pair+ p[] WHERE p[i].x > p[i-1].x WITHIN 1 us",
         [[("p", 30)], [("p", 30)] * 2, [("p", 30)], [("p", 50)], [("p", 50)] * 2, [("p", 50)]]),
        ("SEQ(pair p, C c) WITHIN 9 seconds CONSUME MATCHED", [[("p", 30), ("c", 40)]]),
        ("SEQ(pair p, Ev e) WITHIN 9 seconds OUTPUT NON_OVERLAP", [[("p", 30), ("e", 40)], [("p", 50), ("e", 60)]]),
        # Composed events have the position of the event that they stand behind.
        ("SEQ(A a, pair p, C c) WITHIN 2 EVENTS", []),
        ("SEQ(A a, pair p, C c) WITHIN 3 EVENTS", [[("a", 20), ("p", 30), ("c", 40)]] * 2),
        ("SEQ(pair p, C c) WITHIN 2 EVENTS", [[("p", 30), ("c", 40)]] * 2),
        ("SEQ(pair p, B b) WITHIN 3 EVENTS PARTITION BY id", [[("p", 30), ("b", 50)]]),
        ("SEQ(pair p, B b) WITHIN 2 EVENTS PARTITION BY id", []),
        ("SEQ(A a, ~C c, pair p) WITHIN 2 EVENTS PARTITION BY id",
         [[("a", 10), ("p", 30)], [("a", 20), ("p", 30)], [("a", 10), ("p", 50)]]),
        # They are in the way of others, in their partition, but only where a statement names them.
        ("SEQ(B b, C c) WHERE strict_contiguity { TRUE } WITHIN 9 seconds", [[("b", 30), ("c", 40)]]),
        ("OR(SEQ(B b, C c), SEQ(pair p, D d)) WHERE strict_contiguity { TRUE } WITHIN 9 seconds", []),
        ("SEQ(pair p, C c) WHERE strict_contiguity { TRUE } WITHIN 9 seconds", [[("p", 30), ("c", 40)]]),
        ("SEQ(A a, pair p) WHERE partition_contiguity { [id] } WITHIN 9 seconds", [[("a", 20), ("p", 30)]]),
    ],
)  # fmt: skip
def test_rules_of_a_match_that_binds_matches(text: str, expected: list[list[tuple[str, int]]]) -> None:
    patterns = parse(f"{PAIR} NAME last PATTERN {text}")
    runs = [plain_pattern(patterns[1])]
    for mechanism in [name for name in MECHANISMS if MECHANISMS[name].unsupported_feature(runs[0]) is None]:
        found = cep.detect(patterns[1], EVENTS, mechanism=mechanism)["last"]
        assert bound(found) == expected, mechanism


def test_attributes_of_one_name_and_other_types() -> None:
    """An int64 beside a float64 is a float64 for a variable of both; those that must agree are compared exactly."""
    text = (
        "NAME q PATTERN SEQ(A a, B b) WITHIN 9 seconds RETURN b.y AS x, a.x AS y, a.s AS id, a.x AS n;"
        "NAME own PATTERN q v WITHIN 9 seconds RETURN v.x AS x, v.y AS y, v.match_id, v.start_ts, v.end_ts;"
        "NAME both PATTERN (q | C) v WITHIN 9 seconds RETURN v.x AS x;"
        "NAME same PATTERN SEQ(q v, Ev e) WHERE [x] WITHIN 9 seconds"
    )
    patterns = parse(text)
    rows = [{**row, "seq": seq, "y": 4.0 if seq == 50 else row["y"]} for seq, row in zip(SEQS, ROWS, strict=True)]
    found = cep.detect(patterns, events_table([*rows, {"timestamp": 6_000_000, "seq": 70, "kind": "D", "x": 4}]))
    assert found["own"].schema.field("x").type == pa.float64()
    assert found["own"].column("x").to_pylist() == [2.5, 2.5, 4.0, 4.0]
    assert found["own"].column("y").to_pylist() == [1, 2, 1, 2]
    assert found["own"].column("v.match_id").to_pylist() == list(map(str, found["q"].column("match_id").to_pylist()))
    assert found["own"].column("v.start_ts").to_pylist() == [0, 1_000_000, 0, 1_000_000]
    assert found["both"].column("x").to_pylist() == [2.5, 2.5, 4.0, 4.0, 4.0]
    assert bound(found["same"]) == [[("v", 50), ("e", 70)]] * 2


def test_composed_matches_may_be_composed() -> None:
    two = "NAME two PATTERN SEQ(pair p, C c) WITHIN 9 seconds RETURN p.x AS x"
    patterns = parse(f"{PAIR} {two}; PATTERN SEQ(two t, pair p) WITHIN 9 seconds")
    found = cep.detect(patterns, EVENTS)
    last = found["pattern_3"]
    assert bound(last) == [[("t", 40), ("p", 50)]] * 4
    assert composed(last, found["two"], found["pair"]) == [
        [("t", 0), ("p", 4)],
        [("t", 1), ("p", 4)],
        [("t", 0), ("p", 5)],
        [("t", 1), ("p", 5)],
    ]
    alone = cep.detect(patterns[2], EVENTS)
    assert list(alone) == ["pattern_3"]
    assert alone["pattern_3"].equals(last)
    names, batches = zip(*cep.detect_batches(patterns, EVENTS), strict=True)
    assert list(dict.fromkeys(names)) == ["pair", "two", "pattern_3"]
    assert pa.Table.from_batches(batches[-1:]).to_pylist() == last.to_pylist()
    events = found.events("pattern_3").slice(0, 5)
    assert events.column("variable").to_pylist() == ["t.p.a", "t.p.b", "t.c", "p.a", "p.b"]
    assert events.column("seq").to_pylist() == [10, 30, 40, 10, 50]
    assert alone.events().equals(found.events("pattern_3"))
    assert found.chart("pattern_3", attribute="x").svg.count("<title>") >= 4
    frame = found.to_pandas()
    assert frame["composed"].dropna().iloc[0][0]["match_id"] == str(found["pair"]["match_id"][0].as_py())


def test_events_and_matches_of_one_list_are_told_apart() -> None:
    patterns = parse(f"{PAIR} NAME last PATTERN (pair | B)+ v[] WITHIN 1 us")
    found = cep.detect(patterns, EVENTS)
    longest = max(range(found["last"].num_rows), key=lambda row: len(bound(found["last"])[row]))
    inside = opened(found["last"].slice(longest, 1), [found["pair"]])
    assert bound(inside) == [[("v", 30), ("v.a", 10), ("v.b", 30), ("v.a", 20), ("v.b", 30)]]


def test_a_mechanism_is_asked_for_the_patterns_that_are_given() -> None:
    """What they compose beside may be such that only another mechanism runs it."""
    both = "NAME both PATTERN AND(A a, C c) WITHIN 9 seconds"
    patterns = parse(f"{both}; NAME last PATTERN SEQ(both b, Ev e) WITHIN 9 seconds")
    with pytest.raises(UnsupportedPattern, match="'both'"):
        cep.detect(patterns, EVENTS, mechanism="nfab")
    alone, metrics = cep.detect(patterns[1], EVENTS, mechanism="nfab", metrics=True)
    assert alone["last"].equals(cep.detect(patterns, EVENTS)["last"])
    assert metrics.mechanisms == {"both": "fused", "last": "nfab"}


def test_only_kept_matches_are_composed() -> None:
    patterns = parse(
        "NAME pair PATTERN SEQ(A a, B b) WITHIN 9 seconds OUTPUT NON_OVERLAP CONSUME MATCHED;"
        "NAME last PATTERN SEQ(pair p, Ev e) WITHIN 1 second"
    )
    assert bound(cep.detect(patterns, EVENTS)["last"]) == [[("p", 30), ("e", 40)]]


def test_no_matches_to_compose_and_no_events() -> None:
    patterns = parse(f"{PAIR} NAME last PATTERN SEQ(pair p, Ev e) WITHIN 1 second RETURN p.y")
    for events in (EVENTS.slice(0, 2), EVENTS.slice(0, 0)):
        found = cep.detect(patterns, events)["last"]
        assert found.num_rows == 0
        assert found.column_names[5:] == ["composed", "p.y"]


def test_types_listed_by_the_schema_are_those_of_the_stream() -> None:
    listed = cep.StreamSchema.from_dict(
        {"type_attribute": "kind", "attributes": {"kind": "string"}, "types": ["A", "B"]}
    )
    free = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}})
    text = "NAME A PATTERN B b WITHIN 1 second; NAME last PATTERN A a WITHIN 1 second"
    rows = [{"timestamp": 0, "seq": 1, "kind": "A"}, {"timestamp": 1, "seq": 2, "kind": "B"}]
    for schema, expected in ((listed, [[("a", 1)]]), (free, [[("a", 2)]])):
        assert bound(cep.detect(cep.parse_patterns(text, schema), schema.table(rows))["last"]) == expected


def test_forms_of_output_and_limits() -> None:
    patterns = parse(f"{PAIR} NAME last PATTERN SEQ(pair p, Ev e) WITHIN 1 second")
    counted = cep.detect(patterns[1:], EVENTS, output="count")["last"].column("count").to_pylist()
    assert counted == [str(cep.detect(patterns, EVENTS)["last"].num_rows)]
    of_two = parse(f"{PAIR} NAME two PATTERN pair p WITHIN 1 second; NAME last PATTERN two t WITHIN 1 second")
    assert cep.detect(of_two[2], EVENTS, output="count")["last"].column("count").to_pylist() == ["4"]
    for output, asked in (("count", patterns), ("compressed", patterns[1:])):
        with pytest.raises(UnsupportedPattern, match="with composition"):
            cep.detect(asked, EVENTS, output=output)
    with pytest.raises(cep.TooManyMatches, match="'last'"):
        cep.detect(patterns[1], EVENTS, limit=3)
    assert cep.detect(of_two[2], EVENTS.slice(0, 4), limit=2)["last"].num_rows == 2
    few = parse(f"{PAIR} NAME last PATTERN SEQ(pair p, C c) WITHIN 1 second")
    assert cep.detect(few[1], EVENTS, limit=2)["last"].num_rows == 2  # of four pairs, which nobody asked for
    assert "p 30, c 40" in cep.detect(few[1], EVENTS)._repr_html_()
    assert "p is of type pair" in str(cep.why(patterns[1], EVENTS, {"p": 30, "e": 40}))


@pytest.mark.parametrize("planner", ["dp_left_deep", "zstream", "simulated_annealing"])
def test_plans_know_the_rates_of_composed_types(planner: str) -> None:
    patterns = parse(f"{PAIR} NAME last PATTERN SEQ(pair p, Ev e) WHERE p.x < e.x AND p.seq > 0 WITHIN 9 seconds")
    snapshot = cep.estimate_statistics(patterns, EVENTS)
    counts = {rate.leaf: rate.count for rate in snapshot.rates}
    found = cep.detect(patterns, EVENTS)
    assert counts["A"] == 2
    assert sum(count or 0 for leaf, count in counts.items() if leaf.startswith("pair where")) == found["pair"].num_rows
    plan = cep.plan(patterns, snapshot, planner, **({"steps": 10} if planner == "simulated_annealing" else {}))
    mechanism = None if planner == "dp_left_deep" else "evaluation_tree"
    planned = cep.detect(patterns, EVENTS, plan=plan, mechanism=mechanism)
    assert planned["last"].equals(found["last"])
    assert cep.detect(patterns[1], EVENTS, plan=plan, mechanism=mechanism)["last"].equals(found["last"])


def test_positions_in_a_longer_stream() -> None:
    """Positions and what lies so many of them away, against a count event by event."""
    random = np.random.default_rng(5)
    for _ in range(20):
        count = int(random.integers(1, 14))
        inside = random.random(count) < 0.5
        keys = random.integers(0, 3, count)
        ids = pa.array([b"0" * 16 if one else None for one in inside], pa.binary(16))
        columns = {"timestamp": pa.array(range(count)), "seq": pa.array(range(count)), "kind": pa.array(["A"] * count)}
        events = PreparedEvents(
            pa.table({**columns, "k": pa.array(keys), COMPOSED_MATCH: ids}), type_attribute="kind", base_type="Ev"
        )
        assert events.leaf_rows("Ev").tolist() == np.flatnonzero(~inside).tolist()
        for by in ((), ("k",)):
            partitions = partitions_of(events, by)
            group = keys if by else np.zeros(count, int)
            position = [
                sum(1 for e in range(r + 1) if group[e] == group[r] and not inside[e]) - 1 for r in range(count)
            ]
            assert partitions.positions.tolist() == position
            for distance in (0, 1, 3):
                for row in range(count):
                    near = [e for e in range(count) if group[e] == group[row]]
                    back = [e for e in near if position[e] >= position[row] - distance]
                    last = [e for e in near if position[e] <= position[row] + distance]
                    come = [e for e in near if position[e] == position[row] + distance]
                    rows = np.array([row])
                    assert partitions.rows_back(rows, distance).tolist() == back[:1]
                    assert partitions.last_rows(rows, distance).tolist() == last[-1:]
                    assert partitions.rows_ahead(rows, distance).tolist() == (come[-1:] or [count])
        for row in range(count + 1) if inside.any() else ():
            before = sum(1 for e in range(row) if not inside[e])
            reached = [e for e in range(count) if sum(1 for o in range(e + 1) if not inside[o]) >= before - 2]
            assert events.row_back(row, 2) == (reached or [count])[0]


def test_an_id_of_many_is_that_of_one() -> None:
    identity = MatchIdentity(bytes(range(32)), ("a", "b"))
    ids = [UUID(int=7 << 100), UUID(int=2**127 + 5)]
    cases = [
        ([("a", 7), ("b", -9)], [("b", ids[0])]),
        ([("a", 1)], []),
        ([("a", 2), ("a", 2), ("b", 3)], [("a", ids[0]), ("a", ids[1]), ("b", ids[0])]),
    ]
    inside = [[None, ids[0].bytes], [None], [ids[0].bytes, ids[1].bytes, ids[0].bytes]]
    offsets = np.cumsum([0, *(len(one) for one, _ in cases)])
    pairs = [pair for one, _ in cases for pair in one]
    words = identity.ids_of(
        offsets,
        pa.array([variable for variable, _ in pairs]),
        np.array([seq for _, seq in pairs]),
        pa.array([one for row in inside for one in row], pa.binary(16)),
    )
    assert [UUID(bytes=row.tobytes()) for row in words] == [identity.id_of(*case) for case in cases]


@pytest.mark.parametrize(("limit", "name"), [(1, "pair"), (4, "both")])
def test_too_many_matches_are_told_without_forms_that_composition_refuses(limit: int, name: str) -> None:
    patterns = parse(PAIR + "NAME both PATTERN AND(pair a, pair b) WITHIN 9 seconds")
    with pytest.raises(cep.TooManyMatches, match=f"'{name}' has .*; give OUTPUT NON_OVERLAP, a smaller window") as told:
        cep.detect(patterns, EVENTS, limit=limit)
    assert "compressed" not in str(told.value)
