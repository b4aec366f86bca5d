"""Where a search begins that goes on from a plan: what its members share stays, how it is put together is decided anew.

The statistics are others than the plan was made by. Each zone (`local_zones`) is put together as cheaply as it can be
by these; a zone that several members share for all of them alike, so that they go on sharing it. So what a violated
invariant says is done before the search begins, and the search, which keeps the best plan that it has seen, ends with
one that costs less.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.multi_pattern.costs import Statistics
from cep_pipeline.planning.multi_pattern.local_zones import (
    MAX_PARTS,
    CheapestOrders,
    CheapestTrees,
    same_users,
    widest,
)
from cep_pipeline.planning.multi_pattern.members import MemberId
from cep_pipeline.planning.multi_pattern.shared_plan import SharedNode, SharedPlan, Slots
from cep_pipeline.planning.numbers.cardinality import mask_of
from cep_pipeline.planning.trees import OrderOrTree, PositionTree, named_join


def zones_anew(plan: SharedPlan, statistics: Statistics, model: CostModel) -> dict[MemberId, OrderOrTree | str]:
    """The orders or trees of the members of a plan with each zone put together most cheaply.

    Parameters
    ----------
    statistics
        Of each member its clause's numbers.
    model
        What is cheap is so by this cost model.
    """
    anew = _orders_anew(plan, statistics, model) if plan.sharing == "prefix" else _trees_anew(plan, statistics, model)
    return {member: anew(member) for member in plan.members}


def _trees_anew(plan: SharedPlan, statistics: Statistics, model: CostModel) -> Callable[[MemberId], OrderOrTree | str]:
    @cache
    def over_slots(index: int) -> PositionTree:
        """The tree of a node over the numbers of its slots."""
        node = plan[index]
        parts = [(part, slots) for part, slots in _parts(plan, node, tuple(range(node.size)))]
        own = {slots: _placed(over_slots(part.index), slots) for part, slots in parts if part is not node}
        if node.size == 1:
            return 0
        if len(parts) > MAX_PARTS:
            return _kept(plan, node, tuple(range(node.size)), own)
        name = widest(plan, node)
        numbers = statistics[name]
        places = [numbers.names.index(variable) for variable in node.sharers[name][0]]
        cheapest = CheapestTrees([_placed(own[slots], places) for _, slots in parts], numbers, model)
        slot = {place: number for number, place in enumerate(places)}
        return _placed(cheapest.tree(cheapest.everything), slot)

    def tree_of(member: MemberId) -> OrderOrTree | str:
        root = plan[plan.roots[member]]
        names = root.sharers[member][0]
        tree = over_slots(root.index)
        return names[tree] if isinstance(tree, int) else named_join(tree, names)

    return tree_of


def _parts(plan: SharedPlan, node: SharedNode, slots: tuple[int, ...]) -> list[tuple[SharedNode, tuple[int, ...]]]:
    """The nodes that the zone of a node is put together from, with their places among its slots."""
    found = []
    for below, own in _sides(plan, node, slots):
        inner = below.size > 1 and same_users(below, node)
        found += _parts(plan, below, own) if inner else [(below, own)]
    return found


def _sides(plan: SharedPlan, node: SharedNode, slots: tuple[int, ...]) -> list[tuple[SharedNode, tuple[int, ...]]]:
    if node.left is None or node.right is None:
        return []
    cut = node.below[0]
    return [(plan[node.left], slots[:cut]), (plan[node.right], slots[cut:])]


def _kept(
    plan: SharedPlan, node: SharedNode, slots: tuple[int, ...], parts: dict[tuple[int, ...], PositionTree]
) -> PositionTree:
    """The tree of a zone as it is, with its parts made anew."""
    if slots in parts:
        return parts[slots]
    left, right = (_kept(plan, below, own, parts) for below, own in _sides(plan, node, slots))
    return left, right


def _placed(tree: PositionTree, places: Slots | tuple[int, ...] | list[int] | dict[int, int]) -> PositionTree:
    """A tree with other numbers at its leaves."""
    if isinstance(tree, int):
        return places[tree]  # type: ignore[return-value]
    return _placed(tree[0], places), _placed(tree[1], places)


def _orders_anew(plan: SharedPlan, statistics: Statistics, model: CostModel) -> Callable[[MemberId], OrderOrTree | str]:
    @cache
    def over_slots(index: int) -> tuple[int, ...]:
        """The order of a state's slots, by their numbers."""
        node = plan[index]
        before = node.left
        while before is not None and same_users(plan[before], node):
            before = plan[before].left
        given = () if before is None else over_slots(before)
        if node.size - len(given) > MAX_PARTS:
            return (*given, *range(len(given), node.size))
        name = widest(plan, node)
        numbers = statistics[name]
        places = [numbers.names.index(variable) for variable in node.sharers[name][0]]
        cheapest = CheapestOrders(tuple(places[slot] for slot in given), numbers, model)
        slot = {place: number for number, place in enumerate(places)}
        return tuple(slot[place] for place in cheapest.order(mask_of(places)))

    def order_of(member: MemberId) -> OrderOrTree | str:
        root = plan[plan.roots[member]]
        names = root.sharers[member][0]
        return tuple(names[slot] for slot in over_slots(root.index))

    return order_of
