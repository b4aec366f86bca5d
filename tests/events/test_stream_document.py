from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.patterns.expressions import ValueType
from tests.events.raw import CHECKOUT, trades, trades_document, write_schema

SOURCE = trades_document()["source"]
ATTRIBUTES = trades_document()["attributes"]


@pytest.mark.parametrize("name", ["us_equity_trades", "generated_trades", "nasdaq_minute_bars", "aarhus_traffic"])
def test_the_schemas_that_come_with_the_project_load(name: str) -> None:
    schema = StreamSchema.load(CHECKOUT / "streams" / f"{name}.yaml")
    assert schema.name == name
    assert schema.source is not None
    assert set(schema.source.columns) == set(schema.raw_attributes)
    assert schema.arrow_schema.names[:2] == ["timestamp", "seq"]


def test_generated_trades_have_the_vendors_layout() -> None:
    vendor, generated = (
        StreamSchema.load(CHECKOUT / "streams" / f"{name}.yaml") for name in ("us_equity_trades", "generated_trades")
    )
    assert vendor.source == generated.source
    assert dict(vendor.attributes).items() <= dict(generated.attributes).items()


def test_derived_attributes_are_attributes(tmp_path: Path) -> None:
    schema = trades(
        tmp_path,
        derived={
            "diff": {"diff": {"of": "size"}},
            "diffs": {"history": {"of": "diff", "length": 4}},
        },
    )
    assert schema.attributes["diff"] is ValueType.INT64
    assert schema.attributes["diffs"] is ValueType.FLOAT64_LIST
    assert list(schema.raw_attributes) == ["symbol", "price", "size"]


@pytest.mark.parametrize(
    ("changes", "line_of", "said"),
    [
        ({"timezone": "America/New_Yrok"}, "timezone:", "America/New_Yrok"),
        ({"type_attribute": "symbl"}, "type_attribute:", "did you mean 'symbol'"),
        ({"type_attribute": "price"}, "type_attribute:", "must be string or int64"),
        ({"source": {**SOURCE, "thousands": "."}}, "thousands:", 'write for example `decimal: ","` beside it'),
        ({"source": {**SOURCE, "decimal": ",,"}}, "decimal:", "',,' cannot be this sign of a number"),
        ({"source": {**SOURCE, "quote": "'", "thousands": "'"}}, "thousands:", "is `quote` too"),
        ({"timezone": 1}, "timezone:", "this should be text, in quotes (found 1); write for example `timezone: "),
        ({"on_missing": "skp"}, "on_missing:", "'skip' (found 'skp'); write for example `on_missing: skip`"),
        (
            {"attributes": ["symbol"]},
            "attributes:",
            "should be a mapping (name: value) (found a list); write for example",
        ),
        (
            {"quality": {"max_rejected_share": -1}},
            "max_rejected_share:",
            "write for example `max_rejected_share: 0.05`",
        ),
        ({"type_attribute": None, "base_type": None}, "source:", "write for example `type_attribute: symbol`"),
        (
            {"type_attribute": None, "attributes": {**ATTRIBUTES, "event_type": "string"}},
            "  event_type:",
            "`type_attribute: event_type` if it holds the types",
        ),
        ({"source": {**SOURCE, "path": "{day:%Y-%m-%d}-{type}.csv"}}, "path:", "leave one of them out"),
        ({"type_attribute": None, "source": {**SOURCE, "path": ["{type}.csv", "b.csv"]}}, "path:", "in all of them"),
        ({"type_attribute": None, "source": {**SOURCE, "path": "{type}/{type}.csv"}}, "path:", "stands in a path once"),
        ({"atributes": {}}, "atributes:", "did you mean 'attributes'"),
        ({"attributes": {**ATTRIBUTES, "price": "decimal"}}, "  price:", "int64"),
        ({"attributes": {**ATTRIBUTES, "seq": "int64"}}, "  seq:", "belongs to the engine"),
        ({"attributes": {**ATTRIBUTES, "day": "int64"}}, "  day:", "belongs to the engine"),
        ({"attributes": {**ATTRIBUTES, "_x": "int64"}}, "  _x:", "belongs to the engine"),
        ({"attributes": {**ATTRIBUTES, "Price": "int64"}}, "  Price:", "names differ in more than case"),
        ({"key": ["symbol", "prise"]}, "- prise", "did you mean 'price'"),
        ({"key": ["diff"]}, "- diff", "no attribute that is read"),
        ({"on_missing": "ignore"}, "on_missing:", "skip"),
        ({"source": None}, "", "required"),
        ({"source": {**SOURCE, "path": "/data/x.csv"}}, "path:", "relative"),
        ({"source": {**SOURCE, "path": "{day:%d}.csv"}}, "path:", "needs month"),
        ({"source": {**SOURCE, "format": "xml"}}, "format:", "csv"),
        ({"source": {**SOURCE, "delimiter": "::"}}, "delimiter:", "one ASCII character"),
        ({"types": ["A", "A"]}, "types:", "is listed once"),
        ({"types": [""]}, "types:", "has a name"),
        ({"attributes": {**ATTRIBUTES, "Price": "int64"}}, "  Price:", "`source_price: {type: int64, column: Price}`"),
        ({"typ_attribute": "symbol"}, "typ_attribute:", "'type_attribute'?; write for example `type_attribute: "),
        ({"source": {**SOURCE, "header": False}}, "source:", "needs the names"),
        ({"source": {**SOURCE, "header": False, "columns": ["symbol"]}}, "columns:", "lacks 'timestamp'"),
        ({"timestamp": {"column": "timestamp", "format": "yyyymmdd"}}, "format:", "'yyyymmdd' is not known"),
        ({"derived": {"d": {"diff": {"of": "symbol"}}}}, "  d:", "'symbol' is no int64 or float64"),
        ({"derived": {"price": {"diff": {"of": "size"}}}}, "price:", "a name of 'price' too"),
        ({"derived": {"d": {"history": {"of": "price", "length": 0}}}}, "length:", "greater than or equal to 1"),
        ({"derived": {"d": {}}}, "d:", "a derived attribute has either"),
        ({"quality": {"expectations": [{"column": "prise", "above": 0}]}}, "prise", "no attribute that is read"),
        ({"quality": {"expectations": [{"column": "price"}]}}, "", "at least one of above"),
        ({"quality": {"expectations": [{"column": "symbol", "above": 0}]}}, "symbol", "bounds are for"),
        ({"quality": {"max_rejected_share": 2}}, "max_rejected_share", "less than or equal to 1"),
        ({"quality": {"row_count": {"at_least": 3, "at_most": 2}}}, "", "greater than at_most"),
    ],
)
def test_errors_name_file_line_and_rule(tmp_path: Path, changes: dict[str, Any], line_of: str, said: str) -> None:
    path = write_schema(tmp_path, **changes)
    with pytest.raises(InputError) as caught:
        StreamSchema.load(path)
    message = str(caught.value)
    assert said in message
    assert "write " in message or "did you mean" in message or "there are: " in message
    assert message.startswith(f"{path}:")
    line = int(message.removeprefix(f"{path}:").split(":")[0])
    if line_of:
        candidates = [n for n, text in enumerate(path.read_text().splitlines(), 1) if line_of.strip() in text]
        assert line in candidates


def test_a_missing_schema_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: no such stream schema"):
        StreamSchema.load(tmp_path / "none.yaml")


def test_the_digest_changes_with_what_events_follow_from(tmp_path: Path) -> None:
    digest = trades(tmp_path).digest
    assert trades(tmp_path).digest == digest
    assert trades(tmp_path, quality={"max_rejected_share": 0.1}, on_missing="skip").digest == digest
    for changes in (
        {"timezone": "UTC"},
        {"key": ["symbol"]},
        {"derived": None},
        {"source": {**SOURCE, "delimiter": ";"}},
        {"source": {**SOURCE, "longest_value": 1_000}},
        {"attributes": {**ATTRIBUTES, "size": "float64"}},
    ):
        assert trades(tmp_path, **changes).digest != digest


def test_a_schema_with_its_source_can_be_shipped(tmp_path: Path) -> None:
    import pickle

    schema = trades(tmp_path)
    shipped = pickle.loads(pickle.dumps(schema))
    assert shipped == schema
    assert shipped.source.paths[0].pattern(date(2013, 10, 7)) == "2013-10-07/trades*.csv.gz"


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("aarhus_traffic", "f5a7e3bfcaca466f1d6de9605354b17a"),
        ("generated_trades", "a144c1aad51feb35aec85e2299319417"),
        ("nasdaq_minute_bars", "9ee5a2a0f22b3de301e520057facaf6e"),
        ("us_equity_trades", "fa5a3cb894f8afa00c01aa2386341c17"),
    ],
)
def test_the_digest_of_a_schema_keeps_its_value_so_that_no_published_day_becomes_stale(name: str, digest: str) -> None:
    assert StreamSchema.load(CHECKOUT / "streams" / f"{name}.yaml").digest == digest
