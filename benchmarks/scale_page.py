"""The page of `cep bench scale`: tables of what grows with what, and the arithmetic of a very large day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.report import markdown_table
from benchmarks.scale import DAYS, EVENTS, MIDDLE_DAY, PATTERNS, SMALL_DAY, STREAMS, Measured
from benchmarks.words import filled
from cep_pipeline.cli.terminal import format_seconds
from cep_pipeline.events.columns import SEQ_PER_DAY

VERY_LARGE = 10**12
"""Events of the day that is reckoned with and not run."""
HOURS = 4
"""The very large day is to be done in so many hours."""
USD_OF_A_CORE_HOUR = 0.05
"""Approximate price of a core with its memory, where machines are rented by the hour."""
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
_TABLES: Mapping[str, Sequence[str]] = {
    EVENTS: ("events", "matches", "slices", "wall", "processors", "driver", "JVM", "largest worker", "files"),
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
        very_large=VERY_LARGE,
        seq_per_day=SEQ_PER_DAY,
        reckoned=_very_large([one for one in measured if one.axis == EVENTS]),
        **tables,
    )


def _very_large(days: Sequence[Measured]) -> dict[str, object]:
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
    return {
        "table": markdown_table(["what", "by", "for the day"], rows),
        "files": f"{files:,.0f}",
        "publishing": _time(publish_s),
        "slices": f"{slices:,.0f}",
        "small": small.events,
        "large": large.events,
        "driver_small": _bytes(small.driver_kb * 1000),
        "driver_large": _bytes(large.driver_kb * 1000),
        "driver": _bytes(max(each(lambda one: one.driver_kb), 0.0) * 1000 * VERY_LARGE),
    }


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
