"""The observations of detection: candidates and passes of plan nodes, and the last events of matches.

They cost nothing to count, and are published with the day. The pages show the work of a plan by the candidates of its
nodes; the next day's plans go by the last events, where latency counts (`with_profiles`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.node_counts import NodeCounts
from cep_pipeline.statistics.output_profile import OutputProfile, merge_profiles
from cep_pipeline.statistics.snapshot import StatisticsSnapshot
from cep_pipeline.statistics.versioned import check_version

VERSION = 2
"""Version of the JSON form."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The candidates and passes that the nodes of a plan counted that bind the same variables.

    Attributes
    ----------
    pattern, variables
        Name of the pattern, and the variables bound at the node, sorted.
    candidates, passes
        Tuples that were tested, and those that passed.
    """

    pattern: str
    variables: tuple[str, ...]
    candidates: int
    passes: int

    def __post_init__(self) -> None:
        if not 0 <= self.passes <= self.candidates:
            raise ValueError(f"{self.passes} of {self.candidates} candidates pass at {', '.join(self.variables)}")

    def __add__(self, other: Observation) -> Observation:
        return replace(self, candidates=self.candidates + other.candidates, passes=self.passes + other.passes)


@dataclass(frozen=True)
class Observed:
    """The observations of a day's detection: the counts of plan nodes, and the last events of its matches."""

    observations: tuple[Observation, ...] = ()
    profiles: tuple[OutputProfile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.observations or self.profiles)

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
                [one.pattern, list(one.variables), one.candidates, one.passes] for one in self.observations
            ],
            "profiles": [vars(profile) for profile in self.profiles],
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
                tuple(Observation(name, tuple(bound), *counts) for name, bound, *counts in content["observations"]),
                tuple(
                    OutputProfile(one["pattern"], tuple(one["variables"]), tuple(one["last"]))
                    for one in content["profiles"]
                ),
            )


@cache
def _form() -> Any:
    """The JSON form of what detection observed."""
    from cep_pipeline.documents import form_of

    observation = form_of(tuple[str, tuple[str, ...], int, int])
    return form_of(
        Observed,
        {"version": int, "observations": list[observation], "profiles": list[form_of(OutputProfile)]},  # type: ignore[misc, valid-type]
    )


def observations_of(nodes: Iterable[NodeCounts]) -> tuple[Observation, ...]:
    """Turn node counts into observations. Nodes at which anything but conjuncts filtered are skipped.

    A node that several plans share has counted for each of them.
    """
    return merge_observations(
        Observation(name, tuple(sorted(variables)), node.candidates, node.passes)
        for node in nodes
        for name, variables in ((node.pattern, node.node), *((one, bound) for one, _, bound in node.shared_with))
        if node.tested and node.candidates
    )


def merge_observations(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Observations of the same over several slices, days or plans together, each once."""
    merged: dict[tuple[str, tuple[str, ...]], Observation] = {}
    for one in observations:
        of = one.pattern, one.variables
        merged[of] = merged[of] + one if of in merged else one
    return tuple(merged.values())


def with_profiles(snapshot: StatisticsSnapshot, patterns: Sequence[Pattern], observed: Observed) -> StatisticsSnapshot:
    """The snapshot with the output profiles that an earlier day's detection observed of these patterns."""
    names = {(one.name, tuple(v.name for v in clause.positive)) for one in patterns for clause in one.clauses}
    profiles = (profile for profile in observed.profiles if (profile.pattern, profile.variables) in names)
    return replace(snapshot, output_profiles=tuple(profiles))
