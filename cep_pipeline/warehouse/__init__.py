"""The warehouse: Iceberg tables of events, matches and records; a day is published at once, by one writer.

A run takes the lease of a day, lets tasks write files, and publishes exactly the files that they return, in all tables
together:

    tables = Warehouse.open("warehouse").stream(schema)
    with tables.day_lease(day, run_id=run_id) as lease:
        path = write_data_file(tables.events_directory(day, run_id=run_id).file(task=0), events, tables.events_schema)
        draft = tables.draft_events(day, [path], run_id=run_id, fingerprint=fingerprint, carry_out=carry_out)
        matches = tables.draft_matches("market", day, [matches_path], fingerprint=matches_fingerprint)
        tables.publish(day, [draft.quarantine, draft.events, matches], lease=lease)

A publication goes through these modules: `stream_tables` (what can be published), `leases` (one writer a day), `units`
(drafts until then, the records of what is published, and what is stale), `catalog` (the new snapshots of all tables,
their pointers and the records in one transaction of the `database`). `stream_tables` also reads what is published, by
`published_table`, each list of files as it was recorded; `layout` says how it is stored, `records` what it means;
`maintenance` removes what no table uses and merges small files, `verification` checks what is published, and
`rebuilding` makes a lost catalog anew. `warehouse` has the place that all of them share.
"""
