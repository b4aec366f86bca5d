"""`Plan`: how each clause of each pattern is run, with the numbers it was chosen by."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cep_pipeline.errors import PlanError
from cep_pipeline.foreign_text import html_table, listed
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import (
    SHARINGS,
    ClausePlan,
    PatternPlan,
    Sharing,
    StatisticsSummary,
    WorkloadPlan,
)
from cep_pipeline.planning.clause_statistics import from_ln, ln_sum
from cep_pipeline.planning.trees import positions_of, written
from cep_pipeline.storage import digest_of

VERSION = 3
"""Version of the JSON form. Plans of version 1 knew neither nodes of trees nor cost models by pattern, those of version
2 nothing that patterns share."""


def _named(patterns: Sequence[str]) -> str:
    """Name up to four patterns, and count those after them."""
    shown = ", ".join(patterns[:4])
    more = f" and {len(patterns) - 4:,} more" if len(patterns) > 4 else ""
    return f"{len(patterns):,} pattern{'' if len(patterns) == 1 else 's'}: {shown}{more}"


@dataclass(frozen=True)
class Plan:
    """The plan of a set of patterns: the order or tree by which each clause is run.

    Attributes
    ----------
    alpha
        What latency weighed against the cost of the work.
    statistics
        The snapshot that it was made from.
    patterns
        In the order of the patterns.
    sharing
        What the orders or trees of all clauses share (MCEP [0076], [0121]): nothing, equal beginnings of orders, or
        equal subtrees. `planning.multi_pattern.share` merges them.
    workload
        Where it was planned for all patterns at once, how, and what they share.
    """

    alpha: float
    statistics: StatisticsSummary
    patterns: tuple[PatternPlan, ...] = field(default=())
    sharing: Sharing = "none"
    workload: WorkloadPlan | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha weighs latency: it is finite and not negative, not {self.alpha}")
        if len(self._by_name) != len(self.patterns):
            raise ValueError("a plan has one entry a pattern")
        if self.sharing not in SHARINGS:
            raise ValueError(f"there is no sharing {self.sharing!r}; there are: {', '.join(SHARINGS)}")
        if self.sharing == "prefix" and any(plan.tree is not None for one in self.patterns for plan in one.clauses):
            raise ValueError("beginnings of orders are shared, not trees")
        if self.workload is not None and not self._by_name.keys() >= self.workload.patterns:
            raise ValueError("patterns share nodes that the plan does not have; take part of a plan by `part`")
        if self.sharing == "none" and self.workload is not None and self.workload.shared:
            raise ValueError("a plan that shares nothing has shared nodes")

    def __repr__(self) -> str:
        return f"<Plan {self.plan_id[:8]} by {self.planner}, {_named([one.pattern for one in self.patterns])}>"

    def _repr_html_(self) -> str:
        rows = (
            (
                one.pattern,
                one.planner,
                "; ".join(written(clause.order_or_tree) for clause in one.clauses),
                f"{from_ln(one.ln_cost):.3g}",
            )
            for one in self.patterns
        )
        return html_table(("pattern", "planner", "orders or trees", "cost"), rows, f"Plan {self.plan_id[:8]}")

    @property
    def planner(self) -> str:
        """The planners of its patterns, by name."""
        return ", ".join(dict.fromkeys(plan.planner for plan in self.patterns))

    @property
    def cost_model(self) -> str:
        """The cost models of its patterns, by name."""
        return ", ".join(dict.fromkeys(plan.cost_model for plan in self.patterns))

    @property
    def unit(self) -> str:
        """The units of its patterns' costs."""
        return "; ".join(dict.fromkeys(plan.unit for plan in self.patterns))

    @cached_property
    def _by_name(self) -> dict[str, PatternPlan]:
        return {plan.pattern: plan for plan in self.patterns}

    @property
    def ln_cost(self) -> float:
        """Natural logarithm of the cost of all patterns together; what they share counts once."""
        if self.workload is not None:
            return self.workload.ln_cost
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
            known = listed(self._by_name) or "none"
            raise PlanError(
                f"the plan {self.plan_id} has no pattern {name!r}; it has: {known}; plan these patterns again"
            )
        return self._by_name[name]

    def part(self, names: Iterable[str]) -> Plan:
        """The plan of some of its patterns, which share by the same rule; what all of them share is not said there.

        Raises
        ------
        PlanError
            As `for_pattern`.
        """
        return replace(self, patterns=tuple(map(self.for_pattern, names)), workload=None)

    @cached_property
    def plan_id(self) -> str:
        """32 hexadecimal digits that change with anything in the plan."""
        return str(self.to_json()["plan_id"])

    def explain(
        self,
        mechanism: str | Mapping[str, str] | None = None,
        patterns: Collection[str] | None = None,
    ) -> str:
        """The plan as text for people.

        Parameters
        ----------
        mechanism
            The mechanism that will run it, or for each pattern by name, and why it does where that is known.
        patterns
            The names of those that are explained; None: all, of more than 20 what they do together, and a list.

        Raises
        ------
        InputError
            The plan has no pattern of one of these names.
        """
        from cep_pipeline.planning.explain import explain_plan

        return explain_plan(self, mechanism, patterns)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values, with its version and id."""
        from cep_pipeline.documents import in_json

        content = in_json(self)
        # A plan of a thousand patterns is written once for both, unless its id is known already.
        plan_id = self.__dict__.get("plan_id") or digest_of(content)
        return {"version": VERSION, "plan_id": plan_id, **content}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "plan") -> Plan:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            `content` is of another version, or no plan; `source` names it in the message.
        """
        from cep_pipeline.documents import check_version, read_as, reading

        check_version(content, VERSION, "plan", source)
        own = {name: value for name, value in content.items() if name not in ("version", "plan_id")}
        told = "no plan", source, "make the plan again"
        plan: Plan = read_as(cls, own, *told)
        with reading(*told):
            for clause in (clause for one in plan.patterns for clause in one.clauses):
                _check_comparisons(clause)
        return plan


def _check_comparisons(plan: ClausePlan) -> None:
    """Refuse comparisons that are of no variables of a clause: ValueError."""
    places = range(len(plan.steps))
    for one in plan.comparisons:
        sides = [positions_of(side) for side in (one.chosen, one.rejected)]
        fit = all(len(side) == len({*side}.intersection(places)) == len(sides[0]) > 0 for side in sides)
        if one.step not in places or not fit:
            raise ValueError(f"a comparison of step {one.step} binds {sides} of {len(places)} variables")


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
            variables = tuple(variable.name for variable in clause.positive)
            # The tree of a clause plan has the variables of its steps.
            if clause_plan.order != variables and sorted(clause_plan.order) != sorted(variables):
                raise PlanError(
                    f"clause {clause.index} of pattern {pattern.name!r} binds {', '.join(variables)}, the plan "
                    f"{plan.plan_id} orders {', '.join(clause_plan.order)}: an order or a tree has each positive "
                    "variable once; plan the pattern again"
                )
