"""The table of statistics: replaced by day and pattern set, added to by detection, and read where it is older."""

from __future__ import annotations

import pytest

from cep_pipeline.errors import BusyError
from cep_pipeline.warehouse.records import DayStatistics
from cep_pipeline.warehouse.stream_tables import StreamTables
from tests.warehouse.published_days import MONDAY, TUESDAY, WEDNESDAY, publish_observed, publish_statistics


def publish(tables: StreamTables, day: object = MONDAY, rate: float = 1.0, **further: object) -> None:
    with tables.day_lease(day, run_id="run") as lease:  # type: ignore[arg-type]
        made = {"demo": DayStatistics({"rate": rate}, **further)}  # type: ignore[arg-type]
        publish_statistics(tables, day, made, lease=lease)  # type: ignore[arg-type]


def test_a_row_is_read_back_as_it_was_written(tables: StreamTables) -> None:
    publish(tables, state='{"a":1}', basis={"events": "x"})
    (record,) = tables.statistics("demo")
    assert (record.pattern_set, record.day, record.run_id) == ("demo", MONDAY, "run")
    assert (record.snapshot, record.state, record.basis) == ({"rate": 1.0}, '{"a":1}', {"events": "x"})
    assert record.observed is None
    assert tables.read_statistics("demo", MONDAY) == {"rate": 1.0}
    assert tables.statistics("another") == []


def test_pattern_sets_of_a_day_are_replaced_in_one_commit_and_others_stay(tables: StreamTables) -> None:
    def commits_so_far() -> int:
        return len(tables.warehouse.catalog.load_table((tables.name, "statistics")).history())

    with tables.day_lease(MONDAY, run_id="run") as lease:
        publish_statistics(tables, MONDAY, {"third": DayStatistics({"rate": 7.0})}, lease=lease)
        publish_observed(tables, "second", MONDAY, {"passes": 3}, lease=lease)
        before = commits_so_far()
        made = {"demo": DayStatistics({"rate": 1.0}, "{}"), "second": DayStatistics({"rate": 2.0})}
        publish_statistics(tables, MONDAY, made, lease=lease)
    assert commits_so_far() == before + 1
    assert [tables.read_statistics(name, MONDAY) for name in ("demo", "second", "third")] == [
        {"rate": 1.0},
        {"rate": 2.0},
        {"rate": 7.0},
    ]
    assert [record.observed for record in tables.statistics("second")] == [{"passes": 3}]


def test_nothing_of_a_day_is_replaced_where_the_lease_is_lost(tables: StreamTables) -> None:
    publish(tables)
    with tables.day_lease(MONDAY, run_id="run") as lease:
        lease.release()
        with pytest.raises(BusyError, match="no longer holds its lease"):
            made = {name: DayStatistics({"rate": 9.0}) for name in ("demo", "second")}
            publish_statistics(tables, MONDAY, made, lease=lease)
    assert tables.read_statistics("demo", MONDAY) == {"rate": 1.0}
    assert tables.read_statistics("second", MONDAY) is None


def test_pinned_statistics_are_of_one_moment(tables: StreamTables) -> None:
    publish(tables, MONDAY, 1.0)
    publish(tables, TUESDAY, 2.0)
    known = tables.pin_statistics(WEDNESDAY)
    publish(tables, MONDAY, 5.0)
    for day, rate in ((MONDAY, 1.0), (TUESDAY, 2.0)):
        found = known.of("demo", day)
        assert found is not None and found.snapshot == {"rate": rate}, "all of one snapshot of the table"
    latest = known.before("demo", TUESDAY)
    assert latest is not None and latest.day == MONDAY
    assert known.before("another", WEDNESDAY) is None


def test_what_detection_counted_outlives_new_statistics_and_the_other_way_round(tables: StreamTables) -> None:
    with tables.day_lease(MONDAY, run_id="run") as lease:
        publish_observed(tables, "demo", MONDAY, {"passes": 3}, lease=lease)
    assert tables.read_statistics("demo", MONDAY) is None, "detection alone makes no snapshot"
    publish(tables, rate=2.0)
    with tables.day_lease(MONDAY, run_id="again") as lease:
        publish_observed(tables, "demo", MONDAY, {"passes": 4}, lease=lease)
    (record,) = tables.statistics("demo")
    assert (record.snapshot, record.observed, record.run_id) == ({"rate": 2.0}, {"passes": 4}, "again")


def test_the_latest_earlier_day_is_found_over_gaps(tables: StreamTables) -> None:
    publish(tables, WEDNESDAY, 3.0)
    publish(tables, MONDAY, 1.0)
    found = tables.pin_statistics(WEDNESDAY).before("demo", WEDNESDAY)
    assert found is not None
    assert (found.day, found.snapshot) == (MONDAY, {"rate": 1.0})
    assert tables.pin_statistics(MONDAY).before("demo", MONDAY) is None
    assert [record.day for record in tables.statistics("demo")] == [MONDAY, WEDNESDAY]
    assert [record.day for record in tables.statistics("demo", TUESDAY)] == [WEDNESDAY]


def test_what_detection_counted_is_found_over_days_without_any(tables: StreamTables) -> None:
    with tables.day_lease(MONDAY, run_id="run") as lease:
        publish_observed(tables, "demo", MONDAY, {"passes": 3}, lease=lease)
    publish(tables, TUESDAY)
    with tables.day_lease(TUESDAY, run_id="run") as lease:
        publish_observed(tables, "demo", TUESDAY, None, lease=lease)
    assert tables.pin_statistics(WEDNESDAY).observed_before("demo", WEDNESDAY) == (MONDAY, {"passes": 3})
    assert tables.pin_statistics(MONDAY).observed_before("demo", MONDAY) is None
    assert tables.pin_statistics(WEDNESDAY).observed_before("another", WEDNESDAY) is None
    with tables.day_lease(MONDAY, run_id="again") as lease:
        publish_observed(tables, "demo", MONDAY, None, lease=lease)
    assert tables.pin_statistics(WEDNESDAY).before("demo", WEDNESDAY) is not None
    assert tables.pin_statistics(WEDNESDAY).observed_before("demo", WEDNESDAY) is None
