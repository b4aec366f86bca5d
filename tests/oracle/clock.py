"""The local clock of a stream's time zone (docs/language.md, on times and on buckets).

An instant is a number of microseconds since 1970-01-01 00:00 UTC; a reading is what the clock shows, a naive datetime.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

MICROSECOND = timedelta(microseconds=1)
MIDNIGHT = time()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MONDAY = datetime(2000, 1, 3)
"""The reading that buckets of time are counted from."""


def local_reading(instant: int, zone: str) -> datetime | None:
    """What the clock shows at an instant; None outside the years 1 to 9999."""
    try:
        return (EPOCH + instant * MICROSECOND).astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)
    except OverflowError:
        return None


def microseconds_between(earlier: datetime, later: datetime) -> int:
    return (later - earlier) // MICROSECOND


def bucket(instant: int, length: int, zone: str) -> int | None:
    """`bucket(length)`: the reading at an instant, cut to a multiple of the length, as an instant again."""
    reading = local_reading(instant, zone)
    if reading is None:
        return None
    count = microseconds_between(FIRST_MONDAY, reading) // length
    return first_instant(FIRST_MONDAY + count * length * MICROSECOND, zone)


def first_instant(reading: datetime, zone: str) -> int:
    """The first instant at which the clock shows the reading, or the end of the gap in which the reading falls."""
    early, late = sorted(_instant(reading.replace(fold=fold), zone) for fold in (0, 1))
    if local_reading(early, zone) == reading:
        return early
    if local_reading(late, zone) == reading:
        return late
    while late - early > 1:  # the clock is put forward after `early`, and has been at `late`
        middle = (early + late) // 2
        shown = local_reading(middle, zone)
        assert shown is not None
        early, late = (middle, late) if shown < reading else (early, middle)
    return late


def _instant(reading: datetime, zone: str) -> int:
    return microseconds_between(EPOCH, reading.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC))
