"""Conditions that one event decides, for all events of a slice, whichever patterns ask for them."""

from __future__ import annotations

import numpy as np

from cep_pipeline.expressions.columns import Array, RowRange
from cep_pipeline.expressions.evaluate import atom_holds
from cep_pipeline.patterns.conditions import Atom, Conjunct, expressions_of
from cep_pipeline.patterns.expressions import Reference, ValueType, walk
from cep_pipeline.slices.prepared import PreparedEvents

EVENTS_AT_ONCE = 1 << 15
"""Events whose numbers are compared together: what is computed on the way stays in the processor's cache."""


def atom_holds_for_all(events: PreparedEvents, atom: Atom) -> Array:
    """Return whether an atom over one single variable holds, for each event of the slice in that variable's place.

    Returns
    -------
    Array
        bool, shape (n,); of an atom without variables, shape (1,).
    """
    read = [node for side in expressions_of(atom) for node in walk(side) if isinstance(node, Reference)]
    if not read:
        return atom_holds(atom, events, {})

    def make() -> Array:
        [variable] = {node.variable for node in read}
        numbers = all(node.type.is_number or node.type is ValueType.BOOL for node in read)
        count = len(events)
        step = EVENTS_AT_ONCE if numbers else max(count, 1)  # strings and lists cost something for each part
        truths = np.empty(count, np.bool_)
        for first in range(0, count, step):
            rows = RowRange(first, min(first + step, count))
            truths[first : rows.end] = atom_holds(atom, events, {variable: rows})
        return truths

    return events.derive(("truths of all", atom), make)


def holds_for_all(events: PreparedEvents, conjunct: Conjunct) -> Array:
    """bool, shape (n,) or (1,): whether a conjunct over one single variable holds, for each event of the slice."""
    truths = [atom_holds_for_all(events, atom) for atom in conjunct.atoms]
    held = truths[0]
    for other in truths[1:]:
        held = held | other
    return held
