"""The rows of the statistics up to a day, of one snapshot of their table: listed once, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from cep_pipeline.warehouse.records import StatisticsRecord
from cep_pipeline.warehouse.statistics_rows import statistics_record


@dataclass(frozen=True)
class PinnedStatistics:
    """What there was of statistics at one moment.

    Attributes
    ----------
    listed
        From a day on (None: all): (pattern set, day) -> the file of its row. Of one snapshot of the table.
    read
        The row in a file.
    first
        The day from which on rows are listed before others are needed.
    """

    listed: Callable[[date | None], Mapping[tuple[str, date], str]]
    read: Callable[[str], Mapping[str, Any]]
    first: date | None = None

    def of(self, pattern_set: str, day: date) -> StatisticsRecord | None:
        """The statistics of a day; None where there are none.

        Raises
        ------
        InputError
            The row does not hold what it should.
        """
        files = self._recent if self.first is None or day >= self.first else self._all
        path = files.get((pattern_set, day))
        return None if path is None else statistics_record(self.read(path))

    def before(self, pattern_set: str, day: date) -> StatisticsRecord | None:
        """The statistics of the latest earlier day that has any, over gaps; None where there are none."""
        return next((self.of(pattern_set, earlier) for earlier in self._days_before(pattern_set, day)), None)

    def observed_before(self, pattern_set: str, day: date) -> tuple[date, Mapping[str, Any]] | None:
        """What detection counted on the latest earlier day on which it counted anything, and that day.

        Raises
        ------
        InputError
            It is no JSON.
        """
        for earlier in self._days_before(pattern_set, day):
            record = self.of(pattern_set, earlier)
            if record is not None and record.observed is not None:
                return record.day, record.observed
        return None

    def _days_before(self, pattern_set: str, day: date) -> Iterator[date]:
        """The earlier days that have a row, the latest first."""

        def earlier(files: Mapping[tuple[str, date], str]) -> set[date]:
            return {other for name, other in files if name == pattern_set and other < day}

        recent = earlier(self._recent)
        yield from sorted(recent, reverse=True)
        yield from sorted(earlier(self._all) - recent, reverse=True)

    @cached_property
    def _recent(self) -> Mapping[tuple[str, date], str]:
        return self.listed(self.first)

    @cached_property
    def _all(self) -> Mapping[tuple[str, date], str]:
        return self._recent if self.first is None else self.listed(None)
