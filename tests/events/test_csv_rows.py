from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.inference import infer_schema
from cep_pipeline.events.schema import StreamSchema
from tests.events.raw import HEADER, read_csv, trades, write_gzip
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


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst", "lz4"])
def test_a_file_that_is_not_what_its_name_says_is_told(tmp_path: Path, schema: StreamSchema, ending: str) -> None:
    path = tmp_path / f"trades.csv.{ending}"
    path.write_bytes((HEADER + GOOD).encode())
    for read in (lambda: read_csv(path, schema), lambda: infer_schema(path, timezone="UTC")):
        with pytest.raises(InputError, match=rf"trades\.csv\.{ending}: the file is truncated or corrupt \("):
            read()


@pytest.mark.parametrize(
    ("name", "said"),
    [("trades.json", "no object|format: jsonl"), ("trades.xlsx", "such as trades.parquet")],
)
def test_a_file_of_another_format_is_told(tmp_path: Path, schema: StreamSchema, name: str, said: str) -> None:
    path = tmp_path / name
    path.write_text('[{"symbol": "IBM"}]')
    for read in (lambda: load_events(schema, [path]), lambda: infer_schema(path, timezone="UTC")):
        with pytest.raises(InputError, match=rf"{name}:.*({said})"):
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


FIELDS = st.text(alphabet='ab",\n\r é', max_size=6)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(FIELDS, st.booleans()), max_size=12), st.integers(8, 60))
def test_any_quoted_text_survives_whatever_the_block_size(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, bool]], at_once: int
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
    table, reasons, _ = read_csv(path, schema, at_once=at_once)
    found = list(zip(table.column("symbol").to_pylist(), lines_of(table), strict=True)) if table.num_columns > 1 else []
    assert found == expected
    assert sum(reason.startswith("unparsable") for reason in reasons.values()) == sum(bad for _, bad in rows)


@settings(max_examples=examples(300), deadline=None)
@given(st.text(alphabet='ab",\n\r1', max_size=60), st.integers(4, 40))
def test_no_text_is_lost_or_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, body: str, at_once: int
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    schema = trades(folder)
    path = folder / "trades.csv"
    path.write_bytes((HEADER + body + "\n" + GOOD).encode())
    table, reasons, _ = read_csv(path, schema, at_once=at_once)
    whole, whole_reasons, _ = read_csv(path, schema)
    assert (table.num_rows, reasons) == (whole.num_rows, whole_reasons)
    assert all(2 <= line <= body.count("\n") + 3 for line in {*lines_of(table), *reasons})


@settings(max_examples=examples(300), deadline=None)
@given(
    rows=st.lists(
        st.sampled_from(
            [
                "SPY,{},1,1",
                '"S,P",{},1,1',
                '"",{},1,1',
                '"say ""hi""",{},1,1',
                '"two\nlines",{},1,1',
                "oops",
                "",
                "\ufeff,{},1,1",
            ]
        ),
        max_size=12,
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    at_once=st.integers(20, 200),
)
def test_rows_are_the_same_however_many_lines_are_read_at_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str], end: str, at_once: int
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    path = folder / "trades.csv"
    path.write_bytes((HEADER + end.join(rows).replace("{}", "2013-10-07 10:00:00")).encode())
    table, reasons, raw = read_csv(path, trades(folder), at_once=at_once)
    whole, whole_reasons, whole_raw = read_csv(path, trades(folder))
    assert (table.to_pylist(), reasons, raw) == (whole.to_pylist(), whole_reasons, whole_raw)


def test_a_quoted_field_may_be_open_for_a_thousand_lines(tmp_path: Path, schema: StreamSchema) -> None:
    at = ",2013-10-07 10:00:00,1.5,100\n"
    text = HEADER + '"' + 999 * "a\n" + '"' + at + '"' + 1000 * "a\n" + '"' + at + GOOD
    for at_once in (100, 1 << 20):
        table, reasons, _ = read_csv(write(tmp_path, text), schema, at_once=at_once)
        assert lines_of(table) == [2, 2003]
        assert reasons[1002] == "unparsable row: a quoted field is never closed"
        assert len(reasons) == 1001


def test_write_gzip_is_read_back(tmp_path: Path, schema: StreamSchema) -> None:
    path = write_gzip(tmp_path / "a" / "trades.csv.gz", HEADER + GOOD)
    assert read_csv(path, schema)[0].num_rows == 1


@pytest.mark.parametrize(("quote", "delimiter"), [('"', ";"), ("", ";"), ("", "\t")])
def test_a_header_with_another_delimiter_says_how_to_name_it(
    tmp_path: Path, schema: StreamSchema, quote: str, delimiter: str
) -> None:
    names = ("symbol", "timestamp", "price", "size")
    path = tmp_path / "trades.csv"
    path.write_text(delimiter.join(f"{quote}{name}{quote}" for name in names) + "\n")
    with pytest.raises(InputError, match=re.escape(f"delimiter: {json.dumps(delimiter)}")):
        read_csv(path, schema)
