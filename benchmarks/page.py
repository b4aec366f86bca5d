"""The page that `cep bench` makes: what was asked for is measured, and put into words and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.measure import Progress
from benchmarks.report import filled, machine
from benchmarks.streams import Streams


def make_page(
    names: Sequence[str],
    streams: Streams,
    progress: Progress,
    report: Callable[[str], None] = lambda _: None,
    *,
    events: int = 1_000_000,
    repetitions: int = 5,
) -> str:
    """Measure what is asked for, and write the page.

    The number of events is that of the stock stream for the columnar kernel.
    """
    measures: Mapping[str, Callable[[], dict[str, str]]] = {
        "detection": lambda: _detection(events, repetitions, streams, progress),
        "mechanisms": lambda: _mechanisms(repetitions, streams, progress),
    }
    measured = {}
    for name in filter(names.__contains__, measures):
        report(f"measuring {name}")
        measured[name] = measures[name]()
    return filled("page.jinja", measured=measured, machine=machine(), repetitions=repetitions)


def with_other_sections(page: str, made: str) -> str:
    """A page of before, in which the sections that were made anew take their places, and those that are new the end."""
    _, *kept = page.split("\n## ")
    head, *sections = made.rstrip("\n").split("\n## ")
    headings = {section.split("\n")[0]: section for section in sections}
    kept = [headings.pop(section.split("\n")[0], section.rstrip("\n") + "\n") for section in kept]
    return "\n## ".join(section.rstrip("\n") + "\n" for section in (head, *kept, *headings.values()))


def _detection(events: int, repetitions: int, streams: Streams, progress: Progress) -> dict[str, str]:
    from benchmarks.detection import calls_table, compare_detection, compare_slow_peers, detection_table
    from benchmarks.flink_patterns import version
    from benchmarks.peers import missing_peers

    # The peers that take seconds come last, so that the others find the machine as it was.
    comparisons = compare_detection(events, repetitions, streams, progress)
    slower = compare_slow_peers(events, repetitions, streams, progress)
    return {
        "missing": missing_peers(),
        "traffic": streams.traffic.description,
        "kernel": detection_table(comparisons),
        "slower": detection_table(slower) if slower else "",
        "flink": version() or "",
        "calls": calls_table(comparisons),
    }


def _mechanisms(repetitions: int, streams: Streams, progress: Progress) -> dict[str, str]:
    from benchmarks.mechanisms import measure_mechanisms, mechanisms_table

    measured = measure_mechanisms(repetitions, streams, progress)
    return {"traffic": streams.traffic.description, "table": mechanisms_table(measured)}
