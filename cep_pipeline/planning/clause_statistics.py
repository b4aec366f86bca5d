"""The numbers of a clause that planners work with: of its variables, and of the conditions between them.

Planners and cost models see positions and logarithms only, neither patterns nor snapshots; natural logarithms, so that
patterns of any size and rates of any ratio neither overflow nor lose their order.

The sums of numbers that are known by their logarithms, and how people read them, are here as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

Derived = TypeVar("Derived")


@dataclass(frozen=True, slots=True)
class PlanCondition:
    """A condition between variables.

    Attributes
    ----------
    positions
        Those of its variables.
    ln_selectivity
        Natural logarithm of its selectivity, at most 0.
    equality
        Whether it asks two events to be equal in something, so that an index finds those that are.
    span
        Whether it bounds the time between two events, so that the fused mechanism's index ranges fulfil it.
    kind
        The kind of a test of it, by what it costs (`costs.kind_of`).
    """

    positions: tuple[int, ...]
    ln_selectivity: float
    equality: bool = False
    span: bool = False
    kind: str = "number"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ln_selectivity) and self.ln_selectivity <= 0):
            raise ValueError(f"the logarithm of a selectivity is finite and at most 0, not {self.ln_selectivity}")
        if not self.positions or tuple(sorted(set(self.positions))) != self.positions:
            raise ValueError(f"a condition has distinct positions in ascending order, not {self.positions}")


@dataclass(frozen=True, slots=True)
class JointCondition:
    """Conditions that depend on each other.

    Attributes
    ----------
    positions
        Those of the conditions' variables together.
    ln_ratio
        Natural logarithm of what the product of their selectivities is multiplied by to be their joint selectivity;
        what joints of some of them already do is not in it.
    in_range
        Whether it is of bounds that follow from others, which the fused mechanism's index ranges fulfil, and no others
        do.
    equality
        Whether it is of equalities, so that it counts wherever their selectivities do.
    """

    positions: tuple[int, ...]
    ln_ratio: float
    in_range: bool = False
    equality: bool = False

    def __post_init__(self) -> None:
        if not math.isfinite(self.ln_ratio):
            raise ValueError(f"the logarithm of a ratio is finite, not {self.ln_ratio}")
        if not self.positions or tuple(sorted(set(self.positions))) != self.positions:
            raise ValueError(f"joint conditions have distinct positions in ascending order, not {self.positions}")


@dataclass(frozen=True, slots=True)
class Agreement:
    """An attribute on which all variables agree: logarithms of the pairwise selectivities, by position twice."""

    ln_selectivities: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ClauseStatistics:
    """Numbers of one clause with n positive variables.

    Attributes
    ----------
    names
        The variables in pattern order; everything else refers to them by their position here.
    ln_instances
        For each variable, the logarithm of the expected number of its instances in one window: W r for single events,
        2^(W r) - 1 lists for a Kleene variable.
    conditions
        Conditions over one (Kleene) or more variables that the leaves do not hold already.
    agreements
        One for each attribute of equivalence tests and PARTITION BY.
    sequences
        The temporal order as series-parallel groups: each member is one SEQ, given as the groups of positions that
        follow one another.
    joints
        What corrects the product of selectivities where conditions depend on each other.
    last
        The variable whose event is mostly the last of a match; None where neither the order nor a profile says so.
    kleene
        The Kleene variables.
    ln_events
        For each variable, the logarithm of the expected number of its events in one window, W r; empty where that is
        `ln_instances`.
    """

    names: tuple[str, ...]
    ln_instances: tuple[float, ...]
    conditions: tuple[PlanCondition, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    sequences: tuple[tuple[tuple[int, ...], ...], ...] = ()
    joints: tuple[JointCondition, ...] = ()
    last: int | None = None
    kleene: frozenset[int] = frozenset()
    ln_events: tuple[float, ...] = ()
    _derived: dict[Hashable, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        size = len(self.names)
        if len(self.ln_events) not in (0, size):
            raise ValueError(f"{len(self.ln_events)} numbers of events for {size} variables")
        if not size or len(self.ln_instances) != size:
            raise ValueError(f"{len(self.ln_instances)} numbers of instances for {size} variables")
        if not all(math.isfinite(number) for number in self.ln_instances):
            raise ValueError(f"logarithms of instances are finite, not {self.ln_instances}")
        if any(positions[-1] >= size for positions, _ in self.factors):
            raise ValueError(f"a condition mentions a position beyond {size - 1}")

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.names)

    def derived(self, key: Hashable, make: Callable[[], Derived]) -> Derived:
        """A value that follows from the numbers: that of `make`, which is called once for each key."""
        if key not in self._derived:
            self._derived[key] = make()
        found: Derived = self._derived[key]
        return found

    @cached_property
    def factors(self) -> tuple[tuple[tuple[int, ...], float], ...]:
        """Positions, and the logarithm of what a set counts that holds them all: of conditions and of joint ones."""
        conditions = ((condition.positions, condition.ln_selectivity) for condition in self.conditions)
        return (*conditions, *((joint.positions, joint.ln_ratio) for joint in self.joints if not joint.in_range))

    @property
    def last_variable(self) -> int:
        """The variable whose event counts as the last of a match; if nothing is known, the pattern's last one."""
        return self.size - 1 if self.last is None else self.last

    @cached_property
    def precedence(self) -> frozenset[tuple[int, int]]:
        """All pairs (a, b) of which every event of a comes before every event of b."""
        return frozenset(
            (one, other)
            for groups in self.sequences
            for earlier, later in combinations(groups, 2)
            for one in earlier
            for other in later
        )

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of its conditions."""
        return frozenset(condition.kind for condition in self.conditions)

    @cached_property
    def singles(self) -> ClauseStatistics:
        """The numbers of the single variables: what Kleene variables have instances and conditions counts as 1."""
        apart = self.kleene
        if not apart:
            return self
        size = range(self.size)
        return replace(
            self,
            ln_instances=tuple(0.0 if place in apart else self.ln_instances[place] for place in size),
            conditions=tuple(c for c in self.conditions if apart.isdisjoint(c.positions)),
            agreements=tuple(
                Agreement(
                    tuple(tuple(0.0 if {i, j} & apart else one.ln_selectivities[i][j] for j in size) for i in size)
                )
                for one in self.agreements
            ),
            sequences=tuple(
                tuple(tuple(place for place in group if place not in apart) for group in groups)
                for groups in self.sequences
            ),
            joints=tuple(joint for joint in self.joints if apart.isdisjoint(joint.positions)),
        )

    @cached_property
    def candidates(self) -> ClauseStatistics:
        """The numbers without the conditions that have to be tested: of what is in window and order, and equal."""
        found = tuple(one for one in self.conditions if one.equality)
        joints = tuple(joint for joint in self.joints if joint.equality)
        return replace(self, conditions=found, joints=joints)

    @cached_property
    def passing(self) -> ClauseStatistics:
        """The numbers of the conditions that have to be tested, and nothing else: what share of candidates passes."""
        return replace(
            self,
            ln_instances=(0.0,) * self.size,
            conditions=tuple(one for one in self.conditions if not one.equality),
            joints=tuple(joint for joint in self.joints if not joint.equality),
            agreements=(),
            sequences=(),
        )

    @cached_property
    def ranged(self) -> ClauseStatistics:
        """The `singles` by all that the fused mechanism's index ranges fulfil, bounds that follow from others too."""
        if not any(joint.in_range for joint in self.joints):
            return self.singles
        joints = tuple(replace(joint, in_range=False) for joint in self.singles.joints)
        return replace(self.singles, joints=joints)

    @cached_property
    def in_range(self) -> ClauseStatistics:
        """The numbers without the conditions that have to be tested: what the fused mechanism's index ranges find."""
        found = tuple(one for one in self.singles.conditions if one.equality or one.span)
        kept = (joint for joint in self.singles.joints if joint.in_range or joint.equality)
        joints = tuple(replace(joint, in_range=False) for joint in kept)
        return replace(self.singles, conditions=found, joints=joints)

    @cached_property
    def tested(self) -> ClauseStatistics:
        """The numbers of `passing` for single variables and conditions that are no spans."""
        passing = self.singles.passing
        return replace(passing, conditions=tuple(one for one in passing.conditions if not one.span))


Array = np.ndarray[Any, Any]


def ln_partial_matches(statistics: ClauseStatistics, positions: Iterable[int]) -> float:
    """ln PM(S) of the variables at `positions`, in whatever order they are given; of none, 0."""
    members = tuple(sorted(positions))
    known = statistics.derived(ln_partial_matches, dict[tuple[int, ...], float])
    found = known.get(members)
    if found is None:
        found = known[members] = _ln_partial_matches(statistics, members)
    return found


def _ln_partial_matches(statistics: ClauseStatistics, members: Sequence[int]) -> float:
    inside = set(members)
    total = sum(statistics.ln_instances[member] for member in members)
    total += sum(factor for known, factor in statistics.factors if inside.issuperset(known))
    for agreement in statistics.agreements:
        for place, member in enumerate(members):
            total += min((agreement.ln_selectivities[member][other] for other in members[:place]), default=0.0)
    return total + ln_order_share(statistics, members)


def ln_order_share(statistics: ClauseStatistics, positions: Iterable[int]) -> float:
    """ln order(S): the share of all orderings of the variables that the clause's temporal order allows.

    Notes
    -----
    All orderings count as equally frequent. What snapshots measure, `StatisticsSnapshot.order`, is not used: it is of
    pairs, and many streams share those of all pairs and differ in the orderings of three. It is also the smaller part
    of the truth: where an event of b follows each one of a, nearly all pairs are in order, for which the estimate is
    half of what it should be, but there are also 1 / (W r_b) times as many pairs in a window as independent arrivals
    have, which no share says.
    """
    inside = set(positions)
    total = 0.0
    for groups in statistics.sequences:
        counts = [sum(member in inside for member in group) for group in groups]
        total += sum(math.lgamma(count + 1) for count in counts) - math.lgamma(sum(counts) + 1)
    return total


def ln_partial_matches_of_some(statistics: ClauseStatistics, members: Array) -> Array:
    """ln PM of some sets of variables of a clause of any size.

    Parameters
    ----------
    members
        bool, shape (m, n): the variables of each set.

    Returns
    -------
    Array
        float64, shape (m,).
    """
    size = statistics.size
    having = np.ascontiguousarray(members.T)  # by variable; sums without matrix products, which would start threads
    total = np.zeros(len(members))
    for position, instances in enumerate(statistics.ln_instances):
        total += having[position] * instances
    for positions, factor in statistics.factors:
        total += having[list(positions)].all(axis=0) * factor
    for agreement in statistics.agreements:
        for position, row in enumerate(agreement.ln_selectivities):
            strictest = np.zeros(len(members))
            for other in range(position):
                np.minimum(strictest, having[other] * row[other], out=strictest)
            total += having[position] * strictest
    factorial = np.array([math.lgamma(count + 1) for count in range(size + 1)])
    for groups in statistics.sequences:
        for group in groups:
            if len(group) > 1:
                total += factorial[having[list(group)].sum(axis=0)]
        total -= factorial[having[[position for group in groups for position in group]].sum(axis=0)]
    return total


def mask_of(positions: Iterable[int]) -> int:
    """The set of positions as an integer with these bits.

    Examples
    --------
    >>> bin(mask_of([0, 3]))
    '0b1001'
    """
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def ln_sum(logarithms: Iterable[float]) -> float:
    """ln of the sum of the numbers with these natural logarithms; of none, minus infinity."""
    terms = list(logarithms)
    largest = max(terms, default=-math.inf)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum([math.exp(term - largest) for term in terms]))


def ln_difference(ln_larger: float, ln_smaller: float) -> float:
    """ln of the difference of the numbers with these natural logarithms; minus infinity where there is none."""
    rest = -math.expm1(min(ln_smaller - ln_larger, 0.0))
    return ln_larger + math.log(rest) if rest > 0 else -math.inf


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
"""The digits of an exponent, raised."""


def from_ln(logarithm: float) -> float:
    """The number with this natural logarithm; infinity where it exceeds a float.

    Examples
    --------
    >>> from_ln(0.0), from_ln(1000.0)
    (1.0, inf)
    """
    return math.exp(logarithm) if logarithm < 709 else math.inf


def format_number(value: float) -> str:
    """Four significant digits.

    Examples
    --------
    >>> format_number(1234567.0), format_number(0.49871), format_number(0.0), format_number(2e-9)
    ('1,235,000', '0.4987', '0', '2×10⁻⁹')
    """
    if value == 0:
        return "0"
    return format_ln(math.log(value))


def format_ln(logarithm: float) -> str:
    """The number with this natural logarithm, to four significant digits, however large.

    Examples
    --------
    >>> format_ln(math.log(136.54)), format_ln(0.0), format_ln(math.log(2.344e-5)), format_ln(1000.0)
    ('136.5', '1', '0.00002344', '1.97×10⁴³⁴')
    >>> format_ln(2.0**63)
    '1×10⁴⁰⁰⁵⁶⁵⁹⁵⁸⁰¹⁴⁶⁷⁸⁴⁷⁶⁸'
    """
    if logarithm == -math.inf:
        return "0"
    exponent = math.floor(logarithm / math.log(10) + 1e-12)
    if -6 <= exponent < 9:
        value = float(f"{math.exp(logarithm):.4g}")
        return f"{value:,.0f}" if value >= 1000 else f"{value:.9f}".rstrip("0").rstrip(".")
    mantissa = 10 ** (logarithm / math.log(10) - exponent)  # of a logarithm without any decimals left it is 1
    return f"{mantissa:.4g}×10{str(exponent).translate(RAISED)}"
