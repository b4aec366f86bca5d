"""`StatisticsSnapshot`: what was known of a stream when a plan was made, and how surely."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from hashlib import sha256
from typing import Any

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.priors import EQUAL, prior_selectivity
from cep_pipeline.statistics.terms import agreement, format_conjunct, leaf_of, pair_of

VERSION = 1
"""Version of the JSON form."""


class Source(Enum):
    """Where a number comes from."""

    COUNT = "count"
    """Every event was counted."""
    ALL_PAIRS = "all pairs"
    """Every pair of the scope was tested."""
    SAMPLED_PAIRS = "sampled pairs"
    """A stratified sample of the pairs of the scope was tested."""
    PRIOR = "prior"
    """Nothing was measured: a constant by the condition's form."""
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
        Events a second over the span of the data.
    count
        The number of events that it rests on, or None where the rate is given.
    """

    leaf: str
    per_s: float
    count: int | None = None
    source: Source = Source.GIVEN

    def __post_init__(self) -> None:
        if not (math.isfinite(self.per_s) and self.per_s >= 0):
            raise ValueError(f"a rate is finite and not negative; {self.leaf!r} has {self.per_s}")
        if self.count is not None and self.count < 0:
            raise ValueError(f"a count is not negative; {self.leaf!r} has {self.count}")


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Share of the pairs of a scope that pass a condition.

    Attributes
    ----------
    condition
        Key of the condition (`statistics.terms.PairCondition.key`), or its text where it has no key.
    value
        In [0, 1].
    pairs, tested
        The number of pairs in the scope, and how many of them were tested.
    """

    condition: str
    value: float
    pairs: int = 0
    tested: int = 0
    source: Source = Source.GIVEN

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise ValueError(f"a selectivity lies in [0, 1]; {self.condition!r} has {self.value}")
        if not 0 <= self.tested <= self.pairs:
            raise ValueError(f"{self.condition!r}: {self.tested} pairs tested of {self.pairs}")


@dataclass(frozen=True)
class StatisticsSnapshot:
    """Arrival rates of leaves and selectivities of pairwise conditions of one stream.

    Attributes
    ----------
    stream
        Name of the stream.
    events
        The number of events that were seen, of all types.
    start_us, end_us
        First and last timestamp, microseconds since the epoch; None where there was no event.
    rates, selectivities
        Sorted by key, each key once.
    """

    stream: str = "stream"
    events: int = 0
    start_us: int | None = None
    end_us: int | None = None
    rates: tuple[LeafRate, ...] = ()
    selectivities: tuple[Selectivity, ...] = ()

    def __post_init__(self) -> None:
        if (self.start_us is None) != (self.end_us is None):
            raise ValueError("a snapshot has both ends of its span or none")
        if self.start_us is not None and self.end_us is not None and self.start_us > self.end_us:
            raise ValueError(f"the span ends ({self.end_us}) before it starts ({self.start_us})")
        if self.events < 0:
            raise ValueError(f"the number of events is not negative, as {self.events} is")
        object.__setattr__(self, "rates", tuple(sorted(self.rates, key=lambda rate: rate.leaf)))
        object.__setattr__(self, "selectivities", tuple(sorted(self.selectivities, key=lambda s: s.condition)))
        if len(self._rates) != len(self.rates) or len(self._selectivities) != len(self.selectivities):
            raise ValueError("a snapshot holds each key once")

    @cached_property
    def _rates(self) -> dict[str, LeafRate]:
        return {rate.leaf: rate for rate in self.rates}

    @cached_property
    def _selectivities(self) -> dict[str, Selectivity]:
        return {selectivity.condition: selectivity for selectivity in self.selectivities}

    @property
    def span_s(self) -> float:
        """Length of the data in seconds; events at one instant only, or none, count as one second."""
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
        if leaf.key not in self._rates:
            raise PlanError(
                f"the statistics hold no arrival rate of {leaf.key!r} (variable {variable!r} of pattern "
                f"{pattern.name!r}); estimate them again with this pattern among the patterns"
            )
        return self._rates[leaf.key]

    def covers(self, patterns: Iterable[Pattern]) -> bool:
        """Whether the rates of all leaves of the patterns are known, so that they can be planned."""
        return all(
            leaf_of(pattern, clause, variable.name).key in self._rates
            for pattern in patterns
            for clause in pattern.clauses
            for variable in (*clause.positive, *clause.negated)
        )

    def selectivity(self, pattern: Pattern, clause: Clause, conjunct: Conjunct) -> Selectivity:
        """The selectivity of a conjunct of a clause; a prior where it was not measured."""
        measured = pair_of(pattern, clause, conjunct)
        if measured is not None and measured.key in self._selectivities:
            return self._selectivities[measured.key]
        text = measured.key if measured is not None else format_conjunct(conjunct)
        return Selectivity(text, prior_selectivity(conjunct), source=Source.PRIOR)

    def agreement(self, pattern: Pattern, clause: Clause, attribute: str, first: str, second: str) -> Selectivity:
        """Share of the pairs of two variables that agree on an attribute; a prior where it was not measured."""
        key = agreement(pattern, clause, attribute, first, second).key
        return self._selectivities.get(key, Selectivity(key, EQUAL, source=Source.PRIOR))

    def to_json(self) -> dict[str, Any]:
        """The snapshot as JSON values, with its version."""
        return {
            "version": VERSION,
            "stream": self.stream,
            "events": self.events,
            "start_us": self.start_us,
            "end_us": self.end_us,
            "rates": [
                {"leaf": r.leaf, "per_s": r.per_s, "count": r.count, "source": r.source.value} for r in self.rates
            ],
            "selectivities": [
                {
                    "condition": s.condition,
                    "value": s.value,
                    "pairs": s.pairs,
                    "tested": s.tested,
                    "source": s.source.value,
                }
                for s in self.selectivities
            ],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "statistics") -> StatisticsSnapshot:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            `content` is of another version, or no snapshot; `source` names it in the message.
        """
        check_version(content, VERSION, "statistics snapshot", source)
        try:
            return cls(
                stream=content["stream"],
                events=content["events"],
                start_us=content["start_us"],
                end_us=content["end_us"],
                rates=tuple(LeafRate(r["leaf"], r["per_s"], r["count"], Source(r["source"])) for r in content["rates"]),
                selectivities=tuple(
                    Selectivity(s["condition"], s["value"], s["pairs"], s["tested"], Source(s["source"]))
                    for s in content["selectivities"]
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{source}: no statistics snapshot: {error!r}; estimate the statistics again") from error

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that change with any number of the snapshot."""
        return digest_of(self.to_json())


def span_seconds(start_us: int | None, end_us: int | None) -> float:
    """Seconds between two timestamps; 1.0 where there is no extent to divide by."""
    if start_us is None or end_us is None or end_us <= start_us:
        return 1.0
    return (end_us - start_us) / 1e6


def check_version(content: object, version: int, what: str, source: str) -> None:
    """Refuse JSON that is no object or of another version than this package writes."""
    if not isinstance(content, Mapping):
        raise InputError(f"{source}: a {what} is a JSON object, not {type(content).__name__}")
    if content.get("version") != version:
        raise InputError(
            f"{source}: a {what} of version {content.get('version')!r}; this package reads version {version}: "
            "make it again"
        )


def digest_of(content: object) -> str:
    """First 32 hexadecimal digits of the SHA-256 of canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return sha256(text.encode()).hexdigest()[:32]
