"""A pattern, or several that are planned together, in the detection-adaptation loop: plan, decisions, what is found."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import pyarrow as pa

from cep_pipeline.adaptation.decisions import DecisionFunction, DecisionState
from cep_pipeline.adaptation.loop_outputs import Finding, LoopOutput, find_together, output_of, work_over
from cep_pipeline.adaptation.plan_makers import PlanMaker
from cep_pipeline.adaptation.plan_switch import Stretch, reading_of
from cep_pipeline.adaptation.report import Check, PlanSwitch, Seconds
from cep_pipeline.errors import TooManyMatches
from cep_pipeline.patterns.pattern import Strategy
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.replanning import runs_of
from cep_pipeline.planning.trees import written
from cep_pipeline.statistics import StatisticsSnapshot

logger = logging.getLogger(__name__)
LATEST_RUNS = 32
"""The price of a switch is that of so many of the latest runs of detection."""
DETECT_WINDOWS = 32
"""Detection runs over at least so many windows at once while the plan stays: it reads one of them twice."""
SAMPLE_EVENTS = 10_000
"""The work of an old plan and of a new one is compared over so many of the latest events."""
MOST_UNWRITTEN = 256
"""Decisions that are kept as they were taken, until somebody asks for the report."""


class _Decided(NamedTuple):
    """A decision as it was taken, and where it put another plan in use the old one and the new one."""

    row: int
    timestamp_us: int
    replanned: bool
    said: str | Callable[[], str]
    gain: float | None
    t0: tuple[int, int] | None
    switched: tuple[Plan, Plan] | None


class SwitchPrice:
    """The time that one more switch takes: a window is read by two plans, and a run of detection is begun once more.

    Examples
    --------
    >>> price = SwitchPrice()
    >>> for events, seconds in ((1_000, 0.003), (9_000, 0.011)):
    ...     price.add(events, seconds)
    >>> round(price.seconds(ahead=500), 6), round(price.of_an_event, 6)
    (0.0025, 1e-06)
    """

    def __init__(self) -> None:
        self._runs: deque[tuple[int, float]] = deque(maxlen=LATEST_RUNS)

    def add(self, events: int, seconds: float) -> None:
        """Note a run over so many events."""
        self._runs.append((max(events, 1), seconds))

    @property
    def of_an_event(self) -> float:
        """Seconds for one more event of a run."""
        if not self._runs:
            return 0.0
        (fewest, least), (most, longest) = min(self._runs), max(self._runs)
        whole = longest / most
        return max((longest - least) / (most - fewest), 0.0) if most >= 2 * fewest else whole

    def seconds(self, ahead: int) -> float:
        """The price where so many events lie behind the switch that matches of the old plan may hold; 0: not known."""
        if not self._runs:
            return 0.0
        begun = median(max(seconds - events * self.of_an_event, 0.0) for events, seconds in self._runs)
        return begun + ahead * self.of_an_event


class PlanLoop:
    """The loop of the patterns that follow one plan: one pattern by itself, or a component of them together.

    Parameters
    ----------
    findings
        The patterns, what runs each, and the stream.
    output
        A form of `detect.OUTPUTS`.
    plan_maker
        Makes plans of these patterns from statistics.
    decision
        Decides whether to make another one.
    minimum_gain
        The share of the old plan's cost that a new one must save more than; None: so much that a switch is worth its
        price.
    clock
        Seconds, by which the report says where the time went.
    find
        Whether matches are found, or it is only decided.

    Attributes
    ----------
    patterns
        In the order of the workload.
    plan
        The plan in use; None before the first one.
    checks, switches, seconds, put_off
        For the report.
    """

    def __init__(
        self,
        findings: Sequence[Finding],
        output: str,
        plan_maker: PlanMaker,
        decision: DecisionFunction,
        minimum_gain: float | None = 0.0,
        clock: Callable[[], float] = time.perf_counter,
        *,
        find: bool = True,
    ) -> None:
        self.patterns, self.decision = [finding.pattern for finding in findings], decision
        self.plan: Plan | None = None
        self._checks: list[Check] = []
        self._switches: list[PlanSwitch] = []
        self._unwritten: list[_Decided] = []
        self.seconds = Seconds()
        self._stream, self._counters = findings[0].stream, findings[0].counters
        self._reading = reading_of(self.patterns, [finding.reading for finding in findings], self._stream)
        self._outputs = [output_of(finding, output) for finding in findings]
        self._plan_maker, self._minimum_gain, self._clock = plan_maker, minimum_gain, clock
        self._state: DecisionState | None = None
        self._begin = 0
        self._waiting: list[Stretch] = []
        self._done = False
        self._find = find
        self.put_off = 0
        self._begin_of_plan = self._replannings = 0
        self._price = SwitchPrice()
        self._last_s, self._last_row = 0.0, 0

    @property
    def name(self) -> str:
        """The name of the pattern, or of the first one."""
        return self.patterns[0].name

    @property
    def adapts(self) -> bool:
        """True if there is more than one plan.

        Strategies of section 4 and some mechanisms keep the pattern's order, and merged runs follow no plan.
        """
        return any(map(_follows_plans, self._outputs))

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """Pattern name -> the columns of its output."""
        return {output.finding.pattern.name: output.schema for output in self._outputs}

    @property
    def needs_from(self) -> int:
        """The row of the stream from which on events are needed."""
        needed = min(output.needs_from(self._detected) for output in self._outputs)
        learns = self._find and self.adapts and self.decision.learns_from_gains
        return min(needed, max(self._stream.arrived - SAMPLE_EVENTS, 0)) if learns else needed

    @property
    def _detected(self) -> int:
        """All matches that begin before this row have been found."""
        return self._waiting[0].first if self._waiting else self._begin

    @property
    def planner(self) -> str:
        """The name of the planner."""
        return self._plan_maker.planner

    def prepare(self) -> None:
        """Work out what follows from the patterns alone, before the clock is looked at."""
        self._plan_maker.prepare()

    def begin(
        self, snapshot: StatisticsSnapshot, plan: Plan | None = None, made_from: StatisticsSnapshot | None = None
    ) -> None:
        """Take the first plan in use: one that was made before, or one from these statistics.

        Parameters
        ----------
        snapshot
            Of the stream.
        plan, made_from
            One that was made before, and from what; None: the numbers that it names.
        """
        began = self._clock()
        self.plan = self._plan_maker.first(snapshot) if plan is None else self._plan_maker.taken(plan, snapshot)
        planned = self._clock()
        state = self.decision.begin(self.plan, self.patterns, snapshot if plan is None else made_from)
        self._state = replace(state, asked=self._plan_maker.questions)
        self.seconds = self.seconds.plus(Seconds(self._clock() - planned, planned - began))

    def may_check(self, budget: float | None) -> bool:
        """True if a decision that takes as long as the last one keeps to its share of the time; if not, it is put off.

        It does once the events that have come since then take detection long enough, at the rate so far.
        """
        if budget is None or not self._last_s:
            return True
        if not self._begin and not self._waiting:
            self._cut(self._stream.arrived)  # nothing has been detected: nothing tells how long that takes
            self.detect(at_least=self._stream.arrived)
        an_event = self.seconds.detecting / self._detected if self._detected else 0.0
        took = (self._stream.arrived - self._last_row) * an_event
        may = self._last_s * (1 - budget) <= budget * took
        self.put_off += not may
        return may

    def check(self, snapshot: StatisticsSnapshot) -> None:
        """Decide by fresh statistics; where a new plan is better, it owns all matches that begin from here on."""
        clock, state, old = self._clock, self._state, self.plan
        assert state is not None and old is not None
        began = clock()
        verdict = self.decision.decide(state, snapshot)
        decided = planned = clock()
        ended, row, gain = decided, self._stream.arrived, None
        if verdict.replan:
            gain = self._replan(old, row, snapshot)
            planned = clock()
            gained = self._gained(old, row, gain)
            self._state = self.decision.replanned(state, verdict, self.plan or old, snapshot, gain=gained)
            ended = clock()
        took = Seconds(decided - began + ended - planned, planned - decided)
        self.seconds = self.seconds.plus(took)
        self._last_s, self._last_row = took.overhead, row
        switched = (old, self.plan) if self.plan is not None and self._begin_of_plan == row else None
        stream = self._stream
        at_us, t0 = stream.time_of(row - 1), None if switched is None else stream.boundary(row)
        self._unwritten.append(_Decided(row, at_us, verdict.replan, verdict.said, gain, t0, switched))
        if len(self._unwritten) > MOST_UNWRITTEN:
            self._write()

    def _gained(self, old: Plan, row: int, gain: float) -> float:
        """The gain that the decision function learns of: by a plan that is not put in use nothing is gained.

        Where it learns from gains, the work of both plans over the latest events is compared, as a daily replanning
        does over a sample of the day. Where that tells nothing, it is what the new plan saves by its cost.
        """
        new = self.plan
        if self._begin_of_plan != row or new is None:
            return 0.0
        if not (self._find and self.decision.learns_from_gains):
            return gain
        first = max(row - SAMPLE_EVENTS, self._stream.first)
        try:
            before, now = (work_over(self._outputs, self._stretch(plan, first, row)) for plan in (old, new))
        except TooManyMatches:
            return gain
        return 1 - now / before if before else gain

    def _stretch(self, plan: Plan, first: int, stop: int) -> Stretch:
        """A stretch of the stream that follows a plan."""
        orders = {pattern.name: runs_of(plan, pattern.name) for pattern in self.patterns}
        return Stretch(first, stop, orders, plan.sharing != "none")

    def _replan(self, old: Plan, row: int, snapshot: StatisticsSnapshot) -> float:
        """Make another plan, and use it where it is better; the gain."""
        again = self._plan_maker.again(old, snapshot)
        if again.gain is None:
            self.plan = again.write()
            return 0.0
        self._replannings += 1
        if again.gain > (self._gain_to_pay(row) if self._minimum_gain is None else self._minimum_gain):
            new = again.write()
            self._cut(row)
            self.plan, self._begin_of_plan = new, row
        return again.gain

    def _gain_to_pay(self, row: int) -> float:
        """The share of the cost that pays for a switch until plans are made again, as often as so far.

        It is 0 as long as nothing has been detected, which tells what that takes.
        """
        if not self._detected:
            return 0.0
        saved_by_all = self.seconds.detecting / self._detected * row / self._replannings
        return self._price.seconds(self._reading.ahead(row)) / saved_by_all if saved_by_all > 0 else 0.0

    @property
    def checks(self) -> Sequence[Check]:
        """The decisions."""
        self._write()
        return self._checks

    @property
    def switches(self) -> Sequence[PlanSwitch]:
        """The checks that put another plan in use."""
        self._write()
        return self._switches

    def _write(self) -> None:
        """Write down what has been decided: to say it takes longer than to decide it."""
        names = tuple(pattern.name for pattern in self.patterns)
        for one in self._unwritten:
            reason = one.said if isinstance(one.said, str) else one.said()
            deployed = one.switched is not None
            logger.debug("%s, event %s: %s: %s", self.name, one.row, "plan again" if one.replanned else "keep", reason)
            self._checks.append(
                Check(self.name, one.row, one.timestamp_us, one.replanned, reason, one.gain, deployed, names)
            )
            if one.switched is not None:
                assert one.gain is not None and one.t0 is not None, "plans are switched where events follow"
                old, new = one.switched
                runs = (run for pattern in self.patterns for run in runs_of(new, pattern.name))
                plans = old.plan_id, new.plan_id, "; ".join(map(written, runs))
                self._switches.append(PlanSwitch(self.name, one.row, one.t0, *plans, reason, one.gain, names))
                logger.info("%s, event %s: new plan %s saves %.1f %%", self.name, one.row, plans[2], 100 * one.gain)
        self._unwritten.clear()

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
                stretch, started = self._waiting[done], self._clock()
                find_together(self._outputs, stretch)
                self._price.add(
                    stretch.stop - stretch.first + self._reading.ahead(stretch.stop), self._clock() - started
                )
            done += 1
        del self._waiting[:done]
        self._counters.settle()
        self.seconds = self.seconds.plus(Seconds(detecting=self._clock() - began))
        self._done = self._done or done > 0

    def ready(self, *, all_is_done: bool = False) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The output that has become known, with the names of its patterns.

        All the rest of it where the stream has ended and all of it is detected.
        """
        if all_is_done or self._done:
            self._done = False
            for output in self._outputs:
                for batch in output.ready(None if all_is_done else self._detected):
                    yield output.finding.pattern.name, batch

    @property
    def _has_ended(self) -> bool:
        return self._stream.ended and self._stream.arrived == len(self._stream)

    def _cut(self, row: int) -> None:
        """The plan in use owns no matches that begin from this row on; the next one, or the same one again, does."""
        assert self.plan is not None
        if row > self._begin and (self._has_ended or not any(output.at_once for output in self._outputs)):
            self._waiting.append(self._stretch(self.plan, self._begin, row))
            self._begin = row


def _follows_plans(output: LoopOutput) -> bool:
    """True if there is more than one plan by which a pattern's matches are found."""
    pattern = output.finding.pattern
    in_order = pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or output.finding.mechanism.in_pattern_order
    if in_order or not output.asks_plans:
        return False
    return any(len(clause.positive) > 1 for clause in pattern.clauses)
