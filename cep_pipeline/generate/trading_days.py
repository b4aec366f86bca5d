"""The days on which the generated market trades: no weekends, and none of the holidays of the New York exchange."""

from __future__ import annotations

from datetime import date, timedelta

_MONDAY, _THURSDAY, _SATURDAY = 0, 3, 5
_JUNETEENTH_SINCE = 2022


def is_trading_day(day: date) -> bool:
    """Return True if the market is open on `day`.

    Examples
    --------
    >>> is_trading_day(date(2013, 10, 7)), is_trading_day(date(2013, 10, 6)), is_trading_day(date(2013, 11, 28))
    (True, False, False)
    """
    return day.weekday() < _SATURDAY and day not in _holidays(day.year)


def last_trading_days(count: int, end: date) -> list[date]:
    """The last `count` trading days up to and including `end`, ascending.

    Examples
    --------
    >>> [day.isoformat() for day in last_trading_days(3, date(2013, 10, 7))]
    ['2013-10-03', '2013-10-04', '2013-10-07']
    """
    days: list[date] = []
    day = end
    while len(days) < count:
        if is_trading_day(day):
            days.append(day)
        day -= timedelta(days=1)
    return days[::-1]


def _holidays(year: int) -> set[date]:
    fixed = [date(year, 7, 4), date(year, 12, 25)]
    if year >= _JUNETEENTH_SINCE:
        fixed.append(date(year, 6, 19))
    holidays = {_observed(day) for day in fixed}
    new_year = date(year, 1, 1)
    if new_year.weekday() != _SATURDAY:  # the exchange does not close on the last day of the year instead
        holidays.add(_observed(new_year))
    return holidays | {
        _nth_weekday(year, 1, _MONDAY, 3),
        _nth_weekday(year, 2, _MONDAY, 3),
        _easter_sunday(year) - timedelta(days=2),
        _last_monday_of_may(year),
        _nth_weekday(year, 9, _MONDAY, 1),
        _nth_weekday(year, 11, _THURSDAY, 4),
    }


def _observed(day: date) -> date:
    """A holiday on a Saturday is kept on the Friday, one on a Sunday on the Monday."""
    return day + timedelta(days={5: -1, 6: 1}.get(day.weekday(), 0))


def _nth_weekday(year: int, month: int, weekday: int, n: int) -> date:
    first = date(year, month, 1)
    return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (n - 1))


def _last_monday_of_may(year: int) -> date:
    last = date(year, 5, 31)
    return last - timedelta(days=last.weekday())


def _easter_sunday(year: int) -> date:
    """Gregorian Easter by the anonymous algorithm (Nature, 20 April 1876), with its letters."""
    a, b, c = year % 19, year // 100, year % 100
    h = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    m = (32 + 2 * (b % 4) + 2 * (c // 4) - h - c % 4) % 7
    n = h + m - 7 * ((a + 11 * h + 22 * m) // 451) + 114
    return date(year, n // 31, n % 31 + 1)
