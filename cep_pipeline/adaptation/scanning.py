"""The minimal distance by parameter scanning: a stream of the past is run with each, and the work is compared.

The first of the ways that the acep-invariants patent names (section "Distance-Based Invariants"); what is found is then
a fixed distance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cep_pipeline.adaptation.decisions import InvariantBased
from cep_pipeline.adaptation.distance import SCANNED_DISTANCES, Fixed
from cep_pipeline.adaptation.loop import AdaptiveDetection, Events
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan

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
