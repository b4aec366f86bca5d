"""Conformance cases: pattern texts with events and the answers that docs/language.md gives.

`../shared/conformance` beside the checkout holds the full sets; `tests/data/conformance_twin.json` is a small set of
our own in the same form, which is always there. Cases are of one of three editions of the language. Those of an edition
hold in the next one, but for a few whose answers it changes. A test checks many cases, since a test for each would take
longer to collect than to run::

    check_each(check_case, conformance.CASES)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
CHANGED = ("hand-139", "hand-140", "hand-141", "random-196", "random-390", "random2-32")
"""Cases whose answers a later edition changes: a composite or a list may be negated, which the first edition refuses;
and in the last of them a list that is full is left under skip_till_next_match, which the third edition says."""


@dataclass(frozen=True, eq=False)
class Match:
    """An expected match of the statement with index `statement` in the text."""

    statement: int
    pattern: str
    start_ts: int
    end_ts: int
    bindings: tuple[tuple[str, int], ...]
    returns: tuple[Any, ...]
    composed: tuple[tuple[str, str, int], ...] = ()
    """Variables that bind a match, with the statement and the number of the match there."""


@dataclass(frozen=True, eq=False)
class SummaryRow:
    """An expected row of SUMMARIZE: the values of the groups, then the aggregates; a bucket is in microseconds."""

    statement: int
    pattern: str
    values: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Place:
    """Where a wrong statement must be refused, and the wording of the case's author."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, eq=False)
class Case:
    """A case: either `matches` and `summary`, in the page's order, or `error` is given."""

    id: str
    text: str
    schema: StreamSchema
    rows: tuple[Mapping[str, Any], ...]
    params: Mapping[str, Any]
    features: frozenset[str]
    reason: str
    matches: tuple[Match, ...] | None
    summary: tuple[SummaryRow, ...]
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
    """All cases of a file whose answers are those of this edition."""
    entries = map(_decode, json.loads(path.read_text(encoding="utf-8")))
    return [_case(one) for one in entries if one["id"] not in CHANGED]


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
        matches=None if matches is None else _matches(matches),
        summary=tuple(SummaryRow(**{**row, "values": tuple(row["values"])}) for row in entry.get("summary", ())),
        error=Place(**entry["error"]) if "error" in entry else None,
    )


def _matches(entries: Sequence[Mapping[str, Any]]) -> tuple[Match, ...]:
    names = {entry["statement"]: entry["pattern"] for entry in entries}
    return tuple(
        Match(
            **{
                **entry,
                "bindings": tuple((variable, seq) for variable, seq in entry["bindings"]),
                "returns": tuple(entry["returns"]),
                "composed": tuple((variable, names[of], number) for variable, of, number in entry.get("composed", ())),
            }
        )
        for entry in entries
    )


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
HAND_CASES = TWIN_CASES + _shared("hand.json") + _shared("hand2.json") + _shared("hand3.json")
"""Those and the cases beside the checkout that were written by hand."""
RANDOM_CASES = _shared("random.json") + _shared("random2.json") + _shared("random3.json")
"""The drawn cases beside the checkout; none where they are missing."""
CASES = HAND_CASES + RANDOM_CASES
