"""Rows of SUMMARIZE made of numbers of matches, which sweeps and merged runs count.

The number of matches of a group is that of the pattern with a further condition on the events of a variable. A sum of
whole numbers is made of numbers of matches, too: it is the sum, over the bits of the values, of the bit's worth times
the number of matches whose event has it. A float64 is a whole number of some power of two. The least value is found by
halving: is there a match whose event has one of the smaller half of the values? So a row takes some dozen counts, each
of which takes some steps an event, however many matches there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, product
from time import process_time

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.counting.sweep import NOT_COUNTED, count_owned, not_counted_because
from cep_pipeline.detection.mechanisms import Owned
from cep_pipeline.detection.summaries.partial import (
    Extreme,
    PartialSummary,
    Total,
    Value,
    bucket_starts,
    group_codes,
    is_nan,
    whole_units,
)
from cep_pipeline.detection.summaries.values import (
    Monotone,
    NotCounted,
    Signed,
    SumOfTerms,
    Values,
    check_exact,
    in_words,
    is_finite,
    is_held,
    moving_value,
    rows_of,
    span_of,
    spread,
    terms_of,
    values_of,
)
from cep_pipeline.expressions.columns import Array
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
from cep_pipeline.patterns.pattern import Pattern, SummaryAggregate, Ties
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator, Structure
from cep_pipeline.slices.ownership import Finality, finality_of
from cep_pipeline.slices.prepared import Boundary, PreparedEvents

MOST_COUNTS = 1 << 12
"""More counts than these are not made for one summary."""
LISTED_NS, LEAST_S = 200.0, 0.1
"""How long it takes to list a match; what takes longer than to list them all, and this long, is not counted."""
_SOONER, _TOO_MANY = "the matches are listed sooner", f"more than {MOST_COUNTS:,} counts are needed"


@dataclass
class _OfTwo:
    """An expression over two variables that rises or falls with a value of one, and the events of the other one."""

    results: Monotone
    moving: Values
    other: str
    rows: Array


def with_columns(events: PreparedEvents, columns: Mapping[str, Array | pa.Array]) -> PreparedEvents:
    """The events with some more columns."""
    table = events.table
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    return PreparedEvents(table, type_attribute=events.type_attribute, base_type=events.base_type)


class RowsOfNumbers:
    """Makes the rows of a pattern of one clause; `run` puts them into `summary`.

    Raises
    ------
    NotCounted
        Something that is asked takes the matches themselves, or to list them is sooner.
    """

    def __init__(
        self, pattern: Pattern, events: PreparedEvents, owned: Owned, summary: PartialSummary, total: int
    ) -> None:
        self._given, self._plain, self._owned, self._summary = pattern, events, owned, summary
        [self._clause] = pattern.clauses
        self._total_number = total
        self._columns: dict[str, Array] = {}
        assert pattern.summary is not None
        self._of = pattern.summary
        self._counts, self._begun_s = 0, process_time()
        self._apart: dict[str, Pattern] = {}
        self._groups = [self._values_of(group.expression) for group in self._of.groups if group.expression is not None]
        self._aggregates = [(one, self._aggregated(one)) for one in self._of.aggregates if one.expression is not None]
        self._events = with_columns(events, self._columns)

    def run(self) -> None:
        """Count what the rows need."""
        for values in self._groups:
            self._shorten(values)
        codes = math.prod(len(values.values) for values in self._groups)
        if codes > MOST_COUNTS:
            raise NotCounted(_TOO_MANY)
        parts = list(self._parts())
        begun_s = process_time()
        self._number([self._owned], [])
        expected_s = (process_time() - begun_s) * codes * len(parts) * self._counts_of_a_row()
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
            for one in [values] if isinstance(values, Values) else [term for _, term in values.terms]:
                halving, known = aggregate.function in ("min", "max"), len(one.values)
                total += math.log2(known) if halving else len(one.bits()) or known
        return total

    def _parts(self) -> Iterator[tuple[tuple[Value, ...], list[Owned]]]:
        """The buckets of the ends of matches, with the parts of the slice that matches of each end in."""
        lengths = [group.bucket_us for group in self._of.groups if group.bucket_us is not None]
        if not lengths:
            yield (), [self._owned]
            return
        if finality_of(self._given, self._clause) is not Finality.LAST_EVENT:
            raise NotCounted("a match is not final with its last event")
        begin, stop = self._plain.rows_in(self._owned)
        ends = self._plain.timestamps[begin:stop]
        columns = [bucket_starts(ends, length, self._given.timezone) for length in lengths]
        codes, keys = group_codes(columns, len(ends))
        changes = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])) if len(codes) else np.zeros(0, np.int64)
        if len(changes) > MOST_COUNTS:
            raise NotCounted(_TOO_MANY)
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
        chosen: list[tuple[Values, int]],
        total: int | None,
        left: Sequence[Values],
    ) -> None:
        """Make the rows of the groups that begin with some chosen values."""
        asked = [values.between(code, code) for values, code in chosen]
        number = self._number(owned, asked) if total is None else total
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
        totals: dict[Expression, Total] = {}
        for place, (aggregate, values) in enumerate(self._aggregates):
            of = aggregate.expression
            assert of is not None
            if aggregate.function in ("min", "max"):
                row.states[place] = self._extreme(values, owned, asked, greatest=aggregate.function == "max")
                continue
            if of not in totals:
                totals[of] = self._total(of, values, owned, asked, number)
            row.states[place] = replace(totals[of])

    # Numbers of matches.

    def _number(
        self,
        owned: Sequence[Owned],
        asked: Sequence[Signed],
        pattern: Pattern | None = None,
        more: Mapping[str, Array] | None = None,
    ) -> int:
        """The number of matches of the given pattern, or another one, that fulfil all that is asked.

        Parameters
        ----------
        more
            Further columns that are asked for.
        """
        events = with_columns(self._events, more) if more else self._events
        found = 0
        for signed in product(*asked):
            conditions = tuple(chain.from_iterable(one for _, one in signed))
            counted = self._with(conditions, (*self._columns, *(more or ())), pattern)
            for part in owned:
                self._counts += 1
                if self._counts > MOST_COUNTS:
                    raise NotCounted(_TOO_MANY)
                if process_time() - self._begun_s > 2 * self._most_s:
                    raise NotCounted(_SOONER)
                number = count_owned(counted, events, part, always=True)
                if number is None:
                    raise NotCounted(NOT_COUNTED)
                found += math.prod(sign for sign, _ in signed) * number
        return found

    def _with(self, conditions: Sequence[Condition], columns: Sequence[str], pattern: Pattern | None = None) -> Pattern:
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
        of: Expression,
        values: Values | SumOfTerms | _OfTwo,
        owned: Sequence[Owned],
        asked: Sequence[Signed],
        number: int,
    ) -> Total:
        """The sum over so many matches: of several variables that over the matches in which all terms have a value."""
        assert not isinstance(values, _OfTwo)
        if isinstance(values, Values):
            return self._total_of_values(of, values, owned, asked, number)
        known = [one for _, term in values.terms for one in term.known()]
        asked = [*asked, *known]
        if known:
            number = self._number(owned, asked)
        found = Total(number, values.constant * number)
        for sign, term in values.terms:
            found.exact += sign * self._total_of_values(None, term, owned, asked, number).exact
        return found

    def _total_of_values(
        self, of: Expression | None, values: Values, owned: Sequence[Owned], asked: Sequence[Signed], number: int
    ) -> Total:
        """The sum over the matches, made of the numbers of matches whose event has each bit of the value."""
        variable = values.tested.variable if isinstance(values.tested, Reference) else ""
        pattern = self._apart.get(variable)

        def having(value: Value) -> int:
            code = values.values.index(value)
            return self._number(owned, [*asked, values.between(code, code)], pattern)

        self._shorten(values)
        finite = [value for value in values.values if is_finite(value)]
        nulls = having(None) if values.has_null else 0
        found = Total(number - nulls)
        counted = found.values
        if pattern is not None:
            found.values = number
            counted = self._number(owned, asked, pattern) - nulls
            if isinstance(of, Aggregate) and values.has_null:
                found.values -= self._number(owned, [*asked, values.null_elements(of.variable)])
        for value in values.values:
            if value is not None and not is_finite(value) and (with_it := having(value)):
                counted -= with_it
                found.special += float(value)
        if not finite:
            return found
        units = [whole_units(value) for value in finite]
        least, shift, _ = span_of(units)
        found.exact = counted * least
        bits = values.bits()
        for bit in range(len(bits)):
            found.exact += self._number(owned, [*asked, values.bit(bit)], pattern) << (bit + shift)
        for one, unit in zip(finite, units, strict=True):
            if not bits and unit != least:
                found.exact += (unit - least) * having(one)
        return found

    def _extreme(
        self,
        values: Values | SumOfTerms | _OfTwo,
        owned: Sequence[Owned],
        asked: Sequence[Signed],
        *,
        greatest: bool,
    ) -> Extreme:
        """The least or greatest value that a match has, found by halving."""
        assert not isinstance(values, SumOfTerms)
        if isinstance(values, _OfTwo):
            of_two = values
            low, high = of_two.results.least, of_two.results.greatest
            found = _end(
                low, high, greatest, lambda key: self._has_result(of_two, key, owned, asked, greatest=greatest)
            )
            return Extreme(None if found is None else of_two.results.result(found))
        ordered = values.values[:-1]
        last = len(ordered) - 1

        def some(low: int, high: int) -> bool:
            return self._number(owned, [*asked, values.between(low, high)]) > 0

        if ordered and is_nan(ordered[-1]):
            if some(last, last):
                return Extreme(ordered[-1])
            last -= 1
        found = _end(0, last, greatest, lambda at: some(at, last) if greatest else some(0, at))
        return Extreme(None if found is None else ordered[found])

    def _has_result(
        self, of: _OfTwo, key: int, owned: Sequence[Owned], asked: Sequence[Signed], *, greatest: bool
    ) -> bool:
        """Return whether a match has a result at least, or at most, as large as that of a key."""
        up, number = of.results.bounds(key, greatest=greatest)
        bounds, sides = "\0bound", "\0side"
        more = {bounds: spread(number, of.rows, len(self._plain))}
        more[sides] = spread(np.where(of.results.known, up, -1), of.rows, len(self._plain))
        bound, side = (Reference(of.other, name, Element.ONLY, ValueType.INT64) for name in more)
        known = of.moving.between(0, len(of.moving.values) - 2)
        for is_up, comparator in ((1, Comparator.GE), (0, Comparator.LE)):
            chosen = Comparison(Comparator.EQ, side, Literal(is_up, ValueType.INT64))
            within: Signed = [(1, (chosen, Comparison(comparator, of.moving.tested, bound)))]
            if (more[sides] == is_up).any() and self._number(owned, [*asked, known, within], more=more):
                return True
        return False

    def _shorten(self, values: Values) -> None:
        """Leave out the lengths that no list has, if the values are lengths."""
        if isinstance(values.tested, Length) and not values.known_greatest:
            values.known_greatest = True
            longest = self._extreme(values, [self._owned], [], greatest=True).value
            assert longest is None or isinstance(longest, int)
            values.values = [*range(1, (longest or 0) + 1), None]

    # What is known of the values of an expression, as columns of the events.

    def _aggregated(self, aggregate: SummaryAggregate) -> Values | SumOfTerms | _OfTwo:
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
                return self._elements_apart(expression)
            except NotCounted:
                pass
        return self._values_of(expression, with_bits=adds)

    def _values_of(self, expression: Expression, *, with_bits: bool = False) -> Values:
        found = values_of(expression, self._clause, self._plain, f"\0{len(self._columns)}")
        found.note(self._columns, self._plain, with_bits=with_bits)
        return found

    def _elements_apart(self, expression: Length | Aggregate) -> Values:
        """The values that one element of a list adds to a sum over it."""
        name = _element_of(expression.variable)
        if name not in self._apart:
            self._apart[name] = _with_element_apart(self._given, expression.variable)
        [clause, *_] = self._apart[name].clauses
        values = values_of(_share_of_element(expression), clause, self._plain, f"\0{len(self._columns)}", name)
        units = [abs(whole_units(value)) if is_finite(value) else 0 for value in values.values]
        times = np.bincount(values.codes, minlength=len(units)).tolist()
        together = sum(unit * number for unit, number in zip(units, times, strict=True))
        if expression.type is ValueType.FLOAT64:
            if not values.are_finite or not is_held(together, units):
                raise NotCounted("the sum of a list is rounded")
        elif together >= 2**63:
            raise NotCounted("the sum of a list may exceed int64")
        values.note(self._columns, self._plain, with_bits=True)
        return values

    def _of_two(self, expression: Expression, moving: Reference) -> _OfTwo:
        """An expression that rises or falls with a value; each of its results is finite or null."""
        values = self._values_of(moving)
        [other] = variables_of(expression) - {moving.variable}
        if self._clause.by_name[other].kleene or any(map(is_nan, values.values)):
            raise NotCounted("a value is NaN, or one of a list")
        bound = Reference(other, "\0bound", Element.ONLY, ValueType.INT64)
        compared = Comparison(Comparator.GE, values.tested, bound)
        if not_counted_because(self._with([compared], (*self._columns, bound.attribute))) is not None:
            raise NotCounted(f"one value is read of {in_words(sorted((moving.variable, other)))}")
        rows = rows_of(other, self._clause, self._plain)
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

    def _sum_of_terms(self, expression: Expression) -> SumOfTerms:
        """The terms of a sum or difference over several variables, if it is exact in every match."""
        found = SumOfTerms([], 0)
        for sign, term in terms_of(expression):
            if term.type is not expression.type:
                raise NotCounted("int64 and float64 are added")
            if variables_of(term):
                values = self._values_of(term, with_bits=True)
                if not isinstance(values.tested, Reference) or not values.are_finite:
                    raise NotCounted("a term is no finite value of an event")
                found.terms.append((sign, values))
            else:
                if not isinstance(term, Literal) or not is_finite(term.value):
                    raise NotCounted("a term is no number")
                value = float(term.value) if term.type is ValueType.FLOAT64 else term.value
                found.constant += sign * whole_units(value)
        check_exact(found, expression.type, self._clause, self._plain)
        return found


def _end(low: int, high: int, greatest: bool, some: Callable[[int], bool]) -> int | None:
    """The greatest number, from low to high, from which on there is some; or the least one up to which there is."""
    if low > high or not some(low if greatest else high):
        return None
    while low < high:
        middle = (low + high + greatest) // 2
        if greatest:
            low, high = (middle, high) if some(middle) else (low, middle - 1)
        else:
            low, high = (low, middle) if some(middle) else (middle + 1, high)
    return low


# A pattern with one element of a list apart, whose matches tell of the elements one by one.

_APART, _BEFORE, _BEHIND = "\0element", "\0before", "\0behind"


def _element_of(variable: str) -> str:
    """The name of the variable that the one element of a list is."""
    return f"{_APART} {variable}"


def _share_of_element(expression: Length | Aggregate) -> Expression:
    """The share that one element has in `v.LEN` or in `sum(v[].x)`."""
    if isinstance(expression, Length):
        return Literal(1, ValueType.INT64)
    if expression.function != "sum" or expression.prefix:
        raise NotCounted("one value is made of several elements of a list")
    return Reference(_element_of(expression.variable), expression.attribute, Element.ONLY, expression.type)


def _with_element_apart(pattern: Pattern, variable: str) -> Pattern:
    """The pattern in which one element of a list is a variable of its own, and those before and behind it are lists.

    A sum over all elements of a list, `sum(sum(k[].x))`, is that over one element, in all patterns that have one
    element of the list apart: `K e`, `SEQ(K+ p[], K e)`, `SEQ(K e, K+ s[])` and `SEQ(K+ p[], K e, K+ s[])`, which are
    one pattern with lists that may be empty.
    """
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
