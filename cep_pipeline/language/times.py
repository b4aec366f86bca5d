"""Times as the language writes them: lengths such as `5 min`, TIMESTAMP 'text' and TIME 'text'.

All become whole microseconds. Every function raises `NoTime` with the reason for a text that is none; the parser knows
its place.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from zoneinfo import ZoneInfo

from cep_pipeline.patterns.pattern import UNIT_WORDS_US

_CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?"
_TIME = re.compile(_CLOCK)
_TIMESTAMP = re.compile(rf"([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})(?:[ T]{_CLOCK}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?")
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


class NoTime(Exception):
    """Why a text is no time; the parser adds the place and makes it a PatternError."""


def length_us(number: str, unit: str) -> Fraction:
    """Microseconds of a number, as it is written, of a unit.

    Examples
    --------
    >>> length_us("0.5", "ms"), length_us("2", "MINUTES")
    (Fraction(500, 1), Fraction(120000000, 1))
    """
    return exact(number) * UNIT_WORDS_US[unit.lower()]


def exact(number: str) -> Fraction:
    """The value of a number token; NoTime where it is too long to be a length."""
    if len(number) > 40:
        raise NoTime("this number is too long for a length of time")
    mantissa, _, exponent = number.lower().partition("e")
    if len(exponent) > 4:
        raise NoTime("the exponent of this length is out of range")
    return Fraction(f"{mantissa}e{exponent or 0}")


def time_us(text: str) -> int:
    """Microseconds since 00:00 of `TIME 'text'`.

    Examples
    --------
    >>> time_us("09:30"), time_us("00:00:01.5")
    (34200000000, 1500000)
    """
    found = _TIME.fullmatch(text)
    length = None if found is None else _clock_us(*found.groups())
    if length is None:
        raise NoTime(f"'{text}' is no time; write hh:mm, hh:mm:ss or hh:mm:ss.ffffff, from 00:00 on and before 24:00")
    return length


def timestamp_us(text: str, zone: str) -> int:
    """Microseconds since the epoch of `TIMESTAMP 'text'`, a local time of a zone unless the text has an offset.

    Examples
    --------
    >>> timestamp_us("2013-10-07 09:30", "America/New_York") == timestamp_us("2013-10-07T13:30:00Z", "UTC")
    True
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise NoTime(
            f"'{text}' is no timestamp; write YYYY-MM-DD, YYYY-MM-DD hh:mm or YYYY-MM-DD hh:mm:ss.ffffff, and behind "
            "it Z or an offset such as +02:00 where it is no local time"
        )
    year, month, day, hours, minutes, seconds, fraction, offset = found.groups()
    try:
        date = datetime(int(year), int(month), int(day))
    except ValueError as error:
        raise NoTime(f"'{text}' is no timestamp: {error}") from None
    clock = 0 if hours is None else _clock_us(hours, minutes, seconds, fraction)
    if clock is None:
        raise NoTime(f"'{text}' is no timestamp: a time of day is from 00:00:00 to 23:59:59.999999")
    local = date + clock * _MICROSECOND
    since_epoch = (local - _EPOCH) // _MICROSECOND
    if offset is not None:
        return since_epoch - _offset_us(text, offset)
    return since_epoch - _local_offset_us(text, local, zone)


def _clock_us(hours: str, minutes: str, seconds: str | None, fraction: str | None) -> int | None:
    """Microseconds since 00:00; None where the clock never shows this."""
    h, m, s = int(hours), int(minutes), int(seconds or 0)
    if h > 23 or m > 59 or s > 59:
        return None
    return ((h * 60 + m) * 60 + s) * 1_000_000 + int((fraction or "").ljust(6, "0"))


def _offset_us(text: str, offset: str) -> int:
    if offset == "Z":
        return 0
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    if hours > 23 or minutes > 59:
        raise NoTime(f"'{text}' is no timestamp: an offset is at most 23:59")
    size = (hours * 60 + minutes) * 60_000_000
    return -size if offset[0] == "-" else size


def _local_offset_us(text: str, local: datetime, zone: str) -> int:
    """The distance from UTC of a local time; NoTime where the clock never shows it, or shows it twice."""
    at = ZoneInfo(zone)
    first, second = (local.replace(tzinfo=at, fold=fold).utcoffset() for fold in (0, 1))
    assert first is not None and second is not None
    if first < second:
        later = local + (second - first)
        raise NoTime(
            f"'{text}' does not exist in {zone}: there the clock is put forward by {second - first}; write a time that "
            f"exists, such as '{later.isoformat(' ')}'"
        )
    if first > second:
        ways = " or ".join(f"'{_with_offset(local, offset)}'" for offset in (first, second))
        raise NoTime(f"'{text}' is ambiguous in {zone}, where the clock shows it twice; add the offset: {ways}")
    return first // _MICROSECOND


def _with_offset(local: datetime, offset: timedelta) -> str:
    """A local time with its offset, or in UTC where the offset has seconds, as some had long ago."""
    if offset % timedelta(minutes=1):
        return f"{(local - offset).isoformat(' ')}Z"
    return local.replace(tzinfo=timezone(offset)).isoformat(" ")
