"""The zones of a shared plan: what the same members use of it, and how a zone is put together most cheaply.

A local search gives members some parts in common, and completes their plans around these as cheaply as it can. So a
shared plan falls into zones, the joins or steps that the same members use. What a zone's parts are, is the search's
choice; how they are put together is a local plan: the cheapest one with given parts (MCEP [0108], [0123]). A zone costs
what it costs that of its members with the largest window, as its nodes do.

Invariants. MCEP [0064] asks for "standard adaptivity mechanisms", and leaves open which. The way in which a zone is put
together rests on comparisons as other plans do; they are recorded with the member that the zone is measured by. Where
the search ended before a zone was put together as cheaply as it can be, no comparison says so: only those that hold are
recorded (`local_comparisons`).

Restarts. A search that goes on from a plan begins with each zone put together as cheaply as it can be by the new
statistics, a zone that several members share for all of them alike (`zones_anew`). So the change that a violated
invariant asks for is made before the search begins, and the search, which keeps the best plan that it has seen, ends
with one that costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import cast

from cep_pipeline.planning.multi_pattern.local_plans import LocalPlans, named_plan, plan_of_places, variables_of
from cep_pipeline.planning.multi_pattern.members import MemberId
from cep_pipeline.planning.multi_pattern.shared_plan import SharedNode, SharedPlan
from cep_pipeline.planning.orderings import DecidingComparison, Side, Way, comparisons_of_block, joins_of, ln_measure
from cep_pipeline.planning.trees import OrderOrTree, PositionTree, placed

MAX_PARTS = 7
"""Zones of more parts are left as they are: all that can be made of the sets of parts is looked at."""


def same_users(node: SharedNode, other: SharedNode) -> bool:
    """True if the same members use two nodes, each equally often."""
    return {name: len(uses) for name, uses in node.sharers.items()} == {
        name: len(uses) for name, uses in other.sharers.items()
    }


@dataclass(frozen=True, eq=False)
class TreeOfMember:
    """The tree of a member over the places of its variables, and the node of the shared plan behind each subtree."""

    tree: PositionTree
    nodes: Mapping[int, SharedNode]

    @classmethod
    def of(cls, plan: SharedPlan, member: MemberId) -> TreeOfMember:
        names = plan.members[member].names
        nodes = {
            sum(1 << names.index(name) for name in slots): node
            for node in plan.nodes_of(member)
            for slots in node.sharers[member]
        }
        return cls(cast(PositionTree, plan_of_places(plan.plans[member], names, trees=True)), nodes)

    def node(self, tree: PositionTree) -> SharedNode:
        """The node behind a subtree."""
        return self.nodes[variables_of(tree)]

    def parts(self, tree: PositionTree) -> list[PositionTree]:
        """The parts of the zone of a subtree's root: leaves, and subtrees that others use, too."""
        root = self.node(tree)

        def parts_of(one: PositionTree) -> Iterator[PositionTree]:
            if isinstance(one, int) or not same_users(self.node(one), root):
                yield one
            else:
                for side in one:
                    yield from parts_of(side)

        return list(parts_of(tree))


def local_comparisons(plan: SharedPlan, member: MemberId, local: LocalPlans) -> Iterator[DecidingComparison]:
    """The deciding comparisons of a member's order or tree that are recorded with it.

    Parameters
    ----------
    local
        The member's local plans, by the numbers and the cost model by which the plan was made.
    """
    trees = plan.sharing != "prefix"
    measure = "tree" if trees else "cost"
    for step, chosen, ways in (_ways_of_tree if trees else _ways_of_order)(plan, member, local):
        measured = [
            Way(side, ln_measure(measure, side, local.statistics, local.model), (rank,) if rank else ())
            for rank, side in enumerate((chosen, *ways))
        ]
        yield from comparisons_of_block(step, measure, chosen, measured, local.statistics, local.model)


def _ways_of_tree(
    plan: SharedPlan, member: MemberId, local: LocalPlans
) -> Iterator[tuple[int, PositionTree, list[Side]]]:
    """The joins of a member's zones, with all other ways to split the parts of each and the cheapest sides of these."""
    of_member = TreeOfMember.of(plan, member)
    for step, join in enumerate(joins_of(of_member.tree)):
        first, *rest = of_member.parts(join)
        if plan.widest(of_member.node(join)) != member or not 1 < len(rest) < MAX_PARTS:
            continue
        splits = (beside for size in range(len(rest)) for beside in combinations(rest, size))
        ways = (
            (_over(local, [first, *beside]), _over(local, [part for part in rest if part not in beside]))
            for beside in splits
        )
        chosen = {variables_of(side) for side in join}
        yield step, join, [way for way in ways if variables_of(way[0]) not in chosen]


def _over(local: LocalPlans, parts: Sequence[PositionTree]) -> PositionTree:
    """The cheapest tree over some parts."""
    return cast(PositionTree, local.cheapest(parts, sum(map(variables_of, parts)), trees=True))


def _ways_of_order(
    plan: SharedPlan, member: MemberId, local: LocalPlans
) -> Iterator[tuple[int, tuple[int, ...], list[Side]]]:
    """The steps of a member's zones, with all other variables of each that can come last, behind the cheapest order."""
    states = plan.nodes_of(member)
    order = tuple(local.statistics.names.index(name) for name in states[-1].sharers[member][0])
    for step in range(1, len(order)):
        node, beginning = states[step], order[: step + 1]
        # Beginnings that others use, too, are given; they come first, as whoever uses a state uses those before it.
        given = order[: sum(not same_users(state, node) for state in states[:step])]
        if plan.widest(node) != member or not 1 < len(beginning) - len(given) <= MAX_PARTS:
            continue
        yield (
            step,
            beginning,
            [
                (
                    *cast("tuple[int, ...]", local.cheapest([given], variables_of(beginning) ^ 1 << last, trees=False)),
                    last,
                )
                for last in sorted(beginning[len(given) : -1])
            ],
        )


def zones_anew(plan: SharedPlan, local: Mapping[MemberId, LocalPlans]) -> dict[MemberId, OrderOrTree | str]:
    """The orders or trees of the members of a plan with each zone put together most cheaply.

    Parameters
    ----------
    plan
        A plan without tests of order.
    local
        The local plans of members; zones that are measured by others stay as they are.
    """
    trees = plan.sharing != "prefix"
    over_slots = (_trees_anew if trees else _orders_anew)(plan, local)
    anew = {}
    for member, root in plan.roots.items():
        anew[member] = named_plan(over_slots(root), plan[root].sharers[member][0], trees=trees)
    return anew


def _trees_anew(plan: SharedPlan, local: Mapping[MemberId, LocalPlans]) -> Callable[[int], PositionTree]:
    @cache
    def over_slots(index: int) -> PositionTree:
        """The tree of a node over the numbers of its slots."""
        node, name = plan[index], plan.widest(plan[index])
        if node.size == 1:
            return 0
        parts = [(part, slots) for part, slots in _parts(plan, node, tuple(range(node.size)))]
        own = {slots: placed(over_slots(part.index), slots) for part, slots in parts}
        if len(parts) > MAX_PARTS or name not in local:
            return _kept(plan, node, tuple(range(node.size)), own)
        names = local[name].statistics.names
        places = [names.index(variable) for variable in node.sharers[name][0]]
        cheapest = _over(local[name], [placed(own[slots], places) for _, slots in parts])
        return placed(cheapest, {place: number for number, place in enumerate(places)})

    return over_slots


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


def _orders_anew(plan: SharedPlan, local: Mapping[MemberId, LocalPlans]) -> Callable[[int], tuple[int, ...]]:
    @cache
    def over_slots(index: int) -> tuple[int, ...]:
        """The order of a state's slots, by their numbers."""
        node, name = plan[index], plan.widest(plan[index])
        before = node.left
        while before is not None and same_users(plan[before], node):
            before = plan[before].left
        given = () if before is None else over_slots(before)
        if node.size - len(given) > MAX_PARTS or name not in local:
            return (*given, *range(len(given), node.size))
        names = local[name].statistics.names
        places = tuple(names.index(variable) for variable in node.sharers[name][0])
        cheapest = local[name].cheapest([tuple(places[slot] for slot in given)], variables_of(places), trees=False)
        return tuple(map(places.index, cast("tuple[int, ...]", cheapest)))

    return over_slots
