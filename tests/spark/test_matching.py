"""`match`: the matches of `cep.detect` over a Spark DataFrame, by keys, by slices of time and in one task."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.slices.ownership import look_back
from cep_pipeline.spark import match, matching
from cep_pipeline.spark.matching import Distribution, common_keys, distributions_of, only_in_one_task
from cep_pipeline.storage import id_texts
from tests.pattern_strategies import THIRD_EDITION, statements
from tests.streams import SECOND, Row, events_table, rows, stream_schema
from tests.thoroughness import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = cep.StreamSchema.from_dict(
    {
        "base_type": "Trade",
        "type_attribute": "symbol",
        "attributes": {"symbol": "string", "venue": "string", "price": "float64", "size": "int64"},
    },
    name="trades",
)
BY_KEYS = """
NAME rise PATTERN SEQ(Trade a, Trade b) WHERE [venue] AND b.price >= a.price + 6 WITHIN 2 seconds
    RETURN a.price AS low, b.price;
NAME counted PATTERN SEQ(Trade a, ~Trade n, Trade b) WHERE n.size > a.size + 50 AND a.price < b.price
    WITHIN 4 EVENTS PARTITION BY venue, symbol;
NAME once PATTERN SEQ(Trade+ a[], Trade b)
    WHERE skip_till_next_match { a[i].price > a[i-1].price AND b.price < a[1].price }
    WITHIN 5 seconds PARTITION BY venue OUTPUT NON_OVERLAP RETURN a.LEN AS length, b.venue AS venue;
NAME twice PATTERN SEQ(once o, Trade t) WHERE t.size > 80 WITHIN 2 seconds PARTITION BY venue RETURN t.size AS low
"""
BY_TIME = """
NAME any PATTERN SEQ(IBM a, SPY b) WHERE b.price >= a.price + 7 WITHIN 3 seconds RETURN b.venue AS venue;
NAME quiet PATTERN SEQ(IBM a, ~SPY n) WHERE n.size > a.size WITHIN 1 second;
NAME best PATTERN SEQ(IBM a, SPY? b, BAC+ c[]) WITHIN 400 ms OUTPUT PREFERRED RETURN c.LEN AS length;
NAME around PATTERN AND(IBM a, SPY b, ~BAC n) WHERE n.size > 90 WITHIN 500 ms TIES ANY;
NAME near PATTERN SEQ(Trade a, Trade b) WHERE strict_contiguity { b.price > a.price } WITHIN 1 second PARTITION BY venue
"""
IN_ONE_TASK = """
NAME apart PATTERN SEQ(IBM a, SPY b) WHERE b.price > a.price WITHIN 1 second OUTPUT NON_OVERLAP;
NAME best_apart PATTERN SEQ(IBM a, SPY? b, BAC+ c[]) WITHIN 400 ms OUTPUT PREFERRED NON_OVERLAP;
NAME used PATTERN SEQ(IBM a, SPY b) WHERE b.size > a.size WITHIN 1 second CONSUME MATCHED;
NAME few PATTERN SEQ(IBM a, SPY b) WITHIN 4 EVENTS;
NAME pair PATTERN SEQ(apart p, BAC c) WITHIN 1 second
"""


def trades(number: int = 3_000) -> list[dict[str, Any]]:
    """Trades of which many have one time with others, or no venue, or no price."""
    drawn = random.Random(5)
    found, moment = [], 1_700_000_000_000_000
    for seq in range(number):
        moment += drawn.choice([0, 0, 20_000, 50_000, 70_000, 3_000_000 if seq % 500 == 0 else 90_000])
        found.append(
            {
                "timestamp": moment,
                "seq": seq,
                "symbol": drawn.choice(["IBM", "SPY", "BAC", "Other"]),
                "venue": drawn.choice(["N", "N", "Q", "P", None]),
                "price": drawn.choice([None, math.nan, *(float(price) for price in range(20))]),
                "size": drawn.randrange(100),
            }
        )
    return found


def detected(patterns: list[cep.Pattern], events: pa.Table) -> pa.Table:
    """The rows of `cep.detect` with ids as text."""
    found = cep.detect(patterns, events).to_arrow()
    return pa.table({name: id_texts(found[name]) for name in found.column_names})


def in_order(matches: pa.Table) -> list[dict[str, Any]]:
    return matches.sort_by([("pattern", "ascending"), ("match_id", "ascending")]).to_pylist()


def test_the_matches_are_those_of_detect(either: SparkSession) -> None:
    events = SCHEMA.table(trades())
    patterns = cep.parse_patterns("; ".join((BY_KEYS, BY_TIME, IN_ONE_TASK)), SCHEMA)
    right = detected(patterns, events)
    assert set(right["pattern"].to_pylist()) == {pattern.name for pattern in patterns}  # each finds something
    given = either.createDataFrame(events).repartition(5, "size")
    either.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        with pytest.warns(cep.PatternWarning) as told:
            found = match(given, patterns, slice_rows=200)
        alone = ["apart", "best_apart", "few", "pair", "used"]
        assert sorted(str(one.message).split("'")[1] for one in told) == alone
        assert found.columns == right.column_names
        assert in_order(found.toArrow()) == in_order(right)
        # Without numbers: those of the order of time, and of what else orders the events.
        numbered = given.withColumnRenamed("seq", "arrival")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            own = match(numbered, BY_KEYS + ";" + BY_TIME, SCHEMA, order_by="arrival", slice_rows=200)
        kept = pc.is_in(
            right["pattern"], pa.array([one.name for one in cep.parse_patterns(BY_KEYS + ";" + BY_TIME, SCHEMA)])
        )
        assert in_order(own.select(*[f"`{name}`" for name in own.columns]).toArrow()) == in_order(right.filter(kept))
    finally:
        either.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.long
def test_columns_that_are_not_as_the_attributes_are_explained(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

    given = spark.createDataFrame(SCHEMA.table(trades(10)))
    refused = partial(
        match, patterns="NAME p PATTERN SEQ(IBM a, SPY b) WHERE a.price < b.price WITHIN 1 s", schema=SCHEMA
    )
    for wrong, said in (
        (
            given.drop("price"),
            r"the events have no column 'price'; they have timestamp, seq, symbol, venue, size: na",
        ),
        (
            given.withColumn("price", F.lit("1")),
            r"column 'price' of the events has the type string; the patterns were p",
        ),
        (
            given.withColumn("timestamp", F.col("timestamp").cast("timestamp_ntz")),
            "the timestamps have no time zone: cast",
        ),
        (given.withColumn("timestamp", F.lit(1)), r"'timestamp' of the events has the type int32; it must be int64"),
        (given.withColumn("seq", F.lit("1")), r"column 'seq' of the events has the type string; it must be int64"),
        (given.withColumn("seq", F.lit(7).cast("long")), r"two events|seq 7 twice|not sorted by \(timestamp, seq\)"),
        (given.withColumn("timestamp", F.lit(None).cast("timestamp")), r"'timestamp' of the events has 10 nulls"),
    ):
        with pytest.raises(cep.InputError, match=said):
            refused(wrong)
    with pytest.raises(cep.InputError, match="order_by names vendor, and the events have"):
        refused(given.drop("seq"), order_by="vendor")
    with pytest.raises(cep.InputError, match="have a column 'seq', which orders them: drop it"):
        refused(given, order_by="price")
    with pytest.raises(cep.CepError, match=r"^matching the events: .*it broke") as failed:
        refused(given.withColumn("price", F.raise_error(F.lit("it broke")).cast("double")))
    assert "\n" not in str(failed.value)


def test_patterns_that_cannot_be_run_are_explained_before_spark_works(spark: SparkSession) -> None:
    given = spark.createDataFrame(SCHEMA.table(trades(10)))
    with pytest.raises(cep.PatternError, match="unknown attribute 'prise'"):
        match(given, "PATTERN SEQ(IBM a, SPY b) WHERE a.prise < b.price WITHIN 1 second", SCHEMA)
    with pytest.raises(cep.InputError, match=r"read by the schema of their stream: match\(events, text, schema\)"):
        match(given, "PATTERN SEQ(IBM a, SPY b) WITHIN 1 second")
    with pytest.raises(cep.InputError, match=r"pattern 'n' has SUMMARIZE, which Spark does itself: write RETURN"):
        match(given, "NAME n PATTERN SEQ(IBM a, SPY b) WITHIN 1 second SUMMARIZE count(*)", SCHEMA)
    two = "NAME p PATTERN IBM a WITHIN 1 s RETURN {} AS v; NAME q PATTERN IBM a WITHIN 1 s RETURN a.symbol AS v"
    with pytest.raises(cep.InputError, match="the matches of p, q do not fit one frame"):
        match(given, two.format("a.size"), SCHEMA)
    [pattern] = cep.parse_patterns("NAME p PATTERN IBM a WITHIN 1 second", SCHEMA)
    with pytest.raises(cep.InputError, match="two patterns have one name"):
        match(given, [pattern, pattern])
    with pytest.raises(cep.InputError, match="the events are a stream without an end"):
        match(spark.readStream.format("rate").load(), [pattern])
    assert match(given, []).columns == ["pattern", "match_id", "start_ts", "end_ts", "bindings"]


@pytest.mark.long
def test_an_error_of_a_task_comes_back_as_it_is(either: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

    given = either.createDataFrame(SCHEMA.table(trades(50)))
    by_key = "PATTERN SEQ(IBM a, SPY b) WHERE [venue] WITHIN 1 second"
    said = r"^two events at 2023-11-14 22:13:2\S+ have one place in the order of the stream, and the ids of matches dep"
    with pytest.raises(cep.InputError, match=said):
        match(given.drop("seq"), by_key, SCHEMA)
    with pytest.raises(cep.InputError, match=r"the events have the seq \d+ twice|not sorted by \(timestamp, seq\)"):
        match(given.withColumn("seq", F.col("seq") % 2), by_key, SCHEMA)
    monkeypatch.setattr(matching, "is_local", lambda _: False)
    monkeypatch.setattr(matching, "installation", lambda: {"Python": "3.9"})
    with pytest.raises(cep.CepError, match=r"differs from the driver: it has Python 3\.11, not 3\.9"):
        match(given, by_key, SCHEMA)


def test_a_stream_of_one_type_needs_no_column_of_types(spark: SparkSession) -> None:
    schema = cep.StreamSchema.from_dict({"base_type": "Tick", "attributes": {"x": "int64"}})
    events = schema.table([{"timestamp": place * SECOND, "x": place % 7} for place in range(100)])
    [pattern] = cep.parse_patterns("NAME p PATTERN SEQ(Tick a, Tick b) WHERE b.x > a.x WITHIN 2 seconds", schema)
    given = spark.createDataFrame(events.drop_columns(["event_type"])).withColumnRenamed("timestamp", "at")
    given = given.selectExpr("unix_micros(at) AS timestamp", "x")
    found = match(given, pattern, schema, slice_rows=20)
    assert in_order(found.toArrow()) == in_order(detected([pattern], events)) != []


def parts(way: Distribution, stream_rows: list[Row], cuts: list[int]) -> Iterator[tuple[Any, list[Row]]]:
    """What tasks would read: the events of each key, or of each slice with its look-back; and what a slice owns."""
    if way.keys:
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in stream_rows:
            values = (row[name] for name in way.keys)
            groups.setdefault(tuple("NaN" if value != value else value for value in values), []).append(row)
        yield from ((None, own) for own in groups.values())
    elif way.alone:
        yield None, stream_rows
    else:
        back_us = look_back(way.patterns).time_us
        for start, end in pairwise([None, *((cut, -(2**63)) for cut in cuts), None]):
            read = [row for row in stream_rows if end is None or row["timestamp"] < end[0]]
            yield (start, end), [row for row in read if start is None or row["timestamp"] >= start[0] - back_us]


def partitioned() -> st.SearchStrategy[str]:
    """Statements whose events share attributes or not, with all that may ask for events of other partitions."""
    windows = st.sampled_from(["2 seconds", "5 seconds", "3 EVENTS", "5 EVENTS"])
    shared = st.sampled_from(["TRUE", "[id]", "[id, s]", "[s]"])
    clauses = st.tuples(
        st.sampled_from(["", " PARTITION BY id", " PARTITION BY s, id"]),
        st.sampled_from(["", " OUTPUT NON_OVERLAP", " OUTPUT PREFERRED", " OUTPUT PREFERRED NON_OVERLAP"]),
        st.sampled_from(["", "", " CONSUME MATCHED"]),
    ).map("".join)
    structures = ["SEQ(A a, B b)", "SEQ(Ev a, Ev b)", "SEQ(A a, ~B n, Ev b)", "SEQ(A a, ~B n)", "SEQ(~B m, A a, ~A n)"]
    runs = ["any_match", "next_match", "partition_contiguity", "strict_contiguity"]
    strategies = st.sampled_from([f"skip_till_{run}" if "match" in run else run for run in runs])
    words = st.tuples(st.sampled_from([*structures, "SEQ(A+ a[], B b)"]), strategies, shared, windows, clauses)
    single = words.map(lambda one: "PATTERN {} WHERE {} {{ {} }} WITHIN {}{}".format(*one))
    inner = st.tuples(st.sampled_from(structures), shared, windows, clauses).map(
        lambda one: "NAME p PATTERN {} WHERE {} WITHIN {}{} RETURN a.id AS id".format(*one)
    )
    outer = st.sampled_from(["SEQ(p p, A a)", "SEQ(B b, p p)", "SEQ(p p, p q)", "SEQ(p p, ~A n)"])
    pair = st.tuples(inner, outer, strategies, st.sampled_from(["TRUE", "[id]"]), windows)
    return st.one_of(single, single, pair.map(lambda two: "{}; PATTERN {} WHERE {} {{ {} }} WITHIN {}".format(*two)))


@pytest.mark.long
@settings(max_examples=examples(4_000), deadline=None)
@given(data=st.data(), stream_rows=rows(min_size=4, types=("A", "B")))
def test_parts_have_together_the_matches_of_all_events(data: st.DataObject, stream_rows: list[Row]) -> None:
    text, params = data.draw(
        st.one_of(
            partitioned().map(lambda text: (text, {})),
            statements(THIRD_EDITION).map(lambda one: (one.text, one.params)),
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        [*_, pattern] = parse_patterns(text, stream_schema(), params)
    cuts = sorted(data.draw(st.sets(st.sampled_from([row["timestamp"] for row in stream_rows]))))
    [way] = distributions_of([pattern])
    columns = matching.columns_of_matches([pattern])
    found = [
        matching.matches_of_part([pattern], owned, events_table(own), columns)
        for owned, own in parts(way, stream_rows, cuts)
    ]
    right = detected([pattern], events_table(stream_rows))
    assert repr(in_order(pa.concat_tables(found))) == repr(in_order(right))


@pytest.mark.parametrize(
    ("text", "keys", "alone"),
    [
        ("WHERE [symbol] WITHIN 1 second", {"symbol"}, None),
        ("WITHIN 1 second PARTITION BY symbol, venue", {"symbol", "venue"}, None),
        ("WHERE [venue] WITHIN 3 EVENTS PARTITION BY symbol", {"symbol"}, None),
        ("WHERE [venue] WITHIN 3 EVENTS", set(), "its window counts the events of the whole stream"),
        (
            "WHERE [venue] WITHIN 1 s OUTPUT NON_OVERLAP",
            set(),
            "OUTPUT NON_OVERLAP goes through its matches one by one",
        ),
        ("WHERE [venue] WITHIN 1 s CONSUME MATCHED", {"venue"}, None),
        ("WHERE [venue] WITHIN 1 s OUTPUT PREFERRED", {"venue"}, None),
        ("WHERE a.size > 1 WITHIN 1 s OUTPUT PREFERRED", set(), None),
        (
            "WHERE [venue] WITHIN 1 s OUTPUT PREFERRED NON_OVERLAP",
            set(),
            "OUTPUT PREFERRED NON_OVERLAP goes through its matches one by one",
        ),
        ("WHERE strict_contiguity { [venue] } WITHIN 1 s PARTITION BY symbol", set(), None),
        ("WHERE partition_contiguity { [venue] } WITHIN 1 s PARTITION BY symbol", {"symbol", "venue"}, None),
        ("WHERE a.size > 1 AND b.size < 2 WITHIN 1 second", set(), None),
    ],
)
def test_what_events_share_says_how_a_pattern_is_distributed(text: str, keys: set[str], alone: str | None) -> None:
    [pattern] = cep.parse_patterns(f"PATTERN SEQ(Trade a, Trade b) {text}", SCHEMA)
    assert common_keys(pattern) == keys
    assert only_in_one_task(pattern) == alone


@pytest.mark.parametrize(("returned", "keys"), [("a.venue AS venue", {"venue"}), ("a.symbol AS venue", set())])
def test_a_pattern_that_binds_matches_has_the_key_that_they_hand_on(returned: str, keys: set[str]) -> None:
    inner = f"NAME p PATTERN SEQ(Trade a, Trade b) WITHIN 1 second PARTITION BY venue RETURN {returned}"
    patterns = cep.parse_patterns(f"{inner}; PATTERN SEQ(p p, Trade c) WITHIN 1 second PARTITION BY venue", SCHEMA)
    assert common_keys(patterns[1]) == keys
    assert (only_in_one_task(patterns[1]) is None) is bool(keys)


def test_patterns_that_share_a_key_are_read_together() -> None:
    texts = (
        "WITHIN 1 s PARTITION BY symbol, venue",
        "WHERE [venue] WITHIN 1 s",
        "WHERE [symbol] WITHIN 1 s",
        "WITHIN 1 s",
    )
    patterns = cep.parse_patterns("; ".join(f"PATTERN SEQ(Trade a, Trade b) {text}" for text in texts), SCHEMA)

    def ways(*numbers: int) -> list[tuple[tuple[str, ...], int]]:
        return [(way.keys, len(way.patterns)) for way in distributions_of([patterns[number] for number in numbers])]

    assert ways(0, 1, 3) == [(("venue",), 2), ((), 1)]
    assert ways(0, 1, 2) == [(("symbol", "venue"), 1), (("venue",), 1), (("symbol",), 1)]


def test_slices_are_cut_by_counts_and_are_no_shorter_than_their_look_back() -> None:
    even = np.arange(2_000) * SECOND
    cuts = partial(matching.cuts_of, even, 20_000, 2_000)
    assert cuts(0) == [200 * SECOND * place for place in range(1, 10)]
    assert cuts(300 * SECOND) == [200 * SECOND, *(100 * SECOND + 300 * SECOND * place for place in range(1, 7))]
    assert cuts(10_000 * SECOND) == [200 * SECOND, 400 * SECOND, 800 * SECOND, 1_600 * SECOND]
    burst = np.sort(np.concatenate([even[:1_000], np.full(1_000, 500 * SECOND)]))
    assert matching.cuts_of(burst, 20_000, 5_000, 0) == [500 * SECOND, 501 * SECOND]
    assert matching.cuts_of(np.zeros(0, np.int64), 0, 5_000, 0) == []
