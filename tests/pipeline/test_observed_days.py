"""Detection day by day counts what one detection over all days counts: work at nodes, last events of matches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.spark.detection import DetectedDay
from cep_pipeline.statistics.observed import Observed, OutputProfiler, merge_profiles
from tests.pipeline.local_days import LocalDays, events_by_day

SCHEMA = cep.StreamSchema.from_dict(
    {"base_type": "Tick", "type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}}, name="ticks"
)
TEXT = """
NAME chain PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 9 hours;
NAME all   PATTERN AND(A a, B b, C c) WHERE a.x < b.x WITHIN 9 hours;
NAME apart PATTERN AND(A a, B b) WITHIN 9 hours OUTPUT NON_OVERLAP;
NAME late  PATTERN SEQ(AND(A a, B b), ~C c) WITHIN 5 hours CONSUME MATCHED;
NAME lists PATTERN AND(A a, B+ b[]) WITHIN 4 hours
"""


def detect_days(folder: Path, patterns: list[Pattern], slices: int) -> tuple[pa.Table, list[DetectedDay]]:
    draw = np.random.default_rng(11)
    rows = [{"kind": str(kind), "x": int(draw.integers(20))} for kind in draw.choice(list("ABC"), 60)]
    by_day = events_by_day(SCHEMA, rows, draw.choice([0.5, 1.0, 2.0, 0.0], 60))
    days = LocalDays(SCHEMA, tuple(patterns), folder, slices=slices)
    for day, events in by_day.items():
        days.publish_events(day, events)
    found = [days.detect(day, end_of_stream=day == max(by_day)) for day in by_day]
    return pa.concat_tables(by_day.values()), found


@pytest.mark.parametrize("slices", [1, 3])
def test_the_profiles_of_all_days_are_those_of_one_detection(tmp_path: Path, slices: int) -> None:
    patterns = cep.parse_patterns(TEXT, SCHEMA)
    events, days = detect_days(tmp_path, patterns, slices)
    profiler = OutputProfiler(patterns)
    for name, table in cep.detect(patterns, events).items():
        profiler.add_rows(name, table)
    expected = {(profile.pattern, profile.variables): profile for profile in profiler.profiles()}
    merged = merge_profiles(profile for day in days for profile in day.observed.profiles)
    assert {(profile.pattern, profile.variables): profile for profile in merged} == expected
    assert {pattern for pattern, _ in expected} == {"all", "apart", "late", "lists"}


def test_what_is_observed_is_handed_on_as_json(tmp_path: Path) -> None:
    _, days = detect_days(tmp_path, cep.parse_patterns(TEXT, SCHEMA), 2)
    for day in days:
        again = DetectedDay.from_json(json.loads(json.dumps(day.to_json())))
        assert again.observed == day.observed != Observed(())
