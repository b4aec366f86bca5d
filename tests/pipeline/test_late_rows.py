"""Late rows: a later day is stale only where it has read what the redo of an earlier day changed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.events.columns import DAY, SEQ, SEQ_PER_DAY, TIMESTAMP, events_columns
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.events.type_spells import footer_of
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.run import RunOutcome
from cep_pipeline.storage import write_data_file
from cep_pipeline.warehouse import changes
from cep_pipeline.warehouse.changes import EventsChange, ReadBefore, find_change
from cep_pipeline.warehouse.units import CarryUpdate
from tests.cli.command_line import cep as cep_command
from tests.pipeline.local_days import LocalDays
from tests.pipeline.project import DAYS, MONDAY, ROWS, TUESDAY, WEDNESDAY, Project, published
from tests.pipeline.test_union_of_days import random_patterns, waiting_patterns
from tests.streams import Row, rows, stream_schema
from tests.thoroughness import examples

ONE_DAY, NEXT_DAY = date(2024, 3, 4), date(2024, 3, 5)
HOUR = 3_600_000_000
COLUMNS = events_columns(stream_schema())
Placed = tuple[float, Row]
"""Hour of the day, and the attributes of an event."""


def events_at(day: date, placed: Sequence[Placed]) -> pa.Table:
    """Events of a day in order, with the seqs that ingestion gives."""
    begin = day_bounds(day, "UTC")[0]
    in_order = sorted(placed, key=lambda one: one[0])
    return stream_schema().table(
        [
            {**row, "timestamp": begin + int(hour * HOUR), "seq": day.toordinal() * SEQ_PER_DAY + position}
            for position, (hour, row) in enumerate(in_order)
        ]
    )


def written(folder: Path, name: str, events: pa.Table, *, size: int = 3) -> list[str]:
    """The files of a version of a day."""
    with_day = events.append_column(DAY, pa.array([ONE_DAY] * events.num_rows, pa.date32()))
    parts = [with_day.slice(begin, size) for begin in range(0, with_day.num_rows, size)]
    return [
        write_data_file(str(folder / f"{name}-{number}.parquet"), part, COLUMNS, footer_of(part, "kind"))
        for number, part in enumerate(parts)
    ]


def change_of(folder: Path, before: Sequence[Placed], now: Sequence[Placed]) -> EventsChange | None:
    return find_change(
        written(folder, "before", events_at(ONE_DAY, before)), written(folder, "now", events_at(ONE_DAY, now)), COLUMNS
    )


def hours(change: EventsChange | None) -> dict[str | None, float]:
    assert change is not None and change.others_us is None
    begin = day_bounds(ONE_DAY, "UTC")[0]
    return {name: (us - begin) / HOUR for name, us in change.types.items()}


def of_type(kind: str | None, **values: object) -> Row:
    return {"kind": kind, **values}


QUIET = [(hour, of_type("ABC"[hour % 3], x=hour, h=[float(hour), None])) for hour in range(20)]


def test_each_type_is_compared_by_itself(tmp_path: Path) -> None:
    unused = of_type("Unknown", x=1)
    assert hours(change_of(tmp_path, QUIET, [*QUIET, (3.5, unused), (18.2, unused)])) == {"Unknown": 18.2}
    assert hours(change_of(tmp_path, QUIET, [*QUIET[:7], *QUIET[8:]])) == {"B": 7}
    other = [(hour, {**row, "x": 99} if hour in (4, 9) else row) for hour, row in QUIET]
    assert hours(change_of(tmp_path, QUIET, other)) == {"B": 4, "A": 9}
    longer = [(hour, {**row, "h": [5.0]} if hour == 5 else row) for hour, row in QUIET]
    assert hours(change_of(tmp_path, QUIET, longer)) == {"C": 5}
    assert hours(change_of(tmp_path, QUIET, [*QUIET, (2.5, of_type(None))])) == {None: 2.5}
    assert hours(change_of(tmp_path, QUIET, QUIET)) == {}


def test_types_that_change_places_at_one_instant_both_differ(tmp_path: Path) -> None:
    tie = [(6.5, of_type("A", x=1)), (6.5, of_type("B", x=2)), (6.5, of_type("Unknown", x=3))]
    swapped = [tie[1], tie[0], tie[2]]
    assert set(hours(change_of(tmp_path, [*QUIET, *tie], [*QUIET, *swapped]))) >= {"A", "B"}


def test_what_is_not_read_counts_as_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_COMPARED", 6)
    late = [*QUIET, (17.5, of_type("Unknown"))]
    change = change_of(tmp_path, QUIET, late)
    assert change is not None
    begin = day_bounds(ONE_DAY, "UTC")[0]
    assert change.types == {"Unknown": begin + int(17.5 * HOUR)} and change.shift == 1
    assert change.last_us(frozenset("A")) == change.others_us
    assert change.others_us is not None and 13 * HOUR <= change.others_us - begin <= 15 * HOUR
    monkeypatch.setattr(changes, "MOST_TYPES", 0)
    assert change_of(tmp_path, QUIET, [*late, (17.2, of_type("A"))]).last_us() is not None  # type: ignore[union-attr]


def test_files_that_do_not_say_their_type_attribute_are_not_compared(tmp_path: Path) -> None:
    files = written(tmp_path, "some", events_at(ONE_DAY, QUIET))
    bare = events_at(ONE_DAY, QUIET).append_column(DAY, pa.array([ONE_DAY] * len(QUIET), pa.date32()))
    plain = write_data_file(str(tmp_path / "plain.parquet"), bare, COLUMNS)
    assert find_change([plain], [plain], COLUMNS) is None
    assert find_change(files, files, COLUMNS) == EventsChange()


PLACED = st.lists(st.tuples(st.sampled_from([0, 1, 2, 5, 5, 8, 13, 13, 20, 22.5, 23, 23.5]), rows(1, 1)), max_size=9)


def drawn_versions(data: st.DataObject) -> tuple[list[Placed], list[Placed]]:
    """Two versions of a day: some rows come late, some go, some are others."""
    before = [(hour, _without_gap(row)) for hour, (row,) in data.draw(PLACED)]
    late = [(hour, _without_gap(row)) for hour, (row,) in data.draw(PLACED)][: data.draw(st.integers(0, 3))]
    kept = [row for row in before if data.draw(st.integers(0, 5))]
    return before, [*kept, *late] if data.draw(st.booleans()) else [*late, *kept]


def _without_gap(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("timestamp", "seq")}


@settings(deadline=None, max_examples=examples(200))
@given(data=st.data())
def test_after_the_last_change_of_some_types_their_events_are_the_same(data: st.DataObject) -> None:
    before, now = drawn_versions(data)
    most = data.draw(st.sampled_from([2, 4, 1_000_000]))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(changes, "MOST_COMPARED", most)
        patched.setattr(changes, "MOST_TYPES", data.draw(st.sampled_from([0, 1, 100])))
        change = change_of(Path(folder), before, now)
    if not before or not now:
        return
    assert change is not None
    versions = [events_at(ONE_DAY, one).to_pylist() for one in (before, now)]
    types = data.draw(st.sets(st.sampled_from(["A", "B", "C", "Unknown"])))
    for named in (frozenset(types), None):
        last = change.last_us(named)
        left_out = set() if named is None and not change.shift else {SEQ}
        after = [
            [
                repr({name: value for name, value in row.items() if name not in left_out})
                for row in version
                if (named is None or row["kind"] in named)
                and (last is None or int(row[TIMESTAMP].timestamp() * 1e6) > last)
            ]
            for version in versions
        ]
        assert after[0] == after[1]


def test_changes_one_after_the_other_are_one_change() -> None:
    first, second = EventsChange({"A": 5, None: 2}, None, 2), EventsChange({"A": 3, "B": 9}, 4, -2)
    assert first.then(second) == EventsChange({"A": 5, None: 2, "B": 9}, 4, 0)
    assert EventsChange.from_json(first.then(second).to_json()) == first.then(second)


@settings(deadline=None, max_examples=examples(150))
@given(data=st.data(), pattern=st.one_of(waiting_patterns(), random_patterns()))
def test_matches_that_a_late_row_does_not_touch_are_those_of_a_full_redo(data: st.DataObject, pattern: Pattern) -> None:
    before, now = drawn_versions(data)
    later = [(hour, _without_gap(row)) for hour, (row,) in data.draw(PLACED)]
    if not before or not now:
        return
    untouched = _redone(pattern, before, now, later)
    if untouched is not None:
        assert untouched[0] == untouched[1]


def _redone(
    pattern: Pattern, before: Sequence[Placed], now: Sequence[Placed], later: Sequence[Placed]
) -> tuple[object, object] | None:
    """The ids of the later day before and after a redo of the earlier one; None where it is stale."""
    with tempfile.TemporaryDirectory() as folder:
        change = change_of(Path(folder), before, now)
        assert change is not None
        days = LocalDays(stream_schema(), (pattern,), Path(folder))
        found = []
        for version in (before, now):
            days.publish_events(ONE_DAY, events_at(ONE_DAY, version))
            days.publish_events(NEXT_DAY, events_at(NEXT_DAY, later))
            carry = days.detect(ONE_DAY).carry_out
            detected = days.detect(NEXT_DAY)
            found.append((carry, days.matches([NEXT_DAY]), detected.pending))
            if version is before:
                first = _first_event_us(detected.files)
                shutil.rmtree(Path(folder) / "matches", ignore_errors=True)
        begun = day_bounds(NEXT_DAY, "UTC")[0]
        read = ReadBefore((pattern,), begun, begun, lambda: first)
        if read.touched_by(change) or found[0][0] != found[1][0]:
            return None
        return found[0], found[1]


def _first_event_us(files: Sequence[str]) -> int | None:
    starts = [pa.parquet.read_table(path, partitioning=None)["start_ts"].cast(pa.int64()).to_pylist() for path in files]
    return min((start for one in starts for start in one), default=None)


PATTERN = "PATTERN SEQ(A a, B b) WITHIN 2 hours"
LATER = [(0.5, of_type("B", x=1)), (1.0, of_type("A", x=2)), (1.5, of_type("B", x=3))]


@pytest.mark.parametrize(
    ("text", "late", "stays"),
    [
        (PATTERN, (23.9, of_type("Unknown")), True),
        (PATTERN, (12.0, of_type("A")), True),
        (PATTERN, (23.0, of_type("A")), False),
        (PATTERN, (21.0, of_type("B")), True),
        ("PATTERN SEQ(A a, Ev b) WITHIN 2 hours", (23.0, of_type("Unknown")), False),
        ("PATTERN SEQ(A a, ~Unknown n, B b) WITHIN 2 hours", (23.0, of_type("Unknown")), False),
        ("PATTERN SEQ(A a, B b) WHERE strict_contiguity { 1 = 1 } WITHIN 2 hours", (23.0, of_type("C")), False),
        ("PATTERN SEQ(A a, B b) WITHIN 9 EVENTS", (1.0, of_type("C")), False),
        (f"{PATTERN} OUTPUT NON_OVERLAP", (1.0, of_type("C")), False),
        ("PATTERN SEQ(A a, B b) WHERE a.seq < b.seq WITHIN 2 hours", (1.0, of_type("C")), False),
        ("PATTERN SEQ(A a, B b) WITHIN 5 hours", (1.0, of_type("Unknown")), False),  # a match holds Monday's A of 21:00
    ],
)
def test_a_change_touches_what_has_read_it(text: str, late: Placed, stays: bool) -> None:
    (pattern,) = cep.parse_patterns(text, stream_schema())
    monday = [*QUIET, (21.0, of_type("A", x=0))]
    found = _redone(pattern, monday, [*monday, late], LATER)
    assert (found is not None) is stays
    if found is not None:
        assert found[0] == found[1]


# -- days of a project -------------------------------------------------------------------------------------------------

NEAR = "NAME near PATTERN SEQ(A a, B b) WITHIN 40 minutes"


@pytest.fixture
def project(project: Project) -> Project:
    schema = (project.folder / "ticks.yaml").read_text()
    (project.folder / "ticks.yaml").write_text("\n".join(x for x in schema.splitlines() if not x.startswith("derived")))
    (project.folder / "all.sase").write_text(NEAR)
    project.run().run_days(DAYS)
    return project


def redo(project: Project) -> tuple[list[date], RunOutcome]:
    """Redo what is stale, and compare all days with those of a warehouse that has seen the files as they are now."""
    outcome = project.run().run_stale()
    project.run(warehouse="anew").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("anew"))
    shutil.rmtree(project.folder / "anew")
    return [day.day for day in outcome.days], outcome


def test_late_rows_are_redone_by_what_they_touch(project: Project) -> None:
    monday = list(ROWS[MONDAY])
    assert project.tables().read_matches("all").num_rows
    for late, redone in (
        ("23:59:59,C,4", [MONDAY]),  # no pattern has the type
        ("08:00:00,A,4", [MONDAY]),  # long before midnight
        ("23:45:00,A,1", [MONDAY, TUESDAY]),  # Tuesday has read it
        ("09:00:00,C,1", [MONDAY, TUESDAY]),  # the position of the event before is another one now
    ):
        monday.append(late)
        project.write_day(MONDAY, sorted(monday))
        assert redo(project)[0] == redone, late
    monday.remove("09:00:00,C,1")
    project.write_day(MONDAY, sorted(monday))
    assert redo(project)[0] == [MONDAY, TUESDAY], "as it was two versions ago, and Tuesday is of the one between"
    project.write_day(TUESDAY, [row.replace("12:00:00,A,1", "12:00:00,A,2") for row in ROWS[TUESDAY]])
    assert redo(project)[0] == [TUESDAY]
    assert project.run().run_stale().days == ()
    assert WEDNESDAY in {record.day for record in project.tables().days()}


def records(project: Project, warehouse: str = "warehouse") -> list[object]:
    """What each day was made from, and what it hands on to the next."""
    tables = project.tables(warehouse)
    return [(day.day, day.fingerprint, day.carry_out_digest, tables.carry_in(day.day)) for day in tables.days()]


def test_a_changed_carry_passes_over_days_without_events_of_its_types(project: Project) -> None:
    with (project.folder / "ticks.yaml").open("a") as schema:
        schema.write("\nderived: {diff: {diff: {of: x}}}\n")
    project.write_day(WEDNESDAY, [*ROWS[WEDNESDAY], "11:00:00,E,20"])
    project.run().run_days(DAYS)
    for late, redone in (
        ("22:00:00,D,7", [MONDAY]),  # no later day has the type
        ("22:10:00,E,8", [MONDAY, WEDNESDAY]),  # Tuesday has none of it
        ("22:20:00,B,8", [MONDAY, TUESDAY]),  # the next B of Monday has another difference, and Tuesday has read it
    ):
        project.write_day(MONDAY, sorted([*_lines(project, MONDAY), late]))
        outcome = project.run().run_stale()
        project.run(warehouse="anew").run_days(DAYS)
        assert published(project.tables()) == published(project.tables("anew"))
        assert records(project) == records(project, "anew")
        shutil.rmtree(project.folder / "anew")
        assert [day.day for day in outcome.days] == redone, late
    project.write_day(WEDNESDAY, [*ROWS[WEDNESDAY], "11:00:00,E,20", "12:00:00,D,9"])
    assert redo(project)[0] == [WEDNESDAY]
    assert project.tables().read_events(WEDNESDAY)["diff"].to_pylist()[-2:] == [12, 2], "less 8, and less 7"


def _lines(project: Project, day: date) -> list[str]:
    lines = (project.folder / "raw" / f"{day}.csv").read_text().splitlines()[1:]
    return [line.removeprefix(f"{day} ") for line in lines]


def test_a_day_that_is_published_meanwhile_does_not_get_the_changed_carry(project: Project) -> None:
    tables = project.tables()
    tuesday = next(day for day in tables.days() if day.day == TUESDAY)
    other = replace(tuesday, run_id="another run")
    with tables.warehouse.database.begin() as connection:
        CarryUpdate(other, {"last": 1}, {"last": 2}).write(connection, "", "ticks")
    assert tables.days()[1] == tuesday and tables.carry_in(WEDNESDAY) != {"last": 2}


def test_the_status_says_what_touches_a_day(project: Project) -> None:
    project.write_day(MONDAY, sorted([*ROWS[MONDAY], "23:45:00,A,1"]))
    project.run().run_days([MONDAY])
    shown = cep_command("status", "--runs", "0", folder=project.folder)
    said = " ".join(shown.output.replace("│", " ").split())
    assert "pattern near reads events from 2024-03-05 04:20:00 UTC on, of which one of 2024-03-05 04:45:00" in said
