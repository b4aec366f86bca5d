"""Run one clause with Kleene variables over one slice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from cep_pipeline.detection.fused.clause import BLOCK_ROWS, KernelRun
from cep_pipeline.detection.fused.counts import LevelCount
from cep_pipeline.detection.fused.levels import order_of
from cep_pipeline.detection.fused.trees import TreeRun, start_run
from cep_pipeline.detection.kleene.bindings import BindingRules, Bindings, unrejected
from cep_pipeline.detection.kleene.compiled_lists import CompiledLists, lists_at_once
from cep_pipeline.detection.kleene.extension import Extension
from cep_pipeline.detection.kleene.skeleton import kleene_order, skeleton_of, skeleton_order
from cep_pipeline.errors import PlanError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import constants_hold
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Join, OrderOrTree, pruned
from cep_pipeline.slices.blocks import ListBlock
from cep_pipeline.slices.ownership import Finality, earliest_row, finality_of, owned_matches, reading
from cep_pipeline.slices.prepared import Boundary, PreparedEvents


class KleeneRun:
    """One run of a clause with Kleene variables over a slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    pattern, clause
        A pattern that the fused mechanism runs, and one of its clauses.
    plan
        Names of the clause's positive variables in plan order, or a tree over them. The single variables are bound
        first, in this order or by what is left of the tree without the others, then the Kleene variables.
    events
        The slice's own events, and those before it that its matches reach back to.
    owned
        The slice [start, end): the matches that become final in it are wanted. None: open.
    finality
        When a match counts as final; None for what the clause says.

    Raises
    ------
    PlanError
        `plan` is not for the clause's positive variables.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        plan: OrderOrTree,
        events: PreparedEvents,
        owned: tuple[Boundary | None, Boundary | None] = (None, None),
        finality: Finality | None = None,
    ) -> None:
        names = [variable.name for variable in clause.positive]
        order = plan.leaves if isinstance(plan, Join) else plan
        if sorted(order) != sorted(names):
            raise PlanError(
                f"pattern {pattern.name!r}: the plan orders {', '.join(order)}, but clause {clause.index} binds "
                f"{', '.join(names)}: plan the pattern again"
            )
        self.pattern, self.clause, self.events, self.owned = pattern, clause, events, owned
        self.singles, self.lists = skeleton_order(clause, order), kleene_order(clause, order)
        self._plan_of_singles: OrderOrTree | str = self.singles
        if isinstance(plan, Join) and self.singles:
            self._plan_of_singles = pruned(plan, frozenset(self.singles)) or self.singles
        self._compiled: CompiledLists | None = None
        events.split(variable.event_type for variable in (*clause.positive, *clause.negated))
        self.rules = BindingRules(pattern, clause, events)
        self.finality = finality_of(pattern, clause) if finality is None else finality
        self.end_row = len(events) if owned[1] is None else events.rows_before(owned[1])
        self.look_back_row = earliest_row(pattern, events, owned)

    @property
    def order(self) -> tuple[str, ...]:
        """The variables in the order in which they are bound."""
        return (*self.singles, *self.lists)

    @property
    def counts(self) -> tuple[LevelCount, ...]:
        """The candidates and passes of each variable in that order, complete once the run is over."""
        found: list[LevelCount] = []
        if self.singles:
            found += self._skeleton.counts if self._compiled is None else self._compiled.counts
        bound = self.singles
        for extension in self.extensions:
            bound = (*bound, extension.name)
            found.append(LevelCount(bound, extension.tested, extension.passed, extension.evaluations))
        return tuple(found)

    def __iter__(self) -> Iterator[ListBlock]:
        lists = self.compiled_lists()
        if lists is None:
            for bindings, anchors in self.skeletons():
                yield from self._behind(bindings, anchors)
            return
        [extension] = self.extensions
        for found in lists.listed():
            if not isinstance(found, ListBlock):
                yield from self._behind(*lists.bindings(found))
                continue
            extension.tested += len(found)
            extension.passed += len(found)
            yield from self._owned_lists(found)
        extension.evaluations += lists.evaluations

    def _behind(self, bindings: Bindings, anchors: Array | None) -> Iterator[ListBlock]:
        """The owned matches behind partial matches of the single variables, by vectors over many of them."""
        for complete in _extended(bindings, anchors, self.extensions):
            found = unrejected(self.rules, self._owned(complete))
            if len(found):
                yield found.block(self.clause)

    def _owned_lists(self, block: ListBlock) -> Iterator[ListBlock]:
        if self.owned == (None, None):
            yield block
            return
        first, last = (end.reduceat(block.rows, block.offsets[:-1]) for end in (np.minimum, np.maximum))
        kept = owned_matches(self.pattern, self.events, self.owned, self.finality, first, last)
        if kept.any():
            yield block.take(kept)

    @cached_property
    def extensions(self) -> list[Extension]:
        """The extensions by the Kleene variables, in order."""
        bound = frozenset(self.singles)
        extensions = []
        for name in self.lists:
            variable = self.clause.by_name[name]
            extensions.append(Extension(self.rules, variable, bound, self.look_back_row, self.end_row))
            bound |= {name}
        return extensions

    def compiled_lists(self) -> CompiledLists | None:
        """The compiled code that counts and lists the matches, if clause, plan and conditions allow it."""
        order = order_of(self._plan_of_singles)
        if order is None or not lists_at_once(self.clause):
            return None
        read = reading(self.pattern, self.events, self.owned)
        lists = CompiledLists(self.pattern, self.clause, order, self.events, read)
        self._compiled = lists if lists.compiled else None
        return self._compiled

    def skeletons(self) -> Iterator[tuple[Bindings, Array | None]]:
        """Partial matches of the single variables; without any, each event that may begin the first list."""
        if any(not len(extension.leaf) for extension in self.extensions):
            return
        if not self.singles:
            if not constants_hold(self.clause.conjuncts, self.events):
                return
            leaf = self.extensions[0].leaf
            for start in range(0, len(leaf), BLOCK_ROWS):
                rows = leaf[start : start + BLOCK_ROWS]
                yield Bindings({}, rows, rows), rows
            return
        for block in self._skeleton:
            bound = {variable.name: rows for variable, rows in zip(block.clause.positive, block.rows, strict=True)}
            yield Bindings(bound, block.rows.min(axis=0), block.rows.max(axis=0)), None

    @cached_property
    def _skeleton(self) -> KernelRun | TreeRun:
        """The kernel's run over the single variables: their events may all lie before the slice."""
        owned = reading(self.pattern, self.events, self.owned)
        return start_run(self.pattern, skeleton_of(self.clause), self._plan_of_singles, self.events, owned)

    def _owned(self, bindings: Bindings) -> Bindings:
        """The complete matches that become final in the slice."""
        if self.owned == (None, None):
            return bindings
        keep = owned_matches(self.pattern, self.events, self.owned, self.finality, bindings.first, bindings.last)
        return bindings if keep.all() else bindings.take(np.flatnonzero(keep))


def _extended(bindings: Bindings, anchors: Array | None, extensions: list[Extension]) -> Iterator[Bindings]:
    if not extensions:
        yield bindings
        return
    first, *others = extensions
    for found in first.extended(bindings, anchors):
        yield from _extended(found, None, others)
