"""Events of the experiments' streams: tables with numbered events, differences of a type, and the month of readings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cep_pipeline.events.schema import StreamSchema


def events_schema(name: str, base_type: str, type_attribute: str, **attributes: str) -> StreamSchema:
    """The schema of a stream whose events are of a type, with further attributes."""
    content = {"base_type": base_type, "type_attribute": type_attribute, "attributes": attributes}
    return StreamSchema.from_dict(content, name=name)


def event_table(time_us: npt.NDArray[np.int64], **columns: pa.Array | npt.NDArray[np.generic]) -> pa.Table:
    """Events in stream order, which `seq` counts, at microseconds since 1970."""
    return pa.table(
        {
            "timestamp": pa.array(time_us).cast(pa.timestamp("us", tz="UTC")),
            "seq": pa.array(np.arange(len(time_us), dtype=np.int64)),
            **columns,
        }
    )


def named_types(codes: npt.NDArray[np.integer], names: Sequence[str]) -> pa.DictionaryArray:
    """The types of events by the places of their names."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names))


def differences_by_type(codes: npt.NDArray[np.integer], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The difference of each value to the one before of its type; 0 for the first."""
    order = np.argsort(codes, kind="stable")
    sorted_codes, sorted_values = codes[order], values[order]
    steps = np.zeros(len(values))
    steps[1:] = np.where(sorted_codes[1:] == sorted_codes[:-1], np.diff(sorted_values), 0.0)
    differences = np.empty(len(values))
    differences[order] = steps
    return differences
