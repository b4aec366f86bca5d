"""Keep what `detect` has made of a table of events until it is asked about the same table again.

People ask one table many questions. The table is checked, split and planned for once; a second call begins where the
first one ended. Only the last table is kept, no longer than the caller keeps it, and only if it is small.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_

import pyarrow as pa

from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.events_input import columns_needed, events_for
from cep_pipeline.slices.prepared import PreparedEvents

MOST_BYTES = 1 << 26
"""A larger table is not kept: to make it ready again costs little beside what is done with it."""

Streams = dict[tuple[str, str | None], PreparedEvents]
"""Prepared events by the type attribute and the base type."""


@dataclass(eq=False)
class KnownEvents:
    """A table that was checked and prepared, and the last patterns that were run over it.

    Attributes
    ----------
    table
        The checked columns.
    prepared
        The columns, split by type, and what was derived of them.
    patterns, mechanism, chosen
        The last patterns, the mechanism that was asked for, and the fastest one of each, or that which was asked for.
    made, made_for, fitting
        The plan that was made for the last patterns, the form of output for which it was, and a given plan that was
        found to fit.
    """

    table: pa.Table
    prepared: Streams = field(default_factory=dict)
    patterns: tuple[Pattern, ...] = ()
    mechanism: str | None = None
    chosen: Mapping[str, str] = field(default_factory=dict)
    made: Plan | None = None
    made_for: str = ""
    fitting: Plan | None = None

    def are(self, patterns: Sequence[Pattern], mechanism: str | None) -> bool:
        """Return whether these very patterns were run last, by the same mechanisms."""
        return (
            mechanism == self.mechanism
            and len(patterns) == len(self.patterns)
            and all(map(is_, patterns, self.patterns))
        )

    def now(self, patterns: Sequence[Pattern], mechanism: str | None, chosen: Mapping[str, str]) -> None:
        """Remember other patterns."""
        self.patterns, self.mechanism, self.chosen = tuple(patterns), mechanism, chosen
        self.made = self.fitting = None

    def plan(self, given: Plan | None, output: str, find: Callable[[], Plan]) -> Plan:
        """A plan for the last patterns: the given one, or one that was or is made; `find` checks and makes plans.

        Whether planning pays depends on the form of output. But orders that were planned for one are as good for any.
        """
        if given is not None:
            if self.fitting is not given:
                self.fitting = find()
            return given
        if self.made is None or not (self.made.statistics.events or self.made_for == output):
            self.made, self.made_for = find(), output
        return self.made

    def let_go(self) -> None:
        """Forget what was derived of the table: nobody asks about it again."""
        for one in self.prepared.values():
            one.let_go()

    def has_columns_of(self, patterns: Sequence[Pattern]) -> bool:
        """Return whether the checked columns are all that patterns need, with the types that they declare."""
        schema = self.table.schema
        if any(name not in schema.names for name in columns_needed(patterns)):
            return False
        known = {name: kind for pattern in self.patterns for name, kind in pattern.attributes}
        return all(known.get(name) is kind for pattern in patterns for name, kind in pattern.attributes)


_lock = threading.Lock()
_last: tuple[weakref.ref[pa.Table], KnownEvents] | None = None


def known_events(
    patterns: Sequence[Pattern], events: pa.Table, mechanism: str | None = None
) -> tuple[KnownEvents, Mapping[str, str]]:
    """The table, checked for the patterns, and the mechanism of each.

    Raises
    ------
    InputError, UnsupportedPattern
        As `choose_mechanisms` and `events_for`.

    Notes
    -----
    What is known is taken from others: two threads never have the same.
    """
    known = _taken(events)
    if known is not None and known.are(patterns, mechanism):
        return known, known.chosen
    chosen = choose_mechanisms(patterns, mechanism)
    if known is None or not known.has_columns_of(patterns):
        known = KnownEvents(events_for(patterns, events))
    known.now(patterns, mechanism, chosen)
    return known, chosen


def new_events(
    patterns: Sequence[Pattern], events: pa.Table, mechanism: str | None = None
) -> tuple[KnownEvents, Mapping[str, str]]:
    """Do as `known_events` for a table that nobody has asked about before; what is kept of another table stays."""
    chosen = choose_mechanisms(patterns, mechanism)
    known = KnownEvents(events_for(patterns, events))
    known.now(patterns, mechanism, chosen)
    return known, chosen


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
