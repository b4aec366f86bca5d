"""The costs of sets of a clause's variables as sums, taken by compiled code for all sets at once.

ln PM(S) is a sum of logarithms: of the instances of the variables of S, of the selectivities of the conditions within
S, and of the share in order. The charges of cost models for S are made of such sums. The structure of the clause and
the model alone decide which numbers are in them (`CostTerms`), so a clause that is planned again and again writes that
down once. Then the numbers of a snapshot give the costs of all sets within microseconds.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from struct import Struct
from typing import Any

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.planning.costs.kernel import APART
from cep_pipeline.planning.costs.model import CostModel, LateTests, SetSum
from cep_pipeline.planning.numbers.clause_statistics import (
    ClauseNumbers,
    ClauseShape,
    JointCondition,
    mask_of,
)
from cep_pipeline.planning.search import set_sums_codes as codes

Array = np.ndarray[Any, Any]

MOST_VARIABLES = 8
"""The costs of all sets are tabulated for clauses of up to this many variables: there are 2^n sets."""
_summing = threading.RLock()
"""Clauses of one shape share the arrays of their sums: these are read before another thread adds up others."""
MOST_BITS = 62
"""The largest clause whose sets fit into an int64."""
_measure = NativeKernel(
    "cep_pipeline.planning.search.set_sums_kernel",
    "measure",
    ("int64*",),
    ("cep_pipeline.compiled.pointers", "cep_pipeline.planning.search.set_sums_codes"),
)


def measuring() -> Callable[[int], int]:
    """The compiled code, which takes the address of argument words."""
    return _measure.function


def load_kernel() -> None:
    """Load the compiled code, or compile it where that has not been done on this machine: it takes seconds."""
    _measure.compile()


SPAN, RANGE, APART_KIND = 8, 16, 32
"""Kinds of conditions beside those of `set_sums_codes`: bounds on gaps, those that follow from others, and conditions
that are tested apart."""


@dataclass(frozen=True, eq=False)
class CostTerms:
    """The terms of a cost model of a clause, as the kernel reads them.

    Attributes
    ----------
    terms
        The sums of the terms that the model has.
    rows
        For each of `CostModel.terms`, and the two of `LateTests`, its place among them; -1: there is none.
    asked, ends
        What the kernel adds up for each term, with `rows` behind it, and ln of the factor for the ends of sets.
    constants
        The part of each term that does not depend on numbers, float64 of shape (terms, 2^n); None for a large clause.
    late
        The conditions that are tested late (`LateTests`), by their bits, and nanoseconds.
    """

    shape: ClauseShape
    terms: tuple[SetSum, ...]
    rows: tuple[int, ...]
    asked: Array
    ends: Array
    constants: Array | None
    late: list[tuple[int, float]]

    @classmethod
    def of(cls, shape: ClauseShape, cost: CostModel) -> CostTerms | None:
        """The terms of a model for a clause, made once; None if it is too large or the cost is no sum of numbers."""
        return shape.derived(("terms", cost), lambda: cls._made(shape, cost))

    @classmethod
    def _made(cls, shape: ClauseShape, cost: CostModel) -> CostTerms | None:
        if shape.size > MOST_BITS or any(term is not None and term.sum is None for term in cost.terms):
            return None
        late = cost.late
        tested_late = [] if late is None else late_tests(shape, late)
        if not tested_late:
            late = None
        asks = *cost.terms, *((None, None) if late is None else (late.tuples, late.passing))
        terms = [term.sum() for term in asks if term is not None and term.sum is not None]
        places = iter(range(len(terms)))
        rows = tuple(-1 if term is None else next(places) for term in asks)
        if cost.waits:
            last = terms[rows[codes.DELAY]]
            terms[rows[codes.DELAY]] = replace(last, factor=last.factor * cost.alpha)
        everything, kleene = (1 << shape.size) - 1, mask_of(shape.kleene)
        asked = [
            (
                (0 if not term.instances else everything & ~kleene if term.singles else everything),
                term.rarest,
                _kinds(term),
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
            tested_late,
        )

    def of_sets(self, sets: Array) -> Array:
        """The constants of some sets, float64 of shape (terms, m)."""
        if self.constants is not None:
            return np.ascontiguousarray(self.constants[:, sets])
        return np.stack([_constants(self.shape, term, sets) for term in self.terms])

    def late_within(self, sets: Array) -> Array:
        """The nanoseconds of all late tests within some sets, float64 of shape (m,)."""
        return np.asarray(sum((ns * (sets & mask == mask) for mask, ns in self.late), np.zeros(len(sets))))


def late_tests(shape: ClauseShape, late: LateTests) -> list[tuple[int, float]]:
    """The conditions of a clause that are tested late, by their bits, and nanoseconds."""
    return [
        (mask_of(positions), late.ns(kind))
        for positions, equality, span, kind in shape.conditions
        if late.ns(kind) and not (equality or span or shape.kleene.intersection(positions))
    ]


def _kinds(term: SetSum) -> int:
    """The kinds of conditions that count in a term, as bits."""
    spans = term.tested if term.spans is None else term.spans
    found = codes.EQUALITY * term.equalities | codes.TESTED * term.tested | codes.JOINT * term.joints
    apart = term.tested if term.apart is None else term.apart
    return found | SPAN * spans | RANGE * term.ranges | APART_KIND * apart


def _constants(shape: ClauseShape, term: SetSum, sets: Array) -> Array:
    """The part of a term that does not depend on numbers, float64 of shape (m,)."""
    counted = sets & ~mask_of(shape.kleene) if term.singles else sets
    found = ln_order_shares(shape, counted) if term.together else np.zeros(len(sets))
    if term.grown:
        with np.errstate(divide="ignore"):
            found += np.log(np.bitwise_count(counted).astype(np.float64))
    ln_kinds = term.ln_kinds or {}
    for positions, equality, span, kind in shape.conditions:
        if kind in ln_kinds and not (equality or span or shape.kleene.intersection(positions)):
            mask = mask_of(positions)
            found += ln_kinds[kind] * (sets & mask == mask)
    whole = sets == (1 << shape.size) - 1
    factor = term.factor if term.whole is None else np.where(whole, term.whole, term.factor)
    return np.asarray(found + np.log(factor))


def ln_order_shares(shape: ClauseShape, sets: Array) -> Array:
    """ln of the share of the orderings of sets that the clause's temporal order allows (float64)."""
    ln_factorial = np.array([math.lgamma(count + 1) for count in range(shape.size + 1)])
    found = np.zeros(len(sets))
    for groups in shape.sequences:
        counts = [np.bitwise_count(sets & mask_of(group)).astype(np.int64) for group in groups]
        found += sum(ln_factorial[count] for count in counts) - ln_factorial[sum(counts)]
    return found


ADDRESSES = (
    *(codes.SET_MASKS, codes.CONSTANTS, codes.ASKED, codes.ENDS, codes.FIRSTS, codes.LASTS, codes.NUMBERS),
    *(codes.FACTOR_MASKS, codes.FACTOR_VALUES, codes.FACTOR_KINDS, codes.SUMS),
    *(codes.PROGRAM, codes.REGISTERS),
)
"""The argument words that are addresses in a program of `packed` words."""


class SetSums:
    """Sums over some sets of a clause, for one row of its numbers after another.

    Parameters
    ----------
    terms
        The terms of the clause's cost model.
    sets
        int64, shape (m,): the sets by their bits.

    Attributes
    ----------
    sums
        float64, shape (terms, sets), after a call.
    """

    def __init__(self, terms: CostTerms, sets: Array) -> None:
        shape = terms.shape
        self.terms, self.sets = terms, sets
        self._masks = np.array([mask_of(positions) for positions, *_ in shape.conditions], np.int64)
        self._kinds = np.array(
            [
                codes.EQUALITY if equal else SPAN if span else APART_KIND if kind in APART else codes.TESTED
                for _, equal, span, kind in shape.conditions
            ],
            np.int64,
        )
        firsts, lasts = _edges(shape, sets) if any(term.ends for term in terms.terms) else (sets, sets)
        self._words = np.zeros(codes.WORDS, np.int64)
        for word, number in (
            (codes.SETS, len(sets)),
            (codes.TERMS, len(terms.terms)),
            (codes.VARIABLES, shape.size),
            (codes.FACTORS, len(shape.conditions)),
            (codes.AGREEMENTS, shape.agreements),
            (codes.KLEENE, mask_of(shape.kleene)),
        ):
            self._words[word] = number
        self._arrays = (  # the kernel reads them by their addresses
            (codes.SET_MASKS, sets),
            (codes.CONSTANTS, terms.of_sets(sets)),
            (codes.ASKED, terms.asked),
            (codes.ENDS, terms.ends),
            (codes.FIRSTS, firsts),
            (codes.LASTS, lasts),
            (codes.FACTOR_MASKS, self._masks),
            (codes.FACTOR_KINDS, self._kinds),
            (codes.WITHIN, terms.late_within(sets)),
        )
        for word, array in self._arrays:
            self._words[word] = array.ctypes.data
        # One array: reading an address takes longer than most of the work done with it.
        numbers = 2 * shape.size + shape.agreements * shape.size**2 + len(shape.conditions)
        self._room = np.zeros(numbers + len(terms.terms) * len(sets))
        self._numbers, address = self._room[:numbers], self._room.ctypes.data
        self.sums = self._room[numbers:].reshape(len(terms.terms), -1)
        self._words[codes.NUMBERS], self._words[codes.SUMS] = address, address + 8 * numbers
        # The selectivities of the conditions are the last ones of the numbers.
        self._words[codes.FACTOR_VALUES] = address + 8 * (numbers - len(shape.conditions))
        self._address = self._words.ctypes.data
        self._joined: tuple[Array, ...] | None = None
        self._flat = Struct(f"{numbers}d")  # quicker than assigning a row of numbers to an array

    def __call__(self, numbers: ClauseNumbers) -> None:
        """Take the sums of these numbers."""
        self._flat.pack_into(self._numbers.data, 0, *numbers.flat)
        if numbers.joints or self._joined is not None:
            self._join(numbers.joints)
        self._words[codes.LAST] = numbers.last
        _measure.function(self._address)

    def packed(self, put: Callable[[Array], int]) -> Array:
        """The argument words with what `put` says of each array in place of its address, and no numbers yet."""
        words = self._words.copy()
        words[[codes.FACTORS, codes.LAST]] = len(self._masks), 0
        for word, array in (*self._arrays, (codes.NUMBERS, self._numbers), (codes.SUMS, self.sums)):
            words[word] = put(array)
        words[codes.FACTOR_VALUES] = words[codes.NUMBERS] + 8 * (len(self._numbers) - len(self._masks))
        return words

    def _join(self, joints: Sequence[JointCondition]) -> None:
        """Let the corrections for dependent conditions count beside the conditions."""
        masks, kinds = self._masks, self._kinds
        values = self._numbers[len(self._numbers) - len(masks) :]
        self._joined = joined_factors(joints, masks, kinds, values)
        words = (codes.FACTOR_MASKS, codes.FACTOR_KINDS, codes.FACTOR_VALUES)
        self._words[codes.FACTORS] = len(self._joined[0])
        for word, array in zip(words, self._joined, strict=True):
            self._words[word] = array.ctypes.data


def joined_factors(
    joints: Sequence[JointCondition], masks: Array, kinds: Array, values: Array
) -> tuple[Array, Array, Array]:
    """Masks, kinds and values of conditions, and of the corrections for those that depend on each other."""
    return (
        np.concatenate((masks, np.array([mask_of(one.positions) for one in joints], np.int64))),
        np.concatenate((kinds, np.array([_kind(one) for one in joints], np.int64))),
        np.concatenate((values, np.array([one.ln_ratio for one in joints], np.float64))),
    )


def _kind(joint: JointCondition) -> int:
    if joint.in_range:
        return RANGE
    return codes.EQUALITY if joint.equality else codes.JOINT


def _edges(shape: ClauseShape, sets: Array) -> tuple[Array, Array]:
    """Return for each set the variables before which none of it is ordered, and those after which none is."""
    after, before = [0] * shape.size, [0] * shape.size
    for groups in shape.sequences:
        for earlier, later in combinations(groups, 2):
            for one in earlier:
                after[one] |= mask_of(later)
            for other in later:
                before[other] |= mask_of(earlier)
    first, last = np.zeros_like(sets), np.zeros_like(sets)
    for place in range(shape.size):
        having = sets >> place & 1
        first |= (having & (sets & before[place] == 0)) << place
        last |= (having & (sets & after[place] == 0)) << place
    return first, last
