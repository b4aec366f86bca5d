"""Source timestamps to instants: formats, time zones and the bounds of a day."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import InputError
from cep_pipeline.events.casting import as_mask, cast_checked_to

EPOCH_UNITS = {"epoch_s": "s", "epoch_ms": "ms", "epoch_us": "us", "epoch_ns": "ns"}
"""Formats that are a number of units since 1970-01-01 UTC, and the unit."""
EPOCH = "epoch"
"""The format of such numbers that tell their unit by their size."""
_UNIT_SIZES = {"epoch_s": (0, 10**11), "epoch_ms": (10**11, 10**14), "epoch_us": (10**14, 10**17)}
_UNIT_SIZES["epoch_ns"] = (10**17, 2**63)
_US_A_UNIT = {"epoch_s": 1e6, "epoch_ms": 1e3, "epoch_us": 1.0, "epoch_ns": 1e-3}

LOCAL = pa.timestamp("us")
INSTANT = pa.timestamp("us", tz="UTC")
_FINE_LOCAL, _FINE_INSTANT = pa.timestamp("ns"), pa.timestamp("ns", tz="UTC")
US_PER_DAY = 86_400_000_000
_END_OF_DAY = r"[T ]24:00(?::00(?:[.,]0*)?)?(?:$|[Zz+-])"
"""What an ISO time has that is the end of its day, and the first instant of the next one."""
# What four-digit years can say; beyond it a date is no date of Python, and no partition.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_800_000_000

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DIRECTIVES = {
    "%Y": "[0-9]{4}",
    **dict.fromkeys(("%y", "%m", "%d", "%H", "%I", "%M", "%S"), "[0-9]{2}"),
    "%j": "[0-9]{3}",
    "%b": f"(?i:{'|'.join(_MONTHS)})",
    "%B": "(?i:january|february|march|april|may|june|july|august|september|october|november|december)",
    "%a": "(?i:mon|tue|wed|thu|fri|sat|sun)",
    "%A": "(?i:mon|tues|wednes|thurs|fri|satur|sun)(?i:day)",
    "%p": "(?i:am|pm)",
    "%f": "[0-9]{1,9}",
    "%z": "[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?",
}
"""The directives of formats, and what stands for each; the names are English."""
_NUMBERS = {"%Y", "%y", "%m", "%d", "%H", "%I", "%M", "%S", "%j", "%f"}
_DATES = ({"%m", "%d"}, {"%b", "%d"}, {"%B", "%d"}, {"%j"})
_FORMS = f"iso, {EPOCH}, {', '.join(EPOCH_UNITS)}"


def check_format(text: str) -> None:
    """Refuse a timestamp format that cannot be read, with an InputError.

    It is no named format and has no directives, or it has unknown ones, one twice, no whole date, or no whole time.

    Examples
    --------
    >>> check_format("%d/%b/%Y:%H:%M:%S %z")
    """
    if text in ("iso", EPOCH) or text in EPOCH_UNITS:
        return
    directives = re.findall(r"%.?", text)
    if not directives or any(part not in _DIRECTIVES for part in directives) or len(set(directives)) < len(directives):
        raise InputError(
            f"timestamp format {text!r} is not known; use {_FORMS}, or directives "
            f"({' '.join(_DIRECTIVES)}), each once, such as %Y%m%d%H%M"
        )
    given = set(directives)
    if len(given & {"%Y", "%y"}) != 1 or sum(one <= given for one in _DATES) != 1:
        raise InputError(
            f"timestamp format {text!r} must have one date: a year, %Y or %y, a month, %m, %b or %B, and %d, or %j"
        )
    if {"%H", "%I"} <= given or ("%I" in given) != ("%p" in given):
        raise InputError(f"timestamp format {text!r} must have the hour as %H, or as %I with %p")
    if re.search("%f%[YymdHIMSj]", text):
        raise InputError(f"timestamp format {text!r}: nothing tells where the fractions of a second (%f) end")


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


def timestamps_of(columns: Mapping[str, pa.Array], names: Sequence[str]) -> pa.Array:
    """The column of timestamps; of several, what they hold, with a blank between it, null where one holds nothing."""
    if len(names) == 1:
        return columns[names[0]]
    return pc.binary_join_element_wise(*(pc.cast(columns[name], pa.string()) for name in names), " ")


def read_timestamps(
    column: pa.Array,
    formats: str | Sequence[str],
    timezone: str,
    *,
    later: np.ndarray | None = None,
    days_of: str | None = None,
) -> TimestampColumn:
    """Read a column of timestamps: text in a format, numbers for the epoch formats, or an Arrow timestamp or date.

    Of several formats, each text has the first that reads it. The zone is that of times that do not say theirs, and
    `days_of` that of the days, where it is another one. An ambiguous local time is the later of its two instants in the
    rows that are marked as `later`, and else the earlier; a nonexistent one is no time. 24:00 is the first instant of
    the next day. Nanoseconds are cut off the timestamps and kept beside them; fractions of an epoch are read to the
    microsecond. The null type of a column that is empty throughout is accepted.
    """
    missing = as_mask(pc.is_null(column))
    finer = np.zeros(len(column), np.int16)
    local, instants = pa.nulls(len(column), LOCAL), pa.nulls(len(column), INSTANT)
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        local, instants = _of_arrow(column, finer)
    else:
        rest = column
        for one in [formats] if isinstance(formats, str) else formats:
            if one == EPOCH or one in EPOCH_UNITS:
                instants = pc.coalesce(instants, _of_epoch(rest, one, finer))
            else:
                text = pc.cast(rest, pa.string())
                of_clock, of_utc = (_of_iso if one == "iso" else partial(_of_layout, layout=one))(text, finer=finer)
                local, instants = pc.coalesce(local, of_clock), pc.coalesce(instants, of_utc)
            unread = pc.and_(pc.is_null(local), pc.is_null(instants))
            rest = pc.if_else(unread, rest, pa.scalar(None, rest.type))
    clock, utc, nonexistent, twice = _both_clocks(local, instants, timezone, later)
    unreadable = as_mask(pc.is_null(utc)) & ~missing & ~nonexistent
    clock = clock if days_of in (None, timezone) else _local_of(utc, str(days_of))
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


def _of_arrow(column: pa.Array, finer: np.ndarray) -> tuple[pa.Array, pa.Array]:
    if pa.types.is_date(column.type):
        column = pc.cast(column, pa.timestamp("ms"), safe=False)
    column = _cut(column, finer)
    if column.type.tz is not None:
        return pa.nulls(len(column), LOCAL), cast_checked_to(column, INSTANT)[0]
    return cast_checked_to(column, LOCAL)[0], pa.nulls(len(column), INSTANT)


def _of_epoch(column: pa.Array, unit: str, finer: np.ndarray) -> pa.Array:
    numbers, fractions = cast_checked_to(column, pa.int64())
    if unit == EPOCH:
        sizes = np.abs(cast_checked_to(column, pa.float64())[0].to_numpy(zero_copy_only=False))
        found = pa.nulls(len(column), INSTANT)
        for one, (low, high) in _UNIT_SIZES.items():
            own = pa.array((sizes >= low) & (sizes < high))
            found = pc.coalesce(found, _of_epoch(pc.if_else(own, column, pa.scalar(None, column.type)), one, finer))
        return found
    stamps = cast_checked_to(_cut(pc.cast(numbers, pa.timestamp(EPOCH_UNITS[unit], tz="UTC")), finer), INSTANT)[0]
    if not fractions.any():
        return stamps
    micros = np.rint(cast_checked_to(column, pa.float64())[0].to_numpy(zero_copy_only=False) * _US_A_UNIT[unit])
    exact = fractions & (np.abs(micros) < _LAST_US)  # not where it is no number
    return pc.coalesce(stamps, pa.array(np.where(exact, micros, 0).astype(np.int64), INSTANT, mask=~exact))


def _cut(stamps: pa.Array, finer: np.ndarray) -> pa.Array:
    """Timestamps without their nanoseconds, which are added to `finer`."""
    if stamps.type.unit != "ns":
        return stamps
    whole = pc.floor_temporal(stamps, unit="microsecond")
    finer += pc.fill_null(pc.subtract(stamps.cast(pa.int64()), whole.cast(pa.int64())), 0).to_numpy().astype(np.int16)
    return whole


def _of_iso(text: pa.Array, finer: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """ISO 8601 as local times, or as instants where it names its offset from UTC."""
    rest, kinds = text, [LOCAL, _FINE_LOCAL, INSTANT, _FINE_INSTANT]
    # A text has the same time in each kind that takes it. The kind of the first ones is tried first: what a kind does
    # not take is looked at one by one.
    few = rest.slice(0, 8)
    kinds.sort(key=lambda kind: cast_checked_to(few, kind)[0].null_count)
    local, instants = pa.nulls(len(rest), LOCAL), pa.nulls(len(rest), INSTANT)
    for kind in kinds:
        stamps, failed = cast_checked_to(rest, kind)
        stamps = _cut(stamps, finer)
        if kind.tz is None:
            local = pc.coalesce(local, pc.cast(stamps, LOCAL))
        else:
            instants = pc.coalesce(instants, pc.cast(stamps, INSTANT))
        if not failed.any():
            break
        rest = pc.if_else(pa.array(failed), rest, pa.scalar(None, rest.type))
    if failed.any() and pc.any(ended := pc.match_substring_regex(rest, _END_OF_DAY)).as_py():
        begun = pc.if_else(ended, pc.replace_substring_regex(rest, "([T ])24:", r"\100:"), pa.scalar(None, rest.type))
        day, (begin, instant) = pa.scalar(US_PER_DAY, pa.duration("us")), _of_iso(begun, finer)
        local, instants = pc.coalesce(local, pc.add(begin, day)), pc.coalesce(instants, pc.add(instant, day))
    return local, instants


def expression_of(layout: str) -> str:
    """A regular expression for texts of a layout; a group is a directive's letter.

    A number may lack leading zeros where no other number stands beside it.
    """
    parts, expression = re.findall(r"%.|[^%]+", layout), ""
    for before, part, behind in zip(["", *parts], parts, [*parts[1:], ""], strict=False):
        form = _DIRECTIVES.get(part)
        alone = part in _NUMBERS - {"%Y", "%y", "%f"} and before not in _NUMBERS and behind not in _NUMBERS
        form = form.replace("{", "{1,") if form is not None and alone else form
        expression += re.escape(part) if form is None else f"(?P<{part[1]}>{form})"
    return f"^{expression}$"


def _of_layout(text: pa.Array, layout: str, finer: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """Text of a layout as local times, or as instants where the layout has the offset from UTC."""
    found = pc.extract_regex(pc.utf8_trim_whitespace(text), expression_of(layout))
    fits = as_mask(pc.is_valid(found))
    names = {found.type.field(place).name for place in range(found.type.num_fields)}

    def text_of(name: str) -> pa.Array:
        return pc.if_else(pa.array(fits), found.field(name), "0")

    def number(name: str, otherwise: int = 0) -> np.ndarray:
        if name not in names:
            return np.full(len(text), otherwise, np.int64)
        return np.asarray(pc.cast(text_of(name), pa.int64()))

    years = number("Y") if "Y" in names else 1969 + (number("y") - 69) % 100
    months = number("m", 1)
    for name in names & {"b", "B"}:
        short = pc.utf8_lower(pc.utf8_slice_codeunits(text_of(name), 0, 3))
        months = np.asarray(pc.fill_null(pc.index_in(short, pa.array(_MONTHS)), 0)) + 1
    of_year = (years - 1970).astype("datetime64[Y]")
    fits &= (months >= 1) & (months <= 12)
    first = of_year.astype("datetime64[M]") + np.where(fits, months - 1, 0)
    days = first.astype("datetime64[D]") + (number("j") if "j" in names else number("d")) - 1
    same = days.astype("datetime64[Y]") == of_year if "j" in names else days.astype("datetime64[M]") == first
    hours, minutes, seconds = number("H"), number("M"), number("S")
    if "I" in names:
        fits &= (number("I") >= 1) & (number("I") <= 12)
        hours = number("I") % 12 + 12 * np.asarray(pc.equal(pc.utf8_lower(text_of("p")), "pm"))
    nanos = np.asarray(pc.cast(pc.utf8_rpad(text_of("f"), 9, "0"), pa.int64())) if "f" in names else number("f")
    clock = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + nanos // 1000
    fits &= same & (minutes < 60) & (seconds < 60) & (clock <= US_PER_DAY)
    finer += np.where(fits, nanos % 1000, 0).astype(np.int16)
    stamps = days.astype(np.int64) * US_PER_DAY + clock
    nothing = np.zeros(len(text), bool)
    if "z" not in names:
        return pa.array(stamps, LOCAL, mask=~fits), pa.array(stamps, INSTANT, mask=~nothing)
    offsets = pc.replace_substring_regex(pc.replace_substring(text_of("z"), ":", ""), "^[Zz0]$", "+0000")
    ahead = np.where(np.asarray(pc.starts_with(offsets, "-")), -1, 1)
    hours, minutes = (
        np.asarray(pc.cast(pc.utf8_slice_codeunits(pc.utf8_rpad(offsets, 5, "0"), at, at + 2), pa.int64()))
        for at in (1, 3)
    )
    fits &= (hours < 24) & (minutes < 60)
    stamps -= ahead * (hours * 60 + minutes) * 60_000_000
    return pa.array(stamps, LOCAL, mask=~nothing), pa.array(stamps, INSTANT, mask=~fits)


def _both_clocks(
    local: pa.Array, instants: pa.Array, timezone: str, later: np.ndarray | None
) -> tuple[pa.Array, pa.Array, np.ndarray, np.ndarray]:
    """Local time, UTC, and which local times do not exist or come twice; each time is given as one or the other."""
    if local.null_count == len(local):
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
    if instants.null_count < len(instants):
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
