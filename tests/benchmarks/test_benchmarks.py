"""Benchmarks at sizes of a moment: equal counts are asserted, ratios and bars are what the figures say."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from benchmarks import detection, mechanisms
from benchmarks.command import make_page, with_other_sections
from benchmarks.detection import (
    CALLS,
    COUNTING,
    LISTING,
    calls_table,
    compare_detection,
    compare_slow_peers,
    detection_table,
)
from benchmarks.measure import Engine, Measurement, Progress, engine_process, measure_in_turn
from benchmarks.mechanisms import (
    EVENT_BY_EVENT,
    MechanismResult,
    measure_mechanisms,
    mechanisms_table,
)
from benchmarks.peers import CPP, DUCKDB, FLINK, PEERS, Peer
from benchmarks.report import Comparison, Timing, unpadded
from benchmarks.streams import Streams
from benchmarks.workloads import SASE, STOCK, TRAFFIC, WORKLOADS
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.errors import CepError, UnsupportedPattern
from tests.cli.command_line import cep


def cells(table: str) -> list[dict[str, str]]:
    """The rows of a Markdown table by its header."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    header, _, *rows = lines
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def comparisons() -> list[Comparison]:
    """The quick peers on 10,000 events of a workload of each kind; `test_peers.py` has the counts of all."""
    quick = [peer for peer in PEERS if peer.name in (CPP, DUCKDB)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(detection, "RUNS", KINDS)
        return compare_detection(10_000, 1, Streams(None, looks=30), Progress(), quick)


KINDS = ("W1", "W4", "W4b", "W6", "W7")
"""Workloads of one pattern, with lists, of many patterns, and of another stream."""


@pytest.mark.long
def test_all_engines_run_side_by_side(comparisons: list[Comparison]) -> None:
    assert [*detection.RUNS] == ["W1", "W2", "W3", "W4", "W4b", "W6", "W7"]
    assert tuple(c.workload for c in comparisons) == KINDS
    there = [peer for peer in PEERS if peer.name in (CPP, DUCKDB) and peer.missing() is None]
    for comparison in comparisons:
        engines = {timing.engine for timing in (comparison.ours, *comparison.peers)}
        peers = {peer.name for peer in there if comparison.workload in peer.longest}
        lists = {COUNTING} if comparison.workload in ("W4", "W4b") else set()
        assert engines == {LISTING, *CALLS} | peers | lists
        assert comparison.matches == WORKLOADS[comparison.workload].matches.get(comparison.events, comparison.matches)
    rows = cells(detection_table(comparisons))
    assert len(rows) == sum(1 + len(comparison.peers) - len(CALLS) for comparison in comparisons)
    assert {row["engine"] for row in rows if row["workload"] == "W4"} >= {"fused", "fused, counting"}


@pytest.mark.long
def test_calls_stand_beside_the_kernel_and_the_peers(comparisons: list[Comparison]) -> None:
    rows = cells(calls_table(comparisons))
    assert [row["call"] for row in rows] == [*CALLS] * len(comparisons)
    for place, comparison in enumerate(comparisons):
        own = rows[place * 3 : (place + 1) * 3]
        engines = {timing.engine for timing in comparison.peers}
        for column, peer in (("x as fast as C++", CPP), ("x as fast as DuckDB", DUCKDB)):
            assert [bool(row[column]) for row in own] == [peer in engines] * 3


@pytest.mark.long
def test_a_peer_that_is_slow_runs_over_a_shorter_stream() -> None:
    start = partial(_counting, 15_984)
    peer = Peer("slow", {"W1": 10_000, "W2": 1_000_000}, start, lambda: None)
    absent = Peer("absent", {"W1": 10_000}, start, lambda: "needs what is not here")
    (found,) = compare_slow_peers(100_000, 1, Streams(None), Progress(), [peer, absent])
    assert (found.workload, found.events, found.matches) == ("W1", 10_000, 15_984)
    assert [timing.engine for timing in (found.ours, *found.peers)] == [LISTING, "slow"]
    assert cells(detection_table([found]))[1]["events/s"] == "5 k"


def _counting(matches: int, _workload: str, _events: Path) -> Engine:
    return partial(Measurement, 2.0, matches)


@pytest.mark.long
def test_the_page_says_who_runs_where(comparisons: list[Comparison], monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Comparison("W1", 10_000, 15_984, Timing(LISTING, (0.001,)), (Timing(FLINK, (4.0,)),))
    monkeypatch.delenv("CEP_BENCH_FLINK", raising=False)
    monkeypatch.setattr(detection, "compare_detection", lambda *_: comparisons)
    monkeypatch.setattr(detection, "compare_slow_peers", lambda *_: [slow])
    page = make_page(("detection",), Streams(None, looks=30), Progress())
    _, kernel, slower, calls = page.split("\n## ")
    assert "Flink CEP is not here: it needs a JDK" in kernel
    assert [row["we are x as fast"] for row in cells(slower)] == ["", "4,000"]
    assert len(cells(calls)) == 3 * len(comparisons)


def test_what_an_engine_raises_in_its_process_is_raised_here() -> None:
    with pytest.raises(CepError, match="no engine"), engine_process(_no_engine):
        pass


def _no_engine() -> Engine:
    raise CepError("there is no engine")


def test_builders_are_compared_with_our_listing() -> None:
    counted, listed = Timing(COUNTING, (1.0,)), Timing(LISTING, (4.0,))
    others = Timing(FLINK, (8.0,)), Timing(DUCKDB, (8.0,))
    rows = cells(detection_table([Comparison("W4", 10_000, 5, counted, (listed, *others))]))
    assert [row["we are x as fast"] for row in rows] == ["", "", "2.00", "8.00"]


def test_a_wrong_count_ends_the_benchmark() -> None:
    engines: dict[str, Callable[[], Measurement]] = {
        "one": lambda: Measurement(0.1, 7),
        "other": lambda: Measurement(0.1, 8),
    }
    with pytest.raises(CepError, match="other finds 8 matches of W0, but there are 7"):
        measure_in_turn(engines, 3, None, "W0", Progress())
    with pytest.raises(CepError, match="one finds 7 matches of W0, but there are 9"):
        measure_in_turn(engines, 3, 9, "W0", Progress())


@pytest.mark.long
def test_engines_run_in_turn_and_slow_ones_are_counted_once() -> None:
    ran: list[str] = []
    steps: list[tuple[str, int]] = []

    def run(name: str, seconds: float) -> Callable[[], Measurement]:
        def measured() -> Measurement:
            ran.append(name)
            return Measurement(seconds, 3)

        return measured

    progress = Progress(lambda what, total: steps.append((what, total)), lambda: ran.append("|"))
    timings, matches = measure_in_turn({"a": run("a", 0.5), "b": run("b", 60.0)}, 3, 3, "W0", progress)
    assert "".join(ran) == "aabb|aa|aa|"
    assert matches == 3 and len(timings["a"].seconds) == 3 and len(timings["b"].seconds) == 1
    assert steps == [("W0: a, b", 3)]


def test_a_mechanism_without_a_figure_does_not_run_the_workload() -> None:
    result = MechanismResult("W5", 1_000_000, 969, {"nfab": Timing("nfab", (0.05,))})
    (row,) = cells(mechanisms_table([result]))
    assert {name: row[name] for name in EVENT_BY_EVENT if row[name]} == {"nfab": "20 M"}


@pytest.mark.long
def test_every_mechanism_that_reads_event_by_event_is_in_the_table_or_refuses() -> None:
    lengths = {STOCK: 1_000, SASE: 10_000, TRAFFIC: 2_000}
    workloads = [name for name in WORKLOADS if name != "W6"]  # a hundred patterns of W1's form
    results = measure_mechanisms(1, Streams(None, looks=30), Progress(), lengths, workloads)
    assert [result.workload for result in results] == workloads
    for result in results:
        (pattern,) = WORKLOADS[result.workload].patterns()
        for name in EVENT_BY_EVENT:
            with nullcontext() if name in result.timings else pytest.raises(UnsupportedPattern):
                MECHANISMS[name].check(pattern)


@pytest.mark.long
def test_the_command_writes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        mechanisms,
        "measure_mechanisms",
        partial(measure_mechanisms, lengths=dict.fromkeys((STOCK, SASE), 10_000), workloads=("W1", "W5")),
    )
    arguments = ("bench", "mechanisms")
    done = cep(*arguments, "--repetitions", "1", "--data", "nowhere", "--out", "page.md", folder=tmp_path)
    assert done.code == 0, done.errors
    page = (tmp_path / "page.md").read_text()
    assert unpadded(done.output) == page
    assert page.startswith("# Benchmarks\n\nOther figures: ") and "\n\nMade by `cep bench` on " in page
    assert "## The mechanisms that read event by event" in page


@pytest.mark.parametrize(("name", "words"), [("page.txt", "name it .md"), ("none/page.md", "there is no folder none")])
def test_a_page_that_cannot_be_written_is_refused_at_once(name: str, words: str, tmp_path: Path) -> None:
    done = cep("bench", "mechanisms", "--out", name, folder=tmp_path)
    assert done.code == 2
    assert words in done.errors


def test_sections_that_are_not_made_anew_stay() -> None:
    page = "# B\n\nold\n\n## One\n\n1\n\n## Two\n\n2\n\n### Part of two\n\n2\n\n## Three\n\n3\n"
    made = "# B\n\nnew\n\n## Two\n\nnew 2\n\n## Four\n\n4\n"
    assert with_other_sections(page, made) == (
        "# B\n\nnew\n\n## One\n\n1\n\n## Two\n\nnew 2\n\n## Three\n\n3\n\n## Four\n\n4\n"
    )
    assert with_other_sections(page, page) == page
    assert with_other_sections("", made) == made
