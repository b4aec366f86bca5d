"""The rows of the statistics up to a day, of one snapshot of their table: listed once, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from cep_pipeline.warehouse.records import StatisticsRecord
from cep_pipeline.warehouse.statistics_rows import statistics_record


@dataclass(frozen=True)
class PinnedStatistics:
    """What there was of statistics at one moment.

    Attributes
    ----------
    files
        (pattern set, day) -> the file of its row.
    read
        The row in a file.
    """

    files: Mapping[tuple[str, date], str]
    read: Callable[[str], Mapping[str, Any]]

    def of(self, pattern_set: str, day: date) -> StatisticsRecord | None:
        """The statistics of a day; None where there are none.

        Raises
        ------
        InputError
            The row does not hold what it should.
        """
        path = self.files.get((pattern_set, day))
        return None if path is None else statistics_record(self.read(path))

    def before(self, pattern_set: str, day: date) -> StatisticsRecord | None:
        """The statistics of the latest earlier day that has any, over gaps; None where there are none."""
        days = self._days_before(pattern_set, day)
        return self.of(pattern_set, days[0]) if days else None

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

    def _days_before(self, pattern_set: str, day: date) -> list[date]:
        return sorted((other for name, other in self.files if name == pattern_set and other < day), reverse=True)
