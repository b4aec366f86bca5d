"""The order in which conditions are tested: first what costs little beside the tuples that it lets go.

A tuple is tested until a condition does not hold. Of independent conditions with costs c and shares p of tuples that
pass, the expected cost is least where they stand in the order of c / (1 - p). What a test costs depends on its kind
(`kernel_costs.json`). The shares are those of `prior_selectivity`: conditions are put in order before
anything is known of the events.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from cep_pipeline.patterns.conditions import Atom, Between, Comparison, Conjunct, Truth, expressions_of
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Call,
    Expression,
    Length,
    Negative,
    ValueType,
    variables_of,
    walk,
)
from cep_pipeline.planning.costs.kernel import (
    APART,
    ARITHMETIC,
    CHOICE,
    CLOCK,
    CONDITION_KINDS,
    CORRELATION,
    FUNCTION,
    LIST,
    NUMBER,
    ROOT,
    TEXT,
    kernel_costs,
)
from cep_pipeline.statistics.snapshot import prior_selectivity

_CLOCK_FUNCTIONS = frozenset({"time_of_day", "day_of_week"})
_KIND_OF_CALL = {"abs": ARITHMETIC, "sqrt": ROOT, "corr": CORRELATION, **dict.fromkeys(_CLOCK_FUNCTIONS, CLOCK)}


def kind_of(conjunct: Conjunct, *, across: bool = False) -> str:
    """The kind of the dearest part of a condition.

    Parameters
    ----------
    across
        Whether only the parts count that mention several variables, as in the fused kernel: it reads what depends on
        one event from a column.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string", "x": "int64"}})
    >>> text = "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.x + 1 < b.x AND a.type != b.type WITHIN 1 second"
    >>> [kind_of(conjunct) for conjunct in cep.parse_patterns(text, schema)[0].clauses[0].conjuncts]
    ['number', 'arithmetic', 'text']
    """
    kinds = (kind for atom in conjunct.atoms for kind in _kinds(atom, across))
    return max(kinds, key=CONDITION_KINDS.index, default=NUMBER)


def in_test_order(conjuncts: Iterable[Conjunct], *, across: bool = False) -> tuple[Conjunct, ...]:
    """Conditions in the order in which they are tested; those that are as good stay in the order of the pattern.

    `across`: as the fused mechanism tests them (`kind_of`).
    """
    return tuple(sorted(conjuncts, key=lambda conjunct: _rank(conjunct, across)))


def _rank(conjunct: Conjunct, across: bool) -> float:
    stops = 1.0 - prior_selectivity(conjunct)
    kind, costs = kind_of(conjunct, across=across), kernel_costs()
    known = costs.tests if across and kind in APART and kind in costs.tests else costs.conditions
    cost = known.get(kind, known.get(ARITHMETIC, 1.0)) * max(len(conjunct.atoms), 1)
    return cost / stops if stops > 0 else math.inf


def _kinds(atom: Atom, across: bool) -> Iterator[str]:
    several = 2 if across else 0
    sides = [side for side in expressions_of(atom) if len(variables_of(side)) >= several]
    if not isinstance(atom, Comparison | Between | Truth) and sides:
        yield CHOICE
    for side in sides:
        yield from (_kind(node) for node in walk(side) if len(variables_of(node)) >= several)


def _kind(node: Expression) -> str:
    if isinstance(node, Aggregate | Length):
        return LIST
    if isinstance(node, Call):
        return _KIND_OF_CALL.get(node.function, FUNCTION)
    if node.type is ValueType.STRING:
        return TEXT
    if isinstance(node, Arithmetic):
        return FUNCTION if node.operator == "%" else ARITHMETIC
    return ARITHMETIC if isinstance(node, Negative) else NUMBER
