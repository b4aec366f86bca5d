"""Which executor makes what is asked of a pattern, and why: the record that `explain` prints and runs keep.

What a pattern asks for is a *sink*. Its *executor* follows from the pattern, as long as there are many matches
(`outputs.route_of`); where the events say that finding them takes less time, they are found (`costs`). Executors note
in `Counters.routes` which way they went.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Sink(Enum):
    """The result that is asked of the matches of a pattern."""

    LIST = "listed"
    COUNT = "counted"
    COMPRESS = "compressed"
    SUMMARIZE = "summarized"


class Executor(Enum):
    """The part of detection that makes this result (docs/mechanisms.md)."""

    MECHANISM = "finding each match"
    SWEEP = "a semiring sweep over the events"
    PARTS = "finding single events, and counting the lists beside them"
    GRAPH = "a factorised graph"


@dataclass(frozen=True)
class Route:
    """One sink of a pattern, its executor, and the reason for it in words; "" where no other one would be better.

    Examples
    --------
    >>> print(Route(Sink.COUNT, Executor.MECHANISM, "finding 60 candidates takes less time than a sweep"))
    counted by finding each match: finding 60 candidates takes less time than a sweep
    """

    sink: Sink
    executor: Executor
    because: str = ""

    @property
    def lists(self) -> bool:
        """True where each match is found."""
        return self.executor is Executor.MECHANISM

    def __str__(self) -> str:
        return f"{self.sink.value} by {self.executor.value}{self.because and ': '}{self.because}"


def by_route(routes: Mapping[str, tuple[Route, ...]]) -> dict[str, tuple[str, ...]]:
    """Routes of patterns, by the pattern's name, as each route in words with the names of its patterns."""
    found: dict[str, list[str]] = {}
    for name, taken in routes.items():
        for route in taken:
            found.setdefault(str(route), []).append(name)
    return {said: tuple(names) for said, names in found.items()}


CHOSEN_AMONG = "OUTPUT and CONSUME choose among them"
NOT_SWEPT = "no sweep tests its conditions"
LISTS_LATER = "there are more than are listed at once"
NODES_ASKED = "the work at each node is asked for"
LISTED_SOONER = "finding the matches takes less time here"
"""Reasons that several executors give."""
