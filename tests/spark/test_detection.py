"""Detection jobs: kernels are compiled once, on the driver."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import cep_pipeline as cep
from cep_pipeline.compiled import object_code
from cep_pipeline.detection.extent import look_back
from cep_pipeline.detection.fused import tiers
from cep_pipeline.errors import CepError
from cep_pipeline.spark.detection import DetectionJob, compiled_kernels, detect_slices
from cep_pipeline.spark.slicing import cut, read_row_groups
from cep_pipeline.spark.tasks import run_tasks
from cep_pipeline.warehouse.data_files import DataDirectory

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


def make_job(folder: Path) -> tuple[DetectionJob, cep.StreamSchema, list[str]]:
    rows = [{"timestamp": t, "kind": "AB"[t % 3 == 0], "x": (t * 7919) % 101} for t in range(400)]
    table = SCHEMA.table(rows)
    path = folder / "events.parquet"
    pq.write_table(table, path, row_group_size=50)
    plan = cep.plan(PATTERNS, cep.estimate_statistics(PATTERNS, table))
    directory = DataDirectory(str(folder / "matches"), "run")
    return DetectionJob(PATTERNS, plan, "set", "version", date(2024, 1, 1), directory), table, [str(path)]


def test_a_job_over_slices_finds_what_one_detection_finds(spark: SparkSession, tmp_path: Path) -> None:
    job, table, paths = make_job(tmp_path)
    groups = read_row_groups(paths)
    slices = cut(groups, start=(0, 0), end=(10_000, 0), look_back=look_back(PATTERNS), count=7, work=lambda g: g.rows)
    seen: list[tuple[int, int]] = []
    detected = detect_slices(spark, job, slices, lambda done, total: seen.append((done, total)))
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
    candidates = {(node.pattern, node.node): node for node in detected.nodes}
    assert candidates["none", ("a",)].passes == 0


def test_tasks_get_the_kernels_that_the_driver_compiled(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, table, paths = make_job(tmp_path)
    groups = read_row_groups(paths)
    slices = cut(groups, start=(0, 0), end=(10_000, 0), look_back=look_back(PATTERNS), count=2, work=lambda g: g.rows)
    assert not compiled_kernels(job, slices)  # too little to do for code of their own
    monkeypatch.setattr(tiers, "COMPILED_FROM", 0)
    code = compiled_kernels(job, slices)
    assert code
    monkeypatch.setenv("CEP_CACHE_DIR", str(tmp_path / "empty"))
    compiled: list[str] = []
    compile_ir = object_code.compile_ir
    monkeypatch.setattr(object_code, "compile_ir", lambda ir: compiled.append(ir) or compile_ir(ir))
    object_code.library.cache_clear()
    tiers.forget_shapes()
    object_code.adopt(code)
    cep.detect(PATTERNS[:1], table, plan=job.plan)
    assert not any("define i64 @run(" in ir for ir in compiled)


def test_an_error_of_a_task_arrives_as_it_is_and_an_unforeseen_one_is_explained(spark: SparkSession) -> None:
    def refuse(task: int, attempt: int) -> int:
        raise cep.DataError(f"task {task} refuses")

    def break_down(task: int, attempt: int) -> float:
        return 1 / task

    with pytest.raises(cep.DataError, match="task 1 refuses"):
        run_tasks(spark, refuse, [1, 2], what="refusing")
    with pytest.raises(CepError, match=r"dividing.*ZeroDivisionError"):
        run_tasks(spark, break_down, [0], what="dividing")
    assert run_tasks(spark, break_down, [], what="nothing") == []
