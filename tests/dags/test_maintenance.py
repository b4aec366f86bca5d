"""The DAGs of the warehouse: when they run, and what comes of a warehouse that is whole, and of one that is not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cep_pipeline.pipeline.configuration import Configuration
from tests.pipeline.drift import DRIFT_DAYS, DriftingStream, write_project


@pytest.mark.parametrize(("dag_id", "next_run"), [("maintain", (8, 3, 30)), ("verify", (13, 4, 30))])
def test_they_run_when_little_else_does(dags: dict[str, Any], dag_id: str, next_run: tuple[int, int, int]) -> None:
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.timetables.base import TimeRestriction

    dag = dags[dag_id]
    assert (dag.max_active_runs, dag.catchup, dag.task_ids) == (1, False, [dag_id])
    assert all(task.retries > 0 for task in dag.tasks)
    timetable = DagSerialization.from_dict(DagSerialization.to_dict(dag)).timetable
    start = datetime(2013, 10, 8, 1, tzinfo=UTC)  # a Tuesday
    run = timetable.next_dagrun_info(last_automated_data_interval=None, restriction=TimeRestriction(start, None, True))
    assert (run.run_after.day, run.run_after.hour, run.run_after.minute) == next_run


def test_they_do_as_the_commands(airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cep_tasks
    from cep_tasks import UserError

    given = {"grace_hours": 24.0, "keep_days": 0.0, "deep": True}
    monkeypatch.setattr(cep_tasks, "get_current_context", lambda: {"params": given})
    write_project(tmp_path)
    monkeypatch.setenv("CEP_CONFIG", str(tmp_path / "pipeline.yaml"))
    DriftingStream(tmp_path).publish(DRIFT_DAYS[:2])
    whole = cep_tasks.verify_warehouse()
    assert whole["tables"] == 7 and whole["files"] > 2
    maintained = cep_tasks.maintain_warehouse()
    assert maintained["expired_snapshots"] > 0 and maintained["removed_files"] == 0
    warehouse = Configuration.load(tmp_path / "pipeline.yaml").open_warehouse()
    lost = warehouse.open_stream("ticks").events_files()[0].path
    Path(lost).unlink()
    with pytest.raises(UserError, match=rf"1 damage\(s\) in .*; the first is {lost}.* cep run --stream ticks"):
        cep_tasks.verify_warehouse()
