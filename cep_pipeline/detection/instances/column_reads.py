"""What kernels read of the columns of a slice, named without the slice: programs are written once and bound to many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from cep_pipeline.detection.instances.event_columns import (
    column_of,
    comparable_columns,
    known_of,
    of_any_event,
    reals_of,
    truths_as_reals,
    truths_of,
)
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Atom
from cep_pipeline.patterns.expressions import Expression
from cep_pipeline.slices.prepared import PreparedEvents

Bound = tuple[Array | None, int]
"""An array and where its data are; None and 0 where there is none."""


def _wholes(events: PreparedEvents, expression: Any) -> Array:
    return np.ascontiguousarray(column_of(events, expression).values)


_MAKERS: dict[str, Callable[..., Array | None]] = {
    "reals": reals_of,
    "wholes": _wholes,
    "known": lambda events, expression: known_of(column_of(events, expression)),
    "truths": truths_of,
    "truths as reals": truths_as_reals,
    "left": lambda events, left, right: comparable_columns(events, left, right)[0],
    "right": lambda events, left, right: comparable_columns(events, left, right)[1],
}


@dataclass(frozen=True, eq=False)
class ColumnRead:
    """An array over the events of any slice: how it is made, and from what, over `ANY_EVENT`."""

    kind: str
    of: tuple[Expression | Atom, ...]

    def bind(self, events: PreparedEvents) -> Bound:
        """The array of these events, as long as they keep it."""
        return events.handle(self, self._made, events)

    def _made(self, events: PreparedEvents) -> Bound:
        array = _MAKERS[self.kind](events, *self.of)
        if array is None:
            return None, 0
        assert array.flags.c_contiguous
        return array, int(array.ctypes.data)


_reads: WeakValueDictionary[tuple[str, tuple[Expression | Atom, ...]], ColumnRead] = WeakValueDictionary()


def reading(kind: str, *of: Expression | Atom) -> ColumnRead:
    """The read of expressions or conditions over one event; the same one for all variables.

    Parameters
    ----------
    kind
        `reals` or `wholes` of an expression, where it is `known`; the `truths` of an atom, or these `truths as reals`;
        the `left` or the `right` side of a comparison as float64.
    """
    key = kind, tuple(map(of_any_event, of))
    known = _reads.get(key)
    if known is None:
        known = _reads[key] = ColumnRead(*key)
    return known
