"""The order of events within one microsecond."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.events.event_files import load_events, read
from cep_pipeline.events.schema import StreamSchema
from tests.thoroughness import examples

BEGIN_NS = 1_704_362_400_000_000_000


def stream(folder: Path, source: str, form: str = "iso", key: str = "") -> StreamSchema:
    (path := folder / "ticks.yaml").write_text(
        f"name: ticks\ntype_attribute: kind\ntimezone: Europe/Copenhagen\n"
        f"timestamp: {{column: time, format: '{form}'}}\n"
        f'attributes: {{kind: string, x: int64}}\nkey: [{key}]\nsource: {{format: {source}, path: "*.{source}"}}\n'
    )
    return StreamSchema.load(path)


def rows_of(folder: Path, name: str, rows: list[tuple[str, str, int]]) -> Path:
    path = folder / name
    path.write_text("time,kind,x\n" + "".join(f"{time},{kind},{x}\n" for time, kind, x in rows))
    return path


@pytest.mark.parametrize("form", ["iso", "Z", "epoch_ns", "%Y-%m-%dT%H:%M:%S.%f", "parquet", "a data frame"])
@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.integers(0, 4_000), min_size=1, max_size=40).flatmap(st.permutations), st.integers(0, 40))
def test_nanoseconds_order_events_before_they_are_cut(form: str, offsets: list[int], cut: int) -> None:
    """Drawn nanoseconds in any order, in one file or two, are read in their order, ties in the order of the files."""
    stamps = BEGIN_NS + np.array(offsets, np.int64)
    expected = sorted(range(len(stamps)), key=lambda row: (stamps[row], row))
    with TemporaryDirectory() as name:
        folder = Path(name)
        if form in ("parquet", "a data frame"):
            frame = pa.table({"time": pa.array(stamps, pa.timestamp("ns", "UTC")), "kind": ["A"] * len(stamps)})
            frame = frame.append_column("x", pa.array(range(len(stamps))))
            paths = [folder / "a.parquet", folder / "b.parquet"]
            schema = stream(folder, "parquet")
            for path, table in zip(paths, (frame.slice(0, cut), frame.slice(cut)), strict=True):
                pq.write_table(table, path, row_group_size=5)
            events = read(schema, frame if form == "a data frame" else paths)
        else:
            schema = stream(folder, "csv", "iso" if form == "Z" else form)
            local = stamps + (0 if form in ("Z", "epoch_ns") else 3_600_000_000_000)  # Copenhagen in January
            texts = local if form == "epoch_ns" else np.datetime_as_string(local.astype("M8[ns]"))
            rows = [(f"{text}{'Z' * (form == 'Z')}", "A", x) for x, text in enumerate(texts)]
            paths = [rows_of(folder, "a.csv", rows[:cut]), rows_of(folder, "b.csv", rows[cut:])]
            events = load_events(schema, paths).events
    assert events["x"].to_pylist() == expected
    assert events["timestamp"].cast(pa.int64()).to_pylist() == [int(stamps[row]) // 1000 for row in expected]


def test_a_key_with_the_time_is_compared_to_the_nanosecond(tmp_path: Path) -> None:
    rows = [(f"2024-01-04 10:00:00.00000000{digit}", "A", digit) for digit in (3, 1, 3, 2)]
    loaded = load_events(stream(tmp_path, "csv", key="kind, timestamp"), [rows_of(tmp_path, "a.csv", rows)])
    assert (loaded.events["x"].to_pylist(), loaded.rejected) == ([1, 2, 3], 1)
