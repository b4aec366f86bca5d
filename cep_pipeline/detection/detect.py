"""`detect`: the matches of patterns over a table of events, and of one slice of a stream for a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, overload

import pyarrow as pa

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.blocks import Block
from cep_pipeline.detection.events_input import events_for
from cep_pipeline.detection.matches import matches_schema, write_matches
from cep_pipeline.detection.mechanism import EVERYTHING, Counters, Metrics, Orders, Owned
from cep_pipeline.detection.ordering import order_matches
from cep_pipeline.detection.output_policy import KeptMatches, has_output_policy, policy_text
from cep_pipeline.detection.parts import matches_in_parts
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.errors import InputError, UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan, validate

OUTPUTS = ("verbose", "count")
"""Forms of output that are executed."""
_KNOWN_OUTPUTS = ("verbose", "compressed", "count")
COUNT_SCHEMA = pa.schema([("pattern", pa.string()), ("count", pa.string())])
"""Columns of the count output; the count is decimal text, since it may exceed every integer type."""

Tables = dict[str, pa.Table]


@overload
def detect(
    patterns: Sequence[Pattern],
    events: pa.Table,
    plan: Plan | None = None,
    mechanism: str | None = None,
    output: str = "verbose",
    metrics: Literal[False] = False,
) -> Tables: ...


@overload
def detect(
    patterns: Sequence[Pattern],
    events: pa.Table,
    plan: Plan | None = None,
    mechanism: str | None = None,
    output: str = "verbose",
    *,
    metrics: Literal[True],
) -> tuple[Tables, Metrics]: ...


def detect(
    patterns: Sequence[Pattern],
    events: pa.Table,
    plan: Plan | None = None,
    mechanism: str | None = None,
    output: str = "verbose",
    metrics: bool = False,
) -> Tables | tuple[Tables, Metrics]:
    """Find all matches of patterns in a table of events.

    Parameters
    ----------
    patterns
        Patterns of the events' stream, with different names.
    events
        Events sorted by (timestamp, seq): `timestamp` (timestamp[us] or int64 microseconds since the epoch), `seq`
        (int64, unique) and the attributes that the patterns use; strings may be dictionaries.
    plan
        How to run the patterns; None makes one from the statistics of the events.
    mechanism
        A name of `MECHANISMS`; None takes for each pattern the fastest that runs it.
    output
        `"verbose"`: one row a match. `"count"`: one row a pattern with the number of its matches.
    metrics
        Whether to return what was counted beside the tables.

    Returns
    -------
    dict of str to pa.Table, or with it Metrics
        Pattern name -> matches in the page's order (language page, section 5), in the order of the patterns, empty
        tables too.

    Raises
    ------
    InputError
        An unknown mechanism or output, two patterns of one name, or events that do not fit the patterns.
    UnsupportedPattern
        The mechanism does not run a pattern, or none does.
    PlanError
        The plan was made for other patterns.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> rows = [{"timestamp": 0, "kind": "A", "x": 1}, {"timestamp": 5, "kind": "B", "x": 3}]
    >>> patterns = cep.parse_patterns("NAME rise PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 second", schema)
    >>> cep.detect(patterns, schema.table(rows))["rise"].column("bindings").to_pylist()
    [[{'variable': 'a', 'seq': 0}, {'variable': 'b', 'seq': 1}]]
    """
    _check_output(output, patterns)
    if not patterns:
        return ({}, Metrics({})) if metrics else {}
    chosen = choose_mechanisms(patterns, mechanism)
    table = events_for(patterns, events)
    plan = _plan_for(patterns, table, plan, chosen)
    prepared = _prepare(patterns, table)
    counters = Counters()
    tables: Tables = {}
    for pattern in patterns:
        of_stream = prepared[pattern.type_attribute, pattern.base_type]
        parts = _parts(pattern, chosen[pattern.name], plan, of_stream, EVERYTHING, counters)
        if output == "count":
            orders: Orders = [clause.order_or_tree for clause in plan.for_pattern(pattern.name).clauses]
            count = MECHANISMS[chosen[pattern.name]].count(pattern, orders, of_stream, counters)
            tables[pattern.name] = _count_table(pattern, _count(parts, of_stream) if count is None else count)
        else:
            batches: list[pa.RecordBatch] = []
            kept = KeptMatches(pattern) if has_output_policy(pattern) else None
            for blocks in parts:
                write_matches(pattern, blocks, of_stream, batches.append, typed=True, kept=kept)
            tables[pattern.name] = pa.Table.from_batches(batches, matches_schema(pattern))
    return (tables, counters.metrics(chosen)) if metrics else tables


@dataclass(frozen=True)
class SliceResult:
    """What one slice gave: pattern name -> number of owned matches, and what was counted."""

    matches: dict[str, int]
    metrics: Metrics


def detect_slice(
    patterns: Sequence[Pattern],
    plan: Plan,
    events: pa.Table,
    owned: Owned,
    sink: Callable[[Pattern, pa.RecordBatch], object],
    mechanism: str | None = None,
) -> SliceResult:
    """Find the matches that a slice owns; for tasks, which run it on their part of a stream.

    Parameters
    ----------
    patterns, plan, mechanism
        As in `detect`; the events are prepared once for all patterns.
    events
        The events of the slice with the look-back before its start, sorted by (timestamp, seq).
    owned
        `[start, end)`: the points between which a match must become final. None is an open end.
    sink
        Takes the matches of each pattern in the page's order, batch after batch with the schema `MANY_PATTERNS`. Which
        matches of a pattern with OUTPUT or CONSUME are kept is not for one slice to say: of such a pattern it takes
        all, with the schema `CANDIDATES`.

    Raises
    ------
    InputError, UnsupportedPattern, PlanError
        As `detect`.
    """
    chosen = choose_mechanisms(patterns, mechanism)
    validate(plan, patterns)
    table = events_for(patterns, events, "events of the slice")
    prepared = _prepare(patterns, table)
    counters = Counters()
    written = dict.fromkeys(chosen, 0)
    for pattern in patterns:
        of_stream = prepared[pattern.type_attribute, pattern.base_type]
        for blocks in _parts(pattern, chosen[pattern.name], plan, of_stream, owned, counters):
            written[pattern.name] += write_matches(
                pattern, blocks, of_stream, partial(sink, pattern), candidates=has_output_policy(pattern)
            )
    return SliceResult(written, counters.metrics(chosen))


def choose_mechanisms(patterns: Sequence[Pattern], mechanism: str | None = None) -> dict[str, str]:
    """The mechanism that runs each pattern, by the pattern's name: the one asked for, or the fastest that can.

    Raises
    ------
    InputError
        There is no such mechanism, or two patterns have one name.
    UnsupportedPattern
        The mechanism does not run a pattern; without one asked for: none does.
    """
    if mechanism is not None and mechanism not in MECHANISMS:
        raise InputError(f"there is no mechanism {mechanism!r}; there are: {', '.join(MECHANISMS)}")
    chosen: dict[str, str] = {}
    for pattern in patterns:
        if pattern.name in chosen:
            raise InputError(f"two patterns are named {pattern.name!r}; the tables are told apart by name: rename one")
        chosen[pattern.name] = mechanism if mechanism is not None else _fastest(pattern)
        _refuse(pattern, chosen[pattern.name])
    return chosen


def _fastest(pattern: Pattern) -> str:
    """The first of `MECHANISMS`, which go from fast to slow, that runs the pattern (the first of all if none does)."""
    for name in MECHANISMS:
        try:
            _refuse(pattern, name)
        except UnsupportedPattern:
            continue
        return name
    return next(iter(MECHANISMS))


def _refuse(pattern: Pattern, mechanism: str) -> None:
    MECHANISMS[mechanism].check(pattern)


def _check_output(output: str, patterns: Sequence[Pattern]) -> None:
    if output not in _KNOWN_OUTPUTS:
        raise InputError(f"there is no output {output!r}; there are: {', '.join(_KNOWN_OUTPUTS)}")
    if output not in OUTPUTS:
        raise UnsupportedPattern("detect", f"output '{output}'", hint=f"use {' or '.join(map(repr, OUTPUTS))}")
    if output != "verbose":
        for pattern in patterns:
            if has_output_policy(pattern):
                feature = f"output {output!r} with {policy_text(pattern)}"
                raise UnsupportedPattern("detect", feature, pattern=pattern.name, hint="use 'verbose'")


def in_pattern_order(chosen: Mapping[str, str]) -> set[str]:
    """The patterns whose mechanism, of those chosen, runs plans in the pattern's order only."""
    return {pattern for pattern, mechanism in chosen.items() if MECHANISMS[mechanism].in_pattern_order}


def _plan_for(patterns: Sequence[Pattern], events: pa.Table, plan: Plan | None, chosen: Mapping[str, str]) -> Plan:
    if plan is None:
        from cep_pipeline.planning import plan_by_strategy
        from cep_pipeline.statistics import estimate_statistics

        snapshot = estimate_statistics(patterns, events)
        plan = plan_by_strategy(patterns, snapshot, in_pattern_order=in_pattern_order(chosen))
    validate(plan, patterns)
    return plan


def _prepare(patterns: Sequence[Pattern], events: pa.Table) -> dict[tuple[str, str | None], PreparedEvents]:
    """The events prepared once for all patterns (of one stream, so mostly there is one entry)."""
    prepared: dict[tuple[str, str | None], PreparedEvents] = {}
    for pattern in patterns:
        key = pattern.type_attribute, pattern.base_type
        if key not in prepared:
            prepared[key] = PreparedEvents(events, type_attribute=key[0], base_type=key[1])
    for key, slice_ in prepared.items():
        of_stream = (p for p in patterns if (p.type_attribute, p.base_type) == key)
        slice_.split(operand.event_type for pattern in of_stream for operand in pattern.operands)
    return prepared


def _parts(
    pattern: Pattern, mechanism: str, plan: Plan, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[list[Block]]:
    orders: Orders = [clause.order_or_tree for clause in plan.for_pattern(pattern.name).clauses]
    return matches_in_parts(pattern, MECHANISMS[mechanism], orders, events, owned, counters)


def _count(parts: Iterable[list[Block]], events: PreparedEvents) -> int:
    count = 0
    for blocks in parts:
        if len({block.clause.index for block in blocks}) > 1:  # clauses may share bindings, which count once
            count += len(order_matches(blocks, events.seqs))
        else:
            count += sum(map(len, blocks))
    return count


def _count_table(pattern: Pattern, count: int) -> pa.Table:
    return pa.table({"pattern": [pattern.name], "count": [str(count)]}, COUNT_SCHEMA)
