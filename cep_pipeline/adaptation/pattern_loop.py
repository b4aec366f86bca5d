"""One pattern in the detection-adaptation loop: its plan in use, the state of its decisions, and what it has found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from cep_pipeline.adaptation.decisions import DecisionFunction, DecisionState
from cep_pipeline.adaptation.loop_outputs import Finding, output_of
from cep_pipeline.adaptation.plan_quality import gain
from cep_pipeline.adaptation.plan_switch import Stretch
from cep_pipeline.adaptation.report import Check, PlanSwitch, Seconds
from cep_pipeline.patterns.pattern import Strategy
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.replanning import Replanner
from cep_pipeline.planning.trees import written
from cep_pipeline.statistics import StatisticsSnapshot

DETECT_WINDOWS = 32
"""Detection runs over at least so many windows at once while the plan stays: it reads one of them twice."""


class PatternLoop:
    """What the loop does for one pattern.

    Parameters
    ----------
    finding
        The pattern, what runs it, and the stream.
    output
        A form of `detect.OUTPUTS`.
    replanner
        Makes plans of the pattern alone from statistics.
    decision
        Decides whether to make another one.
    minimum_gain
        The share of the old plan's cost that a new one must save more than.
    clock
        Seconds, by which the report says where the time went.
    find
        Whether matches are found, or it is only decided.

    Attributes
    ----------
    plan
        The plan in use; None before the first one.
    checks, switches, seconds
        For the report.
    """

    def __init__(
        self,
        finding: Finding,
        output: str,
        replanner: Replanner,
        decision: DecisionFunction,
        minimum_gain: float = 0.0,
        clock: Callable[[], float] = time.perf_counter,
        *,
        find: bool = True,
    ) -> None:
        self.pattern, self.decision = finding.pattern, decision
        self.plan: Plan | None = None
        self.checks: list[Check] = []
        self.switches: list[PlanSwitch] = []
        self.seconds = Seconds()
        self._finding, self._stream, self._reading = finding, finding.stream, finding.reading
        self._output = output_of(finding, output)
        self._replanner, self._minimum_gain, self._clock = replanner, minimum_gain, clock
        self._state: DecisionState | None = None
        self._begin = 0
        self._waiting: list[Stretch] = []
        self._done = False
        self._find = find

    @property
    def adapts(self) -> bool:
        """Whether there is more than one plan.

        Strategies of section 4 and some mechanisms keep the pattern's order, and merged runs follow no plan.
        """
        in_order = self.pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or self._finding.mechanism.in_pattern_order
        if in_order or not self._output.asks_plans:
            return False
        return any(len(clause.positive) > 1 for clause in self.pattern.clauses)

    @property
    def schema(self) -> pa.Schema:
        """Of the output."""
        return self._output.schema

    @property
    def needs_from(self) -> int:
        """The row of the stream from which on events are needed."""
        return self._output.needs_from(self._detected)

    @property
    def _detected(self) -> int:
        """All matches that begin before this row have been found."""
        return self._waiting[0].first if self._waiting else self._begin

    def begin(self, snapshot: StatisticsSnapshot, plan: Plan | None = None) -> None:
        """Take the first plan in use: one that was made before, or one from these statistics."""
        began = self._clock()
        self.plan = self._replanner.plan(self._replanner.search(snapshot)) if plan is None else plan
        planned = self._clock()
        state = self.decision.begin(self.plan, [self.pattern], snapshot)
        self._state = replace(state, asked={self.pattern.name: self._replanner.questions})
        self.seconds = self.seconds.plus(Seconds(self._clock() - planned, planned - began))

    def check(self, snapshot: StatisticsSnapshot) -> None:
        """Decide by fresh statistics; where a new plan is better, it owns all matches that begin from here on."""
        assert self._state is not None and self.plan is not None
        began, old = self._clock(), self.plan
        verdict = self.decision.decide(self._state, snapshot)
        decided = self._clock()
        row = self._stream.arrived
        check = Check(self.pattern.name, row, self._stream.time_of(row - 1), verdict.replan, verdict.reason)
        if verdict.replan:
            check = self._replan(replace(check, gain=0.0), snapshot)
            planned = self._clock()
            assert check.gain is not None
            self._state = self.decision.replanned(self._state, verdict, self.plan, snapshot, gain=check.gain)
            self.seconds = self.seconds.plus(Seconds(self._clock() - planned, planned - decided))
        self.seconds = self.seconds.plus(Seconds(deciding=decided - began))
        self.checks.append(check)
        if check.deployed:
            self._note_switch(check, old, self.plan)

    def _replan(self, check: Check, snapshot: StatisticsSnapshot) -> Check:
        """Make another plan, and use it where it is better."""
        assert self.plan is not None
        found = self._replanner.search(snapshot)
        if self._replanner.is_of(self.plan, found):
            self.plan = self._replanner.confirmed(self.plan, found)
            return check
        saved = gain(*self._replanner.ln_costs(self.plan, found))
        if saved <= self._minimum_gain:
            return replace(check, gain=saved)
        new = self._replanner.plan(found)
        self._cut(check.row)
        self.plan = new
        return replace(check, gain=saved, deployed=True)

    def _note_switch(self, check: Check, old: Plan, new: Plan) -> None:
        t0 = self._stream.boundary(check.row)
        assert t0 is not None, "plans are switched where events follow"
        assert check.gain is not None
        orders = "; ".join(written(clause.order_or_tree) for clause in new.for_pattern(self.pattern.name).clauses)
        ids = old.plan_id, new.plan_id
        self.switches.append(PlanSwitch(self.pattern.name, check.row, t0, *ids, orders, check.reason, check.gain))

    def detect(self, *, at_least: int) -> None:
        """Find the matches of plans that have been replaced, and of the one in use once enough events have come.

        Parameters
        ----------
        at_least
            So many events, and `DETECT_WINDOWS` windows; whatever is left where the stream has ended.
        """
        began = self._clock()
        row = self._stream.arrived
        ended = self._has_ended
        if row > self._begin and (
            ended or row - self._begin >= max(at_least, DETECT_WINDOWS * self._reading.ahead(row))
        ):
            self._cut(row)
        done = 0
        while done < len(self._waiting) and self._reading.has_come(self._waiting[done].stop):
            if self._find:
                self._output.find(self._waiting[done])
            done += 1
        del self._waiting[:done]
        counters = self._finding.counters
        if counters.peaks:  # what tells them holds events, and is let go of with the answer
            counters.count_peak(counters.peak_instances)
        self.seconds = self.seconds.plus(Seconds(detecting=self._clock() - began))
        self._done = self._done or done > 0

    def ready(self, *, all_is_done: bool = False) -> Iterator[pa.RecordBatch]:
        """The output that has become known; the rest of it where the stream has ended and all of it is detected."""
        if all_is_done or self._done:
            self._done = False
            yield from self._output.ready(None if all_is_done else self._detected)

    @property
    def _has_ended(self) -> bool:
        return self._stream.ended and self._stream.arrived == len(self._stream)

    def _cut(self, row: int) -> None:
        """The plan in use owns no matches that begin from this row on; the next one, or the same one again, does."""
        assert self.plan is not None
        if row > self._begin and (self._has_ended or not self._output.at_once):
            orders = [clause.order_or_tree for clause in self.plan.for_pattern(self.pattern.name).clauses]
            self._waiting.append(Stretch(self._begin, row, orders))
            self._begin = row
