"""Pieces of matches for tests: clauses without conditions, and blocks of given rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.slices.blocks import MatchBlock


def clause_of(variables: Sequence[tuple[str, int]], index: int = 0) -> Clause:
    """A clause over positive variables, given as (name, position in the pattern)."""
    positive = tuple(Variable(name, "A", False, False, position) for name, position in variables)
    return Clause(index, positive, (), frozenset(), (), (), ())


def block_of(clause: Clause, matches: Sequence[Sequence[int]]) -> MatchBlock:
    """A block of matches, each a list of rows in the order of the clause's variables."""
    rows = np.array(matches, np.int32).reshape(len(matches), len(clause.positive))
    return MatchBlock(clause, np.ascontiguousarray(rows.T))
