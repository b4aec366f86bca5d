"""The cost models by which many patterns are planned together."""

from __future__ import annotations

from cep_pipeline.errors import InputError
from cep_pipeline.planning.costs import INSTANCES, THROUGHPUT, CostModel, cost_named, with_latency

SHARED_COSTS: dict[str, CostModel] = {model.name: model for model in (THROUGHPUT, INSTANCES)}
"""By name: the patent's, partial matches alone, and the one that counts candidates beside them."""
DEFAULT_SHARED_COST = INSTANCES.name
"""Where none is asked for. The time that a plan takes follows it, in orders and trees alike; partial matches alone tell
nothing of a join of two frequent sides that hardly anything passes."""


def shared_cost(name: str | None, alpha: float = 0.0) -> CostModel:
    """The cost model by which many patterns are planned together, as `planning.plan` takes its name and alpha.

    Raises
    ------
    InputError
        The name is unknown, or names no cost model for this.
    """
    model = with_latency(cost_named(DEFAULT_SHARED_COST if name is None else name), alpha)
    check_model(model)
    return model


def check_model(model: CostModel) -> None:
    """Refuse a cost model by which a node costs one of its sharers something that it does not cost another one.

    Raises
    ------
    InputError
        It is none of `SHARED_COSTS`.
    """
    if model not in SHARED_COSTS.values():
        known = " or ".join(map(repr, SHARED_COSTS))
        raise InputError(
            f"many patterns are planned together by the cost {known} with alpha 0, not by {model.name!r} with alpha "
            f"{model.alpha:g}: what else a shared node costs depends on whose it is"
        )
