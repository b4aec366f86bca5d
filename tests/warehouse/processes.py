"""Processes of the warehouse tests, forked from one that has imported what they need (1-2 s) and runs no threads."""

from __future__ import annotations

import multiprocessing

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "cep_pipeline.warehouse.catalog",
        "cep_pipeline.warehouse.stream_tables",
        "pyarrow.dataset",
        "tests.warehouse.published_days",
    ]
)
