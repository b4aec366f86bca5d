"""`Plan`: how each clause of each pattern is run, with the numbers it was chosen by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.logarithms import from_ln, ln_sum
from cep_pipeline.planning.ordering import DecidingComparison, comparison_from_json, comparison_to_json
from cep_pipeline.planning.trees import Join, OrderOrTree, tree_from_json, tree_to_json
from cep_pipeline.statistics.snapshot import Selectivity, Source, check_version, digest_of

VERSION = 1
"""Version of the JSON form."""


@dataclass(frozen=True, slots=True)
class StepCondition:
    """A condition of the pattern at the step that binds the last of its variables."""

    text: str
    selectivity: Selectivity


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of an order: it binds one variable.

    Attributes
    ----------
    variable, leaf
        What it binds, and the key of the leaf that its events come from.
    rate_per_s, count
        Arrival rate of the leaf, and the number of events that it rests on (None: given).
    ln_instances
        Natural logarithm of the expected instances of the variable in one window.
    order_share
        Share of the combinations with the earlier variables that are in the clause's temporal order.
    conditions
        The conditions that can be tested from this step on.
    ln_partial_matches
        Natural logarithm of the expected partial matches alive in a window after this step.
    """

    variable: str
    leaf: str
    rate_per_s: float
    count: int | None
    ln_instances: float
    order_share: float
    conditions: tuple[StepCondition, ...]
    ln_partial_matches: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ln_instances) and math.isfinite(self.ln_partial_matches)):
            raise ValueError(f"step {self.variable!r}: expected numbers are finite logarithms")
        if not 0 < self.order_share <= 1 + 1e-9:
            raise ValueError(f"step {self.variable!r}: the share in order is {self.order_share}, not in (0, 1]")


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another order that was considered: whose it is and what it would cost (natural logarithm)."""

    planner: str
    order: tuple[str, ...]
    ln_cost: float


@dataclass(frozen=True)
class ClausePlan:
    """How one clause's positive variables are bound: in an order, or by a tree.

    Attributes
    ----------
    clause
        Index of the clause in the pattern's normal form.
    steps
        One for each positive variable, in the order of the plan.
    ln_cost
        Natural logarithm of the cost of the order.
    alternatives
        Other planners' orders, cheapest first.
    comparisons
        The planner's comparisons; positions refer to the clause's positive variables in pattern order.
    note
        What a person should know of how the order was found, or empty.
    tree
        The tree whose inner nodes join them; None: the order, which is a left-deep tree.
    """

    clause: int
    steps: tuple[PlanStep, ...]
    ln_cost: float
    alternatives: tuple[Alternative, ...] = ()
    comparisons: tuple[DecidingComparison, ...] = ()
    note: str = ""
    tree: Join | None = None

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError("a clause has at least one positive variable")
        if len(set(self.order)) != len(self.order):
            raise ValueError(f"the order {', '.join(self.order)} binds a variable twice")
        if not math.isfinite(self.ln_cost):
            raise ValueError("a cost is a finite logarithm")
        if self.tree is not None and sorted(self.tree.leaves) != sorted(self.order):
            raise ValueError(
                f"the tree {self.tree} binds {', '.join(self.tree.leaves)}, the steps {', '.join(self.order)}: "
                "a tree has each positive variable once"
            )

    @property
    def order_or_tree(self) -> OrderOrTree:
        """What a mechanism runs: the tree where there is one, or else the order."""
        return self.order if self.tree is None else self.tree

    @property
    def order(self) -> tuple[str, ...]:
        """The positive variables in the order in which they are bound."""
        return tuple(step.variable for step in self.steps)

    @property
    def runner_up(self) -> Alternative | None:
        """The cheapest other order that was considered; None where there is only one order."""
        return next((other for other in self.alternatives if other.order != self.order), None)


@dataclass(frozen=True)
class PatternPlan:
    """The plans of a pattern's clauses; `window` and `strategy` are the pattern's, for people."""

    pattern: str
    window: str
    strategy: str
    clauses: tuple[ClausePlan, ...]

    def __post_init__(self) -> None:
        if [plan.clause for plan in self.clauses] != list(range(len(self.clauses))):
            raise ValueError(f"pattern {self.pattern!r}: there is one plan a clause, in the order of the clauses")

    @property
    def ln_cost(self) -> float:
        """Natural logarithm of the cost of all clauses together."""
        return ln_sum(plan.ln_cost for plan in self.clauses)


@dataclass(frozen=True)
class StatisticsSummary:
    """Which snapshot a plan was made from: its digest, and what people know it by."""

    digest: str
    stream: str
    events: int
    start_us: int | None
    end_us: int | None


@dataclass(frozen=True)
class Plan:
    """How a set of patterns is run.

    Attributes
    ----------
    planner, cost_model, unit, alpha
        How it was made, and the unit of all costs in it.
    statistics
        The snapshot that it was made from.
    patterns
        In the order of the patterns.
    """

    planner: str
    cost_model: str
    unit: str
    alpha: float
    statistics: StatisticsSummary
    patterns: tuple[PatternPlan, ...] = field(default=())

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha weighs two costs and lies in [0, 1], not {self.alpha}")
        if len(self._by_name) != len(self.patterns):
            raise ValueError("a plan has one entry a pattern")

    @cached_property
    def _by_name(self) -> dict[str, PatternPlan]:
        return {plan.pattern: plan for plan in self.patterns}

    @property
    def ln_cost(self) -> float:
        """Natural logarithm of the cost of all patterns together."""
        return ln_sum(plan.ln_cost for plan in self.patterns)

    @property
    def cost(self) -> float:
        """The cost of all patterns together; infinity where it exceeds a float."""
        return from_ln(self.ln_cost)

    def for_pattern(self, name: str) -> PatternPlan:
        """The plan of one pattern.

        Raises
        ------
        PlanError
            The plan was not made for it.
        """
        if name not in self._by_name:
            known = ", ".join(self._by_name) or "none"
            raise PlanError(
                f"the plan {self.plan_id} has no pattern {name!r}; it has: {known}; plan these patterns again"
            )
        return self._by_name[name]

    @cached_property
    def plan_id(self) -> str:
        """32 hexadecimal digits that change with anything in the plan."""
        return digest_of(self._content())

    def explain(self, mechanism: str | Mapping[str, str] | None = None) -> str:
        """The plan as text for people.

        Parameters
        ----------
        mechanism
            The mechanism that will run it, or for each pattern by name, and why it does where that is known.
        """
        from cep_pipeline.planning.explain import explain_plan

        return explain_plan(self, mechanism)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values, with its version and id."""
        return {"version": VERSION, "plan_id": self.plan_id, **self._content()}

    def _content(self) -> dict[str, Any]:
        return {
            "planner": self.planner,
            "cost_model": self.cost_model,
            "unit": self.unit,
            "alpha": self.alpha,
            "statistics": asdict(self.statistics),
            "patterns": [
                {
                    "pattern": plan.pattern,
                    "window": plan.window,
                    "strategy": plan.strategy,
                    "clauses": [_clause_to_json(clause) for clause in plan.clauses],
                }
                for plan in self.patterns
            ],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "plan") -> Plan:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            `content` is of another version, or no plan; `source` names it in the message.
        """
        check_version(content, VERSION, "plan", source)
        try:
            return cls(
                planner=content["planner"],
                cost_model=content["cost_model"],
                unit=content["unit"],
                alpha=content["alpha"],
                statistics=StatisticsSummary(**content["statistics"]),
                patterns=tuple(
                    PatternPlan(
                        plan["pattern"],
                        plan["window"],
                        plan["strategy"],
                        tuple(_clause_from_json(clause) for clause in plan["clauses"]),
                    )
                    for plan in content["patterns"]
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{source}: no plan: {error!r}; make the plan again") from error


def validate(plan: Plan, patterns: Iterable[Pattern]) -> None:
    """Check that a plan can run these patterns.

    Raises
    ------
    PlanError
        A pattern is not in the plan, or has other clauses or variables than the plan was made for.
    """
    for pattern in patterns:
        pattern_plan = plan.for_pattern(pattern.name)
        if len(pattern_plan.clauses) != len(pattern.clauses):
            raise PlanError(
                f"pattern {pattern.name!r} has {len(pattern.clauses)} clauses, the plan {plan.plan_id} has "
                f"{len(pattern_plan.clauses)}: the plan was made for another pattern of this name; plan it again"
            )
        for clause, clause_plan in zip(pattern.clauses, pattern_plan.clauses, strict=True):
            variables = [variable.name for variable in clause.positive]
            # The tree of a clause plan has the variables of its steps.
            if sorted(clause_plan.order) != sorted(variables):
                raise PlanError(
                    f"clause {clause.index} of pattern {pattern.name!r} binds {', '.join(variables)}, the plan "
                    f"{plan.plan_id} orders {', '.join(clause_plan.order)}: an order or a tree has each positive "
                    "variable once; plan the pattern again"
                )


def _clause_to_json(plan: ClausePlan) -> dict[str, Any]:
    content = {
        "clause": plan.clause,
        "order": list(plan.order),
        "ln_cost": plan.ln_cost,
        "steps": [
            {
                "variable": step.variable,
                "leaf": step.leaf,
                "rate_per_s": step.rate_per_s,
                "count": step.count,
                "ln_instances": step.ln_instances,
                "order_share": step.order_share,
                "conditions": [
                    {"text": condition.text, **asdict(condition.selectivity)}
                    | {"source": condition.selectivity.source.value}
                    for condition in step.conditions
                ],
                "ln_partial_matches": step.ln_partial_matches,
            }
            for step in plan.steps
        ],
        "alternatives": [asdict(other) | {"order": list(other.order)} for other in plan.alternatives],
        "comparisons": [comparison_to_json(comparison) for comparison in plan.comparisons],
        "note": plan.note,
    }
    # A plan without a tree is written as it was before there were any, so that it keeps its id.
    return content if plan.tree is None else {**content, "tree": tree_to_json(plan.tree)}


def _clause_from_json(content: Mapping[str, Any]) -> ClausePlan:
    tree = tree_from_json(content["tree"]) if content.get("tree") is not None else None
    if isinstance(tree, str):
        raise ValueError(f"the tree {tree!r} joins nothing: a clause of one variable has an order only")
    plan = ClausePlan(
        clause=content["clause"],
        steps=tuple(
            PlanStep(**{**step, "conditions": tuple(_condition_from_json(c) for c in step["conditions"])})
            for step in content["steps"]
        ),
        ln_cost=content["ln_cost"],
        alternatives=tuple(Alternative(**{**a, "order": tuple(a["order"])}) for a in content["alternatives"]),
        comparisons=tuple(comparison_from_json(comparison) for comparison in content["comparisons"]),
        note=content["note"],
        tree=tree,
    )
    if list(plan.order) != content["order"]:
        raise ValueError(f"the steps bind {', '.join(plan.order)}, the order is {', '.join(content['order'])}")
    return plan


def _condition_from_json(content: Mapping[str, Any]) -> StepCondition:
    numbers = {key: value for key, value in content.items() if key != "text"}
    return StepCondition(content["text"], Selectivity(**{**numbers, "source": Source(content["source"])}))
