"""The union of the daily runs is exactly one run over all days: random patterns over random days."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.detection.output_policy import decides_in_order
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.configuration import LimitSettings
from cep_pipeline.slices.ownership import not_by_day
from tests.contracts.mechanisms import has_few_bindings, runnable
from tests.pattern_strategies import THIRD_EDITION, WHOLE_LANGUAGE, File, files, statements
from tests.pipeline.local_days import LocalDays, events_by_day
from tests.streams import Row, rows, stream_schema
from tests.thoroughness import examples

LANGUAGE = replace(WHOLE_LANGUAGE, returns=False, parameters=False, lists=False, max_condition_variables=2)
THIRD = replace(THIRD_EDITION, returns=False)
WINDOWS = st.one_of(
    st.integers(1, 6).map(lambda events: f"{events} EVENTS"),
    st.sampled_from(["2 hours", "7 hours", "1 day", "30 hours", "60 hours"]),
)
GAPS_HOURS = st.sampled_from([0, 0, 1, 2, 5, 11, 24, 26, 60])


def mechanisms_of(pattern: Pattern) -> list[str]:
    """The mechanisms that run a pattern."""
    found = []
    for name in MECHANISMS:
        with suppress(cep.UnsupportedPattern):
            choose_mechanisms([pattern], name)
            found.append(name)
    return found


STRUCTURES = (
    "SEQ(Ev a, ~B b)",
    "SEQ(A a, Ev b, ~C c)",
    "SEQ(~A n, Ev a, Ev b, ~B m) WHERE n.x < a.x",
    "AND(A a, B b, ~C c)",
    "OR(SEQ(A a, ~B b), SEQ(Ev c, Ev d))",
    "SEQ(Ev a, ~C n, Ev b) WHERE a.x < b.x",
    "AND(Ev a, Ev b)",
    "Ev a",
    "SEQ(A a, Ev+ b[], Ev c)",
    "SEQ(Ev a, OR(B b, Ev c), Ev? d)",
)
RUNS = (
    "SEQ(Ev a, ~B b) WHERE skip_till_next_match { 1 = 1 }",
    "SEQ(Ev a, Ev b, ~C c) WHERE skip_till_next_match { a.x <= b.x }",
    "SEQ(Ev a, Ev b) WHERE strict_contiguity { 1 = 1 }",
    "SEQ(Ev a, Ev b, ~A c) WHERE strict_contiguity { 1 = 1 }",
    "SEQ(Ev a, Ev b, Ev c, ~A d) WHERE partition_contiguity { 1 = 1 }",
)
PARTITIONS = st.sampled_from(["", "PARTITION BY id", "PARTITION BY s", "PARTITION BY id, s", "PARTITION BY y"])
POLICIES = st.sampled_from(
    [
        f"{output} {consume}"
        for output in ("", "OUTPUT NON_OVERLAP", "OUTPUT PREFERRED", "OUTPUT PREFERRED NON_OVERLAP")
        for consume in ("", "CONSUME MATCHED")
    ]
)


@st.composite
def waiting_patterns(draw: st.DrawFn) -> Pattern:
    """Patterns with what decides who owns a match, and when: negation, ties, partitions, OUTPUT and CONSUME."""
    structure, ties = draw(
        st.sampled_from(
            [*((s, ("ARRIVAL", "STRICT", "ANY")) for s in STRUCTURES * 2), *((s, ("ARRIVAL", "STRICT")) for s in RUNS)]
        )
    )
    text = f"PATTERN {structure} WITHIN {draw(WINDOWS)} {draw(PARTITIONS)} TIES {draw(st.sampled_from(ties))}"
    (pattern,) = cep.parse_patterns(f"{text} {draw(POLICIES)}", stream_schema())
    return pattern


@st.composite
def random_patterns(draw: st.DrawFn) -> Pattern:
    return runnable(
        draw(statements(draw(st.sampled_from([LANGUAGE, replace(LANGUAGE, kleene=False), THIRD])))).within(
            draw(WINDOWS)
        )
    )


@settings(deadline=None, max_examples=examples(60))
@given(data=st.data(), stream_rows=rows(max_size=10), pattern=st.one_of(waiting_patterns(), random_patterns()))
def test_random_patterns_over_random_days(data: st.DataObject, stream_rows: list[Row], pattern: Pattern) -> None:
    gaps = data.draw(st.lists(GAPS_HOURS, min_size=len(stream_rows), max_size=len(stream_rows)))
    assume(not not_by_day(pattern))
    by_day = events_by_day(stream_schema(), stream_rows, gaps)
    empty = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder:
        days = LocalDays(
            stream_schema(),
            (pattern,),
            Path(folder),
            row_group_size=data.draw(st.integers(1, 3)),
            slices=data.draw(st.integers(1, 6)),
            mechanism=data.draw(st.sampled_from([None, *mechanisms_of(pattern)])),
        )
        whole = publish_and_detect(days, by_day, empty_days=empty)
        expected = cep.detect([pattern], whole)[pattern.name]["match_id"].to_pylist()
        found = days.matches()[pattern.name]
        assert Counter(found) <= Counter(expected)
        pending = sum(days.detected[max(days.detected)].pending.values()) if days.detected else 0
        if not decides_in_order(pattern):
            assert len(found) + pending == len(expected)
        if days.detected:
            days.detect(max(days.detected), end_of_stream=True)
            assert Counter(days.matches()[pattern.name]) == Counter(expected)


@settings(deadline=None, max_examples=examples(60))
@given(data=st.data(), stream_rows=rows(max_size=8), file=files(THIRD))
def test_composing_patterns_over_random_days(data: st.DataObject, stream_rows: list[Row], file: File) -> None:
    check_composing_patterns(data, stream_rows, file)


def check_composing_patterns(data: st.DataObject, stream_rows: list[Row], file: File) -> None:
    file = File(tuple(statement.within(data.draw(WINDOWS)) for statement in file.statements))
    check_days(data, stream_rows, tuple(cep.parse_patterns(file.text, stream_schema(), params=file.params)))


def check_days(data: st.DataObject, stream_rows: list[Row], patterns: tuple[Pattern, ...]) -> None:
    """Detect patterns that compose others day by day, one of the days again, and compare with one run."""
    gaps = data.draw(st.lists(GAPS_HOURS, min_size=len(stream_rows), max_size=len(stream_rows)))
    by_day = events_by_day(stream_schema(), stream_rows, gaps)
    events = pa.concat_tables([stream_schema().table([]), *(by_day[day] for day in sorted(by_day))])
    assume(all(has_few_bindings(pattern, events) for pattern in patterns))
    assume(not any(map(not_by_day, patterns)))
    with tempfile.TemporaryDirectory() as folder:
        days = LocalDays(
            stream_schema(),
            patterns,
            Path(folder),
            row_group_size=data.draw(st.integers(1, 3)),
            slices=data.draw(st.integers(1, 6)),
        )
        whole = publish_and_detect(days, by_day, empty_days=data.draw(st.booleans()))
        tables = cep.detect(patterns, whole)
        listed = [pattern.name for pattern in patterns if pattern.summary is None]
        expected = {name: tables[name]["match_id"].to_pylist() for name in listed}
        found = days.matches()
        assert all(Counter(found[name]) <= Counter(expected[name]) for name in listed)
        if days.detected:
            again = data.draw(st.sampled_from(sorted(days.detected)))
            before = days.matches([again]), days.detected[again].carry_out, days.detected[again].summaries
            days.detect(again)
            after = days.matches([again]), days.detected[again].carry_out, days.detected[again].summaries
            assert after == before
            days.detect(max(days.detected), end_of_stream=True)
            found = days.matches()
            for name in listed:
                assert Counter(found[name]) == Counter(expected[name]), name
            for pattern in patterns:
                if pattern.summary is not None:
                    together = PartialSummary(pattern)
                    for day in days.detected.values():
                        together.add(PartialSummary.from_json(pattern, day.summaries[pattern.name]))
                    assert repr(together.table().to_pylist()) == repr(tables[pattern.name].to_pylist())


def publish_and_detect(days: LocalDays, by_day: dict[date, pa.Table], *, empty_days: bool) -> pa.Table:
    """Publish and detect day after day, those without events too if so wished; returns all events."""
    schema = stream_schema()
    nothing = schema.table([])
    if not by_day:
        return nothing
    day = min(by_day)
    while day <= max(by_day):
        if day in by_day or empty_days:
            days.publish_events(day, by_day.get(day, nothing))
            days.detect(day)
        day += timedelta(days=1)
    return pa.concat_tables([by_day[day] for day in sorted(by_day)])


def days_of(text: str, folder: Path, kinds: dict[str, str]) -> LocalDays:
    """Days with an event an hour of the types given by letters, none for `-`; `id` is the letter's number."""
    patterns = tuple(cep.parse_patterns(text, stream_schema()))
    days = LocalDays(stream_schema(), patterns, folder)
    for day, letters in kinds.items():
        begin = int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp())
        seq = date.fromisoformat(day).toordinal() << 40
        events = [
            {"timestamp": (begin + 3600 * hour) * 1_000_000, "seq": seq + hour, "kind": letter, "id": ord(letter)}
            for hour, letter in enumerate(letters)
            if letter != "-"
        ]
        days.publish_events(date.fromisoformat(day), stream_schema().table(events))
    return days


def test_partitions_are_read_back_as_far_as_each_takes_and_no_further(tmp_path: Path) -> None:
    kinds = {"2024-03-04": "AZBA", "2024-03-05": "BC", "2024-03-06": "A", "2024-03-08": "AB", "2024-03-09": "AZ"}
    days = days_of("PATTERN SEQ(Ev a, Ev b) WITHIN 2 EVENTS PARTITION BY id", tmp_path, kinds)
    for day in days.days:
        days.detect(day)
    reached = {day.day: found.fingerprint.events_from for day, found in days.detected.items()}
    assert reached == {4: None, 5: None, 6: date(2024, 3, 4), 8: date(2024, 3, 5), 9: date(2024, 3, 4)}
    assert {day.day: len(found.fingerprint.events) for day, found in days.detected.items()} == {
        4: 1,
        5: 2,
        6: 3,
        8: 3,
        9: 5,
    }


@pytest.mark.parametrize("partition", ["", "PARTITION BY id"])
def test_events_of_the_time_of_the_first_event_are_read_with_it(tmp_path: Path, partition: str) -> None:
    """Under TIES ANY each of them may be behind it, however many positions it stands before."""
    patterns = tuple(
        cep.parse_patterns(f"NAME alone PATTERN SEQ(A a, ~B b) WITHIN 2 EVENTS {partition} TIES ANY", stream_schema())
    )
    rows = [{"kind": kind, "id": 1} for kind in "BCCAC"]
    by_day = events_by_day(stream_schema(), rows, [20, 0, 0, 0, 20])
    days = LocalDays(stream_schema(), patterns, tmp_path)
    for day, events in by_day.items():
        days.publish_events(day, events)
        days.detect(day)
    assert len(by_day) == 2
    assert days.matches() == {"alone": []}


@pytest.mark.parametrize(("next_day", "kept"), [("Z", [["a"], ["c", "d"]]), ("B", [["c", "d"]])])
def test_a_final_match_waits_for_an_earlier_one_that_is_not(
    tmp_path: Path, next_day: str, kept: list[list[str]]
) -> None:
    text = "PATTERN OR(SEQ(A a, ~B b), SEQ(Ev c, Ev d)) WITHIN 30 hours OUTPUT NON_OVERLAP"
    days = days_of(text, tmp_path, {"2024-03-04": "AC", "2024-03-05": next_day})
    first, second = (days.detect(day) for day in days.days)
    assert (first.matches, first.pending) == ({"pattern_1": 0}, {"pattern_1": 2}), "(a) is not final, and (c, d) waits"
    assert len(first.carry_out["patterns"]["pattern_1"]["undecided"]) == 1
    found = [row for path in second.files for row in pq.read_table(path, partitioning=None)["bindings"].to_pylist()]
    assert [[binding["variable"] for binding in row] for row in found] == kept
    assert days.detect(date(2024, 3, 4), end_of_stream=True).matches == {"pattern_1": 1}


def test_what_others_wait_for_is_remembered_however_far_another_partition_is(tmp_path: Path) -> None:
    text = "PATTERN OR(SEQ(A a, ~B b), SEQ(Ev c, Ev d)) WITHIN 10 hours PARTITION BY id CONSUME MATCHED"
    days = days_of(text, tmp_path, {"2024-03-04": "-------AA-------AA----CC"})
    found = days.detect(date(2024, 3, 4))
    assert found.matches == {"pattern_1": 3}, "the first two A, and both C"
    [undecided] = found.carry_out["patterns"]["pattern_1"]["undecided"]
    assert [one["seq"] & 0xFF for one in undecided["bindings"]] == [16, 17], "those with the first A are ruled out"


def test_a_match_is_closed_days_later_in_its_partition(tmp_path: Path) -> None:
    kinds = {"2024-03-04": "AB", "2024-03-05": "BB", "2024-03-06": "C", "2024-03-08": "A", "2024-03-09": "BA"}
    text = "PATTERN SEQ(A a, ~B n) WITHIN 3 EVENTS PARTITION BY id OUTPUT NON_OVERLAP"
    days = days_of(text, tmp_path, kinds)
    for day in days.days:
        days.detect(day)
    assert {day.day: dict(found.matches) for day, found in days.detected.items()} == {
        4: {"pattern_1": 0},
        5: {"pattern_1": 0},
        6: {"pattern_1": 0},
        8: {"pattern_1": 0},
        9: {"pattern_1": 1},
    }
    assert days.detected[date(2024, 3, 6)].carry_out["pending"] == {"pattern_1": ["[65]"]}
    days.detect(date(2024, 3, 9), end_of_stream=True)
    assert days.detected[date(2024, 3, 9)].matches == {"pattern_1": 3}


KINDS = {
    "2024-03-04": "AB--A-BB-C---A----A---AB",
    "2024-03-05": "BC--A---B-----------A-BB",
    "2024-03-06": "",
    "2024-03-07": "B-A-B---------------A-CB",
}
WAITING = (
    "SEQ(A a, B+ b[]) WITHIN 5 hours",
    "SEQ(A a, B+? b[], Ev c) WITHIN 30 hours",
    "SEQ(A a, B+ b[]) WHERE skip_till_next_match { 1 = 1 } WITHIN 5 hours",
    "SEQ(A a, C?? c, B b) WITHIN 6 EVENTS",
    "SEQ(Ev a, Ev b, Ev? c) WITHIN 3 EVENTS PARTITION BY id",
    "SEQ(Ev a, Ev{1,2}? b[]) WITHIN 20 hours PARTITION BY id",
    "OR(SEQ(A a, B+ b[], ~C n), SEQ(Ev c, Ev d)) WITHIN 7 hours",
)


@pytest.mark.parametrize("clauses", ["", "NON_OVERLAP", "CONSUME MATCHED", "NON_OVERLAP CONSUME MATCHED"])
@pytest.mark.parametrize("structure", WAITING)
def test_preferred_matches_are_those_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, structure: str, clauses: str
) -> None:
    """They are decided about in the order of first events, in which they become final: none waits for another."""
    monkeypatch.setattr("cep_pipeline.spark.keeping.MOST_CANDIDATES", 2)
    days = days_of(f"PATTERN {structure} OUTPUT PREFERRED {clauses}", tmp_path, KINDS)
    for day in days.days:
        found = days.detect(day)
        assert "undecided" not in str(found.carry_out)
    last = date.fromisoformat(max(KINDS))
    assert days.detected[last].pending
    before = days.matches()["pattern_1"]
    days.detect(last, end_of_stream=True)
    events = pa.concat_tables(pq.read_table(file.path).drop_columns(["day"]) for file in days.files.values())
    expected = cep.detect(days.patterns, events)["pattern_1"]["match_id"].to_pylist()
    assert Counter(days.matches()["pattern_1"]) == Counter(expected)
    assert Counter(before) <= Counter(expected)


def test_a_session_over_midnight_is_published_when_its_window_is_over(tmp_path: Path) -> None:
    kinds = {"2024-03-04": "A--------------------ABB", "2024-03-05": "BA-B-A-----B"}
    text = "PATTERN SEQ(A a, B+ b[]) WITHIN 4 hours OUTPUT PREFERRED NON_OVERLAP"
    days = days_of(text, tmp_path, kinds)
    first, second = (days.detect(day) for day in days.days)
    assert (first.matches, first.pending) == ({"pattern_1": 0}, {"pattern_1": 1})
    rows = [row for path in second.files for row in pq.read_table(path, partitioning=None)["bindings"].to_pylist()]
    assert [[one["seq"] & 0xFF for one in row] for row in rows] == [[21, 22, 23, 0], [1, 3]]


def test_preferred_matches_that_reach_a_limit_are_counted(tmp_path: Path) -> None:
    days = days_of("PATTERN SEQ(A a, Ev+ b[]) WITHIN 3 hours OUTPUT PREFERRED", tmp_path, {"2024-03-04": "ABBABBABB"})
    days.limits = LimitSettings(max_matches=2)
    assert days.detect(date(2024, 3, 4)).limited["pattern_1"].matches == 3


def test_what_nothing_can_reach_any_more_is_forgotten(tmp_path: Path) -> None:
    kinds = {"2024-03-04": "AAAA", "2024-03-05": "AAA", "2024-03-06": ""}
    text = "NAME n PATTERN SEQ(A a, A b) WITHIN {} CONSUME MATCHED"
    reaches = {"2 EVENTS": 0, "3 EVENTS": 1, "1 hour": 0, "60 hours": 2}
    reaches |= {"2 EVENTS PARTITION BY id": 2, "3 EVENTS PARTITION BY id": 3}  # as many as the window counts
    for window, consumed in reaches.items():
        folder = tmp_path / window
        folder.mkdir()
        days = days_of(text.format(window), folder, kinds)
        for day in days.days:
            days.detect(day)
        last = days.detected[date(2024, 3, 6)].carry_out.get("patterns", {}).get("n", {})
        assert len(last.get("consumed", [])) == consumed, window
