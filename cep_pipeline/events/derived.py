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
    from cep_pipeline.events.source import DerivedAttribute

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
        values = {
            attribute: {name: [_plain(value) for value in last] for name, last in by_type.items() if last}
            for attribute, by_type in self.values.items()
        }
        values = {attribute: by_type for attribute, by_type in values.items() if by_type}
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


def _plain(value: Number) -> Number | str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def carry_lengths(derived: Sequence[DerivedAttribute]) -> dict[str, int]:
    """Number of last values per type that the next day needs, by raw attribute.

    Examples
    --------
    >>> from cep_pipeline.events.source import DerivedAttribute
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
    if not derived:
        return events
    codes, types = _event_types(events.column(type_attribute))
    series: dict[str, _Series] = {}
    for one in derived:
        if one.of not in series:
            series[one.of] = _Series.of_column(events.column(one.of), codes, carry_in.of(one.of), types)
        source = series[one.of]
        if one.function == "diff":
            series[one.name] = source.differences()
            column = series[one.name].column(events.num_rows)
        else:
            column = source.histories(one.length)
        events = events.append_column(one.name, column)
    return events


def last_values(events: pa.Table, derived: Sequence[DerivedAttribute], type_attribute: str) -> Carry:
    """The last values per type of events in stream order, as many as `carry_lengths` says."""
    codes, types = _event_types(events.column(type_attribute))
    values: dict[str, dict[str, tuple[Number, ...]]] = {}
    for attribute, length in carry_lengths(derived).items():
        values[attribute] = _Series.of_column(events.column(attribute), codes, {}, types).tails(length, types)
    return Carry(values)


def _event_types(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Code of each event's type, and the text of each code."""
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    encoded = pa.concat_arrays(encoded.unify_dictionaries().chunks or [pa.array([], encoded.type)])
    indices = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    return indices.astype(np.int64), [str(text) for text in encoded.dictionary.to_pylist()]


@dataclass(frozen=True)
class _Series:
    """The values of one attribute by event type, in stream order within a type; carried ones come first.

    One type stands after the other in `values` (int64 or float64); a difference that overflowed is not `valid`. `begin`
    is the index of the first value of the same type, `event` that of the event (-1 for a carried one), and `types` the
    code of the type, of each value. An event's values of its type up to it are `values[begins:ends]`.
    """

    values: np.ndarray
    valid: np.ndarray
    begin: np.ndarray
    event: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    types: np.ndarray

    @classmethod
    def of_column(
        cls, column: pa.ChunkedArray, codes: np.ndarray, carried: Mapping[str, tuple[Number, ...]], types: list[str]
    ) -> _Series:
        present = np.asarray(pc.is_valid(column).to_numpy(), dtype=bool)
        dtype = np.int64 if pa.types.is_integer(column.type) else np.float64
        numbers = pc.fill_null(column, pa.scalar(0, column.type)).to_numpy().astype(dtype)
        before = [(code, value) for code, text in enumerate(types) for value in carried.get(text, ())]
        all_codes = np.concatenate([np.array([code for code, _ in before], dtype=np.int64), codes])
        all_values = np.concatenate([np.array([value for _, value in before], dtype=dtype), numbers])
        has_value = np.concatenate([np.ones(len(before), dtype=bool), present])
        event = np.concatenate([np.full(len(before), -1), np.arange(len(codes))])
        order = np.argsort(all_codes, kind="stable")
        return cls._grouped(all_codes[order], all_values[order], has_value[order], event[order], len(codes))

    @classmethod
    def _grouped(
        cls, codes: np.ndarray, values: np.ndarray, has_value: np.ndarray, event: np.ndarray, events: int
    ) -> _Series:
        """Make a series of rows that are ordered by type and then by stream order; some may have no value."""
        counted = np.cumsum(has_value)
        first_row = np.searchsorted(codes, codes, side="left")
        begin = (counted - has_value)[first_row] if len(codes) else counted
        begins, ends = np.zeros(events, dtype=np.int64), np.zeros(events, dtype=np.int64)
        own = event >= 0
        begins[event[own]], ends[event[own]] = begin[own], counted[own]
        return cls(
            values[has_value],
            np.ones(int(has_value.sum()), dtype=bool),
            begin[has_value],
            event[has_value],
            begins,
            ends,
            codes[has_value],
        )

    def differences(self) -> _Series:
        """The differences of consecutive values of a type: one fewer than values."""
        index = np.arange(len(self.values))
        later = index > self.begin
        at = index[later]
        with np.errstate(over="ignore", invalid="ignore"):
            difference = self.values[at] - self.values[at - 1]
        valid = self.valid[at] & self.valid[at - 1]
        if self.values.dtype == np.int64:
            valid &= ((self.values[at] ^ self.values[at - 1]) & (self.values[at] ^ difference)) >= 0
        # Each type with values loses its first one: what was at index i moves by the number of types up to there.
        lost = np.concatenate([[0], np.cumsum(~later)])
        begins, ends = self.begins - lost[self.begins], self.ends - lost[self.ends]
        return _Series(
            difference,
            valid,
            self.begin[later] - lost[self.begin[later]],
            self.event[later],
            begins,
            ends,
            self.types[later],
        )

    def column(self, events: int) -> pa.Array:
        """The value of each event; null where it has none."""
        values = np.zeros(events, dtype=self.values.dtype)
        null = np.ones(events, dtype=bool)
        own = (self.event >= 0) & self.valid
        values[self.event[own]] = self.values[own]
        null[self.event[own]] = False
        return pa.array(values, mask=null)

    def histories(self, length: int) -> pa.Array:
        """The last `length` values up to each event, in order; fewer where there are fewer."""
        begins = np.maximum(self.ends - length, self.begins)
        lengths = self.ends - begins
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        if offsets[-1] > np.iinfo(np.int32).max:
            raise ValueError(f"{offsets[-1]} elements of histories in one table; derive fewer events at once")
        flat = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], lengths)
        values = np.where(self.valid, self.values.astype(np.float64), np.nan)
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values[flat]))

    def tails(self, length: int, types: list[str]) -> dict[str, tuple[Number, ...]]:
        """The last `length` values of each type that has any."""
        if not length or not len(self.types):
            return {}
        lasts = np.append(np.flatnonzero(np.diff(self.types)) + 1, len(self.types))
        tails = {}
        for end in lasts.tolist():
            begin = max(end - length, int(self.begin[end - 1]))
            tails[types[int(self.types[end - 1])]] = tuple(self.values[begin:end].tolist())
        return dict(sorted(tails.items()))
