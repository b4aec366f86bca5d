"""The levels of a plan over a slice: views, ranges and tests, bound to the kernel's shapes stage by stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cep_pipeline.detection.fused.constraints import (
    Bound,
    LevelScope,
    PlannedClause,
    TestColumns,
    bounds_of,
    compile_conjunct,
    edge_slot,
    ends_by_level,
    other_event,
    row_slot,
    span_bounds,
    tightest,
)
from cep_pipeline.detection.fused.kernel import Arguments, Stage, run_stage, stage_of
from cep_pipeline.detection.fused.negation import LevelNegation
from cep_pipeline.detection.fused.programs import Level, Shape, Slot, Test, TestedConjunct
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.patterns.implications import compared
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Join, OrderOrTree
from cep_pipeline.slices.keys import Key, keyed_leaf
from cep_pipeline.slices.views import View
from cep_pipeline.statistics.node_counts import NodeCounts


@dataclass(frozen=True, slots=True)
class LevelCount:
    """The counts of one plan level.

    Attributes
    ----------
    bound
        The variables bound at it, in plan order.
    candidates, passes
        The tuples in its ranges, and those that passed all its conditions.
    evaluations
        Tests of one conjunct on one event or one of these tuples. An equality that sorted ranges fulfil is not tested.
    tested
        As `mechanism.NodeCounts` has it.
    """

    bound: tuple[str, ...]
    candidates: int
    passes: int
    evaluations: int = 0
    tested: tuple[Conjunct, ...] | None = None


def count_levels(pattern: Pattern, clause: Clause, counts: Sequence[LevelCount], counters: Counters) -> None:
    """Add the counts of a run of a clause."""
    for count in counts:
        counters.condition_evaluations += count.evaluations
        place = pattern.name, clause.index, count.bound
        counters.count(NodeCounts(*place, count.candidates, count.passes, 0, count.tested))


def level_counts(
    order: Sequence[str],
    counters: Array,
    tested: Sequence[Sequence[Conjunct]],
    decided: Sequence[bool],
    alone: Sequence[int],
) -> tuple[LevelCount, ...]:
    """The counts of each level of a run.

    Parameters
    ----------
    order
        The variables by level.
    counters
        int64, shape (levels, 2): candidates and passes.
    tested, decided
        For each level the conjuncts over several variables that were tested on its candidates, and whether these alone
        decided which passed.
    alone
        For each level the tests of a conjunct over its variable alone on an event.
    """
    found = []
    for level, (candidates, passes) in enumerate(counters.tolist()):
        tests = len(tested[level]) * candidates + alone[level]
        own = tuple(tested[level]) if decided[level] else None
        found.append(LevelCount(tuple(order[: level + 1]), candidates, passes, tests, own))
    return tuple(found)


class Levels:
    """The levels of one run: their views, bounds and tests.

    Parameters
    ----------
    leaves, negated
        The events of each level, and of each negated variable, in stream order.

    Attributes
    ----------
    tested
        For each level, the conjuncts over several positive variables that are tested on its candidates; its ranges
        fulfil the others.
    """

    def __init__(
        self,
        planned: PlannedClause,
        leaves: list[View],
        negated: Mapping[str, View],
    ) -> None:
        self.planned = planned
        self.events = planned.events
        self.leaves = leaves
        self.levels = {name: level for level, name in enumerate(planned.order)}
        self.keys = planned.keys
        self.level_keys = self._choose_keys()
        self.views = [
            leaf if key is None else self._keyed(level, key)
            for level, (leaf, key) in enumerate(zip(leaves, self.level_keys, strict=True))
        ]
        names = [variable.name for variable in planned.clause.positive]
        self.output_rows = [names.index(name) for name in planned.order]
        self._compile(negated)

    def _choose_keys(self) -> list[Key | None]:
        """The key of each level: the one that joins it with the most earlier levels."""
        chosen: list[Key | None] = [None] * len(self.leaves)
        for level, name in enumerate(self.planned.order):
            if level == 0:
                continue
            joined = [
                (sum(self.levels[other] < level for other in key.variables), key)
                for key in self.keys
                if name in key.variables
            ]
            most = max((members for members, _ in joined), default=0)
            if most:
                chosen[level] = next(key for members, key in joined if members == most)
        for key in chosen[1:]:  # sorted like the level that it first bounds, the outermost level needs no permutation
            if key is not None and self.planned.order[0] in key.variables:
                chosen[0] = key
                break
        return chosen

    def _keyed(self, level: int, key: Key) -> View:
        leaves = {name: self.leaves[place] for name, place in self.levels.items()}
        return keyed_leaf(self.events, key, self.planned.order[level], leaves)

    # -- from constraints to shapes ---------------------------------------------------------------------------------

    def run(self, block_rows: int, counters: Array) -> Iterator[Array]:
        """The matches block by block.

        Parameters
        ----------
        counters
            int64, shape (levels, 2): candidates and passes of all levels but the outermost are added.
        """
        if not all(map(len, self.views)):
            return
        if self.stage_ends:
            yield from self._extend(0, None, block_rows, counters)
            return
        for start in range(0, len(self.views[0]), block_rows):
            places = np.arange(start, min(start + block_rows, len(self.views[0])), dtype=np.int32)
            block = self._accepted(0, places[np.newaxis], counters)
            if block.shape[1]:
                yield self._as_rows(block)

    def _compile(self, negated: Mapping[str, View]) -> None:
        """Find bounds and tests of each level, and the levels at which partial matches must be asked for the rest."""
        self.columns = TestColumns()
        self.scope = LevelScope(self.events, self.levels, tuple(self.views), self.columns)
        self.lows: dict[tuple[int, int], Array] = {}
        self.highs: dict[tuple[int, int], Array] = {}
        tests: list[list[TestedConjunct]] = [[] for _ in self.views]
        residual: list[list[Conjunct]] = [[] for _ in self.views]
        self.tested: list[list[Conjunct]] = [[] for _ in self.views]
        narrowed = {max(self.levels[span.first], self.levels[span.second]) for span in self.planned.implied.narrowed}
        for level in range(1, len(self.views)):
            tests[level] += self._bound(level)
            tests[level] += self._distinct(level)
        self._other_tests = [len(level_tests) + (level in narrowed) for level, level_tests in enumerate(tests)]
        made_true = {conjunct for key in self.keys for conjunct in key.conjuncts if self._made_true(conjunct, key)}
        made_true |= self.planned.implied.spans.keys()
        for conjunct in self.planned.conjuncts:
            if len(conjunct.variables) < 2 or conjunct in made_true or not conjunct.variables <= self.levels.keys():
                continue
            level = max(self.levels[name] for name in conjunct.variables)
            self.tested[level].append(conjunct)
            compiled = compile_conjunct(conjunct, self.scope)
            if compiled is None:
                residual[level].append(conjunct)
            else:
                tests[level].append(compiled)
        for level in range(1, len(self.views)):
            for conjunct in self._following(level):
                compiled = compile_conjunct(conjunct, self.scope)
                if compiled is not None:
                    tests[level].append(compiled)
                    for later in range(level, len(self.views)):  # what passes there has passed this, too
                        self._other_tests[later] += 1
        self.negations: list[list[LevelNegation]] = [[] for _ in self.views]
        for name, leaf in negated.items():
            negation = LevelNegation(name, leaf, self.planned, self.leaves, self.views)
            self._other_tests[negation.level] += 1
            test = negation.as_test(self.columns)
            if test is not None:
                tests[negation.level].append(test)
            else:
                negation.prepare()
                self.negations[negation.level].append(negation)
        self.specs = tuple(
            Level(
                lows=tuple(i for j, i in self.lows if j == level),
                highs=tuple(i for j, i in self.highs if j == level),
                tests=tuple(level_tests),
            )
            for level, level_tests in enumerate(tests)
        )
        self.residual = residual
        self._stages: dict[tuple[int, int], Stage] = {}
        last = len(self.views) - 1
        asked = {level for level in range(1, last) if residual[level] or self.negations[level]}
        self.stage_ends = sorted(asked | {last}) if last else []

    @property
    def decided(self) -> list[bool]:
        """Return for each level True if only its `tested` conjuncts decide which candidates pass."""
        owned = len(self.views) - 1 if self.planned.first_owned is not None else None
        return [0 < level != owned and not others for level, others in enumerate(self._other_tests)]

    def _made_true(self, conjunct: Conjunct, key: Key) -> bool:
        """Return whether the later of the conjunct's levels is sorted by the key."""
        return self.level_keys[max(self.levels[name] for name in conjunct.variables)] is key

    def _bound(self, level: int) -> list[TestedConjunct]:
        """Ranges of the level, and tests for the bounds by levels that its key does not join."""
        planned, key = self.planned, self.level_keys[level]
        needed = self._bounds_of(level)
        members = range(level) if key is None else [i for i in range(level) if planned.order[i] in key.variables]
        ranges: Iterable[Bound] = needed
        if len(members) < level:
            # The key does not make the members agree with each other, so that each must hold its own group's range.
            ranges = (b for i in members for b in self._bounds_of(level, i))
        ranges = tuple(ranges)
        alike = {
            earlier: self.leaves[earlier] if key is None else self._keyed(earlier, key)
            for earlier in {bound.earlier for bound in ranges}
        }
        found = ends_by_level(self.events, ranges, self.views, alike, self.views[level])
        for every, own in zip((self.lows, self.highs), found, strict=True):
            every.update(((level, earlier), ends) for earlier, ends in own.items())
        return [self._clock_test(level, bound) for bound in needed if bound.earlier not in members]

    def _bounds_of(self, level: int, member: int | None = None) -> tuple[Bound, ...]:
        planned = self.planned
        members = range(level) if member is None else [member]
        found = bounds_of(planned.clause, planned.order, level, planned.pattern.ties, planned.reach, members)
        said = [span for spans in planned.implied.spans.values() for span in spans]
        if not said:
            return found
        return tightest((*found, *span_bounds((*said, *planned.implied.narrowed), planned.order, level, members)))

    def _following(self, level: int) -> list[Conjunct]:
        """The comparisons of the level that follow from conditions of which some are tested at later levels only."""
        planned = self.planned
        names = planned.order[: level + 1]
        follow = [
            conjunct
            for conjunct in planned.implied.comparisons
            if names[-1] in conjunct.variables and conjunct.variables <= set(names)
        ]
        if not follow:
            return []
        known = (conjunct for conjunct in planned.clause.conjuncts if conjunct.variables <= set(names))
        within = compared(known, names, planned.clause.agree_on).comparisons
        return [conjunct for conjunct in follow if conjunct not in within]

    def _clock_test(self, level: int, bound: Bound) -> TestedConjunct:
        """The bound as a test of row numbers; there are no partitions here, which a key would join."""
        edge = edge_slot(self.events, bound, self.views[bound.earlier], self.columns, bound.earlier)
        comparator = Comparator.GE if bound.low else Comparator.LT
        return ((Test(comparator, self._row_slot(level), edge),),)

    def _row_slot(self, level: int) -> Slot:
        return row_slot(self.events, self.views[level], self.columns, level)

    def _distinct(self, level: int) -> list[TestedConjunct]:
        """Tests that the level's event is none of the earlier ones, where it could be."""
        order = self.planned.order
        return [
            other_event(self.events, self.columns, (level, self.views[level]), (earlier, self.views[earlier]))
            for earlier in range(level)
            if self.planned.overlap(order[level], order[earlier])
        ]

    # -- stages -----------------------------------------------------------------------------------------------------

    def _extend(self, stage: int, prefix: Array | None, block_rows: int, counters: Array) -> Iterator[Array]:
        """Run up to the next level where partial matches must be asked, filter them, and extend what is left."""
        end = self.stage_ends[stage]
        final = stage == len(self.stage_ends) - 1
        for rows in self._run_stage(end, prefix, block_rows, counters):
            block = self._accepted(end, rows, counters)
            if not block.shape[1]:
                continue
            if not final:
                yield from self._extend(stage + 1, block, block_rows, counters)
            elif self.asks(end):
                yield self._as_rows(block)
            else:
                yield block

    def asks(self, level: int) -> bool:
        """Return whether partial matches must be asked at a level for what its tests do not decide."""
        return bool(self.residual[level] or self.negations[level])

    def _accepted(self, level: int, block: Array, counters: Array) -> Array:
        """The partial matches, as places, at which the level's residual conjuncts hold and that no event rejects."""
        if not self.asks(level):
            return block
        count = block.shape[1]
        for conjunct in self.residual[level]:
            bound = {}
            for name in conjunct.variables:
                place = self.levels[name]
                bound[name] = self.views[place].rows[block[place]]
            block = block[:, conjunct_holds(conjunct, self.events, bound)]
        for negation in self.negations[level]:
            block = block.take(np.flatnonzero(~negation.rejected(block)), axis=1)
        counters[level, 1] -= count - block.shape[1]
        return block

    def _as_rows(self, block: Array) -> Array:
        """Places in plan order as rows of the events in pattern order."""
        rows = np.empty_like(block)
        for level, place in enumerate(self.output_rows):
            rows[place] = self.views[level].rows.take(block[level])
        return rows

    def _stage(self, end: int, bound: int) -> Stage:
        """The stage that extends `bound` levels up to level `end`."""
        if (end, bound) not in self._stages:
            final = end == len(self.specs) - 1
            shape = Shape(
                levels=tuple(Level() if level < bound else spec for level, spec in enumerate(self.specs[: end + 1])),
                prefix=bound,
                slots=len(self.columns.arrays),
                constants=len(self.columns.constants),
                owned=final and self.planned.first_owned is not None,
                as_rows=final and not self.asks(end),
            )
            self._stages[end, bound] = stage_of(shape)
        return self._stages[end, bound]

    def _run_stage(self, end: int, prefix: Array | None, block_rows: int, counters: Array) -> Iterator[Array]:
        stage = self._stage(end, 1 if prefix is None else prefix.shape[0])
        views = self.views[: end + 1]
        arguments = Arguments(
            sizes=tuple(len(view) for view in views),
            rows=tuple(view.rows for view in views),
            lows=self.lows,
            highs=self.highs,
            columns=tuple(self.columns.arrays),
            constants=tuple(self.columns.constants),
            first_owned=self.planned.first_owned or 0,
        )
        output_rows = self.output_rows if stage.shape.as_rows else None
        return run_stage(stage, arguments, block_rows, counters, prefix, output_rows)


def order_of(plan: OrderOrTree | str) -> tuple[str, ...]:
    """The order in which the variables of a plan are bound: of a join, its side of several variables first.

    Examples
    --------
    >>> order_of(Join("c", Join("a", "b"))), order_of(Join(Join("a", "b"), Join("c", "d")))
    (('a', 'b', 'c'), ('a', 'b', 'c', 'd'))
    """
    if isinstance(plan, str):
        return (plan,)
    if not isinstance(plan, Join):
        return tuple(plan)
    single_first = isinstance(plan.left, str) and not isinstance(plan.right, str)
    first, second = (plan.right, plan.left) if single_first else (plan.left, plan.right)
    return (*order_of(first), *order_of(second))
