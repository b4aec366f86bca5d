"""One stream through the detection-adaptation loop: its output as it comes, and the report of what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from cep_pipeline.adaptation import thresholds
from cep_pipeline.adaptation.decisions import Static
from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.adaptation.loop_outputs import Finding
from cep_pipeline.adaptation.plan_loop import PlanLoop
from cep_pipeline.adaptation.plan_switch import Reading, SlicesOfStream
from cep_pipeline.adaptation.plans_anew import AloneAnew, PlansAnew, Together, TogetherAnew, planned_together
from cep_pipeline.adaptation.recent_statistics import RecentStatistics
from cep_pipeline.adaptation.report import AdaptationReport
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.choice import check_options, choose_mechanisms
from cep_pipeline.detection.detect import check_limit, check_output
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.detection.planned import replanner_for
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import clause_search, set_sums
from cep_pipeline.planning.multi_pattern.component_plans import components_of_patterns
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
        check_output(output, patterns)
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

        def finding(pattern: Pattern) -> Finding:
            mechanism = MECHANISMS[self._chosen[pattern.name]].with_options(settings.options)
            reading = Reading(pattern, self._stream)
            return Finding(pattern, mechanism, self._stream, slices, reading, self._counters, limit)

        self._loops = [
            PlanLoop(
                [finding(pattern) for pattern in part],
                output,
                plans_anew,
                settings.decision,
                settings.minimum_gain,
                settings.clock,
                find=settings.find,
            )
            for part, plans_anew in self._parts(patterns, together)
        ]
        schemas = {name: schema for loop in self._loops for name, schema in loop.schemas.items()}
        self.schemas = {pattern.name: schemas[pattern.name] for pattern in patterns}
        self._adapting = [loop for loop in self._loops if loop.adapts and not isinstance(settings.decision, Static)]
        followed = {pattern.name for loop in self._adapting for pattern in loop.patterns}
        adapting = [pattern for pattern in patterns if pattern.name in followed]
        self._statistics = (
            RecentStatistics(adapting, settings.statistics_window(), seed=settings.seed, max_pairs=settings.max_pairs)
            if adapting
            else None
        )
        if adapting:
            set_sums.load_kernel()  # no decision is to take the time of compiling it
            clause_search.load_kernel()
            thresholds.load_kernel()
        for loop in self._adapting:
            loop.prepare()
        self._latest: StatisticsSnapshot | None = None

    def _parts(
        self, patterns: Sequence[Pattern], together: Together | None
    ) -> Iterator[tuple[Sequence[Pattern], PlansAnew]]:
        """The patterns that follow one plan, and what makes it."""
        of = self._settings
        if together is None:
            for pattern in patterns:
                replanner = replanner_for(pattern, self._chosen[pattern.name], of.planner, of.cost, of.alpha)
                yield [pattern], AloneAnew(pattern, replanner)
            return
        by_name = {pattern.name: pattern for pattern in patterns}
        for names in components_of_patterns(patterns, together.sharing):
            part = [by_name[name] for name in names]
            yield part, TogetherAnew(part, self._chosen, together.of_part(len(part) / len(patterns)))

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
                    if loop not in begun and loop.may_check(self._settings.budget):
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
                    rows = self._past_a_window(*stream.advance_by(self._settings.interval_events or 1))
                else:
                    since = stream.time_of(stream.arrived) - stream.start_us
                    rows = stream.advance_to(stream.start_us + (since // every_us + 1) * every_us)
                stream.has_more()
            yield rows

    def _past_a_window(self, first: int, stop: int) -> tuple[int, int]:
        """The rows of an interval, and where decisions wait for windows to pass as many more as that takes."""
        stream, windows = self._stream, [one.window for loop in self._adapting for one in loop.patterns]
        if not self._settings.waits_for_windows or not windows:
            return first, stop
        most = max(window.events or 0 for window in windows)
        if stop - first < most:
            stop = stream.advance_by(most - (stop - first))[1]
        until_us = stream.time_of(first) + max(window.time_us or 0 for window in windows)
        if stream.time_of(stop - 1) < until_us:
            stop = max(stop, stream.advance_to(until_us)[1])
        return first, stop

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
        """What has been decided so far, and where the time went."""
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
            sum(loop.put_off for loop in self._loops),
        )

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = self._settings.clock()
        try:
            yield
        finally:
            self._seconds[what] += self._settings.clock() - began
