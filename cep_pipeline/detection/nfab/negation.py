"""Negation on finished matches, by docs/language.md, section 3.5."""

from __future__ import annotations

import numpy as np

from cep_pipeline.detection.nfab.stream import codes_of
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.order import Instants, StreamOrder
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import leaf_view, without_name

PAIRS_AT_ONCE = 1 << 18
"""Pairs of a match and an event that might reject it, tested at once."""


def surviving_matches(
    pattern: Pattern, clause: Clause, rows: Array, events: PreparedEvents, instants: Instants
) -> tuple[Array, int]:
    """Which matches no event rejects.

    Parameters
    ----------
    rows
        int32, shape (variables, n): the events of the clause's positive variables.

    Returns
    -------
    survives : Array
        bool, shape (n,).
    evaluations : int
        How many conjuncts were tested on how many pairs.
    """
    survives = np.ones(rows.shape[1], dtype=bool)
    evaluations = 0
    for negated in clause.negated:
        left = np.flatnonzero(survives)
        if not len(left):
            break
        rejected, tested = _rejected(pattern, clause, negated, rows[:, left], events, instants)
        survives[left[rejected]] = False
        evaluations += tested
    return survives, evaluations


def _rejected(
    pattern: Pattern, clause: Clause, negated: Variable, rows: Array, events: PreparedEvents, instants: Instants
) -> tuple[Array, int]:
    mentioned = [conjunct for conjunct in clause.conjuncts if negated.name in conjunct.variables]
    own = tuple(without_name(c, negated.name) for c in mentioned if len(c.variables) == 1)
    joint = [conjunct for conjunct in mentioned if len(conjunct.variables) > 1]
    candidates = leaf_view(events, negated.event_type, own, 0, len(events)).rows.astype(np.int64)
    low, high = _row_range(pattern, clause, negated, rows, events, instants)
    if clause.agree_on:  # the candidates of each key together
        codes = codes_of(pattern, clause, events).astype(np.int64)
        keys = codes[rows[0]]
        candidates = np.sort((codes[candidates] * len(events) + candidates)[codes[candidates] >= 0])
        low, high = low + keys * len(events), high + keys * len(events)
        high = np.where(keys < 0, low, high)
    first = np.searchsorted(candidates, low)
    behind = np.maximum(np.searchsorted(candidates, high), first)
    if clause.agree_on:
        candidates = candidates % max(len(events), 1)
    if joint:
        return _rejected_by_conditions(clause, negated, joint, rows, candidates, first, behind, events)
    # All events in the range reject, but those of the match itself.
    number = behind - first
    is_candidate = np.zeros(len(events), dtype=bool)
    is_candidate[candidates] = True
    for bound in rows:
        inside = is_candidate[bound]
        keyed = bound + keys * len(events) if clause.agree_on else bound
        number -= inside & (keyed >= low) & (keyed < high)
    return number > 0, 0


def _row_range(
    pattern: Pattern, clause: Clause, negated: Variable, rows: Array, events: PreparedEvents, instants: Instants
) -> tuple[Array, Array]:
    """The rows [low, high) that are after all events before the variable and before all events after it."""
    number = {variable.name: place for place, variable in enumerate(clause.positive)}
    before = [number[variable.name] for variable in clause.predecessors(negated.name)]
    after = [number[variable.name] for variable in clause.successors(negated.name)]
    order = StreamOrder(events.timestamps, pattern.ties)
    wide = rows.astype(np.int64)
    low = order.rows_after(wide[before].max(axis=0)) if before else instants.first_row_within(wide.max(axis=0))
    high = order.rows_ahead(wide[after].min(axis=0)) if after else instants.end_row_within(wide.min(axis=0))
    return low, high


def _rejected_by_conditions(
    clause: Clause,
    negated: Variable,
    joint: list[Conjunct],
    rows: Array,
    candidates: Array,
    first: Array,
    behind: Array,
    events: PreparedEvents,
) -> tuple[Array, int]:
    rejected = np.zeros(rows.shape[1], dtype=bool)
    ends = np.cumsum(behind - first)
    total = int(ends[-1]) if len(ends) else 0
    evaluations = 0
    for begin in range(0, total, PAIRS_AT_ONCE):
        pairs = np.arange(begin, min(begin + PAIRS_AT_ONCE, total))
        match = np.searchsorted(ends, pairs, "right")
        places = first[match] + pairs - (ends[match] - (behind - first)[match])
        event = candidates[places]
        open_ = ~rejected[match] & ~(rows[:, match] == event).any(axis=0)
        match, event = match[open_], event[open_]
        for conjunct in joint:
            evaluations += len(match)
            bound = {variable.name: rows[place, match] for place, variable in enumerate(clause.positive)}
            holds = conjunct_holds(conjunct, events, {**bound, negated.name: event})
            match, event = match[holds], event[holds]
        rejected[match] = True
    return rejected, evaluations
