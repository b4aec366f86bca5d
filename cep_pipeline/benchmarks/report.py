"""Results of benchmarks: medians, spreads and ratios of runs side by side, as tables for people."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
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
        return statistics.median(theirs / ours for ours, theirs in zip(self.ours.seconds, peer.seconds, strict=True))


def machine() -> str:
    """The machine as a result states it: CPU, cores, Python."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass  # not Linux: the platform's own name stands
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores (shared), Python {platform.python_version()}"


def format_seconds(seconds: float) -> str:
    """Seconds with a unit that reads well.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(2.5)
    ('12.3 ms', '2.50 s')
    """
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, its columns padded so that it also reads as text."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
