"""Documents and files that somebody has damaged or forged end in a message with their name, or are read.

The cases are drawn from a seed for each kind: a hundred in `make test`, thousands in `make test-all`. What has ever
failed stands in `tests/fuzz/corpus` and is tried each time.
"""

from __future__ import annotations

import bz2
import gzip
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cep_pipeline as cep
from cep_pipeline.adaptation.distance import Distances
from cep_pipeline.adaptation.invariants import invariants_of
from cep_pipeline.cli.sources import read_plan
from cep_pipeline.documents import load_document
from cep_pipeline.errors import InputError
from cep_pipeline.events.derived import Carry
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.guarded import parse_json
from cep_pipeline.patterns.pattern import Window
from cep_pipeline.pipeline.configuration import PipelineSettings
from cep_pipeline.pipeline.violations import Violation
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.estimate import windowed_statistics
from cep_pipeline.statistics.observed import Observed, OutputProfile
from cep_pipeline.statistics.windowed import WindowedStatistics
from tests.fuzz.mutations import mutated_bytes, mutated_document, refused

CORPUS = Path(__file__).parent / "corpus"
CHECKOUT = Path(__file__).parents[2]
FEW, MANY = 100, 2000

SCHEMA = StreamSchema.from_dict(
    {"base_type": "Ev", "type_attribute": "kind", "attributes": {"kind": "string", "x": "float64", "n": "int64"}}
)
PATTERNS = """
NAME both PATTERN AND(A a, B b, C c, D d, NOT(E e)) WHERE a.x < b.x AND b.x < c.x AND c.x > d.x AND e.x = a.x AND [n]
WITHIN 5 seconds;
NAME either PATTERN OR(SEQ(A a, B b), C+ c[]) WITHIN 1 second;
NAME chain PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 4 seconds RETURN a.x, c.kind AS last, c.n;
NAME lists PATTERN SEQ(A a, B+ b[], C c) WITHIN 400 ms RETURN count(b[].x), c.x
"""


@cache
def patterns() -> list[cep.Pattern]:
    return cep.parse_patterns(PATTERNS, SCHEMA)


@cache
def events() -> pa.Table:
    random = Random(1)
    rows = [
        {"timestamp": at * 100_000, "kind": random.choice("ABCDE"), "x": float(random.randrange(5)), "n": at % 3}
        for at in range(300)
    ]
    return SCHEMA.table(rows)


@cache
def snapshot() -> StatisticsSnapshot:
    return cep.estimate_statistics(patterns(), events())


def in_json(content: Any) -> Any:
    return json.loads(json.dumps(content))


@dataclass(frozen=True)
class DocumentKind:
    """A kind of JSON document: good ones, and how they are read and used."""

    good: Callable[[], list[Any]]
    read: Callable[[Any], object]


def plans() -> list[Any]:
    made = [cep.plan(patterns(), snapshot(), planner) for planner in ("greedy", "zstream", "dp_bushy")]
    return [in_json(plan.to_json()) for plan in made]


def use_plan(content: Any) -> object:
    plan = Plan.from_json(content, "plan.json")
    plan.explain()
    assert Plan.from_json(in_json(plan.to_json())).plan_id == plan.plan_id
    validate(plan, patterns())
    return invariants_of(plan, patterns(), 2)


def use_snapshot(content: Any) -> object:
    found = StatisticsSnapshot.from_json(content, "statistics.json")
    assert StatisticsSnapshot.from_json(in_json(found.to_json())).digest == found.digest
    return [cep.plan(patterns(), found, planner).explain() for planner in ("greedy", "zstream")]


def use_state(content: Any) -> object:
    state = WindowedStatistics.from_json(content, "state.json")
    return state.digest, state.snapshot() if state.events else None


def observed() -> Observed:
    profile = OutputProfile("both", ("a", "b"), (1, 2))
    return Observed((profile,))


VIOLATION = Violation("market", 3, "key", "because", ("both",))
CARRY = Carry({"x": {"A": (1.0, float("nan")), "B": (2.0,)}})
KINDS = {
    "plan": DocumentKind(plans, use_plan),
    "statistics": DocumentKind(lambda: [in_json(snapshot().to_json())], use_snapshot),
    "state": DocumentKind(
        lambda: [in_json(windowed_statistics(patterns(), events(), Window(time_us=5_000_000)).to_json())],
        use_state,
    ),
    "observed": DocumentKind(
        lambda: [in_json(observed().to_json())], lambda content: Observed.from_json(content).to_json()
    ),
    "distances": DocumentKind(lambda: [{"everywhere": 0.1, "own": {"key": 0.5}}], Distances.from_json),
    "violation": DocumentKind(lambda: [in_json(VIOLATION.to_json())], Violation.from_json),
    "carry": DocumentKind(lambda: [in_json(CARRY.to_json())], lambda content: Carry.from_json(content).digest),
}


@cache
def good_documents(kind: str) -> list[Any]:
    return KINDS[kind].good()


def fuzz_documents(kind: str, cases: int, seed: int) -> None:
    random = Random(f"{kind} {seed}")
    good = good_documents(kind)
    for content in good:
        assert refused(lambda content=content: KINDS[kind].read(content)) is None  # type: ignore[misc]
    messages = []
    for _ in range(cases):
        content = mutated_document(random.choice(good), random)
        try:
            messages.append(refused(lambda content=content: KINDS[kind].read(content)))  # type: ignore[misc]
        except BaseException as error:
            error.add_note(json.dumps(content)[:20_000])
            raise
    assert any(message is not None for message in messages)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_document_is_refused_or_read(kind: str) -> None:
    fuzz_documents(kind, FEW, 1)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_documents_are_refused_or_read(kind: str) -> None:
    fuzz_documents(kind, MANY, 2)


# Files: bytes are changed.


def use_schema(path: Path) -> object:
    return StreamSchema.load(path)


def use_settings(path: Path) -> object:
    return load_document(path, PipelineSettings, "pipeline configuration", variables=True)


def use_compressed(path: Path) -> object:
    try:
        table = pq.read_table(path, page_checksum_verification=True)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error
    return cep.expand(table).read_all().validate(full=True)


CSV_SCHEMA = """
name: ticks
type_attribute: kind
timezone: UTC
timestamp: {column: at, format: iso}
attributes: {kind: string, x: float64, n: int64}
source: {format: FORMAT, path: "{day:%Y-%m-%d}.csv"}
"""


@cache
def raw_schema(form: str) -> StreamSchema:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ticks.yaml")
        path.write_text(CSV_SCHEMA.replace("FORMAT", form))
        return StreamSchema.load(path)


def use_raw(path: Path) -> object:
    form = "parquet" if path.suffix == ".parquet" else "csv"
    return load_events(raw_schema(form), [path]).events.validate(full=True)


def use_ready(path: Path) -> object:
    loaded = load_events(SCHEMA, [path])
    loaded.events.validate(full=True)
    return PreparedEvents(loaded.events, type_attribute="kind")


def csv_text() -> bytes:
    rows = [f"2024-03-04T10:00:{at:02}Z,{'AB'[at % 2]},{at / 3},{at}" for at in range(60)]
    return ("at,kind,x,n\n" + "\n".join(rows) + '\n2024-03-04T10:02:00Z,"A ""b""",1,2\n').encode()


def parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def raw_table() -> pa.Table:
    table = events()
    return pa.table({"at": table["timestamp"], "kind": table["kind"], "x": table["x"], "n": table["n"]})


def compressed_tables() -> list[bytes]:
    with (  # few matches would be listed
        patch("cep_pipeline.detection.outputs._listed_up_to", lambda *_: None),
    ):
        found = cep.detect(patterns()[1:], events(), output="compressed")
    run = "NAME run PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { b[i].x >= a.x } WITHIN 9 seconds"
    listed = cep.parse_patterns(f"{run} RETURN c.kind", SCHEMA)
    found |= cep.detect(listed, events(), output="compressed")
    return [parquet_bytes(table.slice(0, 4)) for table in found.values()]


@dataclass(frozen=True)
class FileKind:
    """A kind of file: its ending, good ones, and how they are read."""

    suffix: str
    good: Callable[[], list[bytes]]
    read: Callable[[Path], object]


FILES = {
    "schema": FileKind(
        ".yaml", lambda: [path.read_bytes() for path in sorted((CHECKOUT / "streams").glob("*.yaml"))], use_schema
    ),
    "pipeline": FileKind(".yaml", lambda: [(CHECKOUT / "pipeline.yaml").read_bytes()], use_settings),
    "plan": FileKind(".json", lambda: [json.dumps(plan).encode() for plan in good_documents("plan")], read_plan),
    "patterns": FileKind(
        ".sase",
        lambda: [PATTERNS.encode()],
        lambda path: cep.parse_patterns(path.read_bytes().decode("utf-8", "replace"), SCHEMA, source=str(path)),
    ),
    "csv": FileKind(".csv", lambda: [csv_text()], use_raw),
    "csv.gz": FileKind(".csv.gz", lambda: [gzip.compress(csv_text())], use_raw),
    "csv.bz2": FileKind(".csv.bz2", lambda: [bz2.compress(csv_text())], use_raw),
    "raw parquet": FileKind(".parquet", lambda: [parquet_bytes(raw_table(), row_group_size=100)], use_raw),
    "ready parquet": FileKind(
        ".parquet",
        lambda: [
            parquet_bytes(events()),
            parquet_bytes(events(), row_group_size=50, compression="none", use_dictionary=False),
        ],
        use_ready,
    ),
    "compressed": FileKind(".parquet", compressed_tables, use_compressed),
}


@cache
def good_files(kind: str) -> list[bytes]:
    return FILES[kind].good()


def read_file(kind: str, path: Path) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return refused(lambda: FILES[kind].read(path))


def fuzz_files(kind: str, cases: int, seed: int, folder: Path) -> None:
    random = Random(f"{kind} {seed}")
    path = folder / f"case{FILES[kind].suffix}"
    good = good_files(kind)
    for data in good:
        path.write_bytes(data)
        assert read_file(kind, path) is None
    for _ in range(cases):
        data = mutated_bytes(random.choice(good), random)
        path.write_bytes(data)
        try:
            read_file(kind, path)
        except BaseException as error:
            kept = folder / f"failed{FILES[kind].suffix}"
            kept.write_bytes(data)
            error.add_note(f"the case is kept in {kept}")
            raise


@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file_is_refused_or_read(kind: str, tmp_path: Path) -> None:
    fuzz_files(kind, FEW, 1, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", FILES)
def test_many_damaged_files_are_refused_or_read(kind: str, tmp_path: Path) -> None:
    fuzz_files(kind, MANY, 2, tmp_path)


# Compressed tables whose Parquet is whole: their columns and buffers are changed.


def mutated_table(data: bytes, random: Random) -> pa.Table:
    """A compressed table with a cell, a column or its metadata changed."""
    table = pq.read_table(pa.BufferReader(data))
    name = random.choice(["pattern", "end_seq", "end_ts", "count", *["buffer"] * 6, "metadata"])
    if name == "metadata":
        [(key, value)] = table.schema.metadata.items()
        return table.replace_schema_metadata({key: mutated_bytes(value, random)})
    place = table.column_names.index(name)
    values = table.column(name).to_pylist()
    row = random.randrange(len(values))
    if name == "buffer":
        values[row] = changed_buffer(values[row], random)
    else:
        values[row] = (
            random.choice([None, "abc", "NaN", "-1", "1e9", "9" * 20]) if name in ("count", "pattern") else None
        )
    return table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))


def changed_buffer(data: bytes, random: Random) -> bytes:
    """A buffer of matches whose content is changed before it is compressed again, or afterwards."""
    if random.random() < 0.2:
        return mutated_bytes(data, random)
    size = int.from_bytes(data[8:16], "little")
    codec, plain = pa.Codec("zstd"), data[4] > 1
    content = bytearray(data[16:] if plain else codec.decompress(data[16:], size, asbytes=True))
    for _ in range(random.choice((1, 2, 4))):
        place = random.randrange(len(content)) if random.random() < 0.3 else -1 - random.randrange(len(content) // 3)
        content[place] = random.choice((content[place] ^ 1 << random.randrange(8), 0, 1, 127, 128, 255))
    rest = bytes(content) if plain else codec.compress(bytes(content), asbytes=True)
    length = data[8:16] if data[4] == 3 else len(content).to_bytes(8, "little")  # version 3 has a digest there
    return data[:8] + length + rest


def fuzz_compressed(cases: int, seed: int) -> int:
    random = Random(f"buffers {seed}")
    count = 0
    for _ in range(cases):
        table = mutated_table(random.choice(good_files("compressed")), random)
        count += refused(lambda table=table: cep.expand(table).read_all().validate(full=True)) is not None  # type: ignore[misc]
    return count


def test_changed_buffers_of_matches_are_refused_or_expanded() -> None:
    assert fuzz_compressed(FEW, 1) > FEW // 4


@pytest.mark.long
def test_many_changed_buffers_of_matches_are_refused_or_expanded() -> None:
    assert fuzz_compressed(MANY, 2) > MANY // 4


# What has ever failed.


@pytest.mark.parametrize("path", sorted(CORPUS.rglob("*.*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_has_failed_is_refused(path: Path) -> None:
    """The folder names the kind: of files by their bytes, of documents that are JSON by what they are read as."""
    kind = path.parent.name
    if kind in KINDS:
        read = KINDS[kind].read
        message = refused(lambda: read(parse_json(path.read_bytes(), path.name, kind)))
    else:
        message = read_file(kind, path)
    assert message is not None, f"{path} was read"
