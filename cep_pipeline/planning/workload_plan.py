"""The work that the patterns of a plan share: the rule, the search that found it, and the shared nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

Sharing: TypeAlias = Literal["none", "prefix", "subexpression"]
SHARINGS: tuple[Sharing, ...] = ("none", "prefix", "subexpression")
"""The rules of sharing: nothing; equal beginnings of orders (MCEP [0076]); equal subtrees (MCEP [0119])."""


@dataclass(frozen=True, slots=True)
class WorkloadSearch:
    """The search that found a shared plan.

    Attributes
    ----------
    planner
        A name in `MULTI_PATTERN_PLANNERS`.
    neighbourhood, seed, steps
        Of a local search: its neighbourhood, the seed of its choices, and the steps it has made.
    """

    planner: str
    neighbourhood: str | None = None
    seed: int | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if not self.planner or (self.steps is not None and self.steps < 0):
            raise ValueError(f"a search has a planner and no negative number of steps, not {self}")


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A use of a shared node by a clause of a pattern, with the clause's variables in the slots of the node."""

    pattern: str
    clause: int
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SharedPlanNode:
    """A node that stands for more than one node of single plans.

    Attributes
    ----------
    uses
        What it stands for, at least two.
    window
        The largest window of those that use it.
    ln_cost
        Natural logarithm of what it costs.
    ln_apart
        Natural logarithm of what the nodes that it stands for would cost, each with its own window.
    """

    uses: tuple[NodeUse, ...]
    window: str
    ln_cost: float
    ln_apart: float

    def __post_init__(self) -> None:
        if len(self.uses) < 2 or len({len(use.variables) for use in self.uses}) > 1:
            raise ValueError(f"a shared node has several uses with as many variables each, not {self.uses}")
        _check_costs(self.ln_cost, self.ln_apart)


@dataclass(frozen=True)
class WorkloadPlan:
    """The shared part of a plan of many patterns.

    Attributes
    ----------
    search
        How it was found.
    unit
        Of its costs.
    ln_cost
        Natural logarithm of the cost of all patterns, shared nodes counted once (MCEP [0085], [0171]).
    ln_apart
        Natural logarithm of what the same orders or trees cost without sharing.
    nodes, nodes_apart
        The number of nodes, and of those without sharing.
    shared
        The nodes that are shared, those that save most first.
    """

    search: WorkloadSearch
    unit: str
    ln_cost: float
    ln_apart: float
    nodes: int
    nodes_apart: int
    shared: tuple[SharedPlanNode, ...] = ()

    def __post_init__(self) -> None:
        _check_costs(self.ln_cost, self.ln_apart)
        if not len(self.shared) <= self.nodes <= self.nodes_apart:
            raise ValueError(f"{self.nodes} nodes for {self.nodes_apart}, {len(self.shared)} of them shared")

    @cached_property
    def patterns(self) -> frozenset[str]:
        """The names of the patterns that share nodes."""
        return frozenset(use.pattern for work in self.shared for use in work.uses)


def _check_costs(*logarithms: float) -> None:
    if not all(map(math.isfinite, logarithms)):
        raise ValueError("costs are finite logarithms")


def workload_to_json(workload: WorkloadPlan) -> dict[str, Any]:
    """A workload plan as JSON values."""
    return asdict(workload) | {
        "shared": [
            asdict(work) | {"uses": [[use.pattern, use.clause, list(use.variables)] for use in work.uses]}
            for work in workload.shared
        ]
    }


def workload_from_json(content: Mapping[str, Any]) -> WorkloadPlan:
    """Read what `workload_to_json` wrote; KeyError, TypeError or ValueError where it is none."""
    shared = tuple(
        SharedPlanNode(
            **{
                **work,
                "uses": tuple(NodeUse(pattern, clause, tuple(names)) for pattern, clause, names in work["uses"]),
            }
        )
        for work in content["shared"]
    )
    return WorkloadPlan(**{**content, "search": WorkloadSearch(**content["search"]), "shared": shared})
