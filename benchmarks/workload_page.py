"""`cep bench workload`: many patterns over days of a stream in one job; what it takes, in words and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.measure import Progress
from benchmarks.report import markdown_table
from benchmarks.workload_jobs import CHECK, DAYS, JobPart, run_jobs
from benchmarks.workload_projects import PATTERN_SET, Request, make_project
from benchmarks.workload_results import DayRun, WorkloadResult, result_of
from cep_pipeline.cli.terminal import format_seconds, times_as_fast

STEPS: Mapping[str, Sequence[str]] = {
    "ingesting": ("ingest", "preprocess"),
    "statistics": ("statistics",),
    "plan": ("plan",),
    "detection": (f"detect {PATTERN_SET}", "publish"),
}
"""Columns of the table of days, and the steps of a run that they are of."""


def measure_workloads(
    requests: Sequence[Request], folder: Path, master: str, progress: Progress, report: Callable[[str], None]
) -> list[WorkloadResult]:
    """Make projects, each in the folder, run their jobs as far as earlier calls have not, and read what came of them.

    A job that fails, or a pattern that has other matches alone, is a CepError.
    """
    results = []
    for request in requests:
        progress.begin(f"{request.workload.name}: drawing {request.patterns:,} patterns", 0)
        project = make_project(folder, request, report)
        parts = run_jobs(project, master, progress)
        results.append(result_of(project, parts, progress))
        report(f"{request.workload.name}: done; cep explain, matches, status … --config {project.configuration}")
    return results


def workload_tables(results: Sequence[WorkloadResult]) -> dict[str, str]:
    """The number of patterns and the tables of a page."""
    return {
        "patterns": " and ".join(sorted({f"{result.project.request.patterns:,}" for result in results})),
        "jobs": jobs_table(results),
        "days": days_table(results),
        "plans": plans_table(results),
    }


def jobs_table(results: Sequence[WorkloadResult]) -> str:
    """Time and memory of the jobs over all days."""
    rows = []
    for result in results:
        parts = _of(result, DAYS)
        events, matches = sum(day.events for day in result.days), sum(day.matches for day in result.days)
        seconds, processor_s = sum(part.seconds for part in parts), sum(part.processor_s for part in parts)
        largest = max(parts, key=lambda part: part.peak_kb)
        rows.append(
            [
                result.project.events,
                f"{result.project.request.patterns:,}",
                f"{len(result.days)}",
                f"{events:,}",
                f"{matches:,}",
                f"{_minutes(seconds)}{f' in {len(parts)} parts' if len(parts) > 1 else ''}",
                _minutes(processor_s) if processor_s else "not told here",
                f"{largest.peak_kb / 1e6:.2f} GB in {largest.processes}" if largest.peak_kb else "not told here",
                f"{result.alone}: equal ({result.alone_matches:,})",
            ]
        )
    header = ["events of", "patterns", "days", "events", "matches", "wall", "processors", "memory, processes"]
    return markdown_table([*header, "patterns alone (matches)"], rows)


def days_table(results: Sequence[WorkloadResult]) -> str:
    """Seconds of the steps, of the first day and of those after it."""
    rows = []
    for result in results:
        first, *later = result.days
        for what, days in (("the first day", [first]), ("a day after it (median)", later)):
            if days:
                rows.append(
                    [
                        result.project.request.workload.name,
                        what,
                        f"{median(day.events for day in days):,.0f}",
                        *(format_seconds(median(_seconds(day, steps) for day in days)) for steps in STEPS.values()),
                    ]
                )
    return markdown_table(["stream", "which day", "events", *STEPS], rows)


def plans_table(results: Sequence[WorkloadResult]) -> str:
    """The first plan of each workload, its check, and the plan with one pattern more."""
    rows = []
    for result in results:
        plan = result.plans[0]
        checked = _of(result, CHECK)
        check = result.check
        anew = result.plans[1].reason.split("planned anew: ")[-1].split(";")[0] if len(result.plans) > 1 else ""
        rows.append(
            [
                result.project.request.workload.name,
                f"{plan.steps:,}" if plan.steps is not None else "",
                f"{plan.nodes:,} of {plan.nodes_apart:,}",
                f"{times_as_fast(plan.times_less)} times less",
                f"{plan.plan_bytes / 1e6:.2f} MB, {plan.text_bytes / 1e3:.1f} kB",
                f"{check.outcome}, {_minutes(sum(part.seconds for part in checked))}" if check else "",
                f"{check.record_bytes / 1e3:.1f} kB" if check else "",
                anew,
                format_seconds(_seconds(result.later[0], STEPS["plan"])) if result.later else "",
            ]
        )
    header = ["stream", "steps of the search", "nodes", "cost", "plan, text", "check", "its record"]
    return markdown_table([*header, "one pattern more: anew", "in"], rows)


def _of(result: WorkloadResult, job: str) -> list[JobPart]:
    return [part for part in result.parts if part.job == job]


def _seconds(day: DayRun, steps: Sequence[str]) -> float:
    return sum(day.steps_s.get(step, 0.0) for step in steps)


def _minutes(seconds: float) -> str:
    """Seconds as people say them.

    Examples
    --------
    >>> _minutes(12.3), _minutes(1590.1)
    ('12.3 s', '26.5 min')
    """
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"
