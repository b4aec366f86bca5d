"""Rows of SUMMARIZE without listing matches: the choice of a way for each clause, and for each aggregate.

| what is made | of what |
| --- | --- |
| `count(*)` alone | the number of matches: `counting.sweep` |
| anything over one variable at an end, or compared with all | matches with each of its events: `counting.sweep` |
| groups and aggregates over one event; one end of a list, its length, min or max | numbers of matches: `numbers` |
| sum, avg of `sum(k[].x)`, and of sums, differences and products, if all are exact | the same, an element apart |
| min, max of what rises or falls with one of two values | the same, by bounds of one value |
| anything over variables that restrict no other ones | partial matches: `partial_matches` |
| anything over two variables at the ends of a chain of comparisons | pairs that a sweep counts: `partial_matches` |
| anything else that reads events, lengths and extremes of lists | numbers of matches for combinations of few values |

The rest is listed: what is read of all elements of a list together (docs/mechanisms.md says why). Each clause of a
pattern is a pattern of its own, since matches of clauses that bind different variables are different matches; clauses
that bind the same ones are added and taken away in turn (`choice.signed_clauses`). And where the aggregates ask for
different ways, each is made by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.counting.choice import finding_takes_long, signed_clauses
from cep_pipeline.detection.counting.owned import count_owned, not_counted_because
from cep_pipeline.detection.counting.sweep import count_swept
from cep_pipeline.detection.kleene.bindings import clause_over
from cep_pipeline.detection.matches import RETURN_TYPES
from cep_pipeline.detection.mechanisms import EVERYTHING, Owned
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.summaries.numbers import RowsOfNumbers, with_columns
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.detection.summaries.partial_matches import (
    add_partial_matches,
    add_swept_pairs,
    bound_variables,
    swept_pair,
    swept_variable,
)
from cep_pipeline.detection.summaries.values import NotCounted, in_words
from cep_pipeline.events.columns import ARROW_TYPES
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
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy, Summary, SummaryAggregate, SummaryGroup
from cep_pipeline.patterns.rewriting import restricted, rewritten, with_operands
from cep_pipeline.patterns.structure import Composite, Operator, Structure
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import leaf_of, view_of_leaf

FEW_MATCHES = 1 << 20
"""Number of matches that are listed in less time than most summaries take without a list."""
MATCHES_OF_ONE = 2
"""Matches for each partial match from which on partial matches, which stand for several matches, are faster."""
_NULLS = {kind: f"\0null {kind.value}" for kind in ValueType}
"""Columns of nulls, by their type: what a clause reads of variables that it does not bind."""
Read = TypeVar("Read", SummaryAggregate, SummaryGroup)


def summarize_unlisted(pattern: Pattern, events: PreparedEvents, owned: Owned) -> PartialSummary | None:
    """The groups of SUMMARIZE over the matches that a slice owns; None where the matches are to be listed.

    None is also returned where there are few matches.
    """
    summary = PartialSummary(pattern)
    if needs_matches(pattern) is not None:
        return None
    assert pattern.summary is not None
    if not pattern.items and not pattern.summary.groups:
        total = count_owned(pattern, events, owned, finding=True)
        if total is not None:
            summary.group(()).matches = total
        return None if total is None else summary
    apart = _signed_parts(pattern)
    numbers = [count_owned(one, events, owned) for _, one in apart]
    if _are_few(numbers):
        return None
    if len(apart) > 1:
        events = with_columns(events, {name: pa.nulls(len(events), RETURN_TYPES[of]) for of, name in _NULLS.items()})
        numbers = [
            count_owned(one, events, owned, always=True, finding=_is_found_soon(one, events, owned))
            if number is None
            else number
            for (_, one), number in zip(apart, numbers, strict=True)
        ]
        if _are_few(numbers):
            return None
    for (sign, one), number in zip(apart, numbers, strict=True):
        part = PartialSummary(one) if number == 0 else _of_clause_apart(one, events, owned, number, len(apart) > 1)
        if part is None:
            return None
        summary.add(part, sign)
    summary.groups = {key: row for key, row in summary.groups.items() if row.matches or not key}
    return summary


def _are_few(numbers: Sequence[int | None]) -> bool:
    """Return whether the matches of all parts are known to be few."""
    return None not in numbers and sum(number or 0 for number in numbers) <= FEW_MATCHES


def _is_found_soon(pattern: Pattern, events: PreparedEvents, owned: Owned) -> bool:
    """Return whether the matches of a pattern of one clause are found in less time than most counts take."""
    return not finding_takes_long(ClauseSlice(pattern, pattern.clauses[0], events, owned))


def needs_matches(pattern: Pattern) -> str | None:
    """The reason why SUMMARIZE asks for the matches themselves, whatever it reads of them; None: there is none."""
    if has_output_policy(pattern):
        return "OUTPUT and CONSUME choose among them"
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return f"of the strategy {pattern.strategy.value}"
    if pattern.composes:
        return "the pattern composes others"
    if signed_clauses(pattern) is None:
        return "many clauses bind the same variables"
    return None


def explained(pattern: Pattern) -> str:
    """The way in which the groups of a pattern with SUMMARIZE are made of many matches, in words.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> text = "PATTERN SEQ(A a, B b, C c) WITHIN 1 day SUMMARIZE "
    >>> for summary in ("sum(a.x)", "sum(b.x * a.x)", "avg(b.x / a.x)", "max(a.x + b.x * c.x)"):
    ...     print(explained(*cep.parse_patterns(text + summary, schema)))
    groups are made of numbers of matches, which are not listed
    groups are made of numbers of matches, which are not listed
    groups are made over partial matches of a and b, each of which stands for many matches
    groups are made of numbers of matches with each combination of values, where these are few
    """
    reason = needs_matches(pattern)
    if reason is not None:
        return f"matches are listed to make groups, since {reason}"
    ways: dict[str, None] = {}
    for _, one in _signed_parts(pattern):
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
        if _reason_not_to_count(pattern, RowsOfNumbers.run_by_values) is not None:
            return None
        return "groups are made of numbers of matches with each combination of values, where these are few"
    return f"groups are made over partial matches of {in_words(bound)}, each of which stands for many matches"


def _reason_not_to_count(pattern: Pattern, way: Callable[[RowsOfNumbers], None] = RowsOfNumbers.run) -> str | None:
    """The reason why the groups of a pattern of one clause cannot be made of numbers of matches, whatever its data."""
    if (because := not_counted_because(pattern)) is not None:
        return because
    fields = [("timestamp", pa.timestamp("us", "UTC")), ("seq", pa.int64())]
    fields += [(name, ARROW_TYPES[kind]) for name, kind in pattern.attributes]
    nothing = pa.schema(fields).empty_table()
    events = PreparedEvents(nothing, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    try:
        rows = RowsOfNumbers(pattern, events, EVERYTHING, PartialSummary(pattern), 0, 0)
        way(rows)
    except NotCounted as reason:
        return str(reason)
    return None


def _signed_parts(pattern: Pattern) -> list[tuple[int, Pattern]]:
    """The clauses whose matches make those of the pattern, each as a pattern of its own, with its sign."""
    return [(sign, _of_clause(pattern, clause)) for sign, clause in signed_clauses(pattern) or ()]


def _of_clause(pattern: Pattern, clause: Clause) -> Pattern:
    """A clause as a pattern of its own, in which what the clause does not bind is null, or a list without elements."""
    if len(pattern.clauses) == 1:
        return pattern
    assert pattern.summary is not None
    present = {one.name for one in clause.read}
    structure = restricted(pattern.structure, present)
    assert structure is not None
    structure = _without_choice(structure)
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


def _without_choice(structure: Structure) -> Structure:
    """The structure with AND in place of OR: all that is left to choose from is what is negated."""
    if not isinstance(structure, Composite):
        return structure
    operator = Operator.AND if structure.operator is Operator.OR else structure.operator
    return replace(structure, operator=operator, operands=tuple(map(_without_choice, structure.operands)))


def _of_clause_apart(
    pattern: Pattern, events: PreparedEvents, owned: Owned, number: int | None, is_part: bool
) -> PartialSummary | None:
    """The same as `_of_one_clause`; where no way makes all aggregates together, each is made by itself."""
    if number is None and not is_part and _is_found_soon(pattern, events, owned):
        return None
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
    one = swept_variable(pattern)
    if number is not None:
        if one is not None and add_swept_pairs(summary, pattern, events, owned, None, one, always=True):
            return summary
        few = None if names is None else _number_of_partial_matches(of, tuple(names))
        if few is None or few > FEW_MATCHES:
            for way in (RowsOfNumbers.run, RowsOfNumbers.run_by_values):
                try:
                    way(RowsOfNumbers(pattern, events, owned, summary, number, min(few or number, number)))
                    return summary
                except NotCounted:
                    summary = PartialSummary(pattern)
        if few is not None and MATCHES_OF_ONE * few > number and not is_part:
            return None
    if pair is not None:
        always = is_part or number is not None
        return summary if add_swept_pairs(summary, pattern, events, owned, pair, always=always) else None
    if bound is None:
        return None
    add_partial_matches(summary, pattern, events, owned, bound)
    return summary


def _number_of_partial_matches(of: ClauseSlice, bound: tuple[str, ...]) -> int | None:
    """The number of partial matches of some variables, if it is known without finding them."""
    if len(bound) == 1:
        return len(view_of_leaf(of.events, leaf_of(of.clause, bound[0]), 0, len(of.events)))
    return count_swept(of._replace(clause=clause_over(of.clause, bound)), always=True)
