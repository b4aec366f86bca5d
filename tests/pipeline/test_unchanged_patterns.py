"""A pattern set that changes: only its changed patterns are detected again, and the tables are those of a full redo."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.language.formatter import pattern_version
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.configuration import LimitSettings, PatternSetLimits
from cep_pipeline.storage import digest_of
from tests.pipeline.local_days import LocalDays, events_by_day
from tests.pipeline.test_union_of_days import GAPS_HOURS, waiting_patterns
from tests.streams import Row, rows, stream_schema
from tests.thoroughness import examples

NAMES = ("p", "q", "r", "s")

PatternSetDraw = dict[str, Pattern]


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
    """All that is published of each day: the rows of each pattern in their order, and what is recorded beside them."""
    return {
        day: (
            {pattern.name: rows_of(found.files, pattern.name) for pattern in days.patterns},
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


@settings(deadline=None, max_examples=examples(25))
@given(data=st.data(), stream_rows=rows(min_size=3, max_size=10), versions=edits())
def test_random_edits_of_a_pattern_set_give_the_tables_of_a_full_redo(
    data: st.DataObject, stream_rows: list[Row], versions: list[tuple[Pattern, ...]]
) -> None:
    gaps = data.draw(st.lists(GAPS_HOURS, min_size=len(stream_rows), max_size=len(stream_rows)))
    by_day = events_by_day(stream_schema(), stream_rows, gaps)
    last_ends = data.draw(st.booleans())
    limits = PatternSetLimits(patterns={"p": LimitSettings(max_matches=data.draw(st.sampled_from([1, 1000])))})
    with tempfile.TemporaryDirectory() as folder:
        edited, fresh = (LocalDays(stream_schema(), (), Path(folder) / name, limits=limits) for name in "ef")
        for days in (edited, fresh):
            days.folder.mkdir()
            for day, events in by_day.items():
                days.publish_events(day, events)
        redo(edited, versions[0], last_ends=last_ends)
        for before, now in itertools.pairwise(versions):
            if data.draw(st.booleans()):  # a single day out of turn, which goes on from a day of the version before
                set_patterns(edited, now)
                edited.detect(data.draw(st.sampled_from(sorted(by_day))), keeps_unchanged=True)
            limited = {day for day, found in edited.detected.items() if found.limited}
            kept = redo(edited, now, last_ends=last_ends)
            same = {pattern.name for pattern in before} & {pattern.name for pattern in now if pattern in before}
            if not limited:
                assert all(same <= set(names) for names in kept.values()), "an unchanged pattern was detected again"
        again = redo(edited, versions[-1], last_ends=last_ends)
        limited = {day for day, found in edited.detected.items() if found.limited}
        assert all(len(names) == len(versions[-1]) for day, names in again.items() if day not in limited)
        set_patterns(fresh, versions[-1])
        for day in fresh.days:
            fresh.detect(day, end_of_stream=last_ends and day == max(fresh.days))
        assert tables_of(edited) == tables_of(fresh)


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
