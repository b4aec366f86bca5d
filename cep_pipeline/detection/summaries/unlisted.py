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
| patterns | of one clause under skip_till_any_match, whose matches are counted without listing them |
| groups, sum, avg, min, max | of an expression over one variable that binds one event |
| bucket | where a match is final with its last event |
| sum, avg | of `sum(k[].x)` of int64, `count(k[].x)` and `k.LEN`, under TIES ARRIVAL and without negation |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.counting.sweep import count_owned
from cep_pipeline.detection.matches import column_to_arrow
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Owned
from cep_pipeline.detection.output_policy import has_output_policy
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
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.patterns.conditions import AllOf, AnyOf, Comparator, Comparison, Condition, Equivalence, Not
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Element,
    Expression,
    Length,
    Literal,
    Reference,
    ValueType,
    variables_of,
)
from cep_pipeline.patterns.pattern import Pattern, Strategy, SummaryAggregate, Ties
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator, Structure
from cep_pipeline.slices.ownership import Finality, finality_of
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from cep_pipeline.slices.views import leaf_of, view_of_leaf

FEW_MATCHES = 1 << 20
"""So many matches are listed in less time than most summaries take without."""
MOST_COUNTS = 1 << 12
"""More counts than these are not made for one summary."""
_APART, _BEFORE, _BEHIND = "\0element", "\0before", "\0behind"
"""Variables of a list that has one element apart."""


class NotCounted(Exception):
    """Something about a summary asks for the matches themselves."""


def count_matches(pattern: Pattern, events: PreparedEvents, owned: Owned, *, always: bool = False) -> int | None:
    """The number of matches that a slice owns; None where they have to be listed to be counted.

    Parameters
    ----------
    always
        Whether they are counted even where they would be found sooner.
    """
    counted = count_owned(pattern, events, owned, always=always)
    if counted is not None or not any(operand.kleene and not operand.negated for operand in pattern.operands):
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


def summarize_unlisted(pattern: Pattern, events: PreparedEvents, owned: Owned) -> PartialSummary | None:
    """What SUMMARIZE puts together of the matches that a slice owns; None where they are to be listed.

    That is also the answer where there are few matches.
    """
    summary = PartialSummary(pattern)
    if has_output_policy(pattern) or pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or pattern.composes:
        return None
    if not any(_may_be_counted(pattern, item.expression) for item in pattern.items) and pattern.items:
        return None
    total = count_matches(pattern, events, owned)
    if total is None:
        return None
    assert pattern.summary is not None
    if not pattern.items and not pattern.summary.groups:
        summary.group(()).matches = total
        return summary
    if total <= FEW_MATCHES or len(pattern.clauses) > 1:
        return None
    try:
        _Counting(pattern, events, owned, summary).run(total)
    except NotCounted:
        return None
    return summary


def _may_be_counted(pattern: Pattern, expression: Expression) -> bool:
    """False where an expression surely asks for the matches: most that do are refused before anything is counted."""
    return len(variables_of(expression)) == 1


@dataclass
class _Values:
    """The values of an expression over the events that one variable may bind.

    Attributes
    ----------
    variable
        The variable; of a list the one element that stands apart.
    rows
        The events, by their rows.
    codes, values
        The number of each event's value, and the distinct values: null is the last one.
    """

    variable: str
    rows: Array
    codes: Array
    values: list[Value]
    number: int = 0

    def column(self, name: str) -> str:
        """The name of a column that says something of the value of each event."""
        return f"\0{self.number} {name}"


class _Counting:
    """Makes the rows of one summary of numbers of matches; `run` puts them into `summary`."""

    def __init__(self, pattern: Pattern, events: PreparedEvents, owned: Owned, summary: PartialSummary) -> None:
        self._given, self._plain, self._owned, self._summary = pattern, events, owned, summary
        self._columns: dict[str, Array] = {}
        assert pattern.summary is not None
        self._of = pattern.summary
        self._counts = 0
        self._known: list[_Values] = []
        self._apart: dict[str, Pattern] = {}
        self._groups = [
            self._values_of(pattern, group.expression) for group in self._of.groups if group.expression is not None
        ]
        self._aggregates = [(one, self._aggregated(one)) for one in self._of.aggregates if one.expression is not None]
        table = events.table
        for name, column in self._columns.items():
            table = table.append_column(name, pa.array(column))
        self._events = PreparedEvents(table, type_attribute=events.type_attribute, base_type=events.base_type)

    def run(self, total: int) -> None:
        """Count what the rows need, given the number of all matches."""
        codes = np.prod([len(values.values) for values in self._groups] or [1], dtype=float)
        if codes > MOST_COUNTS:
            raise NotCounted
        for key, owned in self._parts():
            self._rows_of(key, owned, [], total if owned == [self._owned] else None, self._groups)

    def _parts(self) -> Iterator[tuple[tuple[Value, ...], list[Owned]]]:
        """The buckets of the ends of matches, with the parts of the slice that matches of each end in."""
        lengths = [group.bucket_us for group in self._of.groups if group.bucket_us is not None]
        if not lengths:
            yield (), [self._owned]
            return
        [clause] = self._given.clauses
        if finality_of(self._given, clause) is not Finality.LAST_EVENT:
            raise NotCounted
        begin, stop = self._plain.rows_in(self._owned)
        ends = self._plain.timestamps[begin:stop]
        columns = [bucket_starts(ends, length, self._given.timezone) for length in lengths]
        codes, keys = group_codes(columns, len(ends))
        changes = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])) if len(codes) else np.zeros(0, np.int64)
        if len(changes) > MOST_COUNTS:
            raise NotCounted
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
        conditions = [_is(values, "group", code) for values, code in chosen]
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
                row.states[place] = self._extreme(values, owned, conditions, greatest=aggregate.function == "max")
                continue
            of = aggregate.expression
            if of not in known:
                known[of] = self._total(of, values, owned, conditions, number)
            row.states[place] = replace(known[of])

    # Numbers of matches.

    def _number(self, pattern: Pattern, owned: Sequence[Owned], conditions: Sequence[Condition]) -> int:
        self._counts += 1
        if self._counts > MOST_COUNTS:
            raise NotCounted
        whole = (*((pattern.condition,) if pattern.condition is not None else ()), *conditions)
        asked = replace(
            pattern,
            condition=AllOf(whole) if len(whole) > 1 else whole[0] if whole else None,
            attributes=(*pattern.attributes, *((name, ValueType.INT64) for name in self._columns)),
            summary=None,
        )
        found = 0
        for part in owned:
            number = count_matches(asked, self._events, part, always=True)
            if number is None:
                raise NotCounted
            found += number
        return found

    def _total(
        self,
        expression: Expression,
        values: _Values,
        owned: Sequence[Owned],
        conditions: list[Condition],
        number: int,
    ) -> Total:
        """The sum over the matches, made of the numbers of matches whose event has each bit of the value."""
        pattern = self._apart.get(values.variable, self._given)

        def of(name: str, code: int) -> int:
            return self._number(pattern, owned, [*conditions, _is(values, name, code)])

        finite = [value for value in values.values if _is_finite(value)]
        special = [value for value in values.values if value is not None and not _is_finite(value)]
        found = Total()
        if values.variable in self._apart:
            found.values = number - self._without(values, expression, owned, conditions)
            elements = self._number(pattern, owned, conditions)
        else:
            found.values = elements = number
        rows_with_null = bool((values.codes == len(values.values) - 1).any())
        nulls = of("group", len(values.values) - 1) if rows_with_null else 0
        if values.variable not in self._apart:
            found.values -= nulls
        counted = elements - nulls
        for value in special:
            with_it = of("group", values.values.index(value))
            counted -= with_it
            if with_it:
                found.special += float(value)
        if not finite:
            return found
        units = [whole_units(value) for value in finite]
        least, shift = min(units), _trailing_zeros(units)
        bits = ((max(units) - least) >> shift).bit_length()
        found.exact = counted * least
        if len(finite) <= bits:
            for one, unit in zip(finite, units, strict=True):
                if unit != least:
                    found.exact += (unit - least) * of("group", values.values.index(one))
        else:
            for bit in range(bits):
                found.exact += of(f"bit {bit}", 1) << (bit + shift)
        return found

    def _without(
        self, values: _Values, expression: Expression, owned: Sequence[Owned], conditions: list[Condition]
    ) -> int:
        """The number of matches whose list has no value at all, so that its sum is null."""
        if not (isinstance(expression, Aggregate) and expression.function == "sum"):
            return 0
        if not (values.codes == len(values.values) - 1).any():
            return 0
        null = Comparison(
            Comparator.EQ,
            Reference(expression.variable, values.column("group"), Element.EACH, ValueType.INT64),
            Literal(len(values.values) - 1, ValueType.INT64),
        )
        return self._number(self._given, owned, [*conditions, null])

    def _extreme(
        self, values: _Values, owned: Sequence[Owned], conditions: list[Condition], *, greatest: bool
    ) -> Extreme:
        """The least or greatest value that the event of a match has, found by halving."""

        def some(low: int, high: int) -> bool:
            between = _is(values, "rank", low, Comparator.GE), _is(values, "rank", high, Comparator.LE)
            return self._number(self._given, owned, [*conditions, *between]) > 0

        ordered = sorted(values.values[:-1], key=rank)
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

    # What is known of the values of an expression, as columns of the events.

    def _aggregated(self, aggregate: SummaryAggregate) -> _Values:
        """The values of an aggregate; of the sum of a list the values of one element, which stands apart."""
        expression = aggregate.expression
        assert expression is not None
        of_list = isinstance(expression, Length) or (
            isinstance(expression, Aggregate) and expression.function in ("sum", "count") and not expression.prefix
        )
        if not of_list:
            values = self._values_of(self._given, expression)
        else:
            assert isinstance(expression, Length | Aggregate)
            if aggregate.function not in ("sum", "avg"):
                raise NotCounted
            name = f"{_APART} {expression.variable}"
            if name not in self._apart:
                self._apart[name] = _with_element_apart(self._given, expression.variable)
            values = self._values_of(self._apart[name], _of_one_element(expression, name), name)
            if (
                max((abs(value) for value in values.values if isinstance(value, int)), default=0) * len(self._plain)
                >= 2**63
            ):
                raise NotCounted  # the sum of one list may exceed int64
        if aggregate.function in ("min", "max"):
            ranks = np.full(len(values.values), -1, np.int64)
            for place, value in enumerate(sorted(values.values[:-1], key=rank)):
                ranks[values.values.index(value)] = place
            self._note(values, "rank", ranks[values.codes])
        else:
            for number, bit in enumerate(_bits_of(values)):
                self._note(values, f"bit {number}", bit[values.codes])
        return values

    def _values_of(self, pattern: Pattern, expression: Expression, variable: str = "") -> _Values:
        """The values of an expression over the one variable that it reads, which is in every match."""
        if not variable:
            names = variables_of(expression)
            if len(names) != 1:
                raise NotCounted
            [variable] = names
        clause = pattern.clauses[0]
        if clause.by_name[variable].kleene:
            raise NotCounted
        rows = np.array(view_of_leaf(self._plain, leaf_of(clause, variable), 0, len(self._plain)).rows)
        column = expression_values(expression, self._plain, {variable: rows})
        codes, keys = group_codes([column_to_arrow(column)], len(rows))
        values = [value for (value,) in keys]
        order = [place for place, value in enumerate(values) if value is not None]
        places = np.zeros(len(values), np.int64)
        places[order] = np.arange(len(order))
        places[[place for place, value in enumerate(values) if value is None]] = len(order)
        found = _Values(variable, rows, places[codes], [*(values[place] for place in order), None], len(self._known))
        self._known.append(found)
        self._note(found, "group", found.codes)
        return found

    def _note(self, values: _Values, name: str, of_rows: Array) -> None:
        column = np.full(len(self._plain), -1, np.int64)
        column[values.rows] = of_rows
        self._columns[values.column(name)] = column


def _is(values: _Values, name: str, code: int, comparator: Comparator = Comparator.EQ) -> Condition:
    """A condition on what a column says of the event of a variable."""
    left = Reference(values.variable, values.column(name), Element.ONLY, ValueType.INT64)
    return Comparison(comparator, left, Literal(code, ValueType.INT64))


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
    if expression.function == "count" or expression.type is not ValueType.INT64:
        raise NotCounted  # count leaves nulls out, and a sum of float64 is rounded in each match
    return Reference(name, expression.attribute, Element.ONLY, expression.type)


def _with_element_apart(pattern: Pattern, variable: str) -> Pattern:
    """The pattern in which one element of a list is a variable of its own, and those before and behind it are lists."""
    operand = next(one for one in pattern.operands if one.variable == variable)
    plain = operand.minimum == 1 and operand.maximum is None and not operand.optional
    if not plain or operand.negated or any(one.negated for one in pattern.operands) or pattern.ties is not Ties.ARRIVAL:
        raise NotCounted
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
                raise NotCounted  # it asks where in the list an element is, or for the list as a whole
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
