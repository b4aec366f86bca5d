"""`cep bench promises`: what docs/mechanisms.md says is fast, beside a program of the same purpose.

Each promise is one call that a user makes, beside a peer that does the same work another way: a query of DuckDB, a
loop of NumPy, or another call of ours. Both must give the same number before a time is kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Measurement, Progress, measure_in_turn, one_core
from benchmarks.processes import Watched
from benchmarks.report import Comparison, markdown_table
from cep_pipeline.cli.terminal import format_seconds, times_as_fast
from cep_pipeline.detection.detect import detect
from cep_pipeline.detection.fused import reduction
from cep_pipeline.errors import CepError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.make_plan import plan
from cep_pipeline.statistics import estimate_statistics

Numbers = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Work = Callable[[], Measurement]
"""Does the whole job, and returns its processor time and the number that the peer must give too."""
READS = "import numpy, pyarrow.parquet as pq; pq.read_table('events.parquet')"
"""The least that a command does, as a program."""
COMMAND_EVENTS = 5_000
_SCHEMA = """\
name: drawn
base_type: Event
type_attribute: kind
timestamp: {column: timestamp, format: epoch_us}
attributes: {kind: string, k: int64, x: float64}
source: {format: parquet, path: "{day:%Y-%m-%d}.parquet"}
"""
_NEGATED = """\
SELECT count(*) FROM a JOIN c ON a.k = c.k AND c.ts > a.ts AND c.ts <= a.ts + 3600000000 WHERE NOT EXISTS
(SELECT 1 FROM b WHERE b.k = a.k AND b.ts > a.ts AND b.ts < c.ts)"""


@dataclass(frozen=True)
class Promise:
    """A job, done by us and by a peer; both are in words, as the page names them.

    `prepare` makes the events and the plan, which is not timed, and returns our work and the peer's.
    """

    job: str
    events: int
    peer: str
    prepare: Callable[[], tuple[Work, Work]]


def drawn_events(events: int, *, keys: int = 1, types: str = "ABC") -> pa.Table:
    """Events a millisecond apart, always the same: type, key `k` and value `x` (0 to 1) are drawn."""
    draw = np.random.default_rng(1)
    codes = pa.array(draw.integers(0, len(types), events, dtype=np.int32))
    return pa.table(
        {
            "timestamp": np.arange(events, dtype=np.int64) * 1_000,
            "seq": np.arange(events, dtype=np.int64),
            "kind": pa.DictionaryArray.from_arrays(codes, pa.array(list(types))),
            "k": draw.integers(0, keys, events),
            "x": draw.random(events),
        }
    )


def promises(folder: Path, share: float = 1.0) -> list[Promise]:
    """All promises, over this share of the events of each; files of commands are put into the folder."""

    def of(job: str, events: int, peer: str, prepare: Callable[[int], tuple[Work, Work]]) -> Promise:
        size = max(int(events * share), 100)
        return Promise(job, size, peer, partial(prepare, size))

    reading = "Python, importing NumPy and pyarrow and reading the file"
    return [
        of("count a pair within 100 seconds", 300_000, "NumPy, searchsorted", _pair),
        of("count four that rise, within a day", 100_000, "trees of sums in Python", _rising_four),
        of("count rising lists within 950 events", 1_500, "trees of sums in Python", _rising_lists),
        of("negation by an equality, within an hour", 1_000_000, "DuckDB", _negated),
        of("10^6 partial matches, few matches", 20_000, "the same, no event removed before", _few_matches),
        of("OUTPUT NON_OVERLAP of many partitions", 2_000_000, "the matches without it", _non_overlap),
        of("the first `cep detect` of a machine", COMMAND_EVENTS, reading, partial(_command, folder, cold=True)),
        of("every later `cep detect`", COMMAND_EVENTS, reading, partial(_command, folder, cold=False)),
    ]


def measure_promises(
    chosen: Sequence[Promise], repetitions: int, progress: Progress
) -> list[tuple[Promise, Comparison]]:
    """Do each job and that of its peer in turn; a peer that gives other numbers is a CepError."""
    measured = []
    for one in chosen:
        progress.begin(f"preparing: {one.job}", 1)
        with one_core():
            engines = dict(zip(("ours", one.peer), one.prepare(), strict=True))
            timings, number = measure_in_turn(engines, repetitions, None, one.job, progress)
        mine, theirs = timings.values()
        measured.append((one, Comparison(one.job, one.events, number, mine, (theirs,))))
    return measured


def promises_table(measured: Sequence[tuple[Promise, Comparison]]) -> str:
    """A row for each promise: seconds of both, and how many times as fast we are."""
    rows = [
        [
            one.job,
            f"{one.events:,}",
            f"{found.matches:,}" if found.matches < 10**15 else f"{found.matches:.1e}",
            format_seconds(found.ours.median),
            one.peer,
            format_seconds(found.peers[0].median),
            times_as_fast(found.ratio(found.peers[0])),
        ]
        for one, found in measured
    ]
    return markdown_table(["job", "events", "number", "ours", "peer", "its time", "we are x as fast"], rows)


def _timed(count: Callable[[], int]) -> Work:
    """Work in this process that returns a number."""

    def run() -> Measurement:
        begin = time.process_time()
        number = count()
        return Measurement(time.process_time() - begin, number)

    return run


def _pattern(text: str) -> Pattern:
    schema = StreamSchema.from_dict(
        {
            "base_type": "Event",
            "type_attribute": "kind",
            "attributes": {"kind": "string", "k": "int64", "x": "float64"},
        },
        name="drawn",
    )
    return parse_patterns(f"NAME promise PATTERN {text}", schema)[0]


def _counted(text: str, table: pa.Table, *, listed: bool = False) -> Callable[[], int]:
    """The number of matches of a pattern, by a plan that is there; each call is about a new table."""
    pattern = _pattern(text)
    planned = plan([pattern], estimate_statistics([pattern], table))

    def count() -> int:
        anew = pa.table({name: table[name] for name in table.column_names})
        found = detect([pattern], anew, planned, output="verbose" if listed else "count")[pattern.name]
        return int(found.num_rows if listed else found["count"][0].as_py())

    return count


def _pair(events: int) -> tuple[Work, Work]:
    table = drawn_events(events)
    times, kinds = table["timestamp"].to_numpy(), table["kind"].combine_chunks().indices.to_numpy()
    first, last = (times[kinds == code] for code in range(2))

    def peer() -> int:
        behind = np.searchsorted(last, first + 100_000_000, "right") - np.searchsorted(last, first, "right")
        return int(behind.sum())

    return _timed(_counted("SEQ(A a, B b) WITHIN 100 seconds", table)), _timed(peer)


def _rising_four(events: int) -> tuple[Work, Work]:
    table = drawn_events(events, types="ABCD")
    kinds, values = table["kind"].combine_chunks().indices.to_numpy(), table["x"].to_numpy()
    text = "SEQ(A a, B b, C c, D d) WHERE a.x < b.x AND b.x < c.x AND c.x < d.x WITHIN 1 day"
    return _timed(_counted(text, table)), _timed(lambda: _rising(kinds, values, 3))


def _rising(kinds: Numbers, values: Values, last: int) -> int:
    """Count sequences of the kinds 0 to `last` with rising values, by a tree of sums over the values for each kind."""
    total, trees = 0, [_SumTree(len(values)) for _ in range(last)]
    for kind, rank in zip(kinds.tolist(), np.argsort(np.argsort(values)).tolist(), strict=True):
        ways = trees[kind - 1].below(rank) if kind else 1
        if kind == last:
            total += ways
        else:
            trees[kind].add(rank, ways)
    return total


class _SumTree:
    """A Fenwick tree over the places 0 to `size` - 1."""

    def __init__(self, size: int) -> None:
        self._sums = [0] * (size + 1)

    def below(self, at: int) -> int:
        total = 0
        while at:
            total, at = total + self._sums[at], at & (at - 1)
        return total

    def add(self, at: int, ways: int) -> None:
        at += 1
        while at < len(self._sums):
            self._sums[at] += ways
            at += at & -at


def _rising_lists(events: int) -> tuple[Work, Work]:
    table = drawn_events(events, types="A")
    values, window = table["x"].to_numpy(), 950

    def peer() -> int:
        total = 0
        for start in range(events):  # lists that begin here
            ranks = np.argsort(np.argsort(values[start : start + window + 1])).tolist()
            tree = _SumTree(len(ranks))
            for rank in ranks:
                if rank >= ranks[0]:
                    here = tree.below(rank) if rank > ranks[0] else 1
                    total += here
                    tree.add(rank, here)
        return total

    return _timed(_counted(f"A+ a[] WHERE a[i].x > a[i-1].x WITHIN {window} ms", table)), _timed(peer)


def _negated(events: int) -> tuple[Work, Work]:
    import duckdb

    table = drawn_events(events, keys=100_000)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("drawn", table)
    for kind in "ABC":
        rows = f"SELECT \"timestamp\" AS ts, k FROM drawn WHERE kind = '{kind}'"
        connection.execute(f"CREATE TABLE {kind.lower()} AS {rows}")
    text = "SEQ(A a, ~B b, C c) WHERE a.k = c.k AND b.k = a.k WITHIN 1 hour"
    return _timed(_counted(text, table)), _timed(lambda: int(connection.execute(_NEGATED).fetchall()[0][0]))


def _few_matches(events: int) -> tuple[Work, Work]:
    """Events in no match are removed before any are combined, or they are not."""
    text = "SEQ(A a, B b, C c) WHERE b.x > a.x + 0.5 AND c.x > b.x + 0.495 WITHIN 20 seconds"
    count = _counted(text, drawn_events(events), listed=True)

    def peer() -> int:
        with patch.object(reduction, "FEWEST_COMBINATIONS", 1 << 62):
            return count()

    return _timed(count), _timed(peer)


def _non_overlap(events: int) -> tuple[Work, Work]:
    """Partitions of ten events or so, in which a match is one event of each type: with the policy fewer are kept."""
    table = drawn_events(events, keys=max(events // 10, 1))
    text = "SEQ(A a, B b, C c) WITHIN 1 hour PARTITION BY k"
    kept = _counted(f"{text} OUTPUT NON_OVERLAP", table, listed=True)
    every = _counted(text, table, listed=True)
    number = kept()

    def peer() -> int:
        every()
        return number

    return _timed(kept), _timed(peer)


def _command(folder: Path, events: int, *, cold: bool) -> tuple[Work, Work]:
    """`cep detect` on a small file, with a cache of compiled code that is empty or was used before."""
    project = folder / ("cold" if cold else "warm")
    project.mkdir()
    pq.write_table(drawn_events(events), project / "events.parquet")
    (project / "drawn.yaml").write_text(_SCHEMA, encoding="utf-8")
    (project / "pattern.sase").write_text("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 ms", encoding="utf-8")
    options = ("--patterns", "pattern.sase", "--schema", "drawn.yaml", "--events", "events.parquet")
    detects = (sys.executable, "-m", "cep_pipeline.cli", "detect", *options, "--out", "matches.parquet")

    def ours() -> Measurement:
        with tempfile.TemporaryDirectory() as fresh:
            return _process(detects, project, Path(fresh) if cold else project / "cache")

    return ours, lambda: _process([sys.executable, "-c", READS], project, project / "cache")


def _process(command: Sequence[str], folder: Path, cache: Path) -> Measurement:
    """Run a program, and measure it with all that it has started, whether it waited for that or not."""
    environment = {**os.environ, "CEP_CACHE_DIR": str(cache)}
    with (folder / "said.txt").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)
        with Watched(process.pid) as watched:
            _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise CepError(f"{' '.join(command)}: {(folder / 'said.txt').read_text(errors='replace')[-500:]}")
    return Measurement(max(used.ru_utime + used.ru_stime, watched.processor_s), 1)
