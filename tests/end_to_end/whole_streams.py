"""Streams of the checkout's pipeline.yaml through the pipeline, and the matches that were published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.day import OPTIONS
from cep_pipeline.pipeline.day_work import LogObserver
from cep_pipeline.pipeline.run import PipelineRun, RunOutcome
from cep_pipeline.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cep_pipeline.warehouse.stream_tables import StreamTables

CHECKOUT = Path(__file__).parents[2]
SHARED = CHECKOUT.parent / "shared" / "data"
real = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not beside the checkout")


def run_stream(
    folder: Path,
    spark: SparkSession,
    name: str,
    data: Path,
    days: Sequence[date],
    steps: Iterable[str] = tuple(OPTIONS),
) -> tuple[RunOutcome, StreamTables]:
    """Run days of a stream of the checkout's pipeline.yaml into a warehouse of its own."""
    configuration = Configuration.load(CHECKOUT / "pipeline.yaml")
    stream = configuration.stream(name, data=data)
    tables = Warehouse.open(folder / "warehouse").stream(stream.schema)
    run = PipelineRun(
        stream,
        tables,
        stream.pattern_sets,
        lambda: spark,
        LogObserver(),
        steps=frozenset(steps),
    )
    return run.run_days(days), tables


def found_seqs(tables: StreamTables, pattern_set: str, pattern: str) -> np.ndarray:
    """The seqs of all published matches of a pattern: one row a match, variables in the pattern's order, sorted."""
    matches = tables.read_matches(pattern_set, pattern=pattern)
    bindings = matches["bindings"].combine_chunks()
    if not len(bindings):
        return np.empty((0, 0), dtype=np.int64)
    seqs = bindings.flatten().field("seq").to_numpy()
    return sort_rows(seqs.reshape(len(bindings), -1))


def sort_rows(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T[::-1])]
