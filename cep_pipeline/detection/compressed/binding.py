"""What becomes of a run that binds an event: its new fields, and the conditions that can be decided then."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cep_pipeline.detection.compressed.components import Choice, Component, Condition
from cep_pipeline.detection.compressed.fields import (
    BROKEN,
    NOTHING,
    SOME,
    Fields,
    RunScope,
    all_conditions,
    equal_rows,
    from_bits,
    keeps_failure,
    mentions,
    summary_field,
    to_bits,
)
from cep_pipeline.detection.compressed.lanes import Lanes, Sequence
from cep_pipeline.detection.compressed.rejection import Rejection
from cep_pipeline.detection.compressed.states import Known
from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.expressions.comparison import compare
from cep_pipeline.patterns.conditions import Comparator
from cep_pipeline.patterns.expressions import Aggregate, Length, Reference
from cep_pipeline.patterns.pattern import Ties

if TYPE_CHECKING:
    from cep_pipeline.detection.compressed.runs import Runs


class Binder:
    """Binds events to the variables of a group's runs.

    Parameters
    ----------
    sequence
        The events, with the group and its states.
    fields
        The names of the fields that runs have.
    """

    def __init__(self, sequence: Sequence, fields: set[str]) -> None:
        self.sequence, self.fields = sequence, fields
        self.events, self.states, self.group = sequence.events, sequence.states, sequence.group
        self.conditions = [(*pair, keeps_failure(*pair)) for pair in all_conditions(self.group)]
        self.rejections = [Rejection(negation, sequence, self._settle) for negation in self.group.negations]
        self._like: dict[str, Column] = {}
        used: dict[str, set[str]] = {name: set() for name in self.states.names}
        self.summaries: dict[str, dict[str, Aggregate | Length]] = {name: {} for name in self.states.names}
        for condition, _, _ in self.conditions:
            for node in (node for component in condition.components for node in mentions(component)):
                if node.variable not in used:
                    continue
                if isinstance(node, Reference) or (isinstance(node, Aggregate) and node.function in ("first", "last")):
                    used[node.variable].add(node.attribute)
                else:
                    self.summaries[node.variable][summary_field(node)] = node
        self.equal = {
            name: equal_rows(self.events, attributes, np.flatnonzero(fits), sequence.size)
            for (name, attributes), fits in zip(used.items(), sequence.fits, strict=True)
        }

    # -- who may --------------------------------------------------------------------------------------------------

    def may_bind(self, number: int, runs: Runs, row: Array, lanes: Lanes) -> Array:
        """Whether each run may bind its lane's event to a variable, by type, order, and what is guessed."""
        states, ties = self.states, self.sequence.ties
        name = states.names[number]
        may: Array = self.sequence.fits[number][row]
        if not may.any():
            return may
        before, after, bit = states.before[name], states.after[name], states.bit[name]
        if ties is Ties.ANY:
            may = may & (runs.state & after & ~runs.fresh == 0)
        else:
            may = may & (runs.state & after == 0) & (runs.state & before == before)
            if ties is Ties.STRICT:
                may &= runs.fresh & before == 0
        if bit & states.singles:
            may &= runs.state & bit == 0
        for guessed, rows in lanes.guesses.items():
            here = rows[runs.lane] == row
            may &= here if guessed == name else ~here
        return may

    def may_ignore(self, runs: Runs, row: Array, lanes: Lanes) -> Array:
        """Whether each run may ignore its lane's event: not the one that it guesses."""
        may = np.ones(len(runs), dtype=bool)
        for rows in lanes.guesses.values():
            may &= rows[runs.lane] != row
        return may

    # -- binding --------------------------------------------------------------------------------------------------

    def bound(self, number: int, runs: Runs, row: Array, lanes: Lanes) -> Runs:
        """The runs with the event bound, those that may still become a match.

        Parameters
        ----------
        runs, row
            Runs that may bind the variable, and the event of each.
        """
        from cep_pipeline.detection.compressed.runs import Runs

        states, ties = self.states, self.sequence.ties
        name = states.names[number]
        bit = states.bit[name]
        old = runs.state
        first = old & bit == 0
        fresh = runs.fresh
        if ties is Ties.STRICT:
            fresh = fresh | bit
        elif ties is Ties.ANY:
            fresh = np.where(first, fresh | bit, fresh)
        fields = self._remember(name, runs.fields, row, first)
        new = Runs(runs.lane, old | bit, runs.clauses, fresh, fields, runs.count, runs.node)
        alive = np.ones(len(runs), dtype=bool)
        for condition, negation, keeps in self.conditions:
            self._choose(condition, keeps, name, runs, new, row, lanes, alive)
            if negation is None:
                decided = alive & self._newly(partial(states.is_decided, condition), old, new.state)
                if decided.any():
                    places = np.flatnonzero(decided)
                    part = _some(new.fields, places)
                    alive[places] = self._settle(condition, part, new.lane[places], lanes, {})
        clauses = new.clauses
        for rejection in self.rejections:
            is_decided = partial(states.is_rejection_decided, rejection.negation)
            decided = alive & self._newly(is_decided, old, new.state)
            if decided.any():
                places = np.flatnonzero(decided)
                rejected = rejection.rejected(_some(new.fields, places), new.lane[places], lanes, row[places])
                clauses = clauses.copy()
                clauses[places[rejected]] &= ~rejection.clause_bit
        alive &= clauses != 0
        new = Runs(new.lane, new.state, clauses, new.fresh, new.fields, new.count, new.node)
        return new if alive.all() else new.take(np.flatnonzero(alive))

    def matches(self, runs: Runs, row: Array, lanes: Lanes) -> Array:
        """Which of the runs that have bound everything are matches with the event that they have just bound."""
        states = self.states
        matches = np.ones(len(runs), dtype=bool)
        for condition in self.group.conditions:
            if not states.is_decided(condition, states.full):
                places = np.flatnonzero(matches)
                part = _some(runs.fields, places)
                matches[places] = self._settle(condition, part, runs.lane[places], lanes, {})
        clauses = runs.clauses
        for rejection in self.rejections:
            if not states.is_rejection_decided(rejection.negation, states.full):
                places = np.flatnonzero(matches & (clauses & rejection.clause_bit != 0))
                rejected = rejection.rejected(_some(runs.fields, places), runs.lane[places], lanes, row[places])
                clauses = clauses.copy()
                clauses[places[rejected]] &= ~rejection.clause_bit
        kept: Array = matches & (clauses != 0)
        return kept

    def _newly(self, known: Known, old: Array, new: Array) -> Array:
        return self.states.where(known, new) & ~self.states.where(known, old)

    def _remember(self, name: str, old: Fields, row: Array, first: Array) -> dict[str, Array]:
        """The fields with one more event of a variable."""
        fields = dict(old)
        equal = self.equal[name][row]
        for field in (f"row {name}", f"last {name}"):
            if field in fields:
                fields[field] = equal
        if f"own {name}" in fields:
            fields[f"own {name}"] = row
        if f"first {name}" in fields:
            fields[f"first {name}"] = np.where(first, equal, fields[f"first {name}"])
        for field, node in self.summaries[name].items():
            if field in fields:
                fields[field] = self._summed(node, fields[field], row)
        for rejection in self.rejections:
            negation = rejection.negation
            if name in negation.before:
                fields[f"after {negation.name}"] = rejection.begins_after(row)
            if name in negation.after:
                ahead = fields[f"before {negation.name}"]
                fields[f"before {negation.name}"] = np.where(ahead < 0, rejection.ends_ahead(row), ahead)
        return fields

    def _summed(self, node: Aggregate | Length, held: Array, row: Array) -> Array:
        """A length or an aggregate with one more event."""
        if isinstance(node, Length):
            return held + 1
        column = self.events.column(node.attribute)
        present = np.ones(len(row), dtype=bool) if column.valid is None else column.valid[row]
        if node.function == "count":
            return held + present
        some = held >= 0
        value, kept = column.values[row], column.values[np.maximum(held, 0)]
        replaced = value < kept if node.function == "min" else value > kept
        if column.values.dtype.kind == "f":
            replaced = (replaced | np.isnan(value)) & ~np.isnan(kept)
        return np.where(present & (~some | replaced), row, held)

    # -- conditions -----------------------------------------------------------------------------------------------

    def _choose(
        self,
        condition: Condition,
        keeps: bool,
        name: str,
        runs: Runs,
        new: Runs,
        row: Array,
        lanes: Lanes,
        alive: Array,
    ) -> None:
        """Test or remember what the event adds to the choices of a condition; changes `new.fields` and `alive`."""
        states = self.states
        for component in condition.components:
            for choice in component.choices:
                is_known = partial(states.is_known, component, choice)
                known = states.where(is_known, new.state)
                if choice.variable == name:
                    adds = alive & (runs.state & states.bit[name] != 0) if choice.index else alive.copy()
                    places = np.flatnonzero(adds & known)
                    if len(places):
                        scope = self._scope(_some(new.fields, places), new.lane[places], lanes, {})
                        scope.chosen = {name: (row[places], _some(runs.fields, places))}
                        self._fail(component, keeps, places[~self._at_once(component, choice, scope)], new, alive)
                    places = np.flatnonzero(adds & ~known)
                    if len(places):
                        scope = self._scope(_some(new.fields, places), new.lane[places], lanes, {})
                        scope.chosen = {name: (row[places], _some(runs.fields, places))}
                        self._extend(component, choice, scope, new, places)
                elif f"has {_key(component, choice)}" in new.fields:
                    places = np.flatnonzero(alive & known & ~states.where(is_known, runs.state))
                    if len(places):
                        part = _some(new.fields, places)
                        held = self._held(component, self._scope(part, new.lane[places], lanes, {}))
                        self._fail(component, keeps, places[~held], new, alive)

    def _fail(self, component: Component, keeps: bool, places: Array, new: Runs, alive: Array) -> None:
        if not len(places):
            return
        if not keeps:
            alive[places] = False
            return
        failed = new.fields[f"failed {component.number}"].copy()
        failed[places] = 1
        assert isinstance(new.fields, dict)
        new.fields[f"failed {component.number}"] = failed

    def _at_once(self, component: Component, choice: Choice, scope: RunScope) -> Array:
        """Whether a component holds for the element that is being bound."""
        if len(component.choices) == 1:
            return scope.holds(component)
        assert component.sides is not None
        assert component.comparator is not None
        other = component.other_side(choice)
        assert other.choice is not None
        own = component.sides[0] if component.sides[1] is other else component.sides[1]
        column, some, broken = self._extreme(component, other.choice, scope)
        sides = (scope.values(own.expression), column)
        if own is component.sides[1]:
            sides = (sides[1], sides[0])
        return ~some & ~broken | ~broken & compare(component.comparator, *sides)

    def _extend(self, component: Component, choice: Choice, scope: RunScope, new: Runs, places: Array) -> None:
        """Keep the extreme of a side with one more element."""
        assert component.sides is not None
        own = component.sides[0] if component.sides[0].choice == choice else component.sides[1]
        column = scope.values(own.expression)
        bits, known = to_bits(column)
        key = _key(component, choice)
        held, has = new.fields[f"extreme {key}"], new.fields[f"has {key}"]
        had = has[places]
        kept = from_bits(held[places], column)
        if own.least is None:
            differs = ~compare(Comparator.EQ, Column(column.type, column.values, None, column.dictionary), kept)
            broken = (had == SOME) & differs
            replaced = np.zeros(len(places), dtype=bool)
        else:
            broken = np.zeros(len(places), dtype=bool)
            replaced = column.values < kept.values if own.least else column.values > kept.values
        broken |= ~known | (had == BROKEN)
        held, has = held.copy(), has.copy()
        held[places] = np.where(broken, 0, np.where((had == NOTHING) | replaced, bits, held[places]))
        has[places] = np.where(broken, BROKEN, SOME)
        assert isinstance(new.fields, dict)
        new.fields[f"extreme {key}"], new.fields[f"has {key}"] = held, has

    def _extreme(self, component: Component, choice: Choice, scope: RunScope) -> tuple[Column, Array, Array]:
        """The extreme of a side: its values, where there are some, and where no value can be compared."""
        side = next(side for side in component.sides or () if side.choice == choice)
        key = _key(component, choice)
        has = scope.fields[f"has {key}"]
        if key not in self._like:  # a column of the side's type, and of its strings
            nothing = RunScope(self.events, _Empty(), 0, {})
            nothing.chosen = _Anything()
            self._like[key] = nothing.values(side.expression)
        return from_bits(scope.fields[f"extreme {key}"], self._like[key]), has == SOME, has == BROKEN

    def _held(self, component: Component, scope: RunScope) -> Array:
        """Whether a component holds for all elements that came before what they are compared with."""
        if component.sides is None:
            return np.ones(scope.size, dtype=bool)
        assert component.comparator is not None
        columns = []
        vacuous = np.zeros(scope.size, dtype=bool)
        broken = np.zeros(scope.size, dtype=bool)
        for side in component.sides:
            if side.choice is None:
                columns.append(scope.values(side.expression))
                continue
            if f"has {_key(component, side.choice)}" not in scope.fields:
                return np.ones(scope.size, dtype=bool)  # each element was tested as it came
            column, some, bad = self._extreme(component, side.choice, scope)
            columns.append(column)
            vacuous |= ~some & ~bad
            broken |= bad
        return vacuous | (~broken & compare(component.comparator, *columns))

    def _settle(self, condition: Condition, fields: Fields, lane: Array, lanes: Lanes, rows: dict[str, Array]) -> Array:
        """Whether a condition holds for complete lists; `rows` has the event of the negated variable."""
        scope = self._scope(fields, lane, lanes, rows)
        holds = np.zeros(len(lane), dtype=bool)
        for component in condition.components:
            if not component.choices:
                holds |= scope.holds(component)
                continue
            held = self._held(component, scope)
            if f"failed {component.number}" in fields:
                held = held & (fields[f"failed {component.number}"] == 0)
            holds |= held
        return holds

    def _scope(self, fields: Fields, lane: Array, lanes: Lanes, rows: dict[str, Array]) -> RunScope:
        guessed = {name: guess[lane] for name, guess in lanes.guesses.items()}
        return RunScope(self.events, fields, len(lane), {**guessed, **rows})


def _key(component: Component, choice: Choice) -> str:
    return f"{component.number} {choice.index:d} {choice.variable}"


def _some(fields: Fields, places: Array) -> dict[str, Array]:
    return {name: values[places] for name, values in fields.items()}


_NO_ROWS = np.empty(0, np.int64)


class _Empty(dict[str, Array]):
    """The fields of no runs at all."""

    def __missing__(self, name: str) -> Array:
        return _NO_ROWS


class _Anything(dict[str, tuple[Array, Fields]]):
    """The chosen elements of no runs at all."""

    def __missing__(self, name: str) -> tuple[Array, Fields]:
        return _NO_ROWS, _Empty()
