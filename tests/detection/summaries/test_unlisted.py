"""Rows of SUMMARIZE that are made of numbers of matches are those that listed matches give."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.detection.mechanisms import EVERYTHING
from cep_pipeline.detection.summaries import unlisted
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.slices.prepared import PreparedEvents
from tests.pipeline.local_days import LocalDays, events_by_day

SCHEMA = StreamSchema.from_dict(
    {
        "type_attribute": "kind",
        "attributes": {"kind": "string", "x": "int64", "y": "float64", "s": "string", "id": "int64"},
        "timezone": "America/New_York",
    }
)
AUTUMN_US = 1_383_450_000_000_000
TEXTS = (
    "PATTERN SEQ(A a, B b, C c) WITHIN 200 minutes SUMMARIZE count(*), sum(b.x), avg(b.x), min(b.x), max(c.x), "
    "sum(a.y), avg(a.y), min(a.y), max(a.y), max(c.s), min(a.y * 2) GROUP BY a.s, c.id",
    "PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 900 minutes SUMMARIZE count(*), max(b.y) GROUP BY bucket(1 h), a.s",
    "PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 5 h SUMMARIZE sum(b.x), sum(a.id) GROUP BY bucket(40 min)",
    "PATTERN K+ k[] WITHIN 100 minutes SUMMARIZE count(*), sum(sum(k[].x)), avg(sum(k[].x)), sum(k.LEN), avg(k.LEN)",
    "PATTERN SEQ(A a, K+ k[], B b) WHERE k[].id < 2 AND a.id = b.id WITHIN 300 minutes "
    "SUMMARIZE count(*), sum(sum(k[].x)), avg(k.LEN), max(b.x) GROUP BY a.s, bucket(2 hours)",
    "PATTERN SEQ(A a, K+ k[]) WHERE k[].x > a.x WITHIN 100 minutes SUMMARIZE sum(sum(k[].x)), max(a.x) GROUP BY a.s",
    "PATTERN SEQ(A a, ~B n, C c) WITHIN 200 minutes SUMMARIZE count(*), avg(a.y) GROUP BY bucket(1 day)",
    "PATTERN SEQ(A a, C c) WITHIN 30 EVENTS PARTITION BY id SUMMARIZE count(*), sum(c.x) GROUP BY a.s",
)
LISTED = (
    "PATTERN SEQ(A a, B b) WITHIN 1 day SUMMARIZE sum(a.x + b.x)",
    "PATTERN SEQ(A a, K+ k[]) WITHIN 1 hour SUMMARIZE max(k.LEN)",
    "PATTERN SEQ(A a, K+ k[]) WITHIN 1 hour SUMMARIZE sum(sum(k[].y))",
    "PATTERN SEQ(A a, K+ k[]) WITHIN 1 hour SUMMARIZE sum(k[1].x)",
    "PATTERN SEQ(A a, B b) WITHIN 1 day OUTPUT NON_OVERLAP SUMMARIZE count(*)",
    "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { TRUE } WITHIN 1 day SUMMARIZE count(*)",
)


def rows_of(seed: int, number: int = 60) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "timestamp": AUTUMN_US + at * 400_000_000,
            "kind": draw.choice("ABCK"),
            "x": draw.choice([None, draw.randrange(-50, 50), draw.randrange(2**40)]),
            "y": draw.choice([None, math.nan, math.inf, 1e300, 0.1]) if draw.random() < 0.3 else draw.random(),
            "s": draw.choice(["p", "q", None]),
            "id": draw.randrange(3),
        }
        for at in range(number)
    ]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches are counted however few they are."""
    count = unlisted.count_matches
    monkeypatch.setattr(unlisted, "FEW_MATCHES", -1)
    monkeypatch.setattr(unlisted, "count_matches", lambda *of, always=True: count(*of, always=True))


def unlisted_of(pattern: cep.Pattern, events: pa.Table) -> pa.Table | None:
    prepared = PreparedEvents(events, type_attribute="kind")
    made = unlisted.summarize_unlisted(pattern, prepared, EVERYTHING)
    return None if made is None else made.table()


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("text", TEXTS)
def test_numbers_of_matches_give_the_rows(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [pattern] = cep.parse_patterns(text, SCHEMA)
    for seed in range(2):
        events = SCHEMA.table(rows_of(seed))
        made = unlisted_of(pattern, events)
        assert made is not None
        with monkeypatch.context() as patched:
            patched.setattr(unlisted, "summarize_unlisted", lambda *_: None)
            listed = cep.detect([pattern], events)["pattern_1"]
        assert repr(made.to_pylist()) == repr(listed.to_pylist())


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("text", LISTED)
def test_other_summaries_are_listed(text: str) -> None:
    [pattern] = cep.parse_patterns(text, SCHEMA)
    assert unlisted_of(pattern, SCHEMA.table(rows_of(1))) is None


@pytest.mark.usefixtures("always")
def test_days_and_slices_add_up(tmp_path: Path) -> None:
    patterns = tuple(cep.parse_patterns(";".join(f"NAME p{at} {text}" for at, text in enumerate(TEXTS)), SCHEMA))
    by_day = events_by_day(SCHEMA, [{**row, "timestamp": 0} for row in rows_of(3, 40)], [1.5] * 40)
    days = LocalDays(SCHEMA, patterns, tmp_path)
    for day, events in by_day.items():
        days.publish_events(day, events)
        days.detect(day)
    whole = cep.detect(patterns, pa.concat_tables(by_day.values()))
    for pattern in patterns:
        together = unlisted.PartialSummary(pattern)
        for found in days.detected.values():
            together.add(unlisted.PartialSummary.from_json(pattern, found.summaries[pattern.name]))
        assert repr(together.table().to_pylist()) == repr(whole[pattern.name].to_pylist()), pattern.name


def test_a_list_of_any_length_is_exact() -> None:
    events = SCHEMA.table([{"timestamp": at, "kind": "K", "x": at} for at in range(300)])
    text = "PATTERN K+ k[] WITHIN 1 hour SUMMARIZE count(*) AS n, sum(sum(k[].x)) AS x, avg(k.LEN) AS length"
    [row] = cep.detect(cep.parse_patterns(text, SCHEMA), events)["pattern_1"].to_pylist()
    assert int(row["n"]) == 2**300 - 1
    assert int(row["x"]) == sum(range(300)) * 2**299
    assert row["length"] == 300 * 2**299 / (2**300 - 1)
