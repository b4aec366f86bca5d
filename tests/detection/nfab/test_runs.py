"""Runs of NFA^b: what a run takes and when it ends, conditions of the whole language, metrics and refusals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.kleene import growing
from cep_pipeline.detection.mechanisms import Metrics, choose_mechanisms
from cep_pipeline.detection.nfab import runs
from cep_pipeline.errors import PlanError, UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern
from tests.answers import comparable, from_tables
from tests.language_cases import stream
from tests.oracle import evaluate
from tests.pattern_strategies import WHOLE_LANGUAGE, Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

RUNS = replace(WHOLE_LANGUAGE, strategies=WHOLE_LANGUAGE.strategies[1:], kleene=False, output=False, consume=False)


def parsed(text: str) -> Pattern:
    [pattern] = cep.parse_patterns(text, stream_schema())
    return pattern


def bindings(table: pa.Table) -> list[str]:
    """Each match as its seqs."""
    return [" ".join(str(part["seq"]) for part in row) for row in table.column("bindings").to_pylist()]


def found(text: str, events: str) -> list[str]:
    """The matches, after a look that the oracle finds them too."""
    pattern, table = parsed(text), events_table(stream(events))
    tables = cep.detect([pattern], table, mechanism="nfab")
    assert comparable(from_tables([pattern], tables)) == comparable(evaluate([pattern], table))
    return bindings(tables[pattern.name])


def metrics_of(text: str, events: str) -> Metrics:
    return cep.detect([parsed(text)], events_table(stream(events)), mechanism="nfab", metrics=True)[1]


def next_match(structure: str, condition: str, rest: str = "WITHIN 9 seconds") -> str:
    return f"NAME p PATTERN {structure} WHERE skip_till_next_match {{ {condition} }} {rest}"


def test_a_run_takes_the_first_event_that_fits() -> None:
    text = next_match("SEQ(A a, B b, C c)", "a.x < b.x AND b.x < c.x")
    # Runs from 0 and 1 take the event 3, since the condition on b decides there; event 4 is late for both.
    assert found(text, "A 0 x=1; A 1 x=2; B 2 x=0; B 3 x=5; B 4 x=3; C 5 x=4; C 6 x=9") == ["0 3 6", "1 3 6"]


@pytest.mark.parametrize(
    "condition",
    [
        "(a.x % 3 + b.x % 3) % 2 = 0",
        "a.x + b.x IN (4, 6)",
        "a.x * b.x + 9007199254740992 > 9007199254740995",
        "a.s BETWEEN b.s AND c.s OR a.x + b.x > 5",
    ],
)
@pytest.mark.parametrize("structure", ["SEQ(A a, B b, C c)", "AND(A a, B b, C c)", "SEQ(Ev a, Ev b, Ev c)"])
def test_conditions_of_the_whole_language_decide_what_is_taken(structure: str, condition: str) -> None:
    events = "A 0 x=1 s=q; B 1 x=2 s=p; B 2 x=3 s=q; C 3 x=4 s=p; C 3 x=5 s=q; A 4 x=6 s=p; B 5 x=7 s=p; C 6 x=1 s=r"
    assert found(next_match(structure, condition), events)


def test_an_event_of_an_and_goes_to_the_first_variable_that_it_fits() -> None:
    assert found(next_match("AND(A a, A b)", "a.x > 1 AND a.x > b.x"), "A 0 x=3; A 1 x=5; A 2 x=2") == ["0 2", "1 2"]
    assert found(next_match("AND(A a, A b)", "a.x > b.x"), "A 0 x=3; A 1 x=5; A 2 x=2") == ["0 2", "1 2"]


def test_contiguity_ends_a_run_at_the_first_event_that_it_does_not_take() -> None:
    events = "A 0 id=1; A 1 id=2; B 2 id=1; B 3 id=2; A 4 id=1; C 5 id=2; B 6 id=1; B 7 id=1"
    strict = "NAME p PATTERN SEQ(A a, B b) WHERE strict_contiguity {{ {} }} WITHIN 9 seconds"
    assert found(strict.format("1 = 1"), events) == ["1 2"]
    assert found(strict.format("[id]"), events) == []
    assert found(strict.format("[id]"), "A 0 id=1; B 1 id=1; A 2; B 3; A 4 id=2; B 5") == ["0 1"]
    partition = "NAME p PATTERN SEQ(A a, B b) WHERE partition_contiguity { 1 = 1 } WITHIN 9 seconds PARTITION BY id"
    assert found(partition, events) == ["0 2", "1 3", "4 6"]


def test_peak_instances_are_the_runs_alive_at_a_time() -> None:
    text = next_match("SEQ(A a, B b)", "a.x < b.x", "WITHIN 3 seconds")
    counted = metrics_of(text, "A 0 x=1; A 1 x=9; A 2 x=1; B 3 x=5; A 9 x=1; B 10 x=2")
    # At 2 the runs from 0, 1 and 2 live; the event at 3 ends two of them with matches, the window ends the third.
    assert counted.mechanisms == {"p": "nfab"}
    assert counted.peak_instances == 3
    assert [(node.node, node.candidates, node.passes, node.created) for node in counted.nodes] == [
        (("a",), 4, 4, 4),
        (("a", "b"), 4, 3, 0),
    ]
    assert counted.condition_evaluations == 4


def test_an_and_of_many_variables_runs() -> None:
    names = "abcdefghijklmno"
    structure = f"AND({', '.join(f'A {name}' for name in names)})"
    condition = " AND ".join(f"{one}.x < {other}.x" for one, other in pairwise(names))
    events = "; ".join(f"A {place} x={place}" for place in range(16))
    text = next_match(structure, condition, "WITHIN 1 day")
    assert found(text, events) == [" ".join(map(str, range(start, start + 15))) for start in range(2)]


def test_strategies_stand_side_by_side_in_one_file() -> None:
    every = parsed("NAME every PATTERN SEQ(B b, A a) WITHIN 9 seconds")
    first = parsed(next_match("SEQ(A a, B b)", "a.x < b.x"))
    table = events_table(stream("A 0 x=1; B 1 x=2; B 2 x=3; A 3 x=0"))
    assert choose_mechanisms([every, first]) == {"every": "fused", "p": "nfab"}
    tables = cep.detect([first, every], table)
    assert list(tables) == ["p", "every"]
    assert bindings(tables["p"]) == ["0 1"]
    assert bindings(tables["every"]) == ["1 3", "2 3"]


def test_what_is_not_run_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedPattern, match="no chain") as unordered:
        choose_mechanisms([parsed("PATTERN AND(A a, B b) WITHIN 1 second")], "nfab")
    assert unordered.value.mechanism == "nfab"


def test_another_order_than_the_patterns_is_refused() -> None:
    pattern, table = parsed(next_match("SEQ(A a, B b)", "a.x < b.x")), events_table(stream("A 0 x=1; B 1 x=2"))
    plan = cep.plan([pattern], cep.estimate_statistics([pattern], table), planner="trivial")
    [of_pattern] = plan.patterns
    [clause] = of_pattern.clauses
    swapped = replace(clause, steps=clause.steps[::-1], order=(), alternatives=(), comparisons=())
    plan = replace(plan, patterns=(replace(of_pattern, clauses=(swapped,)),))
    with pytest.raises(PlanError, match="'trivial'"):
        cep.detect([pattern], table, plan=plan)


@settings(max_examples=examples(60), deadline=None)
@given(statements(RUNS), rows(), st.integers(1, 3))
def test_it_does_not_matter_how_many_runs_are_followed_at_once(
    statement: Statement, stream_rows: list[Row], at_once: int
) -> None:
    pattern, table = statement.pattern, events_table(stream_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "RUNS_AT_ONCE", at_once)
        patch.setattr(growing, "ELEMENTS_AT_ONCE", at_once)
        tables = cep.detect([pattern], table, mechanism="nfab")
    assert comparable(from_tables([pattern], tables)) == comparable(evaluate([pattern], table))


CONTIGUOUS = replace(RUNS, strategies=RUNS.strategies[1:])


@settings(max_examples=examples(150), deadline=None)
@given(statements(CONTIGUOUS), rows())
def test_runs_that_skip_nothing_give_the_answer_of_the_oracle(statement: Statement, stream_rows: list[Row]) -> None:
    pattern, table = statement.pattern, events_table(stream_rows)
    tables = cep.detect([pattern], table, mechanism="nfab")
    assert comparable(from_tables([pattern], tables)) == comparable(evaluate([pattern], table))


def test_many_runs_that_skip_nothing_are_those_of_a_few_at_a_time() -> None:
    events = "; ".join(f"{'AB'[place % 7 % 2]} {place} x={place * 37 % 11}" for place in range(10_000))
    text = "NAME p PATTERN SEQ(A a, B b, A c) WHERE strict_contiguity {{ a.x < b.x AND {} }} WITHIN 9 seconds"
    table = events_table(stream(events))
    for condition in ("b.x > c.x", "a.x + b.x > c.x"):
        pattern = parsed(text.format(condition))
        found, metrics = cep.detect([pattern], table, mechanism="nfab", metrics=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs, "RUNS_AT_ONCE", 999)
            few, of_few = cep.detect([pattern], table, mechanism="nfab", metrics=True)
        assert len(bindings(found["p"])) > 500
        assert found["p"].equals(few["p"])
        assert metrics == of_few


@settings(max_examples=examples(80), deadline=None)
@given(statements(RUNS), rows(), st.sampled_from([1, 2, 4, 7]))
def test_slices_of_count_windows(statement: Statement, stream_rows: list[Row], events: int) -> None:
    """Slices that read everything before their end: each match belongs to one of them."""
    statement = statement.within(f"{events} EVENTS")
    pattern, table = statement.pattern, events_table(stream_rows)
    plan = cep.plan([pattern], cep.estimate_statistics([pattern], table), planner="trivial")
    points = [(row["timestamp"], row["seq"]) for row in stream_rows]
    owned: list[tuple[tuple[str, int], ...]] = []

    def take(_: Pattern, batch: pa.RecordBatch) -> None:
        owned.extend(as_pairs(batch.column("bindings").to_pylist()))

    for start, end in pairwise([None, *points, None]):
        read = [row for row in stream_rows if end is None or (row["timestamp"], row["seq"]) < end]
        detect_slice([pattern], plan, events_table(read), (start, end), take, "nfab")
    assert sorted(owned) == sorted(match.bindings for match in evaluate([pattern], table))


def as_pairs(found: Iterable[list[dict[str, object]]]) -> Iterable[tuple[tuple[str, int], ...]]:
    for row in found:
        yield tuple((str(part["variable"]), int(str(part["seq"]))) for part in row)
