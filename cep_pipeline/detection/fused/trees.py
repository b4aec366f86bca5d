"""Tree plans on the kernel: a bushy node joins the partial matches of its two sides (JQPG section 4.2).

Where one side of every node is a variable, a tree runs as an order, which stores no partial match. Elsewhere the right
side is materialized as a pseudo-type, whose events are its partial matches: each has a first and a last event. They are
sorted by the last one, so that window, order and agreement become an index range for each partial match of the left
side, as they do for events; what a range cannot say is tested by the same generated code. The left side is streamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from cep_pipeline.detection.fused.clause import BLOCK_ROWS, KernelRun
from cep_pipeline.detection.fused.constraints import LevelScope, TestColumns, compile_conjunct, tested_conjuncts
from cep_pipeline.detection.fused.kernel import Arguments, run_stage, stage_of
from cep_pipeline.detection.fused.levels import LevelCount, order_of
from cep_pipeline.detection.fused.shape import Level, Shape, Test, TestedConjunct
from cep_pipeline.detection.kleene.bindings import BindingRules, clause_over
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Join, OrderOrTree, leaves_of
from cep_pipeline.slices.blocks import MatchBlock
from cep_pipeline.slices.order import may_be_one
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from cep_pipeline.slices.routines import padded_copy
from cep_pipeline.slices.views import View, may_match

STREAMED, HELD = 0, 1
"""The sides of a node."""


@dataclass(frozen=True, eq=False)
class PartialMatches:
    """Partial matches that bind the same variables, as the events of a pseudo-type.

    Attributes
    ----------
    names
        The variables.
    rows
        int32, shape (variables, n): the event of each.
    identity
        Tells the views of these partial matches from others'.
    """

    names: tuple[str, ...]
    rows: Array
    identity: object = field(default_factory=object)

    @classmethod
    def of(cls, names: tuple[str, ...], blocks: Iterable[MatchBlock]) -> PartialMatches:
        """Unite the partial matches of all blocks, by variables in pattern order."""
        rows = [np.empty((len(names), 0), np.int32), *(block.rows for block in blocks)]
        return cls(names, np.concatenate(rows, axis=1))

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    @cached_property
    def first(self) -> Array:
        """The first row of each, shape (n,)."""
        return np.asarray(self.rows.min(axis=0))

    @cached_property
    def last(self) -> Array:
        """The last row of each, shape (n,)."""
        return np.asarray(self.rows.max(axis=0))

    def take(self, places: Array) -> PartialMatches:
        """The partial matches at some places."""
        return PartialMatches(self.names, np.ascontiguousarray(self.rows[:, places]))

    def view(self, name: str) -> View:
        """A variable's events, one for each partial match."""
        rows = self.rows[self.names.index(name)]
        return View((self.identity, name), rows, np.array([0, len(rows)], np.int64))

    @cached_property
    def views(self) -> dict[str, View]:
        """The views of all variables."""
        return {name: self.view(name) for name in self.names}


class TreeRun:
    """One run of a bushy tree over a slice: iterate over it once for blocks of the clause's matches.

    It yields every match whose events lie in the slice or the look-back before it; neither ownership nor negated
    variables are its concern.

    Parameters
    ----------
    clause
        A clause over the tree's variables, none of them Kleene.
    owned
        Where the events are to be read, as `KernelRun` takes it.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        tree: Join,
        events: PreparedEvents,
        owned: tuple[Boundary | None, Boundary | None],
    ) -> None:
        self.pattern, self.clause, self.tree, self.events = pattern, clause, tree, events
        self.order = tree.leaves
        self.rules = BindingRules(pattern, clause, events)
        # A variable is the smaller side to hold.
        streamed, held = (tree.right, tree.left) if isinstance(tree.left, str) else (tree.left, tree.right)
        self._sides = [
            start_run(pattern, clause_over(clause, leaves_of(side)), side, events, owned) for side in (streamed, held)
        ]
        self._counters = np.zeros((2, 2), np.int64)
        self._held = 0
        self._other_tests = False
        names = [set(leaves_of(side)) for side in (streamed, held)]
        self._conjuncts = [c for c in tested_conjuncts(clause) if not any(c.variables <= side for side in names)]

    @property
    def counts(self) -> tuple[LevelCount, ...]:
        """Counts of each node, once the run is over: those below the left side, below the right one, and this one."""
        streamed, held = (list(side.counts) for side in self._sides)
        root = held[-1]
        held[-1] = replace(root, created=self._held)
        candidates, passes = self._counters[1].tolist()
        tested = tuple(self._conjuncts)
        joined = LevelCount(
            self.order,
            candidates,
            passes,
            len(tested) * candidates,
            tested=None if self._other_tests else tested,
        )
        return (*streamed, *held, joined)

    def __iter__(self) -> Iterator[MatchBlock]:
        if not may_match(self.pattern, self.clause, self.events):
            return
        right = self._sorted(PartialMatches.of(_names(self._sides[HELD].clause), self._sides[HELD]))
        self._held = len(right.matches)
        if not self._held:
            return
        for block in self._sides[STREAMED]:
            left = PartialMatches(_names(block.clause), block.rows)
            for rows in self._joined(left, right):
                yield MatchBlock(self.clause, rows)

    def _sorted(self, matches: PartialMatches) -> _Sorted:
        """Sorted by what all events agree on, and then by the last event; what agrees with nothing goes."""
        codes = self._codes(matches)
        present = np.flatnonzero(codes >= 0)
        order = present[np.lexsort((matches.last[present], codes[present]))]
        matches = matches.take(order)
        return _Sorted(matches, self._keys(codes[order], matches.last))

    def _codes(self, matches: PartialMatches) -> Array:
        if self.rules.agreement is None:
            return np.zeros(len(matches), np.int64)
        codes: Array = self.rules.agreement[matches.rows[0]].astype(np.int64)
        return codes

    def _keys(self, codes: Array, rows: Array) -> Array:
        """int64: ascending by code, then by row."""
        return np.asarray(codes * (len(self.events) + 1) + rows)

    def _joined(self, left: PartialMatches, right: _Sorted) -> Iterator[Array]:
        """Rows of the matches, the variables in pattern order."""
        with self.events.forgetting():  # what is derived for one block serves no other
            shape, arguments, residual = self._compiled(left, right)
        names = _names(self.clause)
        for places in run_stage(stage_of(shape), arguments, BLOCK_ROWS, self._counters):
            rows = np.empty((len(names), places.shape[1]), np.int32)
            for side, at in ((left, places[0]), (right.matches, places[1])):
                for name, events in zip(side.names, side.rows, strict=True):
                    rows[names.index(name)] = events[at]
            for conjunct in residual:
                bound = {name: rows[names.index(name)] for name in conjunct.variables}
                rows = rows[:, conjunct_holds(conjunct, self.events, bound)]
            self._counters[1, 1] -= places.shape[1] - rows.shape[1]
            if rows.shape[1]:
                yield rows

    def _compiled(self, left: PartialMatches, right: _Sorted) -> tuple[Shape, Arguments, list[Conjunct]]:
        columns = TestColumns()
        lows, highs, tests = self._bounds(left, right, columns)
        self._other_tests = self._other_tests or bool(tests)
        levels = {**dict.fromkeys(left.names, 0), **dict.fromkeys(right.matches.names, 1)}
        views = (*left.views.values(), *right.matches.views.values())
        scope = LevelScope(self.events, levels, views, columns)
        residual = []
        for conjunct in self._conjuncts:
            compiled = compile_conjunct(conjunct, scope)
            if compiled is None:
                residual.append(conjunct)
            else:
                tests.append(compiled)
        shape = Shape(
            levels=(Level(), Level((0,), (0,), tuple(tests))),
            prefix=1,
            slots=len(columns.arrays),
            constants=len(columns.constants),
            owned=False,
            as_rows=False,
        )
        arguments = Arguments(
            sizes=(len(left), len(right.matches)),
            rows=(left.last, right.matches.last),
            lows={(1, 0): lows},
            highs={(1, 0): highs},
            columns=tuple(columns.arrays),
            constants=tuple(columns.constants),
        )
        return shape, arguments, residual

    def _bounds(
        self, left: PartialMatches, right: _Sorted, columns: TestColumns
    ) -> tuple[Array, Array, list[TestedConjunct]]:
        """The range of each left partial match among the right ones, and the tests of what ranges do not say.

        The range holds those whose last event is neither too early nor too late. That says all of a single event.
        """
        rules, others = self.rules, right.matches
        begin, end = (
            rules.window.first_row_within(left.last).astype(np.int64),
            rules.window.end_row_within(left.first).astype(np.int64),
        )
        several = len(others.names) > 1
        tests: list[TestedConjunct] = []
        if several:
            tests.append(self._row_test(Comparator.GE, ("first",), others.first, begin, columns))
        before = self.clause.precedence
        for one, rows in zip(left.names, left.rows, strict=True):
            for name, other in zip(others.names, others.rows, strict=True):
                if (one, name) in before:
                    after = rules.order.rows_after(rows)
                    begin = np.maximum(begin, after)
                    if several:
                        tests.append(self._row_test(Comparator.GE, (one, name), other, after, columns))
                elif (name, one) in before:
                    ahead = rules.order.rows_ahead(rows)
                    if several:
                        tests.append(self._row_test(Comparator.LT, (one, name), other, ahead, columns))
                    if all((each, one) in before for each in others.names):
                        end = np.minimum(end, ahead)
                if may_be_one(self.pattern, self.clause, self.clause.by_name[one], self.clause.by_name[name]):
                    tests.append(self._row_test(Comparator.NE, (one, name, "distinct"), other, rows, columns))
        codes = self._codes(left)
        lows = np.searchsorted(right.keys, self._keys(codes, begin)).astype(np.int32)
        highs = np.searchsorted(right.keys, self._keys(codes, end)).astype(np.int32)
        highs[codes < 0] = 0
        return lows, highs, tests

    def _row_test(
        self, comparator: Comparator, key: tuple[str, ...], right: Array, left: Array, columns: TestColumns
    ) -> TestedConjunct:
        """A comparison of a row of the right side with a row of the left one."""
        inner = columns.slot(1, ("row", *key), padded_copy(right, np.float64))
        return ((Test(comparator, inner, columns.slot(0, ("row", *key), padded_copy(left, np.float64))),),)


@dataclass(frozen=True, eq=False)
class _Sorted:
    """Partial matches in ascending order of their keys, int64."""

    matches: PartialMatches
    keys: Array


def start_run(
    pattern: Pattern,
    clause: Clause,
    plan: OrderOrTree | str,
    events: PreparedEvents,
    owned: tuple[Boundary | None, Boundary | None],
) -> KernelRun | TreeRun:
    """A run of a clause of single positive variables by an order or a tree, without negation and ownership."""
    order = order_of(plan)
    if order is not None:
        return KernelRun(pattern, clause, order, events, owned, BLOCK_ROWS)
    assert isinstance(plan, Join)
    return TreeRun(pattern, clause, plan, events, owned)


def _names(clause: Clause) -> tuple[str, ...]:
    return tuple(variable.name for variable in clause.positive)
