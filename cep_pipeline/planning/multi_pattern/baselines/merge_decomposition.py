"""Merging, decomposition and operator transformation, MOTTO (MCEP [0147]; Zhang et al., ICDE 2017)."""

from __future__ import annotations

from collections.abc import Sequence

from cep_pipeline.planning.cardinality import mask_of
from cep_pipeline.planning.multi_pattern.baselines.blocks import (
    Block,
    common_blocks,
    plan_around,
    planned_together,
)
from cep_pipeline.planning.multi_pattern.baselines.redundancy_ratio import BlockCosts
from cep_pipeline.planning.multi_pattern.members import Member
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
    return plans | steiner.plan.plans, 0


class _Steiner:
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
        self.plan = SharedPlan(workload.sharing)
        for member in self._members:
            plan = plan_around(workload, member, ())
            self._added(member, plan)
            self.plan.add(member, plan)

    def insert_subpatterns(self) -> None:
        """Compute sub-patterns once, those first with which most work would be done once only."""

        def saved(group: Sequence[Block]) -> float:
            apart = [self._block_costs.cost(block) for block in group]
            return sum(apart) * (1.0 - 1.0 / self._block_costs.ratio(group))

        for group in sorted(self._groups, key=saved, reverse=True):
            by_member = {block.member: block for block in reversed(group)}
            known = {place: self.plan.plans[self._members[place].id] for place in by_member}
            total = 0.0
            for place, block in sorted(by_member.items()):
                member = self._members[place]
                total += self._replace(member, plan_around(self._workload, member, [block]))
            if total > -NOTHING:
                for place, plan in known.items():
                    self._replace(self._members[place], plan)
                continue
            # Those to which it is not worth it go back.
            for place, plan in known.items():
                member = self._members[place]
                new = self.plan.plans[member.id]
                if self._replace(member, plan) > 0:
                    self._replace(member, new)

    def connect_members(self) -> None:
        """Let each member look for its cheapest connection to the others."""
        for _ in range(MAX_PASSES):
            changed = False
            for place, member in enumerate(self._members):
                known = self.plan.plans[member.id]
                self.plan.remove(member.id)
                ways = [
                    known,
                    plan_around(self._workload, member, ()),
                    *(plan_around(self._workload, member, [block]) for block in self._own[place]),
                ]
                costs = [self._added(member, way) for way in ways]
                best = min(range(len(ways)), key=lambda way: (costs[way], way))
                if costs[best] < costs[0] * (1 - 1e-12):
                    changed = True
                self.plan.add(member, ways[best])
            if not changed:
                return

    def _replace(self, member: Member, plan: OrderOrTree | str) -> float:
        """Give a member another plan; returns what all together costs more."""
        known = self.plan.plans[member.id]
        self.plan.remove(member.id)
        change = self._added(member, plan) - self._added(member, known)
        self.plan.add(member, plan)
        return change

    def _added(self, member: Member, plan: OrderOrTree | str) -> float:
        """What a plan of a member costs beside what the others share with it."""
        places = {name: place for place, name in enumerate(member.names)}
        added = 0.0
        seen = set()
        for form in member.forms.nodes(plan):
            if form.key in seen:
                continue
            seen.add(form.key)
            cost = float(self._costs[member.id][mask_of(places[name] for name in form.slots)])
            self._node_costs.setdefault((form.key, member.window), cost)
            node = self.plan.with_key(form.key)
            if node is None:
                added += cost
            elif member.window > node.window:
                added += cost - self._node_costs[form.key, node.window]
        return added
