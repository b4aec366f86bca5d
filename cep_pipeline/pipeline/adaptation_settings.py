"""`adaptation:` of `pipeline.yaml`: what decides whether a plan is made again, and on what plans are compared."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from cep_pipeline.documents import Document
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.adaptation.decisions import DecisionFunction

ALL = "all"


class AdaptationSettings(Document):
    """When a plan is made again.

    Attributes
    ----------
    decision
        A key of `adaptation.DECISION_FUNCTIONS`.
    distance
        Of `invariant`: a number, 0 or more, or a key of `adaptation.DISTANCES`.
    k
        Of `invariant`: so many invariants a block, the tightest ones; or all.
    threshold
        Of `constant_threshold`, and of `invariant` for patterns whose planners have no invariants: the share by which
        a number moves before the plan is made again.
    sample
        So many events of the latest day are run by the old plan and the new one to compare them; 0: they are compared
        by their costs alone.
    """

    decision: str = "invariant"
    distance: float | str = 0.0
    k: int | str = 1
    threshold: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    sample: int = Field(default=20_000, ge=0, le=10_000_000)

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
