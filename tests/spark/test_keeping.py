"""OUTPUT and CONSUME over slices, with boundaries between every two events, in one job and in one a slice."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import cep_pipeline as cep
from cep_pipeline.slices.ownership import look_back
from cep_pipeline.spark.detection import DetectionJob
from cep_pipeline.spark.keeping import CarryState
from cep_pipeline.spark.slicing import read_row_groups, slices_between
from cep_pipeline.storage import DataDirectory
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, without_composed
from tests.spark.test_detection import detect_slices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = cep.StreamSchema.from_dict(
    {"base_type": "Ev", "type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}}
)
PATTERNS = tuple(
    cep.parse_patterns(
        "NAME apart PATTERN SEQ(Ev a, Ev b) WHERE a.x < b.x WITHIN 9 us PARTITION BY kind OUTPUT NON_OVERLAP;"
        "NAME all PATTERN SEQ(A a, B b) WITHIN 4 us;"
        "NAME once PATTERN OR(SEQ(A a, B b), AND(B c, B d)) WITHIN 6 us CONSUME MATCHED RETURN a.x AS x;"
        "NAME none PATTERN A a WHERE a.x > 1000 WITHIN 1 us OUTPUT NON_OVERLAP",
        SCHEMA,
    )
)


@pytest.mark.long
def test_a_job_decides_as_one_detection(either: SparkSession, tmp_path: Path) -> None:
    rows = [{"timestamp": t * 3 // 2, "kind": "AB"[t % 3 == 0], "x": (t * 7919) % 101} for t in range(24)]
    table = SCHEMA.table(rows)
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=10)
    groups = read_row_groups([str(tmp_path / "events.parquet")])
    whole = cep.detect(PATTERNS, table)
    assert all(found.num_rows > 2 for name, found in whole.items() if name != "none")
    job = DetectionJob(
        patterns=PATTERNS,
        plan=cep.plan(PATTERNS, cep.estimate_statistics(PATTERNS, table)),
        pattern_set="set",
        pattern_set_version="version",
        final_day=date(2024, 1, 1),
        directory=DataDirectory(str(tmp_path / "matches"), "run"),
        candidates=DataDirectory(str(tmp_path / "candidates"), "run"),
        horizons_us=horizons_us(100),
    )
    points = [*zip(table["timestamp"].cast("int64").to_pylist(), table["seq"].to_pylist(), strict=True), (100, 0)]
    slices = slices_between(groups, points, look_back(PATTERNS))
    at_once = detect_slices(either, job, slices)
    assert rows_of(at_once.files) == {name: found["match_id"].to_pylist() for name, found in whole.items()}
    assert at_once.matches == {name: found.num_rows for name, found in whole.items()}
    days = [point for place, point in enumerate(points) if place % 6 == 0 or place == len(points) - 1]
    files: list[str] = []
    state = CarryState("version")
    for number, (start, end) in enumerate(pairwise(days)):
        of_day = slices_between(groups, [p for p in points if start <= p <= end], look_back(PATTERNS))
        directory = DataDirectory(str(tmp_path / f"matches-{number}"), "run")
        detected = detect_slices(
            either, replace(job, directory=directory, carry_in=state, horizons_us=horizons_us(end[0])), of_day
        )
        files += detected.files
        state = CarryState.from_json(detected.carry_out, "version")
    assert rows_of(files) == rows_of(at_once.files)
    assert state.to_json() == at_once.carry_out


def horizons_us(end_us: int) -> dict[str, int | None]:
    return {pattern.name: end_us - (pattern.window.time_us or 0) for pattern in PATTERNS}


def rows_of(files: tuple[str, ...] | list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {pattern.name: [] for pattern in PATTERNS}
    for path in files:
        table = pq.read_table(path, partitioning=None)
        assert table.schema.names == without_composed(MATCHES_SCHEMA).names
        for row in table.to_pylist():
            found[row["pattern"]].append(row["match_id"])
    return found


def test_another_version_of_the_pattern_set_starts_anew() -> None:
    state = CarryState("v1", {"p": {"consumed": [[1, 2]]}})
    assert CarryState.from_json(state.to_json(), "v1") == state
    assert CarryState.from_json(state.to_json(), "v2") == CarryState("v2")
    assert CarryState("v1").to_json() == {}
    assert CarryState.from_json({}, "v1") == CarryState("v1")
