"""Detection jobs: kernels are compiled once, on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import cep_pipeline as cep
from cep_pipeline.detection.limits import Limits, Then
from cep_pipeline.errors import CepError, LimitExceeded
from cep_pipeline.slices.ownership import look_back
from cep_pipeline.spark.detection import (
    DetectedDay,
    DetectionJob,
    _packed,
    _unpacked,
    detect_range,
    estimated_work,
)
from cep_pipeline.spark.slicing import Pieces, Slice, cut, read_row_groups
from cep_pipeline.spark.tasks import Progress, run_tasks
from cep_pipeline.storage import DataDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = cep.StreamSchema.from_dict(
    {"base_type": "Ev", "type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}}
)
PATTERNS = tuple(
    cep.parse_patterns(
        "NAME up PATTERN SEQ(A a, B b, A c) WHERE a.x < b.x AND b.x < c.x WITHIN 40 us RETURN c.x AS top;"
        "NAME either PATTERN OR(SEQ(A a, B b), AND(B c, B d)) WITHIN 3 us;"
        "NAME none PATTERN A a WHERE a.x > 1000 WITHIN 1 us",
        SCHEMA,
    )
)


def detect_slices(
    spark: SparkSession,
    job: DetectionJob,
    slices: Sequence[Slice],
    progress: Progress | None = None,
    behind: Slice | None = None,
) -> DetectedDay:
    """Run one job over slices."""
    return detect_range(spark, job, slices, behind, progress)


def make_job(folder: Path) -> tuple[DetectionJob, cep.StreamSchema, list[str]]:
    rows = [{"timestamp": t, "kind": "AB"[t % 3 == 0], "x": (t * 7919) % 101} for t in range(400)]
    table = SCHEMA.table(rows)
    path = folder / "events.parquet"
    pq.write_table(table, path, row_group_size=50)
    plan = cep.plan(PATTERNS, cep.estimate_statistics(PATTERNS, table))
    directory = DataDirectory(str(folder / "matches"), "run")
    job = DetectionJob(
        patterns=PATTERNS,
        plan=plan,
        pattern_set="set",
        pattern_set_version="version",
        final_day=date(2024, 1, 1),
        directory=directory,
    )
    return job, table, [str(path)]


@pytest.mark.long
def test_a_job_over_slices_of_equal_work_finds_what_one_detection_finds(either: SparkSession, tmp_path: Path) -> None:
    job, table, paths = make_job(tmp_path)
    pieces = Pieces.read(read_row_groups(paths))
    work, _ = estimated_work(PATTERNS, job.plan, pieces, Limits())
    slices = cut(pieces, start=(0, 0), end=(10_000, 0), look_back=look_back(PATTERNS), count=7, work=work)
    assert len(slices) > 3 and all(one.row_groups[0].first < one.start for one in slices[1:]), "they look back"
    seen: list[tuple[int, int]] = []
    detected = detect_slices(either, job, slices, lambda done, total: seen.append((done, total)))
    whole = cep.detect(PATTERNS, table)
    assert detected.matches == {name: found.num_rows for name, found in whole.items()}
    assert detected.matches["up"] > 0 and detected.matches["either"] > 0 and detected.matches["none"] == 0
    written = [row for path in detected.files for row in pq.read_table(path, partitioning=None).to_pylist()]
    for name, found in whole.items():
        assert [row["match_id"] for row in written if row["pattern"] == name] == found["match_id"].to_pylist()
    assert {(row["pattern_set"], row["pattern_version"], row["final_day"]) for row in written} == {
        ("set", "version", date(2024, 1, 1))
    }
    assert seen[0] == (0, len(slices)) and seen[-1] == (len(slices), len(slices))
    assert sorted(seen) == seen


@pytest.mark.parametrize("then", ["count", "fail"])
def test_a_limit_holds_for_all_slices_together(either: SparkSession, tmp_path: Path, then: Then) -> None:
    job, table, paths = make_job(tmp_path)
    counts = {name: found.num_rows for name, found in cep.detect(PATTERNS, table).items()}
    most, number = max(counts.items(), key=lambda one: one[1])
    groups = read_row_groups(paths)
    slices = cut(Pieces.even(groups), start=(0, 0), end=(10_000, 0), look_back=look_back(PATTERNS), count=4)
    job = replace(job, limits=Limits(max_matches=number - 1), then=then)
    if then == "fail":
        with pytest.raises(LimitExceeded, match=rf"2024-01-01: pattern '{most}' reached its limit, max_matches"):
            detect_slices(either, job, slices)
        return
    detected = detect_slices(either, job, slices)
    assert (detected.limited[most].matches, detected.limited[most].exact) == (number, True)
    written = {row for path in detected.files for row in pq.read_table(path, partitioning=None)["pattern"].to_pylist()}
    assert written == {name for name in counts if counts[name] and name != most} and detected.matches[most] == 0


def test_a_worker_reads_the_patterns_and_their_plan_once_for_all_slices(tmp_path: Path) -> None:
    job, _, _ = make_job(tmp_path)
    read = _unpacked(_packed(job))
    assert read.patterns == job.patterns and read is _unpacked(_packed(job))
    assert [one.clauses[0].order for one in read.plan.patterns] == [one.clauses[0].order for one in job.plan.patterns]
    assert _unpacked(_packed(replace(job, patterns=job.patterns[:2]))).patterns == job.patterns[:2]


def test_an_error_of_a_task_arrives_as_it_is_and_an_unforeseen_one_is_explained(spark: SparkSession) -> None:
    def refuse(task: int, attempt: int) -> int:
        raise cep.DataError(f"task {task} refuses")

    def break_down(task: int, attempt: int) -> float:
        return 1 / task

    with pytest.raises(cep.DataError, match=r"task [12] refuses"):  # whichever is seen first
        run_tasks(spark, refuse, [1, 2], what="refusing")
    with pytest.raises(CepError, match=r"dividing.*ZeroDivisionError"):
        run_tasks(spark, break_down, [0], what="dividing")
    assert run_tasks(spark, break_down, [], what="nothing") == []
