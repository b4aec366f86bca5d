"""Schemas are proposed for files as they come, and read their files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.inference import infer_schema
from cep_pipeline.events.schema import StreamSchema

NINE = datetime(2025, 3, 4, 9, tzinfo=UTC)
EXPORT = (
    "# Sales\n# as of 4 March\n\nWhen;Shop;Amount;Checked;Note;\n"
    '04.03.2025 09:00:00;7;1.250,50;J;"two\nlines";\n04.03.2025 09:00:30;7;980,00;N;größer;\n'
    "13.03.2025 09:01:10;7;12.000,00;J;;\nWhen;Shop;Amount;Checked;Note;\n13.03.2025 09:02:00;8;15,75;J;;\n"
    "Sum;;14.246,25;;;\n"
)
LOG = '10.0.0.1 - - [04/Mar/2025:10:00:00 +0100] "GET /a HTTP/1.1" 200 17 "-" "x"\n' * 3 + (
    '10.0.0.2 - bob [04/Mar/2025:10:00:01 +0100] "POST /b HTTP/1.1" 401 - "-" "x"\n'
)
JSON = (
    '{"at": "2025-03-04T09:00:00Z", "who": {"id": "u1"}, "kind": "a"}\n{"at": "2025-03-04T09:00:01Z", "kind": "b"}\n'
    * 3
)

FILES: list[tuple[str, bytes, dict[str, Any], int]] = [
    (
        "forex.txt",
        b"<PAIR>,<DTYYYYMMDD>,<TIME>,<CLOSE>\nEURX,20250304,090000,1.1\nEURX,20250305,000000,1.2\nEURX,20250305,000100,1.3\n",
        {"timestamp": {"column": ["<DTYYYYMMDD>", "<TIME>"], "format": "%Y%m%d %H%M%S"}},
        3,
    ),
    (
        "clock.csv",
        b"date,time,x\n3/4/2025,9:00 AM,1\n3/13/2025,1:05 PM,2\n3/14/2025,1:06 PM,3\n",
        {"timestamp": {"column": ["date", "time"], "format": "%m/%d/%Y %I:%M %p"}},
        3,
    ),
    (
        "sales.csv",
        EXPORT.encode("cp1252"),
        {
            "timestamp": {"column": "When", "format": "%d.%m.%Y %H:%M:%S"},
            "source": {
                "format": "csv",
                "delimiter": ";",
                "encoding": "cp1252",
                "comment": "#",
                "decimal": ",",
                "thousands": ".",
                "true_words": ["J"],
                "false_words": ["N"],
                "path": "sales.csv",
            },
        },
        4,
    ),
    ("export.tsv", EXPORT.replace("# ", "").replace(";", "\t").encode("utf-16"), {}, 4),
    ("access.log", LOG.encode(), {"type_attribute": "method"}, 4),
    ("hits.jsonl", JSON.encode(), {"type_attribute": "kind"}, 6),
    (
        "quotes.csv",
        b"Price,Close,Volume\nTicker,ABC,ABC\nDate,,\n2025-03-04 09:00,10.5,1\n2025-03-05,10.9,2\n2025-03-06,11.4,3\n",
        {"attributes": {"Close": "float64", "Volume": "int64"}},
        3,
    ),
    (
        "bars.csv",
        b"1741078800000,1.5,-\n1741078860000,1.6,3\n1741165260000000,1.7,4\n1741165320000000,1.8,5\n",
        {"timestamp": {"column": "column_1", "format": "epoch"}},
        4,
    ),
    ("trail.csv", b"time,price,size\n2025-03-04T09:00:00Z,1,2,\n2025-03-04T09:00:01Z,2,3,\n", {}, 2),
    ("epochs.csv", b"ts,v\n1741078800.25,1\n1741078801.5,2\n", {"timestamp": {"column": "ts", "format": "epoch_s"}}, 2),
    (
        "marked.csv",
        b"#when,price\n2025-03-04T09:00:00Z,1\n2025-03-04T09:00:01Z,2\n2025-03-04T09:00:02Z,3\n",
        {"timestamp": {"column": "#when", "format": "iso"}, "attributes": {"price": "int64"}},
        3,
    ),
    (
        "index.csv",
        b";when;price\n0;2025-03-04T09:00:00Z;1\n1;2025-03-04T09:00:01Z;2\n",
        {"timestamp": {"column": "when", "format": "iso"}},
        2,
    ),
    ("unix.csv", b"t,at\n1,Tue Mar 4 09:00:00 2025\n2,Tue Mar 4 09:00:01 2025\n", {}, 2),
]


@pytest.mark.parametrize(("name", "content", "expected", "events"), FILES, ids=[name for name, *_ in FILES])
def test_a_file_as_it_comes_is_read_by_the_schema_that_is_proposed(
    name: str, content: bytes, expected: dict[str, Any], events: int, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    proposed = infer_schema(tmp_path / name, timezone="UTC")
    assert {key: proposed.document[key] for key in expected} == expected
    (tmp_path / "schema.yaml").write_text(proposed.text)
    loaded = load_events(StreamSchema.load(tmp_path / "schema.yaml"), [tmp_path / name])
    assert loaded.events.num_rows == events
    assert loaded.events["timestamp"][0].as_py().replace(microsecond=0) == NINE


def test_other_columns_of_times_are_attributes_that_are_times(tmp_path: Path) -> None:
    rows = ["9:00:00,r1,05.03.2025,1741078801", "9:01:00,r2,,1741078861", "9:02:00,r1,06.03.2025,"]
    lines = ["at,room,due,receive_time", *(f"2025-03-04T0{row}" for row in rows)]
    (tmp_path / "rooms.csv").write_text("\n".join([*lines, *(f"2025-03-04T09:1{n}:00,r1,," for n in range(9))]))
    proposed = infer_schema(tmp_path / "rooms.csv", timezone="UTC", time_column="at")
    assert proposed.document["attributes"] == {
        "room": "string",
        "due": {"type": "timestamp", "format": "%d.%m.%Y"},
        "receive_time": {"type": "timestamp", "format": "epoch_s"},
    }
    (tmp_path / "schema.yaml").write_text(proposed.text)
    loaded = load_events(StreamSchema.load(tmp_path / "schema.yaml"), [tmp_path / "rooms.csv"])
    assert loaded.events["due"][0].as_py() == datetime(2025, 3, 5, tzinfo=UTC)
    assert loaded.events["receive_time"][0].as_py() == datetime(2025, 3, 4, 9, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("times", "around"),
    [
        (["2025-03-04 00:00", "2025-03-04 23:00", "2025-03-04 24:00"], {"days_after": 1}),
        (["2025-03-03 23:00", "2025-03-04 01:00", "2025-03-04 02:00"], {"days_before": 1}),
        (["2025-03-04 00:00", "2025-03-04 23:00", "2025-03-04 23:30"], {}),
    ],
)
def test_a_file_with_rows_of_a_day_beside_its_own_is_proposed_so(
    times: list[str], around: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "2025-03-04.csv").write_text("\n".join(["at,x", *(f"{one},1" for one in times)]))
    source = infer_schema(tmp_path / "2025-03-04.csv", timezone="UTC").document["source"]
    assert source == {"format": "csv", "path": "{day:%Y-%m-%d}.csv", **around}


def test_the_name_of_a_file_tells_day_and_month_apart(tmp_path: Path) -> None:
    for name, unsure in (("2025-03-04.csv", False), ("rows.csv", True)):
        (tmp_path / name).write_text("at,x\n04/03/2025 09:00,1\n04/03/2025 09:01,2\n")
        proposed = infer_schema(tmp_path / name, timezone="UTC")
        assert ("the other way round" in proposed.comments["timestamp"]) is unsure


def test_a_column_that_tells_day_and_month_apart_tells_it_for_others(tmp_path: Path) -> None:
    (tmp_path / "stays.csv").write_text(
        "begin,end,x\n04/03/2025 09:00,04/13/2025 10:00,1\n04/03/2025 09:01,12/13/2025 08:00,2\n"
    )
    proposed = infer_schema(tmp_path / "stays.csv", timezone="UTC", time_column="begin")
    assert proposed.document["timestamp"] == {"column": "begin", "format": "%m/%d/%Y %H:%M"}
    assert proposed.document["attributes"]["end"] == "timestamp"
    assert "the other way round" not in proposed.comments["timestamp"]


def test_the_share_of_bad_rows_leaves_room_for_those_of_the_sample(tmp_path: Path) -> None:
    rows = [f"2025-03-04T09:{n:02}:00,{n},{'ab'[n % 2]}" for n in range(20)]
    (tmp_path / "bad.csv").write_text("\n".join(["at,x,paper", *rows, "Sum,190,"]))
    proposed = infer_schema(tmp_path / "bad.csv", timezone="UTC")
    assert proposed.document["quality"] == {"max_rejected_share": 0.1}
    assert proposed.type_column == "paper"  # the odd row has none
    assert "up to 1 are bad" in proposed.comments["quality.max_rejected_share"]


ROWS = [(f"2025-03-04T09:{n:02}:00Z", n % 7, "abc"[n % 3], f"w{n % 4}", f"text {n}") for n in range(40)]


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ("time,session,event_type,page,note", "event_type"),
        ("time,card_id,action,shop,note", "action"),
        ("time,device_id,metric,unit,note", "metric"),
        ("time,case_id,activity,resource,note", "activity"),
        ("time,host_id,level,host,note", "level"),
        ("time,user_id,symbol,venue,note", "symbol"),
        ("time,size,station,region,note", "station"),
    ],
)
def test_the_kind_of_an_event_is_its_type_and_not_what_it_is_about(columns: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("\n".join([columns, *(",".join(map(str, row)) for row in ROWS)]))
    assert infer_schema(tmp_path / "rows.csv").type_column == kind


def test_what_was_tried_is_said_where_nothing_is_a_time(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\nx,1\ny,2\n")
    with pytest.raises(
        InputError, match=r"no column has times .* a \(x\), b \(1\)\. Tried were: ISO 8601.* two columns"
    ):
        infer_schema(tmp_path / "rows.csv", timezone="UTC")
    (tmp_path / "rows.jsonl").write_text('[{"a": 1}]')
    with pytest.raises(InputError, match="JSON lines have an object on each line, not a list"):
        infer_schema(tmp_path / "rows.jsonl", timezone="UTC")
