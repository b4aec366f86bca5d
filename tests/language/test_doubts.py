"""Patterns that order text whose values look like numbers are told so, with what to write."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.language.doubts import doubts_about_order

SCHEMA = cep.StreamSchema.from_dict(
    {"base_type": "E", "attributes": {"x": "string", "y": "string", "n": "float64"}, "timezone": "UTC"}
)


def doubts(text: str, **columns: list[str | None]) -> list[str]:
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return doubts_about_order(cep.parse_patterns(text, SCHEMA, source="p.sase"), table)


@pytest.mark.parametrize(
    "values",
    [["99.7", "100.13"], ["99", "100", None], ["99,73", "100,13"], ["9", "1.250,5"], ["1'250", "7"], [" 0.5", "-12"]],
)
def test_values_that_are_no_text_are_told(values: list[str | None]) -> None:
    (told,) = doubts("NAME n PATTERN SEQ(E a, E b)\n  WHERE a.x < b.x WITHIN 1 day", x=values)
    assert told.startswith(f"'x' is text, which n orders by its characters; its values, such as {values[0]!r}, look")
    assert told.endswith("give it the type int64 or float64 in the stream schema")


@pytest.mark.parametrize(
    "values",
    [
        [],
        [None],
        ["abc", "99"],
        ["007", "012"],
        ["2025-03-04", "2025-04-05"],
        ["1.2.3", "10.1.1"],
        ["A", "B"],
    ],
)
def test_text_and_what_is_in_order_as_text_is_not_told(values: list[str | None]) -> None:
    assert doubts("PATTERN SEQ(E a, E b) WHERE a.x < b.x WITHIN 1 day", x=values) == []


@pytest.mark.parametrize(
    ("condition", "returns"),
    [
        ("a.x <= b[i].x", ""),
        ("NOT a.x > '5'", ""),
        ("a.n > 1 OR '5' >= a.x", ""),
        ("a.x BETWEEN '1' AND '5'", ""),
        ("a.n BETWEEN 1 AND 5 AND coalesce(a.x, 'z') < '5'", ""),
        ("least(a.x, '5') = '5'", ""),
        ("a.x = max(b[].x)", ""),
        ("a.n = 1", " RETURN min(b[].x) AS low"),
        ("a.n = 1", " SUMMARIZE max(a.x) AS high"),
    ],
)
def test_all_that_orders_text_is_looked_at(condition: str, returns: str) -> None:
    text = f"NAME n PATTERN SEQ(E a, E+ b[]) WHERE {condition} WITHIN 1 day{returns}"
    (told,) = doubts(text, x=["1", "22"], y=["1", "22"])
    assert told.startswith("'x' is text, which n orders")


@pytest.mark.parametrize("condition", ["a.x = b.x", "a.x IN ('1', '2')", "a.x LIKE '1%'", "a.n < b.n", "[x]"])
def test_what_orders_no_text_is_not_told(condition: str) -> None:
    assert doubts(f"PATTERN SEQ(E a, E b) WHERE {condition} WITHIN 1 day", x=["1", "22"]) == []


def test_an_attribute_is_told_once_with_the_names_of_the_patterns() -> None:
    text = "\n".join(f"NAME p{n} PATTERN SEQ(E a, E b) WHERE a.x < b.x AND a.y < b.y WITHIN 1 day;" for n in range(30))
    of_x, of_y = doubts(text, x=["1.250", "9"], y=["0,5", "99"])
    names = ", ".join(f"p{n}" for n in range(20))
    assert of_x.startswith(f"'x' is text, which {names} … and 10 more order by its characters;")
    assert "such as '0,5'" in of_y


def test_attributes_of_matches_are_no_attributes_of_events() -> None:
    text = (
        "NAME one PATTERN E a WHERE a.n > 1 WITHIN 1 day RETURN a.y AS x;\n"
        "NAME two PATTERN SEQ(one m, E b) WHERE m.x < 'b' WITHIN 1 day"
    )
    assert doubts(text, x=["1", "22"]) == []


def test_detect_warns_whether_there_are_matches_or_not() -> None:
    for values, matches in ((["1", "22"], 1), (["99", "100"], 0)):
        events = SCHEMA.table([{"timestamp": at, "x": value} for at, value in enumerate(values)])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = cep.detect("NAME n PATTERN SEQ(E a, E b) WHERE a.x < b.x WITHIN 1 day", events)
        assert found["n"].num_rows == matches
        assert ["look like numbers" in str(one.message) for one in caught] == [True]
