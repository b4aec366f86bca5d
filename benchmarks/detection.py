"""`cep bench detection`: the fused kernel and a user's calls on one core, beside the peers that are installed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import (
    Engine,
    Progress,
    engine_process,
    measure_in_turn,
    mechanism_runner,
    read_events,
    timed,
    write_events,
)
from benchmarks.peers import BUILDERS, CPP, DUCKDB, PEERS, Peer
from benchmarks.report import Comparison, markdown_table
from benchmarks.streams import Streams
from benchmarks.workloads import STOCK, WORKLOADS
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.detection.detect import detect
from cep_pipeline.slices.events_input import columns_needed

LISTING, COUNTING = "fused", "fused, counting"
FILE_TO_FILE, LISTED, COUNTED_BY_CALL = "file to matches, written", "cep.detect", "cep.detect, output count"
BESIDE_CALLS = (CPP, DUCKDB)
CALLS = (FILE_TO_FILE, LISTED, COUNTED_BY_CALL)
COUNTED = ("W4", "W4b")
"""Workloads whose matches are counted without being listed, too."""
RUNS = ("W1", "W2", "W3", "W4", "W4b", "W6", "W7")
NOT_FUSED = {"W5": "nfab"}
"""Workload -> our mechanism beside peers, where `fused` does not run it."""


def compare_detection(
    length: int, repetitions: int, streams: Streams, progress: Progress, peers: Sequence[Peer] = PEERS
) -> list[Comparison]:
    """Run every workload that the fused kernel runs by the kernel, by a user's calls and by the peers that are there.

    Returned is a comparison for each workload, ours the kernel; peers that are not run over streams so long are left
    out. Of streams of 10,000, 100,000, 1,000,000 and 5,000,000 events the match counts are known. Another number of
    matches than is known, or than the others found, is a CepError.
    """
    asked = {(workload, _asked(workload, length, streams)): list[Peer]() for workload in RUNS}
    for (workload, events), chosen in asked.items():
        chosen += [peer for peer in _there(peers) if peer.longest.get(workload, 0) >= events]
    return _compare_all(asked, CALLS, repetitions, streams, progress)


def compare_slow_peers(
    length: int, repetitions: int, streams: Streams, progress: Progress, peers: Sequence[Peer] = PEERS
) -> list[Comparison]:
    """Run peers that are not run over streams of this length over the longest ones that they are, with the kernel."""
    slow: dict[tuple[str, int], list[Peer]] = {}
    for workload, peer in product(WORKLOADS, _there(peers)):
        longest = peer.longest.get(workload, 0)
        if longest and (workload not in RUNS or _asked(workload, length, streams) > longest):
            slow.setdefault((workload, longest), []).append(peer)
    return _compare_all(slow, (), repetitions, streams, progress)


def _compare_all(
    peers: Mapping[tuple[str, int], Sequence[Peer]],
    calls: Sequence[str],
    repetitions: int,
    streams: Streams,
    progress: Progress,
) -> list[Comparison]:
    """Compare peers, and calls, with the kernel, by workload and number of events."""
    comparisons = []
    with tempfile.TemporaryDirectory() as folder:
        for (workload, events), chosen in peers.items():
            path = _file(folder, streams, workload, events)
            starts = _kernel(workload, path) | {peer.name: partial(peer.start, workload, path) for peer in chosen}
            starts |= {call: partial(_start_call, call, workload, path) for call in calls}
            comparisons.append(_compare(workload, events, starts, repetitions, progress))
    return comparisons


def _there(peers: Sequence[Peer]) -> list[Peer]:
    return [peer for peer in peers if peer.missing() is None]


def _asked(workload: str, length: int, streams: Streams) -> int:
    """The length of a workload's stream: that of the stock stream is asked for, the traffic is as long as it is."""
    return length if WORKLOADS[workload].stream == STOCK else int(streams.traffic.events.num_rows)


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
    """A call of a user, statistics and plan included; the file is one in memory.

    Of the events each call gets a table of its own, which nobody has asked about before.
    """
    patterns, events = WORKLOADS[workload].patterns(), read_events(path)
    stored = pa.BufferOutputStream()
    pq.write_table(events.select(columns_needed(patterns)), stored)
    source = stored.getvalue()

    def file_to_file() -> int:
        tables = detect(patterns, pq.read_table(pa.BufferReader(source)))
        for table in tables.values():
            pq.write_table(table, pa.BufferOutputStream())
        return sum(table.num_rows for table in tables.values())

    def listed() -> int:
        return sum(table.num_rows for table in detect(patterns, events.slice()).values())

    def counted() -> int:
        tables = detect(patterns, events.slice(), output="count")
        return sum(int(table["count"][0].as_py()) for table in tables.values())

    return partial(timed, {FILE_TO_FILE: file_to_file, LISTED: listed, COUNTED_BY_CALL: counted}[call])


def calls_table(comparisons: Sequence[Comparison]) -> str:
    """The calls of comparisons beside others, in Markdown."""
    rows = []
    for comparison in comparisons:
        timings = {timing.engine: timing for timing in (comparison.ours, *comparison.peers)}
        for call in map(timings.__getitem__, CALLS):
            beside = (times_as_fast(call.ratio(timings[peer])) if peer in timings else "" for peer in BESIDE_CALLS)
            length = f"{comparison.events:,}"
            rows.append([comparison.workload, length, call.engine, format_seconds(call.median), *beside])
    header = ["workload", "events", "call", "median", "x as fast as C++", "x as fast as DuckDB"]
    return markdown_table(header, rows)


def detection_table(comparisons: Sequence[Comparison]) -> str:
    """The kernel and its peers in comparisons, with ratios, in Markdown.

    What counts is compared with our counting, where there is one, and what builds matches with our listing.
    """
    rows = []
    for comparison in comparisons:
        timings = {timing.engine: timing for timing in (comparison.ours, *comparison.peers)}
        for timing in (timings[name] for name in timings if name not in CALLS):
            own = timing is comparison.ours or timing.engine in (LISTING, COUNTING)
            beside = timings[LISTING] if timing.engine in BUILDERS and LISTING in timings else comparison.ours
            rows.append(
                [
                    comparison.workload,
                    f"{comparison.events:,}",
                    f"{comparison.matches:,}",
                    timing.engine,
                    format_seconds(timing.median),
                    f"{timing.spread:.0%}",
                    count_per_s(comparison.events / timing.median),
                    "" if own else times_as_fast(beside.ratio(timing)),
                ]
            )
    header = ["workload", "events", "matches", "engine", "median", "spread", "events/s", "we are x as fast"]
    return markdown_table(header, rows)
