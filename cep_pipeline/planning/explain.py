"""The text of a plan for people: the order, what it is expected to cost, and why it won."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from cep_pipeline.planning.ordering import DecidingComparison, named, positions_of
from cep_pipeline.planning.plans import Alternative, ClausePlan, PatternPlan, Plan, PlanStep
from cep_pipeline.planning.trees import Join, Tree, leaves_of
from cep_pipeline.statistics.snapshot import Selectivity, Source

_TEXT = frozenset({"step", "binds", "leaf", "condition", "rests on"})
"""Headings of the columns of text."""


def explain_plan(plan: Plan, mechanism: str | Mapping[str, str] | None = None) -> str:
    """The whole plan; `mechanism` says what runs it (and why), for all patterns or by pattern."""
    lines = [
        f"plan {plan.plan_id}",
        f"  planner {plan.planner}, cost {plan.cost_model}: {format_ln(plan.ln_cost)} {plan.unit}",
        f"  statistics {plan.statistics.digest}: {_statistics(plan)}",
    ]
    for pattern in plan.patterns:
        lines += ["", *_pattern(plan, pattern, mechanism)]
    return "\n".join(lines) + "\n"


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


def _pattern(plan: Plan, pattern: PatternPlan, mechanism: str | Mapping[str, str] | None) -> Iterator[str]:
    runs_on = mechanism.get(pattern.pattern) if isinstance(mechanism, Mapping) else mechanism
    suffix = f", runs on {runs_on}" if runs_on else ""
    yield f"pattern {pattern.pattern}: {pattern.strategy} within {pattern.window}{suffix}"
    for clause in pattern.clauses:
        if len(pattern.clauses) > 1:
            yield ""
            yield f"  clause {clause.clause + 1} of {len(pattern.clauses)}"
        yield from _tree(clause)
        yield f"  cost  {format_ln(clause.ln_cost)} {plan.unit}"
        if clause.note:
            yield f"  note  {clause.note}"
        yield ""
        yield from _indented(_steps(clause.steps), "    ")
        conditions = _conditions(clause.steps)
        if len(conditions) > 1:
            yield ""
            yield from _indented(conditions, "    ")
        if len(clause.steps) > 1:
            yield ""
            yield "    why"
            yield from (f"      {line}" for line in _reasons(plan, clause))


def _tree(clause: ClausePlan) -> Iterator[str]:
    """The order, or the nodes of the tree, each above those that it joins."""
    if clause.tree is None:
        yield f"  order {', '.join(clause.order)}"
        return
    yield f"  tree  {clause.tree}"

    def nodes(tree: Tree, indent: str) -> Iterator[str]:
        yield indent + ", ".join(leaves_of(tree))
        if isinstance(tree, Join):
            yield from nodes(tree.left, indent + "  ")
            yield from nodes(tree.right, indent + "  ")

    yield from nodes(clause.tree, "        ")


def _steps(steps: Sequence[PlanStep]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("step", "binds", "leaf", "events", "events/s", "in a window", "passing", "partial matches")
    ]
    earlier = 0.0
    for number, step in enumerate(steps, 1):
        passing = step.ln_partial_matches - earlier - step.ln_instances
        rows.append(
            (
                str(number),
                step.variable,
                step.leaf,
                "given" if step.count is None else f"{step.count:,}" if step.count else "0, as if 0.5",
                format_number(step.rate_per_s),
                format_ln(step.ln_instances),
                format_ln(min(passing, 0.0)),
                format_ln(step.ln_partial_matches),
            )
        )
        earlier = step.ln_partial_matches
    return rows


def _conditions(steps: Sequence[PlanStep]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("step", "condition", "selectivity", "rests on")]
    for number, step in enumerate(steps, 1):
        if step.order_share < 1 - 1e-12:
            rows.append((str(number), "temporal order", format_number(step.order_share), "the pattern's order"))
        for condition in step.conditions:
            selectivity = condition.selectivity
            rows.append((str(number), condition.text, format_number(selectivity.value), _evidence(selectivity)))
    return rows


def _evidence(selectivity: Selectivity) -> str:
    match selectivity.source:
        case Source.ALL_PAIRS:
            return f"all {selectivity.pairs:,} pairs"
        case Source.SAMPLED_PAIRS:
            return f"{selectivity.tested:,} of {selectivity.pairs:,} pairs"
        case Source.OBSERVED:
            return f"{selectivity.tested:,} tested by detection"
        case Source.COMBINED:
            return f"{selectivity.tested:,} tested, in a sample and by detection"
        case Source.PRIOR:
            return "nothing measured: a prior by the condition's form"
        case Source.COUNT | Source.GIVEN | Source.WINDOW:
            return str(selectivity.source.value)


def _reasons(plan: Plan, clause: ClausePlan) -> Iterator[str]:
    names = _names_by_position(clause)
    for comparison in _tightest(clause.comparisons):
        yield _comparison(comparison, names)
    yield from _against(plan, clause)


def _names_by_position(clause: ClausePlan) -> tuple[str, ...]:
    """The clause's variables in pattern order, as the trivial order among the alternatives or the plan has them."""
    return next((other.order for other in clause.alternatives if other.planner == "trivial"), clause.order)


def _tightest(comparisons: Iterable[DecidingComparison]) -> list[DecidingComparison]:
    """Of each step the comparison that was closest to the other outcome."""
    tightest: dict[int, DecidingComparison] = {}
    for comparison in comparisons:
        held = tightest.get(comparison.step)
        if held is None or _margin(comparison) < _margin(held):
            tightest[comparison.step] = comparison
    return [tightest[step] for step in sorted(tightest)]


def _margin(comparison: DecidingComparison) -> float:
    return comparison.ln_rejected - comparison.ln_chosen


def _comparison(comparison: DecidingComparison, names: Sequence[str]) -> str:
    sides = f"{format_ln(comparison.ln_chosen)} against {format_ln(comparison.ln_rejected)}"
    if comparison.measure == "tree":
        chosen, rejected = (named(side, names) for side in (comparison.chosen, comparison.rejected))
        return f"join {comparison.step + 1}: {chosen} rather than {rejected}: cost below it {sides}"
    of_chosen, of_rejected = positions_of(comparison.chosen), positions_of(comparison.rejected)
    if comparison.measure == "cost":
        chosen, rejected = (", ".join(names[p] for p in order) for order in (of_chosen, of_rejected))
        text = f"{chosen} rather than {rejected}: cost before it {sides}"
    else:
        chosen, rejected = names[of_chosen[-1]], names[of_rejected[-1]]
        what = "instances in a window" if comparison.measure == "instances" else "partial matches after it"
        text = f"{chosen} rather than {rejected}: {sides} {what}"
    tie = " (a tie: the pattern's order decides)" if _margin(comparison) == 0 else ""
    return f"step {comparison.step + 1}: {text}{tie}"


def _against(plan: Plan, clause: ClausePlan) -> Iterator[str]:
    same = [other.planner for other in clause.alternatives if other.order == clause.order]
    if same:
        yield f"the same order by {', '.join(same)}"
    others: dict[tuple[str, ...], list[Alternative]] = {}
    for other in clause.alternatives:
        if other.order != clause.order:
            others.setdefault(other.order, []).append(other)
    for rank, (order, found) in enumerate(others.items()):
        ratio = format_ln(found[0].ln_cost - clause.ln_cost)
        yield (
            f"{'also tried' if rank else 'runner-up'}: {', '.join(order)} (by {', '.join(o.planner for o in found)}), "
            f"cost {format_ln(found[0].ln_cost)}, {ratio} times this one's"
        )
    cheapest = clause.runner_up
    if cheapest is not None and cheapest.ln_cost < clause.ln_cost - 1e-9:
        yield f"kept because planner {plan.planner} was asked for, though {cheapest.planner}'s order is cheaper"


def _indented(rows: Sequence[tuple[str, ...]], indent: str) -> Iterator[str]:
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


def format_number(value: float) -> str:
    """Four significant digits.

    Examples
    --------
    >>> format_number(1234567.0), format_number(0.49871), format_number(0.0), format_number(2e-9)
    ('1,235,000', '0.4987', '0', '2e-09')
    """
    if value == 0:
        return "0"
    return format_ln(math.log(value))


def format_ln(logarithm: float) -> str:
    """The number with this natural logarithm, to four significant digits, however large.

    Examples
    --------
    >>> format_ln(math.log(136.54)), format_ln(0.0), format_ln(1000.0)
    ('136.5', '1', '1.97e+434')
    """
    if logarithm == -math.inf:
        return "0"
    exponent = math.floor(logarithm / math.log(10) + 1e-12)
    if -4 <= exponent < 9:
        value = float(f"{math.exp(logarithm):.4g}")
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    mantissa = math.exp(logarithm - exponent * math.log(10))
    return f"{mantissa:.4g}e{exponent:+03d}"
