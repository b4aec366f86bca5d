"""The text of a plan for people: the order or the tree, what it is expected to cost, why it won, and what is shared.

All planners side by side on one pattern, too: the order or tree of each, what it costs, how long finding it took.
"""

from __future__ import annotations

import math
import textwrap
import time
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import repeat
from typing import TYPE_CHECKING, Protocol

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import (
    ON_KERNEL,
    Alternative,
    ClausePlan,
    NodeUse,
    PatternPlan,
    PlanNode,
    PlanStep,
    SharedPlanNode,
    Sharing,
    WorkloadPlan,
)
from cep_pipeline.planning.clause_statistics import format_ln, format_number, from_ln, ln_difference
from cep_pipeline.planning.costs import NUMBER, kernel_costs
from cep_pipeline.planning.make_plan import Replanner
from cep_pipeline.planning.orderings import DecidingComparison, named, tightest_of_blocks
from cep_pipeline.planning.planners import PLANNERS, without_invariants_because
from cep_pipeline.planning.trees import Join, OrderOrTree, Tree, leaves_of, nodes_of, positions_of, shape_of, written
from cep_pipeline.statistics.observed import NodeCounts
from cep_pipeline.statistics.snapshot import Selectivity, Source, StatisticsSnapshot

if TYPE_CHECKING:  # a plan explains itself
    from cep_pipeline.planning.plans import Plan

WIDTH = 118
"""Longest line of text."""
MOST_EXPLAINED = 20
"""The most patterns of a plan that are shown in full; of more, a list is shown until some are asked for."""
MOST_LISTED = 40
"""The most patterns that are listed: those that cost most."""
LONGEST_TREE = 80
"""Most characters of an order or tree in the list."""
FAR_OFF = 10.0
"""An estimate is marked where more than so many times as much, or as little, has happened."""
FEW = 100.0
"""The fewest tests by which a selectivity is judged."""
LONGEST_LIST = 6
"""The most variables that are all named; of more, the first two and the last two."""
_TEXT = {"step", "binds", "node", "leaf", "condition", "rests on", "where", "pattern", "order or tree", ""}
_TEXT |= {"a test on fused", "mechanisms"}
"""Headings of the columns of text."""
MOST_NODES = 25
"""The most shared nodes that are shown: those that save most."""
MOST_USES = 4
"""The most patterns that are named of those that share a node."""
_KINDS: dict[Sharing, str] = {
    "none": "nothing is shared",
    "prefix": "equal beginnings of orders are shared",
    "subexpression": "equal subtrees are shared",
}


class DetectionMetrics(Protocol):
    """The counts of a detection, as in `detection.mechanism.Metrics`."""

    @property
    def mechanisms(self) -> Mapping[str, str]: ...
    @property
    def nodes(self) -> Sequence[NodeCounts]: ...


def explain_plan(
    plan: Plan,
    mechanism: str | Mapping[str, str] | None = None,
    patterns: Collection[str] | None = None,
) -> str:
    """The plan of each pattern, or what they do together and a list, where they are many.

    Parameters
    ----------
    mechanism
        What runs it (and why), for all patterns or by pattern.
    patterns
        The names of those that are explained; None: all, of more than `MOST_EXPLAINED` a list.

    Raises
    ------
    InputError
        The plan has no pattern of one of these names.
    """
    if patterns is None and len(plan.patterns) > MOST_EXPLAINED:
        return "\n".join([*_headed(plan, None), "", *_list(plan, mechanism)]) + "\n"
    return _explained(plan, mechanism, {}, patterns)


def explain_analyzed(
    plan: Plan, metrics: DetectionMetrics, events: int | None = None, patterns: Collection[str] | None = None
) -> str:
    """The plan, and beside what was expected of each node what really happened there.

    Parameters
    ----------
    metrics
        What detection by this plan has counted.
    events
        The number of events that it ran over; None where they are those that the plan was made from.
    patterns
        The names of those that are explained; None: all.

    Notes
    -----
    An estimate is marked where it was off by more than 10 times: of the partial matches that were made at a node, or of
    the share of candidates that passed its conditions. What negated events reject is not expected, but counted.
    Patterns that are run together show each what they share, with what happened there for the longest of their windows.
    """
    seen = plan.statistics.events if events is None else events
    found: dict[str, dict[int, dict[frozenset[str], NodeCounts]]] = {}
    for node in metrics.nodes:
        for name, index, variables in ((node.pattern, node.clause, node.node), *node.shared_with):
            found.setdefault(name, {}).setdefault(index, {})[frozenset(variables)] = node
    observed: dict[str, dict[int, ObservedClause]] = {}
    for pattern in plan.patterns:
        windows = seen / pattern.events_in_window if seen and pattern.events_in_window else None
        counts = found.get(pattern.pattern, {})
        observed[pattern.pattern] = {
            clause.clause: ObservedClause(windows, counts.get(clause.clause, {})) for clause in pattern.clauses
        }
    return _explained(plan, metrics.mechanisms, observed, patterns)


def _explained(
    plan: Plan,
    mechanism: str | Mapping[str, str] | None,
    observed: Mapping[str, Mapping[int, ObservedClause]],
    only: Collection[str] | None,
) -> str:
    lines = [*_headed(plan, only)]
    for pattern in plan.patterns:
        if only is None or pattern.pattern in only:
            lines += ["", *_pattern(plan, pattern, mechanism, observed.get(pattern.pattern, {}))]
    return "\n".join(lines) + "\n"


def _headed(plan: Plan, only: Collection[str] | None) -> Iterator[str]:
    """The head of the text: the plan, and the work that its patterns (or some of them) share."""
    names = [pattern.pattern for pattern in plan.patterns]
    if unknown := sorted(set(only or ()).difference(names)):
        raise InputError(f"the plan has no pattern {unknown[0]!r}; it has: {listed(names)}")
    units = {pattern.unit for pattern in plan.patterns}
    total = f": {format_ln(plan.ln_cost)} {plan.unit}" if len(units) == 1 else ""
    alpha = f", alpha {plan.alpha:g}" if plan.alpha else ""
    yield f"plan {plan.plan_id}"
    yield f"  planner {plan.planner}, cost {plan.cost_model}{alpha}{total}"
    yield f"  statistics {plan.statistics.digest}: {_statistics(plan)}"
    if plan.workload is not None:
        yield from workload_lines(plan.sharing, plan.workload, only)
        tested = sum(len(list(_order_tested(clause))) for pattern in plan.patterns for clause in pattern.clauses)
        if tested:
            joins = "1 join takes" if tested == 1 else f"{tested:,} joins take"
            yield f"  {joins} what an AND of another pattern makes, and test{'s' if tested == 1 else ''} its order"


def _list(plan: Plan, mechanism: str | Mapping[str, str] | None) -> Iterator[str]:
    """The patterns that cost most, a line each."""
    named = {one.pattern: _runs_on(one, mechanism) for one in plan.patterns}
    for text, number in Counter(filter(None, named.values())).most_common():
        yield f"{number:,} of {len(plan.patterns):,} patterns run on {text}"
    units = {one.unit for one in plan.patterns}
    shown = (sorted(plan.patterns, key=lambda one: -one.ln_cost) if len(units) == 1 else plan.patterns)[:MOST_LISTED]
    rows: list[tuple[str, ...]] = [("pattern", "within", "cost", "order or tree")]
    for one in shown:
        cost = format_ln(one.ln_cost) + ("" if len(units) == 1 else f" {one.unit}")
        trees = "; ".join(written(clause.order_or_tree) for clause in one.clauses)
        rows.append((one.pattern, one.window, cost, textwrap.shorten(trees, LONGEST_TREE)))
    what = f"that cost most by themselves, in {plan.unit}" if len(units) == 1 else "that come first"
    yield f"the {len(shown):,} {what}:"
    yield ""
    yield from in_columns(rows, "    ")
    yield ""
    yield "steps, conditions and invariants of one: `cep explain --pattern NAME`; of all: `cep explain --json`"


def _runs_on(pattern: PatternPlan, mechanism: str | Mapping[str, str] | None) -> str | None:
    return mechanism.get(pattern.pattern) if isinstance(mechanism, Mapping) else mechanism


def _statistics(plan: Plan) -> str:
    summary = plan.statistics
    events = f"{summary.events:,} events of {summary.stream}"
    if summary.start_us is None or summary.end_us is None:
        return events
    return f"{events}, {_instant(summary.start_us)} to {_instant(summary.end_us)}"


def _instant(timestamp_us: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_us} us"


def _pattern(
    plan: Plan,
    pattern: PatternPlan,
    mechanism: str | Mapping[str, str] | None,
    observed: Mapping[int, ObservedClause],
) -> Iterator[str]:
    runs_on = _runs_on(pattern, mechanism)
    first, *more = f", runs on {runs_on}".split("; ") if runs_on else [""]
    yield f"pattern {pattern.pattern}: {pattern.strategy} within {pattern.window}{first}"
    for text in more:
        yield from _wrapped("  ", text)
    several = len(plan.patterns) > 1 or len(pattern.clauses) > 1
    if several:
        yield f"  by planner {pattern.planner}, cost {pattern.cost_model}: {format_ln(pattern.ln_cost)} {pattern.unit}"
    for clause in pattern.clauses:
        if len(pattern.clauses) > 1:
            yield ""
            yield f"  clause {clause.clause + 1} of {len(pattern.clauses)}"
        what = "order" if clause.tree is None else "tree "
        yield from _wrapped(f"  {what} ", written(clause.order_or_tree))
        for tested in _order_tested(clause):
            yield from _wrapped(
                "  order ", f"{tested}: made without it, as the AND of others is, and tested afterwards"
            )
        yield f"  cost  {format_ln(clause.ln_cost)} {pattern.unit}"
        if clause.ln_waiting is not None and plan.alpha:
            yield f"        of which latency {format_ln(clause.ln_waiting)}, weighed by {plan.alpha:g}"
        if clause.note:
            yield from _wrapped("  note  ", clause.note)
        yield ""
        yield from node_lines(clause, observed.get(clause.clause))
        if len(clause.steps) > 1:
            yield ""
            yield from _wrapped("    ", f"invariants: {_invariants_of(pattern, clause)}")
            names = _names_by_position(clause)
            for comparison in tightest_of_blocks(clause.comparisons):
                yield from _wrapped("      ", _comparison(comparison, names))
            against = list(_against(pattern, clause))
            if against:
                yield "    why"
            for line in against:
                yield from _wrapped("      ", line)


def _wrapped(head: str, text: str) -> list[str]:
    """A text behind its head, on several lines where it is long."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * (len(head) + 2), break_long_words=False
    )


def _invariants_of(pattern: PatternPlan, clause: ClausePlan) -> str:
    if clause.comparisons:
        return f"as soon as one of these comes out otherwise, {pattern.planner} makes another plan"
    return f"none; {without_invariants_because(pattern.planner) or clause.note or 'there is no other way'}"


def _names_by_position(clause: ClausePlan) -> tuple[str, ...]:
    """The clause's variables in pattern order, to which positions refer: as the sides that were chosen bind them."""
    joins = [] if clause.tree is None else [node.leaves for node in nodes_of(clause.tree) if isinstance(node, Join)]
    names: dict[int, str] = {}
    for comparison in clause.comparisons:
        bound = clause.order[: comparison.step + 1]
        if comparison.measure == "tree":
            bound = joins[comparison.step]
        elif comparison.measure == "instances":
            bound = bound[-1:]
        names.update(zip(positions_of(comparison.chosen), bound, strict=True))
    left = [name for name in clause.order if name not in names.values()]
    return tuple(names.get(position) or left.pop() for position in range(len(clause.order)))


def _comparison(comparison: DecidingComparison, names: Sequence[str]) -> str:
    sides = f"{format_ln(comparison.ln_chosen)} against {format_ln(comparison.ln_rejected)}"
    if comparison.measure == "tree":
        chosen, rejected = (named(side, names) for side in (comparison.chosen, comparison.rejected))
        return f"join {comparison.step + 1}: {chosen} rather than {rejected}: the joins below it cost {sides}"
    of_chosen, of_rejected = positions_of(comparison.chosen), positions_of(comparison.rejected)
    if comparison.measure == "cost":
        chosen, rejected = (listed([names[p] for p in order]) for order in (of_chosen, of_rejected))
        text = f"{chosen} rather than {rejected}: the steps before it cost {sides}"
    else:
        chosen, rejected = names[of_chosen[-1]], names[of_rejected[-1]]
        what = "instances in a window" if comparison.measure == "instances" else "cost of it"
        text = f"{chosen} rather than {rejected}: {what} {sides}"
    tied = comparison.ln_rejected == comparison.ln_chosen
    tie = " (a tie: the pattern's order decides)" if tied else ""
    return f"step {comparison.step + 1}: {text}{tie}"


def _against(pattern: PatternPlan, clause: ClausePlan) -> Iterator[str]:
    own, kind = shape_of(clause.order_or_tree), "order" if clause.tree is None else "tree"
    found: dict[Hashable, list[Alternative]] = {}
    for other in clause.alternatives:
        found.setdefault((other.planner == ON_KERNEL, shape_of(other.order_or_tree)), []).append(other)
    for of, alike in found.items():
        one, by, cost = alike[0], ", ".join(other.planner for other in alike), format_ln(alike[0].ln_cost)
        if one.planner == ON_KERNEL:
            yield (
                f"columnar mechanisms run the order {written(one.order)} instead, which stores nothing to be shared: "
                f"it takes {cost} ns a window there"
            )
        elif of == (False, own):
            yield f"the same {kind} by {by}"
        else:
            head = "runner-up" if one is clause.runner_up else "also tried"
            # What mechanisms of one kind do says nothing of the other.
            times = f", {format_ln(one.ln_cost - clause.ln_cost)} times this one's"
            same_kind = (one.tree is None) == (clause.tree is None)
            yield f"{head}: {written(one.order_or_tree)} (by {by}), cost {cost}{times if same_kind else ''}"
    cheapest = clause.runner_up
    if cheapest is not None and cheapest.ln_cost < clause.ln_cost - 1e-9:
        yield f"kept because the planner is {pattern.planner}, though {cheapest.planner}'s {kind} is cheaper"


@dataclass(frozen=True)
class ObservedClause:
    """The observed counts of a clause.

    Attributes
    ----------
    windows
        How many times the time of a window has passed; None where it is not known.
    counts
        The variables bound at a node -> what happened there.
    """

    windows: float | None
    counts: Mapping[frozenset[str], NodeCounts]


def node_lines(clause: ClausePlan, observed: ObservedClause | None = None) -> Iterator[str]:
    """The steps or the tree, what is tested where, and what has happened where that is known."""
    yield from in_columns(_steps(clause.steps) if clause.tree is None else _tree(clause, clause.tree), "    ")
    conditions = _conditions(clause)
    if len(conditions) > 1:
        yield ""
        yield from in_columns(conditions, "    ")
    if clause.negations:
        yield ""
        yield from (f"    {line}" for line in _negations(clause))
    if observed is not None:
        yield ""
        yield from in_columns(_happened(clause, observed), "    ")


def _steps(steps: Sequence[PlanStep]) -> list[tuple[str, ...]]:
    heading = ("step", "binds", "leaf", "events", "events/s", "in a window", "passing", "partial matches")
    rows: list[tuple[str, ...]] = [heading]
    earlier = 0.0
    for number, step in enumerate(steps, 1):
        passing = step.ln_partial_matches - earlier - step.ln_instances
        rows.append((str(number), step.variable, *_leaf(step), *_passing(passing, step)))
        earlier = step.ln_partial_matches
    return rows


def _leaf(step: PlanStep) -> tuple[str, ...]:
    events = "given" if step.count is None else f"{step.count:,}" if step.count else "0, as if 0.5"
    return step.leaf, events, format_number(step.rate_per_s), format_ln(step.ln_instances)


def _passing(ln_share: float, expected: PlanStep | PlanNode) -> tuple[str, str]:
    return format_ln(min(ln_share, 0.0)), format_ln(expected.ln_partial_matches)


def _tree(clause: ClausePlan, tree: Join) -> list[tuple[str, ...]]:
    """The nodes of the tree, each above those that it joins, with lines from the one to the others."""
    heading = ("node", "leaf", "events", "events/s", "in a window", "passing", "partial matches")
    rows: list[tuple[str, ...]] = [heading]
    expected = clause.expected
    numbers = node_names(clause)

    def add(node: Tree, own: str, below: str) -> None:
        found = expected.get(leaves_of(node))
        label = own + numbers[leaves_of(node)]
        if isinstance(found, PlanStep):
            passing = found.ln_partial_matches - found.ln_instances
            rows.append((label, *_leaf(found), *_passing(passing, found)))
        elif isinstance(node, Join) and found is not None:
            sides = (expected[leaves_of(node.left)], expected[leaves_of(node.right)])
            passing = found.ln_partial_matches - sum(side.ln_partial_matches for side in sides)
            rows.append((label, "", "", "", "", *_passing(passing, found)))
        else:
            rows.append((label, "", "", "", "", "", ""))
        if isinstance(node, str):
            return
        add(node.left, f"{below}|- ", f"{below}|  ")
        add(node.right, f"{below}`- ", f"{below}   ")

    add(tree, "", "")
    return rows


def _order_tested(clause: ClausePlan) -> Iterator[str]:
    """The variables of each join whose order is tested on what is made without it."""
    if clause.tree is not None:
        yield from (listed(one.leaves) for one in nodes_of(clause.tree) if isinstance(one, Join) and one.in_order)


def node_names(clause: ClausePlan) -> dict[tuple[str, ...], str]:
    """The name of each step, leaf or join in the tables, by its variables in plan order."""
    if clause.tree is None:
        return {clause.order[: place + 1]: str(place + 1) for place in range(len(clause.order))}
    joins = [node.leaves for node in nodes_of(clause.tree) if isinstance(node, Join)]
    names = {(variable,): variable for variable in clause.order}
    return names | {leaves: f"join {number}: {listed(leaves)}" for number, leaves in enumerate(joins, 1)}


def listed(names: Sequence[str]) -> str:
    """The names, of many the first and the last ones.

    Examples
    --------
    >>> listed("abc"), listed("abcdefghij")
    ('a, b, c', 'a, b, ..., i, j')
    """
    if len(names) <= LONGEST_LIST:
        return ", ".join(names)
    return ", ".join((*names[:2], "...", *names[-2:]))


def _conditions(clause: ClausePlan) -> list[tuple[str, ...]]:
    what = "step" if clause.tree is None else "node"
    rows: list[tuple[str, ...]] = [(what, "condition", "selectivity", "rests on", "a test on fused")]
    names = node_names(clause)
    for variables, expected in clause.expected.items():
        name = names[variables].partition(":")[0]
        if expected.order_share < 1 - 1e-12:
            rows.append((name, "temporal order", format_number(expected.order_share), "the pattern's order", ""))
        for condition in expected.conditions:
            evidence = _evidence(condition)
            if condition.correction is not None:
                evidence = f"together {format_number(condition.correction)} times what each alone says; {evidence}"
            rows.append((name, condition.text, format_number(condition.value), evidence, _test(condition.kind)))
    return rows if any(row[-1] for row in rows[1:]) else [row[:-1] for row in rows]


def _test(kind: str) -> str:
    """The nanoseconds of a test of a kind; nothing of a plain comparison, and of what was not measured."""
    cost = kernel_costs().tests.get(kind)
    return "" if cost is None or kind == NUMBER else f"{cost:.2g} ns ({kind})"


def _evidence(selectivity: Selectivity) -> str:
    match selectivity.source:
        case Source.ALL_PAIRS:
            return f"all {selectivity.pairs:,} pairs"
        case Source.SAMPLED_PAIRS:
            return f"{selectivity.tested:,} of {selectivity.pairs:,} pairs"
        case Source.PRIOR:
            return "nothing measured: a prior by the condition's form"
        case Source.COUNT | Source.GIVEN | Source.WINDOW:
            return str(selectivity.source.value)


def _negations(clause: ClausePlan) -> Iterator[str]:
    names = node_names(clause)
    for negation in clause.negations:
        place = names.get(negation.asked_with, "").partition(":")[0]
        where = f"step {place}" if clause.tree is None else place
        reasons = [f"its place is said by the events of {listed(negation.between)}"]
        if negation.compared:
            reasons.append(f"it is compared with {listed(negation.compared)}")
        leaf = f"{negation.leaf}, {format_number(negation.rate_per_s)} events/s"
        if negation.of_structure:
            yield f"~{negation.variable} ({leaf}) is asked of each finished match:"
        else:
            yield f"~{negation.variable} ({leaf}) is asked at {where}, the earliest with all of these bound:"
        yield f"  {', and '.join(reasons)}"


def _happened(clause: ClausePlan, observed: ObservedClause) -> list[tuple[str, ...]]:
    """A table of the observed and the expected numbers of each node, and its sharers; `<<` marks estimates far off."""
    heading = ("step" if clause.tree is None else "node", "expected", "candidates", "passes", "of expected")
    rows: list[tuple[str, ...]] = [(*heading, "passing expected", "passing", "stored", "")]
    names = node_names(clause)
    for variables, expected in clause.expected.items():
        name = names[variables].partition(":")[0]
        counts = observed.counts.get(frozenset(variables))
        if counts is None:
            rows.append((name, "", "", "", "", "", "", "", "the mechanism has no such node"))
            continue
        made = None if observed.windows is None else expected.ln_made + math.log(observed.windows)
        tests = [c.value if c.correction is None else c.correction for c in expected.conditions if not c.agreement]
        share, passing = math.prod(tests), counts.passes / counts.candidates if counts.candidates else 0.0
        judged = bool(tests) and counts.candidates >= FEW
        uses = len(counts.shared_with) + 1
        notes = [f"found once for {uses} uses"] if uses > 1 else []
        marks = []
        if made is not None and far_off(from_ln(made), counts.passes):
            marks.append("partial matches")
        if judged and far_off(share * counts.candidates, counts.passes):
            marks.append("selectivity")
        if marks:
            notes.append(f"<< {' and '.join(marks)} off by more than {FAR_OFF:g}x")
        rows.append(
            (
                name,
                "" if made is None else format_ln(made),
                f"{counts.candidates:,}",
                f"{counts.passes:,}",
                "" if made is None else format_number(counts.passes / max(from_ln(made), 1e-300)),
                format_number(share) if tests else "",
                format_number(passing) if tests and counts.candidates else "",
                f"{counts.created:,}" if counts.created else "",
                "  ".join(notes),
            )
        )
    return rows


def far_off(expected: float, happened: float) -> bool:
    """True if an estimate was off by more than `FAR_OFF` times; numbers below one count as one.

    Examples
    --------
    >>> far_off(3.0, 31), far_off(0.001, 9), far_off(250.0, 24)
    (True, False, True)
    """
    one, other = max(expected, 1.0), max(happened, 1.0)
    return one > FAR_OFF * other or other > FAR_OFF * one


def in_columns(rows: Sequence[tuple[str, ...]], indent: str) -> Iterator[str]:
    """Columns side by side: numbers to the right, text to the left."""
    columns = list(zip(*rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [column[0] not in _TEXT for column in columns]
    for row in rows:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        yield (indent + "  ".join(cells)).rstrip()


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


def workload_lines(sharing: Sharing, workload: WorkloadPlan, only: Collection[str] | None = None) -> Iterator[str]:
    """The summary of a plan, and the nodes that its patterns share; of these, those that one of some patterns uses."""
    yield from summary_lines(sharing, workload)
    if not workload.shared:
        return
    shared = [work for work in workload.shared if only is None or any(use.pattern in only for use in work.uses)]
    if len(shared) > MOST_NODES:  # of many those say most that are more than events of one type
        shared = [work for work in shared if len(work.uses[0].variables) > 1]
    if shared:
        yield ""
        yield from _table(shared)


def _table(shared: Sequence[SharedPlanNode]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("node", "uses", "within", "cost", "apart", "saves", "where")]
    for number, work in enumerate(shared[:MOST_NODES], 1):
        saved = format_ln(ln_difference(work.ln_apart, work.ln_cost))
        size = f"{number}: {len(work.uses[0].variables)} variables"
        if len(work.uses[0].variables) == 1:
            size = size.removesuffix("s")
        costs = format_ln(work.ln_cost), format_ln(work.ln_apart)
        rows.append((size, str(len(work.uses)), work.window, *costs, saved, _users(work)))
    yield from in_columns(rows, "    ")
    if len(shared) > MOST_NODES:
        yield f"    and {len(shared) - MOST_NODES:,} more that save less"


def _users(work: SharedPlanNode) -> str:
    users = "; ".join(map(_use, work.uses[:MOST_USES]))
    more = len(work.uses) - MOST_USES
    return f"{users}; and {more:,} more" if more > 0 else users


def _use(use: NodeUse) -> str:
    clause = f" ({use.clause + 1})" if use.clause else ""
    return f"{use.pattern}{clause}: {listed(use.variables)}"


MOST_RUNS, RUN_AGAIN_S = 3, 1.0
"""A planner that took no longer is run again, so often at most, and its shortest time counts: what is compiled or
looked up once is no part of it."""


@dataclass(frozen=True)
class PlannerResult:
    """The plan of one planner for a pattern.

    Attributes
    ----------
    planner
        Its name.
    orders
        For each clause an order or a tree.
    ln_cost
        Natural logarithm of the cost of all clauses.
    seconds
        Seconds of planning, without the time for explanations.
    notes
        What a person should know of how it was found, in the order of the clauses; those that say nothing left out.
    """

    planner: str
    orders: tuple[OrderOrTree, ...]
    ln_cost: float
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The orders and trees as people read them.

        Examples
        --------
        >>> PlannerResult("greedy", (("b", "a"), ("c",)), 0.0, 0.001).text
        'b, a; c'
        """
        return "; ".join(", ".join(order) if isinstance(order, Sequence) else str(order) for order in self.orders)


def planners_for(pattern: Pattern) -> tuple[str, ...]:
    """The planners that plan a pattern: all of them under skip_till_any_match, else the one of the pattern's order."""
    return tuple(PLANNERS) if pattern.strategy.forks else ("trivial",)


def compare_planners(
    pattern: Pattern,
    snapshot: StatisticsSnapshot,
    planners: Sequence[str] | None = None,
    cost: str | None = None,
    alpha: float = 0.0,
) -> tuple[PlannerResult, ...]:
    """Let several planners plan a pattern.

    Parameters
    ----------
    pattern, snapshot, cost, alpha
        As `planning.plan` takes them.
    planners
        Keys of `PLANNERS`; None: those of `planners_for`.

    Raises
    ------
    InputError, PlanError
        As `planning.plan`.
    """
    names = planners_for(pattern) if planners is None else tuple(planners)
    return tuple(map(_planned_by, [Replanner(pattern, name, cost, alpha) for name in names], repeat(snapshot)))


def _planned_by(planner: Replanner, snapshot: StatisticsSnapshot) -> PlannerResult:
    seconds: list[float] = []
    while not seconds or (len(seconds) < MOST_RUNS and seconds[-1] <= RUN_AGAIN_S):
        begin = time.perf_counter()
        found = planner.search(snapshot)
        seconds.append(time.perf_counter() - begin)
    return PlannerResult(
        planner.name,
        tuple(found.runs),
        planner.ln_cost(found.orderings, found),
        min(seconds),
        tuple(made.note for made in found.orderings if made.note),
    )
