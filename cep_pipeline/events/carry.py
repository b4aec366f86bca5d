"""What one day hands to the next: the last values of each event type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cep_pipeline.errors import InputError
from cep_pipeline.storage import digest_of

Number = int | float
_VERSION = 1
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


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
        return {"version": _VERSION, "last_values": values} if values else {}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Carry:
        """Read the JSON form.

        Raises
        ------
        InputError
            It is of another version.
        """
        if not document:
            return cls()
        if document.get("version") != _VERSION:
            raise InputError(
                f"carry-in of version {document.get('version')!r}, where this program reads {_VERSION}; "
                "redo the days before with this version"
            )
        return cls(
            {
                attribute: {name: tuple(_NOT_FINITE.get(value, value) for value in last) for name, last in by.items()}
                for attribute, by in document["last_values"].items()
            }
        )

    @property
    def digest(self) -> str:
        """32 hex digits, equal exactly where the carried values are."""
        return digest_of(self.to_json())


def _plain(value: Number) -> Number | str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
