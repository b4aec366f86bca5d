"""The page of `cep bench scale`: tables of what grows with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.report import markdown_table
from benchmarks.scale import DAYS, EVENTS, MIDDLE_DAY, PATTERNS, SMALL_DAY, STREAMS, Measured
from benchmarks.words import filled
from cep_pipeline.cli.terminal import format_seconds

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
