"""Growth, measured: days of more and more events, more days, more patterns, more streams, each run as `cep run` does.

Each size of each axis is a project in a folder, run in a process of its own that is watched with all that it starts.
The result of a size is kept when it is measured, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Progress
from benchmarks.processes import run_watched
from benchmarks.report import markdown_table
from benchmarks.words import filled
from cep_pipeline.cli.terminal import format_seconds
from cep_pipeline.pipeline.configuration import Configuration

EVENTS, DAYS, PATTERNS, STREAMS = "events", "days", "patterns", "streams"
SIZES: Mapping[str, Sequence[int]] = {
    EVENTS: (1_000_000, 5_000_000, 20_000_000, 80_000_000),
    DAYS: (1, 20, 100, 500),
    PATTERNS: (1, 10, 100, 1_000),
    STREAMS: (1, 10, 100),
}
"""Axis -> what is measured: events of one day, days, patterns of one set, streams of one configuration."""
SMALL_DAY, MIDDLE_DAY = 1_000, 100_000
"""Events of a day of the axes `days` and `streams`, and of the axis `patterns`."""
EVENTS_OF_A_STOCK = 20_000
"""A larger day has more stocks and not faster ones, so that matches grow with the events."""
FIRST_DAY = date(2025, 1, 6)
MEASURED = "measured.jsonl"
"""File of the folder: the results so far."""
_CHUNK = 1_000_000
_SESSION_S = 23_400
_SCHEMA = """\
name: {stream}
timezone: America/New_York
base_type: Trade
type_attribute: symbol
timestamp: timestamp
attributes: {{symbol: string, price: float64, size: int64}}
derived: {{diff: {{diff: {{of: price}}}}}}
source: {{format: parquet, path: "{{day:%Y-%m-%d}}.parquet"}}
quality: {{expectations: [{{column: price, above: 0, severity: critical}}]}}
"""
_PATTERNS = """\
NAME rising_blocks
PATTERN SEQ(Trade a, Trade b, Trade c)
WHERE [symbol] AND a.size > 900 AND b.size > 900 AND c.size > 900 AND b.price > a.price AND c.price > b.price
WITHIN 20 seconds;
NAME two_stocks_up
PATTERN SEQ("S0" a, "S1" b)
WHERE a.diff > 0.5 AND b.diff > 0.5
WITHIN 1 second;
"""
_STOCKS = tuple(f"S{number}" for number in range(8))
_PAIRS = 100
"""Number of the pairs of stocks with which drawn patterns begin: that is what they share."""
_RARE = ("size > 990", "diff > 1.64")
"""Conditions that one event of a hundred fulfils."""
_SPECIAL = 0.2
"""Share of drawn patterns with NOT or KL."""


@dataclass(frozen=True)
class Measured:
    """One size of an axis, and what running it took.

    - `axis`, `size`: of `SIZES`, or a share of it.
    - `days`, `streams`: the run was over so many days, of each of so many streams. On the axis `days` they are the days
      that the size before does not have.
    - `slices`: those of its largest detection.
    - `seconds`, `processor_s`: on the wall, and of all processors.
    - `driver_kb`, `jvm_kb`, `worker_kb`: the most memory that the driver, the JVM and one worker held.
    - `files`, `metadata_bytes`: of the warehouse after the run: its files, and the bytes of the tables' metadata.
    - `steps_s`: name of a step -> its seconds on the wall in all days.
    """

    axis: str
    size: int
    days: int
    streams: int
    events: int
    matches: int
    slices: int
    seconds: float
    processor_s: float
    driver_kb: int
    jvm_kb: int
    worker_kb: int
    files: int
    metadata_bytes: int
    steps_s: Mapping[str, float]


def sizes_of(share: float) -> dict[str, tuple[int, ...]]:
    """Return the sizes of each axis, of which a share is taken.

    Examples
    --------
    >>> sizes_of(0.01)["days"], sizes_of(1)["streams"]
    ((1, 5), (1, 10, 100))
    """
    return {axis: tuple(dict.fromkeys(max(1, round(size * share)) for size in sizes)) for axis, sizes in SIZES.items()}


def measure_scale(folder: Path, sizes: Mapping[str, Sequence[int]], master: str, progress: Progress) -> list[Measured]:
    """Measure all sizes that have not been measured in this folder yet; returns all that have, by axis and size.

    The folder keeps the projects and the results. The sizes of an axis are ascending. A run that fails is a CepError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = {(one.axis, one.size): one for one in _known(folder)}
    # Days go on in one warehouse: results of other numbers of days do not lead to those that are asked for.
    days = sorted(size for axis, size in known if axis == DAYS)
    if list(sizes.get(DAYS, days))[: len(days)] != days:
        known = {key: one for key, one in known.items() if key[0] != DAYS}
    for axis, of_axis in sizes.items():
        for before, size in zip((0, *of_axis), of_axis, strict=False):
            if (axis, size) not in known:
                known[axis, size] = _measure(folder, axis, before, size, master, progress)
                with (folder / MEASURED).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(known[axis, size])) + "\n")
    return sorted(known.values(), key=lambda one: (list(SIZES).index(one.axis), one.size))


def _known(folder: Path) -> Iterator[Measured]:
    """Yield the results so far; those of the days only if no run over further days was stopped."""
    if not (folder / MEASURED).exists():
        return
    found = [Measured(**json.loads(line)) for line in (folder / MEASURED).read_text(encoding="utf-8").splitlines()]
    made = len(list((folder / DAYS / "raw").glob("*.parquet")))
    measured = max((one.size for one in found if one.axis == DAYS), default=0)
    yield from (one for one in found if one.axis != DAYS or made == measured)


def _measure(folder: Path, axis: str, before: int, size: int, master: str, progress: Progress) -> Measured:
    place = folder / axis
    if axis != DAYS or not before:
        # A larger number of days goes on in the warehouse of the smaller one.
        shutil.rmtree(place, ignore_errors=True)
    numbers = range(before, size) if axis == DAYS else range(1)
    days = [FIRST_DAY + timedelta(days=number) for number in numbers]
    events = {EVENTS: size, PATTERNS: MIDDLE_DAY}.get(axis, SMALL_DAY)
    streams = [f"trades_{number}" for number in range(size if axis == STREAMS else 1)]
    progress.begin(f"{axis} {size:,}: making the raw days", len(days))
    for day in days:
        write_day(place / "raw" / f"{day}.parquet", day, events)
        progress.advance()
    configuration = _write_project(place, streams, size if axis == PATTERNS else None, master)
    progress.begin(f"{axis} {size:,}", 0)
    watched, seconds = run_watched(configuration, days)
    found = _result(configuration, days)
    measured = Measured(
        axis=axis,
        size=size,
        days=len(days),
        streams=len(streams),
        seconds=seconds,
        processor_s=watched.processor_s,
        driver_kb=watched.largest_kb.get("driver", 0),
        jvm_kb=watched.largest_kb.get("jvm", 0),
        worker_kb=watched.largest_kb.get("worker", 0),
        **found,
    )
    if axis != DAYS:
        shutil.rmtree(place)
    return measured


def write_day(path: Path, day: date, events: int) -> None:
    """Write a raw day of trades; the same day and number of events give the same trades."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stocks = max(events // EVENTS_OF_A_STOCK, 8)
    names = pa.array([f"S{number}" for number in range(stocks)])
    draw = np.random.default_rng(day.toordinal())
    opening = int(datetime(day.year, day.month, day.day, 9, 30, tzinfo=ZoneInfo("America/New_York")).timestamp())
    price = draw.uniform(20.0, 400.0, stocks)
    part: Path = path.with_suffix(".part")
    writer = None
    for first in range(0, events, _CHUNK):
        rows = min(_CHUNK, events - first)
        within = np.sort(
            draw.integers(first * _SESSION_S * 1_000 // events, (first + rows) * _SESSION_S * 1_000 // events, rows)
        )
        stock = draw.integers(0, stocks, rows)
        table = pa.table(
            {
                "timestamp": pa.array((opening * 1_000 + within) * 1_000, pa.timestamp("us", tz="UTC")),
                "symbol": pa.DictionaryArray.from_arrays(pa.array(stock.astype(np.int32)), names).cast(pa.string()),
                "price": pa.array(np.round(price[stock] + draw.normal(0.0, 0.5, rows), 2)),
                "size": pa.array(draw.integers(1, 1_001, rows)),
            }
        )
        writer = writer or pq.ParquetWriter(part, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    part.replace(path)


def draw_patterns(number: int) -> str:
    """The text of a file of so many patterns over a day, no two alike; the first ones are the same for any number.

    They are as MCEP [0129] has them: a SEQ or an AND, about half of its events compared by pairs, a fifth with NOT or
    KL. Each event is to be a rare one, so that matches, which no plan saves, are few.
    """
    draw = random.Random(1)
    pairs = [draw.sample(_STOCKS, 2) for _ in range(_PAIRS)]
    drawn: dict[str, None] = {}
    while len(drawn) < number:
        names, first = "abcde"[: draw.choice((3, 4, 5))], draw.choice(pairs)
        stocks = [*first, *draw.sample([stock for stock in _STOCKS if stock not in first], len(names) - 2)]
        special = draw.choice(("NOT", "KL")) if draw.random() < _SPECIAL else ""
        place = draw.randrange(1, len(names) - 1) if special else -1
        operator = "SEQ" if special == "NOT" or draw.random() < 0.6 else "AND"
        operands = [f'"{stock}" {name}' for stock, name in zip(stocks, names, strict=True)]
        events = list(names)
        if special:
            operands[place] = f"{special}({operands[place]})"
            events[place] += "[i]" if special == "KL" else ""
        bound = [name for at, name in enumerate(names) if at != place]
        conditions = []
        for one, other in draw.sample([*combinations(bound, 2)], len(names) // 2):
            attribute = draw.choice(("diff", "price", "size"))
            conditions.append(f"{one}.{attribute} {draw.choice('<>')} {other}.{attribute}")
        conditions += [f"{event}.{draw.choice(_RARE)}" for event in events]
        drawn[f"PATTERN {operator}({', '.join(operands)}) WHERE {' AND '.join(conditions)} WITHIN 1 second"] = None
    return ";\n".join(f"NAME p{at:04d} {pattern}" for at, pattern in enumerate(drawn)) + "\n"


def _write_project(place: Path, streams: Sequence[str], patterns: int | None, master: str) -> Path:
    """Write schemas, patterns and `pipeline.yaml`; patterns are drawn where there are to be so many."""
    for stream in streams:
        (place / f"{stream}.yaml").write_text(_SCHEMA.format(stream=stream), encoding="utf-8")
    text = _PATTERNS if patterns is None else draw_patterns(patterns)
    (place / "patterns.sase").write_text(text, encoding="utf-8")
    sets = {"market": {"file": "patterns.sase"}}
    content = {
        "streams": {name: {"schema": f"{name}.yaml", "data": "raw", "pattern_sets": sets} for name in streams},
        "warehouse": {"location": "warehouse"},
        "spark": {"master": master},
    }
    configuration = place / "pipeline.yaml"
    configuration.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")  # JSON is YAML
    return configuration


def _result(configuration: Path, days: Sequence[date]) -> dict[str, Any]:
    """Read what a run has left in the warehouse."""
    read = Configuration.load(configuration)
    warehouse = read.open_warehouse()
    events = matches = slices = 0
    steps: dict[str, float] = {}
    for name in read.stream_names():
        tables = warehouse.stream(read.stream(name).schema)
        events += sum(record.events for record in tables.days() if record.day in days)
        matches += sum(unit.matches for unit in tables.matches_days() if unit.final_day in days)
        for record in tables.runs():
            if record.status == "succeeded" and record.day in days:
                for step in record.steps:
                    steps[step.name] = steps.get(step.name, 0.0) + step.seconds
                    slices = max(slices, dict(step.counts).get("slices", 0) if step.name.startswith("detect") else 0)
    files = [path for path in Path(read.warehouse_location).rglob("*") if path.is_file()]
    return {
        "events": events,
        "matches": matches,
        "slices": slices,
        "steps_s": steps,
        "files": len(files),
        "metadata_bytes": sum(path.stat().st_size for path in files if path.parent.name == "metadata"),
    }


_COLUMNS: Mapping[str, Callable[[Measured], str]] = {
    "events": lambda one: f"{one.events:,}",
    "matches": lambda one: f"{one.matches:,}",
    "slices": lambda one: f"{one.slices:,}",
    "wall": lambda one: _time(one.seconds),
    "wall a day": lambda one: format_seconds(one.seconds / one.days),
    "wall a stream": lambda one: format_seconds(one.seconds / one.streams),
    "processors": lambda one: _time(one.processor_s),
    "ingestion": lambda one: format_seconds(one.steps_s.get("ingest", 0.0) + one.steps_s.get("preprocess", 0.0)),
    "plan": lambda one: format_seconds(one.steps_s.get("plan", 0.0)),
    "detection": lambda one: format_seconds(one.steps_s.get("detect market", 0.0)),
    "driver": lambda one: _bytes(one.driver_kb * 1000),
    "JVM": lambda one: _bytes(one.jvm_kb * 1000),
    "largest worker": lambda one: _bytes(one.worker_kb * 1000),
    "files": lambda one: f"{one.files:,}",
    "metadata": lambda one: _bytes(one.metadata_bytes),
}
_TABLES: Mapping[str, Sequence[str]] = {
    EVENTS: (
        "events",
        "matches",
        "slices",
        "wall",
        "ingestion",
        "processors",
        "driver",
        "JVM",
        "largest worker",
        "files",
    ),
    DAYS: ("wall", "wall a day", "driver", "largest worker", "files", "metadata"),
    PATTERNS: ("matches", "wall", "plan", "detection", "driver", "largest worker"),
    STREAMS: ("wall", "wall a stream", "driver", "largest worker", "files", "metadata"),
}


def scale_text(measured: Sequence[Measured], master: str) -> str:
    """Return what a page says."""
    tables = {}
    for axis, columns in _TABLES.items():
        head = ("days so far" if axis == DAYS else axis, *(name for name in columns if name != axis))
        rows = [one for one in measured if one.axis == axis]
        tables[axis] = markdown_table(
            head, [[f"{one.size:,}", *(_COLUMNS[name](one) for name in head[1:])] for one in rows]
        )
    return filled(
        "scale.jinja",
        master=master,
        small_day=SMALL_DAY,
        middle_day=MIDDLE_DAY,
        **tables,
    )


def _time(seconds: float) -> str:
    """Say a time in the unit that reads well.

    Examples
    --------
    >>> _time(12.3), _time(1590.1), _time(90_000)
    ('12.3 s', '26.5 min', '25.0 h')
    """
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6_000 else f"{seconds / 3600:,.1f} h"


def _bytes(number: float) -> str:
    """Say a size in the unit that reads well.

    Examples
    --------
    >>> _bytes(1_234), _bytes(2_500_000), _bytes(3e13)
    ('1.2 kB', '2.5 MB', '30.0 TB')
    """
    for unit, letter in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= unit:
            return f"{number / unit:,.1f} {letter}"
    return f"{number / 1e3:.1f} kB"
