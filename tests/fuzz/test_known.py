"""What has failed once, each with the place that the message has to name: documents, buffers, files of events."""

from __future__ import annotations

import copy
import gzip
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cep_pipeline as cep
from cep_pipeline.detection.compressed.buffers import ListedMatches, MatchesOfEvent, Paths
from cep_pipeline.errors import InputError
from cep_pipeline.events.event_files import load_events
from cep_pipeline.expressions.columns import Array
from cep_pipeline.guarded import parse_json
from tests.cli.command_line import cep as command
from tests.fuzz.mutations import refused, watchdog
from tests.fuzz.test_fuzz import (
    FILES,
    KINDS,
    SCHEMA,
    csv_text,
    events,
    good_documents,
    good_files,
    parquet_bytes,
    patterns,
    raw_schema,
)

Place = tuple[Any, ...]


def put(content: Any, place: Place, value: Any) -> Any:
    """A copy of a document with another value at a place."""
    content = copy.deepcopy(content)
    node = content
    for part in place[:-1]:
        node = node[part]
    node[place[-1]] = value
    return content


DEEP_TREE: Any = "a"
for _ in range(300):
    DEEP_TREE = [DEEP_TREE, "b"]
STEP: Place = ("patterns", 0, "clauses", 0, "steps", 1)
CASES: list[tuple[str, Place, Any, str]] = [
    ("plan", ("alpha",), "0.5", r"alpha: .*valid number \(found '0.5'\)"),
    ("plan", ("alpha",), float("nan"), "alpha: .*finite"),
    ("plan", ("patterns",), {"a": 1}, "patterns: .*array"),
    ("plan", ("patterns", 0, "planner"), ["greedy"], r"patterns\[0\]\.planner"),
    ("plan", ("patterns", 0, "window"), "\ud800", "no plan: .*hex escape"),
    ("plan", ("patterns", 0, "clauses", 0, "tree"), "ab", r"clauses\[0\]\.tree|joins nothing"),
    ("plan", ("patterns", 0, "clauses", 0, "tree"), DEEP_TREE, "no plan: .*recursion"),
    ("plan", ("patterns", 0, "clauses", 0, "order"), [1, 2, 3, 4], r"clauses\[0\]\.order\[0\]"),
    ("plan", ("patterns", 0, "clauses", 0, "alternatives", 0, "ln_cost"), 10**400, "ln_cost"),
    ("plan", ("patterns", 0, "clauses", 0, "alternatives", 0, "order"), "abcd", r"alternatives\[0\]\.order"),
    ("plan", ("patterns", 0, "clauses", 0, "comparisons", 0, "chosen"), [99], "comparison of step"),
    ("plan", ("patterns", 0, "clauses", 0, "comparisons", 0, "chosen"), [], r"a comparison of step 0 binds \[\(\)"),
    ("plan", ("patterns", 0, "clauses", 0, "comparisons", 0, "step"), 9, "a comparison of step 9 binds"),
    ("plan", (*STEP, "rate_per_s"), -1.0, "a rate is finite and not negative"),
    ("plan", (*STEP, "conditions", 0, "correction"), -2.0, "a correction is finite and not negative"),
    ("plan", (*STEP, "ln_made"), 1e400, r"steps\[1\]\.ln_made: .*finite"),
    ("plan", (*STEP, "conditions"), 3, r"steps\[1\]\.conditions"),
    ("plan", ("sharing",), "all", "sharing"),
    ("plan", ("workload",), {"shared": []}, r"workload\.search: this is missing"),
    ("plan", ("more",), 1, "more: nothing of this name is known here"),
    ("plan", ("version",), 99, "version 99"),
    ("statistics", ("joints",), [{"conditions": [1, 2], "over": 5}], r"joints\[0\]\.conditions\[0\]"),
    ("statistics", ("rates", 0, "per_s"), float("inf"), r"rates\[0\]\.per_s: .*finite"),
    ("statistics", ("rates", 0, "per_s"), True, r"rates\[0\]\.per_s"),
    ("statistics", ("rates", 0, "source"), "guess", r"rates\[0\]\.source"),
    ("statistics", ("selectivities", 0, "value"), 2, r"a selectivity lies in \[0, 1\]"),
    ("statistics", ("start_us",), 10**30, "start_us|ends"),
    ("statistics", ("events",), 1.5, "events: "),
    ("state", ("bins", "counts"), "eJw=", "damaged"),
    ("observed", ("profiles", 0, "last", 0), -1, "the last one of so many matches"),
    ("observed", ("profiles", 0, "last"), [0], "no record of what detection observed"),
    ("carry", ("last_values", "x", "A"), 2.0, r"last_values\.x\.A"),
    ("distances", ("own",), "abc", "own: "),
    ("violation", ("patterns",), 3, "patterns: "),
    ("plan", ("patterns", 0, "clauses", 0, "comparisons", 0, "chosen"), "a", r"comparisons\[0\]\.chosen"),
]


@pytest.mark.parametrize(("kind", "place", "value", "message"), CASES)
def test_a_document_is_refused_with_its_place(kind: str, place: Place, value: Any, message: str) -> None:
    content = put(good_documents(kind)[0], place, value)
    with pytest.raises(InputError, match=message):
        KINDS[kind].read(content)


@pytest.mark.parametrize("content", [None, [], 3, "plan", [1]])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_object_is_refused(kind: str, content: Any) -> None:
    assert refused(lambda: KINDS[kind].read(content))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN}', "NaN is no number of JSON"),
        ('{"a": -Infinity}', "-Infinity is no number"),
        ("[" * 100_000, "too deeply"),
        ('{"a": ' * 100_000, "too deeply"),
        ("9" * 5000, "no JSON"),
        ('{"a": 1', r"p\.json:1:8: the plan is no JSON"),
        (b"\xff\xfe{", "no JSON"),
        ("", "no JSON"),
    ],
    ids=range(8),
)
def test_text_that_is_no_json(text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_json(text, "p.json", "plan")


# Buffers of matches


def table_of(kind: int) -> pa.Table:
    return pq.read_table(pa.BufferReader(good_files("compressed")[kind]))


def with_buffer(table: pa.Table, data: bytes, count: str | None = None) -> pa.Table:
    """The first row of a table with another buffer."""
    row = table.slice(0, 1)
    row = row.set_column(4, table.schema.field("buffer"), pa.array([data], pa.binary()))
    return row if count is None else row.set_column(3, table.schema.field("count"), pa.array([count]))


def changed(table: pa.Table, **parts: Any) -> bytes:
    """The first buffer with other parts of its graph."""
    buffer = MatchesOfEvent.from_bytes(table.column("buffer")[0].as_py())
    return graph_bytes(replace(buffer, matches=replace(buffer.matches, **parts)))


def graph_bytes(buffer: MatchesOfEvent) -> bytes:
    """A buffer of a graph, without attributes."""
    paths = buffer.matches
    assert isinstance(paths, Paths)
    statement = buffer.statement.encode()
    statement += b"\0" * (-len(statement) % 8)
    clocks = (np.diff(buffer.events.column(name).to_numpy(), prepend=0) for name in ("timestamp", "seq"))
    steps = (np.diff(paths.targets, prepend=0), paths.sources - paths.targets, np.diff(paths.events, prepend=0))
    rest = struct.pack("<II", len(statement), 0) + statement
    rest += struct.pack("<III", buffer.events.num_rows, len(paths.sources), paths.nodes)
    rest += b"".join(clock.astype(np.int64).tobytes() for clock in clocks)
    rest += b"".join(step.astype(np.int32).tobytes() for step in steps) + paths.variables.astype(np.int16).tobytes()
    compressed = pa.Codec("zstd").compress(rest, asbytes=True)
    return struct.pack("<4sBBxxQ", b"CEPB", 1, 0, len(rest)) + compressed


def listed_bytes(buffer: MatchesOfEvent, offsets: Array) -> bytes:
    """A buffer of listed matches, with other offsets of matches, and without attributes."""
    matches = buffer.matches
    assert isinstance(matches, ListedMatches)
    statement = buffer.statement.encode()
    sizes = struct.pack("<IIIII", len(statement), buffer.events.num_rows, len(offsets) - 1, 0, 4)
    clocks = (buffer.events.column(name).to_numpy().tobytes() for name in ("timestamp", "seq"))
    elements = (np.diff(offsets).astype(np.uint32), matches.variables, matches.events)
    rest = b"".join((sizes, statement, *clocks, *(part.tobytes() for part in elements)))
    return struct.pack("<4sBBxxQ", b"CEPB", 2, 1, len(rest)) + rest


def graph() -> tuple[pa.Table, Paths]:
    for kind in range(len(good_files("compressed"))):
        table = table_of(kind)
        matches = MatchesOfEvent.from_bytes(table.column("buffer")[0].as_py()).matches
        if isinstance(matches, Paths):
            return table, matches
    raise AssertionError("there is no graph")


GRAPHS: dict[str, tuple[Callable[[Paths], dict[str, Any]], str]] = {
    "events beside the table": (lambda paths: {"events": paths.events + 100_000}, "other events"),
    "events before the table": (lambda paths: {"events": paths.events - 1000}, "other events"),
    "an edge that leads back": (lambda paths: {"sources": paths.targets.copy()}, "leads back"),
    "an edge out of the graph": (lambda paths: {"targets": paths.targets + 9}, "leads back, or out of the graph"),
    "many nodes": (lambda paths: {"nodes": 2_000_000_000}, "are no graph"),
    "a node on no path": (lambda paths: {"nodes": paths.nodes + 1}, "no graph|on no path"),
    "other variables": (lambda paths: {"variables": np.full_like(paths.variables, 77)}, "other variables"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_that_leads_nowhere_is_refused(name: str) -> None:
    table, paths = graph()
    change, message = GRAPHS[name]
    with pytest.raises(InputError, match=message):
        cep.expand(with_buffer(table, changed(table, **change(paths)))).read_all()


@pytest.mark.parametrize("count", ["abc", "NaN", "", "-3", "1.5", "٣", "9" * 300_000, "0"])
def test_a_count_that_is_no_number_is_refused(count: str) -> None:
    table, _ = graph()
    data = table.column("buffer")[0].as_py()
    with pytest.raises(InputError, match="is no number of matches"):
        cep.expand(with_buffer(table, data, count)).read_all()


def ladder(rungs: int) -> MatchesOfEvent:
    """Matches A+ a[] with 2^rungs - 1 lists, in a buffer of a few hundred bytes."""
    [pattern] = cep.parse_patterns("NAME lists PATTERN A+ a[] WITHIN 1 day", SCHEMA)
    rows = [{"timestamp": at, "kind": "A", "x": 0.0, "n": 0} for at in range(rungs)]
    with (  # few matches would be listed
        patch("cep_pipeline.detection.outputs._listed_up_to", lambda *_: None),
    ):
        table = cep.detect([pattern], SCHEMA.table(rows), output="compressed")["lists"]
    return MatchesOfEvent.from_bytes(table.column("buffer")[-1].as_py())


@pytest.mark.parametrize(("rungs", "count"), [(40, "5"), (40, "100000"), (8, "3"), (8, "1000"), (20, "1000000")])
def test_a_buffer_with_another_number_of_matches_than_it_says_is_refused(rungs: int, count: str) -> None:
    """2^39 matches that are said to be 5 must not be listed before somebody counts."""
    buffer = ladder(rungs)
    [pattern] = cep.parse_patterns("NAME lists PATTERN A+ a[] WITHIN 1 day", SCHEMA)
    rows = [{"timestamp": 0, "kind": "A", "x": 0.0, "n": 0}]
    table = cep.detect([pattern], SCHEMA.table(rows), output="compressed")["lists"]
    with pytest.raises(InputError, match=r"is said to hold|it holds more than"):
        cep.expand(with_buffer(table, graph_bytes(buffer), count)).read_all()


def test_a_list_of_matches_with_wrong_lengths_is_refused() -> None:
    for kind in range(len(good_files("compressed"))):
        table = table_of(kind)
        buffer = MatchesOfEvent.from_bytes(table.column("buffer")[0].as_py())
        matches = buffer.matches
        if isinstance(matches, ListedMatches):
            lengths = listed_bytes(buffer, matches.offsets + np.arange(len(matches.offsets)))
            with pytest.raises(InputError, match="damaged"):
                cep.expand(with_buffer(table, lengths)).read_all()
            return
    raise AssertionError("there is no list")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("no json", "no JSON"),
        ("[]", "is damaged"),
        ("[" * 50_000, "too deeply"),
        ('{"name": 3}', "name: "),
    ],
)
def test_a_statement_that_is_none_is_refused(statement: str, message: str) -> None:
    table, _ = graph()
    buffer = MatchesOfEvent.from_bytes(table.column("buffer")[0].as_py())
    with pytest.raises(InputError, match=message):
        cep.expand(with_buffer(table, graph_bytes(replace(buffer, statement=statement)))).read_all()
    forged = table.replace_schema_metadata({b"cep.statements": json.dumps([statement]).encode()})
    with pytest.raises(InputError, match=message):
        cep.expand(forged).read_all()


@pytest.mark.parametrize("metadata", [b"{", b"\xff", b"{}", b"[1]", b'"a"'])
def test_metadata_that_are_none_are_refused(metadata: bytes) -> None:
    table, _ = graph()
    with pytest.raises(InputError, match="the statements of a compressed table"):
        cep.expand(table.replace_schema_metadata({b"cep.statements": metadata}))


def test_a_buffer_that_claims_more_than_it_can_hold_is_refused() -> None:
    table, _ = graph()
    data = table.column("buffer")[0].as_py()
    with pytest.raises(InputError, match="it claims"):
        cep.expand(with_buffer(table, data[:8] + (1 << 33).to_bytes(8, "little") + data[16:])).read_all()


# Files of events


def nulled(name: str) -> pa.Table:
    table = events()
    place = table.column_names.index(name)
    values = table.column(name).to_pylist()
    values[3] = None
    return table.set_column(place, name, pa.array(values, table.schema.field(name).type))


def retyped(name: str, kind: pa.DataType) -> pa.Table:
    table = events()
    return table.set_column(table.column_names.index(name), name, pa.nulls(table.num_rows, kind))


READY: dict[str, tuple[Callable[[], bytes], str]] = {
    "null timestamps": (lambda: parquet_bytes(nulled("timestamp")), "1 of 300 rows have no 'timestamp'"),
    "null seqs": (lambda: parquet_bytes(nulled("seq")), "1 of 300 rows have no 'seq'"),
    "times of another type": (lambda: parquet_bytes(retyped("timestamp", pa.list_(pa.int8()))), "x.parquet: "),
    "structs": (lambda: parquet_bytes(retyped("x", pa.struct([("a", pa.int8())]))), "does not fit"),
    "a missing column": (lambda: parquet_bytes(events().drop(["n"])), "column 'n' is missing"),
    "cut off": (lambda: parquet_bytes(events())[:-100], "truncated or corrupt"),
    "an encrypted footer": (lambda: parquet_bytes(events())[:-4] + b"PARE", "truncated or corrupt"),
    "no UTF-8": (
        lambda: parquet_bytes(events(), compression="none").replace(
            b"\x01\x00\x00\x00A\x01", b"\x01\x00\x00\x00\xff\x01"
        ),
        "x.parquet: ",
    ),
    "nothing": (lambda: b"", "truncated or corrupt"),
    "text": (lambda: b"timestamp,seq\n1,2\n", "Parquet magic bytes not found"),
}


@pytest.mark.parametrize("name", READY)
def test_a_ready_file_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    make, message = READY[name]
    path.write_bytes(make())
    with pytest.raises(InputError, match=message):
        load_events(SCHEMA, [path])


def test_times_that_python_does_not_know_are_rejected(tmp_path: Path) -> None:
    stamps = [-(2**62), 2**62, 0, 10**17]
    table = pa.table(
        {"at": pa.array(stamps, pa.timestamp("us", "UTC")), "kind": ["A"] * 4, "x": [1.0] * 4, "n": [1] * 4}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    found = load_events(raw_schema("parquet"), [tmp_path / "x.parquet"])
    assert (found.events.num_rows, found.rejected) == (2, 2)
    assert "is no timestamp" in found.notes[0]


def test_text_of_a_raw_parquet_file_that_is_no_unicode_is_told(tmp_path: Path) -> None:
    kinds = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe"))
    stamps = pa.array([0], pa.timestamp("us", "UTC"))
    table = pa.table({"at": stamps, "kind": kinds, "x": [1.0], "n": [1]})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"x\.parquet: the file is truncated or corrupt"):
        load_events(raw_schema("parquet"), [tmp_path / "x.parquet"])


HEAD, ROW = b"at,kind,x,n\n", b"2024-03-04T10:00:00Z,A,1,2\n"
RAW: dict[str, tuple[bytes, int]] = {
    "zero bytes": (HEAD + ROW + b"\0\0\0\n" + ROW, 2),
    "a field of megabytes": (HEAD + ROW + b"2024-03-04T10:00:01Z," + b"A" * 5_000_000 + b",1,2\n", 1),
    "a quote without end": (HEAD + ROW + b'2024-03-04T10:00:01Z,"' + b"A\n" * 10_000, 1),
    "thousands of fields": (HEAD + b"," * 200_000 + b"\n" + ROW, 1),
    "years and offsets that there are not": (
        HEAD + b"99999-01-01T00:00:00Z,B,1,2\n2024-03-04T10:00:00+99:99,A,1,1\n" + ROW,
        1,
    ),
    "numbers without end": (HEAD + b"2024-03-04T10:00:00Z,A,1," + b"9" * 5000 + b"\n" + ROW, 1),
    "nothing": (b"", 0),
    "only a header": (HEAD, 0),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", RAW)
def test_odd_rows_of_a_raw_file_are_rejected(name: str, packed: bool, tmp_path: Path) -> None:
    data, rows = RAW[name]
    path = tmp_path / ("x.csv.gz" if packed else "x.csv")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert load_events(raw_schema("csv"), [path]).events.num_rows == rows


def test_a_packed_file_of_zeros_is_refused_before_it_is_all_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "zeros.csv.gz"
    with gzip.open(path, "wb", 1) as file:
        for _ in range(300):
            file.write(bytes(1 << 20))
    with pytest.raises(InputError, match="no line ends within"):
        load_events(raw_schema("csv"), [path])


def test_the_good_ones_are_good(tmp_path: Path) -> None:
    """Else the cases above would be refused for what they have in common."""
    assert csv_text() and patterns()
    for kind, file in FILES.items():
        for data in good_files(kind):
            path = tmp_path / f"good{file.suffix}"
            path.write_bytes(data)
            assert refused(lambda path=path, file=file: file.read(path)) is None, kind  # type: ignore[misc]


@pytest.mark.parametrize("name", ["cycle.yaml", "deep_flow.yaml", "digits.yaml"])
def test_a_command_refuses_a_configuration_at_once(name: str, tmp_path: Path) -> None:
    odd = Path(__file__).parent / "corpus" / "schema" / name
    (tmp_path / "pipeline.yaml").write_bytes(odd.read_bytes())
    with watchdog():
        for arguments in (("status",), ("run",)):
            done = command(*arguments, folder=tmp_path)
            assert done.code == 2
            assert "pipeline.yaml:" in done.error


def test_a_command_refuses_a_damaged_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(put(good_documents("plan")[0], ("alpha",), "much")))
    done = command("explain", "--plan", "plan.json", folder=tmp_path)
    assert done.code == 2
    assert "plan.json: no plan: alpha: " in done.error
