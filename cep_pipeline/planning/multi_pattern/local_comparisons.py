"""The comparisons that decided the local plans inside a shared plan: what its invariants are made of.

MCEP [0064] asks for "standard adaptivity mechanisms", and leaves open which. How a zone is put together (`local_zones`)
rests on comparisons as other plans do; they are recorded with the member that the zone is measured by. Where the search
ended before a zone was put together as cheaply as it can be, no comparison says so: only those that hold are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.multi_pattern.local_zones import (
    MAX_PARTS,
    CheapestOrders,
    CheapestTrees,
    TreeOfMember,
    same_users,
    widest,
)
from cep_pipeline.planning.multi_pattern.members import MemberId
from cep_pipeline.planning.multi_pattern.shared_plan import SharedPlan
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import DecidingComparison, comparisons_of_block, joins_of


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
        if widest(plan, of_member.node(join)) == member and 2 < len(parts) <= MAX_PARTS:
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
        if widest(plan, node) == member and 1 < len(beginning) - given <= MAX_PARTS:
            ways = CheapestOrders(order[:given], statistics, model).ways(beginning)
            yield from comparisons_of_block(step, "cost", beginning, ways, statistics, model)
