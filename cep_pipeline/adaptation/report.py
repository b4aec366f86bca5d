"""The report of a detection-adaptation loop: checks, switches of plans, and the time that they took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cep_pipeline.detection.mechanisms import Metrics


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
