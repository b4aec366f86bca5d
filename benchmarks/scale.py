"""Growth, measured: days of more and more events, more days, more patterns, more streams, each run as `cep run` does.

Each size of each axis is a project in a folder of its own, run in a process that is watched with all that it starts:
the JVM and the workers. What is measured of a size is kept, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.experiments.experiment import Cell, CellStore, Figure, Row, finished_rows, number, rows_of
from benchmarks.measure import Progress
from benchmarks.report import filled, markdown_table
from cep_pipeline.cli.terminal import format_seconds
from cep_pipeline.errors import CepError
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
MEASURED = "scale.cells.jsonl"
"""File of the folder: the results so far."""
EVERY_S = 0.5
"""Seconds between two looks at the processes of a run."""
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


def sizes_of(share: float) -> dict[str, tuple[int, ...]]:
    """Return the sizes of each axis, of which a share is taken.

    Examples
    --------
    >>> sizes_of(0.01)["days"], sizes_of(1)["streams"]
    ((1, 5), (1, 10, 100))
    """
    return {axis: tuple(dict.fromkeys(max(1, round(size * share)) for size in sizes)) for axis, sizes in SIZES.items()}


def measure_scale(folder: Path, sizes: Mapping[str, Sequence[int]], master: str, progress: Progress) -> list[Row]:
    """Measure all sizes that have not been measured in this folder yet; a row for each, by axis and size.

    The folder keeps the results. A run that fails is a CepError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cells = [
        Cell(
            {"axis": axis, "size": size, "master": master},
            partial(_measure, folder / axis, axis, size, master, progress),
        )
        for axis, of_axis in sizes.items()
        for size in of_axis
    ]
    return finished_rows(cells, CellStore(folder / MEASURED, {}), lambda: None)


def _measure(place: Path, axis: str, size: int, master: str, progress: Progress) -> dict[str, Figure]:
    """The figures of one size.

    - `seconds`, `processor_s`: on the wall, and of all processors.
    - `driver`, `jvm`, `worker`: the most bytes that the driver, the JVM and one worker held.
    - `slices`: those of its largest detection.
    - `files`, `metadata`: of the warehouse after the run: its files, and the bytes of the tables' metadata.
    - `step STEP`: seconds of a step on the wall in all days.
    """
    shutil.rmtree(place, ignore_errors=True)
    days = [FIRST_DAY + timedelta(days=number) for number in range(size if axis == DAYS else 1)]
    events = {EVENTS: size, PATTERNS: MIDDLE_DAY}.get(axis, SMALL_DAY)
    streams = [f"trades_{number}" for number in range(size if axis == STREAMS else 1)]
    progress.begin(f"{axis} {size:,}: making the raw days", len(days))
    for day in days:
        write_day(place / "raw" / f"{day}.parquet", day, events)
        progress.advance()
    configuration = _write_project(place, streams, size if axis == PATTERNS else None, master)
    progress.begin(f"{axis} {size:,}", 0)
    used, seconds = _run_watched(configuration, days)
    figures: dict[str, Figure] = {"days": len(days), "streams": len(streams), "seconds": seconds}
    figures |= {"processor_s": sum(used.processor_s.values()), **used.most_bytes, **_result(configuration)}
    shutil.rmtree(place)
    return figures


@dataclass
class Used:
    """The things that a process and all that it started have used so far.

    `processor_s` has of each process the seconds of the processor at the last look. `most_bytes` is the most memory
    that one process held, where shared memory is divided by its users: `driver`, the first of them; `jvm`; `worker`,
    each other process of Python. Linux alone tells. What is used between the last look at a process and its end is
    missing: half a second at most.
    """

    processor_s: dict[int, float] = field(default_factory=dict)
    most_bytes: dict[str, int] = field(default_factory=lambda: {"driver": 0, "jvm": 0, "worker": 0})

    def look_at(self, pid: int) -> None:
        """Look once at a process and its family; one that ends meanwhile holds nothing."""
        family: list[psutil.Process] = []
        with suppress(psutil.Error):
            first = psutil.Process(pid)
            family = [first, *first.children(recursive=True)]
        for process in family:
            with suppress(psutil.Error):
                times = process.cpu_times()
                self.processor_s[process.pid] = times.user + times.system
                held = getattr(process.memory_full_info(), "pss", 0)
                kind = "driver" if process is family[0] else "jvm" if process.name() == "java" else "worker"
                self.most_bytes[kind] = max(self.most_bytes[kind], held)


@contextmanager
def watched(pid: int) -> Iterator[Used]:
    """Watch a process with all that it starts, to the end of the block."""
    used, done = Used(), threading.Event()

    def watch() -> None:
        used.look_at(pid)
        while not done.wait(EVERY_S):
            used.look_at(pid)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(watch)
        try:
            yield used
        finally:
            done.set()


def _run_watched(configuration: Path, days: Sequence[date]) -> tuple[Used, float]:
    """Do the job of `_do_job` in a fresh process; what was used, and the seconds on the wall."""
    begin = time.perf_counter()
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        try:
            with watched(process.submit(os.getpid).result()) as used:
                process.submit(_do_job, configuration, days).result()
        except BrokenProcessPool as error:
            raise CepError(f"{configuration.parent}: the job ended without a word") from error
        return used, time.perf_counter() - begin


def _do_job(configuration: Path, days: Sequence[date]) -> None:
    """Do as `cep run` does with days, for each stream of a `pipeline.yaml`."""
    from cep_pipeline.pipeline.day_work import SilentObserver
    from cep_pipeline.pipeline.run import PipelineRun
    from cep_pipeline.spark.session import spark_session

    read = Configuration.load(configuration)
    warehouse, settings = read.open_warehouse(), read.settings.spark
    for stream in map(read.stream, read.stream_names()):
        tables = warehouse.stream(stream.schema)
        session = partial(spark_session, settings.master, app_name="cep bench")
        PipelineRun(stream, tables, settings, stream.pattern_sets, session, SilentObserver()).run_days(days)


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


def _result(configuration: Path) -> dict[str, Figure]:
    """Read what a run has left in the warehouse."""
    read = Configuration.load(configuration)
    warehouse = read.open_warehouse()
    events = matches = slices = 0
    steps: dict[str, float] = {}
    for name in read.stream_names():
        tables = warehouse.stream(read.stream(name).schema)
        events += sum(record.events for record in tables.days())
        matches += sum(unit.matches for unit in tables.matches_days())
        for step in (step for record in tables.runs() for step in record.steps):
            steps[f"step {step.name}"] = steps.get(f"step {step.name}", 0.0) + step.seconds
            slices = max(slices, dict(step.counts).get("slices", 0) if step.name.startswith("detect") else 0)
    files = [path for path in Path(read.warehouse_location).rglob("*") if path.is_file()]
    metadata = sum(path.stat().st_size for path in files if path.parent.name == "metadata")
    left: dict[str, Figure] = {"events": events, "matches": matches, "slices": slices}
    return {**left, "files": len(files), "metadata": metadata, **steps}


def _count(name: str) -> Callable[[Row], str]:
    return lambda row: f"{number(row, name):,.0f}"


def _size(name: str) -> Callable[[Row], str]:
    return lambda row: _bytes(number(row, name))


def _seconds(*names: str, per: str | None = None) -> Callable[[Row], str]:
    return lambda row: format_seconds(sum(number(row, name) for name in names) / (number(row, per) if per else 1))


_COLUMNS: Mapping[str, Callable[[Row], str]] = {
    **{name: _count(name) for name in ("events", "matches", "slices", "files")},
    "wall": lambda row: _time(number(row, "seconds")),
    "wall a day": _seconds("seconds", per="days"),
    "wall a stream": _seconds("seconds", per="streams"),
    "processors": lambda row: _time(number(row, "processor_s")),
    "ingestion": _seconds("step ingest", "step preprocess"),
    "plan": _seconds("step plan"),
    "detection": _seconds("step detect market"),
    "driver": _size("driver"),
    "JVM": _size("jvm"),
    "largest worker": _size("worker"),
    "metadata": _size("metadata"),
}
_TABLES: Mapping[str, Sequence[str]] = {
    EVENTS: ("matches", "slices", "wall", "ingestion", "processors", "driver", "JVM", "largest worker", "files"),
    DAYS: ("wall", "wall a day", "driver", "largest worker", "files", "metadata"),
    PATTERNS: ("matches", "wall", "plan", "detection", "driver", "largest worker"),
    STREAMS: ("wall", "wall a stream", "driver", "largest worker", "files", "metadata"),
}


def scale_text(measured: Sequence[Row], master: str) -> str:
    """Return what a page says."""
    tables = {
        axis: markdown_table(
            [axis, *columns],
            [[f"{row['size']:,}", *(_COLUMNS[name](row) for name in columns)] for row in rows_of(measured, axis=axis)],
        )
        for axis, columns in _TABLES.items()
    }
    return filled("scale.jinja", master=master, small_day=SMALL_DAY, middle_day=MIDDLE_DAY, **tables)


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
