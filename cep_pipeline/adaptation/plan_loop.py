"""A pattern, or several that are planned together, in the detection-adaptation loop: plan, decisions, what is found.

The report of a loop is here as well: checks, switches of plans, and the time that they took.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import pyarrow as pa

from cep_pipeline.adaptation.decisions import DecisionFunction, DecisionState
from cep_pipeline.adaptation.loop_outputs import Finding, LoopOutput, NumberOutput, RowsOutput, find_together
from cep_pipeline.adaptation.plan_makers import PlanMaker
from cep_pipeline.adaptation.plan_switch import Stretch
from cep_pipeline.detection.mechanisms import Metrics
from cep_pipeline.planning.make_plan import runs_of
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import written
from cep_pipeline.statistics import StatisticsSnapshot

logger = logging.getLogger(__name__)
LATEST_RUNS = 32
"""The price of a switch is that of so many of the latest runs of detection."""
DETECT_WINDOWS = 32
"""Detection runs over at least so many windows at once while the plan stays: it reads one of them twice."""


class SwitchRule:
    """The rule that says when a switch pays: rent or buy.

    Work is counted in events that the plan in use reads. The price of a switch is a window of them, which two plans
    read, and as many as detection could read in the time that it takes to begin a run. Staying costs rent: at each
    check at which another plan is better, its gain times the events since the check before. A switch is due where one
    of these is no less than the price:

    1. The rent since the last switch, or since the last check at which no other plan was better.
    2. The saving of the new plan if it lasts as long as plans have lasted so far (its gain, times all events and one
       price over the switches made and one), times the gain again. The best of many plans looks better than it is, the
       more so the smaller its gain is: so a gain is trusted as far as it is large. Plans that were proposed and not
       used do not count as switches. By the one price a large gain pays at the beginning, too.

    Notes
    -----
    Two bounds hold if the gains are right and the price is the same each time.

    - Let an episode be the checks up to a switch, or up to one at which no other plan is better. By 1 alone, it costs
      at most twice what the better of two answers costs, to switch at once or never, and the rent of one interval.
      Proof: let its rent without a switch be R, and the price P. If R < P, the rule does not switch and pays R, which
      is the better answer. Else it has paid less than P and one interval's rent when it pays P, and the better answer
      costs P. No rule without chance or knowledge of the future has a factor below 2 (Karlin and others, Competitive
      Snoopy Caching, 1988).
    - Let no gain be above g. After r events all switches have cost at most g (r + P), even if no saving that 2 expects
      comes true: little is lost where plans are nearly tied. Proof: the i-th switch, if 2 made it after r events, has
      i P <= g g (r + P) <= g (r + P), and i P is the price of all switches so far. One that 1 made costs no more than
      its rent, which is at most g for each event of its episode, and episodes do not overlap.

    Examples
    --------
    A window holds 300 events. To save 0.4 of 100 events is not enough, three times; the fourth time comes a large gain.

    >>> rule = SwitchRule()
    >>> [rule.is_due(gain, at - 100, at, window=300) for at, gain in ((100, 0.4), (200, 0.4), (300, 0.4), (400, 0.9))]
    [False, False, False, True]
    """

    def __init__(self) -> None:
        self._runs: deque[tuple[int, float]] = deque(maxlen=LATEST_RUNS)
        self._rent, self._paid_to, self._switches = 0.0, 0, 0

    def add(self, events: int, seconds: float) -> None:
        """Note a run of detection over so many events."""
        self._runs.append((max(events, 1), seconds))

    def price(self, window: int) -> float:
        """The events that a switch costs, where a window holds so many.

        Examples
        --------
        >>> rule = SwitchRule()
        >>> rule.price(window=500)
        500.0
        >>> for events, seconds in ((1_000, 0.003), (9_000, 0.011)):
        ...     rule.add(events, seconds)
        >>> round(rule.price(window=500))  # 0.002 s to begin a run, 0.014 s for 10,000 events
        1929
        """
        whole = sum(seconds for _, seconds in self._runs)
        if not whole:
            return float(window)
        (fewest, least), (most, longest) = min(self._runs), max(self._runs)
        an_event = max((longest - least) / (most - fewest), 0.0) if most >= 2 * fewest else longest / most
        begun = median(max(seconds - events * an_event, 0.0) for events, seconds in self._runs)
        return window + begun * sum(events for events, _ in self._runs) / whole

    def is_due(self, gain: float, since: int, row: int, window: int) -> bool:
        """Decide whether to switch after so many events to a plan with this gain, where the last check was `since`."""
        if gain <= 0:
            return False
        self._rent = gain * (row - since) + (self._rent if self._paid_to == since else 0.0)
        self._paid_to = row
        price = self.price(window)
        if max(self._rent, gain * gain * (row + price) / (self._switches + 1)) < price:
            return False
        self._rent = 0.0
        self._switches += 1
        return True


@dataclass(frozen=True, slots=True)
class Check:
    """One decision about the plan of a pattern, or of several together.

    Attributes
    ----------
    pattern
        The pattern's name, or that of the first.
    row
        So many events had been seen.
    timestamp_us
        Time of the latest of them.
    replanned
        Whether the decision function asked for another plan.
    reason
        Its reason, a sentence.
    gain
        The share of the old plan's cost that the new one saves on the statistics of the check; None where none was
        made.
    deployed
        Whether the new plan went into use.
    patterns
        The names of all that follow the plan.
    """

    pattern: str
    row: int
    timestamp_us: int
    replanned: bool
    reason: str
    gain: float | None = None
    deployed: bool = False
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanSwitch:
    """One plan taking the place of another.

    Attributes
    ----------
    pattern
        The pattern's name, or that of the first of several that follow one plan.
    row
        The row of the first event at which matches of the new plan may begin.
    t0
        The point `(timestamp in microseconds, seq)` of that event.
    old_plan, new_plan
        Ids of the plans, each of these patterns alone.
    orders
        The orders or trees of the new plan, clause by clause, as people read them.
    reason
        Why another plan was asked for.
    gain
        The share of the old plan's cost that the new one saves, on the statistics at t0.
    patterns
        The names of all that follow the plan.
    """

    pattern: str
    row: int
    t0: tuple[int, int]
    old_plan: str
    new_plan: str
    orders: str
    reason: str
    gain: float
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seconds:
    """The seconds that the parts of the loop took.

    Attributes
    ----------
    deciding, planning, detecting
        In the decision function; in the planner, for the first plan too, with the comparison of new plans with old
        ones; in the mechanism, with the preparation of its events.
    """

    deciding: float = 0.0
    planning: float = 0.0
    detecting: float = 0.0

    @property
    def overhead(self) -> float:
        """Seconds of deciding and planning."""
        return self.deciding + self.planning

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.deciding + other.deciding, self.planning + other.planning, self.detecting + other.detecting)


@dataclass(frozen=True)
class AdaptationReport:
    """The report of one run of the loop.

    Attributes
    ----------
    events
        How many were read.
    checks
        All decisions, in the order of the stream.
    switches
        Those that put another plan in use.
    decided
        The patterns that were decided about; the others have one plan, or a static one.
    seconds
        Where the time went, by the name of the pattern, or of the first of several that follow one plan.
    seconds_reading, seconds_estimating, seconds_writing
        Checking events, keeping statistics, and ordering and writing matches: of all patterns together.
    metrics
        What the mechanisms counted, of the windows that two plans read both times.
    together
        Name of the first -> the names of all patterns that follow one plan, where they are planned together.
    """

    events: int
    checks: tuple[Check, ...]
    switches: tuple[PlanSwitch, ...]
    decided: tuple[str, ...]
    seconds: Mapping[str, Seconds]
    seconds_reading: float
    seconds_estimating: float
    seconds_writing: float
    metrics: Metrics
    together: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"<AdaptationReport of {self.events:,} events: {len(self.checks):,} decisions, {self.replannings:,} "
            f"replannings, {len(self.switches):,} switches>"
        )

    @property
    def total(self) -> Seconds:
        """The seconds of all patterns together."""
        return sum(self.seconds.values(), Seconds())

    @property
    def seconds_all(self) -> float:
        """All of the time, but for what the source of the events took to make them."""
        total = self.total
        shared = self.seconds_reading + self.seconds_estimating + self.seconds_writing
        return total.overhead + total.detecting + shared

    @property
    def overhead(self) -> float:
        """The share of the time that went into deciding and planning."""
        return self.total.overhead / self.seconds_all if self.seconds_all else 0.0

    @property
    def replannings(self) -> int:
        """The number of times that a planner was asked for another plan."""
        return sum(check.replanned for check in self.checks)


class PlanLoop:
    """The loop of the patterns that follow one plan: one pattern by itself, or a component of them together.

    Parameters
    ----------
    findings
        The patterns, what runs each, and the stream.
    output
        `verbose` or `count`.
    plan_maker
        Makes plans of these patterns from statistics.
    decision
        Decides whether to make another one.
    minimum_gain
        The share of the old plan's cost that a new one must save more than; None: a switch is made by `SwitchRule`.
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
    checks, switches, seconds
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
        self.checks: list[Check] = []
        self.switches: list[PlanSwitch] = []
        self.seconds = Seconds()
        self._stream, self._counters = findings[0].stream, findings[0].counters
        self._reading = findings[0].reading
        self._outputs = [(NumberOutput if output == "count" else RowsOutput)(finding) for finding in findings]
        self._plan_maker, self._minimum_gain, self._clock = plan_maker, minimum_gain, clock
        self._state: DecisionState | None = None
        self._begin = 0
        self._waiting: list[Stretch] = []
        self._done = False
        self._find = find
        self._begin_of_plan = 0
        self._rule = SwitchRule()
        self._last_row = 0

    @property
    def name(self) -> str:
        """The name of the pattern, or of the first one."""
        return self.patterns[0].name

    @property
    def adapts(self) -> bool:
        """True if there is more than one plan.

        Strategies of section 4 and some mechanisms keep the pattern's order.
        """
        return any(map(_follows_plans, self._outputs))

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """Pattern name -> the columns of its output."""
        return {output.finding.pattern.name: output.schema for output in self._outputs}

    @property
    def needs_from(self) -> int:
        """The row of the stream from which on events are needed."""
        return min(output.needs_from(self._detected) for output in self._outputs)

    @property
    def _detected(self) -> int:
        """All matches that begin before this row have been found."""
        return self._waiting[0].first if self._waiting else self._begin

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
        self._state = self.decision.begin(
            self.plan,
            self.patterns,
            snapshot if plan is None else made_from,
            questions=self._plan_maker.questions,
        )
        self.seconds += Seconds(self._clock() - planned, planned - began)

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
            # A plan that saves less than the fixed minimum gains nothing; one that waits until its switch pays does.
            gained = 0.0 if self._begin_of_plan != row and self._minimum_gain is not None else gain
            self._state = self.decision.replanned(state, verdict, self.plan or old, snapshot, gain=gained)
            ended = clock()
        self.seconds += Seconds(decided - began + ended - planned, planned - decided)
        self._last_row = row
        switched = self._begin_of_plan == row
        logger.debug("%s, event %s: %s: %s", self.name, row, "plan again" if verdict.replan else "keep", verdict.reason)
        at_us, names = self._stream.time_of(row - 1), tuple(pattern.name for pattern in self.patterns)
        self.checks.append(Check(self.name, row, at_us, verdict.replan, verdict.reason, gain, switched, names))
        if switched and self.plan is not None:
            self._write_switch(old, self.plan, self.checks[-1])

    def _write_switch(self, old: Plan, new: Plan, check: Check) -> None:
        t0 = self._stream.boundary(check.row)
        assert check.gain is not None and t0 is not None, "plans are switched where events follow"
        runs = (run for pattern in self.patterns for run in runs_of(new, pattern.name))
        plans = old.plan_id, new.plan_id, "; ".join(map(written, runs))
        self.switches.append(PlanSwitch(self.name, check.row, t0, *plans, check.reason, check.gain, check.patterns))
        logger.info("%s, event %s: new plan %s saves %.1f %%", self.name, check.row, plans[2], 100 * check.gain)

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
        if self._is_worth_it(again.gain, row):
            new = again.write()
            self._cut(row)
            self.plan, self._begin_of_plan = new, row
        return again.gain

    def _is_worth_it(self, gain: float, row: int) -> bool:
        if self._minimum_gain is not None:
            return gain > self._minimum_gain
        return self._rule.is_due(gain, self._last_row, row, self._reading.window_at(row))

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
                events = stretch.stop - stretch.first + self._reading.ahead(stretch.stop)
                self._rule.add(events, self._clock() - started)
            done += 1
        del self._waiting[:done]
        self.seconds += Seconds(detecting=self._clock() - began)
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
        if row > self._begin and (self._has_ended or not self._reading.whole):
            self._waiting.append(self._stretch(self.plan, self._begin, row))
            self._begin = row


def _follows_plans(output: LoopOutput) -> bool:
    """True if there is more than one plan by which a pattern's matches are found."""
    pattern = output.finding.pattern
    in_order = not pattern.strategy.forks or output.finding.mechanism.in_pattern_order
    return not in_order and any(len(clause.positive) > 1 for clause in pattern.clauses)
