"""What `diff` says of a changed pattern set is what a run makes of it, and saying it changes no table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import cep_pipeline as cep
from cep_pipeline.errors import InputError
from cep_pipeline.pipeline.published_diff import PublishedDiff
from cep_pipeline.storage import id_texts
from tests.pipeline.project import DAYS, MONDAY, TUESDAY, WEDNESDAY, Project, write_patterns

FIRST = {
    "rise": "PATTERN SEQ(A a, B b) WHERE a.x <= b.x WITHIN 1 hour RETURN b.x AS top",
    "once": "PATTERN SEQ(Tick a, Tick b) WITHIN 1 hour CONSUME MATCHED",
    "quiet": "PATTERN SEQ(A a, B b) WITHIN 90 minutes OUTPUT NON_OVERLAP",
    "two": "PATTERN SEQ(rise r, Tick t) WITHIN 2 hours",
    "counted": "PATTERN SEQ(A a, B b) WITHIN 2 hours SUMMARIZE count(*) AS n, sum(b.x) AS total GROUP BY a.x AS low",
    "gone": "PATTERN SEQ(A a, Tick t) WITHIN 30 minutes",
    "late": "PATTERN SEQ(Tick a, ~C n) WITHIN 40 minutes",
    "best": "PATTERN SEQ(A a, Tick+ b[]) WITHIN 90 minutes OUTPUT PREFERRED",
}
CHANGES: tuple[dict[str, str | None], ...] = (
    {"rise": "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 2 hours RETURN b.x AS top", "gone": None},
    {"rise": "PATTERN SEQ(A a, B z) WHERE a.x < z.x WITHIN 2 hours RETURN z.x AS top, a.x AS low"},
    {"best": "PATTERN SEQ(A a, Tick+? b[], Tick c) WITHIN 90 minutes OUTPUT PREFERRED"},
    {"best": "PATTERN SEQ(A a, Tick+ b[]) WITHIN 90 minutes OUTPUT PREFERRED NON_OVERLAP"},
    {"once": "PATTERN SEQ(Tick a, Tick b) WITHIN 2 hours CONSUME MATCHED", "new": "PATTERN Tick t WITHIN 1 second"},
    {
        "quiet": "PATTERN SEQ(A a, B b, ~C n) WITHIN 90 minutes OUTPUT NON_OVERLAP",
        "counted": None,
        "late": "PATTERN SEQ(Tick a, ~C n) WITHIN 2 hours",
    },
    {"two": "PATTERN SEQ(Tick t, rise r) WITHIN 1 hour", "new": "PATTERN SEQ(A t, Tick+ u[]) WITHIN 40 minutes"},
)


def diff(project: Project, **asked: Any) -> PublishedDiff:
    return cep.open(project.folder / "pipeline.yaml")["ticks"].diff(**asked)


def matches_by_id(project: Project) -> dict[str, dict[str, Any]]:
    table = project.tables().read_matches("all")
    return dict(zip(id_texts(table["match_id"]).to_pylist(), table.to_pylist(), strict=True))


def seqs(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["pattern"], row["final_day"], *(one["seq"] for one in row["bindings"])


def hold_to_a_run(project: Project) -> None:
    """Ask for the difference, let a run publish the change, and compare."""
    before = matches_by_id(project)
    found = diff(project, examples=10**6)
    assert matches_by_id(project) == before
    of_later_days = diff(project, first=TUESDAY, examples=0)
    assert [title for title, *_ in of_later_days.tables()] == ["ticks: what would change"], "no table without examples"
    assert of_later_days.days == tuple(one for one in found.days if one.day >= TUESDAY)
    project.run().run_stale()
    after = matches_by_id(project)
    changed = {one.pattern for one in found.days}
    lost, gained = ([one for one in found.examples if one.kind == kind] for kind in ("lost", "gained"))
    for one in found.days:
        key = one.pattern, one.day
        assert one.published == sum((row["pattern"], row["final_day"]) == key for row in before.values())
        assert one.would_be == sum((row["pattern"], row["final_day"]) == key for row in after.values())
        assert one.published + one.gained - one.lost == one.would_be
        assert one.gained == sum((other.pattern, other.day) == key for other in gained)
    assert {key for key, row in before.items() if row["pattern"] not in changed} == {
        key for key, row in after.items() if row["pattern"] not in changed
    }
    expected = Counter(seqs(row) for row in before.values() if row["pattern"] in changed)
    expected -= Counter(seqs(before[one.match_id]) for one in lost)
    expected += Counter(seqs(after[one.match_id]) for one in gained)
    assert expected == Counter(seqs(row) for row in after.values() if row["pattern"] in changed)
    assert diff(project).days == ()


@pytest.mark.long
def test_published_and_gained_without_lost_are_what_a_run_publishes(project: Project) -> None:
    texts = {name: text for name, text in FIRST.items() if name != "counted"}
    write_patterns(project, texts)
    project.run().run_days(DAYS)
    for change in CHANGES:
        texts = {name: text for name, text in {**texts, **change}.items() if text is not None}
        write_patterns(project, texts)
        hold_to_a_run(project)


def test_a_change_is_told_by_events_and_writes_nothing(project: Project) -> None:
    write_patterns(project, FIRST)
    project.run().run_days(DAYS[:2])
    groups = project.tables().read_summaries("all", MONDAY, MONDAY).num_rows
    files, tables = files_of(project.folder / "warehouse"), project.tables()
    pinned = tables.pinned(("events", "matches", "summaries", "statistics", "plans", "decisions", "runs")).snapshots
    changed = {
        **FIRST,
        "rise": "PATTERN SEQ(A a, B z) WHERE a.x < z.x WITHIN 1 hour RETURN z.x AS high",
        "counted": FIRST["counted"].replace("WITHIN 2 hours", "WITHIN 5 minutes"),
        "new": "PATTERN C c WITHIN 1 second",
    }
    del changed["gone"]
    write_patterns(project, changed)
    found = diff(project)
    assert project.tables().pinned([*pinned]).snapshots == pinned and files_of(project.folder / "warehouse") == files

    of_monday = {one.pattern: one for one in found.days if one.day == MONDAY}
    assert {name: one.change for name, one in of_monday.items()} == {
        "rise": "changed", "counted": "changed", "two": "changed", "new": "new", "gone": "removed",
    }  # fmt: skip
    rise, counted = of_monday["rise"], of_monday["counted"]
    assert (rise.published, rise.lost, rise.gained, rise.other_values) == (5, 1, 0, 4)
    assert counted.published == groups and 0 < counted.lost < groups
    of_rise = {one.kind: one for one in found.examples if one.pattern == "rise"}
    assert of_rise["lost"].events == ("a 2024-03-04 23:30:00.000 A x 4", "b 23:30:00.000 B x 4")
    assert of_rise["lost"].why == "a.x < z.x (4 < 4)"
    assert of_rise["other values"].why == "top = 5 would be high = 5"
    why = {one.pattern: one.why for one in found.examples if one.pattern in ("gone", "new", "two")}
    assert why["gone"] == "the pattern is removed" and why["new"] == "the pattern is new"
    assert why["two"].startswith("it binds matches of rise, whose text has changed, too")
    assert "all.gone (removed) gains 0 and loses" in found.summary()
    assert repr(found).startswith("<PublishedDiff all.rise (changed) gains 0 and loses 1; ")
    assert "<td>the pattern is removed</td>" in found._repr_html_()

    only = diff(project, patterns=["new"], first=TUESDAY, examples=0)
    assert [(one.pattern, one.day, one.gained) for one in only.days] == [("new", TUESDAY, 1)] and not only.examples
    with pytest.raises(InputError, match="there is no pattern 'rize'"):
        diff(project, patterns=["rize"])
    with pytest.raises(InputError, match="no day in this range is published"):
        diff(project, first=WEDNESDAY)


def test_the_old_pattern_says_why_a_match_is_gained_and_limits_say_that_all_are_lost(project: Project) -> None:
    write_patterns(project, {"rise": FIRST["rise"]})
    project.run().run_days([MONDAY])
    write_patterns(project, {"rise": "PATTERN SEQ(A a, B b) WITHIN 24 hours RETURN b.x AS top"})
    found = diff(project)
    [of_day] = found.days
    assert of_day.lost == 0 and of_day.gained == 2 and of_day.other_values == 0
    assert found.examples[0].why.startswith("before: WITHIN 1 hour (")
    settings = project.folder / "pipeline.yaml"
    settings.write_text(settings.read_text().replace("{file: all.sase}", "{file: all.sase, limits: {max_matches: 2}}"))
    found = diff(project)
    [of_day] = found.days
    assert (of_day.would_be, of_day.lost, of_day.gained) == (0, of_day.published, 0)
    assert of_day.limited == (
        "would be: stopped by its limit, max_matches 2: none of its matches is published, it has 7 matches"
    )
    assert found.examples[0].why.startswith("the pattern would be stopped by its limit, max_matches 2")


def test_another_match_may_be_preferred(project: Project) -> None:
    text = "PATTERN SEQ(A a, Tick b) WITHIN 90 minutes"
    write_patterns(project, {"best": f"{text} OUTPUT PREFERRED"})
    project.run().run_days(DAYS)
    write_patterns(project, {"best": text})
    why = {one.kind: one.why for one in diff(project).examples}
    kept = (
        "the events fulfilled all conditions of the old pattern, too, and OUTPUT PREFERRED may have kept another match"
    )
    assert why["gained"] == f"before: {kept}"
    project.run().run_stale()
    write_patterns(project, {"best": f"{text} OUTPUT PREFERRED"})
    why = {one.kind: one.why for one in diff(project).examples}
    assert why["lost"] == "it fulfils all conditions, and OUTPUT PREFERRED may keep another match"


def files_of(folder: Path) -> set[Path]:
    return {one.relative_to(folder) for one in folder.rglob("*") if one.is_file() and "catalog" not in one.name}
