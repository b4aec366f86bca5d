"""Merging, decomposition and operator transformation, MOTTO (MCEP [0147]; Zhang et al., ICDE 2017)."""

from __future__ import annotations

from collections.abc import Sequence

from cep_pipeline.planning.multi_pattern.baselines.blocks import (
    Block,
    common_blocks,
    plan_around,
    planned_together,
)
from cep_pipeline.planning.multi_pattern.baselines.redundancy_ratio import BlockCosts
from cep_pipeline.planning.multi_pattern.shared_plan import SharedPlan
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
    nothing changes. Operator transformation, which makes a sequence by filtering the result of a conjunction, is not
    done: nodes of our plans have no filters.
    """
    steiner = _Steiner(workload)
    steiner.insert_subpatterns()
    steiner.connect_members()
    plans: Plans = {member.id: member.names for member in workload.members}
    found = plans | steiner.plan.plans
    in_order = plans | {m.id: plan_around(workload, m, ()) for m in planned_together(workload)}
    return (found if workload.ln_cost(found) < workload.ln_cost(in_order) else in_order), 0


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
        self.plan = SharedPlan(workload.sharing)
        for place, member in enumerate(self._members):
            self._added(place, None)
            self.plan.add(member, self._around(place, None))

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

    def _around(self, place: int, block: Block | None) -> OrderOrTree | str:
        return plan_around(self._workload, self._members[place], () if block is None else [block])

    def _is_elsewhere(self, place: int, block: Block) -> bool:
        """Whether another member's plan computes what a block of this one does."""
        member = self._members[place]
        masks = {name: 1 << number for number, name in enumerate(member.names)}
        for form in member.forms.nodes(self._around(place, block)):
            if sum(masks[name] for name in form.slots) == block.mask:
                node = self.plan.with_key(form.key)
                return node is not None and bool(node.sharers.keys() - {member.id})
        raise AssertionError(f"{member} has no node for {block}")

    def _connect(self, place: int, block: Block | None) -> float:
        """Give a member another connection; returns what all together costs more."""
        member = self._members[place]
        change = self._added(place, block) - self._added(place, self._blocks[place])
        self.plan.replace(member.id, self._around(place, block))
        self._blocks[place] = block
        return change

    def _added(self, place: int, block: Block | None) -> float:
        """What a member's plan costs beside what the others share with it."""
        member = self._members[place]
        masks = {name: 1 << number for number, name in enumerate(member.names)}
        forms = {form.key: form for form in member.forms.nodes(self._around(place, block))}
        added = 0.0
        for form in forms.values():
            cost = float(self._costs[member.id][sum(masks[name] for name in form.slots)])
            self._node_costs.setdefault((form.key, member.window), cost)
            node = self.plan.with_key(form.key)
            others = () if node is None else [name for name in node.sharers if name != member.id]
            window = max((self.plan.members[name].window for name in others), default=-1)
            if window < 0:
                added += cost
            elif member.window > window:
                added += cost - self._node_costs[form.key, window]
        return added
