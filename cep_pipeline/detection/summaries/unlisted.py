"""Rows of SUMMARIZE without listing matches: the choice of a way for each clause, and for each aggregate.

| what is made | of what |
| --- | --- |
| `count(*)` alone | the number of matches: `counting.owned` |
| anything over one variable at an end of a sequence | matches with each of its events: `counting.sweep` |
| groups, sums and extremes over one event each; over one end of a list, its length, its elements | `by_semiring` |
| sum, avg of sums and differences of these, if all are exact | the same |

The rest is listed (docs/mechanisms.md says why). Each clause of a
pattern is a pattern of its own, since matches of clauses that bind different variables are different matches. And
where the aggregates ask for different ways, each is made by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.costs import finding_takes_long, listed_to_summarize
from cep_pipeline.detection.counting.owned import count_owned, not_counted_because
from cep_pipeline.detection.counting.sweep import count_by_event
from cep_pipeline.detection.fused.clause import last_variable
from cep_pipeline.detection.matches import RETURN_TYPES, column_to_arrow
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Owned
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.route import CHOSEN_AMONG, Executor, Route, Sink
from cep_pipeline.detection.summaries.by_semiring import NotCounted, RowsBySemirings
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.events.columns import ARROW_TYPES
from cep_pipeline.expressions.evaluate import expression_values
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
from cep_pipeline.slices.ownership import finality_of
from cep_pipeline.slices.prepared import PreparedEvents

_NULLS = {kind: f"\0null {kind.value}" for kind in ValueType}
"""Columns of nulls, by their type: what a clause reads of variables that it does not bind."""
Read = TypeVar("Read", SummaryAggregate, SummaryGroup)


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
    assert pattern.summary is not None
    if not pattern.items and not pattern.summary.groups:
        total = count_owned(pattern, events, owned, finding=True)
        if total is None:
            raise NotCounted(not_counted_because(pattern) or FEW)
        summary.group(()).matches = total
        return summary
    apart = [_of_clause(pattern, clause) for clause in pattern.clauses]
    numbers = [count_owned(one, events, owned) for one in apart]
    if listed_to_summarize(numbers):
        raise NotCounted(FEW)
    if len(apart) > 1:
        table = events.table
        for of, name in _NULLS.items():
            table = table.append_column(name, pa.nulls(len(events), RETURN_TYPES[of]))
        events = PreparedEvents(table, type_attribute=events.type_attribute, base_type=events.base_type)
        numbers = [
            count_owned(one, events, owned, always=True, finding=_is_found_soon(one, events, owned))
            if number is None
            else number
            for one, number in zip(apart, numbers, strict=True)
        ]
        if listed_to_summarize(numbers):
            raise NotCounted(FEW)
    for one, number in zip(apart, numbers, strict=True):
        if number is None:
            raise NotCounted(not_counted_because(one) or FEW)
        if number:
            summary.add(_of_clause_apart(one, events, owned, number))
    return summary


FEW = "there are few matches"


def _is_found_soon(pattern: Pattern, events: PreparedEvents, owned: Owned) -> bool:
    """Return whether the matches of a pattern of one clause are found in less time than most counts take."""
    return not finding_takes_long(ClauseSlice(pattern, pattern.clauses[0], events, owned))


def _needs_matches(pattern: Pattern) -> str | None:
    """The reason why SUMMARIZE asks for the matches themselves, whatever it reads of them; None: there is none."""
    if has_output_policy(pattern):
        return CHOSEN_AMONG
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return f"of the strategy {pattern.strategy.value}"
    if pattern.composes:
        return "the pattern composes others"
    if len({clause.positive for clause in pattern.clauses}) < len(pattern.clauses):
        return "several clauses bind the same variables"
    return None


def not_summarized_because(pattern: Pattern) -> str | None:
    """The reason why matches are listed to make the groups of SUMMARIZE, whatever the events; None: there is none."""
    reasons = [_needs_matches(pattern)]
    if reasons == [None]:
        for one in (_of_clause(pattern, clause) for clause in pattern.clauses):
            apart = _by_aggregate(one) if _reason_not_to_count(one) is not None else []
            reasons += map(_reason_not_to_count, apart if len(apart) > 1 else [one])
    return next(filter(None, reasons), None)


def _reason_not_to_count(pattern: Pattern) -> str | None:
    """The reason why the groups of a pattern of one clause cannot be made by sweeps, whatever its data."""
    if (because := not_counted_because(pattern)) is not None:
        return because
    fields = [("timestamp", pa.timestamp("us", "UTC")), ("seq", pa.int64())]
    fields += [(name, ARROW_TYPES[kind]) for name, kind in pattern.attributes]
    nothing = pa.schema(fields).empty_table()
    events = PreparedEvents(nothing, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    try:
        RowsBySemirings(pattern, events, EVERYTHING, PartialSummary(pattern), 0).run()
    except NotCounted as reason:
        return str(reason)
    return None


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


def _of_clause_apart(pattern: Pattern, events: PreparedEvents, owned: Owned, number: int) -> PartialSummary:
    """The same as `_of_one_clause`; where no way makes all aggregates together, each is made by itself."""
    try:
        return _of_one_clause(pattern, events, owned, number)
    except NotCounted:
        if len(parts := _by_aggregate(pattern)) < 2:
            raise
    found = [_of_one_clause(one, events, owned, number) for one in parts]
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


def _of_one_clause(pattern: Pattern, events: PreparedEvents, owned: Owned, number: int) -> PartialSummary:
    """The summary of a pattern of one clause that has `number` matches; NotCounted: they are to be listed."""
    summary = PartialSummary(pattern)
    name = _only_variable(pattern)
    if name is None or not _add_by_event(summary, pattern, events, owned, name):
        RowsBySemirings(pattern, events, owned, summary, number).run()
    return summary


def _only_variable(pattern: Pattern) -> str | None:
    """The single variable that says all that is asked of a match; None where there is none."""
    [clause] = pattern.clauses
    assert pattern.summary is not None
    names = {name for item in pattern.items for name in variables_of(item.expression)}
    if any(group.bucket_us is not None for group in pattern.summary.groups):
        names.add(last_variable(pattern, clause) or "")
    name = min(names, default="")
    return name if len(names) == 1 and name in clause.by_name and not clause.by_name[name].kleene else None


def _add_by_event(summary: PartialSummary, pattern: Pattern, events: PreparedEvents, owned: Owned, name: str) -> bool:
    """Add to a summary the matches by the events of one variable, which a sweep counts; False where it does not."""
    [clause] = pattern.clauses
    found = count_by_event(ClauseSlice(pattern, clause, events, owned, finality_of(pattern, clause)), name)
    if found is None:
        return False
    rows, numbers = found
    items = [column_to_arrow(expression_values(one.expression, events, {name: rows})) for one in pattern.items]
    if len(rows):
        summary.add_matches(events.timestamps[rows], items, numbers)
    return True
