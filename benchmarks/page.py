"""The page that `cep bench` makes: what was asked for is measured, and put into words and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import BENCHMARKS, SCALE
from benchmarks.measure import Progress
from benchmarks.report import machine
from benchmarks.streams import TWIN_LOOKS, Streams
from benchmarks.words import filled


@dataclass(frozen=True)
class Settings:
    """The choice of what is measured.

    - `names`: of `BENCHMARKS`, or `SCALE`.
    - `events`: of the stock stream for the columnar kernel.
    - `looks`: at each sensor of generated readings, where the real ones in the folder `data` are not there.
    - `scale`, `scale_folder`: the share of each size that `SCALE` measures, and the folder of projects.
    """

    names: Sequence[str] = BENCHMARKS
    events: int = 1_000_000
    repetitions: int = 5
    data: Path | None = None
    looks: int = TWIN_LOOKS
    master: str = "local[4]"
    scale: float = 1.0
    scale_folder: Path = Path("var/scale")


def make_page(settings: Settings, progress: Progress, report: Callable[[str], None] = lambda _: None) -> str:
    """Measure what is asked for, and write the page."""
    streams = Streams(settings.data, settings.looks)
    measured = {}
    for name, measure in (("detection", _detection), ("mechanisms", _mechanisms), (SCALE, _scale)):
        if name in settings.names:
            report(f"measuring {name}")
            measured[name] = measure(settings, streams, progress)
    return filled("page.jinja", measured=measured, machine=machine(), repetitions=settings.repetitions)


def with_other_sections(page: str, made: str) -> str:
    """A page of before, in which the sections that were made anew take their places, and those that are new the end."""
    _, *kept = page.split("\n## ")
    head, *sections = made.rstrip("\n").split("\n## ")
    headings = {section.split("\n")[0]: section for section in sections}
    kept = [headings.pop(section.split("\n")[0], section.rstrip("\n") + "\n") for section in kept]
    return "\n## ".join(section.rstrip("\n") + "\n" for section in (head, *kept, *headings.values()))


def _detection(settings: Settings, streams: Streams, progress: Progress) -> dict[str, str]:
    from benchmarks.detection import calls_table, compare_detection, compare_slow_peers, detection_table
    from benchmarks.flink_patterns import version
    from benchmarks.peers import missing_peers

    # The peers that take seconds come last, so that the others find the machine as it was.
    comparisons = compare_detection(settings.events, settings.repetitions, streams, progress)
    slower = compare_slow_peers(settings.events, settings.repetitions, streams, progress)
    return {
        "missing": missing_peers(),
        "traffic": streams.traffic.description,
        "kernel": detection_table(comparisons),
        "slower": detection_table(slower) if slower else "",
        "flink": version() or "",
        "calls": calls_table(comparisons),
    }


def _mechanisms(settings: Settings, streams: Streams, progress: Progress) -> dict[str, str]:
    from benchmarks.mechanisms import measure_mechanisms, mechanisms_table

    measured = measure_mechanisms(settings.repetitions, streams, progress)
    return {"traffic": streams.traffic.description, "table": mechanisms_table(measured)}


def _scale(settings: Settings, _: Streams, progress: Progress) -> dict[str, str]:
    from benchmarks.scale import measure_scale, scale_text, sizes_of

    measured = measure_scale(settings.scale_folder, sizes_of(settings.scale), settings.master, progress)
    return {"text": scale_text(measured, settings.master)}
