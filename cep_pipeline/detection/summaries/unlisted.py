"""Rows of SUMMARIZE without listing matches: made of numbers of matches, which sweeps and merged runs count.

The number of matches of a group is that of the pattern with a further condition on the events of a variable. A sum of
whole numbers is made of numbers of matches, too: it is the sum, over the bits of the values, of the bit's worth times
the number of matches whose event has it. A float64 is a whole number of some power of two. The least value is found by
halving: is there a match whose event has one of the smaller half of the values? So a row takes some dozen counts, each
of which takes some steps an event, however many matches there are.

A sum over all elements of a list, `sum(sum(k[].x))`, is that over one element, in all patterns that have one element
of the list apart: `K e`, `SEQ(K+ p[], K e)`, `SEQ(K e, K+ s[])` and `SEQ(K+ p[], K e, K+ s[])`.

| what is counted | which |
| --- | --- |
| patterns | under skip_till_any_match, of whose clauses the matches are counted without listing them |
| groups, sum, avg, min, max | of an expression over one event or one end of a list; of a list's length, min and max |
| bucket | where a match is final with its last event |
| sum, avg | of `sum(k[].x)`, under TIES ARRIVAL and without negation, and of sums and differences, if all are exact |

Everything else that `partial_matches` can do is done there; the rest is listed. Each clause of a pattern is a pattern
of its own, since matches of clauses that bind different variables are different matches. And where the aggregates ask
for different ways, each is made by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from time import process_time
from typing import TypeVar

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.counting.last_variable import finding_takes_long
from cep_pipeline.detection.counting.sweep import count_owned, count_swept, sweeps_over
from cep_pipeline.detection.kleene.bindings import clause_over
from cep_pipeline.detection.matches import RETURN_TYPES, column_to_arrow
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Owned
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.summaries.monotone import Monotone, moving_value
from cep_pipeline.detection.summaries.partial import (
    Extreme,
    PartialSummary,
    SummaryRow,
    Total,
    Value,
    bucket_starts,
    group_codes,
    is_nan,
    rank,
    whole_units,
)
from cep_pipeline.detection.summaries.partial_matches import (
    add_partial_matches,
    add_swept_pairs,
    bound_variables,
    swept_pair,
)
from cep_pipeline.events.columns import ARROW_TYPES
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.patterns.conditions import AllOf, AnyOf, Comparator, Comparison, Condition, Equivalence, Not
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Element,
    Expression,
    Length,
    Literal,
    Negative,
    Reference,
    ValueType,
    variables_of,
    walk,
)
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy, Summary, SummaryAggregate, SummaryGroup, Ties
from cep_pipeline.patterns.rewriting import restricted, rewritten, with_operands
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator, Structure
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.ownership import Finality, finality_of
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from cep_pipeline.slices.views import leaf_of, leaf_view, view_of_leaf

FEW_MATCHES = 1 << 20
"""So many matches are listed in less time than most summaries take without."""
MATCHES_OF_ONE = 2
"""So many matches take more time than one partial match that stands for all of them."""
MOST_COUNTS = 1 << 12
"""More counts than these are not made for one summary."""
LISTED_NS, LEAST_S = 200.0, 0.1
"""How long it takes to list a match; what takes longer than to list them all, and this long, is not counted."""
_SOONER = "the matches are listed sooner"
_NOT_COUNTED = "matches are not counted without being found"
_NULLS = {kind: f"\0null {kind.value}" for kind in ValueType}
"""Columns of nulls, by their type: what a clause reads of variables that it does not bind."""
Read = TypeVar("Read", SummaryAggregate, SummaryGroup)
_APART, _BEFORE, _BEHIND = "\0element", "\0before", "\0behind"
"""Variables of a list that has one element apart."""


class NotCounted(Exception):
    """Something about a summary, as the text says, asks for the matches themselves."""


def count_matches(pattern: Pattern, events: PreparedEvents, owned: Owned, *, always: bool = False) -> int | None:
    """The number of matches that a slice owns; None where they have to be listed to be counted.

    Parameters
    ----------
    always
        Whether they are counted even where they would be found sooner.
    """
    counted = count_owned(pattern, events, owned, always=always)
    if counted is not None or not _binds_lists(pattern):
        return counted
    from cep_pipeline.detection.compressed.components import reason_to_list
    from cep_pipeline.detection.compressed.compressing import count_merged

    if reason_to_list(pattern) is not None:
        return None
    if owned == EVERYTHING:
        return count_merged(pattern, events, Counters())
    if any(finality_of(pattern, clause) is not Finality.LAST_EVENT for clause in pattern.clauses):
        return None
    found = []
    for rows in events.rows_in(owned):
        part = PreparedEvents(
            events.table.slice(0, rows), type_attribute=events.type_attribute, base_type=events.base_type
        )
        found.append(count_merged(pattern, part, Counters()) if rows else 0)
    before, within = found
    return None if before is None or within is None else within - before


def _binds_lists(pattern: Pattern) -> bool:
    return any(operand.kleene and not operand.negated for operand in pattern.operands)


def summarize_unlisted(pattern: Pattern, events: PreparedEvents, owned: Owned) -> PartialSummary | None:
    """The groups of SUMMARIZE over the matches that a slice owns; None where the matches are to be listed.

    None is also returned where there are few matches.
    """
    summary = PartialSummary(pattern)
    if needs_matches(pattern) is not None:
        return None
    assert pattern.summary is not None
    if not pattern.items and not pattern.summary.groups:
        total = count_matches(pattern, events, owned)
        if total is not None:
            summary.group(()).matches = total
        return None if total is None else summary
    apart = [_of_clause(pattern, clause) for clause in pattern.clauses]
    numbers = [count_matches(one, events, owned) for one in apart]
    if None not in numbers and sum(number for number in numbers if number) <= FEW_MATCHES:
        return None
    if len(apart) > 1:
        events = _with_columns(events, {name: pa.nulls(len(events), RETURN_TYPES[of]) for of, name in _NULLS.items()})
        numbers = [
            count_matches(one, events, owned, always=True) if number is None else number
            for one, number in zip(apart, numbers, strict=True)
        ]
    for one, number in zip(apart, numbers, strict=True):
        part = PartialSummary(one) if number == 0 else _of_clause_apart(one, events, owned, number, len(apart) > 1)
        if part is None:
            return None
        summary.add(part)
    return summary


def needs_matches(pattern: Pattern) -> str | None:
    """The reason why SUMMARIZE asks for the matches themselves, whatever it reads of them; None: there is none."""
    if has_output_policy(pattern):
        return "OUTPUT and CONSUME choose among them"
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return f"of the strategy {pattern.strategy.value}"
    if pattern.composes:
        return "the pattern composes others"
    assert pattern.summary is not None
    reads = bool(pattern.items or pattern.summary.groups)
    if reads and len({clause.positive for clause in pattern.clauses}) < len(pattern.clauses):
        return "several clauses bind the same variables"
    return None


def explained(pattern: Pattern) -> str:
    """The way in which the groups of a pattern with SUMMARIZE are made of many matches, in words.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> text = "PATTERN SEQ(A a, B b, C c) WITHIN 1 day SUMMARIZE "
    >>> for summary in ("sum(a.x)", "max(c.x / a.x)", "sum(b.x * a.x)", "max(a.x + b.x * c.x)"):
    ...     print(explained(*cep.parse_patterns(text + summary, schema)))
    groups are made of numbers of matches, which are not listed
    groups are made of numbers of matches, which are not listed
    groups are made over partial matches of a and b, each of which stands for many matches
    matches are listed to make groups, since one value is read of a, b and c
    """
    reason = needs_matches(pattern)
    if reason is not None:
        return f"matches are listed to make groups, since {reason}"
    ways: dict[str, None] = {}
    for one in (_of_clause(pattern, clause) for clause in pattern.clauses):
        apart = _by_aggregate(one) if _way(one) is None else []
        for part in apart if len(apart) > 1 else [one]:
            way = _way(part)
            if way is None:
                return f"matches are listed to make groups, since {_reason_not_to_count(part)}"
            ways[way] = None
    return "; ".join(ways)


def _way(pattern: Pattern) -> str | None:
    """The way in which the groups of a pattern of one clause are made together; None where there is none."""
    if _reason_not_to_count(pattern) is None:
        return "groups are made of numbers of matches, which are not listed"
    bound = bound_variables(pattern, EVERYTHING)
    if bound is None and (pair := swept_pair(pattern, EVERYTHING)) is not None:
        bound = tuple(one.name for one in pattern.clauses[0].positive if one.name in pair)
    if bound is None:
        return None
    return f"groups are made over partial matches of {_in_words(bound)}, each of which stands for many matches"


def _reason_not_to_count(pattern: Pattern) -> str | None:
    """The reason why the groups of a pattern of one clause cannot be made of numbers of matches, whatever its data."""
    if (because := _not_counted_because(pattern)) is not None:
        return because
    fields = [("timestamp", pa.timestamp("us", "UTC")), ("seq", pa.int64())]
    fields += [(name, ARROW_TYPES[kind]) for name, kind in pattern.attributes]
    nothing = pa.schema(fields).empty_table()
    events = PreparedEvents(nothing, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    try:
        _Counting(pattern, events, EVERYTHING, PartialSummary(pattern), 0).run()
    except NotCounted as reason:
        return str(reason)
    return None


def _not_counted_because(pattern: Pattern) -> str | None:
    """The reason why the matches of a pattern are not counted without being found; None: they are."""
    from cep_pipeline.detection.compressed.components import reason_to_list

    if sweeps_over(pattern):
        return None
    if not _binds_lists(pattern):
        return _NOT_COUNTED
    because = reason_to_list(pattern)
    return because and f"matches are not counted without being listed, because of {because}"


def _in_words(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1]) if len(names) > 1 else names)


def _of_clause(pattern: Pattern, clause: Clause) -> Pattern:
    """A clause as a pattern of its own, in which what the clause does not bind is null, or a list without elements."""
    if len(pattern.clauses) == 1:
        return pattern
    assert pattern.summary is not None
    present = {one.name for one in clause.read}
    structure = restricted(pattern.structure, present)
    assert structure is not None
    optional = {operand.variable for operand in pattern.operands if operand.kleene and operand.optional}

    def read(one: Read) -> Read:
        if one.expression is None:
            return one
        own = [each for each in clause.positive if each.name in variables_of(one.expression)] or clause.positive
        stands_in = next((each for each in own if not each.kleene), own[0])
        element = Element.FIRST if stands_in.kleene else Element.ONLY

        def leaf(node: Expression) -> Expression:
            if not isinstance(node, Reference | Length | Aggregate) or node.variable in present:
                return node
            counts = isinstance(node, Length) or (isinstance(node, Aggregate) and node.function == "count")
            if counts and node.variable in optional:
                return Literal(0, ValueType.INT64)
            return Reference(stands_in.name, _NULLS[node.type], element, node.type)

        return replace(one, expression=rewritten(one.expression, leaf))

    return replace(
        pattern,
        structure=with_operands(structure, lambda operand: replace(operand, optional=False)),
        summary=Summary(tuple(map(read, pattern.summary.aggregates)), tuple(map(read, pattern.summary.groups))),
        attributes=(*pattern.attributes, *((name, of) for of, name in _NULLS.items())),
    )


def _of_clause_apart(
    pattern: Pattern, events: PreparedEvents, owned: Owned, number: int | None, is_part: bool
) -> PartialSummary | None:
    """The same as `_of_one_clause`; where no way makes all aggregates together, each is made by itself."""
    together = _of_one_clause(pattern, events, owned, number, is_part)
    if together is not None or len(parts := _by_aggregate(pattern)) < 2:
        return together
    found = []
    for one in parts:
        part = _of_one_clause(one, events, owned, number, is_part)
        if part is None:
            return None
        found.append(part)
    summary = PartialSummary(pattern)
    for key, first in found[0].groups.items():
        row = summary.group(key)
        row.matches, row.states = first.matches, [part.groups[key].states[0] for part in found]
    return summary


def _by_aggregate(pattern: Pattern) -> list[Pattern]:
    """The pattern with each of its aggregates alone, but for count(*), which each group has."""
    assert pattern.summary is not None
    return [
        replace(pattern, summary=replace(pattern.summary, aggregates=(one,)))
        for one in pattern.summary.aggregates
        if one.expression is not None
    ]


def _of_one_clause(
    pattern: Pattern, events: PreparedEvents, owned: Owned, number: int | None, is_part: bool
) -> PartialSummary | None:
    """The summary of a pattern of one clause that has `number` matches; None where they are to be listed.

    Parameters
    ----------
    is_part
        Whether there are other clauses: then the matches of this one may be few, and are listed here if need be.
    """
    pair = None if (bound := bound_variables(pattern, owned)) is not None else swept_pair(pattern, owned)
    if bound is None and pair is None and is_part:
        bound = bound_variables(pattern, owned, all_of_them=True)
    names = bound or pair
    of = ClauseSlice(pattern, pattern.clauses[0], events, owned)
    summary = PartialSummary(pattern)
    if number is not None:
        few = None if names is None else _number_of_partial_matches(of, tuple(names))
        if few is None or few > FEW_MATCHES:
            try:
                _Counting(pattern, events, owned, summary, number).run()
                return summary
            except NotCounted:
                summary = PartialSummary(pattern)
        if few is not None and MATCHES_OF_ONE * few > number and not is_part:
            return None
    if names is None or not (is_part or number is not None or finding_takes_long(of)):
        return None
    if pair is not None:
        return summary if add_swept_pairs(summary, pattern, events, owned, pair) else None
    assert bound is not None
    add_partial_matches(summary, pattern, events, owned, bound)
    return summary


def _number_of_partial_matches(of: ClauseSlice, bound: tuple[str, ...]) -> int | None:
    """The number of partial matches of some variables, if it is known without finding them."""
    if len(bound) == 1:
        return len(view_of_leaf(of.events, leaf_of(of.clause, bound[0]), 0, len(of.events)))
    return count_swept(of._replace(clause=clause_over(of.clause, bound)), always=True)


def _with_columns(events: PreparedEvents, columns: Mapping[str, Array | pa.Array]) -> PreparedEvents:
    """The events with some more columns."""
    table = events.table
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    return PreparedEvents(table, type_attribute=events.type_attribute, base_type=events.base_type)


@dataclass
class _Values:
    """The values of an expression that reads one event of a variable, or its list as a whole.

    Attributes
    ----------
    tested
        What a condition compares with the number of a value: a column of the event, or the length of the list.
    values
        The distinct values, ascending; null is the last one.
    rows, codes
        The events, by their rows, and the number of the value that each has; without rows for a length.
    known_greatest
        Whether it is known how long lists are.
    """

    tested: Expression
    values: list[Value]
    rows: Array
    codes: Array
    known_greatest: bool = False

    @property
    def has_null(self) -> bool:
        return bool((self.codes == len(self.values) - 1).any())

    def column(self, name: str) -> str:
        """The name of another column that says something of the value of each event."""
        assert isinstance(self.tested, Reference)
        return f"{self.tested.attribute} {name}"

    def between(self, low: int, high: int) -> tuple[Condition, ...]:
        """The conditions that the number of the value is one of these."""
        ends = (Comparator.EQ, low), (Comparator.EQ, high)
        if low != high:
            ends = (Comparator.GE, low), (Comparator.LE, high)
        first = isinstance(self.tested, Length)
        return tuple(
            Comparison(comparator, self.tested, Literal(code + first, ValueType.INT64))
            for comparator, code in dict.fromkeys(ends)
        )

    def known(self) -> tuple[Condition, ...]:
        """The conditions that there is a value."""
        return self.between(0, len(self.values) - 2) if self.has_null else ()

    def bit(self, number: int) -> tuple[Condition, ...]:
        """The condition that a value, above the least one, has a bit."""
        assert isinstance(self.tested, Reference)
        tested = replace(self.tested, attribute=self.column(f"bit {number}"))
        return (Comparison(Comparator.EQ, tested, Literal(1, ValueType.INT64)),)


@dataclass
class _Sum:
    """A sum of values of several variables, exact in each match: the terms with their signs, and a constant."""

    terms: list[tuple[int, _Values]]
    constant: int


@dataclass
class _OfTwo:
    """An expression over two variables that rises or falls with a value of one, and the events of the other one."""

    results: Monotone
    moving: _Values
    other: str
    rows: Array


class _Counting:
    """Makes the rows of one summary of numbers of matches; `run` puts them into `summary`."""

    def __init__(
        self, pattern: Pattern, events: PreparedEvents, owned: Owned, summary: PartialSummary, total: int
    ) -> None:
        self._given, self._plain, self._owned, self._summary = pattern, events, owned, summary
        self._total_number = total
        self._columns: dict[str, Array] = {}
        assert pattern.summary is not None
        self._of = pattern.summary
        self._counts = 0
        self._begun_s = process_time()
        self._apart: dict[str, Pattern] = {}
        self._groups = [self._values_of(group.expression) for group in self._of.groups if group.expression is not None]
        self._aggregates = [(one, self._aggregated(one)) for one in self._of.aggregates if one.expression is not None]
        self._events = _with_columns(events, self._columns)

    def run(self) -> None:
        """Count what the rows need."""
        for values in self._groups:
            self._shorten(values)
        codes = np.prod([len(values.values) for values in self._groups] or [1], dtype=float)
        if codes > MOST_COUNTS:
            raise NotCounted(f"more than {MOST_COUNTS:,} counts are needed")
        parts = list(self._parts())
        begun_s = process_time()
        self._number(self._given, [self._owned], [])
        expected_s = (process_time() - begun_s) * float(codes) * len(parts) * self._counts_of_a_row()
        if expected_s > self._most_s:
            raise NotCounted(_SOONER)
        for key, owned in parts:
            self._rows_of(key, owned, [], self._total_number if owned == [self._owned] else None, self._groups)

    @property
    def _most_s(self) -> float:
        """The seconds that it takes to list the matches."""
        return max(LEAST_S, LISTED_NS * 1e-9 * self._total_number)

    def _counts_of_a_row(self) -> float:
        """About how many numbers one row is made of."""
        total = 1.0
        for aggregate, values in self._aggregates:
            if isinstance(values, _OfTwo):
                total += 2 * math.log2(max(values.results.greatest - values.results.least, 1))
                continue
            for one in [values] if isinstance(values, _Values) else [term for _, term in values.terms]:
                halving = aggregate.function in ("min", "max")
                known = len(one.values)
                total += math.log2(known) if halving else len(_bits_of(one)) or known
        return total

    def _parts(self) -> Iterator[tuple[tuple[Value, ...], list[Owned]]]:
        """The buckets of the ends of matches, with the parts of the slice that matches of each end in."""
        lengths = [group.bucket_us for group in self._of.groups if group.bucket_us is not None]
        if not lengths:
            yield (), [self._owned]
            return
        [clause] = self._given.clauses
        if finality_of(self._given, clause) is not Finality.LAST_EVENT:
            raise NotCounted("a match is not final with its last event")
        begin, stop = self._plain.rows_in(self._owned)
        ends = self._plain.timestamps[begin:stop]
        columns = [bucket_starts(ends, length, self._given.timezone) for length in lengths]
        codes, keys = group_codes(columns, len(ends))
        changes = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])) if len(codes) else np.zeros(0, np.int64)
        if len(changes) > MOST_COUNTS:
            raise NotCounted(f"more than {MOST_COUNTS:,} counts are needed")
        parts: list[list[Owned]] = [[] for _ in keys]
        for first, last in pairwise([*changes.tolist(), len(codes)]):
            start = self._owned[0] if first == 0 else self._boundary(begin + first)
            end = self._owned[1] if last == len(codes) else self._boundary(begin + last)
            parts[codes[first]].append((start, end))
        yield from zip(keys, parts, strict=True)

    def _boundary(self, row: int) -> Boundary:
        return int(self._plain.timestamps[row]), int(self._plain.seqs[row])

    def _rows_of(
        self,
        buckets: tuple[Value, ...],
        owned: Sequence[Owned],
        chosen: list[tuple[_Values, int]],
        total: int | None,
        left: Sequence[_Values],
    ) -> None:
        """Make the rows of the groups that begin with some chosen values."""
        conditions = [one for values, code in chosen for one in values.between(code, code)]
        number = self._number(self._given, owned, conditions) if total is None else total
        if not number:
            return
        if left:
            for code in range(len(left[0].values)):
                self._rows_of(buckets, owned, [*chosen, (left[0], code)], None, left[1:])
            return
        found, ends = iter(chosen), iter(buckets)
        key = tuple(
            next(ends) if group.expression is None else (one := next(found))[0].values[one[1]]
            for group in self._of.groups
        )
        row = self._summary.group(key)
        row.matches = number
        self._aggregate(row, owned, conditions, number)

    def _aggregate(self, row: SummaryRow, owned: Sequence[Owned], conditions: list[Condition], number: int) -> None:
        known: dict[Expression, Total] = {}
        for place, (aggregate, values) in enumerate(self._aggregates):
            assert aggregate.expression is not None
            if aggregate.function in ("min", "max"):
                assert not isinstance(values, _Sum)
                row.states[place] = self._extreme(values, owned, conditions, greatest=aggregate.function == "max")
                continue
            assert not isinstance(values, _OfTwo)
            of = aggregate.expression
            if of not in known:
                known[of] = (
                    self._total_of_sum(values, owned, conditions, number)
                    if isinstance(values, _Sum)
                    else self._total(of, values, owned, conditions, number)
                )
            row.states[place] = replace(known[of])

    def _total_of_sum(self, of: _Sum, owned: Sequence[Owned], conditions: list[Condition], number: int) -> Total:
        """The sum over the matches in which all terms have a value: the sum of the sums of the terms."""
        conditions = [*conditions, *(one for _, values in of.terms for one in values.known())]
        if any(values.has_null for _, values in of.terms):
            number = self._number(self._given, owned, conditions)
        found = Total(number, of.constant * number)
        for sign, values in of.terms:
            found.exact += sign * self._total(None, values, owned, conditions, number).exact
        return found

    # Numbers of matches.

    def _number(
        self,
        pattern: Pattern,
        owned: Sequence[Owned],
        conditions: Sequence[Condition],
        more: Mapping[str, Array] | None = None,
    ) -> int:
        self._counts += 1
        if self._counts > MOST_COUNTS:
            raise NotCounted(f"more than {MOST_COUNTS:,} counts are needed")
        if process_time() - self._begun_s > 2 * self._most_s:
            raise NotCounted(_SOONER)
        asked = self._with(conditions, (*self._columns, *(more or ())), pattern)
        events = _with_columns(self._events, more) if more else self._events
        found = 0
        for part in owned:
            number = count_matches(asked, events, part, always=True)
            if number is None:
                raise NotCounted(_NOT_COUNTED)
            found += number
        return found

    def _with(self, conditions: Sequence[Condition], columns: Iterable[str], pattern: Pattern | None = None) -> Pattern:
        """The pattern with further conditions, which read these columns."""
        pattern = pattern or self._given
        whole = (*((pattern.condition,) if pattern.condition is not None else ()), *conditions)
        return replace(
            pattern,
            condition=AllOf(whole) if len(whole) > 1 else whole[0] if whole else None,
            attributes=(*pattern.attributes, *((name, ValueType.INT64) for name in columns)),
            summary=None,
        )

    def _total(
        self,
        expression: Expression | None,
        values: _Values,
        owned: Sequence[Owned],
        conditions: list[Condition],
        number: int,
    ) -> Total:
        """The sum over the matches, made of the numbers of matches whose event has each bit of the value."""
        variable = values.tested.variable if isinstance(values.tested, Reference) else ""
        pattern = self._apart.get(variable, self._given)

        def of(conditions_on: tuple[Condition, ...]) -> int:
            return self._number(pattern, owned, [*conditions, *conditions_on])

        def having(value: Value) -> int:
            code = values.values.index(value)
            return of(values.between(code, code))

        self._shorten(values)
        finite = [value for value in values.values if _is_finite(value)]
        special = [value for value in values.values if value is not None and not _is_finite(value)]
        found = Total()
        if variable in self._apart:
            found.values = number - self._without(values, expression, owned, conditions)
            elements = self._number(pattern, owned, conditions)
        else:
            found.values = elements = number
        nulls = having(None) if values.has_null else 0
        if variable not in self._apart:
            found.values -= nulls
        counted = elements - nulls
        for value in special:
            with_it = having(value)
            counted -= with_it
            if with_it:
                found.special += float(value)
        if not finite:
            return found
        units = [whole_units(value) for value in finite]
        least, shift = min(units), _trailing_zeros(units)
        bits = ((max(units) - least) >> shift).bit_length()
        found.exact = counted * least
        if len(finite) <= bits or not isinstance(values.tested, Reference):
            for one, unit in zip(finite, units, strict=True):
                if unit != least:
                    found.exact += (unit - least) * having(one)
        else:
            for bit in range(bits):
                found.exact += of(values.bit(bit)) << (bit + shift)
        return found

    def _without(
        self, values: _Values, expression: Expression | None, owned: Sequence[Owned], conditions: list[Condition]
    ) -> int:
        """The number of matches whose list has no value at all, so that its sum is null."""
        if not (isinstance(expression, Aggregate) and expression.function == "sum" and values.has_null):
            return 0
        assert isinstance(values.tested, Reference)
        null = Comparison(
            Comparator.EQ,
            replace(values.tested, variable=expression.variable, element=Element.EACH),
            Literal(len(values.values) - 1, ValueType.INT64),
        )
        return self._number(self._given, owned, [*conditions, null])

    def _extreme(
        self, values: _Values | _OfTwo, owned: Sequence[Owned], conditions: list[Condition], *, greatest: bool
    ) -> Extreme:
        """The least or greatest value that a match has, found by halving."""
        if isinstance(values, _OfTwo):
            return self._extreme_of_two(values, owned, conditions, greatest=greatest)

        def some(low: int, high: int) -> bool:
            return self._number(self._given, owned, [*conditions, *values.between(low, high)]) > 0

        ordered = values.values[:-1]
        last = len(ordered) - 1
        if ordered and is_nan(ordered[-1]):
            if some(last, last):
                return Extreme(ordered[-1])
            last -= 1
        if last < 0 or not some(0, last):
            return Extreme()
        low, high = 0, last
        while low < high:
            middle = (low + high + greatest) // 2
            if greatest:
                low, high = (middle, high) if some(middle, last) else (low, middle - 1)
            else:
                low, high = (low, middle) if some(0, middle) else (middle + 1, high)
        return Extreme(ordered[low])

    def _extreme_of_two(
        self, values: _OfTwo, owned: Sequence[Owned], conditions: list[Condition], *, greatest: bool
    ) -> Extreme:
        """The least or greatest result of two events of a match, found by halving."""
        known = [*conditions, *values.moving.between(0, len(values.moving.values) - 2)]
        bounds, sides = "\0bound", "\0side"
        bound = Reference(values.other, bounds, Element.ONLY, ValueType.INT64)
        side = Reference(values.other, sides, Element.ONLY, ValueType.INT64)

        def some(key: int) -> bool:
            up, number = values.results.bounds(key, greatest=greatest)
            more = {name: np.full(len(self._plain), -1, np.int64) for name in (bounds, sides)}
            more[bounds][values.rows], more[sides][values.rows] = number, np.where(values.results.known, up, -1)
            for is_up, comparator in ((1, Comparator.GE), (0, Comparator.LE)):
                chosen = Comparison(Comparator.EQ, side, Literal(is_up, ValueType.INT64))
                within = Comparison(comparator, values.moving.tested, bound)
                if (more[sides] == is_up).any() and self._number(
                    self._given, owned, [*known, chosen, within], more=more
                ):
                    return True
            return False

        low, high = values.results.least, values.results.greatest
        if low > high or not some(low if greatest else high):
            return Extreme()
        while low < high:
            middle = (low + high + greatest) // 2
            if greatest:
                low, high = (middle, high) if some(middle) else (low, middle - 1)
            else:
                low, high = (low, middle) if some(middle) else (middle + 1, high)
        return Extreme(values.results.result(low))

    def _shorten(self, values: _Values) -> None:
        """Leave out the lengths that no list has, if the values are lengths."""
        if isinstance(values.tested, Length) and not values.known_greatest:
            values.known_greatest = True
            longest = self._extreme(values, [self._owned], [], greatest=True).value
            assert longest is None or isinstance(longest, int)
            values.values = [*range(1, (longest or 0) + 1), None]

    # What is known of the values of an expression, as columns of the events.

    def _aggregated(self, aggregate: SummaryAggregate) -> _Values | _Sum | _OfTwo:
        """The values of an aggregate; of the sum of a list the values of one element, which stands apart."""
        expression = aggregate.expression
        assert expression is not None
        adds = aggregate.function in ("sum", "avg")
        if adds and len(variables_of(expression)) > 1:
            return self._sum_of_terms(expression)
        if not adds and (moving := moving_value(expression)) is not None:
            return self._of_two(expression, moving)
        if adds and isinstance(expression, Length | Aggregate):
            try:
                values = self._elements_apart(expression)
            except NotCounted:
                values = self._values_of(expression)
        else:
            values = self._values_of(expression)
        if adds:
            self._note_bits(values)
        return values

    def _elements_apart(self, expression: Length | Aggregate) -> _Values:
        """The values that one element of a list adds to a sum over it."""
        name = f"{_APART} {expression.variable}"
        if name not in self._apart:
            self._apart[name] = _with_element_apart(self._given, expression.variable)
        values = self._values_of(_of_one_element(expression, name), self._apart[name], name)
        units = [abs(whole_units(value)) if _is_finite(value) else 0 for value in values.values]
        together = sum(
            unit * times
            for unit, times in zip(units, np.bincount(values.codes, minlength=len(units)).tolist(), strict=True)
        )
        if expression.type is ValueType.FLOAT64:
            if not all(map(_is_finite, values.values[:-1])) or not _holds(together, units):
                raise NotCounted("the sum of a list is rounded")
        elif together >= 2**63:
            raise NotCounted("the sum of a list may exceed int64")
        return values

    def _of_two(self, expression: Expression, moving: Reference) -> _OfTwo:
        """An expression that rises or falls with a value; each of its results is finite or null."""
        values = self._values_of(moving)
        [other] = variables_of(expression) - {moving.variable}
        clause = self._given.clauses[0]
        if clause.by_name[other].kleene or any(map(is_nan, values.values)):
            raise NotCounted("a value is NaN, or one of a list")
        bound = Reference(other, "\0bound", Element.ONLY, ValueType.INT64)
        compared = Comparison(Comparator.GE, values.tested, bound)
        if _not_counted_because(self._with([compared], (*self._columns, bound.attribute))) is not None:
            raise NotCounted(f"one value is read of {_in_words(sorted((moving.variable, other)))}")
        rows = np.array(view_of_leaf(self._plain, leaf_of(clause, other), 0, len(self._plain)).rows)
        firsts = np.zeros(max(len(values.values) - 1, 1), np.int64)
        if len(values.values) == 1 or not len(rows):
            rows = rows[:0]
        else:
            some = values.codes < len(firsts)
            firsts[values.codes[some]] = values.rows[some]
        results = Monotone(expression, moving, other, self._plain, rows, firsts)
        if not results.is_plain:
            raise NotCounted("a result is infinite, or exceeds int64")
        return _OfTwo(results, values, other, rows)

    def _sum_of_terms(self, expression: Expression) -> _Sum:
        """The terms of a sum or difference over several variables, if it is exact in every match."""
        found = _Sum([], 0)
        for sign, term in _terms(expression):
            if term.type is not expression.type:
                raise NotCounted("int64 and float64 are added")
            if variables_of(term):
                values = self._values_of(term)
                if not isinstance(values.tested, Reference) or not all(map(_is_finite, values.values[:-1])):
                    raise NotCounted("a term is no finite value of an event")
                self._note_bits(values)
                found.terms.append((sign, values))
            else:
                if not isinstance(term, Literal) or not _is_finite(term.value):
                    raise NotCounted("a term is no number")
                value = float(term.value) if term.type is ValueType.FLOAT64 else term.value
                found.constant += sign * whole_units(value)
        if expression.type is ValueType.FLOAT64:
            self._check_rounding(found)
        elif (
            sum(max(map(abs, map(whole_units, values.values[:-1])), default=0) for _, values in found.terms)
            + abs(found.constant)
            >= 2**63
        ):
            raise NotCounted("a sum may exceed int64")
        return found

    def _check_rounding(self, of: _Sum) -> None:
        """Refuse a sum of float64 that is rounded in some match, by the values that agree on what a match agrees on."""
        [clause] = self._given.clauses
        keys, number = np.zeros(len(self._plain), np.int64), 1
        if clause.agree_on:
            keys, number = agreement_codes(self._plain, clause.agree_on)
        low, high, most, digits = ([0] * number for _ in range(4))
        for sign, values in of.terms:
            units = [0 if value is None else sign * whole_units(value) for value in values.values]
            own = keys[values.rows].astype(np.int64)
            pairs = np.unique((own * len(units) + values.codes)[own >= 0])
            ends: dict[int, tuple[int, int]] = {}
            for pair in pairs.tolist():
                key, unit = pair // len(units), units[pair % len(units)]
                least, greatest = ends.get(key, (unit, unit))
                ends[key] = min(least, unit), max(greatest, unit)
                digits[key] |= abs(unit)
            for key, (least, greatest) in ends.items():
                low[key] += least
                high[key] += greatest
                most[key] += max(abs(least), abs(greatest))
        for key in range(number):
            widest = max(abs(low[key]), abs(high[key]))
            if len(of.terms) > 2 or of.constant:
                widest = most[key] + abs(of.constant)
            if not _holds(widest, [digits[key], of.constant]):
                raise NotCounted("a sum of float64 is rounded in each match")

    def _values_of(self, expression: Expression, pattern: Pattern | None = None, variable: str = "") -> _Values:
        """The values of an expression that reads one event of one variable, or a list's length or extremes."""
        clause = (pattern or self._given).clauses[0]
        names = variables_of(expression)
        if not variable:
            if len(names) > 1:
                raise NotCounted(f"one value is read of {_in_words(sorted(names))}")
            any_variable = next((one for one in clause.positive if not one.kleene), clause.positive[0])
            variable = next(iter(names), any_variable.name)
        bound = clause.by_name[variable]
        column, kind = f"\0{len(self._columns)}", ValueType.INT64
        tested: Expression = Reference(variable, column, Element.ONLY, kind)
        none = np.zeros(0, np.int64)
        if not bound.kleene:
            rows = np.array(view_of_leaf(self._plain, leaf_of(clause, variable), 0, len(self._plain)).rows)
        else:
            rows = np.array(leaf_view(self._plain, bound.event_type, (), 0, len(self._plain)).rows)
            if isinstance(expression, Length):
                most = len(rows) if bound.maximum is None else min(bound.maximum, len(rows))
                return _Values(expression, [*range(1, most + 1), None], none, none)
            expression, tested = _on_one_element(expression, column)
        read = column_to_arrow(expression_values(expression, self._plain, {variable: rows}))
        if isinstance(tested, Aggregate) and (read.null_count or any(map(is_nan, read.to_pylist()))):
            raise NotCounted("elements are null or NaN")
        codes, keys = group_codes([read], len(rows))
        values = [value for (value,) in keys]
        order = sorted(range(len(values)), key=lambda place: rank(values[place]))
        places = np.zeros(len(values), np.int64)
        places[order] = np.arange(len(order))
        found = _Values(
            tested, [values[place] for place in order if values[place] is not None] + [None], rows, places[codes]
        )
        self._note(found, column, found.codes)
        return found

    def _note_bits(self, values: _Values) -> None:
        if isinstance(values.tested, Reference):
            for number, bit in enumerate(_bits_of(values)):
                self._note(values, values.column(f"bit {number}"), bit[values.codes])

    def _note(self, values: _Values, name: str, of_rows: Array) -> None:
        column = np.full(len(self._plain), -1, np.int64)
        column[values.rows] = of_rows
        self._columns[name] = column


def _on_one_element(expression: Expression, column: str) -> tuple[Expression, Expression]:
    """An expression over a list as one over a single event, and what a condition asks of the list's column.

    That is the first or the last element, or the extreme of all.
    """
    if isinstance(expression, Aggregate) and expression.function in ("min", "max") and not expression.prefix:
        of_one = Reference(expression.variable, expression.attribute, Element.ONLY, expression.type)
        return of_one, replace(expression, attribute=column, type=ValueType.INT64)
    nodes = [node for node in walk(expression) if isinstance(node, Reference | Length | Aggregate)]
    elements = {node.element if isinstance(node, Reference) else None for node in nodes}
    element = elements.pop() if len(elements) == 1 else None
    if element not in (Element.FIRST, Element.LAST):
        raise NotCounted("one value is made of several elements of a list")
    tested = Reference(nodes[0].variable, column, element, ValueType.INT64)

    def only(node: Expression) -> Expression:
        return replace(node, element=Element.ONLY) if isinstance(node, Reference) else node

    return rewritten(expression, only), tested


def _terms(expression: Expression, sign: int = 1) -> Iterator[tuple[int, Expression]]:
    """The terms of a sum or difference, each with its sign: those that read several variables are taken apart."""
    if len(variables_of(expression)) > 1:
        match expression:
            case Arithmetic("+" | "-" as operator, left, right):
                yield from _terms(left, sign)
                yield from _terms(right, sign if operator == "+" else -sign)
                return
            case Negative(operand):
                yield from _terms(operand, -sign)
                return
        raise NotCounted(f"one value is read of {_in_words(sorted(variables_of(expression)))}")
    yield sign, expression


def _holds(widest: int, units: Sequence[int]) -> bool:
    """Return whether float64 holds all whole multiples, up to `widest`, of the last bit that any of the units has."""
    together = 0
    for unit in units:
        together |= abs(unit)
    return widest <= (together & -together) << 53


def _bits_of(values: _Values) -> list[Array]:
    """Each bit of the distinct values, above the least of them; none where there are fewer values than bits."""
    finite = [value for value in values.values if _is_finite(value)]
    if not finite:
        return []
    units = [whole_units(value) for value in finite]
    least, shift = min(units), _trailing_zeros(units)
    bits = ((max(units) - least) >> shift).bit_length()
    if len(finite) <= bits:
        return []
    own = [(whole_units(value) - least) >> shift if _is_finite(value) else 0 for value in values.values]
    return [np.array([unit >> bit & 1 for unit in own], np.int64) for bit in range(bits)]


def _trailing_zeros(units: Sequence[int]) -> int:
    """The zeros at the end of all differences from the least number."""
    least = min(units)
    together = 0
    for unit in units:
        together |= unit - least
    return (together & -together).bit_length() - 1 if together else 0


def _is_finite(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _of_one_element(expression: Length | Aggregate, name: str) -> Expression:
    """The share that one element has in `v.LEN`, in `count(v[].x)` or in `sum(v[].x)`."""
    if isinstance(expression, Length):
        return Literal(1, ValueType.INT64)
    if expression.function != "sum" or expression.prefix:
        raise NotCounted("one value is made of several elements of a list")
    return Reference(name, expression.attribute, Element.ONLY, expression.type)


def _with_element_apart(pattern: Pattern, variable: str) -> Pattern:
    """The pattern in which one element of a list is a variable of its own, and those before and behind it are lists."""
    operand = next(one for one in pattern.operands if one.variable == variable)
    plain = operand.minimum == 1 and operand.maximum is None and not operand.optional
    if not plain or operand.negated or any(one.negated for one in pattern.operands) or pattern.ties is not Ties.ARRIVAL:
        raise NotCounted("no element of the list can be counted by itself")
    before, apart, behind = names = [f"{kind} {variable}" for kind in (_BEFORE, _APART, _BEHIND)]
    parts = (
        replace(operand, variable=before, optional=True),
        replace(operand, variable=apart, kleene=False),
        replace(operand, variable=behind, optional=True),
    )
    whole = pattern.condition
    conditions: list[Condition] = []
    for part in whole.operands if isinstance(whole, AllOf) else () if whole is None else (whole,):
        conditions += _of_elements(part, variable, names)
    return replace(
        pattern,
        structure=_replaced(pattern.structure, variable, Composite(Operator.SEQ, parts)),
        condition=AllOf(tuple(conditions)) if len(conditions) > 1 else conditions[0] if conditions else None,
        summary=None,
    )


def _of_elements(condition: Condition, variable: str, names: Sequence[str]) -> list[Condition]:
    """A part of a condition, once for each of the variables that stand for a list, if it speaks of its elements."""
    mentioned = False

    def named(name: str) -> Callable[[Expression], Expression]:
        def leaf(node: Expression) -> Expression:
            nonlocal mentioned
            if isinstance(node, Literal) or node.variable != variable:  # type: ignore[union-attr]
                return node
            if not isinstance(node, Reference) or node.element is not Element.EACH:
                raise NotCounted("a condition asks where in the list an element is, or for the list as a whole")
            mentioned = True
            element = Element.ONLY if name.startswith(_APART) else Element.EACH
            return replace(node, variable=name, element=element)

        return leaf

    made = [_condition_rewritten(condition, named(name)) for name in names]
    return made if mentioned else made[:1]


def _condition_rewritten(condition: Condition, leaf: Callable[[Expression], Expression]) -> Condition:
    match condition:
        case AllOf(operands) | AnyOf(operands):
            return replace(condition, operands=tuple(_condition_rewritten(one, leaf) for one in operands))
        case Not(operand):
            return replace(condition, operand=_condition_rewritten(operand, leaf))
        case Equivalence():
            return condition
        case _:
            return rewritten(condition, leaf)


def _replaced(structure: Structure, variable: str, by: Structure) -> Structure:
    """The structure with another one in place of a variable."""
    if isinstance(structure, EventOperand):
        return by if structure.variable == variable else structure
    if isinstance(structure, Composite):
        return replace(structure, operands=tuple(_replaced(one, variable, by) for one in structure.operands))
    return structure
