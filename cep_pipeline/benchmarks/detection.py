"""`cep bench detection`: the fused kernel on one core, preparation included, beside scalar C++ and DuckDB."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa

from cep_pipeline.benchmarks.peers import (
    DUCKDB_QUERIES,
    Measurement,
    compile_reference,
    duckdb_runner,
    run_reference,
)
from cep_pipeline.benchmarks.report import Comparison, Timing, format_seconds, markdown_table
from cep_pipeline.benchmarks.stock_stream import generate_stock_stream
from cep_pipeline.benchmarks.workloads import WORKLOADS, Workload
from cep_pipeline.detection.fused import run_clause
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.errors import CepError
from cep_pipeline.planning import plan
from cep_pipeline.statistics import estimate_statistics

CPP, DUCKDB = "C++ scalar", "DuckDB bucketed join"
BARS = {CPP: 1.0, DUCKDB: 8.0}
"""Peer -> how many times as fast as it the kernel has to be."""


@contextmanager
def one_core() -> Iterator[None]:
    """Keep Arrow from using its thread pool, so that one core is measured."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        pa.set_cpu_count(threads)


def kernel_runner(workload: Workload, events: pa.Table) -> Callable[[], Measurement]:
    """A function that prepares the events and enumerates all matches, block after block, by the planned order.

    Making the plan and compiling its shape come before: both are done once for a plan, not once a day.
    """
    pattern = workload.pattern()
    made = plan([pattern], estimate_statistics([pattern], events))
    clause = pattern.clauses[0]
    order = made.for_pattern(pattern.name).clauses[0].order

    def run() -> Measurement:
        start = time.perf_counter()
        prepared = PreparedEvents(events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
        matches = sum(len(block) for block in run_clause(pattern, clause, order, prepared))
        return Measurement(time.perf_counter() - start, matches)

    return run


def compare_detection(
    events: int, repetitions: int, report: Callable[[str], None] = lambda _: None
) -> list[Comparison]:
    """Run every workload on every engine that is there, one after the other, several times.

    Parameters
    ----------
    events
        Length of the stream: 10,000, 100,000, 1,000,000 or 5,000,000, for which the match counts are known.
    repetitions
        Counted runs of each engine, after one that is not counted.
    report
        Told what is being done.

    Raises
    ------
    CepError
        An engine found another number of matches than is known.
    """
    report(f"making {events:,} events")
    stream = generate_stock_stream(events)
    table = stream.table()
    comparisons = []
    with tempfile.TemporaryDirectory() as folder, one_core():
        columns = Path(folder) / "columns.bin"
        stream.write_columns(columns)
        reference = compile_reference(Path(folder))
        joins = duckdb_runner(table, threads=1)
        for workload in WORKLOADS.values():
            engines: dict[str, Callable[[], Measurement]] = {"fused": kernel_runner(workload, table)}
            if reference is not None:
                engines[CPP] = partial(run_reference, reference, columns, workload.name)
            if joins is not None and workload.name in DUCKDB_QUERIES:
                engines[DUCKDB] = partial(joins, workload.name)
            report(f"{workload.name} on {', '.join(engines)}")
            seconds: dict[str, list[float]] = {name: [] for name in engines}
            for repetition in range(repetitions + 1):
                for name, run in engines.items():
                    measured = run()
                    if measured.matches != workload.matches[events]:
                        raise CepError(
                            f"{name} finds {measured.matches:,} matches of {workload.name} in {events:,} events, "
                            f"but there are {workload.matches[events]:,}"
                        )
                    if repetition:
                        seconds[name].append(measured.seconds)
            timings = [Timing(name, tuple(values)) for name, values in seconds.items()]
            comparisons.append(
                Comparison(workload.name, events, workload.matches[events], timings[0], tuple(timings[1:]))
            )
    return comparisons


def detection_table(comparisons: list[Comparison]) -> str:
    """The comparisons with their ratios and bars, in Markdown."""
    rows = []
    for comparison in comparisons:
        for timing in (comparison.ours, *comparison.peers):
            ratio = comparison.ratio(timing)
            bar = BARS.get(timing.engine)
            rows.append(
                [
                    comparison.workload,
                    f"{comparison.events:,}",
                    f"{comparison.matches:,}",
                    timing.engine,
                    format_seconds(timing.median),
                    f"{timing.spread:.0%}",
                    f"{comparison.events / timing.median / 1e6:.1f} M",
                    "" if timing is comparison.ours else f"{ratio:.2f}",
                    "" if bar is None else f"{bar:g}: {'met' if ratio >= bar else 'MISSED'}",
                ]
            )
    header = ["workload", "events", "matches", "engine", "median", "spread", "events/s", "we are x as fast", "bar"]
    return markdown_table(header, rows)
