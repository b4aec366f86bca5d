"""The kernel cost: nanoseconds that the fused kernel takes while the time of one window passes.

The kernel reads each level's candidates from an index range, which order, window and equalities bound; tests the other
conditions on them, several at once; and goes on with those that pass. So its work is counted by

- candidates: k Q(S) P(L) P(R) of them are tested where L and R meet in S, with Q(S) the combinations of one instance of
  each of S that are in window and order, within the bounds on gaps, and equal in what the index is sorted by, and P(S)
  the share of them that pass the other conditions among S;
- partial matches: k PM(S) of them are made, each of which opens a range of the next level;
- events: an array of range ends is made for those of the variables that the next level's ranges depend on, taken to be
  those at the two edges of S, after which and before which none of S is ordered.

The kernel stores no partial matches: a tree runs as the order of its leaves, and costs what that order does.

k PM(S), with k = |S|, is the number that is made while the time of a window passes, where PM(S) are alive in it: of n
proportional to W^k, dn/dW are made in each unit of time. Kleene variables are bound after all single ones, whatever the
plan says; only reading their events is charged.

A candidate of a step where a dear condition is tested for the first time costs more, by the kind of the condition
(`costs.conditions`). What the kernel has code for, such as a square root, is computed of all candidates there: each
costs 1 + t / c times as much, where t is what the test takes beside a comparison and c a candidate. Two such conditions
of one step count as the product of both. Functions that it has no code for (`APART`) are computed of the tuples that
pass all else, block by block: those cost t each (`LateTests`).

What a unit of work costs was measured, never guessed: many orders were run, and least squares of relative errors fitted
the constants to what they had counted. `kernel_costs.json` has them, and where and when they were measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files

import numpy as np

from cep_pipeline.planning.clause_statistics import ClauseStatistics, JointCondition
from cep_pipeline.planning.costs.model import Array, CostModel, GrownMatches, LateTests, term_of

CONSTANTS_FILE = "kernel_costs.json"

_PLAIN = NUMBER, TEXT, ARITHMETIC, ROOT = ("number", "text", "arithmetic", "root")
_OTHERS = CHOICE, FUNCTION, CLOCK, LIST, CORRELATION = ("choice", "function", "clock", "list", "correlation")
CONDITION_KINDS = (*_PLAIN, *_OTHERS)
"""Kinds of conditions, the dearer ones later: a comparison of numbers or of texts as they are, or of what is computed
of numbers; a square root; IN, LIKE or IS NULL; another function; the reading of a clock; what is computed of the
elements of a list; a correlation of two list attributes."""
APART = frozenset({CHOICE, FUNCTION, CLOCK, CORRELATION})
"""Kinds that the kernel has no code for where several events are mentioned."""
DEAR = APART | {ROOT}
"""Kinds that are part of what a plan costs; the others are not told apart from a comparison."""


@dataclass(frozen=True)
class KernelCosts:
    """Nanoseconds of one core for a unit of work.

    Attributes
    ----------
    candidate
        To test one candidate.
    partial_match
        To go on with what has passed: to open its range of the next level.
    match
        To write one match.
    event
        To make the range end of one event of one earlier level.
    conditions
        To test a condition of a kind, one by one as mechanisms do that keep partial matches (`costs.conditions`); where
        they were not measured, none are there.
    tests
        To test a condition of a kind, over several variables, as the fused mechanism does.
    measured_on, measured_at
        The machine, and the date.
    """

    candidate: float
    partial_match: float
    match: float
    event: float
    conditions: Mapping[str, float] = field(default_factory=dict)
    tests: Mapping[str, float] = field(default_factory=dict)
    measured_on: str = ""
    measured_at: str = ""

    def __post_init__(self) -> None:
        for name in UNITS:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} costs {getattr(self, name)} ns: a unit of work costs something")
        for kind, cost in (*self.conditions.items(), *self.tests.items()):
            if not 0 < cost < math.inf:
                raise ValueError(f"a condition of the kind {kind} costs {cost} ns: a test costs something")

    @cached_property
    def ln_dearer(self) -> dict[str, float]:
        """The ln of how much dearer candidates are by a dear condition that the kernel has code for, by its kind."""
        plain = self.tests.get(NUMBER, math.inf)
        return {
            kind: math.log1p((cost - plain) / self.candidate)
            for kind, cost in self.tests.items()
            if kind in DEAR - APART and cost > plain
        }

    def apart_ns(self, kind: str) -> float:
        """Nanoseconds to test a condition of a kind on a tuple that passes all else; 0 where the kernel tests it."""
        # Eighths: their sums are exact.
        return round(8 * self.tests.get(kind, 0.0)) / 8 if kind in APART else 0.0


UNITS = ("candidate", "partial_match", "match", "event")
"""The constants of `KernelCosts`."""


@cache
def kernel_costs() -> KernelCosts:
    """The constants that were measured."""
    text = (files("cep_pipeline.planning.costs") / CONSTANTS_FILE).read_text(encoding="utf-8")
    return KernelCosts(**json.loads(text))


def kernel_model(costs: Callable[[], KernelCosts]) -> CostModel:
    """The cost model of the kernel; its constants are asked for when it is first used."""
    return CostModel(
        name="kernel",
        unit="ns a window on one core",
        node=term_of(lambda statistics: _Made(statistics, costs())),
        pair=term_of(
            lambda statistics: _of_singles(
                statistics, _dearer(statistics, statistics.in_range, costs().ln_dearer, 1.0), costs().candidate
            )
        ),
        product=term_of(
            lambda statistics: GrownMatches(_dearer(statistics, statistics.tested, costs().ln_dearer, -1.0))
        ),
        late=LateTests(
            tuples=term_of(lambda statistics: _of_singles(statistics, _without_apart(statistics))),
            passing=term_of(lambda statistics: GrownMatches(_apart(statistics))),
            ns=lambda kind: costs().apart_ns(kind),
        ),
        runs_orders=True,
    )


def _dearer(
    clause: ClauseStatistics, statistics: ClauseStatistics, ln_dearer: Mapping[str, float], sign: float
) -> ClauseStatistics:
    """Some of a clause's statistics in which each set counts how much dearer candidates are by its conditions."""
    if clause.kinds.isdisjoint(ln_dearer):
        return statistics
    dear = tuple(
        JointCondition(one.positions, sign * ln_dearer[one.kind])
        for one in clause.singles.conditions
        if one.kind in ln_dearer and not (one.equality or one.span)
    )
    key = "dearer", sign, *(one.ln_ratio for one in dear)
    return clause.derived(key, lambda: replace(statistics, joints=(*statistics.joints, *dear)))


def _without_apart(clause: ClauseStatistics) -> ClauseStatistics:
    """The single variables by what the kernel's ranges and its own tests fulfil."""
    kept = tuple(one for one in clause.singles.conditions if one.equality or one.span or one.kind not in APART)
    return clause.derived(_without_apart, lambda: replace(clause.in_range, conditions=kept))


def _apart(clause: ClauseStatistics) -> ClauseStatistics:
    """The single variables by what is tested apart, and nothing else."""
    kept = tuple(one for one in clause.tested.conditions if one.kind in APART)
    return clause.derived(_apart, lambda: replace(clause.tested, conditions=kept, joints=()))


def _of_singles(clause: ClauseStatistics, statistics: ClauseStatistics, factor: float = 1.0) -> GrownMatches:
    """k PM of sets with k single variables, times a factor; of a set without any none."""
    singles = [place for place in range(clause.size) if place not in clause.kleene]
    return GrownMatches(statistics, singles, math.log(factor))


def edges(statistics: ClauseStatistics, positions: Sequence[int]) -> list[int]:
    """The variables of a set after which none of it is ordered, and those before which none is; some are both."""
    before, inside = statistics.precedence, sorted(positions)  # of a sequence the first one that is asked says yes
    last = [one for one in positions if not any((one, other) in before for other in reversed(inside))]
    return last + [one for one in positions if not any((other, one) in before for other in inside)]


class _Made:
    """The cost of a set's partial matches or matches as they are made, and of the range ends of its events."""

    def __init__(self, statistics: ClauseStatistics, costs: KernelCosts) -> None:
        self.grown = _of_singles(statistics, statistics.ranged)
        self.statistics, self.size = statistics, statistics.size
        self.ln_events = np.array(statistics.ln_events or statistics.ln_instances)
        self.ln_event = math.log(costs.event)
        self.ln_partial, self.ln_match = math.log(costs.partial_match), math.log(costs.match)

    def one(self, positions: Sequence[int]) -> float:
        made = self.grown.one(positions) + (self.ln_match if len(positions) == self.size else self.ln_partial)
        events = self.ln_event + float(np.logaddexp.reduce(self.ln_events[edges(self.statistics, positions)]))
        return float(np.logaddexp(made, events))

    def some(self, members: Array) -> Array:
        whole = members.sum(axis=1) == self.size
        made = self.grown.some(members) + np.where(whole, self.ln_match, self.ln_partial)
        having = np.ascontiguousarray(members.T)
        ends = np.zeros(len(members))  # as shares of the events of the most frequent variable
        most = float(self.ln_events.max())
        shares = np.exp(self.ln_events - most)
        for backward in (True, False):
            covered = self._covered(having, backward=backward)
            for one, hidden, share in zip(having, covered, shares, strict=True):
                ends += share * (one & ~hidden)
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(made, np.log(ends) + (most + self.ln_event)))

    def _covered(self, having: Array, *, backward: bool) -> Array:
        """bool, shape (n, m): after (`backward`), or before, which variables another one of each set is ordered."""
        covered = np.zeros_like(having)
        for groups in self.statistics.sequences:
            passed = np.zeros(having.shape[1], bool)
            for group in reversed(groups) if backward else groups:
                for place in group:
                    covered[place] |= passed
                for place in group:
                    passed |= having[place]
        return covered


KERNEL = kernel_model(kernel_costs)
"""The kernel's cost by the constants of `kernel_costs`."""
