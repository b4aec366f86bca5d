"""Derived attributes: differences and histories per event type, carried from day to day.

Notes
-----
The values of an attribute for an event type are its non-null values in stream order. The difference of an event is
its value minus the one before; the history is the list of the last h values, the event's own the last of them [1]_
(where it is null, all are earlier ones), fewer at the beginning of the stream. Both look across days: what comes
before is carried in. The first difference of a type is null, as is one that overflows int64 (NaN in a history).

References
----------
.. [1] Kolchinsky, Sharfman, Schuster: Lazy Evaluation Methods for Detecting Complex Events, DEBS 2015, section 7.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import TypedDict

from cep_pipeline.storage import digest_of

if TYPE_CHECKING:
    from cep_pipeline.events.stream_document import DerivedAttribute

Number = int | float
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class CarryForm(TypedDict):
    """The JSON form of a carry-in; numbers that JSON cannot say are text."""

    version: Literal[1]
    last_values: Mapping[str, Mapping[str, tuple[int | float | Literal["NaN", "Infinity", "-Infinity"], ...]]]


@dataclass(frozen=True)
class Carry:
    """Attribute -> event type -> its last values, the latest last.

    Examples
    --------
    >>> before = Carry({"price": {"SPY": (1.0, 2.0), "IBM": (7.0,)}})
    >>> after = before.followed_by(Carry({"price": {"SPY": (3.0,)}}), {"price": 2})
    >>> after.values["price"]
    {'IBM': (7.0,), 'SPY': (2.0, 3.0)}
    >>> Carry.from_json(after.to_json()) == after
    True
    """

    values: Mapping[str, Mapping[str, tuple[Number, ...]]] = field(default_factory=dict)

    def of(self, attribute: str) -> Mapping[str, tuple[Number, ...]]:
        """The last values of an attribute by event type."""
        return self.values.get(attribute, {})

    def followed_by(self, later: Carry, lengths: Mapping[str, int]) -> Carry:
        """The last values after both, at most `lengths` of each attribute; types of either are kept."""
        joined: dict[str, dict[str, tuple[Number, ...]]] = {}
        for attribute, length in lengths.items():
            before, after = self.of(attribute), later.of(attribute)
            joined[attribute] = {
                name: (before.get(name, ()) + after.get(name, ()))[-length:] if length else ()
                for name in sorted({*before, *after})
            }
        return Carry(joined)

    def to_json(self) -> dict[str, Any]:
        """The JSON form: {} where nothing is carried; numbers that JSON cannot say are text."""
        kept = {
            attribute: {
                name: [
                    json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value
                    for value in last
                ]
                for name, last in by_type.items()
                if last
            }
            for attribute, by_type in self.values.items()
        }
        values = {attribute: by_type for attribute, by_type in kept.items() if by_type}
        return {"version": 1, "last_values": values} if values else {}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Carry:
        """Read the JSON form; another one, or one of another version, is an InputError."""
        from cep_pipeline.documents import read_as

        if document == {}:
            return cls()
        form = read_as(CarryForm, document, "no carry-in", "the carry-in of a day", "redo the days before")
        read = {
            attribute: {name: tuple(_NOT_FINITE.get(value, value) for value in last) for name, last in by.items()}
            for attribute, by in form["last_values"].items()
        }
        return cls(read)

    @property
    def digest(self) -> str:
        """32 hex digits, equal exactly where the carried values are."""
        return digest_of(self.to_json())


def carry_lengths(derived: Sequence[DerivedAttribute]) -> dict[str, int]:
    """Number of last values per type that the next day needs, by raw attribute.

    Examples
    --------
    >>> from cep_pipeline.events.stream_document import DerivedAttribute
    >>> carry_lengths([DerivedAttribute("d", "diff", "p"), DerivedAttribute("h", "history", "d", 5)])
    {'p': 6}
    """
    past_needed: dict[str, int] = {}
    for one in reversed(derived):
        # An event whose own value is null has a history all of earlier ones.
        past = one.length if one.function == "history" else past_needed.pop(one.name, 0) + 1
        past_needed[one.of] = max(past_needed.get(one.of, 0), past)
    return dict(sorted(past_needed.items()))


def derive(events: pa.Table, derived: Sequence[DerivedAttribute], type_attribute: str, carry_in: Carry) -> pa.Table:
    """Add the derived attributes to events, which are in stream order; `carry_in` has the last values before them."""
    series: dict[str, list[_Series]] = {}
    for one in derived:
        if one.of not in series:
            series[one.of] = _series_of(events.column(one.of), events.column(type_attribute), carry_in.of(one.of))
        if one.function == "diff":
            series[one.name] = [of_type.differences() for of_type in series[one.of]]
            column = _column(series[one.name], events.column(one.of))
        else:
            column = _histories(series[one.of], one.length)
        events = events.append_column(one.name, column)
    return events


def last_values(events: pa.Table, derived: Sequence[DerivedAttribute], type_attribute: str) -> Carry:
    """The last values per type of events in stream order, as many as `carry_lengths` says."""
    values: dict[str, dict[str, tuple[Number, ...]]] = {}
    for attribute, length in carry_lengths(derived).items():
        series = _series_of(events.column(attribute), events.column(type_attribute), {})
        tails = {one.type: tuple(one.values[-length:].tolist()) for one in series if length and len(one.values)}
        values[attribute] = dict(sorted(tails.items()))
    return Carry(values)


@dataclass(frozen=True)
class _Series:
    """The values of one attribute and one event type in stream order; carried ones come first.

    A difference that overflowed is not `valid`. The events of the type are `rows`; those which are `own` have a value,
    and the values of the type up to an event are `values[:ends]`.
    """

    type: str
    values: np.ndarray
    valid: np.ndarray
    rows: np.ndarray
    own: np.ndarray
    ends: np.ndarray

    def differences(self) -> _Series:
        """The differences of consecutive values: one fewer than values."""
        before, after = self.values[:-1], self.values[1:]
        with np.errstate(over="ignore", invalid="ignore"):
            difference = after - before
        valid = self.valid[1:] & self.valid[:-1]
        if self.values.dtype == np.int64:
            valid &= ((after ^ before) & (after ^ difference)) >= 0
        return _Series(self.type, difference, valid, self.rows, self.own, np.maximum(self.ends - 1, 0))


def _series_of(
    column: pa.ChunkedArray, type_column: pa.ChunkedArray, carried: Mapping[str, tuple[Number, ...]]
) -> list[_Series]:
    """The series of an attribute, one for each event type."""
    present = np.asarray(pc.is_valid(column).to_numpy(), dtype=bool)
    dtype = np.int64 if pa.types.is_integer(column.type) else np.float64
    numbers = pc.fill_null(column, pa.scalar(0, column.type)).to_numpy().astype(dtype)
    texts = pc.fill_null(type_column.cast(pa.string()), "").combine_chunks().dictionary_encode()
    codes = texts.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    series = []
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else ():
        name, own = texts.dictionary[int(codes[rows[0]])].as_py(), present[rows]
        before = np.array(carried.get(name, ()), dtype)
        values = np.concatenate([before, numbers[rows[own]]])
        series.append(_Series(name, values, np.ones(len(values), bool), rows, own, len(before) + np.cumsum(own)))
    return series


def _column(series: Sequence[_Series], like: pa.ChunkedArray) -> pa.Array:
    """The value of each event, of the type of another column; null where it has none."""
    values = np.zeros(len(like), np.int64 if pa.types.is_integer(like.type) else np.float64)
    null = np.ones(len(like), dtype=bool)
    for one in series:
        has = one.own & (one.ends > 0)
        rows, places = one.rows[has], one.ends[has] - 1
        values[rows], null[rows] = one.values[places], ~one.valid[places]
    return pa.array(values, mask=null)


def _histories(series: Sequence[_Series], length: int) -> pa.Array:
    """The last `length` values up to each event, in order; fewer where there are fewer."""
    lists = [pa.array([], pa.list_(pa.float64()))]
    for one in series:
        begins = np.maximum(one.ends - length, 0)
        lengths = one.ends - begins
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], lengths)
        values = np.where(one.valid, one.values.astype(np.float64), np.nan)
        lists.append(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values[places])))
    rows = np.concatenate([np.zeros(0, np.int64), *(one.rows for one in series)])
    return pa.concat_arrays(lists).take(pa.array(np.argsort(rows)))
