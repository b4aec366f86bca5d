"""The terms of a cost model of a clause, as sums over sets of its variables that compiled code takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cep_pipeline.planning import set_sums_codes as codes

if TYPE_CHECKING:
    from cep_pipeline.planning.costs.model import CostModel
    from cep_pipeline.planning.set_sums import ClauseShape

Array = np.ndarray[Any, Any]

MOST_VARIABLES = 8
"""The costs of all sets are known of clauses of up to so many variables: there are 2^n."""


@dataclass(frozen=True, slots=True)
class SetSum:
    """What a term of a cost model is the sum of, by logarithms.

    Attributes
    ----------
    instances
        Those of the variables.
    rarest
        Of these only those of the rarest variable.
    equalities, tested
        The selectivities of conditions that ask to be equal, and of those that have to be tested.
    joints
        What corrects their product.
    together
        The share in order, and agreement.
    singles
        Kleene variables count as one instance without conditions.
    grown
        The number of variables, of single ones where `singles`.
    factor, whole
        A factor of each set, and of the set of all variables in its place.
    ends
        What is added to the sum is this factor times the events at both edges of a set, after which and before which
        none of it is ordered.
    """

    instances: bool = True
    rarest: bool = False
    equalities: bool = True
    tested: bool = True
    joints: bool = True
    together: bool = True
    singles: bool = False
    grown: bool = False
    factor: float = 1.0
    whole: float | None = None
    ends: float | None = None

    @property
    def kinds(self) -> int:
        """The kinds of factors that count."""
        return codes.EQUALITY * self.equalities | codes.TESTED * self.tested | codes.JOINT * self.joints


@dataclass(frozen=True, eq=False)
class CostTerms:
    """The terms of a cost model of a clause, as the kernel reads them.

    Attributes
    ----------
    terms
        Those that the model has.
    rows
        Of each of `CostModel.terms` its place among them; -1 of one that the model has not.
    asked, ends
        What the kernel asks of each, with the rows behind it, and what it adds for the ends of sets.
    constants
        What of each term does not depend on the numbers, float64 of shape (terms, 2^n); None for a large clause.
    """

    shape: ClauseShape
    terms: tuple[SetSum, ...]
    rows: tuple[int, ...]
    asked: Array
    ends: Array
    constants: Array | None

    @classmethod
    def of(cls, shape: ClauseShape, cost: CostModel) -> CostTerms:
        """Those of a cost that is a sum."""
        terms = [term.sum() for term in cost.terms if term is not None and term.sum is not None]
        places = iter(range(len(terms)))
        rows = tuple(-1 if term is None else next(places) for term in cost.terms)
        if cost.waits:
            last = terms[rows[codes.DELAY]]
            terms[rows[codes.DELAY]] = replace(last, factor=last.factor * cost.alpha)
        everything = (1 << shape.size) - 1
        asked = [
            (
                (0 if not term.instances else everything & ~shape.kleene_mask if term.singles else everything),
                term.rarest,
                term.kinds,
                term.singles,
                term.together and shape.agreements > 0,
                term.ends is not None,
            )
            for term in terms
        ]
        sets = np.arange(1 << shape.size) if shape.size <= MOST_VARIABLES else None
        return cls(
            shape,
            tuple(terms),
            rows,
            np.concatenate((np.array(asked, np.int64).reshape(-1), np.array(rows, np.int64))),
            np.array([0.0 if term.ends is None else math.log(term.ends) for term in terms]),
            None if sets is None else np.stack([_constants(shape, term, sets) for term in terms]),
        )

    def of_sets(self, sets: Array) -> Array:
        """The constants of some sets, float64 of shape (terms, m)."""
        if self.constants is not None:
            return np.ascontiguousarray(self.constants[:, sets])
        return np.stack([_constants(self.shape, term, sets) for term in self.terms])


def _constants(shape: ClauseShape, term: SetSum, sets: Array) -> Array:
    """What of a term does not depend on the numbers, float64 of shape (m,)."""
    counted = sets & ~shape.kleene_mask if term.singles else sets
    found = shape.ln_order_shares(counted) if term.together else np.zeros(len(sets))
    if term.grown:
        with np.errstate(divide="ignore"):
            found += np.log(np.bitwise_count(counted).astype(np.float64))
    whole = sets == (1 << shape.size) - 1
    factor = term.factor if term.whole is None else np.where(whole, term.whole, term.factor)
    return np.asarray(found + np.log(factor))
