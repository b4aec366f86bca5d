"""Metamorphic relations: how the answer must change when the stream or the pattern is changed in a known way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.patterns.pattern import Strategy
from cep_pipeline.patterns.structure import EventOperand, Structure
from tests.answers import comparable
from tests.contracts.mechanisms import ANY_MATCH, answer, bindings, drawn, parsed
from tests.pattern_strategies import FIRST_SLICE, TIME_WINDOWS, conditions
from tests.streams import SECOND, Row, events_table, rows
from tests.thoroughness import examples


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), stream_rows=rows(), shift_us=st.sampled_from([1, -7, 86_400 * SECOND, -1_700_000_000 * SECOND]))
def test_time_shift_shifts_the_matches(
    mechanism: str, data: st.DataObject, stream_rows: list[Row], shift_us: int
) -> None:
    pattern = parsed(drawn(data, mechanism, clock=False, returns=False))
    shifted = [{**row, "timestamp": row["timestamp"] + shift_us} for row in stream_rows]
    before = answer(mechanism, pattern, events_table(stream_rows))
    after = answer(mechanism, pattern, events_table(shifted))
    moved = [replace(match, start_ts=match.start_ts + shift_us, end_ts=match.end_ts + shift_us) for match in before]
    assert comparable(after) == comparable(moved)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_types_may_be_renamed(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    pattern = parsed(drawn(data, mechanism, returns=False))
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
    within_narrow = answer(mechanism, parsed(statement.within(TIME_WINDOWS[narrow])), table)
    pattern = parsed(statement.within(TIME_WINDOWS[wide]))
    window_us = parsed(statement.within(TIME_WINDOWS[narrow])).window.time_us or 0
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
        return bindings(answer(mechanism, parsed(statement.having(condition)), table))

    everything = bindings(answer(mechanism, parsed(statement), table))
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
    pattern = parsed(drawn(data, mechanism).partitioned_by("id"))
    assume(pattern.strategy is not Strategy.STRICT_CONTIGUITY)
    partitions: dict[object, list[Row]] = {}
    for place, row in enumerate(stream_rows):
        partitions.setdefault(("alone", place) if row["id"] is None else row["id"], []).append(row)
    apart = [answer(mechanism, pattern, events_table(of_one)) for of_one in partitions.values()]
    together = answer(mechanism, pattern, events_table(stream_rows))
    assert sorted(bindings(together)) == sorted(bindings(match for found in apart for match in found))
