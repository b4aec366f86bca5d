"""What the counts of a plan's nodes say of conjuncts: as trying all combinations of events says it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.patterns.normal_form import split_condition
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.observed import NodeCounts
from tests.contracts.mechanisms import DRAWN, RUN_TREES, planned
from tests.oracle.clauses import Conjunct, Rules, clauses_of
from tests.oracle.events import partition_key, read_events
from tests.oracle.values import Binding
from tests.pattern_strategies import FIRST_SLICE, statements
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples
from tests.tree_plans import many_trees

SINGLE_EVENTS = replace(
    FIRST_SLICE, nested=True, count_windows=True, lists=False, max_operands=3, max_condition_variables=3
)


def combinations(pattern: Pattern, node: NodeCounts, table: pa.Table) -> Iterator[Binding]:
    """The events that can be the node's variables by all rules but the conjuncts over several of them."""
    events = read_events(table, pattern)
    clause = clauses_of(pattern)[node.clause]
    rules = Rules(pattern, clause, events)
    operands = [operand for operand in clause.positive if operand.variable in node.node]
    for chosen in product(events, repeat=len(operands)):
        binding: Binding = {}
        for operand, event in zip(operands, chosen, strict=True):
            if not rules.fits(operand, event, binding):
                break
            binding[operand.variable] = (event,)
            if not all(c.holds(binding) for c in clause.conjuncts if c.variables <= {operand.variable}):
                break
        else:
            yield binding


def is_bound_by_events(pattern: Pattern, node: NodeCounts, table: pa.Table) -> bool:
    """Return whether each variable of the node's clause has events; else a mechanism may end before it counts any.

    An event with a null agrees with none where the events of a match have to agree.
    """
    names = [operand.variable for operand in clauses_of(pattern)[node.clause].positive]
    shared = [*split_condition(pattern.condition)[1], *pattern.partition_by] if len(names) > 1 else []

    def has_events(name: str) -> bool:
        found = combinations(pattern, replace(node, node=(name,)), table)
        return any(partition_key(binding[name][0], shared) is not None for binding in found)

    return all(map(has_events, names))


def literal_counts(pattern: Pattern, node: NodeCounts, table: pa.Table) -> tuple[int, int]:
    """How many combinations the other conjuncts let through to those that are tested, and how many pass these."""
    assert node.tested is not None
    within = [c for c in pattern.clauses[node.clause].conjuncts if c.variables <= set(node.node)]
    given = [Conjunct(c.atoms) for c in within if c not in node.tested]
    tested = [Conjunct(c.atoms) for c in node.tested]
    candidates = [b for b in combinations(pattern, node, table) if all(c.holds(b) for c in given)]
    return len(candidates), sum(all(c.holds(b) for c in tested) for b in candidates)


@pytest.mark.parametrize("mechanism", DRAWN)
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data(), stream_rows=rows(min_size=6, max_size=12))
def test_a_node_counts_what_its_conjuncts_are_tested_on(
    mechanism: str, data: st.DataObject, stream_rows: list[Row]
) -> None:
    chains, ties = mechanism == "nfab", SINGLE_EVENTS.ties[: 2 if mechanism == "eager_nfa" else 3]
    pattern = data.draw(statements(replace(SINGLE_EVENTS, chains=chains, ties=ties))).pattern
    table = events_table(stream_rows)
    plan = planned(pattern, table, "greedy", mechanism)
    if mechanism in RUN_TREES and data.draw(st.booleans()):
        plan = data.draw(st.sampled_from(list(many_trees(plan, seed=data.draw(st.integers(0, 99))))))
    _, metrics = cep.detect([pattern], table, plan, mechanism, metrics=True)
    for node in metrics.nodes:
        if node.tested is None or not is_bound_by_events(pattern, node, table):
            continue
        counted = literal_counts(pattern, node, table)
        if mechanism in {"lazy_tree_nfa"}:  # several orders share the combinations
            assert node.candidates <= counted[0] and node.passes <= counted[1]
        else:
            assert (node.candidates, node.passes) == counted, node
