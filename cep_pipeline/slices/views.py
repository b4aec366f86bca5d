"""Views: the rows of a leaf (a type and filters on one event) in the order in which a level visits them.

A view in stream order has one group. A keyed view is sorted by (key, stream order), so that the candidates that agree
on the key are one contiguous range. Views and all arrays made from them belong to the slice (`PreparedEvents.derive`):
patterns over the same leaves share them. So do conditions that one event decides (`holds_for_all`). What depends on a
clause and on no slice is kept with the clause (`clause_cache_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

import numpy as np

from cep_pipeline.errors import DataError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import atom_holds, conjunct_holds, constants_hold
from cep_pipeline.patterns.conditions import Atom, Conjunct, expressions_of
from cep_pipeline.patterns.expressions import Expression, Reference, walk
from cep_pipeline.patterns.implications import Implications, implications_of
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Ties, Window, remembered
from cep_pipeline.patterns.rewriting import Node, rewritten
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import count_before, gather, group_rows, padded_copy

MOST_CLAUSES = 1 << 12
"""Clauses that are remembered; those asked for first go first."""

T = TypeVar("T")


class ClauseCache:
    """Cache of slice-independent facts about one clause, by key."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def once(self, key: Hashable, work_out: Callable[[], T]) -> T:
        """Return the fact kept under a key, computed on first use; it must depend on the clause and the key alone."""
        try:
            return cast(T, self._known[key])
        except KeyError:
            found = self._known[key] = work_out()
            return found


@remembered(MOST_CLAUSES)
def clause_cache_of(clause: Clause) -> ClauseCache:
    """The cache of this very clause object."""
    return ClauseCache()


def implied_by(clause: Clause, window: Window, ties: Ties) -> Implications:
    """The facts that follow from a clause's conditions within a window."""
    key = "implied", window.time_us, ties.value
    return clause_cache_of(clause).once(key, lambda: implications_of(clause, window.time_us, ties))


def may_match(pattern: Pattern, clause: Clause, events: PreparedEvents) -> bool:
    """Return whether a match is possible, whatever the events: no condition without variables, and no two, say no."""
    window, ties = pattern.window, pattern.ties

    def find() -> tuple[bool, tuple[Conjunct, ...]]:
        contradicted = bool(implied_by(clause, window, ties).contradiction)
        return contradicted, tuple(conjunct for conjunct in clause.conjuncts if not conjunct.variables)

    contradicted, constants = clause_cache_of(clause).once(("may match", window.time_us, ties.value), find)
    return not contradicted and (not constants or constants_hold(constants, events))


def atom_holds_for_all(events: PreparedEvents, atom: Atom) -> Array:
    """Return whether an atom over one single variable holds, for each event of the slice in that variable's place.

    Returns
    -------
    Array
        bool, shape (n,); of an atom without variables, shape (1,).
    """
    read = {node.variable for side in expressions_of(atom) for node in walk(side) if isinstance(node, Reference)}
    if not read:
        return atom_holds(atom, events, {})
    rows = dict.fromkeys(read, range(len(events)))
    return events.derive(("truths of all", atom), lambda: atom_holds(atom, events, rows))


def holds_for_all(events: PreparedEvents, conjunct: Conjunct) -> Array:
    """bool, shape (n,) or (1,): whether a conjunct over one single variable holds, for each event of the slice."""
    truths = [atom_holds_for_all(events, atom) for atom in conjunct.atoms]
    held = truths[0]
    for other in truths[1:]:
        held = held | other
    return held


ANY_EVENT = "*"
"""The variable's name in the key of what was computed for an event, whatever a pattern calls it."""

CLOCK_LIMIT = 2**61


def times_are_plain(events: PreparedEvents) -> bool:
    """Return whether no sum of two timestamps overflows."""

    def look() -> bool:
        stamps = events.timestamps
        return len(stamps) == 0 or bool(stamps[0] > -CLOCK_LIMIT and stamps[-1] < CLOCK_LIMIT)

    return events.handle("times are plain", look)


@dataclass(frozen=True, eq=False)
class View:
    """Rows of one leaf.

    Attributes
    ----------
    identity
        Equal for views of equal content, within one slice.
    rows
        int32, padded.
    starts
        int64, shape (groups + 1,): where each group starts.
    base
        The view of the same leaf in stream order; None where this is it.
    places
        int32, for a keyed view: the place in `base` of each of its rows.
    """

    identity: Hashable
    rows: Array
    starts: Array
    base: View | None = None
    places: Array | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def in_stream_order(self) -> View:
        return self if self.base is None else self.base


@dataclass(frozen=True, eq=False, slots=True)
class EventLeaf:
    """The events that a level may bind: their type, and conditions on each alone.

    Equal leaves are one object, as long as it is remembered, so that it is quick to look up by.

    Attributes
    ----------
    filters
        Conjuncts over the one variable `ANY_EVENT`.
    """

    event_type: EventType
    filters: tuple[Conjunct, ...]


MOST_LEAVES = 1 << 13
"""Leaves that are remembered; those not asked for longest go first."""


@lru_cache(maxsize=MOST_LEAVES)
def the_leaf(event_type: EventType, filters: tuple[Conjunct, ...]) -> EventLeaf:
    """The one leaf of these events; the filters are conjuncts over the one variable `ANY_EVENT`."""
    return EventLeaf(event_type, filters)


def leaf_of(clause: Clause, variable: str) -> EventLeaf:
    """The leaf of one of a clause's variables."""
    return clause_cache_of(clause).once(
        ("leaf", variable), lambda: the_leaf(clause.by_name[variable].event_type, filters_of(clause, variable))
    )


def leaf_view(
    events: PreparedEvents, event_type: EventType, filters: tuple[Conjunct, ...], first_row: int, end_row: int
) -> View:
    """The events of a type that pass the filters, with rows in [first_row, end_row).

    Parameters
    ----------
    filters
        Conjuncts over the one variable `ANY_EVENT`.
    """
    return view_of_leaf(events, the_leaf(event_type, filters), first_row, end_row)


def view_of_leaf(events: PreparedEvents, leaf: EventLeaf, first_row: int, end_row: int) -> View:
    """The events of a leaf with rows in [first_row, end_row)."""
    return events.handle((leaf, first_row, end_row), _make_view, events, leaf, first_row, end_row)


def _make_view(events: PreparedEvents, leaf: EventLeaf, first_row: int, end_row: int) -> View:
    event_type, filters = leaf.event_type, leaf.filters

    def rows_of_leaf() -> Array:
        rows = events.leaf_rows(event_type)
        if len(rows) == len(events):
            held = np.ones(len(events), np.bool_)
            for conjunct in filters:
                held &= holds_for_all(events, conjunct)
            return padded_copy(np.flatnonzero(held), np.int32)
        for conjunct in filters:
            rows = rows[conjunct_holds(conjunct, events, {ANY_EVENT: rows})]
        return padded_copy(rows)

    what = event_type, frozenset(filters)
    rows = events.derive(("leaf", what), rows_of_leaf) if filters else events.leaf_rows(event_type)
    first, end = 0, len(rows)
    if first_row > 0:
        first = int(np.searchsorted(rows, first_row))
    if end_row < len(events):
        end = int(np.searchsorted(rows, end_row))
    identity = events.number_of(("leaf", event_type, what[1] if filters else None, first, end))
    return View(identity, rows[first:end], np.array([0, end - first], np.int64))


def filters_of(clause: Clause, variable: str) -> tuple[Conjunct, ...]:
    """The conjuncts over one variable alone, as `leaf_view` takes them."""
    return clause_cache_of(clause).once(
        ("filters", variable),
        lambda: tuple(without_name(c, variable) for c in clause.conjuncts if c.variables == {variable}),
    )


def keyed_view(
    events: PreparedEvents, view: View, key: Hashable, codes_of_rows: Callable[[], tuple[Array, int]]
) -> View:
    """The view sorted by a key, without the rows whose key is null.

    Parameters
    ----------
    view
        In stream order.
    key
        Names what the codes are codes of.
    codes_of_rows
        Makes the codes, int32, one for each row of the view: its group, or -1 for null; and the number of groups.
    """

    def make() -> View:
        codes, groups = codes_of_rows()
        present = np.flatnonzero(codes >= 0) if len(codes) and int(codes.min()) < 0 else None
        order, starts = group_rows(codes if present is None else codes[present], groups)
        places = order if present is None else present[order].astype(np.int32)
        every_row = present is None and len(view) == len(events)  # then rows are their places
        rows = order if every_row else padded_copy(view.rows[places])
        return View(events.number_of(("keyed", view.identity, key)), rows, starts, view, places)

    return events.derive(("keyed", view.identity, key), make)


def clock_of(events: PreparedEvents) -> Array:
    """int64: timestamps in microseconds since some origin, so small that adding a window does not overflow.

    Raises
    ------
    DataError
        The events of the slice span more than 73,000 years.
    """
    stamps = events.timestamps
    if times_are_plain(events):
        return stamps
    if int(stamps[-1]) - int(stamps[0]) >= CLOCK_LIMIT:
        raise DataError(f"the events of a slice span from {stamps[0]} to {stamps[-1]} us, more than {CLOCK_LIMIT} us")
    return events.derive(("clock",), lambda: stamps - stamps[0])


def times_of(events: PreparedEvents, view: View) -> Array:
    """int64, padded: the clock of the view's rows."""
    return events.derive(("times", view.identity), lambda: gather(clock_of(events), view.rows))


def row_values_of(events: PreparedEvents, view: View) -> Array:
    """float64, padded: the view's rows, exactly."""
    return events.derive(("row values", view.identity), lambda: padded_copy(view.rows, np.float64))


def rows_below(events: PreparedEvents, view: View, delta_us: int) -> Array:
    """Count for each row of a view the events of the slice with a timestamp below its own plus `delta_us`, int32."""

    def make() -> Array:
        stamps, base = clock_of(events), view.in_stream_order
        whole = np.array([0, len(stamps)], np.int64)
        counted = count_before(times_of(events, base), base.starts, stamps, whole, delta_us)
        return counted if view.places is None else counted[view.places]

    return events.derive(("rows below", view.identity, delta_us), make)


def without_name(node: Node, variable: str) -> Node:
    """An expression or condition with `variable` renamed to `ANY_EVENT`: equal ones of two patterns become equal."""
    return rewritten(node, partial(_any_event, variable=variable))


def _any_event(node: Expression, variable: str) -> Expression:
    if isinstance(node, Reference) and node.variable == variable:
        return Reference(ANY_EVENT, node.attribute, node.element, node.type)
    return node


def everything(events: PreparedEvents) -> View:
    """All events in stream order."""
    return View("all rows", events.every_row, np.array([0, len(events)], np.int64))
