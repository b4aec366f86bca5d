"""`adaptation:` of `pipeline.yaml`: what decides whether a plan is made again, and on what plans are compared."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from cep_pipeline.documents import Document, one_of
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.adaptation.decisions import DecisionFunction

ALL = "all"


def _decisions() -> Iterable[str]:
    from cep_pipeline.adaptation import DECISION_FUNCTIONS

    return DECISION_FUNCTIONS


def _distances() -> Iterable[str]:
    from cep_pipeline.adaptation import DISTANCES

    return DISTANCES


class AdaptationSettings(Document):
    """Settings of adaptation: what makes a plan be made again, and how the old plan and the new one are compared."""

    decision: str = Field(
        default="invariant",
        json_schema_extra=one_of(_decisions),
        description=(
            "What decides whether a plan is made again: a violated `invariant` of the plan, a number that has moved by "
            "a `constant_threshold`, every check (`unconditional`), or nothing (`static`)."
        ),
        examples=["constant_threshold"],
    )
    distance: float | str = Field(
        default=0.0,
        json_schema_extra=one_of(_distances, least=0),
        description=(
            "For `invariant`: the share by which one side of an invariant must exceed the other before the invariant "
            "counts as violated. It is a number, or the name of a rule that sets it."
        ),
        examples=[0.1],
    )
    k: int | str = Field(
        default=1,
        json_schema_extra=one_of(lambda: [ALL], least=1),
        description="For `invariant`: how many invariants of each step or join are checked, the tightest first.",
        examples=[2],
    )
    threshold: float = Field(
        default=0.5,
        gt=0,
        allow_inf_nan=False,
        description=(
            "For `constant_threshold`: the share by which a number must have moved. For `invariant`: the same, for "
            "patterns whose planners have no invariants or that are planned together."
        ),
        examples=[0.25],
    )
    sample: int = Field(
        default=20_000,
        ge=0,
        le=10_000_000,
        description=(
            "The old plan and the new one are compared on this many events of the latest day. With 0 they are compared "
            "by their costs alone."
        ),
        examples=[50000],
    )

    @field_validator("decision")
    @classmethod
    def _known(cls, name: str) -> str:
        from cep_pipeline.adaptation import DECISION_FUNCTIONS

        if name not in DECISION_FUNCTIONS:
            raise ValueError(f"there is no decision function of this name; there are: {', '.join(DECISION_FUNCTIONS)}")
        return name

    @field_validator("distance")
    @classmethod
    def _distance(cls, setting: float | str) -> float | str:
        from cep_pipeline.adaptation import distance_rule

        try:
            distance_rule(setting)
        except InputError as error:
            raise ValueError(str(error)) from error
        return setting

    @field_validator("k")
    @classmethod
    def _positive(cls, k: int | str) -> int | str:
        if k == ALL or (isinstance(k, int) and k >= 1):
            return k
        raise ValueError(f"a block has one invariant or more: write 1, 2, … or {ALL}")

    @property
    def most_invariants(self) -> int | None:
        """Invariants a block; None: all."""
        return self.k if isinstance(self.k, int) else None

    def function(self) -> DecisionFunction:
        """The decision function with those of the settings that it has."""
        from cep_pipeline.adaptation import decision_function

        return decision_function(self.decision, **{**self.decisive(), **self._k()})

    def decisive(self) -> dict[str, Any]:
        """Those of the settings that the decision function has, as they are written."""
        from cep_pipeline.adaptation import DECISION_FUNCTIONS

        has = inspect.signature(DECISION_FUNCTIONS[self.decision]).parameters
        return {name: value for name, value in self.model_dump().items() if name in has}

    def _k(self) -> dict[str, int | None]:
        return {"k": self.most_invariants} if "k" in self.decisive() else {}
