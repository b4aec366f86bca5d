"""The levels of a plan over a slice: views, ranges and tests, bound to the kernel's shapes stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cep_pipeline.detection.fused.constraints import (
    Bound,
    LevelScope,
    PlannedClause,
    TestColumns,
    bounds_of,
    compile_conjunct,
    edge_test,
    ends_by_level,
    other_event,
    span_bounds,
    tightest,
)
from cep_pipeline.detection.fused.kernel import Arguments, Stage, run_stage, stage_of
from cep_pipeline.detection.fused.negation import LevelNegation
from cep_pipeline.detection.fused.programs import Level, Shape, TestedConjunct
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.implications import compared
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Join, OrderOrTree
from cep_pipeline.slices.keys import Key, keyed_leaf
from cep_pipeline.slices.views import View, clause_cache_of
from cep_pipeline.statistics.observed import NodeCounts


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


@dataclass(frozen=True, eq=False)
class LevelRules:
    """The tests of a level's candidates, which are the same for every slice.

    Attributes
    ----------
    key
        The key by which its view is sorted: the one that joins it with the most earlier levels.
    ranges, edges
        The bounds that give its range, and those by levels that its key does not join, which are tested.
    distinct
        The earlier levels whose events could be its own.
    conjuncts
        Those over several positive variables that are tested on its candidates; its ranges fulfil the others.
    following
        The comparisons that follow from conditions of which some are tested at later levels only.
    narrowed
        Whether a bound follows from several conditions together.
    """

    key: Key | None
    ranges: tuple[Bound, ...]
    edges: tuple[Bound, ...]
    distinct: tuple[int, ...]
    conjuncts: tuple[Conjunct, ...]
    following: tuple[Conjunct, ...]
    narrowed: bool


def rules_of_levels(planned: PlannedClause) -> tuple[LevelRules, ...]:
    """The rules of each level of a plan, remembered with its clause."""
    key = "levels", planned.order, planned.pattern.ties, planned.reach, planned.pattern.window, planned.plain
    return clause_cache_of(planned.clause).once(key, lambda: tuple(_rules_of_levels(planned)))


def _rules_of_levels(planned: PlannedClause) -> Iterator[LevelRules]:
    order, clause, implied = planned.order, planned.clause, planned.implied
    keys = list(_keys_of_levels(planned))
    for level, name in enumerate(order):
        key, names = keys[level], set(order[: level + 1])
        own = [one for one in planned.conjuncts if len(one.variables) > 1 and name in one.variables <= names]
        conjuncts = [one for one in own if one not in implied.spans and (key is None or one not in key.conjuncts)]
        needed = _bounds_of(planned, level, range(level))
        members = range(level) if key is None else [i for i in range(level) if order[i] in key.variables]
        # A key that joins some only does not make them agree with each other: each must hold its own group's range.
        ranges = needed if len(members) == level else tuple(b for i in members for b in _bounds_of(planned, level, [i]))
        follow = [one for one in implied.comparisons if name in one.variables <= names]
        if follow:
            known = (conjunct for conjunct in clause.conjuncts if conjunct.variables <= names)
            within = compared(known, names, clause.agree_on).comparisons
            follow = [conjunct for conjunct in follow if conjunct not in within]
        yield LevelRules(
            key,
            ranges,
            tuple(bound for bound in needed if bound.earlier not in members),
            tuple(earlier for earlier in range(level) if planned.overlap(name, order[earlier])),
            tuple(conjuncts),
            tuple(follow),
            any(name in (span.first, span.second) and {span.first, span.second} <= names for span in implied.narrowed),
        )


def _keys_of_levels(planned: PlannedClause) -> Iterator[Key | None]:
    chosen: list[Key | None] = []
    for level, name in enumerate(planned.order):
        joined = [
            (sum(other in key.variables for other in planned.order[:level]), key)
            for key in planned.keys
            if name in key.variables
        ]
        most = max((members for members, _ in joined), default=0)
        chosen.append(next(key for members, key in joined if members == most) if most else None)
    # Sorted like the level that it first bounds, the outermost level needs no permutation.
    first = (key for key in chosen if key is not None and planned.order[0] in key.variables)
    return iter([next(first, None), *chosen[1:]])


def _bounds_of(planned: PlannedClause, level: int, members: Sequence[int]) -> tuple[Bound, ...]:
    """The bounds of a level by some earlier ones."""
    found = bounds_of(planned.clause, planned.order, level, planned.pattern.ties, planned.reach, members)
    said = [span for spans in planned.implied.spans.values() for span in spans]
    if not said:
        return found
    return tightest((*found, *span_bounds((*said, *planned.implied.narrowed), planned.order, level, members)))


class Levels:
    """The levels of one run: their views, bounds and tests.

    Parameters
    ----------
    leaves, negated
        The events of each level, and of each negated variable, in stream order.

    Attributes
    ----------
    rules
        What each level asks of its candidates.
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
        self.rules = rules_of_levels(planned)
        self.levels = {name: level for level, name in enumerate(planned.order)}
        self.views = [self._sorted(level, one.key) for level, one in enumerate(self.rules)]
        names = [variable.name for variable in planned.clause.positive]
        self.output_rows = [names.index(name) for name in planned.order]
        self._compile(negated)

    def _sorted(self, level: int, key: Key | None) -> View:
        """The events of a level sorted by a key, or in stream order."""
        if key is None:
            return self.leaves[level]
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
        scope = LevelScope(self.events, self.levels, tuple(self.views), self.columns)
        self.lows: dict[tuple[int, int], Array] = {}
        self.highs: dict[tuple[int, int], Array] = {}
        tests: list[list[TestedConjunct]] = [[] for _ in self.views]
        self.residual: list[list[Conjunct]] = [[] for _ in self.views]
        for level, rules in enumerate(self.rules):
            tests[level] += self._bound(level, rules)
            tests[level] += self._distinct(level, rules)
        self._other_tests = [len(own) + rules.narrowed for own, rules in zip(tests, self.rules, strict=True)]
        for level, rules in enumerate(self.rules):
            for conjunct in rules.conjuncts:
                compiled = compile_conjunct(conjunct, scope)
                if compiled is None:
                    self.residual[level].append(conjunct)
                else:
                    tests[level].append(compiled)
        for level, rules in enumerate(self.rules):
            for conjunct in rules.following:
                compiled = compile_conjunct(conjunct, scope)
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
        self._stages: dict[tuple[int, int], Stage] = {}
        last = len(self.views) - 1
        asked = {level for level in range(1, last) if self.residual[level] or self.negations[level]}
        self.stage_ends = sorted(asked | {last}) if last else []

    @property
    def tested(self) -> list[tuple[Conjunct, ...]]:
        """For each level, the conjuncts over several positive variables that are tested on its candidates."""
        return [rules.conjuncts for rules in self.rules]

    @property
    def decided(self) -> list[bool]:
        """Return for each level True if only its `tested` conjuncts decide which candidates pass."""
        owned = len(self.views) - 1 if self.planned.first_owned is not None else None
        return [0 < level != owned and not others for level, others in enumerate(self._other_tests)]

    def _bound(self, level: int, rules: LevelRules) -> list[TestedConjunct]:
        """Ranges of the level, and tests of row numbers for the bounds by levels that its key does not join."""
        alike = {earlier: self._sorted(earlier, rules.key) for earlier in {bound.earlier for bound in rules.ranges}}
        found = ends_by_level(self.events, rules.ranges, self.views, alike, self.views[level])
        for every, own in zip((self.lows, self.highs), found, strict=True):
            every.update(((level, earlier), ends) for earlier, ends in own.items())
        return [edge_test(self.events, bound, self.columns, level, self.views) for bound in rules.edges]

    def _distinct(self, level: int, rules: LevelRules) -> list[TestedConjunct]:
        """Tests that the level's event is none of the earlier ones, where it could be."""
        views = self.views
        return [
            other_event(self.events, self.columns, (level, views[level]), (earlier, views[earlier]))
            for earlier in rules.distinct
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
