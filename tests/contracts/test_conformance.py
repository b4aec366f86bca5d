"""Every conformance case on every mechanism, with every planner, as chosen, counted, and on reduced runs.

`make test` runs each case that was written by hand, and a part of the drawn ones, on every mechanism and with every
planner. `make test-all` runs each case on every mechanism, with every planner, and with every planner on every
mechanism.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from unittest.mock import patch

import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.counting import sweep
from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import PLANNERS
from cep_pipeline.planning.trees import OrderOrTree
from tests.answers import comparable, from_tables, summaries_from_tables
from tests.conformance import CASES, HAND_CASES, RANDOM_CASES, Case, Match, SummaryRow
from tests.contracts.mechanisms import (
    RUN_TREES,
    answer,
    answer_or_refusal,
    needs_trees,
    planned,
    takes_pattern_order,
)
from tests.detection.fused.running import reduce_every_run
from tests.thoroughness import ALL, check_each, part_of

ANSWERED, BY_HAND, DRAWN = (
    [case for case in cases if case.matches is not None] for cases in (CASES, HAND_CASES, RANDOM_CASES)
)

PLANNED_BY_HAND = [case for case in BY_HAND if ALL or not any(one.output.is_preferred for one in case.patterns)]

RIGHT: set[tuple[str, int, tuple[OrderOrTree, ...]]] = set()
"""Cases, their statements and the plans that have given the matches: where planners agree, the plan is run once."""


def expected_of(case: Case, statement: int) -> list[Match | SummaryRow]:
    """The matches or the rows of SUMMARIZE of one statement of a case, as the answer to that statement alone."""
    return [replace(row, statement=0) for row in (*(case.matches or ()), *case.summary) if row.statement == statement]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_cases_on_mechanism(mechanism: str) -> None:
    """Statement by statement, and the statements that the mechanism runs all at once."""
    part = part_of(DRAWN, list(MECHANISMS).index(mechanism))
    check_each(partial(check_on_mechanism, mechanism), [*BY_HAND, *part])


def check_on_mechanism(mechanism: str, case: Case) -> None:
    run: list[Pattern] = []
    expected: list[Match | SummaryRow] = []
    for statement, pattern in enumerate(case.patterns):
        found = answer_or_refusal(mechanism, pattern, case.events)
        if found is not None:
            of_statement = expected_of(case, statement)
            assert comparable(found) == comparable(of_statement)
            expected.extend(replace(row, statement=len(run)) for row in of_statement)
            run.append(pattern)
    if len(run) > 1:
        tables = cep.detect(run, case.events, mechanism=mechanism)
        composed = cep.detect(
            list({one.name: one for pattern in run for one in pattern.composes}.values()), case.events
        )
        found = [*from_tables(run, tables, composed), *summaries_from_tables(run, tables)]
        assert comparable(found) == comparable(sorted(expected, key=lambda row: isinstance(row, SummaryRow)))


def test_cases_as_chosen() -> None:
    """Neither a plan nor a mechanism is named: statement by statement, and all statements of a case together."""
    check_each(check_as_chosen, [*BY_HAND, *part_of(DRAWN, len(MECHANISMS))])


def check_as_chosen(case: Case) -> None:
    for statement, pattern in enumerate(case.patterns):
        assert comparable(answer(None, pattern, case.events)) == comparable(expected_of(case, statement))
    if len(case.patterns) > 1:
        tables = cep.detect(case.patterns, case.events)
        composed = cep.detect(
            list({one.name: one for pattern in case.patterns for one in pattern.composes}.values()), case.events
        )
        found = [*from_tables(case.patterns, tables, composed), *summaries_from_tables(case.patterns, tables)]
        assert comparable(found) == comparable([*(case.matches or ()), *case.summary])


def test_cases_on_reduced_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events in no match are removed from every run, however small it is."""
    reduce_every_run(monkeypatch)
    check_each(check_reduced, [*BY_HAND, *part_of(DRAWN, len(MECHANISMS) + 1)])


def check_reduced(case: Case) -> None:
    for statement, pattern in enumerate(case.patterns):
        found = answer_or_refusal("fused", pattern, case.events)
        assert found is None or comparable(found) == comparable(expected_of(case, statement))


@pytest.mark.parametrize("is_swept", [False, True])
def test_cases_are_counted(is_swept: bool) -> None:
    """By sweeps wherever there is one, or nowhere."""
    with patch.object(sweep, "pays", return_value=is_swept):
        check_each(check_counts, [*BY_HAND, *part_of(DRAWN, int(not is_swept))])


def check_counts(case: Case) -> None:
    for statement, pattern in enumerate(case.patterns):
        if not has_output_policy(pattern) and pattern.summary is None:
            counted = cep.detect([pattern], case.events, output="count")[pattern.name]
            assert counted["count"].to_pylist() == [str(len(expected_of(case, statement)))]


@pytest.mark.parametrize("planner", PLANNERS)
def test_cases_with_planner(planner: str) -> None:
    """On the mechanism that is taken when none is named; which match is preferred is asked behind all plans."""
    part = part_of(DRAWN, list(PLANNERS).index(planner))
    check_each(partial(check_with_planner, planner), [*PLANNED_BY_HAND, *part])


def check_with_planner(planner: str, case: Case) -> None:
    for statement, pattern in enumerate(case.patterns):
        [mechanism] = choose_mechanisms([pattern]).values()
        plan = planned(pattern, case.events, planner, mechanism)
        if needs_trees(plan) and mechanism not in RUN_TREES:
            continue
        run = (str(case), statement, tuple(clause.order_or_tree for clause in plan.patterns[0].clauses))
        if run in RIGHT:
            continue
        assert comparable(answer(mechanism, pattern, case.events, plan)) == comparable(expected_of(case, statement))
        RIGHT.add(run)


@pytest.mark.long
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_cases_with_planner_on_mechanism(mechanism: str, planner: str) -> None:
    check_each(partial(check_with_planner_on_mechanism, mechanism, planner), ANSWERED)


def check_with_planner_on_mechanism(mechanism: str, planner: str, case: Case) -> None:
    for statement, pattern in enumerate(case.patterns):
        if takes_pattern_order(pattern, mechanism) or answer_or_refusal(mechanism, pattern, case.events) is None:
            continue
        plan = planned(pattern, case.events, planner, mechanism)
        if needs_trees(plan) and mechanism not in RUN_TREES:
            continue
        assert comparable(answer(mechanism, pattern, case.events, plan)) == comparable(expected_of(case, statement))
