"""What the evaluation mechanisms are tried on, and how their answers are compared.

`MUST_RUN` says which patterns a mechanism may not refuse, `DRAWN` which random statements it is tried on. A new
mechanism needs an entry in both, and passes all tests of this folder as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from math import comb, prod

import pyarrow as pa
from hypothesis import assume
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.mechanisms import choose_mechanisms, in_pattern_order
from cep_pipeline.detection.nfab.automaton import is_chain
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern, Strategy, Ties, with_composed
from cep_pipeline.patterns.structure import EventOperand
from cep_pipeline.planning import Plan
from tests.answers import from_tables, summaries_from_tables
from tests.oracle import OracleMatch, OracleSummary
from tests.oracle.answer import read_stream
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, FIRST_SLICE, WHOLE_LANGUAGE, Features, Statement, statements


def is_of_any_match(pattern: Pattern) -> bool:
    """Anything under skip_till_any_match."""
    return pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH


def is_of_any_match_without_ties(pattern: Pattern) -> bool:
    """Anything under skip_till_any_match but TIES ANY."""
    return is_of_any_match(pattern) and pattern.ties is not Ties.ANY


def is_read_in_order(pattern: Pattern) -> bool:
    """All that the strategies of section 4 run; under skip_till_any_match, chains."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return True
    return all(map(is_chain, pattern.clauses))


MUST_RUN: Mapping[str, Callable[[Pattern], bool]] = {
    "fused": is_of_any_match,
    "evaluation_tree": is_of_any_match,
    "eager_nfa": is_of_any_match_without_ties,
    "lazy_chain_nfa": is_of_any_match,
    "lazy_tree_nfa": is_of_any_match,
    "nfab": is_read_in_order,
    "multi_pattern_nfa": is_of_any_match,
    "multitree": is_of_any_match,
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
        replace(FIRST_SLICE, negation=True, kleene=True, count_windows=True, max_operands=3, max_condition_variables=3),
    ),
    "evaluation_tree": (ANY_MATCH_LANGUAGE,),
    "eager_nfa": (
        replace(ANY_MATCH_LANGUAGE, ties=("ARRIVAL", "STRICT"), output=False, consume=False),
        replace(ANY_MATCH_LANGUAGE, ties=("ARRIVAL", "STRICT"), negation=False, max_operands=4),
    ),
    "lazy_chain_nfa": (ANY_MATCH_LANGUAGE,),
    "lazy_tree_nfa": (ANY_MATCH_LANGUAGE,),
    "nfab": (
        replace(WHOLE_LANGUAGE, strategies=WHOLE_LANGUAGE.strategies[1:], kleene=False, output=False, consume=False),
        replace(WHOLE_LANGUAGE, strategies=WHOLE_LANGUAGE.strategies[1:], max_operands=3),
        replace(ANY_MATCH_LANGUAGE, chains=True, max_operands=3),
    ),
    "multi_pattern_nfa": (ANY_MATCH_LANGUAGE,),
    "multitree": (ANY_MATCH_LANGUAGE,),
}
"""What random statements that a mechanism must run may use: one of these."""
ANY_MATCH = tuple(name for name, drawn in DRAWN.items() if all(f.strategies == ("skip_till_any_match",) for f in drawn))
"""The mechanisms that are drawn statements under skip_till_any_match, where a condition only selects among matches."""

RUN_TREES = ("fused", "evaluation_tree", "lazy_tree_nfa", "multitree")
"""The mechanisms that take any tree (one runs in orders of its own); the others refuse one by name."""


def drawn(data: st.DataObject, mechanism: str, **changes: bool) -> Statement:
    """A random statement that the mechanism must run, of features changed so."""
    features = data.draw(st.sampled_from(DRAWN[mechanism]))
    return data.draw(statements(replace(features, **changes)))


def takes_pattern_order(pattern: Pattern, mechanism: str) -> bool:
    """Whether events are bound in the pattern's order only: by the mechanism, or by the pattern's strategy."""
    return bool(in_pattern_order({pattern.name: mechanism})) or pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH


def planned(pattern: Pattern, table: pa.Table, planner: str, mechanism: str) -> Plan:
    """The planner's plan; the trivial one where only the pattern's order is run."""
    if takes_pattern_order(pattern, mechanism):
        planner = "trivial"
    return cep.plan([pattern], cep.estimate_statistics([pattern], table), planner=planner, compare=False)


def needs_trees(plan: Plan) -> bool:
    """Whether a clause of the plan is joined by a tree."""
    return any(clause.tree is not None for pattern in plan.patterns for clause in pattern.clauses)


def answer(
    mechanism: str | None, pattern: Pattern, table: pa.Table, plan: Plan | None = None
) -> list[OracleMatch | OracleSummary]:
    """The matches, or the rows of SUMMARIZE."""
    composed = cep.detect(list(pattern.composes), table) if pattern.composes else {}
    tables = cep.detect([pattern], table, plan=plan, mechanism=mechanism)
    return [*from_tables([pattern], tables, composed), *summaries_from_tables([pattern], tables)]


def match_ids(mechanism: str, pattern: Pattern, table: pa.Table, plan: Plan | None = None) -> list[str]:
    [found] = cep.detect([pattern], table, plan=plan, mechanism=mechanism).values()
    return found.column("match_id").to_pylist()


def bindings(matches: Iterable[OracleMatch]) -> list[tuple[tuple[str, int], ...]]:
    return [match.bindings for match in matches]


def answer_or_refusal(mechanism: str, pattern: Pattern, table: pa.Table) -> list[OracleMatch | OracleSummary] | None:
    """The answer, or None where the mechanism refuses the pattern as it may."""
    try:
        return answer(mechanism, pattern, table)
    except UnsupportedPattern as refusal:
        assert refusal.mechanism == mechanism
        assert refusal.feature
        whole = with_composed([pattern])
        assert not all(map(MUST_RUN[mechanism], whole)), f"{mechanism} must run this pattern: {refusal}"
        return None


def orders_of(plan: Plan) -> list[tuple[str, ...]]:
    return [clause.order for pattern in plan.patterns for clause in pattern.clauses]


def many_orders(plan: Plan) -> Iterable[Plan]:
    """The plan of one pattern with other orders of the first clause's steps: all of them, or some 24."""
    [pattern_plan] = plan.patterns
    first, *others = pattern_plan.clauses
    orders = list(permutations(first.steps))
    for steps in orders[:: max(1, len(orders) // 24)]:
        clauses = (replace(first, steps=steps, order=(), alternatives=(), comparisons=()), *others)
        yield replace(plan, patterns=(replace(pattern_plan, clauses=clauses),))


def runnable(statement: Statement) -> Pattern:
    """The pattern of a drawn statement, if some mechanism runs it."""
    pattern = statement.pattern
    try:
        choose_mechanisms([pattern])
    except UnsupportedPattern:
        assume(False)
    return pattern


MOST_BINDINGS = 100_000


def has_few_bindings(pattern: Pattern, table: pa.Table) -> bool:
    """Whether a pattern has few ways to bind its variables to events of their types; a list of 40 matches has 2^40."""
    events = read_stream(table, pattern)

    def ways(operand: EventOperand) -> int:
        fitting = sum(not event.types.isdisjoint(operand.types) for event in events)
        sizes = range(operand.minimum, (operand.maximum or fitting) + 1) if operand.kleene else (1,)
        return max(1, sum(comb(fitting, size) for size in sizes))

    return prod(map(ways, pattern.operands)) <= MOST_BINDINGS
