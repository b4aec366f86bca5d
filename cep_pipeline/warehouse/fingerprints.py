"""Fingerprints: what a published day was made from, so that a day whose inputs have changed since is seen as stale.

Only contents enter a fingerprint, never snapshot ids, times or run ids: publishing the same day twice from the same
inputs gives the same fingerprint and makes nothing after it stale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from types import MappingProxyType
from typing import Any

from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.storage import digest_of

NO_CARRY = digest_of({})
"""Digest of the carry-in of a day that has no published day before it: the same as that of an empty carry-out."""


@dataclass(frozen=True)
class EventsFingerprint:
    """The inputs that the published events of one day follow from.

    The order of `raw_files` does not matter; a day published as empty has none. `schema` and `carry_in` are digests, of
    the stream schema and of the carry-out of the latest published earlier day (`NO_CARRY` without one).
    """

    raw_files: tuple[RawFile, ...]
    schema: str
    carry_in: str = NO_CARRY

    def __post_init__(self) -> None:
        object.__setattr__(self, "raw_files", tuple(sorted(self.raw_files, key=lambda file: (file.name, file.sha256))))

    @property
    def digest(self) -> str:
        """The fingerprint as 32 hex digits: equal exactly where the inputs are equal."""
        return digest_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, read back by `from_json`."""
        files = [[file.name, file.size, file.sha256] for file in self.raw_files]
        return {"raw_files": files, "schema": self.schema, "carry_in": self.carry_in}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> EventsFingerprint:
        """Make a fingerprint from its JSON form."""
        files = tuple(RawFile(name, size, sha256) for name, size, sha256 in document["raw_files"])
        return cls(files, document["schema"], document["carry_in"])

    def differences(self, now: EventsFingerprint) -> tuple[str, ...]:
        """Say for a person what differs between this recorded fingerprint and the one that holds now."""
        return (
            *_raw_file_differences(self.raw_files, now.raw_files),
            *(("the stream schema has changed",) if self.schema != now.schema else ()),
            *(("the carry-in from the day before has changed",) if self.carry_in != now.carry_in else ()),
        )


@dataclass(frozen=True)
class MatchesFingerprint:
    """The inputs that the published matches of one (pattern set, day) follow from.

    - `pattern_set_version`: digest of the formatted patterns and parameter values.
    - `events_from`: first day that detection looked at, the day itself where no look-back crosses midnight; None for a
      look-back to the beginning of the stream.
    - `events`: digest of the `EventsFingerprint` of every published day from then on. A day that is published later
      inside the range therefore makes the matches stale too.
    - `carry_in`: digest of the carry state after the latest earlier day, `NO_CARRY` where there is none.
    - `patterns`, `carried`: version of each pattern (`language.formatter.pattern_version`), and for those that go on
      from the day before the digest of the state that they went on from. {} in records of older versions.
    - `made_with`: digest of what else decides about the matches of all patterns: limits, the version of the
      software. A change of it makes no matches stale, but none of them is taken over by a redo then.
    - `ids`: version of the ids of the matches; a change of it makes none stale either.
    """

    pattern_set_version: str
    events_from: date | None
    events: Mapping[date, str] = field(default_factory=dict)
    carry_in: str = NO_CARRY
    end_of_stream: bool = False
    patterns: Mapping[str, str] = field(default_factory=dict)
    carried: Mapping[str, str] = field(default_factory=dict)
    made_with: str = ""
    ids: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", MappingProxyType(dict(sorted(self.events.items()))))

    def __reduce__(self) -> tuple[Any, ...]:
        return MatchesFingerprint.from_json, (self.to_json(),)

    @property
    def digest(self) -> str:
        """The fingerprint as 32 hex digits: equal exactly where the inputs are equal."""
        return digest_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, read back by `from_json`."""
        plain = {
            "events_from": self.events_from.isoformat() if self.events_from else None,
            "events": {day.isoformat(): digest for day, digest in self.events.items()},
            "patterns": dict(self.patterns),
            "carried": dict(self.carried),
            "ids": self.ids if self.ids > 1 else None,
        }
        always = ("pattern_set_version", "events_from", "events", "carry_in")  # else what says nothing is left out
        return {name: value for name, value in {**vars(self), **plain}.items() if value or name in always}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> MatchesFingerprint:
        """Make a fingerprint from its JSON form."""
        first = document["events_from"]
        events = {date.fromisoformat(day): digest for day, digest in document["events"].items()}
        known = {one.name: document[one.name] for one in fields(cls) if one.name in document}
        return cls(**{**known, "events_from": date.fromisoformat(first) if first else None, "events": events})

    def differences(self, now: MatchesFingerprint) -> tuple[str, ...]:
        """Say for a person what differs between this recorded fingerprint and the one that holds now."""
        changed = sorted(day for day in {*self.events, *now.events} if self.events.get(day) != now.events.get(day))
        return (
            *(_pattern_differences(self, now) if self.pattern_set_version != now.pattern_set_version else ()),
            *(f"the events of {day.isoformat()} have changed" for day in changed),
            *(("the carry state from the day before has changed",) if self.carry_in != now.carry_in else ()),
            *(_END_OF_STREAM[now.end_of_stream] if self.end_of_stream != now.end_of_stream else ()),
        )


_END_OF_STREAM = {
    False: ("the stream was taken to end with it, and has gone on",),
    True: ("the stream is to end with it",),
}


def _pattern_differences(before: MatchesFingerprint, now: MatchesFingerprint) -> list[str]:
    """Say which patterns of a set are others now, where the record and the configuration tell."""
    if not before.patterns or not now.patterns:
        return ["the pattern set has changed"]
    old, new = before.patterns, now.patterns
    kinds = {
        "changed": [name for name, version in new.items() if name in old and old[name] != version],
        "been added": [name for name in new if name not in old],
        "been removed": [name for name in old if name not in new],
    }
    found = [f"{_these_patterns(names)} {what}" for what, names in kinds.items() if names]
    return found or ["the order of the patterns has changed"]


def _these_patterns(names: Sequence[str]) -> str:
    """Name patterns as the subject of a sentence; of many the first ones and the number of the others.

    Examples
    --------
    >>> _these_patterns(["a"]), _these_patterns(["a", "b", "c", "d", "e", "f"])
    ('pattern a has', 'patterns a, b, c, d, e and 1 more have')
    """
    if len(names) == 1:
        return f"pattern {names[0]} has"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"patterns {', '.join(names[:_MOST_NAMED])}{more} have"


_MOST_NAMED = 5


def _raw_file_differences(before: Sequence[RawFile], after: Sequence[RawFile]) -> list[str]:
    if tuple(before) == tuple(after):
        return []
    old = {file.name: file for file in before}
    new = {file.name: file for file in after}
    if len(old) < len(before) or len(new) < len(after):
        return ["the raw files have changed"]
    added = [f"raw file {name} is new" for name in new if name not in old]
    gone = [f"raw file {name} is gone" for name in old if name not in new]
    changed = [f"raw file {name} has changed" for name, file in new.items() if name in old and old[name] != file]
    return [*added, *gone, *changed]
