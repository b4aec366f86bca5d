"""The events that the runs of a clause read, one after another, and which variables each of them fits.

Under skip_till_next_match a run ignores whatever it cannot take, so it need not read what fits no variable. Under the
contiguity strategies it reads every event of its partition. Where the events of a match agree on attributes, a run
reads only those that agree with its first: the sequence is sorted by (key, stream order), and a run ends with its key.
Strict contiguity is the exception, because there events of other keys end a run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.slices.keys import agreeing_view, agreement_codes
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import padded_copy
from cep_pipeline.slices.views import View, everything


@dataclass(frozen=True, eq=False)
class RunEvents:
    """The events that the runs of one clause read.

    Attributes
    ----------
    view
        The events by place.
    fits
        uint8, shape (variables, places): whether an event has the variable's type and passes its own conditions.
    ends
        int64: the end of each place's group.
    keys
        int32: what events must agree on where groups do not say so; else of length 0.
    """

    view: View
    fits: Array
    ends: Array
    keys: Array


def sequence_of(pattern: Pattern, clause: Clause, events: PreparedEvents, fits_by_row: Array) -> RunEvents:
    """The sequence for the runs of a clause.

    Parameters
    ----------
    fits_by_row
        uint8, shape (variables, events): which events fit which variables, the positive ones first.
    """
    fits = fits_by_row[: len(clause.positive)]
    skipping = pattern.strategy in (Strategy.SKIP_TILL_NEXT_MATCH, Strategy.SKIP_TILL_ANY_MATCH)
    grouped = bool(clause.agree_on) and pattern.strategy is not Strategy.STRICT_CONTIGUITY
    view = everything(events)
    full = fits.view(np.bool_).all(axis=1)
    if skipping and not full.any():
        rows = padded_copy(np.flatnonzero(fits.any(axis=0)).astype(np.int32))
        conditions = frozenset(c for c in clause.conjuncts if len(c.variables) == 1)
        identity = ("fitting", tuple(variable for variable in clause.positive), conditions)
        view = View(identity, rows, np.array([0, len(rows)], np.int64))
    if grouped:
        read = view
        view = agreeing_view(pattern, clause.agree_on, view, events)
        if len(clause.positive) == 1 and len(view) < len(read):
            view = _with_lonely_events(view, read)
    ends = events.derive(("ends", view.identity), lambda: np.repeat(view.starts[1:], np.diff(view.starts)))
    keys = (
        np.empty(0, np.int32)
        if grouped or not clause.agree_on
        else agreement_codes(events, clause.agree_on)[0][view.rows]
    )
    if len(view) < len(events) or grouped:
        of_places = np.ones((len(fits), len(view)), np.uint8)
        for place in np.flatnonzero(~full):
            np.take(fits[place], view.rows, out=of_places[place], mode="clip")
        fits = of_places
    return RunEvents(view, np.ascontiguousarray(fits), ends, keys)


def _with_lonely_events(view: View, read: View) -> View:
    """The view with the events that agree with none, each in a group of its own: it may be a match alone."""
    lonely = np.setdiff1d(read.rows, view.rows).astype(np.int32)
    rows = padded_copy(np.concatenate((view.rows, lonely)))
    starts = np.concatenate((view.starts, len(view) + 1 + np.arange(len(lonely), dtype=np.int64)))
    return View(("with lonely", view.identity), rows, starts)
