"""Violations of current plans as decisions record them, and the one that no replanning has answered yet.

They are read without the check itself, so that `cep status` need not import what checks are made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cep_pipeline.warehouse.records import Decision

REPLAN, KEEP, NO_NEW_DATA = "replan", "keep", "no new data"
"""Outcomes of a check."""
REPLANNING = "replanning"
"""The kind of the decisions that replannings record; those of checks have the decision function's name."""


@dataclass(frozen=True)
class Violation:
    """A reason to make another plan: a sentence about the violated invariant, or the number that moved too far.

    `key` stays the same as long as it is being handled. `patterns` are those concerned of a plan of many patterns
    together: their components are planned again; (): all.
    """

    pattern_set: str
    plan_version: int
    key: str
    reason: str
    patterns: tuple[str, ...] = ()

    @property
    def run_id(self) -> str:
        """The id of the one replanning run that handles it."""
        return f"violation__{self.pattern_set}__v{self.plan_version}__{self.key}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**vars(self), "patterns": list(self.patterns)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "violation") -> Violation:
        """Read what `to_json` wrote; InputError, which names the source, where it is something else."""
        from cep_pipeline.documents import read_as

        found: Violation = read_as(cls, content, "no violation of a plan", source, "check the plan again")
        return found


def replannings_of(decisions: Sequence[Decision], version: int) -> int:
    """Return how often a version of the plan was planned again, and kept or replaced."""
    return sum(one.kind == REPLANNING and one.plan_version == version for one in decisions)


def checks_of(decisions: Sequence[Decision], version: int) -> Iterator[Decision]:
    """The checks of a version of the plan that looked at statistics, in the order of the decisions."""
    of_version = (one for one in decisions if one.plan_version == version and one.kind != REPLANNING)
    return (one for one in of_version if "statistics" in one.details)


def violation_of(check: Decision) -> Violation | None:
    """The violation that a check has found; an InputError says that what is recorded is none."""
    content = check.details.get("violation") if check.outcome == REPLAN else None
    return None if content is None else Violation.from_json(content, f"the decision of {check.decided_at}")


def answer_to(check: Decision, decisions: Sequence[Decision]) -> str:
    """Say when and how a replanning has answered the violation that a check has found; "" where none has, or need."""
    answers = [
        one
        for one in decisions
        if one.kind == REPLANNING
        and (one.pattern_set, one.plan_version) == (check.pattern_set, check.plan_version)
        and one.decided_at > check.decided_at
    ]
    if check.outcome != REPLAN or not answers:
        return ""
    return describe_answer(min(answers, key=lambda one: one.decided_at))


def describe_answer(replanning: Decision) -> str:
    """Say when a plan was made again and what came of it, without why it was asked for.

    Examples
    --------
    >>> asked = {"asked": "11 exceeds 10"}
    >>> from datetime import datetime
    >>> when = datetime(2026, 11, 28, 16, 59)
    >>> describe_answer(Decision("all", REPLANNING, "kept", "11 exceeds 10; it costs more", when, details=asked))
    'replanned 2026-11-28 16:59, kept: it costs more'
    """
    said = replanning.reason.removeprefix(f"{replanning.details.get('asked')}; ")
    return f"replanned {replanning.decided_at:%Y-%m-%d %H:%M}, {replanning.outcome}: {said}"


def pending_violation(decisions: Sequence[Decision], version: int) -> Violation | None:
    """The violation that the last check of a version of the plan has found, where no replanning has answered it yet.

    The decisions are those of the pattern set, the latest first.
    """
    last = next(checks_of(decisions, version), None)
    if last is None or last.details.get("replannings") != replannings_of(decisions, version):
        return None
    return violation_of(last)
