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
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.multi_pattern.costs import Statistics
from cep_pipeline.planning.multi_pattern.members import MemberId
from cep_pipeline.planning.multi_pattern.shared_plan import SharedNode, SharedPlan, Slots
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics, mask_of
from cep_pipeline.planning.orderings import (
    DecidingComparison,
    Way,
    comparisons_of_block,
    joins_of,
    ln_measure,
    positions_of,
)
from cep_pipeline.planning.trees import Join, OrderOrTree, PositionTree, as_tree, named_join, tree_of_positions

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
    nodes: Mapping[frozenset[int], SharedNode]

    @classmethod
    def of(cls, plan: SharedPlan, member: MemberId) -> TreeOfMember:
        names = plan.members[member].names
        planned = plan.plans[member]
        tree = tree_of_positions(planned if isinstance(planned, str | Join) else as_tree(planned), names)
        nodes = {
            frozenset(names.index(name) for name in slots): node
            for node in plan.nodes_of(member)
            for slots in node.sharers[member]
        }
        return cls(tree, nodes)

    def node(self, tree: PositionTree) -> SharedNode:
        """The node behind a subtree."""
        return self.nodes[frozenset(positions_of(tree))]

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


@dataclass(eq=False)
class CheapestTrees:
    """The cheapest tree of each set of some parts; sets are the bits of an integer."""

    parts: Sequence[PositionTree]
    statistics: ClauseStatistics
    model: CostModel
    _known: dict[int, PositionTree] = field(default_factory=dict)

    @property
    def everything(self) -> int:
        """The set of all parts."""
        return (1 << len(self.parts)) - 1

    def ways(self, chosen: tuple[PositionTree, PositionTree]) -> list[Way]:
        """All ways to split the whole, each with its cheapest sides; the chosen tree wins ties."""
        found = [Way(chosen, self._measured(chosen), ())]
        split = {frozenset(positions_of(side)) for side in chosen}
        for side, other in _splits(self.everything):
            tree = self.tree(side), self.tree(other)
            if frozenset(positions_of(tree[0])) not in split:
                found.append(Way(tree, self._measured(tree), (side,)))
        return found

    def tree(self, members: int) -> PositionTree:
        """The cheapest tree of some parts."""
        if members & (members - 1) == 0:
            return self.parts[members.bit_length() - 1]
        if members not in self._known:
            trees = [(self.tree(side), self.tree(other)) for side, other in _splits(members)]
            self._known[members] = min(trees, key=self._measured)
        return self._known[members]

    def _measured(self, tree: PositionTree) -> float:
        return ln_measure("tree", tree, self.statistics, self.model)


def _splits(members: int) -> Iterator[tuple[int, int]]:
    """The ways to split a set of bits in two, each once."""
    first = members & -members
    rest = [1 << bit for bit in range(members.bit_length()) if (members ^ first) >> bit & 1]
    for size in range(len(rest)):
        for chosen in combinations(rest, size):
            side = first | sum(chosen)
            yield side, members ^ side


@dataclass(eq=False)
class CheapestOrders:
    """The cheapest order of each set of variables that begins with given ones; sets are the bits of an integer."""

    given: tuple[int, ...]
    statistics: ClauseStatistics
    model: CostModel
    _known: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def ways(self, chosen: tuple[int, ...]) -> list[Way]:
        """All variables that can come last, each after the cheapest order of the others; the chosen one wins ties."""
        found = [Way(chosen, self._measured(chosen), ())]
        for last in self._free(mask_of(chosen)):
            if last != chosen[-1]:
                order = (*self.order(mask_of(chosen) ^ 1 << last), last)
                found.append(Way(order, self._measured(order), (last,)))
        return found

    def order(self, members: int) -> tuple[int, ...]:
        """The cheapest order of a set that has the given variables."""
        if members == mask_of(self.given):
            return self.given
        if members not in self._known:
            orders = [(*self.order(members ^ 1 << last), last) for last in self._free(members)]
            self._known[members] = min(orders, key=self._measured)
        return self._known[members]

    def _free(self, members: int) -> list[int]:
        free = members & ~mask_of(self.given)
        return [bit for bit in range(free.bit_length()) if free >> bit & 1]

    def _measured(self, order: tuple[int, ...]) -> float:
        return ln_measure("cost", order, self.statistics, self.model)


def local_comparisons(
    plan: SharedPlan, member: MemberId, statistics: ClauseStatistics, model: CostModel
) -> tuple[DecidingComparison, ...]:
    """The deciding comparisons of a member's order or tree that are recorded with it.

    Parameters
    ----------
    statistics
        The numbers of the member's clause, by which the plan was made.
    model
        The cost model by which it was made.
    """
    return tuple((_of_order if plan.sharing == "prefix" else _of_tree)(plan, member, statistics, model))


def _of_tree(
    plan: SharedPlan, member: MemberId, statistics: ClauseStatistics, model: CostModel
) -> Iterator[DecidingComparison]:
    of_member = TreeOfMember.of(plan, member)
    for step, join in enumerate(joins_of(of_member.tree)):
        parts = of_member.parts(join)
        if plan.widest(of_member.node(join)) == member and 2 < len(parts) <= MAX_PARTS:
            ways = CheapestTrees(parts, statistics, model).ways(join)
            yield from comparisons_of_block(step, "tree", join, ways, statistics, model)


def _of_order(
    plan: SharedPlan, member: MemberId, statistics: ClauseStatistics, model: CostModel
) -> Iterator[DecidingComparison]:
    states = plan.nodes_of(member)
    order = tuple(statistics.names.index(name) for name in states[-1].sharers[member][0])
    for step in range(1, len(order)):
        node, beginning = states[step], order[: step + 1]
        # Beginnings that others use, too, are given; they come first, as whoever uses a state uses those before it.
        given = sum(not same_users(state, node) for state in states[:step])
        if plan.widest(node) == member and 1 < len(beginning) - given <= MAX_PARTS:
            ways = CheapestOrders(order[:given], statistics, model).ways(beginning)
            yield from comparisons_of_block(step, "cost", beginning, ways, statistics, model)


def zones_anew(plan: SharedPlan, statistics: Statistics, model: CostModel) -> dict[MemberId, OrderOrTree | str]:
    """The orders or trees of the members of a plan with each zone put together most cheaply.

    Parameters
    ----------
    plan
        A plan without tests of order.
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
        name = plan.widest(node)
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
        name = plan.widest(node)
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
