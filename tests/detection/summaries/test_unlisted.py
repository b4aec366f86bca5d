"""Rows of SUMMARIZE that are made of numbers of matches are those that listed matches give."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import outputs
from cep_pipeline.detection.counting import owned
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Sink
from cep_pipeline.detection.outputs import route_of
from cep_pipeline.detection.summaries import unlisted
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.slices.prepared import PreparedEvents
from tests.pipeline.local_days import LocalDays, events_by_day
from tests.thoroughness import examples, part_of

SCHEMA = StreamSchema.from_dict(
    {
        "type_attribute": "kind",
        "attributes": {
            "kind": "string",
            "x": "int64",
            "y": "float64",
            "z": "float64",
            "w": "float64",
            "s": "string",
            "id": "int64",
        },
        "timezone": "America/New_York",
    }
)
AUTUMN_US = 1_383_450_000_000_000
TEXTS = (
    "PATTERN SEQ(A a, B b, C c) WITHIN 200 minutes SUMMARIZE count(*), sum(b.x), avg(b.x), min(b.x), max(c.x), "
    "sum(a.y), avg(a.y), min(a.y), max(a.y), max(c.s), min(a.y * 2) GROUP BY a.s, c.id",
    "PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 900 minutes SUMMARIZE count(*), max(b.y) GROUP BY bucket(1 h), a.s",
    "PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 5 h SUMMARIZE sum(b.x), sum(a.id) GROUP BY a.s",
    "PATTERN K+ k[] WITHIN 100 minutes SUMMARIZE count(*), sum(sum(k[].x)), avg(sum(k[].x)), sum(k.LEN), avg(k.LEN)",
    "PATTERN SEQ(A a, K+ k[], B b) WHERE k[].id < 2 AND a.id = b.id WITHIN 300 minutes "
    "SUMMARIZE count(*), sum(sum(k[].x)), avg(k.LEN), max(b.x) GROUP BY a.s, bucket(2 hours)",
    "PATTERN SEQ(A a, K+ k[]) WHERE k[].x > a.x WITHIN 100 minutes SUMMARIZE sum(sum(k[].x)), max(a.x) GROUP BY a.s",
    "PATTERN SEQ(A a, ~B n, C c) WITHIN 200 minutes SUMMARIZE count(*), avg(a.y) GROUP BY bucket(1 day)",
    "PATTERN SEQ(A a, C c) WITHIN 30 EVENTS PARTITION BY id SUMMARIZE count(*), sum(c.x) GROUP BY a.s",
)
PARTS = (
    "PATTERN OR(SEQ(A a, B b), C c) WITHIN 200 minutes "
    "SUMMARIZE count(*), sum(b.x), avg(c.y), max(coalesce(b.x, c.x)), min(a.s) GROUP BY a.s, c.id",
    "PATTERN SEQ(A a, B? b, C c) WHERE b.id = 1 WITHIN 200 minutes SUMMARIZE count(*), sum(b.x), sum(c.y) GROUP BY b.s",
    "PATTERN SEQ(A a, K* k[], B b) WHERE k[].id < 2 WITHIN 100 minutes "
    "SUMMARIZE count(*), sum(k.LEN), min(k.LEN), sum(sum(k[].x)), max(b.x) GROUP BY bucket(2 hours)",
)
NEGATING = (
    "PATTERN SEQ(A a, OR(~K n, ~C m), B b) WITHIN 300 minutes "
    "SUMMARIZE count(*), sum(b.x), avg(a.y), min(b.y), max(b.z) GROUP BY a.s, b.id",
    "PATTERN SEQ(OR(~K n, ~C m, SEQ(~A l, ~B h)), A a, B b) WHERE n.x > 3 WITHIN 3 h SUMMARIZE avg(b.y) GROUP BY a.s",
    "PATTERN SEQ(A a, OR(~A n, ~C m), K+ k[], B b) WITHIN 2 h SUMMARIZE sum(a.x), max(max(k[].id)) GROUP BY b.s",
)
SEVERAL = (
    "PATTERN SEQ(A a, B b) WITHIN 900 minutes SUMMARIZE count(*), sum(b.id - a.id - 1), avg(-(a.x + b.x)) GROUP BY a.s",
    "PATTERN SEQ(A a, K+ k[], B b) WITHIN 200 minutes SUMMARIZE sum(b.timestamp - a.timestamp) GROUP BY bucket(3 h)",
    "PATTERN SEQ(A a, K+ k[]) WHERE [id] WITHIN 100 minutes SUMMARIZE avg(k.LEN), sum(sum(k[].w)), max(max(k[].id))",
    "PATTERN SEQ(A a, K+ k[]) WITHIN 70 minutes SUMMARIZE sum(k[1].x), max(k[k.LEN].y), min(k[1].id) GROUP BY k[1].s",
    "PATTERN SEQ(A a, K{2,3} k[]) WITHIN 100 minutes SUMMARIZE sum(k.LEN), avg(k.LEN) GROUP BY a.s",
    "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 900 minutes SUMMARIZE sum(b.w - a.w), avg(b.w - a.w) GROUP BY a.id",
)
BY_LENGTHS = (
    "PATTERN SEQ(A a, K+ k[]) WITHIN 40 minutes SUMMARIZE count(*), sum(k[1].x) GROUP BY k.LEN, k[1].s",
    "PATTERN SEQ(A a, K{2,3} k[]) WITHIN 100 minutes SUMMARIZE sum(k.LEN), max(k.LEN) GROUP BY a.s",
)
LISTED = (
    "PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 5 h SUMMARIZE sum(b.x) GROUP BY bucket(40 min)",
    "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 900 minutes SUMMARIZE sum(b.z - a.y)",
    "PATTERN SEQ(A a, K+ k[]) WITHIN 1 hour SUMMARIZE sum(sum(k[].y))",
    "PATTERN SEQ(A a, B b) WITHIN 1 day OUTPUT NON_OVERLAP SUMMARIZE count(*)",
    "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { TRUE } WITHIN 1 day SUMMARIZE count(*)",
)


def rows_of(seed: int, number: int = 60) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "timestamp": AUTUMN_US + at * 400_000_000,
            "kind": draw.choice("ABCK"),
            "x": draw.choice([None, draw.randrange(-50, 50), draw.randrange(2**40)]),
            "y": draw.choice([None, math.nan, math.inf, 1e300, 0.1]) if draw.random() < 0.3 else draw.random(),
            "z": draw.choice([None, 100.01, 99.5, 120.75]),
            "w": draw.choice([None, 1.5, 2.0, -7.0]),
            "s": draw.choice(["p", "q", None]),
            "id": draw.randrange(3),
        }
        for at in range(number)
    ]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches are counted however few they are."""
    count = unlisted.count_owned
    monkeypatch.setattr(unlisted, "FEW_SUMMARIZED", -1)
    monkeypatch.setattr(unlisted, "LEAST_S", 1e9)
    monkeypatch.setattr(unlisted, "LONG_NS", 0.0)
    monkeypatch.setattr(
        unlisted, "count_owned", lambda *of, always=True, finding=False: count(*of, always=True, finding=finding)
    )


def unlisted_of(pattern: cep.Pattern, events: pa.Table) -> pa.Table | None:
    prepared, counters = PreparedEvents(events, type_attribute="kind"), Counters()
    made = unlisted.summarize_unlisted(pattern, prepared, EVERYTHING, counters)
    [taken] = counters.routes[pattern.name]
    assert taken.sink is Sink.SUMMARIZE and taken.lists is (made is None)
    assert bool(taken.because) is taken.lists
    return None if made is None else made.table()


def listed_rows(pattern: cep.Pattern, events: pa.Table) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(outputs, "summarize_unlisted", lambda *_: None)
        return repr(cep.detect([pattern], events)["pattern_1"].to_pylist())


def same_as_listed(pattern: cep.Pattern, events: pa.Table) -> None:
    made = unlisted_of(pattern, events)
    assert made is not None
    assert repr(made.to_pylist()) == listed_rows(pattern, events)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("text", (*TEXTS, *SEVERAL))
def test_numbers_of_matches_give_the_rows(text: str) -> None:
    [pattern] = cep.parse_patterns(text, SCHEMA)
    for seed in range(2):
        same_as_listed(pattern, SCHEMA.table(rows_of(seed)))


STRUCTURES = {
    "SEQ(A a, B b, C c)": "abc",
    "SEQ(A a, ~K n, B b, C c)": "abc",
    "SEQ(~K n, A a, B b, ~C m, K c)": "abc",
    "SEQ(A a, B b, ~K n, C c, ~A m)": "abc",
    "SEQ(A a, K d, B b, C c)": "abcd",
    "AND(A a, B b, C c)": "abc",
    "SEQ(AND(A a, B b), C c)": "abc",
    "SEQ(A a, ~C n, B b)": "ab",
    "OR(SEQ(A a, B b), SEQ(K c, C d))": "abcd",
    "SEQ(A a, B? b, ~K n, C c)": "abc",
    "SEQ(A a, OR(~K n, ~C m), B b)": "ab",
    "SEQ(A a, OR(~K n, SEQ(~C m, K d)), B b)": "abd",
    "SEQ(A a, OR(~K n, ~C m), K+ k[], B b)": "ab",
}
JOINING = ("a.x < b.x", "b.w >= c.z", "a.id = b.id", "b.id = c.id", "c.x > a.x", "[id]", "a.z <= b.z AND a.id = b.id")
OF_ONE = ("{0}.x", "{0}.w", "{0}.y")
OF_TWO = ("{0}.w - {1}.w", "({0}.z - {1}.z) / {1}.z", "{0}.id * {1}.id", "{0}.y + {1}.w")
KEYS = ("", "{0}.s", "{0}.s, {1}.id", "bucket(2 h)", "bucket(1 h), {1}.s")


@st.composite
def statements(draw: st.DrawFn) -> str:
    structure = draw(st.sampled_from(sorted(STRUCTURES)))
    names = STRUCTURES[structure]
    usable = [one for one in JOINING if set(re.findall(r"\b([a-d])\.", one)) <= set(names)]
    condition = " AND ".join(draw(st.lists(st.sampled_from(usable), max_size=2, unique=True)))
    pair = draw(st.permutations(names))[:2]
    of = [one.format(*pair) for one in draw(st.lists(st.sampled_from((*OF_ONE, *OF_TWO)), min_size=1, max_size=2))]
    aggregates = [f"{draw(st.sampled_from(['sum', 'avg', 'min', 'max']))}({one})" for one in dict.fromkeys(of)]
    keys = draw(st.sampled_from(KEYS)).format(*pair)
    window = draw(st.sampled_from(["100 minutes", "4 h", "9 EVENTS"]))
    text = f"PATTERN {structure} {condition and f'WHERE {condition}'} WITHIN {window} SUMMARIZE count(*), "
    return text + ", ".join(aggregates) + (keys and f" GROUP BY {keys}")


@pytest.mark.filterwarnings("ignore:.*constrains no clause")
@pytest.mark.usefixtures("always")
@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=statements(), seed=st.integers(0, 2**16))
def test_drawn_statements_give_the_rows_of_listed_matches(text: str, seed: int) -> None:
    [pattern] = cep.parse_patterns(text, SCHEMA)
    events = SCHEMA.table(rows_of(seed, 30))
    made = unlisted_of(pattern, events)
    if made is not None:
        assert repr(made.to_pylist()) == listed_rows(pattern, events)


OF_ONE_VARIABLE = (
    "PATTERN SEQ(A a, B b, C c) WITHIN 300 minutes SUMMARIZE count(*), avg(c.y), sum(c.w), min(c.x) GROUP BY c.s",
    "PATTERN SEQ(A a, K+ k[], B b, C c) WHERE b.x < c.x WITHIN 90 minutes SUMMARIZE avg(c.z), max(c.y) GROUP BY c.id",
    "PATTERN SEQ(K+ k[], B b) WHERE [id] WITHIN 3 h SUMMARIZE count(*), sum(b.x)",
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 5 h SUMMARIZE sum(c.z) GROUP BY bucket(1 h), c.s",
    "PATTERN SEQ(A a, B b, C c, K k) WHERE a.x < b.x WITHIN 20 EVENTS SUMMARIZE sum(a.y - a.w * 3)",
)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("text", OF_ONE_VARIABLE)
def test_summaries_over_one_variable(text: str) -> None:
    [pattern] = cep.parse_patterns(text, SCHEMA)
    for seed in range(4):
        same_as_listed(pattern, SCHEMA.table(rows_of(seed, 70)))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("text", (*LISTED, *PARTS, *NEGATING, *BY_LENGTHS))
def test_other_summaries_are_listed(text: str) -> None:
    [pattern] = cep.parse_patterns(text, SCHEMA)
    assert unlisted_of(pattern, SCHEMA.table(rows_of(1))) is None


COUNTED = {
    "SEQ(A a, B b) WITHIN 4 h": "ab",
    "SEQ(A a, B b) WHERE a.x < b.x WITHIN 4 h": "ab",
    "SEQ(A a, B b, C c) WHERE [id] WITHIN 6 h": "abc",
    "SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 8 h": "abc",
    "SEQ(A a, B b, C c) WHERE a.x < b.x AND b.w <= c.z AND a.id = c.id WITHIN 8 h": "abc",
    "SEQ(A a, B b, C c, K d) WHERE a.x < b.x AND b.w <= c.z AND c.id < d.id WITHIN 6 h": "abcd",
    "SEQ(A a, B b, C c, K d) WITHIN 2 h": "abcd",
    "AND(A a, B b, C c) WHERE a.x < b.x WITHIN 2 h": "abc",
    "SEQ(A a, ~K n, B b, C c) WITHIN 3 h": "abc",
    "SEQ(A a, ~K n, B b, C c, A d) WITHIN 3 h": "abcd",
    "SEQ(A a, B b, ~K n) WITHIN 100 minutes": "ab",
    "SEQ(AND(A a, B b), ~K n) WITHIN 100 minutes": "ab",
    "SEQ(~K n, A a, B b) WITHIN 100 minutes": "ab",
    "SEQ(A a, B b, C c) WITHIN 15 EVENTS PARTITION BY id": "abc",
    "K+ k[] WITHIN 2 h": "k",
    "SEQ(A a, K+ k[], B b) WITHIN 3 h": "abk",
    "SEQ(A a, K+ k[], B b) WHERE a.x < b.x WITHIN 3 h": "abk",
    "SEQ(A a, K+ k[], B b) WHERE k[].x > a.x WITHIN 4 h": "abk",
    "SEQ(A a, K+ k[], B b) WHERE k[i].x > k[i-1].x WITHIN 3 h": "abk",
    "SEQ(A a, K+ k[]) WHERE k[i].x > k[i-1].x AND k[1].x > a.x WITHIN 4 h": "ak",
    "SEQ(A a, K{2,4} k[], B b) WITHIN 3 h": "abk",
    "SEQ(A a, K{2,} k[], B b) WITHIN 3 h": "abk",
    "SEQ(A a, ~C n, K+ k[], B b) WITHIN 3 h": "abk",
    "SEQ(A a, K+ k[], B b, ~C n) WITHIN 100 minutes": "abk",
    "SEQ(A a, K+ k[], B b) WHERE k.LEN > 1 AND k[k.LEN].x > a.id WITHIN 4 h": "abk",
}
"""Statements whose matches are counted without being listed, with their variables."""
ITEMS = {
    "{f}": (
        "sum({f}.x)",
        "avg({f}.y)",
        "min({f}.s)",
        "max({f}.y) BY {f}.id, bucket(40 min)",
        "sum({f}.x) BY bucket(1 h)",
    ),
    "{f}{z}": ("sum({f}.x - {z}.id)", "sum({f}.x - ({z}.id - {f}.id)) BY {z}.s", "sum({z}.w - {f}.w)"),
    "k": (
        "avg(k.LEN)",
        "sum(sum(k[].id)) BY k[1].s",
        "avg(sum(k[].id)) BY k[k.LEN].s",
        "sum(count(k[].w) - k.LEN)",
        "avg(k[1].y) BY k[1].s",
        "sum(k[k.LEN].y)",
        "max(k[1].y) BY k[k.LEN].id",
        "count(*) BY k[k.LEN].s",
    ),
    "ak": ("sum(sum(k[].id) - a.id)", "sum(k.LEN + a.id)"),
    "bk": ("sum(b.id - k[1].id)",),
}
OF_SEVERAL_EVENTS = (
    "avg(avg(k[].z))",
    "max(sum(k[].x))",
    "avg(median(k[].w))",
    "max(stddev(k[].w))",
    "count(*) BY sum(k[].x)",
    "max(max(k[].w) - min(k[].w))",
    "max(k[k.LEN].z - k[1].z)",
    "max(b.w - a.w)",
    "avg((b.z - a.z) / a.z)",
    "count(*) BY a.id + b.id",
    "sum(a.id * b.id)",
    "sum(k.LEN * a.id)",
    "avg(max(k[].id))",
    "count(*) BY max(k[].id)",
    "max(k.LEN)",
    "sum(sum(k[].x)) BY k.LEN",
)
"""What is read of all elements of a list together, or of several events, but for sums."""


def stated(shape: str, item: str) -> str:
    aggregate, _, group = item.partition(" BY ")
    return f"PATTERN {shape} SUMMARIZE {aggregate}{group and f' GROUP BY {group}'}"


def items_of(names: str) -> Iterator[str]:
    single = [name for name in names if name != "k"]
    of = {"f": single[0], "z": single[1 - len(single) if len(single) > 1 else 0]} if single else {"f": "", "z": ""}
    for read, items in ITEMS.items():
        variables = read.format(**of)
        if variables and set(variables) <= set(names) and len(set(variables)) == len(variables):
            yield from (item.format(**of) for item in items)


def some_rows(seed: int, number: int) -> list[dict[str, Any]]:
    """Rows with small numbers, so that comparisons of three events hold now and then."""
    return [{**row, "x": row["x"] and row["x"] % 40} for row in rows_of(seed, number)]


WITH_ANY_END = ("AND(A a, B b, C c) WHERE a.x < b.x WITHIN 2 h", "SEQ(AND(A a, B b), ~K n) WITHIN 100 minutes")
"""Shapes whose last event is that of one variable or another: their buckets of time are made of listed matches."""


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("shape", COUNTED)
def test_what_is_counted_is_summarized_without_listing(shape: str) -> None:
    events = SCHEMA.table(some_rows(8, 30))
    for item in part_of([*items_of(COUNTED[shape])], [*COUNTED].index(shape)):
        [pattern] = cep.parse_patterns(stated(shape, item), SCHEMA)
        counted = replace(pattern, summary=None)
        assert not route_of(counted, Sink.COUNT).lists
        assert cep.detect([counted], events, output="count")["pattern_1"]["count"][0].as_py() != "0"
        listed = "bucket" in item and shape in WITH_ANY_END
        assert route_of(pattern, Sink.SUMMARIZE).lists is listed, item
        if listed:
            assert unlisted_of(pattern, events) is None
        else:
            same_as_listed(pattern, events)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("item", OF_SEVERAL_EVENTS)
def test_what_is_read_of_several_events_is_listed(item: str) -> None:
    [pattern] = cep.parse_patterns(stated("SEQ(A a, K+ k[], B b) WITHIN 3 h", item), SCHEMA)
    assert route_of(pattern, Sink.SUMMARIZE).lists
    assert unlisted_of(pattern, SCHEMA.table(some_rows(8, 30))) is None


OF_LISTS = (
    "K+ k[]",
    "SEQ(A a, K+ k[], B b)",
    "SEQ(K{2,3} k[], A a)",
    "SEQ(A a, K{2,} k[])",
    "SEQ(A a, ~C n, K{1,2} k[])",
    "AND(A a, K+ k[])",
    "SEQ(K+ k[], C+ m[], B b)",
)
ON_LISTS = (
    "k[].id < 2",
    "k[i].x > k[i-1].x",
    "k[i].id > 0",
    "k[i-1].x < 9 + k[k.LEN].id",
    "k[i].id - k[1].id >= k[i-1].id - 1",
    "k[1].w >= 1",
    "k[1].x <= k[k.LEN].x",
    "k.LEN <= 3",
    "k[].x > a.id",
    "(k[].id = 1 OR k[].w > 0)",
)
BY_LISTS = ("", "k.LEN", "k[1].s", "k[k.LEN].id", "max(k[].id)", "min(k[].w)", "bucket(1 h)")


@pytest.mark.usefixtures("always")
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    structure=st.sampled_from(OF_LISTS),
    conditions=st.lists(st.sampled_from(ON_LISTS), max_size=2, unique=True),
    item=st.sampled_from((*ITEMS["k"], *ITEMS["ak"], "sum(sum(k[].w))", "sum(sum(k[].x) * 2 - k[1].id)")),
    group=st.sampled_from(BY_LISTS),
    seed=st.integers(0, 2**16),
)
@example("K+ k[]", [], "max(max(k[].w))", "k[1].s", 0)
@example("SEQ(A a, K+ k[])", ["k[].x > a.id"], "sum(sum(k[].w))", "k.LEN", 0)
@example("K+ k[]", ["k[1].x <= k[k.LEN].x"], "avg(k.LEN)", "", 0)
def test_drawn_summaries_of_lists(structure: str, conditions: list[str], item: str, group: str, seed: int) -> None:
    usable = [one for one in conditions if "A a" in structure or "a." not in one]
    item = item.partition(" BY ")[0] if "A a" in structure or "a." not in item else "sum(k.LEN)"
    where = f" WHERE {' AND '.join(usable)}" if usable else ""
    [pattern] = cep.parse_patterns(stated(f"{structure}{where} WITHIN 100 minutes", f"{item} BY {group}"), SCHEMA)
    events = SCHEMA.table(some_rows(seed, 30))
    made = unlisted_of(pattern, events)
    if made is not None:
        assert repr(made.to_pylist()) == listed_rows(pattern, events)


@pytest.mark.usefixtures("always")
def test_days_and_slices_add_up(tmp_path: Path) -> None:
    patterns = tuple(
        cep.parse_patterns(
            ";".join(f"NAME p{at} {text}" for at, text in enumerate((*TEXTS, *PARTS, *NEGATING, *SEVERAL))),
            SCHEMA,
        )
    )
    by_day = events_by_day(SCHEMA, [{**row, "timestamp": 0} for row in rows_of(3, 40)], [1.5] * 40)
    days = LocalDays(SCHEMA, patterns, tmp_path)
    for day, events in by_day.items():
        days.publish_events(day, events)
        days.detect(day)
    whole = cep.detect(patterns, pa.concat_tables(by_day.values()))
    for pattern in patterns:
        together = PartialSummary(pattern)
        for found in days.detected.values():
            together.add(PartialSummary.from_json(pattern, found.summaries[pattern.name]))
        assert repr(together.table().to_pylist()) == repr(whole[pattern.name].to_pylist()), pattern.name


def test_a_list_of_any_length_is_exact() -> None:
    events = SCHEMA.table([{"timestamp": at, "kind": "K", "x": at} for at in range(300)])
    text = "PATTERN K+ k[] WITHIN 1 hour SUMMARIZE count(*) AS n, sum(sum(k[].x)) AS x, avg(k.LEN) AS length"
    [row] = cep.detect(cep.parse_patterns(text, SCHEMA), events)["pattern_1"].to_pylist()
    assert int(row["n"]) == 2**300 - 1
    assert int(row["x"]) == sum(range(300)) * 2**299
    assert row["length"] == 300 * 2**299 / (2**300 - 1)


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, K+ b[], C c) WHERE b[i].x > b[1].x",
        "SEQ(A a, K+ b[], C c) WHERE b[i].x > b[i-1].x",
        "SEQ(A a, K{2,3} b[], C c) WHERE b[i].x > b[i-1].x",
        "SEQ(A a, K+ b[], C c) WHERE b[i].timestamp - b[i-1].timestamp < 3 us",
        "SEQ(A a, K+ b[], C c) WHERE first(b[].x) < last(b[].x)",
        "SEQ(A a, K* b[], C c) WHERE a.x < c.x",
        "K+ b[] WHERE b[i].x > b[i-1].x",
        "AND(A a, K b, C c) WHERE a.x < b.x",
    ],
)
def test_matches_are_counted_as_count_does(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged runs take a hundred times as long, and so does to list the matches where they are many."""
    rows = [{"timestamp": t, "kind": "AKKKKC"[t % 6], "x": 7 * t % 11} for t in range(60)]
    monkeypatch.setattr("cep_pipeline.detection.counting.sweep.pays", lambda *_: True)
    for module in (owned, outputs):
        monkeypatch.setattr(module, "count_merged", lambda *_: pytest.fail("runs are merged"))
    monkeypatch.setattr("cep_pipeline.detection.outputs.JointRun", lambda *_: pytest.fail("matches are listed"))
    counted, found = (
        cep.detect(
            cep.parse_patterns(f"NAME p PATTERN {text} WITHIN 30 us {ending}", SCHEMA),
            SCHEMA.table(rows),
            output=output,
        )["p"]
        for ending, output in (("", "count"), ("SUMMARIZE count(*) AS count", "verbose"))
    )
    assert int(counted.column("count")[0].as_py()) > 100
    assert found.column("count").to_pylist() == counted.column("count").to_pylist()


def test_more_matches_than_anybody_lists() -> None:
    """Of n events of each kind, kind after kind, all combinations are matches."""
    n = 60
    events = SCHEMA.table(
        [
            {"timestamp": at, "kind": "AKBC"[at // n], "x": at, "y": 1 / (at + 1), "s": "pq"[at % 2]}
            for at in range(4 * n)
        ]
    )
    text = (
        "PATTERN SEQ(A a, K+ k[], B b, C c) WITHIN 1 hour SUMMARIZE count(*) AS n, max(b.y) AS most, "
        "sum(b.x - a.x) AS apart, avg(k.LEN) AS length, min(c.x) AS least GROUP BY a.s AS s"
    )
    rows = cep.detect(cep.parse_patterns(text, SCHEMA), events)["pattern_1"].to_pylist()
    lists, ends = 2**n - 1, n
    for row, first in zip(rows, (0, 1), strict=True):
        starts = range(first, n, 2)
        assert int(row["n"]) == len(starts) * lists * n * ends
        assert int(row["apart"]) == sum(b - a for a in starts for b in range(2 * n, 3 * n)) * lists * ends
        assert row["most"] == 1 / (2 * n + 1)
        assert row["length"] == float(Fraction(n * 2 ** (n - 1), lists))
        assert row["least"] == 3 * n


@pytest.mark.usefixtures("always")
def test_what_composes_others_is_counted_over_its_longer_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "NAME pair PATTERN SEQ(A a, B b) WITHIN 20 minutes RETURN b.id - a.id AS gap;"
        "NAME pairs PATTERN SEQ(pair p, K k, pair q) WITHIN 2 hours SUMMARIZE count(*), max(q.gap) GROUP BY k.s"
    )
    composing = cep.parse_patterns(text, SCHEMA)[1]
    made: list[bool] = []
    summarize = unlisted.summarize_unlisted

    def noted(*of: Any) -> PartialSummary | None:
        summary = summarize(*of)
        made.append(summary is not None)
        return summary

    monkeypatch.setattr(outputs, "summarize_unlisted", noted)
    counted = cep.detect([composing], SCHEMA.table(rows_of(4)))["pairs"].to_pylist()
    monkeypatch.setattr(outputs, "summarize_unlisted", lambda *_: None)
    assert counted == cep.detect([composing], SCHEMA.table(rows_of(4)))["pairs"].to_pylist()
    assert made == [True]
    assert any(int(row["count(*)"]) for row in counted)
