"""Source timestamps to instants: formats, time zones and the bounds of a day."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import InputError
from cep_pipeline.events.casting import as_mask, cast_checked_to

EPOCH_UNITS = {"epoch_s": "s", "epoch_ms": "ms", "epoch_us": "us", "epoch_ns": "ns"}
"""Formats that are a number of units since 1970-01-01 UTC, and the unit."""

LOCAL = pa.timestamp("us")
INSTANT = pa.timestamp("us", tz="UTC")
_FINE_LOCAL, _FINE_INSTANT = pa.timestamp("ns"), pa.timestamp("ns", tz="UTC")
US_PER_DAY = 86_400_000_000
# What four-digit years can say; beyond it a date is no date of Python, and no partition.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_800_000_000

_WIDTHS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2}
_ISO_PARTS = (("%Y", ""), ("%m", "-"), ("%d", "-"), ("%H", " "), ("%M", ":"), ("%S", ":"))


def check_format(text: str) -> None:
    """Refuse a timestamp format that cannot be read, with an InputError.

    It is no named format, and has other directives than %Y %m %d %H %M %S %f, or lacks a part of the date.

    Examples
    --------
    >>> check_format("%Y%m%d%H%M")
    """
    if text == "iso" or text in EPOCH_UNITS:
        return
    directives = re.findall(r"%.?", text)
    known = [*_WIDTHS, "%f"]
    if not directives or any(part not in known for part in directives) or len(set(directives)) < len(directives):
        raise InputError(
            f"timestamp format {text!r} is not known; use iso, {', '.join(EPOCH_UNITS)}, or directives of fixed width "
            f"({' '.join(known)}), each once, such as %Y%m%d%H%M"
        )
    if not {"%Y", "%m", "%d"} <= set(directives):
        raise InputError(f"timestamp format {text!r} must have a date: %Y, %m and %d")
    if "%f" in directives and not text.endswith("%f"):
        raise InputError(f"timestamp format {text!r}: fractions of a second (%f) can only stand at the end")


def check_timezone(name: str) -> None:
    """Refuse a time zone that this machine does not know, with an InputError."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        raise InputError(f"unknown timezone {name!r}; use a name such as America/New_York") from error


@dataclass(frozen=True)
class TimestampColumn:
    """Timestamps read from one column; null in `utc` where the row has no usable timestamp.

    `local_day` (int32) are days since 1970-01-01 of the local date, undefined without timestamp. The text of an
    `unreadable` one is no timestamp of the format; the local time of a `nonexistent` one is skipped by the clock, and
    that of one that is `twice` is shown two times. `finer` (int16) are the nanoseconds below the microsecond.
    """

    utc: pa.Array
    local_day: np.ndarray
    unreadable: np.ndarray
    nonexistent: np.ndarray
    twice: np.ndarray
    finer: np.ndarray


def read_timestamps(
    column: pa.Array, text_format: str, timezone: str, *, later: np.ndarray | None = None
) -> TimestampColumn:
    """Read a column of timestamps: text in a format, integers for the epoch formats, or an Arrow timestamp or date.

    The time zone is that of times that do not say theirs. An ambiguous local time is the later of its two instants in
    the rows that are marked as `later`, and else the earlier; a nonexistent one is no time. Nanoseconds are cut off the
    timestamps and kept beside them. The null type of a column that is empty throughout is accepted.
    """
    missing = as_mask(pc.is_null(column))
    finer = np.zeros(len(column), np.int16)
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        local, instants = _of_arrow(column, finer)
    elif text_format in EPOCH_UNITS:
        local, instants = None, _of_epoch(column, EPOCH_UNITS[text_format], finer)
    else:
        local, instants = _of_text(pc.cast(column, pa.string()), text_format, finer)
    clock, utc, nonexistent, twice = _both_clocks(local, instants, timezone, later)
    unreadable = as_mask(pc.is_null(utc)) & ~missing & ~nonexistent
    return TimestampColumn(utc, _day_numbers(clock), unreadable, nonexistent, twice, finer)


def day_bounds(day: date, timezone: str) -> tuple[int, int]:
    """Return the first instant of a day and the first after it, in microseconds since the epoch.

    Where one of them is in no year of the calendar, as for the last day of the year 9999, that is an InputError.

    Examples
    --------
    >>> [bound // 3_600_000_000 for bound in day_bounds(date(1970, 1, 2), "Europe/Copenhagen")]
    [23, 47]
    """
    try:
        return _midnight_us(day, timezone), _midnight_us(day + timedelta(days=1), timezone)
    except OverflowError as error:
        raise InputError(f"{day} is at an end of the calendar; give one from 0001-01-02 to 9999-12-30") from error


def _midnight_us(day: date, timezone: str) -> int:
    # A midnight that the clock skips has the offset before the change (fold 0), and is so the instant of the change.
    instant = datetime.combine(day, time(), tzinfo=ZoneInfo(timezone)).astimezone(UTC)
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def moved(moment: datetime, by: timedelta) -> datetime:
    """Return the moment that is so much later, or earlier, or the end of the calendar where that is beyond it.

    Examples
    --------
    >>> moved(datetime(9999, 12, 30), timedelta(days=400)).date()
    datetime.date(9999, 12, 31)
    """
    try:
        return moment + by
    except OverflowError:
        return (datetime.max if by > timedelta() else datetime.min).replace(tzinfo=moment.tzinfo)


def has_date(moment: str) -> bool:
    """Return True if a moment that a person writes has a date, and is not a time alone.

    Examples
    --------
    >>> has_date("2013-10-07 14:30"), has_date("14:30")
    (True, False)
    """
    return re.match(r"\s*\d{4}-", moment) is not None


def parse_moment(text: str, timezone: str, day: date | None = None) -> int:
    """Microseconds since the epoch of a moment that a person writes.

    It is a date and a time (`2013-10-07 14:30`), or a time alone (`14:30`, `14:30:05.5`) of the given day; with an
    offset or Z it is that instant, else the clocks of the time zone show it. A time that they show twice is the
    earlier. Text that is no moment, lacks a day, or is one that the clocks skip is an InputError.

    Examples
    --------
    >>> parse_moment("09:30", "America/New_York", date(1970, 1, 1)) / 3_600_000_000
    14.5
    >>> parse_moment("1970-01-01T14:30Z", "America/New_York") / 3_600_000_000
    14.5
    """
    content = text.strip()
    try:
        if has_date(content):
            if len(content) < len("2013-10-07 14"):
                raise ValueError("a date without a time")
            moment = datetime.fromisoformat(content)
        else:
            clock = time.fromisoformat(content)
            if day is None:
                raise InputError(f"{text!r} has no day; write it as 2013-10-07 14:30")
            moment = datetime.combine(day, clock)
    except ValueError as error:
        raise InputError(
            f"{text!r} is no moment ({error}); write a time (14:30, 14:30:05) or a date and a time (2013-10-07 14:30)"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(timezone))
        if moment.astimezone(UTC).astimezone(moment.tzinfo).replace(fold=0) != moment:
            raise InputError(f"{text!r}: the clocks of {timezone} skip this time; take a later one")
    return (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _of_arrow(column: pa.Array, finer: np.ndarray) -> tuple[pa.Array | None, pa.Array | None]:
    if pa.types.is_date(column.type):
        column = pc.cast(column, pa.timestamp("ms"), safe=False)
    column = _cut(column, finer)
    if column.type.tz is not None:
        return None, cast_checked_to(column, INSTANT)[0]
    return cast_checked_to(column, LOCAL)[0], None


def _of_epoch(column: pa.Array, unit: str, finer: np.ndarray) -> pa.Array:
    numbers, _ = cast_checked_to(column, pa.int64())
    return cast_checked_to(_cut(pc.cast(numbers, pa.timestamp(unit, tz="UTC")), finer), INSTANT)[0]


def _cut(stamps: pa.Array, finer: np.ndarray) -> pa.Array:
    """Timestamps without their nanoseconds, which are added to `finer`."""
    if stamps.type.unit != "ns":
        return stamps
    whole = pc.floor_temporal(stamps, unit="microsecond")
    finer += pc.fill_null(pc.subtract(stamps.cast(pa.int64()), whole.cast(pa.int64())), 0).to_numpy().astype(np.int16)
    return whole


def _of_text(text: pa.Array, text_format: str, finer: np.ndarray) -> tuple[pa.Array, pa.Array | None]:
    """Text as local times; beside them as instants, where some of it names its offset from UTC."""
    rest = text if text_format == "iso" else _as_iso(text, text_format)
    kinds = [LOCAL, _FINE_LOCAL, *([INSTANT, _FINE_INSTANT] if text_format == "iso" else [])]
    # A text has the same time in each kind that takes it. The kind of the first ones is tried first: what a kind does
    # not take is looked at one by one.
    few = rest.slice(0, 8)
    kinds.sort(key=lambda kind: cast_checked_to(few, kind)[0].null_count)
    local, instants = pa.nulls(len(rest), LOCAL), None
    for kind in kinds:
        stamps, failed = cast_checked_to(rest, kind)
        stamps = _cut(stamps, finer)
        if kind.tz is None:
            local = pc.coalesce(local, pc.cast(stamps, LOCAL))
        elif stamps.null_count < len(stamps):
            instants = pc.coalesce(*([] if instants is None else [instants]), pc.cast(stamps, INSTANT))
        if not failed.any():
            break
        rest = pc.if_else(pa.array(failed), rest, pa.scalar(None, rest.type))
    return local, instants


def _as_iso(text: pa.Array, text_format: str) -> pa.Array:
    """Rewrite texts of a fixed layout as ISO 8601; null where the layout does not fit."""
    expression, position, places = "", 0, {}
    for part in re.findall(r"%.|[^%]+", text_format):
        width = _WIDTHS.get(part, 0 if part == "%f" else len(part))
        expression += r"\d{1,9}" if part == "%f" else rf"\d{{{width}}}" if part in _WIDTHS else re.escape(part)
        places[part] = (position, position + width)
        position += width
    fits = pc.match_substring_regex(text, f"^{expression}$")
    pieces: list[pa.Array | str] = []
    for directive, before in _ISO_PARTS:
        pieces += [before, pc.utf8_slice_codeunits(text, *places[directive]) if directive in places else "00"]
    if "%f" in places:
        pieces += [".", pc.utf8_slice_codeunits(text, places["%f"][0], places["%f"][0] + 9)]
    joined = pc.binary_join_element_wise(*(pa.scalar(p) if isinstance(p, str) else p for p in pieces), "")
    return pc.if_else(fits, joined, pa.scalar(None, pa.string()))


def _both_clocks(
    local: pa.Array | None, instants: pa.Array | None, timezone: str, later: np.ndarray | None
) -> tuple[pa.Array, pa.Array, np.ndarray, np.ndarray]:
    """Local time, UTC, and which local times do not exist or come twice, of what is given as one or the other."""
    if local is None:
        assert instants is not None
        utc = _within_years(instants)
        none = np.zeros(len(utc), dtype=bool)
        return _local_of(utc, timezone), utc, none, none
    clock = _within_years(local)
    try:
        zoned = pc.assume_timezone(clock, timezone, ambiguous="earliest", nonexistent="earliest")
    except pa.ArrowInvalid as error:
        raise InputError(
            f"time zone {timezone!r}: {error}; the system's time zone database is missing or lacks it (package tzdata)"
        ) from error
    nonexistent = as_mask(pc.fill_null(pc.not_equal(pc.local_timestamp(zoned), clock), False))
    second = pc.assume_timezone(clock, timezone, ambiguous="latest", nonexistent="earliest")
    twice = as_mask(pc.fill_null(pc.not_equal(second, zoned), False))
    utc = pc.cast(zoned, INSTANT)
    if later is not None:
        utc = pc.if_else(pa.array(later & twice), pc.cast(second, INSTANT), utc)
    if nonexistent.any():
        utc = pc.if_else(pa.array(~nonexistent), utc, pa.scalar(None, INSTANT))
    if instants is not None:
        usable = _within_years(instants)
        utc, clock = pc.coalesce(utc, usable), pc.coalesce(clock, _local_of(usable, timezone))
    return clock, utc, nonexistent, twice


def _local_of(utc: pa.Array, timezone: str) -> pa.Array:
    return pc.local_timestamp(pc.cast(utc, pa.timestamp("us", tz=timezone)))


def _within_years(values: pa.Array) -> pa.Array:
    numbers = pc.cast(values, pa.int64())
    bounds = pc.min_max(numbers).as_py()
    # One day inside, for the offset of the zone.
    low, high = _FIRST_US + US_PER_DAY, _LAST_US - US_PER_DAY
    if bounds["min"] is None or (bounds["min"] >= low and bounds["max"] < high):
        return values
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less(numbers, high))
    return pc.if_else(inside, values, pa.scalar(None, values.type))


def _day_numbers(local: pa.Array) -> np.ndarray:
    numbers = pc.fill_null(pc.cast(local, pa.int64()), 0).to_numpy(zero_copy_only=False)
    days: np.ndarray = np.floor_divide(numbers, US_PER_DAY).astype(np.int32)
    return days
