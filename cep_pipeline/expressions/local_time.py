"""The local clock of a time zone, vectorized: what `time_of_day` and `day_of_week` read.

A zone is a table of instants and of the distances from UTC between them, made once by asking Python's `zoneinfo`, so
that Python and the kernels agree. Before the table the distance is the first one. Behind it the rules of every zone
repeat themselves with the Gregorian calendar, every 400 years.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from cep_pipeline.expressions.arithmetic import both_valid
from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.patterns.expressions import ValueType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_STEP, _LATE_STEP = timedelta(days=2), timedelta(days=28)
"""Two changes of a clock are further apart than this; from `_RULES` on, when all follow a yearly rule, than that."""

DAY_US = 86_400_000_000
CYCLE_US = 146_097 * DAY_US
"""400 years of the Gregorian calendar, a whole number of weeks."""
FIRST_US = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
END_US = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // _MICROSECOND + DAY_US
"""The years 1 to 9999, of which alone the clock is known."""
_TABLE_FROM = datetime(1800, 1, 1, tzinfo=UTC)
_TABLE_END = datetime(2500, 1, 1, tzinfo=UTC)
_RULES = datetime(2100, 1, 1, tzinfo=UTC)
REPEATED_US = (_RULES - _EPOCH) // _MICROSECOND
"""The instant from which on the table holds one whole cycle of the rules, which later ones repeat."""


@dataclass(frozen=True, eq=False)
class LocalClock:
    """The clock of a zone.

    Attributes
    ----------
    changes
        int64, shape (n,): microseconds since the epoch at which the distance from UTC changes, ascending.
    offsets
        int64, shape (n + 1,): the distance before the first change, and from each change on.
    """

    changes: Array
    offsets: Array

    def local(self, instants: Array) -> tuple[Array, Array | None]:
        """The microseconds of the local calendar at instants, and where they are known (None: everywhere)."""
        known = (instants >= FIRST_US) & (instants < END_US)
        inside = np.where(known, instants, 0)
        behind = inside >= REPEATED_US
        if behind.any():
            inside = np.where(behind, REPEATED_US + (inside - REPEATED_US) % CYCLE_US, inside)
        local = np.where(known, instants, 0) + self.offsets[np.searchsorted(self.changes, inside, "right")]
        known &= (local >= FIRST_US) & (local < END_US)
        return local, None if known.all() else known


@lru_cache(maxsize=32)
def local_clock(zone: str) -> LocalClock:
    """The clock of a zone, by its IANA name."""
    at = ZoneInfo(zone)

    def offset(instant: datetime) -> int:
        found = instant.astimezone(at).utcoffset()
        assert found is not None
        return found // _MICROSECOND

    changes: list[int] = []
    begin, held = _TABLE_FROM, offset(_TABLE_FROM)
    offsets = [held]
    while begin < _TABLE_END:
        end = begin + (_STEP if begin < _RULES else _LATE_STEP)
        new = offset(end)
        if new != held:
            low, high = (begin - _EPOCH) // _MICROSECOND, (end - _EPOCH) // _MICROSECOND
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if offset(_EPOCH + middle * _MICROSECOND) == new else (middle, high)
            changes.append(high)
            offsets.append(new)
        begin, held = end, new
    return LocalClock(np.array(changes, np.int64), np.array(offsets, np.int64))


def clock_reading(function: str, instants: Column, zone: str) -> Column:
    """`time_of_day(x)` or `day_of_week(x)` of instants in microseconds since the epoch."""
    local, known = local_clock(zone).local(instants.values)
    days = local // DAY_US
    values = local - days * DAY_US if function == "time_of_day" else (days + 3) % 7 + 1  # 1970-01-01 is a Thursday
    return Column(ValueType.INT64, values, both_valid(instants.valid, known))
