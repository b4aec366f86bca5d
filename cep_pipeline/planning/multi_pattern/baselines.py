"""The planners that the local searches are measured against (MCEP [0137], [0146]-[0147]).

    none                  no sharing and no reordering: the plan that gains are measured over (MCEP [0137])
    sharing               SH: as many common sub-expressions as possible, whatever they cost (MCEP [0146], [0156])
    reordering            RE: greedy orders, nothing shared (MCEP [0146])
    redundancy_ratio      SPASS (MCEP [0147]; Ray et al., SIGMOD 2016)
    merge_decomposition   MOTTO: merging, decomposition, operator transformation (MCEP [0147]; Zhang et al., ICDE 2017)

The patent names them and what they do; where it leaves open how, each function says what was chosen. Its account of the
sharing ones is that they do not reorder ([0149]): so here the variables of what is shared, and the rest, are bound in
pattern order. Shared parts are *blocks*: common sub-patterns that are bound by themselves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from cep_pipeline.planning.algorithms.heuristics import greedy_order
from cep_pipeline.planning.clause_statistics import mask_of
from cep_pipeline.planning.multi_pattern.costs import exchange, take_cheaper
from cep_pipeline.planning.multi_pattern.members import Member, MemberId, common_subpatterns
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload
from cep_pipeline.planning.orderings import named_over
from cep_pipeline.planning.trees import OrderOrTree, left_deep, named_tree


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
        """True if it is a part of the pattern's sequence, in its order."""
        return self.places == tuple(range(self.places[0], self.places[0] + len(self.places)))


def planned_together(workload: Workload) -> list[Member]:
    """The members that may share."""
    return [member for member in workload.members if member.id in workload.local]


def common_blocks(workload: Workload) -> list[tuple[Block, ...]]:
    """The common sub-patterns of two variables or more, each as a block of every member that has it."""
    found = []
    for uses in common_subpatterns(planned_together(workload), 2):
        first = uses[0].slots
        slots = sorted(range(len(first)), key=lambda slot: first[slot])
        found.append(tuple(Block(use.member, tuple(use.slots[slot] for slot in slots)) for use in uses))
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
        return tuple(member.names[place] for place in (*(one for places in chosen for one in places), *others))
    items = sorted([*chosen, *((place,) for place in others)], key=min)
    return named_tree(left_deep([left_deep(item) for item in items]), member.names)


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


def none(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Every pattern in its own order, by itself."""
    return {member.id: member.names for member in workload.members}, 0


def sharing(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Share maximal common sub-expressions, and bind everything in pattern order.

    The patent does not say how sub-expressions are chosen that exclude one another: here the one comes first that saves
    the most nodes of the plan.
    """
    return plans_around(workload, cover_greedily(workload, common_blocks(workload), _nodes_saved)), 0


def _nodes_saved(blocks: Sequence[Block]) -> float:
    return (len(blocks) - 1) * (len(blocks[0].places) - 1) if blocks else 0.0


def reordering(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Every pattern by itself, in the order that greedy choice makes.

    The patent "greedily rebuilds the event sequence by picking the event type maximizing the cost function at each
    step"; as its cost is of what is done, the best type is the one with the least cost: planner `greedy`.
    """
    return {
        member.id: named_over(greedy_order(workload.statistics[member.id], workload.model), member.names)
        if not workload.keeps_order(member)
        else member.names
        for member in workload.members
    }, 0


def redundancy_ratio(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Share the substrings of patterns whose computation would be repeated most often; bind all in pattern order.

    Of the method the patent says that each sub-expression has a score, the redundancy ratio, which "represents the
    potential gain in sharing its computation", and that "the winners are chosen by approximating the well-known minimal
    substring cover problem". Chosen here: sub-expressions are variables that follow one another in each of the
    patterns; the ratio is that of what it would cost the patterns apart to what it costs once; and the cover is
    approximated greedily, the highest ratio times the variables covered first.
    """
    scored = BlockCosts(workload)
    groups = [tuple(block for block in group if block.contiguous) for group in common_blocks(workload)]

    def score(blocks: Sequence[Block]) -> float:
        covered = sum(len(block.places) for block in blocks)
        return scored.ratio(blocks) * covered if len(blocks) > 1 else 0.0

    chosen = cover_greedily(workload, [group for group in groups if len(group) > 1], score)
    return plans_around(workload, chosen), 0


class BlockCosts:
    """The costs of blocks: the steps by which their variables are bound one after another."""

    def __init__(self, workload: Workload) -> None:
        self._members = planned_together(workload)
        local = [workload.local[member.id] for member in self._members]
        ln_scale = max((plans.ln_least for plans in local), default=0.0)
        self._costs = [plans.costs(ln_scale) for plans in local]

    def cost(self, block: Block) -> float:
        """The cost of a block for its member alone, without its single variables."""
        costs = self._costs[block.member]
        places = block.places
        steps = ((mask_of(places[: step + 1]), 1 << places[step]) for step in range(1, len(places)))
        return float(np.sum([costs.joined(reached, added) for reached, added in steps]))

    def ratio(self, blocks: Sequence[Block]) -> float:
        """The cost of blocks apart, divided by their cost in one node."""
        apart = [self.cost(block) for block in blocks]
        windows = [self._members[block.member].window for block in blocks]
        once = max(cost for cost, window in zip(apart, windows, strict=True) if window == max(windows))
        return sum(apart) / once if once > 0 else float(len(blocks))

    def saved(self, blocks: Sequence[Block]) -> float:
        """The cost that one node saves of blocks apart."""
        return sum(map(self.cost, blocks)) * (1.0 - 1.0 / self.ratio(blocks))


MAX_PASSES = 5
"""Most passes in which all members look for a cheaper connection."""


def merge_decomposition(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Connect all patterns to what is computed already, by the cheapest Steiner tree that a heuristic finds.

    Of the method the patent names three techniques, for merging, decomposition and operator transformation, and says
    that it "solves the directed Steiner minimum tree problem to select the best global plan". Chosen here: the
    terminals are the patterns, the Steiner nodes their common sub-patterns. Merging lets a pattern go on from the
    result of a sub-pattern that another one has as its beginning; decomposition lets several patterns be split so that
    a sub-pattern of each, wherever its variables stand, is computed once; all else is bound in pattern order.
    Sub-patterns are inserted in the order of what computing them once would save, each for all patterns to which it is
    worth it, and kept if the plan gets cheaper; then each pattern in turn looks for its cheapest connection, until
    nothing changes. Of operator transformation the patent has the name alone. Here it is a last step of planning, which
    local searches have, too: what an AND makes serves a SEQ by a test of order (`order_tests`).
    """
    members = {member.id: member for member in planned_together(workload)}
    own: dict[MemberId, list[Block]] = {name: [] for name in members}
    groups, names, costs = common_blocks(workload), list(members), BlockCosts(workload)
    for group in groups:
        for block in group:
            own[names[block.member]].append(block)
    in_order = plans_around(workload, ())
    plan = workload.shared(in_order)

    @cache
    def around(name: MemberId, block: Block) -> OrderOrTree | str:
        return plan_around(workload, members[name], [block])

    def ways(name: MemberId) -> list[OrderOrTree | str]:
        """Pattern order, and the plans around blocks that another member's plan computes."""
        found = [in_order[name]]
        for block in own[name]:
            variables = {members[name].names[place] for place in block.places}
            forms = plan.forms(members[name], around(name, block))
            node = plan.node_of(next(form.key for form in forms if set(form.slots) == variables))
            if node is not None and node.sharers.keys() - {name}:
                found.append(around(name, block))
        return found

    for group in sorted(groups, key=costs.saved, reverse=True):
        exchanged = {names[block.member]: around(names[block.member], block) for block in reversed(group)}
        exchange(plan, exchanged, workload.statistics, workload.model)
    for _ in range(MAX_PASSES):
        before = dict(plan.plans)
        for name in members:
            found = ways(name)
            if plan.plans[name] not in found:
                plan.replace(name, in_order[name])
            take_cheaper(plan, name, found, workload.statistics, workload.model)
        if plan.plans == before:
            break
    # What nobody shares any more is no connection.
    while alone := [name for name in members if plan.plans[name] not in ways(name)]:
        for name in alone:
            plan.replace(name, in_order[name])
    return (plan.plans if workload.ln_cost(plan.plans) < workload.ln_cost(in_order) else in_order), 0
