"""One stream through the detection-adaptation loop: its output as it comes, and the report of what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from cep_pipeline.adaptation.decisions import Static
from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.adaptation.loop_outputs import Finding
from cep_pipeline.adaptation.pattern_loop import PatternLoop
from cep_pipeline.adaptation.plan_switch import Reading, SlicesOfStream
from cep_pipeline.adaptation.recent_statistics import RecentStatistics
from cep_pipeline.adaptation.report import AdaptationReport
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.detect import check_limit, check_options, check_output, choose_mechanisms
from cep_pipeline.detection.mechanism import Counters
from cep_pipeline.detection.planned import replanner_for
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNER_NAMES, PLANNERS
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics

if TYPE_CHECKING:
    from cep_pipeline.adaptation.loop import AdaptiveDetection

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
    window that counts events in partitions, which may go on at any time, holds the stream. What stays is a small
    record a decision, and what the caller keeps of the output.
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
        refuse_planned_together(settings.planner, plan)
        check_output(output, patterns)
        check_limit(limit)
        self._chosen = choose_mechanisms(patterns, settings.mechanism)
        check_options(self._chosen, settings.options)
        if plan is not None:
            validate(plan, patterns)
        self._given_plan, self._given_snapshot = plan, snapshot
        self._stream = EventStream(patterns, events)
        self.most_events_held = 0
        self._counters = Counters()
        self._seconds = {"reading": 0.0, "estimating": 0.0, "writing": 0.0}
        slices = SlicesOfStream(self._stream)
        self._loops = [
            PatternLoop(
                Finding(
                    pattern,
                    MECHANISMS[self._chosen[pattern.name]].with_options(settings.options),
                    self._stream,
                    slices,
                    Reading(pattern, self._stream),
                    self._counters,
                    limit,
                ),
                output,
                replanner_for(pattern, self._chosen[pattern.name], settings.planner, settings.cost, settings.alpha),
                settings.decision,
                settings.minimum_gain,
                settings.clock,
                find=settings.find,
            )
            for pattern in patterns
        ]
        self.schemas = {loop.pattern.name: loop.schema for loop in self._loops}
        self._adapting = [loop for loop in self._loops if loop.adapts and not isinstance(settings.decision, Static)]
        adapting = [loop.pattern for loop in self._adapting]
        self._statistics = (
            RecentStatistics(adapting, settings.statistics_window(), seed=settings.seed, max_pairs=settings.max_pairs)
            if adapting
            else None
        )

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
            fresh = self._estimated(first, stop)
            begun = self._begin(fresh, first, stop)
            if self._stream.has_more():  # a plan that nothing follows need not be the best
                for loop in self._adapting:
                    if loop not in begun:
                        assert fresh is not None
                        loop.check(fresh)
            for loop in self._loops:
                loop.detect(at_least=self._settings.detect_events)
                if self._stream.has_more():
                    yield from self._written(loop.pattern.name, loop.ready())
            self._forget()
        for loop in self._loops:
            yield from self._written(loop.pattern.name, loop.ready(all_is_done=True))

    def _written(self, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
        while True:
            with self._timed("writing"):
                batch = next(batches, None)
            if batch is None:
                return
            yield name, batch

    @property
    def events_held(self) -> int:
        return len(self._stream) - self._stream.first

    def _forget(self) -> None:
        """Let go of the events that nothing asks for any more."""
        self.most_events_held = max(self.most_events_held, self.events_held)
        needed = [loop.needs_from for loop in self._loops]
        if self._statistics is not None:
            needed.append(self._statistics.reads_from(self._stream, min(self._stream.arrived, len(self._stream) - 1)))
        self._stream.forget(min(needed))

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
                        self._stream.between(first, stop),
                        seed=self._settings.seed,
                        max_pairs=self._settings.max_pairs,
                    )
            own = None if given is None else given.part([loop.pattern.name])
            loop.begin(snapshot, own)
        return new if self._given_snapshot is None else []

    def report(self) -> AdaptationReport:
        """What has been decided so far, and where the time went."""
        checks = sorted((check for loop in self._loops for check in loop.checks), key=lambda check: check.row)
        switches = sorted((switch for loop in self._loops for switch in loop.switches), key=lambda switch: switch.row)
        return AdaptationReport(
            len(self._stream),
            tuple(checks),
            tuple(switches),
            tuple(loop.pattern.name for loop in self._adapting),
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


def refuse_planned_together(planner: str | None, plan: Plan | None) -> None:
    """Refuse plans of many patterns together: the loop decides about each pattern for itself, and switches it alone.

    Raises
    ------
    PlanError
        The planner plans all patterns together, or the plan lets them share.
    """
    instead = "pattern sets planned together are adapted between days, by `cep replan` and the DAG replanning"
    if planner in MULTI_PATTERN_PLANNER_NAMES:
        raise PlanError(
            f"adaptive detection plans each pattern by itself, and planner {planner!r} all of them together: choose "
            f"one of {', '.join(PLANNERS)}; {instead}"
        )
    if plan is not None and plan.sharing != "none":
        raise PlanError(
            f"adaptive detection runs each pattern by a plan of its own, and in plan {plan.plan_id} they share by "
            f"{plan.sharing}: make one that does not; {instead}"
        )
