"""Conformance cases: pattern texts with events and the answers that docs/language.md gives.

`../shared/conformance` beside the checkout holds the full sets; `tests/data/conformance_twin.json` is a small set of
our own in the same form, which is always there. A test checks many cases, since a test for each would take longer to
collect than to run::

    check_each(check_case, conformance.CASES)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

CHECKOUT = Path(__file__).resolve().parent.parent
SHARED = CHECKOUT.parent / "shared" / "conformance"
TWIN = CHECKOUT / "tests" / "data" / "conformance_twin.json"


@dataclass(frozen=True, eq=False)
class Match:
    """An expected match of the statement with index `statement` in the text."""

    statement: int
    pattern: str
    start_ts: int
    end_ts: int
    bindings: tuple[tuple[str, int], ...]
    returns: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Place:
    """Where a wrong statement must be refused, and the wording of the case's author."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, eq=False)
class Case:
    """A case: either `matches`, in the page's order, or `error` is given."""

    id: str
    text: str
    schema: StreamSchema
    rows: tuple[Mapping[str, Any], ...]
    params: Mapping[str, list[Any]]
    features: frozenset[str]
    reason: str
    matches: tuple[Match, ...] | None
    error: Place | None

    def __str__(self) -> str:
        return self.id

    @cached_property
    def patterns(self) -> list[Pattern]:
        return parse_patterns(self.text, self.schema, self.params, source=self.id)

    @cached_property
    def events(self) -> pa.Table:
        return self.schema.table(self.rows)


def load(path: Path) -> list[Case]:
    """All cases of a file."""
    return [_case(_decode(entry)) for entry in json.loads(path.read_text(encoding="utf-8"))]


def _case(entry: Mapping[str, Any]) -> Case:
    matches = entry.get("matches")
    return Case(
        id=entry["id"],
        text=entry["text"],
        schema=StreamSchema.from_dict(entry["schema"]),
        rows=tuple(entry.get("events", ())),
        params=entry.get("params", {}),
        features=frozenset(entry.get("features", ())),
        reason=entry.get("reason", ""),
        matches=None if matches is None else tuple(_match(match) for match in matches),
        error=Place(**entry["error"]) if "error" in entry else None,
    )


def _match(entry: Mapping[str, Any]) -> Match:
    bindings = tuple((variable, seq) for variable, seq in entry["bindings"])
    return Match(**{**entry, "bindings": bindings, "returns": tuple(entry["returns"])})


def _decode(value: Any) -> Any:
    """JSON values with `{"$float": "NaN"}` (or an infinity) as the float it names."""
    if isinstance(value, dict):
        return (
            float(value["$float"]) if set(value) == {"$float"} else {key: _decode(part) for key, part in value.items()}
        )
    return [_decode(part) for part in value] if isinstance(value, list) else value


def _shared(name: str) -> list[Case]:
    return load(SHARED / name) if (SHARED / name).exists() else []


TWIN_CASES = load(TWIN)
"""The cases that are part of the checkout."""
HAND_CASES = TWIN_CASES + _shared("hand.json")
"""Those and the cases beside the checkout that were written by hand."""
RANDOM_CASES = _shared("random.json")
"""The drawn cases beside the checkout; none where they are missing."""
CASES = HAND_CASES + RANDOM_CASES
