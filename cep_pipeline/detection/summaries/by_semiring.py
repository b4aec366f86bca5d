"""Rows of SUMMARIZE made by sweeps over the events, each in a semiring: no match is listed.

| what is asked | semiring, and the weight of an event |
| --- | --- |
| how many matches there are | `Sum`, every weight is 1 |
| a sum, or an average, of values, or of products of values | `Sum`, the value; 0 where it is null |
| a sum over a list, or over its length | `Sum` with what each element adds |
| the least and the greatest value | `Greatest`, the rank of the value; 0 where it is null |
| numbers and sums by the length of a list | `Sum`, which counts its elements |
| the least and the greatest length of a list | numbers of matches with shorter or longer ones, by halving |

A group's matches are those whose events have its values: all other events of a variable have the weight 0. Sums are
whole numbers of some power of two, told by remainders modulo primes, so they are exact at any size.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, zip_longest
from time import process_time

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.costs import LEAST_S, LISTED_NS
from cep_pipeline.detection.counting.list_parts import parts_of_lists
from cep_pipeline.detection.counting.owned import NOT_COUNTED, count_owned
from cep_pipeline.detection.counting.sweep import Greatest, Sum, swept
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import Owned
from cep_pipeline.detection.summaries.partial import (
    FRACTION_BITS,
    Extreme,
    PartialSummary,
    State,
    Total,
    Value,
    bucket_starts,
    group_codes,
    is_nan,
    whole_units,
)
from cep_pipeline.detection.summaries.values import (
    Factors,
    NotCounted,
    Signed,
    SumOfTerms,
    Values,
    check_exact,
    is_finite,
    is_of_one,
    terms_of,
    values_of,
)
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import AllOf, Comparator, Comparison, Condition
from cep_pipeline.patterns.expressions import Element, Expression, Length, Literal, Reference, ValueType
from cep_pipeline.patterns.pattern import Pattern, SummaryAggregate
from cep_pipeline.slices.ownership import Finality, finality_of
from cep_pipeline.slices.prepared import Boundary, PreparedEvents

MOST_COUNTS = 1 << 12
"""Most sums that are made for one summary."""
_SOONER, _TOO_MANY = "the matches are listed sooner", f"more than {MOST_COUNTS:,} counts are needed"


@dataclass(frozen=True)
class _Asked:
    """A part of the matches: those that end in some parts of the slice, and factors that leave the others out."""

    owned: tuple[Owned, ...]
    signed: Signed

    def also(self, more: Signed) -> _Asked:
        """The matches of which more is asked, too."""
        both = product(self.signed, more)
        return _Asked(self.owned, [(sign * other, _times(one, new)) for (sign, one), (other, new) in both])


def _times(one: Factors, other: Factors) -> Factors:
    return {**one, **{key: one[key] * own if key in one else own for key, own in other.items()}}


def with_columns(events: PreparedEvents, columns: Mapping[str, Array | pa.Array]) -> PreparedEvents:
    """The events with some more columns."""
    table = events.table
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    return PreparedEvents(table, type_attribute=events.type_attribute, base_type=events.base_type)


class RowsBySemirings:
    """Makes the rows of a pattern of one clause; `run` puts them into `summary`.

    What is asked of matches is told for each length of a list by which they are grouped, from 0 on; else there is one
    result.

    Raises
    ------
    NotCounted
        Something that is asked takes the matches themselves, or to list them is sooner.
    """

    def __init__(
        self, pattern: Pattern, events: PreparedEvents, owned: Owned, summary: PartialSummary, total: int, listed: int
    ) -> None:
        assert pattern.summary is not None
        self._pattern, self._events, self._owned = pattern, events, owned
        self._of, self._summary = pattern.summary, summary
        [self._clause] = pattern.clauses
        self._finality = finality_of(pattern, self._clause)
        self._total_number = total
        self._most_s = max(LEAST_S, LISTED_NS * 1e-9 * listed)
        self._counts, self._begun_s = 0, process_time()
        self._by_length: str | None = None

    def run(self) -> None:
        """Count what the rows need."""
        self._read = [None if one.expression is None else self._values_of(one.expression) for one in self._of.groups]
        groups = [one for one in self._read if one is not None]
        lists = {one.variable for one in groups if one.read == "length"}
        if len(lists) > 1:
            raise NotCounted("groups are made by the lengths of several lists")
        self._by_length = next(iter(lists), None)
        self._aggregates = [(one, self._aggregated(one)) for one in self._of.aggregates if one.expression is not None]
        self._groups = [one for one in groups if one.read != "length"]
        parts = list(self._parts())
        codes = math.prod(len(values.values) for values in self._groups)
        if codes > MOST_COUNTS:
            raise NotCounted(_TOO_MANY)
        whole, begun_s = _Asked((self._owned,), [(1, {})]), process_time()
        numbers = self._sums(whole)
        rows = codes * len(parts) * (1.0 + 2 * len(self._aggregates))
        if (process_time() - begun_s) * rows > self._most_s:
            raise NotCounted(_SOONER)
        for buckets, asked in parts:
            self._rows_of(buckets, asked, [], numbers if asked == whole else self._sums(asked))

    def _parts(self) -> Iterator[tuple[tuple[Value, ...], _Asked]]:
        """The parts of the matches that end in each bucket, with its values.

        Where a match waits for what comes behind it, the last events of the matches are asked for.
        """
        lengths = [group.bucket_us for group in self._of.groups if group.bucket_us is not None]
        if not lengths:
            yield (), _Asked((self._owned,), [(1, {})])
            return
        at_last, events = self._finality is Finality.LAST_EVENT, self._events
        begin, stop = events.rows_in(self._owned) if at_last else (0, len(events))
        ends = events.timestamps[begin:stop]
        codes, keys = group_codes([bucket_starts(ends, one, self._pattern.timezone) for one in lengths], len(ends))
        changes = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])[: len(codes)])
        if len(changes) > MOST_COUNTS:
            raise NotCounted(_TOO_MANY)
        rows = [begin, *(begin + changes[1:]).tolist(), stop]
        bounds = [self._owned[0], *map(self._boundary, rows[1:-1]), self._owned[1]]
        for code, key in enumerate(keys):
            intervals = np.flatnonzero(codes[changes] == code).tolist()
            if at_last:
                owned = tuple((bounds[number], bounds[number + 1]) for number in intervals)
                yield key, _Asked(owned, [(1, {})])
            else:
                ending = [one for number in intervals for one in self._ending_in(rows[number], rows[number + 1])]
                yield key, _Asked((self._owned,), ending)

    def _boundary(self, row: int) -> Boundary:
        return int(self._events.timestamps[row]), int(self._events.seqs[row])

    def _ending_in(self, begin: int, end: int) -> Signed:
        """The matches whose last event has one of these rows: all that end before `end`, but not before `begin`."""
        before = self._clause.precedence
        names = [one.name for one in self._clause.positive]
        last = [one for one in self._clause.positive if not any((one.name, other) in before for other in names)]
        keys = [(one.name, Element.EACH if one.kleene else Element.ONLY) for one in last]
        rows = np.arange(len(self._events))
        if len(last) == 1 and not last[0].kleene:
            return [(1, {keys[0]: (rows >= begin) & (rows < end)})]
        return [(1, dict.fromkeys(keys, rows < end)), (-1, dict.fromkeys(keys, rows < begin))]

    def _rows_of(
        self, buckets: tuple[Value, ...], asked: _Asked, chosen: Sequence[Value], numbers: Sequence[int]
    ) -> None:
        """Make the rows of the groups that begin with some chosen values, of which there are so many matches."""
        if not any(numbers):
            return
        if len(chosen) < len(self._groups):
            values = self._groups[len(chosen)]
            for code, value in enumerate(values.values):
                own = asked.also(values.between(code, code))
                self._rows_of(buckets, own, [*chosen, value], self._sums(own))
            return
        states = [self._states(one, values, asked, numbers) for one, values in self._aggregates]
        for length, number in enumerate(numbers):
            if number:
                row = self._summary.group(self._key(buckets, chosen, length))
                row.matches, row.states = number, [replace(own[length]) for own in states]

    def _key(self, buckets: tuple[Value, ...], chosen: Sequence[Value], length: int) -> tuple[Value, ...]:
        """The values of a row's groups, in their order."""
        begins, values = iter(buckets), iter(chosen)
        return tuple(
            next(begins) if one is None else length if one.read == "length" else next(values) for one in self._read
        )

    # Sums over matches.

    def _sums(self, asked: _Asked, factors: Factors | None = None, semiring: Sum | Greatest | None = None) -> list[int]:
        """What a semiring gives for the matches that are asked for; without one, their number."""
        counted = (self._by_length,) if self._by_length is not None else ()
        semiring = semiring or Sum(counted=counted)
        total: list[int] = []
        for (sign, one), owned in product(asked.signed, asked.owned):
            total = _together(semiring, total, self._swept(semiring, _times(one, factors or {}), owned), sign)
        return total or [0]

    def _swept(self, semiring: Sum | Greatest, factors: Factors, owned: Owned) -> list[int]:
        """The result of sweeps over the matches, or over those of the parts of their lists."""
        pattern, clause = self._pattern, self._clause
        ends = frozenset(key for key in factors if key[1] in (Element.FIRST, Element.LAST))
        for parts in (
            (clause,),
            parts_of_lists(pattern, clause, self._events),
            parts_of_lists(pattern, clause, self._events, ends),
        ):
            total: list[int] | None = None if parts is None else []
            for part in parts or ():
                found = self._swept_part(
                    semiring, factors, ClauseSlice(pattern, part, self._events, owned, self._finality)
                )
                if found is None or total is None:
                    total = None
                    break
                total = _together(semiring, total, found)
            if total is not None:
                return total
        if semiring == Sum() and all(own.dtype == bool for own in factors.values()):
            return self._counted(factors, owned)
        raise NotCounted("no sweep goes over the matches")

    def _counted(self, factors: Factors, owned: Owned, more: Sequence[Condition] = ()) -> list[int]:
        """The number of the matches whose events have none but the factor 1: they are counted as those of a pattern.

        Parameters
        ----------
        more
            What else is asked of them.
        """
        pattern, given = self._pattern, [] if self._pattern.condition is None else [self._pattern.condition]
        columns = {f"\0{place}": own.astype(np.int64) for place, own in enumerate(factors.values())}
        asked = [
            Comparison(Comparator.EQ, Reference(variable, name, element, ValueType.INT64), Literal(1, ValueType.INT64))
            for name, (variable, element) in zip(columns, factors, strict=True)
        ]
        own = replace(
            pattern,
            condition=AllOf((*given, *asked, *more)) if given or asked or more else None,
            attributes=(*pattern.attributes, *((name, ValueType.INT64) for name in columns)),
            summary=None,
        )
        number = count_owned(own, with_columns(self._events, columns), owned, always=True)
        if number is None:
            raise NotCounted(NOT_COUNTED)
        return [number]

    def _swept_part(self, semiring: Sum | Greatest, factors: Factors, of: ClauseSlice) -> list[int] | None:
        """The result of a sweep; None where there is none, or the end of a list that is asked for is no variable."""
        self._count_once_more()
        pieces: dict[str, list[str]] = {}
        for one in of.clause.positive:
            pieces.setdefault(one.name.partition("[")[0], []).append(one.name)
        weights: dict[str, Array] = {}
        for (variable, element), own in factors.items():
            names = pieces[variable]
            if element in (Element.FIRST, Element.LAST):
                names = names[:1] if element is Element.FIRST else names[-1:]
                if of.clause.by_name[names[0]].kleene:
                    return None
            for name in names:
                weights[name] = weights[name] * own if name in weights else own
        if isinstance(semiring, Sum):
            added = {name: own for variable, own in semiring.added.items() for name in pieces[variable]}
            counted = tuple(name for variable in semiring.counted for name in pieces[variable])
            semiring = Sum(added, counted, self._go_on)
        return swept(of, semiring, weights)

    def _count_once_more(self) -> None:
        self._counts += 1
        if self._counts > MOST_COUNTS:
            raise NotCounted(_TOO_MANY)
        self._go_on()

    def _go_on(self) -> None:
        go_on()
        if process_time() - self._begun_s > 2 * self._most_s:
            raise NotCounted(_SOONER)

    # Aggregates.

    def _values_of(self, expression: Expression, *, added: bool = False) -> Values:
        return values_of(expression, self._clause, self._events, added=added)

    def _aggregated(self, aggregate: SummaryAggregate) -> Values | SumOfTerms:
        """The values of an aggregate, or the terms of its sum."""
        assert aggregate.expression is not None
        of_ends = aggregate.function in ("min", "max")
        return self._values_of(aggregate.expression) if of_ends else self._sum_of_terms(aggregate.expression)

    def _states(
        self, aggregate: SummaryAggregate, values: Values | SumOfTerms, asked: _Asked, numbers: Sequence[int]
    ) -> Sequence[State]:
        """What an aggregate knows of so many matches."""
        if isinstance(values, SumOfTerms):
            return self._totals(values, asked, numbers)
        return self._extremes(values, asked, numbers, greatest=aggregate.function == "max")

    def _totals(self, terms: SumOfTerms, asked: _Asked, numbers: Sequence[int]) -> list[Total]:
        """The sums over those of so many matches in which all that is read has a value."""
        found, known = [Total(number) for number in numbers], asked
        for one in [one for _, _, factors in terms.terms for values in factors for one in values.known()]:
            known = known.also(one)
        if known is not asked:
            numbers = self._sums(known)
            found = [Total(number) for number, _ in zip_longest(numbers, found, fillvalue=0)]
        for values in terms.terms[0][2] if len(terms.terms) == 1 else ():
            for code, value in enumerate(values.values[:-1]):
                if not is_finite(value):
                    with_it = self._sums(asked.also(values.between(code, code)))
                    for own, number in zip(found, with_it, strict=False):
                        own.special += float(value) if number else 0.0  # type: ignore[arg-type]
        for coefficient, units, factors in terms.terms:
            if terms.is_float:
                coefficient, units = coefficient << FRACTION_BITS, units + 1
            # A null weighs 0, as all that it is multiplied by.
            of_all = self._products(factors, known if len(terms.terms) > 1 else asked, numbers)
            for own, of_factors in zip(found, of_all, strict=False):
                total = coefficient * of_factors
                own.exact += total >> FRACTION_BITS * (units - 1) if terms.is_float else total
        return found

    def _products(self, factors: Sequence[Values], asked: _Asked, numbers: Sequence[int]) -> Sequence[int]:
        """The sums over so many matches of products of finite values, one of which may be the sum of a list."""
        whole = next((one for one in factors if one.read in ("min", "max")), None)
        if whole is None:
            return self._weighted(factors, asked) if factors else numbers
        rest = [one for one in factors if one is not whole]  # the extremes of a list are asked for one by one
        total: list[int] = []
        for code, value in enumerate(whole.values[:-1]):
            if is_finite(value) and value:
                own = asked.also(whole.between(code, code))
                found = self._products(rest, own, self._sums(own) if not rest else ())
                total = _together(Sum(), total, [whole_units(value) * one for one in found])
        return total

    def _weighted(self, factors: Sequence[Values], asked: _Asked) -> list[int]:
        """The sums over matches of products of finite values, in units of `whole_units`."""
        weights: Factors = {}
        added, together = {}, 1
        for one in factors:
            unit, numbers = one.units()
            together *= unit
            if one.read == "sum":
                added[one.variable] = numbers
            else:
                weights = _times(weights, {one.key: numbers})
        counted = (self._by_length,) if self._by_length is not None else ()
        return [together * one for one in self._sums(asked, weights, Sum(added, counted))]

    def _extremes(self, values: Values, asked: _Asked, numbers: Sequence[int], *, greatest: bool) -> Sequence[Extreme]:
        """The least or greatest value that a match has."""
        if values.read == "length":
            if self._by_length is None:
                return [Extreme(greatest, self._end_of_lengths(values, asked, greatest=greatest))]
            if self._by_length == values.variable:
                return [Extreme(greatest, length) for length in range(len(numbers))]
        if self._by_length is not None:
            raise NotCounted("the extremes of groups by the length of a list are asked for")
        if values.read in ("min", "max") and (values.read == "max") != greatest:
            raise NotCounted("a greatest element is to be small, or a least one great")
        ordered = values.values[:-1]
        ranks = [*range(2, len(ordered) + 2)] if greatest else [*range(len(ordered) + 1, 1, -1)]
        if ordered and is_nan(ordered[-1]):
            ranks[-1] = len(ordered) + 2
        # An element without a value is in the list all the same.
        of_null = 1 if values.read in ("min", "max") else 0
        weights = {values.key: values.by_event([*ranks, of_null], np.int64)}
        [rank] = self._sums(asked, weights, Greatest())
        return [Extreme(greatest, ordered[ranks.index(rank)] if rank > 1 else None)]

    def _end_of_lengths(self, values: Values, asked: _Asked, *, greatest: bool) -> int:
        """The greatest or the least length of a list in the matches, of which there are some, by halving."""
        length = Length(values.variable)

        def some(comparator: Comparator, number: int) -> bool:
            self._count_once_more()
            test = Comparison(comparator, length, Literal(number, ValueType.INT64))
            parts = product(asked.signed, asked.owned)
            return sum(sign * self._counted(one, owned, [test])[0] for (sign, one), owned in parts) > 0

        lengths = range(1, values.size + 1)
        if greatest:
            return bisect_left(lengths, True, key=lambda number: not some(Comparator.GE, number))
        return 1 + bisect_left(lengths, True, key=lambda number: some(Comparator.LE, number))

    def _sum_of_terms(self, expression: Expression) -> SumOfTerms:
        """The terms of a sum over several variables, or events of a list, if it is exact in every match."""
        found = SumOfTerms([], expression.type is ValueType.FLOAT64)
        known: dict[Expression, Values] = {}
        if is_of_one(expression):
            found.terms.append((1, found.is_float, [self._values_of(expression, added=True)]))
            return found
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
                    known[factor] = self._values_of(factor, added=True)
                values.append(known[factor])
                units += factor.type is ValueType.FLOAT64
            sums = [one for one in values if one.read == "sum"]
            if not all(one.are_finite for one in values) or any(one.has_null for one in sums):
                raise NotCounted("a term is no finite value")
            if len(sums) > 1:
                raise NotCounted("elements of several lists are multiplied")
            found.terms.append((coefficient, units, values))
        check_exact(found)
        return found


def _together(semiring: Sum | Greatest, one: Sequence[int], other: Sequence[int], sign: int = 1) -> list[int]:
    """The results of two sets of matches as those of both; with a sign of -1 the second are taken away."""
    found = [semiring.plus(*both, sign) for both in zip_longest(one, other, fillvalue=0)]
    if None in found:
        raise NotCounted("the matches of a group are a difference")
    return [own or 0 for own in found]
