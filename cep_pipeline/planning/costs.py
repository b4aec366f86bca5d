"""Cost models of order-based plans: what a step costs, apart from any algorithm that searches for the order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cep_pipeline.errors import InputError
from cep_pipeline.planning.cardinality import ln_partial_matches, ln_partial_matches_of_all
from cep_pipeline.planning.clause_statistics import ClauseStatistics

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class CostModel:
    """A cost that adds up over the steps of an order, where a step's cost depends on the set it completes.

    Attributes
    ----------
    name, unit
        As `cep plan --cost` and explain write them.
    ln_step
        (statistics, positions bound after the step) -> natural logarithm of the step's cost.
    ln_all_steps
        The same of every set at once: float64, shape (2^n,), by the bits of the set.
    """

    name: str
    unit: str
    ln_step: Callable[[ClauseStatistics, Sequence[int]], float]
    ln_all_steps: Callable[[ClauseStatistics], Array]


THROUGHPUT = CostModel(
    name="throughput",
    unit="partial matches alive in a window",
    ln_step=ln_partial_matches,
    ln_all_steps=ln_partial_matches_of_all,
)
"""JQPG section 4.1: Cost(O) = sum over k of PM(k), the partial matches of all sizes that coexist in one window."""

COSTS: dict[str, CostModel] = {THROUGHPUT.name: THROUGHPUT}


def cost_named(name: str) -> CostModel:
    """The cost model of this name; InputError lists the known ones otherwise."""
    if name not in COSTS:
        raise InputError(f"there is no cost model {name!r}; there are: {', '.join(COSTS)}")
    return COSTS[name]


def ln_order_cost(model: CostModel, statistics: ClauseStatistics, order: Sequence[int]) -> float:
    """Natural logarithm of the cost of an order, or of the beginning of one."""
    total = -math.inf
    for length in range(1, len(order) + 1):
        total = float(np.logaddexp(total, model.ln_step(statistics, order[:length])))
    return total
