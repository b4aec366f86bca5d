"""Rows of SUMMARIZE made by sweeps over the events, each in a semiring: no match is listed.

| what is asked | semiring, and the weight of an event |
| --- | --- |
| how many matches there are | `SUM`, every weight is 1 |
| a sum, or an average, of values, or of products of values | `SUM`, the value; 0 where it is null |
| the least and the greatest value | `GREATEST`, the rank of the value; 0 where it is null |
| numbers and sums by the length of a list | polynomials, by `sweep.sums_by_size` |

A group's matches are those of the pattern with a further condition on the events of a variable. Sums are whole numbers
of some power of two, told by remainders modulo primes, so they are exact at any size. One element of a list is a
variable of its own, with the rest of the list before it and behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product, repeat, zip_longest
from time import process_time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.counting.list_parts import parts_of_lists, parts_with_single_ends
from cep_pipeline.detection.counting.owned import NOT_COUNTED, count_owned
from cep_pipeline.detection.counting.sweep import (
    GREATEST,
    SUM,
    Semiring,
    Weights,
    count_by_event,
    sums_by_size,
    swept,
)
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import Owned
from cep_pipeline.detection.summaries.partial import (
    FRACTION_BITS,
    Extreme,
    PartialSummary,
    Total,
    Value,
    bucket_starts,
    group_codes,
    is_nan,
    numbers_by_code,
    totals,
    weights_of,
    whole_units,
)
from cep_pipeline.detection.summaries.values import (
    NotCounted,
    Signed,
    SumOfTerms,
    Values,
    check_exact,
    is_finite,
    is_held,
    is_of_one,
    rows_of,
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
)
from cep_pipeline.patterns.pattern import Pattern, SummaryAggregate, Ties
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator, Structure
from cep_pipeline.slices.ownership import Finality, finality_of
from cep_pipeline.slices.prepared import Boundary, PreparedEvents

MOST_COUNTS = 1 << 12
"""Most counts that are made for one summary."""
LISTED_NS, LEAST_S = 200.0, 0.1
"""Time to list a match, and the least limit: counting stops where it takes longer than listing, and than this."""
_INTERVAL, _LENGTH = "\0interval", "\0length"
_COMPARED: dict[Comparator, Callable[[Array, int], Array]] = {
    Comparator.EQ: np.equal,
    Comparator.GE: np.greater_equal,
    Comparator.LE: np.less_equal,
}
_OF_ONE_EVENT = (Element.ONLY, Element.FIRST, Element.LAST)
_FEW_VALUES = 3
"""Values of elements, null among them, below which one count for each of them takes less than to tell the elements."""
_UNSWEPT = "no sweep goes over the matches"
_SOONER, _TOO_MANY = "the matches are listed sooner", f"more than {MOST_COUNTS:,} counts are needed"


class _Part(NamedTuple):
    """A part of the matches: those that end in some buckets, with parts of the slice or conditions that tell them."""

    buckets: tuple[Value, ...]
    owned: list[Owned]
    asked: list[Signed]
    end_us: int = 0


def with_columns(events: PreparedEvents, columns: Mapping[str, Array | pa.Array]) -> PreparedEvents:
    """The events with some more columns."""
    table = events.table
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    return PreparedEvents(table, type_attribute=events.type_attribute, base_type=events.base_type)


class RowsBySemirings:
    """Makes the rows of a pattern of one clause; `run` puts them into `summary`.

    Raises
    ------
    NotCounted
        Something that is asked takes the matches themselves, or to list them is sooner.
    """

    def __init__(
        self, pattern: Pattern, events: PreparedEvents, owned: Owned, summary: PartialSummary, total: int, listed: int
    ) -> None:
        self._given, self._plain, self._owned, self._summary = pattern, events, owned, summary
        [self._clause] = pattern.clauses
        self._total_number, self._listed = total, listed
        self._columns: dict[str, Array] = {}
        assert pattern.summary is not None
        self._of = pattern.summary
        self._counts, self._begun_s = 0, process_time()
        self._groups: list[Values] = []
        self._aggregates: list[tuple[SummaryAggregate, Values | SumOfTerms]] = []
        self._events = events
        self._by_event: dict[tuple[str, Element, Owned, tuple[Condition, ...]], Array | None] = {}
        self._by_length: dict[tuple[str, str, Owned, tuple[Condition, ...]], list[int] | None] = {}

    def run(self) -> None:
        """Count what the rows need."""
        self._groups = [self._values_of(group.expression) for group in self._of.groups if group.expression is not None]
        self._aggregates = [(one, self._aggregated(one)) for one in self._of.aggregates if one.expression is not None]
        parts = self._begin(self._groups, 1.0 + 2 * len(self._aggregates))
        for part in parts:
            known = self._total_number if part.owned == [self._owned] and not part.asked else None
            self._rows_of(part, [], known, self._groups)

    def _begin(self, chosen: Sequence[Values], counts_of_a_row: float) -> list[_Part]:
        """The parts that rows are made of; refused where so many counts take longer than to list."""
        ends = self._ends()
        self._events = with_columns(self._plain, self._columns)
        for values in chosen:
            self._shorten(values)
        codes = math.prod(len(values.values) for values in chosen)
        if codes > MOST_COUNTS:
            raise NotCounted(_TOO_MANY)
        parts = list(self._parts(ends))
        begun_s = process_time()
        self._number([self._owned], [])
        if (process_time() - begun_s) * codes * len(parts) * counts_of_a_row > self._most_s:
            raise NotCounted(_SOONER)
        return parts

    @property
    def _most_s(self) -> float:
        """The seconds that it takes to list the matches, or the partial ones."""
        return max(LEAST_S, LISTED_NS * 1e-9 * self._listed)

    def _ends(self) -> list[tuple[tuple[Value, ...], list[int], int]]:
        """The buckets of the ends of matches: each with numbers of intervals, and an end in it.

        Where a match waits for what comes behind it, its events are told by columns of intervals.
        """
        lengths = [group.bucket_us for group in self._of.groups if group.bucket_us is not None]
        if not lengths:
            return []
        at_last = finality_of(self._given, self._clause) is Finality.LAST_EVENT
        begin, stop = self._plain.rows_in(self._owned) if at_last else (0, len(self._plain))
        ends = self._plain.timestamps[begin:stop]
        codes, keys = group_codes([bucket_starts(ends, one, self._given.timezone) for one in lengths], len(ends))
        changes = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])) if len(codes) else np.zeros(0, np.int64)
        if len(changes) > MOST_COUNTS:
            raise NotCounted(_TOO_MANY)
        intervals: list[list[int]] = [[] for _ in keys]
        for number, first in enumerate(changes.tolist()):
            intervals[codes[first]].append(number)
        self._changes = [*changes.tolist(), len(codes)]
        if not at_last:
            self._columns[_INTERVAL] = np.searchsorted(changes, np.arange(len(codes)), "right") - 1
        return [(key, own, int(ends[changes[own[0]]])) for key, own in zip(keys, intervals, strict=True) if own]

    def _parts(self, ends: Sequence[tuple[tuple[Value, ...], list[int], int]]) -> Iterator[_Part]:
        """The parts of the matches that end in each bucket."""
        if not any(group.bucket_us is not None for group in self._of.groups):
            yield _Part((), [self._owned], [])
            return
        begin, stop = self._plain.rows_in(self._owned)
        for key, intervals, end_us in ends:
            if _INTERVAL in self._columns:
                ending = chain.from_iterable(map(self._ending_in, intervals))
                yield _Part(key, [self._owned], [list(ending)], end_us)
                continue
            owned: list[Owned] = []
            for first, last in (self._changes[number : number + 2] for number in intervals):
                start = self._owned[0] if first == 0 else self._boundary(begin + first)
                owned.append((start, self._owned[1] if begin + last == stop else self._boundary(begin + last)))
            yield _Part(key, owned, [], end_us)

    def _ending_in(self, interval: int) -> Signed:
        """The matches whose last event lies in an interval: all lie in it or before it, and not all before it."""
        before = self._clause.precedence
        names = [one.name for one in self._clause.positive]
        tested = [
            Reference(one.name, _INTERVAL, Element.EACH if one.kleene else Element.ONLY, ValueType.INT64)
            for one in self._clause.positive
            if not any((one.name, other) in before for other in names)
        ]
        if len(tested) == 1 and tested[0].element is Element.ONLY:
            return [(1, (Comparison(Comparator.EQ, tested[0], Literal(interval, ValueType.INT64)),))]
        return [
            (sign, tuple(Comparison(Comparator.LE, one, Literal(end, ValueType.INT64)) for one in tested))
            for sign, end in ((1, interval), (-1, interval - 1))
        ]

    def _boundary(self, row: int) -> Boundary:
        return int(self._plain.timestamps[row]), int(self._plain.seqs[row])

    def _rows_of(
        self, part: _Part, chosen: list[tuple[Values, int]], total: int | None, left: Sequence[Values]
    ) -> None:
        """Make the rows of the groups that begin with some chosen values."""
        owned, asked = part.owned, [*part.asked, *(values.between(code, code) for values, code in chosen)]
        number = self._number(owned, asked) if total is None else total
        if not number:
            return
        if left:
            tested = left[0].tested
            if isinstance(tested, Length):
                by_length = self._sums_by_length(tested.variable, owned, asked)
                numbers = None if by_length is None else [*by_length[1:], *repeat(0, len(left[0].values))]
            else:
                numbers = self._numbers_of(left[0], owned, asked)
            for code in range(len(left[0].values)):
                known = None if numbers is None else numbers[code]
                self._rows_of(part, [*chosen, (left[0], code)], known, left[1:])
            return
        found, ends = iter(chosen), iter(part.buckets)
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
                totals[of] = self._total(values, owned, asked, number)
            row.states[place] = replace(totals[of])

    # Numbers of matches.

    def _number(
        self,
        owned: Sequence[Owned],
        asked: Sequence[Signed],
        apart: str | None = None,
        more: Mapping[str, Array] | None = None,
    ) -> int:
        """The number of matches that fulfil all that is asked.

        Parameters
        ----------
        apart
            A list: each match is counted as often as one of its elements fulfils what is asked of one.
        more
            Further columns that are asked for.
        """
        events = with_columns(self._events, more) if more else self._events
        found = 0
        for signed in product(*asked):
            conditions = tuple(chain.from_iterable(one for _, one in signed))
            counted = self._with(conditions, (*self._columns, *(more or ())))
            for part, own in product(owned, [counted] if apart is None else _with_element_apart(counted, apart)):
                self._count_once_more()
                number = count_owned(own, events, part, always=True)
                if number is None:
                    raise NotCounted(NOT_COUNTED)
                found += math.prod(sign for sign, _ in signed) * number
        return found

    def _numbers_of(self, values: Values, owned: Sequence[Owned], asked: Sequence[Signed]) -> list[int] | None:
        """The number of matches with each of some values, by sweeps that tell the matches of each event.

        Of an element of a list that stands apart a match counts as often as it has an element with the value. None
        where no such sweeps are known of the variable.
        """
        tested = values.tested
        if not isinstance(tested, Reference) or tested.element not in _OF_ONE_EVENT or len(owned) != 1:
            return None
        if len(values.values) < _FEW_VALUES if values.apart else tested.variable not in self._clause.by_name:
            return None
        if any(len(signed) > 1 for signed in asked):
            return None
        conditions = list(chain.from_iterable(tests for signed in asked for _, tests in signed))
        own = [(one, passed) for one in conditions if (passed := self._passing(one, tested)) is not None]
        others = tuple(one for one in conditions if all(one is not other for other, _ in own))
        key = values.apart or tested.variable, Element.EACH if values.apart else tested.element, owned[0], others
        if key not in self._by_event:
            self._by_event[key] = self._number_by_event(*key)
        number = self._by_event[key]
        if number is None:
            return None
        for _, passed in own:
            number = np.where(passed, number, 0)
        return numbers_by_code(values.codes, len(values.values), number[values.rows])

    def _sums_by_length(
        self, variable: str, owned: Sequence[Owned], asked: Sequence[Signed], values: Values | None = None
    ) -> list[int] | None:
        """Return for each length of a list, from 0 on, the number of matches, or the sum of what its elements add.

        The sum is in the units of `whole_units`; elements without a finite value add nothing. None where no sweeps tell
        the lengths apart, and where the length is limited, so that each takes few counts.
        """
        bounded = variable not in self._clause.by_name or self._clause.by_name[variable].maximum is not None
        if bounded or len(owned) != 1 or any(len(signed) > 1 for signed in asked):
            return None
        conditions = tuple(chain.from_iterable(tests for signed in asked for _, tests in signed))
        adding = values.tested.attribute if values is not None and isinstance(values.tested, Reference) else ""
        key = variable, adding, owned[0], conditions
        if key not in self._by_length:
            self._by_length[key] = self._swept_by_length(variable, owned[0], conditions, values)
        return self._by_length[key]

    def _swept_by_length(
        self, variable: str, owned: Owned, conditions: tuple[Condition, ...], values: Values | None
    ) -> list[int] | None:
        pattern, weighing = self._with(conditions, tuple(self._columns)), None
        patterns = [pattern]
        if values is not None:
            element = _element_of(variable)
            units = [whole_units(value) if is_finite(value) else 0 for value in values.values]
            unit = math.gcd(*units) or 1
            weights = np.zeros(len(self._events), object)
            weights[values.rows] = np.array([one // unit for one in units], object)[values.codes]
            weighing = element, weights
            try:
                patterns = list(_with_element_apart(pattern, variable))
            except NotCounted:
                return None
        names = {variable, _element_of(variable), f"{_BEFORE} {variable}", f"{_BEHIND} {variable}"}
        total: list[int] = []
        for one in patterns:
            [clause] = one.clauses
            of = ClauseSlice(one, clause, self._events, owned, finality_of(one, clause))
            found = sums_by_size(of, names, weighing, self._go_on)
            if found is None:
                return None
            total = [sum(both) for both in zip_longest(total, found, fillvalue=0)]
        return total if values is None else [one * unit for one in total]

    def _passing(self, condition: Condition, tested: Reference) -> Array | None:
        """The events that fulfil a condition which compares the number of a value of theirs; None: it is none such."""
        match condition:
            case Comparison(comparator, Reference(name, column, element), Literal(int() as number)):
                compared = _COMPARED.get(comparator)
                known = self._columns.get(column)
                if (name, element) == (tested.variable, tested.element) and compared is not None and known is not None:
                    return compared(known, number)
        return None

    def _number_by_event(
        self, variable: str, element: Element, owned: Owned, conditions: tuple[Condition, ...]
    ) -> Array | None:
        """uint64: the number of matches in which an event is bound to a variable, or is this or any element of a list.

        None where no sweeps tell that.
        """
        pattern = self._with(conditions, tuple(self._columns))
        name, patterns = variable, [pattern]
        if element is not Element.ONLY:
            try:
                name, patterns = _element_of(variable), [*_with_element_apart(pattern, variable, element)]
            except NotCounted:
                return None
        number = np.zeros(len(self._events), np.uint64)
        for one in patterns:
            [clause] = one.clauses
            self._count_once_more()
            found = count_by_event(ClauseSlice(one, clause, self._events, owned, finality_of(one, clause)), name)
            if found is None or int(found[1].max(initial=0)) + int(number.max(initial=0)) >= 1 << 64:
                return None
            number[found[0]] += found[1]
        return number

    def _count_once_more(self) -> None:
        self._counts += 1
        if self._counts > MOST_COUNTS:
            raise NotCounted(_TOO_MANY)
        self._go_on()

    def _go_on(self) -> None:
        go_on()
        if process_time() - self._begun_s > 2 * self._most_s:
            raise NotCounted(_SOONER)

    def _with(self, conditions: Sequence[Condition], columns: Sequence[str]) -> Pattern:
        """The pattern with further conditions, which read these columns."""
        pattern = self._given
        whole = (*((pattern.condition,) if pattern.condition is not None else ()), *conditions)
        return replace(
            pattern,
            condition=AllOf(whole) if len(whole) > 1 else whole[0] if whole else None,
            attributes=(*pattern.attributes, *((name, ValueType.INT64) for name in columns)),
            summary=None,
        )

    def _total(
        self, values: Values | SumOfTerms, owned: Sequence[Owned], asked: Sequence[Signed], number: int
    ) -> Total:
        """The sum over so many matches; over those in which all that is read has a value."""
        if isinstance(values, Values):
            return self._total_of_values(values, owned, asked, number)
        known = [one for _, _, factors in values.terms for values_of_one in factors for one in values_of_one.known()]
        asked = [*asked, *known]
        if known:
            number = self._number(owned, asked)
        found = Total(number)
        for coefficient, units, factors in values.terms:
            if values.is_float:
                coefficient, units = coefficient << FRACTION_BITS, units + 1
            total = coefficient * self._sum_of_products(factors, owned, asked, number)
            found.exact += total >> FRACTION_BITS * (units - 1) if values.is_float else total
        return found

    def _total_of_values(self, values: Values, owned: Sequence[Owned], asked: Sequence[Signed], number: int) -> Total:
        self._shorten(values)
        last = len(values.values) - 1
        numbers = None if values.apart else self._numbers_of(values, owned, asked)
        if numbers is not None:
            present = [code for code in range(last) if numbers[code]]
            known, times = np.array([values.values[code] for code in present]), [numbers[code] for code in present]
            return totals(np.zeros(len(present), np.int64), known, 1, weights_of(times))[0] if present else Total()
        found = Total(number)
        if values.has_null:
            none = values.null_elements(values.apart) if values.apart else values.between(last, last)
            found.values -= self._number(owned, [*asked, none])
        for code, value in enumerate(values.values[:-1]):
            if not is_finite(value) and self._number(owned, [*asked, values.between(code, code)], values.apart):
                found.special += float(value)  # type: ignore[arg-type]
        found.exact = self._sum_of_products([values], owned, asked, number)
        return found

    def _sum_of_products(
        self, factors: Sequence[Values], owned: Sequence[Owned], asked: Sequence[Signed], number: int
    ) -> int:
        """The sum over so many matches of products of finite values; one of them is that of one element of a list."""
        at_length = self._sum_at_length(factors, owned, asked)
        if at_length is not None:
            return at_length
        whole = next((one for one in factors if not isinstance(one.tested, Reference)), None)
        if whole is None:
            return self._swept(SUM, factors, owned, asked) if factors else number
        rest = [one for one in factors if one is not whole]  # the values of a whole list are asked for one by one
        total = 0
        for code, value in enumerate(whole.values[:-1]):
            if is_finite(value) and value:
                own = [*asked, whole.between(code, code)]
                found = self._sum_of_products(rest, owned, own, 0 if rest else self._number(owned, own))
                total += whole_units(value) * found
        return total

    def _swept(
        self,
        semiring: Semiring,
        factors: Sequence[Values],
        owned: Sequence[Owned],
        asked: Sequence[Signed],
        ranks: Sequence[int] = (),
    ) -> int:
        """The sum over matches of products of finite values, in units of `whole_units`; or the greatest of ranks.

        Parameters
        ----------
        ranks
            For each value of the only factor its rank, 0 for one that does not count.
        """
        weights: dict[str, Array] = {}
        unit, apart = 1, list[tuple[str, Element]]()
        for one in factors:
            assert isinstance(one.tested, Reference)
            name = one.tested.variable
            if one.apart is not None or one.tested.element is not Element.ONLY:
                apart.append((one.apart or name, Element.EACH if one.apart else one.tested.element))
                name = _element_of(apart[-1][0])
            units = list(ranks) or [whole_units(value) if is_finite(value) else 0 for value in one.values]
            common = 1 if ranks else math.gcd(*units) or 1
            unit *= common
            numbers = np.array([own // common for own in units], np.int64 if ranks else object)[one.codes]
            known = weights.get(name)
            weights[name] = np.zeros(len(self._events), numbers.dtype)
            weights[name][one.rows] = numbers if known is None else numbers * known[one.rows]
        if len(apart) > 1:
            raise NotCounted("several elements of lists are multiplied")
        total = 0
        for signed in product(*asked):
            conditions = tuple(chain.from_iterable(one for _, one in signed))
            sign = math.prod(sign for sign, _ in signed)
            counted = self._with(conditions, tuple(self._columns))
            patterns = _with_element_apart(counted, *apart[0]) if apart else [counted]
            for pattern, part in product(patterns, owned):
                found = self._swept_over(semiring, pattern, part, weights)
                if semiring.is_ring:
                    total += sign * found
                elif sign < 0:
                    raise NotCounted("the matches of a group are a difference")
                else:
                    total = max(total, found)
        return total * unit

    def _swept_over(self, semiring: Semiring, pattern: Pattern, owned: Owned, weights: Weights) -> int:
        """The result of sweeps over the matches of a pattern of one clause, or over those of the parts of its lists."""
        [clause] = pattern.clauses
        finality = finality_of(pattern, clause)
        for parts in (
            (clause,),
            parts_of_lists(pattern, clause, self._events),
            parts_of_lists(pattern, clause, self._events, written_out=True),
            parts_with_single_ends(pattern, clause),
        ):
            found = []
            for part in parts or ():
                self._count_once_more()
                found.append(swept(ClauseSlice(pattern, part, self._events, owned, finality), semiring, weights))
                if found[-1] is None:
                    break
            if None not in found and parts is not None:
                return (
                    sum(one or 0 for one in found) if semiring.is_ring else max((one or 0 for one in found), default=0)
                )
        raise NotCounted(_UNSWEPT)

    def _sum_at_length(self, factors: Sequence[Values], owned: Sequence[Owned], asked: Sequence[Signed]) -> int | None:
        """The sum over matches of what the elements of a list add, where it is asked that this list has one length."""
        if len(factors) != 1 or factors[0].apart is None:
            return None
        [values] = factors
        for signed in asked:
            match signed:
                case [(1, (Comparison(Comparator.EQ, Length(variable), Literal(int() as length)),))]:
                    if variable == values.apart:
                        rest = [one for one in asked if one is not signed]
                        sums = self._sums_by_length(variable, owned, rest, values)
                        return None if sums is None else sums[length] if length < len(sums) else 0
        return None

    def _extreme(
        self, values: Values | SumOfTerms, owned: Sequence[Owned], asked: Sequence[Signed], *, greatest: bool
    ) -> Extreme:
        """The least or greatest value that a match has."""
        assert not isinstance(values, SumOfTerms)
        ordered = values.values[:-1]
        if isinstance(values.tested, Length):
            self._shorten(values)
            last = len(values.values) - 2
            found = self._end_of(values, owned, asked, last, greatest=greatest)
            return Extreme(None if found is None else values.values[found])
        if isinstance(values.tested, Aggregate):
            if (values.tested.function == "max") != greatest:
                raise NotCounted("a greatest element is to be small, or a least one great")
            of = values.tested
            element = Reference(of.variable, of.attribute, Element.ONLY, of.type)
            values = replace(values, tested=element, apart=of.variable)
        least = [len(ordered) - code for code in range(len(ordered))]
        ranks = list(range(1, len(ordered) + 1)) if greatest else least
        if ordered and is_nan(ordered[-1]):
            ranks[-1] = len(ordered) + 1
        rank = self._swept(GREATEST, [values], owned, asked, [*ranks, 0])
        return Extreme(ordered[ranks.index(rank)] if rank else None)

    def _end_of(
        self, values: Values, owned: Sequence[Owned], asked: Sequence[Signed], last: int, *, greatest: bool
    ) -> int | None:
        """The greatest or the least of the lengths, numbered up to `last`, that a list has, by halving."""

        def some(low: int, high: int) -> bool:
            return self._number(owned, [*asked, values.between(low, high)]) > 0

        low, high = 0, last
        if low > high or not some(low, high):
            return None
        while low < high:
            middle = (low + high + greatest) // 2
            if greatest:
                low, high = (middle, high) if some(middle, last) else (low, middle - 1)
            else:
                low, high = (low, middle) if some(0, middle) else (middle + 1, high)
        return low

    def _shorten(self, values: Values) -> None:
        """Leave out the lengths that no list has, if the values are lengths."""
        if isinstance(values.tested, Length) and not values.known_greatest:
            values.known_greatest = True
            longest = self._end_of(values, [self._owned], [], len(values.values) - 2, greatest=True)
            values.values = [*range(1, 1 if longest is None else longest + 2), None]

    # What is known of the values of an expression, as columns of the events.

    def _aggregated(self, aggregate: SummaryAggregate) -> Values | SumOfTerms:
        """The values of an aggregate; of the sum of a list the values of one element, which stands apart."""
        expression = aggregate.expression
        assert expression is not None
        adds = aggregate.function in ("sum", "avg")
        if not adds:
            return self._values_of(expression)
        if is_of_one(expression):
            return self._added(expression)
        return self._sum_of_terms(expression)

    def _added(self, expression: Expression) -> Values:
        """The values of an expression that are added up; of the sum of a list those of one element."""
        if isinstance(expression, Length | Aggregate):
            try:
                return self._elements_apart(expression)
            except NotCounted:
                pass
        return self._values_of(expression)

    def _values_of(self, expression: Expression) -> Values:
        found = values_of(expression, self._clause, self._plain, f"\0{len(self._columns)}")
        found.note(self._columns, self._plain)
        return found

    def _elements_apart(self, expression: Length | Aggregate) -> Values:
        """The values that one element of a list adds to a sum over it."""
        variable, read = expression.variable, _share_of_element(expression)
        name = _element_of(variable)
        clauses = [one.clauses[0] for one in _with_element_apart(self._given, variable)]
        rows = np.unique(np.concatenate([rows_of(name, clause, self._plain) for clause in clauses]))
        values = values_of(read, clauses[0], self._plain, f"\0{len(self._columns)}", (name, rows))
        values.apart = variable
        if isinstance(expression, Aggregate) and expression.function == "count":
            values.codes = (values.codes < len(values.values) - 1).astype(np.int64)
            values.values = [0, 1, None]
        units = [abs(whole_units(value)) if is_finite(value) else 0 for value in values.values]
        times = np.bincount(values.codes, minlength=len(units)).tolist()
        values.widest = sum(unit * number for unit, number in zip(units, times, strict=True))
        if expression.type is ValueType.FLOAT64:
            if not values.are_finite or not is_held(values.widest, units):
                raise NotCounted("the sum of a list is rounded")
        elif values.widest >= 2**63:
            raise NotCounted("the sum of a list may exceed int64")
        values.note(self._columns, self._plain)
        return values

    def _sum_of_terms(self, expression: Expression) -> SumOfTerms:
        """The terms of a sum over several variables, or events of a list, if it is exact in every match."""
        found = SumOfTerms([], expression.type is ValueType.FLOAT64)
        known: dict[Expression, Values] = {}
        for sign, factors in terms_of(expression):
            coefficient, units, values = sign, 0, []
            for factor in factors:
                if isinstance(factor, Literal):
                    if not is_finite(factor.value):
                        raise NotCounted("a term is no number")
                    coefficient *= whole_units(factor.value)
                    units += factor.type is ValueType.FLOAT64
                    continue
                if factor not in known:
                    known[factor] = self._added(factor)
                values.append(known[factor])
                units += factor.type is ValueType.FLOAT64
            if not all(one.are_finite for one in values) or any(one.apart and one.has_null for one in values):
                raise NotCounted("a term is no finite value")
            if sum(one.apart is not None for one in values) > 1:
                raise NotCounted("elements of several lists are multiplied")
            found.terms.append((coefficient, units, values))
        check_exact(found, self._clause, self._plain)
        return found


# A pattern with one element of a list apart, whose matches tell of the elements one by one.

_APART, _BEFORE, _BEHIND = "\0element", "\0before", "\0behind"
MOST_LENGTHS = 64
"""Least or greatest lengths of a list up to which its elements are counted one by one."""


_ENDS: dict[Comparator, tuple[int | None, int | None]] = {
    Comparator.EQ: (0, 0),
    Comparator.LE: (None, 0),
    Comparator.LT: (None, -1),
    Comparator.GE: (0, None),
    Comparator.GT: (1, None),
}
"""Comparison of a length with a number -> the least and the greatest length that fulfil it, less the number."""


def _element_of(variable: str) -> str:
    """The name of the variable that the one element of a list is."""
    return f"{_APART} {variable}"


def _share_of_element(expression: Length | Aggregate) -> Expression:
    """The share of one element in `v.LEN`, `sum(v[].x)` or, where it is known, `count(v[].x)`."""
    if isinstance(expression, Length):
        return Literal(1, ValueType.INT64)
    if expression.function not in ("sum", "count") or expression.prefix:
        raise NotCounted("one value is made of several elements of a list")
    return Reference(_element_of(expression.variable), expression.attribute, Element.ONLY, expression.type)


def _with_element_apart(pattern: Pattern, variable: str, element: Element = Element.EACH) -> Iterator[Pattern]:
    """The patterns in which one element of a list is a variable of its own, and those before and behind it are lists.

    A sum over all elements of a list, `sum(sum(k[].x))`, is that over one element, in all patterns that have one
    element of the list apart: `K e`, `SEQ(K+ p[], K e)`, `SEQ(K e, K+ s[])` and `SEQ(K+ p[], K e, K+ s[])`. Where the
    length of the list is bounded, there is one for each number of elements before, with as many behind as may be. Only
    some of these have the first, or the last, element apart.
    """
    operand = next(one for one in pattern.operands if one.variable == variable)
    least, most = operand.minimum, operand.maximum
    conditions: list[Condition] = []
    for one in _flat(pattern.condition):
        match one:
            case Comparison(comparator, Length(of), Literal(int() as length)) if of == variable and comparator in _ENDS:
                low, high = _ENDS[comparator]
                least = least if low is None else max(least, length + low)
                most = most if high is None else length + high if most is None else min(most, length + high)
            case _:
                conditions.append(one)
    if operand.negated or operand.optional or pattern.ties is not Ties.ARRIVAL or max(least, most or 0) > MOST_LENGTHS:
        raise NotCounted("no element of the list can be counted by itself")
    for before, behind in _lengths_around(least, most):
        if {Element.FIRST: before, Element.LAST: behind}.get(element) is not None:
            continue
        parts, names = [replace(operand, variable=_element_of(variable), kleene=False, minimum=1, maximum=None)], {}
        for kind, bounds in ((_BEFORE, before), (_BEHIND, behind)):
            if bounds is not None:
                names[kind] = f"{kind} {variable}"
                part = replace(operand, variable=names[kind], minimum=bounds[0], maximum=bounds[1])
                parts.insert(0 if kind == _BEFORE else len(parts), part)
        made = tuple(chain.from_iterable(_of_elements(one, variable, names) for one in conditions))
        yield replace(
            pattern,
            structure=_replaced(pattern.structure, variable, Composite(Operator.SEQ, tuple(parts))),
            condition=AllOf(made) if len(made) > 1 else made[0] if made else None,
        )


_Bounds = tuple[int, int | None] | None


def _lengths_around(least: int, most: int | None) -> Iterator[tuple[_Bounds, _Bounds]]:
    """The bounds of the numbers of elements before and behind an element of a list; None stands for no element."""
    for before in range(least if most is None else most if least <= most else 0):
        low, high = max(least - 1 - before, 0), None if most is None else most - 1 - before
        every = most is None and before == least - 1  # so many before, or more
        ahead: list[_Bounds] = [(before, None if every else before) if before else None]
        ahead += [(1, None)] if every and not before else []
        behind: list[_Bounds] = [] if low else [None]
        behind += [(max(low, 1), high)] if high != 0 else []
        yield from product(ahead, behind)


def _flat(condition: Condition | None) -> Iterator[Condition]:
    if isinstance(condition, AllOf):
        yield from chain.from_iterable(map(_flat, condition.operands))
    elif condition is not None:
        yield condition


def _of_elements(condition: Condition, variable: str, names: Mapping[str, str]) -> Iterator[Condition]:
    """A part of a condition, for each way in which the variables that stand for a list may be what it speaks of."""
    found: set[Element] = set()
    one = _element_of(variable)
    before, behind = names.get(_BEFORE), names.get(_BEHIND)

    def named(each: str, chosen: Mapping[Element, tuple[str, Element]]) -> Callable[[Expression], Expression]:
        ends = {
            Element.FIRST: (before, Element.FIRST) if before else (one, Element.ONLY),
            Element.LAST: (behind, Element.LAST) if behind else (one, Element.ONLY),
            Element.EACH: (each, Element.ONLY if each == one else Element.EACH),
            **chosen,
        }

        def leaf(node: Expression) -> Expression:
            if isinstance(node, Literal) or node.variable != variable:  # type: ignore[union-attr]
                return node
            if not isinstance(node, Reference):
                raise NotCounted("a condition asks for a list as a whole")
            found.add(node.element)
            name, element = ends.get(node.element, (each, node.element))
            return replace(node, variable=name, element=element)

        return leaf

    made = _condition_rewritten(condition, named(one, {}))
    only = (one, Element.ONLY)
    beside = found & {Element.CURRENT, Element.PREVIOUS}
    if not beside:
        yield made
        for name in names.values() if Element.EACH in found else ():
            yield _condition_rewritten(condition, named(name, {}))
        return
    if Element.EACH in found:
        raise NotCounted("a condition asks where in the list an element is")
    if len(beside) == 1:  # all elements but the first one, or all but the last one
        [element] = beside
        near, far = (before, behind) if element is Element.CURRENT else (behind, before)
        if near:
            yield _condition_rewritten(condition, named(near, {}))
            yield _condition_rewritten(condition, named(one, {element: only}))
        if far:
            yield _condition_rewritten(condition, named(far, {element: (far, Element.EACH)}))
        return
    for name in names.values():
        yield _condition_rewritten(condition, named(name, {}))
    if before:
        chosen = {Element.PREVIOUS: (before, Element.LAST), Element.CURRENT: only}
        yield _condition_rewritten(condition, named(before, chosen))
    if behind:
        chosen = {Element.PREVIOUS: only, Element.CURRENT: (behind, Element.FIRST)}
        yield _condition_rewritten(condition, named(behind, chosen))


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
