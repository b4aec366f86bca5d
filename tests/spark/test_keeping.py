"""OUTPUT and CONSUME over slices, with boundaries between every two events, in one job and in one a slice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.match_ids import MatchIdentity
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import counts_in_partitions, look_back, waits_for_later_events
from cep_pipeline.spark import keeping
from cep_pipeline.spark.detection import DetectionJob
from cep_pipeline.spark.keeping import CANDIDATES_SCHEMA, CarryState, KeepingPass, KeepingResult, KeepingShare
from cep_pipeline.spark.slicing import read_row_groups, slices_between
from cep_pipeline.spark.tasks import cores_of
from cep_pipeline.statistics.output_profile import merge_profiles
from cep_pipeline.storage import DataDirectory, WrittenFile, open_data_file
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, without_composed
from tests.spark.test_detection import detect_slices
from tests.thoroughness import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = cep.StreamSchema.from_dict(
    {"base_type": "Ev", "type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}}
)
PATTERNS = tuple(
    cep.parse_patterns(
        "NAME apart PATTERN SEQ(Ev a, Ev b) WHERE a.x < b.x WITHIN 9 us PARTITION BY kind OUTPUT NON_OVERLAP;"
        "NAME all PATTERN SEQ(A a, B b) WITHIN 4 us;"
        "NAME once PATTERN OR(SEQ(A a, B b), AND(B c, B d)) WITHIN 6 us CONSUME MATCHED RETURN a.x AS x;"
        "NAME none PATTERN A a WHERE a.x > 1000 WITHIN 1 us OUTPUT NON_OVERLAP",
        SCHEMA,
    )
)


def test_many_candidates_are_divided_by_pattern() -> None:
    whole = KeepingPass(
        PATTERNS,
        "set",
        date(2024, 1, 1),
        CarryState("version", {"once": {"consumed": []}}),
        {},
        DataDirectory("x", "run"),
    )
    candidates = {"apart": 900_000, "once": 500_000, "none": 10}
    parts = whole.parts(candidates)
    assert [[pattern.name for pattern in part.patterns] for part in parts] == [["apart"], ["once"], ["none"]]
    assert [list(part.carry_in.patterns) for part in parts] == [[], ["once"], []]
    (alone,) = whole.parts({"apart": 90, "once": 50, "none": 0})
    assert [pattern.name for pattern in alone.patterns] == ["apart", "once", "none"]


def test_a_pattern_with_most_of_the_candidates_is_divided_by_its_partitions() -> None:
    whole = KeepingPass(PATTERNS, "set", date(2024, 1, 1), CarryState("version"), {}, DataDirectory("x", "run"))

    def shares(candidates: Mapping[str, int], cores: int = 100) -> list[tuple[str, int, int]]:
        found = whole.shares(candidates, DataDirectory("y", "run"), cores)
        return [(share.name, share.number, share.of) for share in found]

    assert shares({"apart": 399_999, "once": 50}) == []
    assert shares({"apart": 400_000, "none": 0}, cores=2) == [("apart", 0, 2), ("apart", 1, 2)]
    assert len(shares({"apart": 50_000_000})) == keeping.MOST_SHARES
    assert shares({"apart": 1_000_000}, cores=1) == []
    assert shares({"apart": 1_000_000, "once": 1_000_000}, cores=2) == []
    assert shares({"once": 9_000_000}) == [("once", 0, 1)], "it has no partitions"
    half = shares({"apart": 2_000_000, "once": 2_000_000})
    assert half == [*(("apart", number, 4) for number in range(4)), ("once", 0, 1)]
    assert shares({"apart": 1_000_000, **{f"other {number}": 1_000_000 for number in range(9)}}) == []


WINDOW = 9
"""Microseconds of the time windows; event number n comes at the microsecond n."""
COUNTED = 3
DAY = 16
"""Events of a day."""
DAYS = 3


@dataclass(frozen=True)
class Stream:
    """Candidates of some patterns over days: the numbers of their events, and that with which each becomes final."""

    keys: Sequence[str | None]
    patterns: tuple[Pattern, ...]
    found: Mapping[str, Sequence[tuple[tuple[int, ...], int]]]
    cuts: Sequence[Sequence[int]]

    def write(self, path: Path, chosen: Callable[[tuple[int, ...], int], bool]) -> str | None:
        """Write a file of the chosen candidates in the page's order, some of a pattern to a row group."""
        with open_data_file(str(path), CANDIDATES_SCHEMA) as writer:
            rows = 0
            for pattern in self.patterns:
                own = [self.row(pattern, events) for events, final in self.found[pattern.name] if chosen(events, final)]
                for start in range(0, len(own), 5):
                    writer.write_batch(pa.RecordBatch.from_pylist(own[start : start + 5], schema=CANDIDATES_SCHEMA))
                rows += len(own)
        return str(path) if rows else None

    def row(self, pattern: Pattern, events: tuple[int, ...]) -> dict[str, Any]:
        key = self.keys[events[0]]
        return {
            "pattern_set": "set",
            "pattern": pattern.name,
            "match_id": MatchIdentity.of(pattern).id_of(zip("ab", events, strict=False)),
            "start_ts": events[0],
            "end_ts": events[-1],
            "bindings": [{"variable": name, "seq": seq} for name, seq in zip("ab", events, strict=False)],
            "returns": f"{events[0]}",
            "instants": list(events),
            "partition": "[]" if not pattern.partition_by else None if key is None else f'["{key}"]',
        }

    def day(self, number: int, folder: Path, carry_in: CarryState) -> tuple[KeepingPass, list[str | None]]:
        """The pass of a day, and the files of candidates that it reads."""
        begin, end = DAY * number, DAY * (number + 1)
        points = [begin, *sorted(begin + cut for cut in self.cuts[number]), end]
        folder.mkdir(parents=True)
        files = [
            self.write(folder / f"candidates-{low}-{place}", lambda _, final, low=low, high=high: low <= final < high)
            for place, (low, high) in enumerate(pairwise(points))
        ]
        pending = self.write(folder / "pending", lambda events, final: events[-1] < end <= final)
        own = {key: [n for n in range(end) if self.keys[n] == key] for key in self.keys[:end]}
        reached = {f'["{key}"]': seqs[-COUNTED + 1 :][0] for key, seqs in own.items() if key is not None}
        horizons = {
            pattern.name: end - WINDOW
            if pattern.window.time_us is not None
            else None
            if pattern.partition_by
            else end - COUNTED + 1
            for pattern in self.patterns
        }
        deciding = KeepingPass(
            self.patterns,
            "set",
            date(2024, 1, 1 + number),
            carry_in,
            horizons,
            DataDirectory(str(folder / "matches"), "run"),
            points[1:],
            pending,
            reachable={pattern.name: reached for pattern in self.patterns if counts_in_partitions(pattern)},
        )
        return deciding, files


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Random candidates of two patterns, of which each is final at its last event or at the end of its window."""
    keys = draw(st.lists(st.sampled_from(["u", "v", "w", "x", None]), min_size=DAY * DAYS, max_size=DAY * DAYS))
    patterns = tuple(draw(policy_patterns(name)) for name in ("p", "q"))
    chosen = np.random.default_rng(draw(st.integers(0, 99)))
    share = draw(st.sampled_from([0.2, 0.6, 1.0]))
    found: dict[str, list[tuple[tuple[int, ...], int]]] = {}
    for pattern in patterns:
        own = found.setdefault(pattern.name, [])
        for first, key in enumerate(keys):
            if not pattern.partition_by:
                members = list(range(len(keys)))
            else:
                members = [first] if key is None else [n for n, other in enumerate(keys) if other == key]
            behind = members[members.index(first) + 1 :]
            if pattern.window.time_us is not None:
                reach, closing = [n for n in behind if n - first <= WINDOW], first + WINDOW
            else:
                reach, closing = behind[: COUNTED - 1], [*behind, *[DAY * DAYS] * COUNTED][COUNTED - 2]
            if pattern.partition_by and key is None:
                closing = first
            for events in [(first, last) for last in reach] or [(first,)]:
                if chosen.random() < share:
                    own.append((events, closing if waits_for_later_events(pattern) else events[-1]))
        own.sort(key=lambda candidate: (candidate[0][-1], candidate[0]))
    cuts = draw(st.lists(st.lists(st.integers(1, DAY - 1), min_size=2, max_size=2), min_size=DAYS, max_size=DAYS))
    return Stream(keys, patterns, found, cuts)


@st.composite
def policy_patterns(draw: st.DrawFn, name: str) -> Pattern:
    policy = draw(st.sampled_from(["OUTPUT NON_OVERLAP", "CONSUME MATCHED", "OUTPUT NON_OVERLAP CONSUME MATCHED"]))
    structure = draw(st.sampled_from(["SEQ(Ev a, Ev b)", "AND(Ev a, Ev b)", "SEQ(Ev a, Ev b, ~Ev n)"]))
    window = draw(st.sampled_from([f"{WINDOW} us", f"{COUNTED} EVENTS"]))
    by = draw(st.sampled_from(["PARTITION BY kind", "PARTITION BY kind", ""]))
    (pattern,) = cep.parse_patterns(f"NAME {name} PATTERN {structure} WITHIN {window} {by} {policy}", SCHEMA)
    return pattern


HELD_FROM_BEFORE_THE_LAST_WINDOW = Stream(
    [{3: "u", 4: "v", 5: "v", 7: "u", 8: "u", 9: "u"}.get(number) for number in range(DAY * DAYS)],
    tuple(
        cep.parse_patterns(
            f"NAME p PATTERN SEQ(Ev a, Ev b, ~Ev n) WITHIN {WINDOW} us PARTITION BY kind CONSUME MATCHED", SCHEMA
        )
    ),
    {"p": [((4, 5), 13), ((7, 8), DAY), ((3, 9), 12)]},
    [[8, 8]] * DAYS,
)
"""In u a candidate from event 3 on waits, so that events 4 and 5, consumed in v, are remembered, as in one task."""


@example(stream=HELD_FROM_BEFORE_THE_LAST_WINDOW, divided=(True, True), ends=False, cores=8)
@settings(max_examples=examples(60), deadline=None)
@given(stream=streams(), divided=st.tuples(*[st.booleans()] * (DAYS - 1)), ends=st.booleans(), cores=st.integers(3, 9))
def test_a_divided_pass_decides_as_one_over_days(
    stream: Stream, divided: tuple[bool, ...], ends: bool, cores: int
) -> None:
    """Days that one task decided may follow and precede days that were divided: the state between them is the same."""
    one = several = CarryState("version")
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for number, in_shares in enumerate([*divided, True]):
            patch.setattr(keeping, "CANDIDATES_OF_A_PART", 1)
            at_end = ends and number == DAYS - 1
            deciding, files = stream.day(number, Path(folder, "one", str(number)), one)
            alone = replace(deciding, end_of_stream=at_end).run(files)
            deciding, files = stream.day(number, Path(folder, "several", str(number)), several)
            deciding = replace(deciding, end_of_stream=at_end)
            counts = dict.fromkeys(stream.found, 100)
            scratch = DataDirectory(str(Path(folder, "scratch", str(number))), "run")
            both = deciding.decide(files, counts, scratch, cores, in_turn) if in_shares else deciding.run(files)
            assert published(both) == published(alone)
            assert all(isinstance(path, WrittenFile) for path in (*both.files, *alone.files))
            assert both.matches == alone.matches
            assert {name: n for name, n in both.waiting.items() if n} == {n: k for n, k in alone.waiting.items() if k}
            assert both.carry_out.to_json() == alone.carry_out.to_json()
            assert {p.pattern: p for p in merge_profiles(both.profiles)} == {
                p.pattern: p for p in merge_profiles(alone.profiles)
            }
            one = CarryState.from_json(alone.carry_out.to_json(), "version")
            several = CarryState.from_json(both.carry_out.to_json(), "version")


def in_turn(function: Callable[[Any, int], Any], tasks: Sequence[Any]) -> list[Any]:
    return [function(task, 0) for task in tasks]


def published(result: KeepingResult) -> dict[str, list[dict[str, Any]]]:
    """The rows of each pattern as the table of matches has them: file after file by their paths."""
    rows = pa.concat_tables(
        [
            without_composed(MATCHES_SCHEMA).empty_table(),
            *(pq.read_table(path, partitioning=None) for path in sorted(result.files)),
        ]
    ).to_pylist()
    return {name: [row for row in rows if row["pattern"] == name] for name in {row["pattern"] for row in rows}}


def test_a_job_decides_as_one_detection(either: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"timestamp": t * 3 // 2, "kind": "AB"[t % 3 == 0], "x": (t * 7919) % 101} for t in range(24)]
    table = SCHEMA.table(rows)
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=10)
    groups = read_row_groups([str(tmp_path / "events.parquet")])
    whole = cep.detect(PATTERNS, table)
    assert all(found.num_rows > 2 for name, found in whole.items() if name != "none")
    job = DetectionJob(
        PATTERNS,
        cep.plan(PATTERNS, cep.estimate_statistics(PATTERNS, table)),
        "set",
        "version",
        date(2024, 1, 1),
        DataDirectory(str(tmp_path / "matches"), "run"),
        candidates=DataDirectory(str(tmp_path / "candidates"), "run"),
        horizons_us=horizons_us(100),
    )
    points = [*zip(table["timestamp"].cast("int64").to_pylist(), table["seq"].to_pylist(), strict=True), (100, 0)]
    slices = slices_between(groups, points, look_back(PATTERNS))
    at_once = detect_slices(either, job, slices)
    assert rows_of(at_once.files) == {name: found["match_id"].to_pylist() for name, found in whole.items()}
    assert at_once.matches == {name: found.num_rows for name, found in whole.items()}
    monkeypatch.setattr(keeping, "CANDIDATES_OF_A_PART", 1)
    in_parts = detect_slices(either, job, slices)
    assert rows_of(in_parts.files) == rows_of(at_once.files) and in_parts.matches == at_once.matches
    assert in_parts.carry_out.to_json() == at_once.carry_out.to_json() and in_parts.pending == at_once.pending

    days = [point for place, point in enumerate(points) if place % 6 == 0 or place == len(points) - 1]
    files: list[str] = []
    state = CarryState("version")
    for number, (start, end) in enumerate(pairwise(days)):
        of_day = slices_between(groups, [p for p in points if start <= p <= end], look_back(PATTERNS))
        directory = DataDirectory(str(tmp_path / f"matches-{number}"), "run")
        detected = detect_slices(
            either, replace(job, directory=directory, carry_in=state, horizons_us=horizons_us(end[0])), of_day
        )
        files += detected.files
        state = CarryState.from_json(detected.carry_out.to_json(), "version")
    assert rows_of(files) == rows_of(at_once.files)
    assert state == at_once.carry_out


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(Ev a, Ev b) WHERE a.x < b.x WITHIN 9 us PARTITION BY kind OUTPUT NON_OVERLAP",
        "AND(Ev a, Ev b) WITHIN 9 us PARTITION BY kind CONSUME MATCHED RETURN a.x AS x",
        "SEQ(Ev a, Ev b, ~Ev n) WHERE n.x > 90 WITHIN 9 us PARTITION BY kind OUTPUT NON_OVERLAP CONSUME MATCHED",
    ],
)
def test_tasks_decide_about_the_partitions_of_one_pattern(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    patterns = tuple(cep.parse_patterns(f"NAME p PATTERN {text}", SCHEMA))
    table = SCHEMA.table([{"timestamp": t, "kind": "ABCDE"[t % 5], "x": (t * 7919) % 101} for t in range(60)])
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=16)
    groups = read_row_groups([str(tmp_path / "events.parquet")])
    expected = cep.detect(patterns, table)["p"]["match_id"].to_pylist()
    job = DetectionJob(
        patterns,
        cep.plan(patterns, cep.estimate_statistics(patterns, table)),
        "set",
        "version",
        date(2024, 1, 1),
        DataDirectory(str(tmp_path / "matches"), "run"),
        candidates=DataDirectory(str(tmp_path / "candidates"), "run"),
        horizons_us={"p": 60 - 9},
        end_of_stream=True,
    )
    slices = slices_between(groups, [(0, 0), (20, 20), (40, 40), (100, 0)], look_back(patterns))
    alone = detect_slices(spark, job, slices)
    divided: list[int] = []
    shares = KeepingPass.shares

    def noted(*given: Any) -> list[KeepingShare]:
        found = shares(*given)
        divided.append(len(found))
        return found

    monkeypatch.setattr(keeping, "CANDIDATES_OF_A_PART", 1)
    monkeypatch.setattr(KeepingPass, "shares", noted)
    in_shares = detect_slices(spark, job, slices)
    assert divided == [cores_of(spark)] and divided[0] > 1
    for detected in (alone, in_shares):
        rows = pa.concat_tables(pq.read_table(path, partitioning=None) for path in sorted(detected.files))
        assert rows["match_id"].to_pylist() == expected
        assert detected.matches == {"p": len(expected)} and len(expected) > 5
    assert in_shares.carry_out == alone.carry_out and in_shares.carry_out.patterns["p"]


def horizons_us(end_us: int) -> dict[str, int | None]:
    return {pattern.name: end_us - (pattern.window.time_us or 0) for pattern in PATTERNS}


def rows_of(files: tuple[str, ...] | list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {pattern.name: [] for pattern in PATTERNS}
    for path in files:
        table = pq.read_table(path, partitioning=None)
        assert table.schema.names == without_composed(MATCHES_SCHEMA).names
        for row in table.to_pylist():
            found[row["pattern"]].append(row["match_id"])
    return found


def test_another_version_of_the_pattern_set_starts_anew() -> None:
    state = CarryState("v1", {"p": {"consumed": [[1, 2]]}})
    assert CarryState.from_json(state.to_json(), "v1") == state
    assert CarryState.from_json(state.to_json(), "v2") == CarryState("v2")
    assert CarryState("v1").to_json() == {}
    assert CarryState.from_json({}, "v1") == CarryState("v1")
