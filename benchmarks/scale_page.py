"""The page of `cep bench scale`: tables of what grows with what, and the arithmetic of a very large day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.report import markdown_table
from benchmarks.scale import DAYS, EVENTS, MIDDLE_DAY, PATTERNS, SMALL_DAY, STREAMS, Measured
from cep_pipeline.cli.terminal import format_seconds
from cep_pipeline.events.columns import SEQ_PER_DAY

VERY_LARGE = 10**12
"""Events of the day that is reckoned with and not run."""
HOURS = 4
"""The very large day is to be done in so many hours."""
USD_OF_A_CORE_HOUR = 0.05
"""Approximate price of a core with its memory, where machines are rented by the hour."""
_TEXT: Mapping[str, str] = {
    EVENTS: "One day, from its raw Parquet file to published matches, by one set of two patterns. A larger day has "
    "more stocks, so that matches grow with the events. Memory is the most that one process of each kind held.",
    DAYS: f"Days of {SMALL_DAY:,} events in one warehouse. Each row is a run of its own over the days that the row "
    "above it does not have. Files and metadata are those of all days so far.",
    PATTERNS: f"One day of {MIDDLE_DAY:,} events, and one set of so many patterns that are drawn at random.",
    STREAMS: f"One day of {SMALL_DAY:,} events of each stream, one stream after another in one process.",
}
_COLUMNS: Mapping[str, Callable[[Measured], str]] = {
    "events": lambda one: f"{one.events:,}",
    "matches": lambda one: f"{one.matches:,}",
    "slices": lambda one: f"{one.slices:,}",
    "wall": lambda one: _time(one.seconds),
    "wall a day": lambda one: format_seconds(one.seconds / one.days),
    "wall a stream": lambda one: format_seconds(one.seconds / one.streams),
    "processors": lambda one: _time(one.processor_s),
    "plan": lambda one: format_seconds(one.steps_s.get("plan", 0.0)),
    "detection": lambda one: format_seconds(one.steps_s.get("detect market", 0.0)),
    "driver": lambda one: _bytes(one.driver_kb * 1000),
    "JVM": lambda one: _bytes(one.jvm_kb * 1000),
    "largest worker": lambda one: _bytes(one.worker_kb * 1000),
    "files": lambda one: f"{one.files:,}",
    "metadata": lambda one: _bytes(one.metadata_bytes),
}
_TABLES: Mapping[str, tuple[str, Sequence[str]]] = {
    EVENTS: (
        "Events of a day",
        ("events", "matches", "slices", "wall", "processors", "driver", "JVM", "largest worker", "files"),
    ),
    DAYS: ("Days", ("wall", "wall a day", "driver", "largest worker", "files", "metadata")),
    PATTERNS: ("Patterns", ("matches", "wall", "plan", "detection", "driver", "largest worker")),
    STREAMS: ("Streams", ("wall", "wall a stream", "driver", "largest worker", "files", "metadata")),
}


def scale_sections(measured: Sequence[Measured], master: str) -> list[str]:
    """Return the sections of a page."""
    sections = [
        f"Each row is one run of `cep run` on Spark {master}, in a process of its own that starts Spark and the "
        "workers. The machine is shared, so times are rough; memory is not."
    ]
    for axis, (title, columns) in _TABLES.items():
        rows = [one for one in measured if one.axis == axis]
        head = ("days so far" if axis == DAYS else axis, *(name for name in columns if name != axis))
        cells = [[f"{one.size:,}", *(_COLUMNS[name](one) for name in head[1:])] for one in rows]
        sections.append(f"## {title}\n\n{_TEXT[axis]}\n\n{markdown_table(head, cells)}")
    return sections + _very_large([one for one in measured if one.axis == EVENTS])


def _very_large(days: Sequence[Measured]) -> list[str]:
    """Reckon with a day of `VERY_LARGE` events from the smallest and the largest day that were measured."""
    small, large = days[0], days[-1]
    more = large.events - small.events

    def each(of: Callable[[Measured], float]) -> float:
        """Return how much one event more adds: what a run costs that has no events is left out."""
        return (of(large) - of(small)) / more

    core_s = each(lambda one: one.processor_s) * VERY_LARGE
    slices = large.slices / large.events * VERY_LARGE
    files = each(lambda one: one.files) * VERY_LARGE
    stored = each(lambda one: one.data_bytes) * VERY_LARGE
    metadata = each(lambda one: one.metadata_bytes) * VERY_LARGE
    publish_s = each(lambda one: sum(s for name, s in one.steps_s.items() if name.startswith("publish"))) * VERY_LARGE
    cores = core_s / 3600 / HOURS
    rows = [
        ["slices", f"{large.events / large.slices:,.0f} events each", f"{slices:,.0f}"],
        [
            "processor time",
            f"{core_s / VERY_LARGE * 1e6:.2f} s for a million events",
            f"{core_s / 3600:,.0f} core-hours",
        ],
        ["cores", f"to be done in {HOURS} hours", f"{cores:,.0f}"],
        ["memory of the workers", f"{_bytes(large.worker_kb * 1000)} a core", _bytes(cores * large.worker_kb * 1000)],
        ["published data", f"{stored / VERY_LARGE:.1f} bytes an event", _bytes(stored)],
        ["files", f"{files / VERY_LARGE * 1e6:.2f} for a million events", f"{files:,.0f}"],
        ["metadata", f"{_bytes(metadata / files)} a file" if files > 0 else "", _bytes(metadata)],
        ["commits to the catalog", "one for each table that the day changes", "as for a small day"],
        [
            "publishing, in the driver",
            f"{format_seconds(publish_s / files)} a file" if files > 0 else "",
            _time(publish_s),
        ],
        ["cost", f"USD {USD_OF_A_CORE_HOUR} a core-hour, assumed", f"USD {core_s / 3600 * USD_OF_A_CORE_HOUR:,.0f}"],
    ]
    return [
        f"## A day of {VERY_LARGE:,} events on a cluster\n\n"
        "This day was not run. The figures follow from the smallest and the largest day above: what an event more "
        f"adds, times {VERY_LARGE:,}.\n\n" + markdown_table(["what", "by", "for the day"], rows),
        "## The first three things that would break\n\n"
        f"1. **The commit.** One process publishes the day: it reads the footer of each of {files:,.0f} files and "
        f"writes their entries into one snapshot. That alone would take {_time(publish_s)}. Tasks would have to make "
        "the entries, and the day would have to be published in parts, an hour at a time.\n"
        f"2. **The driver.** It keeps a description of each file, row group and slice, and hands out {slices:,.0f} "
        f"tasks. It held {_bytes(large.driver_kb * 1000)} at {large.events:,} events and "
        f"{_bytes(small.driver_kb * 1000)} at {small.events:,}, so that it would need some "
        f"{_bytes(max(each(lambda one: one.driver_kb), 0.0) * 1000 * VERY_LARGE)}. The day would have to be cut by "
        "hours before it is cut into slices.\n"
        f"3. **The numbers of events.** The `seq` of an event leaves room for {SEQ_PER_DAY:,} events a day, of which "
        f"{VERY_LARGE / SEQ_PER_DAY:.0%} would be taken, and the positions within a day are made from counts that the "
        "driver adds up run by run. The next factor of ten needs another numbering.",
    ]


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
