"""The order in which conditions are tested: first what costs little beside the tuples that it lets go.

A tuple is tested until a condition does not hold. Of independent conditions with costs c and shares p of tuples that
pass, the expected cost is least where they stand in the order of c / (1 - p). What a test costs depends on its kind;
`cep bench kernel-costs` measures that. The shares are those of `prior_selectivity`: conditions are put in order before
anything is known of the events.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from cep_pipeline.patterns.conditions import Atom, Conjunct, expressions_of
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Call,
    Expression,
    Length,
    Negative,
    ValueType,
    walk,
)
from cep_pipeline.planning.costs.kernel import kernel_costs
from cep_pipeline.statistics.snapshot import prior_selectivity

NUMBER, ARITHMETIC, TEXT, LIST, CORRELATION = CONDITION_KINDS = ("number", "arithmetic", "text", "list", "correlation")
"""Kinds of conditions, the dearer ones later: a comparison of numbers as they are, or of what is computed of them; of
texts; of what is computed of the elements of a list; a correlation of two list attributes."""


def kind_of(conjunct: Conjunct) -> str:
    """The kind of the dearest part of a condition.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string", "x": "int64"}})
    >>> text = "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.x + 1 < b.x AND a.type != b.type WITHIN 1 second"
    >>> [kind_of(conjunct) for conjunct in cep.parse_patterns(text, schema)[0].clauses[0].conjuncts]
    ['number', 'arithmetic', 'text']
    """
    kinds = (_kind(node) for atom in conjunct.atoms for node in _nodes(atom))
    return max(kinds, key=CONDITION_KINDS.index, default=NUMBER)


def in_test_order(conjuncts: Iterable[Conjunct]) -> tuple[Conjunct, ...]:
    """Conditions in the order in which they are tested; those that are as good stay in the order of the pattern."""
    return tuple(sorted(conjuncts, key=_rank))


def _rank(conjunct: Conjunct) -> float:
    stops = 1.0 - prior_selectivity(conjunct)
    cost = kernel_costs().conditions.get(kind_of(conjunct), 1.0) * max(len(conjunct.atoms), 1)
    return cost / stops if stops > 0 else math.inf


def _nodes(atom: Atom) -> Iterator[Expression]:
    for side in expressions_of(atom):
        yield from walk(side)


def _kind(node: Expression) -> str:
    if isinstance(node, Call) and node.function == "corr":
        return CORRELATION
    if isinstance(node, Aggregate | Length):
        return LIST
    if node.type is ValueType.STRING:
        return TEXT
    return ARITHMETIC if isinstance(node, Arithmetic | Negative | Call) else NUMBER
