"""The events of matches, a row each, and the conditions of a match with the values that its events have.

The rows are what a person wants to see of a match, and what any engine reads without lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.matches import column_to_arrow
from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import SEQ_PER_DAY
from cep_pipeline.expressions.columns import Array, TableColumns
from cep_pipeline.expressions.lists import Lists, values_compared
from cep_pipeline.language.formatter import format_expression
from cep_pipeline.patterns.conditions import expressions_of
from cep_pipeline.patterns.expressions import Literal
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.statistics.terms import format_conjunct

OF_MATCH = ("pattern", "match_id", "variable")
"""Columns that say which match a row belongs to, and which variable of its pattern binds the event."""


def match_events(matches: pa.Table, events: pa.Table, attributes: Sequence[str] | None = None) -> pa.Table:
    """Return the events that matches bind, in the order of the matches and of their bindings.

    Parameters
    ----------
    matches
        Matches in the verbose form, of one or several patterns.
    events
        Events with `seq`, in any order; those of other matches, or of none, may be among them.
    attributes
        Columns of the events that are taken beside `timestamp` and `seq`; None: all.

    Returns
    -------
    pyarrow.Table
        `pattern`, `match_id`, `variable`, then `timestamp`, `seq` and the attributes. An event that is not among the
        events has its `seq` alone.

    Raises
    ------
    InputError
        The matches are not in the verbose form, or the events lack a column.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> rows = [{"timestamp": 0, "kind": "A", "x": 1}, {"timestamp": 5, "kind": "B", "x": 3}]
    >>> patterns = cep.parse_patterns("NAME rise PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 second", schema)
    >>> events = schema.table(rows)
    >>> match_events(cep.detect(patterns, events)["rise"], events).select(["variable", "x"]).to_pylist()
    [{'variable': 'a', 'x': 1}, {'variable': 'b', 'x': 3}]
    """
    if "bindings" not in matches.column_names:
        raise InputError(
            f"these are no matches with their events: the columns are {', '.join(matches.column_names)}; detect with "
            "the output 'verbose', or expand what is compressed"
        )
    taken = [
        "timestamp",
        *(name for name in (events.column_names if attributes is None else attributes) if name not in _CLOCK),
    ]
    missing = [name for name in (*taken, "seq") if name not in events.column_names]
    if missing:
        raise InputError(f"the events have no column {missing[0]!r}; they have {', '.join(events.column_names)}")
    bindings = matches.column("bindings").combine_chunks()
    bound = pc.list_flatten(bindings)
    match = pc.list_parent_indices(bindings)
    seqs = bound.field("seq")
    place = pc.index_in(seqs, value_set=events.column("seq").combine_chunks())
    columns = {name: matches.column(name).take(match) for name in OF_MATCH[:2]}
    columns["variable"] = bound.field("variable")
    found = events.select(taken).take(place)
    columns |= {"timestamp": found.column("timestamp"), "seq": seqs}
    columns |= {_free(name): found.column(name) for name in taken[1:]}
    return pa.table(columns)


_CLOCK = ("timestamp", "seq")


def _free(name: str) -> str:
    """The column of an attribute, which may have the name of a column of the match."""
    return f"{name}_of_event" if name in OF_MATCH else name


SHOWN_VALUES = 8
"""Values of one expression over the events of a list that are shown."""


@dataclass(frozen=True)
class ConditionValues:
    """A condition of a pattern with the values that the events of a match have in it.

    Attributes
    ----------
    condition
        The condition as the language writes it.
    values
        Each expression that is compared, with its value; with several values where a variable binds a list of events.
        There are none where an event is not known any more.
    holds
        Whether the values fulfil the condition; None where there are none, as of events that must not be there.
    """

    condition: str
    values: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    holds: bool | None = None

    @property
    def shown(self) -> str:
        """The values for a person, as in `a.x = 3; b[].x = 4, 5`."""
        return "; ".join(f"{name} = {_listed(values)}" for name, values in self.values)


def condition_values(pattern: Pattern, match: Mapping[str, Any], events: pa.Table) -> list[ConditionValues]:
    """Return the conditions that a match fulfils, each with the values of its events.

    Parameters
    ----------
    pattern
        The pattern of the match.
    match
        A row of a table of matches: its `bindings` say which events each variable binds.
    events
        The events of the match, in any order, with the attributes that the pattern reads.

    Returns
    -------
    list of ConditionValues
        What all events agree on, and then the conjuncts of the clause of the normal form whose variables are bound, in
        the order of the pattern.

    Raises
    ------
    InputError
        The pattern has no clause of the variables that are bound: it is not the one that found the match.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> events = schema.table([{"timestamp": at, "kind": "AB"[at > 0], "x": 3 * at + 1} for at in range(3)])
    >>> text = "NAME rise PATTERN SEQ(A a, B+ b[]) WHERE b[].x > a.x + 2 WITHIN 1 second"
    >>> [pattern] = cep.parse_patterns(text, schema)
    >>> match = cep.detect(pattern, events)["rise"].to_pylist()[1]
    >>> [(one.condition, one.shown, one.holds) for one in condition_values(pattern, match, events)]
    [('b[].x > a.x + 2', 'b[].x = 4, 7; a.x + 2 = 3', True)]
    """
    bound: dict[str, list[int]] = {}
    for one in match["bindings"]:
        bound.setdefault(one["variable"], []).append(one["seq"])
    clause = next((one for one in pattern.clauses if {v.name for v in one.positive} == set(bound)), None)
    if clause is None:
        raise InputError(
            f"the pattern {pattern.name!r} binds no {', '.join(bound)}: it has changed since the match was found"
        )
    source = TableColumns(events)
    there = {int(seq): row for row, seq in enumerate(events.column("seq").to_pylist())}
    rows = {name: np.array([there[one] for one in seqs if one in there], np.int64) for name, seqs in bound.items()}
    known = {name for name, seqs in bound.items() if len(rows[name]) == len(seqs)}
    lists: dict[str, Array | Lists] = {
        one.name: Lists(np.zeros(1, np.int64), np.array([len(rows[one.name])]), rows[one.name])
        if one.kleene
        else rows[one.name]
        for one in clause.positive
    }
    found = _agreements(clause, events, np.concatenate([*rows.values()]), known == set(bound))
    for conjunct in clause.conjuncts:
        if not conjunct.variables <= known or not conjunct.variables:
            found.append(ConditionValues(format_conjunct(conjunct)))
            continue
        truth, columns = values_compared(conjunct, source, lists)
        values: dict[str, tuple[Any, ...]] = {}
        for atom, own in zip(conjunct.atoms, columns, strict=True):
            for expression, column in zip(expressions_of(atom), own, strict=True):
                if not isinstance(expression, Literal):
                    values[format_expression(expression)] = _distinct(column_to_arrow(column).to_pylist())
        found.append(ConditionValues(format_conjunct(conjunct), tuple(values.items()), bool(truth.all())))
    return found


def window_used(pattern: Pattern, match: Mapping[str, Any]) -> str:
    """Return the part of the window that a match takes, as in `2500 ms of 10 s (25 %)`."""
    window, seqs = pattern.window, [one["seq"] for one in match["bindings"]]
    if window.time_us is not None:
        span = (match["end_ts"] - match["start_ts"]) // timedelta(microseconds=1)
        return f"{Window(time_us=span) if span else '0 s'} of {window} ({span / window.time_us:.0%})"
    if min(seqs) // SEQ_PER_DAY != max(seqs) // SEQ_PER_DAY:
        return str(window)  # events of several days: their numbers do not tell how many are between them
    assert window.events is not None
    taken = max(seqs) - min(seqs) + 1
    return f"{taken} of {window} ({taken / window.events:.0%})"


def _agreements(clause: Clause, events: pa.Table, rows: Array, complete: bool) -> list[ConditionValues]:
    """The attributes on which all events of a match agree, each with its value."""
    found = []
    for name in clause.agree_on:
        said = f"PARTITION BY {name}" if name in clause.partition_by else f"[{name}]"
        values = _distinct(events.column(name).take(pa.array(rows)).to_pylist())
        agree = len(values) == 1 and None not in values
        found.append(ConditionValues(said, ((name, values),), agree if complete else None))
    return found


def _distinct(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values; one where all of them are equal."""
    return tuple(values[:1] if values and all(one == values[0] for one in values) else values)


def _listed(values: Sequence[Any]) -> str:
    texts = [f"{one:.10g}" if isinstance(one, float) else "no value" if one is None else str(one) for one in values]
    more = len(texts) - SHOWN_VALUES
    return ", ".join(texts if more <= 0 else [*texts[: SHOWN_VALUES - 1], f"… {more:,} more …", texts[-1]])
