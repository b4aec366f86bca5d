"""The skeleton of a clause: what is left of it without Kleene closure and negation, which the kernel runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from cep_pipeline.patterns.normal_form import Clause


def has_kleene(clause: Clause) -> bool:
    """Return whether a variable of the clause binds a list."""
    return any(variable.kleene for variable in clause.positive)


def skeleton_of(clause: Clause) -> Clause:
    """The clause over its single positive variables only: their order and the conjuncts that mention no others.

    Notes
    -----
    Of every match of the clause, the events of these variables are a match of the skeleton. A clause of Kleene
    variables alone has a skeleton without variables; one without Kleene variables runs as it is, with its negation.
    """
    if not has_kleene(clause):
        return clause
    return clause_over(clause, [variable.name for variable in clause.positive if not variable.kleene])


def clause_over(clause: Clause, names: Collection[str]) -> Clause:
    """The clause over some of its positive variables only: their order and the conjuncts that mention no others."""
    kept = frozenset(names)
    return replace(
        clause,
        positive=tuple(variable for variable in clause.positive if variable.name in kept),
        negated=(),
        precedence=frozenset(pair for pair in clause.precedence if kept.issuperset(pair)),
        conjuncts=tuple(conjunct for conjunct in clause.conjuncts if conjunct.variables <= kept),
    )


def skeleton_order(clause: Clause, order: Sequence[str]) -> tuple[str, ...]:
    """The variables of the skeleton in plan order."""
    return tuple(name for name in order if not clause.by_name[name].kleene)


def kleene_order(clause: Clause, order: Sequence[str]) -> tuple[str, ...]:
    """The Kleene variables in plan order."""
    return tuple(name for name in order if clause.by_name[name].kleene)
