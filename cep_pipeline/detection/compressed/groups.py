"""The clauses of a pattern that bind the same variables, as one group: they differ in what they negate only."""

from __future__ import annotations

from dataclasses import dataclass

from cep_pipeline.detection.compressed.components import Analysis, Condition, NeedsLists, is_of_elements, split
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern, Strategy, Ties


@dataclass(frozen=True)
class Negation:
    """A negated variable of one clause of a group.

    Attributes
    ----------
    clause
        Place of the clause in the group.
    before, after
        The positive variables P(n) and S(n).
    leaf, conditions
        The conjuncts on its event alone, and those with others.
    excluded
        Single variables that may bind an event of the range in which its events reject.
    """

    variable: Variable
    clause: int
    before: frozenset[str]
    after: frozenset[str]
    leaf: tuple[Conjunct, ...]
    conditions: tuple[Condition, ...]
    excluded: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.clause}:{self.variable.name}"


@dataclass(frozen=True)
class Group:
    """The clauses of a pattern that bind the same variables: they differ in what they negate only.

    Attributes
    ----------
    positive, precedence
        The variables and their order.
    leaf
        Variable -> the conjuncts on each of its events alone.
    conditions
        The other conjuncts over positive variables.
    constants
        The conjuncts that mention no variable.
    guessed
        Single variables whose event is guessed.
    negations
        Of all clauses; empty where one clause negates nothing, since what the others add it has already.
    clauses
        Number of clauses that may still match.
    """

    positive: tuple[Variable, ...]
    precedence: frozenset[tuple[str, str]]
    leaf: dict[str, tuple[Conjunct, ...]]
    conditions: tuple[Condition, ...]
    constants: tuple[Conjunct, ...]
    guessed: tuple[str, ...]
    negations: tuple[Negation, ...]
    clauses: int


def reason_to_list(pattern: Pattern) -> str | None:
    """Why the matches of a pattern cannot be counted or compressed without listing them; None if they can."""
    try:
        groups_of(pattern)
    except NeedsLists as reason:
        return str(reason)
    return None


def groups_of(pattern: Pattern) -> list[Group]:
    """The groups of clauses of a pattern, which have no match in common.

    Raises
    ------
    NeedsLists
        A conjunct cannot be decided over merged runs, or the strategy is not skip_till_any_match.
    """
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        raise NeedsLists(f"the strategy {pattern.strategy.value}")
    by_variables: dict[tuple[Variable, ...], list[Clause]] = {}
    for clause in pattern.clauses:
        by_variables.setdefault(clause.positive, []).append(clause)
    return [_group(pattern, clauses) for clauses in by_variables.values()]


def _group(pattern: Pattern, clauses: list[Clause]) -> Group:
    first = clauses[0]
    names = frozenset(variable.name for variable in first.positive)
    kleene = frozenset(variable.name for variable in first.positive if variable.kleene)
    analysis = Analysis(pattern, first, kleene)
    leaf: dict[str, tuple[Conjunct, ...]] = dict.fromkeys(names, ())
    constants: list[Conjunct] = []
    conditions: list[Condition] = []
    for conjunct in (c for c in first.conjuncts if c.variables <= names):
        if not conjunct.variables:
            constants.append(conjunct)
        elif len(conjunct.variables) == 1 and is_of_elements(conjunct):
            (name,) = conjunct.variables
            leaf[name] = (*leaf[name], conjunct)
        else:
            conditions.extend(analysis.condition(part) for part in split(conjunct))
    negations: list[Negation] = []
    if all(clause.negated for clause in clauses):
        for place, clause in enumerate(clauses):
            negations.extend(_negation(pattern, analysis, clause, place, variable) for variable in clause.negated)
    return Group(
        positive=first.positive,
        precedence=frozenset(pair for pair in first.precedence if names.issuperset(pair)),
        leaf=leaf,
        conditions=tuple(conditions),
        constants=tuple(constants),
        guessed=tuple(v.name for v in first.positive if v.name in analysis.guessed),
        negations=tuple(negations),
        clauses=len(clauses) if negations else 1,
    )


def _negation(pattern: Pattern, analysis: Analysis, clause: Clause, place: int, variable: Variable) -> Negation:
    name = variable.name
    conjuncts = [conjunct for conjunct in clause.conjuncts if name in conjunct.variables]
    excluded = set()
    for other in clause.positive:
        alike = other.event_type == variable.event_type or pattern.base_type in (other.event_type, variable.event_type)
        ordered = (name, other.name) in clause.precedence or (other.name, name) in clause.precedence
        if alike and not (ordered and pattern.ties is not Ties.ANY):
            if other.kleene:
                raise NeedsLists(f"events of '{name}' that may be elements of '{other.name}'")
            excluded.add(other.name)
    return Negation(
        variable=variable,
        clause=place,
        before=frozenset(v.name for v in clause.predecessors(name)),
        after=frozenset(v.name for v in clause.successors(name)),
        leaf=tuple(c for c in conjuncts if c.variables == {name}),
        conditions=tuple(analysis.condition(p, name) for c in conjuncts if c.variables != {name} for p in split(c)),
        excluded=frozenset(excluded),
    )
