"""Run one clause: views, bounds and tests in plan order, then the kernel, stage by stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.blocks import MatchBlock
from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.evaluate import atom_holds, conjunct_holds
from cep_pipeline.detection.fused.bounds import Bound, bounds_of, range_ends
from cep_pipeline.detection.fused.conditions import Columns, Scope, compile_conjunct
from cep_pipeline.detection.fused.kernel import Arguments, load_shape, run_shape
from cep_pipeline.detection.fused.keys import Key, keyed_leaf, keys_of
from cep_pipeline.detection.fused.routines import padded_copy
from cep_pipeline.detection.fused.shape import Level, Shape, Slot, Test, TestedConjunct
from cep_pipeline.detection.fused.support import refuse_unsupported
from cep_pipeline.detection.fused.views import (
    View,
    leaf_view,
    row_values_of,
    rows_below,
    without_name,
)
from cep_pipeline.detection.prepared import Boundary, PreparedEvents
from cep_pipeline.errors import PlanError
from cep_pipeline.events.schema import ARROW_TYPES
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Ties

BLOCK_ROWS = 1 << 16
"""Matches a block, unless the caller wants another size."""


@dataclass(frozen=True, slots=True)
class LevelCount:
    """What one plan level did: the candidates in its ranges, and those that passed all its conditions."""

    variable: str
    candidates: int
    passes: int


def run_clause(
    pattern: Pattern,
    clause: Clause,
    order: Sequence[str],
    events: PreparedEvents,
    owned: tuple[Boundary | None, Boundary | None] = (None, None),
    *,
    block_rows: int = BLOCK_ROWS,
) -> ClauseRun:
    """All matches of a clause whose last event lies in a slice.

    Parameters
    ----------
    pattern, clause
        A pattern that `unsupported_feature` lets pass, and one of its clauses.
    order
        Names of the clause's positive variables in plan order.
    events
        The slice's own events, and those of at least the window before it.
    owned
        The slice [start, end): the matches whose last event in the stream's order lies in it. None: open.
    block_rows
        The largest number of matches in a block: memory does not grow beyond it with the number of matches.

    Returns
    -------
    ClauseRun
        Iterate over it once for the blocks; then its `counts` are complete.

    Raises
    ------
    UnsupportedPattern
        The pattern uses what this mechanism does not run.
    PlanError
        `order` is no order of the clause's positive variables.

    Notes
    -----
    The plan changes the cost only. Each step of the iteration takes bounded time, so that it can be interrupted.
    """
    refuse_unsupported(pattern)
    names = [variable.name for variable in clause.positive]
    if sorted(order) != sorted(names):
        raise PlanError(
            f"pattern {pattern.name!r}: the plan orders {', '.join(order)}, but clause {clause.index} binds "
            f"{', '.join(names)}: plan the pattern again"
        )
    if block_rows < 1:
        raise ValueError(f"a block has at least one row, not {block_rows}")
    return ClauseRun(pattern, clause, tuple(order), events, owned, block_rows)


def shapes_of(pattern: Pattern, clause: Clause, order: Sequence[str]) -> frozenset[Shape]:
    """The shapes that runs of a clause usually have, in the middle of a stream or not, to be compiled beforehand.

    Data that float64 does not hold exactly may give others, which are compiled where they are met.
    """
    if len(clause.positive) == 1:
        return frozenset()
    attributes = dict(pattern.attributes)
    fields = [("timestamp", pa.timestamp("us", tz="UTC")), ("seq", pa.int64())]
    fields += [(name, ARROW_TYPES[kind]) for name, kind in attributes.items()]
    nothing = PreparedEvents(
        pa.schema(fields).empty_table(), type_attribute=pattern.type_attribute, base_type=pattern.base_type
    )
    run = run_clause(pattern, clause, order, nothing)
    shapes: set[Shape] = set()
    for run.first_row in (0, 1):
        leaves = [leaf_view(nothing, clause.by_name[name].event_type, (), 0, 0) for name in order]
        shapes.update(_Plan(run, leaves).shapes())
    return frozenset(shapes)


class ClauseRun:
    """One run of a clause over a slice; see `run_clause`."""

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        order: tuple[str, ...],
        events: PreparedEvents,
        owned: tuple[Boundary | None, Boundary | None],
        block_rows: int,
    ) -> None:
        assert pattern.window.time_us is not None
        self.pattern, self.clause, self.order, self.events = pattern, clause, order, events
        self.window_us = pattern.window.time_us
        self.block_rows = block_rows
        self.first_row, self.end_row = 0, len(events)
        if owned[0] is not None:
            self.first_row = events.rows_before(owned[0])
        if owned[1] is not None:
            self.end_row = events.rows_before(owned[1])
        self._counters = np.zeros((len(order), 2), np.int64)
        self._leaves: list[View] | None = None
        self._plan: _Plan | None = None
        self._prepared = False

    @property
    def counts(self) -> tuple[LevelCount, ...]:
        """Counts of each plan level so far."""
        return tuple(
            LevelCount(variable, int(candidates), int(passes))
            for variable, (candidates, passes) in zip(self.order, self._counters, strict=True)
        )

    def prepare(self) -> None:
        """Do all that comes before the first match, as iterating does: split, views, ranges, columns and code."""
        if self._prepared:
            return
        self._prepared = True
        if self.first_row < self.end_row:
            self._leaves = self._leaf_views()
        if self._leaves is not None and len(self.order) > 1:
            self._plan = _Plan(self, self._leaves)
            self._plan.load()

    def __iter__(self) -> Iterator[MatchBlock]:
        self.prepare()
        self._counters[:] = 0
        if self._leaves is None:
            return
        self._counters[0] = len(self._leaves[0])
        if self._plan is None:
            yield from self._single(self._leaves[0])
            return
        for rows in self._plan.run():
            yield MatchBlock(self.clause, rows)

    def _single(self, view: View) -> Iterator[MatchBlock]:
        for start in range(0, len(view), self.block_rows):
            yield MatchBlock(self.clause, view.rows[np.newaxis, start : start + self.block_rows])

    def _leaf_views(self) -> list[View] | None:
        """The levels' views in stream order; None where one is empty, or a condition without variables fails."""
        events, clause = self.events, self.clause
        for conjunct in clause.conjuncts:
            if not conjunct.variables and not any(atom_holds(atom, events, {}).all() for atom in conjunct.atoms):
                return None
        events.split(variable.event_type for variable in clause.positive)
        look_back = 0
        if self.first_row:
            earliest = int(events.timestamps[self.first_row]) - self.window_us
            look_back = int(np.searchsorted(events.timestamps, max(earliest, -(2**63))))
        last = self.last_variable
        views = []
        for name in self.order:
            filters = tuple(without_name(c, name) for c in clause.conjuncts if c.variables == {name})
            first = self.first_row if name == last else look_back
            view = leaf_view(events, clause.by_name[name].event_type, filters, first, self.end_row)
            if not len(view):
                return None
            views.append(view)
        return views

    @property
    def last_variable(self) -> str | None:
        """The variable whose event is the last of every match in the stream's order, if the order says so."""
        for name in self.order:
            if all(other == name or (other, name) in self.clause.precedence for other in self.order):
                return name if len(self.order) == 1 or self.pattern.ties is not Ties.ANY else None
        return None


class _Plan:
    """The levels of one run: their views, bounds and tests."""

    def __init__(self, run: ClauseRun, leaves: list[View]) -> None:
        self.run_of = run
        self.events = run.events
        self.leaves = leaves
        self.levels = {name: level for level, name in enumerate(run.order)}
        types = {**dict(run.pattern.attributes), "timestamp": ValueType.INT64, "seq": ValueType.INT64}
        self.keys = keys_of(run.clause, types)
        self.level_keys = self._choose_keys()
        self.views = [
            leaf if key is None else self._keyed(level, key)
            for level, (leaf, key) in enumerate(zip(leaves, self.level_keys, strict=True))
        ]
        names = [variable.name for variable in run.clause.positive]
        self.output_rows = [names.index(name) for name in run.order]
        stamps = self.events.timestamps
        self.span = int(stamps[-1]) - int(stamps[0]) if len(stamps) else 0
        self._compile()

    def _choose_keys(self) -> list[Key | None]:
        """The key of each level: the one that joins it with the most earlier levels."""
        chosen: list[Key | None] = [None] * len(self.leaves)
        for level, name in enumerate(self.run_of.order):
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
            if key is not None and self.run_of.order[0] in key.variables:
                chosen[0] = key
                break
        return chosen

    def _keyed(self, level: int, key: Key) -> View:
        leaves = {name: self.leaves[place] for name, place in self.levels.items()}
        return keyed_leaf(self.events, key, self.run_of.order[level], leaves)

    # -- from constraints to shapes ---------------------------------------------------------------------------------

    def run(self) -> Iterator[Array]:
        """The matches as rows, the variables in pattern order, block by block."""
        if all(map(len, self.views)):
            yield from self._extend(0, None)

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
        for conjunct in self.run_of.clause.conjuncts:
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
        run, key = self.run_of, self.level_keys[level]
        window_us = min(run.window_us, self.span)
        needed = bounds_of(run.clause, run.order, level, run.pattern.ties, window_us)
        members = range(level) if key is None else [i for i in range(level) if run.order[i] in key.variables]
        ranges: Iterable[Bound] = needed
        if len(members) < level:
            # The key does not make the members agree with each other, so that each must hold its own group's range.
            ranges = (
                b for i in members for b in bounds_of(run.clause, run.order, level, run.pattern.ties, window_us, [i])
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
        run = self.run_of
        name = run.order[level]
        tests: list[TestedConjunct] = []
        for earlier in range(level):
            other = run.order[earlier]
            kinds = {run.clause.by_name[name].event_type, run.clause.by_name[other].event_type}
            overlap = len(kinds) == 1 or self.events.base_type in kinds
            ordered = (name, other) in run.clause.precedence or (other, name) in run.clause.precedence
            if overlap and not (ordered and run.pattern.ties is not Ties.ANY):
                tests.append(((Test(Comparator.NE, self._row_slot(level), self._row_slot(earlier)),),))
        return tests

    # -- stages -----------------------------------------------------------------------------------------------------

    def _extend(self, stage: int, prefix: Array | None) -> Iterator[Array]:
        """Run up to the next level with residual conjuncts, filter the partial matches, and extend what is left."""
        end = self.stage_ends[stage]
        final = stage == len(self.stage_ends) - 1
        for block in self._run_stage(end, prefix):
            kept = self._holding(self.residual[end], block, final=final)
            if kept is not None:
                self.run_of._counters[end, 1] -= block.shape[1] - len(kept)
                block = block[:, kept]
            if not block.shape[1]:
                continue
            if final:
                yield block
            else:
                yield from self._extend(stage + 1, block)

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
        run, final = self.run_of, end == len(self.specs) - 1
        tests_owned = final and run.first_row > 0 and run.last_variable is None
        owned_slot = self._row_slot(end).slot if tests_owned else None
        return Shape(
            levels=tuple(Level() if level < bound else spec for level, spec in enumerate(self.specs[: end + 1])),
            prefix=bound,
            slots=len(self.columns.arrays),
            constants=len(self.columns.constants),
            owned_slot=owned_slot,
            as_rows=final,
        )

    def _run_stage(self, end: int, prefix: Array | None) -> Iterator[Array]:
        run = self.run_of
        shape = self._shape(end, 1 if prefix is None else prefix.shape[0])
        views = self.views[: end + 1]
        arguments = Arguments(
            sizes=tuple(len(view) for view in views),
            rows=tuple(view.rows for view in views),
            lows=self.lows,
            highs=self.highs,
            columns=tuple(self.columns.arrays),
            constants=tuple(self.columns.constants),
            first_owned=run.first_row,
        )
        output_rows = self.output_rows if shape.as_rows else None
        return run_shape(shape, arguments, run.block_rows, run._counters, prefix, output_rows)
