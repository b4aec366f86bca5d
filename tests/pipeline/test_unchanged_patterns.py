"""A pattern set that changes: only its changed patterns are detected again, and the tables are those of a full redo."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.language.formatter import pattern_version
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.configuration import LimitSettings, PatternSetLimits
from cep_pipeline.pipeline.detection import KEPT_PATTERNS
from cep_pipeline.pipeline.stream_days import find_stale_days
from cep_pipeline.slices.ownership import waits_for_later_events
from cep_pipeline.storage import digest_of
from tests.pipeline.local_days import LocalDays, events_by_day
from tests.pipeline.project import DAYS, MONDAY, Project
from tests.pipeline.test_union_of_days import GAPS_HOURS, days_of, waiting_patterns
from tests.streams import Row, rows, stream_schema
from tests.thoroughness import examples

NAMES = ("p", "q", "r", "s")


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[Pattern, ...]]:
    """Versions of a pattern set, each made from the one before: patterns are changed, added, removed and moved."""
    now = {name: draw(waiting_patterns()) for name in draw(st.sets(st.sampled_from(NAMES), min_size=1))}
    versions = [now]
    for _ in range(draw(st.integers(1, 2))):
        changed = draw(st.sets(st.sampled_from(NAMES), max_size=2))
        now = {name: pattern for name, pattern in now.items() if name not in changed or draw(st.booleans())}
        now |= {name: draw(waiting_patterns()) for name in sorted(changed) if name in now or draw(st.booleans())}
        now = {name: now[name] for name in draw(st.permutations(sorted(now)))}
        if now:
            versions.append(now)
    return [tuple(replace(pattern, name=name) for name, pattern in one.items()) for one in versions]


def set_patterns(days: LocalDays, patterns: tuple[Pattern, ...]) -> None:
    days.patterns, days.version = patterns, digest_of([pattern_version(pattern) for pattern in patterns])


def tables_of(days: LocalDays) -> dict[date, Any]:
    """All that is published of each day: the rows of each pattern, and what is recorded beside them.

    Where the slices of a day end depends on all patterns of the set, and with it the order of matches that wait: they
    are compared without an order.
    """
    return {
        day: (
            {
                pattern.name: sorted(rows, key=itemgetter("match_id")) if waits_for_later_events(pattern) else rows
                for pattern in days.patterns
                for rows in [rows_of(found.files, pattern.name)]
            },
            found.matches,
            dict(found.pending),
            dict(found.limited),
            found.carry_out,
            replace(found.fingerprint, events_from=None, events={}),
        )
        for day, found in sorted(days.detected.items())
    }


def rows_of(files: Sequence[str], pattern: str) -> list[dict[str, Any]]:
    read = [pq.read_table(path, partitioning=None, filters=[("pattern", "=", pattern)]) for path in sorted(files)]
    return [row for table in read for row in table.to_pylist()]


def redo(days: LocalDays, patterns: tuple[Pattern, ...], *, last_ends: bool) -> dict[date, tuple[str, ...]]:
    """Redo all days as `cep run --stale` does; returns the patterns that were kept."""
    set_patterns(days, patterns)
    ends = max(days.days) if last_ends else None
    return {day: days.detect(day, end_of_stream=day == ends, keeps_unchanged=True).kept for day in days.days}


@pytest.mark.long
@settings(deadline=None, max_examples=examples(25))
@given(data=st.data(), stream_rows=rows(min_size=3, max_size=10), versions=edits())
def test_random_edits_of_a_pattern_set_give_the_tables_of_a_full_redo(
    data: st.DataObject, stream_rows: list[Row], versions: list[tuple[Pattern, ...]]
) -> None:
    gaps = data.draw(st.lists(GAPS_HOURS, min_size=len(stream_rows), max_size=len(stream_rows)))
    by_day = events_by_day(stream_schema(), stream_rows, gaps)
    limits = PatternSetLimits(patterns={"p": LimitSettings(max_matches=data.draw(st.sampled_from([1, 1000])))})
    with tempfile.TemporaryDirectory() as folder:
        edited, fresh = (LocalDays(stream_schema(), (), Path(folder) / name, limits=limits) for name in "ef")
        for days in (edited, fresh):
            days.folder.mkdir()
            for day, events in by_day.items():
                days.publish_events(day, events)
        redo(edited, versions[0], last_ends=False)
        for before, now in itertools.pairwise(versions):
            if data.draw(st.booleans()):  # a single day out of turn, which goes on from a day of the version before
                set_patterns(edited, now)
                edited.detect(data.draw(st.sampled_from(sorted(by_day))), keeps_unchanged=True)
            limited = {day for day, found in edited.detected.items() if found.limited}
            kept = redo(edited, now, last_ends=False)
            same = {pattern.name for pattern in before} & {pattern.name for pattern in now if pattern in before}
            if not limited:
                assert all(same <= set(names) for names in kept.values()), "an unchanged pattern was detected again"
        again = redo(edited, versions[-1], last_ends=False)
        limited = {day for day, found in edited.detected.items() if found.limited}
        assert all(len(names) == len(versions[-1]) for day, names in again.items() if day not in limited)
        set_patterns(fresh, versions[-1])
        for ends in (False, True, False):  # the stream ends with the last day, and goes on after all
            redo(edited, versions[-1], last_ends=ends)
            for day in fresh.days:
                fresh.detect(day, end_of_stream=ends and day == max(fresh.days))
            assert tables_of(edited) == tables_of(fresh)


@pytest.mark.long
@settings(deadline=None, max_examples=examples(10))
@given(data=st.data(), stream_rows=rows(min_size=4, max_size=8), versions=edits())
def test_patterns_are_not_kept_where_events_have_changed(
    data: st.DataObject, stream_rows: list[Row], versions: list[tuple[Pattern, ...]]
) -> None:
    gaps = data.draw(st.lists(GAPS_HOURS, min_size=len(stream_rows), max_size=len(stream_rows)))
    by_day = events_by_day(stream_schema(), stream_rows, gaps)
    changed = data.draw(st.sampled_from(sorted(by_day)))
    with tempfile.TemporaryDirectory() as folder:
        edited, fresh = (LocalDays(stream_schema(), (), Path(folder) / name) for name in "ef")
        for days in (edited, fresh):
            days.folder.mkdir()
        for day, events in by_day.items():
            fresh.publish_events(day, events)
            if day != changed:
                edited.publish_events(day, events)
            elif data.draw(st.booleans()):
                edited.publish_events(day, events.slice(0, events.num_rows - 1))
        redo(edited, versions[0], last_ends=False)
        edited.publish_events(changed, by_day[changed])
        kept = redo(edited, versions[-1], last_ends=False)
        assert not kept[changed], "its own events have changed"
        set_patterns(fresh, versions[-1])
        for day in fresh.days:
            fresh.detect(day)
        assert tables_of(edited) == tables_of(fresh)


PLAIN = "NAME plain PATTERN SEQ(A a, B b) WITHIN 2 hours"
STATE = """\
NAME once  PATTERN SEQ(Ev a, Ev b) WITHIN 30 hours CONSUME MATCHED;
NAME quiet PATTERN SEQ(A a, ~B b) WITHIN 2 hours OUTPUT NON_OVERLAP
"""
FIRST, SECOND, THIRD = (date(2024, 3, day) for day in (4, 5, 6))
KINDS = {"2024-03-04": "A" * 23, "2024-03-05": "AABA", "2024-03-06": "BA-------------------A-A"}


def test_a_pattern_is_detected_again_where_its_state_from_the_day_before_has_changed(tmp_path: Path) -> None:
    days, fresh = (days_of(f"{PLAIN};{STATE}", made(tmp_path / name), KINDS) for name in "ef")
    both = days.patterns
    redo(days, both[:1], last_ends=False)
    set_patterns(days, both)
    days.detect(SECOND, keeps_unchanged=True)  # before the first day knows of the new patterns
    before = rows_of(days.detected[SECOND].files, "once")
    kept = redo(days, both, last_ends=False)
    assert kept[FIRST] == ("plain",) and "once" not in kept[SECOND] and "plain" in kept[SECOND]
    detect_all(fresh, both)
    assert tables_of(days) == tables_of(fresh)
    assert rows_of(days.detected[SECOND].files, "once") != before, "else the test tests nothing"


def test_a_pattern_that_waits_is_detected_again_where_the_stream_no_longer_ends(tmp_path: Path) -> None:
    days, fresh = (days_of(f"{PLAIN};{STATE}", made(tmp_path / name), KINDS) for name in "ef")
    redo(days, days.patterns, last_ends=True)
    before = rows_of(days.detected[THIRD].files, "quiet")
    kept = redo(days, days.patterns, last_ends=False)
    assert kept[THIRD] == ("plain", "once") and kept[SECOND] == ("plain", "once", "quiet")
    detect_all(fresh, days.patterns)
    assert tables_of(days) == tables_of(fresh)
    assert rows_of(days.detected[THIRD].files, "quiet") != before


def test_a_pattern_that_waits_is_detected_again_where_an_earlier_day_has_been_published_since(tmp_path: Path) -> None:
    """What waits at the end of the first day becomes final on the second, which is not published."""
    kinds = {"2024-03-04": "-" * 23 + "A", "2024-03-06": "---A"}
    text = "NAME waits PATTERN SEQ(A a, ~B b) WITHIN 2 hours; NAME plain PATTERN SEQ(A a, B b) WITHIN 2 hours"
    alone = days_of(text, made(tmp_path / "e"), {"2024-03-06": kinds["2024-03-06"]})
    redo(alone, alone.patterns, last_ends=False)
    days, fresh = (days_of(text, made(tmp_path / name), kinds) for name in "ef")
    days.detected |= alone.detected
    kept = redo(days, alone.patterns, last_ends=False)
    assert kept == {FIRST: (), THIRD: ("plain",)}
    detect_all(fresh, alone.patterns)
    assert tables_of(days) == tables_of(fresh)
    assert days.detected[THIRD].matches["waits"] == 2


def test_matches_that_wait_are_the_same_where_another_pattern_has_a_longer_window(
    tmp_path: Path,
) -> None:
    text = "NAME waits PATTERN SEQ(A a, A b, ~C c) WITHIN 4 hours; NAME longer PATTERN SEQ(A a, B b) WITHIN 7 hours"
    days, fresh = (days_of(text, made(tmp_path / name), {"2024-03-04": "AAAABBBBBB"}) for name in "ef")
    both = days.patterns
    redo(days, both[:1], last_ends=False)
    assert redo(days, both, last_ends=False) == {FIRST: ("waits",)}
    detect_all(fresh, both)
    assert tables_of(days) == tables_of(fresh)


def test_a_pattern_whose_window_is_one_event_is_kept_though_it_reads_no_day_before(tmp_path: Path) -> None:
    kinds = {"2024-03-04": "AA", "2024-03-05": "AB"}
    days = days_of("NAME alone PATTERN SEQ(Ev a, ~B b) WITHIN 1 EVENTS", made(tmp_path / "e"), kinds)
    redo(days, days.patterns, last_ends=False)
    assert redo(days, days.patterns, last_ends=False) == {FIRST: ("alone",), SECOND: ("alone",)}


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def detect_all(days: LocalDays, patterns: tuple[Pattern, ...]) -> None:
    set_patterns(days, patterns)
    for day in days.days:
        days.detect(day)


@pytest.mark.long
def test_one_changed_pattern_of_seven_is_detected_again(project: Project) -> None:
    """The tables, the plan and the statistics are those of a fresh warehouse; status and run name the pattern."""
    texts = {f"p{number}": f"PATTERN SEQ(Tick a, Tick b) WITHIN {number} hours" for number in range(1, 6)}
    texts |= {
        "p2": "PATTERN AND(A a, B b) WITHIN 2 hours",
        "once": "PATTERN SEQ(Tick a, Tick b) WITHIN 1 hour CONSUME MATCHED",
        "quiet": "PATTERN SEQ(Tick a, ~C n) WITHIN 90 minutes OUTPUT NON_OVERLAP RETURN a.x AS x",
    }
    write_patterns(project, texts)
    project.run().run_days(DAYS)
    write_patterns(project, {**texts, "p1": f"-- a comment\n{texts['p1']}"})
    assert project.run().run_stale().days == ()
    before = statistics_of(project, "p2")

    changed = {**texts, "p1": "PATTERN SEQ(A a, B b) WITHIN 1 hour"}
    write_patterns(project, changed)
    stale = find_stale_days(project.configuration.stream("ticks"), project.tables())
    assert [(one.day, one.reasons) for one in stale] == [(day, ("pattern p1 has changed",)) for day in DAYS]
    outcome = project.run().run_stale()
    assert [day.day for day in outcome.days] == list(DAYS)
    assert outcome.redone("all") == (3, ["p1"])
    counts = [step.counts for day in outcome.days for step in day.steps if step.name == "detect all"]
    assert [one[KEPT_PATTERNS] for one in counts] == [6, 6, 6]
    assert {run.day: run.matches for run in project.tables().runs(3)} == {
        day.day: {f"all.{name}": number for name, number in day.matches["all"].items()} for day in outcome.days
    }
    assert statistics_of(project, "p2") == before and any(before), "what was counted of a kept pattern is kept"

    del changed["p3"]
    write_patterns(project, {"fresh": "PATTERN AND(A a, B b) WITHIN 10 minutes", **changed})
    (reasons,) = {one.reasons for one in find_stale_days(project.configuration.stream("ticks"), project.tables())}
    assert reasons == ("pattern fresh has been added", "pattern p3 has been removed")
    assert project.run().run_stale().redone("all") == (3, ["fresh"])
    assert find_stale_days(project.configuration.stream("ticks"), project.tables()) == []

    project.run(warehouse="anew").run_days(DAYS)
    assert by_pattern(project, "warehouse") == by_pattern(project, "anew")
    units, fresh = (project.tables(name).matches_days("all") for name in ("warehouse", "anew"))
    for unit, expected in zip(units, fresh, strict=True):
        assert (unit.fingerprint, unit.counts, unit.pending, unit.carry_out_digest) == (
            expected.fingerprint,
            expected.counts,
            expected.pending,
            expected.carry_out_digest,
        )
    assert project.run(redo=True).run_days([MONDAY]).redone("all") is None, "--redo does all of them again"


def write_patterns(project: Project, texts: dict[str, str]) -> None:
    text = ";\n".join(f"NAME {name} {statement}" for name, statement in texts.items())
    (project.folder / "all.sase").write_text(text)


def by_pattern(project: Project, warehouse: str) -> dict[str, list[dict[str, Any]]]:
    names = [pattern.name for pattern in project.configuration.stream("ticks").pattern_set("all").patterns]
    tables = project.tables(warehouse)
    return {name: tables.read_matches("all", pattern=name).to_pylist() for name in names}


def statistics_of(project: Project, pattern: str) -> list[Any]:
    """What detection counted of a pattern on each day."""
    observed = [record.observed or {"profiles": []} for record in project.tables().statistics("all")]
    return [[one for one in found["profiles"] if one["pattern"] == pattern] for found in observed]
