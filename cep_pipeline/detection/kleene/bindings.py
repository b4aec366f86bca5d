"""Partial matches over lists, many at once, and the rules over two events that each new event must obey.

A clause has a *skeleton*: what is left of it without Kleene closure and negation, which the kernel runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import Bound, Lists, holds_over_lists, pieces, ranges, take
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import ListBlock
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.order import StreamOrder, instants_of, may_be_one
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import clause_cache_of, clock_of, leaf_of, view_of_leaf


def has_kleene(clause: Clause) -> bool:
    """Return whether a variable of the clause binds a list."""
    return any(variable.kleene for variable in clause.positive)


def skeleton_of(clause: Clause) -> Clause:
    """The clause over its single positive variables only: their order and the conjuncts that mention no others.

    Notes
    -----
    Of every match of the clause, the events of these variables are a match of the skeleton. A clause of Kleene
    variables alone has a skeleton without variables; one without Kleene variables runs as it is, with its negation.
    """
    if not has_kleene(clause):
        return clause
    return clause_over(clause, [variable.name for variable in clause.positive if not variable.kleene])


def clause_over(clause: Clause, names: Collection[str]) -> Clause:
    """The clause over some of its positive variables only: their order and the conjuncts that mention no others.

    It is one object as long as the clause is remembered, so that what is kept with it serves all slices.
    """
    kept = frozenset(names)

    def make() -> Clause:
        return replace(
            clause,
            positive=tuple(variable for variable in clause.positive if variable.name in kept),
            negated=(),
            negated_structures=(),
            precedence=frozenset(pair for pair in clause.precedence if kept.issuperset(pair)),
            conjuncts=tuple(conjunct for conjunct in clause.conjuncts if conjunct.variables <= kept),
        )

    return clause_cache_of(clause).once(("over", kept), make)


def skeleton_order(clause: Clause, order: Sequence[str]) -> tuple[str, ...]:
    """The variables of the skeleton in plan order."""
    return tuple(name for name in order if not clause.by_name[name].kleene)


def kleene_order(clause: Clause, order: Sequence[str]) -> tuple[str, ...]:
    """The Kleene variables in plan order."""
    return tuple(name for name in order if clause.by_name[name].kleene)


@dataclass(frozen=True, eq=False)
class Bindings:
    """Partial matches of one clause that bind the same variables.

    Attributes
    ----------
    bound
        Variable -> its row for each partial match, or its list.
    first, last
        Shape (n,): the first and the last row of each partial match, which has an event at least.
    """

    bound: Bound
    first: Array
    last: Array

    def __len__(self) -> int:
        return len(self.first)

    def take(self, places: Array) -> Bindings:
        """Some of the partial matches, or some several times."""
        return Bindings(take(self.bound, places), self.first[places], self.last[places])

    def between(self, start: int, stop: int) -> Bindings:
        """A run of the partial matches."""
        return self.take(np.arange(start, stop))

    def first_of(self, name: str) -> Array:
        """The first row of a variable."""
        value = self.bound[name]
        return value.firsts() if isinstance(value, Lists) else value

    def last_of(self, name: str) -> Array:
        """The last row of a variable."""
        value = self.bound[name]
        return value.lasts() if isinstance(value, Lists) else value

    def with_list(self, name: str, lists: Lists) -> Bindings:
        """The partial matches with one more variable."""
        first = np.minimum(self.first, lists.firsts())
        return Bindings({**self.bound, name: lists}, first, np.maximum(self.last, lists.lasts()))

    def block(self, clause: Clause) -> ListBlock:
        """The partial matches, now complete, as a block."""
        parts: list[tuple[Array, Array]] = []
        ones = np.ones(len(self), np.int64)
        for variable in clause.positive:
            value = self.bound[variable.name]
            parts.append((value.lengths, value.flat()) if isinstance(value, Lists) else (ones, value))
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(np.sum([lengths for lengths, _ in parts], axis=0), out=offsets[1:])
        rows = np.empty(int(offsets[-1]), np.int32)
        variables = np.empty(int(offsets[-1]), np.int32)
        at = offsets[:-1].copy()
        for index, (lengths, elements) in enumerate(parts):
            places = ranges(at, lengths)
            rows[places] = elements
            variables[places] = index
            at += lengths
        return ListBlock(clause, offsets, rows, variables)


class BindingRules:
    """The rules of one clause over two events: distinct events, order and ties, window, agreement.

    Attributes
    ----------
    order
        The rows before and after an event, by the pattern's TIES.
    window
        The rows in the window of an event.
    agreement
        int32, shape (n,): equal for events that agree on what a match must agree on, -1 for those that agree with none;
        None if nothing has to agree.
    evaluations
        Tests of a condition between a match and an event that may reject it, so far.
    """

    def __init__(self, pattern: Pattern, clause: Clause, events: PreparedEvents) -> None:
        self.pattern, self.clause, self.events = pattern, clause, events
        self.evaluations = 0
        self.order = StreamOrder(clock_of(events), pattern.ties)
        self.window = instants_of(pattern, events)
        self.agreement = agreement_codes(events, clause.agree_on)[0] if clause.agree_on else None

    def may_be_one(self, name: str, variable: Variable) -> bool:
        """Return whether a bound variable and another one may have the same event."""
        return may_be_one(self.pattern, self.clause, self.clause.by_name[name], variable)

    def rows_in_window(self, bindings: Bindings) -> tuple[Array, Array]:
        """The rows from which, and before which, an event is in the window of each partial match that has events."""
        return self.window.first_row_within(bindings.last), self.window.end_row_within(bindings.first)

    def places(
        self, leaf: Array, bindings: Bindings, variable: Variable, start: Array, stop: Array
    ) -> tuple[Array, Array]:
        """The places in a leaf of the candidates of a variable for each partial match: a range each.

        Parameters
        ----------
        leaf
            Rows of the variable's candidates, ascending.
        start, stop
            The rows from which, and before which, the candidates lie, whatever the order says.
        """
        start, stop = self._rows_between(bindings, variable, start, stop)
        begin = np.searchsorted(leaf, start, "left")
        return begin, np.maximum(np.searchsorted(leaf, stop, "left"), begin)

    def agreeing_places(
        self, bindings: Bindings, variable: Variable, start: Array, stop: Array
    ) -> tuple[Array, Array, Array]:
        """The events of a variable's leaf sorted by what they agree on, and the places of the candidates in them."""
        view = view_of_leaf(self.events, leaf_of(self.clause, variable.name), 0, len(self.events))
        leaf = view.rows
        if self.agreement is None:
            return leaf, *self.places(leaf, bindings, variable, start, stop)
        codes, size = self.agreement, len(self.events) + 1

        def make() -> tuple[Array, Array]:
            keys = codes[leaf].astype(np.int64) * size + leaf
            order = np.argsort(keys, kind="stable")
            return leaf[order], keys[order]

        leaf, keys = self.events.derive(("agreeing", view.identity, self.clause.agree_on), make)
        start, stop = self._rows_between(bindings, variable, start, stop)
        own = codes[bindings.first].astype(np.int64) * size
        begin = np.searchsorted(keys, own + start)
        return leaf, begin, np.maximum(np.searchsorted(keys, own + stop), begin)

    def _rows_between(self, bindings: Bindings, variable: Variable, start: Array, stop: Array) -> tuple[Array, Array]:
        """The rows from which, and before which, a variable's event lies by order."""
        for name in bindings.bound:
            if (name, variable.name) in self.clause.precedence:
                start = np.maximum(start, self.order.rows_after(bindings.last_of(name)))
            if (variable.name, name) in self.clause.precedence:
                stop = np.minimum(stop, self.order.rows_ahead(bindings.first_of(name)))
        return start, stop

    def events_that_may_be(self, bindings: Bindings, variable: Variable) -> Array:
        """int64, shape (n,): how many events each partial match has that may be one of the variable, too."""
        found = np.zeros(len(bindings), np.int64)
        for name, value in bindings.bound.items():
            if self.may_be_one(name, variable):
                found += value.lengths if isinstance(value, Lists) else 1
        return found

    def distinct_and_agreeing(self, bindings: Bindings, variable: Variable, partial: Array, rows: Array) -> Array:
        """Return whether each candidate is none of the events of its partial match, and agrees with them.

        Parameters
        ----------
        partial
            Ascending places in `bindings`, all of which have an event.
        """
        keep = np.ones(len(rows), dtype=bool)
        for name, value in bindings.bound.items():
            if not self.may_be_one(name, variable):
                continue
            if isinstance(value, Lists):
                owner = np.repeat(np.arange(len(bindings), dtype=np.int64), value.lengths)
                size = len(self.events)
                keep &= ~np.isin(partial * size + rows, owner * size + value.flat())
            else:
                keep &= value[partial] != rows
        if self.agreement is not None:
            code = self.agreement[rows]
            keep &= (code >= 0) & (code == self.agreement[bindings.first][partial])
        return keep


EVENTS_AT_ONCE = 1 << 18
"""Pairs of a match and an event that may reject it, held at once."""


def unrejected(rules: BindingRules, bindings: Bindings) -> Bindings:
    """The complete matches that no event of a negated variable rejects."""
    rejected = rejected_by_events(rules, bindings)
    return bindings.take(np.flatnonzero(~rejected)) if rejected.any() else bindings


def rejected_by_events(rules: BindingRules, bindings: Bindings) -> Array:
    """bool, shape (n,): the complete matches that an event of a negated variable rejects."""
    rejected = np.zeros(len(bindings), dtype=bool)
    for variable in rules.clause.negated:
        left = np.flatnonzero(~rejected)
        rejected[left] = _rejected(rules, bindings.take(left) if len(left) < len(bindings) else bindings, variable)
    return rejected


def _rejected(rules: BindingRules, bindings: Bindings, variable: Variable) -> Array:
    rejected = np.zeros(len(bindings), dtype=bool)
    begin, end = np.zeros(len(bindings), np.int64), np.full(len(bindings), len(rules.events), np.int64)
    earliest, latest = rules.rows_in_window(bindings)
    if not rules.clause.predecessors(variable.name):
        begin = earliest
    if not rules.clause.successors(variable.name):
        end = latest
    leaf, begin, end = rules.agreeing_places(bindings, variable, begin, end)
    own = {variable.name}
    conjuncts = [one for one in rules.clause.conjuncts if variable.name in one.variables and one.variables != own]
    if not conjuncts:  # all but events of the match itself reject it, so that one more than it has of them decides
        end = np.minimum(end, begin + 1 + rules.events_that_may_be(bindings, variable))
    for start, stop in pieces(end - begin + 1, EVENTS_AT_ONCE):
        part = bindings.between(start, stop)
        sizes = (end - begin)[start:stop]
        match = np.repeat(np.arange(stop - start, dtype=np.int64), sizes)
        rows = leaf[ranges(begin[start:stop], sizes)]
        keep = rules.distinct_and_agreeing(part, variable, match, rows)
        match, rows = match[keep], rows[keep]
        for conjunct in conjuncts:
            rules.evaluations += len(match)
            bound = {**take(part.bound, match), variable.name: rows}
            keep = holds_over_lists(conjunct, rules.events, bound, len(match))
            match, rows = match[keep], rows[keep]
        rejected[start + match] = True
    return rejected
