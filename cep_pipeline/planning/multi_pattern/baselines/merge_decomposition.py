"""Merging, decomposition and operator transformation, MOTTO (MCEP [0147]; Zhang et al., ICDE 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cep_pipeline.planning.multi_pattern.baselines.blocks import (
    Block,
    common_blocks,
    plan_around,
    planned_together,
)
from cep_pipeline.planning.multi_pattern.baselines.redundancy_ratio import BlockCosts
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload
from cep_pipeline.planning.trees import OrderOrTree

MAX_PASSES = 5
"""So often all members look for a cheaper connection."""
NOTHING = 1e-12
"""A saving, beside the dearest node that no plan avoids, that is none."""


def merge_decomposition(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Connect all patterns to what is computed already, by the cheapest Steiner tree that a heuristic finds.

    Of the method the patent names three techniques, for merging, decomposition and operator transformation, and says
    that it "solves the directed Steiner minimum tree problem to select the best global plan". Chosen here: the
    terminals are the patterns, the Steiner nodes their common sub-patterns. Merging lets a pattern go on from the
    result of a sub-pattern that another one has as its beginning; decomposition lets several patterns be split so that
    a sub-pattern of each, wherever its variables stand, is computed once; all else is bound in pattern order.
    Sub-patterns are inserted in the order of what computing them once would save, each for all patterns to which it is
    worth it, and kept if the plan gets cheaper; then each pattern in turn looks for its cheapest connection, until
    nothing changes. Of operator transformation the patent has the name alone: which operators become which, what that
    costs and what a node then tests is left to the paper that it cites. It is not done: a node of our plans is all that
    holds between its variables, their order too, so that a sequence and a conjunction have no node in common.
    """
    steiner = _Steiner(workload)
    steiner.insert_subpatterns()
    steiner.connect_members()
    plans: Plans = {member.id: member.names for member in workload.members}
    found = plans | steiner.plans
    in_order = plans | {m.id: plan_around(workload, m, ()) for m in planned_together(workload)}
    return (found if workload.ln_cost(found) < workload.ln_cost(in_order) else in_order), 0


class _Way(NamedTuple):
    """A plan of a member, what each of its nodes costs in the member's window, and the key of each by its variables.

    Two of its nodes may be alike, and have one key.
    """

    plan: OrderOrTree | str
    nodes: dict[str, float]
    keys: dict[int, str]


class _Steiner:
    """The plan so far: each member in pattern order, or around one block that others have, too."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._members = planned_together(workload)
        self._groups = common_blocks(workload)
        self._block_costs = BlockCosts(workload)
        local = [workload.local[member.id] for member in self._members]
        ln_scale = max((plans.ln_least for plans in local), default=0.0)
        self._costs = {member.id: plans.costs(ln_scale) for member, plans in zip(self._members, local, strict=True)}
        self._node_costs: dict[tuple[str, int], float] = {}
        self._own: list[list[Block]] = [[] for _ in self._members]
        for group in self._groups:
            for block in group:
                self._own[block.member].append(block)
        self._blocks: list[Block | None] = [None] * len(self._members)
        self._ways: dict[tuple[int, Block | None], _Way] = {}
        self._windows: dict[str, dict[int, int]] = {}  # by key of node: how many members of each window use it
        for place in range(len(self._members)):
            self._added(place, None)
            self._count(place, 1)

    @property
    def plans(self) -> Plans:
        """The plan of each member."""
        return {member.id: self._around(place, self._blocks[place]).plan for place, member in enumerate(self._members)}

    def insert_subpatterns(self) -> None:
        """Compute sub-patterns once, those first with which most work would be done once only."""

        def saved(group: Sequence[Block]) -> float:
            apart = [self._block_costs.cost(block) for block in group]
            return sum(apart) * (1.0 - 1.0 / self._block_costs.ratio(group))

        for group in sorted(self._groups, key=saved, reverse=True):
            by_member = {block.member: block for block in reversed(group)}
            known = {place: self._blocks[place] for place in by_member}
            total = sum(self._connect(place, block) for place, block in sorted(by_member.items()))
            for place, before in known.items():  # those to which it is not worth it go back
                change = self._connect(place, before)
                if change > 0:
                    change += self._connect(place, by_member[place])
                total += change
            if total > -NOTHING:
                for place, before in known.items():
                    self._connect(place, before)

    def connect_members(self) -> None:
        """Let each member look for its cheapest connection to the others."""
        for _ in range(MAX_PASSES):
            changed = False
            for place in range(len(self._members)):
                ways = [None, *(block for block in self._own[place] if self._is_elsewhere(place, block))]
                best = min(ways, key=lambda block: (self._added(place, block), ways.index(block)))
                if best != self._blocks[place]:
                    changed = True
                    self._connect(place, best)
            if not changed:
                return
        left = True
        while left:  # what nobody shares any more is no connection
            left = False
            for place, block in enumerate(self._blocks):
                if block is not None and not self._is_elsewhere(place, block):
                    self._connect(place, None)
                    left = True

    def _around(self, place: int, block: Block | None) -> _Way:
        """A member's plan around a block, or in pattern order; each is made once."""
        known = self._ways.get((place, block))
        if known is None:
            member = self._members[place]
            plan = plan_around(self._workload, member, () if block is None else [block])
            masks = {name: 1 << number for number, name in enumerate(member.names)}
            costs = self._costs[member.id]
            nodes: dict[str, float] = {}
            keys: dict[int, str] = {}
            forms = member.forms.nodes(plan)
            below = [sum(masks[name] for name in form.slots) for form in forms]
            for form, mask in zip(forms, below, strict=True):
                side = mask if form.left is None else below[form.left]
                nodes[form.key], keys[mask] = costs.joined(mask, side), form.key
            known = self._ways[place, block] = _Way(plan, nodes, keys)
        return known

    def _is_elsewhere(self, place: int, block: Block) -> bool:
        """Whether another member's plan computes what a block of this one does."""
        return self._window_of_others(self._around(place, block).keys[block.mask], place) >= 0

    def _connect(self, place: int, block: Block | None) -> float:
        """Give a member another connection; returns what all together costs more."""
        if block == self._blocks[place]:
            return 0.0
        change = self._added(place, block) - self._added(place, self._blocks[place])
        self._count(place, -1)
        self._blocks[place] = block
        self._count(place, 1)
        return change

    def _count(self, place: int, number: int) -> None:
        """Let a member's plan use its nodes, or not any more."""
        window = self._members[place].window
        for key in self._around(place, self._blocks[place]).nodes:
            windows = self._windows.setdefault(key, {})
            windows[window] = windows.get(window, 0) + number
            if not windows[window]:
                del windows[window]

    def _added(self, place: int, block: Block | None) -> float:
        """What a member's plan costs beside what the others share with it."""
        member = self._members[place]
        added = 0.0
        for key, cost in self._around(place, block).nodes.items():
            self._node_costs.setdefault((key, member.window), cost)
            window = self._window_of_others(key, place)
            if window < 0:
                added += cost
            elif member.window > window:
                added += cost - self._node_costs[key, window]
        return added

    def _window_of_others(self, key: str, place: int) -> int:
        """The largest window of the other members with a node; -1: there are none."""
        windows = self._windows.get(key, {})
        own = self._members[place].window
        alone = windows.get(own) == 1 and key in self._around(place, self._blocks[place]).nodes
        return max((window for window in windows if window != own or not alone), default=-1)
