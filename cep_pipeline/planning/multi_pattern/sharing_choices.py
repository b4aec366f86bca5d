"""The comparisons that a shared plan rests on beside those of its zones: what a pattern shares, and what it does not.

A member of a shared plan has an order or a tree of which other members make some parts. These cost it nothing. It
could have another one, the cheapest around some part, which others make or not. As long as what the member adds to the
cost of the plan stays below what it would add then, no such exchange makes the plan cheaper. It is a comparison of two
sums over the member's own numbers, as those of other planners are, but for the parts that are given; so it becomes an
invariant. A search that goes on from a plan begins with the exchanges that pay by the new statistics
(`exchanges_anew`), so that the change which a violated invariant asks for is made.

Members that use a part together could leave it together. If that pays, one of them at least adds more with its equal
share of the part than it would add otherwise. So half of that share counts, where the comparison holds with it. It may
come out otherwise though leaving does not pay for all of them; then the search ends where it began.

A local search exchanges more than one member at a time, and ends where it happens to be. So the invariants do not say
that it would find the same plan again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, permutations
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from cep_pipeline.planning.multi_pattern.local_plans import LocalPlans, PositionPlan, named_plan, plan_of_places
from cep_pipeline.planning.multi_pattern.members import MemberId
from cep_pipeline.planning.multi_pattern.shared_plan import SharedNode, SharedPlan
from cep_pipeline.planning.orderings import GRAIN, DecidingComparison, Side, ln_measure, positions_of
from cep_pipeline.planning.trees import PositionTree

MOST_SHARED = 3
"""Comparisons that are kept of each member, the tightest ones."""
OF_EQUAL_SHARE = 0.5
"""Part of the equal share of a shared part's cost that counts for each member that uses it: members are not equal, and
numbers differ from day to day by more than that does."""


def sharing_comparisons(plan: SharedPlan, member: MemberId, local: LocalPlans) -> tuple[DecidingComparison, ...]:
    """The comparisons of a member's order or tree with others, of which other members make other parts.

    Parameters
    ----------
    local
        The member's local plans, by the numbers and the cost model by which the plan was made.

    Returns
    -------
    tuple of DecidingComparison
        Those that hold, the tightest first.
    """
    choice = _choice(plan, member, local)
    if choice is None:
        return ()
    measure, chosen, others = choice
    step = local.size - (2 if measure == "tree" else 1)
    found = []
    for one in others:
        ln_cost = ln_measure(measure, one.side, local.statistics, local.model, one.given)
        for share in (OF_EQUAL_SHARE / chosen.users, 0.0) if chosen.given else (0.0,):
            ln_chosen = ln_measure(measure, chosen.side, local.statistics, local.model, chosen.given, share)
            if -math.inf < ln_chosen < ln_cost:
                sides = measure, chosen.side, one.side, ln_chosen, ln_cost
                found.append(DecidingComparison(step, *sides, True, (chosen.given, one.given), share))
                break
    return tuple(sorted(found, key=lambda one: one.ln_rejected - one.ln_chosen)[:MOST_SHARED])


def exchanges_anew(
    plan: SharedPlan,
    local: Mapping[MemberId, LocalPlans],
    also: Mapping[MemberId, Sequence[Side]] = MappingProxyType({}),
) -> None:
    """Give each member of a plan in turn the order or tree by which it adds least, where that is less than now.

    Parameters
    ----------
    plan
        The plan, which is changed.
    local
        The local plans of the members that may change.
    also
        Orders or trees of members that are looked at, too: those that they were compared with before.
    """
    for member in [name for name in plan.members if name in local]:
        own = local[member]
        choice = _choice(plan, member, own, also.get(member, ()))
        if choice is None:
            continue
        measure, chosen, others = choice
        costs = [ln_measure(measure, one.side, own.statistics, own.model, one.given) for one in (chosen, *others)]
        least = costs.index(min(costs))
        if costs[least] < costs[0] - GRAIN:
            better = others[least - 1].side
            plan.replace(member, named_plan(better, own.statistics.names, trees=measure == "tree"))


class _Way(NamedTuple):
    """An order or a tree of a member, what others make of it, and how many members use that at least."""

    side: Any
    given: tuple[Side, ...]
    users: int = 1


def _choice(
    plan: SharedPlan, member: MemberId, local: LocalPlans, also: Sequence[Side] = ()
) -> tuple[str, _Way, list[_Way]] | None:
    """The measure, the member's order or tree, and those that it could have with other parts of others; None: none.

    Of a member that makes a part within a larger window than all others who use it nothing is said: without it the part
    would cost these less than it costs now.
    """
    if local.size < 3:  # no part of it could be made by others, but for leaves, or all of it
        return None
    of = _OfMember(plan, member, local)
    given = of.made_by_others(of.chosen)
    if of.chosen in given or of.widens:
        return None
    others = []
    for side in dict.fromkeys((*also, *of.alternatives())):
        free = of.made_by_others(side)
        if side != of.chosen and free != given and side not in free:
            others.append(_Way(side, free))
    return ("tree" if of.trees else "cost", _Way(of.chosen, given, of.users(given)), others) if others else None


class _OfMember:
    """A member of a shared plan, and what other members make of its parts."""

    def __init__(self, plan: SharedPlan, member: MemberId, local: LocalPlans) -> None:
        self.plan, self.local, self._member = plan, local, plan.members[member]
        self.forms, self.trees = self._member.forms, plan.sharing != "prefix"
        self.chosen = plan_of_places(plan.plans[member], self.forms.names, trees=self.trees)

    def is_made(self, part: Side) -> bool:
        """True if other members have a part, within a window that is large enough."""
        node = self.plan.node_of(self.key_of(part))
        return node is not None and self._is_made(node)

    def _is_made(self, node: SharedNode) -> bool:
        others = (self.plan.members[name].window for name in node.sharers if name != self._member.id)
        return max(others, default=-1) >= self._member.window

    def users(self, parts: Sequence[Side]) -> int:
        """The number of members that use some parts, of each at least."""
        nodes = (self.plan.node_of(self.key_of(part)) for part in parts)
        return min((len(node.sharers) for node in nodes if node is not None), default=1)

    def key_of(self, part: Side) -> str:
        """The key of a part's node."""
        if self.trees:
            return self.forms.position_key(cast(PositionTree, part))
        return self.forms.order_key(cast("tuple[int, ...]", part))

    @property
    def widens(self) -> bool:
        """True if others use a node of the member, none of them within so large a window; any tree has all leaves."""
        return any(
            node.size > self.trees and len(node.sharers) > 1 and not self._is_made(node)
            for node in self.plan.nodes_of(self._member.id)
        )

    def made_by_others(self, side: Side) -> tuple[Side, ...]:
        """The largest subtrees, or the longest beginning, that others make."""
        if not self.trees:
            order = positions_of(side)
            beginnings = (order[:length] for length in range(len(order), 0, -1))
            return tuple(islice(filter(self.is_made, beginnings), 1))
        if isinstance(side, int):
            return ()
        if self.is_made(side):
            return (side,)
        return tuple(part for below in side for part in self.made_by_others(below))

    def alternatives(self) -> Iterator[PositionPlan]:
        """The cheapest order that begins with each pair of variables.

        Or the cheapest tree with each pair, and with a pair and another variable that others make.
        """
        places = range(self.local.size)
        if not self.trees:
            yield from map(self.local.cheapest_order, permutations(places, 2))
            return
        for pair in combinations(places, 2):
            yield self.local.cheapest_tree((pair,))
            for other in places if self.local.size > 3 else ():
                if other not in pair and self.is_made((pair, other)):
                    yield self.local.cheapest_tree(((pair, other),))
