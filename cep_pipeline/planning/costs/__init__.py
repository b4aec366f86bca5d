"""Cost models of plans. They know nothing of the algorithms that search for the cheapest plan.

`model` defines the form and the costs that count partial matches; `orderings` has the cost of a whole order or tree.
"""

from __future__ import annotations

from cep_pipeline.errors import InputError
from cep_pipeline.planning.costs.kernel import KERNEL
from cep_pipeline.planning.costs.model import (
    CONSUME_MATCHED,
    INSTANCES,
    LATENCY,
    THROUGHPUT,
    CostModel,
    SetTerm,
    with_latency,
)

__all__ = [
    "CONSUME_MATCHED",
    "COSTS",
    "INSTANCES",
    "KERNEL",
    "LATENCY",
    "THROUGHPUT",
    "CostModel",
    "SetTerm",
    "cost_named",
    "with_latency",
]

COSTS: dict[str, CostModel] = {model.name: model for model in (THROUGHPUT, LATENCY, CONSUME_MATCHED, KERNEL, INSTANCES)}
"""The cost models, by name; `plan` takes a name of them."""


def cost_named(name: str) -> CostModel:
    """The cost model of this name; InputError lists the known ones otherwise."""
    if name not in COSTS:
        raise InputError(f"there is no cost model {name!r}; there are: {', '.join(COSTS)}")
    return COSTS[name]
