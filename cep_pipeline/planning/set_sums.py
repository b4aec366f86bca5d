"""The costs of sets of a clause's variables as sums that are taken by compiled code.

ln PM(S) is a sum of logarithms: of the instances of the variables of S, of the selectivities of the conditions within
S, and of the share in order; and what cost models charge for S is made of such sums. Which numbers are in them follows
from the clause and the model alone. Whoever plans a clause again and again, or verifies the invariants of its plan,
writes that down once; then the numbers of a snapshot give the costs of all sets that are asked for in microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.planning import set_sums_codes as codes
from cep_pipeline.planning.cost_terms import MOST_VARIABLES, Array, CostTerms

if TYPE_CHECKING:
    from cep_pipeline.planning.clause_statistics import ClauseStatistics, JointCondition
    from cep_pipeline.planning.costs.model import CostModel

Made = TypeVar("Made")

MOST_BITS = 62
"""Sets are int64s."""
MOST_PROGRAMS = 64
"""What is made of a clause is kept, up to so many."""
_measure = NativeKernel(
    "cep_pipeline.planning.set_sums_kernel",
    "measure",
    ("int64*",),
    ("cep_pipeline.compiled.pointers", "cep_pipeline.planning.set_sums_codes"),
)


def load_kernel() -> None:
    """Load the compiled code, or compile it where that has not been done on this machine: it takes seconds."""
    _ = _measure.function


@dataclass(frozen=True, slots=True)
class ClauseNumbers:
    """The numbers of a clause on one snapshot.

    Attributes
    ----------
    flat
        ln instances of the variables, ln events of them, ln selectivities of agreements by position twice, and those of
        the conditions.
    joints, last
        As in `ClauseStatistics`.
    """

    flat: tuple[float, ...]
    joints: tuple[JointCondition, ...]
    last: int


@dataclass(frozen=True, eq=False)
class ClauseShape:
    """What does not change of a clause with its numbers.

    Attributes
    ----------
    conditions
        Of each condition its positions, and whether it asks to be equal.
    sequences, kleene
        As in `ClauseStatistics`.
    agreements
        Their number.
    """

    size: int
    conditions: tuple[tuple[tuple[int, ...], bool], ...]
    sequences: tuple[tuple[tuple[int, ...], ...], ...]
    kleene: frozenset[int]
    agreements: int
    _terms: dict[CostModel, CostTerms | None] = field(default_factory=dict, init=False, repr=False)
    _all_sets: dict[CostModel, SetSums] = field(default_factory=dict, init=False, repr=False)
    _programs: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, statistics: ClauseStatistics) -> ClauseShape:
        """That of a clause whose numbers are known."""
        conditions = tuple((one.positions, one.equality) for one in statistics.conditions)
        return cls(statistics.size, conditions, statistics.sequences, statistics.kleene, len(statistics.agreements))

    def terms(self, cost: CostModel) -> CostTerms | None:
        """The terms of a cost model; None for a clause that is too large for the kernel, and for a cost that is no sum
        of its numbers."""
        if cost not in self._terms:
            possible = self.size <= MOST_BITS and all(term is None or term.sum is not None for term in cost.terms)
            self._terms[cost] = CostTerms.of(self, cost) if possible else None
        return self._terms[cost]

    def all_sets(self, cost: CostModel) -> SetSums | None:
        """The sums of all sets, at the bits of each; None for a large clause, and for a cost that is no such sum."""
        terms = None if self.size > MOST_VARIABLES else self.terms(cost)
        if terms is None:
            return None
        if cost not in self._all_sets:
            self._all_sets[cost] = SetSums(Program(terms, np.arange(1 << self.size)))
        return self._all_sets[cost]

    def known(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made of the clause under this key: the plans of a stream come back."""
        if key not in self._programs:
            if len(self._programs) >= MOST_PROGRAMS:
                self._programs.clear()
            self._programs[key] = make()
        made: Made = self._programs[key]
        return made

    @cached_property
    def factors(self) -> tuple[Array, Array]:
        """Of each condition its positions as bits, and its kind, int64."""
        masks = [mask(positions) for positions, _ in self.conditions]
        kinds = [codes.EQUALITY if equal else codes.TESTED for _, equal in self.conditions]
        return np.array(masks, np.int64), np.array(kinds, np.int64)

    def ln_order_shares(self, sets: Array) -> Array:
        """ln of the share of the orderings of sets that the clause's temporal order allows (float64)."""
        ln_factorial = np.array([math.lgamma(count + 1) for count in range(self.size + 1)])
        found = np.zeros(len(sets))
        for groups in self.sequences:
            counts = [np.bitwise_count(sets & mask(group)).astype(np.int64) for group in groups]
            found += sum(ln_factorial[count] for count in counts) - ln_factorial[sum(counts)]
        return found

    def edges(self, sets: Array) -> tuple[Array, Array]:
        """Of each set the variables before which none of it is ordered, and those after which none is."""
        after, before = [0] * self.size, [0] * self.size
        for groups in self.sequences:
            for earlier, later in combinations(groups, 2):
                for one in earlier:
                    after[one] |= mask(later)
                for other in later:
                    before[other] |= mask(earlier)
        first, last = np.zeros_like(sets), np.zeros_like(sets)
        for place in range(self.size):
            having = sets >> place & 1
            first |= (having & (sets & before[place] == 0)) << place
            last |= (having & (sets & after[place] == 0)) << place
        return first, last

    @cached_property
    def ln_orders(self) -> list[float] | None:
        """`ln_order_shares` of all sets; None for a large clause."""
        return None if self.size > MOST_VARIABLES else self.ln_order_shares(np.arange(1 << self.size)).tolist()

    @cached_property
    def kleene_mask(self) -> int:
        """The Kleene variables as bits."""
        return mask(self.kleene)


def mask(positions: Sequence[int] | frozenset[int]) -> int:
    """The bits of positions."""
    found = 0
    for position in positions:
        found |= 1 << position
    return found


class Program:
    """Sums over some sets of a clause, and instructions what to make of them; it holds no numbers.

    Parameters
    ----------
    terms
        Of the clause and the cost model.
    sets
        int64, shape (m,): the sets by their bits.
    instructions
        int64, shape (instructions, COLUMNS): sets by their places in `sets`, and registers of earlier instructions.
    """

    def __init__(self, terms: CostTerms, sets: Array, instructions: Array | None = None) -> None:
        shape = terms.shape
        assert shape.size <= MOST_BITS
        self.terms, self.sets = terms, sets
        self.instructions = np.zeros((0, codes.COLUMNS), np.int64) if instructions is None else instructions
        self._constants = terms.of_sets(sets)
        self._edges = shape.edges(sets) if any(term.ends for term in terms.terms) else (sets, sets)
        self._used = np.arange(len(sets))
        self.words = np.zeros(codes.WORDS, np.int64)
        for word, number in (
            (codes.SETS, len(sets)),
            (codes.TERMS, len(terms.terms)),
            (codes.VARIABLES, shape.size),
            (codes.FACTORS, len(shape.conditions)),
            (codes.AGREEMENTS, shape.agreements),
            (codes.KLEENE, shape.kleene_mask),
            (codes.INSTRUCTIONS, len(self.instructions)),
            (codes.USED, len(sets)),
        ):
            self.words[word] = number
        masks, kinds = shape.factors
        for word, array in (
            (codes.SET_MASKS, sets),
            (codes.CONSTANTS, self._constants),
            (codes.ASKED, terms.asked),
            (codes.ENDS, terms.ends),
            (codes.FIRSTS, self._edges[0]),
            (codes.LASTS, self._edges[1]),
            (codes.FACTOR_MASKS, masks),
            (codes.FACTOR_KINDS, kinds),
            (codes.PROGRAM, self.instructions),
            (codes.USED_SETS, self._used),
        ):
            self.words[word] = array.ctypes.data


NO_SIDES = np.zeros((0, 3), np.int64)


class SetSums:
    """What a program makes of a clause's numbers.

    Parameters
    ----------
    sides
        int64, shape (comparisons, 3): two registers of the program, and whether the first of them wins ties.

    Attributes
    ----------
    sums
        float64, shape (terms, sets), after a call.
    registers
        float64, by the instructions of the program, after a call.
    address
        Where the words are.
    """

    def __init__(self, program: Program, sides: Array = NO_SIDES) -> None:
        shape = program.terms.shape
        self.program, self.sides = program, sides
        # One array: an address takes longer to tell than most of what is done with it.
        numbers = 2 * shape.size + shape.agreements * shape.size**2 + len(shape.conditions)
        parts = (
            (codes.NUMBERS, numbers),
            (codes.SUMS, len(program.terms.terms) * len(program.sets)),
            (codes.REGISTERS, len(program.instructions)),
            (codes.LN_DISTANCES, len(sides)),
        )
        self._room = np.zeros(sum(length for _, length in parts))
        self._words = program.words.copy()
        start, address = 0, self._room.ctypes.data
        found = []
        for word, length in parts:
            self._words[word] = address + 8 * start
            found.append(self._room[start : start + length])
            start += length
        self._numbers, sums, self.registers, self._ln_distances = found
        self._row = self._numbers.data
        self.sums = sums.reshape(len(program.terms.terms), -1)
        # The selectivities of the conditions are the last ones of the numbers.
        self._words[codes.FACTOR_VALUES] = address + 8 * (numbers - len(shape.conditions))
        self._words[codes.COMPARISONS] = len(sides)
        self._words[codes.SIDES] = sides.ctypes.data
        self.address = self._words.ctypes.data
        self._function = _measure.function
        self._joined: tuple[Array, ...] | None = None
        self._flat, self._last = Struct(f"{numbers}d"), -1  # arrays take longer to tell what a row of numbers is

    def __call__(self, numbers: ClauseNumbers) -> int:
        """Take the sums of these numbers; the place of the first comparison that is violated, or their number."""
        self.take(numbers)
        return self._function(self.address)

    def take(self, numbers: ClauseNumbers) -> None:
        """Take these numbers, for code that takes the sums itself."""
        self._flat.pack_into(self._row, 0, *numbers.flat)
        if numbers.joints or self._joined is not None:
            self._join(numbers.joints)
        if numbers.last != self._last:
            self._words[codes.LAST] = self._last = numbers.last

    def take_row(self, last: int) -> None:
        """Take no numbers, but for the last variable: other code writes them, and there are no joints."""
        if self._joined is not None:
            self._join(())
        if last != self._last:
            self._words[codes.LAST] = self._last = last

    def measure_against(self, ln_distances: Array | float) -> None:
        """Take these ln(1 + d) of the comparisons from now on."""
        self._ln_distances[:] = ln_distances

    def _join(self, joints: Sequence[JointCondition]) -> None:
        """Let joints count beside the conditions."""
        masks, kinds = self.program.terms.shape.factors
        values = self._numbers[len(self._numbers) - len(masks) :]
        self._joined = (
            np.concatenate((masks, np.array([mask(one.positions) for one in joints], np.int64))),
            np.concatenate((kinds, np.full(len(joints), codes.JOINT, np.int64))),
            np.concatenate((values, np.array([one.ln_ratio for one in joints], np.float64))),
        )
        words = (codes.FACTOR_MASKS, codes.FACTOR_KINDS, codes.FACTOR_VALUES)
        self._words[codes.FACTORS] = len(self._joined[0])
        for word, array in zip(words, self._joined, strict=True):
            self._words[word] = array.ctypes.data
