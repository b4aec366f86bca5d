"""The detection-adaptation loop (acep-invariants patent, Algorithm 1): detect, estimate, decide, plan again, switch.

At the end stands the choice of the minimal distance by scanning (the patent's section "Distance-Based Invariants"): a
stream of the past is run with each, the work is compared, and what is found is then a fixed distance.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

import pyarrow as pa

from cep_pipeline.adaptation.decisions import DecisionFunction, InvariantBased, Static, decision_function
from cep_pipeline.adaptation.distance import SCANNED_DISTANCES, Fixed
from cep_pipeline.adaptation.event_stream import PAIRS_A_CHECK, EventStream, RecentStatistics
from cep_pipeline.adaptation.loop_outputs import Finding
from cep_pipeline.adaptation.plan_loop import AdaptationReport, PlanLoop
from cep_pipeline.adaptation.plan_makers import (
    JointPlanMaker,
    JointPlanning,
    PlanMaker,
    SinglePlanMaker,
    planned_together,
)
from cep_pipeline.adaptation.plan_switch import Reading, SlicesOfStream
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.detect import Tables, check_limit, check_output
from cep_pipeline.detection.mechanisms import Counters, check_options, choose_mechanisms
from cep_pipeline.detection.planned import replanner_for
from cep_pipeline.errors import InputError, UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern, parse_duration_us
from cep_pipeline.planning.multi_pattern.plan_workload import components_of_patterns
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics

Events: TypeAlias = pa.Table | Iterable[pa.Table | pa.RecordBatch]
"""A stream: a table, or tables one after another, all in the order of (timestamp, seq)."""


class AdaptiveRun:
    """One stream through the loop.

    Attributes
    ----------
    schemas
        Pattern name -> the columns of its output.
    events_held, most_events_held
        How many events are in memory, and the most there have been.

    Notes
    -----
    Events and matches are let go of when nothing needs them any more: neither a match that may still end or be
    rejected, nor the statistics. That is within a window, or `DETECT_WINDOWS` windows where the plan stays; only a
    window that counts events in partitions, which may go on at any time, holds the stream: there all is detected at
    the end, by the plan that is in use then. What stays is a small record a decision, and what the caller keeps of the
    output.
    """

    def __init__(
        self,
        settings: AdaptiveDetection,
        patterns: Sequence[Pattern],
        events: Events,
        plan: Plan | None,
        snapshot: StatisticsSnapshot | None,
        output: str,
        limit: int | None,
    ) -> None:
        self._settings = settings
        check_output(output, patterns)
        if output == "compressed":
            raise InputError("compressed matches do not follow a plan: leave adaptation (--adapt) out")
        check_limit(limit)
        self._chosen = choose_mechanisms(patterns, settings.mechanism)
        asked = settings.planner, settings.cost, settings.alpha, settings.search
        together = planned_together(patterns, self._chosen, *asked, plan)
        check_options(self._chosen, settings.options)
        if plan is not None:
            validate(plan, patterns)
        self._given_plan, self._given_snapshot = plan, snapshot
        self._stream = EventStream(patterns, events)
        self.most_events_held = 0
        self._counters = Counters()
        self._seconds = {"reading": 0.0, "estimating": 0.0, "writing": 0.0}
        slices = SlicesOfStream(self._stream)

        def findings(part: Sequence[Pattern]) -> list[Finding]:
            reading = Reading(part, self._stream)
            mechanisms = [MECHANISMS[self._chosen[one.name]].with_options(settings.options) for one in part]
            return [
                Finding(one, mechanism, self._stream, slices, reading, self._counters, limit)
                for one, mechanism in zip(part, mechanisms, strict=True)
            ]

        self._loops = [
            PlanLoop(
                findings(part),
                output,
                plan_maker,
                settings.decision,
                settings.minimum_gain,
                settings.clock,
                find=settings.find,
            )
            for part, plan_maker in self._parts(patterns, together)
        ]
        schemas = {name: schema for loop in self._loops for name, schema in loop.schemas.items()}
        self.schemas = {pattern.name: schemas[pattern.name] for pattern in patterns}
        self._adapting = [loop for loop in self._loops if loop.adapts and not isinstance(settings.decision, Static)]
        followed = {pattern.name for loop in self._adapting for pattern in loop.patterns}
        adapting = [pattern for pattern in patterns if pattern.name in followed]
        self._statistics = (
            RecentStatistics(adapting, settings.window, seed=settings.seed, max_pairs=settings.max_pairs)
            if adapting
            else None
        )
        self._latest: StatisticsSnapshot | None = None

    def _parts(
        self, patterns: Sequence[Pattern], together: JointPlanning | None
    ) -> Iterator[tuple[Sequence[Pattern], PlanMaker]]:
        """The patterns that follow one plan, and what makes it."""
        of = self._settings
        if together is None:
            for pattern in patterns:
                replanner = replanner_for(pattern, self._chosen[pattern.name], of.planner, of.cost, of.alpha)
                yield [pattern], SinglePlanMaker(pattern, replanner)
            return
        by_name = {pattern.name: pattern for pattern in patterns}
        for names in components_of_patterns(patterns, together.sharing):
            part = [by_name[name] for name in names]
            yield part, JointPlanMaker(part, self._chosen, together.of_part(len(part) / len(patterns)))

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Read the stream, once.

        Yields
        ------
        (str, pa.RecordBatch)
            A pattern's name and some of its output: that of each pattern in the order that `detect` gives it in, that
            of several in turns.

        Raises
        ------
        InputError, TooManyMatches, PlanError
            As `detect`.
        """
        for first, stop in self._intervals():
            self._count(first, stop)
            begun = self._begin(first, stop)
            if self._stream.has_more():  # a plan that nothing follows need not be the best
                for loop in self._adapting:
                    if loop not in begun:
                        loop.check(self._fresh())
            for loop in self._loops:
                loop.detect(at_least=self._settings.detect_events)
                if self._stream.has_more():
                    yield from self._written(loop.ready())
            self._forget()
        for loop in self._loops:
            yield from self._written(loop.ready(all_is_done=True))

    def _written(self, batches: Iterator[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        while True:
            with self._timed("writing"):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    @property
    def events_held(self) -> int:
        return len(self._stream) - self._stream.first

    def _forget(self) -> None:
        """Let go of the events that nothing asks for any more."""
        self.most_events_held = max(self.most_events_held, self.events_held)
        needed = [loop.needs_from for loop in self._loops]
        if self._statistics is not None:
            needed.append(self._statistics.reads_from(self._stream, min(self._stream.arrived, len(self._stream) - 1)))
        self._stream.forget(min(needed, default=self._stream.arrived))

    def _intervals(self) -> Iterator[tuple[int, int]]:
        """The rows between decisions, at least one each time."""
        stream, every_us = self._stream, self._settings.interval_us
        while True:
            with self._timed("reading"):
                if not stream.has_more():
                    return
                if every_us is None:
                    rows = stream.advance_by(self._settings.interval_events or 1)
                else:
                    since = stream.time_of(stream.arrived) - stream.start_us
                    rows = stream.advance_to(stream.start_us + (since // every_us + 1) * every_us)
                stream.has_more()
            yield rows

    def _count(self, first: int, stop: int) -> None:
        """Count the events of the rows `[first, stop)`, if anybody is going to ask."""
        self._latest = None
        if self._statistics is not None:
            with self._timed("estimating"):
                self._statistics.update(self._stream, first, stop)

    def _fresh(self) -> StatisticsSnapshot:
        """The statistics of the latest events, made once for all patterns that are decided about."""
        assert self._statistics is not None
        if self._latest is None:
            with self._timed("estimating"):
                self._latest = self._statistics.snapshot()
        return self._latest

    def _begin(self, first: int, stop: int) -> list[PlanLoop]:
        """Plan what has no plan yet; those that were planned from statistics of the stream's own beginning."""
        new = [loop for loop in self._loops if loop.plan is None]
        given = self._given_plan
        for loop in new:
            snapshot = self._given_snapshot or (self._fresh() if loop in self._adapting else None)
            if snapshot is None:
                with self._timed("estimating"):
                    snapshot = estimate_statistics(
                        loop.patterns,
                        self._stream.between(first, stop),
                        seed=self._settings.seed,
                        max_pairs=self._settings.max_pairs,
                    )
            own = None if given is None else given.part(pattern.name for pattern in loop.patterns)
            loop.begin(snapshot, own, self._given_snapshot)
        return new if given is None and self._given_snapshot is None else []

    def report(self) -> AdaptationReport:
        """The decisions so far, and the time that they took."""
        checks = sorted((check for loop in self._loops for check in loop.checks), key=lambda check: check.row)
        switches = sorted((switch for loop in self._loops for switch in loop.switches), key=lambda switch: switch.row)
        return AdaptationReport(
            len(self._stream),
            tuple(checks),
            tuple(switches),
            tuple(pattern.name for loop in self._adapting for pattern in loop.patterns),
            {loop.name: loop.seconds for loop in self._loops},
            self._seconds["reading"],
            self._seconds["estimating"],
            self._seconds["writing"],
            self._counters.metrics(self._chosen),
            {
                loop.name: tuple(pattern.name for pattern in loop.patterns)
                for loop in self._loops
                if len(loop.patterns) > 1
            },
        )

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = self._settings.clock()
        try:
            yield
        finally:
            self._seconds[what] += self._settings.clock() - began


EVERY_EVENTS = 20_000
"""Events between two decisions, unless told otherwise."""
DETECT_EVENTS = 1 << 18
"""Events that detection runs over at once while the plan stays, unless told otherwise."""


@dataclass(frozen=True)
class AdaptiveDetection:
    """The loop and its settings.

    Attributes
    ----------
    planner, cost, alpha
        As `planning.plan` takes them; None takes the defaults for the mechanisms. A planner of many patterns plans
        those together that may share work, and the plan of each such component is decided about, searched again from
        where it is, and switched, for itself. So it is where the first plan is a shared one.
    search
        Of planners of many patterns: `neighbourhood`, `sharing`, `time_limit_s`, `steps`, `seed`, as `plan_workload`
        takes them; a component has its share of the time and the steps. Without limits, `plan_makers.SEARCH_STEPS`.
    mechanism
        A name of `MECHANISMS`; None takes for each pattern the fastest that runs it.
    options
        Options of the mechanism, as `detect` takes them.
    decision
        Decides whether to plan again.
    every_events, every
        A decision is taken every so many events, or whenever so much of the stream's time has passed, such as
        `"10 minutes"`: one of the two; neither: every `EVERY_EVENTS` events.
    window
        The number of events that the statistics reach back; None: as far as the decision before the last.
    seed, max_pairs
        Decide which pairs of events the statistics test, and how many a scope between two decisions.
    minimum_gain
        A new plan is deployed only if it saves more than this share of the old one's cost, on the current statistics.
        None: as soon as what staying with the old plan has lost, or what the new plan is likely to save, is as much as
        a switch costs (`plan_loop.SwitchRule`, with what is proven of it). A part of that cost, to begin a run of
        detection, is measured by the clock: which plans are deployed may depend on the machine; the matches never do.
    detect_events
        Detection runs when the plan is switched, at the end, and whenever so many events, and `DETECT_WINDOWS` windows,
        have come since it ran.
    clock
        Seconds, by which the report says where the time went: on the wall, or of the processor.
    find
        Whether matches are found; if not, it is only decided, which does not depend on them.
    """

    planner: str | None = None
    cost: str | None = None
    alpha: float = 0.0
    mechanism: str | None = None
    options: tuple[str, ...] = ()
    decision: DecisionFunction = field(default_factory=InvariantBased)
    every_events: int | None = None
    every: str | None = None
    window: int | None = None
    seed: int = 0
    max_pairs: int = PAIRS_A_CHECK
    minimum_gain: float | None = None
    detect_events: int = DETECT_EVENTS
    clock: Callable[[], float] = time.perf_counter
    find: bool = True
    search: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.every_events is not None and self.every is not None:
            raise InputError("decisions are taken every so many events or after so much time: give one of the two")
        if self.every_events is not None and self.every_events < 1:
            raise InputError(f"a decision every {self.every_events} events: there is at least one in between")
        if self.detect_events < 1:
            raise InputError(f"detection every {self.detect_events} events: it runs over one or more")
        if self.minimum_gain is not None and not 0 <= self.minimum_gain < 1:
            raise InputError(f"a minimal gain of {self.minimum_gain}: it is a share of the cost, from 0 to below 1")
        if self.every is not None:
            parse_duration_us(self.every)
        if self.window is not None and self.window < 1:
            raise InputError(f"the statistics' window is {self.window} events; it is one or more")

    def __repr__(self) -> str:
        often = self.every or f"{self.interval_events:,} events"
        planner = self.planner or "the default planner"
        return f"<AdaptiveDetection by {planner}, {type(self.decision).__name__}, a decision every {often}>"

    @property
    def interval_us(self) -> int | None:
        """Microseconds between decisions; None where events are counted."""
        return None if self.every is None else parse_duration_us(self.every)

    @property
    def interval_events(self) -> int | None:
        """Events between decisions, or at least between them; None where time is."""
        if self.every is not None:
            return None
        return EVERY_EVENTS if self.every_events is None else self.every_events

    def detect(
        self,
        patterns: Sequence[Pattern],
        events: Events,
        plan: Plan | None = None,
        snapshot: StatisticsSnapshot | None = None,
        output: str = "verbose",
        limit: int | None = None,
    ) -> tuple[Tables, AdaptationReport]:
        """Find all matches of patterns in a stream by plans that follow its statistics.

        Parameters
        ----------
        patterns
            Patterns of one stream, with different names; the plan of each, or of those that are planned together, is
            decided about for itself.
        events
            An events table, or tables or record batches in the order of the stream.
        plan
            The first plan; None makes one from `snapshot`, or else from the statistics up to the first decision.
        snapshot
            The statistics that the first plan is, or was, made from.
        output, limit
            As `detect` takes them; no output is compressed.

        Returns
        -------
        dict of str to pa.Table, and AdaptationReport
            As `detect` returns them, the same as by any plan; and what was decided, with where the time went.

        Raises
        ------
        InputError, UnsupportedPattern, PlanError
            As `begin`.
        """
        run = self.begin(patterns, events, plan, snapshot, output, limit)
        batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in run.schemas}
        for name, batch in run.batches():
            batches[name].append(batch)
        return {name: pa.Table.from_batches(batches[name], run.schemas[name]) for name in batches}, run.report()

    def begin(
        self,
        patterns: Sequence[Pattern],
        events: Events,
        plan: Plan | None = None,
        snapshot: StatisticsSnapshot | None = None,
        output: str = "verbose",
        limit: int | None = None,
    ) -> AdaptiveRun:
        """The same as it comes: the output a batch at a time, in the memory of some windows.

        Raises
        ------
        InputError, UnsupportedPattern, PlanError
            As `detect`; those about the events from the run. A pattern that composes others, or has SUMMARIZE,
            is not supported.
        """
        for pattern in patterns:
            if pattern.composes or pattern.summary is not None:
                what = "the composition of patterns" if pattern.composes else "SUMMARIZE"
                feature = f"{what} by plans that follow the stream"
                raise UnsupportedPattern("", feature, pattern=pattern.name, hint="use detect")
        return AdaptiveRun(self, patterns, events, plan, snapshot, output, limit)


def detect_adaptively(
    patterns: Sequence[Pattern],
    events: Events,
    plan: Plan | None = None,
    snapshot: StatisticsSnapshot | None = None,
    *,
    decision: DecisionFunction | str = "invariant",
    output: str = "verbose",
    limit: int | None = None,
    **settings: Any,
) -> tuple[Tables, AdaptationReport]:
    """Find all matches of patterns in a stream by plans that follow its statistics.

    Parameters
    ----------
    patterns, events, plan, snapshot, output, limit
        As `AdaptiveDetection.detect` takes them.
    decision
        A decision function, or the name of one with its defaults.
    **settings
        The other settings of `AdaptiveDetection`.

    Returns
    -------
    dict of str to pa.Table, and AdaptationReport
        As `AdaptiveDetection.detect` returns them.

    Raises
    ------
    InputError, UnsupportedPattern, PlanError
        As `detect`; an InputError also for settings that there are not.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}})
    >>> kinds = "A" * 12 + "AABB" * 3 + "B" * 12 + "AAB"  # A is frequent first, then B
    >>> events = schema.table([{"timestamp": at * 100_000, "kind": kind} for at, kind in enumerate(kinds)])
    >>> patterns = cep.parse_patterns("NAME pair PATTERN SEQ(A a, B b) WITHIN 100 ms", schema)
    >>> tables, report = cep.detect_adaptively(patterns, events, planner="event_frequency", every_events=12)
    >>> tables["pair"].num_rows, [switch.row for switch in report.switches]
    (4, [36])
    """
    known = [one.name for one in fields(AdaptiveDetection)]
    for name in settings:
        if name not in known:
            raise InputError(f"adaptive detection has no setting {name!r}; it has: {', '.join(known)}")
    if isinstance(decision, str):
        decision = decision_function(decision)
    return AdaptiveDetection(decision=decision, **settings).detect(patterns, events, plan, snapshot, output, limit)


TRIES_OF_A_PLAN = 10_000
"""Making a plan takes as long as so many tries: about 0.1 ms, and one of an event on a partial match about 10 ns."""


@dataclass(frozen=True)
class Tried:
    """A distance, and what detection with it came to.

    Attributes
    ----------
    tries
        Events tried on partial matches.
    replannings, switches
        How often it was planned again, and how often another plan was put in use.
    """

    distance: float
    tries: int
    replannings: int
    switches: int

    @property
    def work(self) -> int:
        """Tries, and what planning takes in them."""
        return self.tries + TRIES_OF_A_PLAN * self.replannings


@dataclass(frozen=True)
class ScannedDistance:
    """The distance with the least work, of equally good ones the first, and all that were tried."""

    best: float
    tried: tuple[Tried, ...]

    def __repr__(self) -> str:
        return f"<ScannedDistance {self.best:g}, the best of {len(self.tried)} that were tried>"


def scan_distance(
    loop: AdaptiveDetection,
    patterns: Sequence[Pattern],
    events: Callable[[], Events],
    plan: Plan | None = None,
    output: str = "count",
    *,
    candidates: Sequence[float] = SCANNED_DISTANCES,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> ScannedDistance:
    """Try minimal distances of invariants on events of the past.

    Work is counted, not timed: the same events give the same distance on any machine.

    Parameters
    ----------
    loop
        The settings, with invariants as its decision function.
    events
        Makes the events anew for each candidate.
    plan, output
        As `AdaptiveDetection.detect` takes them; matches are found and thrown away.
    progress
        Told of candidates that are done, and of all.

    Raises
    ------
    InputError
        The decision function is another one, there is no candidate, or one is no distance; else as `detect`.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}})
    >>> kinds = "AAAB" * 20 + "ABBB" * 20
    >>> events = schema.table([{"timestamp": at * 100_000, "kind": kind} for at, kind in enumerate(kinds)])
    >>> patterns = cep.parse_patterns("NAME pair PATTERN SEQ(A a, B b) WITHIN 1 second", schema)
    >>> loop = AdaptiveDetection(planner="event_frequency", every_events=20)
    >>> [one.replannings for one in scan_distance(loop, patterns, lambda: events, candidates=(0.0, 9.0)).tried]
    [2, 0]
    """
    decision = loop.decision
    if not isinstance(decision, InvariantBased):
        raise InputError("distances are those of invariants: the decision function has to be invariant")
    if not candidates:
        raise InputError("there is nothing to try: a scan takes one candidate or more")
    tried: list[Tried] = []
    for distance in candidates:
        # A part of the price of switches would be timed.
        least = 0.0 if loop.minimum_gain is None else loop.minimum_gain
        found = replace(loop, decision=replace(decision, distance=Fixed(distance)), minimum_gain=least)
        run = found.begin(patterns, events(), plan, output=output)
        for _ in run.batches():
            pass
        report = run.report()
        tries = sum(node.candidates for node in report.metrics.nodes)
        tried.append(Tried(distance, tries, report.replannings, len(report.switches)))
        progress(len(tried), len(candidates))
    return ScannedDistance(min(tried, key=lambda one: one.work).distance, tuple(tried))
