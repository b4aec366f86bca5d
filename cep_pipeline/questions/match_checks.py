"""`why`: each rule of a pattern, asked of some events; a match fulfils all of them, and other events say which not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.composition import longer_stream
from cep_pipeline.detection.detect import DetectionRun, detect
from cep_pipeline.detection.match_ids import MatchIdentity
from cep_pipeline.detection.matches import UTC_MICROSECONDS
from cep_pipeline.detection.negated_structures import StructureCheck
from cep_pipeline.detection.results import match_events
from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import SEQ, SEQ_PER_DAY, TIMESTAMP
from cep_pipeline.events.event_words import (
    MOST_SHOWN,
    event_name,
    events_in_words,
    local_time,
    value_in_words,
    values_in_words,
)
from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.expressions.lists import Bound, Lists, holds_over_lists, take, values_compared
from cep_pipeline.foreign_text import html_table
from cep_pipeline.language.formatter import (
    format_condition,
    format_structure,
    format_type,
    format_value,
    format_window,
    literal_in_words,
)
from cep_pipeline.patterns.composing import COMPOSED_MATCH, EVENT_TYPE, WRITTEN_SEQ, plain_pattern
from cep_pipeline.patterns.conditions import (
    AllOf,
    AnyOf,
    Atom,
    Between,
    Comparison,
    Condition,
    Conjunct,
    Equivalence,
    Like,
    Membership,
    NullTest,
    Truth,
    expressions_of,
)
from cep_pipeline.patterns.expressions import Literal as Constant
from cep_pipeline.patterns.expressions import Reference
from cep_pipeline.patterns.normal_form import Clause, NegatedStructure, Variable, negation_of, split_condition
from cep_pipeline.patterns.pattern import Consume, Output, Pattern
from cep_pipeline.patterns.rewriting import restricted, with_operands
from cep_pipeline.patterns.structure import type_alternatives
from cep_pipeline.slices.events_input import as_table, columns_of, events_for
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.order import StreamOrder, WindowInstants, instants_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.storage import SHORT_ID, place_of_id

Rule = Literal["type", "distinct", "order", "window", "agreement", "condition", "negation", "strategy", "output"]
"""The rules that events can break: docs/language.md, sections 3 to 5."""
INSIDE_COLUMNS = ("variable", "match", "events inside")
Bindings = Mapping[str, int | str | UUID | Sequence[int | str | UUID]]
"""Variable -> its event or events: by the seq, or by the id where they are matches of other patterns."""
CHECK_COLUMNS = ("holds", "rule", "seen", "short by")


@dataclass(frozen=True)
class RuleCheck:
    """One rule of a pattern, asked of some events.

    Attributes
    ----------
    rule
        The kind of rule.
    text
        The rule, as the language writes it where it can.
    holds
        Whether the events fulfil it.
    seen
        The values on both sides, or what else decided.
    short_by
        For numbers and windows that fail: by how much they miss, in their own unit (moments and lengths of time:
        seconds).
    share
        The same as a share of the larger of the two sides, so that conditions compare with each other.
    """

    rule: Rule
    text: str
    holds: bool
    seen: str = ""
    short_by: float | None = None
    share: float | None = None


@dataclass(frozen=True)
class Explanation:
    """Why some events are a match of a pattern, or are not.

    Attributes
    ----------
    pattern
        Name of the pattern.
    match_id
        The id that a match of these events has.
    bindings
        Variable and seq of each event.
    events
        The events as rows: `variable`, `timestamp`, `seq` and the attributes that the pattern reads.
    checks
        Every rule. The strategy is asked only where all other rules hold.
    timezone
        The zone in which times are written.
    names
        How each event is called that is the match of another pattern, by this pattern and its id; "" for all others.
    composed
        The matches of other patterns among the events: the variable, the pattern, and the id.
    inside
        Why these matches are matches, one after the other.
    places
        The file and line of each event, as in trades.csv:57; none where they are not known.
    clause
        The number of the part of OR whose rules are asked: of those with these variables the one of which fewest fail.
    """

    pattern: str
    match_id: str
    bindings: tuple[tuple[str, int], ...]
    events: pa.Table
    checks: tuple[RuleCheck, ...]
    timezone: str
    names: tuple[str, ...]
    composed: tuple[tuple[str, str, UUID], ...] = ()
    inside: tuple[Explanation, ...] = ()
    places: tuple[str, ...] = ()
    clause: int = 0

    @property
    def is_match(self) -> bool:
        """True if the events fulfil all rules."""
        return not self.failed

    @property
    def failed(self) -> tuple[RuleCheck, ...]:
        """The rules that the events break."""
        return tuple(check for check in self.checks if not check.holds)

    @property
    def event_columns(self) -> tuple[str, ...]:
        """The columns of `event_rows`."""
        placed = ["file and line"] if self.places else []
        return ("variable", f"time ({self.timezone})", *placed, *self.events.column_names[3:])

    def event_rows(self) -> list[list[str]]:
        """Return the events as texts: variable, local time, and the attributes that the pattern reads."""
        names = self.events.column_names[3:]
        return [
            [
                row["variable"],
                local_time(row[TIMESTAMP], self.timezone),
                *self.places[number : number + 1],
                *(value_in_words(row[name], self.timezone) for name in names),
            ]
            for number, row in enumerate(self.events.to_pylist())
        ]

    def named_events(self) -> str:
        """Name the events in one line: each variable with its event, and its place in a file where it is known."""
        places = [f" ({place})" for place in self.places] or [""] * len(self.bindings)
        told = events_in_words(self.events.to_pylist(), self.timezone, self.events.column_names[3])
        bound = zip(self.bindings, told, self.names, places, strict=True)
        return ", ".join(f"{f'{own} {name}' if name else event}{place}" for (own, _), event, name, place in bound)

    def inside_rows(self) -> Iterator[list[str]]:
        """Yield the matches among the events as texts: the variable, the match, and the events inside of it."""
        for (variable, name, match_id), one in zip(self.composed, self.inside, strict=False):
            yield [variable, f"{name} {str(match_id)[:SHORT_ID]}", one.named_events()]
            yield from ([f"{variable}.{inner}", *rest] for inner, *rest in one.inside_rows())

    def check_rows(self) -> list[list[str]]:
        """Return the rules as texts: whether it holds, the rule, what was seen, by how much it fails."""
        return [
            ["yes" if one.holds else "NO", one.text, one.seen, "" if one.short_by is None else f"{one.short_by:.6g}"]
            for one in self.checks
        ]

    def summary(self) -> str:
        """Say in one sentence what the events are."""
        if self.is_match:
            return f"{self.pattern}: these events are a match"
        reasons = "; ".join(f"{one.text}{f' ({one.seen})' if one.seen else ''}" for one in self.failed)
        return f"{self.pattern}: these events are no match, because of: {reasons}"

    def __repr__(self) -> str:
        failed = len(self.failed)
        state = f"no match, {failed} of {len(self.checks)} rules fail{'s' * (failed == 1)}" if failed else "a match"
        return f"<Explanation {self.pattern}: {state}>"

    def __str__(self) -> str:
        events = ["  ".join(row) for row in self.event_rows()]
        checks = [
            f"{row[0]:3}  {row[1]}{': ' if row[2] else ''}{row[2]}{f', short by {row[3]}' if row[3] else ''}"
            for row in self.check_rows()
        ]
        inside = ["  ".join(row) for row in self.inside_rows()]
        return "\n".join([self.summary(), *events, *inside, *checks])

    def _repr_html_(self) -> str:
        checks = html_table(CHECK_COLUMNS, self.check_rows(), self.summary())
        inside = html_table(INSIDE_COLUMNS, list(self.inside_rows())) if self.inside else ""
        return checks + html_table(self.event_columns, self.event_rows()) + inside

    def to_json(self) -> dict[str, Any]:
        """Return all of it as values of JSON."""
        return {
            "pattern": self.pattern,
            "is_match": self.is_match,
            "match_id": self.match_id,
            "bindings": [{"variable": variable, "seq": seq} for variable, seq in self.bindings],
            "events": [dict(zip(self.event_columns, row, strict=True)) for row in self.event_rows()],
            "composed": [{"variable": one, "pattern": name, "match_id": str(id_)} for one, name, id_ in self.composed],
            "inside": [one.to_json() for one in self.inside],
            "checks": [vars(check) for check in self.checks],
        }


def why(pattern: Pattern, events: Any, bindings: Bindings, *, timezone: str = "UTC") -> Explanation:
    """Say of some events which rules of a pattern they fulfil, and which not, with the values that decide.

    Parameters
    ----------
    pattern
        The pattern.
    events
        Events as `detect` takes them: those that are meant, and all others that its window may reach.
    bindings
        Variable -> the seq of its event, or several for a list: of all variables of one part of the pattern. A match of
        another pattern, which is an event for a pattern that composes, is named by its id.
    timezone
        The zone in which times are written.

    Raises
    ------
    InputError
        An event is not there, or the variables are not those of the pattern.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> rows = [{"timestamp": 0, "kind": "A", "x": 3}, {"timestamp": 5, "kind": "B", "x": 1}]
    >>> [rise] = cep.parse_patterns("NAME rise PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 second", schema)
    >>> cep.why(rise, schema.table(rows), {"a": 0, "b": 1}).summary()
    'rise: these events are no match, because of: a.x < b.x (3 < 1)'
    """
    asked = AskedPattern.of(pattern, events)
    return asked.with_inside(asked.explain(asked.places(bindings), timezone))


def why_match(
    pattern: Pattern,
    events: Any,
    match: Mapping[str, Any],
    matches: Mapping[str, pa.Table] | None = None,
    *,
    timezone: str = "UTC",
) -> Explanation:
    """Do what `why` does for a match, a row of its table; `matches` are those of all that the pattern composes."""
    asked = AskedPattern.of(pattern, events, matches)
    return asked.with_inside(asked.explain(asked.places_of(match), timezone))


@dataclass(frozen=True, eq=False)
class AskedPattern:
    """A pattern and its events as they are run: for a composing pattern its plain form and its longer stream.

    Attributes
    ----------
    written
        The pattern as it is written.
    pattern, table
        The pattern that is run, and its events. In a longer stream a seq is a place.
    events, matches
        The events that were given, and the matches that are events beside them, by the name of their pattern.
    """

    written: Pattern
    pattern: Pattern
    table: pa.Table
    events: pa.Table
    matches: Mapping[str, pa.Table]

    @classmethod
    def of(cls, pattern: Pattern, events: Any, matches: Mapping[str, pa.Table] | None = None) -> AskedPattern:
        """The pattern over some events; the matches of all that it composes are detected if they are not given."""
        table = as_table(events)
        own = events_for([pattern], table)
        if not pattern.composes:
            return cls(pattern, pattern, own, table, {})
        if matches is None:
            matches = DetectionRun().composed([pattern], table)
        return cls(pattern, plain_pattern(pattern), longer_stream(pattern, own, matches), table, matches)

    def places(self, bindings: Bindings) -> dict[str, list[int]]:
        """The seqs in `table` of events that are named by their seqs, and of matches that are named by their ids."""
        given = {
            name: [one] if isinstance(one, int | np.integer | str | UUID) else list(one)
            for name, one in bindings.items()
        }
        return {name: [self._place(name, one) for one in some] for name, some in given.items()}

    def places_of(self, match: Mapping[str, Any]) -> dict[str, list[int]]:
        """The same for the events of a match, a row of its table."""
        found: dict[str, list[int]] = {}
        for one in match.get("composed") or ():
            found.setdefault(one["variable"], []).append(self._place(one["variable"], one["match_id"]))
        seqs: dict[str, list[int]] = {}
        for one in match["bindings"]:
            seqs.setdefault(one["variable"], []).append(one["seq"])
        for name, own in seqs.items():
            composed = found.setdefault(name, [])
            of_events = Counter(own) - Counter(self.table[WRITTEN_SEQ][place].as_py() for place in composed)
            composed += [self._place(name, seq) for seq in of_events.elements()]
        return found

    def _place(self, variable: str, named: int | str | UUID) -> int:
        if isinstance(named, str | UUID):
            types = [name for one in self.written.operands if one.variable == variable for name in one.types]
            for name in types:  # matches of two statements that are written alike have the same ids
                ids = self.matches[name]["match_id"] if name in self.matches else pa.array([], pa.string())
                if (place := place_of_id(ids, named)) >= 0:
                    known = UUID(str(ids[place].as_py()))
                    own = pc.equal(self.table[COMPOSED_MATCH], pa.scalar(known.bytes, pa.binary(16)))
                    return int(pc.index(pc.and_(own, pc.equal(self.table[EVENT_TYPE], name)), True).as_py())
            kinds = " or ".join(name for name in types if name in self.matches) or "another pattern"
            raise InputError(f"{variable} = {named}: there is no match of {kinds} with this id among these events")
        if not self.written.composes:
            return int(named)
        own = pc.and_(pc.equal(self.table[WRITTEN_SEQ], int(named)), pc.is_null(self.table[COMPOSED_MATCH]))
        place = pc.index(own, True).as_py()
        if place < 0:
            raise InputError(f"there is no event {event_name(named)} among these {len(self.events):,} events")
        return int(place)

    def match_name(self, seq: int) -> str:
        """Name a match that is an event of `table`; "" for an event of the stream."""
        match_id = self.table[COMPOSED_MATCH][seq].as_py() if self.written.composes else None
        return f"{self.table[EVENT_TYPE][seq].as_py()} {match_id.hex()[:SHORT_ID]}" if match_id else ""

    def in_words(self, seq: int, timezone: str) -> str:
        """Name an event of `table` by its type, its values and its time; a match that is one by its id and its time."""
        names = [name for name in columns_of(self.pattern) if name not in (SEQ, COMPOSED_MATCH)]
        place = pc.index(self.table[SEQ], seq).as_py()
        found = self.table.select(dict.fromkeys((*names, TIMESTAMP))).slice(place, 1)
        [row] = _with_times(found, self.times).to_pylist()
        time = local_time(row.pop(TIMESTAMP), timezone)
        told = values_in_words(row, self.pattern.type_attribute, timezone)
        return f"{self.match_name(seq) or ' '.join(told)} at {time}"

    @property
    def times(self) -> frozenset[str]:
        """The attributes that are times, in the stream and in what matches that are events return."""
        returned = [item for one in self.written.composes for item in one.returns]
        return frozenset({*self.written.times, *(item.name for item in returned if item.is_time)})

    @property
    def days(self) -> int:
        """The number of days on which the events are, which their seqs tell."""
        return max(1, len(pc.unique(pc.divide(self.events[SEQ], SEQ_PER_DAY))))

    def explain(
        self, places: Mapping[str, Sequence[int]], timezone: str, *, among: pa.Table | None = None
    ) -> Explanation:
        """Ask each rule of events that are named by their seqs in `table`, of which some are enough to be looked at."""
        pattern, table = self.pattern, self.table if among is None else among
        prepared = PreparedEvents(table, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
        clauses = _clauses_of(pattern, places)
        clause = clauses[0]
        for variable in clause.positive:
            if not places[variable.name] or (len(places[variable.name]) > 1 and not variable.kleene):
                raise InputError(f"{variable.name} binds {'at least ' if variable.kleene else ''}one event")
        rows = {variable.name: _rows_of(prepared, places[variable.name]) for variable in clause.positive}
        name_of = partial(self.in_words, timezone=timezone)
        found_by: list[tuple[int, int, tuple[RuleCheck, ...]]] = []
        for clause in clauses:
            asked = _Rules(pattern, clause, prepared, rows, timezone, name_of, self.times)
            checks = tuple(asked.checks())
            if all(check.holds for check in checks) and not pattern.strategy.forks:
                checks = (*checks, asked.strategy())
            found_by.append((sum(not check.holds for check in checks), clause.index, checks))
        _, number, checks = min(found_by, key=lambda one: one[:2])
        bound = [(one.name, int(prepared.seqs[row])) for one in clause.positive for row in rows[one.name]]
        as_match = pa.table(
            {
                "pattern": [pattern.name],
                "match_id": [""],
                "bindings": pa.array([[{"variable": name, "seq": seq} for name, seq in bound]], _BINDINGS),
            }
        )
        shown = [name for name in columns_of(pattern) if name not in (TIMESTAMP, SEQ, COMPOSED_MATCH)]
        found = _with_times(match_events(as_match, table, shown).drop_columns(["pattern", "match_id"]), self.times)
        names = tuple(self.match_name(seq) for _, seq in bound)
        composed: list[tuple[str, str, UUID]] = []
        if self.written.composes:
            written = self.table[WRITTEN_SEQ].take(found[SEQ])
            ids = self.table[COMPOSED_MATCH].take(found[SEQ]).to_pylist()
            kinds = self.table[EVENT_TYPE].take(found[SEQ]).to_pylist()
            names_of = zip(bound, kinds, ids, strict=True)
            composed = [(name, kind, UUID(bytes=one)) for (name, _), kind, one in names_of if one is not None]
            found = found.set_column(found.column_names.index(SEQ), SEQ, written)
            bound = [(name, seq) for (name, _), seq in zip(bound, written.to_pylist(), strict=True)]
        match_id = str(MatchIdentity.of(self.written).id_of(bound, [(name, one) for name, _, one in composed]))
        composed_by = tuple(composed)
        return Explanation(
            pattern.name, match_id, tuple(bound), found, checks, timezone, names, composed_by, clause=number
        )

    def with_inside(self, explained: Explanation) -> Explanation:
        """Explain the matches too that are among the events."""
        inner = {one.name: AskedPattern.of(one, self.events, self.matches) for one in self.written.composes}
        found = []
        for _, name, match_id in explained.composed:
            table, asked = self.matches[name], inner[name]
            row = table.slice(place_of_id(table["match_id"], match_id), 1).to_pylist()[0]
            found.append(asked.with_inside(asked.explain(asked.places_of(row), explained.timezone)))
        return replace(explained, inside=tuple(found))


_BINDINGS = pa.list_(pa.struct([("variable", pa.string()), ("seq", pa.int64())]))


def _clauses_of(pattern: Pattern, given: Mapping[str, Any]) -> list[Clause]:
    """The clauses with these variables: several differ in what they negate."""
    found = [one for one in pattern.written_clauses if {variable.name for variable in one.positive} == set(given)]
    if found:
        return found
    parts = " or ".join(", ".join(variable.name for variable in clause.positive) for clause in pattern.written_clauses)
    raise InputError(f"a match of {pattern.name} binds {parts}; given are events of: {', '.join(given) or 'none'}")


def _rows_of(events: PreparedEvents, seqs: Sequence[int]) -> Array:
    """The rows of some events, in the order of the stream."""
    rows = np.flatnonzero(np.isin(events.seqs, np.array(seqs, np.int64)))
    if len(rows) < len(set(seqs)):
        missing = next(seq for seq in seqs if seq not in events.seqs[rows])
        raise InputError(f"there is no event {event_name(missing)} among these {len(events):,} events")
    return rows


def whole_condition(conjuncts: Sequence[Conjunct], equivalences: Sequence[str]) -> Condition | None:
    """Return the condition of some conjuncts and equivalence tests; None: of none."""
    parts: list[Condition] = [one.atoms[0] if len(one.atoms) == 1 else AnyOf(one.atoms) for one in conjuncts]
    parts += [Equivalence(tuple(equivalences))] if equivalences else []
    return (parts[0] if len(parts) == 1 else AllOf(tuple(parts))) if parts else None


def part_of(pattern: Pattern, names: Sequence[str], *, all_bound: bool = False) -> Pattern:
    """Return the pattern of some of its variables, with the conditions on them alone, before OUTPUT and CONSUME.

    Where all of them are bound, none is optional any more.
    """
    structure = restricted(pattern.structure, names)
    assert structure is not None, "a pattern keeps a variable"
    if all_bound:
        structure = with_operands(structure, lambda operand: replace(operand, optional=False, reluctant=False))
    conjuncts, equivalences = split_condition(pattern.condition)
    condition = whole_condition([one for one in conjuncts if one.variables <= set(names)], equivalences)
    return replace(
        pattern, structure=structure, condition=condition, output=Output.ALL, consume=Consume.NONE, returns=()
    )


def conjunct_text_of(conjunct: Conjunct) -> str:
    """Return a conjunct as the language writes it."""
    return format_condition(conjunct.atoms[0] if len(conjunct.atoms) == 1 else AnyOf(conjunct.atoms), literal_in_words)


def negation_text(pattern: Pattern, negated: Variable | NegatedStructure) -> str:
    """Return a negated variable or structure with the conditions that say which events it means."""
    conjuncts, _ = split_condition(pattern.condition)
    if isinstance(negated, Variable):
        names = {negated.name}
        text = f"~{type_alternatives(negated.event_type, format_type)} {negated.name}"
    else:
        names = {variable.name for variable in negated.variables}
        text = format_structure(negation_of(pattern.structure, negated))
    own = [conjunct_text_of(one) for one in conjuncts if not names.isdisjoint(one.variables)]
    return f"{text}{' with ' if own else ''}{' AND '.join(own)}"


@dataclass(frozen=True, eq=False)
class _Rules:
    """The rules of one clause and the events that they are asked of, as ascending rows by variable."""

    pattern: Pattern
    clause: Clause
    events: PreparedEvents
    rows: Mapping[str, Array]
    timezone: str
    name_of: Callable[[int], str]
    times: Collection[str]

    @property
    def matched(self) -> Array:
        """The rows of all events, in the order of the stream."""
        return np.sort(np.concatenate(list(self.rows.values())))

    @property
    def order(self) -> StreamOrder:
        return StreamOrder(self.events.timestamps, self.pattern.ties)

    @property
    def bound(self) -> Bound:
        """The events as one binding."""
        one = np.zeros(1, np.int64)
        return {
            variable.name: Lists(one, np.array([len(self.rows[variable.name])]), self.rows[variable.name])
            if variable.kleene
            else self.rows[variable.name]
            for variable in self.clause.positive
        }

    def checks(self) -> Iterator[RuleCheck]:
        """Ask all rules but the strategy."""
        yield from self._types()
        twice = self.matched[1:][np.diff(self.matched) == 0]
        if len(twice):
            yield RuleCheck(
                "distinct", "all events are different ones", False, f"{self._event(twice[0])} is bound twice"
            )
        yield from self._orders()
        yield self._window()
        yield from self._agreements()
        negated = {variable.name for variable in self.clause.negated}
        for conjunct in self.clause.conjuncts:
            if not conjunct.variables & negated:
                yield self._condition(conjunct)
        for variable in self.clause.negated:
            yield self._negation(variable)
        for structure in self.clause.negated_structures:
            yield self._negated_structure(structure)

    def _types(self) -> Iterator[RuleCheck]:
        for variable in self.clause.positive:
            rows = self.rows[variable.name]
            wrong = rows[~np.isin(rows, self.events.leaf_rows(variable.event_type))]
            if len(wrong):
                kind = _value(self.events.column(self.pattern.type_attribute), int(wrong[0]))
                text = f"{variable.name} is of type {type_alternatives(variable.event_type, format_type)}"
                yield RuleCheck("type", text, False, f"{self._event(wrong[0])} is of type {value_in_words(kind)}")

    def _orders(self) -> Iterator[RuleCheck]:
        positive = [variable.name for variable in self.clause.positive]
        pairs = [pair for pair in self.clause.precedence if set(pair) <= set(positive)]
        for one in positive:
            for other in positive:
                between = any((one, name) in pairs and (name, other) in pairs for name in positive)
                if (one, other) in pairs and not between:
                    first, second = self.rows[one], self.rows[other]
                    holds = bool(self.order.holds(first[:, None], second[None, :]).all())
                    last, begin = int(first[-1]), int(second[0])
                    seen = f"{self._time(last)}, {self._time(begin)}"
                    if self.events.timestamps[last] == self.events.timestamps[begin]:  # their positions decide
                        named = (f"{self._event(row)}, {event_name(self.events.seqs[row])}" for row in (last, begin))
                        seen = "; ".join(named)
                    yield RuleCheck("order", f"{one} before {other}", holds, seen)

    def _window(self) -> RuleCheck:
        instants = instants_of(self.pattern, self.events)
        own = instants.of_row[self.matched]
        used = int(own.max()) - int(own.min())
        text = f"WITHIN {format_window(self.pattern.window)}"
        if self.pattern.window.time_us is None:
            used, width, unit, one = used + 1, instants.width + 1, "events", 1.0
        else:
            width, unit, one = instants.width, "s", 1e6
        over = max(used - width, 0)
        seen = f"{used / one:,.10g} of {width / one:,.10g} {unit}, {used / width:.0%}"
        return RuleCheck("window", text, not over, seen, over / one if over else None, over / used if over else None)

    def _agreements(self) -> Iterator[RuleCheck]:
        for attribute in self.clause.agree_on:
            codes = agreement_codes(self.events, (attribute,))[0][self.matched]
            partition = attribute in self.clause.partition_by
            text = f"PARTITION BY {attribute}" if partition else f"[{attribute}]"
            in_words = partial(_side_in_words, zone=self.timezone if attribute in self.times else None)
            values = [in_words(_value(self.events.column(attribute), int(row))) for row in self.matched]
            holds = len(codes) == 1 or (bool((codes == codes[0]).all()) and bool(codes[0] >= 0))
            yield RuleCheck("agreement", text, holds, ", ".join(dict.fromkeys(values)))

    def _condition(self, conjunct: Conjunct) -> RuleCheck:
        truth, values = values_compared(conjunct, self.events, self.bound)
        text = conjunct_text_of(conjunct)
        failing = np.flatnonzero(~truth)
        if not len(truth):
            return RuleCheck("condition", text, True, "there is nothing to compare: the list has one event")
        misses = [_miss(conjunct, values, int(place), self.times) for place in failing[:_MOST_CHOICES]]
        worst = max(range(len(misses)), key=lambda one: misses[one][1] or 0.0, default=None)
        place = 0 if worst is None else int(failing[worst])
        seen = " OR ".join(
            _atom_seen(atom, one, place, self.timezone if _compares_times(atom, self.times) else None)
            for atom, one in zip(conjunct.atoms, values, strict=True)
        )
        if len(truth) > 1:
            seen += f" ({len(failing):,} of {len(truth):,} fail)" if len(failing) else f" and {len(truth) - 1:,} more"
        short_by, share = (None, None) if worst is None else misses[worst]
        return RuleCheck("condition", text, not len(failing), seen, short_by, share)

    def _negation(self, variable: Variable) -> RuleCheck:
        looked_at, rejecting, first, last = self._rejecting(variable)
        text = negation_text(self.pattern, variable)
        if len(rejecting):
            more = f" and {len(rejecting) - 1:,} more" if len(rejecting) > 1 else ""
            return RuleCheck("negation", text, False, f"{self._event(rejecting[0])} is such an event{more}")
        return RuleCheck("negation", text, True, f"none of {len(looked_at):,} events of the type, {first} to {last}")

    def _negated_structure(self, structure: NegatedStructure) -> RuleCheck:
        text = negation_text(self.pattern, structure)
        for negated in structure.clauses:
            binding = StructureCheck(self.pattern, self.clause, structure, negated, self.events).binding(self.rows)
            if binding is not None:
                found = (f"{name} = {', '.join(map(self._event, rows))}" for name, rows in binding.items())
                return RuleCheck("negation", text, False, f"there is {'; '.join(found)}")
        return RuleCheck("negation", text, True, "there are no such events together")

    def _rejecting(self, variable: Variable) -> tuple[Array, Array, str, str]:
        """The events of a negated variable's type where it may be, those that reject the match, and the bounds."""
        instants, matched = instants_of(self.pattern, self.events), self.matched
        rows = self.events.leaf_rows(variable.event_type)
        rows = rows[~np.isin(rows, matched)]
        own = instants.of_row[matched]
        before, after = self.clause.predecessors(variable.name), self.clause.successors(variable.name)
        for others, comes_first in ((before, True), (after, False)):
            for row in (row for other in others for row in self.rows[other.name]):
                one = np.array([row])
                rows = rows[self.order.holds(one, rows) if comes_first else self.order.holds(rows, one)]
        if not before:
            rows = rows[instants.of_row[rows] >= int(own.max()) - instants.width]
        if not after:
            rows = rows[instants.of_row[rows] <= int(own.min()) + instants.width]
        if self.clause.agree_on:
            codes = agreement_codes(self.events, self.clause.agree_on)[0]
            agreed = codes[matched[0]] if (codes[matched] == codes[matched[0]]).all() else -1
            rows = rows[(codes[rows] == agreed) & (codes[rows] >= 0)]
        bounds = (
            self._bound_text(instants, [row for one in before for row in self.rows[one.name]], start=True),
            self._bound_text(instants, [row for one in after for row in self.rows[one.name]], start=False),
        )
        looked_at = rows
        for conjunct in self.clause.conjuncts:
            if variable.name in conjunct.variables and len(rows):
                bound = {**take(self.bound, np.zeros(len(rows), np.int64)), variable.name: rows}
                rows = rows[holds_over_lists(conjunct, self.events, bound, len(rows))]
        return looked_at, rows, *bounds

    def _bound_text(self, instants: WindowInstants, others: Sequence[int], *, start: bool) -> str:
        """The first or last time at which a negated variable is looked for."""
        if others:
            return self._time(max(others) if start else min(others))
        if self.pattern.window.time_us is None:
            return f"{instants.width:,} events {'before the last' if start else 'behind the first'} event"
        own = self.events.timestamps[self.matched]
        edge = int(own.max()) - instants.width if start else int(own.min()) + instants.width
        return local_time(edge, self.timezone)

    def strategy(self) -> RuleCheck:
        """Ask the strategy of events that fulfil all other rules: what a run that starts with the first one takes."""
        text = self.pattern.strategy.value
        names = [variable.name for variable in self.clause.positive]
        names.sort(key=lambda name: int(self.rows[name][0]))
        ours, runs, end = self._runs(names)
        if set(ours) in runs:
            return RuleCheck("strategy", text, True, "a run from the first event takes all of them")
        for count in range(1, len(names)):
            shorter = self._runs(names[:count])
            if set(shorter[0]) not in shorter[1]:
                ours, runs, end = shorter
                break
        return RuleCheck("strategy", text, False, self._taken_instead(ours, runs, end))

    def _runs(self, names: Sequence[str]) -> tuple[list[tuple[str, int]], list[set[tuple[str, int]]], int]:
        """The events of some variables, the matches of this part of the pattern up to them, and the row behind them."""
        part = part_of(self.pattern, names, all_bound=True)
        ours = [(name, int(self.events.seqs[row])) for name in names for row in self.rows[name]]
        start, end = int(self.matched[0]), max(int(self.rows[name][-1]) for name in names) + 1
        found = detect([part], self.events.table.slice(start, end - start))[part.name]["bindings"].to_pylist()
        return ours, [{(one["variable"], one["seq"]) for one in bindings} for bindings in found], end

    def _taken_instead(self, ours: Sequence[tuple[str, int]], runs: Sequence[set[tuple[str, int]]], end: int) -> str:
        """Say which event keeps a run from taking the last of some events."""
        if not self.pattern.strategy.skips:
            between = np.setdiff1d(np.arange(self.matched[0], end), self.matched)
            if not self.pattern.strategy.crosses_partitions and self.clause.agree_on:
                codes = agreement_codes(self.events, self.clause.agree_on)[0]
                between = between[codes[between] == codes[self.matched[0]]]
            if len(between):
                return f"{self._event(between[0])} stands in between"

        def named(one: tuple[str, int]) -> str:
            return f"{one[0]} = {self.name_of(one[1])}"

        for run in runs:
            begun = [one for one in ours if one[0] != ours[-1][0]]
            taken = [one for one in run if one[0] == ours[-1][0]]
            if set(begun) <= run and taken:
                return f"the run takes {', '.join(map(named, sorted(taken)))} instead"
        return f"a run from the first event takes other events before {named(ours[-1])}"

    def _event(self, row: int) -> str:
        return self.name_of(int(self.events.seqs[row]))

    def _time(self, row: int) -> str:
        return local_time(int(self.events.timestamps[row]), self.timezone)


_MOST_CHOICES = 10_000
"""Choices of elements of lists among which the one that misses the most is looked for."""


def _miss(
    conjunct: Conjunct, values: Sequence[tuple[Column, ...]], place: int, times: Collection[str]
) -> tuple[float | None, float | None]:
    """The distance by which the nearest atom fails, and its share of the larger side; None: there are no numbers."""
    found = []
    for atom, columns in zip(conjunct.atoms, values, strict=True):
        sides = [_value(column, place) for column in columns]
        numbers = [one for one in sides if isinstance(one, int | float) and not isinstance(one, bool)]
        if isinstance(atom, Comparison | Between) and len(numbers) == len(sides):
            gap, size = min(abs(numbers[0] - other) for other in numbers[1:]), max(map(abs, numbers))
            one = 1e6 if _compares_durations(atom) or _compares_times(atom, times) else 1.0
            if math.isfinite(gap) and math.isfinite(size):
                found.append((float(gap) / one, float(gap) / (float(size) or 1.0)))
    return min(found, key=lambda one: one[1], default=(None, None))


def _with_times(events: pa.Table, times: Collection[str]) -> pa.Table:
    """Events with the attributes that are times as such; detection has them as numbers."""
    for place, name in enumerate(events.column_names):
        if name in times:
            events = events.set_column(place, name, events.column(name).cast(UTC_MICROSECONDS))
    return events


def _compares_times(atom: Atom, times: Collection[str]) -> bool:
    """True where a side is the time of an event, or an attribute that is one: the other sides are moments, too."""
    match atom:
        case Comparison() | Between() | Membership() | NullTest():
            sides = [one for one in expressions_of(atom) if isinstance(one, Reference)]
            return any(one.attribute == TIMESTAMP or one.attribute in times for one in sides)
    return False


def _compares_durations(atom: Atom) -> bool:
    """True where a side is written as a length of time: the other sides are lengths of time, too."""
    sides = expressions_of(atom) if isinstance(atom, Comparison | Between) else ()
    return any(isinstance(one, Constant) and one.is_duration for one in sides)


def _side_in_words(value: Any, zone: str | None) -> str:
    """A value that is compared; with a zone it is a moment."""
    return value_in_words(value) if zone is None or not isinstance(value, int) else local_time(value, zone)


def _atom_seen(atom: Atom, columns: Sequence[Column], place: int, zone: str | None) -> str:
    sides = [_side_in_words(_value(column, place), zone) for column in columns]
    if zone is None and _compares_durations(atom):
        sides = ["null" if (value := _value(one, place)) is None else f"{value / 1e6:,.10g} s" for one in columns]
    match atom:
        case Comparison(comparator):
            return f"{sides[0]} {comparator.value} {sides[1]}"
        case Between(negated=negated):
            return f"{sides[0]} {'NOT ' if negated else ''}BETWEEN {sides[1]} AND {sides[2]}"
        case Membership(_, values, _, negated):
            shown = values[:MOST_SHOWN]
            some = ", ".join(map(format_value, shown) if zone is None else (_side_in_words(one, zone) for one in shown))
            more = f" and {len(values) - MOST_SHOWN:,} more" if len(values) > MOST_SHOWN else ""
            return f"{sides[0]} {'NOT ' if negated else ''}IN ({some}{more})"
        case NullTest(negated=negated):
            return f"{sides[0]} IS {'NOT ' if negated else ''}NULL"
        case Like(_, text, negated):
            return f"{sides[0]} {'NOT ' if negated else ''}LIKE {format_value(text)}"
        case Truth():
            return format_condition(atom)


def _value(column: Column, place: int) -> Any:
    """The value of a column at a place; None where it is null."""
    if column.offsets is not None or (column.valid is not None and not column.valid[place]):
        return None
    value = column.values[place].item()
    return value if column.dictionary is None else column.dictionary[value]
