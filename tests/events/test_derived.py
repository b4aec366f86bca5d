from __future__ import annotations

import json
import math
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.events.derived import Carry, carry_lengths, derive, last_values
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.stream_document import DerivedAttribute
from cep_pipeline.patterns.expressions import ValueType
from tests.thoroughness import examples

SCHEMA = StreamSchema(
    name="s",
    base_type="E",
    type_attribute="t",
    attributes={
        "t": ValueType.STRING,
        "p": ValueType.FLOAT64,
        "n": ValueType.INT64,
        "p_diff": ValueType.FLOAT64,
        "p_past": ValueType.FLOAT64_LIST,
        "p_diff_past": ValueType.FLOAT64_LIST,
        "n_diff": ValueType.INT64,
        "n_diff_diff": ValueType.INT64,
        "n_diff_diff_past": ValueType.FLOAT64_LIST,
    },
    derived=(
        DerivedAttribute("p_diff", "diff", "p"),
        DerivedAttribute("p_past", "history", "p", 3),
        DerivedAttribute("p_diff_past", "history", "p_diff", 2),
        DerivedAttribute("n_diff", "diff", "n"),
        DerivedAttribute("n_diff_diff", "diff", "n_diff"),
        DerivedAttribute("n_diff_diff_past", "history", "n_diff_diff", 4),
    ),
)
FLOATS = st.one_of(st.none(), st.sampled_from([0.1, 0.3, -7.0, 1e300, math.nan, math.inf]))
INTS = st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([2**63 - 1, -(2**63)]))
ROWS = st.lists(st.tuples(st.sampled_from("ABC"), FLOATS, INTS), max_size=30)


def of(schema: StreamSchema) -> tuple[tuple[DerivedAttribute, ...], str]:
    """What `derive` needs of a schema."""
    return schema.derived, schema.type_attribute


OF = of(SCHEMA)


def table(rows: list[tuple[str, float | None, int | None]]) -> pa.Table:
    return pa.table(
        {
            "t": pa.array([row[0] for row in rows], pa.string()),
            "p": pa.array([row[1] for row in rows], pa.float64(), from_pandas=False),
            "n": pa.array([row[2] for row in rows], pa.int64()),
        }
    )


def difference(series: list[Any], value: Any) -> Any:
    """The difference to the value before, as docs/language.md computes: null on int64 overflow."""
    if value is None or not series:
        return None
    if series[-1] is None or (isinstance(value, int) and not -(2**63) <= value - series[-1] < 2**63):
        return None
    return value - series[-1]


def naive(rows: list[tuple[str, float | None, int | None]]) -> list[dict[str, Any]]:
    """Event after event, with plain lists of what was."""
    past: dict[tuple[str, str], list[Any]] = defaultdict(list)
    result = []
    for event_type, p, n in rows:
        row: dict[str, Any] = {}
        ps, ns = past[event_type, "p"], past[event_type, "n"]
        p_diffs, n_diffs, n_diff_diffs = (past[event_type, name] for name in ("dp", "dn", "ddn"))
        row["p_diff"], row["n_diff"] = difference(ps, p), difference(ns, n)
        row["n_diff_diff"] = None
        if p is not None:
            if ps:
                p_diffs.append(row["p_diff"])
            ps.append(p)
        if n is not None:
            if ns:
                row["n_diff_diff"] = None if row["n_diff"] is None else difference(n_diffs, row["n_diff"])
                if n_diffs:
                    n_diff_diffs.append(row["n_diff_diff"])
                n_diffs.append(row["n_diff"])
            ns.append(n)
        row["p_past"] = ps[-3:]
        row["p_diff_past"] = p_diffs[-2:]
        row["n_diff_diff_past"] = [math.nan if d is None else float(d) for d in n_diff_diffs[-4:]]
        result.append(row)
    return result


def comparable(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, sort_keys=True)


def derived_rows(derived: pa.Table) -> list[dict[str, Any]]:
    return derived.select([item.name for item in SCHEMA.derived]).to_pylist()


@settings(max_examples=examples(300), deadline=None)
@given(ROWS)
def test_derived_attributes_equal_a_plain_loop(rows: list) -> None:
    assert comparable(derived_rows(derive(table(rows), *OF, Carry()))) == comparable(naive(rows))


@settings(max_examples=examples(300), deadline=None)
@given(ROWS, st.lists(st.integers(0, 30), max_size=5))
def test_days_of_any_length_with_carry_equal_one_pass(rows: list, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    whole, carry, parts = table(rows), Carry(), []
    for begin, end in pairwise(bounds):
        day = whole.slice(begin, end - begin)
        parts += derived_rows(derive(day, *OF, carry))
        carry = carry.followed_by(last_values(day, *OF), carry_lengths(SCHEMA.derived))
        carry = Carry.from_json(json.loads(json.dumps(carry.to_json(), allow_nan=False)))
    assert comparable(parts) == comparable(derived_rows(derive(whole, *OF, Carry())))
    once = Carry().followed_by(last_values(whole, *OF), carry_lengths(SCHEMA.derived))
    assert carry.digest == once.digest


def test_the_carry_is_as_long_as_what_is_derived_needs() -> None:
    assert carry_lengths(SCHEMA.derived) == {"n": 6, "p": 3}


def test_events_of_one_type_in_an_int64_attribute() -> None:
    schema = StreamSchema(
        "s",
        None,
        "id",
        {"id": ValueType.INT64, "v": ValueType.INT64, "d": ValueType.INT64},
        derived=(DerivedAttribute("d", "diff", "v"),),
    )
    events = pa.table({"id": [7, 8, 7], "v": [1, 5, 4]})
    carry = Carry({"v": {"8": (2,)}})
    assert derive(events, *of(schema), carry).column("d").to_pylist() == [None, 3, 3]
    assert carry.followed_by(last_values(events, *of(schema)), {"v": 1}).to_json()["last_values"] == {
        "v": {"7": [4], "8": [5]}
    }


def test_nothing_derived_carries_nothing() -> None:
    schema = StreamSchema("s", None, "t", {"t": ValueType.STRING})
    assert (
        Carry().followed_by(last_values(pa.table({"t": ["a"]}), *of(schema)), carry_lengths(schema.derived)).to_json()
        == {}
    )


def test_a_carry_of_another_version_is_refused() -> None:
    with pytest.raises(InputError, match="version: Input should be 1"):
        Carry.from_json({"version": 99, "last_values": {}})
