"""The observations of detection: candidates and passes of plan nodes, temporal orders of matches, and their use.

They cost nothing to count, are published with the day, and are combined with samples by `combine_observed`.

A node of a plan tests conjuncts on tuples that have passed the conjuncts before it. What it observes is therefore a
conditional share,

    q = passes / candidates = P(tested | given),

where `given` are all other conditions over the node's variables: the conjuncts of the nodes below it, and equalities
that the mechanism fulfils by sorting.

Where nothing is given and one conjunct is tested on its own variables, the share is that of all pairs of the conjunct's
scope, the number that sampling estimates. The two are combined by inverse variance, unless they differ by more than
both intervals allow: then the stream has changed since it was observed, and the sample counts.

Tuples share events, so that a node's candidates are no independent tests: the share of n candidates over variables with
m events each is about as certain as one of m tests (the variance of a U-statistic is at most that of as many draws as
the rarest of its variables has events [1]_). As the share of one day, which it was counted on, it is exact; that of
another day differs from it by both days' chance, and it counts as m / 2 tests of that.

References
----------
.. [1] Hoeffding: A Class of Statistics with Asymptotically Normal Distribution. Annals of Mathematical Statistics 19,
   1948, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.conjunct_text import conjunct_text
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.joint import ClauseTerms
from cep_pipeline.statistics.node_counts import NodeCounts
from cep_pipeline.statistics.output_profile import OrderProfile, merge_profiles, profile_form
from cep_pipeline.statistics.snapshot import Selectivity, Source, StatisticsSnapshot, wilson_interval
from cep_pipeline.statistics.terms import conjunct_key, leaf_of
from cep_pipeline.statistics.versioned import check_version, digest_of

VERSION = 1
"""Version of the JSON form."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The candidates and passes that one node of a plan counted for a clause.

    Attributes
    ----------
    pattern, clause
        Name of the pattern, for people, and the key of the clause (`clause_key`).
    variables
        Those bound at the node, in pattern order.
    tested
        Keys of the conjuncts that decided which candidates pass, sorted.
    candidates, passes
        Tuples that were tested, and those that passed.
    """

    pattern: str
    clause: str
    variables: tuple[str, ...]
    tested: tuple[str, ...]
    candidates: int
    passes: int

    def __post_init__(self) -> None:
        if not 0 <= self.passes <= self.candidates:
            raise ValueError(f"{self.passes} of {self.candidates} candidates pass at {', '.join(self.variables)}")

    @property
    def what(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """The clause, variables and conditions; observations that have them in common can be added."""
        return self.clause, self.variables, self.tested

    def __add__(self, other: Observation) -> Observation:
        return replace(self, candidates=self.candidates + other.candidates, passes=self.passes + other.passes)


@dataclass(frozen=True)
class Observed:
    """The observations of a day's detection: shares at plan nodes, and the temporal orders of its matches."""

    observations: tuple[Observation, ...] = ()
    profiles: tuple[OrderProfile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.observations or self.profiles)

    def shortened(self, most: int) -> Observed:
        """Return only the `most` most frequent temporal orders of each clause, with all else."""
        return replace(self, profiles=tuple(profile.shortened(most) for profile in self.profiles))

    def __add__(self, other: Observed) -> Observed:
        return Observed(
            merge_observations((*self.observations, *other.observations)),
            merge_profiles((*self.profiles, *other.profiles)),
        )

    def to_json(self) -> dict[str, Any]:
        """The observations as JSON values, with their version."""
        return {
            "version": VERSION,
            "observations": [
                [o.pattern, o.clause, list(o.variables), list(o.tested), o.candidates, o.passes]
                for o in self.observations
            ],
            "profiles": [profile.to_json() for profile in self.profiles],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "what detection observed") -> Observed:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            `content` is of another version, or something else; `source` names it in the message.
        """
        from cep_pipeline.documents import reading_form

        check_version(content, VERSION, "record of what detection observed", source)
        with reading_form(_form(), content, "no record of what detection observed", source, "detect the day again"):
            return cls(
                tuple(
                    Observation(pattern, clause, tuple(variables), tuple(tested), candidates, passes)
                    for pattern, clause, variables, tested, candidates, passes in content["observations"]
                ),
                tuple(map(OrderProfile.from_json, content["profiles"])),
            )


@cache
def _form() -> Any:
    """The JSON form of what detection observed."""
    from cep_pipeline.documents import form_of

    observation = form_of(tuple[str, str, tuple[str, ...], tuple[str, ...], int, int])
    return form_of(
        Observed,
        {"version": int, "observations": list[observation], "profiles": list[profile_form()]},  # type: ignore[misc, valid-type]
    )


def observations_of(patterns: Iterable[Pattern], nodes: Iterable[NodeCounts]) -> tuple[Observation, ...]:
    """Turn node counts into observed selectivities. Nodes at which anything but conjuncts filtered are skipped.

    A node that several plans share has observed it for each of them, within the largest of their windows.
    """
    by_name = {pattern.name: pattern for pattern in patterns}
    found = []
    for node in nodes:
        if not node.tested or not node.candidates:
            continue
        for name, index, variables in ((node.pattern, node.clause, node.node), *node.shared_with):
            if name not in by_name:
                continue
            pattern = by_name[name]
            clause = pattern.clauses[index]
            tested = _alike(node.tested, node.node, clause, variables)
            found.append(
                Observation(
                    name,
                    clause_key(pattern, clause),
                    tuple(variable.name for variable in clause.positive if variable.name in variables),
                    tuple(sorted(map(conjunct_key, tested))),
                    node.candidates,
                    node.passes,
                )
            )
    return merge_observations(found)


def _alike(
    tested: Iterable[Conjunct], names: Sequence[str], clause: Clause, variables: Sequence[str]
) -> list[Conjunct]:
    """The conjuncts of a clause that say of its variables what others say of theirs, one by one."""
    slots = {name: slot for slot, name in enumerate(names)}
    wanted = {conjunct_text(conjunct, slots) for conjunct in tested}
    own = {name: slot for slot, name in enumerate(variables)}
    return [one for one in clause.conjuncts if one.variables <= own.keys() and conjunct_text(one, own) in wanted]


def merge_observations(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Observations of the same over several slices, days or plans together, each once."""
    merged: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Observation] = {}
    for observation in observations:
        before = merged.get(observation.what)
        merged[observation.what] = observation if before is None else before + observation
    return tuple(merged.values())


def clause_key(pattern: Pattern, clause: Clause) -> str:
    """32 hexadecimal digits of all that what is observed of a clause depends on, whatever its pattern is called."""
    return digest_of(
        {
            "variables": [
                [variable.name, variable.kleene, leaf_of(pattern, clause, variable.name).key]
                for variable in (*clause.positive, *clause.negated)
            ],
            "order": sorted(map(list, clause.precedence)),
            "conditions": sorted(map(conjunct_key, clause.conjuncts)),
            "agreement": sorted(clause.agree_on),
            "partition": sorted(pattern.partition_by),
            "window": str(pattern.window),
            "ties": pattern.ties.value,
            "strategy": pattern.strategy.value,
        }
    )


def combine_observed(
    snapshot: StatisticsSnapshot, patterns: Sequence[Pattern], observed: Observed
) -> StatisticsSnapshot:
    """The snapshot with what detection observed.

    Parameters
    ----------
    snapshot
        Estimated from events.
    patterns
        Those that the snapshot is for; what was observed of others, or of other texts of them, is left aside.
    observed
        Of an earlier day, or of the same one.

    Raises
    ------
    PlanError
        The snapshot was made for other patterns.
    """
    clauses = {clause_key(pattern, clause): (pattern, clause) for pattern in patterns for clause in pattern.clauses}
    known = sorted(
        (observation for observation in observed.observations if observation.clause in clauses),
        key=lambda observation: (len(observation.variables), observation.what),
    )
    for observation in known:
        terms = ClauseTerms(*clauses[observation.clause], snapshot)
        snapshot = _with_share(snapshot, terms, observation)
    names = {(pattern.name, tuple(v.name for v in clause.positive)) for pattern, clause in clauses.values()}
    profiles = {
        (profile.pattern, profile.variables): profile
        for profile in (*snapshot.order_profiles, *observed.profiles)
        if (profile.pattern, profile.variables) in names
    }
    return replace(snapshot, order_profiles=tuple(profiles.values()))


def _with_share(snapshot: StatisticsSnapshot, terms: ClauseTerms, observation: Observation) -> StatisticsSnapshot:
    """The snapshot with the selectivity of one conjunct that was observed on all pairs of its scope."""
    within = [terms.terms[place] for place in terms.within(observation.variables)]
    if len(within) != 1 or set(within[0].names) != set(observation.variables) or within[0].conjunct is None:
        return snapshot
    if observation.tested != (conjunct_key(within[0].conjunct),):
        return snapshot
    sampled = snapshot.selectivity(terms.pattern, terms.clause, within[0].conjunct)
    effective = _effective(terms, observation)
    combined = _combined(sampled, observation, effective, snapshot.confidence)
    if combined is None:
        return snapshot
    others = (s for s in snapshot.selectivities if s.condition != combined.condition)
    return replace(snapshot, selectivities=(*others, combined))


def _combined(sampled: Selectivity, observation: Observation, effective: int, confidence: float) -> Selectivity | None:
    """A sampled selectivity and an observed one; None where the sample is to stay."""
    value = observation.passes / observation.candidates
    low, high = wilson_interval(value, effective, confidence)
    if sampled.source is Source.PRIOR:
        tests = observation.candidates
        return Selectivity(sampled.condition, value, tests, tests, Source.OBSERVED, low, high)
    if sampled.source not in (Source.SAMPLED_PAIRS, Source.COMBINED) or sampled.low is None or sampled.high is None:
        return None  # counted, or given
    margins = (sampled.high - sampled.low) / 2, (high - low) / 2
    if not min(margins) or abs(value - sampled.value) > math.hypot(*margins):
        return None
    weights = [1 / margin**2 for margin in margins]  # at one confidence, margins are as standard deviations
    mean = (weights[0] * sampled.value + weights[1] * value) / sum(weights)
    margin = 1 / math.sqrt(sum(weights))
    ends = max(mean - margin, 0.0), min(mean + margin, 1.0)
    return replace(sampled, value=mean, low=ends[0], high=ends[1], source=Source.COMBINED)


def _effective(terms: ClauseTerms, observation: Observation) -> int:
    """The number of independent tests that the candidates of a node count for."""
    counts = (terms.snapshot.rate(terms.pattern, terms.clause, name).count for name in observation.variables)
    return max(min([observation.candidates, *(count // 2 for count in counts if count is not None)]), 1)
