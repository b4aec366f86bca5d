"""Metamorphic relations: how the answer must change when the stream or the pattern is changed in a known way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.patterns.structure import EventOperand, Structure
from tests.answers import comparable
from tests.contracts.mechanisms import ANY_MATCH, answer, answer_or_refusal, bindings, drawn
from tests.oracle import evaluate
from tests.pattern_strategies import FIRST_SLICE, TIME_WINDOWS, conditions
from tests.streams import SECOND, Row, events_table, rows, stream_schema
from tests.thoroughness import examples


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), stream_rows=rows(), shift_us=st.sampled_from([1, -7, 86_400 * SECOND, -1_700_000_000 * SECOND]))
def test_time_shift_shifts_the_matches(
    mechanism: str, data: st.DataObject, stream_rows: list[Row], shift_us: int
) -> None:
    pattern = drawn(data, mechanism, clock=False, returns=False).pattern
    shifted = [{**row, "timestamp": row["timestamp"] + shift_us} for row in stream_rows]
    before = answer(mechanism, pattern, events_table(stream_rows))
    after = answer(mechanism, pattern, events_table(shifted))
    moved = [replace(match, start_ts=match.start_ts + shift_us, end_ts=match.end_ts + shift_us) for match in before]
    assert comparable(after) == comparable(moved)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_types_may_be_renamed(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    pattern = drawn(data, mechanism, returns=False).pattern
    new_name = {"A": "Ω mega", "B": "A", "C": "B", "X.1": "Unseen"}
    renamed = [{**row, "kind": new_name.get(row["kind"], row["kind"])} for row in stream_rows]
    other = replace(pattern, structure=with_types(pattern.structure, new_name))
    before = answer(mechanism, pattern, events_table(stream_rows))
    assert comparable(answer(mechanism, other, events_table(renamed))) == comparable(before)


def with_types(structure: Structure, new_name: Mapping[str, str]) -> Structure:
    if isinstance(structure, EventOperand):
        return replace(structure, event_type=new_name.get(structure.event_type, structure.event_type))
    return replace(structure, operands=tuple(with_types(operand, new_name) for operand in structure.operands))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_smaller_window_gives_a_subset(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    statement = drawn(data, mechanism, negation=False, output=False, consume=False, count_windows=False)
    table = events_table(stream_rows)
    narrow, wide = sorted(data.draw(st.tuples(*[st.integers(0, len(TIME_WINDOWS) - 1)] * 2)))
    within_narrow = answer(mechanism, statement.within(TIME_WINDOWS[narrow]).pattern, table)
    pattern = statement.within(TIME_WINDOWS[wide]).pattern
    window_us = statement.within(TIME_WINDOWS[narrow]).pattern.window.time_us or 0
    within_wide = answer(mechanism, pattern, table)
    expected = [match for match in within_wide if match.end_ts - match.start_ts <= window_us]
    assert comparable(within_narrow) == comparable(expected)


@pytest.mark.parametrize("mechanism", ANY_MATCH)
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_condition_its_negation_and_unknown_part_the_matches(
    mechanism: str, data: st.DataObject, stream_rows: list[Row]
) -> None:
    """No match satisfies p and NOT p; those of either are those of `p OR NOT p`; the rest are unknown."""
    statement = drawn(data, mechanism, negation=False, kleene=False, nested=False, output=False, consume=False)
    table = events_table(stream_rows)
    p = data.draw(conditions(FIRST_SLICE, statement.operands))

    def matches_of(condition: str) -> list[tuple[tuple[str, int], ...]]:
        return bindings(answer(mechanism, statement.having(condition).pattern, table))

    everything = bindings(answer(mechanism, statement.pattern, table))
    holds, fails = matches_of(p), matches_of(f"NOT ({p})")
    known = matches_of(f"({p}) OR NOT ({p})")
    assert not set(holds) & set(fails)
    assert [match for match in everything if match in {*holds, *fails}] == known
    assert {*holds, *fails} <= set(everything)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_partitions_are_answered_apart(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    """The matches, and their number, are those of the sub-streams of one partition each; null is alone."""
    pattern = drawn(data, mechanism).partitioned_by("id").pattern
    assume(pattern.strategy is not Strategy.STRICT_CONTIGUITY)
    partitions: dict[object, list[Row]] = {}
    for place, row in enumerate(stream_rows):
        partitions.setdefault(("alone", place) if row["id"] is None else row["id"], []).append(row)
    apart = [answer(mechanism, pattern, events_table(of_one)) for of_one in partitions.values()]
    together = answer(mechanism, pattern, events_table(stream_rows))
    assert sorted(bindings(together)) == sorted(bindings(match for found in apart for match in found))


SPELLED = (
    # a structure, equalities that say what [id] says of all its events, and the strategies under which they do so
    ("SEQ(A a, B b)", "b.id = a.id", "all"),
    ("SEQ(A a, B b, C c)", "a.id = b.id AND b.id = c.id", "all"),
    ("SEQ(A a, B b, C c)", "a.id = c.id AND c.id = b.id", "any"),
    ("AND(A a, B b, C c)", "a.id = b.id AND a.id = c.id", "any"),
    ("SEQ(A a, ~B n, C c)", "a.id = c.id AND n.id = a.id", "all"),
    ("SEQ(~A n, B b, Ev e)", "n.id = b.id AND b.id = e.id AND e.id = n.id", "all"),
    ("SEQ(A a, ~SEQ(B m, C n), Ev e)", "a.id = e.id AND m.id = a.id AND n.id = m.id", "all"),
    ("SEQ(A a, ~B+ m[], Ev e)", "a.id = e.id AND m[].id = e.id", "all"),
    ("SEQ(A a, B+ l[], C c)", "l.id = a.id AND c.id = l[l.LEN].id", "all"),
    ("SEQ(B+ l[], C c)", "l[i].id = l[i-1].id AND c.id = l[1].id", "all"),
    ("SEQ(B+ l[], C c)", "l[].id = c.id", "any"),
    ("A+ l[]", "l[i].id = l[1].id", "all"),
    ("AND(A a, OR(B b, C c))", "a.id = b.id AND a.id = c.id", "any"),
    ("SEQ(A a, B? b, C c)", "a.id = c.id AND b.id = a.id", "any"),
)
"""Equalities of one attribute that are the same as the equivalence test."""


@st.composite
def spelled_statements(draw: st.DrawFn) -> tuple[str, str, str, str]:
    """A structure, its equalities, one more condition or none, and a strategy that the equalities allow."""
    structure, equalities, where = draw(st.sampled_from(SPELLED))
    variables = {word.strip("~?+[]()") for word in structure.replace(",", " ").split()}
    conditions = {"a.x <= 5": "a", "c.y > a.y": "ac", "l[i].x > l[i-1].x": "l", "e.x != a.x": "ae"}
    bound = [text for text, needed in conditions.items() if variables.issuperset(needed)]
    condition = draw(st.sampled_from(["", *bound]))
    strategies = ["skip_till_any_match", "skip_till_next_match", "strict_contiguity"]
    return structure, equalities, condition, draw(st.sampled_from(strategies if where == "all" else strategies[:1]))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(60), deadline=None)
@given(
    spelled_statements(),
    st.sampled_from(["4 seconds", "5 EVENTS", "6 EVENTS PARTITION BY s"]),
    st.sampled_from(["ALL", "NON_OVERLAP"]),
    rows(max_size=14),
)
def test_equalities_are_the_equivalence_test_that_they_spell_out(
    mechanism: str,
    spelled: tuple[str, str, str, str],
    window: str,
    output: str,
    stream_rows: list[Row],
) -> None:
    """A mechanism may refuse many of the statements; those that it runs have the same matches in both spellings."""
    structure, equalities, condition, strategy = spelled
    within, _, partition = window.partition(" PARTITION")
    clauses = f"WITHIN {within}{' PARTITION' * bool(partition)}{partition} OUTPUT {output}"

    def statement(agreeing: str) -> Pattern:
        tested = " AND ".join(filter(None, (agreeing, condition)))
        text = f"NAME spelled PATTERN {structure} WHERE {strategy} {{ {tested} }} {clauses}"
        [pattern] = parse_patterns(text, stream_schema())
        return pattern

    short, long = statement("[id]"), statement(equalities)
    assert long.clauses == short.clauses
    table = events_table(stream_rows)
    found = answer_or_refusal(mechanism, long, table)
    assume(found is not None)
    assert comparable(found) == comparable(evaluate([long], table)) == comparable(evaluate([short], table))
    for form in ("count", "compressed") if mechanism == "fused" and output == "ALL" else ():
        [other] = cep.detect([long], table, output=form).values()
        numbers = other["count"].to_pylist() if form == "count" else [cep.expand(other).read_all().num_rows]
        assert sum(map(int, numbers)) == len(found)


@pytest.mark.parametrize(
    ("structure", "equalities", "strategy"),
    [
        ("SEQ(A a, B b, C c)", "a.id = b.id", "skip_till_any_match"),
        ("SEQ(A a, ~B n, C c)", "a.id = c.id", "skip_till_any_match"),
        ("SEQ(A a, ~B n, C c)", "a.id = n.id", "skip_till_any_match"),
        ("SEQ(A a, ~SEQ(B m, C n), Ev e)", "a.id = e.id AND m.id = a.id", "skip_till_any_match"),
        ("SEQ(A a, B+ l[])", "a.id = l[1].id", "skip_till_any_match"),
        ("SEQ(A a, B+ l[])", "a.id = l[i].id AND l[i].id = l[i-1].id", "skip_till_any_match"),
        ("A+ l[]", "l.id = l[1].id", "skip_till_any_match"),
        ("OR(SEQ(A a, B b), SEQ(A c, B d))", "a.id = b.id", "skip_till_any_match"),
        ("SEQ(A a, B b, C c)", "a.id = c.id AND c.id = b.id", "skip_till_next_match"),
        ("SEQ(B+ l[], C c)", "l[].id = c.id", "skip_till_next_match"),
        ("SEQ(B+ l[], C c)", "l[].id = l[l.LEN].id AND l[1].id = c.id", "strict_contiguity"),
        ("AND(A a, B b)", "a.id = b.id", "skip_till_next_match"),
        ("SEQ(A a, B b)", "a.id = b.id", "partition_contiguity"),
        ("SEQ(A a, B b)", "a.timestamp = b.timestamp", "skip_till_any_match"),
        ("SEQ(A a, B b)", "a.id = b.x", "skip_till_any_match"),
    ],
)
def test_what_says_less_or_more_than_an_equivalence_test_stays_as_written(
    structure: str, equalities: str, strategy: str
) -> None:
    text = f"PATTERN {structure} WHERE {strategy} {{ {equalities} }} WITHIN 4 seconds"
    [pattern] = parse_patterns(text, stream_schema())
    assert pattern.clauses == pattern.written_clauses
    assert not any(clause.agree_on for clause in pattern.clauses)
