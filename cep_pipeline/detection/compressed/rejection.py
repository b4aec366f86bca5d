"""Rule 5 of negation over merged runs (language page, section 3.5), asked when all that it needs is known.

The events that could reject lie in a range of the negated variable's candidates: a run remembers where the range begins
(behind its last event of P(n)) and where it ends (ahead of its first event of S(n)) as places among the candidates,
so that runs between the same two candidates are equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cep_pipeline.detection.compressed.components import Condition
from cep_pipeline.detection.compressed.fields import Fields
from cep_pipeline.detection.compressed.groups import Negation
from cep_pipeline.detection.compressed.lanes import Lanes, Sequence, candidates_of
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import pieces, ranges

PAIRS_AT_ONCE = 1 << 20
"""Pairs of a run and an event that may reject it, held at once."""

Settle = Callable[[Condition, Fields, Array, Lanes, dict[str, Array]], Array]
"""Whether a condition holds: of runs by fields and lanes, with rows of negated variables."""


class Rejection:
    """How events of one negated variable reject."""

    def __init__(self, negation: Negation, sequence: Sequence, settle: Settle) -> None:
        self.negation, self.sequence, self.settle = negation, sequence, settle
        self.clause_bit = 1 << negation.clause
        rows = candidates_of(negation.variable, negation.leaf, sequence.events)
        codes = sequence.codes[rows]
        rows, codes = rows[codes >= 0], codes[codes >= 0]
        order = np.lexsort((rows, codes))
        self.rows = rows[order]
        self.keys = sequence.key(codes[order], self.rows)

    def begins_after(self, rows: Array) -> Array:
        """The place of the first candidate after events of P(n)."""
        return self._places(rows, self.sequence.order.rows_after(rows))

    def ends_ahead(self, rows: Array) -> Array:
        """The place behind the last candidate before events of S(n)."""
        return self._places(rows, self.sequence.order.rows_ahead(rows))

    def _places(self, of: Array, rows: Array) -> Array:
        return np.searchsorted(self.keys, self.sequence.key(self.sequence.codes[of], rows))

    def rejected(self, fields: Fields, lane: Array, lanes: Lanes, last: Array) -> Array:
        """Which runs an event rejects.

        Parameters
        ----------
        fields, lane
            Of the runs.
        last
            The row of the last event of each.
        """
        negation, sequence = self.negation, self.sequence
        if negation.before:
            begin = fields[f"after {negation.name}"]
        else:
            begin = self._places(last, sequence.instants.first_row_within(last))
        end = fields[f"before {negation.name}"] if negation.after else self._places(last, lanes.end_row[lane])
        begin = np.where(sequence.codes[last] >= 0, begin, end)
        count = np.maximum(end - begin, 0)
        if not negation.conditions and not negation.excluded:
            some: Array = count > 0
            return some
        rejected = np.zeros(len(lane), dtype=bool)
        for start, stop in pieces(count, PAIRS_AT_ONCE):
            run = np.repeat(np.arange(start, stop), count[start:stop])
            rows = self.rows[ranges(begin[start:stop], count[start:stop])]
            for name in negation.excluded:
                keep = fields[f"own {name}"][run] != rows
                run, rows = run[keep], rows[keep]
            for condition in negation.conditions:
                if not len(run):
                    break
                part = {name: values[run] for name, values in fields.items()}
                keep = self.settle(condition, part, lane[run], lanes, {negation.variable.name: rows})
                run, rows = run[keep], rows[keep]
            rejected[run] = True
        return rejected
