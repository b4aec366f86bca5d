from __future__ import annotations

import gzip
import itertools
import json
import re
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.events import csv_rows, raw_rows
from cep_pipeline.events.clock import WatchedPart
from cep_pipeline.events.csv_rows import CsvReader, split_lines
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.inference import infer_schema
from cep_pipeline.events.parse import ParsedFile, ParseTask, parse_file
from cep_pipeline.events.raw_files import fingerprint_file
from cep_pipeline.events.raw_rows import PART_BYTES, TextPart, survey_text
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.storage import DataDirectory
from tests.events.raw import HEADER, read_csv, source_file, trades, write_gzip
from tests.thoroughness import examples

GOOD = "SPY,2013-10-07 10:00:00,1.5,100\n"


@pytest.fixture
def schema(tmp_path: Path) -> StreamSchema:
    return trades(tmp_path)


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "trades.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def lines_of(table) -> list[int]:
    return table.column("_line").to_pylist()


def test_every_rejected_row_keeps_its_line_and_text(tmp_path: Path, schema: StreamSchema) -> None:
    path = write(
        tmp_path,
        HEADER
        + GOOD
        + "SPY,2013-10-07 10:00:00,1.5\n"
        + "\n"
        + "SPY,2013-10-07 10:00:00,1.5,100,extra\n"
        + "SPY,2013-10-07 10:00:00,cheap,100\n"
        + "SPY,2013-10-07 10:00:00,1.5,1.5\n"
        + ",2013-10-07 10:00:00,1.5,100\n"
        + "SPY,,1.5,100\n"
        + "SPY,yesterday,1.5,100\n"
        + ",,x,y\n"
        + GOOD,
    )
    table, reasons, raw = read_csv(path, schema)
    assert lines_of(table) == [2, 12]
    assert reasons == {
        3: "unparsable row: 3 fields where there are 4 columns",
        5: "unparsable row: 5 fields where there are 4 columns",
        6: "column 'price': 'cheap' is no float64",
        7: "column 'size': '1.5' is no int64",
        8: "missing event type (column 'symbol')",
        9: "missing timestamp (column 'timestamp')",
        10: "column 'timestamp': 'yesterday' is no timestamp of the format iso",
        11: "missing timestamp (column 'timestamp'); missing event type (column 'symbol'); "
        "column 'price': 'x' is no float64; column 'size': 'y' is no int64",
    }
    assert raw[5] == "SPY,2013-10-07 10:00:00,1.5,100,extra"
    assert raw[11] == ",,x,y"


def test_quotes_newlines_carriage_returns_and_a_byte_order_mark(tmp_path: Path, schema: StreamSchema) -> None:
    text = (
        "\ufeff\r\n"
        '"symbol","timestamp","price","size"\r\n'
        '"A,B",2013-10-07 10:00:00,"1.5",100\r\n'
        '"say ""hi""",2013-10-07 10:00:00,2,100\r\n'
        '"two\r\nlines",2013-10-07 10:00:00,3,100\r\n'
        "\r\n"
        "é,2013-10-07 10:00:00, 4 ,100"
    )
    table, reasons, _ = read_csv(write(tmp_path, text), schema)
    assert reasons == {}
    assert table.column("symbol").to_pylist() == ["A,B", 'say "hi"', "two\r\nlines", "é"]
    assert table.column("price").to_pylist() == [1.5, 2.0, 3.0, 4.0]
    assert lines_of(table) == [3, 4, 5, 8]


def test_an_open_quote_costs_one_row(tmp_path: Path, schema: StreamSchema) -> None:
    text = HEADER + GOOD + '"SPY,2013-10-07 10:00:00,1.5,100\n' + GOOD * 3
    table, reasons, raw = read_csv(write(tmp_path, text), schema)
    assert reasons == {3: "unparsable row: a quoted field is never closed"}
    assert raw[3] == '"SPY,2013-10-07 10:00:00,1.5,100'
    assert lines_of(table) == [2, 4, 5, 6]


def test_a_quote_inside_a_field_is_text(tmp_path: Path, schema: StreamSchema) -> None:
    table, reasons, _ = read_csv(write(tmp_path, HEADER + 'S"PY,2013-10-07 10:00:00,1.5,100\n' + GOOD), schema)
    assert reasons == {}
    assert table.column("symbol").to_pylist() == ['S"PY', "SPY"]


def test_text_after_a_closing_quote_is_rejected(tmp_path: Path, schema: StreamSchema) -> None:
    text = HEADER + '"SP"Y,2013-10-07 10:00:00,1.5,100\n' + GOOD
    table, reasons, _ = read_csv(write(tmp_path, text), schema)
    assert list(reasons) == [2]
    assert reasons[2].startswith("unparsable row: ")
    assert lines_of(table) == [3]


def test_rows_that_are_no_utf8_are_rejected_alone(tmp_path: Path, schema: StreamSchema) -> None:
    text = HEADER.encode() + b"caf\xe9,2013-10-07 10:00:00,1.5,100\n" + GOOD.encode() + "é".encode() + GOOD[3:].encode()
    table, reasons, raw = read_csv(write(tmp_path, text), schema)
    assert reasons == {2: "unparsable row: not valid UTF-8"}
    assert raw[2].startswith("caf\\xe9,")
    assert table.column("symbol").to_pylist() == ["SPY", "é"]


def test_a_bare_carriage_return_is_no_end_of_a_row(tmp_path: Path, schema: StreamSchema) -> None:
    text = HEADER + "SPY,2013-10-07 10:00:00,1.5\r,100\n" + GOOD
    table, reasons, _ = read_csv(write(tmp_path, text), schema)
    assert list(reasons) == [2]
    assert lines_of(table) == [3]


def test_columns_may_come_in_another_order_and_with_others(tmp_path: Path, schema: StreamSchema) -> None:
    text = "note,size,price,symbol,timestamp\nx,100,1.5,SPY,2013-10-07 10:00:00\n"
    table, reasons, _ = read_csv(write(tmp_path, text), schema)
    assert reasons == {}
    assert table.column("size").to_pylist() == [100]


def test_a_missing_column_is_named_with_what_is_there(tmp_path: Path, schema: StreamSchema) -> None:
    path = write(tmp_path, "symbol,timestamp,prise,size\nSPY,2013-10-07 10:00:00,1.5,100\n")
    with pytest.raises(InputError) as caught:
        read_csv(path, schema)
    message = str(caught.value)
    assert str(path) in message
    assert "'price' is missing" in message
    assert "'prise', 'size'" in message
    assert "did you mean 'prise'?" in message


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, schema: StreamSchema) -> None:
    with pytest.raises(InputError, match="'price' is there 2 times"):
        read_csv(write(tmp_path, "symbol,timestamp,price,price,size\n"), schema)


@pytest.mark.parametrize("read", ["price", "cost"])
def test_a_header_of_very_many_columns_is_read_or_told_in_short(tmp_path: Path, read: str) -> None:
    schema = trades(tmp_path, attributes={"symbol": "string", "price": {"type": "float64", "column": read}}, derived={})
    others = [f"c{number}" for number in range(100_000)]
    text = ",".join(["symbol", "timestamp", "price", *others]) + "\nSPY,2013-10-07 10:00:00,1.5" + "," * len(others)
    if read == "price":
        table, reasons, _ = read_csv(write(tmp_path, text), schema)
        assert (table.column("price").to_pylist(), reasons) == ([1.5], {})
    else:
        with pytest.raises(InputError, match=r"'cost' is missing; .*'c16' … and 99,983 more\. If the") as caught:
            read_csv(write(tmp_path, text), schema)
        assert len(str(caught.value)) < 1_000


def test_lines_without_anything_take_no_more_memory_than_others(
    tmp_path: Path, schema: StreamSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = []

    def split(text: bytes, delimiter: str, quote: str) -> csv_rows.Lines:
        lines = split_lines(text, delimiter, quote)
        most.append(len(lines.starts))
        return lines

    monkeypatch.setattr(raw_rows, "_DENSE_LINES", 1_000)
    monkeypatch.setattr(csv_rows, "split_lines", split)
    table, reasons, _ = read_csv(
        write(tmp_path, "\n" * 7 + HEADER + "\n" * 50_000 + GOOD + "oops\n\r\n" + GOOD), schema
    )
    assert lines_of(table) == [50_009, 50_012]
    assert list(reasons) == [50_010]
    assert max(most) <= 1_000


@pytest.mark.parametrize("text", ["", "\n\n", HEADER, HEADER.strip(), "\ufeff" + HEADER])
def test_files_without_rows(tmp_path: Path, schema: StreamSchema, text: str) -> None:
    table, reasons, _ = read_csv(write(tmp_path, text), schema)
    assert table.num_rows == 0
    assert reasons == {}


@pytest.mark.parametrize("kept", [0.3, 0.9, -4])
def test_a_truncated_gzip_is_an_error_that_names_the_file(tmp_path: Path, schema: StreamSchema, kept: float) -> None:
    whole = gzip.compress((HEADER + "".join(GOOD.replace("1.5", str(i)) for i in range(5000))).encode())
    path = tmp_path / "trades.csv.gz"
    path.write_bytes(whole[: int(kept) if kept < 0 else int(len(whole) * kept)])
    with pytest.raises(InputError, match=r"trades\.csv\.gz: the file is truncated or corrupt"):
        read_csv(path, schema)


@pytest.mark.parametrize(("ending", "kind"), [("gz", "gzip"), ("bz2", "bzip2"), ("zst", "Zstandard"), ("lz4", "LZ4")])
def test_a_file_that_is_not_what_its_name_says_is_told(
    tmp_path: Path, schema: StreamSchema, ending: str, kind: str
) -> None:
    path = tmp_path / f"trades.csv.{ending}"
    path.write_bytes((HEADER + GOOD).encode())
    for read in (lambda: read_csv(path, schema), lambda: infer_schema(path, timezone="UTC")):
        with pytest.raises(InputError, match=rf"trades\.csv\.{ending}: this is no {kind} file"):
            read()


@pytest.mark.parametrize(
    ("name", "said"),
    [("trades.json", "JSON files are not read, CSV and Parquet files are"), ("trades.xlsx", "such as trades.parquet")],
)
def test_a_file_of_another_format_is_told(tmp_path: Path, schema: StreamSchema, name: str, said: str) -> None:
    path = tmp_path / name
    path.write_text('[{"symbol": "IBM"}]')
    for read in (lambda: load_events(schema, [path]), lambda: infer_schema(path, timezone="UTC")):
        with pytest.raises(InputError, match=rf"{name}: .*{said}"):
            read()


def test_gzip_of_several_members(tmp_path: Path, schema: StreamSchema) -> None:
    path = tmp_path / "trades.csv.gz"
    path.write_bytes(gzip.compress(HEADER.encode()) + gzip.compress(GOOD.encode() * 2))
    assert lines_of(read_csv(path, schema)[0]) == [2, 3]


def test_headerless_files_are_read_by_their_names(tmp_path: Path) -> None:
    schema = trades(
        tmp_path,
        timestamp={"column": "minute", "format": "%Y%m%d%H%M"},
        source={
            "format": "csv",
            "path": "bars.txt",
            "header": False,
            "columns": ["symbol", "minute", "price", "size"],
        },
    )
    path = tmp_path / "bars.txt"
    path.write_text("SPY,200802010900,1.5,7\nSPY,200802010960,1.5,7\nSPY,2008020109001,1,1\n")
    table, reasons, _ = read_csv(path, schema)
    assert table.column("timestamp").to_pylist()[0].isoformat() == "2008-02-01T14:00:00+00:00"
    assert list(reasons) == [2, 3]


def with_columns_of_types(folder: Path, columns: dict[Any, list[str]], *, header: bool = False) -> StreamSchema:
    source = {"format": "csv", "path": "trades.csv", "header": header, "columns": columns}
    return trades(folder, source=source, quality={"max_rejected_share": 1})


OF_TYPES = {"SPY": ["timestamp", "symbol", "price"], "IBM": ["timestamp", "symbol", "venue", "size", "price"]}


@pytest.mark.parametrize("header", [False, True])
def test_rows_of_different_types_have_different_columns(tmp_path: Path, header: bool) -> None:
    at = "2013-10-07 10:00:00"
    path = write(
        tmp_path,
        ("timestamp,symbol,anything\n" if header else "\n")
        + f"{at},IBM,N,7,1.5\n{at},SPY,2.5\n"
        + f'{at},IBM,"N\nY",8,3.5\n'
        + f"{at},SPY,2.5,9,1\n{at},IBM,1.5\n{at},XOM,1\n{at},,1\n{at},SPY,1,2\n{at},SPY,cheap\n"
        + f'{at},"SPY",4.5\n',
    )
    for block_bytes in (60, 1 << 20):
        schema = with_columns_of_types(tmp_path, OF_TYPES, header=header)
        table, reasons, raw = read_csv(path, schema, block_bytes=block_bytes)
        assert lines_of(table) == [2, 3, 4, 12]
        assert table.column("price").to_pylist() == [1.5, 2.5, 3.5, 4.5]
        assert table.column("size").to_pylist() == [7, None, 8, None]
        assert reasons == {
            6: "unparsable row: 5 fields where type 'SPY' has 3 columns",
            7: "unparsable row: 3 fields where type 'IBM' has 5 columns",
            8: "unparsable row: source.columns has no type 'XOM'",
            9: "missing event type (column 'symbol')",
            10: "unparsable row: 4 fields where there are 3 or 5 columns",
            11: "column 'price': 'cheap' is no float64",
        }
        assert raw[8] == f"{at},XOM,1"


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(["SPY", "IBM", '"IBM"', "XOM", "", '"a\nb"']), max_size=30), st.integers(20, 90))
def test_types_with_the_same_columns_are_read_as_without_types(
    tmp_path_factory: pytest.TempPathFactory, symbols: list[str], block_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("types")
    names = HEADER.strip().split(",")
    text = "".join(f"{one},2013-10-07 10:00:00,{number},{number}\n" for number, one in enumerate(symbols))
    path = write(folder, text)
    by_type = with_columns_of_types(folder, dict.fromkeys(("SPY", "IBM", "XOM", "a\nb"), names))
    table, reasons, raw = read_csv(path, by_type, block_bytes=block_bytes)
    (folder / "plain").mkdir()
    source = {"format": "csv", "path": "trades.csv", "header": False, "columns": names}
    plain, plain_reasons, plain_raw = read_csv(path, trades(folder / "plain", source=source))
    assert (table.to_pylist(), reasons, raw) == (plain.to_pylist(), plain_reasons, plain_raw)


def test_a_file_with_columns_of_types_is_the_same_in_parts(tmp_path: Path) -> None:
    rows = "2013-10-07 10:00:00,IBM,N,7,1.5\n2013-10-07 10:00:00,SPY,2.5\n2013-10-07 10:00:00,XOM,2.5\n"
    for header in (False, True):
        schema = with_columns_of_types(tmp_path, OF_TYPES, header=header)
        path = write(tmp_path, "time\n" * header + rows * 3000)
        scratch = DataDirectory(str(tmp_path / f"scratch {header}"), "run")
        parts = cut(path, schema, scratch, 60_000)
        assert parts is not None and len(parts) > 1
        expected = outcome(parse(path, schema, scratch, None))
        assert outcome(parse(path, schema, scratch, parts)) == expected


FIELDS = st.text(alphabet='ab",\n\r é', max_size=6)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(FIELDS, st.booleans()), max_size=12), st.integers(8, 60))
def test_any_quoted_text_survives_whatever_the_block_size(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, bool]], block_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    schema = trades(folder)
    text, expected, line = HEADER, [], 2
    for symbol, bad in rows:
        quoted = '"' + symbol.replace('"', '""') + '"'
        if bad:
            text += "oops\n"
            line += 1
            continue
        text += f"{quoted},2013-10-07 10:00:00,1,1\n"
        if symbol:
            expected.append((symbol, line))
        line += 1 + symbol.count("\n")
    path = folder / "trades.csv"
    path.write_bytes(text.encode())
    table, reasons, _ = read_csv(path, schema, block_bytes=block_bytes)
    found = list(zip(table.column("symbol").to_pylist(), lines_of(table), strict=True)) if table.num_columns > 1 else []
    assert found == expected
    assert sum(reason.startswith("unparsable") for reason in reasons.values()) == sum(bad for _, bad in rows)


@settings(max_examples=examples(300), deadline=None)
@given(st.text(alphabet='ab",\n\r1', max_size=60), st.integers(4, 40))
def test_no_text_is_lost_or_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, body: str, block_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    schema = trades(folder)
    path = folder / "trades.csv"
    path.write_bytes((HEADER + body + "\n" + GOOD).encode())
    table, reasons, _ = read_csv(path, schema, block_bytes=block_bytes)
    whole, whole_reasons, _ = read_csv(path, schema)
    assert (table.num_rows, reasons) == (whole.num_rows, whole_reasons)
    assert all(2 <= line <= body.count("\n") + 3 for line in {*lines_of(table), *reasons})


def test_write_gzip_is_read_back(tmp_path: Path, schema: StreamSchema) -> None:
    path = write_gzip(tmp_path / "a" / "trades.csv.gz", HEADER + GOOD)
    assert read_csv(path, schema)[0].num_rows == 1


# -- parts of a file ---------------------------------------------------------------------------------------------------

DAYS = frozenset(date(2013, 10, day) for day in (7, 8))


def cut(path: Path, schema: StreamSchema, scratch: DataDirectory, part_bytes: int) -> list[Any] | None:
    assert schema.source is not None
    file = source_file(path)
    survey = CsvReader.survey(file, schema.source, scratch, part_bytes)
    surveyed = None if survey is None else survey_text(survey, 0, 0)
    if surveyed is not None:
        assert surveyed.raw_file == fingerprint_file(file)
    parts = CsvReader.parts_of(file, schema.source, surveyed)
    return None if parts is None else list(parts)


def outcome(parsed: list[ParsedFile]) -> dict[str, Any]:
    """All that a file says, however it was read."""
    rows = [row for one in parsed if one.path for row in pq.read_table(one.path, partitioning=None).to_pylist()]
    return {
        "staged": sorted(rows, key=lambda row: row["_line"]),
        "events": sum((Counter(one.events) for one in parsed), Counter()),
        "rejected": sum((Counter(one.rejected) for one in parsed), Counter()),
        "clock": sum((one.clock for one in parsed), WatchedPart()).found,
        "rows": sum(one.rows for one in parsed),
        "first_day": min((one.first_day for one in parsed if one.first_day), default=None),
        "dropped": {one.dropped_columns for one in parsed},
    }


def parse(path: Path, schema: StreamSchema, scratch: DataDirectory, parts: list[Any] | None) -> list[ParsedFile]:
    tasks = [None] if parts is None else [(part,) for part in parts]
    return [
        parse_file(ParseTask(schema, source_file(path), DAYS, scratch, task), number, 0)
        for number, task in enumerate(tasks)
    ]


def same_in_parts(folder: Path, text: bytes, ending: str, part_bytes: int) -> list[Any] | None:
    """Read a file as a whole and in parts, assert that both are the same, and return the parts."""
    schema = trades(folder, quality={"max_rejected_share": 1})
    scratch = DataDirectory(str(folder / "scratch"), "run")
    path = folder / f"trades.csv{ending}"
    # Two members, as `bgzip` and `cat` make them; not packed, so that little text is cut too.
    members = [gzip.compress(text[:9], 0, mtime=0), gzip.compress(text[9:], 0, mtime=0)]
    path.write_bytes(b"".join(members) if ending else text)
    parts = cut(path, schema, scratch, part_bytes)
    expected = outcome(parse(path, schema, scratch, None))
    assert outcome(parse(path, schema, scratch, parts)) == expected
    return parts


PIECES = st.one_of(
    st.builds(
        "{},2013-10-0{} 10:00:{:02},1.5,{},{}".format,
        st.sampled_from(["SPY", "IBM", '"S,P"', '"a""b"']),
        st.sampled_from([7, 7, 7, 8, 9]),
        st.integers(0, 59),
        st.sampled_from(["1", "x", ""]),
        st.sampled_from(
            ["", "note", '"a\nb"', '"a\r\nb,"', '"\n\n""\n"', 'x"y', '"open', 'end"', '"a" b', '"\nc", d', "\r"]
        ),
    ),
    st.sampled_from(
        [
            "",
            '"',
            'a"',
            '","',
            "SPY,2013-10-07 10:00:00",
            "\xe9",
            "\r",
            '"a\n"b"\n',
            5 * "long line ",
            "\xef\xbb\xbfSPY,2013-10-07 10:00:00,1,1,n",
        ]
    ),
)


@pytest.mark.parametrize("ending", ["", ".gz"])
@settings(max_examples=examples(150), deadline=None)
@given(
    lines=st.lists(PIECES, max_size=40),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    bom=st.booleans(),
    header=st.sampled_from(["", "\n", "\r\n\n", 90 * "\n"]),
    part_bytes=st.integers(16, 300),
    longest=st.tuples(st.integers(1, 4), st.integers(20, 80)),
)
def test_a_file_in_parts_is_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    ending: str,
    lines: list[str],
    end: str,
    last: bool,
    bom: bool,
    header: str,
    part_bytes: int,
    longest: tuple[int, int],
) -> None:
    text = (header + HEADER.strip() + ",note" + end + end.join(lines) + end * last).encode("latin-1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_rows, "_LONGEST_IN_LINES", longest[0])
        patch.setattr(csv_rows, "LONGEST_RECORD", longest[1])
        same_in_parts(tmp_path_factory.mktemp("parts"), b"\xef\xbb\xbf" * bom + text, ending, part_bytes)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("note", ["plain", '"two\nlines"', '"said ""no"", and\nwent"', 'a "stray one'])
def test_a_large_file_is_cut_whatever_its_quotes(tmp_path: Path, ending: str, note: str) -> None:
    rows = [f"{name},2013-10-07 10:00:00,{price},1,{note}\n" for price in range(4000) for name in ("SPY", "IBM")]
    text = HEADER.strip() + ",note\n" + "".join(rows)
    parts = same_in_parts(tmp_path, text.encode(), ending, 80_000)
    assert parts is not None
    assert len(parts) >= 3
    assert parts[0].first_row == 1
    if not ending:
        assert parts[-1].end == len(text)
        assert all(one.end == other.begin for one, other in itertools.pairwise(parts))


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_row_that_is_rejected_by_the_line_after_it_ends_no_part(tmp_path: Path, ending: str) -> None:
    quotes = HEADER.strip() + ",note\n" + 3000 * 'a,"b\n' + '"\n' + 3000 * "a,b\n"
    parts = same_in_parts(tmp_path, quotes.encode(), ending, 4000)
    assert parts is not None
    assert len(parts) > 2
    assert parts[0].rows > 3000


def test_a_small_file_is_one_task(tmp_path: Path, schema: StreamSchema) -> None:
    path = write(tmp_path, HEADER + GOOD)
    scratch = DataDirectory(str(tmp_path / "scratch"), "run")
    assert schema.source is not None
    assert CsvReader.survey(source_file(path), schema.source, scratch, PART_BYTES) is None
    assert CsvReader.parts_of(source_file(path), schema.source) is None


def test_a_part_of_a_file_without_header_has_the_names_of_the_schema(tmp_path: Path) -> None:
    schema = trades(
        tmp_path,
        timestamp={"column": "minute", "format": "%Y%m%d%H%M"},
        source={"format": "csv", "path": "b.txt", "header": False, "columns": ["symbol", "minute", "price", "size"]},
    )
    path = tmp_path / "b.txt"
    path.write_text("SPY,201310071000,1.5,7\n" * 4000)
    parts = cut(path, schema, DataDirectory(str(tmp_path / "scratch"), "run"), 30_000)
    assert parts is not None
    assert len(parts) > 1
    assert schema.source is not None
    blocks = list(CsvReader(source_file(path), schema.source, parts))
    assert pa.chunked_array([block.columns["price"] for block in blocks]).to_pylist() == ["1.5"] * 4000
    assert [int(line) for block in blocks for line in block.lines] == list(range(1, 4001))
    assert all(isinstance(part, TextPart) for part in parts)


def test_a_truncated_file_is_refused_by_its_survey(tmp_path: Path, schema: StreamSchema) -> None:
    path = write_gzip(
        tmp_path / "trades.csv.gz", HEADER + "".join(f"SPY,2013-10-07,{i * 7919},1\n" for i in range(9999))
    )
    path.write_bytes(path.read_bytes()[:-20000])
    with pytest.raises(InputError, match="truncated or corrupt"):
        cut(path, schema, DataDirectory(str(tmp_path / "scratch"), "run"), 1000)


@pytest.mark.parametrize(("quote", "delimiter"), [('"', ";"), ("", ";"), ("", "\t")])
def test_a_header_with_another_delimiter_says_how_to_name_it(
    tmp_path: Path, schema: StreamSchema, quote: str, delimiter: str
) -> None:
    names = ("symbol", "timestamp", "price", "size")
    path = tmp_path / "trades.csv"
    path.write_text(delimiter.join(f"{quote}{name}{quote}" for name in names) + "\n")
    with pytest.raises(InputError, match=re.escape(f"delimiter: {json.dumps(delimiter)}")):
        read_csv(path, schema)
