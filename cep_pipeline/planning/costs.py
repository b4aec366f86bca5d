"""Cost models of plans: their form, those that count partial matches, and that of the fused kernel.

A cost adds up over the steps of an order, or over the nodes of a tree. Cost models know nothing of the algorithms that
search for the cheapest plan; `orderings` has the cost of a whole order or tree.

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

**Kernel** estimates the nanoseconds that the fused kernel takes while the time of one window passes. It
reads each level's candidates from an index range, which order, window and equalities bound; tests the other conditions
on them, several at once; and goes on with those that pass. So its work is counted by

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
(`kind_of`). What the kernel has code for, such as a square root, is computed of all candidates there: each
costs 1 + t / c times as much, where t is what the test takes beside a comparison and c a candidate. Two such conditions
of one step count as the product of both. Functions that it has no code for (`APART`) are computed of the tuples that
pass all else, block by block: those cost t each (`LateTests`).

What a unit of work costs was measured, never guessed: many orders were run, and least squares of relative errors fitted
the constants to what they had counted. `kernel_costs.json` has them, and where and when they were measured.

**Conditions** are tested in the order of their costs: first what costs little beside the tuples that it lets go. A
tuple is tested until a condition does not hold. Of independent conditions with costs c and shares p of tuples that
pass, the expected cost is least where they stand in the order of c / (1 - p). What a test costs depends on its kind
(`kernel_costs.json`). The shares are those of `prior_selectivity`: conditions are put in order before
anything is known of the events.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Protocol

import numpy as np

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.conditions import Atom, Between, Comparison, Conjunct, Truth, expressions_of
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Call,
    Expression,
    Length,
    Negative,
    ValueType,
    variables_of,
    walk,
)
from cep_pipeline.planning.clause_statistics import (
    ClauseStatistics,
    JointCondition,
    ln_partial_matches,
    ln_partial_matches_of_some,
    ln_sum,
)
from cep_pipeline.planning.trees import PositionTree, positions_of
from cep_pipeline.statistics.snapshot import prior_selectivity

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

    def ln_join(self, statistics: ClauseStatistics, left: PositionTree, right: PositionTree) -> float:
        """ln of what joining two trees costs, without what they cost themselves."""
        sides = positions_of(left), positions_of(right)
        terms = [self.node.one(statistics, [*sides[0], *sides[1]])]
        if self.pair is not None:
            terms.append(self._ln_pair(statistics, *sides))
        terms.append(self.ln_join_delay(statistics, left, right))
        return ln_sum(terms)

    def ln_join_delay(self, statistics: ClauseStatistics, left: PositionTree, right: PositionTree) -> float:
        """ln of the share of a join's cost that is latency, weighed: all is looked through beside the last event."""
        sides = positions_of(left), positions_of(right)
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
        To test a condition of a kind, one by one as mechanisms do that keep partial matches (`kind_of`); where
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
    text = (files("cep_pipeline.planning") / CONSTANTS_FILE).read_text(encoding="utf-8")
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

COSTS: dict[str, CostModel] = {model.name: model for model in (THROUGHPUT, LATENCY, CONSUME_MATCHED, KERNEL, INSTANCES)}
"""The cost models, by name; `plan` takes a name of them."""


def cost_named(name: str) -> CostModel:
    """The cost model of this name; InputError lists the known ones otherwise."""
    if name not in COSTS:
        raise InputError(f"there is no cost model {name!r}; there are: {', '.join(COSTS)}")
    return COSTS[name]


_CLOCK_FUNCTIONS = frozenset({"time_of_day", "day_of_week"})
_KIND_OF_CALL = {"abs": ARITHMETIC, "sqrt": ROOT, "corr": CORRELATION, **dict.fromkeys(_CLOCK_FUNCTIONS, CLOCK)}


def kind_of(conjunct: Conjunct, *, across: bool = False) -> str:
    """The kind of the dearest part of a condition.

    Parameters
    ----------
    across
        Whether only the parts count that mention several variables, as in the fused kernel: it reads what depends on
        one event from a column.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string", "x": "int64"}})
    >>> text = "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.x + 1 < b.x AND a.type != b.type WITHIN 1 second"
    >>> [kind_of(conjunct) for conjunct in cep.parse_patterns(text, schema)[0].clauses[0].conjuncts]
    ['number', 'arithmetic', 'text']
    """
    kinds = (kind for atom in conjunct.atoms for kind in _kinds(atom, across))
    return max(kinds, key=CONDITION_KINDS.index, default=NUMBER)


def in_test_order(conjuncts: Iterable[Conjunct], *, across: bool = False) -> tuple[Conjunct, ...]:
    """Conditions in the order in which they are tested; those that are as good stay in the order of the pattern.

    `across`: as the fused mechanism tests them (`kind_of`).
    """
    return tuple(sorted(conjuncts, key=lambda conjunct: _rank(conjunct, across)))


def _rank(conjunct: Conjunct, across: bool) -> float:
    stops = 1.0 - prior_selectivity(conjunct)
    kind, costs = kind_of(conjunct, across=across), kernel_costs()
    known = costs.tests if across and kind in APART and kind in costs.tests else costs.conditions
    cost = known.get(kind, known.get(ARITHMETIC, 1.0)) * max(len(conjunct.atoms), 1)
    return cost / stops if stops > 0 else math.inf


def _kinds(atom: Atom, across: bool) -> Iterator[str]:
    several = 2 if across else 0
    sides = [side for side in expressions_of(atom) if len(variables_of(side)) >= several]
    if not isinstance(atom, Comparison | Between | Truth) and sides:
        yield CHOICE
    for side in sides:
        yield from (_kind(node) for node in walk(side) if len(variables_of(node)) >= several)


def _kind(node: Expression) -> str:
    if isinstance(node, Aggregate | Length):
        return LIST
    if isinstance(node, Call):
        return _KIND_OF_CALL.get(node.function, FUNCTION)
    if node.type is ValueType.STRING:
        return TEXT
    if isinstance(node, Arithmetic):
        return FUNCTION if node.operator == "%" else ARITHMETIC
    return ARITHMETIC if isinstance(node, Negative) else NUMBER
