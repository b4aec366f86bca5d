"""A fixed tenth of the conformance cases as Spark jobs, with slice boundaries between every two events.

`make test` takes an eighth of this tenth, `make test-all` all of it. What composes matches is not found slice by slice
(tests/pipeline/test_composition.py), nor are the rows of SUMMARIZE (tests/pipeline/test_summaries.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cep_pipeline as cep
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import counts_in_partitions, look_back, not_by_day, waits_for_later_events
from cep_pipeline.spark.detection import DetectionJob
from cep_pipeline.spark.partitions import PartitionedEvents
from cep_pipeline.spark.slicing import Slice, read_row_groups, slices_between
from cep_pipeline.storage import DataDirectory
from tests.conformance import CASES, Case
from tests.spark.test_detection import detect_slices
from tests.thoroughness import part_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWERED = [case for case in CASES if case.matches]
EVERY_TENTH = part_of(ANSWERED[::10], 0)
FIRST, FAR = -(2**61), 2**61
"""Before and behind all events of the cases."""


def matches_in_slices(
    spark: SparkSession, patterns: Sequence[Pattern], events: pa.Table, folder: Path
) -> dict[str, list[tuple[tuple[str, int], ...]]]:
    """Bindings by pattern, in the order of the slices; each slice reads from a file of row groups of one event."""
    path = folder / "events.parquet"
    pq.write_table(events, path, row_group_size=1)
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, events))
    groups = read_row_groups([str(path)])
    start, end = (FIRST, 0), (FAR, 0)
    counting = [pattern for pattern in patterns if counts_in_partitions(pattern)]
    job = DetectionJob(
        patterns=tuple(patterns),
        plan=plan,
        pattern_set="set",
        pattern_set_version="version",
        final_day=date(2024, 1, 1),
        directory=DataDirectory(str(folder / "matches"), "run"),
        candidates=DataDirectory(str(folder / "candidates"), "run"),
        partitioned=tuple(
            PartitionedEvents(
                partition_by,
                look_back(p for p in counting if p.partition_by == partition_by).positions,
                row_groups=tuple(groups),
                start_us=FIRST,
            )
            for partition_by in dict.fromkeys(pattern.partition_by for pattern in counting)
        ),
        horizons_us=dict.fromkeys(pattern.name for pattern in patterns),
        end_of_stream=True,
    )
    reaching = look_back(patterns)
    slices = slices_between(groups, [start, *(group.first for group in groups), end], reaching)
    behind = slices_between(groups, [end, None], reaching)
    detected = detect_slices(spark, job, slices, behind=behind[0] if behind else Slice(end, None, (), reaching))
    found: dict[str, list[tuple[tuple[str, int], ...]]] = {pattern.name: [] for pattern in patterns}
    for file in detected.files:
        for row in pq.read_table(file, partitioning=None).to_pylist():
            found[row["pattern"]].append(tuple((item["variable"], item["seq"]) for item in row["bindings"]))
    assert {name: len(bindings) for name, bindings in found.items()} == detected.matches
    return found


@pytest.mark.long
@pytest.mark.parametrize("case", EVERY_TENTH, ids=str)
def test_case_in_slices_between_every_two_events(case: Case, spark: SparkSession, tmp_path: Path) -> None:
    patterns = [one for one in case.patterns if not (one.composes or one.summary is not None or not_by_day(one))]
    found = matches_in_slices(spark, patterns, case.events, tmp_path)
    for statement, pattern in enumerate(case.patterns):
        if pattern not in patterns:
            continue
        expected = [match.bindings for match in case.matches or () if match.statement == statement]
        if waits_for_later_events(pattern):  # in the order in which they are final
            assert sorted(found[pattern.name]) == sorted(expected)
        else:
            assert found[pattern.name] == expected
