"""The levels of a plan over a slice: views, ranges and tests, bound to the kernel's shapes stage by stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.evaluate import conjunct_holds
from cep_pipeline.detection.fused.bounds import Bound, bounds_of, range_ends
from cep_pipeline.detection.fused.conditions import Columns, Scope, compile_conjunct
from cep_pipeline.detection.fused.kernel import Arguments, load_shape, run_shape
from cep_pipeline.detection.fused.keys import Key, keyed_leaf, keys_of
from cep_pipeline.detection.fused.routines import padded_copy
from cep_pipeline.detection.fused.shape import Level, Shape, Slot, Test, TestedConjunct
from cep_pipeline.detection.fused.views import View, row_values_of, rows_below
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Ties


@dataclass(frozen=True, eq=False)
class PlannedClause:
    """A clause, its variables in plan order, and the slice that it runs over.

    Attributes
    ----------
    first_owned
        A match must have an event in this row or after it. None: the views see to that.
    """

    pattern: Pattern
    clause: Clause
    order: tuple[str, ...]
    events: PreparedEvents
    first_owned: int | None = None

    @property
    def window_us(self) -> int:
        assert self.pattern.window.time_us is not None
        return self.pattern.window.time_us


class Levels:
    """The levels of one run: their views, bounds and tests."""

    def __init__(self, planned: PlannedClause, leaves: list[View]) -> None:
        self.planned = planned
        self.events = planned.events
        self.leaves = leaves
        self.levels = {name: level for level, name in enumerate(planned.order)}
        types = {**dict(planned.pattern.attributes), "timestamp": ValueType.INT64, "seq": ValueType.INT64}
        self.keys = keys_of(planned.clause, types)
        self.level_keys = self._choose_keys()
        self.views = [
            leaf if key is None else self._keyed(level, key)
            for level, (leaf, key) in enumerate(zip(leaves, self.level_keys, strict=True))
        ]
        names = [variable.name for variable in planned.clause.positive]
        self.output_rows = [names.index(name) for name in planned.order]
        stamps = self.events.timestamps
        self.span = int(stamps[-1]) - int(stamps[0]) if len(stamps) else 0
        self._compile()

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
        """The matches as rows, the variables in pattern order, block by block.

        Parameters
        ----------
        counters
            int64, shape (levels, 2): candidates and passes of all levels but the outermost are added.
        """
        if all(map(len, self.views)):
            yield from self._extend(0, None, block_rows, counters)

    def shapes(self) -> list[Shape]:
        """The shapes of all stages."""
        shapes = []
        bound = 1
        for end in self.stage_ends:
            shapes.append(self._shape(end, bound))
            bound = end + 1
        return shapes

    def load(self) -> None:
        """Have the code of all stages loaded, compiled if it has to be."""
        if all(map(len, self.views)):
            for shape in self.shapes():
                load_shape(shape)

    def _compile(self) -> None:
        """Find bounds and tests of each level, and the levels at which residual conjuncts must be asked."""
        self.columns = Columns()
        self.scope = Scope(self.events, self.levels, tuple(self.views), self.columns)
        self.lows: dict[tuple[int, int], Array] = {}
        self.highs: dict[tuple[int, int], Array] = {}
        tests: list[list[TestedConjunct]] = [[] for _ in self.views]
        residual: list[list[Conjunct]] = [[] for _ in self.views]
        for level in range(1, len(self.views)):
            tests[level] += self._bound(level)
            tests[level] += self._distinct(level)
        made_true = {conjunct for key in self.keys for conjunct in key.conjuncts if self._made_true(conjunct, key)}
        for conjunct in self.planned.clause.conjuncts:
            if len(conjunct.variables) < 2 or conjunct in made_true:
                continue
            level = max(self.levels[name] for name in conjunct.variables)
            compiled = compile_conjunct(conjunct, self.scope)
            if compiled is None:
                residual[level].append(conjunct)
            else:
                tests[level].append(compiled)
        self.specs = tuple(
            Level(
                lows=tuple(i for j, i in self.lows if j == level),
                highs=tuple(i for j, i in self.highs if j == level),
                tests=tuple(level_tests),
            )
            for level, level_tests in enumerate(tests)
        )
        self.residual = residual
        last = len(self.views) - 1
        self.stage_ends = sorted({level for level, conjuncts in enumerate(residual) if conjuncts} | {last})

    def _made_true(self, conjunct: Conjunct, key: Key) -> bool:
        """Whether the later of the conjunct's levels is sorted by the key."""
        return self.level_keys[max(self.levels[name] for name in conjunct.variables)] is key

    def _bound(self, level: int) -> list[TestedConjunct]:
        """Ranges of the level, and tests for the bounds by levels that its key does not join."""
        planned, key = self.planned, self.level_keys[level]
        window_us = min(planned.window_us, self.span)
        needed = bounds_of(planned.clause, planned.order, level, planned.pattern.ties, window_us)
        members = range(level) if key is None else [i for i in range(level) if planned.order[i] in key.variables]
        ranges: Iterable[Bound] = needed
        if len(members) < level:
            # The key does not make the members agree with each other, so that each must hold its own group's range.
            ranges = (
                b
                for i in members
                for b in bounds_of(planned.clause, planned.order, level, planned.pattern.ties, window_us, [i])
            )
        for bound in ranges:
            earlier = bound.earlier
            alike = self.leaves[earlier] if key is None else self._keyed(earlier, key)
            ends = range_ends(self.events, bound, self.views[earlier], alike, self.views[level])
            (self.lows if bound.low else self.highs)[level, earlier] = ends
        return [self._clock_test(level, bound) for bound in needed if bound.earlier not in members]

    def _clock_test(self, level: int, bound: Bound) -> TestedConjunct:
        """The bound as a test of row numbers: a timestamp's bound is a row, as rows are sorted by time."""
        earlier = self.views[bound.earlier]
        if bound.by_row:
            comparator = Comparator.GT if bound.low else Comparator.LT
            edge = self._row_slot(bound.earlier)
        else:
            comparator = Comparator.GE if bound.low else Comparator.LT
            below = rows_below(self.events, earlier, bound.delta)
            values = self.events.derive(
                ("rows below as floats", earlier.identity, bound.delta), lambda: padded_copy(below, np.float64)
            )
            edge = self.columns.slot(bound.earlier, ("rows below", bound.delta), values)
        return ((Test(comparator, self._row_slot(level), edge),),)

    def _row_slot(self, level: int) -> Slot:
        return self.columns.slot(level, ("row",), row_values_of(self.events, self.views[level]))

    def _distinct(self, level: int) -> list[TestedConjunct]:
        """Tests that the level's event is none of the earlier ones, where it could be."""
        planned = self.planned
        name = planned.order[level]
        tests: list[TestedConjunct] = []
        for earlier in range(level):
            other = planned.order[earlier]
            kinds = {planned.clause.by_name[name].event_type, planned.clause.by_name[other].event_type}
            overlap = len(kinds) == 1 or self.events.base_type in kinds
            ordered = (name, other) in planned.clause.precedence or (other, name) in planned.clause.precedence
            if overlap and not (ordered and planned.pattern.ties is not Ties.ANY):
                tests.append(((Test(Comparator.NE, self._row_slot(level), self._row_slot(earlier)),),))
        return tests

    # -- stages -----------------------------------------------------------------------------------------------------

    def _extend(self, stage: int, prefix: Array | None, block_rows: int, counters: Array) -> Iterator[Array]:
        """Run up to the next level with residual conjuncts, filter the partial matches, and extend what is left."""
        end = self.stage_ends[stage]
        final = stage == len(self.stage_ends) - 1
        for block in self._run_stage(end, prefix, block_rows, counters):
            kept = self._holding(self.residual[end], block, final=final)
            if kept is not None:
                counters[end, 1] -= block.shape[1] - len(kept)
                block = block[:, kept]
            if not block.shape[1]:
                continue
            if final:
                yield block
            else:
                yield from self._extend(stage + 1, block, block_rows, counters)

    def _holding(self, conjuncts: list[Conjunct], block: Array, *, final: bool) -> Array | None:
        """The columns of a block at which the conjuncts hold; None where there are none to ask."""
        if not conjuncts:
            return None
        kept = np.arange(block.shape[1])
        for conjunct in conjuncts:
            bound = {}
            for name in conjunct.variables:
                level = self.levels[name]
                bound[name] = (
                    block[self.output_rows[level], kept] if final else self.views[level].rows[block[level, kept]]
                )
            kept = kept[conjunct_holds(conjunct, self.events, bound)]
        return kept

    def _shape(self, end: int, bound: int) -> Shape:
        """The stage that extends `bound` levels up to level `end`."""
        final = end == len(self.specs) - 1
        tests_owned = final and self.planned.first_owned is not None
        owned_slot = self._row_slot(end).slot if tests_owned else None
        return Shape(
            levels=tuple(Level() if level < bound else spec for level, spec in enumerate(self.specs[: end + 1])),
            prefix=bound,
            slots=len(self.columns.arrays),
            constants=len(self.columns.constants),
            owned_slot=owned_slot,
            as_rows=final,
        )

    def _run_stage(self, end: int, prefix: Array | None, block_rows: int, counters: Array) -> Iterator[Array]:
        shape = self._shape(end, 1 if prefix is None else prefix.shape[0])
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
        output_rows = self.output_rows if shape.as_rows else None
        return run_shape(shape, arguments, block_rows, counters, prefix, output_rows)
