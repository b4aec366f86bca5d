"""A pattern set that changes: its days are stale, and once they are redone all is as in a fresh warehouse."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from cep_pipeline.language.formatter import pattern_version
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.run import find_stale_days
from cep_pipeline.storage import digest_of
from tests.pipeline.local_days import LocalDays
from tests.pipeline.project import DAYS, Project, published, write_patterns
from tests.pipeline.test_union_of_days import days_of

PLAIN = "NAME plain PATTERN SEQ(A a, B b) WITHIN 2 hours"
ONCE = "NAME once PATTERN SEQ(Ev a, Ev b) WITHIN 30 hours CONSUME MATCHED"
FIRST, SECOND = date(2024, 3, 4), date(2024, 3, 5)
KINDS = {"2024-03-04": "A" * 23, "2024-03-05": "AABA"}


def set_patterns(days: LocalDays, patterns: tuple[Pattern, ...]) -> None:
    days.patterns, days.version = patterns, digest_of([pattern_version(pattern) for pattern in patterns])


def test_the_state_of_a_pattern_goes_on_where_others_of_its_set_have_changed(tmp_path: Path) -> None:
    days = days_of(f"{PLAIN};{ONCE}", tmp_path, KINDS)
    both = days.patterns
    plain, once = both
    set_patterns(days, (once,))
    days.detect(FIRST)
    days.detect(SECOND)
    expected = days.matches([SECOND])["once"]
    set_patterns(days, both)
    days.detect(SECOND)
    assert days.matches([SECOND])["once"] == expected
    set_patterns(days, (plain,))
    days.detect(FIRST)
    set_patterns(days, both)
    days.detect(SECOND)
    assert days.matches([SECOND])["once"] != expected, "without a state it begins anew"


@pytest.mark.long
def test_the_days_of_a_changed_set_are_stale_and_redone(project: Project) -> None:
    texts = {f"p{number}": f"PATTERN SEQ(Tick a, Tick b) WITHIN {number} hours" for number in range(1, 4)}
    texts |= {
        "once": "PATTERN SEQ(Tick a, Tick b) WITHIN 1 hour CONSUME MATCHED",
        "quiet": "PATTERN SEQ(Tick a, ~C n) WITHIN 90 minutes OUTPUT NON_OVERLAP RETURN a.x AS x",
    }
    write_patterns(project, texts)
    project.run().run_days(DAYS)
    write_patterns(project, {**texts, "p1": f"-- a comment\n{texts['p1']}"})
    assert project.run().run_stale().days == ()

    changed = {**texts, "p1": "PATTERN SEQ(A a, B b) WITHIN 1 hour"}
    write_patterns(project, changed)
    stale = find_stale_days(project.configuration.stream("ticks"), project.tables())
    assert [(one.day, one.reasons) for one in stale] == [(day, ("pattern p1 has changed",)) for day in DAYS]
    assert [day.day for day in project.run().run_stale().days] == list(DAYS)

    del changed["p3"]
    write_patterns(project, {"fresh": "PATTERN AND(A a, B b) WITHIN 10 minutes", **changed})
    (reasons,) = {one.reasons for one in find_stale_days(project.configuration.stream("ticks"), project.tables())}
    assert reasons == ("pattern fresh has been added", "pattern p3 has been removed")
    project.run().run_stale()
    assert find_stale_days(project.configuration.stream("ticks"), project.tables()) == []
    project.run(warehouse="anew").run_days(DAYS)
    assert published(project.tables())["matches"] == published(project.tables("anew"))["matches"]
