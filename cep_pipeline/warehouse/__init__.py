"""The warehouse: Iceberg tables of events, matches and records, published atomically, one writer a day.

A run takes the lease of a day, lets tasks write files, and publishes exactly the files that they return:

    tables = Warehouse.open("warehouse").stream(schema)
    with tables.day_lease(day, run_id=run_id) as lease:
        path = write_data_file(tables.events_directory(day, run_id=run_id).file(task=0), events, tables.events_schema)
        tables.publish_events(day, [path], lease=lease, fingerprint=fingerprint, carry_out=carry_out)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cep_pipeline.warehouse.data_files import ROW_GROUP_ROWS as ROW_GROUP_ROWS
    from cep_pipeline.warehouse.data_files import DataDirectory as DataDirectory
    from cep_pipeline.warehouse.data_files import open_data_file as open_data_file
    from cep_pipeline.warehouse.data_files import read_data_file as read_data_file
    from cep_pipeline.warehouse.data_files import storage_errors as storage_errors
    from cep_pipeline.warehouse.data_files import write_data_file as write_data_file
    from cep_pipeline.warehouse.fingerprints import NO_CARRY as NO_CARRY
    from cep_pipeline.warehouse.fingerprints import EventsFingerprint as EventsFingerprint
    from cep_pipeline.warehouse.fingerprints import MatchesFingerprint as MatchesFingerprint
    from cep_pipeline.warehouse.fingerprints import RawFile as RawFile
    from cep_pipeline.warehouse.fingerprints import canonical_json as canonical_json
    from cep_pipeline.warehouse.fingerprints import digest_of as digest_of
    from cep_pipeline.warehouse.layout import MATCHES_SCHEMA as MATCHES_SCHEMA
    from cep_pipeline.warehouse.layout import QUARANTINE_SCHEMA as QUARANTINE_SCHEMA
    from cep_pipeline.warehouse.layout import events_columns as events_columns
    from cep_pipeline.warehouse.leases import Lease as Lease
    from cep_pipeline.warehouse.records import Decision as Decision
    from cep_pipeline.warehouse.records import EventsFile as EventsFile
    from cep_pipeline.warehouse.records import EventsSnapshot as EventsSnapshot
    from cep_pipeline.warehouse.records import LeaseHolder as LeaseHolder
    from cep_pipeline.warehouse.records import MaintenanceReport as MaintenanceReport
    from cep_pipeline.warehouse.records import PlanRecord as PlanRecord
    from cep_pipeline.warehouse.records import PublishedDay as PublishedDay
    from cep_pipeline.warehouse.records import PublishedMatches as PublishedMatches
    from cep_pipeline.warehouse.records import RunRecord as RunRecord
    from cep_pipeline.warehouse.records import RunStep as RunStep
    from cep_pipeline.warehouse.records import StaleDay as StaleDay
    from cep_pipeline.warehouse.records import StatisticsRecord as StatisticsRecord
    from cep_pipeline.warehouse.stream_tables import StreamTables as StreamTables
    from cep_pipeline.warehouse.warehouse import Warehouse as Warehouse

# Loaded on first use: workers need the names of files and fingerprints, not the database's libraries.
_LAZY = {
    "ROW_GROUP_ROWS": "cep_pipeline.warehouse.data_files",
    "DataDirectory": "cep_pipeline.warehouse.data_files",
    "open_data_file": "cep_pipeline.warehouse.data_files",
    "read_data_file": "cep_pipeline.warehouse.data_files",
    "storage_errors": "cep_pipeline.warehouse.data_files",
    "write_data_file": "cep_pipeline.warehouse.data_files",
    "NO_CARRY": "cep_pipeline.warehouse.fingerprints",
    "EventsFingerprint": "cep_pipeline.warehouse.fingerprints",
    "MatchesFingerprint": "cep_pipeline.warehouse.fingerprints",
    "RawFile": "cep_pipeline.warehouse.fingerprints",
    "canonical_json": "cep_pipeline.warehouse.fingerprints",
    "digest_of": "cep_pipeline.warehouse.fingerprints",
    "MATCHES_SCHEMA": "cep_pipeline.warehouse.layout",
    "QUARANTINE_SCHEMA": "cep_pipeline.warehouse.layout",
    "events_columns": "cep_pipeline.warehouse.layout",
    "Lease": "cep_pipeline.warehouse.leases",
    "Decision": "cep_pipeline.warehouse.records",
    "EventsFile": "cep_pipeline.warehouse.records",
    "EventsSnapshot": "cep_pipeline.warehouse.records",
    "LeaseHolder": "cep_pipeline.warehouse.records",
    "MaintenanceReport": "cep_pipeline.warehouse.records",
    "PlanRecord": "cep_pipeline.warehouse.records",
    "PublishedDay": "cep_pipeline.warehouse.records",
    "PublishedMatches": "cep_pipeline.warehouse.records",
    "RunRecord": "cep_pipeline.warehouse.records",
    "RunStep": "cep_pipeline.warehouse.records",
    "StaleDay": "cep_pipeline.warehouse.records",
    "StatisticsRecord": "cep_pipeline.warehouse.records",
    "StreamTables": "cep_pipeline.warehouse.stream_tables",
    "Warehouse": "cep_pipeline.warehouse.warehouse",
}

__all__ = [*_LAZY]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
