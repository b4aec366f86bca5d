"""The steps of a day are one list, whoever does them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cep_pipeline.pipeline.day import OPTIONS, STEPS, Step
from cep_pipeline.pipeline.day_work import DayWork
from tests.pipeline.project import MONDAY, TUESDAY, Project
from tests.pipeline.scheduler import Scheduler


def test_the_order_of_the_steps() -> None:
    assert OPTIONS == ("ingest", "statistics", "plan", "detect")
    side_by_side = [step.side_by_side for step in STEPS]
    assert side_by_side == sorted(side_by_side, reverse=True), "days are worked on side by side before each on its own"


@pytest.mark.long
def test_a_step_that_is_added_to_the_list_is_done_by_a_run_and_as_a_task(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[object, dict[str, int]]] = []

    def report(works: Sequence[DayWork]) -> None:
        for work in works:
            with work.timed("report"):
                done.append((work.day, {name: sum(found.matches.values()) for name, found in work.detected.items()}))

    added = (*STEPS, Step("report", "detect", report))
    for module in ("day", "run", "tasks"):
        monkeypatch.setattr(f"cep_pipeline.pipeline.{module}.STEPS", added)
    outcome = project.run(warehouse="run").run_days([MONDAY, TUESDAY])
    assert done == [(one.day, {"all": sum(one.matches["all"].values())}) for one in outcome.days]
    assert [one.steps[-1].name for one in outcome.days] == ["report", "report"]
    Scheduler(project).day(MONDAY)
    assert done[2:] == done[:1]
    (record,) = project.tables().runs()
    assert record.status == "succeeded" and record.steps[-1].name == "report"
