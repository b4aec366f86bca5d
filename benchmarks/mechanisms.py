"""`cep bench mechanisms`: the mechanisms that read event by event, side by side on the workloads that they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.measure import Progress, measure_in_turn, mechanism_runner, one_core
from benchmarks.report import Timing, markdown_table
from benchmarks.streams import Streams
from benchmarks.workloads import SASE, STOCK, TRAFFIC, WORKLOADS, Workload
from cep_pipeline.cli.terminal import count_per_s
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.errors import UnsupportedPattern

COLUMNAR = "fused"
"""The mechanism that does not read event by event; its count is the reference where none is known."""
EVENT_BY_EVENT = tuple(name for name in MECHANISMS if name != COLUMNAR)
LENGTHS: Mapping[str, int] = {STOCK: 100_000, SASE: 1_000_000, TRAFFIC: 300_000, "W6": 10_000}
"""Events of the streams, and of the stock stream under W6's many patterns."""


@dataclass(frozen=True)
class MechanismResult:
    """The mechanisms that run a workload, each with its runs; preparation of the events is included."""

    workload: str
    events: int
    matches: int
    timings: Mapping[str, Timing]


def measure_mechanisms(
    repetitions: int,
    streams: Streams,
    progress: Progress,
    lengths: Mapping[str, int] = LENGTHS,
    workloads: Sequence[str] = tuple(WORKLOADS),
) -> list[MechanismResult]:
    """Run every event-at-a-time mechanism on every workload that it runs, or on some of them.

    Each has so many counted runs, after one that is not counted. Another number of matches than is known, or than the
    others found, is a CepError.
    """
    results: list[MechanismResult] = []
    with one_core():
        for workload in map(WORKLOADS.__getitem__, workloads):
            patterns = workload.patterns()
            events = streams.table(workload.stream, lengths.get(workload.name, lengths[workload.stream]))
            running = [name for name in EVENT_BY_EVENT if _runs(name, workload)]
            engines = {name: mechanism_runner(name, patterns, events) for name in running}
            known = workload.matches.get(events.num_rows)
            if known is None and _runs(COLUMNAR, workload):
                known = mechanism_runner(COLUMNAR, patterns, events)().matches
            what = f"{workload.name}, {events.num_rows:,} events"
            timings, matches = measure_in_turn(engines, repetitions, known, what, progress)
            results.append(MechanismResult(workload.name, events.num_rows, matches, timings))
    return results


def _runs(mechanism: str, workload: Workload) -> bool:
    """True if a mechanism runs a workload, all of whose patterns are of one form."""
    try:
        MECHANISMS[mechanism].check(workload.patterns()[0])
    except UnsupportedPattern:
        return False
    return True


def mechanisms_table(results: Sequence[MechanismResult]) -> str:
    """Events a second of each mechanism on each workload, in Markdown."""
    rows = [
        [
            result.workload,
            f"{result.events:,}",
            f"{result.matches:,}",
            *(
                count_per_s(result.events / result.timings[name].median) if name in result.timings else ""
                for name in EVENT_BY_EVENT
            ),
        ]
        for result in results
    ]
    return markdown_table(["workload", "events", "matches", *EVENT_BY_EVENT], rows)
