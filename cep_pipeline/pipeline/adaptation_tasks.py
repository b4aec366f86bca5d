"""Checking and replanning as tasks of a scheduler: what they are given are texts, what they hand on are JSON values."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.fresh_statistics import StatisticsRequest
from cep_pipeline.pipeline.plan_checks import Violation, check_invariants
from cep_pipeline.pipeline.replanning import PlanRequest, replan
from cep_pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.warehouse.stream_tables import StreamTables

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AdaptationTask:
    """The stream, configuration and run that a task works for.

    Attributes
    ----------
    pattern_set
        Only this pattern set; None: all of the stream.
    as_of, window
        Which statistics (`StatisticsRequest`).
    """

    config: Path
    stream: str
    run_id: str
    pattern_set: str | None = None
    as_of: str | None = None
    window: str | None = None

    @property
    def asked(self) -> StatisticsRequest:
        """The statistics that the task is to use."""
        return StatisticsRequest(self.as_of or None, self.window or None)

    def open(self) -> tuple[Stream, StreamTables, tuple[PatternSet, ...]]:
        """The stream, its tables and the pattern sets that are meant."""
        configuration = Configuration.load(self.config)
        stream = configuration.stream(self.stream)
        warehouse = Warehouse.open(configuration.warehouse_location, configuration.settings.warehouse.catalog)
        chosen = (stream.pattern_set(self.pattern_set),) if self.pattern_set else stream.pattern_sets
        return stream, warehouse.stream(stream.schema), chosen


def check_plans(task: AdaptationTask) -> list[dict[str, Any]]:
    """Check the current plans, and record a decision for each.

    Returns
    -------
    list of dict
        For each violation that has not been handled the run that is to handle it: `trigger_run_id`, the same however
        often it is seen, and `conf` with the parameters of that run.
    """
    stream, tables, pattern_sets = task.open()
    runs = []
    for one in check_invariants(tables, stream, pattern_sets, run_id=task.run_id, asked=task.asked):
        logger.info("%s: %s: %s", one.decision.pattern_set, one.decision.outcome, one.decision.reason)
        for note in one.notes:
            logger.warning("%s: %s", one.decision.pattern_set, note)
        if one.violation is not None:
            conf = {
                "pattern_set": one.violation.pattern_set,
                "reason": one.violation.reason,
                "violation": one.violation.to_json(),
                **one.violation.statistics,
            }
            runs.append({"trigger_run_id": one.violation.run_id, "conf": conf})
    return runs


def plan_again(
    task: AdaptationTask,
    reason: str,
    planner: str | None = None,
    cost: str | None = None,
    violation: Mapping[str, Any] | None = None,
    patterns: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Make the plan of a pattern set again; returns what came of it.

    Parameters
    ----------
    violation
        As `check_plans` handed it on; None: a person wants the plan.
    patterns
        Of a plan of many patterns together: only these, with what is connected with them; None: as the violation says.
    """
    stream, tables, pattern_sets = task.open()
    answered = None if violation is None else Violation.from_json(violation)
    asked = PlanRequest(reason, planner or None, cost or None, answered, task.asked, patterns=tuple(patterns or ()))
    done = replan(tables, stream, pattern_sets[0], asked, run_id=task.run_id)
    logger.info("%s: %s: %s", done.decision.pattern_set, done.decision.outcome, done.decision.reason)
    for note in done.notes:
        logger.warning("%s", note)
    return {
        "pattern_set": done.decision.pattern_set,
        "outcome": done.decision.outcome,
        "reason": done.decision.reason,
        "plan_version": None if done.current is None else done.current.version,
    }
