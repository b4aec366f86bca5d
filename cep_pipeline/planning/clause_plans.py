"""The parts of a plan: `ClausePlan`, how one clause is run by an order or a tree, and `PatternPlan`, one a pattern."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from cep_pipeline.planning.clause_statistics import ln_difference, ln_sum
from cep_pipeline.planning.orderings import DecidingComparison
from cep_pipeline.planning.trees import Join, OrderOrTree, nodes_of, shape_of
from cep_pipeline.statistics.snapshot import Selectivity


@dataclass(frozen=True, slots=True)
class TestedCondition(Selectivity):
    """The selectivity of a condition of the pattern at the step or node that binds the last of its variables.

    `agreement`: it is that all events agree on an attribute, which mechanisms look up rather than test. `correction`:
    it is several conditions together, which depend on each other; what the product of their selectivities is multiplied
    by for that. None: it is one condition. `kind`: that of its test, if it is dear (`costs.DEAR`).
    """

    text: str = ""
    agreement: bool = False
    correction: float | None = None
    kind: str = "number"

    @classmethod
    def of(cls, share: Selectivity, text: str, **more: Any) -> TestedCondition:
        """A condition, written as a text, with its selectivity."""
        return cls(**{one.name: getattr(share, one.name) for one in fields(Selectivity)}, text=text, **more)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core.core_schema import wrap_serializer_function_ser_schema

        def write(condition: TestedCondition, form: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
            content = form(condition)
            return content if condition.kind != "number" else {one: content[one] for one in content if one != "kind"}

        form = handler(source)
        return {**form, "serialization": wrap_serializer_function_ser_schema(write, schema=form)}

    def __post_init__(self) -> None:
        Selectivity.__post_init__(self)
        if self.correction is not None and not 0 <= self.correction < math.inf:
            raise ValueError(f"{self.text!r}: a correction is finite and not negative, unlike {self.correction}")


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of an order, or one leaf of a tree: it binds one variable.

    Attributes
    ----------
    variable, leaf
        What it binds, and the key of the leaf that its events come from.
    rate_per_s, count
        Arrival rate of the leaf, and the number of events that it rests on (None: given).
    ln_instances
        Natural logarithm of the expected instances of the variable in one window.
    order_share
        Share of the combinations with the earlier variables that are in the clause's temporal order; of a leaf 1.
    conditions
        The conditions that can be tested from this step on; of a leaf those over its variable alone.
    ln_partial_matches
        Natural logarithm of the expected partial matches alive in a window after this step.
    ln_made
        Natural logarithm of the partial matches that are expected to be made while the time of one window passes.
    """

    variable: str
    leaf: str
    rate_per_s: float
    count: int | None
    ln_instances: float
    order_share: float
    conditions: tuple[TestedCondition, ...]
    ln_partial_matches: float
    ln_made: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.ln_instances):
            raise ValueError(f"step {self.variable!r}: expected numbers are finite logarithms")
        if not 0 <= self.rate_per_s < math.inf:
            raise ValueError(f"step {self.variable!r}: a rate is finite and not negative, unlike {self.rate_per_s}")
        _check_expected(f"step {self.variable!r}", self)


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One join of a tree.

    Attributes
    ----------
    variables
        Those below it, from left to right.
    order_share
        Share of the combinations of both sides that are in the clause's temporal order.
    conditions
        The conditions that can be tested from this node on.
    ln_partial_matches, ln_made
        As in `PlanStep`.
    """

    variables: tuple[str, ...]
    order_share: float
    conditions: tuple[TestedCondition, ...]
    ln_partial_matches: float
    ln_made: float

    def __post_init__(self) -> None:
        _check_expected(f"join of {', '.join(self.variables)}", self)


def _check_expected(what: str, expected: PlanStep | PlanNode) -> None:
    if not (math.isfinite(expected.ln_partial_matches) and math.isfinite(expected.ln_made)):
        raise ValueError(f"{what}: expected numbers are finite logarithms")
    if not 0 < expected.order_share <= 1 + 1e-9:
        raise ValueError(f"{what}: the share in order is {expected.order_share}, not in (0, 1]")


@dataclass(frozen=True, slots=True)
class PlacedNegation:
    """The point at which a negated variable is asked for: the earliest one possible (JQPG section 5.3).

    A negated composite or list is asked of each finished match. That costs the same by each order and tree, so no cost
    has it.

    Attributes
    ----------
    variable, leaf, rate_per_s
        The negated variable, the leaf that its events come from, and its arrival rate. Of a composite or list: how it
        is written, its leaves, and the sum of their rates.
    between
        What has to be known of the positive variables: those next before it and next behind it, or at the edges of the
        window where none is.
    compared
        The positive variables that its conditions compare it with, or that may bind the same event.
    asked_with
        The variables bound at the step or node where it is asked.
    """

    variable: str
    leaf: str
    rate_per_s: float
    between: tuple[str, ...]
    compared: tuple[str, ...]
    asked_with: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.rate_per_s < math.inf:
            raise ValueError(f"~{self.variable}: a rate is finite and not negative, unlike {self.rate_per_s}")
        if not {*self.between, *self.compared} <= set(self.asked_with):
            raise ValueError(
                f"~{self.variable} is asked with {self.asked_with}, before all that it depends on is bound"
            )


ON_KERNEL = "kernel"
"""The name of the planner of an order that the columnar kernel runs because a shared plan takes more time on it."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another order or tree that was considered: whose it is and what it would cost (natural logarithm)."""

    planner: str
    order: tuple[str, ...]
    ln_cost: float
    tree: Join | None = None

    @property
    def order_or_tree(self) -> OrderOrTree:
        """The tree where it is one, or else the order."""
        return self.order if self.tree is None else self.tree


@dataclass(frozen=True)
class ClausePlan:
    """The plan of one clause: its positive variables are bound in an order, or by a tree.

    Attributes
    ----------
    clause
        Index of the clause in the pattern's normal form.
    steps
        One for each positive variable: in the order of the plan, or the leaves of the tree from left to right.
    ln_cost
        Natural logarithm of the cost.
    alternatives
        Other planners' orders and trees, cheapest first.
    comparisons
        The planner's comparisons; positions refer to the clause's positive variables in pattern order.
    note
        What a person should know of how the plan was found, or empty.
    tree
        The tree whose inner nodes join them; None: the order.
    nodes
        One for each join of the tree, those below before those above; none for an order, nor for a tree of which
        nothing is expected because nobody planned it.
    negations
        Where negated variables are asked.
    ln_waiting
        Natural logarithm of the share of the cost that is latency, weighed; None where there is none.
    order
        The positive variables in the order in which they are bound, or in that of the tree's leaves: those of the
        steps. () stands for them.
    """

    clause: int
    steps: tuple[PlanStep, ...]
    ln_cost: float
    alternatives: tuple[Alternative, ...] = ()
    comparisons: tuple[DecidingComparison, ...] = ()
    note: str = ""
    tree: Join | None = None
    nodes: tuple[PlanNode, ...] = ()
    negations: tuple[PlacedNegation, ...] = ()
    ln_waiting: float | None = None
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError("a clause has at least one positive variable")
        bound = tuple(step.variable for step in self.steps)
        if self.order not in ((), bound):
            raise ValueError(f"the steps bind {', '.join(bound)}, the order is {', '.join(self.order)}")
        object.__setattr__(self, "order", bound)
        if len(set(self.order)) != len(self.order):
            raise ValueError(f"the order {', '.join(self.order)} binds a variable twice")
        if not math.isfinite(self.ln_cost) or not math.isfinite(self.ln_waiting or 0.0):
            raise ValueError("a cost is a finite logarithm")
        if self.tree is not None and sorted(self.tree.leaves) != sorted(self.order):
            raise ValueError(
                f"the tree {self.tree} binds {', '.join(self.tree.leaves)}, the steps {', '.join(self.order)}: "
                "a tree has each positive variable once"
            )
        joins = [] if self.tree is None else [node.leaves for node in nodes_of(self.tree) if isinstance(node, Join)]
        if self.nodes and [node.variables for node in self.nodes] != joins:
            raise ValueError("a plan has one node for each join of its tree, those below before those above")

    def __repr__(self) -> str:
        return f"<ClausePlan {self.clause}: {' '.join(self.order) if self.tree is None else self.tree}>"

    @property
    def order_or_tree(self) -> OrderOrTree:
        """The tree where there is one, or else the order: a mechanism runs it."""
        return self.order if self.tree is None else self.tree

    @property
    def kernel_orders(self) -> tuple[Alternative, ...]:
        """The order of its own that a columnar mechanism runs, where the plan is shared."""
        return tuple(other for other in self.alternatives if other.planner == ON_KERNEL)

    @cached_property
    def on_kernel(self) -> OrderOrTree:
        """The order or tree that a columnar mechanism runs."""
        return self.kernel_orders[0].order if self.kernel_orders else self.order_or_tree

    @property
    def expected(self) -> dict[tuple[str, ...], PlanStep | PlanNode]:
        """The expected numbers of each step, leaf or join, by its variables in plan order."""
        if self.tree is None:
            return {self.order[: place + 1]: step for place, step in enumerate(self.steps)}
        if not self.nodes:
            return {}
        return {(step.variable,): step for step in self.steps} | {node.variables: node for node in self.nodes}

    @property
    def runner_up(self) -> Alternative | None:
        """The cheapest other order, or tree, of those considered; None where there is only one."""
        return next((other for other in self.alternatives if self._rivals(other)), None)

    def _rivals(self, other: Alternative) -> bool:
        if other.planner == ON_KERNEL:
            return False
        same_kind = (other.tree is None) == (self.tree is None)
        return same_kind and shape_of(other.order_or_tree) != shape_of(self.order_or_tree)


@dataclass(frozen=True)
class PatternPlan:
    """The plans of a pattern's clauses.

    Attributes
    ----------
    pattern, window, strategy
        The pattern's name, and its window and selection strategy for people.
    clauses
        One a clause, in the order of the clauses.
    planner, cost_model, unit
        How they were made, and the unit of all costs in it.
    events_in_window
        The number of the stream's events that come while the time of one window passes; None where it is not known.
    """

    pattern: str
    window: str
    strategy: str
    clauses: tuple[ClausePlan, ...]
    planner: str
    cost_model: str
    unit: str
    events_in_window: float | None = None

    def __post_init__(self) -> None:
        if [plan.clause for plan in self.clauses] != list(range(len(self.clauses))):
            raise ValueError(f"pattern {self.pattern!r}: there is one plan a clause, in the order of the clauses")
        if self.events_in_window is not None and not 0 < self.events_in_window < math.inf:
            raise ValueError(f"pattern {self.pattern!r}: {self.events_in_window} events come in a window")

    def __repr__(self) -> str:
        orders = (" ".join(one.order) if one.tree is None else str(one.tree) for one in self.clauses)
        return f"<PatternPlan {self.pattern} by {self.planner}: {'; '.join(orders)}>"

    @property
    def ln_cost(self) -> float:
        """Natural logarithm of the cost of all clauses: their sum, but of their latencies the largest (JQPG 6.1)."""
        return ln_cost_of_clauses((plan.ln_cost, plan.ln_waiting) for plan in self.clauses)


def ln_cost_of_clauses(costs: Iterable[tuple[float, float | None]]) -> float:
    """ln of the cost of several clauses, each given by that of all of it and of its latency (None: there is none)."""
    pairs = tuple(costs)
    waiting = [ln_waiting for _, ln_waiting in pairs if ln_waiting is not None]
    working = [ln_cost if ln_waiting is None else ln_difference(ln_cost, ln_waiting) for ln_cost, ln_waiting in pairs]
    return ln_sum([*working, *([max(waiting)] if waiting else [])])


@dataclass(frozen=True)
class StatisticsSummary:
    """The snapshot that a plan was made from: its digest, and how people know it."""

    digest: str
    stream: str
    events: int
    start_us: int | None
    end_us: int | None


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


class NodeUse(NamedTuple):
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
        # A part of a plan may test the order of a conjunction that it shares with patterns outside: one node more.
        if len(self.shared) > self.nodes:
            raise ValueError(f"{self.nodes} nodes for {self.nodes_apart}, {len(self.shared)} of them shared")

    @cached_property
    def patterns(self) -> frozenset[str]:
        """The names of the patterns that share nodes."""
        return frozenset(use.pattern for work in self.shared for use in work.uses)


def _check_costs(*logarithms: float) -> None:
    if not all(map(math.isfinite, logarithms)):
        raise ValueError("costs are finite logarithms")
