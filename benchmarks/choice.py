"""`cep bench choice`: what `detect` chooses by itself, beside every other way to the same answer.

Cells are numbers of patterns, of events and of matches, and forms of output. In each cell the call of a user, who names
neither plan nor mechanism, is measured beside calls that name them; what it takes to make a plan counts. The times of
mechanisms by one and the same plan, and those of planning, give the constants by which `detect` chooses, and by which
`explain` says what the others would take.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import product, starmap
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.kernel_costs import positive_least_squares
from benchmarks.measure import Progress, one_core
from benchmarks.report import machine, markdown_table
from benchmarks.stock_stream import TICKERS, StockStream
from benchmarks.workloads import stock_schema
from cep_pipeline.cli.terminal import format_seconds
from cep_pipeline.detection import outputs
from cep_pipeline.detection.choice import own_order_plan
from cep_pipeline.detection.decimal_text import from_text
from cep_pipeline.detection.detect import detect
from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.errors import CepError
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.costs.kernel import kernel_costs
from cep_pipeline.planning.costs.mechanisms import PLANNING, WORK, MechanismCosts, expected_work
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.estimate import rough_statistics

PATTERNS, EVENTS = (1, 10, 100, 1000), (1_000, 30_000, 1_000_000)
LATE = "late"
WINDOWS_MS: Mapping[str, int] = {"rare": 20, "some": 300, "dense": 2000, LATE: 30_000}
"""Density of matches -> length of the window in milliseconds. Late matches end with an event of a rare type."""
EVERY_WINDOWS_MS: Mapping[str, int] = {"every": 2000, "every, few": 20}
"""Windows of patterns that read every event for each of their variables, and look events up by their type. Mechanisms
are calibrated by them, too: to read every event costs less each, and costs mechanisms otherwise, than to read those of
rare types."""
LARGE = 980
"""The least volume of the first event of such a pattern, which one in fifty has."""
OUTPUTS = ("verbose", "count", "compressed")
SUMMARIZED = "SUMMARIZE"
"""A form of output of the grid: patterns that give aggregates over their matches by the minute."""
SUMMARY = "SUMMARIZE count(*) AS count, max(c.diff) AS most, avg(a.diff) AS mean GROUP BY bucket(1 minute) AS minute"
READ = "RETURN c.diff AS most, a.diff AS mean, c.timestamp AS minute"
"""RETURN clause with the values that a user would read of listed matches to group them by hand."""
MOST, MOST_DENSE, MOST_LISTED = 1_000_000_000, 100_000_000, 10_000_000
"""Patterns times events of a cell: in all; where partial matches are many; and where many matches are listed."""
MOST_STORED, MOST_MERGED, MOST_PLANNED = 300_000, 30_000, 100
"""Patterns times events up to which partial matches are stored, and merged runs are tried where matches are many.
Patterns up to which plans are made that are not chosen."""
MOST_MADE = 20_000_000
"""Candidates, partial matches and matches up to which mechanisms that store some are calibrated."""
PLANNED = "planned"
STORING = ("lazy_chain_nfa", "multitree")
CALIBRATED = ("fused", *STORING, "evaluation_tree", "eager_nfa", "lazy_tree_nfa", "nfab")
"""Mechanisms whose costs are measured."""
LEAST_S, MOST_RUNS = 0.4, 25
"""The ways of a cell that are not far behind are run in turn for so many seconds each, at most so many times."""
MORE_TIMES = 3
"""A cell that misses the aim is measured so many times more: whatever else runs here makes no least time shorter."""
AIM, NEVER = 1.3, 2.0
"""Aims for the ratio to the best in hindsight: the most in the 95th percentile, and the most anywhere."""
COMPRESSED_AIM = 1.5
"""Output `compressed` takes at most so many times as long as listing."""


CHOSEN, LISTING = "chosen", "chosen, listing"
"""The call of a user; beside the one for `compressed` stands the one for `verbose`, which is no way to the same."""
GROUPED = ["pattern", "minute", "most", "mean"]
MINUTE_US = 60_000_000
Way = Callable[[pa.Table], int]


@dataclass(frozen=True)
class Cell:
    """One job."""

    patterns: int
    events: int
    density: str
    output: str

    @property
    def size(self) -> int:
        """Patterns times events."""
        return self.patterns * self.events

    @property
    def most(self) -> int:
        """The largest size of such a cell that is measured."""
        if self.density == "dense" and self.output in ("verbose", "compressed"):
            return MOST_LISTED
        return MOST if self.density in ("rare", "some") else MOST_DENSE

    def __str__(self) -> str:
        return f"{self.patterns:,} x {self.events:,} {self.density}, {self.output}"


@dataclass(frozen=True)
class MeasuredCell:
    """Seconds of what is chosen, and of each other way; of `compressed` also those of what is chosen for listing."""

    cell: Cell
    matches: int
    chosen_s: float
    others_s: Mapping[str, float]
    listing_s: float | None = None

    @property
    def best(self) -> str:
        """The fastest other way."""
        return min(self.others_s, key=self.others_s.__getitem__)

    @property
    def ratio(self) -> float:
        """The time of what is chosen over that of the best in hindsight."""
        return self.chosen_s / min(self.chosen_s, self.others_s[self.best])

    @property
    def of_listing(self) -> float | None:
        """The time of `compressed` over that of listing; None of other forms of output."""
        return None if self.listing_s is None else self.chosen_s / self.listing_s

    @property
    def is_met(self) -> bool:
        """True if the cell misses no aim."""
        return self.ratio <= AIM and (self.of_listing or 0) <= COMPRESSED_AIM


def cells(largest: int = EVENTS[-1]) -> list[Cell]:
    """The grid, up to so many events; the smallest cells in any case."""
    every = product(PATTERNS, (n for n in EVENTS if n <= max(largest, EVENTS[0])), WINDOWS_MS, (*OUTPUTS, SUMMARIZED))
    return [cell for cell in starmap(Cell, every) if cell.size <= cell.most]


def drawn(count: int, density: str, last_clause: str = "") -> list[Pattern]:
    """Draw `count` patterns of three types in rising order, always the same; late ones end with a rare event.

    Those of `EVERY_WINDOWS_MS` are of every type, on one ticker. Each ends with the clause that is given.
    """
    draw = random.Random(5)
    statements = []
    for number in range(count):
        if density in EVERY_WINDOWS_MS:
            statements.append(
                f"NAME p{number} PATTERN SEQ(Stock a, Stock b, Stock c) WHERE [ticker] AND a.volume >= "
                f"{LARGE - number} AND b.price > a.price AND c.price > b.price AND b.volume > a.volume AND "
                f"c.volume > b.volume WITHIN {EVERY_WINDOWS_MS[density]} ms {last_clause}"
            )
            continue
        a, b, c = draw.sample(TICKERS, 3)
        condition = "b.diff < c.diff"
        if density == LATE:
            half = len(TICKERS) // 2
            (a, b), [c] = draw.sample(TICKERS[:half], 2), draw.sample(TICKERS[half:], 1)
            condition = "b.diff + 2.5 < c.diff"
        statements.append(
            f"NAME p{number} PATTERN SEQ({a} a, {b} b, {c} c) WHERE a.diff < b.diff AND {condition} "
            f"WITHIN {WINDOWS_MS[density]} ms {last_clause}"
        )
    return parse_patterns(";\n".join(statements), stock_schema(), source="choice")


def measure_cells(
    stream: StockStream, wanted: Sequence[Cell], repetitions: int, progress: Progress
) -> list[MeasuredCell]:
    """Run all ways of each cell in turn; different numbers of matches are a CepError."""
    found = []
    progress.begin("choice", len(wanted))
    with one_core():
        for cell in wanted:
            ways = _ways(cell)
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(1 + MORE_TIMES):
                count = _run_in_turn(cell, ways, stream.prefix(cell.events).table(), repetitions, seconds)
                least = {name: min(times) for name, times in seconds.items()}
                measured = MeasuredCell(cell, count, least.pop(CHOSEN), least, least.pop(LISTING, None))
                if measured.is_met:
                    break
            found.append(measured)
            progress.advance()
    return found


def _run_in_turn(
    cell: Cell, ways: Mapping[str, Way], table: pa.Table, repetitions: int, seconds: Mapping[str, list[float]]
) -> int:
    """Add the seconds of some rounds; return the number of matches.

    Each round has an order of its own: a way is faster behind one that leaves its code and data in the caches.
    """
    shuffle = random.Random(sum(map(len, seconds.values())))
    names = list(ways)
    _, counts = _timed(ways, names, table)  # what is made ready once does not count
    if len(set(counts.values())) > 1:
        raise CepError(f"{cell}: the ways find different numbers of matches: {counts}")
    for turn in range(MOST_RUNS):
        least = {name: min(times) for name, times in seconds.items() if times}
        if turn >= repetitions:
            best = min(took for name, took in least.items() if name != LISTING)
            names = [name for name in names if name in (CHOSEN, LISTING) or least[name] < NEVER * best]
            if sum(least[name] for name in names) * turn > LEAST_S * len(names):
                break
        taken, _ = _timed(ways, shuffle.sample(names, len(names)), table)
        for name, took in taken.items():
            seconds[name].append(took)
    return counts[CHOSEN]


def _timed(ways: Mapping[str, Way], names: Sequence[str], table: pa.Table) -> tuple[dict[str, float], dict[str, int]]:
    """The seconds of the processor of each way, over events that nobody has asked about before, and its matches."""
    seconds, counts = {}, {}
    for name in names:
        fresh = pa.table(dict(zip(table.column_names, table.columns, strict=True)))
        begin = time.process_time()
        counts[name] = ways[name](fresh)
        seconds[name] = time.process_time() - begin
    return seconds, counts


def _ways(cell: Cell) -> dict[str, Way]:
    size = cell.size
    summarized = cell.output == SUMMARIZED
    patterns = drawn(cell.patterns, cell.density, SUMMARY if summarized else "")
    form = "verbose" if summarized else cell.output
    ways: dict[str, Way] = {CHOSEN: lambda table: _count(cell.output, detect(patterns, table, output=form))}

    def by(planner: str | None, mechanism: str) -> Way:
        def run(table: pa.Table) -> int:
            plan = own_order_plan(patterns) if planner is None else _planned(patterns, table, planner, mechanism)
            return _count(cell.output, detect(patterns, table, plan, mechanism, form))

        return run

    ways["fused, own order"] = by(None, "fused")
    if cell.patterns <= MOST_PLANNED:
        ways["fused, dp_left_deep"] = by("dp_left_deep", "fused")
    if size <= (MOST_STORED if cell.density in ("rare", "some") else MOST_STORED // 10):
        ways |= {f"{name}, own order": by(None, name) for name in STORING}
    if summarized and (size <= MOST_LISTED or cell.density != "dense"):
        read = drawn(cell.patterns, cell.density, READ)
        ways["listed and grouped"] = lambda table: _grouped(read, table)
    if cell.output == "compressed":
        ways[LISTING] = lambda table: _count("verbose", detect(patterns, table, output="verbose"))
        ways["listed"] = lambda table: _listed(patterns, table)
        if size <= MOST_MERGED // 10 or (cell.density == "rare" and size <= MOST_STORED):
            ways["merged runs"] = lambda table: _merged(patterns, table)
    return ways


def _planned(patterns: Sequence[Pattern], table: pa.Table, planner: str | None, mechanism: str) -> Plan:
    chosen = choose_mechanisms(patterns, mechanism)
    return plan_for(patterns, estimate_statistics(patterns, table), chosen, planner, compare=False)


def _count(output: str, found: Mapping[str, pa.Table]) -> int:
    if output == "verbose":
        return sum(table.num_rows for table in found.values())
    if output == "compressed":  # as many rows as events: adding them up in Python would be a part of the time
        return sum(int(pc.sum(table["count"].cast(pa.int64())).as_py() or 0) for table in found.values())
    return sum(from_text(text) for table in found.values() for text in table.column("count").to_pylist())


def _grouped(patterns: Sequence[Pattern], table: pa.Table) -> int:
    """The aggregates of listed matches, by Arrow."""
    rows = pa.concat_tables(detect(patterns, table, own_order_plan(patterns), "fused").values())
    minute = pc.divide(rows.column("minute"), MINUTE_US)
    by = pa.table([rows.column("pattern"), minute, rows.column("most"), rows.column("mean")], GROUPED)
    found = by.group_by(GROUPED[:2]).aggregate([("most", "max"), ("mean", "mean"), ([], "count_all")])
    return int(pc.sum(found.column("count_all")).as_py() or 0)


def _listed(patterns: Sequence[Pattern], table: pa.Table) -> int:
    """The matches as buffers, listed however many they are."""
    with patch.object(outputs, "FEW_MATCHES", 1 << 62):
        return _count("compressed", detect(patterns, table, own_order_plan(patterns), "fused", "compressed"))


def _merged(patterns: Sequence[Pattern], table: pa.Table) -> int:
    """The matches as buffers, by merged runs only."""
    with patch.object(outputs, "_compressed_by_listing", lambda *_: None):
        return _count("compressed", detect(patterns, table, own_order_plan(patterns), "fused", "compressed"))


def calibrated(stream: StockStream, repetitions: int, progress: Progress) -> MechanismCosts:
    """Fit what a unit of work costs each mechanism, and planning: least relative errors, no cost below 0."""
    kinds = tuple(WINDOWS_MS)
    jobs = [(1, n, kind) for n in EVENTS[:2] for kind in kinds] + [(10, 1_000, kind) for kind in kinds]
    jobs += [(10, 10_000, "rare"), (100, 1_000, "rare"), (100, 1_000, "some"), (3, 100_000, LATE)]
    jobs += [(1, 100_000, "dense"), (1, 300_000, "dense"), (1, 1_000_000, LATE)]
    jobs += [(count, n, kind) for kind in EVERY_WINDOWS_MS for count, n in ((1, 30_000), (1, 300_000), (10, 10_000))]
    progress.begin("mechanisms", len(jobs))
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    planning = []
    with one_core():
        for count, n, density in jobs:
            patterns, table = drawn(count, density), stream.prefix(n).table()
            plan = _planned(patterns, table, "trivial", "fused")
            works = [expected_work(one, plan.statistics) for one in plan.patterns]
            work = (1.0, float(n), *np.sum(works, axis=0)[2:].tolist())
            ways: dict[str, Way] = {PLANNED: partial(_number_planned, patterns, _prepared(patterns, table))}
            for name in CALIBRATED:
                most = MOST_MADE if name in STORING else MOST_MADE // 10
                if name != "fused" and sum(work[4:]) > most:
                    continue
                own = _planned(patterns, table, "trivial", name)
                for output in OUTPUTS:
                    ways[f"{name} {output}"] = partial(_found, patterns, own, name, output)
            names = list(ways)
            seconds: dict[str, list[float]] = {name: [] for name in names}
            _timed(ways, names, table)
            for _ in range(repetitions):
                for name, took in _timed(ways, names, table)[0].items():
                    seconds[name].append(took)
            for name, times in seconds.items():
                if name == PLANNED:
                    planning.append((1.0, float(n), float(count), min(times) * 1e9))
                else:
                    mechanism, output = name.split()
                    rows.setdefault((mechanism, output), []).append((*work, min(times) * 1e9))
            progress.advance()
    # No mechanism does anything in less time than the kernel's loops.
    kernel = {"candidate": kernel_costs().candidate, "partial": kernel_costs().partial_match}
    least = [kernel.get(unit, 0.0) for unit in WORK]
    by_mechanism: dict[str, dict[str, tuple[float, ...]]] = {}
    for (name, output), measured in rows.items():
        by_mechanism.setdefault(name, {})[output] = _per_unit(measured, least)
    return MechanismCosts(
        by_mechanism, _per_unit(planning, [0.0] * len(PLANNING)), f"{machine()}, {datetime.now(UTC):%Y-%m-%d}"
    )


def _found(patterns: Sequence[Pattern], plan: Plan, mechanism: str, output: str, table: pa.Table) -> int:
    return len(detect(patterns, table, plan, mechanism, output))


def _prepared(patterns: Sequence[Pattern], table: pa.Table) -> PreparedEvents:
    """Events that are split by type, as those of a call are when it is asked whether a plan pays."""
    prepared = PreparedEvents(table, type_attribute=patterns[0].type_attribute, base_type=patterns[0].base_type)
    prepared.split(operand.event_type for pattern in patterns for operand in pattern.operands)
    return prepared


def _number_planned(patterns: Sequence[Pattern], events: PreparedEvents, _: pa.Table) -> int:
    snapshot = rough_statistics(patterns, events)
    return len(plan_for(patterns, snapshot, choose_mechanisms(patterns, "fused"), compare=False).patterns)


def _per_unit(measured: Sequence[tuple[float, ...]], least: Sequence[float]) -> tuple[float, ...]:
    """The cost of a unit of each kind of work, given how much there was of each, and the nanoseconds that it took."""
    data = np.array(measured)
    work, taken = data[:, :-1], data[:, -1]
    more = positive_least_squares(work / taken[:, None], np.maximum(1 - work @ np.array(least) / taken, 0))
    return tuple(float(f"{value:.4g}") for value in more + least)


def write_constants(costs: MechanismCosts, path: Path) -> None:
    """Write the constants as the package keeps them."""
    content = {
        "measured_on": costs.measured_on,
        "planning": dict(zip(PLANNING, costs.planning, strict=True)),
        "mechanisms": {
            name: {output: dict(zip(WORK, own, strict=True)) for output, own in forms.items()}
            for name, forms in costs.by_mechanism.items()
        },
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def choice_page(found: Sequence[MeasuredCell], costs: MechanismCosts) -> str:
    """Return the page in Markdown: what is chosen beside the best in hindsight, and what the mechanisms cost."""
    rows = []
    for output in (*OUTPUTS, SUMMARIZED, "all"):
        own = [one for one in found if output in (one.cell.output, "all")]
        if not own:
            continue
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
        *_compressed_beside_listing(found),
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
    constants = [
        [name, output, *map(str, own)] for name, forms in costs.by_mechanism.items() for output, own in forms.items()
    ]
    lines.append(markdown_table(["mechanism", "output", *WORK], constants))
    lines += ["", "What a unit of planning costs, in nanoseconds:", ""]
    lines.append(markdown_table(PLANNING, [list(map(str, costs.planning))]))
    return "\n".join(lines)


def _compressed_beside_listing(found: Sequence[MeasuredCell]) -> list[str]:
    """The part of the page on output `compressed` beside listing; [] where it was not measured."""
    ratios = {str(one.cell): one.of_listing for one in found if one.of_listing is not None}
    if not ratios:
        return []
    values, worst = np.array(list(ratios.values())), max(ratios, key=ratios.__getitem__)
    above = int((values > COMPRESSED_AIM).sum())
    row = [str(len(values)), f"{np.median(values):.2f}", f"{values.max():.2f}", worst, str(above)]
    return [
        f"Aim: output `compressed` takes at most {COMPRESSED_AIM} times as long as listing, each by what is chosen, in "
        "every cell. Both are run in turn, over the same events.",
        "",
        markdown_table(
            ["cells", "median", "largest", "the largest is", f"above {COMPRESSED_AIM}", "aim"],
            [[*row, "MISSED" if above else "met"]],
        ),
        "",
    ]
