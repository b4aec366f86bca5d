"""The questions of patterns to a stream: leaves, and conditions on pairs and tuples of events, without names.

Two patterns that ask the same question about the stream (the rate of the same filtered type, the share of pairs
that pass the same comparison inside the same window) get the same key and share one number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import combinations

from cep_pipeline.language.formatter import format_condition, format_literal, literal_in_words
from cep_pipeline.patterns.conditions import AnyOf, Comparator, Comparison, Conjunct, Membership
from cep_pipeline.patterns.conditions import expressions_of as expressions_of_atom
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Element,
    Expression,
    Length,
    Literal,
    Reference,
    ValueType,
    walk,
)
from cep_pipeline.patterns.normal_form import Clause, connected_parts, equal_variables
from cep_pipeline.patterns.pattern import Pattern, Ties, Window, remembered
from cep_pipeline.patterns.rewriting import rewritten, with_values
from cep_pipeline.patterns.structure import EventType, type_alternatives

FIRST = "x"
"""Variable of a leaf, and of the first event of a pair, in keys."""
SECOND = "y"
"""Variable of the second event of a pair, in keys."""

_FILTERING = frozenset({Element.ONLY, Element.EACH})
_SINGLE = frozenset({Element.ONLY, Element.EACH, Element.FIRST, Element.LAST})


@dataclass(frozen=True)
class Leaf:
    """The events that a variable can bind: those of a type that pass its unary conjuncts (over `FIRST`)."""

    event_type: EventType
    filters: tuple[Conjunct, ...] = ()

    @cached_property
    def key(self) -> str:
        """Canonical text, such as `SPY where x.price > 10`."""
        types = type_alternatives(self.event_type)
        if not self.filters:
            return types
        return f"{types} where {' and '.join(conjunct_key(conjunct) for conjunct in self.filters)}"


@dataclass(frozen=True)
class PairScope:
    """The pairs that could stand in one partial match: inside the window, in the order that the clause asks for.

    The positions of a count window are those in the stream, with PARTITION BY too: conditions count as independent
    of the partition.
    """

    first: Leaf
    second: Leaf
    ordered: bool
    window: Window
    ties: Ties = Ties.ARRIVAL

    @cached_property
    def key(self) -> str:
        """Canonical text, such as `(A) before (B) within 2 s`."""
        relation = _before(self.ties) if self.ordered else "with"
        return f"({self.first.key}) {relation} ({self.second.key}) within {self.window}"


@dataclass(frozen=True)
class PairCondition:
    """A conjunct over `FIRST` and `SECOND`, on the pairs of a scope."""

    scope: PairScope
    conjunct: Conjunct

    @cached_property
    def key(self) -> str:
        """Canonical text, such as `(A) before (B) within 2 s: x.diff < y.diff`."""
        return f"{self.scope.key}: {conjunct_key(self.conjunct)}"


MOST_TERMS = 1 << 14
"""Leaves of clauses, and conditions over two variables, that are remembered: their keys take long to write."""


def clauses_read(clause: Clause) -> tuple[Clause, ...]:
    """A clause, and those of its negated structures: all whose leaves decide about its matches."""
    return (clause, *(negated for structure in clause.negated_structures for negated in structure.clauses))


@remembered(MOST_TERMS)
def leaf_of(pattern: Pattern, clause: Clause, variable: str) -> Leaf:
    """The leaf of a variable: its type and the conjuncts that test each of its events alone."""
    own = [rename(conjunct, {variable: FIRST}) for conjunct in clause.conjuncts if is_filter(conjunct, variable)]
    filters = tuple(own if len(own) < 2 else sorted(set(own), key=conjunct_key))
    return Leaf(clause.by_name[variable].event_type, filters)


def is_filter(conjunct: Conjunct, variable: str) -> bool:
    """True where the conjunct tests single events of `variable` alone, so that it belongs to the leaf."""
    own = conjunct.variables
    return len(own) == 1 and variable in own and _mentions_only(conjunct, _FILTERING)


@remembered(MOST_TERMS)
def pair_of(pattern: Pattern, clause: Clause, conjunct: Conjunct) -> PairCondition | None:
    """The measurable form of a conjunct over two variables; None where single events do not decide it.

    A Kleene variable's element, first and last event count as any event of its leaf.
    """
    if len(conjunct.variables) != 2 or not _mentions_only(conjunct, _SINGLE):
        return None
    left, right = sorted(conjunct.variables, key=lambda name: clause.by_name[name].position)
    if (right, left) in clause.precedence:
        left, right = right, left
    ordered = (left, right) in clause.precedence
    choices = [(left, right)] if ordered else [(left, right), (right, left)]
    ties = pattern.ties if ordered else Ties.ARRIVAL
    conditions = (
        PairCondition(
            PairScope(leaf_of(pattern, clause, first), leaf_of(pattern, clause, second), ordered, pattern.window, ties),
            rename(conjunct, {first: FIRST, second: SECOND}),
        )
        for first, second in choices
    )
    return min(conditions, key=lambda condition: condition.key)


@remembered(MOST_TERMS)
def agreement(pattern: Pattern, clause: Clause, attribute: str, first: str, second: str) -> PairCondition:
    """The test that two variables agree on an attribute of an equivalence test or of PARTITION BY."""
    kind = dict(pattern.attributes).get(attribute, ValueType.INT64)
    # Agreement has no direction: it has one key, whichever variable is named first.
    names = sorted((first, second), key=lambda name: clause.by_name[name].position)
    left, right = (Reference(name, attribute, Element.ONLY, kind) for name in names)
    condition = pair_of(pattern, clause, Conjunct((Comparison(Comparator.EQ, left, right),)))
    assert condition is not None
    return condition


def agreeing_attributes(pattern: Pattern, clause: Clause) -> tuple[str, ...]:
    """The attributes whose agreement thins out the combinations of a window.

    A count window with PARTITION BY holds events of one partition only: there they agree from the start.
    """
    within = pattern.partition_by if pattern.window.events is not None else ()
    return tuple(attribute for attribute in clause.agree_on if attribute not in within)


MOST_EQUAL = 6
"""Variables of a class up to which it is estimated as one: in plans each set of them has a number."""


def equal_classes(clause: Clause) -> list[tuple[str, tuple[str, ...], list[tuple[str, str]]]]:
    """The classes of variables that several equalities of an attribute join, such as `a.k = b.k AND b.k = c.k`.

    Each is the attribute, the variables that are joined, at most `MOST_EQUAL`, and the pairs that are written. What
    joins all variables of a clause stands there as agreement (`with_agreement`).
    """
    found = []
    for attribute, pairs in equal_variables(clause).items():
        for names in connected_parts([variable.name for variable in clause.positive], pairs):
            among = [pair for pair in pairs if pair[0] in names]
            if len(among) > 1 and len(names) <= MOST_EQUAL:
                found.append((attribute, names, among))
    return found


def positive_conjuncts(clause: Clause) -> tuple[Conjunct, ...]:
    """The conjuncts that a plan places: over positive variables only, no part of a leaf, and no limit of a list.

    The limits of `A{n,m} v[]` are in the number of lists that a plan expects.
    """
    positive = {variable.name for variable in clause.positive}
    limits = [limit for variable in clause.positive for limit in variable.limits]
    return tuple(
        conjunct
        for conjunct in clause.conjuncts
        if conjunct.variables
        and conjunct.variables <= positive
        and conjunct not in limits
        and not any(is_filter(conjunct, name) for name in conjunct.variables)
    )


def terms_of(patterns: Iterable[Pattern]) -> tuple[list[Leaf], list[PairCondition]]:
    """The leaves and pairwise conditions of patterns, each once, in the order of first mention."""
    leaves: dict[Leaf, None] = {}
    conditions: dict[PairCondition, None] = {}
    for pattern in patterns:
        for clause in pattern.clauses:
            for read in clauses_read(clause):
                for variable in (*read.positive, *read.negated):
                    leaves[leaf_of(pattern, read, variable.name)] = None
            for conjunct in positive_conjuncts(clause):
                measured = pair_of(pattern, clause, conjunct)
                if measured is not None:
                    conditions[measured] = None
            for attribute in agreeing_attributes(pattern, clause):
                for one, other in combinations(clause.positive, 2):
                    conditions[agreement(pattern, clause, attribute, one.name, other.name)] = None
            for attribute, names, _ in equal_classes(clause):
                for pair in combinations(names, 2):
                    conditions[agreement(pattern, clause, attribute, *pair)] = None
    for condition in conditions:
        leaves[condition.scope.first] = None
        leaves[condition.scope.second] = None
    return list(leaves), list(conditions)


def uses_of_terms(patterns: Iterable[Pattern]) -> dict[str, list[str]]:
    """The place of each term in patterns: key of a leaf or a condition -> `rise.a`, `rise: a.price < b.price`."""
    found: dict[str, dict[str, None]] = {}
    for pattern in patterns:
        for clause in pattern.clauses:
            for read in clauses_read(clause):
                for variable in (*read.positive, *read.negated):
                    key = leaf_of(pattern, read, variable.name).key
                    found.setdefault(key, {})[f"{pattern.name}.{variable.name}"] = None
            for conjunct in positive_conjuncts(clause):
                measured = pair_of(pattern, clause, conjunct) or tuple_of(pattern, clause, conjunct)
                if measured is not None:
                    found.setdefault(measured.key, {})[f"{pattern.name}: {format_conjunct(conjunct)}"] = None
            for attribute in agreeing_attributes(pattern, clause):
                for one, other in combinations(clause.positive, 2):
                    key = agreement(pattern, clause, attribute, one.name, other.name).key
                    said = f"{pattern.name}: {one.name}.{attribute} = {other.name}.{attribute}"
                    found.setdefault(key, {})[said] = None
    return {key: list(names) for key, names in found.items()}


def rename(conjunct: Conjunct, names: Mapping[str, str]) -> Conjunct:
    """The conjunct over other variables, each binding one event."""

    def renamed(node: Expression) -> Expression:
        if isinstance(node, Reference):
            return Reference(names[node.variable], node.attribute, Element.ONLY, node.type, node.span)
        return node

    return rewritten(conjunct, renamed)


def _mentions_only(conjunct: Conjunct, elements: frozenset[Element]) -> bool:
    for atom in conjunct.atoms:
        for expression in expressions_of_atom(atom):
            for node in walk(expression):
                if isinstance(node, Length | Aggregate):
                    return False
                if isinstance(node, Reference) and node.element not in elements:
                    return False
    return True


def conjunct_key(conjunct: Conjunct) -> str:
    """The conjunct as text that also tells the values of its parameters apart (which may be thousands)."""
    parameters = "".join(
        f" with ${atom.parameter} = {sha256(repr(atom.values).encode()).hexdigest()[:8]}"
        for atom in conjunct.atoms
        if isinstance(atom, Membership) and atom.parameter is not None
    )
    return format_conjunct(with_values(conjunct), format_literal) + parameters


def format_conjunct(conjunct: Conjunct, spell: Callable[[Literal], str] = literal_in_words) -> str:
    """The conjunct as the pattern language writes it, in parentheses where it is a disjunction.

    For people lengths of time are in their units; `format_literal` writes them as the text of a pattern has them.
    """
    if len(conjunct.atoms) == 1:
        return format_condition(conjunct.atoms[0], spell)
    return f"({format_condition(AnyOf(conjunct.atoms), spell)})"


@dataclass(frozen=True)
class Member:
    """A variable of a tuple: its leaf, and whether it binds a list of the leaf's events."""

    leaf: Leaf
    kleene: bool


@dataclass(frozen=True)
class TupleScope:
    """The combinations of events, and of lists of events, that could stand in one partial match.

    Attributes
    ----------
    members
        In pattern order; in keys they are called x1, x2, ...
    precedence
        Pairs of places in `members`, the earlier one first.
    """

    members: tuple[Member, ...]
    precedence: tuple[tuple[int, int], ...]
    window: Window
    ties: Ties = Ties.ARRIVAL

    @cached_property
    def key(self) -> str:
        """Canonical text, such as `(A) x1, (B)+ x2, x1 before x2, within 2 s`."""
        members = [
            f"({member.leaf.key}){'+' if member.kleene else ''} {member_name(place)}"
            for place, member in enumerate(self.members)
        ]
        order = [f"{member_name(one)} {_before(self.ties)} {member_name(other)}" for one, other in self.precedence]
        return ", ".join((*members, *order, f"within {self.window}"))


@dataclass(frozen=True)
class TupleCondition:
    """A conjunct over the members of a scope."""

    scope: TupleScope
    conjunct: Conjunct

    @cached_property
    def key(self) -> str:
        """Canonical text, such as `(A) x1, (B)+ x2, within 2 s: x2.LEN > 3`."""
        return f"{self.scope.key}: {conjunct_key(self.conjunct)}"


def _before(ties: Ties) -> str:
    return "before" if ties is Ties.ARRIVAL else f"before[{ties.value}]"


def member_name(place: int) -> str:
    """The name of a member of a tuple in keys."""
    return f"x{place + 1}"


def tuple_of(pattern: Pattern, clause: Clause, conjunct: Conjunct) -> TupleCondition | None:
    """The measurable form of a conjunct of a plan that no pair decides; None of others."""
    if not conjunct.variables or pair_of(pattern, clause, conjunct) is not None:
        return None
    names = sorted(conjunct.variables, key=lambda name: clause.by_name[name].position)
    members = tuple(Member(leaf_of(pattern, clause, name), clause.by_name[name].kleene) for name in names)
    precedence = tuple(
        (one, other)
        for one in range(len(names))
        for other in range(len(names))
        if (names[one], names[other]) in clause.precedence
    )
    places = {name: member_name(place) for place, name in enumerate(names)}

    def renamed(node: Expression) -> Expression:
        if isinstance(node, Reference | Length | Aggregate):
            return replace(node, variable=places[node.variable])
        return node

    ties = pattern.ties if precedence else Ties.ARRIVAL
    return TupleCondition(TupleScope(members, precedence, pattern.window, ties), rewritten(conjunct, renamed))


def tuples_of(patterns: Iterable[Pattern]) -> list[TupleCondition]:
    """The conditions of patterns that are no pairwise ones, each once."""
    asked = (
        tuple_of(pattern, clause, conjunct)
        for pattern in patterns
        for clause in pattern.clauses
        for conjunct in positive_conjuncts(clause)
    )
    return list(dict.fromkeys(condition for condition in asked if condition is not None))
