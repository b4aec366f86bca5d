"""`why_not`: what keeps a pattern from having more matches, found by detecting it with one rule less at a time.

Each number is an answer of the detection itself, of a pattern that is changed in one place: without a condition, with
a wider window, with another constant, or with its first variables alone. So it is exact under all strategies, however
many matches there are. No automaton is asked for what it has dropped: the matches of a pattern without one condition
that do not fulfil this condition are the ones that the condition alone keeps out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.detect import detect, detect_batches
from cep_pipeline.detection.limits import LimitReached, at_most_seconds
from cep_pipeline.detection.output_policy import has_output_policy, policy_text
from cep_pipeline.detection.preferred.walk import choices_of
from cep_pipeline.detection.results import attributes_read, match_events
from cep_pipeline.errors import InputError, NoRoom, TooManyMatches
from cep_pipeline.events.columns import SEQ, TIMESTAMP
from cep_pipeline.events.event_words import event_name, events_in_words
from cep_pipeline.expressions.columns import TableColumns
from cep_pipeline.expressions.lists import Lists, Uses, values_compared
from cep_pipeline.foreign_text import html_table
from cep_pipeline.language.doubts import doubts_about
from cep_pipeline.language.formatter import format_structure, format_window, literal_in_words
from cep_pipeline.patterns.conditions import AllOf, Between, Comparator, Comparison, Condition, Conjunct, Membership
from cep_pipeline.patterns.expressions import Arithmetic, Call, Element, Reference, ValueType
from cep_pipeline.patterns.expressions import Literal as Constant
from cep_pipeline.patterns.normal_form import NegatedStructure, Variable, negation_of, split_condition
from cep_pipeline.patterns.pattern import Consume, Output, Pattern, ReturnItem, Strategy, Window
from cep_pipeline.patterns.rewriting import with_operands
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator, Structure, type_alternatives
from cep_pipeline.questions.match_checks import (
    AskedPattern,
    Bindings,
    Explanation,
    RuleCheck,
    conjunct_text_of,
    negation_text,
    part_of,
    whole_condition,
)
from cep_pipeline.storage import from_decimal_text, place_of_id

TIME_S = 60.0
"""Seconds that all detections together may take."""
MOST_LISTED = 1_000_000
"""Matches that are listed where a number needs the matches themselves."""
LOOKED_AT = 20_000
"""Matches without a condition from which constants of a curve and near misses are taken: the first ones."""
LISTS_LOOKED_AT = 1_000
"""The same, of conditions on the elements of lists: each choice of elements has a value."""
WIDER = 10
"""The window is widened so many times to see what it keeps out: without any window all events could be combined."""
WINDOWS = (0.5, 2, 5, WIDER)
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
"""Points of a curve: the quantiles of the compared value among the matches without the condition."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class MatchCount:
    """A number of matches; where it is not exact, there are at least so many."""

    matches: int
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.matches:,}" if self.exact else f"at least {self.matches:,}" if self.matches else "not counted"


@dataclass(frozen=True)
class Reached:
    """The number of partial matches of the first variables of a pattern: how far it comes.

    `part` is the part of an OR, from 0, `structure` what is bound, and `added` what came last.
    """

    part: int
    structure: str
    added: str
    count: MatchCount


@dataclass(frozen=True)
class LeftOut:
    """A rule of a pattern, and the number of its matches without this rule; `changed` is the pattern without it."""

    rule: str
    text: str
    without: MatchCount
    changed: Pattern = field(repr=False)


@dataclass(frozen=True)
class Curve:
    """The numbers of matches that a pattern would have with other constants, or other windows.

    Attributes
    ----------
    text
        The condition, or the window.
    current
        The constant as it is.
    points
        (the constant as text, the number of matches), in ascending order of the constants.
    """

    text: str
    current: str
    points: tuple[tuple[str, MatchCount], ...]


@dataclass(frozen=True)
class WhyNot:
    """The answer of `why_not`: how far a pattern comes, and the rules that keep it from having more matches.

    Attributes
    ----------
    pattern
        Its name.
    events, days
        The events that were looked at, and on how many days they are.
    meant
        What the user expected, in words.
    matches
        The matches that there are, before OUTPUT and CONSUME.
    kept
        Those that OUTPUT and CONSUME keep; None: the pattern has neither, or it could not be listed.
    reached, left_out, curves
        How far it comes; what each rule alone keeps out, the one that keeps out the most first; other constants.
    near
        Events that break exactly one rule, those that miss it by the least first.
    explanation
        Of events for all variables: each rule asked of them.
    notes
        What was not looked at, and why.
    """

    pattern: str
    events: int
    days: int
    meant: str
    matches: MatchCount
    kept: int | None = None
    reached: tuple[Reached, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    curves: tuple[Curve, ...] = ()
    near: tuple[Explanation, ...] = ()
    explanation: Explanation | None = None
    notes: tuple[str, ...] = ()

    def per_day(self, count: MatchCount) -> str:
        """Return a number of matches as the mean of a day."""
        return str(count) if self.days == 1 else str(MatchCount(round(count.matches / self.days), count.exact))

    def tables(self) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
        """Yield all that was counted as tables of texts: title, columns and rows."""
        if self.reached:
            rows = [(one.structure, one.added, str(one.count)) for one in self.reached]
            yield f"{self.pattern}: how far it comes", ("bound", "with", "partial matches"), rows
        if self.left_out:
            now = self.matches.matches
            listed = [
                (
                    one.text,
                    str(one.without),
                    f"{one.without.matches - now:,}" if one.without.exact else str(one.without),
                )
                for one in self.left_out
            ]
            title = f"{self.pattern}: what each rule alone keeps out; matches now: {self.matches}"
            yield title, ("rule", "matches without it", "kept out"), listed
        if self.curves:
            columns = ("rule", "value", "matches", "a day")[: 3 if self.days == 1 else 4]
            points = [
                (curve.text, f"{value}{' (now)' * (value == curve.current)}", str(count), self.per_day(count))
                for curve in self.curves
                for value, count in curve.points
            ]
            yield f"{self.pattern}: matches with other values", columns, [row[: len(columns)] for row in points]
        if self.near:
            near = [
                (
                    one.named_events(),
                    one.failed[0].text,
                    one.failed[0].seen,
                    "" if one.failed[0].short_by is None else f"{one.failed[0].short_by:.6g}",
                )
                for one in self.near
            ]
            yield f"{self.pattern}: nearest misses", ("events", "only breaks", "seen", "short by"), near

    def summary(self) -> str:
        """Say in a sentence or two what was found."""
        if self.explanation is not None:
            return self.explanation.summary()
        found = self._found()
        if self.kept is not None:
            found += f", of which OUTPUT and CONSUME keep {self.kept:,}"
        counted = [one for one in self.left_out if one.without.exact and one.without.matches > self.matches.matches]
        counted.sort(key=lambda one: one.rule in ("window", "order"))
        if counted:
            return (
                f"{found}; {'with' if counted[0].rule == 'window' else 'without'} {counted[0].text} there would be "
                + str(counted[0].without)
            )
        lost = next((one for one in self.reached if not one.count.matches and one.count.exact), None)
        return f"{found}; nothing comes as far as to bind {lost.added}" if lost else found

    def _found(self) -> str:
        noun = "match" if self.matches == MatchCount(1) else "matches"
        return f"{self.pattern}: {self.matches} {noun} {self.meant}"

    def __repr__(self) -> str:
        return f"<WhyNot {self._found()}>"

    def __str__(self) -> str:
        parts = [str(self.explanation) if self.explanation else self.summary()]
        for title, columns, rows in self.tables():
            parts += ["", title, *("  ".join(row) for row in (columns, *rows))]
        return "\n".join([*parts, *self.notes])

    def _repr_html_(self) -> str:
        parts = [self.explanation._repr_html_() if self.explanation else html_table((self.summary(),), ())]
        return "\n".join([*parts, *(html_table(columns, rows, title) for title, columns, rows in self.tables())])

    def to_json(self) -> dict[str, Any]:
        """Return all of it as values of JSON."""
        told: dict[str, Any] = _as_json(self)
        for curve in told["curves"]:
            curve["points"] = [{"value": value, **count} for value, count in curve["points"]]
        return told


def _as_json(value: Any) -> Any:
    """A value as those of JSON; of a record the fields that it shows."""
    if isinstance(value, Explanation):
        return value.to_json()
    if is_dataclass(value):
        return {one.name: _as_json(getattr(value, one.name)) for one in fields(value) if one.repr}
    return list(map(_as_json, value)) if isinstance(value, tuple) else value


def why_not(
    pattern: Pattern,
    events: Any,
    bindings: Bindings | None = None,
    *,
    at: int | None = None,
    near: int = 3,
    timezone: str = "UTC",
    seconds: float = TIME_S,
    progress: Progress | None = None,
) -> WhyNot:
    """Say why a pattern has no match where one was expected, or not more of them.

    Parameters
    ----------
    pattern, events, timezone
        As for `why`; the events are those of the range, and all others that a window may reach.
    bindings
        The expected events, as `why` takes them: of all variables, then each rule is asked of them; or of some, then
        matches with these events are looked for. None: any.
    at
        An instant in microseconds: matches are looked for whose events are within a window of time around it.
    near
        Most near misses.
    seconds
        The time that all detections together may take; what is left then is noted.
    progress
        Told how many detections are done, and of how many.

    Raises
    ------
    InputError
        An event is not there, or a variable is none of the pattern.

    Notes
    -----
    With events of some variables the strategy is left out of the counts: which events a run takes depends on all of
    them. It is then asked of each near miss.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"base_type": "Reading", "attributes": {"x": "int64"}})
    >>> events = schema.table([{"timestamp": second * 1_000_000, "x": 7 - second} for second in range(3)])
    >>> rise = "NAME rise PATTERN SEQ(Reading a, Reading b) WHERE a.x < b.x WITHIN 1 second"
    >>> cep.why_not(cep.parse_patterns(rise, schema)[0], events).summary()
    'rise: 0 matches in 3 events; without a.x < b.x there would be 2'
    """
    asked = AskedPattern.of(pattern, events)
    known = {variable.name for clause in pattern.clauses for variable in clause.positive}
    if unknown := [name for name in bindings or () if name not in known]:
        raise InputError(f"{pattern.name} binds no {unknown[0]!r}; it binds {', '.join(o for o in _names(pattern))}")
    given = asked.places(bindings or {})
    if given and any({v.name for v in clause.positive} == set(given) for clause in pattern.clauses):
        explained = asked.with_inside(asked.explain(given, timezone))
        explanation = _with_policy(asked, given, explained, seconds)
        return WhyNot(
            pattern.name,
            asked.table.num_rows,
            asked.days,
            "of these events",
            MatchCount(int(explanation.is_match)),
            explanation=explanation,
        )
    return _Question(asked, given, at, near, timezone, progress).answer(seconds)


def _names(pattern: Pattern) -> list[str]:
    return [operand.variable for operand in pattern.operands if not operand.negated]


def _with_policy(
    asked: AskedPattern, given: Mapping[str, Sequence[int]], found: Explanation, seconds: float
) -> Explanation:
    """Ask OUTPUT and CONSUME too of events that are a match."""
    pattern, events = asked.written, asked.events
    if not found.is_match or not has_output_policy(pattern):
        return found
    try:
        with at_most_seconds(seconds):
            if pattern.output.is_preferred and (seen := _preferred_instead(asked, given, found)):
                return replace(found, checks=(*found.checks, RuleCheck("output", policy_text(pattern), False, seen)))
            kept = detect([pattern], events, limit=MOST_LISTED)[pattern.name]
    except (TooManyMatches, LimitReached, NoRoom, MemoryError):
        return found
    holds = place_of_id(kept["match_id"], found.match_id) >= 0
    seen = "it is kept" if holds else "another match is kept"
    if not holds:
        own = found.events[TIMESTAMP].cast(pa.int64())
        first, last = pc.min(own).as_py(), pc.max(own).as_py()
        beside = kept.filter(
            pc.and_(
                pc.less_equal(kept["start_ts"].cast(pa.int64()), last),
                pc.greater_equal(kept["end_ts"].cast(pa.int64()), first),
            )
        )
        if beside.num_rows:
            bound = match_events(beside.slice(0, 1), events, attributes_read(pattern)).to_pylist()
            seen = "kept is: " + ", ".join(events_in_words(bound, found.timezone, pattern.type_attribute))
    return replace(found, checks=(*found.checks, RuleCheck("output", policy_text(pattern), holds, seen)))


def _preferred_instead(asked: AskedPattern, given: Mapping[str, Sequence[int]], explained: Explanation) -> str:
    """Name the match that is preferred to one with the same first event, and say why; "" if it is the preferred one."""
    plain = replace(asked.pattern, output=Output.PREFERRED, consume=Consume.NONE, summary=None, returns=())
    found = detect([plain], asked.table, limit=MOST_LISTED)[plain.name]["bindings"].combine_chunks()
    seqs = asked.table[SEQ].combine_chunks()
    offsets, events = found.offsets.to_numpy(), found.flatten()
    rows = pc.index_in(events.field("seq"), value_set=seqs).to_numpy()
    own = {
        name: np.sort(pc.index_in(pa.array(some), value_set=seqs).to_numpy()).tolist() for name, some in given.items()
    }
    number = np.flatnonzero(np.minimum.reduceat(rows, offsets[:-1]) == min(min(some) for some in own.values()))[0]
    preferred: dict[str, list[int]] = {}
    for row in range(offsets[number], offsets[number + 1]):
        preferred.setdefault(events.field("variable")[row].as_py(), []).append(int(rows[row]))
    if own == preferred:
        return ""
    places = {name: [seqs[row].as_py() for row in some] for name, some in preferred.items()}
    other, choices = asked.explain(places, explained.timezone), choices_of(plain)
    chosen = choices[explained.clause], choices[other.clause]
    differs = next(_differences(plain.structure, chosen, own, preferred))
    return f"preferred is: {other.named_events()}; {differs}"


def _differences(
    structure: Structure,
    choices: Sequence[Mapping[int, int]],
    own: Mapping[str, Sequence[int]],
    preferred: Mapping[str, Sequence[int]],
) -> Iterator[str]:
    """Yield how a match differs from the preferred one, by what is met on the walk through a part of the pattern.

    The choices of both are those of `choices_of`.
    """
    if isinstance(structure, EventOperand):
        name = structure.variable
        mine, its = own.get(name, ()), preferred.get(name, ())
        if not mine or not its:
            if mine or its:
                yield f"it binds {'no ' * (not mine)}{name}, the preferred one {'does not' if mine else 'does'}"
        elif len(mine) != len(its):
            yield f"it binds {len(mine):,} event{'s' * (len(mine) > 1)} to {name}, the preferred one {len(its):,}"
        elif mine != its:
            place = next(place for place, (one, other) in enumerate(zip(mine, its, strict=True)) if one != other)
            which = f"event {place + 1} of its {name}" if structure.kleene else f"its {name}"
            yield f"{which} comes later than that of the preferred one"
        return
    if not isinstance(structure, Composite):
        return
    if structure.operator is Operator.OR:
        mine_as, its_as = (structure.operands[chosen.get(id(structure), 0)] for chosen in choices)
        if mine_as is not its_as:
            yield f"it is one of {format_structure(mine_as)}, the preferred one of {format_structure(its_as)}"
    for operand in structure.operands:
        yield from _differences(operand, choices, own, preferred)


def _pins(
    asked: AskedPattern, given: Mapping[str, Sequence[int]], at: int | None, zone: str
) -> tuple[dict[str, Condition], str, tuple[int, int] | None]:
    """Return further conditions on variables, these in words, and the instants between which they are."""
    pattern, table = asked.pattern, asked.table
    kleene = {operand.variable for operand in pattern.operands if operand.kleene}
    names = _names(pattern)
    stamps = table[TIMESTAMP].cast(pa.int64())
    if given:
        pins: dict[str, Condition] = {}
        wanted = pa.array([seq for some in given.values() for seq in some], pa.int64())
        rows = pc.index_in(wanted, value_set=table[SEQ].combine_chunks())
        if rows.null_count:
            missing = wanted.filter(pc.is_null(rows))[0].as_py()
            raise InputError(f"there is no event {event_name(missing)} among these {table.num_rows:,} events")
        for name, some in given.items():
            element = Element.EACH if name in kleene else Element.ONLY
            pins[name] = Membership(Reference(name, SEQ, element, ValueType.INT64), tuple(map(int, some)))
        own = stamps.take(rows)
        named = (f"{name} = {'+'.join(asked.in_words(one, zone) for one in some)}" for name, some in given.items())
        return pins, f"with {', '.join(named)}", (pc.min(own).as_py(), pc.max(own).as_py())
    if at is None:
        return {}, f"in {table.num_rows:,} events", None
    if pattern.window.time_us is not None:
        first, last = at - pattern.window.time_us, at + pattern.window.time_us
    else:
        assert pattern.window.events is not None
        clock = stamps.to_numpy()
        row = int(np.searchsorted(clock, at))
        near = clock[max(0, row - pattern.window.events) : row + pattern.window.events]
        first, last = (int(near[0]), int(near[-1])) if len(near) else (at, at)
    low, high = (Constant(value, ValueType.INT64) for value in (first, last))
    pins = {
        name: Between(
            Reference(name, TIMESTAMP, Element.EACH if name in kleene else Element.ONLY, ValueType.INT64), low, high
        )
        for name in names
    }
    return pins, f"within {pattern.window} of that time", (first, last)


class _Question:
    """The question of `why_not`: a pattern, the conditions on its variables beside it, and the events."""

    def __init__(
        self,
        asked: AskedPattern,
        given: Mapping[str, Sequence[int]],
        at: int | None,
        near: int,
        timezone: str,
        progress: Progress | None,
    ) -> None:
        self.asked = asked
        pattern, table = asked.pattern, asked.table
        self.original = pattern
        self.pins, self.meant, between = _pins(asked, given, at, timezone)
        self.pattern = replace(pattern, output=Output.ALL, consume=Consume.NONE, returns=())
        if given:  # a run takes events by what is asked of them, and would take others
            structure = with_operands(
                pattern.structure,
                lambda one: replace(one, optional=False, reluctant=False) if one.variable in given else one,
            )
            self.pattern = replace(self.pattern, structure=structure, strategy=Strategy.SKIP_TILL_ANY_MATCH)
        self.whole, self.table = table, table
        self.near, self.timezone = near, timezone
        if between is not None and pattern.window.time_us is not None:
            wide = pattern.window.time_us * (WIDER + 1)
            self.table = _between(table, between[0] - wide, between[1] + wide)
        self.known: dict[Pattern, MatchCount] = {}
        self.notes: list[str] = []
        self.done = 0
        self.progress = progress

    def answer(self, seconds: float) -> WhyNot:
        """Detect all that is to be told, the most telling first."""
        self.seconds, self.end = seconds, time.monotonic() + seconds
        matches = self.count(self.pattern)
        types = set(pc.unique(self.whole[self.original.type_attribute].cast(pa.string())).to_pylist())
        self.notes += doubts_about([self.original], types, self.whole)
        changed = list(self.changed())
        counts = [LeftOut(rule, text, self.count(one), one) for rule, text, one in changed]
        left_out = sorted(counts, key=lambda one: (not one.without.exact, -one.without.matches))
        reached = tuple(self.reached())
        near = tuple(self.nearest(left_out)) if self.near else ()
        curves = tuple(self.curves(left_out))
        if time.monotonic() > self.end:
            self.notes.append(f"stopped after {seconds:g} s: what is left was not counted; --seconds N allows more")
        return WhyNot(
            pattern=self.original.name,
            events=self.whole.num_rows,
            days=self.asked.days,
            meant=self.meant,
            matches=matches,
            kept=self.kept(),
            reached=reached,
            left_out=tuple(left_out),
            curves=curves,
            near=near,
            notes=tuple(self.notes),
        )

    def pinned(self, pattern: Pattern) -> Pattern:
        """The pattern with the conditions on its variables."""
        names = {operand.variable for operand in pattern.operands}
        asked = [condition for name, condition in self.pins.items() if name in names]
        if not asked:
            return pattern
        return replace(pattern, condition=AllOf((*asked, *([pattern.condition] if pattern.condition else []))))

    def count(self, pattern: Pattern) -> MatchCount:
        """MatchCount the matches of a changed pattern, within the limits."""
        if pattern not in self.known:
            self.known[pattern] = self._count(pattern)
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, max(self.done, _EXPECTED))
        return self.known[pattern]

    def _count(self, pattern: Pattern) -> MatchCount:
        try:
            with self._in_time():
                found = detect([self.pinned(pattern)], self.table, output="count", limit=MOST_LISTED)
            return MatchCount(from_decimal_text(found[pattern.name]["count"][0].as_py()))
        except TooManyMatches as error:
            return MatchCount(error.limit, False) if error.count is None else MatchCount(error.count)
        except (LimitReached, NoRoom, MemoryError):
            return MatchCount(0, False)

    def _in_time(self) -> Any:
        left = self.end - time.monotonic()
        if left <= 0:
            raise LimitReached(self.pattern.name, "time_limit")
        return at_most_seconds(min(left, self.seconds * _SHARE))

    def kept(self) -> int | None:
        """MatchCount what OUTPUT and CONSUME keep; None where they are not asked for."""
        if not has_output_policy(self.original) or self.pins:
            return None
        try:
            with self._in_time():
                return int(detect([self.original], self.table, limit=MOST_LISTED)[self.original.name].num_rows)
        except (TooManyMatches, LimitReached, NoRoom, MemoryError):
            return None

    def changed(self) -> Iterator[tuple[str, str, Pattern]]:
        """Yield each rule with the pattern without it; conditions on negated variables belong to the negation."""
        pattern = self.pattern
        conjuncts, equivalences = split_condition(pattern.condition)
        negated: dict[str, Variable | NegatedStructure] = {}
        for clause in pattern.clauses:
            negated.update((variable.name, variable) for variable in clause.negated)
            negated.update((structure.name, structure) for structure in clause.negated_structures)
        for one in conjuncts:
            if any(one.variables <= {variable.name for variable in clause.positive} for clause in pattern.clauses):
                rest = whole_condition([other for other in conjuncts if other is not one], equivalences)
                yield "condition", conjunct_text_of(one), replace(pattern, condition=rest)
        for text, structure in _without_limits(pattern):
            yield "condition", text, replace(pattern, structure=structure)
        for attribute in equivalences:
            rest = whole_condition(conjuncts, [other for other in equivalences if other != attribute])
            yield "agreement", f"[{attribute}]", replace(pattern, condition=rest)
        if pattern.partition_by:
            yield "agreement", f"PARTITION BY {', '.join(pattern.partition_by)}", replace(pattern, partition_by=())
        names = [operand.variable for operand in pattern.operands]
        for kept_out in negated.values():
            of_it = (kept_out,) if isinstance(kept_out, Variable) else kept_out.variables
            own = {variable.name for variable in of_it}
            yield (
                "negation",
                negation_text(pattern, kept_out),
                part_of(pattern, [one for one in names if one not in own]),
            )
        wider = _wider(pattern.window, WIDER)
        yield (
            "window",
            f"WITHIN {format_window(wider)} in place of {format_window(pattern.window)}",
            replace(pattern, window=wider),
        )
        runs = not pattern.strategy.forks
        if not negated and not (runs and any(operand.kleene for operand in pattern.operands)):
            unordered = replace(pattern, structure=_unordered(pattern.structure))
            if unordered != pattern:
                yield "order", "the order of SEQ", unordered
        if runs:
            yield "strategy", pattern.strategy.value, replace(pattern, strategy=Strategy.SKIP_TILL_ANY_MATCH)

    def reached(self) -> Iterator[Reached]:
        """Yield the partial matches of the first variables, one more at a time, and the negations at the end."""
        clauses = self.pattern.written_clauses
        for clause in clauses[:_MOST_PARTS]:
            names = [variable.name for variable in clause.positive]
            negated = [variable.name for variable in clause.read[len(names) :]]
            kept_out = [f"{type_alternatives(one.event_type)} {one.name}" for one in clause.negated]
            kept_out += [
                format_structure(negation_of(self.pattern.structure, one)).removeprefix("~")
                for one in clause.negated_structures
            ]
            steps = [names[: place + 1] for place in range(len(names))] + ([[*names, *negated]] if negated else [])
            conjuncts = [clause.conjuncts, *(one.conjuncts for s in clause.negated_structures for one in s.clauses)]
            before: set[str] = set()
            for bound in steps:
                part = part_of(self.pattern, bound, all_bound=True)
                added = ", ".join(
                    f"{type_alternatives(clause.by_name[name].event_type)} {name}"
                    for name in names
                    if name in bound and name not in before
                )
                if len(bound) > len(names):
                    added = ", ".join(f"no {text}" for text in kept_out)
                asked = dict.fromkeys(one for part in conjuncts for one in part)
                new = [one for one in asked if one.variables <= set(bound) and not one.variables <= before]
                text = " AND ".join(map(conjunct_text_of, new))
                before = set(bound)
                count = self.count(part)
                yield Reached(
                    clause.index, format_structure(part.structure), f"{added}{': ' * bool(text)}{text}", count
                )
        if len(clauses) > _MOST_PARTS:
            self.notes.append(f"how far it comes is counted of the first {_MOST_PARTS} of {len(clauses):,} parts of OR")

    def curves(self, left_out: Sequence[LeftOut]) -> Iterator[Curve]:
        """Yield the numbers of matches with other constants, and with other windows."""
        conjuncts, equivalences = split_condition(self.pattern.condition)
        texts = {conjunct_text_of(one): one for one in conjuncts}
        for one in left_out:
            conjunct = texts.get(one.text) if one.rule == "condition" else None
            constant = None if conjunct is None else _constant_of(conjunct)
            if conjunct is None or constant is None:
                continue
            values = self._values(one.changed, conjunct, constant)
            points = []
            for value in _quantiles(values, constant.literal.value):
                rest = [constant.with_value(value) if other is conjunct else other for other in conjuncts]
                points.append((value, self.count(replace(self.pattern, condition=whole_condition(rest, equivalences)))))
            if len(points) == 1:
                continue
            shown = tuple((literal_in_words(constant.of(value)), count) for value, count in points)
            yield Curve(one.text, literal_in_words(constant.of(constant.literal.value)), shown)
        now = self.pattern.window
        windows = [now, *(_wider(now, factor) for factor in WINDOWS)]
        sized = sorted(set(windows), key=lambda one: one.time_us or one.events or 0)
        counts = [(format_window(one), self.count(replace(self.pattern, window=one))) for one in sized]
        yield Curve("WITHIN", format_window(now), tuple(counts))

    def _values(self, pattern: Pattern, conjunct: Conjunct, constant: _Constant) -> np.ndarray:
        """The finite values that a constant is compared with in the first matches of a pattern."""
        if _sides(conjunct) is None:
            found = self._values_in_lists(pattern, conjunct, constant)
        else:
            rows = self._first(replace(pattern, returns=(ReturnItem(constant.other, "value", named=True),)))
            found = rows["value"].drop_null().to_numpy() if rows is not None else np.empty(0)
        return found[np.isfinite(found)] if found.dtype.kind == "f" else found

    def _values_in_lists(self, pattern: Pattern, conjunct: Conjunct, constant: _Constant) -> np.ndarray:
        """The same for the elements of lists, of which RETURN can take no value: of every choice of elements."""
        rows = self._first(pattern)
        if rows is None:
            return np.empty(0)
        bindings = rows["bindings"].slice(0, LISTS_LOOKED_AT).combine_chunks()
        of_match = pc.list_parent_indices(bindings).to_numpy()
        events = bindings.flatten()
        named = events.field("variable").to_numpy(zero_copy_only=False)
        place = pc.index_in(events.field("seq"), value_set=self.table[SEQ].combine_chunks()).to_numpy()
        own = {name: named == name for name in conjunct.variables}
        sizes = {name: np.bincount(of_match[mask], minlength=len(bindings)) for name, mask in own.items()}
        bound_in = np.all([size > 0 for size in sizes.values()], axis=0)  # parts of OR may lack the variables
        bound: dict[str, Any] = {}
        for name, mask in own.items():
            taken, size = place[mask & bound_in[of_match]].astype(np.int64), sizes[name][bound_in]
            kleene = any(operand.kleene for operand in pattern.operands if operand.variable == name)
            bound[name] = Lists(np.cumsum(size) - size, size, taken) if kleene else taken
        _, [values] = values_compared(conjunct, TableColumns(self.table), bound, int(bound_in.sum()))
        column = values[0] if constant.right else values[1]
        return column.values if column.valid is None else column.values[column.valid]

    def _first(self, pattern: Pattern) -> pa.Table | None:
        """The first matches of a changed pattern; None where there is no time for them."""
        batches: list[pa.RecordBatch] = []
        rows = 0
        try:
            with self._in_time():
                for _, batch in detect_batches([self.pinned(pattern)], self.table):
                    batches.append(batch)
                    rows += batch.num_rows
                    if rows >= LOOKED_AT:
                        break
        except (LimitReached, NoRoom, MemoryError, TooManyMatches):
            pass
        return pa.Table.from_batches(batches).slice(0, LOOKED_AT) if batches else None

    def _note_looked_at(self) -> None:
        note = f"of some rules only the first {LOOKED_AT:,} matches without the rule were looked at for near misses"
        if note not in self.notes:
            self.notes.append(note)

    def nearest(self, left_out: Sequence[LeftOut]) -> list[Explanation]:
        """Return events that break exactly one rule, those that miss it by the least first."""
        found: dict[str, Explanation] = {}
        for one in left_out:
            if one.without.exact and one.without.matches <= self.count(self.pattern).matches:
                continue
            for bindings in self._candidates(one)[: self.near * _SPARE]:
                explained = self._explain(one, bindings)
                if explained is not None:
                    found.setdefault(explained.named_events(), explained)
        nearest = sorted(found.values(), key=lambda one: math.inf if (s := one.failed[0].share) is None else s)
        return nearest[: self.near]

    def _candidates(self, left_out: LeftOut) -> list[list[dict[str, Any]]]:
        """Bindings of matches without a rule that are none with it, those that are near it first."""
        conjuncts, _ = split_condition(self.pattern.condition)
        conjunct = next((one for one in conjuncts if conjunct_text_of(one) == left_out.text), None)
        sides = None if conjunct is None or left_out.rule != "condition" else _sides(conjunct)
        both = zip(sides or (), ("left", "right"), strict=False)
        items = tuple(ReturnItem(side, name, named=True) for side, name in both)
        changed = replace(left_out.changed, returns=items)
        rows = self._first(changed)
        if rows is not None and rows.num_rows == LOOKED_AT:
            closer = self._closer(left_out, changed, rows)
            rows = rows if closer is None else self._first(closer)
            if rows is None or rows.num_rows == LOOKED_AT:
                self._note_looked_at()
        if rows is None:
            return []
        bindings: list[list[dict[str, Any]]] = rows["bindings"].to_pylist()
        own = self._own
        out = [place for place, one in enumerate(bindings) if _key(one) not in own]
        if sides is not None:
            gaps, sizes = _gaps(rows)
            shares = gaps / np.maximum(sizes, 1e-300)
            out.sort(key=lambda place: math.inf if math.isnan(shares[place]) else shares[place])
        elif left_out.rule == "window":
            spans = _spans(rows)
            out.sort(key=lambda place: int(spans[place]))
        return [bindings[place] for place in out]

    def _closer(self, left_out: LeftOut, changed: Pattern, rows: pa.Table) -> Pattern | None:
        """Ask only for matches without a rule that are near it, where there are more than can be looked at.

        How near is told by the first of them. Under runs this is not possible: other conditions make other runs.
        """
        if not self.pattern.strategy.forks or not left_out.without.matches:
            return None
        known = self.count(self.pattern).matches
        share = min(1.0, (LOOKED_AT / 2 + known) / left_out.without.matches)
        if left_out.rule == "window" and changed.window.time_us is not None:
            width = int(np.quantile(_spans(rows), share))
            assert self.pattern.window.time_us is not None
            return replace(changed, window=Window(time_us=max(width, self.pattern.window.time_us + 1)))
        if not changed.returns:
            return None
        left, right = (item.expression for item in changed.returns)
        gaps = _gaps(rows)[0]
        gaps = gaps[np.isfinite(gaps)]
        if not len(gaps):
            return None
        most = Constant(float(np.quantile(gaps, share)), ValueType.FLOAT64)
        apart = Call("abs", (Arithmetic("-", left, right, ValueType.FLOAT64),), ValueType.FLOAT64)
        near = Comparison(Comparator.LE, apart, most)
        return replace(changed, condition=AllOf((near, *([changed.condition] if changed.condition else []))))

    @cached_property
    def _own(self) -> set[tuple[tuple[str, int], ...]]:
        """The first matches of the pattern itself."""
        rows = self._first(self.pattern)
        return set() if rows is None else {_key(one) for one in rows["bindings"].to_pylist()}

    def _explain(self, left_out: LeftOut, bindings: Sequence[Mapping[str, Any]]) -> Explanation | None:
        """Explain near events; None if they break more than the rule, or are a match."""
        given: dict[str, list[int]] = {}
        for one in bindings:
            given.setdefault(one["variable"], []).append(one["seq"])
        around = self._around([seq for seqs in given.values() for seq in seqs])
        explained = self.asked.explain(given, self.timezone, among=around)
        if len(explained.failed) != 1:
            return None
        strategy = self.original.strategy
        if left_out.changed.strategy is not strategy and explained.failed[0].rule != "strategy":
            without = replace(left_out.changed, strategy=strategy)
            asked = replace(self.asked, pattern=without)
            return explained if asked.explain(given, self.timezone, among=around).is_match else None
        return explained

    def _around(self, seqs: Sequence[int]) -> pa.Table:
        """The events that windows can reach from some events."""
        wide = self.pattern.window.time_us
        if wide is None:
            return self.table
        rows = pc.index_in(pa.array(seqs, pa.int64()), value_set=self.table[SEQ].combine_chunks())
        own = self.table[TIMESTAMP].cast(pa.int64()).take(rows)
        return _between(self.table, pc.min(own).as_py() - wide, pc.max(own).as_py() + wide)


_EXPECTED = 30
_SHARE = 1 / 12
"""One detection may take this share of the time that all have."""
_MOST_PARTS = 4
_SPARE = 3
"""Candidates that are explained for each near miss that is wanted: some turn out to break more than one rule."""


def _gaps(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The distance of the two sides of a comparison, and the size of the larger one; NaN where one is null."""
    left, right = (pc.cast(rows[name], pa.float64(), safe=False).to_numpy() for name in ("left", "right"))
    with np.errstate(all="ignore"):
        return np.abs(left - right), np.maximum(np.abs(left), np.abs(right))


def _spans(rows: pa.Table) -> np.ndarray:
    """The time from the first event of each match to its last one."""
    spans: np.ndarray = rows["end_ts"].cast(pa.int64()).to_numpy() - rows["start_ts"].cast(pa.int64()).to_numpy()
    return spans


def _key(bindings: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((one["variable"], one["seq"]) for one in bindings)


def _between(table: pa.Table, first: int, last: int) -> pa.Table:
    """The events from one instant to another, both included."""
    clock = table[TIMESTAMP].cast(pa.int64()).to_numpy()
    start, end = np.searchsorted(clock, max(first, -(2**63))), np.searchsorted(clock, min(last, 2**63 - 1), "right")
    return table.slice(int(start), int(end - start))


def _wider(window: Window, factor: float) -> Window:
    if window.time_us is not None:
        return Window(time_us=min(max(1, int(window.time_us * factor)), 1 << 62))
    assert window.events is not None
    return Window(events=min(max(1, int(window.events * factor)), 1 << 62))


def _unordered(structure: Structure) -> Structure:
    """The structure with AND in place of SEQ."""
    if not isinstance(structure, Composite):
        return structure
    operator = (
        Operator.AND if structure.operator is Operator.SEQ and len(structure.operands) > 1 else structure.operator
    )
    return replace(structure, operator=operator, operands=tuple(map(_unordered, structure.operands)))


def _without_limits(pattern: Pattern) -> Iterator[tuple[str, Structure]]:
    """Each limit of a list `A{n,m} v[]`, with the structure without it."""
    variables = {variable.name: variable for clause in pattern.clauses for variable in clause.positive}
    for variable in variables.values():
        for limit in variable.limits:
            no_limit = {"minimum": 1} if limit == variable.at_least else {"maximum": None}

            def changed(one: EventOperand, name: str = variable.name, no_limit: Any = no_limit) -> EventOperand:
                return replace(one, **no_limit) if one.variable == name else one

            yield conjunct_text_of(limit), with_operands(pattern.structure, changed)


@dataclass(frozen=True)
class _Constant:
    """A comparison with a constant: the constant, the expression on the other side, and on which side it is."""

    comparison: Comparison
    literal: Constant
    other: Any
    right: bool

    def of(self, value: Any) -> Constant:
        """Another constant, which is a length of time where this one is."""
        if isinstance(value, int):
            return Constant(value, ValueType.INT64, is_duration=self.literal.is_duration)
        return Constant(value, ValueType.FLOAT64)

    def with_value(self, value: int | float) -> Conjunct:
        """The comparison with another constant."""
        constant = self.of(value)
        changed = replace(self.comparison, right=constant) if self.right else replace(self.comparison, left=constant)
        return Conjunct((changed,))


def _constant_of(conjunct: Conjunct) -> _Constant | None:
    """The comparison with a number that a conjunct is; None: it is none."""
    comparison = _of_numbers(conjunct)
    match comparison:
        case Comparison(_, other, Constant() as literal) if not isinstance(other, Constant):
            return _Constant(comparison, literal, other, True)
        case Comparison(_, Constant() as literal, other) if not isinstance(other, Constant):
            return _Constant(comparison, literal, other, False)
    return None


def _of_numbers(conjunct: Conjunct) -> Comparison | None:
    """The comparison of numbers that a conjunct is; None: it is none."""
    match conjunct.atoms:
        case (Comparison(_, left, right) as one,) if left.type.is_number and right.type.is_number:
            return one if conjunct.variables else None
    return None


def _sides(conjunct: Conjunct) -> tuple[Any, Any] | None:
    """The two sides of a comparison of numbers that RETURN can take, so that their values can be asked for."""
    uses, one = Uses.of(conjunct), _of_numbers(conjunct)
    return None if one is None or uses.elements or uses.indexes else (one.left, one.right)


def _quantiles(values: np.ndarray, current: Any) -> list[int | float]:
    """Constants for a curve: quantiles of the values, rounded for people, and the constant as it is; ascending."""
    points = {current}
    if len(values):
        for value in np.quantile(values, QUANTILES, method="nearest").tolist():
            points.add(float(f"{value:.6g}") if isinstance(value, float) else value)
    return sorted(points)
