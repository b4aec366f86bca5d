"""What a scheduler does with the steps of a day: runs them as tasks, and hands on what they return."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from cep_pipeline.pipeline import tasks
from cep_pipeline.pipeline.tasks import DayTask
from tests.pipeline.project import Project


@dataclass
class Scheduler:
    """Runs steps, and hands on what they return as JSON text, as a scheduler's XComs do."""

    project: Project
    returned: dict[tuple[date, str], str] = field(default_factory=dict)

    def task(self, day: date, **asked: Any) -> DayTask:
        run_id = f"scheduled__{day}T00:00:00+00:00"
        return DayTask(self.project.folder / "pipeline.yaml", "ticks", run_id, day=day, **asked)

    def do(self, day: date, step: str, *, spark: bool = True, **asked: Any) -> dict[str, Any]:
        """A step of a day, with what the steps before it have handed on."""
        task = self.task(day, **asked)
        names = [one.name for one in tasks.STEPS]
        chosen = tasks.STEPS[names.index(step)]
        earlier = names[: names.index(step)]
        handed = [json.loads(self.returned[day, one]) for one in earlier if (day, one) in self.returned]
        needs = spark and chosen.needs_spark
        done = tasks.run_step(step, task, handed, self.project.spark if needs else None)
        self.returned[day, step] = json.dumps(done)
        return dict(done)

    def day(self, day: date, first: str = "ingest", *, twice: bool = False, **asked: Any) -> None:
        """All steps of a day from the first on, each once or, as after a retry, twice."""
        names = [one.name for one in tasks.STEPS]
        for step in names[names.index(first) :]:
            for _ in range(1 + (twice and step != "publish")):
                done = self.do(day, step, **asked)
            if done["done"]:
                return


def run_day(project: Project, day: date, *, end_of_stream: bool = False) -> None:
    """All steps of a day, each once."""
    Scheduler(project).day(day, end_of_stream=end_of_stream)
