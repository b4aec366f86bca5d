"""Negated composites and lists, on every mechanism: the answers of the oracle, and how the search for events works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS, negated_structures
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.planned import own_order_plan
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import Finality, finality_of, look_back
from cep_pipeline.statistics.terms import terms_of
from tests.detection.fused.running import boundaries_of, prepare
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

STRUCTURES = {
    "SEQ(A a, ~SEQ(B b, C c), A d)": "singles",
    "SEQ(~SEQ(B b, C c), A a, A d)": "singles",
    "SEQ(A a, A d, ~SEQ(B b, C c))": "singles",
    "AND(A a, A d, ~AND(B b, C c))": "singles",
    "SEQ(A a, ~AND(B b, C c), A d)": "singles",
    "SEQ(A a, ~OR(B b, C c), A d)": "singles",
    "SEQ(A a, ~SEQ(Ev b, Ev c), A d)": "singles",
    "SEQ(A a, AND(A d, ~SEQ(Ev b, C c)))": "singles",
    "SEQ(A a, ~SEQ(B b, C c), ~C e, A d)": "singles",
    "SEQ(A a, ~SEQ(B b, AND(B e, C c)), A d)": "singles",
    "OR(SEQ(A a, ~SEQ(B b, C c), A d), SEQ(A a2, B b2))": "singles",
    "SEQ(A a, OR(~B e, ~SEQ(B b, C c)), A d)": "singles",
    "SEQ(A a, ~B+ b[], A d)": "lists",
    "SEQ(A a, ~B{2} b[], A d)": "lists",
    "SEQ(~Ev{1,2} b[], A a, A d)": "lists",
    "SEQ(A a, ~SEQ(B+ b[], C c), A d)": "lists",
    "AND(A a, A d, ~AND(C c, B{2,} b[]))": "lists",
    "SEQ(A+ a[], ~SEQ(B b, C c), A d)": "positive lists",
}
CONDITIONS = {
    "singles": (
        *("b.x < c.x", "c.x > a.x", "b.x = a.x", "b.id = a.id AND c.id = d.id", "b.x + c.x > d.x", "b.x > 3"),
        *("[id]", "b.x > 6 OR c.x > a.x", "c.s = b.s", "a.x < d.x", "a.y != b.y AND c.x >= b.x"),
    ),
    "lists": (
        *("b[i].x > b[i-1].x", "sum(b[].x) > 5", "b.LEN < 2", "sum(b[].y) > a.y", "max(b[].x) < d.x", "b[].x > a.x"),
        *("b[1].x = a.x", "b[b.LEN].x > b[1].x", "avg(b[].x) < 4", "[id]", "b[].id = a.id", "count(b[].x) > 1"),
    ),
    "positive lists": ("sum(a[].x) > b.x", "a[].x < c.x", "b.x > a[1].x", "c.y > a[a.LEN].y", "a[i].x > b.x"),
}


@st.composite
def negating(draw: st.DrawFn) -> str:
    """A statement with a negated composite or list."""
    structure = draw(st.sampled_from(sorted(STRUCTURES)))
    chosen = draw(st.lists(st.sampled_from(CONDITIONS[STRUCTURES[structure]]), max_size=2, unique=True))
    where = " AND ".join(f"({text})" if " OR " in text else text for text in chosen)
    window = draw(st.sampled_from(("3 seconds", "6 seconds", "12 seconds", "5 EVENTS")))
    partition = draw(st.sampled_from(("", "", " PARTITION BY id")))
    ties = draw(st.sampled_from(("ARRIVAL", "STRICT", "ANY")))
    return f"PATTERN {structure}{' WHERE ' * bool(where)}{where} WITHIN {window}{partition} TIES {ties}"


def pattern_of(text: str) -> Pattern:
    [pattern] = cep.parse_patterns(text, stream_schema())
    return pattern


def bindings(found: Any) -> list[tuple[tuple[str, int], ...]]:
    return [tuple((one["variable"], one["seq"]) for one in row) for row in found["bindings"].to_pylist()]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(120), deadline=None)
@given(
    text=negating(),
    stream_rows=rows(max_size=10, types=("A", "A", "B", "B", "C")),
)
def test_answers_of_the_oracle(mechanism: str, text: str, stream_rows: list[Row]) -> None:
    pattern, table = pattern_of(text), events_table(stream_rows)
    expected = [match.bindings for match in evaluate([pattern], table)]
    try:
        found = cep.detect([pattern], table, mechanism=mechanism)[pattern.name]
    except UnsupportedPattern:
        return
    assert bindings(found) == expected
    counted = cep.detect([pattern], table, mechanism=mechanism, output="count")[pattern.name]
    assert counted["count"].to_pylist() == [str(len(expected))]
    compressed = cep.detect([pattern], table, mechanism=mechanism, output="compressed")
    assert sum(batch.num_rows for batch in cep.expand(compressed[pattern.name])) == len(expected)


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(negating(), min_size=2, max_size=4),
    streams=st.lists(rows(max_size=10, types=("A", "A", "B", "B", "C")), min_size=2, max_size=3),
)
def test_patterns_of_one_call_give_the_answers_of_the_oracle(texts: list[str], streams: list[list[Row]]) -> None:
    patterns = [replace(pattern_of(text), name=f"p{number}") for number, text in enumerate(texts)]
    plan = own_order_plan(patterns)
    for stream_rows in (*streams, streams[0]):
        table = events_table(stream_rows)
        expected = {one.name: [match.bindings for match in evaluate([one], table)] for one in patterns}
        for _ in range(2):
            matches = cep.detect(patterns, pa.table(table), plan, "fused")
            assert {name: bindings(found) for name, found in matches.items()} == expected
        counted = cep.detect(patterns, pa.table(table), plan, "fused", output="count")
        assert {name: int(own["count"][0].as_py()) for name, own in counted.items()} == {
            name: len(own) for name, own in expected.items()
        }
        points = [None, *boundaries_of(prepare(patterns[0], table))[:: max(table.num_rows // 3, 1)], None]
        owned = dict.fromkeys(expected, 0)
        for between in pairwise(points):
            for name, number in detect_slice(patterns, plan, table, between, lambda *_: None).matches.items():
                owned[name] += number
        assert owned == {name: len(own) for name, own in expected.items()}


def test_slices_that_begin_within_an_instant_own_every_match_once() -> None:
    """Whatever the first of them has told of the run: it begins within the first instant."""
    text = "PATTERN SEQ(A a, ~SEQ(B b, C c), A d) WITHIN 3 seconds TIES ANY"
    table = events_table([{"timestamp": 1_000_000 * at, "kind": "A"} for at in (1, 1, 2, 2, 3)])
    pattern = pattern_of(text)
    points = [*boundaries_of(prepare(pattern, table))[1:], None]
    owned = [
        detect_slice([pattern], own_order_plan([pattern]), table, between, lambda *_: None).matches[pattern.name]
        for between in [*pairwise(points), (None, points[0])]
    ]
    assert sum(owned) == len(evaluate([pattern], table)) == 12
    assert owned[0] == 2  # both pairs of the first instant are final behind all of its events


def stream_of(kinds: str, values: Sequence[int] | None = None) -> Any:
    """Events a second apart, whose types are the letters."""
    numbers = range(len(kinds)) if values is None else values
    made = [
        {"timestamp": second * 1_000_000, "seq": second, "kind": kind, "id": 1, "x": int(x)}
        for second, (kind, x) in enumerate(zip(kinds, numbers, strict=True))
    ]
    return stream_schema().table(made)


def found_in(text: str, table: Any, **options: Any) -> list[tuple[int, ...]]:
    """The seqs of the matches of a statement."""
    pattern = pattern_of(text)
    return [tuple(seq for _, seq in match) for match in bindings(cep.detect([pattern], table, **options)[pattern.name])]


MANY = 600


@pytest.fixture(scope="module")
def many() -> tuple[Any, np.ndarray, np.ndarray]:
    """A long stream, with its types and values."""
    draw = np.random.default_rng(7)
    kinds, values = draw.choice(list("ABCD"), MANY), draw.integers(0, 1000, MANY)
    return stream_of("".join(kinds), values), kinds, values


def test_many_matches_ask_what_begins_a_binding_once(many: tuple[Any, np.ndarray, np.ndarray]) -> None:
    """With no condition on the events of a match, the ends of all bindings are known before most matches ask."""
    table, kinds, values = many
    found = found_in("PATTERN SEQ(A a, ~SEQ(B b, C c), D d) WHERE b.x > c.x + 700 WITHIN 60 seconds", table)
    ends = np.full(MANY + 1, MANY)
    for row in range(MANY - 1, -1, -1):
        own = MANY
        if kinds[row] == "B":
            behind = np.flatnonzero((kinds[row:] == "C") & (values[row] > values[row:] + 700))
            own = row + behind[0] if len(behind) else MANY
        ends[row] = min(own, ends[row + 1])
    expected = [(a, d) for a, d in pairs(kinds) if ends[a] > d]
    assert sorted(found) == sorted(expected)
    assert 0 < len(found) < len(pairs(kinds))


def test_matches_that_begin_alike_are_searched_together(many: tuple[Any, np.ndarray, np.ndarray]) -> None:
    """A condition on the first event of a match: the matches of each first event share a search."""
    table, kinds, values = many
    found = found_in(
        "PATTERN SEQ(A a, ~SEQ(B b, C c), D d) WHERE b.x > a.x + 500 AND c.x < b.x WITHIN 60 seconds", table
    )

    def rejected(a: int, d: int) -> bool:
        for b in range(a + 1, d):
            if kinds[b] == "B" and values[b] > values[a] + 500:
                between = slice(b + 1, d)
                if bool(((kinds[between] == "C") & (values[between] < values[b])).any()):
                    return True
        return False

    expected = [(a, d) for a, d in pairs(kinds) if not rejected(a, d)]
    assert sorted(found) == sorted(expected)
    assert 0 < len(found) < len(pairs(kinds))


def pairs(kinds: np.ndarray) -> list[tuple[int, int]]:
    return [
        (a, d)
        for a in np.flatnonzero(kinds == "A").tolist()
        for d in range(a + 1, min(a + 61, MANY))
        if kinds[d] == "D"
    ]


def test_a_search_goes_on_where_it_was_interrupted(
    many: tuple[Any, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = (
        "PATTERN SEQ(A a, ~SEQ(B b, C c), D d) WHERE b.x > a.x + 500 AND c.x < b.x WITHIN 20 seconds",
        "PATTERN SEQ(A a, ~SEQ(B{2,3} b[], C c), D d) WHERE b[i].x > b[i-1].x AND sum(b[].x) > d.x WITHIN 20 seconds",
    )
    whole = [found_in(text, many[0]) for text in texts]
    monkeypatch.setattr(negated_structures, "EVENTS_A_CALL", 1)
    monkeypatch.setattr(negated_structures, "FIRST_STACK", 4)
    monkeypatch.setattr(negated_structures, "FIRST_CELLS", 2)
    assert [found_in(text, many[0]) for text in texts] == whole
    assert all(whole)


@pytest.mark.parametrize("there", [299, 300])
def test_lists_of_many_events(there: int) -> None:
    """So many events are bound at a time that the stack and the ring of a search grow; one too few ends it at once."""
    table = stream_of(f"A{'B' * there}D")
    assert bool(found_in("PATTERN SEQ(A a, ~B{300} b[], D d) WITHIN 1 hour", table)) == (there < 300)


def test_patterns_of_a_shared_plan_keep_their_own_negations() -> None:
    texts = ["SEQ(A a, D d)", "SEQ(A a, ~SEQ(B b, C c), D d)", "SEQ(A a, ~AND(C c, B b), D d)"]
    written = "; ".join(f"NAME p{number} PATTERN {text} WITHIN 9 seconds" for number, text in enumerate(texts))
    patterns = cep.parse_patterns(written, stream_schema())
    for mechanism in ("multitree", "multi_pattern_nfa", "fused"):
        tables = cep.detect(patterns, stream_of("ACBDABCDAD"), mechanism=mechanism)
        seqs = [[tuple(seq for _, seq in match) for match in bindings(tables[one.name])] for one in patterns]
        every = [(0, 3), (0, 7), (4, 7), (0, 9), (4, 9), (8, 9)]
        assert seqs == [every, [(0, 3), (8, 9)], [(8, 9)]], mechanism


def test_finality_and_look_back() -> None:
    leading, trailing, between, neither = (
        pattern_of(f"PATTERN {text} WITHIN 10 seconds")
        for text in (
            "SEQ(~SEQ(B b, C c), A a)",
            "SEQ(A a, ~SEQ(B b, C c))",
            "SEQ(A a, ~B+ b[], D d)",
            "AND(A a, ~B+ b[])",
        )
    )
    of = [finality_of(pattern, pattern.clauses[0]) for pattern in (leading, trailing, between, neither)]
    assert of == [Finality.LAST_EVENT, Finality.WINDOW_END, Finality.LAST_EVENT, Finality.WINDOW_END]
    seconds = [look_back([pattern]).time_us // 1_000_000 for pattern in (leading, trailing, between, neither)]
    assert seconds == [10, 10, 10, 20]
    tied = pattern_of("PATTERN SEQ(A a, ~SEQ(B b, C c), D d) WITHIN 10 seconds TIES ANY")
    assert finality_of(tied, tied.clauses[0]) is Finality.LAST_INSTANT


def test_what_reads_the_types_of_a_pattern_knows_those_that_are_negated() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, ~SEQ(B b, A e), D d) WHERE b.x > 2 WITHIN 10 seconds")
    assert [leaf.event_type for leaf in terms_of([pattern])[0]] == ["A", "D", "B"]
    table = stream_of("ABAD")
    plan = cep.plan([pattern], cep.estimate_statistics([pattern], table))
    assert "~SEQ(B b, A e) (B where" in plan.explain()
    assert "is asked of each finished match" in plan.explain()


def test_why_names_the_events_that_reject() -> None:
    pattern = pattern_of(
        "PATTERN SEQ(A a, ~SEQ(B b, C{2} c[]), D d) WHERE b.x < c[].x AND sum(c[].x) > a.x WITHIN 10 seconds"
    )
    table = stream_of("ABCCDAD")
    told = cep.why(pattern, table, {"a": 0, "d": 4})
    [failed] = told.failed
    assert failed.rule == "negation"
    assert failed.text == "~SEQ(B b, C{2} c[]) with b.x < c[].x AND sum(c[].x) > a.x"
    assert "b = B x 1 at" in failed.seen and "c = C x 2 at" in failed.seen and ", C x 3 at" in failed.seen
    assert cep.why(pattern, table, {"a": 5, "d": 6}).is_match
    told = cep.why_not(pattern, table)
    assert (told.matches.matches, told.reached[-1].count.matches, told.reached[-2].count.matches) == (1, 1, 3)
    assert told.reached[-1].added.startswith("no SEQ(B b, C{2} c[]): ")
    assert (told.left_out[0].rule, told.left_out[0].without.matches) == ("negation", 3)
