"""The JSON form of plans: a part is an object of its fields; a few parts are written otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, lru_cache
from types import UnionType
from typing import Any, NotRequired, TypeVar, Union, get_args, get_origin, get_type_hints

from cep_pipeline.planning.clause_plans import ClausePlan, NodeUse, TestedCondition, WorkloadSearch
from cep_pipeline.planning.orderings import (
    DecidingComparison,
    Side,
    comparison_from_json,
    comparison_to_json,
)
from cep_pipeline.planning.trees import Join, nodes_of, tree_from_json, tree_to_json
from cep_pipeline.statistics.snapshot import Selectivity, Source

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
    DecidingComparison: comparison_to_json,
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
    joins = [] if plan.tree is None else [len(node.leaves) for node in nodes_of(plan.tree) if isinstance(node, Join)]
    for comparison in plan.comparisons:
        _check_comparison(comparison, len(plan.steps), joins)
    return plan


def _condition_from_json(content: Mapping[str, Any]) -> TestedCondition:
    own = {name: content[name] for name in ("text", "agreement", "correction", "kind") if name in content}
    numbers = {name: value for name, value in content.items() if name not in own}
    return TestedCondition(selectivity=Selectivity(**{**numbers, "source": Source(content["source"])}), **own)


def _join_from_json(content: Any) -> Join:
    tree = tree_from_json(content)
    if isinstance(tree, str):
        raise ValueError(f"the tree {tree!r} joins nothing: a clause of one variable has an order only")
    return tree


_READERS: dict[Any, Callable[[Any], Any]] = {
    ClausePlan: _clause_from_json,
    DecidingComparison: comparison_from_json,
    Join: _join_from_json,
    NodeUse: lambda use: NodeUse(use[0], use[1], tuple(use[2])),
    TestedCondition: _condition_from_json,
}


def _check_comparison(comparison: DecidingComparison, variables: int, joins: Sequence[int]) -> None:
    """Refuse a comparison that is of no step of an order, or no join of so many variables."""
    step, is_tree = comparison.step, comparison.measure == "tree"
    if not 0 <= step < (len(joins) if is_tree else variables):
        raise ValueError(f"a comparison is of step {step}, which the plan does not have")
    size = joins[step] if is_tree else 1 if comparison.measure == "instances" else step + 1
    for side in (comparison.chosen, comparison.rejected):
        bound, distinct, largest, binary = _bound_by(side)
        if len(bound) != size or distinct != size or largest >= variables:
            raise ValueError(f"a comparison of step {step} binds {size} of {variables} variables, not {bound}")
        if isinstance(side, int) or (not is_tree and side != bound):
            raise ValueError(f"a side of a comparison of step {step} is {side}")
        if is_tree and not binary:
            raise ValueError(f"a join has two sides, unlike one in {side}")


@lru_cache(maxsize=1 << 16)
def _bound_by(side: Side) -> tuple[tuple[int, ...], int, int, bool]:
    """The positions in a side of a comparison, how many different ones, the largest, and if all joins are of two."""
    bound, binary, waiting = [], True, [side]
    while waiting:
        node = waiting.pop()
        if isinstance(node, int):
            bound.append(node)
        else:
            binary = binary and len(node) == 2
            waiting.extend(reversed(node))
    return tuple(bound), len(set(bound)), max(bound, default=0), binary


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
    optional = {"given": NotRequired[list[list[side]]], "share": NotRequired[float]}  # type: ignore[valid-type]
    forms[DecidingComparison] = form_of(DecidingComparison, {"chosen": side, "rejected": side, **optional})
    forms[WorkloadSearch] = form_of(WorkloadSearch, {"compares_sharing": NotRequired[bool]})
    forms[ClausePlan] = form_of(ClausePlan, {"order": tuple[str, ...]}, forms)
    return forms


MOST_DEPTH = 256
"""Joins of a tree below each other, at most, in a plan that is read."""
