"""Events of files in the order of the stream, whatever the order of their rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.events import columns as event_columns
from cep_pipeline.events.event_files import in_order, load_events
from cep_pipeline.events.schema import StreamSchema
from tests.thoroughness import examples

SCHEMA = StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})


def events(number: int) -> pa.Table:
    """Three events an instant."""
    rows = [{"timestamp": at // 3, "kind": "AB"[at % 2], "x": at % 7} for at in range(number)]
    return SCHEMA.table(rows)


def written(folder: Path, *tables: pa.Table) -> list[Path]:
    paths = [folder / f"{place}.parquet" for place in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, row_group_size=50)
    return paths


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), max_size=12))
def test_rows_are_brought_in_order_where_they_are_not(rows: list[tuple[int, int, int]]) -> None:
    names = ["timestamp", "__file", "__line"]
    for given_rows in (rows, sorted(rows)):
        table = pa.table({name: pa.array([row[at] for row in given_rows], pa.int64()) for at, name in enumerate(names)})
        table = table.append_column("number", pa.array(range(len(rows)), pa.int64()))
        for columns in (names, names[:2]):
            ordered = in_order(table, columns)
            wanted = sorted(table.to_pylist(), key=lambda row: [row[name] for name in columns])
            assert ordered.to_pylist() == wanted
            assert (ordered is table) == (table.to_pylist() == wanted)


def test_files_in_any_order_are_sorted(tmp_path: Path) -> None:
    whole = events(300)
    reversed_rows = whole.take(pa.array(range(299, -1, -1)))
    mixed = whole.take(pa.array(range(0, 300, 2))), whole.take(pa.array(range(1, 300, 2)))
    late = pa.concat_tables([whole.slice(60), whole.slice(0, 60)])
    # Columns in another order, and one more; an instant that two files share.
    other = whole.slice(0, 100).select(["x", "kind", "seq", "timestamp"]).append_column("more", pa.nulls(100))
    for tables in ([whole], [reversed_rows], [*mixed], [late], [whole.slice(100), other, whole.slice(100, 0)]):
        assert load_events(SCHEMA, written(tmp_path, *tables)).events == whole


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["A", "B", "ß", None]), st.integers(0, 3)), max_size=30),
    st.lists(st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]), min_size=3),
    st.booleans(),
)
def test_columns_that_are_asked_for_are_those_of_all(
    rows: list[tuple[int, str | None, int]], kinds: list[pa.DataType], are_sorted: bool
) -> None:
    stamps = sorted(at for at, *_ in rows) if are_sorted else [at for at, *_ in rows]
    told = zip(stamps, rows, strict=True)
    whole = pa.Table.from_pylist(
        [{"timestamp": at, "seq": place, "kind": kind, "x": x} for place, (at, (_, kind, x)) in enumerate(told)],
        SCHEMA.arrow_schema,
    )
    with TemporaryDirectory() as folder:
        parts = [whole.slice(begin, 10) for begin in range(0, len(rows) or 1, 10)]
        parts = [
            one.set_column(2, "kind", one.column("kind").dictionary_encode().cast(kind).combine_chunks())
            if pa.types.is_dictionary(kind)
            else one.set_column(2, "kind", one.column("kind").cast(kind))
            for one, kind in zip(parts, kinds, strict=False)
        ]
        paths = written(Path(folder), *parts)
        found, all_of_it = load_events(SCHEMA, paths, columns=("seq", "kind", "timestamp")), load_events(SCHEMA, paths)
    assert all_of_it.events.column_names == ["timestamp", "seq", "kind", "x"]
    assert pa.types.is_dictionary(found.events.schema.field("kind").type)
    plain = found.events.set_column(2, "kind", found.events.column("kind").cast(pa.string()))
    assert plain.equals(all_of_it.events.drop_columns(["x"])) and found.notes == all_of_it.notes


def test_numbers_in_a_file_are_text_where_the_stream_has_text(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"timestamp": [1, 2], "seq": [1, 2], "kind": [7, 7], "x": ["no number", None]}), path)
    found = load_events(SCHEMA, [path], columns=("timestamp", "seq", "kind"))
    assert found.events.column("kind").to_pylist() == ["7", "7"], "and what x holds is not looked at"
    with pytest.raises(InputError, match="does not fit the stream schema"):
        load_events(SCHEMA, [path])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=8))
def test_events_are_in_step_if_each_is_behind_the_one_before(rows: list[tuple[int, int]]) -> None:
    stamps, seqs = (np.array([row[at] for row in rows], np.int64) for at in range(2))
    pairs = [*pairwise(rows)]
    found = event_columns.in_step(stamps, seqs)
    assert found == all(later[0] >= before[0] and later[1] > before[1] for before, later in pairs)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    whole = events(10)
    [path] = written(tmp_path, whole.drop(["x"]))
    with pytest.raises(InputError, match="column 'x' is missing"):
        load_events(SCHEMA, [path])
    with pytest.raises(InputError, match="no such file"):
        load_events(SCHEMA, [tmp_path / "none.parquet"])
    assert load_events(SCHEMA, written(tmp_path, whole.slice(0, 0))).events.num_rows == 0
    nulls = whole.set_column(whole.column_names.index("seq"), "seq", pa.array([None] * 10, pa.int64()))
    with pytest.raises(InputError, match=r"0\.parquet: 10 of 10 rows have no 'seq'"):
        load_events(SCHEMA, written(tmp_path, nulls))


def load(folder: Path, schema: str, *files: str) -> pa.Table:
    (folder / "s.yaml").write_text(
        f"{{name: air, timestamp: {{column: time, format: epoch_us}}, base_type: Reading, {schema}}}"
    )
    loaded = load_events(StreamSchema.load(folder / "s.yaml"), [folder / name for name in files])
    assert loaded.rejected == 0
    return loaded.events.combine_chunks()


def test_the_type_is_a_column_or_the_name_of_the_file_or_the_same_for_all(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("time,event_type,x\n1,north,1\n2,south,2\n2,north,3\n4,south,4\n")
    (tmp_path / "air-north.csv").write_text("time,x\n1,1\n2,3\n")
    (tmp_path / "air-south.csv").write_text("time,x\n2,2\n4,4\n")
    derived = "derived: {rise: {diff: {of: x}}}, key: [event_type, timestamp]"
    written_out = load(
        tmp_path,
        "type_attribute: event_type, attributes: {event_type: string, x: int64}, "
        f"{derived}, source: {{format: csv, path: all.csv}}",
        "all.csv",
    )
    by_name = load(
        tmp_path,
        f"attributes: {{x: int64}}, {derived}, source: {{format: csv, path: 'air-{{type}}.csv'}}",
        "air-north.csv",
        "air-south.csv",
    )
    columns = ["timestamp", "event_type", "x", "rise"]
    rows = sorted(written_out.select(columns).to_pylist(), key=lambda row: (row["timestamp"], row["event_type"]))
    assert by_name.select(columns).to_pylist() == rows
    assert [row["rise"] for row in rows] == [None, 2, None, 2]

    alike = load(tmp_path, "attributes: {x: int64}, source: {format: csv, path: all.csv}", "all.csv")
    assert set(alike["event_type"].to_pylist()) == {"Reading"}
    assert alike["x"].to_pylist() == [1, 2, 3, 4]


def test_a_file_whose_name_does_not_tell_its_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readings.csv").write_text("time,x\n1,1\n")
    with pytest.raises(InputError, match=r"readings\.csv: the name of the file does not tell the event type"):
        load(tmp_path, "attributes: {x: int64}, source: {format: csv, path: 'air-{type}.csv'}", "readings.csv")
