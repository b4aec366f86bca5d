"""Detection reads only where a match is possible, finds the same, and says how much it has not read."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from unittest import mock

import pyarrow as pa

import cep_pipeline as cep
from cep_pipeline.events.columns import SEQ_PER_DAY
from cep_pipeline.pipeline.day_work import SKIPPED_EVENTS
from cep_pipeline.pipeline.run import PipelineRun
from cep_pipeline.spark.slicing import Slice
from tests.pipeline.local_days import FIRST_DAY, LocalDays
from tests.pipeline.project import MONDAY, TUESDAY, WEDNESDAY, Project
from tests.streams import stream_schema

DAYS = 60
EVENTS = 48
"""Events of a day, one every half hour; a row group has eight of them."""
RARE = {(7, 20): "A", (7, 22): "C", (7, 24): "A", (31, 47): "A", (32, 1): "C", (50, 10): "C", (50, 11): "C"}
"""(Day, half hour) -> type, of the few events that are not of type B."""
PATTERNS = """
NAME pairs     PATTERN SEQ(A a, C c) WITHIN 90 minutes;
NAME any_order PATTERN AND(A a, C c, Ev e) WITHIN 1 hour;
NAME between   PATTERN SEQ(A a, ~B b, C c) WHERE b.x > 1 WITHIN 2 hours;
NAME unheard   PATTERN SEQ(A a, ~C c) WITHIN 1 hour;
NAME lists     PATTERN SEQ(A a, B+ b[], C c) WITHIN 100 minutes CONSUME MATCHED;
NAME next      PATTERN SEQ(A a, B b) WHERE skip_till_next_match { b.x >= 0 } WITHIN 40 minutes OUTPUT NON_OVERLAP;
NAME positions PATTERN SEQ(A a, C c) WITHIN 4 EVENTS;
NAME seldom    PATTERN SEQ(Ev e, B b) WHERE e.x > 9 AND b.x >= 0 WITHIN 30 minutes
"""


def events_of(number: int, day: date) -> pa.Table:
    begin = (day - date(1970, 1, 1)).days * 86_400
    return stream_schema().table(
        [
            {
                "timestamp": (begin + 1800 * half) * 1_000_000,
                "seq": day.toordinal() * SEQ_PER_DAY + half,
                "kind": RARE.get((number, half), "B"),
                "x": 10 if (number, half) == (40, 30) else half % 3,
            }
            for half in range(EVENTS)
        ]
    )


def detected(folder: Path, *, summaries: bool) -> tuple[dict[str, list[str]], int, pa.Table]:
    """The ids of all matches, the events of the row groups that were read, and all events."""
    folder.mkdir()
    calendar = [FIRST_DAY + timedelta(days=number) for number in range(DAYS)]
    days = LocalDays(
        stream_schema(),
        tuple(cep.parse_patterns(PATTERNS, stream_schema())),
        folder,
        row_group_size=8,
        unsummarised=() if summaries else calendar,
    )
    read = 0
    reading = Slice.read

    def counted(self: Slice, columns: list[str]) -> pa.Table:
        nonlocal read
        read += sum(group.rows for group in self.row_groups)
        return reading(self, columns)

    with mock.patch.object(Slice, "read", counted):
        tables = []
        for number, day in enumerate(calendar):
            tables.append(events_of(number, day))
            days.publish_events(day, tables[-1])
            days.detect(day, end_of_stream=day == calendar[-1])
    return days.matches(), read, pa.concat_tables(tables)


def test_patterns_of_rare_types_read_a_tenth_and_find_the_same(tmp_path: Path) -> None:
    found, read, events = detected(tmp_path / "with", summaries=True)
    without, read_without, _ = detected(tmp_path / "without", summaries=False)
    whole = cep.detect(cep.parse_patterns(PATTERNS, stream_schema()), events)
    assert found == without
    assert {name: sorted(ids) for name, ids in found.items()} == {
        name: sorted(table["match_id"].to_pylist()) for name, table in whole.items()
    }
    assert all(found.values()), "each pattern has a match"
    assert 0 < read * 10 <= read_without


def test_a_run_records_what_it_skipped_and_starts_no_task_for_it(project: Project) -> None:
    """Only Tuesday has an event of type Tick, and its match waits into Wednesday for nobody."""
    (project.folder / "all.sase").write_text("NAME seldom PATTERN SEQ(Tick a, C c) WHERE a.kind = 'Tick' WITHIN 1 hour")
    run: PipelineRun = project.run(end_of_stream=True)
    outcome = run.run_days([MONDAY, TUESDAY, WEDNESDAY])
    skipped = {
        day.day: step.counts.get(SKIPPED_EVENTS)
        for day in outcome.days
        for step in day.steps
        if step.name == "detect all"
    }
    slices = {day.day: step.counts["slices"] for day in outcome.days for step in day.steps if step.name == "detect all"}
    assert skipped == {MONDAY: 6, TUESDAY: None, WEDNESDAY: 4}
    assert slices[MONDAY] == slices[WEDNESDAY] == 0 < slices[TUESDAY]
    assert [day.matches["all"]["seldom"] for day in outcome.days] == [0, 1, 0]
    assert outcome.skipped("all") == (2, 10)
