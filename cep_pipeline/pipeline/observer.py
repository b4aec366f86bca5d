"""Who watches a run: is told when a step begins, how far it is, and what a person should know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from cep_pipeline.pipeline.steps import Progress


class Observer(Protocol):
    """Who watches a run."""

    def step(self, what: str) -> AbstractContextManager[Progress]:
        """A step begins; the block ends with it, and within it the function is told of tasks done."""

    def note(self, text: str) -> None:
        """Something that a person should know."""


@contextmanager
def silent_step(_: str) -> Iterator[Progress]:
    """The step of an observer that shows nothing."""
    yield lambda done, total: None


class SilentObserver:
    """An observer for tests and for jobs whose log is Airflow's."""

    step = staticmethod(silent_step)

    def note(self, text: str) -> None:
        """Shows nothing."""
