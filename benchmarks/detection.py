"""`cep bench detection`: the fused kernel and a user's calls on one core, beside the peers that are installed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engine_processes import Engine, engine_process, read_events, write_events
from benchmarks.measure import Measurement, Progress, measure_in_turn, mechanism_runner
from benchmarks.peers import BUILDERS, CPP, PEERS, Peer
from benchmarks.published import DUCKDB
from benchmarks.report import Comparison, Timing, markdown_table
from benchmarks.streams import Streams
from benchmarks.workloads import STOCK, WORKLOADS
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.detection.detect import detect
from cep_pipeline.slices.events_input import columns_needed

LISTING, COUNTING = "fused", "fused, counting"
BARS: dict[tuple[str, str], float] = {
    **{(workload, CPP): 1.0 for workload in ("W1", "W2", "W3", "W4", "W4b", "W6")},
    ("W1", DUCKDB): 8.0,
    ("W2", DUCKDB): 8.0,
}
"""(Workload, peer) -> how many times as fast as it we have to be; with Kleene variables when we count."""
FILE_TO_FILE, LISTED, COUNTED_BY_CALL = "file to matches, written", "cep.detect", "cep.detect, output count"
WRITING = "writing the matches"
BESIDE_CALLS = (CPP, DUCKDB)
READING = "reading the columns"
CALLS = (FILE_TO_FILE, LISTED, COUNTED_BY_CALL, READING, WRITING)
FEW = 100
"""Matches are few where there is at most one in so many events."""
OF_FEW, OF_MANY = 0.8, 0.5
"""Aims for the speed from a file to written matches, as a share of the speed of reading the columns and writing the
same matches: where these are few, detection is a pass over columns; where there are more, they have to be made."""
SHORTEST_JUDGED = 1_000_000
"""Bars are for streams of so many events: on shorter ones what is done once, such as binding columns, weighs most."""
COUNTED = ("W4", "W4b")
"""Workloads whose matches are counted without being listed, too."""
RUNS = ("W1", "W2", "W3", "W4", "W4b", "W6", "W7")
NOT_FUSED = {"W5": "nfab"}
"""Workload -> our mechanism beside peers, where `fused` does not run it."""


def compare_detection(
    lengths: Sequence[int], repetitions: int, streams: Streams, progress: Progress, peers: Sequence[Peer] = PEERS
) -> list[Comparison]:
    """Run every workload that the fused kernel runs by the kernel, by a user's calls and by the peers that are there.

    Returned is a comparison for each workload and length, ours the kernel; peers that are not run over streams so long
    are left out. Of streams of 10,000, 100,000, 1,000,000 and 5,000,000 events the match counts are known. Another
    number of matches than is known, or than the others found, is a CepError.
    """
    comparisons = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in RUNS:
            for events in _asked(workload, lengths, streams):
                path = _file(folder, streams, workload, events)
                starts = _kernel(workload, path)
                for peer in _there(peers):
                    if peer.longest.get(workload, 0) >= events:
                        starts[peer.name] = partial(peer.start, workload, path)
                starts |= {call: partial(_start_call, call, workload, path) for call in CALLS}
                comparisons.append(_compare(workload, events, starts, repetitions, progress))
    return comparisons


def compare_slow_peers(
    lengths: Sequence[int], repetitions: int, streams: Streams, progress: Progress, peers: Sequence[Peer] = PEERS
) -> list[Comparison]:
    """Run peers that are not run over any of these lengths over the longest stream that they are, with the kernel."""
    comparisons = []
    slow: dict[tuple[str, int], list[Peer]] = {}
    for peer in _there(peers):
        for workload, longest in peer.longest.items():
            if not any(events <= longest for events in _asked(workload, lengths, streams)):
                slow.setdefault((workload, longest), []).append(peer)
    with tempfile.TemporaryDirectory() as folder:
        for (workload, events), chosen in sorted(slow.items(), key=lambda one: list(WORKLOADS).index(one[0][0])):
            path = _file(folder, streams, workload, events)
            starts = _kernel(workload, path) | {peer.name: partial(peer.start, workload, path) for peer in chosen}
            comparisons.append(_compare(workload, events, starts, repetitions, progress))
    return comparisons


def _there(peers: Sequence[Peer]) -> list[Peer]:
    return [peer for peer in peers if peer.missing() is None]


def _asked(workload: str, lengths: Sequence[int], streams: Streams) -> Sequence[int]:
    """The lengths of a workload's stream: those of the stock stream are asked for, the traffic is as long as it is."""
    if workload not in RUNS:
        return ()
    return lengths if WORKLOADS[workload].stream == STOCK else (streams.traffic.events.num_rows,)


def _file(folder: str, streams: Streams, workload: str, events: int) -> Path:
    """The file of so many events of the workload's stream, written into the folder when it is first asked for."""
    stream = WORKLOADS[workload].stream
    path = Path(folder) / f"{stream}-{events}.arrow"
    if not path.exists():
        write_events(streams.table(stream, events), path)
    return path


def _compare(
    workload: str, events: int, starts: Mapping[str, Callable[[], Engine]], repetitions: int, progress: Progress
) -> Comparison:
    """Start each engine in a process of its own, and run them in turn."""
    known = WORKLOADS[workload].matches.get(events)
    what = f"{workload}, {events:,} events"
    with ExitStack() as processes:
        progress.begin(f"{what}: starting", len(starts))
        engines = {}
        for name, start in starts.items():
            engines[name] = processes.enter_context(engine_process(start))
            progress.advance()
        timings, matches = measure_in_turn(engines, repetitions, known, what, progress)
    ours = timings.pop(COUNTING if COUNTING in timings else next(iter(timings)))
    return Comparison(workload, events, matches, ours, tuple(timings.values()))


def _kernel(workload: str, path: Path) -> dict[str, Callable[[], Engine]]:
    """Our own ways, the listing of all matches first."""
    mechanism = NOT_FUSED.get(workload, LISTING)
    starts = {mechanism: partial(_start_mechanism, mechanism, workload, path)}
    if workload in COUNTED:
        starts[COUNTING] = partial(_start_mechanism, mechanism, workload, path, counting=True)
    return dict(starts)


def _start_mechanism(mechanism: str, workload: str, path: Path, *, counting: bool = False) -> Engine:
    patterns = WORKLOADS[workload].patterns()
    return mechanism_runner(mechanism, patterns, read_events(path), counting=counting)


def _start_call(call: str, workload: str, path: Path) -> Engine:
    """A call of a user, statistics and plan included; or what reading or writing alone take, in memory.

    Of the events each call gets a table of its own, which nobody has asked about before.
    """
    patterns, events = WORKLOADS[workload].patterns(), read_events(path)
    stored = pa.BufferOutputStream()
    pq.write_table(events.select(columns_needed(patterns)), stored)
    source = stored.getvalue()

    def read() -> pa.Table:
        return pq.read_table(pa.BufferReader(source))

    def write(tables: Mapping[str, pa.Table]) -> int:
        for table in tables.values():
            pq.write_table(table, pa.BufferOutputStream())
        return sum(table.num_rows for table in tables.values())

    def count() -> int:
        tables = detect(patterns, events.slice(), output="count")
        return sum(int(table["count"][0].as_py()) for table in tables.values())

    if call == FILE_TO_FILE:
        return partial(_timed, lambda: write(detect(patterns, read())))
    if call == LISTED:
        return partial(_timed, lambda: sum(table.num_rows for table in detect(patterns, events.slice()).values()))
    if call == COUNTED_BY_CALL:
        return partial(_timed, count)
    if call == READING:
        matches = count()
        return partial(_timed, lambda: matches if read() else 0)
    listed = detect(patterns, events)
    return partial(_timed, lambda: write(listed))


def _timed(run: Callable[[], int]) -> Measurement:
    start = time.process_time()
    matches = run()
    return Measurement(time.process_time() - start, matches)


def calls_table(comparisons: Sequence[Comparison]) -> str:
    """The calls of comparisons: what they take as a multiple of the kernel's time, and beside others, in Markdown."""
    rows = []
    for comparison in comparisons:
        timings = {timing.engine: timing for timing in (comparison.ours, *comparison.peers)}
        both = _reading_and_writing(timings)
        for name in CALLS:
            call = timings[name]
            peers = BESIDE_CALLS if name in (FILE_TO_FILE, LISTED, COUNTED_BY_CALL) else ()
            beside = {peer: times_as_fast(call.ratio(timings[peer])) for peer in peers if peer in timings}
            whole = name == FILE_TO_FILE
            rows.append(
                [
                    comparison.workload,
                    f"{comparison.events:,}",
                    f"{comparison.matches:,}",
                    name,
                    str(len(call.seconds)),
                    format_seconds(call.median),
                    f"{call.spread:.0%}",
                    f"{timings[LISTING].ratio(call):.1f}",
                    *(beside.get(peer, "") for peer in BESIDE_CALLS),
                    f"{call.ratio(both):.2f}" if whole else "",
                    _wanted(comparison, call.ratio(both)) if whole else "",
                ]
            )
    header = ["workload", "events", "matches", "call", "n", "median", "spread", "x kernel"]
    header += ["x as fast as C++", "x as fast as DuckDB", "of reading and writing", "wanted"]
    return markdown_table(header, rows)


def _reading_and_writing(timings: Mapping[str, Timing]) -> Timing:
    """Add the times of reading and writing, of runs of the same round."""
    pairs = zip(timings[READING].seconds, timings[WRITING].seconds, strict=False)
    return Timing("reading and writing", tuple(map(sum, pairs)))


def share_wanted(events: int, matches: int) -> float:
    """The share of the speed of reading the columns and writing the matches that we want from a file to a file."""
    return OF_FEW if matches * FEW <= events else OF_MANY


def _wanted(comparison: Comparison, share: float) -> str:
    if comparison.events < SHORTEST_JUDGED:
        return ""
    least = share_wanted(comparison.events, comparison.matches)
    return f"{least:g}: {'met' if share >= least else 'MISSED'}"


def duckdb_rates(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Workload -> events a second of DuckDB over the longest stream on which it ran."""
    rates: dict[str, tuple[int, float]] = {}
    for comparison in comparisons:
        for timing in comparison.peers:
            if timing.engine == DUCKDB and comparison.events > rates.get(comparison.workload, (0, 0.0))[0]:
                rates[comparison.workload] = comparison.events, comparison.events / timing.median
    return {workload: rate for workload, (_, rate) in rates.items()}


def detection_table(comparisons: Sequence[Comparison]) -> str:
    """The kernel and its peers in comparisons, with ratios and bars, in Markdown.

    What counts is compared with our counting, where there is one, and what builds matches with our listing.
    """
    rows = []
    for comparison in comparisons:
        timings = {timing.engine: timing for timing in (comparison.ours, *comparison.peers)}
        for timing in (timings[name] for name in timings if name not in CALLS):
            own = timing is comparison.ours or timing.engine in (LISTING, COUNTING)
            beside = timings[LISTING] if timing.engine in BUILDERS and LISTING in timings else comparison.ours
            ratio = beside.ratio(timing)
            judged = comparison.events >= SHORTEST_JUDGED
            bar = BARS.get((comparison.workload, timing.engine)) if judged else None
            rows.append(
                [
                    comparison.workload,
                    f"{comparison.events:,}",
                    f"{comparison.matches:,}",
                    timing.engine,
                    str(len(timing.seconds)),
                    format_seconds(timing.median),
                    f"{timing.spread:.0%}",
                    count_per_s(comparison.events / timing.median),
                    "" if own else times_as_fast(ratio),
                    "" if bar is None else f"{bar:g}: {'met' if ratio >= bar else 'MISSED'}",
                ]
            )
    header = ["workload", "events", "matches", "engine", "n", "median", "spread", "events/s", "we are x as fast", "bar"]
    return markdown_table(header, rows)
