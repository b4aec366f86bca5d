"""`StatisticsSnapshot`: the rates and selectivities of a stream when a plan was made, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from statistics import NormalDist
from typing import Any

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.foreign_text import html_table
from cep_pipeline.language.formatter import format_literal
from cep_pipeline.patterns.composing import plain_pattern
from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparator,
    Comparison,
    Conjunct,
    Like,
    Membership,
    NullTest,
    Truth,
)
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.observed import OutputProfile
from cep_pipeline.statistics.terms import agreement, clauses_read, format_conjunct, leaf_of, pair_of, tuple_of
from cep_pipeline.storage import digest_of

VERSION = 3
"""Version of the JSON form."""
CONFIDENCE = 0.95
"""The confidence of the interval that goes with a sampled number."""


class Source(Enum):
    """The origin of a number: counted, sampled or assumed."""

    COUNT = "count"
    """Every event was counted."""
    ALL_PAIRS = "all pairs"
    """Every pair of the scope was tested."""
    SAMPLED_PAIRS = "sampled pairs"
    """A stratified sample of the pairs, or the tuples, of the scope was tested."""
    WINDOW = "window"
    """A histogram of a sliding window: low and high are the bounds of its error."""
    PRIOR = "prior"
    """A constant by the condition's form: nothing was measured."""
    GIVEN = "given"
    """Set by the caller."""


@dataclass(frozen=True, slots=True)
class LeafRate:
    """Arrival rate of a leaf.

    Attributes
    ----------
    leaf
        Key of the leaf (`statistics.terms.Leaf.key`).
    per_s
        Events a second: over the span of the data, over the window, or the mean over the windows of a day.
    count
        The number of events that it rests on, or None where the rate is given. Where a histogram estimates it, the
        number next to the estimate.
    low, high
        What the rate lies between: both `per_s` where every event was counted, the error bound of a histogram; None
        where nothing is known of it.
    worst_per_s
        Of a business day, the highest rate in any of its windows; else None.
    """

    leaf: str
    per_s: float
    count: int | None = None
    source: Source = Source.GIVEN
    low: float | None = None
    high: float | None = None
    worst_per_s: float | None = None

    def __post_init__(self) -> None:
        for number in (self.per_s, self.worst_per_s, self.low, self.high):
            if number is not None and not (math.isfinite(number) and number >= 0):
                raise ValueError(f"a rate is finite and not negative; {self.leaf!r} has {number}")
        if self.count is not None and self.count < 0:
            raise ValueError(f"a count is not negative; {self.leaf!r} has {self.count}")
        _check_interval(self.leaf, self.per_s, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Share of the pairs (or the larger tuples) of a scope that pass a condition.

    Attributes
    ----------
    condition
        Key of the condition (`statistics.terms.Condition.key`), or its text where it has no key.
    value
        In [0, 1].
    pairs, tested
        The number of pairs in the scope, and how many of them were tested. Of larger tuples `pairs` is an estimate.
    low, high
        The interval that has the true share with the snapshot's confidence; both `value` where every pair was tested.
        None where nothing is known: priors, and numbers that are given.
    """

    condition: str
    value: float
    pairs: int = 0
    tested: int = 0
    source: Source = Source.GIVEN
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise ValueError(f"a selectivity lies in [0, 1]; {self.condition!r} has {self.value}")
        if not 0 <= self.tested <= self.pairs:
            raise ValueError(f"{self.condition!r}: {self.tested} pairs tested of {self.pairs}")
        _check_interval(self.condition, self.value, self.low, self.high, most=1.0)


@dataclass(frozen=True, slots=True)
class JointSelectivity:
    """Share of tuples that pass several conditions at once, where it is not the product of their selectivities.

    Attributes
    ----------
    conditions
        Keys of the conditions, sorted, at least two. A key stands twice where two conditions ask the same of other
        variables.
    over
        For each condition the variables that it is over, numbered among those of all in pattern order.
    value, low, high
        The share, and the interval that has it with the snapshot's confidence.
    tested
        How many tuples it rests on.
    independent
        The product of the selectivities, which it replaces.
    """

    conditions: tuple[str, ...]
    value: float
    low: float
    high: float
    tested: int
    independent: float
    over: tuple[tuple[int, ...], ...]
    source: Source = Source.SAMPLED_PAIRS

    def __post_init__(self) -> None:
        members = tuple(zip(self.conditions, self.over, strict=True))
        if len(members) < 2 or tuple(sorted(set(members))) != members:
            raise ValueError(f"a joint selectivity is of two or more conditions in order, not {members}")
        if not (0 <= self.value <= 1 and 0 <= self.independent <= 1):
            raise ValueError(f"a selectivity lies in [0, 1]; {self.conditions} have {self.value}")
        if self.tested < 0:
            raise ValueError(f"a count is not negative; {self.conditions} have {self.tested}")
        _check_interval(" and ".join(self.conditions), self.value, self.low, self.high, most=1.0)

    @property
    def members(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The conditions, each with its variables: what the number is of."""
        return tuple(zip(self.conditions, self.over, strict=True))


def _check_interval(what: str, value: float, low: float | None, high: float | None, most: float = math.inf) -> None:
    if (low is None) != (high is None):
        raise ValueError(f"{what!r} has both ends of its interval or none")
    if low is not None and high is not None and not 0 <= low <= value <= high <= most:
        raise ValueError(f"{what!r}: {value} lies outside its interval from {low} to {high}")


def wilson_interval(share: float, tested: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The score interval of a share that was seen among independent trials (Wilson 1927).

    Unlike the interval of the normal approximation it is right, or nearly so, for few trials and for shares next to
    0 and 1, where it does not shrink to a point.

    Parameters
    ----------
    share
        Passes among the trials, in [0, 1].
    tested
        Number of trials, above 0; of weighted ones the effective number.

    Examples
    --------
    >>> tuple(round(end, 4) for end in wilson_interval(0.0, 100)), tuple(round(e, 4) for e in wilson_interval(0.5, 100))
    ((0.0, 0.037), (0.4038, 0.5962))
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    shrunk = z * z / tested
    middle = (share + shrunk / 2) / (1 + shrunk)
    half = z * math.sqrt(share * (1 - share) / tested + shrunk / (4 * tested)) / (1 + shrunk)
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def effective_number(total: float, share: float, squares: float, passing_squares: float) -> float:
    """The number of independent trials of equal weight that tell a share as surely as the weighted ones do.

    Parameters
    ----------
    total, share
        What the trials stand for all together, and the share of it that passes.
    squares, passing_squares
        Sums of the squares of the weights, of all trials that are a sample and of those of them that pass.

    Notes
    -----
    The lesser of Kish's number, which takes all trials to be alike, and of what the spread of the weighted outcomes
    themselves says, which is less where trials of large weight differ more than the others.
    """
    number = total * total / squares
    spread = passing_squares * (1 - 2 * share) + share * share * squares
    if spread > 0 and 0 < share < 1:
        number = min(number, share * (1 - share) * total * total / spread)
    return number


class Kind(Enum):
    """The part of a stream that the numbers of a snapshot describe."""

    SPAN = "span"
    """All events from the first to the last."""
    WINDOW = "window"
    """The events of one window, which ends at `as_of_us`."""
    BUSINESS_DAY = "business day"
    """The mean over the windows of a day, with the highest rate of any of them beside it."""


@dataclass(frozen=True)
class StatisticsSnapshot:
    """Arrival rates of leaves and selectivities of conditions of one stream.

    Attributes
    ----------
    stream
        Name of the stream.
    events
        The number of events that were seen, of all types. Of a business day the mean over its windows.
    start_us, end_us
        What the numbers are of, microseconds since the epoch: first and last timestamp of a span; a window from its
        start, or from the first event where that is later, to `as_of_us`; the business day. None where there was no
        event.
    rates, selectivities, joints
        Sorted by key, each key once.
    kind
        What part of the stream the numbers are of.
    window_us, window_events
        Length of the window, or of the windows of the business day; neither for a span.
    as_of_us
        The instant that the window ends with; None for a span.
    windows
        The number of windows that a business day is the mean of.
    confidence
        How sure the intervals of sampled numbers are.
    output_profiles
        Which events of reported matches came last.
    notes
        What a reader should know of the numbers, such as a window that is longer than the data.
    """

    stream: str = "stream"
    events: int = 0
    start_us: int | None = None
    end_us: int | None = None
    rates: tuple[LeafRate, ...] = ()
    selectivities: tuple[Selectivity, ...] = ()
    kind: Kind = Kind.SPAN
    window_us: int | None = None
    window_events: int | None = None
    as_of_us: int | None = None
    windows: int | None = None
    confidence: float = CONFIDENCE
    joints: tuple[JointSelectivity, ...] = ()
    output_profiles: tuple[OutputProfile, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.start_us is None) != (self.end_us is None):
            raise ValueError("a snapshot has both ends of its span or none")
        if self.start_us is not None and self.end_us is not None and self.start_us > self.end_us:
            raise ValueError(f"the span ends ({self.end_us}) before it starts ({self.start_us})")
        if self.events < 0:
            raise ValueError(f"the number of events is not negative, as {self.events} is")
        if not 0 < self.confidence < 1:
            raise ValueError(f"a confidence lies between 0 and 1, not {self.confidence}")
        if self.window_us is not None and self.window_events is not None:
            raise ValueError("a window is a length of time or a number of events, not both")
        if (self.kind is Kind.SPAN) != (self.window_us is None and self.window_events is None):
            raise ValueError(
                f"a snapshot of a {self.kind.value} {'has no' if self.kind is Kind.SPAN else 'has a'} window"
            )
        object.__setattr__(self, "rates", tuple(sorted(self.rates, key=lambda rate: rate.leaf)))
        object.__setattr__(self, "selectivities", tuple(sorted(self.selectivities, key=lambda s: s.condition)))
        object.__setattr__(self, "joints", tuple(sorted(self.joints, key=lambda joint: joint.members)))
        if len(self.by_leaf) != len(self.rates) or len(self.by_condition) != len(self.selectivities):
            raise ValueError("a snapshot holds each key once")
        if len({joint.members for joint in self.joints}) != len(self.joints):
            raise ValueError("a snapshot holds the joint selectivity of some conditions once")

    def __repr__(self) -> str:
        return (
            f"<StatisticsSnapshot of {self.stream}, {self.kind.value}: {self.events:,} events, "
            f"{len(self.rates):,} rates, {len(self.selectivities):,} selectivities>"
        )

    def _repr_html_(self) -> str:
        rates = ((rate.leaf, f"{rate.per_s:.4g}", rate.count) for rate in self.rates)
        shares = ((one.condition, f"{one.value:.4g}", one.tested) for one in self.selectivities)
        title = f"{self.stream}, {self.kind.value}: {self.events:,} events"
        return "\n".join(
            (
                html_table(("events", "a second", "counted"), rates, title),
                html_table(("condition", "selectivity", "pairs tested"), shares),
            )
        )

    @cached_property
    def by_leaf(self) -> dict[str, LeafRate]:
        """The rates by the keys of their leaves."""
        return {rate.leaf: rate for rate in self.rates}

    @cached_property
    def by_condition(self) -> dict[str, Selectivity]:
        """The selectivities by the keys of their conditions."""
        return {selectivity.condition: selectivity for selectivity in self.selectivities}

    @property
    def span_s(self) -> float:
        """Seconds that `events` came in; events at one instant only, or none, count as one second."""
        if self.kind is Kind.BUSINESS_DAY and self.window_us is not None:
            return self.window_us / 1e6
        return span_seconds(self.start_us, self.end_us)

    @property
    def events_per_s(self) -> float:
        """Rate of all events of the stream."""
        return self.events / self.span_s

    def rate(self, pattern: Pattern, clause: Clause, variable: str) -> LeafRate:
        """The arrival rate of a variable's leaf.

        Raises
        ------
        PlanError
            The snapshot was not made for this leaf.
        """
        leaf = leaf_of(pattern, clause, variable)
        if leaf.key not in self.by_leaf:
            raise PlanError(
                f"the statistics hold no arrival rate of {leaf.key!r} (variable {variable!r} of pattern "
                f"{pattern.name!r}); estimate them again with this pattern among the patterns"
            )
        return self.by_leaf[leaf.key]

    def covers(self, patterns: Iterable[Pattern]) -> bool:
        """True where the rates of all leaves of the patterns are known, so that they can be planned."""
        return all(key in self.by_leaf for key in leaves_of(patterns))

    def selectivity(self, pattern: Pattern, clause: Clause, conjunct: Conjunct) -> Selectivity:
        """The selectivity of a conjunct of a clause; a prior where it was not measured."""
        measured = pair_of(pattern, clause, conjunct) or tuple_of(pattern, clause, conjunct)
        if measured is not None and measured.key in self.by_condition:
            return self.by_condition[measured.key]
        text = measured.key if measured is not None else format_conjunct(conjunct, format_literal)
        return Selectivity(text, prior_selectivity(conjunct), source=Source.PRIOR)

    def agreement(self, pattern: Pattern, clause: Clause, attribute: str, first: str, second: str) -> Selectivity:
        """Share of the pairs of two variables that agree on an attribute; a prior where it was not measured."""
        key = agreement(pattern, clause, attribute, first, second).key
        return self.by_condition.get(key, Selectivity(key, EQUAL, source=Source.PRIOR))

    def to_json(self) -> dict[str, Any]:
        """The snapshot as JSON values, with its version."""
        from cep_pipeline.documents import in_json

        return {"version": VERSION, **in_json(self)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "statistics") -> StatisticsSnapshot:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            `content` is of another version, or no snapshot; `source` names it in the message.
        """
        from cep_pipeline.documents import check_version, read_as

        check_version(content, VERSION, "statistics snapshot", source)
        if absent := {"stream", "events", "rates", "selectivities"} - content.keys():
            missing = ", ".join(sorted(absent))
            raise InputError(f"{source}: no statistics snapshot: it has no {missing}; estimate the statistics again")
        own = {name: value for name, value in content.items() if name != "version"}
        found: StatisticsSnapshot = read_as(cls, own, "no statistics snapshot", source, "estimate the statistics again")
        return found

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that change with any number of the snapshot."""
        return digest_of(self.to_json())


def span_seconds(start_us: int | None, end_us: int | None) -> float:
    """Seconds between two timestamps; 1.0 where there is no extent to divide by."""
    if start_us is None or end_us is None or end_us <= start_us:
        return 1.0
    return (end_us - start_us) / 1e6


EQUAL = 1 / 10
INEQUALITY = 1 / 3
BETWEEN = 1 / 4
MOST_OF_A_LIST = 1 / 2
"""Selectivities where nothing was measured: the constants of System R (Selinger et al., SIGMOD 1979, table 1)."""


def prior_selectivity(conjunct: Conjunct) -> float:
    """Share of tuples that pass the conjunct, by its form alone; its atoms count as independent."""
    fails = 1.0
    for atom in conjunct.atoms:
        fails *= 1.0 - _prior(atom)
    return 1.0 - fails


def _prior(atom: Atom) -> float:
    match atom:
        case Comparison(Comparator.EQ):
            return EQUAL
        case Comparison(Comparator.NE):
            return 1.0 - EQUAL
        case Comparison():
            return INEQUALITY
        case Between(negated=negated):
            share = BETWEEN
        case Membership(values=values, negated=negated):
            share = min(len(values) * EQUAL, MOST_OF_A_LIST)
        case NullTest(negated=negated):
            share = EQUAL
        case Like(negated=negated):
            share = BETWEEN
        case Truth(holds):
            return float(holds)
    return 1.0 - share if negated else share


def leaves_of(patterns: Iterable[Pattern]) -> Iterator[str]:
    """The keys of all leaves of patterns, some of them several times."""
    return (
        leaf_of(pattern, read, variable.name).key
        for pattern in map(plain_pattern, patterns)
        for clause in pattern.clauses
        for read in clauses_read(clause)
        for variable in (*read.positive, *read.negated)
    )
