from __future__ import annotations

from datetime import date, timedelta

import pytest

from cep_pipeline.generate import is_trading_day

# From the exchange's published calendars.
HOLIDAYS = {
    2013: "01-01 01-21 02-18 03-29 05-27 07-04 09-02 11-28 12-25",
    2021: "01-01 01-18 02-15 04-02 05-31 07-05 09-06 11-25 12-24",
    2022: "01-17 02-21 04-15 05-30 06-20 07-04 09-05 11-24 12-26",
    2024: "01-01 01-15 02-19 03-29 05-27 06-19 07-04 09-02 11-28 12-25",
}


@pytest.mark.parametrize("year", HOLIDAYS)
def test_closed_weekdays_are_the_exchanges_holidays(year: int) -> None:
    days = (date(year, 1, 1) + timedelta(days=k) for k in range(365 + (year % 4 == 0)))
    closed = [f"{day:%m-%d}" for day in days if day.weekday() < 5 and not is_trading_day(day)]
    assert closed == HOLIDAYS[year].split()


def test_weekends_are_closed() -> None:
    assert not any(is_trading_day(date(2024, 6, day)) for day in (1, 2, 8, 9))
