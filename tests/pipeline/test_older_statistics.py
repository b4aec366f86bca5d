"""Published statistics that this version cannot read: the day counts as one without, and that is said."""

from __future__ import annotations

import logging
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from cep_pipeline.pipeline.statistics import published_statistics
from cep_pipeline.statistics import StatisticsSnapshot
from tests.statistics.market import parse

DAY = date(2025, 1, 6)


def published(content: Any) -> StatisticsSnapshot | None:
    """What the day's statistics are where the warehouse holds `content`."""
    tables = SimpleNamespace(read_statistics=lambda _name, _day: content)
    pattern_set = SimpleNamespace(name="market", patterns=parse("PATTERN A a WITHIN 1 second"))
    return published_statistics(SimpleNamespace(tables=tables, day=DAY), pattern_set)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"version": 1, "stream": "market", "events": 3, "rates": [], "selectivities": []}, "version 1"),
        ({"version": 3}, "it has no events, rates, selectivities, stream"),
    ],
)
def test_a_row_that_cannot_be_read_counts_as_none(content: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert published(content) is None
    assert said in caplog.text
    assert str(DAY) in caplog.text


def test_statistics_of_other_patterns_are_none() -> None:
    assert published(None) is None
    assert published(StatisticsSnapshot().to_json()) is None
