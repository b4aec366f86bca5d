"""Which events decide about the matches of several patterns that are run together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.adaptation.plan_switch import Reading, RowsRead
from cep_pipeline.patterns.pattern import Pattern, Strategy

Array = np.ndarray[Any, Any]


class CommonReading:
    """What several patterns read together: all between the first and the last event that one of them needs.

    Each finds the same matches as with its own events: those that begin in a part of the stream, and what rejects them,
    lie in its window, whatever others read behind it.

    Parameters
    ----------
    patterns, readings
        Patterns of one stream, and what each reads of it.
    """

    def __init__(self, patterns: Sequence[Pattern], readings: Sequence[Reading], stream: EventStream) -> None:
        self._patterns, self._readings, self._stream = patterns, readings, stream

    def has_come(self, stop: int) -> bool:
        return all(reading.has_come(stop) for reading in self._readings)

    def ahead(self, stop: int) -> int:
        return max(reading.ahead(stop) for reading in self._readings)

    def needed_rows(self, first: int, stop: int) -> tuple[int, int] | Array:
        spans = [_span(reading.rows(first, stop)) for reading in self._readings]
        start, end = min(span[0] for span in spans), max(span[1] for span in spans)
        if not len(self._needless) or end == stop:
            return start, end
        types = self._stream.between(stop, end).column(self._patterns[0].type_attribute).cast(pa.string())
        needed = np.flatnonzero(~pc.is_in(types, self._needless).to_numpy())
        return np.concatenate((np.arange(start, stop), stop + needed))

    @cached_property
    def _needless(self) -> pa.Array:
        """The event types that no pattern needs behind the part that its matches begin in."""
        types = {operand.event_type for pattern in self._patterns for operand in pattern.operands}
        for pattern, reading in zip(self._patterns, self._readings, strict=True):
            mentioned = {operand.event_type for operand in pattern.operands}
            if pattern.base_type in mentioned or not _passes_over_others(pattern):
                types &= reading.opening
            else:
                types -= mentioned - reading.opening
        return pa.array(sorted(types), pa.string())


def _passes_over_others(pattern: Pattern) -> bool:
    """Whether events of types that a pattern does not mention make no difference to it."""
    return pattern.window.events is None and pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH


def _span(rows: tuple[int, int] | Array) -> tuple[int, int]:
    return rows if isinstance(rows, tuple) else (int(rows[0]), int(rows[-1]) + 1)


def reading_of(patterns: Sequence[Pattern], readings: Sequence[Reading], stream: EventStream) -> RowsRead:
    """What patterns that are run together read; one alone only what it needs."""
    return readings[0] if len(patterns) == 1 else CommonReading(patterns, readings, stream)
