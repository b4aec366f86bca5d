"""The detection-adaptation loop (acep-invariants patent, Algorithm 1): detect, estimate, decide, plan again, switch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from cep_pipeline.adaptation.adaptive_run import AdaptiveRun, Events
from cep_pipeline.adaptation.decisions import DecisionFunction, InvariantBased, decision_function
from cep_pipeline.adaptation.recent_statistics import PAIRS_A_CHECK, statistics_window
from cep_pipeline.adaptation.report import AdaptationReport
from cep_pipeline.detection.detect import Tables
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.estimate import parse_duration_us

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
        takes them; a component has its share of the time and the steps. Without limits, `plans_anew.SEARCH_STEPS`.
    mechanism
        A name of `MECHANISMS`; None takes for each pattern the fastest that runs it.
    options
        Options of the mechanism, as `detect` takes them.
    decision
        Decides whether to plan again.
    every_events, every
        A decision is taken every so many events, or whenever so much of the stream's time has passed, such as
        `"10 minutes"`: one of the two; neither: every `EVERY_EVENTS` events, and not before the longest window of the
        patterns has passed. What is decided more often than that follows numbers of less than a window, which the next
        window need not have, and keeps several plans at work at a time.
    budget
        The share of the time of detecting and deciding that may go into deciding and planning, above 0 and below 1: a
        decision that comes too soon for that is put off to the next time that one is due; the first one, and the first
        plan, are not. None: none is put off.
        Which decisions are taken then depends on how fast the machine is; the matches never do.
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
    budget: float | None = None
    window: str | int | None = None
    seed: int = 0
    max_pairs: int = PAIRS_A_CHECK
    minimum_gain: float = 0.0
    detect_events: int = DETECT_EVENTS
    clock: Callable[[], float] = time.perf_counter
    find: bool = True
    search: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.every_events is not None and self.every is not None:
            raise InputError("decisions are taken every so many events or after so much time: give one of the two")
        if self.every_events is not None and self.every_events < 1:
            raise InputError(f"a decision every {self.every_events} events: there is at least one in between")
        if self.budget is not None and not 0 < self.budget < 1:
            raise InputError(f"a budget of {self.budget} for decisions: it is a share of the time, above 0 and below 1")
        if self.detect_events < 1:
            raise InputError(f"detection every {self.detect_events} events: it runs over one or more")
        if not 0 <= self.minimum_gain < 1:
            raise InputError(f"a minimal gain of {self.minimum_gain}: it is a share of the cost, from 0 to below 1")
        self.statistics_window()

    def __repr__(self) -> str:
        often = self.every or f"{self.interval_events:,} events"
        planner = self.planner or "the default planner"
        return f"<AdaptiveDetection by {planner}, {type(self.decision).__name__}, a decision every {often}>"

    def statistics_window(self) -> Window | None:
        """How far back the statistics reach; None: over the last two intervals, however long they are."""
        return statistics_window(self.window, self.every_events, self.interval_us)

    @property
    def waits_for_windows(self) -> bool:
        """Whether no decision is taken before a window has passed."""
        return self.every is None and self.every_events is None

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
            As `detect` takes them.

        Returns
        -------
        dict of str to pa.Table, and AdaptationReport
            As `detect` returns them, the same as by any plan; and what was decided, with where the time went.

        Raises
        ------
        InputError, UnsupportedPattern, PlanError
            As `detect`.
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
            As `detect`; those about the events from the run.
        """
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
