"""The form of a cost model, and the models that count partial matches.

A cost adds up over the steps of an order, or over the nodes of a tree. Throughput, latency, consume_matched and
instances are here; the cost of the fused kernel is in `costs.kernel`.

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
from typing import Any, Protocol

import numpy as np

from cep_pipeline.planning.clause_statistics import (
    ClauseStatistics,
    ln_partial_matches,
    ln_partial_matches_of_some,
    ln_sum,
)
from cep_pipeline.planning.trees import PositionTree, positions_below

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class SetTerm:
    """A number that every set of variables has, by its natural logarithm (minus infinity: 0).

    Attributes
    ----------
    one
        (statistics, positions) -> that of one set.
    of
        (statistics, members) -> those of m sets: float64, shape (m,), for bools of shape (m, n); an empty set's is not
        used.
    """

    one: Callable[[ClauseStatistics, Sequence[int]], float]
    of: Callable[[ClauseStatistics, Array], Array]

    def all(self, statistics: ClauseStatistics) -> Array:
        """The numbers of all sets, float64 of shape (2^n,), by the bits of the set."""
        return over_all_sets(statistics.size, lambda members: self.of(statistics, members))


def over_all_sets(size: int, of: Callable[[Array], Array]) -> Array:
    """The numbers of all sets of n variables by their bits, float64 of shape (2^n,), as `of` tells those of some."""
    found = np.empty(1 << size)
    for first in range(0, 1 << size, AT_ONCE):
        sets = np.arange(first, min(first + AT_ONCE, 1 << size))
        found[sets] = of((sets >> np.arange(size)[:, None] & 1).astype(bool).T)
    return found


AT_ONCE = 1 << 15
"""Sets whose numbers are told together, so that they stay in a cache."""


@dataclass(frozen=True, slots=True)
class LateTests:
    """Tests of conditions that tuples are put to when all else is tested, where L and R meet in S for the first time.

    They cost tuples[S] passing[L] passing[R] times the nanoseconds of the conditions within S, but within neither side.

    Attributes
    ----------
    tuples, passing
        How many tuples of a set there are without these conditions, and which share of them passes these.
    ns
        What a test of a condition costs by its kind; 0: it is none of them.
    """

    tuples: SetTerm
    passing: SetTerm
    ns: Callable[[str], float]

    def costs(self, statistics: ClauseStatistics) -> tuple[tuple[tuple[int, ...], float], ...]:
        """The conditions of a clause that are tested so: positions, and nanoseconds."""
        found = (one for one in statistics.singles.conditions if not (one.equality or one.span))
        return tuple((one.positions, self.ns(one.kind)) for one in found if self.ns(one.kind))

    def within(self, statistics: ClauseStatistics, members: Array) -> Array:
        """The nanoseconds of all conditions within some sets, float64 of shape (m,), for bools of shape (m, n)."""
        total = np.zeros(len(members))
        for positions, ns in self.costs(statistics):
            total += ns * members[:, positions].all(axis=1)
        return total


@dataclass(frozen=True, slots=True)
class CostModel:
    """A cost that adds up over the steps of an order, or over the nodes of a tree.

    The cost of an **order** with the prefixes S_1 to S_n, S_k = S_(k-1) + v, is the sum over k of

        node[S_k]  +  pair[S_k] product[S_(k-1)] product[v] + late(S_(k-1), v), k > 1
        +  alpha delay[v] where `last` is in S_(k-1).

    The cost of a **tree** is the sum of node[v] over its leaves, and over its joins of L and R, S = L + R, of

        node[S]  +  pair[S] product[L] product[R]  +  late(L, R)
        +  alpha (delay[R] where `last` is in L, delay[L] where it is in R).

    A model whose mechanism runs a tree as the order of its leaves charges a tree what that order costs.

    Attributes
    ----------
    name, unit
        As `cep plan --set cost=` and explain write them.
    node
        What the partial matches of a set cost.
    pair, product
        What joining costs beside that: tests of candidates. None: nothing, and a product of 1.
    late
        The tests of conditions that come last, and what they cost (`LateTests`).
    delay, alpha
        What a match waits for, after the event of the variable `last` (`ClauseStatistics.last_variable`) has come,
        where the other side of a join has to be looked through, and the weight of that.
    runs_orders
        A tree runs as the order of its leaves from left to right, and costs what that does.
    """

    name: str
    unit: str
    node: SetTerm
    pair: SetTerm | None = None
    product: SetTerm | None = None
    late: LateTests | None = None
    delay: SetTerm | None = None
    alpha: float = 0.0
    runs_orders: bool = False

    def ln_step(self, statistics: ClauseStatistics, beginning: Sequence[int]) -> float:
        """ln of what the last step of the beginning of an order costs."""
        *earlier, position = beginning
        terms = [self.node.one(statistics, beginning)]
        if earlier and self.pair is not None:
            terms.append(self._ln_pair(statistics, earlier, [position]))
        terms.append(self.ln_step_delay(statistics, beginning))
        return ln_sum(terms)

    def ln_step_delay(self, statistics: ClauseStatistics, beginning: Sequence[int]) -> float:
        """ln of the share of a step's cost that is latency, weighed: what is bound after the last event waits."""
        *earlier, position = beginning
        if not self.waits or statistics.last_variable not in earlier:
            return -math.inf
        return self._ln_delay(statistics, [position])

    def ln_leaf(self, statistics: ClauseStatistics, position: int) -> float:
        """ln of what a leaf of a tree costs."""
        return self.node.one(statistics, [position])

    def ln_join(self, statistics: ClauseStatistics, left: PositionTree, right: PositionTree) -> float:
        """ln of what joining two trees costs, without what they cost themselves."""
        sides = positions_below(left), positions_below(right)
        terms = [self.node.one(statistics, [*sides[0], *sides[1]])]
        if self.pair is not None:
            terms.append(self._ln_pair(statistics, *sides))
        terms.append(self.ln_join_delay(statistics, left, right))
        return ln_sum(terms)

    def ln_join_delay(self, statistics: ClauseStatistics, left: PositionTree, right: PositionTree) -> float:
        """ln of the share of a join's cost that is latency, weighed: all is looked through beside the last event."""
        sides = positions_below(left), positions_below(right)
        if not self.waits or statistics.last_variable not in (*sides[0], *sides[1]):
            return -math.inf
        return self._ln_delay(statistics, sides[1] if statistics.last_variable in sides[0] else sides[0])

    def late_of(self, statistics: ClauseStatistics) -> LateTests | None:
        """The tests that come last; None where a clause has none."""
        if self.late is None or not any(map(self.late.ns, statistics.kinds)):
            return None
        return self.late if self.late.costs(statistics) else None

    @property
    def waits(self) -> bool:
        """True if latency counts."""
        return self.delay is not None and self.alpha > 0

    def _ln_pair(self, statistics: ClauseStatistics, left: Sequence[int], right: Sequence[int]) -> float:
        assert self.pair is not None
        total = self.pair.one(statistics, [*left, *right])
        if self.product is not None:
            total += self.product.one(statistics, left) + self.product.one(statistics, right)
        late = self.late_of(statistics)
        if late is not None:
            whole = {*left, *right}
            new = sum(
                ns
                for places, ns in late.costs(statistics)
                if whole.issuperset(places) and not (set(left).issuperset(places) or set(right).issuperset(places))
            )
            if new:
                passing = late.passing.one(statistics, left) + late.passing.one(statistics, right)
                total = ln_sum((total, late.tuples.one(statistics, [*left, *right]) + passing + math.log(new)))
        return total

    def _ln_delay(self, statistics: ClauseStatistics, members: Sequence[int]) -> float:
        assert self.delay is not None
        return math.log(self.alpha) + self.delay.one(statistics, members)


PARTIAL_MATCHES = SetTerm(ln_partial_matches, ln_partial_matches_of_some)
"""PM(S)."""

THROUGHPUT = CostModel(name="throughput", unit="partial matches alive in a window", node=PARTIAL_MATCHES)
"""Cost(O) = sum over k of PM(k), the partial matches of all sizes that coexist in one window; Cost(T) = the same over
all nodes of the tree, its leaves among them."""


def ln_matches_alive(statistics: ClauseStatistics, positions: Sequence[int]) -> float:
    """ln of m[S] = W min(r_i) times the selectivities within S: what of PM(S) is left where events are consumed."""
    instances = [statistics.ln_instances[position] for position in positions]
    return ln_partial_matches(statistics, positions) - sum(instances) + min(instances, default=0.0)


def ln_matches_alive_of_some(statistics: ClauseStatistics, members: Array) -> Array:
    """ln of the partial matches alive of some sets: float64, shape (m,), for bools of shape (m, n)."""
    instances = np.array(statistics.ln_instances)
    rarest = np.where(members, instances, np.inf).min(axis=1)
    total = np.where(members, instances, 0.0).sum(axis=1)
    return np.asarray(ln_partial_matches_of_some(statistics, members) - total + rarest)


CONSUME_MATCHED = CostModel(
    name="consume_matched",
    unit="partial matches alive in a window, each event in one match",
    node=SetTerm(ln_matches_alive, ln_matches_alive_of_some),
)
"""Cost(O) = sum over k of m[k], Cost(T) = the same over the nodes; the paper's further factor W decides nothing."""


CANDIDATE_NS = 25.0
"""Nanoseconds to test a candidate, of chain and tree alike: least squares over 48 random orders and trees."""
PARTIAL_MATCH_NS = 55.0
"""Nanoseconds to make a partial match, by the same."""


class SetNumber(Protocol):
    """A number that every set of a clause's variables has, by its natural logarithm, as `SetTerm` gives it."""

    def one(self, positions: Sequence[int]) -> float: ...
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

    def some(self, members: Array) -> Array:
        """ln of that of some sets: float64, shape (m,), for bools of shape (m, n)."""
        found = ln_partial_matches_of_some(self.statistics, members) + self.ln_factor
        if self.counted is not None:
            with np.errstate(divide="ignore"):
                found += np.log(members[:, self.counted].sum(axis=1))
        return np.asarray(found)


def term_of(of: Callable[[ClauseStatistics], SetNumber]) -> SetTerm:
    """The term of a cost model whose numbers are made from a clause's statistics."""
    return SetTerm(
        lambda statistics, positions: of(statistics).one(positions),
        lambda statistics, members: of(statistics).some(members),
    )


INSTANCES = CostModel(
    name="instances",
    unit="ns a window on one core, of mechanisms that keep instances",
    node=term_of(
        lambda statistics: GrownMatches(statistics, range(statistics.size), math.log(PARTIAL_MATCH_NS)),
    ),
    pair=term_of(
        lambda statistics: GrownMatches(statistics.candidates, range(statistics.size), math.log(CANDIDATE_NS)),
    ),
    product=term_of(
        lambda statistics: GrownMatches(statistics.passing),
    ),
)
"""Nanoseconds by `CANDIDATE_NS` and `PARTIAL_MATCH_NS`."""


LATENCY = CostModel(
    name="latency",
    unit="partial matches looked through after the last event, and one a step",
    node=SetTerm(
        lambda statistics, positions: 0.0,
        lambda statistics, members: np.zeros(len(members)),
    ),
    delay=PARTIAL_MATCHES,
    alpha=1.0,
)
"""Latency alone. One for each step or node, the same for all plans, keeps its logarithm finite where nothing waits."""


def with_latency(model: CostModel, alpha: float) -> CostModel:
    """Cost(plan) = Cost of the model(plan) + alpha * Cost of latency(plan)."""
    return replace(model, delay=PARTIAL_MATCHES, alpha=alpha) if alpha > 0 else model
