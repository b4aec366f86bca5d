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
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.multi_pattern.costs import Statistics
from cep_pipeline.planning.multi_pattern.local_plans import MAX_VARIABLES, LocalPlans
from cep_pipeline.planning.multi_pattern.members import MemberId
from cep_pipeline.planning.multi_pattern.shared_plan import SharedPlan
from cep_pipeline.planning.multi_pattern.workload import named_order
from cep_pipeline.planning.orderings import GRAIN, DecidingComparison, Side, ln_measure
from cep_pipeline.planning.trees import Join, PositionTree, as_tree, named_tree, tree_of_positions

MOST_SHARED = 3
"""Comparisons that are kept of each member, the tightest ones."""
OF_EQUAL_SHARE = 0.5
"""Part of the equal share of a shared part's cost that counts for each member that uses it: members are not equal, and
numbers differ from day to day by more than that does."""


def sharing_comparisons(
    plan: SharedPlan, member: MemberId, local: LocalPlans, model: CostModel
) -> tuple[DecidingComparison, ...]:
    """The comparisons of a member's order or tree with others, of which other members make other parts.

    Parameters
    ----------
    local
        The member's cheapest orders and trees, by the numbers that the plan was made from.
    model
        The cost model by which it was made.

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
        ln_cost = ln_measure(measure, one.side, local.statistics, model, one.given)
        for share in (OF_EQUAL_SHARE / chosen.users, 0.0) if chosen.given else (0.0,):
            ln_chosen = ln_measure(measure, chosen.side, local.statistics, model, chosen.given, share)
            if -math.inf < ln_chosen < ln_cost:
                sides = measure, chosen.side, one.side, ln_chosen, ln_cost
                found.append(DecidingComparison(step, *sides, True, (chosen.given, one.given), share))
                break
    return tuple(sorted(found, key=lambda one: one.ln_rejected - one.ln_chosen)[:MOST_SHARED])


def exchanges_anew(
    plan: SharedPlan,
    statistics: Statistics,
    model: CostModel,
    also: Mapping[MemberId, Sequence[Side]] = MappingProxyType({}),
) -> None:
    """Give each member of a plan in turn the order or tree by which it adds least, where that is less than now.

    Parameters
    ----------
    plan
        The plan, which is changed.
    statistics
        Of each member its clause's numbers.
    also
        Orders or trees of members that are looked at, too: those that they were compared with before.
    """
    for member in list(plan.members):
        numbers = statistics[member]
        if numbers.size > MAX_VARIABLES:
            continue
        choice = _choice(plan, member, LocalPlans(numbers, model), also.get(member, ()))
        if choice is None:
            continue
        measure, chosen, others = choice
        costs = [ln_measure(measure, one.side, numbers, model, one.given) for one in (chosen, *others)]
        least = costs.index(min(costs))
        if costs[least] < costs[0] - GRAIN:
            better, names = others[least - 1].side, numbers.names
            plan.replace(member, named_tree(better, names) if measure == "tree" else named_order(better, names))


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
    of = (_OfOrders if plan.sharing == "prefix" else _OfTrees)(plan, member, local)
    given = of.made_by_others(of.chosen)
    if of.chosen in given or of.widens:
        return None
    others = []
    for side in dict.fromkeys((*also, *of.alternatives())):
        free = of.made_by_others(side)
        if side != of.chosen and free != given and side not in free:
            others.append(_Way(side, free))
    return (of.measure, _Way(of.chosen, given, of.users(given)), others) if others else None


class _OfMember(ABC):
    """A member of a shared plan, and what other members make of its parts."""

    measure = ""

    def __init__(self, plan: SharedPlan, member: MemberId, local: LocalPlans) -> None:
        self.plan, self.local, self._member = plan, local, plan.members[member]
        self.forms = self._member.forms

    def is_made(self, key: str) -> bool:
        """True if other members have a node, within a window that is large enough."""
        node = self.plan.node_of(key)
        if node is None:
            return False
        others = (self.plan.members[name].window for name in node.sharers if name != self._member.id)
        return max(others, default=-1) >= self._member.window

    def users(self, parts: Sequence[Side]) -> int:
        """The number of members that use some parts, of each at least."""
        nodes = (self.plan.node_of(self.key_of(part)) for part in parts)
        return min((len(node.sharers) for node in nodes if node is not None), default=1)

    @abstractmethod
    def key_of(self, part: Side) -> str:
        """The key of a part's node."""

    @property
    def widens(self) -> bool:
        """True if others use a node of the member, none of them within so large a window; any tree has all leaves."""
        least = 1 if self.plan.sharing == "prefix" else 2
        return any(
            node.size >= least and len(node.sharers) > 1 and not self.is_made(node.key)
            for node in self.plan.nodes_of(self._member.id)
        )


class _OfTrees(_OfMember):
    measure = "tree"

    def __init__(self, plan: SharedPlan, member: MemberId, local: LocalPlans) -> None:
        super().__init__(plan, member, local)
        planned = plan.plans[member]
        self.chosen = tree_of_positions(
            planned if isinstance(planned, str | Join) else as_tree(planned), self.forms.names
        )

    def key_of(self, part: Side) -> str:
        return self.forms.position_key(cast(PositionTree, part))

    def made_by_others(self, tree: Side) -> tuple[Side, ...]:
        """The largest subtrees that others make."""
        if isinstance(tree, int):
            return ()
        if self.is_made(self.key_of(tree)):
            return (tree,)
        left, right = tree
        return (*self.made_by_others(left), *self.made_by_others(right))

    def alternatives(self) -> Iterator[PositionTree]:
        """The cheapest tree with each pair of variables, and with a pair and another variable that others make."""
        places = range(self.local.size)
        for pair in combinations(places, 2):
            yield self.local.cheapest_tree((pair,))
            for other in places if self.local.size > 3 else ():
                if other not in pair and self.is_made(self.forms.position_key((pair, other))):
                    yield self.local.cheapest_tree(((pair, other),))


class _OfOrders(_OfMember):
    measure = "cost"

    def __init__(self, plan: SharedPlan, member: MemberId, local: LocalPlans) -> None:
        super().__init__(plan, member, local)
        planned = plan.plans[member]
        self.chosen = tuple(map(self.forms.names.index, planned if isinstance(planned, tuple) else (str(planned),)))

    def key_of(self, part: Side) -> str:
        return self.forms.order_key(cast(tuple[int, ...], part))

    def made_by_others(self, order: Side) -> tuple[Side, ...]:
        """The longest beginning that others make."""
        beginning = cast(tuple[int, ...], order)
        while beginning:
            if self.is_made(self.key_of(beginning)):
                return (beginning,)
            beginning = beginning[:-1]
        return ()

    def alternatives(self) -> Iterator[tuple[int, ...]]:
        """The cheapest order that begins with each pair of variables."""
        return map(self.local.cheapest_order, permutations(range(self.local.size), 2))
