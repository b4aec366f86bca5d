"""Keep what `detect` has made of a table of events until it is asked about the same table again.

People ask one table many questions. The table is checked and split once; a second call begins where the first one
ended. Only the last table is kept, no longer than the caller keeps it, and only if it is small.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.events_input import declared_columns, events_for
from cep_pipeline.slices.prepared import PreparedEvents

MOST_BYTES = 1 << 26
"""A larger table is not kept: to make it ready again costs little beside what is done with it."""

Streams = dict[tuple[str, str | None], PreparedEvents]
"""Prepared events by the type attribute and the base type."""


@dataclass(eq=False)
class KnownEvents:
    """A table that was checked for patterns and prepared.

    Attributes
    ----------
    table, declared
        The checked columns, and the types that the patterns were checked with.
    prepared
        The columns, split by type, and what was derived of them.
    """

    table: pa.Table
    declared: Mapping[str, ValueType | None]
    prepared: Streams = field(default_factory=dict)

    @classmethod
    def of(cls, patterns: Sequence[Pattern], events: pa.Table) -> KnownEvents:
        """Check a table for patterns, as `events_for` does."""
        return cls(events_for(patterns, events), declared_columns(patterns))

    def let_go(self) -> None:
        """Forget what was derived of the table: nobody asks about it again."""
        for one in self.prepared.values():
            one.let_go()


_lock = threading.Lock()
_last: tuple[weakref.ref[pa.Table], KnownEvents] | None = None


def known_events(patterns: Sequence[Pattern], events: pa.Table) -> KnownEvents:
    """The table, checked for the patterns; what is known is taken from others: two threads never have the same.

    Raises
    ------
    InputError
        As `events_for`.
    """
    known = _taken(events)
    if known is not None and known.declared.items() >= declared_columns(patterns).items():
        return known
    return KnownEvents.of(patterns, events)


def keep(events: pa.Table, known: KnownEvents) -> None:
    """Keep what is known of a small table until it is gone, or another one has come."""
    global _last
    if known.table.nbytes > MOST_BYTES:
        known.let_go()
        return
    for one in known.prepared.values():
        one.attached.clear()
    with _lock:
        before, _last = _last, (weakref.ref(events, _forget), known)
    if before is not None and before[1] is not known:
        before[1].let_go()


def _taken(events: pa.Table) -> KnownEvents | None:
    global _last
    with _lock:
        if _last is None:
            return None
        (of, known), _last = _last, None
    if of() is events:
        return known
    known.let_go()
    return None


def _forget(gone: weakref.ref[pa.Table]) -> None:
    global _last
    known = None
    with _lock:
        if _last is not None and _last[0] is gone:
            (_, known), _last = _last, None
    if known is not None:
        known.let_go()
