"""Random workloads of patterns that have much in common, and random plans for them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import Join, Plan
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, PARAMETERS, TIME_WINDOWS, Features, statements
from tests.streams import stream_schema
from tests.tree_plans import random_tree

OPERANDS = ("A {}", "B {}", "A {}", "C {}", "B+ {}[]", '"X.1" {}', "Ev {}")
"""The events that small patterns are made of, with room for a name; later ones are rarer."""
BETWEEN = ("{0}.x < {1}.x", "{0}.y >= {1}.y", "{0}.id = {1}.id", "{0}.s != {1}.s", "{0}.x + {1}.x > 3")
ALONE = ("{0}.x > 1", "{0}.f = TRUE", "{0}.y BETWEEN 0 AND 6")
OF_LISTS = ("{0}[i].x > {0}[i-1].x", "avg({0}[].y) < 6", "{0}.LEN <= 2")
WINDOWS = (*TIME_WINDOWS[2:], "3 EVENTS", "5 EVENTS")


@st.composite
def workloads(draw: st.DrawFn, most: int = 8, features: Features = ANY_MATCH_LANGUAGE) -> str:
    """The text of 2 to `most` patterns: small ones of few parts, and variants of one drawn statement."""
    texts = []
    drawn = draw(statements(replace(features, max_operands=3)))
    for number in range(draw(st.integers(2, most))):
        if draw(st.integers(0, 4)) == 4:
            variant = drawn.within(draw(st.sampled_from([drawn.window, *WINDOWS])))
            texts.append(f"NAME p{number} {variant.text}")
        else:
            texts.append(f"NAME p{number} {draw(small_patterns(features))}")
    return ";\n".join(texts)


@st.composite
def small_patterns(draw: st.DrawFn, features: Features) -> str:
    """A pattern of one to four events with conditions that others are likely to have, too."""
    size = draw(st.sampled_from([2, 3, 2, 1, 4]))
    operands = [draw(st.sampled_from([*OPERANDS[:4], *OPERANDS])) for _ in range(size)]
    lists = [place for place, operand in enumerate(operands) if "+" in operand]
    for place in lists[1:]:
        operands[place] = OPERANDS[0]
    names = draw(st.permutations("abcdxyz"))[:size]
    parts = [operand.format(name) for operand, name in zip(operands, names, strict=True)]
    conditions = []
    for place in range(size):
        name = names[place]
        if place in lists[:1]:
            if draw(st.integers(0, 2)) == 2:
                conditions.append(draw(st.sampled_from(OF_LISTS)).format(name))
            names[place] = f"{name}{draw(st.sampled_from(['[]', '[1]', f'[{name}.LEN]']))}"
        elif draw(st.integers(0, 3)) == 3:
            conditions.append(draw(st.sampled_from(ALONE)).format(name))
    for place in range(size - 1):
        if draw(st.booleans()):
            conditions.append(draw(st.sampled_from(BETWEEN)).format(names[place], names[place + 1]))
    if features.negation and draw(st.integers(0, 3)) == 3:
        place = draw(st.integers(0, size))
        parts.insert(place, draw(st.sampled_from(["~C n", "~B n", "NOT(A n)"])))
        if draw(st.booleans()):
            conditions.append(f"n.x > {names[0].removesuffix('[]')}.x" if place and not lists else "n.x > 1")
    operator = draw(st.sampled_from(["SEQ", "SEQ", "AND"]))
    text = f"PATTERN {operator}({', '.join(parts)})"
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    text += f" WITHIN {draw(st.sampled_from(WINDOWS))}"
    if draw(st.integers(0, 3)) == 3:
        text += " PARTITION BY id"
    if draw(st.integers(0, 3)) == 3:
        text += f" TIES {draw(st.sampled_from(['STRICT', 'ANY']))}"
    return text


def patterns_of(text: str) -> list[Pattern]:
    """The patterns of a workload, with the parameters that statements may use."""
    return cep.parse_patterns(text, stream_schema(), params={name: list(own) for name, own in PARAMETERS.items()})


def random_plan(
    patterns: Sequence[Pattern], table: pa.Table, mechanism: str, seed: int, *, order_tests: bool = False
) -> Plan:
    """A plan with a random order, or for a multitree mostly a random tree, for each clause.

    With `order_tests` many joins are made as for an AND, and their order is tested afterwards.
    """
    chosen = random.Random(seed)
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner="trivial", compare=False)
    planned = []
    for pattern in plan.patterns:
        clauses = []
        for clause in pattern.clauses:
            clause = replace(clause, alternatives=(), comparisons=())
            tree = random_tree(clause.order, chosen)
            if chosen.random() < 0.3:  # the pattern's own order is what many have in common
                clauses.append(clause)
            elif mechanism == "multitree" and not isinstance(tree, str):
                clauses.append(replace(clause, tree=_tested(tree, chosen) if order_tests else tree))
            else:
                clauses.append(replace(clause, steps=tuple(chosen.sample(clause.steps, len(clause.steps))), order=()))
        planned.append(replace(pattern, clauses=tuple(clauses)))
    return replace(plan, patterns=tuple(planned))


def _tested(tree: Join, chosen: random.Random) -> Join:
    left, right = (side if isinstance(side, str) else _tested(side, chosen) for side in (tree.left, tree.right))
    return Join(left, right, in_order=chosen.random() < 0.5)


def alone(plan: Plan, pattern: Pattern) -> Plan:
    """What a plan has for one pattern."""
    return replace(plan, patterns=(plan.for_pattern(pattern.name),))
