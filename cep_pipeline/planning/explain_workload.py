"""The lines of explain about what patterns share: which nodes, by whom, and what that saves."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cep_pipeline.planning.explain_nodes import in_columns, listed
from cep_pipeline.planning.logarithms import format_ln
from cep_pipeline.planning.workload_plan import NodeUse, SharedWork, Sharing, WorkloadPlan

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
    """How the plan was found, and what its patterns cost together and apart."""
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


def workload_lines(sharing: Sharing, workload: WorkloadPlan) -> Iterator[str]:
    """The summary of a plan, and the nodes that its patterns share."""
    yield from summary_lines(sharing, workload)
    if not workload.shared:
        return
    yield ""
    rows: list[tuple[str, ...]] = [("node", "uses", "within", "cost", "apart", "saves", "where")]
    for number, work in enumerate(workload.shared[:MOST_NODES], 1):
        saved = format_ln(_ln_difference(work.ln_apart, work.ln_cost))
        size = f"{number}: {len(work.uses[0].variables)} variables"
        if len(work.uses[0].variables) == 1:
            size = size.removesuffix("s")
        costs = format_ln(work.ln_cost), format_ln(work.ln_apart)
        rows.append((size, str(len(work.uses)), work.window, *costs, saved, _named(work)))
    yield from in_columns(rows, "    ")
    if len(workload.shared) > MOST_NODES:
        yield f"    and {len(workload.shared) - MOST_NODES:,} more that save less"


def _ln_difference(ln_larger: float, ln_smaller: float) -> float:
    """ln of a difference; minus infinity where there is none."""
    rest = -math.expm1(min(ln_smaller - ln_larger, 0.0))
    return ln_larger + math.log(rest) if rest > 0 else -math.inf


def _named(work: SharedWork) -> str:
    named = "; ".join(map(_use, work.uses[:MOST_USES]))
    more = len(work.uses) - MOST_USES
    return f"{named}; and {more:,} more" if more > 0 else named


def _use(use: NodeUse) -> str:
    clause = f" ({use.clause + 1})" if use.clause else ""
    return f"{use.pattern}{clause}: {listed(use.variables)}"
