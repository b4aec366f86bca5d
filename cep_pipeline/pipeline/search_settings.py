"""How the patterns of a set are planned together, as `pipeline.yaml` says it: for `planning:` and for pattern sets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field, field_validator

from cep_pipeline.documents import Document, one_of
from cep_pipeline.errors import InputError


def _planners() -> Iterable[str]:
    from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNER_NAMES, PLANNERS

    return (*PLANNERS, *MULTI_PATTERN_PLANNER_NAMES)


def cost_names() -> Iterable[str]:
    """Names of the cost models."""
    from cep_pipeline.planning.costs import COSTS

    return COSTS


class SearchSettings(Document):
    """A planner, and the settings of planners that plan all patterns of a set together."""

    planner: str | None = Field(
        default=None,
        json_schema_extra=one_of(_planners),
        description=(
            "The planner: of each pattern by itself, or of all patterns of a set together. A pattern set without one "
            "takes that of `planning:`; without that it is `dp_left_deep`."
        ),
        examples=["greedy"],
    )
    neighbourhood: str | None = Field(
        default=None,
        json_schema_extra={"pattern": "^(edge|vertex:[0-9]+)$"},
        description="The step of a local search: `edge` gives two patterns a part in common, `vertex:K` up to K.",
        examples=["vertex:4"],
    )
    sharing: Literal["prefix", "subexpression"] | None = Field(
        default=None,
        description="The parts that patterns share: the beginnings of their orders, or subtrees of their trees.",
        examples=["prefix"],
    )
    time_limit_s: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="A local search ends after this many seconds.",
        examples=[5],
    )
    steps: int | None = Field(
        default=None,
        ge=1,
        description="A local search ends after this many steps. By steps and seed it gives the same plan each time.",
        examples=[100000],
    )
    seed: int | None = Field(
        default=None, ge=0, description="The seed of the random choices of a local search.", examples=[1]
    )

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
