"""The lines of explain about what patterns share: which nodes, by whom, and what that saves."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from cep_pipeline.planning.explain.nodes import in_columns, listed
from cep_pipeline.planning.numbers.connected_parts import connected_parts
from cep_pipeline.planning.numbers.logarithms import format_ln, ln_sum
from cep_pipeline.planning.workload_plan import NodeUse, SharedPlanNode, Sharing, WorkloadPlan

MOST_NODES = 25
"""Of more shared nodes only those are shown that save most."""
MOST_USES = 4
"""Of more patterns that share a node only so many are named."""
_KINDS: dict[Sharing, str] = {
    "none": "nothing is shared",
    "prefix": "equal beginnings of orders are shared",
    "subexpression": "equal subtrees are shared",
}


def summary_lines(sharing: Sharing, workload: WorkloadPlan) -> Iterator[str]:
    """The search that found the plan, and the cost of its patterns together and apart."""
    search = workload.search
    details = [
        *([f"neighbourhood {search.neighbourhood}"] if search.neighbourhood else []),
        *([f"seed {search.seed}"] if search.seed is not None else []),
        *([f"{search.steps:,} steps"] if search.steps is not None else []),
    ]
    found = ", ".join([f"found by {search.planner}", *details])
    yield f"  sharing {sharing}: {_KINDS[sharing]}; {found}"
    times = format_ln(workload.ln_apart - workload.ln_cost)
    yield (
        f"  {workload.nodes:,} nodes instead of {workload.nodes_apart:,}, cost {format_ln(workload.ln_cost)} instead "
        f"of {format_ln(workload.ln_apart)} {workload.unit}: {times} times less"
    )


def workload_lines(
    sharing: Sharing, workload: WorkloadPlan, patterns: int, only: Collection[str] | None = None
) -> Iterator[str]:
    """The summary of a plan, and the nodes that its patterns share.

    Parameters
    ----------
    patterns
        How many it has.
    only
        Only nodes that one of these uses; None: those of all.
    """
    yield from summary_lines(sharing, workload)
    if not workload.shared:
        return
    yield from _groups(workload, patterns)
    shared = [work for work in workload.shared if only is None or any(use.pattern in only for use in work.uses)]
    if len(shared) > MOST_NODES:  # of many those say most that are more than events of one type
        for kind, several in (("a single variable", False), ("several variables", True)):
            of_kind = [work for work in shared if (len(work.uses[0].variables) > 1) is several]
            if of_kind:
                yield f"  {_uses(kind, of_kind)}"
        shared = [work for work in shared if len(work.uses[0].variables) > 1]
    if shared:
        yield ""
        yield from _table(shared)


def _groups(workload: WorkloadPlan, patterns: int) -> Iterator[str]:
    """The number of patterns that share nodes of several variables, and their groups."""
    joined = [work.uses for work in workload.shared if len(work.uses[0].variables) > 1]
    names = {use.pattern for uses in joined for use in uses}
    edges = ((uses[0].pattern, use.pattern) for uses in joined for use in uses)
    sizes = [len(part) for part in connected_parts(names, edges) if len(part) > 1]
    if sizes:
        groups = "1 group" if len(sizes) == 1 else f"{len(sizes):,} groups, the largest of {max(sizes):,}"
        yield f"  {sum(sizes):,} of {patterns:,} patterns have nodes of several variables in common, in {groups}"


def _uses(kind: str, shared: Sequence[SharedPlanNode]) -> str:
    """The cost that nodes of a kind save together."""
    nodes = "1 node" if len(shared) == 1 else f"{len(shared):,} nodes"
    saved = ln_sum(_ln_difference(work.ln_apart, work.ln_cost) for work in shared)
    verb = "stands" if len(shared) == 1 else "stand"
    return f"{nodes} of {kind} {verb} for {sum(len(work.uses) for work in shared):,}, which saves {format_ln(saved)}"


def _table(shared: Sequence[SharedPlanNode]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("node", "uses", "within", "cost", "apart", "saves", "where")]
    for number, work in enumerate(shared[:MOST_NODES], 1):
        saved = format_ln(_ln_difference(work.ln_apart, work.ln_cost))
        size = f"{number}: {len(work.uses[0].variables)} variables"
        if len(work.uses[0].variables) == 1:
            size = size.removesuffix("s")
        costs = format_ln(work.ln_cost), format_ln(work.ln_apart)
        rows.append((size, str(len(work.uses)), work.window, *costs, saved, _named(work)))
    yield from in_columns(rows, "    ")
    if len(shared) > MOST_NODES:
        yield f"    and {len(shared) - MOST_NODES:,} more that save less"


def _ln_difference(ln_larger: float, ln_smaller: float) -> float:
    """ln of a difference; minus infinity where there is none."""
    rest = -math.expm1(min(ln_smaller - ln_larger, 0.0))
    return ln_larger + math.log(rest) if rest > 0 else -math.inf


def _named(work: SharedPlanNode) -> str:
    named = "; ".join(map(_use, work.uses[:MOST_USES]))
    more = len(work.uses) - MOST_USES
    return f"{named}; and {more:,} more" if more > 0 else named


def _use(use: NodeUse) -> str:
    clause = f" ({use.clause + 1})" if use.clause else ""
    return f"{use.pattern}{clause}: {listed(use.variables)}"
