"""Results of benchmarks: medians, spreads and ratios of runs side by side, as tables and pages for people."""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cep_pipeline.cli.options import counted
from cep_pipeline.cli.terminal import format_seconds, times_as_fast

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_TEMPLATES.filters |= {"times": times_as_fast, "seconds": format_seconds, "commas": "{:,}".format}
"""The words of pages: templates beside the code, which are filled with figures and tables."""


@dataclass(frozen=True)
class Timing:
    """Seconds of repeated runs of one engine on one workload."""

    engine: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Largest minus smallest, as a share of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median

    def ratio(self, other: Timing) -> float:
        """Return the time of the other one as a multiple of this one: the median over runs that followed each other."""
        # An engine that takes long is run fewer times.
        return statistics.median(theirs / own for own, theirs in zip(self.seconds, other.seconds, strict=False))


@dataclass(frozen=True)
class Comparison:
    """Engines that did the same work in one run, ours first."""

    workload: str
    events: int
    matches: int
    ours: Timing
    peers: tuple[Timing, ...]


def machine() -> str:
    """The machine and its software as a result states them: CPU, cores, Python, libraries."""
    told = Path("/proc/cpuinfo")  # of Linux; elsewhere the platform's own name stands
    model = re.search(r"^model name\s*:(.*)$", told.read_text(encoding="utf-8") if told.exists() else "", re.M)
    name = model[1].strip() if model else platform.processor() or platform.machine()
    return f"{name}, {counted(cores(), 'core')} (shared), Python {platform.python_version()}, {', '.join(_versions())}"


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _versions() -> Iterator[str]:
    for name in ("numpy", "pyarrow", "numba", "llvmlite", "pyspark", "duckdb"):
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue  # an optional peer


def unpadded(page: str) -> str:
    """A page for a file: its tables without the blanks that make them readable as text, a third of its bytes."""
    return re.sub(r"^\|.*$", lambda line: re.sub(r" {2,}", " ", re.sub(r"-{4,}", "---", line[0])), page, flags=re.M)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, its columns padded so that it also reads as text."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def filled(template: str, **figures: object) -> str:
    """The text of a template, a path below this folder, with one blank line between paragraphs and one line end."""
    text = _TEMPLATES.get_template(template).render(**figures)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
