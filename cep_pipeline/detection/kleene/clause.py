"""Run one clause with Kleene variables over one slice: list its matches, or count them without making a list."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.fused.clause import BLOCK_ROWS, KernelRun, refuse_other_variables
from cep_pipeline.detection.fused.levels import LevelCount, count_levels, order_of
from cep_pipeline.detection.kleene.bindings import (
    BindingRules,
    Bindings,
    kleene_order,
    skeleton_of,
    skeleton_order,
    unrejected,
)
from cep_pipeline.detection.kleene.compiled_lists import CompiledLists, exact_sum, lists_at_once, subsets_of
from cep_pipeline.detection.kleene.extension import Extension
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.expressions.columns import Array
from cep_pipeline.planning.trees import OrderOrTree
from cep_pipeline.slices.blocks import ListBlock
from cep_pipeline.slices.ownership import reading
from cep_pipeline.slices.views import may_match


class KleeneRun:
    """One run of a clause with Kleene variables over a slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    of
        A clause of a pattern that the fused mechanism runs, over a slice.
    plan
        Names of the clause's positive variables in plan order, or a tree over them. The single variables are bound
        first, then the Kleene variables.

    Raises
    ------
    PlanError
        `plan` is not for the clause's positive variables.
    """

    def __init__(self, of: ClauseSlice, plan: OrderOrTree) -> None:
        pattern, clause, events, *_ = of
        order = order_of(plan)
        refuse_other_variables(pattern, clause, order)
        self.of = of
        self.pattern, self.clause, self.events, self.owned, _ = of
        self.singles, self.lists = skeleton_order(clause, order), kleene_order(clause, order)
        self._compiled: CompiledLists | None = None
        events.split(variable.event_type for variable in (*clause.positive, *clause.negated))
        self.rules = BindingRules(pattern, clause, events)
        self.end_row, self.look_back_row = of.end_row, of.earliest_row

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

    def count(self, counters: Counters) -> None:
        """Add the counts of the finished run."""
        count_levels(self.of.pattern, self.of.clause, self.counts, counters)

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
        kept = self.of.owns(block.first_rows(), block.last_rows())
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
        if self._compiled is not None:
            return self._compiled
        if not lists_at_once(self.clause):
            return None
        read = reading(self.pattern, self.events, self.owned)
        lists = CompiledLists(self.pattern, self.clause, self.singles, self.events, read)
        self._compiled = lists if lists.compiled else None
        return self._compiled

    def skeletons(self) -> Iterator[tuple[Bindings, Array | None]]:
        """Partial matches of the single variables; without any, each event that may begin the first list."""
        if any(not len(extension.leaf) for extension in self.extensions):
            return
        if not self.singles:
            if not may_match(self.pattern, self.clause, self.events):
                return
            leaf = self.extensions[0].leaf
            for start in range(0, len(leaf), BLOCK_ROWS):
                rows = leaf[start : start + BLOCK_ROWS]
                yield Bindings({}, rows, rows), rows
            return
        for block in self._skeleton:
            bound = {variable.name: rows for variable, rows in zip(block.clause.positive, block.rows, strict=True)}
            yield Bindings(bound, block.first_rows(), block.last_rows()), None

    @cached_property
    def _skeleton(self) -> KernelRun:
        """The kernel's run over the single variables: their events may all lie before the slice."""
        owned = reading(self.pattern, self.events, self.owned)
        return KernelRun(self.pattern, skeleton_of(self.clause), self.singles, self.events, owned, BLOCK_ROWS)

    def _owned(self, bindings: Bindings) -> Bindings:
        """The complete matches that become final in the slice."""
        if self.owned == (None, None):
            return bindings
        keep = self.of.owns(bindings.first, bindings.last)
        return bindings if keep.all() else bindings.take(np.flatnonzero(keep))


def _extended(bindings: Bindings, anchors: Array | None, extensions: list[Extension]) -> Iterator[Bindings]:
    if not extensions:
        yield bindings
        return
    first, *others = extensions
    for found in first.extended(bindings, anchors):
        yield from _extended(found, None, others)


def counts_at_once(run: KleeneRun) -> bool:
    """Return whether the matches of a run can be counted without listing them.

    Lists of so many elements, of which each depends on the one before, are left to merged runs: they note how many.
    """
    if run.owned != (None, None) or not lists_at_once(run.clause):
        return False
    [extension] = run.extensions
    limited = bool(extension.variable.limits and extension.conditions.adjacent)
    return not limited and run.compiled_lists() is not None


def count_matches(run: KleeneRun) -> int | None:
    """The number of matches of a run that `counts_at_once` lets pass; None where one partial match has too many."""
    [extension] = run.extensions
    counted = run.compiled_lists()
    assert counted is not None
    total = 0
    for _, found in counted.counted():
        if not counted.conditions.adjacent:
            total += subsets_of(extension.variable, found, anchored=counted.anchored)
        elif (found < 0).any():
            return None
        else:
            total += exact_sum(found)
    extension.tested = extension.passed = total
    return total
