"""`cep bench mechanisms`: the mechanisms that read event by event, beside the engines of their kind."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.joins import LONGEST_MANY
from benchmarks.measure import Measurement, Progress, measure_in_turn, mechanism_runner, one_core
from benchmarks.peers import DuckDBJoins, duckdb_joins
from benchmarks.published import DUCKDB, EVENTS_PER_S, fastest_cep_engine, reference_of
from benchmarks.report import Timing, markdown_table
from benchmarks.streams import Streams
from benchmarks.workloads import SASE, STOCK, TRAFFIC, WORKLOADS, Workload
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.errors import CepError, UnsupportedPattern

COLUMNAR = "fused"
"""The mechanism that does not read event by event; its count is the reference where none is known."""
BAR = 1.0
BARS: Mapping[tuple[str, str], float] = {("nfab", "W5"): 20.0, ("nfab", "W5n"): 20.0}
"""(Mechanism, workload) -> how many times as fast as the best engine it has to be, where that is more than `BAR`."""


LENGTHS: Mapping[str, int] = {STOCK: 100_000, SASE: 1_000_000, TRAFFIC: 300_000, "W6": 10_000, DUCKDB: 1_000_000}
"""Events of the streams, of the stock stream under W6's many patterns, and of the streams that DuckDB reads beside
them (of the first 100,000 for the many patterns)."""
Refused = Mapping[tuple[str, str], str]
"""(Mechanism, workload) -> why it was not run."""


@dataclass(frozen=True)
class MechanismResult:
    """One mechanism on one workload.

    The engine of the timing is the mechanism; preparation of the events is included. `peak_instances` are the most
    partial matches alive at a time. `times_duckdb` compares its events a second with those of DuckDB's bucketed join of
    `published.reference_of` the workload: the median over runs that followed each other; None without DuckDB.
    """

    workload: str
    events: int
    matches: int
    timing: Timing
    peak_instances: int
    times_duckdb: float | None = None


def measure_mechanisms(
    repetitions: int,
    streams: Streams,
    progress: Progress,
    lengths: Mapping[str, int] = LENGTHS,
    workloads: Sequence[str] = tuple(WORKLOADS),
) -> tuple[list[MechanismResult], Refused]:
    """Run every event-at-a-time mechanism on every workload that it runs, or on some of them.

    Each has so many counted runs, after one that is not counted. Another number of matches than is known, or than the
    others found, is a CepError.
    """
    results: list[MechanismResult] = []
    refused: dict[tuple[str, str], str] = {}
    joins = duckdb_joins()
    with one_core():
        for workload in map(WORKLOADS.__getitem__, workloads):
            patterns = workload.patterns()
            events = streams.table(workload.stream, lengths.get(workload.name, lengths[workload.stream]))
            engines: dict[str, Callable[[], Measurement]] = {}
            counters: dict[str, Counters] = {}
            for name in (one for one in MECHANISMS if one != COLUMNAR):
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
            if joins is not None and workload.name in EVENTS_PER_S:
                duckdb_events = _load_reference(joins, workload, streams, lengths)
                engines[DUCKDB] = partial(_run_reference, joins, workload, duckdb_events, known)
            what = f"{workload.name}, {events.num_rows:,} events"
            timings, matches = measure_in_turn(engines, repetitions, known, what, progress)
            duckdb = timings.pop(DUCKDB, None)
            for name, timing in timings.items():
                times = None
                if duckdb is not None:
                    theirs = [seconds / duckdb_events for seconds in duckdb.seconds]
                    ours = [seconds / events.num_rows for seconds in timing.seconds]
                    times = statistics.median(one / other for one, other in zip(theirs, ours, strict=False))
                peak = counters[name].peak_instances
                results.append(MechanismResult(workload.name, events.num_rows, matches, timing, peak, times))
    return results, refused


def _refusal(mechanism: str, workload: Workload) -> str | None:
    """Why a mechanism does not run a workload."""
    for pattern in workload.patterns()[:1]:  # those of one workload are of one form
        try:
            MECHANISMS[mechanism].check(pattern)
        except UnsupportedPattern as error:
            return error.feature
    return None


def _load_reference(joins: DuckDBJoins, workload: Workload, streams: Streams, lengths: Mapping[str, int]) -> int:
    """Load what DuckDB reads beside a workload, and return the number of events."""
    reference = WORKLOADS[reference_of(workload.name)]
    length = min(lengths[DUCKDB], LONGEST_MANY) if reference.name == "W6" else lengths[DUCKDB]
    events = streams.table(reference.stream, length)
    joins.load(events)
    return int(events.num_rows)


def _run_reference(joins: DuckDBJoins, workload: Workload, events: int, matches: int | None) -> Measurement:
    """Run DuckDB's query beside a workload; as it may be another one's, its own count is checked here."""
    reference = WORKLOADS[reference_of(workload.name)]
    measured = joins.run(reference.name)
    known = reference.matches.get(events, measured.matches)
    if measured.matches != known:
        raise CepError(f"{DUCKDB} finds {measured.matches:,} matches of {reference.name}, but there are {known:,}")
    return Measurement(measured.seconds, measured.matches if matches is None else matches)


def mechanisms_table(results: Sequence[MechanismResult], refused: Refused) -> str:
    """The results beside the fastest engine that gives the same matches, in Markdown."""
    rows = []
    for result in results:
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
                count_per_s(result.events / result.timing.median),
                f"{result.peak_instances:,}",
                "" if result.times_duckdb is None else times_as_fast(result.times_duckdb),
                *_beside(result, BARS.get((name, result.workload), BAR)),
            ]
        )
    header = ["workload", "events", "matches", "mechanism", "n", "median", "spread", "events/s", "peak instances"]
    header += ["x DuckDB", "fastest CEP engine", "x DuckDB there", "we are x as fast", "bar"]
    text = markdown_table(header, rows)
    if refused:
        text += "\n\nNot run: " + "; ".join(_refusals(refused)) + "."
    return text


def _beside(result: MechanismResult, bar: float) -> list[str]:
    engine = fastest_cep_engine(result.workload)
    if engine is None:
        return ["", "", "", ""]
    there = EVENTS_PER_S[result.workload][engine]
    duckdb_there = EVENTS_PER_S[reference_of(result.workload)][DUCKDB]
    theirs = times_as_fast(there / duckdb_there)
    if result.times_duckdb is None:
        return [engine, theirs, "", ""]
    ratio = result.times_duckdb / (there / duckdb_there)
    return [engine, theirs, times_as_fast(ratio), f"{bar:g}: {'met' if ratio >= bar else 'MISSED'}"]


def _refusals(refused: Refused) -> list[str]:
    """One clause of a sentence for all mechanisms that do not run the same workloads for the same reason."""
    workloads: dict[tuple[str, str], list[str]] = {}
    for (mechanism, workload), reason in refused.items():
        workloads.setdefault((mechanism, reason), []).append(workload)
    mechanisms: dict[tuple[str, str], list[str]] = {}
    for (mechanism, reason), names in workloads.items():
        mechanisms.setdefault((", ".join(names), reason), []).append(f"`{mechanism}`")
    return [f"{', '.join(names)} on {on} ({reason})" for (on, reason), names in mechanisms.items()]
