"""Plans in pattern order around blocks: common sub-patterns bound by themselves, so that they can be shared."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cep_pipeline.planning.multi_pattern.members import Member
from cep_pipeline.planning.multi_pattern.search_problem import common_subpatterns
from cep_pipeline.planning.multi_pattern.workload import Plans, Workload, named_order, named_tree
from cep_pipeline.planning.numbers.cardinality import mask_of
from cep_pipeline.planning.trees import OrderOrTree, PositionTree


@dataclass(frozen=True, slots=True)
class Block:
    """A common sub-pattern in one member.

    Attributes
    ----------
    member
        The place of the member among those planned together.
    places
        Its variables in the order in which they are bound: pattern order in the first member that has it, and in the
        others the variables that correspond.
    """

    member: int
    places: tuple[int, ...]

    @property
    def mask(self) -> int:
        """The variables as a set."""
        return mask_of(self.places)

    @property
    def contiguous(self) -> bool:
        """Whether it is a part of the pattern's sequence, in its order."""
        return self.places == tuple(range(self.places[0], self.places[0] + len(self.places)))


def planned_together(workload: Workload) -> list[Member]:
    """The members that may share."""
    return [member for member in workload.members if member.id in workload.local]


def common_blocks(workload: Workload) -> list[tuple[Block, ...]]:
    """The common sub-patterns of two variables or more, each as a block of every member that has it."""
    found = []
    for common in common_subpatterns(planned_together(workload), workload.graph, 2):
        first = common.uses[0][2]
        slots = sorted(range(len(first)), key=lambda slot: first[slot])
        found.append(tuple(Block(member, tuple(own[slot] for slot in slots)) for member, _, own in common.uses))
    return found


def plan_around(workload: Workload, member: Member, blocks: Iterable[Block]) -> OrderOrTree | str:
    """A member's plan with some blocks, at most one where beginnings of orders are shared; all else in pattern order.

    An order binds the block first. A tree joins blocks and other variables one after another, a block where its first
    variable stands.
    """
    chosen = [block.places for block in blocks]
    covered = {place for places in chosen for place in places}
    others = [place for place in range(len(member.names)) if place not in covered]
    if not workload.trees:
        return named_order([*(place for places in chosen for place in places), *others], member.names)
    items = sorted([*chosen, *((place,) for place in others)], key=min)
    return named_tree(_left_deep([_left_deep(list(item)) for item in items]), member.names)


def _left_deep(parts: Sequence[PositionTree]) -> PositionTree:
    tree = parts[0]
    for part in parts[1:]:
        tree = (tree, part)
    return tree


def plans_around(workload: Workload, blocks: Iterable[Block]) -> Plans:
    """The plans of all members around the blocks that each has."""
    members = planned_together(workload)
    own: dict[int, list[Block]] = {place: [] for place in range(len(members))}
    for block in blocks:
        own[block.member].append(block)
    plans: Plans = {member.id: member.names for member in workload.members}
    return plans | {member.id: plan_around(workload, member, own[place]) for place, member in enumerate(members)}


def cover_greedily(
    workload: Workload, groups: Sequence[tuple[Block, ...]], score: Callable[[Sequence[Block]], float]
) -> list[Block]:
    """Choose groups of blocks, those with the highest score first, so that blocks of a member have nothing in common.

    Parameters
    ----------
    score
        What it brings to share these blocks, the more of them the more; a group is taken as long as that is above 0.

    Returns
    -------
    list of Block
        Of each group taken the blocks of all members in which their variables were free. Where beginnings of orders are
        shared, a member has one block.
    """
    taken: dict[int, int] = {}

    def free(group: Sequence[Block]) -> list[Block]:
        by_member: dict[int, Block] = {}
        for block in group:
            known = taken.get(block.member, 0)
            if not known & block.mask and (workload.trees or not known):
                by_member.setdefault(block.member, block)
        return list(by_member.values())

    chosen: list[Block] = []
    heap = [(-score(free(group)), place) for place, group in enumerate(groups)]
    heapq.heapify(heap)
    while heap:
        known, place = heapq.heappop(heap)
        blocks = free(groups[place])
        now = -score(blocks) if len(blocks) > 1 else 0.0
        if now > known and now < 0:  # others have taken a part of it meanwhile
            heapq.heappush(heap, (now, place))
        elif now < 0:
            chosen += blocks
            for block in blocks:
                taken[block.member] = taken.get(block.member, 0) | block.mask
    return chosen
