"""The trigger of a task that waits for the day before it.

It is the one of Airflow's ExternalTaskSensor, but for its first look, which comes later. A trigger that fires at once
has its task sent to the executor anew before the executor has told of the task's first end. The scheduler then takes
that end for the second one's, ends a task that runs well, and tries it again after its retry delay.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.standard.triggers.external_task import WorkflowTrigger
from airflow.triggers.base import TriggerEvent

FIRST_LOOK_S = 3.0
"""Seconds until the first look: `[workers] min_heartbeat_interval`, after which a supervisor knows at the latest that
its task has ended, and a loop or two of the scheduler, which asks the executor in each."""


class DayBeforeTrigger(WorkflowTrigger):
    """Fires when a task of another run has ended, at the earliest some seconds after it began to wait."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of this class, with the arguments."""
        return f"{__name__}.{type(self).__qualname__}", super().serialize()[1]

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and then look again and again."""
        await asyncio.sleep(FIRST_LOOK_S)
        async for event in super().run():
            yield event
