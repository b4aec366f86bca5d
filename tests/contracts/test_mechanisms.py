"""Contract of the evaluation mechanisms: each gives exactly the page's answer, or refuses the pattern by name.

`MUST_RUN` says which patterns a mechanism may not refuse, `DRAWN` which random statements it is tried on. A new
mechanism needs an entry in both, and passes everything here as it is.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.extent import look_back_us
from cep_pipeline.detection.finality import Finality, finality_of
from cep_pipeline.detection.matches import candidates_of
from cep_pipeline.detection.output_policy import KeptMatches, has_output_policy
from cep_pipeline.errors import PlanError, UnsupportedPattern
from cep_pipeline.patterns import Pattern
from cep_pipeline.patterns.pattern import EventOperand, Strategy, Structure
from cep_pipeline.planning import PLANNERS, Plan
from tests.answers import check_language_case, comparable, from_tables
from tests.conformance import CASES as CONFORMANCE
from tests.conformance import Case
from tests.language_cases import CASES, LanguageCase, stream
from tests.oracle import OracleMatch, evaluate
from tests.pattern_strategies import (
    FIRST_SLICE,
    TIME_WINDOWS,
    WHOLE_LANGUAGE,
    Features,
    Statement,
    conditions,
    statements,
)
from tests.streams import SECOND, Row, events_table, rows, stream_schema

ANSWERED = [case for case in CONFORMANCE if case.matches is not None]


def is_of_single_events(pattern: Pattern) -> bool:
    """Any structure without Kleene closure, under skip_till_any_match."""
    return not any(operand.kleene for operand in pattern.operands) and pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH


def binds_lists_in_time_windows(pattern: Pattern) -> bool:
    """Any structure under skip_till_any_match in a time window."""
    return pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH and pattern.window.time_us is not None


def is_run_of_single_events(pattern: Pattern) -> bool:
    """A chain or an AND of single events, or an OR of such, under a strategy of the page's section 4."""
    return (
        not any(operand.kleene for operand in pattern.operands) and pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH
    )


MUST_RUN: Mapping[str, Callable[[Pattern], bool]] = {
    "fused": lambda pattern: is_of_single_events(pattern) or binds_lists_in_time_windows(pattern),
    "nfab": is_run_of_single_events,
}
"""The patterns that a mechanism must run."""
DRAWN: Mapping[str, Sequence[Features]] = {
    "fused": (
        FIRST_SLICE,
        replace(FIRST_SLICE, nested=True, max_condition_variables=3),
        replace(FIRST_SLICE, nested=True, kleene=True, max_operands=3, max_condition_variables=3),
        replace(FIRST_SLICE, nested=True, kleene=True, max_operands=3, output=True, consume=True),
        replace(FIRST_SLICE, nested=True, negation=True, count_windows=True, max_operands=3, max_condition_variables=3),
        replace(FIRST_SLICE, nested=True, negation=True, kleene=True, max_operands=3, max_condition_variables=3),
    ),
    "nfab": (
        replace(WHOLE_LANGUAGE, strategies=WHOLE_LANGUAGE.strategies[1:], kleene=False, output=False, consume=False),
    ),
}
"""What random statements that a mechanism must run may use: one of these."""
ANY_MATCH = tuple(name for name in MECHANISMS if name != "nfab")
"""The mechanisms that are drawn statements under skip_till_any_match, where a condition only selects among matches."""


def drawn(data: st.DataObject, mechanism: str, **changes: bool) -> Statement:
    """A random statement that the mechanism must run, of features changed so."""
    features = data.draw(st.sampled_from(DRAWN[mechanism]))
    return data.draw(statements(replace(features, **changes)))


def parsed(statement: Statement) -> Pattern:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        [pattern] = cep.parse_patterns(statement.text, stream_schema(), params=statement.params)
    return pattern


def planned(pattern: Pattern, table: pa.Table, planner: str) -> Plan:
    """The planner's plan; under the strategies of section 4, which all other planners refuse, the trivial one."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        planner = "trivial"
    return cep.plan([pattern], cep.estimate_statistics([pattern], table), planner=planner)


def answer(mechanism: str, pattern: Pattern, table: pa.Table, plan: Plan | None = None) -> list[OracleMatch]:
    return from_tables([pattern], cep.detect([pattern], table, plan=plan, mechanism=mechanism))


def bindings(matches: Iterable[OracleMatch]) -> list[tuple[tuple[str, int], ...]]:
    return [match.bindings for match in matches]


def answer_or_refusal(mechanism: str, pattern: Pattern, table: pa.Table) -> list[OracleMatch] | None:
    """The matches, or None where the mechanism refuses the pattern as it may."""
    try:
        return answer(mechanism, pattern, table)
    except UnsupportedPattern as refusal:
        assert refusal.mechanism == mechanism
        assert refusal.feature
        assert not MUST_RUN[mechanism](pattern), f"{mechanism} must run this pattern: {refusal}"
        return None


def test_every_mechanism_states_what_it_must_run() -> None:
    assert MUST_RUN.keys() == DRAWN.keys() == MECHANISMS.keys()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hand_worked_case(mechanism: str, case: LanguageCase) -> None:
    [pattern] = cep.parse_patterns(case.text, stream_schema(), params=case.params)
    found = answer_or_refusal(mechanism, pattern, events_table(stream(case.events)))
    if found is not None:
        check_language_case(case, found)


@pytest.mark.filterwarnings("ignore:.*constrains no clause")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("case", ANSWERED, ids=str)
def test_conformance_case(mechanism: str, case: Case) -> None:
    """Statement by statement, by every planner, and the statements that it runs all at once."""
    run: list[Pattern] = []
    expected: list[OracleMatch] = []
    for statement, pattern in enumerate(case.patterns):
        of_statement = [
            OracleMatch(len(run), m.pattern, m.start_ts, m.end_ts, m.bindings, m.returns)
            for m in case.matches or ()
            if m.statement == statement
        ]
        found = answer_or_refusal(mechanism, pattern, case.events)
        if found is not None:
            for planner in PLANNERS:
                assert comparable(answer(mechanism, pattern, case.events, planned(pattern, case.events, planner))) == (
                    comparable(found)
                )
            assert comparable(replace(match, statement=len(run)) for match in found) == comparable(of_statement)
            run.append(pattern)
            expected.extend(of_statement)
    if len(run) > 1:
        tables = cep.detect(run, case.events, mechanism=mechanism)
        assert comparable(from_tables(run, tables)) == comparable(expected)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=150, deadline=None)
@given(statement=statements(WHOLE_LANGUAGE), stream_rows=rows())
def test_random_statement_is_answered_or_refused(mechanism: str, statement: Statement, stream_rows: list[Row]) -> None:
    pattern, table = parsed(statement), events_table(stream_rows)
    found = answer_or_refusal(mechanism, pattern, table)
    if found is not None:
        assert comparable(found) == comparable(evaluate([pattern], table))


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), stream_rows=rows(max_size=16))
def test_planner_does_not_change_the_answer(
    mechanism: str, planner: str, data: st.DataObject, stream_rows: list[Row]
) -> None:
    pattern, table = parsed(drawn(data, mechanism)), events_table(stream_rows)
    plan = planned(pattern, table, planner)
    assert comparable(answer(mechanism, pattern, table, plan)) == comparable(evaluate([pattern], table))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=80, deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_no_order_changes_the_answer(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    pattern, table = parsed(drawn(data, mechanism)), events_table(stream_rows)
    expected = comparable(evaluate([pattern], table))
    ids = match_ids(mechanism, pattern, table)
    assert len(set(ids)) == len(ids)
    trivial = planned(pattern, table, "trivial")
    for order in many_orders(trivial):
        if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH and orders_of(order) != orders_of(trivial):
            if stream_rows:  # without events nothing is run
                with pytest.raises(PlanError, match="in the pattern's order"):
                    answer(mechanism, pattern, table, order)
            continue
        assert comparable(answer(mechanism, pattern, table, order)) == expected
        assert match_ids(mechanism, pattern, table, order) == ids


def match_ids(mechanism: str, pattern: Pattern, table: pa.Table, plan: Plan | None = None) -> list[str]:
    [found] = cep.detect([pattern], table, plan=plan, mechanism=mechanism).values()
    return found.column("match_id").to_pylist()


def orders_of(plan: Plan) -> list[tuple[str, ...]]:
    return [clause.order for pattern in plan.patterns for clause in pattern.clauses]


def many_orders(plan: Plan) -> Iterable[Plan]:
    """The plan of one pattern with other orders of the first clause's steps: all of them, or some 24."""
    [pattern_plan] = plan.patterns
    first, *others = pattern_plan.clauses
    orders = list(permutations(first.steps))
    for steps in orders[:: max(1, len(orders) // 24)]:
        clauses = (replace(first, steps=steps, alternatives=(), comparisons=()), *others)
        yield replace(plan, patterns=(replace(pattern_plan, clauses=clauses),))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=80, deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_slices_between_every_two_events(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    """Each slice reads its look-back and its own events only, and the slices' answers follow each other in order.

    Those whose matches wait for events behind them follow in the order in which they are final.
    """
    pattern, table = parsed(drawn(data, mechanism)), events_table(stream_rows)
    assume(pattern.window.time_us is not None)
    plan = planned(pattern, table, "dp_left_deep")
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


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_count_output_counts_the_matches(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    pattern, table = parsed(drawn(data, mechanism, output=False, consume=False)), events_table(stream_rows)
    counted = cep.detect([pattern], table, mechanism=mechanism, output="count")[pattern.name]
    assert counted.to_pylist() == [{"pattern": pattern.name, "count": str(len(evaluate([pattern], table)))}]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=80, deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_form_of_the_table_does_not_matter(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    """Dictionaries, several chunks, a slice of a longer table and other columns between give the same answer."""
    pattern, table = parsed(drawn(data, mechanism)), events_table(stream_rows)
    expected = comparable(answer(mechanism, pattern, table))
    cut = data.draw(st.integers(0, table.num_rows))
    chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    assert comparable(answer(mechanism, pattern, chunked)) == expected
    encoded = pa.table({"unused": pa.nulls(table.num_rows)} | {name: table.column(name) for name in table.column_names})
    for name in ("s", "kind"):
        place = encoded.schema.get_field_index(name)
        codes = encoded.column(name).cast(pa.dictionary(pa.int32(), pa.string()))
        encoded = encoded.set_column(place, name, codes)
    assert comparable(answer(mechanism, pattern, encoded)) == expected
    rest = events_table(stream_rows[cut:])
    assert comparable(answer(mechanism, pattern, table.slice(cut))) == comparable(answer(mechanism, pattern, rest))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=80, deadline=None)
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
@settings(max_examples=80, deadline=None)
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
@settings(max_examples=80, deadline=None)
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
@settings(max_examples=100, deadline=None)
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
def test_tables_have_the_columns_of_the_page(mechanism: str) -> None:
    strategy = "skip_till_any_match" if mechanism in ANY_MATCH else "skip_till_next_match"
    patterns = cep.parse_patterns(
        f"NAME one PATTERN SEQ(A a, B b) WHERE {strategy} {{ 1 = 1 }} WITHIN 1 second "
        "RETURN a.x, b.y AS y, a.s, b.f, a.x / 2 AS half;"
        f"NAME none PATTERN A a WHERE {strategy} {{ a.x = 77 }} WITHIN 1 second",
        stream_schema(),
    )
    tables = cep.detect(patterns, events_table(stream("A 0 x=1 s=p; B 1 y=2 f=true")), mechanism=mechanism)
    assert [tables[name].num_rows for name in ("one", "none")] == [1, 0]
    fixed = {
        "pattern": pa.string(),
        "match_id": pa.string(),
        "start_ts": pa.timestamp("us", tz="UTC"),
        "end_ts": pa.timestamp("us", tz="UTC"),
        "bindings": pa.list_(pa.struct([("variable", pa.string()), ("seq", pa.int64())])),
    }
    returned = {"a.x": pa.int64(), "y": pa.float64(), "a.s": pa.string(), "b.f": pa.bool_(), "half": pa.float64()}
    assert columns_of(tables["one"]) == {**fixed, **returned}
    assert columns_of(tables["none"]) == fixed


def columns_of(table: pa.Table) -> dict[str, pa.DataType]:
    names: Sequence[str] = table.column_names
    return dict(zip(names, table.schema.types, strict=True))
