"""Negation, asked of complete matches (docs/language.md, section 3.5): which of them some event rejects."""

from __future__ import annotations

import numpy as np

from cep_pipeline.detection.kleene.bindings import Bindings, Rules
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import holds_over_lists, pieces, ranges, take
from cep_pipeline.patterns.normal_form import Variable

EVENTS_AT_ONCE = 1 << 18
"""Pairs of a match and an event that may reject it, held at once."""


def unrejected(rules: Rules, bindings: Bindings) -> Bindings:
    """The complete matches that no event of a negated variable rejects."""
    for variable in rules.clause.negated:
        rejected = _rejected(rules, bindings, variable)
        if rejected.any():
            bindings = bindings.take(np.flatnonzero(~rejected))
    return bindings


def _rejected(rules: Rules, bindings: Bindings, variable: Variable) -> Array:
    rejected = np.zeros(len(bindings), dtype=bool)
    leaf = rules.events.leaf_rows(variable.event_type)
    begin, end = np.zeros(len(bindings), np.int64), np.full(len(bindings), len(rules.events), np.int64)
    earliest, latest = rules.rows_in_window(bindings)
    if not rules.clause.predecessors(variable.name):
        begin = earliest
    if not rules.clause.successors(variable.name):
        end = latest
    begin, end = rules.places(leaf, bindings, variable, begin, end)
    conjuncts = [conjunct for conjunct in rules.clause.conjuncts if variable.name in conjunct.variables]
    for start, stop in pieces(end - begin + 1, EVENTS_AT_ONCE):
        part = bindings.between(start, stop)
        sizes = (end - begin)[start:stop]
        match = np.repeat(np.arange(stop - start, dtype=np.int64), sizes)
        rows = leaf[ranges(begin[start:stop], sizes)]
        keep = rules.distinct_and_agreeing(part, variable, match, rows)
        match, rows = match[keep], rows[keep]
        for conjunct in conjuncts:
            bound = {**take(part.bound, match), variable.name: rows}
            keep = holds_over_lists(conjunct, rules.events, bound, len(match))
            match, rows = match[keep], rows[keep]
        rejected[start + match] = True
    return rejected
