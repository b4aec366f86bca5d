"""`Plan`: how each clause of each pattern is run, with the numbers it was chosen by.

The JSON form of plans: a part is an object of its fields; a few parts are written otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache, cached_property
from types import UnionType
from typing import Any, NotRequired, TypeVar, Union, get_args, get_origin, get_type_hints

from cep_pipeline.errors import PlanError
from cep_pipeline.foreign_text import html_table, listed
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import (
    SHARINGS,
    ClausePlan,
    NodeUse,
    PatternPlan,
    Sharing,
    StatisticsSummary,
    TestedCondition,
    WorkloadPlan,
)
from cep_pipeline.planning.clause_statistics import from_ln, ln_sum
from cep_pipeline.planning.orderings import (
    DecidingComparison,
    positions_of,
)
from cep_pipeline.planning.trees import Join, tree_from_json, tree_to_json, written
from cep_pipeline.statistics.snapshot import Selectivity, Source
from cep_pipeline.statistics.versioned import check_version
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
        return digest_of(self._content())

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
        content = self._content()
        # A plan of a thousand patterns is written once for both, unless its id is known already.
        plan_id = self.__dict__.get("plan_id") or digest_of(content)
        return {"version": VERSION, "plan_id": plan_id, **content}

    def _content(self) -> dict[str, Any]:
        return {name: part_to_json(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "plan") -> Plan:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            `content` is of another version, or no plan; `source` names it in the message.
        """
        from cep_pipeline.documents import reading_form

        check_version(content, VERSION, "plan", source)
        with reading_form(_form(), content, "no plan", source, "make the plan again"):
            return part_from_json(cls, {name: content[name] for name in cls.__dataclass_fields__})


@cache
def _form() -> Any:
    """The JSON form of a plan."""
    from cep_pipeline.documents import form_of

    return form_of(Plan, {"version": int, "plan_id": str}, forms_of_parts())


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


Part = TypeVar("Part")


def part_to_json(part: Any) -> Any:
    """A part of a plan as JSON values."""
    kind = type(part)
    if kind in _WRITERS:
        return _WRITERS[kind](part)
    if kind is tuple:
        return [part_to_json(one) for one in part]
    return _fields_of(part) if is_dataclass(part) else part


def part_from_json(kind: type[Part], content: Any) -> Part:
    """Read what `part_to_json` wrote, of the form of `forms_of_parts`; ValueError where it fits no plan."""
    found: Part = _reader(kind)(content)  # type: ignore[arg-type]
    return found


def _fields_of(part: Any) -> dict[str, Any]:
    return {name: part_to_json(getattr(part, name)) for name in part.__dataclass_fields__}


def _condition_to_json(condition: TestedCondition) -> dict[str, Any]:
    content = _fields_of(condition)
    content |= content.pop("selectivity")
    if condition.kind == "number":
        del content["kind"]
    return content


_WRITERS: dict[type, Callable[[Any], Any]] = {
    ClausePlan: lambda plan: {"order": list(plan.order), **_fields_of(plan)},
    Join: tree_to_json,
    NodeUse: lambda use: [use.pattern, use.clause, list(use.variables)],
    Source: lambda source: source.value,
    TestedCondition: _condition_to_json,
}


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """What reads JSON values as a type."""
    if kind in _READERS:
        return _READERS[kind]
    if get_origin(kind) is tuple:
        of_each = _reader(get_args(kind)[0])
        return lambda content: tuple(map(of_each, content))
    if get_origin(kind) in (Union, UnionType):
        of_value = _reader(get_args(kind)[0])
        return lambda content: None if content is None else of_value(content)
    return _object_reader(kind) if is_dataclass(kind) else lambda content: content  # type: ignore[arg-type]


@cache
def _object_reader(kind: Any) -> Callable[[Any], Any]:
    readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
    return lambda content: kind(**{name: readers[name](value) for name, value in content.items()})


def _clause_from_json(content: Mapping[str, Any]) -> ClausePlan:
    plan: ClausePlan = _object_reader(ClausePlan)({name: one for name, one in content.items() if name != "order"})
    if list(plan.order) != list(content["order"]):
        raise ValueError(f"the steps bind {', '.join(plan.order)}, the order is {', '.join(content['order'])}")
    places = range(len(plan.steps))
    for one in plan.comparisons:
        sides = [positions_of(side) for side in (one.chosen, one.rejected)]
        fit = all(len(side) == len({*side}.intersection(places)) == len(sides[0]) for side in sides)
        if one.step not in places or not fit:
            raise ValueError(f"a comparison of step {one.step} binds {sides} of {len(places)} variables")
    return plan


def _condition_from_json(content: Mapping[str, Any]) -> TestedCondition:
    own = {name: content[name] for name in ("text", "agreement", "correction", "kind") if name in content}
    numbers = {name: value for name, value in content.items() if name not in own}
    return TestedCondition(selectivity=Selectivity(**{**numbers, "source": Source(content["source"])}), **own)


def _comparison_from_json(content: Mapping[str, Any]) -> DecidingComparison:
    chosen, rejected = (_tuples(content[side]) for side in ("chosen", "rejected"))
    return DecidingComparison(**{**content, "chosen": chosen, "rejected": rejected})


def _tuples(side: Any) -> Any:
    return side if isinstance(side, int) else tuple(map(_tuples, side))


def _join_from_json(content: Any) -> Join:
    tree = tree_from_json(content)
    if isinstance(tree, str):
        raise ValueError(f"the tree {tree!r} joins nothing: a clause of one variable has an order only")
    return tree


_READERS: dict[Any, Callable[[Any], Any]] = {
    ClausePlan: _clause_from_json,
    DecidingComparison: _comparison_from_json,
    Join: _join_from_json,
    NodeUse: lambda use: NodeUse(use[0], use[1], tuple(use[2])),
    TestedCondition: _condition_from_json,
}


def forms_of_parts() -> dict[Any, Any]:
    """The JSON forms of the parts of a plan that are not written as an object with their fields."""
    from cep_pipeline.documents import form_of, nested

    tree = nested(str, MOST_DEPTH)
    forms: dict[Any, Any] = {
        Join: tree,
        NodeUse: tuple[form_of(str), form_of(int), list[form_of(str)]],  # type: ignore[misc]
        TestedCondition: form_of(
            Selectivity,
            {"text": str, "agreement": bool, "correction": float | None, "kind": NotRequired[str]},
        ),
    }
    side = nested(int, MOST_DEPTH)
    forms[DecidingComparison] = form_of(DecidingComparison, {"chosen": side, "rejected": side})
    forms[ClausePlan] = form_of(ClausePlan, {"order": tuple[str, ...]}, forms)
    return forms


MOST_DEPTH = 256
"""Joins of a tree below each other, at most, in a plan that is read."""
