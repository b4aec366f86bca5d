"""Writing generated days as a vendor delivers them: a folder a day, in it one gzipped CSV file."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from cep_pipeline.errors import InputError
from cep_pipeline.generate.market import Market

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


FILE_NAME = "trades.csv.gz"
_ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class GeneratedDay:
    """A day that was made; `path` is None and `events` 0 on a day without trading."""

    day: date
    path: Path | None
    events: int


def generate_days(
    root: str | Path,
    days: Iterable[date],
    *,
    stocks: int = 4,
    seed: int = 1,
    min_rate: float = 1.0,
    max_rate: float = 45.0,
    skew: float = 1.0,
    drift: float = 0.1,
    hours: float = 6.5,
    events_per_day: int | None = None,
    progress: Callable[[GeneratedDay], None] | None = None,
) -> list[GeneratedDay]:
    """Write `<root>/<DATE>/trades.csv.gz` for each trading day; weekends and holidays have no file.

    The folder is made where it is missing, and a day that is there already is replaced. The settings are those of
    `Market`, rates in trades a second. `progress` is called with each day once it is written. Returned is one
    `GeneratedDay` for each day, in their order; a wrong setting, or a folder that cannot be written, is an InputError.
    The same settings give the same bytes (with one version of NumPy and zlib), whichever days are made together.
    """
    market = Market(
        stocks=stocks,
        seed=seed,
        min_rate_per_s=min_rate,
        max_rate_per_s=max_rate,
        skew=skew,
        drift=drift,
        hours=hours,
        events_per_day=events_per_day,
    )
    generated = []
    for day in days:
        made = _generate_day(Path(root), day, market) if is_trading_day(day) else GeneratedDay(day, None, 0)
        generated.append(made)
        if progress is not None:
            progress(made)
    return generated


def _generate_day(root: Path, day: date, market: Market) -> GeneratedDay:
    trades = market.trades(day)
    path = root / day.isoformat() / FILE_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(trades, path)
    except OSError as error:
        raise InputError(f"{path}: the generated day cannot be written: {error.strerror or error}") from error
    return GeneratedDay(day, path, trades.num_rows)


def _write(trades: pa.Table, path: Path) -> None:
    """Write the whole file or nothing: it is made under another name that no reader takes for a day's file."""
    part = path.with_name(f".{path.name}.part")
    try:
        # No file name and no time in the header: equal days are equal bytes.
        with part.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as file:
            options = pyarrow.csv.WriteOptions(batch_size=_ROWS_AT_ONCE)
            pyarrow.csv.write_csv(trades, file, options)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
