"""Rows of SUMMARIZE without listing matches: sums over semirings.

| what is made | of what |
| --- | --- |
| `count(*)` alone | the number of matches: `counting.owned` |
| all else | sweeps over the events, each in a semiring: `RowsBySemirings` |

The rest is listed (docs/mechanisms.md says what): all but numbers of matches where a pattern has several clauses, too.

| what is asked | semiring, and the weight of an event |
| --- | --- |
| how many matches there are | `Sum`, every weight is 1 |
| a sum, or an average, of values of one event, or of sums of such | `Sum`, the value; 0 where it is null |
| a sum over a list, or over its length | `Sum` with what each element adds |
| the least and the greatest value | `Greatest`, the rank of the value; 0 where it is null |

A group's matches are those whose events have its values: all other events of a variable have the weight 0. Sums are
whole numbers of some power of two, told by remainders modulo primes, so they are exact at any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.costs import FEW_SUMMARIZED, LEAST_S, LISTED_NS, LONG_NS, finding_ns
from cep_pipeline.detection.counting.choice import of_one_event, parts_of_lists
from cep_pipeline.detection.counting.owned import count_owned, route_to_count
from cep_pipeline.detection.counting.sweep import Greatest, Sum, filters_of, swept
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.matches import column_to_arrow
from cep_pipeline.detection.mechanisms import CHOSEN_AMONG, EVERYTHING, Counters, Executor, Owned, Route, Sink
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.summaries.partial import (
    PartialSummary,
    bucket_starts,
    group_codes,
    rank,
    state_of,
    whole_units,
)
from cep_pipeline.events.columns import ARROW_TYPES
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import expression_values
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
from cep_pipeline.patterns.pattern import Pattern, SummaryAggregate
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.patterns.summary_functions import Extreme, State, Total, Value, is_nan
from cep_pipeline.slices.ownership import finality_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import leaf_of, leaf_view, view_of_leaf

MOST_COUNTS = 1 << 12
"""Most sums that are made for one summary."""
_SOONER, _TOO_MANY = "the matches are listed sooner", f"more than {MOST_COUNTS:,} counts are needed"
_ROUNDED = "a sum of float64 is rounded in each match"
_SEVERAL = "one value is made of several elements of a list"
Factors = Mapping[tuple[str, Element], Array]
"""Variable, and which of its events -> a number for each event of the slice: the factor by which a match counts that
binds the event. `ONLY` is that of a single variable, `EACH` are all elements of a list."""


class NotCounted(Exception):
    """Something about a summary, as the text says, asks for the matches themselves."""


@dataclass(eq=False)
class Values:
    """The values of an expression that reads one event of a variable, or its list as a whole.

    Attributes
    ----------
    read
        The event of the variable; or of its list the least or the greatest value, or the sum.
    values
        The distinct values, ascending; null is the last one. Of a sum those that each element adds.
    rows, codes
        The events, by their rows, and the number of the value that each has.
    size
        The number of events of the slice.
    """

    variable: str
    read: Element | OneOf["min", "max", "sum"]
    values: list[Value]
    rows: Array
    codes: Array
    size: int

    @property
    def key(self) -> tuple[str, Element]:
        """The key to which a factor of these values belongs."""
        return self.variable, self.read if isinstance(self.read, Element) else Element.EACH

    @property
    def has_null(self) -> bool:
        return bool((self.codes == len(self.values) - 1).any())

    @property
    def are_finite(self) -> bool:
        return all(map(is_finite, self.values[:-1]))

    def by_event(self, numbers: Sequence[int] | Array, kind: type = object) -> Array:
        """A number for each event of the slice, by those of the values; 0 where an event has none."""
        found: Array = np.zeros(self.size, kind)
        found[self.rows] = np.array(numbers, kind)[self.codes]
        return found

    def units(self, *, is_float: bool) -> list[int]:
        """The values in the units of `Total.exact`; 0 where one is no finite number."""
        return [whole_units(value, is_float=is_float) if is_finite(value) else 0 for value in self.values]

    def widest(self, *, is_float: bool) -> int:
        """The greatest size that a value may have in these units; that of a sum is one of all events."""
        sizes = list(map(abs, self.units(is_float=is_float)))
        if self.read != "sum":
            return max(sizes)
        times = np.bincount(self.codes, minlength=len(sizes)).tolist()
        return sum(size * number for size, number in zip(sizes, times, strict=True))

    def between(self, low: int, high: int) -> Factors:
        """The matches in which the number of the value is one of these."""
        numbers = np.arange(len(self.values))
        return {self.key: self.by_event((numbers >= low) & (numbers <= high), bool)}


def values_of(expression: Expression, clause: Clause, events: PreparedEvents, *, added: bool = False) -> Values:
    """The values of an expression that reads one event of one variable, or the extremes of a list.

    Parameters
    ----------
    added
        Whether the values are added up over the matches: then a length, a sum and a number of values may be read as
        what each element adds to it.
    """
    names = variables_of(expression)
    if len(names) > 1:
        raise NotCounted(f"one value is read of {in_words(sorted(names))}")
    any_variable = next((one for one in clause.positive if not one.kleene), clause.positive[0])
    bound = clause.by_name[next(iter(names), any_variable.name)]
    if not bound.kleene:
        rows = np.array(view_of_leaf(events, leaf_of(clause, bound.name), 0, len(events)).rows)
        return Values(bound.name, Element.ONLY, *_coded(expression, bound.name, rows, events), len(events))
    if isinstance(expression, Length) and not added:
        raise NotCounted("the length of each list is asked for")
    rows = np.array(leaf_view(events, bound.event_type, filters_of(clause, bound), 0, len(events)).rows)
    if added and isinstance(expression, Length):
        share: Expression = Literal(1, ValueType.INT64)
        return _exact_sum(expression, Values(bound.name, "sum", *_coded(share, bound.name, rows, events), len(events)))
    if isinstance(expression, Aggregate) and not expression.prefix:
        share = Reference(expression.variable, expression.attribute, Element.ONLY, expression.type)
        values, rows, codes = _coded(share, bound.name, rows, events)
        match expression.function:
            case "min" | "max" as end if not added:
                if any(map(is_nan, values)):
                    raise NotCounted("elements are NaN")
                return Values(bound.name, end, values, rows, codes, len(events))
            case "sum" if added:
                return _exact_sum(expression, Values(bound.name, "sum", values, rows, codes, len(events)))
            case "count" if added:
                present = (codes < len(values) - 1).astype(np.int64)
                return _exact_sum(expression, Values(bound.name, "sum", [0, 1, None], rows, present, len(events)))
    nodes = [node for node in walk(expression) if isinstance(node, Reference | Length | Aggregate)]
    elements = {node.element if isinstance(node, Reference) else None for node in nodes}
    element = elements.pop() if len(elements) == 1 else None
    if element not in (Element.FIRST, Element.LAST):
        raise NotCounted(_SEVERAL)
    return Values(
        bound.name, element, *_coded(rewritten(expression, of_one_event), bound.name, rows, events), len(events)
    )


def _coded(
    expression: Expression, variable: str, rows: Array, events: PreparedEvents
) -> tuple[list[Value], Array, Array]:
    """The distinct values of an expression over one event, ascending, then null; the rows, and the number of each."""
    values, codes = _ascending(column_to_arrow(expression_values(expression, events, {variable: rows})))
    return values, rows, codes


def _ascending(read: pa.Array) -> tuple[list[Value], Array]:
    """The distinct values of a column, ascending, then null; and the number of each."""
    codes, keys = group_codes([read], len(read))
    values = [value for (value,) in keys]
    order = sorted(range(len(values)), key=lambda place: rank(values[place]))
    places = np.zeros(len(values), np.int64)
    places[order] = np.arange(len(order))
    ascending = [values[place] for place in order if values[place] is not None]
    return [*ascending, None], places[codes]


def _exact_sum(expression: Length | Aggregate, values: Values) -> Values:
    """The values of a sum over a list, which is exact whatever the list binds."""
    if expression.type is ValueType.FLOAT64:
        if not values.are_finite or not is_held([values]):
            raise NotCounted("the sum of a list is rounded")
    elif values.widest(is_float=False) >= 2**63:
        raise NotCounted("the sum of a list may exceed int64")
    return values


# Sums of values of several variables.


def is_of_one(expression: Expression) -> bool:
    """Return whether an expression reads one event, asks one thing of a list, or reads nothing."""
    if isinstance(expression, Length | Aggregate):
        return True
    nodes = [node for node in walk(expression) if isinstance(node, Reference | Length | Aggregate)]
    read = {(node.variable, node.element) for node in nodes if isinstance(node, Reference)}
    return len(read) <= 1 and all(isinstance(node, Reference) for node in nodes)


def terms_of(expression: Expression, sign: int = 1) -> Iterator[tuple[int, Expression]]:
    """The terms of a sum or difference, each with its sign, which read one event or list each."""
    if is_of_one(expression):
        yield sign, expression
        return
    match expression:
        case Arithmetic("+" | "-" as operator, left, right):
            yield from terms_of(left, sign)
            yield from terms_of(right, sign if operator == "+" else -sign)
        case Negative(operand):
            yield from terms_of(operand, -sign)
        case _:
            names = variables_of(expression)
            raise NotCounted(_SEVERAL if len(names) < 2 else f"one value is read of {in_words(sorted(names))}")


def check_exact(terms: Sequence[Values], *, is_float: bool) -> None:
    """Refuse a sum that may not be exact in some match."""
    if not all(one.are_finite for one in terms) or any(one.has_null for one in terms if one.read == "sum"):
        raise NotCounted("a term is no finite value")
    whole = [one for one in terms if not isinstance(one.values[0], float)]
    if sum(one.widest(is_float=False) for one in whole) >= 2**63:
        raise NotCounted("a sum may exceed int64")
    if is_float and not is_held(terms):
        raise NotCounted(_ROUNDED)


def is_held(terms: Iterable[Values]) -> bool:
    """Return whether float64 holds all sums of some values: whole multiples of the last bit that any of them has."""
    together = widest = 0
    for one in terms:
        widest += one.widest(is_float=True)
        for unit in one.units(is_float=True):
            together |= abs(unit)
    return widest <= (together & -together) << 53


def is_finite(value: Value) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def in_words(names: Sequence[str]) -> str:
    """Names as a list in a sentence."""
    return " and ".join((", ".join(names[:-1]), names[-1]) if len(names) > 1 else names)


# Rows.


def _times(one: Factors, other: Factors) -> Factors:
    return {**one, **{key: one[key] * own if key in one else own for key, own in other.items()}}


class RowsBySemirings:
    """Makes the rows of a pattern of one clause; `run` puts them into `summary`.

    Raises
    ------
    NotCounted
        Something that is asked takes the matches themselves, or to list them is sooner.
    """

    def __init__(
        self, pattern: Pattern, events: PreparedEvents, owned: Owned, summary: PartialSummary, listed: int
    ) -> None:
        assert pattern.summary is not None
        self._pattern, self._events, self._owned = pattern, events, owned
        self._of, self._summary = pattern.summary, summary
        [self._clause] = pattern.clauses
        self._finality = finality_of(pattern, self._clause)
        self._most_s = max(LEAST_S, LISTED_NS * 1e-9 * listed)
        self._counts, self._begun_s = 0, process_time()

    def run(self) -> None:
        """Count what the rows need."""
        self._groups = [
            self._buckets(one.bucket_us) if one.expression is None else self._values_of(one.expression)
            for one in self._of.groups
        ]
        if any(one.read in ("min", "max") for one in self._groups):
            raise NotCounted("groups are made by the extremes of a list")
        self._aggregates = [
            (one, self._of_aggregate(one, one.expression)) for one in self._of.aggregates if one.expression is not None
        ]
        codes = math.prod(len(values.values) for values in self._groups)
        if codes > MOST_COUNTS:
            raise NotCounted(_TOO_MANY)
        begun_s = process_time()
        number = self._sum_over({})
        rows = codes * (1.0 + 2 * len(self._aggregates))
        if (process_time() - begun_s) * rows > self._most_s:
            raise NotCounted(_SOONER)
        self._rows_of({}, [], number)

    def _buckets(self, bucket_us: int | None) -> Values:
        """The bucket in which each match ends, as a value of the event of its last variable."""
        assert bucket_us is not None
        events, clause = self._events, self._clause
        last, *others = (one for one in clause.positive if not clause.successors(one.name))
        if others:
            raise NotCounted("buckets of matches are asked for that end with any of some events")
        view = leaf_view(events, last.event_type, filters_of(clause, last), 0, len(events))
        rows = np.array(view.rows)
        values, codes = _ascending(bucket_starts(events.timestamps[rows], bucket_us, self._pattern.timezone))
        return Values(last.name, Element.LAST if last.kleene else Element.ONLY, values, rows, codes, len(events))

    def _rows_of(self, asked: Factors, chosen: Sequence[Value], number: int) -> None:
        """Make the rows of the groups that begin with some chosen values, of which there are so many matches."""
        if not number:
            return
        if len(chosen) < len(self._groups):
            values = self._groups[len(chosen)]
            for code, value in enumerate(values.values):
                own = _times(asked, values.between(code, code))
                self._rows_of(own, [*chosen, value], self._sum_over(own))
            return
        row = self._summary.group(tuple(chosen))
        row.states = [self._state(one, values, asked, number) for one, values in self._aggregates]
        row.matches = number

    # Sums over matches.

    def _sum_over(self, factors: Factors, semiring: Sum | Greatest | None = None) -> int:
        """The value that a semiring gives for the matches, or those of the parts of their lists; else their number."""
        pattern, clause, semiring = self._pattern, self._clause, semiring or Sum()
        ends = frozenset(key for key in factors if key[1] in (Element.FIRST, Element.LAST))
        for parts in (
            (clause,),
            parts_of_lists(pattern, clause),
            parts_of_lists(pattern, clause, ends),
        ):
            total: int | None = None if parts is None else 0
            for part in parts or ():
                found = self._swept_part(
                    semiring, factors, ClauseSlice(pattern, part, self._events, self._owned, self._finality)
                )
                if found is None or total is None:
                    total = None
                    break
                total = semiring.plus(total, found)
            if total is not None:
                return total
        raise NotCounted("no sweep goes over the matches")

    def _swept_part(self, semiring: Sum | Greatest, factors: Factors, of: ClauseSlice) -> int | None:
        """The result of a sweep; None where there is none, or the end of a list that is asked for is no variable."""
        self._counts += 1
        if self._counts > MOST_COUNTS:
            raise NotCounted(_TOO_MANY)
        self._go_on()
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
            semiring = Sum(added, self._go_on)
        return swept(of, semiring, weights)

    def _go_on(self) -> None:
        go_on()
        if process_time() - self._begun_s > 2 * self._most_s:
            raise NotCounted(_SOONER)

    # Aggregates.

    def _values_of(self, expression: Expression, *, added: bool = False) -> Values:
        return values_of(expression, self._clause, self._events, added=added)

    def _of_aggregate(self, aggregate: SummaryAggregate, expression: Expression) -> list[tuple[int, Values]]:
        """The value of an aggregate, or the terms of its sum with their signs, if that is exact in every match."""
        if isinstance(state_of(aggregate), Extreme):
            return [(1, self._values_of(expression))]
        found = [(sign, self._values_of(term, added=True)) for sign, term in terms_of(expression)]
        if len(found) > 1:
            check_exact([values for _, values in found], is_float=expression.type is ValueType.FLOAT64)
        return found

    def _state(
        self, aggregate: SummaryAggregate, terms: list[tuple[int, Values]], asked: Factors, number: int
    ) -> State:
        """The state of an aggregate over so many matches."""
        state = state_of(aggregate)
        if isinstance(state, Extreme):
            return self._extreme(terms[0][1], asked, greatest=state.greatest)
        assert aggregate.expression is not None
        return self._total(terms, asked, number, is_float=aggregate.expression.type is ValueType.FLOAT64)

    def _total(self, terms: list[tuple[int, Values]], asked: Factors, number: int, *, is_float: bool) -> Total:
        """The sum over those of so many matches in which all that is read has a value."""
        known, found = asked, Total(number)
        for _, values in terms:
            none = len(values.values) - 1
            if values.has_null and values.read == "sum":  # it is null where all elements are
                found = Total(number - self._sum_over(_times(asked, values.between(none, none))))
            elif values.has_null:
                known = _times(known, values.between(0, none - 1))
        if known is not asked:
            found = Total(self._sum_over(known))
        if len(terms) == 1:  # several are finite
            [(_, values)] = terms
            for code, value in enumerate(values.values[:-1]):
                if not is_finite(value) and self._sum_over(_times(asked, values.between(code, code))):
                    found.special += float(value)  # type: ignore[arg-type]
        for sign, values in terms:
            units = values.units(is_float=is_float)
            unit = math.gcd(*units) or 1
            weights = values.by_event([one // unit for one in units])
            if values.read == "sum":
                total = self._sum_over(known, Sum({values.variable: weights}))
            else:
                total = self._sum_over(_times(known, {values.key: weights}))
            found.exact += sign * unit * total
        return found

    def _extreme(self, values: Values, asked: Factors, *, greatest: bool) -> Extreme:
        """The least or greatest value that a match has."""
        if values.read in ("min", "max") and (values.read == "max") != greatest:
            raise NotCounted("a greatest element is to be small, or a least one great")
        ordered = values.values[:-1]
        ranks = [*range(2, len(ordered) + 2)] if greatest else [*range(len(ordered) + 1, 1, -1)]
        if ordered and is_nan(ordered[-1]):
            ranks[-1] = len(ordered) + 2
        # An element without a value is in the list all the same.
        of_null = 1 if values.read in ("min", "max") else 0
        weights = {values.key: values.by_event([*ranks, of_null], np.int64)}
        found = self._sum_over(_times(asked, weights), Greatest())
        return Extreme(greatest, ordered[ranks.index(found)] if found > 1 else None)


def summarize_unlisted(
    pattern: Pattern, events: PreparedEvents, owned: Owned, counters: Counters
) -> PartialSummary | None:
    """The groups of SUMMARIZE over the matches that a slice owns; None where the matches are to be listed.

    `counters` are told the route: that matches are listed may be because of the pattern, or because of these events.
    """
    try:
        summary = _unlisted(pattern, events, owned)
    except NotCounted as reason:
        counters.went(pattern.name, Route(Sink.SUMMARIZE, Executor.MECHANISM, str(reason)))
        return None
    counters.went(pattern.name, Route(Sink.SUMMARIZE, Executor.SWEEP))
    return summary


def _unlisted(pattern: Pattern, events: PreparedEvents, owned: Owned) -> PartialSummary:
    """The same; NotCounted says why matches are to be listed."""
    summary = PartialSummary(pattern)
    if (reason := _needs_matches(pattern)) is not None:
        raise NotCounted(reason)
    if _counts_only(pattern):
        total = count_owned(pattern, events, owned, finding=True)
        if total is None:
            raise NotCounted(route_to_count(pattern).because or FEW)
        summary.group(()).matches = total
        return summary
    finding = finding_ns(ClauseSlice(pattern, pattern.clauses[0], events, owned)) < LONG_NS
    number = count_owned(pattern, events, owned, always=True, finding=finding)
    if number is None:
        raise NotCounted(route_to_count(pattern).because or FEW)
    if number <= FEW_SUMMARIZED:
        raise NotCounted(FEW)
    RowsBySemirings(pattern, events, owned, summary, number).run()
    return summary


FEW = "there are few matches"


def _counts_only(pattern: Pattern) -> bool:
    """Return whether SUMMARIZE asks for the number of matches and nothing else."""
    return not pattern.items and (pattern.summary is None or not pattern.summary.groups)


def _needs_matches(pattern: Pattern) -> str | None:
    """The reason why SUMMARIZE asks for the matches themselves, whatever it reads of them; None: there is none."""
    if has_output_policy(pattern):
        return CHOSEN_AMONG
    if not pattern.strategy.forks:
        return f"of the strategy {pattern.strategy.value}"
    if pattern.composes:
        return "the pattern composes others"
    if len({clause.positive for clause in pattern.clauses}) < len(pattern.clauses):
        return "several clauses bind the same variables"
    if len(pattern.clauses) > 1 and not _counts_only(pattern):
        return "branches of the pattern have matches of their own"
    return None


def not_summarized_because(pattern: Pattern) -> str | None:
    """The reason why matches are listed to make the groups of SUMMARIZE, whatever the events; None: there is none."""
    if (reason := _needs_matches(pattern)) is not None:
        return reason
    if (route := route_to_count(pattern)).lists:
        return route.because
    if _counts_only(pattern):
        return None
    fields = [("timestamp", pa.timestamp("us", "UTC")), ("seq", pa.int64())]
    fields += [(name, ARROW_TYPES[kind]) for name, kind in pattern.attributes]
    nothing = pa.schema(fields).empty_table()
    events = PreparedEvents(nothing, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    try:
        RowsBySemirings(pattern, events, EVERYTHING, PartialSummary(pattern), 0).run()
    except NotCounted as error:
        return str(error)
    return None
