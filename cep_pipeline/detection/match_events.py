"""The events of matches, a row each: what a person wants to see of a match, and any engine reads without lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import InputError
from cep_pipeline.storage import id_texts

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


def with_events_inside(matches: pa.Table, find: Callable[[pa.Table], pa.Table]) -> pa.Table:
    """Return matches in whose bindings the events inside composed matches stand in place of these.

    Where `r` binds a match whose pattern has the variables `a` and `b`, the new variables are `r.a` and `r.b`.

    Parameters
    ----------
    find
        Returns, of some matches, those that they compose: `match_id`, `bindings` and `composed`. One that it does not
        return stays as it is, with the seq of its last event.
    """
    if "composed" not in matches.column_names or not pc.sum(pc.list_value_length(matches["composed"])).as_py():
        return matches
    inside = with_events_inside(find(matches), find)
    ids = id_texts(inside["match_id"]).to_pylist()
    known = dict(zip(ids, inside["bindings"].to_pylist(), strict=True))
    rows = zip(matches["bindings"].to_pylist(), matches["composed"].to_pylist(), strict=True)
    bindings = [_opened(bound, composed or [], known) for bound, composed in rows]
    place = matches.schema.get_field_index("bindings")
    return matches.set_column(place, matches.schema.field(place), pa.array(bindings, matches.schema.types[place]))


def _opened(bound: list[Bound], composed: list[Bound], known: Mapping[str, list[Bound]]) -> list[Bound]:
    """The bindings of a match with those of its composed matches in place of theirs.

    A composed match stands behind the event that is its last one. So they are told from the end.
    """
    waiting, found = list(composed), list[Bound]()
    for one in reversed(bound):
        inner = known.get(str(waiting[-1]["match_id"])) if waiting else None
        if waiting and waiting[-1]["variable"] == one["variable"]:
            if inner is None:
                waiting.pop()
            elif max(event["seq"] for event in inner) == one["seq"]:
                waiting.pop()
                names = ({**event, "variable": f"{one['variable']}.{event['variable']}"} for event in reversed(inner))
                found.extend(names)
                continue
        found.append(one)
    return found[::-1]


Bound = dict[str, Any]
"""One element of `bindings` or `composed`."""
_CLOCK = ("timestamp", "seq")


def _free(name: str) -> str:
    """The column of an attribute, which may have the name of a column of the match."""
    return f"{name}_of_event" if name in OF_MATCH else name
