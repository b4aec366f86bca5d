"""`cep plan --compare`: all planners side by side, a table a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from cep_pipeline.cli.figures import count_per_s, format_seconds, times_as_fast
from cep_pipeline.cli.options import align_right, counted
from cep_pipeline.cli.terminal import Terminal, output_console, say_json
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from cep_pipeline.detection.compare_plans import ComparedPlan, PlanComparison
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.statistics import StatisticsSnapshot

CHOSEN = "▶"
NOTEWORTHY = 1.1
"""What is less faster than this may be chance."""


def show_comparisons(
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    sample: pa.Table,
    mechanisms: Mapping[str, str],
    planner: str,
    cost: str | None,
    alpha: float,
    as_json: bool,
) -> None:
    """Compare the planners on each pattern, and print tables or JSON."""
    from cep_pipeline.detection.compare_plans import compare_plans
    from cep_pipeline.detection.detect import as_run

    if not sample.num_rows:
        raise InputError("there are no events to run plans over: --compare needs some")
    console = Terminal(stderr=True)
    comparisons = []
    for pattern in patterns:
        with console.status(f"comparing the plans of {pattern.name}"):
            run, events = as_run(pattern, sample)
            found = compare_plans(run, snapshot, events, mechanisms[pattern.name], planner, cost, alpha)
        comparisons.append(found)
    if as_json:
        say_json([comparison.to_json() for comparison in comparisons])
        return
    for comparison in comparisons:
        _print(output_console(), comparison)


def _print(console: Terminal, comparison: PlanComparison) -> None:
    console.print(
        f"pattern {comparison.pattern} on {comparison.mechanism}: the first {counted(comparison.events, 'event')}, "
        f"costs by {comparison.cost_model} ({comparison.unit})",
        soft_wrap=True,
        highlight=False,
    )
    table = Table("", "planner", "order or tree", "cost", "planning", "events/s", "matches", "most held")
    align_right(table.columns[3:])
    table.columns[2].overflow = "fold"
    for plan in comparison.plans:
        table.add_row(*_cells(plan), style="bold" if plan.chosen else "")
    console.print(table)
    if comparison.cost_model == "throughput" and any(plan.planned.text.startswith("(") for plan in comparison.plans):
        console.print(
            "The cost of a tree counts what its leaves hold too, that of an order does not (JQPG sections 4.1, 4.2).",
            soft_wrap=True,
            highlight=False,
        )
    chosen = next((plan for plan in comparison.plans if plan.chosen), None)
    fastest = comparison.fastest
    if chosen is not None:
        line = f"{CHOSEN} {chosen.planned.planner} is what the pattern is planned by"
        if fastest is not None and chosen.run is not None and fastest.run is not None:
            ratio = fastest.run.per_s / chosen.run.per_s
            line += (
                "; no plan ran faster by more than a tenth"
                if ratio <= NOTEWORTHY
                else f"; the fastest plan, of {fastest.planned.planner}, ran {times_as_fast(ratio)} times as fast"
            )
        console.print(line, soft_wrap=True, highlight=False)
        for note in chosen.planned.notes:
            console.print(f"  {note}", soft_wrap=True, highlight=False)
    console.print()


def _cells(plan: ComparedPlan) -> Iterator[str]:
    from cep_pipeline.planning.numbers.logarithms import format_ln

    yield CHOSEN if plan.chosen else ""
    yield plan.planned.planner
    yield plan.planned.text
    yield format_ln(plan.planned.ln_cost)
    yield format_seconds(plan.planned.seconds)
    if plan.run is None:
        yield from (plan.refused, "", "")
        return
    yield count_per_s(plan.run.per_s)
    yield f"{plan.run.matches:,}"
    yield f"{plan.run.peak_instances + plan.run.events_buffered:,}"
