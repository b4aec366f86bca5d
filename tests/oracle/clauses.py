"""Clauses of a statement and the rules that a binding must satisfy (docs/language.md, sections 3.1 to 3.5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from cep_pipeline.patterns.conditions import (
    AllOf,
    AnyOf,
    Atom,
    Between,
    Comparison,
    Condition,
    Equivalence,
    Like,
    Membership,
    Not,
    NullTest,
    Truth,
    negate,
)
from cep_pipeline.patterns.expressions import Aggregate, Element, Expression, Length, Reference, walk
from cep_pipeline.patterns.pattern import Pattern, Ties
from cep_pipeline.patterns.structure import EventOperand, Negation, Operator, Structure, event_operands
from tests.oracle.bindings import bindings_of
from tests.oracle.events import Event, agree, positions
from tests.oracle.values import Binding, Choice, truth_of

Order = frozenset[tuple[str, str]]
"""Pairs of variables, where every event of the first is before every event of the second."""


class Conjunct:
    """A disjunction of comparisons, one member of the conjunctive normal form."""

    def __init__(self, atoms: Sequence[Atom]) -> None:
        self.atoms = tuple(atoms)
        nodes = [node for atom in atoms for expression in _expressions(atom) for node in walk(expression)]
        references = [node for node in nodes if isinstance(node, Reference)]
        aggregates = [node for node in nodes if isinstance(node, Aggregate)]
        lengths = [node for node in nodes if isinstance(node, Length)]
        self.variables = {node.variable for node in (*references, *aggregates, *lengths)}
        self.with_element = sorted({node.variable for node in references if node.element is Element.EACH})
        self.with_index = sorted(
            {node.variable for node in references if node.element in (Element.CURRENT, Element.PREVIOUS)}
            | {node.variable for node in aggregates if node.prefix}
        )
        self.needs_whole_list = (
            {node.variable for node in references if node.element is Element.LAST}
            | {node.variable for node in aggregates if not node.prefix}
            | {node.variable for node in lengths}
        )

    def holds(self, binding: Binding) -> bool:
        """Whether it holds for every choice of one element and one index of each Kleene variable, independently."""
        elements = [binding[variable] for variable in self.with_element]
        indexes = [range(2, len(binding[variable]) + 1) for variable in self.with_index]
        for chosen_elements in product(*elements):
            for chosen_indexes in product(*indexes):
                choice = Choice(
                    dict(zip(self.with_element, chosen_elements, strict=True)),
                    dict(zip(self.with_index, chosen_indexes, strict=True)),
                )
                if not any(truth_of(atom, binding, choice) is True for atom in self.atoms):
                    return False
        return True


def _expressions(atom: Atom) -> list[Expression]:
    match atom:
        case Comparison(_, left, right):
            return [left, right]
        case Membership(expression) | NullTest(expression) | Like(expression):
            return [expression]
        case Between(expression, low, high):
            return [expression, low, high]
        case Truth():
            return []


@dataclass(frozen=True)
class NegatedBranch:
    """One way to bind a negated operand: its variables in pattern order, their order, and what constrains them."""

    operands: tuple[EventOperand, ...]
    order: Order
    conjuncts: tuple[Conjunct, ...]


@dataclass(frozen=True)
class NegatedOperand:
    """`~` before an event, a list or a composite; `name` is its first variable, which the order of the clause has."""

    name: str
    branches: tuple[NegatedBranch, ...]


@dataclass(frozen=True)
class OracleClause:
    """One clause: its positive operands in pattern order, the negated ones, their order, and what constrains them."""

    positive: tuple[EventOperand, ...]
    negated: tuple[NegatedOperand, ...]
    order: Order
    conjuncts: tuple[Conjunct, ...]
    agree_on: tuple[str, ...]

    def before(self, variable: str) -> list[str]:
        """P(n): the positive variables ordered before a variable."""
        return [operand.variable for operand in self.positive if (operand.variable, variable) in self.order]

    def after(self, variable: str) -> list[str]:
        """S(n): the positive variables ordered after a variable."""
        return [operand.variable for operand in self.positive if (variable, operand.variable) in self.order]


def clauses_of(pattern: Pattern) -> list[OracleClause]:
    """The disjunctive normal form of the structure, with the conjuncts that have all their variables in the clause."""
    conjuncts, equivalences = conjunctive_normal_form(pattern.condition)
    negations = {first_variable(structure): structure for structure in negated_structures(pattern.structure)}
    clauses = []
    for names, order in disjunctive_normal_form(pattern.structure):
        positive = names - negations.keys()
        negated = []
        for name in sorted(names & negations.keys()):
            branches = []
            for own, own_order in disjunctive_normal_form(_inside(negations[name])):
                constrain = [c for c in conjuncts if c.variables & own and c.variables <= own | positive]
                branches.append(NegatedBranch(_operands(pattern, own), own_order, tuple(constrain)))
            negated.append(NegatedOperand(name, tuple(branches)))
        clauses.append(
            OracleClause(
                positive=_operands(pattern, positive),
                negated=tuple(negated),
                order=order,
                conjuncts=tuple(conjunct for conjunct in conjuncts if conjunct.variables <= positive),
                agree_on=tuple(dict.fromkeys((*pattern.partition_by, *equivalences))),
            )
        )
    return clauses


def _operands(pattern: Pattern, names: set[str]) -> tuple[EventOperand, ...]:
    return tuple(operand for operand in pattern.operands if operand.variable in names)


def negated_structures(structure: Structure) -> Iterator[Negation | EventOperand]:
    """The negated operands of a structure, single events too."""
    if isinstance(structure, Negation):
        yield structure
    elif isinstance(structure, EventOperand):
        if structure.negated:
            yield structure
    else:
        for operand in structure.operands:
            yield from negated_structures(operand)


def _inside(structure: Negation | EventOperand) -> Structure:
    return structure.operand if isinstance(structure, Negation) else structure


def first_variable(structure: Structure) -> str:
    return next(event_operands(structure)).variable


def disjunctive_normal_form(structure: Structure) -> list[tuple[set[str], Order]]:
    """The branches of a structure: the variables of each, and which come before which.

    A negated operand is there by its first variable, an optional one is in one of two branches.
    """
    if isinstance(structure, Negation):
        return [({first_variable(structure)}, frozenset())]
    if isinstance(structure, EventOperand):
        bound: list[tuple[set[str], Order]] = [({structure.variable}, frozenset())]
        return [*bound, (set(), frozenset())] if structure.optional else bound
    branches = [disjunctive_normal_form(operand) for operand in structure.operands]
    if structure.operator is Operator.OR:
        return [branch for operand in branches for branch in operand]
    result = []
    for parts in product(*branches):
        names = set().union(*(names for names, _ in parts))
        order = {pair for _, pairs in parts for pair in pairs}
        if structure.operator is Operator.SEQ:
            for later in range(len(parts)):
                for earlier in range(later):
                    order |= {(a, b) for a in parts[earlier][0] for b in parts[later][0]}
        result.append((names, frozenset(order)))
    return result


def choices_of(structure: Structure) -> list[Any]:
    """What each branch of `disjunctive_normal_form` has chosen, in the same order.

    Of an OR the number of its operand and what that has chosen, of SEQ and AND what each operand has chosen; of an
    event "bound" or "absent".
    """
    if isinstance(structure, Negation | EventOperand):
        return ["bound", "absent"] if isinstance(structure, EventOperand) and structure.optional else ["bound"]
    chosen = [choices_of(operand) for operand in structure.operands]
    if structure.operator is Operator.OR:
        return [(number, one) for number, own in enumerate(chosen) for one in own]
    return list(product(*chosen))


def conjunctive_normal_form(condition: Condition | None) -> tuple[list[Conjunct], list[str]]:
    """The conjuncts of a condition, and the attributes of its equivalence tests."""
    disjunctions: list[list[Atom]] = []
    equivalences: list[str] = []
    for part in _conjoined(condition):
        if isinstance(part, Equivalence):
            equivalences.extend(part.attributes)
        else:
            disjunctions.extend(_distribute(_push_not(part)))
    return [Conjunct(disjunction) for disjunction in disjunctions], equivalences


def _conjoined(condition: Condition | None) -> Iterator[Condition]:
    if isinstance(condition, AllOf):
        for operand in condition.operands:
            yield from _conjoined(operand)
    elif condition is not None:
        yield condition


def _push_not(condition: Condition, negative: bool = False) -> Condition:
    """The same condition with NOT only inside its comparisons."""
    match condition:
        case Not(operand):
            return _push_not(operand, not negative)
        case AllOf(operands):
            pushed = tuple(_push_not(operand, negative) for operand in operands)
            return AnyOf(pushed) if negative else AllOf(pushed)
        case AnyOf(operands):
            pushed = tuple(_push_not(operand, negative) for operand in operands)
            return AllOf(pushed) if negative else AnyOf(pushed)
        case Equivalence():
            raise AssertionError("an equivalence test stands under OR or NOT")
        case atom:
            return negate(atom) if negative else atom


def _distribute(condition: Condition) -> list[list[Atom]]:
    """OR distributed over AND: a list of disjunctions, all of which must hold."""
    match condition:
        case AllOf(operands):
            return [disjunction for operand in operands for disjunction in _distribute(operand)]
        case AnyOf(operands):
            parts = [_distribute(operand) for operand in operands]
            return [[atom for disjunction in chosen for atom in disjunction] for chosen in product(*parts)]
        case atom:
            return [[atom]]


def conjuncts_hold(conjuncts: Sequence[Conjunct], binding: Binding, growing: str | None = None) -> bool:
    """Whether every conjunct holds all of whose variables are bound.

    A list that is still growing has no last element, no length and no aggregate over all of it yet.
    """
    return all(
        conjunct.holds(binding)
        for conjunct in conjuncts
        if conjunct.variables <= binding.keys() and growing not in conjunct.needs_whole_list
    )


class Rules:
    """The rules of one clause over one stream."""

    def __init__(self, pattern: Pattern, clause: OracleClause, events: Sequence[Event]) -> None:
        self.pattern = pattern
        self.clause = clause
        self.events = events
        if pattern.window.time_us is not None:
            self.width = pattern.window.time_us
            self.instant = {event: event.timestamp for event in events}
        else:
            assert pattern.window.events is not None
            self.width = pattern.window.events - 1
            self.instant = positions(events, pattern.partition_by)

    def is_before(self, one: Event, other: Event) -> bool:
        """`one before other` under the statement's TIES (section 3.2)."""
        match self.pattern.ties:
            case Ties.ARRIVAL:
                return one.place < other.place
            case Ties.STRICT:
                return one.timestamp < other.timestamp
            case Ties.ANY:
                return one.timestamp <= other.timestamp and one is not other

    def fits(self, operand: EventOperand, event: Event, binding: Binding) -> bool:
        """Whether an event has the type of a variable and obeys, with each bound event, all rules over two events.

        These are: distinct events, structure and ties, the window, equivalence tests and PARTITION BY.
        """
        if event.types.isdisjoint(operand.types) or not self.are_ordered(operand, event, binding, self.clause.order):
            return False
        for others in binding.values():
            for other in others:
                if abs(self.instant[event] - self.instant[other]) > self.width:
                    return False
                if self.clause.agree_on and not agree(event, other, self.clause.agree_on):
                    return False
        return True

    def are_ordered(self, operand: EventOperand, event: Event, binding: Binding, order: Order) -> bool:
        """Whether an event of a variable differs from each bound event, and is in order with it."""
        name = operand.variable
        for other_name, others in binding.items():
            for other in others:
                if other is event:
                    return False
                if (other_name, name) in order and not self.is_before(other, event):
                    return False
                if (name, other_name) in order and not self.is_before(event, other):
                    return False
        return True

    def conditions_hold(self, binding: Binding, growing: str | None = None) -> bool:
        """Whether every conjunct of the clause holds all of whose variables are bound."""
        return conjuncts_hold(self.clause.conjuncts, binding, growing)

    def is_rejected(self, binding: Binding) -> bool:
        """Whether a negated operand rejects the match: some binding of it obeys all rules (section 3.5)."""
        return any(
            True
            for negated in self.clause.negated
            for branch in negated.branches
            for _ in bindings_of(Rejection(self, negated, branch, binding), branch.operands)
        )


class Rejection:
    """The rules of one branch of a negated operand beside a finished match."""

    def __init__(self, rules: Rules, negated: NegatedOperand, branch: NegatedBranch, match: Binding) -> None:
        self.rules = rules
        self.branch = branch
        self.match = match
        self.events = [event for event in rules.events if self._may_reject(negated.name, event)]

    def _may_reject(self, name: str, event: Event) -> bool:
        """Whether an event lies where rule 5 lets one of the negated operand lie, and agrees with the match."""
        rules, clause = self.rules, self.rules.clause
        matched = [other for others in self.match.values() for other in others]
        if event in matched:
            return False
        before, after = clause.before(name), clause.after(name)
        first = min(rules.instant[other] for other in matched)
        last = max(rules.instant[other] for other in matched)
        if before:
            if not all(rules.is_before(other, event) for variable in before for other in self.match[variable]):
                return False
        elif rules.instant[event] < last - rules.width:
            return False
        if after:
            if not all(rules.is_before(event, other) for variable in after for other in self.match[variable]):
                return False
        elif rules.instant[event] > first + rules.width:
            return False
        return not clause.agree_on or all(agree(event, other, clause.agree_on) for other in matched)

    def fits(self, operand: EventOperand, event: Event, binding: Binding) -> bool:
        """Whether an event has the type of a variable, differs from each bound event and is in order with it."""
        return not event.types.isdisjoint(operand.types) and self.rules.are_ordered(
            operand, event, binding, self.branch.order
        )

    def conditions_hold(self, binding: Binding, growing: str | None = None) -> bool:
        """Whether every conjunct of the operand holds all of whose variables are bound."""
        return conjuncts_hold(self.branch.conjuncts, {**self.match, **binding}, growing)
