"""Schemas of plain values, and events tables made from rows."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.patterns.expressions import ValueType

PLAIN: dict[str, Any] = {
    "base_type": "Ev",
    "type_attribute": "kind",
    "attributes": {"kind": "string", "n": "int64", "y": "float64", "s": "string", "f": "bool", "h": "list<float64>"},
}
SCHEMA = StreamSchema.from_dict(PLAIN)


def test_from_dict() -> None:
    schema = StreamSchema.from_dict({**PLAIN, "types": ["A", 158324], "key": ["n", "timestamp"]}, name="sensors")
    assert (schema.name, schema.base_type, schema.type_attribute) == ("sensors", "Ev", "kind")
    assert schema.attributes["h"] is ValueType.FLOAT64_LIST
    assert schema.types == ("A", "158324")
    assert schema.key == ("n", "timestamp")
    assert (schema.on_missing, schema.timezone, schema.source, schema.derived) == ("error", "UTC", None, ())
    assert schema.referable["timestamp"] is schema.referable["seq"] is ValueType.INT64
    assert pickle.loads(pickle.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attributes": {"kind": "text"}}, r"attributes.kind: Input should be 'int64', 'float64'.*found 'text'"),
        ({"attributes": ["kind"]}, "attributes: Input should be a valid (mapping|dictionary)"),
        ({"attributes": {"kind": "string", "seq": "int64"}}, "belongs to the engine"),
        ({"attributes": {"kind": "string", "_day": "int64"}}, "belongs to the engine"),
        ({"type_attribute": "kin"}, r"'kin' is not among the attributes; did you mean 'kind'\?"),
        ({"type_attribute": "y"}, "must be string or int64, not float64"),
        ({"types": "A"}, "types: Input should be a valid list"),
        ({"types": ["A", "A"]}, "each type has a name and is listed once"),
        ({"key": ["m"]}, "key 'm' is no attribute that is read"),
        ({"key": "n"}, "key: Input should be a valid list"),
        ({"on_missing": "ignore"}, "on_missing: Input should be 'error', 'empty' or 'skip'"),
        ({"timezone": "Mars/Olympus"}, "unknown timezone 'Mars/Olympus'"),
        ({"base_type": ""}, "base_type must be the name of a type"),
        ({"name": ""}, "needs a name"),
        ({"atributes": {}}, "atributes: nothing of this name is known here"),
    ],
)
def test_wrong_schemas(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        StreamSchema.from_dict({**PLAIN, **change})


@pytest.mark.parametrize("missing", ["type_attribute", "attributes"])
def test_missing_fields(missing: str) -> None:
    with pytest.raises(InputError, match=f"{missing}(:| is missing)"):
        StreamSchema.from_dict({key: value for key, value in PLAIN.items() if key not in (missing, "base_type")})


def test_all_events_have_the_base_type_where_no_attribute_tells_theirs() -> None:
    schema = StreamSchema.from_dict({"base_type": "Ev", "attributes": {"n": "int64"}})
    assert (schema.type_attribute, schema.types, schema.type_of_all) == ("event_type", ("Ev",), "Ev")
    assert schema.table([{"timestamp": 1, "n": 2}])["event_type"].to_pylist() == ["Ev"]
    several = StreamSchema.from_dict({"base_type": "Ev", "types": ["A", "B"], "attributes": {"n": "int64"}})
    assert (several.type_of_all, SCHEMA.type_of_all) == (None, None)
    assert several.table([{"timestamp": 1, "event_type": "B"}])["event_type"].to_pylist() == ["B"]


def test_timestamps_of_rows_are_numbers_datetimes_or_text() -> None:
    schema = StreamSchema.from_dict({**PLAIN, "timezone": "America/New_York"})
    at = datetime(2024, 3, 4, 9, 30, 0, 5)
    same = [at, at.isoformat(), "2024-03-04T14:30:00.000005Z", at.replace(tzinfo=ZoneInfo("America/New_York"))]
    instants = schema.table([{"timestamp": one} for one in [*same, 1_709_562_600_000_005]])["timestamp"]
    assert set(instants.to_pylist()) == {datetime(2024, 3, 4, 14, 30, 0, 5, tzinfo=UTC)}
    for wrong, said in (("noon", "is no time of ISO 8601"), ("2024-03-10 02:30", "does not exist in America/New_York")):
        with pytest.raises(InputError, match=f"row 1: timestamp: '{wrong}' {said}"):
            schema.table([{"timestamp": at}, {"timestamp": wrong}])


def test_table_is_sorted_and_keeps_nulls_and_nans_apart() -> None:
    table = SCHEMA.table(
        [
            {"timestamp": 5, "kind": "A", "y": math.nan, "h": [1, None, math.nan]},
            {"timestamp": -3, "kind": None, "y": None, "f": np.bool_(True)},
            {"timestamp": 5, "kind": "B", "n": np.int64(7), "y": 2, "s": "x", "h": np.array([0.5])},
        ]
    )
    assert table.schema == SCHEMA.arrow_schema
    assert table.schema.names == ["timestamp", "seq", "kind", "n", "y", "s", "f", "h"]
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [-3, 5, 5]
    assert table["seq"].to_pylist() == [1, 0, 2]
    assert table["kind"].to_pylist() == [None, "A", "B"]
    assert table["n"].to_pylist() == [None, None, 7]
    missing, nan, two = table["y"].to_pylist()
    assert (missing, two) == (None, 2.0)
    assert math.isnan(nan)
    _, history, half = table["h"].to_pylist()
    assert (history[:2], math.isnan(history[2]), half) == ([1.0, None], True, [0.5])
    assert table["f"].to_pylist() == [True, None, None]


def test_given_seqs_order_equal_timestamps() -> None:
    rows = [{"timestamp": 0, "seq": 9}, {"timestamp": 0, "seq": 4}, {"timestamp": 0, "seq": 2**62}]
    assert SCHEMA.table(rows)["seq"].to_pylist() == [4, 9, 2**62]
    assert SCHEMA.table([]).num_rows == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"kind": "A"}, r"\[1\]\.timestamp: this is missing"),
        ({"timestamp": 1.5}, r"\[1\]\.timestamp: Input should be a valid integer \(found 1\.5\)"),
        ({"timestamp": 1, "seq": None}, r"\[1\]\.seq: Input should be a valid integer"),
        ({"timestamp": 1, "seq": 0}, "rows 0 and 1 have the same seq 0"),
        ({"timestamp": 1, "n": 1.0}, r"\[1\]\.n: Input should be a valid integer \(found 1\.0\)"),
        ({"timestamp": 1, "n": True}, r"\[1\]\.n: Input should be a valid integer \(found True\)"),
        ({"timestamp": 1, "n": 2**63}, "Input should be less than 9223372036854775808"),
        ({"timestamp": 1, "y": "2"}, r"\[1\]\.y: Input should be a valid number \(found '2'\)"),
        ({"timestamp": 1, "y": 10**400}, r"\[1\]\.y: Input should be a valid number"),
        ({"timestamp": 1, "s": 3}, r"\[1\]\.s: Input should be a valid string"),
        ({"timestamp": 1, "f": 1}, r"\[1\]\.f: Input should be a valid boolean"),
        ({"timestamp": 1, "h": 1.0}, r"\[1\]\.h: Input should be a valid list"),
        ({"timestamp": 1, "h": [1.0, "2"]}, r"\[1\]\.h\[1\]: Input should be a valid number \(found '2'\)"),
        ({"timestamp": 1, "knd": "A"}, r"\[1\]\.knd: nothing of this name is known here; the attributes are: kind, "),
    ],
)
def test_wrong_rows(row: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        SCHEMA.table([{"timestamp": 0}, row])
    assert "stream 'stream'" in str(raised.value)
