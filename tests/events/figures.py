"""The figures of validation counted by Arrow over tables of events, beside those that ingestion counts by Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.stream_document import Expectation
from cep_pipeline.events.validate import Figures, Unexpected, asked_figures

EXAMPLES = 3


def figures_of(events: pa.Table, schema: StreamSchema, day: date) -> Figures:
    """Return what the validation of a day needs to know of its events, in their order."""
    asked = asked_figures(schema, day)
    values = {name: events.column(name) for name in asked.missing}
    values[TIMESTAMP] = values[TIMESTAMP].cast(pa.timestamp("us")).cast(pa.int64())
    there = {name: without_nan(column) for name, column in values.items()}
    return replace(
        asked,
        rows=events.num_rows,
        missing={name: len(column) - len(there[name].drop_null()) for name, column in values.items()},
        nans={name: len(values[name]) - len(there[name]) for name in asked.nans},
        outside={bounds: outside(values[bounds.column], bounds) for bounds in asked.outside},
    )


def without_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(column.type):
        return column
    return column.filter(pc.fill_null(pc.invert(pc.is_nan(column)), True))


def outside(column: pa.ChunkedArray, bounds: Expectation) -> Unexpected:
    """The values outside bounds; null and NaN are none of them."""
    wrong = pa.chunked_array([pa.repeat(pa.scalar(False), len(column))])
    fails = {
        pc.less_equal: bounds.above,
        pc.less: bounds.at_least,
        pc.greater_equal: bounds.below,
        pc.greater: bounds.at_most,
    }
    for is_beyond, bound in fails.items():
        if bound is not None:
            wrong = pc.or_(wrong, is_beyond(column, pa.scalar(bound)))
    found = column.filter(pc.fill_null(wrong, False))
    return Unexpected(len(found), tuple(found.slice(0, EXAMPLES).to_pylist()))
