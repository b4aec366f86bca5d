"""`StreamTables`: what is published of one stream, and the only way to publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cep_pipeline.warehouse.data_files import DataDirectory
from cep_pipeline.warehouse.fingerprints import EventsFingerprint, MatchesFingerprint, RawFile
from cep_pipeline.warehouse.records import (
    Decision,
    EventsFile,
    EventsSnapshot,
    PlanRecord,
    PublishedDay,
    PublishedMatches,
    RunRecord,
    StaleDay,
)

if TYPE_CHECKING:
    from cep_pipeline.warehouse.leases import Lease
    from cep_pipeline.warehouse.warehouse import Warehouse


class StreamTables:
    """The tables of one stream; made by `Warehouse.stream` and `Warehouse.open_stream`."""

    # -- leases ------------------------------------------------------------------------------------------------------

    def day_lease(self, day: date, *, run_id: str) -> Lease:
        """Take the lease of a day, which publishing anything of the day needs: `with tables.day_lease(day, run_id=…)`.

        Raises
        ------
        BusyError
            Another run holds it.
        """

    def plan_lease(self, pattern_set: str, *, run_id: str) -> Lease:
        """Take the lease of the plans of a pattern set, which recording a plan needs."""

    # -- files of tasks ----------------------------------------------------------------------------------------------

    def events_directory(self, day: date, *, run_id: str) -> DataDirectory:
        """Return where tasks write files of events of a day; the columns are `events_schema`."""

    def quarantine_directory(self, day: date, *, run_id: str) -> DataDirectory:
        """Return where tasks write files of rejected rows of a day; the columns are `QUARANTINE_SCHEMA`."""

    def matches_directory(self, pattern_set: str, final_day: date, *, run_id: str) -> DataDirectory:
        """Return where tasks write files of matches; the columns are `MATCHES_SCHEMA`."""

    # -- publishing --------------------------------------------------------------------------------------------------

    def publish_quarantine(
        self, day: date, files: Sequence[str], *, lease: Lease, fingerprint: EventsFingerprint
    ) -> int:
        """Replace the rejected rows of a day by those of exactly these files; returns how many. Before the events."""

    def publish_events(
        self,
        day: date,
        files: Sequence[str],
        *,
        lease: Lease,
        fingerprint: EventsFingerprint,
        carry_out: Mapping[str, Any],
        counts: Mapping[str, int] | None = None,
    ) -> PublishedDay:
        """Replace the events of a day by those of exactly these files, in one commit.

        Parameters
        ----------
        day
            The day; every row of every file must have it in its column `day`.
        files
            Paths that successful attempts returned. None: the day is published as empty.
        lease
            The day's lease, held.
        fingerprint
            What the events were made from, the digest of `carry_in(day)` included.
        carry_out
            JSON value that the next day carries in; an empty day passes its carry-in on.
        counts
            Further counts to keep with the day.

        Raises
        ------
        BusyError
            The lease was lost to another run; nothing has changed.
        CepError
            A file is missing, does not fit the table or has rows of another day; nothing has changed.
        """

    def publish_matches(
        self,
        pattern_set: str,
        final_day: date,
        files: Sequence[str],
        *,
        lease: Lease,
        fingerprint: MatchesFingerprint,
        carry_out: Mapping[str, Any] | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> PublishedMatches:
        """Replace the matches of (pattern set, day) by those of exactly these files, in one commit.

        As `publish_events`; the fingerprint comes from `EventsSnapshot.matches_fingerprint` of the snapshot that
        detection was pinned to.
        """

    def publish_statistics(self, pattern_set: str, day: date, snapshot: Mapping[str, Any], *, lease: Lease) -> None:
        """Replace the statistics snapshot (JSON form) of (pattern set, day)."""

    # -- carry state -------------------------------------------------------------------------------------------------

    def carry_in(self, day: date) -> dict[str, Any]:
        """Return the carry-out of the latest published earlier day, over gaps; {} where there is none."""

    def matches_carry_in(self, pattern_set: str, day: date) -> dict[str, Any]:
        """Return the carry state of OUTPUT and CONSUME after the latest earlier day of the pattern set; {} if none."""

    # -- readers -----------------------------------------------------------------------------------------------------

    def pin_events(self) -> EventsSnapshot:
        """Return the published days and the events snapshot of one moment."""

    def days(self) -> list[PublishedDay]:
        """Return the published days in order of time."""

    def matches_days(self, pattern_set: str | None = None) -> list[PublishedMatches]:
        """Return the published (pattern set, day) units of matches in order."""

    def events_files(
        self, first: date | None = None, last: date | None = None, *, snapshot: EventsSnapshot | None = None
    ) -> list[EventsFile]:
        """Return the files of events of the days from `first` to `last` (both in; None: open), in stream order.

        Given a snapshot, the files of that moment, whatever has been published since.
        """

    def read_events(
        self, first: date | None = None, last: date | None = None, *, snapshot: EventsSnapshot | None = None
    ) -> pa.Table:
        """Return the events of these days sorted by (timestamp, seq), with the columns of the stream schema."""

    def read_matches(
        self,
        pattern_set: str,
        first: date | None = None,
        last: date | None = None,
        *,
        pattern: str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Return matches (`MATCHES_SCHEMA`) by final day, within a day by pattern in the order they were written."""

    def read_quarantine(self, first: date | None = None, last: date | None = None) -> pa.Table:
        """Return the rejected rows of these days (`QUARANTINE_SCHEMA`)."""

    def read_statistics(self, pattern_set: str, day: date) -> dict[str, Any] | None:
        """Return the statistics snapshot (JSON form) of a day, None where there is none."""

    def stale_days(
        self,
        *,
        raw_files: Mapping[date, Sequence[RawFile]] | None = None,
        schema: str | None = None,
        pattern_sets: Mapping[str, str] | None = None,
    ) -> list[StaleDay]:
        """Return the days whose fingerprint would now differ, in order of time.

        Parameters
        ----------
        raw_files
            The raw files that there are now, for the days to check; a day that is not in it keeps its files.
        schema
            Digest of the stream schema now; None: unchanged.
        pattern_sets
            Pattern set -> its version now. Only these are checked; a published day without matches of one of them is
            stale for it.

        Notes
        -----
        Only what follows from what is published now: redoing a day may change its carry-out and so make the next day
        stale, or leave it and stop the cascade. Redo the earliest, then ask again.
        """

    # -- runs, plans, decisions --------------------------------------------------------------------------------------

    def record_run(self, record: RunRecord) -> None:
        """Append a record of a run."""

    def runs(self, limit: int | None = None) -> list[RunRecord]:
        """Return the latest record of each (run, day), the latest started first."""

    def record_plan(
        self,
        pattern_set: str,
        plan: Mapping[str, Any],
        *,
        lease: Lease,
        explain: str,
        reason: str,
        pattern_set_version: str,
        make_current: bool = True,
    ) -> PlanRecord:
        """Append the next version of the plan of a pattern set, and make it the current one in the same commit."""

    def current_plan(self, pattern_set: str) -> PlanRecord | None:
        """Return the current plan of a pattern set, None where there is none."""

    def set_current_plan(self, pattern_set: str, version: int, *, expected: int | None) -> None:
        """Make a recorded version the current one, if `expected` (None: none) still is.

        Raises
        ------
        BusyError
            Another one has become current in the meantime.
        """

    def plans(self, pattern_set: str | None = None) -> list[PlanRecord]:
        """Return all recorded plans, the latest first."""

    def record_decision(self, decision: Decision) -> None:
        """Append a decision of the adaptation loop."""

    def decisions(self, pattern_set: str | None = None, limit: int | None = None) -> list[Decision]:
        """Return the decisions, the latest first."""
