"""How the patterns of a set are planned together, as `pipeline.yaml` says it: for `planning:` and for pattern sets."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from cep_pipeline.documents import Document
from cep_pipeline.errors import InputError


class SearchSettings(Document):
    """A planner, and what planners of many patterns together are asked for; others have no such settings.

    Attributes
    ----------
    planner
        A name of one pattern's planner or of many together; None: not said here.
    neighbourhood
        Of a local search: `edge`, or `vertex:K`.
    sharing
        What patterns share: beginnings of orders, or subtrees.
    time_limit_s, steps
        A local search ends after so many seconds or steps, whichever comes first.
    seed
        Of a local search's random choices.
    """

    planner: str | None = None
    neighbourhood: str | None = None
    sharing: Literal["prefix", "subexpression"] | None = None
    time_limit_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    steps: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=0)

    @field_validator("planner")
    @classmethod
    def _planner(cls, name: str | None) -> str | None:
        from cep_pipeline.planning.planners import check_planner

        if name is not None:
            try:
                check_planner(name)
            except InputError as error:
                raise ValueError(str(error)) from error
        return name

    @field_validator("neighbourhood")
    @classmethod
    def _neighbourhood(cls, name: str | None) -> str | None:
        from cep_pipeline.planning.multi_pattern.workload import Neighbourhood

        if name is not None:
            try:
                Neighbourhood.of(name)
            except InputError as error:
                raise ValueError(str(error)) from error
        return name

    @property
    def search(self) -> dict[str, Any]:
        """What is said of how to plan together, as `plan_workload` takes it."""
        given = {name: getattr(self, name) for name in SearchSettings.model_fields if name != "planner"}
        return {name: value for name, value in given.items() if value is not None}
