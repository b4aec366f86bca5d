"""Checks of a whole statement (docs/language.md, sections 4 and 6).

They concern clauses without a positive variable, sizes of normal forms, negated variables in conjuncts, and patterns
that a strategy refuses.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from cep_pipeline.language.formatter import format_condition, literal_in_words
from cep_pipeline.language.scope import Scope
from cep_pipeline.language.tokens import PatternWarning, SourceText
from cep_pipeline.patterns.conditions import AnyOf, Condition, Conjunct, expressions_of
from cep_pipeline.patterns.expressions import (
    NOWHERE,
    Aggregate,
    Element,
    Expression,
    Length,
    Reference,
    Span,
    walk,
)
from cep_pipeline.patterns.implications import Implications, implications_of
from cep_pipeline.patterns.normal_form import (
    MAX_CLAUSES,
    Clause,
    NormalFormTooLarge,
    count_clauses,
    negations,
    normalize,
    split_condition,
)
from cep_pipeline.patterns.pattern import Pattern, Ties
from cep_pipeline.patterns.rewriting import with_values
from cep_pipeline.patterns.structure import (
    EventOperand,
    Negation,
    Operator,
    Structure,
    event_operands,
    structure_text,
)

MOST_CONTRADICTIONS = 3
"""The most clauses that are named as contradicting themselves; the others are counted."""
LONGEST_CONJUNCT = 120
"""A longer conjunct, such as one with many values behind IN, is cut in a message."""


def check_structure(structure: Structure, scope: Scope, statement: Span) -> None:
    """Refuse too many clauses, a clause that has no positive variable, and a negation that is none."""
    if count_clauses(structure) > MAX_CLAUSES:
        raise scope.source.error(
            f"the disjunctive normal form has more than {MAX_CLAUSES:,} clauses; split the OR over several statements",
            statement,
        )
    for negation in negations(structure):
        if count_clauses(negation.operand) > MAX_CLAUSES:
            message = f"the disjunctive normal form of what is negated has more than {MAX_CLAUSES:,} clauses"
            raise scope.source.error(message, negation.span)
        if (branch := _branch_of(negation.operand, lambda operand: operand.optional)) is not None:
            names = ", ".join(structure_text(negation).removeprefix("~") for negation in map(Negation, branch))
            message = f"what is negated may be without an event: {names}"
            raise scope.source.error(message, negation.span)
    branch = _branch_of(structure, lambda operand: operand.negated or operand.optional)
    if branch is None:
        return
    first = next(iter(scope.variable_spans.values()))
    if all(operand.negated for operand in scope.variables.values()):
        raise scope.source.error("a pattern needs at least one positive variable", first)
    names = ", ".join(map(structure_text, branch))
    raise scope.source.error(
        f"a branch of the pattern has no positive variable: {names}", Span(first.start, branch[-1].span.end)
    )


def check_condition(condition: Condition, structure: Structure, scope: Scope) -> None:
    """Refuse a conjunct with two negated variables; note in the scope a conjunct that constrains no clause."""
    try:
        conjuncts, _ = split_condition(condition, as_written=True)
    except NormalFormTooLarge as error:
        raise scope.source.error(f"{error}; split the statement", error.span) from None
    together = list(_bound_together(structure))
    negated = {
        operand.variable: number
        for number, negation in enumerate(negations(structure))
        for operand in event_operands(negation)
    }
    for conjunct in conjuncts:
        _check_negated(conjunct, scope, negated)
        if not any(map(conjunct.variables.issubset, together)):
            scope.warnings.append(_idle(conjunct, scope.source))


def check_return_item(expression: Expression, scope: Scope) -> None:
    """Refuse what a RETURN item cannot take: negated variables, and elements of a Kleene variable that are many."""
    for node in walk(expression):
        if not isinstance(node, Reference | Length | Aggregate):
            continue
        v = node.variable
        if scope.variables[v].negated:
            raise scope.source.error(f"RETURN cannot take {v!r}: a negated variable has no event in a match", node.span)
        many = isinstance(node, Reference) and node.element in (Element.EACH, Element.CURRENT, Element.PREVIOUS)
        if many or (isinstance(node, Aggregate) and node.prefix):
            forms = f"{v}[1], {v}[{v}.LEN], {v}.LEN or an aggregate over {v}[]"
            raise scope.source.error(f"RETURN takes the Kleene variable {v!r} only as {forms}", node.span)


def check_strategy(pattern: Pattern, source: SourceText, strategy: Span) -> None:
    """Refuse what section 4 refuses under strategies other than skip_till_any_match."""
    if pattern.strategy.forks:
        return
    name = pattern.strategy.value
    for clause in pattern.clauses:
        ordered = _ordered_pairs(clause)
        # Where no two variables are ordered, TIES says nothing about a run.
        if ordered and pattern.ties is Ties.ANY:
            raise source.error(f"TIES ANY runs under skip_till_any_match only, not under {name}", strategy)
        reason = _not_a_run(clause, ordered)
        if reason is not None:
            raise source.error(f"{name} does not run {reason}; use skip_till_any_match", strategy)


def _ordered_pairs(clause: Clause) -> int:
    """Number of pairs of positive variables of which one comes before the other."""
    names = [variable.name for variable in clause.positive]
    return sum((a, b) in clause.precedence or (b, a) in clause.precedence for a, b in combinations(names, 2))


def _not_a_run(clause: Clause, ordered: int) -> str | None:
    """Why a clause is neither a chain nor one AND of single events, or None."""
    if ordered == len(clause.positive) * (len(clause.positive) - 1) // 2:
        return None
    kleene = [variable.name for variable in clause.positive if variable.kleene]
    if kleene:
        return f"the Kleene variable {kleene[0]!r} in an AND"
    if ordered:
        return "a clause that is neither a chain nor one AND of single events"
    return None


def _branch_of(
    structure: Structure, may_be_absent: Callable[[EventOperand], bool]
) -> tuple[EventOperand | Negation, ...] | None:
    """The operands of a clause whose operands may all be absent, or None."""
    if isinstance(structure, Negation):
        return (structure,)
    if isinstance(structure, EventOperand):
        return (structure,) if may_be_absent(structure) else None
    parts = [_branch_of(operand, may_be_absent) for operand in structure.operands]
    if structure.operator is Operator.OR:
        return next((part for part in parts if part is not None), None)
    if any(part is None for part in parts):
        return None
    return tuple(operand for part in parts if part is not None for operand in part)


def _bound_together(structure: Structure) -> Iterator[frozenset[str]]:
    """The variables of each clause; and of what is negated in it, beside the positive ones."""
    for clause in normalize(structure):
        positive = frozenset(variable.name for variable in clause.positive)
        yield positive.union(variable.name for variable in clause.negated)
        for negated in (one for structure in clause.negated_structures for one in structure.clauses):
            yield positive.union(variable.name for variable in negated.positive)


def _check_negated(conjunct: Conjunct, scope: Scope, negated: Mapping[str, int]) -> None:
    """Refuse variables of two negations; `negated` numbers the negations of composites and lists by their variables."""
    first: str | None = None
    for atom in conjunct.atoms:
        for expression in expressions_of(atom):
            for node in walk(expression):
                if not isinstance(node, Reference | Length | Aggregate) or not scope.variables[node.variable].negated:
                    continue
                first = first or node.variable
                if negated.get(node.variable, node.variable) != negated.get(first, first):
                    message = f"a conjunct mentions two negated variables: {first} and {node.variable}"
                    raise scope.source.error(message, node.span)


def contradiction_in(pattern: Pattern, source: SourceText) -> PatternWarning | None:
    """The warning about a pattern that no events can match; None where some may."""
    found = []
    for clause in pattern.clauses:
        implied = implications_of(clause, pattern.window.time_us, pattern.ties)
        if not implied.contradiction:
            return None
        found.append(implied)
    places = [one.span for one in found[0].contradiction if one.span != NOWHERE]
    message = f"pattern {pattern.name!r} has no matches: {no_events_text(pattern, found)}"
    return source.warning(message, places[0] if places else Span(0, 1))


def no_events_text(pattern: Pattern, clauses: Sequence[Implications]) -> str:
    """The sentence that says which conjuncts no events fulfil together, of each clause that contradicts itself.

    Parameters
    ----------
    clauses
        The facts that follow from the conditions of these clauses.
    """
    found: dict[str, None] = {}
    for implied in clauses:
        plain = (with_values(one, sets=True) for one in implied.contradiction)
        conjuncts = [AnyOf(one.atoms) if len(one.atoms) > 1 else one.atoms[0] for one in plain]
        said = (format_condition(one, literal_in_words) for one in conjuncts)
        texts = [textwrap.shorten(one, LONGEST_CONJUNCT, placeholder=" …") for one in said]
        timed = not implied.spans.keys().isdisjoint(implied.contradiction)
        where = f" within {pattern.window}, in the order of the pattern," if timed else ""
        found[f"no events{where} fulfil {' and '.join(texts)}"] = None
    more = f", and {len(found) - MOST_CONTRADICTIONS} more" if len(found) > MOST_CONTRADICTIONS else ""
    return ", and ".join(list(found)[:MOST_CONTRADICTIONS]) + more


def _idle(conjunct: Conjunct, source: SourceText) -> PatternWarning:
    names = ", ".join(sorted(conjunct.variables))
    message = f"this conjunct constrains no clause of the pattern: no clause has all of {names}"
    return source.warning(message, conjunct.span)
