"""Queries with MATCH_RECOGNIZE as patterns: the statements, what is said to differ, and the matches themselves."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.errors import InputError, PatternError
from cep_pipeline.language.match_recognize import Translation, translate_match_recognize
from tests.cli.command_line import CHECKOUT
from tests.docs.pattern_pages import PAGES, Answers

SCHEMA = cep.StreamSchema.from_dict(
    {
        "name": "ticks",
        "base_type": "Tick",
        "type_attribute": "symbol",
        "attributes": {"symbol": "string", "price": "int64", "size": "int64"},
    }
)
PAGE_QUERIES: list[tuple[str, str]] = re.findall(
    r"```sql\n([^`]*?MATCH_RECOGNIZE[^`]*?)```\n\n```sase\n(.*?)```", PAGES["coming_from"].read_text(), re.S
)
"""The queries of the page, each with the pattern below it."""
WHOLE = "PARTITION BY symbol ORDER BY timestamp {after} PATTERN ({pattern}) DEFINE {define}"


def translated(inside: str) -> Translation:
    (one,) = translate_match_recognize(f"SELECT * FROM t MATCH_RECOGNIZE ({inside})", SCHEMA, "q.sql", "1 day")
    return one


def of(pattern: str, define: str, after: str = "AFTER MATCH SKIP TO NEXT ROW") -> Translation:
    return translated(WHOLE.format(after=after, pattern=pattern, define=define))


def condition(pattern: str, define: str) -> str:
    """The conditions of a translation, in one line."""
    found = re.search(r"WHERE \w+ \{ (.*) \}", of(pattern, define).statement, re.DOTALL)
    assert found
    return " ".join(found[1].split())


# -- the same rows, matched as SQL says --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Var:
    """A row variable: its name, least and greatest number of rows, and whether a row fits what is matched so far."""

    name: str
    low: int
    high: int
    fits: Callable[[dict[str, list[int]], Sequence[int], int], bool]


Found = tuple[tuple[str, int], ...]


def as_sql(rows: Sequence[int], pattern: Sequence[Var], past_last: bool) -> list[Found]:
    """The matches of MATCH_RECOGNIZE over the prices of one partition: greedy, with backtracking, written literally."""

    def tries(at: int, place: int, count: int, bound: Found) -> Iterator[Found]:
        if place == len(pattern):
            yield bound
            return
        var = pattern[place]
        so_far: dict[str, list[int]] = {}
        for name, row in bound:
            so_far.setdefault(name, []).append(rows[row])
        if count < var.high and at < len(rows) and var.fits(so_far, rows, at):
            yield from tries(at + 1, place, count + 1, (*bound, (var.name, at)))
        if count >= var.low:
            yield from tries(at, place + 1, 0, bound)

    matches, start = [], 0
    while start < len(rows):
        found = next(tries(start, 0, 0, ()), ())
        if found:
            matches.append(found)
        start = found[-1][1] + 1 if found and past_last else start + 1
    return matches


ONE_EACH = [
    Var("a", 1, 1, lambda bound, rows, at: rows[at] > 3),
    Var("b", 1, 1, lambda bound, rows, at: rows[at] < rows[at - 1]),
    Var("c", 1, 1, lambda bound, rows, at: rows[at] > bound["b"][-1] and rows[at] <= bound["a"][0]),
]
GAP = [
    Var("a", 1, 1, lambda bound, rows, at: rows[at] > 4),
    Var("b", 0, 1, lambda bound, rows, at: rows[at] < bound["a"][0]),
    Var("c", 0, 99, lambda bound, rows, at: rows[at] != 3),
    Var("d", 2, 3, lambda bound, rows, at: rows[at] <= bound["a"][0] - bound.get("d", [rows[at]])[0] % 2),
]
VALLEY = [
    Var("a", 1, 1, lambda bound, rows, at: True),
    Var("b", 1, 99, lambda bound, rows, at: rows[at] < rows[at - 1]),
    Var("c", 1, 99, lambda bound, rows, at: rows[at] > rows[at - 1] and sum(bound.get("c", [])) + rows[at] < 20),
]


def matches_of(translation: Translation, prices: dict[str, list[int]]) -> dict[str, list[Found]]:
    """The matches of a translation by symbol, with rows counted within the symbol."""
    rows = [(name, price, at) for name, one in prices.items() for at, price in enumerate(one)]
    rows.sort(key=lambda row: (row[2], row[0]))
    events = SCHEMA.table(
        [{"timestamp": n, "symbol": row[0], "price": row[1], "size": 1} for n, row in enumerate(rows)]
    )
    (pattern,) = cep.parse_patterns(translation.statement, SCHEMA)
    place = {seq: rows[n] for n, seq in enumerate(events["seq"].to_pylist())}
    found: dict[str, list[Found]] = {name: [] for name in prices}
    for binding in cep.detect([pattern], events)[pattern.name]["bindings"].to_pylist():
        bound = tuple(sorted(((one["variable"], place[one["seq"]][2]) for one in binding), key=lambda one: one[1]))
        found[place[binding[0]["seq"]][0]].append(bound)
    return found


@pytest.mark.parametrize("past_last", [False, True])
def test_a_pattern_of_single_rows_has_the_matches_of_sql(past_last: bool) -> None:
    after = f"AFTER MATCH SKIP {'PAST LAST ROW' if past_last else 'TO NEXT ROW'}"
    define = "A AS price > 3, B AS price < PREV(price), C AS price > B.price AND C.price <= A.price"
    translation = of("A B C", define, after)
    draw, number = random.Random(7), 0
    for _ in range(20):
        prices = {name: [draw.randrange(8) for _ in range(30)] for name in ("X", "Y")}
        expected = {name: as_sql(rows, ONE_EACH, past_last) for name, rows in prices.items()}
        assert matches_of(translation, prices) == expected
        number += sum(map(len, expected.values()))
    assert number > 50
    assert all("SQL takes" not in one for one in translation.differences)


def test_with_lists_the_matches_of_sql_are_among_the_others() -> None:
    translation = of("A B+ C+", "B AS price < PREV(price), C AS price > PREV(price) AND SUM(C.price) < 20")
    assert any("Here every choice and every division of the rows is a match" in one for one in translation.differences)
    draw, more = random.Random(3), 0
    for _ in range(20):
        prices = {name: [draw.randrange(8) for _ in range(30)] for name in ("X", "Y")}
        for name, found in matches_of(translation, prices).items():
            expected = as_sql(prices[name], VALLEY, past_last=False)
            assert set(expected) <= set(found)
            # Of each first row and each bottom SQL has the longest.
            longest = {one[0]: one for one in sorted(found, key=len)}
            assert set(expected) == {max(found, key=lambda one: (one[0] == first, len(one))) for first in longest}
            more += len(found) - len(expected)
    assert more > 20


def test_quantifiers_find_what_sql_finds_among_the_others() -> None:
    define = "A AS price > 4, B AS price < A.price, C AS price != 3, D AS price <= A.price - FIRST(D.price) % 2"
    translation = of("A B? C* D{2,3}", define)
    draw, number = random.Random(5), 0
    for _ in range(20):
        prices = {name: [draw.randrange(8) for _ in range(12)] for name in ("X", "Y")}
        for name, found in matches_of(translation, prices).items():
            expected = as_sql(prices[name], GAP, past_last=False)
            assert set(expected) <= set(found)
            assert {one[0] for one in expected} == {one[0] for one in found}
            number += len(expected)
    assert number > 30


# -- statements --------------------------------------------------------------------------------------------------------


def test_a_whole_query() -> None:
    sql = """\
SELECT v.symbol, v.bottom FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY "timestamp"
    MEASURES A.price AS top, LAST(B.price) AS bottom, COUNT(*) AS n, MIN(C.size) AS least, MATCH_NUMBER() AS number
    ALL ROWS PER MATCH
    AFTER MATCH SKIP PAST LAST ROW
    PATTERN (A B+ C{2,4}) WITHIN INTERVAL '90' SECOND
    DEFINE B AS price < PREV(price), C AS C.price > LAST(B.price)
) AS v;
"""
    (one,) = translate_match_recognize(sql, SCHEMA, "q.sql", "1 day")
    assert one.statement == (
        "NAME v\n"
        "PATTERN SEQ(Tick a, Tick+ b[], Tick{2,4} c[])\n"
        "WHERE partition_contiguity { b[1].price < a.price\n"
        "  AND b[i].price < b[i-1].price\n"
        "  AND c.price > b[b.LEN].price }\n"
        "WITHIN 90 seconds\n"
        "PARTITION BY symbol\n"
        "OUTPUT NON_OVERLAP\n"
        "RETURN a.symbol AS symbol, a.price AS top, b[b.LEN].price AS bottom, b.LEN + c.LEN + 1 AS n, "
        "min(c[].size) AS least"
    )
    for part in ("Flink leaves it out", "MATCH_NUMBER() is left out", "A match is one row", "NON_OVERLAP keeps"):
        assert sum(part in difference for difference in one.differences) == 1
    assert one.text.startswith("-- From MATCH_RECOGNIZE in q.sql, line 1. What differs:\n-- - ")
    assert one.text.endswith("AS least;\n")


@pytest.mark.parametrize(
    ("pattern", "define", "expected"),
    [
        (
            "A B",
            "B AS B.price > A.price OR size > 3 AND size < 5",
            "(b.price > a.price OR (b.size > 3 AND b.size < 5))",
        ),
        ("A+ B", "B AS price > AVG(A.price) AND COUNT(A.*) >= 2", "b.price > avg(a[].price) AND a.LEN >= 2"),
        ("A B", "B AS NOT (price = 3 AND size IN (1, 2))", "NOT (b.price = 3 AND b.size IN (1, 2))"),
        ("A B+", "B AS price BETWEEN 2 AND 2 * A.price", "b.price BETWEEN 2 AND 2 * a.price"),
        ("A B", "B AS (price - A.price) * 2 - (3 - size) > 0", "(b.price - a.price) * 2 - (3 - b.size) > 0"),
        (
            "A B+",
            "B AS (LAST(B.price, 1) IS NULL AND B.price < A.price) OR B.price < LAST(B.price, 1)",
            "b[1].price < a.price AND ((b[i-1].price IS NULL AND b[i].price < a.price) OR b[i].price < b[i-1].price)",
        ),
        ("A B+", "B AS MAX(B.price) < 9", "b[1].price < 9 AND greatest(max(b[..i-1].price), b[i].price) < 9"),
        ("A B+", "B AS COUNT(B.*) <= 3 AND size = 1", "1 <= 3 AND (count(b[..i-1].seq) + 1) <= 3 AND b.size = 1"),
        ("(A | B) C", "C AS price > PREV(price)", "c.price > a.price AND c.price > b.price"),
        ("A B C", "C AS price > PREV(price, 2)", "c.price > a.price"),
        ("A B", "B AS B.timestamp <= A.timestamp + INTERVAL '5' SECOND", "b.timestamp <= a.timestamp + 5 seconds"),
        ("A", "A AS symbol LIKE 'a\\%'", "a.symbol LIKE 'a\\\\%'"),
        ("A", "A AS symbol NOT IN ('x', 'o''y') AND size <> 2", "a.symbol NOT IN ('x', 'o''y') AND a.size != 2"),
    ],
)
def test_conditions(pattern: str, define: str, expected: str) -> None:
    assert condition(pattern, define) == expected


@pytest.mark.parametrize(
    ("pattern", "structure", "strategy"),
    [
        ("A X*? B", "SEQ(Tick a, Tick b)", "skip_till_next_match {"),
        ("A X* B Y* C", "SEQ(Tick a, Tick b, Tick c)", "a.size > 1"),
        ("A X* B C", "SEQ(Tick a, Tick* x[], Tick b, Tick c)", "partition_contiguity {"),
        ("A X+ B", "SEQ(Tick a, Tick+ x[], Tick b)", "partition_contiguity {"),
    ],
)
def test_a_variable_for_any_rows_between_others_is_a_strategy(pattern: str, structure: str, strategy: str) -> None:
    statement = of(pattern, "A AS size > 1").statement
    assert f"\nPATTERN {structure}\nWHERE {strategy}" in statement


def test_rows_without_a_partition_are_neighbours_in_the_stream() -> None:
    one = translated("ORDER BY timestamp AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE A AS price > 1")
    assert "WHERE strict_contiguity { a.price > 1 }" in one.statement
    assert one.differences == ("SQL sets no bound to the length of a match; here it is 1 day (--within sets it).",)


@pytest.mark.parametrize(
    ("inside", "place", "message"),
    [
        ("PATTERN (A (B C)+) DEFINE A AS price > 1", "+", "a quantifier can be said of one variable"),
        ("PATTERN (^ A)", "^", "begin and the end of a partition"),
        ("PATTERN (A B A)", "A)", "A stands twice"),
        ("PATTERN (A B{0,3})", "{0,3}", "write B{1,3}"),
        ("PATTERN (A) DEFINE A AS price > PREV(price)", "PREV(price", "the row before may lie outside of the match"),
        ("PATTERN (A X? B) DEFINE B AS price > PREV(price)", "PREV(price", "be of several variables"),
        (
            "PATTERN (A B) DEFINE A AS price > NEXT(price)",
            "NEXT(price",
            "put the condition on the variable that follows",
        ),
        ("PATTERN (A B) DEFINE A AS price > B.price", "B.price", "B does not stand before A"),
        ("PATTERN (A B+) DEFINE B AS price > LAST(B.price, 1)", "price > LAST", "never holds for the first row of B"),
        ("PATTERN (A) DEFINE A AS prize > 1", "prize", "no attribute 'prize'; did you mean 'price'?"),
        ("PATTERN (A) DEFINE A AS CASE WHEN price > 1 THEN TRUE END", "price > 1", "cannot be said in a condition"),
        ("PATTERN (A) SUBSET U = (A) DEFINE A AS price > 1", "SUBSET U", "SUBSET joins the rows"),
        ("ORDER BY timestamp DESC PATTERN (A)", "timestamp", "a descending order cannot be said"),
        (
            "MEASURES CLASSIFIER(A) AS c, LAST(A.price, 2) AS x PATTERN (A+)",
            "LAST(A.price",
            "its first and its last row",
        ),
        ("PATTERN (A |)", "PATTERN", "an empty row pattern"),
        ("PATTERN (A) DEFINE A AS size > ", None, "no SQL that can be read"),
    ],
)
def test_what_cannot_be_said_is_refused_at_its_place(inside: str, place: str | None, message: str) -> None:
    sql = f"SELECT *\nFROM t MATCH_RECOGNIZE (\n  {inside})"
    with pytest.raises(PatternError) as refused:
        translate_match_recognize(sql, SCHEMA, "q.sql", "1 day")
    assert message in refused.value.message
    if place is not None:
        assert refused.value.line == 3
        assert f"  {inside})"[refused.value.column - 1 :].startswith(place)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM (SELECT * FROM t WHERE size > 1) MATCH_RECOGNIZE (PATTERN (A))", "chosen before the matching"),
        (
            "WITH s AS (SELECT * FROM t WHERE size > 1) SELECT * FROM s MATCH_RECOGNIZE (PATTERN (A))",
            "before the matching",
        ),
        ("SELECT 'open", "a quote or a comment is not closed"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN ())", "an empty row pattern"),
        ("EXPLAIN SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))", "only queries can be read, not EXPLAIN"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS)", "something is missing here"),
        ("SELECT 1", "no MATCH_RECOGNIZE in a query"),
        (f"SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS {'(' * 3000}price{')' * 3000} > 1)", "deep"),
        (f"SELECT * FROM t MATCH_RECOGNIZE (PATTERN ({'(' * 3000}A{')' * 3000}))", "deep"),
    ],
)
def test_texts_that_are_refused(sql: str, message: str) -> None:
    with pytest.raises((PatternError, InputError), match=message):
        translate_match_recognize(sql, SCHEMA, "q.sql", "1 day")


def test_a_schema_without_a_base_type_is_refused() -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "symbol", "attributes": {"symbol": "string"}})
    with pytest.raises(InputError, match="give the schema a base_type"):
        translate_match_recognize("SELECT 1", schema, "q.sql", "1 day")


def test_several_queries_have_several_names() -> None:
    one = "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A)) AS `m`"
    found = translate_match_recognize(f"{one};\n-- another\n{one}", SCHEMA, "q.sql", "5 minutes")
    assert [translation.statement.splitlines()[0] for translation in found] == ["NAME m", "NAME m_2"]
    assert [translation.line for translation in found] == [1, 3]
    text = "\n".join(translation.text for translation in found)
    assert [pattern.name for pattern in cep.parse_patterns(text, SCHEMA)] == ["m", "m_2"]


@pytest.mark.parametrize("number", range(6))
def test_the_patterns_of_the_page_are_the_translations(number: int) -> None:
    assert len(PAGE_QUERIES) == 6
    sql, pattern = PAGE_QUERIES[number]
    schema = cep.StreamSchema.load(CHECKOUT / "streams" / "generated_trades.yaml")
    (one,) = translate_match_recognize(sql, schema, "my.sql", "1 minute")
    assert f"{one.statement}\n" == pattern


# -- beside Flink -----------------------------------------------------------------------------------------------------

FLINK = os.environ.get("CEP_FLINK_PYTHON", "")
"""A Python that has the package apache-flink, with Java in JAVA_HOME: Flink is too large to be installed for a test."""
FLINK_PROGRAM = """\
import json, sys
from pyflink.table import EnvironmentSettings, TableEnvironment
env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
env.get_config().set("parallelism.default", "1")
env.execute_sql(
    "CREATE TABLE trades (symbol STRING, seq BIGINT, ts TIMESTAMP(3), price DOUBLE, size BIGINT,"
    " WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)"  # without a second, trades at the time of the last one are dropped
    f" WITH ('connector' = 'filesystem', 'path' = 'file://{sys.argv[1]}', 'format' = 'csv')"
)
for query in json.load(sys.stdin):
    with env.execute_sql(query).collect() as rows:
        print("found", json.dumps([list(row) for row in rows]))
"""


@pytest.mark.skipif(not FLINK, reason="CEP_FLINK_PYTHON names no Python that has apache-flink")
def test_flink_finds_the_same(tmp_path: Path) -> None:
    """The queries of the page whose meaning is the same, over the generated day; Flink's window lacks its end.

    Trades of a stock at the same time have no order in SQL, so that of each such moment the first trade is left.
    """
    answers = Answers(tmp_path)
    asked = {"T": ("a", "b", "c"), "larger": ("a", "b"), "quiet": ("a", "b")}
    queries, translations = [], {}
    for sql, _ in PAGE_QUERIES:
        (one,) = translate_match_recognize(sql, answers.schema, "q.sql", "1 minute")
        if (name := one.statement.split()[1]) in asked:
            measures = ", ".join(f"{variable.upper()}.seq AS {variable}" for variable in asked[name])
            chosen = re.sub(r"SELECT.*? FROM", f"SELECT {', '.join(asked[name])} FROM", sql, count=1)
            queries.append(re.sub(r"MEASURES .*", f"MEASURES {measures}", chosen))
            translations[name] = one
    moments = zip(answers.day["symbol"].to_pylist(), answers.day["timestamp"].to_pylist(), strict=True)
    seen: set[tuple[str, object]] = set()
    day = answers.day.filter(pa.array([moment not in seen and not seen.add(moment) for moment in moments]))
    rows = day.select(["symbol", "seq", "timestamp", "price", "size"])
    times = rows["timestamp"].cast("timestamp[us]").to_pylist()
    with (tmp_path / "trades.csv").open("w") as file:
        for row, time in zip(rows.drop(["timestamp"]).to_pylist(), times, strict=True):
            file.write(f"{row['symbol']},{row['seq']},{time:%Y-%m-%d %H:%M:%S.%f},{row['price']},{row['size']}\n")
    (tmp_path / "program.py").write_text(FLINK_PROGRAM)
    command = [FLINK, str(tmp_path / "program.py"), str(tmp_path / "trades.csv")]
    done = subprocess.run(command, input=json.dumps(queries), text=True, capture_output=True, check=True)
    found = [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("found ")]
    for (name, one), theirs in zip(translations.items(), found, strict=True):
        (pattern,) = cep.parse_patterns(one.statement, answers.schema)
        ours = cep.detect([pattern], day)[name]
        window = timedelta(microseconds=pattern.window.time_us or 0)
        shorter = [row for row in ours.to_pylist() if row["end_ts"] - row["start_ts"] < window]
        bound = [{one["variable"]: one["seq"] for one in row["bindings"]} for row in shorter]
        own = sorted([row[variable] for variable in asked[name]] for row in bound)
        assert len(own) > 50
        if name != "larger":
            assert own == sorted(theirs), name
            continue
        # Of some first rows Flink takes a later second one than the first that fits.
        assert [first for first, _ in own] == [first for first, _ in sorted(theirs)]
        later = [(one, other) for one, other in zip(own, sorted(theirs), strict=True) if one != other]
        assert len(later) < len(own) / 50 and all(one < other for one, other in later)
