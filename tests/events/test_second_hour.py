"""The hour that comes twice: a file in order stays in order; where its order says nothing the first pass is taken."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.events.clock import rows_shown_twice, second_pass
from cep_pipeline.events.event_files import LoadedEvents, load_events, read
from cep_pipeline.events.raw_files import UNBOUNDED
from cep_pipeline.events.readers import RawBlock
from cep_pipeline.events.row_checks import check_rows
from cep_pipeline.events.schema import DataWarning, StreamSchema
from cep_pipeline.expressions.local_time import local_clock
from tests.events.raw import CHECKOUT
from tests.thoroughness import examples

CHICAGO = "America/Chicago"
CASE = CHECKOUT.parent / "shared" / "cases" / "10-dst-fallback"
ZONES = (CHICAGO, "Europe/Copenhagen", "Australia/Lord_Howe", "America/Havana", "America/Santiago", "Africa/Casablanca")


def stream(zone: str = CHICAGO, key: tuple[str, ...] = (), by: str = "kind", form: str = "csv") -> StreamSchema:
    document = f"""
name: flow
timezone: {zone}
base_type: Reading
{f"type_attribute: {by}" if by == "kind" else ""}
timestamp: time
attributes: {{kind: string, x: int64}}
key: [{", ".join(key)}]
source: {{format: {form}, path: "*.{form}"}}
"""
    with TemporaryDirectory() as folder:
        (path := Path(folder) / "flow.yaml").write_text(document)
        return StreamSchema.load(path)


def load(schema: StreamSchema, folder: Path, rows: list[tuple[str, str]]) -> LoadedEvents:
    path = folder / "readings.csv"
    path.write_text("time,kind,x\n" + "".join(f"{time},{kind},{x}\n" for x, (time, kind) in enumerate(rows)))
    return load_events(schema, [path])


def offsets(loaded: LoadedEvents) -> dict[int, datetime]:
    columns = (loaded.events.column(name).to_pylist() for name in ("x", "timestamp"))
    return dict(zip(*columns, strict=True))


def shown(instants: list[datetime], zone: str) -> list[str]:
    return [at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M") for at in instants]


def hour_of(zone: str) -> tuple[datetime, timedelta]:
    """The instant at which the hour of 2024 that comes twice begins, and the length of a pass."""
    clock, epoch = local_clock(zone), datetime(1970, 1, 1, tzinfo=UTC)
    for change_us, shift_us in zip(clock.changes.tolist(), (-np.diff(clock.offsets)).tolist(), strict=True):
        begin = epoch + timedelta(microseconds=change_us - shift_us)
        if shift_us > 0 and begin.year == 2024:
            return begin, timedelta(microseconds=shift_us)
    raise LookupError(zone)


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=examples(20), deadline=None)
@given(minutes=st.sets(st.integers(-70, 190), min_size=1, max_size=40))
def test_a_local_series_in_order_is_read_back_as_its_instants(zone: str, minutes: set[int]) -> None:
    begin, shift = hour_of(zone)
    instants = [begin + timedelta(minutes=minute) for minute in (-100, -95, *sorted(minutes), 300)]
    texts = shown(instants, zone)
    one, two = (
        [text for at, text in zip(instants, texts, strict=True) if first <= at < first + shift]
        for first in (begin, begin + shift)
    )
    back = bool(one and two) and datetime.fromisoformat(one[-1]) - datetime.fromisoformat(two[0])
    told = back is not False and back >= shift / 2  # else no row says that an hour came again
    expected = [at if told or not begin + shift <= at < begin + 2 * shift else at - shift for at in instants]
    with TemporaryDirectory() as folder:
        loaded = load(stream(zone), Path(folder), [(text, "A") for text in texts])
    assert list(offsets(loaded).values()) == (expected if told else sorted(expected))
    assert len(loaded.notes) == bool(one or two)
    for note in loaded.notes:
        assert "at the end of summer time" in note and zone in note and str(hour_day(zone)) in note
        assert ("taken as the second" in note) == told


def hour_day(zone: str) -> date:
    return hour_of(zone)[0].astimezone(ZoneInfo(zone)).date()


EVERY_TEN = [f"2024-11-03 {hour:02}:{minute:02}" for hour in (0, 1, 1, 2, 3) for minute in range(0, 60, 10)]
HOURLY = ["2024-11-03 00:00", "2024-11-03 01:00", "2024-11-03 01:00", "2024-11-03 02:00"]
AGAIN = {"10 minutes": range(12, 18), "hour": range(2, 3)}


@pytest.mark.parametrize("layout", ["one series", "interleaved", "one after the other", "in batches"])
@pytest.mark.parametrize(("gap", "times"), [("10 minutes", EVERY_TEN), ("hour", HOURLY)])
@pytest.mark.parametrize("key", [(), ("kind", "timestamp")])
@pytest.mark.parametrize("by", ["kind", "event_type"])
def test_rows_of_several_series_stay_in_order(
    tmp_path: Path, layout: str, gap: str, times: list[str], key: tuple[str, ...], by: str
) -> None:
    kinds = "A" if layout == "one series" else "ABC"
    if layout == "one after the other":
        rows = [(place, kind) for kind in kinds for place in range(len(times))]
    elif layout == "in batches":
        size = len(times) // 5 or 1
        rows = [(p, k) for at in range(0, len(times), size) for k in kinds for p in range(at, at + size)]
    else:
        rows = [(place, kind) for place in range(len(times)) for kind in kinds]
    loaded = load(stream(key=key, by=by), tmp_path, [(times[place], kind) for place, kind in rows])
    told = bool(key) or (gap == "10 minutes" and (layout in ("one series", "interleaved") or by == "kind"))
    assert loaded.rejected == 0, "no key comes twice"
    zone = ZoneInfo(CHICAGO)
    for row, at in offsets(loaded).items():
        local = datetime.fromisoformat(times[rows[row][0]])
        assert at == local.replace(tzinfo=zone, fold=int(told and rows[row][0] in AGAIN[gap])).astimezone(UTC), row
    assert len([note for note in loaded.notes if "end of summer time" in note]) == 1


@pytest.mark.parametrize(
    ("times", "key", "rejected"),
    [
        # Not in order: a shuffled file, and one in which the hour comes three times.
        ([EVERY_TEN[place] for place in np.random.default_rng(3).permutation(30)], ("kind", "timestamp"), 6),
        ([*EVERY_TEN[:12], *EVERY_TEN[6:]], (), 0),
        # It begins in the hour, or has rows of one pass only.
        (EVERY_TEN[12:], (), 0),
        ([*EVERY_TEN[:6], *EVERY_TEN[18:]], (), 0),
        # Two events at one time, in a file that has more of these.
        (["2024-11-03 00:00", "2024-11-03 00:00", *HOURLY[1:]], (), 0),
        # A row that is there three times.
        ([*HOURLY[:3], *HOURLY[2:]], ("kind", "timestamp"), 2),
    ],
)
def test_rows_whose_order_does_not_tell_are_of_the_first_pass(
    tmp_path: Path, times: list[str], key: tuple[str, ...], rejected: int
) -> None:
    loaded = load(stream(key=key), tmp_path, [(time, "A") for time in times])
    zone = ZoneInfo(CHICAGO)
    for row, at in offsets(loaded).items():
        assert at == datetime.fromisoformat(times[row]).replace(tzinfo=zone).astimezone(UTC)
    assert loaded.rejected == rejected
    notes = [note for note in loaded.notes if "end of summer time" in note]
    if any(" 01:" in time for time in times):
        assert "all are taken as the first: give them with their offset from UTC" in notes[0]
    assert len(notes) == any(" 01:" in time for time in times)


def test_times_with_an_offset_and_those_of_other_days_are_left_alone(tmp_path: Path) -> None:
    rows = [f"2024-11-03T01:{minute}0{offset}" for offset in ("-05:00", "-06:00") for minute in range(6)]
    loaded = load(stream(), tmp_path, [(row, "A") for row in rows])
    assert loaded.notes == ()
    assert list(offsets(loaded).values()) == [datetime.fromisoformat(row).astimezone(UTC) for row in rows]
    assert load(stream("UTC"), tmp_path, [(time, "A") for time in EVERY_TEN[:12]]).notes == ()


def test_an_hour_that_reaches_over_midnight_stays_of_the_first_pass(tmp_path: Path) -> None:
    times = [f"2010-11-06 {time}" for time in ("22:30", "23:10", "23:40", "23:10", "23:40")]
    loaded = load(stream("America/St_Johns"), tmp_path, [(time, "A") for time in times])
    assert len(set(offsets(loaded).values())) == 3
    assert any("all are taken as the first" in note for note in loaded.notes)


def test_a_row_that_came_late_is_no_second_hour(tmp_path: Path) -> None:
    late = [*EVERY_TEN[:9], EVERY_TEN[7], *EVERY_TEN[9:12], *EVERY_TEN[18:], EVERY_TEN[20]]
    assert "taken as the first" in load(stream(), tmp_path, [(time, "A") for time in late]).notes[0]
    both = [*EVERY_TEN[:9], EVERY_TEN[7], *EVERY_TEN[9:]]
    (note,) = load(stream(), tmp_path, [(time, "A") for time in both]).notes
    assert "so that 6 of them, the first on line 15, are taken as the second" in note


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_the_parts_of_a_file_say_what_the_whole_says(data: Any) -> None:
    order = data.draw(st.one_of(st.just(list(range(30))), st.permutations(range(30))))
    kinds = data.draw(st.lists(st.sampled_from("AB"), min_size=30, max_size=30))
    schema = stream(key=data.draw(st.sampled_from([(), ("kind", "timestamp")])))
    columns = {
        "time": pa.array([EVERY_TEN[place] for place in order]),
        "kind": pa.array(kinds),
        "x": pa.array([str(place) for place in range(30)]),
    }
    cuts = sorted(data.draw(st.sets(st.integers(1, 29), max_size=4)))
    events = check_rows(RawBlock(columns, np.arange(1, 31), str), schema, UNBOUNDED, "f").events
    whole = second_pass(rows_shown_twice(events, schema), schema, "f")
    parts = [rows_shown_twice(events.slice(a, b - a), schema) for a, b in pairwise([0, *cuts, 30])]
    in_parts = second_pass(pa.concat_tables(parts), schema, "f")
    assert in_parts.lines.tolist() == whole.lines.tolist() and in_parts.notes == whole.notes
    assert len(whole.lines) == 6 or order != sorted(order)


def test_the_rows_of_other_days_decide_nothing(tmp_path: Path) -> None:
    other = [f"2024-11-{day:02} {hour:02}:00" for day in (2, 4) for hour in (7, 3, 5, 5, 1, 9, 2)]
    rows = [(time, "A") for time in (*other[:7], *HOURLY, *other[7:])]
    loaded = load(stream(key=("kind", "timestamp")), tmp_path, rows)
    assert [row for row, at in offsets(loaded).items() if at == datetime(2024, 11, 3, 7, tzinfo=UTC)] == [9]


def test_a_parquet_file_and_a_data_frame_are_read_in_the_same_way(tmp_path: Path) -> None:
    stamps = pa.array([datetime.fromisoformat(time) for time in EVERY_TEN], pa.timestamp("us"))
    frame = pa.table({"time": stamps, "kind": ["A"] * 30, "x": range(30)})
    pq.write_table(frame, tmp_path / "a.parquet", row_group_size=7)
    expected = list(offsets(load(stream(), tmp_path, [(time, "A") for time in EVERY_TEN])).values())
    assert [b - a for a, b in pairwise(expected)] == [timedelta(minutes=10)] * 29
    schema = stream(form="parquet")
    assert load_events(schema, [tmp_path / "a.parquet"]).events.column("timestamp").to_pylist() == expected
    with pytest.warns(DataWarning, match="the data frame: on 2024-11-03, at the end of summer time"):
        assert read(schema, frame).column("timestamp").to_pylist() == expected


@pytest.mark.skipif(not CASE.is_dir(), reason="the shared cases are not beside the checkout")
@pytest.mark.parametrize("schema", ["flow", "nokey"])
def test_the_case_of_a_sensor_has_no_gap(schema: str) -> None:
    paths = sorted((CASE / "data").glob("*.csv"))
    loaded = load_events(StreamSchema.load(CASE / f"{schema}.yaml"), paths)
    assert (loaded.events.num_rows, loaded.rejected) == (438, 0)
    instants = loaded.events.column("timestamp").to_pylist()
    assert {b - a for a, b in pairwise(instants)} == {timedelta(minutes=10)}
