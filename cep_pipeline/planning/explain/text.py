"""The text of a plan for people: the order or the tree, what it is expected to cost, and why it won."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from cep_pipeline.errors import InputError
from cep_pipeline.planning.clause_plans import Alternative, ClausePlan, PatternPlan, StatisticsSummary
from cep_pipeline.planning.explain.nodes import (
    LONGEST_LIST,
    ObservedClause,
    ObservedCounts,
    in_columns,
    listed,
    node_lines,
)
from cep_pipeline.planning.explain.workload import workload_lines
from cep_pipeline.planning.numbers.logarithms import format_ln
from cep_pipeline.planning.orderings import DecidingComparison, Side, named, positions_of, tightest_of_blocks
from cep_pipeline.planning.planners import LOCAL_SEARCHES, without_invariants_because
from cep_pipeline.planning.trees import Join, nodes_of, shape_of, written
from cep_pipeline.planning.workload_plan import Sharing, WorkloadPlan

WIDTH = 118
"""Longest line of text."""
MOST_EXPLAINED = 20
"""Of a plan of more patterns only a list is shown, until some are asked for."""
MOST_LISTED = 40
"""Of more patterns only those are listed that cost most."""
LONGEST_TREE = 80
"""So many characters of an order or tree stand in the list."""


class ExplainedPlan(Protocol):
    """A plan as the text reads it; `plans.Plan` is one."""

    @property
    def plan_id(self) -> str: ...
    @property
    def planner(self) -> str: ...
    @property
    def cost_model(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def ln_cost(self) -> float: ...
    @property
    def alpha(self) -> float: ...
    @property
    def statistics(self) -> StatisticsSummary: ...
    @property
    def patterns(self) -> tuple[PatternPlan, ...]: ...
    @property
    def sharing(self) -> Sharing: ...
    @property
    def workload(self) -> WorkloadPlan | None: ...


class ObservedNode(ObservedCounts, Protocol):
    """The counts of one node of a plan, as in `detection.mechanism.NodeCounts`."""

    @property
    def pattern(self) -> str: ...
    @property
    def clause(self) -> int: ...
    @property
    def node(self) -> tuple[str, ...]: ...
    @property
    def shared_with(self) -> tuple[tuple[str, int, tuple[str, ...]], ...]: ...


class DetectionMetrics(Protocol):
    """The counts of a detection, as in `detection.mechanism.Metrics`."""

    @property
    def mechanisms(self) -> Mapping[str, str]: ...
    @property
    def nodes(self) -> Sequence[ObservedNode]: ...


def explain_plan(
    plan: ExplainedPlan, mechanism: str | Mapping[str, str] | None = None, patterns: Collection[str] | None = None
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
    plan: ExplainedPlan, metrics: DetectionMetrics, events: int | None = None, patterns: Collection[str] | None = None
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
    found: dict[str, dict[int, dict[frozenset[str], ObservedNode]]] = {}
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
    plan: ExplainedPlan,
    mechanism: str | Mapping[str, str] | None,
    observed: Mapping[str, Mapping[int, ObservedClause]],
    only: Collection[str] | None,
) -> str:
    lines = list(_headed(plan, only))
    for pattern in plan.patterns:
        if only is None or pattern.pattern in only:
            lines += ["", *_pattern(plan, pattern, mechanism, observed.get(pattern.pattern, {}))]
    return "\n".join(lines) + "\n"


def _headed(plan: ExplainedPlan, only: Collection[str] | None) -> Iterator[str]:
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
        yield from workload_lines(plan.sharing, plan.workload, len(names), only)


def _list(plan: ExplainedPlan, mechanism: str | Mapping[str, str] | None) -> Iterator[str]:
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
    yield "steps, conditions and invariants of one: `cep explain --pattern NAME`; of all: `cep explain --full`"


def _runs_on(pattern: PatternPlan, mechanism: str | Mapping[str, str] | None) -> str | None:
    return mechanism.get(pattern.pattern) if isinstance(mechanism, Mapping) else mechanism


def _statistics(plan: ExplainedPlan) -> str:
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
    plan: ExplainedPlan,
    pattern: PatternPlan,
    mechanism: str | Mapping[str, str] | None,
    observed: Mapping[int, ObservedClause],
) -> Iterator[str]:
    runs_on = _runs_on(pattern, mechanism)
    suffix = f", runs on {runs_on}" if runs_on else ""
    yield f"pattern {pattern.pattern}: {pattern.strategy} within {pattern.window}{suffix}"
    several = len(plan.patterns) > 1 or len(pattern.clauses) > 1
    if several:
        yield f"  by planner {pattern.planner}, cost {pattern.cost_model}: {format_ln(pattern.ln_cost)} {pattern.unit}"
    for clause in pattern.clauses:
        if len(pattern.clauses) > 1:
            yield ""
            yield f"  clause {clause.clause + 1} of {len(pattern.clauses)}"
        what = "order" if clause.tree is None else "tree "
        yield from _wrapped(f"  {what} ", written(clause.order_or_tree))
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
    if pattern.planner in LOCAL_SEARCHES:
        if clause.comparisons:
            return "as soon as one of these comes out otherwise, what is connected with it is planned again"
        return "none recorded here; what it shares has those of another pattern, and its numbers have a threshold"
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
        chosen, rejected = (_named(side, names) for side in (comparison.chosen, comparison.rejected))
        return f"join {comparison.step + 1}: {chosen} rather than {rejected}: cost below it {sides}"
    of_chosen, of_rejected = positions_of(comparison.chosen), positions_of(comparison.rejected)
    if comparison.measure == "cost":
        chosen, rejected = (listed([names[p] for p in order]) for order in (of_chosen, of_rejected))
        text = f"{chosen} rather than {rejected}: cost before it {sides}"
    else:
        chosen, rejected = names[of_chosen[-1]], names[of_rejected[-1]]
        what = "instances in a window" if comparison.measure == "instances" else "cost of it"
        text = f"{chosen} rather than {rejected}: {what} {sides}"
    tied = comparison.ln_rejected == comparison.ln_chosen
    tie = " (a tie: the pattern's order decides)" if tied else ""
    return f"step {comparison.step + 1}: {text}{tie}"


def _named(side: Side, names: Sequence[str]) -> str:
    """A tree of positions as people read it; of a large one how its root joins the variables."""
    if isinstance(side, int) or len(positions_of(side)) <= LONGEST_LIST:
        return named(side, names)
    parts = (positions_of(part) for part in side)
    return f"({' with '.join(listed([names[position] for position in part]) for part in parts)})"


def _against(pattern: PatternPlan, clause: ClausePlan) -> Iterator[str]:
    own = shape_of(clause.order_or_tree)
    same = [other.planner for other in clause.alternatives if shape_of(other.order_or_tree) == own]
    if same:
        yield f"the same {_kind(clause.tree)} by {', '.join(same)}"
    others: dict[Hashable, list[Alternative]] = {}
    for other in clause.alternatives:
        if shape_of(other.order_or_tree) != own:
            others.setdefault(shape_of(other.order_or_tree), []).append(other)
    rivals = 0
    for found in others.values():
        text = (
            f"{_bound(found[0])} (by {', '.join(other.planner for other in found)}), cost {format_ln(found[0].ln_cost)}"
        )
        if (found[0].tree is None) != (clause.tree is None):  # what mechanisms of one kind do says nothing of the other
            yield f"also tried, as a {_kind(found[0].tree)}: {text}"
            continue
        ratio = format_ln(found[0].ln_cost - clause.ln_cost)
        yield f"{'also tried' if rivals else 'runner-up'}: {text}, {ratio} times this one's"
        rivals += 1
    cheapest = clause.runner_up
    if cheapest is not None and cheapest.ln_cost < clause.ln_cost - 1e-9:
        kind = _kind(clause.tree)
        yield f"kept because the planner is {pattern.planner}, though {cheapest.planner}'s {kind} is cheaper"


def _kind(tree: Join | None) -> str:
    return "order" if tree is None else "tree"


def _bound(other: Alternative) -> str:
    return written(other.order_or_tree)
