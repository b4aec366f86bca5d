"""The costs of sets of a clause's variables as sums that are taken by compiled code.

ln PM(S) is a sum of logarithms: of the instances of the variables of S, of the selectivities of the conditions within
S, and of the share in order; and what cost models charge for S is made of such sums. Which numbers are in them follows
from the clause and the model alone. Whoever plans a clause again and again, or verifies the invariants of its plan,
writes that down once; then the numbers of a snapshot give the costs of all sets that are asked for in microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.planning import set_sums_codes as codes

if TYPE_CHECKING:
    from cep_pipeline.planning.clause_statistics import ClauseStatistics, JointCondition
    from cep_pipeline.planning.costs.model import CostModel
    from cep_pipeline.planning.trees import PositionTree

Array = np.ndarray[Any, Any]
Numbers: TypeAlias = "list[float] | dict[int, float]"
"""Those of sets, by their bits."""

MOST_VARIABLES = 8
"""The costs of all sets are known of clauses of up to so many variables: there are 2^n."""
MOST_BITS = 62
"""Sets are int64s."""
_measure = NativeKernel(
    "cep_pipeline.planning.set_sums_kernel",
    "measure",
    ("int64*",),
    ("cep_pipeline.compiled.pointers", "cep_pipeline.planning.set_sums_codes"),
)


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
    _all_sets: dict[CostModel, SetSums | None] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, statistics: ClauseStatistics) -> ClauseShape:
        """That of a clause whose numbers are known."""
        conditions = tuple((one.positions, one.equality) for one in statistics.conditions)
        return cls(statistics.size, conditions, statistics.sequences, statistics.kleene, len(statistics.agreements))

    def all_sets(self, cost: CostModel) -> SetSums | None:
        """The sums of all sets, at the bits of each; None for a large clause, and for a cost that is no such sum."""
        if self.size > MOST_VARIABLES:
            return None
        if cost not in self._all_sets:
            found = SetSums(self, cost, np.arange(1 << self.size)) if is_sum(cost) else None
            self._all_sets[cost] = found
        return self._all_sets[cost]

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


def is_sum(cost: CostModel) -> bool:
    """Whether the terms of a cost model are sums of a clause's numbers."""
    return all(term is None or term.sum is not None for term in cost.terms)


@dataclass(frozen=True, eq=False)
class Program:
    """What is made of the sums: instructions, whose registers are the sides of comparisons.

    Attributes
    ----------
    instructions
        int64, shape (instructions, COLUMNS): sets by their places in `sets`, and registers of earlier instructions.
    sides
        int64, shape (comparisons, 3): two registers, and whether the first of them wins ties.
    """

    instructions: Array
    sides: Array


NOTHING_MORE = Program(np.zeros((0, codes.COLUMNS), np.int64), np.zeros((0, 3), np.int64))


class SetSums:
    """What a cost model charges for some sets of a clause, and what comparisons make of that.

    Parameters
    ----------
    shape, cost
        The clause, and a cost that is a sum.
    sets
        int64, shape (m,): the sets by their bits.
    program
        What is compared.

    Attributes
    ----------
    sums
        float64, shape (terms, m), after a call.
    registers
        float64, by the instructions of the program, after a call.
    sides
        Those of the program.
    """

    def __init__(self, shape: ClauseShape, cost: CostModel, sets: Array, program: Program = NOTHING_MORE) -> None:
        assert shape.size <= MOST_BITS
        self.shape, self.cost = shape, cost
        terms = [term.sum() for term in cost.terms if term is not None and term.sum is not None]
        places = iter(range(len(terms)))
        self.rows = [-1 if term is None else next(places) for term in cost.terms]
        if cost.waits:
            last = terms[self.rows[codes.DELAY]]
            terms[self.rows[codes.DELAY]] = replace(last, factor=last.factor * cost.alpha)
        size, everything = shape.size, (1 << shape.size) - 1
        self._constants = np.stack([_constants(shape, term, sets) for term in terms])
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
        self._asked = np.concatenate((np.array(asked, np.int64).reshape(-1), np.array(self.rows, np.int64)))
        self._ends = np.array([0.0 if term.ends is None else math.log(term.ends) for term in terms])
        self._firsts, self._lasts = shape.edges(sets) if any(term.ends for term in terms) else (sets, sets)
        self._sets, self._program = sets, program
        self.sides = program.sides
        self._numbers = np.zeros(2 * size + len(shape.conditions) + shape.agreements * size * size)
        masks = [mask(positions) for positions, _ in shape.conditions]
        self._masks = np.array(masks, np.int64)
        self._kinds = np.array([codes.EQUALITY if equal else codes.TESTED for _, equal in shape.conditions], np.int64)
        self.sums = np.zeros((len(terms), len(sets)))
        self.registers = np.zeros(len(program.instructions))
        self._ln_distances = np.zeros(len(program.sides))
        self._words = np.zeros(codes.WORDS, np.int64)
        for word, number in (
            (codes.SETS, len(sets)),
            (codes.TERMS, len(terms)),
            (codes.VARIABLES, size),
            (codes.AGREEMENTS, shape.agreements),
            (codes.KLEENE, shape.kleene_mask),
            (codes.INSTRUCTIONS, len(program.instructions)),
            (codes.COMPARISONS, len(program.sides)),
        ):
            self._words[word] = number
        for word, array in (
            (codes.SET_MASKS, sets),
            (codes.CONSTANTS, self._constants),
            (codes.ASKED, self._asked),
            (codes.ENDS, self._ends),
            (codes.FIRSTS, self._firsts),
            (codes.LASTS, self._lasts),
            (codes.NUMBERS, self._numbers),
            (codes.SUMS, self.sums),
            (codes.PROGRAM, program.instructions),
            (codes.REGISTERS, self.registers),
            (codes.SIDES, program.sides),
            (codes.LN_DISTANCES, self._ln_distances),
        ):
            self._words[word] = array.ctypes.data
        self._take_factors(())
        self._address = self._words.ctypes.data
        self._function = _measure.function

    def __call__(self, numbers: ClauseNumbers) -> int:
        """Take the sums of these numbers; the place of the first comparison that is violated, or their number."""
        self._numbers[:] = numbers.flat
        if numbers.joints or self._joints:
            self._take_factors(numbers.joints)
        conditions = len(self._masks)
        if conditions:
            self._values[:conditions] = self._numbers[-conditions:]
        self._words[codes.LAST] = numbers.last
        return self._function(self._address)

    def measure_against(self, ln_distances: Array | float) -> None:
        """Take these ln(1 + d) of the comparisons from now on."""
        self._ln_distances[:] = ln_distances

    def _take_factors(self, joints: Sequence[JointCondition]) -> None:
        self._joints = len(joints)
        masks = [mask(one.positions) for one in joints]
        self._factor_masks = np.concatenate((self._masks, np.array(masks, np.int64)))
        self._factor_kinds = np.concatenate((self._kinds, np.full(len(masks), codes.JOINT, np.int64)))
        values = [one.ln_ratio for one in joints]
        self._values = np.concatenate((np.zeros(len(self._masks)), np.array(values, np.float64)))
        self._words[codes.FACTORS] = len(self._values)
        self._words[codes.FACTOR_MASKS] = self._factor_masks.ctypes.data
        self._words[codes.FACTOR_KINDS] = self._factor_kinds.ctypes.data
        self._words[codes.FACTOR_VALUES] = self._values.ctypes.data


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


@dataclass(frozen=True, slots=True, eq=False)
class SetTables:
    """What a cost model charges for the sets of a clause: `SetCosts` by its logarithms, at the bits of each set.

    `delay` has the weight of latency in it; `last` is the variable after which that counts.
    """

    node: Numbers
    pair: Numbers | None
    product: Numbers | None
    held: Numbers | None = None
    delay: Numbers | None = None
    last: int = 0

    def ln_own(self, left: int, right: int, *, linear: bool) -> float:
        """ln of what joining two sets as sides of a tree costs beside the node of both."""
        found = self._ln_tests(left, right)
        if self.held is not None and not linear:
            found = ln_add(ln_add(found, self.held[left]), self.held[right])
        if self.delay is not None:
            if left >> self.last & 1:
                return ln_add(found, self.delay[right])
            if right >> self.last & 1:
                return ln_add(found, self.delay[left])
        return found

    def ln_join(self, left: int, right: int, *, linear: bool) -> float:
        """ln of what joining two sets as sides of a tree costs."""
        return ln_add(self.node[left | right], self.ln_own(left, right, linear=linear))

    def ln_own_step(self, bound: int, position: int) -> float:
        """ln of what a step, that binds a variable after those of a set, costs beside the node of all of them."""
        if not bound:
            return -math.inf
        found = self._ln_tests(bound, 1 << position)
        if self.delay is not None and bound >> self.last & 1:
            return ln_add(found, self.delay[1 << position])
        return found

    def ln_step(self, bound: int, position: int) -> float:
        """ln of what such a step costs."""
        return ln_add(self.node[bound | 1 << position], self.ln_own_step(bound, position))

    def ln_nodes(self, tree: PositionTree) -> list[float]:
        """ln of what each leaf and each join of a tree costs."""
        found: list[float] = []
        self._gather(tree, found)
        return found

    def _ln_tests(self, left: int, right: int) -> float:
        if self.pair is None:
            return -math.inf
        both = 0.0 if self.product is None else self.product[left] + self.product[right]
        return self.pair[left | right] + both

    def _gather(self, tree: PositionTree, into: list[float]) -> tuple[int, bool]:
        """The set of a tree, and whether it is linear."""
        if isinstance(tree, int):
            into.append(self.node[1 << tree])
            return 1 << tree, True
        (left, left_linear), (right, right_linear) = self._gather(tree[0], into), self._gather(tree[1], into)
        alone = isinstance(tree[0], int) or isinstance(tree[1], int)
        linear = alone and left_linear and right_linear
        into.append(self.ln_join(left, right, linear=linear))
        return left | right, linear


def ln_add(one: float, other: float) -> float:
    """ln of the sum of two numbers by their logarithms.

    Examples
    --------
    >>> round(ln_add(math.log(2), math.log(3)), 12) == round(math.log(5), 12), ln_add(-math.inf, 1.0)
    (True, 1.0)
    """
    if one < other:
        one, other = other, one
    return one + math.log1p(math.exp(other - one)) if other > -math.inf else one


def set_arrays(cost: CostModel, statistics: ClauseStatistics) -> list[Array | None] | None:
    """The terms of a cost model for all sets of a clause, float64 of shape (2^n,) each, as `CostModel.terms` has them;
    None where they are not known as sums."""
    sums = None if statistics.shape is None else statistics.shape.all_sets(cost)
    if sums is None:
        return None
    sums(statistics.numbers)
    return [None if row < 0 else sums.sums[row].copy() for row in sums.rows]


def set_tables(cost: CostModel, statistics: ClauseStatistics) -> SetTables | None:
    """The costs of all sets of a clause; None where they are not known as sums."""
    if statistics.shape is None:
        return None
    if cost not in statistics.tables:
        arrays = set_arrays(cost, statistics)
        tables = None
        if arrays is not None:
            node, pair, product, held, delay = (None if array is None else array.tolist() for array in arrays)
            assert node is not None
            tables = SetTables(node, pair, product, held, delay, statistics.last_variable)
        statistics.tables[cost] = tables
    return statistics.tables[cost]


def tables_of_some(cost: CostModel, statistics: ClauseStatistics, sets: Iterable[int]) -> SetTables | None:
    """The costs of some sets of a clause of any size, the empty one among them; None as `set_tables`."""
    shape, asked = statistics.shape, sorted({0, *sets})
    if shape is None or shape.size > MOST_BITS or not is_sum(cost):
        return None
    sums = SetSums(shape, cost, np.array(asked, np.int64))
    sums(statistics.numbers)
    node, pair, product, held, delay = (
        None if row < 0 else dict(zip(asked, sums.sums[row].tolist(), strict=True)) for row in sums.rows
    )
    assert node is not None
    return SetTables(node, pair, product, held, delay, statistics.last_variable)
