"""What detection observed, as records: candidates and passes of plan nodes, and the temporal orders of matches.

They cost nothing, are published with the day, and are combined with samples by `combining.combine_observed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.conjunct_text import conjunct_text
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.node_counts import NodeCounts
from cep_pipeline.statistics.output_profile import OrderProfile, merge_profiles
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
        """Whatever has this in common was observed of the same."""
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
        """With the `most` most frequent temporal orders of each clause only."""
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
        check_version(content, VERSION, "record of what detection observed", source)
        try:
            return cls(
                tuple(
                    Observation(pattern, clause, tuple(variables), tuple(tested), candidates, passes)
                    for pattern, clause, variables, tested, candidates, passes in content["observations"]
                ),
                tuple(map(OrderProfile.from_json, content["profiles"])),
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InputError(
                f"{source}: no record of what detection observed: {error!r}; detect the day again"
            ) from error


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
