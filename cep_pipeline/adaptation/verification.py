"""Invariants on fresh statistics: by how much each holds, in the order in which they are verified.

`InvariantCheck.verifications` is the definition of a check. `InvariantCheck.checked` gives the same answers, to the
last bit, by programs that measure all sides at once. So does `compiled_check.CompiledCheck`, for plans that compiled
searches have found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from cep_pipeline.adaptation.invariants import Invariant, describe
from cep_pipeline.adaptation.lazy_sequence import LazySequence
from cep_pipeline.adaptation.side_programs import SidePrograms
from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.costs import CostModel, SetTerm, is_linear
from cep_pipeline.planning.numbers.clause_questions import ClauseQuestions
from cep_pipeline.planning.numbers.clause_statistics import ClauseShape, ClauseStatistics, mask_of
from cep_pipeline.planning.numbers.logarithms import format_ln, ln_sum
from cep_pipeline.planning.orderings import NOTHING, DecidingComparison, Side, grains, ln_steps, positions_of
from cep_pipeline.planning.search.sums import MOST_VARIABLES, CostTerms, LogTables, SumsOfSome, ln_add, log_tables
from cep_pipeline.planning.trees import PositionTree
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """An invariant on fresh statistics.

    Attributes
    ----------
    left, right
        Natural logarithms of f1, what was chosen, and f2, what it was chosen over.
    distance
        The minimal distance d that it was verified with.
    distance_to_violation
        ln((1 + d) f2 / f1): how far f1 may still grow beside f2; negative where it is violated, and 0 at a tie.
    violated
        Whether it no longer holds.
    """

    invariant: Invariant
    left: float
    right: float
    distance: float
    violated: bool

    @property
    def distance_to_violation(self) -> float:
        return self.right - self.left + math.log1p(self.distance)


def describe_verification(verification: Verification, patterns: Sequence[Pattern]) -> str:
    """The invariant, its two sides, and whether it holds."""
    left, right = format_ln(verification.left), format_ln(verification.right)
    distance = f"{1 + verification.distance:g} times " if verification.distance else ""
    if verification.violated:
        relation = "exceeds" if verification.left > verification.right else "is no longer below"
    else:
        relation = "does not exceed"
    return f"{describe(verification.invariant, patterns)}: {left} {relation} {distance}{right}"


def freeze(
    invariants: Iterable[Invariant], patterns: Sequence[Pattern], snapshot: StatisticsSnapshot
) -> tuple[Invariant, ...]:
    """The invariants with the costs of their sub-plans as constants, for `verify` with `frozen`.

    Parameters
    ----------
    snapshot
        The statistics that the plan was made from.

    Notes
    -----
    The patent represents "the cost of a subtree in an invariant as a constant whose value is initialized to the cost
    of that subtree during invariant creation". What is left of Cost(T) = Cost(L) + Cost(R) + Card(L, R) is the
    cardinality of the root, which both sides have in common: taken to the letter, no such invariant could ever be
    violated. So the constants stand one level lower: for what L and R cost below their own roots. Theorem 1 does
    not hold then: a change below the constants that both sides had in common counts on one side only.
    """
    known = tuple(invariants)
    frozen = []
    for invariant, of in InvariantCheck(known, patterns).measured(snapshot):
        one = invariant.comparison
        constants = of.ln_frozen_part(one.measure, one.chosen), of.ln_frozen_part(one.measure, one.rejected)
        frozen.append(replace(invariant, ln_frozen=constants))
    return tuple(frozen)


def verify(
    invariants: Sequence[Invariant],
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    *,
    distance: float | Mapping[str, float] = 0.0,
    frozen: bool = False,
) -> tuple[Verification, ...]:
    """Verify invariants on fresh statistics, all of them, in their order.

    Parameters
    ----------
    distance
        The minimal distance d, 0 or more; or that of each invariant by its key, 0 for those that are not there.
    frozen
        Take what sub-plans cost from when the plan was made (`freeze`), as the patent does; it breaks Theorem 1.

    Raises
    ------
    InputError
        A distance is negative; or `frozen` without frozen costs.
    PlanError
        The snapshot does not know a leaf, or there is no such pattern among the patterns.
    """
    return tuple(InvariantCheck(invariants, patterns).verifications(snapshot, distance=distance, frozen=frozen))


class Verifications(LazySequence[Verification]):
    """Verifications in their order: up to the first violation, or all.

    Parameters
    ----------
    invariants
        Those that were verified, in their order; there may be more.
    sides
        Natural logarithms of f1 and f2 of each, float64 of shape (n, 2).
    distances
        The minimal distance of each.
    violated
        Bool of shape (n,).
    """

    def __init__(self, invariants: Sequence[Invariant], sides: Array, distances: Sequence[float], violated: Array):
        self._invariants, self._sides, self._distances, self._violated = invariants, sides, distances, violated

    @classmethod
    def of(cls, found: Sequence[Verification]) -> Verifications:
        """Verifications that are made already."""
        sides = np.array([(one.left, one.right) for one in found], np.float64).reshape(-1, 2)
        distances, violated = [one.distance for one in found], np.array([one.violated for one in found], bool)
        return cls([one.invariant for one in found], sides, distances, violated)

    def __len__(self) -> int:
        return len(self._violated)

    def item(self, place: int) -> Verification:
        left, right = self._sides[place].tolist()
        return Verification(self._invariants[place], left, right, self._distances[place], bool(self._violated[place]))

    def __iter__(self) -> Iterator[Verification]:
        rows = zip(self._invariants, self._sides.tolist(), self._distances, self._violated.tolist(), strict=False)
        return (Verification(one, left, right, distance, violated) for one, (left, right), distance, violated in rows)

    def to_the_first_violation(self) -> Verifications:
        """The verifications up to the first violation, which is the last one; all of them where none is violated."""
        if not self.is_violated:
            return self
        end = int(self._violated.argmax()) + 1
        return Verifications(self._invariants, self._sides[:end], self._distances, self._violated[:end])

    @property
    def is_violated(self) -> bool:
        """True if one of the invariants is violated."""
        return bool(self._violated.any())

    @property
    def violated(self) -> tuple[Invariant, ...]:
        """The violated invariants."""
        return tuple(self._invariants[place] for place in np.flatnonzero(self._violated).tolist())

    @property
    def first_violated(self) -> Verification:
        """The first violation; there is one."""
        return self[int(np.flatnonzero(self._violated)[0])]


class InvariantCheck:
    """Invariants, and what is asked of snapshots to verify them: made once, for many checks.

    Parameters
    ----------
    invariants, patterns
        As in `verify`.
    questions
        Of patterns by their names, clause by clause, what snapshots are asked, where that is known.

    Raises
    ------
    PlanError
        An invariant is of no clause of the patterns.
    """

    def __init__(
        self,
        invariants: Sequence[Invariant],
        patterns: Sequence[Pattern],
        questions: Mapping[str, Sequence[ClauseQuestions]] | None = None,
    ) -> None:
        self._questions = questions or {}
        self._by_name = {pattern.name: pattern for pattern in patterns}
        self._groups: dict[tuple[str, int, str, float], _Group] = {}
        self._invariants = [(invariant, self._group(invariant)) for invariant in invariants]

    def verifications(
        self, snapshot: StatisticsSnapshot, *, distance: float | Mapping[str, float] = 0.0, frozen: bool = False
    ) -> Iterator[Verification]:
        """The verifications that `verify` returns, one after the other; a caller may stop at the first violation."""
        for invariant, of in self.measured(snapshot):
            one = invariant.comparison
            if frozen and not one.given:
                if invariant.ln_frozen is None:
                    raise InputError(f"{invariant.key}: the costs of its sub-plans were not frozen; freeze it first")
                left, right = (
                    of.with_frozen(one.measure, side, constant)
                    for (side, *_), constant in zip(one.sides, invariant.ln_frozen, strict=True)
                )
            else:
                left, right = (of.of(one.measure, *side) for side in one.sides)
            minimal = minimal_distance(invariant, distance)
            yield Verification(invariant, left, right, minimal, is_violated(one, left, right, minimal))

    def checked(
        self,
        snapshot: StatisticsSnapshot,
        *,
        distance: float | Mapping[str, float] = 0.0,
        frozen: bool = False,
        to_the_end: bool = False,
    ) -> Verifications:
        """Verify up to the first violation, or all.

        Raises
        ------
        InputError, PlanError
            As `verify`.
        """
        if not frozen and self._programs is not None:
            try:
                found = self._measured(self._programs, snapshot, distance)
            except PlanError:
                if to_the_end:
                    raise  # otherwise an invariant that is violated may come before what the snapshot does not know
            else:
                return found if to_the_end else found.to_the_first_violation()
        verified = self.verifications(snapshot, distance=distance, frozen=frozen)
        return Verifications.of([*(verified if to_the_end else _up_to_violation(verified))])

    def _measured(
        self, programs: SidePrograms, snapshot: StatisticsSnapshot, distance: float | Mapping[str, float]
    ) -> Verifications:
        sides = programs.measured(snapshot)
        if isinstance(distance, int | float):
            distances: Sequence[float] = [distance] * len(sides)
        else:
            distances = [minimal_distance(one, distance) for one, _ in self._invariants]
        different = set(distances)
        for one in different:
            check_distance(one)
        ln_distances = {one: math.log1p(one) for one in different}
        violated = programs.violated(sides, np.array([ln_distances[one] for one in distances], np.float64))
        return Verifications(self._listed, sides, distances, violated)

    @cached_property
    def _listed(self) -> tuple[Invariant, ...]:
        return tuple(invariant for invariant, _ in self._invariants)

    @cached_property
    def _programs(self) -> SidePrograms | None:
        """The programs that measure all sides; None where a cost is no sum of a clause's numbers."""
        groups = list(self._groups.values())
        clauses = [
            (group.questions, terms)
            for group in groups
            if (terms := CostTerms.of(group.questions.shape, group.cost)) is not None
        ]
        if len(clauses) < len(groups):
            return None
        place = {id(group): number for number, group in enumerate(groups)}
        return SidePrograms(clauses, [(place[id(group)], one.comparison) for one, group in self._invariants])

    def measured(self, snapshot: StatisticsSnapshot) -> Iterator[tuple[Invariant, Measures]]:
        """The invariants, each with what measures its sides."""
        measures: dict[int, Measures] = {}
        for invariant, group in self._invariants:
            if id(group) not in measures:
                measures[id(group)] = group.measures(snapshot)
            yield invariant, measures[id(group)]

    def _group(self, invariant: Invariant) -> _Group:
        of_what = invariant.pattern, invariant.clause, invariant.cost_model, invariant.alpha
        if of_what not in self._groups:
            pattern = self._by_name.get(invariant.pattern)
            if pattern is None or invariant.clause >= len(pattern.clauses):
                raise PlanError(
                    f"there is an invariant of clause {invariant.clause} of pattern {invariant.pattern!r}, which is "
                    f"not among the patterns {', '.join(self._by_name) or '(none)'}: plan them again"
                )
            known = self._questions.get(invariant.pattern)
            questions = (
                ClauseQuestions(pattern, pattern.clauses[invariant.clause], often=True)
                if known is None
                else known[invariant.clause]
            )
            self._groups[of_what] = _Group(questions, invariant.cost)
        self._groups[of_what].comparisons.append(invariant.comparison)
        return self._groups[of_what]


@dataclass(frozen=True, eq=False)
class _Group:
    """The comparisons of one clause by one cost model."""

    questions: ClauseQuestions
    cost: CostModel
    comparisons: list[DecidingComparison] = field(default_factory=list)

    def measures(self, snapshot: StatisticsSnapshot) -> Measures:
        """The measures of the comparisons' sides on a snapshot."""
        statistics = self.questions.statistics(snapshot)
        found = Measures(statistics, self.cost, None if self._sums is None else self._sums.tables(statistics))
        found.prepare(self.comparisons)
        return found

    @cached_property
    def _sums(self) -> SumsOfSome | None:
        """The sums of the sets in the comparisons of a large clause; None where those of all sets are taken."""
        return (
            None
            if self.questions.shape.size <= MOST_VARIABLES
            else sums_of(self.questions.shape, self.cost, self.comparisons)
        )


def sums_of(shape: ClauseShape, cost: CostModel, comparisons: Iterable[DecidingComparison]) -> SumsOfSome | None:
    """The sums of the sets in comparisons; None where the cost is no sum of a clause's numbers."""
    terms = CostTerms.of(shape, cost)
    if terms is None:
        return None
    sides = (side for one in comparisons for side in (one.chosen, one.rejected))
    return SumsOfSome(terms, {members for side in sides for members in _sets_of(side)})


def minimal_distance(invariant: Invariant, distance: float | Mapping[str, float]) -> float:
    """The minimal distance of one invariant, where all have the same or some have their own."""
    return distance if isinstance(distance, int | float) else distance.get(invariant.key, 0.0)


def _up_to_violation(verifications: Iterable[Verification]) -> Iterator[Verification]:
    for one in verifications:
        yield one
        if one.violated:
            return


def check_distance(distance: float) -> None:
    """Refuse what is no minimal distance.

    Raises
    ------
    InputError
        It is no finite number of 0 or more.
    """
    if not 0 <= distance < math.inf:
        raise InputError(f"the minimal distance of an invariant is a finite number, 0 or more, not {distance}")


def is_violated(comparison: DecidingComparison, left: float, right: float, distance: float = 0.0) -> bool:
    """True if f1 > (1 + d) f2, given ln f1 and ln f2; at d = 0 whether the planner would choose the other side.

    Raises
    ------
    InputError
        The distance is no number of 0 or more.
    """
    check_distance(distance)
    if distance == 0:
        return not comparison.holds(left, right)
    return grains(left) > grains(right + math.log1p(distance))


class Measures:
    """The measures of a clause's orders and trees, as `orderings.ln_measure`, on one set of statistics.

    Notes
    -----
    The chosen sides of a plan's comparisons are made of each other, and the rejected ones of much the same parts. So
    a check of k comparisons a block takes the cost of each join or step once, and a few sums a comparison.
    """

    def __init__(self, statistics: ClauseStatistics, cost: CostModel, tables: LogTables | None = None) -> None:
        self.statistics = statistics
        self._model = cost
        self._steps: dict[tuple[int, int], float] = {}
        self._orders: dict[tuple[int, ...], float] = {}
        self._trees: dict[PositionTree, float] = {}
        self._sets: dict[PositionTree, int] = {}
        self._tables = log_tables(cost, statistics) if tables is None else tables

    @cached_property
    def _cost(self) -> CostModel:
        return replace(self._model, node=_remembered(self._model.node))

    @cached_property
    def _bare(self) -> CostModel:
        """The cost without nodes."""
        return replace(self._cost, node=NOTHING)

    def prepare(self, comparisons: Sequence[DecidingComparison]) -> None:
        """Measure all sets, or steps, of these comparisons at once, by the very sums that planners take."""
        if self._tables is None and self.statistics.shape is not None:
            sums = sums_of(self.statistics.shape, self._model, comparisons)
            self._tables = None if sums is None else sums.tables(self.statistics)
        if self._tables is not None:
            return
        sides = [side for one in comparisons if one.measure == "step" for side in (one.chosen, one.rejected)]
        wanted = {_step_of(cast(tuple[int, ...], side)) for side in sides} - self._steps.keys()
        if not wanted:
            return
        steps = sorted(wanted)
        places = np.arange(self.statistics.size)
        earlier = np.array([[bound >> int(place) & 1 for place in places] for bound, _ in steps], dtype=bool)
        found = ln_steps(self._model, self.statistics, earlier, np.array([added for _, added in steps])).tolist()
        self._steps.update(zip(steps, found, strict=True))

    def of(self, measure: str, side: Side, given: Sequence[Side] = (), share: float = 0.0) -> float:
        """Natural logarithm of one side of a comparison, by a key of `orderings.MEASURES`; of what is given a share."""
        if given:
            beside = self._beside(measure, side, given)
            if not share:
                return beside
            return ln_sum((beside, *(math.log(share) + self._part(measure, part) for part in given)))
        if measure == "tree":
            return self._below(cast(PositionTree, side))
        order = cast(tuple[int, ...], side)
        if measure == "instances":
            return self.statistics.ln_instances[order[-1]]
        return self._step(order) if measure == "step" else self._before(order)

    def with_frozen(self, measure: str, side: Side, ln_constant: float) -> float:
        """The same where what `ln_frozen_part` covers is a constant."""
        if measure == "tree":
            left, right = cast("tuple[PositionTree, PositionTree]", side)
            roots = [self._node(part) for part in (left, right) if not isinstance(part, int)]
            return ln_sum((ln_constant, self._bare.ln_join(self.statistics, left, right), *roots))
        if measure == "cost":
            order = cast(tuple[int, ...], side)
            root = self._cost.node.one(self.statistics, order[:-1])
            return ln_sum((ln_constant, self._bare.ln_step(self.statistics, order), root))
        return self.of(measure, side)

    def ln_frozen_part(self, measure: str, side: Side) -> float:
        """ln of what the sub-plans of a side cost below their roots; minus infinity where it has none."""
        if measure == "tree":
            return ln_sum(self._below(part) for part in cast("tuple[PositionTree, PositionTree]", side))
        return self._before(cast(tuple[int, ...], side)[:-1]) if measure == "cost" else float("-inf")

    def _beside(self, measure: str, side: Side, given: Sequence[Side]) -> float:
        if measure == "tree":
            left, right = tree = cast("tuple[PositionTree, PositionTree]", side)
            return ln_sum((self._own(tree), self._joins(left, given), self._joins(right, given)))
        order, begin = cast(tuple[int, ...], side), len(positions_of(given[0]))
        steps = (self._step(order[:length]) for length in range(begin + 1, len(order)))
        return ln_sum((self._own_step(order), *steps))

    def _part(self, measure: str, part: Side) -> float:
        if measure == "cost":
            return self._order(cast(tuple[int, ...], part))
        return self._joins(cast(PositionTree, part))

    def _step(self, beginning: tuple[int, ...]) -> float:
        key = _step_of(beginning)
        if self._tables is not None:
            return self._tables.ln_step(*key)
        if key not in self._steps:
            self.prepare((DecidingComparison(0, "step", beginning, beginning, 0.0, 0.0),))
        return self._steps[key]

    def _before(self, beginning: tuple[int, ...]) -> float:
        return ln_add(self._own_step(beginning), self._order(beginning[:-1]))

    def _own_step(self, beginning: tuple[int, ...]) -> float:
        if self._tables is not None:
            return self._tables.ln_own_step(*_step_of(beginning))
        return self._bare.ln_step(self.statistics, beginning)

    def _order(self, order: tuple[int, ...]) -> float:
        if not order:
            return float("-inf")
        if order not in self._orders:
            if self._tables is not None:
                last = self._tables.ln_step(*_step_of(order))
            else:
                last = self._cost.ln_step(self.statistics, order)
            self._orders[order] = ln_add(last, self._order(order[:-1]))
        return self._orders[order]

    def _below(self, tree: PositionTree) -> float:
        if isinstance(tree, int):
            return float("-inf")
        left, right = tree
        return ln_add(ln_add(self._own(tree), self._joins(left)), self._joins(right))

    def _own(self, tree: tuple[PositionTree, PositionTree]) -> float:
        left, right = tree
        if self._tables is not None:
            return self._tables.ln_own(self._set(left), self._set(right), linear=is_linear(tree))
        return self._bare.ln_join(self.statistics, left, right)

    def _joins(self, tree: PositionTree, given: Sequence[Side] = ()) -> float:
        if isinstance(tree, int) or tree in given:
            return float("-inf")
        if given:
            left, right = tree
            own = ln_add(self._own(tree), self._node_of(tree))
            return ln_add(ln_add(own, self._joins(left, given)), self._joins(right, given))
        if tree not in self._trees:
            left, right = tree
            if self._tables is not None:
                own = self._tables.ln_join(self._set(left), self._set(right), linear=is_linear(tree))
            else:
                own = self._cost.ln_join(self.statistics, left, right)
            self._trees[tree] = ln_add(ln_add(own, self._joins(left)), self._joins(right))
        return self._trees[tree]

    def _set(self, tree: PositionTree) -> int:
        if isinstance(tree, int):
            return 1 << tree
        if tree not in self._sets:
            self._sets[tree] = self._set(tree[0]) | self._set(tree[1])
        return self._sets[tree]

    def _node_of(self, tree: PositionTree) -> float:
        return self._node(tree) if self._tables is None else self._tables.node[self._set(tree)]

    def _node(self, tree: PositionTree) -> float:
        return self._cost.node.one(self.statistics, _positions(tree))


def _step_of(beginning: tuple[int, ...]) -> tuple[int, int]:
    return mask_of(beginning[:-1]), beginning[-1]


def _sets_of(side: Side) -> Iterator[int]:
    """The sets that a beginning of an order, or a tree, is made of."""
    if isinstance(side, int):
        yield 1 << side
    elif len(side) == 2 and not all(isinstance(part, int) for part in side):
        for part in side:
            yield from _sets_of(part)
        yield mask_of(_positions(cast(PositionTree, side)))
    else:
        bound = 0
        for position in cast("tuple[int, ...]", side):
            yield 1 << position
            yield (bound := bound | 1 << position)


def _positions(tree: PositionTree) -> tuple[int, ...]:
    return (tree,) if isinstance(tree, int) else (*_positions(tree[0]), *_positions(tree[1]))


def _remembered(term: SetTerm) -> SetTerm:
    known: dict[int, float] = {}

    def one(statistics: ClauseStatistics, positions: Sequence[int]) -> float:
        members = mask_of(positions)
        if members not in known:
            known[members] = term.one(statistics, positions)
        return known[members]

    return replace(term, one=one)
