"""The warehouse: Iceberg tables of events, matches and records, published atomically, one writer a day.

A run takes the lease of a day, lets tasks write files, and publishes exactly the files that they return:

    tables = Warehouse.open("warehouse").stream(schema)
    with tables.day_lease(day, run_id=run_id) as lease:
        path = write_data_file(tables.events_directory(day, run_id=run_id).file(task=0), events, tables.events_schema)
        tables.publish_events(day, [path], lease=lease, fingerprint=fingerprint, carry_out=carry_out)

A publication goes through these modules: `stream_tables` (what can be published), `leases` (one writer a day), `units`
(records and fingerprints of what is published, and what is stale), `commits` (one commit a unit), `catalog` (the
commit and the records in one transaction of the `database`). `stream_reader` reads what is published; `layout` says
how it is stored, `records` and `fingerprints` what it means; `iceberg_tables` makes tables, and
`maintenance` removes what no table uses. `store` is the place that all of them share, `warehouse` opens it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cep_pipeline.events.columns import QUARANTINE_SCHEMA as QUARANTINE_SCHEMA
    from cep_pipeline.events.columns import events_columns as events_columns
    from cep_pipeline.events.raw_files import RawFile as RawFile
    from cep_pipeline.storage import ROW_GROUP_ROWS as ROW_GROUP_ROWS
    from cep_pipeline.storage import DataDirectory as DataDirectory
    from cep_pipeline.storage import canonical_json as canonical_json
    from cep_pipeline.storage import digest_of as digest_of
    from cep_pipeline.storage import open_data_file as open_data_file
    from cep_pipeline.storage import read_data_file as read_data_file
    from cep_pipeline.storage import storage_errors as storage_errors
    from cep_pipeline.storage import write_data_file as write_data_file
    from cep_pipeline.warehouse.fingerprints import NO_CARRY as NO_CARRY
    from cep_pipeline.warehouse.fingerprints import EventsFingerprint as EventsFingerprint
    from cep_pipeline.warehouse.fingerprints import MatchesFingerprint as MatchesFingerprint
    from cep_pipeline.warehouse.layout import MATCHES_SCHEMA as MATCHES_SCHEMA
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
    "ROW_GROUP_ROWS": "cep_pipeline.storage",
    "DataDirectory": "cep_pipeline.storage",
    "open_data_file": "cep_pipeline.storage",
    "read_data_file": "cep_pipeline.storage",
    "storage_errors": "cep_pipeline.storage",
    "write_data_file": "cep_pipeline.storage",
    "NO_CARRY": "cep_pipeline.warehouse.fingerprints",
    "EventsFingerprint": "cep_pipeline.warehouse.fingerprints",
    "MatchesFingerprint": "cep_pipeline.warehouse.fingerprints",
    "RawFile": "cep_pipeline.events.raw_files",
    "canonical_json": "cep_pipeline.storage",
    "digest_of": "cep_pipeline.storage",
    "MATCHES_SCHEMA": "cep_pipeline.warehouse.layout",
    "QUARANTINE_SCHEMA": "cep_pipeline.events.columns",
    "events_columns": "cep_pipeline.events.columns",
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
