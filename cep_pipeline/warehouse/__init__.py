"""The warehouse: Iceberg tables of events, matches and records, published atomically, one writer a day.

A run takes the lease of a day, lets tasks write files, and publishes exactly the files that they return:

    tables = Warehouse.open("warehouse").stream(schema)
    with tables.day_lease(day, run_id=run_id) as lease:
        path = write_data_file(tables.events_directory(day, run_id=run_id).file(task=0), events, tables.events_schema)
        tables.publish_events(day, [path], lease=lease, fingerprint=fingerprint, carry_out=carry_out)
"""

from __future__ import annotations

from cep_pipeline.warehouse.data_files import (
    ROW_GROUP_ROWS,
    DataDirectory,
    open_data_file,
    read_data_file,
    storage_errors,
    write_data_file,
)
from cep_pipeline.warehouse.fingerprints import (
    NO_CARRY,
    EventsFingerprint,
    MatchesFingerprint,
    RawFile,
    canonical_json,
    digest_of,
)
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, QUARANTINE_SCHEMA, events_columns
from cep_pipeline.warehouse.leases import Lease
from cep_pipeline.warehouse.records import (
    Decision,
    EventsFile,
    EventsSnapshot,
    LeaseHolder,
    MaintenanceReport,
    PlanRecord,
    PublishedDay,
    PublishedMatches,
    RunRecord,
    RunStep,
    StaleDay,
)
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse

__all__ = [
    "MATCHES_SCHEMA",
    "NO_CARRY",
    "QUARANTINE_SCHEMA",
    "ROW_GROUP_ROWS",
    "DataDirectory",
    "Decision",
    "EventsFile",
    "EventsFingerprint",
    "EventsSnapshot",
    "Lease",
    "LeaseHolder",
    "MaintenanceReport",
    "MatchesFingerprint",
    "PlanRecord",
    "PublishedDay",
    "PublishedMatches",
    "RawFile",
    "RunRecord",
    "RunStep",
    "StaleDay",
    "StreamTables",
    "Warehouse",
    "canonical_json",
    "digest_of",
    "events_columns",
    "open_data_file",
    "read_data_file",
    "storage_errors",
    "write_data_file",
]
