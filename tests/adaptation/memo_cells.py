"""All that the result of a dynamic program rests on: the memo cells of its blocks, filled anew.

A comparison of a plan names the best rival as it was when the plan was made; on other statistics another one may be the
best. Theorem 2 of the acep-invariants patent, planning again gives another plan if and only if a condition is violated,
takes for a dynamic program the rivals by the memo cells that the plan's blocks depend on: those of all subsets of their
variables. That costs what planning costs, and is for experiments and tests; invariants stay with the known rivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.algorithms.dynamic_programming import search_orders, search_trees
from cep_pipeline.planning.algorithms.zstream import RangeSearch
from cep_pipeline.planning.clause_questions import clause_statistics
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel, cost_named, with_latency
from cep_pipeline.planning.orderings import Way, WaysOf, grains, joins_of, ln_measure
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.planning.trees import PositionTree, Side, left_deep, positions_of, tree_of_positions
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


@dataclass(frozen=True, slots=True)
class CellCheck:
    """A block of a plan beside the best other way to build it, on fresh statistics.

    Attributes
    ----------
    pattern, clause, block
        As in `Invariant`.
    chosen, rejected
        The plan's order or tree up to the block, and the best of all others.
    left, right
        Natural logarithms of both.
    violated
        Whether the planner would take another way.
    """

    pattern: str
    clause: int
    block: int
    chosen: Side
    rejected: Side
    left: float
    right: float
    violated: bool


def verify_all_cells(plan: Plan, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot) -> tuple[CellCheck, ...]:
    """Check each block of plans by dynamic programming against the best of all its rivals.

    Raises
    ------
    PlanError
        A pattern's planner is no dynamic program, or the plan was not made for the patterns.
    """
    validate(plan, patterns)
    found: list[CellCheck] = []
    for pattern in patterns:
        pattern_plan = plan.for_pattern(pattern.name)
        if pattern_plan.planner not in BLOCKS_BY_CELLS:
            known = ", ".join(BLOCKS_BY_CELLS)
            raise PlanError(f"planner {pattern_plan.planner!r} has no memo cells; those that have: {known}")
        model = with_latency(cost_named(pattern_plan.cost_model), plan.alpha)
        for clause_plan, clause in zip(pattern_plan.clauses, pattern.clauses, strict=True):
            statistics = clause_statistics(pattern, clause, snapshot)
            side: Side = tuple(statistics.names.index(name) for name in clause_plan.order)
            if clause_plan.tree is not None:
                side = tree_of_positions(clause_plan.tree, statistics.names)
            blocks = BLOCKS_BY_CELLS[pattern_plan.planner](statistics, model, side)
            checks = (_checked(pattern.name, clause.index, statistics, model, block) for block in blocks)
            found += [check for check in checks if check is not None]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of a plan, and the ways to build one in its place."""

    step: int
    measure: str
    side: Side
    ways: Sequence[Way]


def _checked(
    pattern: str, clause: int, statistics: ClauseStatistics, cost: CostModel, block: _Block
) -> CellCheck | None:
    """A block beside its best rival; None where there is no other way to build it."""
    by_side = {way.side: way for way in sorted(block.ways, key=_preference, reverse=True)}
    own = by_side.pop(block.side, None)
    rival = min(by_side.values(), key=_preference, default=None)
    if rival is None:
        return None
    # Where the block is not among the ways, its own parts are no longer the best ones: it loses ties.
    left = ln_measure(block.measure, block.side, statistics, cost) if own is None else own.ln_measure
    wins_ties = own is not None and own.rank < rival.rank
    violated = grains(left) >= grains(rival.ln_measure) + wins_ties
    return CellCheck(pattern, clause, block.step, block.side, rival.side, left, rival.ln_measure, violated)


def _preference(way: Way) -> tuple[int, tuple[int, ...]]:
    return grains(way.ln_measure), way.rank


def _of_order(statistics: ClauseStatistics, cost: CostModel, side: Side) -> Iterator[_Block]:
    order = positions_of(side)
    if len(order) > 1:
        search = search_orders(statistics, cost, order)
        for step in range(1, len(order)):
            yield _Block(step, "cost", order[: step + 1], tuple(search.ways(order[: step + 1])))


def _of_tree(statistics: ClauseStatistics, cost: CostModel, side: Side) -> Iterator[_Block]:
    tree = cast(PositionTree, side)
    if cost.runs_orders:
        for block in _of_order(statistics, cost, positions_of(side)):
            ways = [replace(way, side=left_deep(positions_of(way.side))) for way in block.ways]
            yield _Block(block.step - 1, "tree", left_deep(positions_of(block.side)), ways)
    elif statistics.size > 2:
        yield from _of_joins(tree, search_trees(statistics, cost, tree).ways)


def _over_leaves(statistics: ClauseStatistics, cost: CostModel, side: Side) -> Iterator[_Block]:
    tree = cast(PositionTree, side)
    if statistics.size > 2 and not cost.runs_orders:
        yield from _of_joins(tree, RangeSearch.run(statistics, cost, positions_of(tree)).ways)


def _over_greedy_leaves(statistics: ClauseStatistics, cost: CostModel, side: Side) -> Iterator[_Block]:
    """Greedy's own blocks before those of the tree over its order."""
    order = positions_of(side)
    for step in range(len(order) - 1):
        sides = [(*order[:step], added) for added in order[step:]]
        ways = [Way(side, ln_measure("step", side, statistics, cost), side[-1:]) for side in sides]
        yield _Block(step, "step", order[: step + 1], ways)
    yield from _over_leaves(statistics, cost, side)


def _of_joins(tree: PositionTree, ways_of: WaysOf) -> Iterator[_Block]:
    for step, join in enumerate(joins_of(tree)):
        if len(positions_of(join)) > 2:
            yield _Block(step, "tree", join, ways_of(join))


BLOCKS_BY_CELLS: dict[str, Callable[[ClauseStatistics, CostModel, Side], Iterator[_Block]]] = {
    "dp_left_deep": _of_order,
    "zstream": _over_leaves,
    "zstream_ordered": _over_greedy_leaves,
    "dp_bushy": _of_tree,
}
"""Of the planners that are dynamic programs, the blocks of a plan from the first one on."""
