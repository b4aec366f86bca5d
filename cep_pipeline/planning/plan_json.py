"""The JSON form of plans: a part is an object of its fields; a few parts are written otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, NotRequired, TypeVar, Union, get_args, get_origin, get_type_hints

from cep_pipeline.planning.clause_plans import ClausePlan, NodeUse, TestedCondition
from cep_pipeline.planning.orderings import (
    DecidingComparison,
    positions_of,
)
from cep_pipeline.planning.trees import Join, tree_from_json, tree_to_json
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
