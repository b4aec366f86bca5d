"""Reading, detecting and looking at matches from Python: data frames, text of patterns, results, the warehouse."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cep_pipeline as cep
from tests.warehouse.published_days import MONDAY, TUESDAY, publish_everything

SCHEMA = """\
name: ticks
base_type: Tick
type_attribute: kind
timezone: America/New_York
key: [timestamp, kind]
timestamp: {column: time, format: iso}
attributes: {kind: string, x: {type: int64, column: price}}
derived: {diff: {diff: {of: x}}, past: {history: {of: diff, length: 2}}}
source: {format: csv, path: "{day:%Y-%m-%d}.csv"}
"""
ROWS = [
    ("2024-03-04 09:30:00", "A", 1),
    ("2024-03-04 09:31:00", "A", 4),
    ("2024-03-04 09:31:00", "A", 5),
    ("2024-03-04 09:32:00", "B", 7),
    ("2024-03-04 09:29:00", "B", 2),
]
PATTERN = "NAME rise PATTERN SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 1 hour RETURN b.x AS high"


@pytest.fixture
def schema(tmp_path: Path) -> cep.StreamSchema:
    (tmp_path / "ticks.yaml").write_text(SCHEMA)
    return cep.StreamSchema.load(tmp_path / "ticks.yaml")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = [f"{time},{kind},{x}" for time, kind, x in ROWS]
    path = tmp_path / "2024-03-04.csv"
    path.write_text("\n".join(["time,kind,price", *lines, ""]))
    return path


def frames() -> dict[str, Any]:
    """The rows of the file as the data frames of several libraries, with times that have no zone."""
    times = [datetime.fromisoformat(time) for time, _, _ in ROWS]
    table = pa.table({"time": times, "kind": [row[1] for row in ROWS], "price": [row[2] for row in ROWS]})
    own = table.rename_columns(["timestamp", "kind", "x"])
    made = {"arrow": table, "pandas": table.to_pandas(), "names of attributes": own}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import polars

            made["polars"] = polars.from_arrow(table)
        except ImportError:
            pass
        try:
            import duckdb

            made["duckdb"] = duckdb.from_arrow(table)
        except ImportError:
            pass
    return made


@pytest.mark.parametrize("library", ["arrow", "pandas", "names of attributes", "polars", "duckdb"])
def test_a_data_frame_is_read_as_a_file_is(schema: cep.StreamSchema, file: Path, library: str) -> None:
    made = frames()
    if library not in made:
        pytest.skip(f"{library} is not installed")
    with pytest.warns(cep.DataWarning, match="1 row rejected, whose key"):
        right = cep.read(schema, file)
    with pytest.warns(cep.DataWarning, match="1 row rejected, whose key"):
        events = cep.read(schema, made[library])
    assert events.equals(right) and events.schema.equals(schema.arrow_schema)
    if library == "pandas":
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            cep.read(schema, made["pandas"].iloc[[0, 3, 1]])
        assert told == []
    assert events.column("timestamp")[1].as_py() == datetime(2024, 3, 4, 14, 30, tzinfo=UTC)
    assert events.column("x").to_pylist() == [2, 1, 4, 7]
    assert events.column("diff").to_pylist() == [None, None, 3, 5]
    assert events.column("past").to_pylist() == [[], [], [3.0], [5.0]]


def test_bad_rows_of_a_data_frame_are_told_with_their_reason(schema: cep.StreamSchema) -> None:
    bad = pa.table({"time": ["2024-03-04 09:30:00", "noon"], "kind": ["A", "B"], "price": [1, 2], "more": [0, 0]})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert cep.read(schema, bad).num_rows == 1
    said = [str(one.message) for one in told if issubclass(one.category, cep.DataWarning)]
    assert any("left out: more" in text for text in said)
    assert any("row 2" in text and "'noon' is no timestamp" in text for text in said)
    with pytest.raises(cep.InputError, match="no event is left: 1 row rejected"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cep.read(schema, bad.slice(1))
    with pytest.raises(cep.InputError, match=r"the data frame: column 'price' is missing"):
        cep.read(schema, bad.drop_columns(["price"]))


def test_events_that_have_their_numbers_keep_them(schema: cep.StreamSchema, file: Path) -> None:
    with pytest.warns(cep.DataWarning):
        right = cep.read(schema, file)
    again = cep.read(schema, right.drop_columns(["diff"]).take([3, 1, 0, 2]))
    assert again.equals(right)
    given = right.set_column(right.column_names.index("diff"), "diff", pa.array([9, 9, 9, 9], pa.int64()))
    assert cep.read(schema, given).column("diff").to_pylist() == [9] * 4


def test_rows_get_their_derived_attributes(schema: cep.StreamSchema) -> None:
    rows = [{"timestamp": 5, "kind": "A", "x": 7}, {"timestamp": 2, "kind": "A", "x": 3}]
    assert schema.table(rows).column("diff").to_pylist() == [None, 4]
    with pytest.warns(cep.DataWarning, match="1 of 2 rows have the derived attribute 'diff', which is null in the o"):
        by_hand = schema.table([{**rows[0], "diff": 1}, rows[1]])
    assert by_hand.column("diff").to_pylist() == [None, 1] and by_hand.column("past").to_pylist() == [[], [1.0]]


ONE_TYPE = SCHEMA.replace("type_attribute: kind\n", "").replace("[timestamp, kind]", "[timestamp]")
"""The stream without an attribute that holds the type: the base type, or the names of the files, tell it."""


@pytest.mark.parametrize("place", ["{day:%Y-%m-%d}.csv", "{type}.csv"])
def test_a_data_frame_of_a_stream_without_a_column_of_types_is_read_as_a_file_is(place: str, tmp_path: Path) -> None:
    (tmp_path / "ticks.yaml").write_text(ONE_TYPE.replace("{day:%Y-%m-%d}.csv", place))
    schema = cep.StreamSchema.load(tmp_path / "ticks.yaml")
    lines = ["time,kind,price", *(f"{time},{kind},{x}" for time, kind, x in ROWS[:2]), ""]
    (tmp_path / "2024-03-04.csv").write_text("\n".join(lines))
    right = cep.read(schema, tmp_path / "2024-03-04.csv")
    types = right.column("event_type").to_pylist()
    assert types == ["Tick" if schema.type_of_all else "2024-03-04"] * 2
    assert right.column("diff").to_pylist() == [None, 3]
    for name in ("arrow", "pandas", "names of attributes"):
        frame = pa.table(frames()[name]).slice(0, 2)
        assert cep.read(schema, frame.append_column("event_type", pa.array(types))).equals(right)
        if schema.type_of_all:
            assert cep.read(schema, frame).equals(right)
            continue
        with pytest.raises(cep.InputError, match="column 'event_type' is missing, which holds the types"):
            cep.read(schema, frame)
    assert cep.read(schema, right).equals(right)


def test_a_schema_of_plain_values_may_have_one_type_for_all() -> None:
    attributes = {"x": "int64"}
    schema = cep.StreamSchema.from_dict({"base_type": "Tick", "attributes": attributes, "timezone": "America/New_York"})
    events = cep.read(schema, frames()["names of attributes"].drop_columns(["kind"]))
    assert events.column("event_type").unique().to_pylist() == ["Tick"]
    rising = "NAME rise PATTERN SEQ(Tick a, Tick b) WHERE a.x < b.x WITHIN 1 minute RETURN b.x AS high"
    assert cep.detect(rising, events)["rise"].column("high").to_pylist() == [4, 5, 5, 7, 7]
    rows = [{"timestamp": f"{time}", "x": x} for time, _, x in ROWS]
    assert cep.detect(rising, schema.table(rows))["rise"].num_rows == 5


def test_a_schema_is_inferred_from_a_file(file: Path) -> None:
    with pytest.raises(cep.InputError, match='in Python timezone="UTC"'):
        cep.StreamSchema.infer(file)
    schema = cep.StreamSchema.infer(file, timezone="America/New_York", name="ticks")
    assert (schema.name, schema.type_attribute, schema.timezone) == ("ticks", "kind", "America/New_York")
    events = cep.read(schema, file)
    assert events.num_rows == len(ROWS) and events.column("price").to_pylist() == [2, 1, 4, 5, 7]
    assert cep.read(schema, file.parent.glob("*.csv")).equals(events)
    assert "the type of an event" in schema._repr_html_()


def test_what_is_no_file_and_no_frame_is_refused_with_what_to_do(schema: cep.StreamSchema) -> None:
    rows = [{"timestamp": 1, "kind": "A", "x": 1}]
    for wrong in (rows, rows[0], 3):
        with pytest.raises(cep.InputError, match=r"not from (list|dict|int); schema\.table\(rows\) takes rows"):
            cep.read(schema, wrong)
    with pytest.raises(cep.InputError, match=r"a data frame; cep\.read\(schema, frame\) reads it"):
        schema.table(frames()["pandas"])


def test_one_pattern_a_list_and_text_give_the_same(schema: cep.StreamSchema, file: Path) -> None:
    with pytest.warns(cep.DataWarning):
        events = cep.read(schema, file)
    parsed = cep.parse_patterns(PATTERN, schema)
    right = cep.detect(parsed, events)
    assert right["rise"].column("high").to_pylist() == [7]
    for patterns in (parsed[0], tuple(parsed), PATTERN):
        assert cep.detect(patterns, events) == right
    assert cep.detect(parsed, events.to_reader()) == right
    with pytest.raises(cep.InputError, match="do not tell their stream"):
        cep.detect(PATTERN, events.replace_schema_metadata(None))
    local = events.to_pandas()
    local["timestamp"] = local["timestamp"].dt.tz_localize(None)
    with pytest.raises(cep.InputError, match=r"no time zone: make the events by read"):
        cep.detect(parsed, local)
    with pytest.raises(cep.InputError, match="an Arrow table or a data frame, not list"):
        cep.detect(parsed, [1, 2])


def test_types_and_texts_that_no_event_has_are_told_where_nothing_is_found(schema: cep.StreamSchema) -> None:
    events = schema.table([{"timestamp": at, "kind": kind, "x": at} for at, kind in enumerate("AB")])
    with pytest.warns(cep.PatternWarning, match="no event has the type C, asked for by p; there are: A, B"):
        assert cep.detect("NAME p PATTERN SEQ(A a, C c) WITHIN 1 second", events)["p"].num_rows == 0
    with pytest.warns(cep.PatternWarning, match="no event has kind = 'b'"):
        cep.detect("NAME p PATTERN Tick t WHERE t.kind = 'b' WITHIN 1 second", events)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cep.detect("NAME p PATTERN OR(A a, C c) WITHIN 1 second", events)["p"].num_rows == 1
        assert cep.detect("NAME p PATTERN SEQ(B b, A a) WITHIN 1 second", events)["p"].num_rows == 0
        unmarked = events.replace_schema_metadata(None)
        cep.detect(cep.parse_patterns("NAME p PATTERN C c WITHIN 1 second", schema), unmarked)


def test_matches_become_data_frames_and_show_their_events(schema: cep.StreamSchema, file: Path) -> None:
    with pytest.warns(cep.DataWarning):
        events = cep.read(schema, file)
    found = cep.detect(f"{PATTERN};\nNAME each PATTERN Tick <t> WITHIN 1 second".replace("<t>", "t"), events)
    assert repr(found) == "<Matches rise: 1, each: 4>"
    rows = found.events("rise").to_pylist()
    assert [(row["variable"], row["kind"], row["x"], row["diff"]) for row in rows] == [
        ("a", "A", 4, 3),
        ("b", "B", 7, 5),
    ]
    assert found.events().num_rows == 6
    assert list(found.to_pandas()["high"].dropna()) == [7]
    polars = pytest.importorskip("polars")
    assert isinstance(found.to_polars(), polars.DataFrame) and found.to_polars().height == 5
    nothing = cep.detect([], events)
    assert nothing.to_arrow().column_names == ["pattern", "match_id", "start_ts", "end_ts", "bindings"]
    assert (len(nothing.to_pandas()), nothing.to_polars().height) == (0, 0)
    assert nothing.events().schema == found.events().schema and nothing.events().num_rows == 0
    with pytest.raises(cep.InputError, match="no matches of a pattern 'fall'"):
        found.events("fall")
    with pytest.raises(cep.InputError, match="output 'verbose'"):
        cep.detect(PATTERN, events, output="count").events()


def test_a_match_is_drawn_on_the_events_it_was_found_among(schema: cep.StreamSchema, file: Path) -> None:
    with pytest.warns(cep.DataWarning):
        events = cep.read(schema, file)
    found = cep.detect(PATTERN, events)
    drawn = found.chart()
    assert drawn._repr_html_() == drawn.svg and found.chart("rise", found["rise"]["match_id"][0].as_py()) == drawn
    assert "a: diff 3, 2024-03-04 09:31:00" in drawn.svg and "b: diff 5, 2024-03-04 09:32:00" in drawn.svg
    assert "b: x 7, 2024-03-04 14:32:00" in found.chart(attribute="x", timezone="UTC").svg
    parsed = cep.parse_patterns(PATTERN, schema)
    bare = events.set_column(0, events.column_names[0], events.column(0)).replace_schema_metadata(None)
    at = bare.column_names.index("timestamp")
    bare = bare.set_column(at, "timestamp", bare.column("timestamp").cast(pa.int64()))
    kind = bare.column_names.index("kind")
    bare = bare.set_column(kind, "kind", bare.column("kind").dictionary_encode())
    assert cep.detect(parsed, bare).chart(timezone="America/New_York") == drawn
    for pattern, match, said in (("rise", 1, "no match 1"), ("rise", "none", "no match 'none'"), ("p", 0, "'p'")):
        with pytest.raises(cep.InputError, match=said):
            found.chart(pattern, match)
    with pytest.raises(cep.InputError, match="output 'verbose'"):
        cep.detect(PATTERN, events, output="count").chart()
    with pytest.raises(cep.InputError, match="which pattern"):
        cep.detect([], events).chart()


def test_notebooks_show_text_of_data_as_text(schema: cep.StreamSchema) -> None:
    evil = "<script>alert(1)</script>\x1b[31m"
    events = schema.table([{"timestamp": at, "kind": evil, "x": at} for at in range(20)])
    patterns = cep.parse_patterns("NAME each PATTERN Tick t WITHIN 1 second RETURN t.kind AS kind", schema)
    snapshot = cep.estimate_statistics(patterns, events)
    found = cep.detect(patterns, events)
    pages = {
        "matches": found._repr_html_(),
        "pattern": patterns[0]._repr_html_(),
        "statistics": snapshot._repr_html_(),
        "plan": cep.plan(patterns, snapshot)._repr_html_(),
    }
    for page in pages.values():
        assert page.startswith("<table>") and "<script" not in page and "\x1b" not in page
    assert pages["matches"].count("&lt;script&gt;") == 10 and "20, the first 10" in pages["matches"]
    assert "<td>each</td>" in pages["plan"] and "<td>t</td>" in pages["plan"] and "20 events" in pages["statistics"]
    assert "<td>NAME each PATTERN Tick t WITHIN 1 second RETURN t.kind AS kind</td>" in pages["pattern"]
    commented = cep.parse_patterns("NAME x -- 5 < 6\n  PATTERN Tick t\nWITHIN 1 second; -- the end", schema)
    assert commented[0].written == "NAME x -- 5 < 6\n  PATTERN Tick t\nWITHIN 1 second"
    assert "<td>NAME x -- 5 &lt; 6</td></tr><tr><td>PATTERN Tick t</td>" in commented[0]._repr_html_()


def test_a_file_of_mixed_strategies_is_planned(schema: cep.StreamSchema) -> None:
    where = "WHERE {}(a, b, c) {{ a.x < b.x }} WITHIN 1 hour"
    names = {"any": "skip_till_any_match", "next": "skip_till_next_match"}
    text = ";\n".join(f"NAME {name} PATTERN SEQ(A a, B b, A c) {where.format(of)}" for name, of in names.items())
    patterns = cep.parse_patterns(text, schema)
    events = schema.table([{"timestamp": at, "kind": kind, "x": at} for at, kind in enumerate("ABABBA")])
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, events), "greedy")
    assert [one.planner for one in plan.patterns] == ["greedy", "trivial"]
    alone = cep.estimate_statistics(patterns[0], events)
    assert alone == cep.estimate_statistics(patterns[:1], events)
    assert cep.plan(patterns[0], alone) == cep.plan(patterns[:1], alone)
    assert cep.detect(patterns, events, plan) == cep.detect(patterns, events)


def test_what_is_published_is_read_as_arrow(tables: Any) -> None:
    publish_everything(tables)
    opened = cep.open(tables.warehouse.location)
    assert opened.streams == ("trades",) and "trades" in opened._repr_html_()
    stream = opened["trades"]
    assert stream.days().to_pydict() == {"day": [MONDAY, TUESDAY], "events": [4, 2]}
    assert stream.events(TUESDAY, TUESDAY).column("price").to_pylist() == [4.0, 5.0]
    found = stream.matches()
    assert found.to_arrow().num_rows == tables.read_matches("demo").num_rows > 0
    assert stream.matches("demo", limit=1).to_arrow().num_rows == 1
    assert found.events().column_names[:5] == ["pattern", "match_id", "variable", "timestamp", "seq"]
    assert found.chart("rise").svg.startswith("<svg") and found.chart("rise", attribute="price").title.startswith(
        "rise"
    )
    assert stream.plans().num_rows and stream.runs().num_rows and stream.statistics().num_rows == 2
    nothing = stream.matches(first=date(2030, 1, 1))
    assert nothing == {} and len(nothing.to_pandas()) == 0
    assert nothing.events().schema == found.events().schema
    assert "demo" in stream._repr_html_()
    with pytest.raises(cep.InputError, match=r"pattern set 'other'.*demo"):
        stream.matches("other")
    with pytest.raises(cep.InputError, match="no folder of a warehouse"):
        cep.open("no/such/place")


@pytest.fixture
def tables(tmp_path: Path) -> Any:
    from cep_pipeline.warehouse.warehouse import Warehouse
    from tests.warehouse.published_days import Trades

    return Warehouse.open(tmp_path / "warehouse").stream(Trades())
