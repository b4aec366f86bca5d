"""Records of the warehouse: published days, files of events, runs, plans, decisions, stale days; fingerprints of days.

A fingerprint says what a published day was made from, so that a day whose inputs have changed since is seen as stale.
Only contents enter it, never snapshot ids, times or run ids: publishing the same day twice from the same inputs gives
the same fingerprint and makes nothing after it stale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.storage import IDS_VERSION, canonical_json, digest_of

if TYPE_CHECKING:
    from cep_pipeline.detection.limits import LimitedPattern

RunStatus = Literal["running", "succeeded", "failed", "interrupted", "abandoned"]


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


@dataclass(frozen=True)
class PublishedDay:
    """The published events of one day (an empty day too), by the calendar of the stream's time zone.

    - `rejected`: quarantined rows that were published for the day.
    - `fingerprint`, `carry_out_digest`: what the events were made from, and digest of what the next day carries in.
    - `counts`: further counts of the publishing run, as it gave them.
    - `snapshot_id`: Iceberg snapshot of the `events` table that the run made.
    - `same_events_as`: digest of earlier inputs from which exactly the same events followed; empty where there are
      none.
    """

    day: date
    events: int
    rejected: int
    fingerprint: EventsFingerprint
    carry_out_digest: str
    counts: Mapping[str, int]
    run_id: str
    published_at: datetime
    snapshot_id: int
    same_events_as: str = ""

    @property
    def events_digest(self) -> str:
        """Digest that stands for the events: what was made of them is stale where it has changed."""
        return self.same_events_as or self.fingerprint.digest


@dataclass(frozen=True)
class PublishedMatches:
    """The published matches of one (pattern set, day).

    `counts` holds what the run counted, as matches by pattern; `pending` the matches by pattern that were found and
    are not published because they, or others before them, were not final when the day was over; `limited` the patterns
    that reached a limit, of which nothing is published.
    """

    pattern_set: str
    final_day: date
    matches: int
    fingerprint: MatchesFingerprint
    carry_out_digest: str
    counts: Mapping[str, int]
    run_id: str
    published_at: datetime
    snapshot_id: int
    pending: Mapping[str, int] = field(default_factory=dict)
    limited: Mapping[str, LimitedPattern] = field(default_factory=dict)


@dataclass(frozen=True)
class EventsFile:
    """One Parquet file of published events, sorted by (timestamp, seq); it has at least one row.

    `first` and `last` are the smallest and the largest point (timestamp in microseconds UTC, seq) in it. Timestamps and
    seq are each exact bounds; as files are sorted by both they are the first and the last row's.
    """

    path: str
    day: date
    rows: int
    size_bytes: int
    first: tuple[int, int]
    last: tuple[int, int]

    @property
    def order(self) -> tuple[date, tuple[int, int], str]:
        """The key that sorts files in stream order."""
        return self.day, self.first, self.path


@dataclass(frozen=True)
class EventsSnapshot:
    """The published events as they were at one moment: what a detection run is pinned to.

    `snapshot_id` is that of the `events` table, None where nothing has been published yet; `days` are the records of
    its days, in order. `drafted` has the files of days that the reading run has made and not yet published, which stand
    in place of what is published of them.
    """

    snapshot_id: int | None
    days: Mapping[date, PublishedDay]
    drafted: Mapping[date, tuple[EventsFile, ...]] = field(default_factory=dict)

    def digests(self, first: date | None, last: date) -> dict[date, str]:
        """Return day -> events digest of the published days from `first` (None: the beginning) to `last`, both in."""
        return {
            day: published.events_digest
            for day, published in self.days.items()
            if (first is None or first <= day) and day <= last
        }

    def day_of_positions(self, before: date, positions: int) -> date | None:
        """Return the day that has the event so many positions before a day; None where there are fewer events."""
        if not positions:
            return before
        for day in sorted((day for day in self.days if day < before), reverse=True):
            positions -= self.days[day].events
            if positions <= 0:
                return day
        return None

    def matches_fingerprint(
        self,
        pattern_set_version: str,
        first: date | None,
        day: date,
        *,
        carry_in: str,
        end_of_stream: bool = False,
        patterns: Mapping[str, str] = MappingProxyType({}),
        carried: Mapping[str, str] = MappingProxyType({}),
        made_with: str = "",
    ) -> MatchesFingerprint:
        """Return the fingerprint of matches of `day` that were detected over the events of `first` to `day`."""
        events = self.digests(first, day)
        return MatchesFingerprint(
            pattern_set_version, first, events, carry_in, end_of_stream, patterns, carried, made_with, IDS_VERSION
        )


@dataclass(frozen=True)
class StaleDay:
    """A day to be redone: from its events on (`pattern_set` None), or only the matches of one pattern set.

    `reasons` are sentences for a person, at least one.
    """

    day: date
    pattern_set: str | None
    reasons: tuple[str, ...]

    @property
    def step(self) -> str:
        """The first step to redo: `ingest` or `detect`."""
        return "ingest" if self.pattern_set is None else "detect"


@dataclass(frozen=True)
class RunStep:
    """One step of a run: its name, how long it took (seconds), what it counted, and when it began.

    `began_s` is in Unix time; None in records of older versions.
    """

    name: str
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    began_s: float | None = None

    @property
    def ended_s(self) -> float:
        """The end of a step whose begin is known, in Unix time."""
        return (self.began_s or 0.0) + self.seconds


def short_run_id(run_id: str) -> str:
    """Write a run id as people read it: its kind and its last part.

    Examples
    --------
    >>> short_run_id("20250108T000031-8c030c"), short_run_id("backfill__2013-10-07T04:00:00+00:00__lF74KVH6")
    ('8c030c', 'backfill lF74KVH6')
    >>> short_run_id("scheduled__2013-10-07"), short_run_id("by hand")
    ('scheduled 2013-10-07', 'by hand')
    """
    parts = re.fullmatch(r"(?:(\w+?)__)?.*?(\d{4}-\d\d-\d\d|[^-_]{1,12})", run_id, re.DOTALL)
    return run_id if parts is None or len(run_id) <= 16 else " ".join(filter(None, parts.groups()))


@dataclass(frozen=True)
class RunRecord:
    """One run over one day (None: it is not of a day), as far as it has come.

    A run is recorded when it starts (`running`) and when it ends; the table only grows, and readers see the latest
    record of each (run_id, day). `interrupted` is by Ctrl-C or SIGTERM; `abandoned`: its process ended without a word.
    `steps` are those done, in order; `events` and `rejected` are None where the run did not come that far. `matches`
    are counted by pattern, and `plans` has the version that each pattern set used. `validation` is the result document
    of the data checks, or where it is; `details` is anything else, as JSON.
    """

    run_id: str
    day: date | None
    status: RunStatus
    started_at: datetime
    finished_at: datetime | None = None
    steps: tuple[RunStep, ...] = ()
    events: int | None = None
    rejected: int | None = None
    matches: Mapping[str, int] = field(default_factory=dict)
    plans: Mapping[str, int] = field(default_factory=dict)
    validation: Mapping[str, Any] | None = None
    error: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def abandoned(self, holder: LeaseHolder, taken_by: str = "") -> RunRecord:
        """Return the record of a running run whose process has ended without a word: the holder of its lease."""
        said = f"its process ({holder.pid} on {holder.host}) was last heard of at {holder.heartbeat_at:%H:%M:%S} UTC"
        taken = f"; run {taken_by} has taken the day over" if taken_by else ""
        return replace(self, status="abandoned", finished_at=holder.heartbeat_at, error=said + taken)

    @property
    def seconds(self) -> float | None:
        """Seconds that the run took; None while it runs."""
        return None if self.finished_at is None else (self.finished_at - self.started_at).total_seconds()


@dataclass(frozen=True)
class PlanRecord:
    """One version of the plan of a pattern set; versions count from 1 within it.

    `plan` is in its JSON form and `explain` as printed for a person. `reason` says why it was made: first plan, by
    hand, a violated invariant. `statistics` is the snapshot that it was made from, None in rows of older versions.
    `statements` are those that it was made for, by pattern and with the values of their parameters; {} in rows of older
    versions.
    """

    pattern_set: str
    version: int
    plan: Mapping[str, Any]
    explain: str
    reason: str
    pattern_set_version: str
    run_id: str
    created_at: datetime
    statistics: Mapping[str, Any] | None = None
    statements: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Digest of the plan as it is written."""
        return sha256(canonical_json(self.plan).encode()).hexdigest()

    @property
    def planners(self) -> tuple[str, ...]:
        """The planners of its patterns; () where the plan, of another version, does not say it."""
        plans = self.plan.get("patterns", ())
        names = (one.get("planner") for one in plans if isinstance(one, Mapping))
        return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


@dataclass(frozen=True)
class DayStatistics:
    """The statistics of a day for a pattern set; the fields are those of `StatisticsRecord`."""

    snapshot: Mapping[str, Any]
    state: str | None = None
    basis: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StatisticsRecord:
    """The statistics of (pattern set, day), and the run that wrote the row last.

    `snapshot` is what plans are made from; None where only `observed`, what detection counted on the day, has been
    recorded. The next day goes on from `state`, JSON text; `basis` says what both were made from.
    """

    pattern_set: str
    day: date
    run_id: str
    recorded_at: datetime
    snapshot: Mapping[str, Any] | None = None
    state: str | None = None
    basis: Mapping[str, Any] = field(default_factory=dict)
    observed: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Decision:
    """One decision of the adaptation loop: whether to replan a pattern set, or what came of replanning it, and why.

    `kind` is the decision function's name, `outcome` what it decided (replan, keep, no new data), `details` the
    violated invariant, measured values and the like; of a replanning (`pipeline.replanning`) `kind` is "replanning".
    """

    pattern_set: str
    kind: str
    outcome: str
    reason: str
    decided_at: datetime
    day: date | None = None
    plan_version: int | None = None
    run_id: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LeaseHolder:
    """The holder of a lease: stream and unit, host, pid and run, since when, and its last heartbeat (UTC).

    `expired` is True if it is dead, or has sent no heartbeat for the time-out: the next one takes the lease over.
    """

    stream: str
    unit: str
    host: str
    pid: int
    run_id: str
    acquired_at: datetime
    heartbeat_at: datetime
    expired: bool


@dataclass(frozen=True)
class MaintenanceReport:
    """The result of `maintain`, in total and by table (`stream.table`).

    Files and bytes removed, snapshots expired, and how many files fewer a table has since small ones were merged.
    `damages` has a sentence for each table that was left as it is because its metadata is damaged.
    """

    removed_files: int
    removed_bytes: int
    expired_snapshots: int
    merged_files: int
    by_table: Mapping[str, Mapping[str, int]]
    damages: tuple[str, ...] = ()
