"""Run one clause in stages over one slice: its single variables, then the lists behind them, and what rejects those."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.fused.clause import BLOCK_ROWS, KernelRun, clause_over, refuse_other_variables
from cep_pipeline.detection.fused.levels import LevelCount, count_levels, order_of
from cep_pipeline.detection.kleene.growing import ListGrowth
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.planning.trees import OrderOrTree
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.ownership import reading
from cep_pipeline.slices.views import may_match


def has_kleene(clause: Clause) -> bool:
    """Return whether a variable of the clause binds a list."""
    return any(variable.kleene for variable in clause.positive)


class StagedRun:
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
        order = order_of(plan)
        refuse_other_variables(of.pattern, of.clause, order)
        self.of = of
        of_lists = {variable.name for variable in of.clause.positive if variable.kleene}
        self.singles = tuple(name for name in order if name not in of_lists)
        self.lists = tuple(name for name in order if name in of_lists)
        self._counted = 0
        of.events.split(variable.event_type for variable in (*of.clause.positive, *of.clause.negated))

    @property
    def counts(self) -> tuple[LevelCount, ...]:
        """The candidates and passes of each variable in plan order, complete once the run is over."""
        found = [*self._skeleton.counts] if self.singles else []
        bound, evaluations = self.singles, self.growth.evaluations
        for name, (tried, passed) in zip(self.lists, self.growth.counts.tolist(), strict=True):
            bound = (*bound, name)
            found.append(LevelCount(bound, tried + self._counted, passed + self._counted, evaluations))
            evaluations = 0  # of all lists together
        return tuple(found)

    def count(self, counters: Counters) -> None:
        """Add the counts of the finished run."""
        count_levels(self.of.pattern, self.of.clause, self.counts, counters)

    def __iter__(self) -> Iterator[Block]:
        for bound in self._partial_matches():
            yield from self.growth.matches(bound)

    def counts_at_once(self) -> bool:
        """Return whether the matches can be counted without listing them."""
        return self.of.owned == EVERYTHING and self.growth.counts_at_once()

    def number(self) -> int | None:
        """The number of matches, where they are `counts_at_once`; None where there are too many for that."""
        total = 0
        for bound in self._partial_matches():
            counted = self.growth.counted(bound)
            if counted is None:
                return None
            total += counted
        self._counted = total
        return total

    @cached_property
    def growth(self) -> ListGrowth:
        """The growth of the lists behind the single variables."""
        names = [variable.name for variable in self.of.clause.positive]
        return ListGrowth(self.of, sorted(self.singles, key=names.index), self.lists)

    @cached_property
    def _skeleton(self) -> KernelRun:
        """The kernel's run over the skeleton of the clause: what is left without Kleene closure and negation.

        Its events may all lie before the slice.
        """
        pattern, clause, events, owned, _ = self.of
        skeleton, read = clause_over(clause, self.singles), reading(pattern, events, owned)
        return KernelRun(ClauseSlice(pattern, skeleton, events, read), self.singles)

    def _partial_matches(self) -> Iterator[Array]:
        """int32: the events of the single variables, in pattern order; without any, the first elements of lists."""
        pattern, clause, events, *_ = self.of
        if not may_match(pattern, clause, events) or not all(len(one.rows.rows) for one in self.growth.lists):
            return
        if self.singles:
            for block in self._skeleton:
                yield np.ascontiguousarray(block.rows)
            return
        rows = self.growth.lists[0].rows.rows
        for start in range(0, len(rows), BLOCK_ROWS):
            yield np.ascontiguousarray(rows[np.newaxis, start : start + BLOCK_ROWS])
