from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.events.timestamps import check_format, day_bounds, parse_moment, read_timestamps

NEW_YORK = "America/New_York"


def utc(texts: list[str | None], text_format: str = "iso", zone: str = NEW_YORK) -> list[str | None]:
    read = read_timestamps(pa.array(texts, pa.string()), text_format, zone)
    return [None if value is None else value.isoformat() for value in read.utc.to_pylist()]


def test_local_times_become_utc() -> None:
    assert utc(["2013-10-07 04:00:00.464", "2013-12-07T04:00:00", None]) == [
        "2013-10-07T08:00:00.464000+00:00",
        "2013-12-07T09:00:00+00:00",
        None,
    ]


def test_an_ambiguous_time_is_the_earlier_instant_unless_it_is_marked_as_the_later() -> None:
    assert utc(["2013-11-03 01:30:00"]) == ["2013-11-03T05:30:00+00:00"]
    texts = pa.array(["2013-11-03 01:30:00", "2013-11-03 01:30:00-04:00", "2013-11-03 02:00:00"])
    read = read_timestamps(texts, "iso", NEW_YORK, later=np.ones(3, dtype=bool))
    assert [value.hour for value in read.utc.to_pylist()] == [6, 5, 7]
    assert read.twice.tolist() == [True, False, False]


def test_a_nonexistent_time_is_none() -> None:
    read = read_timestamps(pa.array(["2013-03-10 02:30:00", "2013-03-10 03:00:00"]), "iso", NEW_YORK)
    assert read.utc.null_count == 1
    assert read.nonexistent.tolist() == [True, False]
    assert read.unreadable.tolist() == [False, False]


def test_times_that_name_their_offset_keep_it() -> None:
    assert utc(["2013-10-07T04:00:00Z", "2013-10-07 04:00:00", "2013-10-07T04:00:00+02:00"]) == [
        "2013-10-07T04:00:00+00:00",
        "2013-10-07T08:00:00+00:00",
        "2013-10-07T02:00:00+00:00",
    ]


def test_nanoseconds_are_cut_off_and_kept_beside() -> None:
    assert utc(["2013-10-07 04:00:00.123456789", "2013-10-07T04:00:00.123456789Z"]) == [
        "2013-10-07T08:00:00.123456+00:00",
        "2013-10-07T04:00:00.123456+00:00",
    ]
    mixed = [
        "2013-10-07 04:00:00.1234567",
        None,
        "2013-10-07T04:00:00.123456789Z",
        "x",
        "1969-10-07 04:00:00.000000001",
    ]
    assert read_timestamps(pa.array([*mixed, "2013-10-07T04:00Z"]), "iso", NEW_YORK).finer.tolist() == [
        *(700, 0, 789, 0, 1, 0)
    ]
    assert read_timestamps(pa.array([-1, None, 1_000]), "epoch_ns", NEW_YORK).finer.tolist() == [999, 0, 0]
    assert utc(["2013-10-07 04:00:00.1234567890"]) == [None], "more than nine digits are no timestamp"


def test_the_local_day_is_that_of_the_zone() -> None:
    read = read_timestamps(pa.array(["2013-10-08T03:59:59Z", "2013-10-08T04:00:00Z"]), "iso", NEW_YORK)
    assert [str(np.datetime64(int(day), "D")) for day in read.local_day] == ["2013-10-07", "2013-10-08"]


@pytest.mark.parametrize(
    ("text_format", "text", "expected"),
    [
        ("%Y%m%d%H%M", "200802010900", "2008-02-01T14:00:00+00:00"),
        ("%d/%m/%Y %H:%M:%S.%f", "01/02/2008 09:00:01.25", "2008-02-01T14:00:01.250000+00:00"),
        ("%Y%m%d%H%M%S%f", "20080201090001123456789", "2008-02-01T14:00:01.123456+00:00"),
        ("%Y-%m-%d", "2008-02-01", "2008-02-01T05:00:00+00:00"),
        ("epoch_ms", "1201874400000", "2008-02-01T14:00:00+00:00"),
        ("epoch_ns", "1201874400000000999", "2008-02-01T14:00:00+00:00"),
        ("epoch_s", "-1", "1969-12-31T23:59:59+00:00"),
    ],
)
def test_formats(text_format: str, text: str, expected: str) -> None:
    check_format(text_format)
    assert utc([text, "x"], text_format) == [expected, None]


@pytest.mark.parametrize(
    "text_format",
    ["yyyymmdd", "%Y%m", "%Y%m%d %b", "%Y-%m-%d %I:%M", "%Y%m%d %q", "%f%Y%m%d", "%Y%Y%m%d", ""],
)
def test_unknown_formats_are_refused(text_format: str) -> None:
    with pytest.raises(InputError, match="timestamp format"):
        check_format(text_format)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1380616200000], pa.timestamp("ms")),
        pa.array([1380616200000000123], pa.timestamp("ns")),
        pa.array([1380616200], pa.timestamp("s")),
    ],
)
def test_arrow_times_without_zone_are_local(column: pa.Array) -> None:
    read = read_timestamps(column, "iso", "Europe/Copenhagen")
    assert read.utc.to_pylist() == [datetime(2013, 10, 1, 6, 30, tzinfo=UTC)]


def test_arrow_times_with_a_zone_are_instants() -> None:
    column = pa.array([1380616200000], pa.timestamp("ms", tz="Asia/Tokyo"))
    assert read_timestamps(column, "iso", NEW_YORK).utc.to_pylist() == [datetime(2013, 10, 1, 8, 30, tzinfo=UTC)]


def test_years_beyond_a_date_are_unreadable() -> None:
    read = read_timestamps(pa.array([2**62, 0]), "epoch_us", NEW_YORK)
    assert read.unreadable.tolist() == [True, False]


@pytest.mark.parametrize(
    ("day", "zone"), [(date.max, "UTC"), (date(9999, 12, 30), "America/New_York"), (date.min, "Asia/Tokyo")]
)
def test_a_day_at_an_end_of_the_calendar_has_no_bounds(day: date, zone: str) -> None:
    if day == date(9999, 12, 30):
        assert day_bounds(day, zone)[1] - day_bounds(day, zone)[0] == 86_400_000_000
    else:
        with pytest.raises(InputError, match=f"{day} is at an end of the calendar"):
            day_bounds(day, zone)


def test_day_bounds_follow_the_clock_changes() -> None:
    hour = 3_600_000_000
    spring, autumn = (day_bounds(day, NEW_YORK) for day in (date(2013, 3, 10), date(2013, 11, 3)))
    assert (spring[1] - spring[0], autumn[1] - autumn[0]) == (23 * hour, 25 * hour)


def test_a_midnight_that_the_clock_skips_begins_the_day_at_the_change() -> None:
    begin, _ = day_bounds(date(2013, 10, 20), "America/Sao_Paulo")
    assert datetime.fromtimestamp(begin / 1e6, UTC).isoformat() == "2013-10-20T03:00:00+00:00"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("14:30", "2013-10-07T18:30:00Z"),
        ("14:30:05.25", "2013-10-07T18:30:05.25Z"),
        ("2013-10-08 00:00", "2013-10-08T04:00:00Z"),
        ("2013-10-08T09:30:00", "2013-10-08T13:30:00Z"),
        ("2013-10-07T14:30+02:00", "2013-10-07T12:30:00Z"),
        ("14:30Z", "2013-10-07T14:30:00Z"),
        ("2013-11-03 01:30", "2013-11-03T05:30:00Z"),  # shown twice: the earlier
    ],
)
def test_a_moment_is_what_the_clocks_of_the_stream_show(text: str, instant: str) -> None:
    expected = datetime.fromisoformat(instant).timestamp() * 1e6
    assert parse_moment(text, NEW_YORK, date(2013, 10, 7)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("25:00", "is no moment"),
        ("half past two", "write a time"),
        ("2013-10-07", "is no moment"),
        ("2013-03-10 02:30", "skip this time"),
    ],
)
def test_what_is_no_moment_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_moment(text, NEW_YORK, date(2013, 10, 7))


def test_a_time_alone_needs_a_day() -> None:
    with pytest.raises(InputError, match="has no day"):
        parse_moment("14:30", "UTC")


LAYOUTS = (
    *("%Y-%m-%d %H:%M:%S.%f", "%d/%b/%Y:%H:%M:%S", "%m/%d/%y %I:%M:%S %p", "%Y%m%d%H%M%S", "%a %b %d %H:%M:%S %Y"),
    *("%A, %d. %B %Y, %H.%M.%S", "%Y-%j %H:%M:%S", "%y%m%d %H%M%S%f"),
)


@given(
    moment=st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)),
    layout=st.sampled_from(LAYOUTS),
    minutes=st.one_of(st.none(), st.integers(-14 * 60, 14 * 60)),
    short=st.booleans(),
)
def test_what_python_writes_by_a_layout_is_read(
    moment: datetime, layout: str, minutes: int | None, short: bool
) -> None:
    moment = moment if "%f" in layout else moment.replace(microsecond=0)
    offset = UTC if minutes is None else timezone(timedelta(minutes=minutes))
    local, parts = moment.replace(tzinfo=offset), layout if minutes is None else f"{layout} %z"
    short = short and "%Y%m" not in layout and "%y%m" not in layout

    def of_part(part: re.Match[str]) -> str:
        """A directive of the layout as Python writes it; where numbers are short, all but the year lack their zeros."""
        text = local.strftime(part[0])
        return str(int(text)) if short and part[0] in {"%d", "%m", "%j", "%H", "%I", "%M", "%S"} else text

    text = re.sub("%.", of_part, parts)
    expected = moment.replace(tzinfo=offset).astimezone(UTC)
    assert utc([text], layout if minutes is None else f"{layout} %z", "UTC") == [expected.isoformat()]


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("2025-02-29", "%Y-%m-%d"),
        ("2025-366", "%Y-%j"),
        ("2025-13-01", "%Y-%m-%d"),
        ("2025-03-04 13:00 PM", "%Y-%m-%d %I:%M %p"),
        ("2025-03-04 00:00 AM", "%Y-%m-%d %I:%M %p"),
        ("2025-03-04 24:01", "%Y-%m-%d %H:%M"),
        ("2025-03-04 24:01", "iso"),
        ("2025-03-04 10:60", "%Y-%m-%d %H:%M"),
        ("2025-03-04 10:00 +25:00", "%Y-%m-%d %H:%M %z"),
        ("4/Mrz/2025", "%d/%b/%Y"),
        ("20253041000", "%Y%m%d%H%M"),
        ("nan", "epoch_s"),
        ("1e30", "epoch"),
    ],
)
def test_what_is_no_time_is_unreadable(text: str, layout: str) -> None:
    assert read_timestamps(pa.array([text]), layout, "UTC").unreadable.tolist() == [True]


def test_24_00_is_the_first_instant_of_the_next_day() -> None:
    for layout, text in (("iso", "2024-02-29T24:00:00Z"), ("%d.%m.%Y %H:%M", "29.02.2024 24:00")):
        assert utc([text, None], layout, "UTC") == ["2024-03-01T00:00:00+00:00", None]


def test_the_size_of_an_epoch_tells_its_unit() -> None:
    numbers = [1735689540, 1735689540000, 1735689540000000, 1735689540000000000, None]
    for kind in (pa.int64(), pa.string()):
        read = read_timestamps(pa.array(numbers).cast(kind), "epoch", "UTC")
        assert {str(one) for one in read.utc.to_pylist()} == {"2024-12-31 23:59:00+00:00", "None"}
    fractions = pa.array([1735689540.25, 1735689540123.5, None])
    assert [one and one.microsecond for one in read_timestamps(fractions, "epoch", "UTC").utc.to_pylist()] == [
        250_000,
        123_500,
        None,
    ]


def test_each_time_has_the_first_format_that_reads_it() -> None:
    texts = pa.array(["2025-03-04 05:06:07.123456789", "04.03.2025", "1741077000", "x", None])
    read = read_timestamps(texts, ["%d.%m.%Y", "iso", "epoch_s"], "UTC")
    assert [one and one.isoformat() for one in read.utc.to_pylist()] == [
        *("2025-03-04T05:06:07.123456+00:00", "2025-03-04T00:00:00+00:00", "2025-03-04T08:30:00+00:00"),
        *(None, None),
    ]
    assert read.unreadable.tolist() == [False, False, False, True, False]
    assert read.finer.tolist() == [789, 0, 0, 0, 0]
