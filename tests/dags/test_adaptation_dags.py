"""The DAGs that check plans and make them again: when they run, what they are given, what they start."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.drift import DRIFT_DAYS, DriftingStream, write_project

STREAM = "us_equity_trades"


def timetable(dags: dict[str, Any], dag_id: str) -> Any:
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.from_dict(DagSerialization.to_dict(dags[dag_id])).timetable


def test_checks_run_every_morning_and_when_the_events_are_updated(dags: dict[str, Any]) -> None:
    from airflow.timetables.base import TimeRestriction

    both = timetable(dags, f"invariant_check_{STREAM}")
    (asset,) = [key.uri for key, _ in both.asset_condition.iter_assets()]
    assert asset == f"cep://{STREAM}/events"
    restriction = TimeRestriction(datetime(2013, 10, 8, 1, tzinfo=UTC), None, False)
    run = both.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    assert run.run_after.astimezone(UTC).hour in (10, 11), "six in New York"


def test_one_dag_checks_the_plans_of_a_stream(dags: dict[str, Any]) -> None:
    assert [name for name in dags if "invariant" in name and STREAM in name] == [f"invariant_check_{STREAM}"]


def test_a_published_day_starts_a_check(dags: dict[str, Any]) -> None:
    # Airflow tells an update of a partition to DAGs of partitions only: the days of the one and the other must agree.
    days, checks = (timetable(dags, f"{name}_{STREAM}") for name in ("daily_detection", "invariant_check"))
    assert not days.partitioned and not checks.partitioned
    outlets = dags[f"daily_detection_{STREAM}"].get_task("publish").outlets
    assert {asset.uri for asset in outlets} >= {key.uri for key, _ in checks.asset_condition.iter_assets()} != set()


def test_a_violation_starts_one_replanning_run(dags: dict[str, Any]) -> None:
    dag = dags[f"invariant_check_{STREAM}"]
    assert dag.get_task("check").downstream_task_ids == {"replan"}
    trigger = dag.get_task("replan")
    assert trigger.partial_kwargs["trigger_dag_id"] == f"replanning_{STREAM}"
    assert trigger.partial_kwargs["skip_when_already_exists"] is True
    assert trigger.partial_kwargs["logical_date"] is None, "runs of the same moment are different runs"


def test_the_form_of_a_replanning_has_lists(dags: dict[str, Any]) -> None:
    dag = dags[f"replanning_{STREAM}"]
    assert not dag.timetable.can_be_scheduled
    params = {name: dag.params.get_param(name) for name in dag.params}
    assert params["pattern_set"].schema["enum"] == ["market"] and params["pattern_set"].value == "market"
    assert params["reason"].value == "by hand"
    assert params["violation"].value is None


class OtherRuns:
    """The task instance of a context, as far as it is asked about the runs of other DAGs."""

    def __init__(self, *failed: str) -> None:
        self.failed = failed

    def get_dr_count(self, dag_id: str, run_ids: list[str], states: list[str]) -> int:
        assert (dag_id, states) == ("replanning_ticks", ["failed"])
        return sum(one in self.failed for one in run_ids)


def run_task(
    monkeypatch: pytest.MonkeyPatch, function: str, run_id: str, others: OtherRuns | None = None, **params: Any
) -> Any:
    """Call a task's function in the context of a run with these parameters."""
    import cep_tasks

    given = {"pattern_set": None, **params}
    context = {"params": given, "run_id": run_id, "ti": others or OtherRuns()}
    monkeypatch.setattr(cep_tasks, "get_current_context", lambda: context)
    return getattr(cep_tasks, function)("ticks")


def test_a_check_hands_on_what_the_replanning_takes(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path)
    monkeypatch.setenv("CEP_CONFIG", str(tmp_path / "pipeline.yaml"))
    drifting = DriftingStream(tmp_path)
    drifting.publish(DRIFT_DAYS[:2])
    assert run_task(monkeypatch, "check_plans", "morning") == []
    drifting.publish([DRIFT_DAYS[2]])
    (found,) = run_task(monkeypatch, "check_plans", "day")
    assert run_task(monkeypatch, "check_plans", "next-morning") == [found], "one run, however often it is seen"
    name = found["trigger_run_id"]
    (second,) = run_task(monkeypatch, "check_plans", "its run has failed", OtherRuns(name))
    assert second == {**found, "trigger_run_id": f"{name}__attempt_2"}
    (third,) = run_task(monkeypatch, "check_plans", "so has the next", OtherRuns(name, second["trigger_run_id"]))
    assert third["trigger_run_id"] == f"{name}__attempt_3"
    form = found["conf"]
    done = run_task(monkeypatch, "plan_again", found["trigger_run_id"], **form)
    assert (done["outcome"], done["plan_version"]) == ("replaced", 2)
    assert run_task(monkeypatch, "plan_again", found["trigger_run_id"], **form) == done, "a task that is repeated"
    assert run_task(monkeypatch, "check_plans", "afterwards") == []
    by_hand = {"pattern_set": "all", "reason": "a try", "violation": None}
    kept = run_task(monkeypatch, "plan_again", "manual__1", **by_hand)
    assert kept["outcome"] == "kept" and kept["reason"].startswith("a try; ")


def test_what_will_fail_again_is_not_retried(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cep_tasks import UserError

    write_project(tmp_path)
    monkeypatch.setenv("CEP_CONFIG", str(tmp_path / "pipeline.yaml"))
    with pytest.raises(UserError, match="no pattern set 'none'"):
        run_task(monkeypatch, "check_plans", "one", pattern_set="none")
