"""The detection-adaptation loop (acep-invariants patent, Algorithm 1): detect, estimate, decide, plan again, switch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from cep_pipeline.adaptation.decisions import DecisionFunction, InvariantBased, Static, decision_function
from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.adaptation.pattern_loop import PatternLoop
from cep_pipeline.adaptation.plan_switch import SlicesOfStream
from cep_pipeline.adaptation.recent_statistics import PAIRS_A_CHECK, RecentStatistics, statistics_window
from cep_pipeline.adaptation.report import AdaptationReport
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.detect import Tables, choose_mechanisms
from cep_pipeline.detection.matches import matches_schema, write_matches
from cep_pipeline.detection.mechanism import Counters
from cep_pipeline.detection.output_policy import KeptMatches
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics
from cep_pipeline.statistics.estimate import parse_duration_us

Events: TypeAlias = pa.Table | Iterable[pa.Table | pa.RecordBatch]
"""A stream: a table, or tables one after another, all in the order of (timestamp, seq)."""

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
        As `planning.plan` takes them; None takes the defaults for the mechanisms.
    mechanism
        A name of `MECHANISMS`; None takes for each pattern the fastest that runs it.
    decision
        Decides whether to plan again.
    every_events, every
        A decision is taken every so many events, or whenever so much of the stream's time has passed, such as
        `"10 minutes"`: one of the two; neither: every `EVERY_EVENTS` events.
    window
        How far back the statistics reach: a length of time such as `"20 minutes"`, or a number of events; None: as far
        as the decision before the last.
    seed, max_pairs
        Decide which pairs of events the statistics test, and how many a scope between two decisions.
    minimum_gain
        A new plan is deployed only if it saves more than this share of the old one's cost, on the current statistics.
    detect_events
        Detection runs when the plan is switched, at the end, and whenever so many events, and `DETECT_WINDOWS` windows,
        have come since it ran.
    clock
        Seconds, by which the report says where the time went: on the wall, or of the processor.
    """

    planner: str | None = None
    cost: str | None = None
    alpha: float = 0.0
    mechanism: str | None = None
    decision: DecisionFunction = field(default_factory=InvariantBased)
    every_events: int | None = None
    every: str | None = None
    window: str | int | None = None
    seed: int = 0
    max_pairs: int = PAIRS_A_CHECK
    minimum_gain: float = 0.0
    detect_events: int = DETECT_EVENTS
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        if self.every_events is not None and self.every is not None:
            raise InputError("decisions are taken every so many events or after so much time: give one of the two")
        if self.every_events is not None and self.every_events < 1:
            raise InputError(f"a decision every {self.every_events} events: there is at least one in between")
        if self.detect_events < 1:
            raise InputError(f"detection every {self.detect_events} events: it runs over one or more")
        if not 0 <= self.minimum_gain < 1:
            raise InputError(f"a minimal gain of {self.minimum_gain}: it is a share of the cost, from 0 to below 1")
        self.statistics_window()

    def statistics_window(self) -> Window:
        """How far back the statistics reach."""
        return statistics_window(self.window, self.interval_events, self.interval_us)

    @property
    def interval_us(self) -> int | None:
        """Microseconds between decisions; None where events are counted."""
        return None if self.every is None else parse_duration_us(self.every)

    @property
    def interval_events(self) -> int | None:
        """Events between decisions; None where time is."""
        if self.every is not None:
            return None
        return EVERY_EVENTS if self.every_events is None else self.every_events

    def detect(
        self,
        patterns: Sequence[Pattern],
        events: Events,
        plan: Plan | None = None,
        snapshot: StatisticsSnapshot | None = None,
    ) -> tuple[Tables, AdaptationReport]:
        """Find all matches of patterns in a stream by plans that follow its statistics.

        Parameters
        ----------
        patterns
            Patterns of one stream, with different names; the plan of each is decided about for itself.
        events
            An events table, or tables or record batches in the order of the stream. They stay in memory, since matches
            are made into rows at the end.
        plan
            The first plan; None makes one from `snapshot`, or else from the statistics up to the first decision.
        snapshot
            The statistics that the first plan is, or was, made from.

        Returns
        -------
        dict of str to pa.Table, and AdaptationReport
            As `detect` returns them, the same as by any plan; and what was decided, with where the time went.

        Raises
        ------
        InputError, UnsupportedPattern, PlanError
            As `detect`.
        """
        return _Run(self, patterns, events, plan, snapshot).run()


class _Run:
    """One stream through the loop."""

    def __init__(
        self,
        settings: AdaptiveDetection,
        patterns: Sequence[Pattern],
        events: Events,
        plan: Plan | None,
        snapshot: StatisticsSnapshot | None,
    ) -> None:
        self._settings = settings
        self._chosen = choose_mechanisms(patterns, settings.mechanism)
        if plan is not None:
            validate(plan, patterns)
        self._given_plan, self._given_snapshot = plan, snapshot
        self._stream = EventStream(patterns, events)
        self._slices = SlicesOfStream(self._stream)
        self._counters = Counters()
        self._seconds = {"reading": 0.0, "estimating": 0.0, "writing": 0.0}
        self._loops = [
            PatternLoop(
                pattern,
                MECHANISMS[self._chosen[pattern.name]],
                self._stream,
                partial(self._plan_of, pattern),
                settings.decision,
                settings.minimum_gain,
                settings.clock,
            )
            for pattern in patterns
        ]
        self._adapting = [loop for loop in self._loops if loop.adapts and not isinstance(settings.decision, Static)]
        adapting = [loop.pattern for loop in self._adapting]
        self._statistics = (
            RecentStatistics(adapting, settings.statistics_window(), seed=settings.seed, max_pairs=settings.max_pairs)
            if adapting
            else None
        )

    def run(self) -> tuple[Tables, AdaptationReport]:
        for first, stop in self._intervals():
            fresh = self._estimated(first, stop)
            begun = self._begin(fresh, first, stop)
            if self._stream.has_more():  # a plan that nothing follows need not be the best
                for loop in self._adapting:
                    if loop not in begun:
                        assert fresh is not None
                        loop.check(fresh)
            for loop in self._loops:
                loop.detect(self._slices, self._counters, at_least=self._settings.detect_events)
        with self._timed("writing"):
            tables = {loop.pattern.name: self._table(loop) for loop in self._loops}
        return tables, self._report()

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
                    since = int(stream.timestamps[stream.arrived]) - int(stream.timestamps[0])
                    rows = stream.advance_to(int(stream.timestamps[0]) + (since // every_us + 1) * every_us)
                stream.has_more()
            yield rows

    def _estimated(self, first: int, stop: int) -> StatisticsSnapshot | None:
        if self._statistics is None:
            return None
        with self._timed("estimating"):
            self._statistics.update(self._stream, first, stop)
            return self._statistics.snapshot()

    def _begin(self, fresh: StatisticsSnapshot | None, first: int, stop: int) -> list[PatternLoop]:
        """Plan what has no plan yet; those that were planned from statistics of the stream's own beginning."""
        new = [loop for loop in self._loops if loop.plan is None]
        given = self._given_plan
        for loop in new:
            snapshot = self._given_snapshot or (fresh if loop in self._adapting else None)
            if snapshot is None:
                with self._timed("estimating"):
                    snapshot = estimate_statistics(
                        [loop.pattern],
                        self._stream.table.slice(first, stop - first),
                        seed=self._settings.seed,
                        max_pairs=self._settings.max_pairs,
                    )
            own = None if given is None else replace(given, patterns=(given.for_pattern(loop.pattern.name),))
            loop.begin(snapshot, own)
        return new if self._given_snapshot is None else []

    def _plan_of(self, pattern: Pattern, snapshot: StatisticsSnapshot) -> Plan:
        settings = self._settings
        chosen = {pattern.name: self._chosen[pattern.name]}
        return plan_for([pattern], snapshot, chosen, settings.planner, settings.cost, settings.alpha, compare=False)

    def _table(self, loop: PatternLoop) -> pa.Table:
        """The matches in the page's order, those that OUTPUT and CONSUME keep."""
        pattern, batches = loop.pattern, list[pa.RecordBatch]()
        if loop.blocks:
            events = self._slices.prepared(pattern, (0, len(self._stream)))
            write_matches(pattern, loop.blocks, events, batches.append, typed=True, kept=KeptMatches(pattern))
            loop.blocks.clear()
        return pa.Table.from_batches(batches, matches_schema(pattern))

    def _report(self) -> AdaptationReport:
        checks = sorted((check for loop in self._loops for check in loop.checks), key=lambda check: check.row)
        switches = sorted((switch for loop in self._loops for switch in loop.switches), key=lambda switch: switch.row)
        return AdaptationReport(
            len(self._stream),
            tuple(checks),
            tuple(switches),
            {loop.pattern.name: loop.seconds for loop in self._loops},
            self._seconds["reading"],
            self._seconds["estimating"],
            self._seconds["writing"],
            self._counters.metrics(self._chosen),
        )

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = self._settings.clock()
        try:
            yield
        finally:
            self._seconds[what] += self._settings.clock() - began


def detect_adaptively(
    patterns: Sequence[Pattern],
    events: Events,
    plan: Plan | None = None,
    snapshot: StatisticsSnapshot | None = None,
    *,
    decision: DecisionFunction | str = "invariant",
    **settings: Any,
) -> tuple[Tables, AdaptationReport]:
    """Find all matches of patterns in a stream by plans that follow its statistics.

    Parameters
    ----------
    patterns, events, plan, snapshot
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
    return AdaptiveDetection(decision=decision, **settings).detect(patterns, events, plan, snapshot)
