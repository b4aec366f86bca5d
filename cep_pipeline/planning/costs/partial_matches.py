"""The cost models that count partial matches: throughput, latency, consume_matched and instances.

**Throughput** (JQPG sections 4.1 and 4.2) counts the partial matches alive in a window.

**Consume matched** (JQPG section 6.2) counts them under CONSUME MATCHED: an event is in one match only, so that the
rarest event bounds their number.

**Latency** (JQPG section 6.1) counts what has to be looked through once the last event of a match has come. For an
order these are the buffered events of the variables that it binds after the last one, W r of each; for a tree the
partial matches that the siblings hold on the way from the last one's leaf to the root. The temporal order says which
variable is the last, and where it leaves that open the output profile does (`ClauseStatistics.last`).

**Instances** estimates the nanoseconds that mechanisms which keep instances take while the time of one window passes.
The lazy chain NFA and the evaluation tree keep their partial matches, and test each against what comes, or has come, of
the other side. So their work is counted by

- candidates: k Q(S) P(L) P(R) of them are tested where L and R meet in S, with Q(S) the combinations of one instance of
  each of S that are in window and order and are equal in what conditions ask to be equal, and P(S) the share of them
  that pass the other conditions among S;
- partial matches: k PM(S) of them are made, with k = |S|: of n proportional to W^k, dn/dW are made in each unit of
  time.

The throughput cost counts those that are alive, and no tests. Where selectivities are alike the two agree in which of
two plans is the better one. Where they differ much, a join of two frequent sides that hardly anything passes costs
nothing there, and much here: of random trees of six events with selectivities from 0.03 to 0.4 the rank correlation of
measured times with this cost was 0.95, with the throughput cost -0.18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from cep_pipeline.planning.costs.model import Array, CostModel, SetSum, SetTerm
from cep_pipeline.planning.numbers.clause_statistics import (
    ClauseStatistics,
    ln_partial_matches,
    ln_partial_matches_of_all,
    ln_partial_matches_of_some,
    mask_of,
)

PARTIAL_MATCHES = SetTerm(
    ln_partial_matches,
    ln_partial_matches_of_all,
    ln_partial_matches_of_some,
    SetSum,
)
"""PM(S)."""

THROUGHPUT = CostModel(name="throughput", unit="partial matches alive in a window", node=PARTIAL_MATCHES)
"""Cost(O) = sum over k of PM(k), the partial matches of all sizes that coexist in one window; Cost(T) = the same over
all nodes of the tree, its leaves among them."""


def ln_matches_alive(statistics: ClauseStatistics, positions: Sequence[int]) -> float:
    """ln of m[S] = W min(r_i) times the selectivities within S: what of PM(S) is left where events are consumed."""
    instances = [statistics.ln_instances[position] for position in positions]
    return ln_partial_matches(statistics, positions) - sum(instances) + min(instances, default=0.0)


def ln_matches_alive_of_all(statistics: ClauseStatistics) -> Array:
    """The same of every set: float64, shape (2^n,), by the bits of the set."""
    table = ln_partial_matches_of_all(statistics)
    total, rarest = np.zeros(1), np.full(1, np.inf)
    for instances in statistics.ln_instances:
        total = np.concatenate((total, total + instances))
        rarest = np.concatenate((rarest, np.minimum(rarest, instances)))
    rarest[0] = 0.0
    table -= total
    table += rarest
    return table


def ln_matches_alive_of_some(statistics: ClauseStatistics, members: Array) -> Array:
    """The same of some sets: float64, shape (m,), for bools of shape (m, n)."""
    instances = np.array(statistics.ln_instances)
    rarest = np.where(members, instances, np.inf).min(axis=1)
    total = np.where(members, instances, 0.0).sum(axis=1)
    return np.asarray(ln_partial_matches_of_some(statistics, members) - total + rarest)


CONSUME_MATCHED = CostModel(
    name="consume_matched",
    unit="partial matches alive in a window, each event in one match",
    node=SetTerm(ln_matches_alive, ln_matches_alive_of_all, ln_matches_alive_of_some, lambda: SetSum(rarest=True)),
)
"""Cost(O) = sum over k of m[k], Cost(T) = the same over the nodes; the paper's further factor W decides nothing."""


CANDIDATE_NS = 25.0
"""Nanoseconds to test a candidate, of chain and tree alike: least squares over 48 random orders and trees."""
PARTIAL_MATCH_NS = 55.0
"""Nanoseconds to make a partial match, by the same."""


class SetNumber(Protocol):
    """A number that every set of a clause's variables has, by its natural logarithm, as `SetTerm` gives it."""

    def one(self, positions: Sequence[int]) -> float: ...
    def all(self) -> Array: ...
    def some(self, members: Array) -> Array: ...


@dataclass(frozen=True, slots=True, eq=False)
class GrownMatches:
    """PM of sets by some of a clause's statistics, times a factor and the number of variables that count.

    Attributes
    ----------
    statistics
        The numbers that PM is of.
    counted
        The variables whose number is a factor; None: the number is none.
    ln_factor
        Natural logarithm of a further factor.
    """

    statistics: ClauseStatistics
    counted: Sequence[int] | None = None
    ln_factor: float = 0.0

    def one(self, positions: Sequence[int]) -> float:
        """ln of that of one set."""
        found = ln_partial_matches(self.statistics, positions) + self.ln_factor
        if self.counted is None:
            return found
        number = sum(place in self.counted for place in positions)
        return found + math.log(number) if number else -math.inf

    def all(self) -> Array:
        """ln of that of every set: float64, shape (2^n,)."""
        found = ln_partial_matches_of_all(self.statistics) + self.ln_factor
        if self.counted is not None:
            sets = np.arange(1 << self.statistics.size, dtype=np.uint32) & np.uint32(mask_of(self.counted))
            with np.errstate(divide="ignore"):
                found += np.log(np.bitwise_count(sets).astype(np.float64))
        return np.asarray(found)

    def some(self, members: Array) -> Array:
        """ln of that of some sets: float64, shape (m,), for bools of shape (m, n)."""
        found = ln_partial_matches_of_some(self.statistics, members) + self.ln_factor
        if self.counted is not None:
            with np.errstate(divide="ignore"):
                found += np.log(members[:, self.counted].sum(axis=1))
        return np.asarray(found)


def term_of(of: Callable[[ClauseStatistics], SetNumber], asked: Callable[[], SetSum]) -> SetTerm:
    """The term of a cost model whose numbers are made from a clause's statistics."""
    return SetTerm(
        lambda statistics, positions: of(statistics).one(positions),
        lambda statistics: of(statistics).all(),
        lambda statistics, members: of(statistics).some(members),
        asked,
    )


INSTANCES = CostModel(
    name="instances",
    unit="ns a window on one core, of mechanisms that keep instances",
    node=term_of(
        lambda statistics: GrownMatches(statistics, range(statistics.size), math.log(PARTIAL_MATCH_NS)),
        lambda: SetSum(grown=True, factor=PARTIAL_MATCH_NS),
    ),
    pair=term_of(
        lambda statistics: GrownMatches(statistics.candidates, range(statistics.size), math.log(CANDIDATE_NS)),
        lambda: SetSum(tested=False, joints=False, grown=True, factor=CANDIDATE_NS),
    ),
    product=term_of(
        lambda statistics: GrownMatches(statistics.passing),
        lambda: SetSum(instances=False, equalities=False, together=False),
    ),
)
"""Nanoseconds by `CANDIDATE_NS` and `PARTIAL_MATCH_NS`."""


def _ln_one(statistics: ClauseStatistics, positions: Sequence[int]) -> float:
    return 0.0


def _ln_one_of_all(statistics: ClauseStatistics) -> Array:
    return np.zeros(1 << statistics.size)


def _nothing() -> SetSum:
    return SetSum(instances=False, equalities=False, tested=False, joints=False, together=False)


def _ln_one_of_some(statistics: ClauseStatistics, members: Array) -> Array:
    return np.zeros(len(members))


LATENCY = CostModel(
    name="latency",
    unit="partial matches looked through after the last event, and one a step",
    node=SetTerm(_ln_one, _ln_one_of_all, _ln_one_of_some, _nothing),
    delay=PARTIAL_MATCHES,
    alpha=1.0,
)
"""Latency alone. One for each step or node, the same for all plans, keeps its logarithm finite where nothing waits."""


def with_latency(model: CostModel, alpha: float) -> CostModel:
    """Cost(plan) = Cost of the model(plan) + alpha * Cost of latency(plan)."""
    return replace(model, delay=PARTIAL_MATCHES, alpha=alpha) if alpha > 0 else model
