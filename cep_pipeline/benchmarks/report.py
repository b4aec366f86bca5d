"""Results of benchmarks: medians, spreads and ratios of runs side by side, as tables for people."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


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


@dataclass(frozen=True)
class Comparison:
    """Engines that did the same work in one run, ours first; `bar` names a peer and the least ratio wanted."""

    workload: str
    events: int
    matches: int
    ours: Timing
    peers: tuple[Timing, ...]

    def ratio(self, peer: Timing) -> float:
        """How many times as fast as the peer we are: the median of the ratios of runs that followed each other."""
        # An engine that takes long is run fewer times.
        return statistics.median(theirs / ours for ours, theirs in zip(self.ours.seconds, peer.seconds, strict=False))


def machine() -> str:
    """The machine and its software as a result states them: CPU, cores, Python, libraries."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass  # not Linux: the platform's own name stands
    return f"{name}, {cores()} cores (shared), Python {platform.python_version()}, {', '.join(_versions())}"


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _versions() -> Iterator[str]:
    for name in ("numpy", "pyarrow", "numba", "llvmlite", "pyspark", "duckdb"):
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue  # an optional peer


def format_seconds(seconds: float) -> str:
    """Seconds with a unit that reads well.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(2.5)
    ('12.3 ms', '2.50 s')
    """
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def count_per_s(rate: float) -> str:
    """A rate with three figures that count.

    Examples
    --------
    >>> [count_per_s(rate) for rate in (153_400_000, 41_234, 0.5e6, 812)]
    ['153 M', '41.2 k', '500 k', '812']
    """
    for unit, letter in ((1e6, " M"), (1e3, " k"), (1.0, "")):
        if rate >= unit:
            scaled = rate / unit
            return f"{scaled:.0f}{letter}" if scaled >= 99.95 else f"{scaled:.3g}{letter}"
    return f"{rate:.2g}"


def times_as_fast(ratio: float) -> str:
    """A ratio with three figures that count, or as a whole number.

    Examples
    --------
    >>> [times_as_fast(ratio) for ratio in (0.2589, 8.0, 32.6, 141.4, 12_431)]
    ['0.259', '8.00', '32.6', '141', '12,431']
    """
    if ratio >= 100:
        return f"{ratio:,.0f}"
    return f"{ratio:#.3g}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, its columns padded so that it also reads as text."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
