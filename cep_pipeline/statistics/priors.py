"""Selectivities where nothing was measured: the constants of System R (Selinger et al., SIGMOD 1979, table 1)."""

from __future__ import annotations

from cep_pipeline.patterns.conditions import Atom, Between, Comparator, Comparison, Conjunct, Membership

EQUAL = 1 / 10
INEQUALITY = 1 / 3
BETWEEN = 1 / 4
MOST_OF_A_LIST = 1 / 2


def prior_selectivity(conjunct: Conjunct) -> float:
    """Share of tuples that pass the conjunct, by its form alone; its atoms count as independent."""
    fails = 1.0
    for atom in conjunct.atoms:
        fails *= 1.0 - _prior(atom)
    return 1.0 - fails


def _prior(atom: Atom) -> float:
    match atom:
        case Comparison(Comparator.EQ):
            return EQUAL
        case Comparison(Comparator.NE):
            return 1.0 - EQUAL
        case Comparison():
            return INEQUALITY
        case Between(negated=negated):
            share = BETWEEN
        case Membership(values=values, negated=negated):
            share = min(len(values) * EQUAL, MOST_OF_A_LIST)
    return 1.0 - share if negated else share
