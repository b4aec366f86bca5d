"""A day on its way through the steps of a run, and the observer of the run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from cep_pipeline.events.columns import SEQ_PER_DAY
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.warehouse.records import RunStep

if TYPE_CHECKING:
    from cep_pipeline.events.parse import StagedDay
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.slices.prepared import Boundary
    from cep_pipeline.spark.detection import DetectedDay
    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.warehouse.leases import Lease
    from cep_pipeline.warehouse.records import PlanRecord, RunRecord
    from cep_pipeline.warehouse.stream_tables import StreamTables
    from cep_pipeline.warehouse.units import DraftedDay

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""A function that is told how many of how many parts of a step are done."""


class Observer(Protocol):
    """Watches a run: is told when a step begins, how far it is, and what a person should know."""

    def step(self, what: str) -> AbstractContextManager[Progress]:
        """Begin a step, which ends with the block; within it the function is told of tasks done."""

    def note(self, text: str) -> None:
        """Tell a person something."""


class LogObserver:
    """An observer that shows no steps, and whose notes are in the log: for tests and for the tasks of Airflow."""

    @contextmanager
    def step(self, what: str) -> Iterator[Progress]:
        """Show nothing."""
        yield lambda done, total: None

    def note(self, text: str) -> None:
        """Log a note."""
        logger.warning("%s", text)


def _no_session() -> SparkSession:
    raise RuntimeError("this step has no Spark session")


@dataclass
class DayWork:
    """One day of one stream on its way through the steps of a run.

    - `tables`: what the run has drafted is read in place of what is published of the stream.
    - `lease`: what holds the day; None for a trial, which publishes nothing.
    - `end_of_stream`: the stream ends with the day, so that no match waits for later days.
    - `session`: makes the Spark session, when it is first needed.
    - `observer`: is told of steps and notes.
    - `scratch`: folder of the events that are not published yet.
    - `steps`: those done so far, with their seconds and counts.
    - `staged`, `detected`: results of steps: the checked events, and the matches by pattern set. Those between them,
      the events and the statistics, are drafts of the tables.
    - `plans`, `told`: the plan of each pattern set, and further details for the record of the run; its days share them.
    - `recorded`: what the run has recorded of the day before, where it does a part of it again.
    """

    stream: Stream
    tables: StreamTables
    day: date
    run_id: str
    lease: Lease | None
    pattern_sets: tuple[PatternSet, ...] = ()
    end_of_stream: bool = False
    session: Callable[[], SparkSession] = _no_session
    observer: Observer = field(default_factory=LogObserver)
    scratch: str = ""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    steps: list[RunStep] = field(default_factory=list)
    staged: StagedDay | None = None
    detected: dict[str, DetectedDay] = field(default_factory=dict)
    plans: dict[str, PlanRecord] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    recorded: RunRecord | None = None

    def spark(self) -> SparkSession:
        """Return the Spark session, and note for the record of the run what it is."""
        from cep_pipeline.spark.tasks import described

        session = self.session()
        self.told["spark"] = described(session)
        return session

    @property
    def skipped(self) -> bool:
        """True for a day without files that is not published."""
        return self.staged is not None and self.staged.skipped

    @property
    def passed(self) -> bool:
        """True for a day that has been read and has passed validation."""
        return self.staged is not None and not self.staged.failure

    @property
    def drafted(self) -> DraftedDay | None:
        """The events that the run has made of the day; None where it has made none."""
        return self.tables.drafts.days.get(self.day)

    @property
    def events(self) -> int | None:
        """Number of events that the run has made of the day; None where it has made none."""
        return self.drafted.record.events if self.drafted is not None else None

    @property
    def rejected(self) -> int | None:
        """Number of rejected rows; None where the run has made no events of the day."""
        if self.staged is not None and self.staged.skipped:
            return self.staged.rejected_rows
        return self.drafted.record.rejected if self.drafted is not None else None

    @property
    def validation(self) -> Mapping[str, Any] | None:
        """Result document of the validation; None where the run has not validated the day."""
        return self.staged.validation if self.staged is not None else None

    @contextmanager
    def timed(self, name: str) -> Iterator[dict[str, int]]:
        """Time a block as a step; the block puts its counts into the dict."""
        counted: dict[str, int] = {}
        begin = time.perf_counter()
        yield counted
        self.done(RunStep(name, time.perf_counter() - begin, counted))

    def done(self, step: RunStep) -> None:
        """Keep a step that has just ended, and log it."""
        self.steps.append(replace(step, began_s=round(time.time() - step.seconds, 3)))
        done = self.run_id, self.stream.name, self.day, step.name, step.seconds, dict(step.counts)
        logger.info("run %s: %s %s: %s in %.1f s %s", *done)

    @property
    def start(self) -> Boundary:
        """The point where the day begins."""
        return self.day_start(self.day)

    @property
    def end(self) -> Boundary:
        """The point where the next day begins."""
        after = self.day + timedelta(days=1)
        return day_bounds(self.day, self.stream.schema.timezone)[1], after.toordinal() * SEQ_PER_DAY

    def day_start(self, day: date) -> Boundary:
        """The point where a day of the stream begins."""
        return day_bounds(day, self.stream.schema.timezone)[0], day.toordinal() * SEQ_PER_DAY
