"""`cep bench mechanisms`: the mechanisms that read event by event, beside the engines of their kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cep_pipeline.benchmarks.measure import Measurement, Progress, measure_in_turn, mechanism_runner, one_core
from cep_pipeline.benchmarks.published import Peer, best_cep_engine
from cep_pipeline.benchmarks.report import Timing, count_per_s, format_seconds, markdown_table, times_as_fast
from cep_pipeline.benchmarks.streams import Streams
from cep_pipeline.benchmarks.workloads import SASE, TRAFFIC, WORKLOADS, Workload
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanism import Counters
from cep_pipeline.errors import UnsupportedPattern

COLUMNAR = "fused"
"""The mechanism that does not read event by event; its count is the reference where none is known."""
BAR = 1.0
BARS: Mapping[tuple[str, str], float] = {("nfab", "W5"): 20.0, ("nfab", "W5n"): 20.0}
"""(Mechanism, workload) -> how many times as fast as the best engine it has to be, where that is more than `BAR`."""


@dataclass(frozen=True)
class Lengths:
    """Events of the stock stream, of W5 and W5n, of the readings, and of the stock stream under W6's many patterns."""

    stock: int = 100_000
    sase: int = 1_000_000
    traffic: int = 300_000
    many: int = 10_000

    def of(self, workload: Workload) -> int:
        """Events that a workload runs over."""
        if workload.name == "W6":
            return self.many
        return {SASE: self.sase, TRAFFIC: self.traffic}.get(workload.stream, self.stock)


@dataclass(frozen=True)
class MechanismResult:
    """One mechanism on one workload.

    Attributes
    ----------
    workload, events, matches
        What was done.
    timing
        Seconds, preparation of the events included; its engine is the mechanism.
    peak_instances
        Most partial matches alive at a time.
    """

    workload: str
    events: int
    matches: int
    timing: Timing
    peak_instances: int

    @property
    def per_s(self) -> float:
        """Events a second."""
        return self.events / self.timing.median


@dataclass(frozen=True)
class MechanismResults:
    """All results, and what was not run: (mechanism, workload) -> why not."""

    results: tuple[MechanismResult, ...]
    refused: Mapping[tuple[str, str], str]


def measure_mechanisms(
    repetitions: int,
    streams: Streams,
    progress: Progress,
    lengths: Lengths,
    workloads: Sequence[str] = tuple(WORKLOADS),
    mechanisms: Sequence[str] | None = None,
) -> MechanismResults:
    """Run every event-at-a-time mechanism on every workload that it runs.

    Parameters
    ----------
    repetitions
        Counted runs of each mechanism, after one that is not counted.
    streams, progress
        Where the events are from, and who is told what is being done.
    lengths
        Of the streams.
    workloads, mechanisms
        Which ones; all mechanisms but the columnar one if not given.

    Raises
    ------
    CepError
        A mechanism found another number of matches than is known, or than the others found.
    """
    chosen = [name for name in MECHANISMS if name != COLUMNAR] if mechanisms is None else list(mechanisms)
    results: list[MechanismResult] = []
    refused: dict[tuple[str, str], str] = {}
    with one_core():
        for workload in map(WORKLOADS.__getitem__, workloads):
            patterns = workload.patterns()
            events = streams.table(workload.stream, lengths.of(workload))
            engines: dict[str, Callable[[], Measurement]] = {}
            counters: dict[str, Counters] = {}
            for name in chosen:
                reason = _refusal(name, workload)
                if reason is not None:
                    refused[name, workload.name] = reason
                    continue
                counters[name] = Counters()
                engines[name] = mechanism_runner(name, patterns, events, counters=counters[name])
            if not engines:
                continue
            known = workload.matches.get(events.num_rows)
            if known is None and _refusal(COLUMNAR, workload) is None:
                known = mechanism_runner(COLUMNAR, patterns, events)().matches
            what = f"{workload.name}, {events.num_rows:,} events"
            timings, matches = measure_in_turn(engines, repetitions, known, what, progress)
            results += [
                MechanismResult(workload.name, events.num_rows, matches, timing, counters[name].peak_instances)
                for name, timing in timings.items()
            ]
    return MechanismResults(tuple(results), refused)


def _refusal(mechanism: str, workload: Workload) -> str | None:
    """Why a mechanism does not run a workload."""
    for pattern in workload.patterns()[:1]:  # those of one workload are of one form
        try:
            MECHANISMS[mechanism].check(pattern)
        except UnsupportedPattern as error:
            return error.feature
    return None


def bar_of(mechanism: str, workload: str) -> float:
    """How many times as fast as the best engine a mechanism has to be."""
    return BARS.get((mechanism, workload), BAR)


def mechanisms_table(measured: MechanismResults, duckdb_per_s: Mapping[str, float]) -> str:
    """The results beside the fastest engine that gives the same matches, in Markdown.

    Parameters
    ----------
    measured
        What was measured.
    duckdb_per_s
        Workload -> events a second of DuckDB here, by which the engines' speeds are carried over.
    """
    rows = []
    for result in measured.results:
        peer = best_cep_engine(result.workload, duckdb_per_s)
        name = result.timing.engine
        rows.append(
            [
                result.workload,
                f"{result.events:,}",
                f"{result.matches:,}",
                name,
                str(len(result.timing.seconds)),
                format_seconds(result.timing.median),
                f"{result.timing.spread:.0%}",
                count_per_s(result.per_s),
                f"{result.peak_instances:,}",
                *_beside(result, peer, bar_of(name, result.workload)),
            ]
        )
    header = ["workload", "events", "matches", "mechanism", "n", "median", "spread", "events/s", "peak instances"]
    header += ["fastest CEP engine", "its events/s", "we are x as fast", "bar"]
    text = markdown_table(header, rows)
    if measured.refused:
        text += "\n\nNot run: " + "; ".join(_refusals(measured.refused)) + "."
    return text


def _beside(result: MechanismResult, peer: Peer | None, bar: float) -> list[str]:
    if peer is None:
        return ["", "", "", ""]
    speed = peer.measured_per_s if peer.here_per_s is None else peer.here_per_s
    ratio = result.per_s / speed
    verdict = f"{bar:g}: {'met' if ratio >= bar else 'MISSED'}"
    return [peer.engine, count_per_s(speed), times_as_fast(ratio), verdict]


def _refusals(refused: Mapping[tuple[str, str], str]) -> list[str]:
    """One clause of a sentence for each mechanism and reason."""
    together: dict[tuple[str, str], list[str]] = {}
    for (mechanism, workload), reason in refused.items():
        together.setdefault((mechanism, reason), []).append(workload)
    return [f"`{mechanism}` on {', '.join(names)} ({reason})" for (mechanism, reason), names in together.items()]
