"""The page that `cep bench` makes: what was asked for is measured, and put into words and tables."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Progress
from benchmarks.published import machine_gain, peers_of, reference_of
from benchmarks.report import Comparison, machine, markdown_table
from benchmarks.streams import TWIN_LOOKS, Streams
from cep_pipeline.cli.terminal import count_per_s, times_as_fast

if TYPE_CHECKING:
    from benchmarks.workload_projects import Request

BENCHMARKS = ("detection", "mechanisms", "strategies", "ingestion", "statistics")
"""The benchmarks that run by default, in the order of the page."""
KERNEL_COSTS, PROMISES = "kernel-costs", "promises"
WORKLOAD, SWITCHES, SCALE = "workload", "switches", "scale"
"""The benchmarks that run only when they are asked for."""


@dataclass(frozen=True)
class Settings:
    """The choice of what is measured.

    - `names`: of `BENCHMARKS`, `KERNEL_COSTS`, `PROMISES`, `WORKLOAD`, `SWITCHES` or `SCALE`.
    - `lengths`: of the stock stream for the columnar kernel; the longest is that of the strategies, too.
    - `mechanism_length`: of the stock stream and of W5's for the mechanisms that read event by event; None takes
      theirs.
    - `looks`: at each sensor of generated readings, where the real ones in the folder `data` are not there.
    - `constants`: file to which the constants of the kernel's costs are written.
    - `workloads`, `projects`: the workloads of many patterns that are run, and the folder of their projects.
    - `scale`, `scale_folder`: the share of each size that `SCALE` and `PROMISES` measure, and the folder of
      the projects.
    """

    names: Sequence[str] = BENCHMARKS
    lengths: Sequence[int] = (1_000_000, 5_000_000)
    mechanism_length: int | None = None
    repetitions: int = 5
    data: Path | None = None
    looks: int = TWIN_LOOKS
    master: str = "local[4]"
    constants: Path | None = None
    workloads: Sequence[Request] = ()
    projects: Path = Path("var/workload")
    scale: float = 1.0
    scale_folder: Path = Path("var/scale")


@dataclass(frozen=True)
class _Run:
    settings: Settings
    progress: Progress
    streams: Streams
    report: Callable[[str], None]


def make_page(settings: Settings, progress: Progress, report: Callable[[str], None] = lambda _: None) -> str:
    """Measure what is asked for, and write the page."""
    run = _Run(settings, progress, Streams(settings.data, settings.looks), report)
    sections = [_head(settings)]
    for name in _SECTIONS:
        if name in settings.names:
            report(f"measuring {name}")
            sections += _SECTIONS[name](run)
    return "\n\n".join(sections) + "\n"


def with_other_sections(page: str, made: str) -> str:
    """A page of before, in which the sections that were made anew take their places, and those that are new the end."""
    _, *kept = page.split("\n## ")
    head, *sections = made.rstrip("\n").split("\n## ")
    headings = {section.split("\n")[0]: section for section in sections}
    kept = [headings.pop(section.split("\n")[0], section.rstrip("\n") + "\n") for section in kept]
    return "\n## ".join(section.rstrip("\n") + "\n" for section in (head, *kept, *headings.values()))


OTHER_FIGURES = (
    "Other figures: [what is fast](promises.md), [a thousand patterns](workload.md), [scale](scale.md), "
    "[a backfill](backfill.md), [faults](faults.md), [costs of the kernel](kernel_costs.md); experiments: "
    "[lazy NFA](experiments/lazy_nfa.md), [NFA with a match buffer](experiments/nfab.md), [join "
    "plans](experiments/join_plans.md), [adaptation](experiments/adaptation.md), [many "
    "patterns](experiments/multi_pattern.md)."
)
"""The line of the page of benchmarks that leads to the other pages of figures."""


def _head(settings: Settings) -> str:
    if tuple(settings.names) == (WORKLOAD,):
        return f"# Many patterns in one job\n\nMade by `cep bench workload` on {machine()}."
    if tuple(settings.names) == (SCALE,):
        return f"# Scale\n\nMade by `cep bench scale` on {machine()}."
    if tuple(settings.names) == (PROMISES,):
        return f"# What is fast\n\nMade by `cep bench promises` on {machine()}."
    return (
        f"# Benchmarks\n\n{OTHER_FIGURES}\n\nMade by `cep bench` on {machine()}. "
        "n runs of each engine in turn, each after one that is not counted "
        f"(n is {settings.repetitions}, or 1 where a run takes seconds); spread = (max - min) / median; "
        "ratios are medians of the ratios of runs that followed each other. Every engine must find the same number of "
        "matches before a time is kept. The machine is shared: the ratios count, not the seconds."
    )


def _detection(run: _Run) -> list[str]:
    from benchmarks.detection import (
        calls_table,
        compare_detection,
        compare_slow_peers,
        detection_table,
        duckdb_rates,
    )
    from benchmarks.flink_patterns import version
    from benchmarks.peers import missing_peers

    settings = run.settings
    # The peers that take seconds come last, so that the others find the machine as it was.
    comparisons = compare_detection(settings.lengths, settings.repetitions, run.streams, run.progress)
    slower = compare_slow_peers(settings.lengths, settings.repetitions, run.streams, run.progress)
    sections = [
        "## Detection: the columnar kernel on one core\n\n"
        "Each engine, ours and peers alike, has a process of its own and one core. In each round every engine runs "
        "twice, one after the other, and the second run is counted: caches and memory are those of the same engine. "
        "Seconds are those of the processor, of all threads; of Spark and Flink those of the JVM. Preparation of the "
        "events (columns, split by type) is part of the time, making the plan is not; peers find the events in their "
        "own tables or memory. `fused` lists "
        "all matches, `fused, counting` counts lists without making them. W6 is a hundred patterns, one after "
        "another over events that are split, sorted and ranged once for all. C++ adds the matches up, SQL "
        f"engines count them. {missing_peers()} {run.streams.traffic.description}\n\n{detection_table(comparisons)}",
    ]
    if slower:
        flink = f" Flink CEP {version()} runs its Pattern API on event time." if version() else ""
        sections.append(
            "## Detection beside engines that take seconds, over shorter streams\n\n"
            "These engines are run over no longer streams, and the kernel beside them over the same ones: what counts "
            "is compared with our counting; Flink CEP, which builds the matches, with our listing. The seconds of a "
            f"job of Flink begin with its first event, those of Spark with the query.{flink}\n\n"
            f"{detection_table(slower)}"
        )
    sections.append(
        "## Detection: what a user's call takes, on one core\n\n"
        "The calls run in turn with the kernel and the peers of the first table, in processes of their own. Statistics "
        "and plan are part of the time: each call makes them anew. The events are an Arrow table; or a "
        "Parquet file in memory, from which the columns that the patterns need are read, and the matches written to "
        "Parquet files in memory. Beside it what pyarrow takes to read these columns, and to write these matches. "
        "Nobody goes from file to file faster than both together: `of reading and writing` is the share of that speed. "
        "Where at most one match comes of a hundred events, 0.8 of it is wanted, else 0.5, as the matches have to be "
        "made. C++ and DuckDB count, or add the matches up, and write nothing.\n\n" + calls_table(comparisons)
    )
    duckdb_per_s = duckdb_rates([*comparisons, *slower])
    if duckdb_per_s:
        sections.append(
            "## Detection beside engines that are not installed here\n\n"
            "Esper is published for Maven alone, OpenCEP and UMass SASE are repositories without packages: they cannot "
            "be installed from PyPI, Debian or npm, and do not run beside us. "
            "Their speeds were measured once on another machine, beside DuckDB (`benchmarks/"
            "published.py`); each is given what DuckDB gained since. Where DuckDB does not run a workload, its gain on "
            "W1 stands for the machine's. All of them build the matches.\n\n" + _others_table(comparisons, duckdb_per_s)
        )
    return sections


def _others_table(comparisons: Sequence[Comparison], duckdb_per_s: Mapping[str, float]) -> str:
    longest = {comparison.workload: comparison for comparison in comparisons}  # the last of each is the longest
    rows = []
    for workload, comparison in longest.items():
        gain = machine_gain(workload, duckdb_per_s)
        basis = reference_of(workload) if reference_of(workload) in duckdb_per_s else "W1"
        listing = comparison.timing("fused")
        ours = comparison.events / listing.median
        for peer in peers_of(workload, duckdb_per_s):
            assert peer.here_per_s is not None and gain is not None
            rows.append(
                [
                    workload,
                    peer.engine,
                    count_per_s(peer.measured_per_s),
                    f"{gain:.2f} ({basis})",
                    count_per_s(peer.here_per_s),
                    count_per_s(ours),
                    times_as_fast(ours / peer.here_per_s),
                ]
            )
    header = ["workload", "engine", "events/s there", "DuckDB here / there", "events/s here"]
    return markdown_table([*header, "our listing, events/s", "we are x as fast"], rows)


def _mechanisms(run: _Run) -> list[str]:
    from benchmarks.mechanisms import Lengths, measure_mechanisms, mechanisms_table

    length = run.settings.mechanism_length
    lengths = Lengths() if length is None else Lengths(length, length, length, length, length)
    measured = measure_mechanisms(run.settings.repetitions, run.streams, run.progress, lengths)
    return [
        "## The mechanisms that read event by event, on one core\n\n"
        "Each lists all matches; preparation of the events is part of the time, making the plan is not. Seconds are "
        "those of the processor. Beside each the fastest engine for complex event processing that gives the same "
        "matches among those that cannot be installed (the last section of detection), through its ratio to DuckDB: "
        "how many times as many events a second each takes in as DuckDB's "
        "bucketed join of the workload (of W1 for W4b, W5 and W5n), which runs in turn with the mechanisms. "
        f"{run.streams.traffic.description}\n\n{mechanisms_table(measured)}"
    ]


def _strategies(run: _Run) -> list[str]:
    from benchmarks.strategies import measure_strategies, strategies_table

    compared = measure_strategies(run.settings.lengths[0], run.settings.repetitions, run.streams, run.progress)
    return [
        "## Other selection strategies without Kleene variables, beside reading the columns\n\n"
        "One core, seconds of the processor; the columns are read from a Parquet file that lies in memory.\n\n"
        + strategies_table(compared)
    ]


def _ingestion(run: _Run) -> list[str]:
    from benchmarks.ingestion import ingestion_table, measure_ingestion

    measured = measure_ingestion(run.settings.master, run.settings.repetitions, run.progress)
    return ["## Ingestion: raw files to published events\n\n" + ingestion_table(measured)]


def _statistics(run: _Run) -> list[str]:
    from benchmarks.daily_statistics import days_table, measure_days
    from benchmarks.stream_statistics import measure_statistics, statistics_table

    # First, so that the processes of its own find the machine as it was.
    by_day = measure_days(run.settings.data, run.settings.master, run.progress)
    measured = measure_statistics(run.settings.data, run.settings.repetitions, run.progress)
    return [
        "## Statistics over sliding windows\n\n"
        "Counts of leaves at 1,000 random times and selectivities of the latest window, beside the exact ones; the "
        "state as JSON; seconds of the processor of one process. Loading reads, checks and orders the raw files, which "
        "is the first part of ingesting them.\n\n" + statistics_table(measured),
        "### Beside ingesting, day by day\n\n"
        "The steps of `cep run`, a day at a time: seconds on the wall of ingesting and publishing the day's events on "
        f"Spark {run.settings.master}, and of its statistics, from the events as they are published to the committed "
        "row. A day after the first finds workers and code loaded, so that ingesting takes less; of a day as small as "
        "one of the traffic half of the statistics' time is the commit.\n\n" + days_table(by_day),
    ]


def _kernel_costs(run: _Run) -> list[str]:
    from benchmarks.kernel_costs import (
        DEAR_EVENTS,
        EVENTS,
        calibrated,
        condition_costs,
        dear_runs,
        kernel_costs_page,
        measured_runs,
    )
    from cep_pipeline.planning.costs import THROUGHPUT
    from cep_pipeline.planning.costs.kernel import costs_to_json

    found = measured_runs(run.streams.stock(EVENTS).table(), run.settings.repetitions, run.progress)
    by_kind = [condition_costs(name, run.settings.repetitions, run.progress) for name in ("lazy_chain_nfa", "fused")]
    costs = calibrated(found, *by_kind)
    dear = dear_runs(run.streams.stock(DEAR_EVENTS).table(), run.settings.repetitions, run.progress)
    if run.settings.constants is not None:
        run.settings.constants.write_text(json.dumps(costs_to_json(costs), indent=1) + "\n", encoding="utf-8")
    return [
        "## What a unit of the kernel's work costs, and how well plans are told apart by it\n\n"
        "One core, seconds of the processor, preparation of the events included. A cost model ranks the plans of a "
        "pattern by estimated statistics; where the slowest is hardly slower than the fastest, ranks say little.\n\n"
        + kernel_costs_page(found, costs, [THROUGHPUT], dear)
    ]


def _workload(run: _Run) -> list[str]:
    from benchmarks.workload_page import measure_workloads, workload_sections

    settings = run.settings
    measured = measure_workloads(settings.workloads, settings.projects, settings.master, run.progress, run.report)
    return workload_sections(measured, settings.master)


def _switches(run: _Run) -> list[str]:
    from benchmarks.switches import CASES, measure_switches, switches_table

    return [
        "## Switches of plans\n\n"
        "Tries (events that are tested on partial matches) of a plan that stays, of the loop with a switch for any "
        "gain, and of its default rule; and the last ones relative to the fewer of the others. They do not depend on "
        "the machine: the loop's clock stands still, so that to begin a run of detection costs nothing.\n\n"
        + switches_table([*measure_switches(CASES, run.progress)])
    ]


def _scale(run: _Run) -> list[str]:
    from benchmarks.scale import measure_scale, sizes_of
    from benchmarks.scale_page import scale_sections

    settings = run.settings
    measured = measure_scale(settings.scale_folder, sizes_of(settings.scale), settings.master, run.progress)
    return scale_sections(measured, settings.master)


def _promises(run: _Run) -> list[str]:
    from benchmarks.promises import measure_promises, promises, promises_table

    settings = run.settings
    with tempfile.TemporaryDirectory() as folder:
        chosen = promises(Path(folder), settings.scale)
        measured = measure_promises(chosen, settings.repetitions, run.progress)
    return [
        "## Jobs beside another way to do them\n\n"
        "Each job is one call of a user. Its peer does the same work another way and has to give the same number. One "
        "core, seconds of the processor, of all processes of a command. Plans are made before, except by commands. "
        f"n is {settings.repetitions}, or 1 where a run takes seconds; a ratio is the median over runs that followed "
        f"each other.\n\n{promises_table(measured)}"
    ]


_SECTIONS: Mapping[str, Callable[[_Run], list[str]]] = {
    "detection": _detection,
    "mechanisms": _mechanisms,
    "strategies": _strategies,
    "ingestion": _ingestion,
    "statistics": _statistics,
    KERNEL_COSTS: _kernel_costs,
    PROMISES: _promises,
    WORKLOAD: _workload,
    SWITCHES: _switches,
    SCALE: _scale,
}
