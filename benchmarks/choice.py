"""`cep bench choice`: what `detect` chooses by itself, beside every other way to the same answer.

Cells are numbers of patterns, of events and of matches, and forms of output. In each cell the call of a user, who names
neither plan nor mechanism, is measured beside calls that name them; what it takes to make a plan counts. The times of
mechanisms by one and the same plan give the constants by which `explain` says what the others would take.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.kernel_costs import positive_least_squares
from benchmarks.measure import Progress, one_core
from benchmarks.report import machine, markdown_table
from benchmarks.stock_stream import TICKERS, StockStream
from benchmarks.workloads import stock_schema
from cep_pipeline.cli.figures import format_seconds
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.compressed.compressing import ListedBuffers, compress_merged
from cep_pipeline.detection.decimal_text import from_text
from cep_pipeline.detection.detect import detect
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, choose_mechanisms
from cep_pipeline.detection.parts import many_in_parts
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.detection.unplanned import own_order_plan
from cep_pipeline.errors import CepError
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.costs.mechanisms import WORK, MechanismCosts, expected_work
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.events_input import events_for
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import estimate_statistics

PATTERNS, EVENTS = (1, 10, 100, 1000), (1_000, 30_000, 1_000_000)
WINDOWS_MS: Mapping[str, int] = {"rare": 20, "some": 300, "dense": 2000}
"""How many matches there are: in a window of so many milliseconds."""
OUTPUTS = ("verbose", "count", "compressed")
MOST, MOST_DENSE, MOST_STORED, MOST_MERGED, MOST_PLANNED = 3_000_000, 1_000_000, 300_000, 30_000, 100
"""Patterns times events of a cell: in all; where matches are many; and up to which partial matches are stored, and
merged runs are tried where matches are many. Patterns up to which plans are made that are not chosen."""
STORING = ("lazy_chain_nfa", "multitree")
CALIBRATED = ("fused", *STORING, "evaluation_tree", "eager_nfa", "lazy_tree_nfa", "nfab")
"""Mechanisms whose costs are measured."""
SHORT_S, SHORT_RUNS = 0.02, 15
"""A way that takes less time is run so many times."""
AIM, NEVER = 1.3, 2.0
"""Of the best in hindsight: at most so much in the 95th percentile, and anywhere."""


@dataclass(frozen=True)
class Cell:
    """One job."""

    patterns: int
    events: int
    density: str
    output: str

    def __str__(self) -> str:
        return f"{self.patterns:,} x {self.events:,} {self.density}, {self.output}"


@dataclass(frozen=True)
class MeasuredCell:
    """Seconds of what is chosen, and of each other way."""

    cell: Cell
    matches: int
    chosen_s: float
    others_s: Mapping[str, float]

    @property
    def best(self) -> str:
        """The fastest other way."""
        return min(self.others_s, key=self.others_s.__getitem__)

    @property
    def ratio(self) -> float:
        """The time of what is chosen over that of the best in hindsight."""
        return self.chosen_s / min(self.chosen_s, self.others_s[self.best])


def cells(largest: int = EVENTS[-1]) -> list[Cell]:
    """The grid, up to so many events."""
    sizes = [(some, n, density) for some in PATTERNS for n in EVENTS for density in WINDOWS_MS if n <= largest]
    return [
        Cell(some, n, density, output)
        for some, n, density in sizes
        if some * n <= (MOST_DENSE if density == "dense" else MOST)
        for output in OUTPUTS
    ]


def drawn(count: int, density: str) -> list[Pattern]:
    """So many patterns of three types in rising order, always the same."""
    draw = random.Random(5)
    statements = []
    for number in range(count):
        a, b, c = draw.sample(TICKERS, 3)
        statements.append(
            f"NAME p{number} PATTERN SEQ({a} a, {b} b, {c} c) WHERE a.diff < b.diff AND b.diff < c.diff "
            f"WITHIN {WINDOWS_MS[density]} ms"
        )
    return parse_patterns(";\n".join(statements), stock_schema(), source="choice")


def measure_cells(
    stream: StockStream, wanted: Sequence[Cell], repetitions: int, progress: Progress
) -> list[MeasuredCell]:
    """Run all ways of each cell in turn.

    Raises
    ------
    CepError
        Two ways find different numbers of matches.
    """
    found = []
    progress.begin("choice", len(wanted))
    with one_core():
        for cell in wanted:
            patterns = drawn(cell.patterns, cell.density)
            table = stream.prefix(cell.events).table()
            ways = _ways(cell, patterns)
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            counts = {}
            for repetition in range(max(repetitions, SHORT_RUNS) + 1):
                for name, run in ways.items():
                    if repetition > repetitions and seconds[name][0] > SHORT_S:
                        continue  # what takes milliseconds is run more often: its least time counts
                    fresh = pa.table(dict(zip(table.column_names, table.columns, strict=True)))
                    begin = time.process_time()
                    counts[name] = run(fresh)
                    if repetition:
                        seconds[name].append(time.process_time() - begin)
            if len(set(counts.values())) > 1:
                raise CepError(f"{cell}: the ways find different numbers of matches: {counts}")
            least = {name: min(times) for name, times in seconds.items()}
            chosen = least.pop(CHOSEN)
            found.append(MeasuredCell(cell, counts[CHOSEN], chosen, least))
            progress.advance()
    return found


CHOSEN = "chosen"
Way = Callable[[pa.Table], int]


def _ways(cell: Cell, patterns: Sequence[Pattern]) -> dict[str, Way]:
    size = cell.patterns * cell.events
    ways: dict[str, Way] = {CHOSEN: lambda table: _count(cell.output, detect(patterns, table, output=cell.output))}
    if cell.output == "compressed":
        ways["listed"] = lambda table: _listed(patterns, table)
        if size <= MOST_MERGED or (cell.density == "rare" and size <= MOST_STORED):
            ways["merged runs"] = lambda table: _merged(patterns, table)
        return ways

    def by(planner: str | None, mechanism: str) -> Way:
        def run(table: pa.Table) -> int:
            plan = own_order_plan(patterns) if planner is None else _planned(patterns, table, planner, mechanism)
            return _count(cell.output, detect(patterns, table, plan, mechanism, cell.output))

        return run

    ways["fused, own order"] = by(None, "fused")
    if cell.patterns <= MOST_PLANNED:
        ways["fused, dp_left_deep"] = by("dp_left_deep", "fused")
    if size <= (MOST_STORED // 10 if cell.density == "dense" else MOST_STORED):
        ways |= {f"{name}, own order": by(None, name) for name in STORING}
    return ways


def _planned(patterns: Sequence[Pattern], table: pa.Table, planner: str, mechanism: str) -> Plan:
    chosen = choose_mechanisms(patterns, mechanism)
    return plan_for(patterns, estimate_statistics(patterns, table), chosen, planner, compare=False)


def _count(output: str, found: Mapping[str, pa.Table]) -> int:
    if output == "verbose":
        return sum(table.num_rows for table in found.values())
    return sum(from_text(text) for table in found.values() for text in table.column("count").to_pylist())


def _prepared(patterns: Sequence[Pattern], table: pa.Table) -> PreparedEvents:
    """The events, checked as `detect` checks them."""
    events = events_for(patterns, table)
    return PreparedEvents(events, type_attribute=patterns[0].type_attribute, base_type=patterns[0].base_type)


def _listed(patterns: Sequence[Pattern], table: pa.Table) -> int:
    events, total = _prepared(patterns, table), 0
    for pattern in patterns:
        buffers = ListedBuffers(pattern, events)
        own = [[[variable.name for variable in clause.positive] for clause in pattern.clauses]]
        for [blocks] in many_in_parts([pattern], MECHANISMS["fused"], own, events, EVERYTHING, Counters()):
            buffers.add(blocks)
        total += _count("compressed", {pattern.name: buffers.table()})
    return total


def _merged(patterns: Sequence[Pattern], table: pa.Table) -> int:
    events = _prepared(patterns, table)
    return sum(_count("compressed", {one.name: compress_merged(one, events, Counters())}) for one in patterns)


def calibrated(stream: StockStream, repetitions: int, progress: Progress) -> MechanismCosts:
    """What a unit of work costs each mechanism: least squares of relative errors, no constant negative."""
    jobs = [(1, n, density) for n in EVENTS[:2] for density in WINDOWS_MS]
    jobs += [(10, 1_000, "some"), (10, 10_000, "rare"), (1, 100_000, "dense"), (1, 300_000, "dense")]
    progress.begin("mechanisms", len(jobs))
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in CALIBRATED}
    with one_core():
        for count, n, density in jobs:
            patterns, table = drawn(count, density), stream.prefix(n).table()
            for name in CALIBRATED:
                plan = _planned(patterns, table, "trivial", name)
                work = np.sum([expected_work(one, plan.statistics) for one in plan.patterns], axis=0)
                seconds = []
                for _ in range(repetitions + 1):
                    fresh = pa.table(dict(zip(table.column_names, table.columns, strict=True)))
                    begin = time.process_time()
                    detect(patterns, fresh, plan, name, "count")
                    seconds.append(time.process_time() - begin)
                rows[name].append((*map(float, work), min(seconds[1:]) * 1e9))
            progress.advance()
    found = {}
    for name, measured in rows.items():
        data = np.array(measured)
        per_unit = positive_least_squares(data[:, :-1] / data[:, -1:], np.ones(len(data)))
        found[name] = tuple(float(f"{value:.4g}") for value in per_unit)
    return MechanismCosts(found, f"{machine()}, {datetime.now(UTC):%Y-%m-%d}")


def write_constants(costs: MechanismCosts, path: Path) -> None:
    """Write the constants as the package keeps them."""
    content = {
        "measured_on": costs.measured_on,
        "mechanisms": {name: dict(zip(WORK, own, strict=True)) for name, own in costs.by_mechanism.items()},
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def choice_page(found: Sequence[MeasuredCell], costs: MechanismCosts) -> str:
    """How near what is chosen comes to the best in hindsight, and what the mechanisms cost, in Markdown."""
    rows = []
    for output in (*OUTPUTS, "all"):
        own = [one for one in found if output in (one.cell.output, "all")]
        ratios = np.array([one.ratio for one in own])
        worst = max(own, key=lambda one: one.ratio)
        p95 = float(np.percentile(ratios, 95))
        rows.append(
            [output, str(len(own)), f"{np.median(ratios):.2f}", f"{p95:.2f}", f"{worst.ratio:.2f}", str(worst.cell)]
        )
    lines = [
        f"Aim: at most {AIM} times the best in hindsight in the 95th percentile, never above {NEVER:g} times.",
        "",
        markdown_table(["output", "cells", "median", "95th percentile", "worst", "the worst is"], rows),
        "",
        "Each cell: patterns x events, how many matches, and the time of what is chosen beside the best other way.",
        "",
    ]
    header = [
        "patterns",
        "events",
        "density",
        "output",
        "matches",
        "chosen",
        "best other",
        "it is",
        "ratio",
        "slowest other",
    ]
    cell_rows = []
    for one in found:
        cell, slowest = one.cell, max(one.others_s, key=one.others_s.__getitem__)
        cell_rows.append(
            [
                *(f"{cell.patterns:,}", f"{cell.events:,}", cell.density, cell.output, f"{one.matches:,}"),
                *(format_seconds(one.chosen_s), format_seconds(one.others_s[one.best]), one.best, f"{one.ratio:.2f}"),
                f"{format_seconds(one.others_s[slowest])} ({slowest})",
            ]
        )
    lines += [markdown_table(header, cell_rows), "", "What a unit of work costs each mechanism, in nanoseconds:", ""]
    lines.append(
        markdown_table(["mechanism", *WORK], [[name, *map(str, own)] for name, own in costs.by_mechanism.items()])
    )
    return "\n".join(lines)
