"""Queries with MATCH_RECOGNIZE as patterns: the statements, what is taken for granted, and the matches themselves."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import accumulate, product
from operator import add, eq, ge, gt, le, lt, ne, sub
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one

import cep_pipeline as cep
from cep_pipeline.errors import InputError, PatternError
from cep_pipeline.language.match_recognize import Translation, translate_match_recognize
from tests.cli.command_line import CHECKOUT
from tests.docs.pattern_pages import PAGES, Answers
from tests.streams import SECOND
from tests.thoroughness import examples

SCHEMA = cep.StreamSchema.from_dict(
    {
        "name": "ticks",
        "base_type": "Tick",
        "type_attribute": "symbol",
        "attributes": {"symbol": "string", "price": "int64", "size": "int64", "cost": "float64", "venue": "string"},
    }
)
PAGE_QUERIES: list[tuple[str, str]] = re.findall(
    r"```sql\n([^`]*?MATCH_RECOGNIZE[^`]*?)```\n\n```sase\n(.*?)```\n", PAGES["coming_from"].read_text(), re.S
)
"""The queries of the page, each with the pattern below it."""
WHOLE = "PARTITION BY symbol ORDER BY timestamp {after} PATTERN ({pattern}) DEFINE {define}"


def translated(inside: str, within: str | None = "1 day") -> Translation:
    (one,) = translate_match_recognize(f"SELECT * FROM t MATCH_RECOGNIZE ({inside})", SCHEMA, "q.sql", within)
    return one


def of(pattern: str, define: str, after: str = "AFTER MATCH SKIP TO NEXT ROW") -> Translation:
    return translated(WHOLE.format(after=after, pattern=pattern, define=define))


def condition(pattern: str, define: str) -> str:
    """The conditions of a translation, in one line."""
    found = re.search(r"WHERE \w+ \{ (.*) \}", of(pattern, define).statement, re.DOTALL)
    assert found
    return " ".join(found[1].split())


# -- the same rows, matched as SQL says --------------------------------------------------------------------------------

Row = dict[str, Any]
Bound = tuple[tuple[str, int], ...]
"""The rows of a match, each with its variable: in a DEFINE those so far, the one that is tested as the last."""
SIGNS = {exp.LT: lt, exp.LTE: le, exp.EQ: eq, exp.NEQ: ne, exp.GT: gt, exp.GTE: ge, exp.Add: add, exp.Sub: sub}
AGGREGATES = {exp.Sum: sum, exp.Min: min, exp.Max: max, exp.Avg: fmean}


def value(node: exp.Expr, rows: list[Row], bound: Bound) -> Any:
    """The value of an expression over the rows of one partition; None is null, or unknown."""
    if isinstance(node, exp.Paren):
        return value(node.this, rows, bound)
    if isinstance(node, exp.Literal):
        return int(node.this)
    if isinstance(node, exp.Not):
        known = value(node.this, rows, bound)
        return None if known is None else not known
    if isinstance(node, exp.Is):
        return value(node.this, rows, bound) is None
    if isinstance(node, exp.And | exp.Or):
        values, decides = [value(one, rows, bound) for one in (node.this, node.expression)], isinstance(node, exp.Or)
        return decides if decides in values else None if None in values else not decides
    if type(node) in SIGNS:
        values = [value(one, rows, bound) for one in (node.this, node.expression)]
        return None if None in values else SIGNS[type(node)](*values)
    if isinstance(node, exp.Anonymous):
        assert node.name == "PREV"
        column, *steps = node.expressions
        at = bound[-1][1] - (int(steps[0].name) if steps else 1)
        return rows[at][column.name] if at >= 0 else None
    column = node if isinstance(node, exp.Column) else node.this
    of = [rows[at] for name, at in bound if column.args.get("table") is None or column.table == name]
    if isinstance(column, exp.Star) or isinstance(column.this, exp.Star):
        return len(of)
    if isinstance(node, exp.Column | exp.First | exp.Last):
        steps = int(node.text("expression") or 0)
        at = steps if isinstance(node, exp.First) else len(of) - 1 - steps
        return of[at][column.name] if 0 <= at < len(of) else None
    known = [row[column.name] for row in of if row[column.name] is not None]
    return len(known) if isinstance(node, exp.Count) else AGGREGATES[type(node)](known) if known else None


def ways(tokens: list[str], define: dict[str, exp.Expr], rows: list[Row], start: int, bound: Bound) -> Iterator[Bound]:
    """The rows that match a pattern behind others, those first that SQL prefers: alternatives in turn, greedy lists."""
    depths = list(accumulate({"(": 1, ")": -1}.get(token, 0) for token in tokens))
    if "|" in tokens and (at := next((at for at, one in enumerate(tokens) if one == "|" and not depths[at]), 0)):
        for side in (tokens[:at], tokens[at + 1 :]):
            yield from ways(side, define, rows, start, bound)
        return
    if not tokens:
        yield bound
        return
    end = depths.index(0) + 1
    first, rest = tokens[:end], tokens[end:]
    low, high, lazy = 1, 1, False
    if rest and (found := re.fullmatch(r"(?:([*+?])|\{(\d+)(,?)(\d*)\})(\??)", rest[0])):
        sign, least, comma, most, reluctant = found.groups()
        low = int(sign == "+") if sign else int(least)
        high = 1 if sign == "?" else 99 if sign or (comma and not most) else int(most or least)
        rest, lazy = rest[1:], bool(reluctant)

    def counted(bound: Bound, count: int) -> Iterator[Bound]:
        if lazy and count >= low:
            yield bound
        if count < high and len(first) > 1:
            for more in ways(first[1:-1], define, rows, start, bound):
                yield from counted(more, count + 1)
        elif count < high and start + len(bound) < len(rows):
            more = (*bound, (first[0], start + len(bound)))
            if first[0] not in define or value(define[first[0]], rows, more) is True:
                yield from counted(more, count + 1)
        if not lazy and count >= low:
            yield bound

    for one in counted(bound, 0):
        yield from ways(rest, define, rows, start, one)


def as_sql(
    sql: str, pattern: str, rows: list[Row], past_last: bool, within_us: int, bound: Collection[str]
) -> list[tuple[Any, Any]]:
    """The matches in one partition, each with its MEASURES. As in Flink, a match is shorter than WITHIN.

    A variable that fits any row, and as few as it can, is a gap where it is not `bound`.
    """
    parsed = parse_one(sql, read="trino").args["match"].args
    define = {one.alias: one.this for one in parsed.get("define") or ()}
    tokens = re.findall(r"\w+|[()|]|(?:[*+?]|\{[\d,]*\})\??", pattern)
    gaps = {one for one in re.findall(r"(\w+)\*\?", pattern) if one not in define and one.lower() not in bound}
    matches, start = [], 0
    while start < len(rows):
        all_ways = ways(tokens, define, rows, start, ())
        in_time = (way for way in all_ways if rows[way[-1][1]]["timestamp"] - rows[start]["timestamp"] < within_us)
        found = next(in_time, ())
        if found:
            measures = [value(one.this.this, rows, found) for one in parsed.get("measures") or ()]
            matches.append(([(name.lower(), rows[at]["seq"]) for name, at in found if name not in gaps], measures))
        start = found[-1][1] + 1 if found and past_last else start + 1
    return matches


def drawn_rows(seed: int) -> list[Row]:
    """Rows of two symbols, of which each size is often that of the row before or one more, modulo 4."""
    draw = random.Random(seed)
    rows: list[Row] = []
    then, size = 0, 0
    for seq in range(60):
        then, size = then + draw.choice([0, 1, 1, 2]) * SECOND, (size + draw.choice([0, 0, 1, 1, 1, 2])) % 4
        price = draw.choice([None, 0, 1, 1, 2, 3])
        row = {"seq": seq, "timestamp": then, "symbol": draw.choice("XXXY"), "price": price, "size": size}
        rows.append({**row, "cost": [None, 0.0, 0.5, -1.25][(seq * 5 + size) % 4], "venue": [None, "N", "Q"][seq % 3]})
    return rows


def matches_beside_sql(
    pattern: str, define: str, measures: Sequence[str], after: str, within: int | None, partitioned: bool, seed: int
) -> int:
    """The number of matches of a query over drawn rows, which are those of SQL.

    Raises
    ------
    PatternError
        The query is refused.
    """
    called = f"MEASURES {', '.join(f'{one} AS m{at}' for at, one in enumerate(measures))}" if measures else ""
    parts = ["PARTITION BY symbol" if partitioned else "", "ORDER BY timestamp", called]
    defined = f"DEFINE {define}" if define else ""
    bound = f"WITHIN INTERVAL '{within}' SECOND" if within else ""
    whole = " ".join([*parts, after, f"PATTERN ({pattern})", bound, defined])
    one = translated(whole, None if within else "1 day")
    (ours,) = cep.parse_patterns(one.statement, SCHEMA)
    rows = drawn_rows(seed)
    found = [
        (
            [(re.sub(r"_\d+$", "", event["variable"]), event["seq"]) for event in row["bindings"]],
            [row[f"m{at}"] for at in range(len(measures))],
        )
        for row in cep.detect([ours], SCHEMA.table(rows))[ours.name].to_pylist()
    ]
    sql = f"SELECT * FROM t MATCH_RECOGNIZE ({called} PATTERN ({pattern}) {defined})"
    expected = [
        match
        for symbols in (("X", "Y") if partitioned else ("XY",))
        for match in as_sql(
            sql,
            pattern,
            [row for row in rows if row["symbol"] in symbols],
            past_last="NEXT" not in after,
            within_us=(within or 86_400) * SECOND,
            bound={operand.variable for operand in ours.operands},
        )
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr), f"{whole}\n{one.statement}"
    return len(expected)


NEXT, PAST = "AFTER MATCH SKIP TO NEXT ROW", "AFTER MATCH SKIP PAST LAST ROW"


@pytest.mark.parametrize(
    ("pattern", "define", "measures", "after"),
    [
        ("A B C", "B AS price > A.price, C AS price <= PREV(price, 1)", ["FIRST(price)", "LAST(price)"], PAST),
        (
            "A B C",
            "C AS price > FIRST(price) OR LAST(C.price, 1) IS NULL",
            ["price", "FIRST(price, 0)", "COUNT(*)"],
            NEXT,
        ),
        ("A B+ C", "A AS size = 0, B AS size = 1, C AS size = 2", ["COUNT(B.price)", "COUNT(*)", "SUM(B.price)"], PAST),
        ("A B* C", "B AS size = 1, C AS NOT (size = 1)", ["COUNT(B.*)", "COUNT(B.price)", "B.price", "COUNT(*)"], NEXT),
        ("A B+ C", "B AS price <= A.price, C AS price > A.price", ["LAST(B.price)", "FIRST(B.price)"], NEXT),
        (
            "A B+ C+ D",
            "B AS price < PREV(price), C AS price > PREV(price), D AS price <= PREV(price)",
            ["B.price"],
            NEXT,
        ),
        (
            "A{2} B+ C",
            "A AS size = 0, B AS size = 1 AND SUM(B.price) < 6, C AS size = 2",
            ["AVG(B.price)", "MIN(A.price)"],
            PAST,
        ),
        (
            "A+ B",
            "A AS size < 2 AND AVG(A.price) <= 1 AND SUM(A.price) < 3, B AS size >= 2",
            ["FIRST(price)", "COUNT(A.*)"],
            NEXT,
        ),
        (
            "A+ B",
            "A AS size < 2 AND MAX(A.price) < 3, B AS size >= 2 AND price >= FIRST(price)",
            ["LAST(A.price)"],
            PAST,
        ),
        (
            "A+? B",
            "A AS size < 2 AND (LAST(A.price, 1) IS NULL OR price <> LAST(A.price, 1)), B AS size >= 2",
            [],
            NEXT,
        ),
        ("(A | B C*) D", "A AS size = 0, B AS size = 1, C AS size = 1, D AS size = 2", ["A.price", "COUNT(C.*)"], NEXT),
        ("(A+ | B+) C", "A AS size = 0, B AS size = 1, C AS size = 2", ["COUNT(*)", "COUNT(A.price)"], PAST),
        ("A B?? C", "B AS size = 1 AND B.price > 0, C AS size = 2", ["B.price", "C.price"], PAST),
        ("A X*? B", "A AS size = 0, B AS size = 3 AND price > A.price", ["FIRST(price)", "LAST(price)"], NEXT),
        ("A X*? B X1*? C", "A AS size = 0, B AS price > 1, C AS price < FIRST(price)", ["B.price"], NEXT),
        ("A X*? B X1*? C", "A AS size = 0, B AS price > 1, C AS price = 0", ["price"], PAST),
        ("A X*? B X1*? C", "A AS size = 0, B AS price > A.price, C AS price < B.price", ["B.price", "price"], PAST),
        ("A X* B", "A AS size = 0, B AS price > A.price", ["B.price", "COUNT(X.*)"], NEXT),
        ("A X*? B", "A AS size = 0, B AS size = 3", ["COUNT(*)", "SUM(price)", "AVG(price)", "MAX(price)"], PAST),
        ("A B+", "B AS price >= PREV(price)", ["FIRST(price)", "LAST(price)", "COUNT(*)", "AVG(price)"], PAST),
        ("A B*", "B AS price >= PREV(price)", ["LAST(price)", "LAST(symbol)", "COUNT(B.price)", "MIN(price)"], NEXT),
        ("A+ B*? C", "A AS size < 2, B AS size > 0, C AS price > A.price", ["A.price", "COUNT(B.*)"], PAST),
        ("A B? C", "B AS size = 1, C AS price > PREV(price)", ["FIRST(symbol)", "B.symbol", "COUNT(*)"], PAST),
        ("A B?? C{1,2}?", "C AS price > B.price OR B.price IS NULL AND size = 2", ["C.price", "COUNT(B.*)"], NEXT),
        (
            "(A | B | A C) D*",
            "A AS size = 0, B AS size < 2, D AS price >= FIRST(price)",
            ["A.price", "LAST(price)"],
            PAST,
        ),
        ("A+ (B | C) D", "A AS size < 2, B AS size = 1, C AS size = 2, D AS price > PREV(price)", ["B.size"], NEXT),
        ("A+ B? C", "A AS size = 0, B AS A.price > 0 OR size = 1, C AS size > 0", ["B.price", "COUNT(*)"], PAST),
        ("A B{0,2} C", "B AS price < 2, C AS price > A.price", ["COUNT(B.*)", "SUM(B.price)"], NEXT),
        ("A B{0,2}", "B AS price < PREV(price)", ["COUNT(*)"], PAST),
    ],
)
def test_queries_that_are_translated(pattern: str, define: str, measures: list[str], after: str) -> None:
    number = 0
    for within, partitioned, seed in product([None, 3], [False, True], range(4)):
        number += matches_beside_sql(pattern, define, measures, after, within, partitioned, seed)
    assert number > 5


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    """PATTERN, DEFINE and MEASURES. In some no row fits two neighbours, in others SQL has to choose."""
    names = "ABCD"[: draw(st.integers(1, 4))]
    limits = st.sampled_from(["", "", "", *"+*?", "{2}", "{1,2}", "{2,}", "{0,2}", "+?", "*?", "??", "{1,2}?"])
    parts = [name + draw(limits) for name in names]
    kind = draw(st.integers(0, 6))
    if kind == 0 and len(parts) > 1:
        parts[-2:] = [f"({parts[-2]} | {parts[-1]})"]
    elif kind == 1 and len(parts) > 2:
        parts = [f"({parts[0]} | {parts[1]} {parts[2]})", *parts[3:]]
    elif kind == 2 and len(parts) > 2:
        parts = [f"({parts[0]} | {parts[1]} {names[0]})", *parts[2:]]
    elif kind == 3:
        parts = [part for at, name in enumerate(names) for part in (f"X{at}*?", name)][1:]
    apart = draw(
        st.sampled_from(["size = {at}", "price {sign} A.price", "price {sign} PREV(price, 1)", "size {sign} 1", "", ""])
    )
    define = []
    for at, name in enumerate(names):
        other = ["0", "1", "2", *(["PREV(price, 1)", "PREV(price)"] if at else [])]
        other += [f"{one}.price" for one in (*names[: at + 1], *names)]
        other += [f"{end}(price{more})" for end in ("FIRST", "LAST") for more in ("", ", 0")]
        other += [f"{end}({name}.price)" for end in ("FIRST", "LAST", "SUM", "MIN", "MAX", "AVG")]
        other += [f"LAST({name}.price, 1)", "LAST(price, 1)", f"COUNT({name}.*)", f"COUNT({name}.price)"]
        sides = st.sampled_from(other)
        comparison = st.builds("{} {} {}".format, st.one_of(st.just("price"), sides), st.sampled_from(SPELLED), sides)
        test = st.one_of(comparison, sides.map("{} IS NULL".format))
        both = st.builds("({} AND {})".format, test, test)
        test = st.one_of(test, st.one_of(test, both).map("NOT {}".format), st.builds("({} OR {})".format, test, both))
        told = apart.format(at=at, sign="<=" if at % 2 else ">") if at or "price" not in apart else ""
        tests = [*filter(None, [told]), *draw(st.lists(test, max_size=1))]
        if tests:
            define.append(f"{name} AS {' AND '.join(tests)}")
    measured = [f"{end}({one}price{more})" for end in ("FIRST", "LAST") for one in ("", "A.") for more in ("", ", 0")]
    measured += [f"{one}.price" for one in names] + [f"COUNT({one}.*)" for one in names] + ["price", "COUNT(*)"]
    measured += [f"{end}({name})" for end in ("FIRST", "LAST", "COUNT") for name in ("symbol", "venue")]
    measured += [f"{name}({one}price)" for name in AGGREGATE_WORDS for one in ("", *(f"{one}." for one in names))]
    measured += ["FIRST(cost)", "LAST(cost)", "SUM(cost)", "AVG(cost)", "AVG(A.cost)"]
    return " ".join(parts), ", ".join(define), draw(st.lists(st.sampled_from(measured), max_size=2))


AGGREGATE_WORDS = ("SUM", "AVG", "COUNT", "MIN", "MAX")
NOT_NULL = "{{column: {}, not_null: true}}"
SPELLED = ("<", "<=", "=", "<>", ">", ">=")


def test_what_is_translated_has_the_rows_of_sql() -> None:
    numbers: list[int] = []

    @settings(max_examples=examples(3000), deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        query=queries(),
        after=st.sampled_from(["", NEXT, PAST]),
        within=st.sampled_from([None, 3]),
        partitioned=st.booleans(),
        seed=st.integers(0, 1 << 32),
    )
    def check(query: tuple[str, str, list[str]], after: str, within: int | None, partitioned: bool, seed: int) -> None:
        with suppress(PatternError):
            numbers.append(matches_beside_sql(*query, after, within, partitioned, seed))

    check()
    assert len(numbers) > 60 and sum(numbers) > 500


# -- answers worked out by hand ----------------------------------------------------------------------------------------


def answers(inside: str, rows: str, partitioned: bool = False) -> list[list[Any]]:
    """The MEASURES of each match over rows such as `x1:10`: a symbol, a second and a price, or a page.

    The matches stand in the order of their first rows, without the column of PARTITION BY.
    """
    kind = "string" if re.search(":[a-z]", rows) else "int64"
    schema = cep.StreamSchema.from_dict(
        {"name": "t", "base_type": "Row", "key": ["who"], "attributes": {"who": "string", "price": kind}}
    )
    table = [
        {
            "seq": seq,
            "timestamp": int(float(then) * SECOND),
            "who": who,
            "price": None if not price else int(price) if kind == "int64" else price,
        }
        for seq, (who, then, price) in enumerate(re.findall(r"([a-z]*)([\d.]+):(\w*)", rows))
    ]
    partition = "PARTITION BY who" if partitioned else ""
    sql = f"SELECT * FROM t MATCH_RECOGNIZE ({partition} ORDER BY timestamp {inside})"
    (one,) = translate_match_recognize(sql, schema, "q.sql", "1 day")
    (pattern,) = cep.parse_patterns(one.statement, schema)
    found = cep.detect([pattern], schema.table(table))[pattern.name].to_pylist()
    fixed = ("pattern", "match_id", "start_ts", "end_ts", "bindings", "who")
    found.sort(key=lambda row: row["start_ts"])
    return [[value for name, value in row.items() if name not in fixed] for row in found]


PRICES = "1:10 2:9 3:8 4:9 5:10 6:11 7:7 8:8 9:8 10:20"
FALL, RISE = "price < PREV(price)", "price > PREV(price)"


SHAPES: list[tuple[str, list[list[Any]]]] = [
    # A V as long as it is: 10 9 8 9 10 11. Behind it nothing falls.
    (
        "MEASURES A.price AS s, LAST(B.price) AS bottom, LAST(C.price) AS top, COUNT(*) AS n "
        f"{PAST} PATTERN (A B+ C+) DEFINE B AS {FALL}, C AS {RISE}",
        [[10, 8, 11, 6]],
    ),
    # From each row: 10 … 11, 9 … 11 and 11 7 8.
    (
        "MEASURES A.price AS s, LAST(B.price) AS bottom, LAST(C.price) AS top "
        f"{NEXT} PATTERN (A B+ C+) DEFINE B AS {FALL}, C AS {RISE}",
        [[10, 8, 11], [9, 8, 11], [11, 7, 8]],
    ),
    # As short as it can be: 10 9 8 9, then 11 7 8.
    (
        f"MEASURES FIRST(price) AS s, LAST(price) AS top {PAST} PATTERN (A B+ C+?) DEFINE B AS {FALL}, C AS {RISE}",
        [[10, 9], [11, 8]],
    ),
    # A W: 10, 9 8, 9 10 11, 7, 8.
    (
        "MEASURES FIRST(price) AS s, LAST(C.price) AS top, LAST(price) AS back, COUNT(*) AS n, MIN(price) AS low "
        f"{PAST} PATTERN (A B+ C+ D+ E+) DEFINE B AS {FALL}, C AS {RISE}, D AS {FALL}, E AS {RISE}",
        [[10, 11, 8, 8, 7]],
    ),
    # Streaks of rises: 8 9 10 11, 7 8 and 8 20.
    (
        f"MEASURES FIRST(price) AS s, LAST(price) AS e, COUNT(*) AS n {PAST} PATTERN (A B+) DEFINE B AS {RISE}",
        [[8, 11, 4], [7, 8, 2], [8, 20, 2]],
    ),
    # Bins of equal values: the two 8 are one.
    (
        f"MEASURES price AS value, COUNT(*) AS n {PAST} PATTERN (A B*) DEFINE B AS price = PREV(price)",
        [[10, 1], [9, 1], [8, 1], [9, 1], [10, 1], [11, 1], [7, 1], [8, 2], [20, 1]],
    ),
    # The alternative that is written first, not the longer one.
    (
        "MEASURES COUNT(*) AS n, A.price AS a, B.price AS b "
        f"{NEXT} PATTERN (A | B C) DEFINE A AS price = 9, B AS price <= 10, C AS price >= 9",
        [[2, None, 10], [1, 9, None], [2, None, 8], [1, 9, None], [2, None, 10], [2, None, 8]],
    ),
    # With B where it fits: 8 9 10; without it 10 11, and 8 20 at the end.
    (
        "MEASURES A.price AS a, B.price AS b, C.price AS c "
        f"{PAST} PATTERN (A B? C) DEFINE B AS price = 9 AND {RISE}, C AS {RISE}",
        [[8, 9, 10], [7, None, 8], [8, None, 20]],
    ),
]


@pytest.mark.parametrize(("inside", "expected"), SHAPES)
def test_shapes_of_prices(inside: str, expected: list[list[Any]]) -> None:
    assert answers(inside, PRICES) == expected


def test_a_column_without_a_variable_is_of_the_first_and_the_last_row() -> None:
    rows = "1:1009 2:1019 3:1029 4:1039 5:1049 6:1059 7:1069"
    first = "MEASURES FIRST(price) AS x, FIRST(B.price) AS y PATTERN (A B+) DEFINE B AS B.price < 1050"
    assert answers(first, rows) == [[1009, 1019]]
    rising = f"MEASURES FIRST(price) AS x, price AS y {NEXT} PATTERN (A B C) DEFINE C AS price > FIRST(price) + 10"
    assert answers(rising, rows) == [[1009, 1029], [1019, 1039], [1029, 1049], [1039, 1059], [1049, 1069]]


def test_sessions_end_where_a_gap_is_too_long() -> None:
    rows = "a0:h a10:i a10:i b12:h a19:j b22.5:h a30:h a300:z c500:h c508:i c514:j"
    sessions = (
        "MEASURES COUNT(*) AS n, LAST(timestamp) - FIRST(timestamp) AS us, FIRST(price) AS entry, LAST(price) AS page "
        f"{PAST} PATTERN (b s*) DEFINE s AS (s.timestamp - PREV(s.timestamp)) <= INTERVAL '10' SECOND"
    )
    assert answers(sessions, rows, partitioned=True) == [
        [4, 19 * SECOND, "h", "j"],
        [1, 0, "h", "h"],
        [1, 0, "h", "h"],
        [1, 0, "h", "h"],
        [1, 0, "z", "z"],
        [3, 14 * SECOND, "h", "j"],
    ]


def test_a_funnel_takes_the_next_step_or_the_last_one() -> None:
    rows = "u1:view v2:view u3:cart u4:view v5:buy u6:buy v7:cart w8:view w9:cart w10:cart w11:buy"
    steps = "DEFINE V AS price = 'view', C AS price = 'cart', B AS price = 'buy'"
    times = "MEASURES V.timestamp AS v, C.timestamp AS c, B.timestamp AS b"
    for gaps, expected in (("X*? Y*?", [[1, 3, 6], [8, 9, 11]]), ("X* Y*", [[1, 3, 6], [8, 10, 11]])):
        one, other = gaps.split()
        found = answers(f"{times} {PAST} PATTERN (V {one} C {other} B) {steps}", rows, partitioned=True)
        assert found == [[SECOND * then for then in row] for row in expected]


def test_small_charges_before_a_large_one() -> None:
    rows = "c1:3 d1:3 c2:4 d2:50 c3:500 d3:500 c4:600"
    measures = "MEASURES COUNT(S.*) AS small, SUM(S.price) AS tested, L.price AS taken"
    defined = "DEFINE S AS price < 5, L AS price > 100 AND price > 10 * AVG(S.price)"
    assert answers(f"{measures} {PAST} PATTERN (S+ L) {defined}", rows, partitioned=True) == [[2, 7, 500]]
    between = answers(f"{measures} {PAST} PATTERN (S X*? L) {defined}", rows, partitioned=True)
    assert between == [[1, 3, 500], [1, 3, 500]]
    total = "DEFINE S AS SUM(S.price) <= 10"  # as many as fit into ten
    assert answers(f"MEASURES SUM(S.price) AS s, COUNT(*) AS n {PAST} PATTERN (S+) {total}", "1:4 2:5 3:2 4:8 5:1") == [
        [9, 2],
        [10, 2],
        [1, 1],
    ]


def test_intervals_are_merged_as_far_as_the_first_one_reaches() -> None:
    """Rows are begins, and prices ends: 1–5, 2–9, 4–6 and 6–7, 20–30, 25–28."""
    measures = f"MEASURES FIRST(timestamp) AS s, MAX(price) AS e {PAST}"
    merged = f"{measures} PATTERN (A B*) DEFINE B AS timestamp <= A.price * {SECOND}"
    rows = "1:5 2:9 4:6 6:7 20:30 25:28"
    assert answers(merged, rows) == [[SECOND, 9], [6 * SECOND, 7], [20 * SECOND, 30]]
    with pytest.raises(PatternError, match="NEXT looks at a row that is not read yet"):
        answers(f"MEASURES MAX(price) AS e {PAST} PATTERN (B* A) DEFINE B AS MAX(price) >= NEXT(price)", rows)


def test_a_sum_that_leaves_int64_is_null_and_its_mean_is_not() -> None:
    """SQL ends with an error at the sum, and gives the mean."""
    large = 6 * 10**18
    rows = f"1:{large} 2: 3:{large} 4:2 5:{large}"
    whole = f"MEASURES SUM(price) AS s, AVG(price) AS m {PAST} PATTERN"
    for pattern in ("(A{5})", "(A B{3} C)", "(A B C D E)", "(A+ B+ C)", "(A B*)", "(A? B? C D E)"):
        assert answers(f"{whole} {pattern}", rows) == [[None, pytest.approx(3 * large / 4)]], pattern
        few = [[10, 2.5]]
        assert answers(f"{whole} {pattern}", "1:2 2: 3:3 4:2 5:3") == few, pattern
        assert answers(f"{whole} {pattern}", "1: 2: 3: 4: 5:") == [[None, None]], pattern
    # So far: the second row with a value takes the sum over the edge, and no mean.
    rows = f"1:{large} 2: 3:{large} 4:{large} 5:1"
    assert answers(f"MEASURES COUNT(*) AS n {PAST} PATTERN (A+) DEFINE A AS SUM(A.price) > 0", rows) == [[2], [1], [2]]
    for pattern, number in (("A+", 1), ("A{1}", 4)):
        tenfold = f"MEASURES AVG(A.price) * 10 AS m {PAST} PATTERN ({pattern}) DEFINE A AS AVG(A.price) * 10 > 1"
        assert len(answers(tenfold, f"1:{large} 2:{large} 3:{large} 4:{large}")) == number
    mean = "MEASURES COUNT(*) AS n, LAST(price) AS x {} PATTERN (A+) DEFINE A AS AVG(A.price) > 5 * 1000000000000000000"
    assert answers(mean.format(PAST), rows) == [[4, large]]


@pytest.mark.parametrize(
    ("more", "has_values", "summed"),
    [
        ("key: [k]", True, "coalesce(a.x, 0) + coalesce(sum(b[].x), 0 % coalesce(0 * min(b[].x), 1)) + 0 * coal"),
        (f"quality: {{expectations: [{NOT_NULL.format('k')}, {NOT_NULL.format('x')}]}}", True, "a.x + sum(b[].x) AS s"),
        (f"quality: {{expectations: [{NOT_NULL.format('k, severity: warning')}]}}", False, ""),
    ],
)
def test_a_column_that_has_a_value_in_each_row(tmp_path: Path, more: str, has_values: bool, summed: str) -> None:
    path = tmp_path / "s.yaml"
    layout = "source: {format: csv, path: 's.csv'}\nattributes: {k: string, x: int64}"
    path.write_text(f"name: s\nbase_type: Row\ntimestamp: at\n{layout}\n{more}\n", encoding="utf-8")
    sql = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k MEASURES SUM(x) AS s PATTERN (A B{2}))"
    refused = nullcontext() if has_values else pytest.raises(PatternError, match="each is alone")
    with refused:
        (one,) = translate_match_recognize(sql, cep.StreamSchema.load(path), "q.sql", None)
        assert "RETURN a.k AS k," in one.statement and summed in one.statement


# -- statements --------------------------------------------------------------------------------------------------------


def test_a_whole_query() -> None:
    sql = """\
SELECT v.symbol, v.bottom FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY "timestamp"
    MEASURES FIRST(price) AS top, LAST(B.price) AS bottom, COUNT(*) AS n, MIN(C.size) AS least, CLASSIFIER() AS ends
    ONE ROW PER MATCH
    AFTER MATCH SKIP TO NEXT ROW
    PATTERN (A B+ C{2} D) WITHIN INTERVAL '1.5' SECOND
    DEFINE B AS price < PREV(price), C AS C.price > LAST(B.price)
) AS v;
"""
    (one,) = translate_match_recognize(sql, SCHEMA, "q.sql", None)
    assert one.statement == (
        "NAME v\n"
        "PATTERN SEQ(Tick a, Tick+ b[], Tick{2} c[], Tick d)\n"
        "WHERE partition_contiguity { b[1].price < a.price\n"
        "  AND b[i].price < b[i-1].price\n"
        "  AND c.price > b[b.LEN].price }\n"
        "WITHIN 1499999 us\n"
        "PARTITION BY symbol\n"
        "OUTPUT PREFERRED\n"
        "RETURN a.symbol AS symbol, a.price AS top, b[b.LEN].price AS bottom, b.LEN + 4 AS n, "
        "min(c[].size) AS least, 'D' AS ends"
    )
    assert one.text.startswith("-- From MATCH_RECOGNIZE in q.sql, line 1, with the same matches.\nNAME")
    assert one.text.endswith("AS ends;\n")


def test_what_is_taken_for_granted_is_told() -> None:
    one = translated("PARTITION BY symbol PATTERN (A B+)", within="2 hours")
    assert one.assumptions == (
        "Without ORDER BY rows are in the order of the stream.",
        "Without AFTER MATCH SKIP this skips past the last row, as the standard says.",
        "No match is longer than 2 hours, as --within says.",
    )
    assert one.statement.splitlines()[-2:] == ["OUTPUT PREFERRED NON_OVERLAP", "RETURN a.symbol AS symbol"]
    other = translated(f"PARTITION BY symbol ORDER BY ts {NEXT} PATTERN (A B)", within=None)
    assert other.assumptions == ("ORDER BY ts is taken for the timestamp of the stream ticks.",)


def test_measures_of_time_and_those_that_are_renamed_are_told() -> None:
    measures = "MEASURES A.ts AS start_ts, B.ts - A.ts AS took, B.price AS top"
    one = translated(f"PARTITION BY symbol ORDER BY ts {measures} {NEXT} PATTERN (A B)", within=None)
    assert one.statement.endswith("a.timestamp AS start_ts_, b.timestamp - a.timestamp AS took, b.price AS top")
    assert one.assumptions[1:] == (
        "Every match has a column start_ts: the measure start_ts is called start_ts_.",
        "Times are microseconds, since 1970 in UTC, and lengths of time too: start_ts_, took.",
    )


@pytest.mark.parametrize(
    ("pattern", "define", "expected"),
    [
        (
            "A B",
            "B AS B.price > A.price OR size > 3 AND size < 5",
            "(b.price > a.price OR (b.size > 3 AND b.size < 5))",
        ),
        (
            "A+ B",
            "A AS size = 1, B AS size = 2 AND price > AVG(A.price) AND COUNT(A.*) >= 2",
            "a.size = 1 AND b.size = 2 AND b.price > avg(a[].price) AND a.LEN >= 2",
        ),
        ("A B", "B AS NOT (price = 3 AND size IN (1, 2))", "NOT (b.price = 3 AND b.size IN (1, 2))"),
        ("A B{2}", "B AS price BETWEEN 2 AND 2 * A.price", "b.price BETWEEN 2 AND 2 * a.price"),
        ("A+ B", "B AS price > RUNNING LAST(A.price)", "b.price > a[a.LEN].price"),
        ("A B", "B AS (price - A.price) * 2 - (3 - size) > 0", "(b.price - a.price) * 2 - (3 - b.size) > 0"),
        (
            "A B{2}",
            "B AS (LAST(B.price, 1) IS NULL AND B.price < A.price) OR B.price < LAST(B.price, 1)",
            "b[1].price < a.price AND ((b[i-1].price IS NULL AND b[i].price < a.price) OR b[i].price < b[i-1].price)",
        ),
        ("A B{2}", "B AS MAX(B.price) < 9", "b[1].price < 9 AND greatest(max(b[..i-1].price), b[i].price) < 9"),
        (
            "A B{2}",
            "B AS COUNT(B.*) <= 3 AND size = 1",
            "1 <= 3 AND (count(b[..i-1].seq) + 1) <= 3 AND b.size = 1",
        ),
        (
            "A{2}",
            "A AS SUM(A.price) < 9",
            "a[1].price < 9 AND (coalesce(sum(a[..i-1].price), 0 % coalesce(0 * min(a[..i-1].price), 1)) + "
            "coalesce(a[i].price, 0) + 0 * coalesce(sum(a[..i-1].price), a[i].price)) < 9",
        ),
        (
            "A{2}",
            "A AS SUM(A.cost) < 9",
            "a[1].cost < 9 AND coalesce(sum(a[..i-1].cost) + a[i].cost, sum(a[..i-1].cost), a[i].cost) < 9",
        ),
        ("A B C", "C AS price > FIRST(price) AND size > PREV(size)", "c.price > a.price AND c.size > b.size"),
        ("A B{2}", "B AS price > LAST(price, 1)", "b[1].price > a.price AND b[i].price > b[i-1].price"),
        ("A{2}", "A AS LAST(price, 1) IS NULL OR size = 1", "(a[i-1].price IS NULL OR a[i].size = 1)"),
        ("A B C", "C AS price > LAST(price) OR price > FIRST(size, 0)", "(c.price > c.price OR c.price > a.size)"),
        (
            "A{2} B",
            "B AS price > FIRST(price) AND price > PREV(price)",
            "b.price > a[1].price AND b.price > a[a.LEN].price",
        ),
        (
            "A{2}",
            "A AS price > FIRST(price) OR LAST(A.price, 1) IS NULL",
            "(a[i].price > a[1].price OR a[i-1].price IS NULL)",
        ),
        ("A B", "B AS B.timestamp <= A.timestamp + INTERVAL '5' SECOND", "b.timestamp <= a.timestamp + 5 seconds"),
        # What depends on the rows of a match is asked of each way in which one may begin.
        ("A B? C", "C AS price > PREV(price, 1)", "c.price > b.price AND c_2.price > a_2.price"),
        ("(A | B) C", "C AS price > FIRST(price)", "c.price > a.price AND c_2.price > b.price"),
        ("(A | B) C", "C AS size > A.size OR size = 3", "(c.size > a.size OR c.size = 3) AND c_2.size = 3"),
        ("(A | B) C", "C AS size > A.size", "c.size > a.size"),
        ("A+ B? C", "B AS A.size > 1, C AS size > 1", "(a[a.LEN].size > 1 OR b.seq IS NULL) AND c.size > 1"),
        (
            "A B{2} C",
            "B AS price > LAST(B.price, 1) OR size = 1",
            "b[1].size = 1 AND (b[i].price > b[i-1].price OR b[i].size = 1)",
        ),
        # What is left of an AND may be an OR.
        (
            "A",
            "A AS (TRUE AND (size = 1 OR price = 2)) AND (size = 3 OR (TRUE AND (size = 4 OR price = 5)) AND cost = 6)",
            "(a.size = 1 OR a.price = 2) AND (a.size = 3 OR ((a.size = 4 OR a.price = 5) AND a.cost = 6))",
        ),
        (
            "A{2}",
            "A AS size = 1 OR price BETWEEN LAST(A.price, 1) AND 3",
            "a[1].size = 1 AND (a[i].size = 1 OR a[i].price BETWEEN a[i-1].price AND 3)",
        ),
        (
            "A",
            "A AS symbol = 'WITHIN' AND symbol <> ')' AND price > 1.",
            "a.symbol = 'WITHIN' AND a.symbol != ')' AND a.price > 1",
        ),
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
        ("A X*? B Y*? C", "SEQ(Tick a, Tick b, Tick c)", "skip_till_next_match {"),
        ("A X* B", "SEQ(Tick a, Tick* x[], Tick b)", "partition_contiguity {"),
        ("A X*? B C", "SEQ(Tick a, Tick*? x[], Tick b, Tick c)", "partition_contiguity {"),
    ],
)
def test_a_variable_for_any_rows_between_others_is_a_strategy(pattern: str, structure: str, strategy: str) -> None:
    statement = of(pattern, "A AS size > 1").statement
    assert f"\nPATTERN {structure}\nWHERE {strategy}" in statement
    chained = of("A X*? B Y*? C", "B AS size > A.size, C AS size > B.size").statement
    assert "WHERE skip_till_any_match {" in chained


@pytest.mark.parametrize(
    ("measure", "pattern", "expected"),
    [
        ("FIRST(timestamp)", "A B C", "a.timestamp"),
        ("LAST(timestamp)", "A B C", "c.timestamp"),
        ("LAST(price) - FIRST(price)", "A B C D", "d.price - a.price"),
        ("FIRST(price)", "A{2} B", "a[1].price"),
        ("LAST(A.price)", "B A{2} C", "a[a.LEN].price"),
        ("RUNNING LAST(price)", "A{2}", "a[a.LEN].price"),
        ("FINAL LAST(price)", "A{2}", "a[a.LEN].price"),
        ("FINAL LAST(A.price) - RUNNING FIRST(A.price)", "A{2}", "a[a.LEN].price - a[1].price"),
        ("COUNT(*)", "A{2} B", "3"),
        ("COUNT(*) * 2", "A+ B", "(a.LEN + 1) * 2"),
        ("MAX(price)", "A B+", "greatest(a.price, max(b[].price))"),
        ("SUM(cost)", "A B+", "coalesce(a.cost + sum(b[].cost), a.cost, sum(b[].cost))"),
        ("LAST(timestamp)", "A B*", "coalesce(b[b.LEN].timestamp, a.timestamp)"),
        ("LAST(venue)", "A B*", "coalesce(a_2.venue, b[b.LEN].venue)"),
        ("LAST(symbol)", "A B*", "coalesce(b[b.LEN].symbol, a.symbol)"),
        ("COUNT(symbol)", "A B*", "coalesce(b.LEN, 0) + 1"),
        ("LAST(price)", "A+ B?", "coalesce(b.price, a[a.LEN].price + 0 % coalesce(0 * b.seq, 1))"),
        ("CLASSIFIER()", "A B+", "'B'"),
        ("CLASSIFIER()", 'A "b"', "'b'"),
        ("AVG(A.price) * 10", "A B", "(1.0 * a.price) * 10"),
        ("COALESCE(symbol, '(')", "A", "coalesce(a.symbol, '(')"),
        ("C.price - B.price", "A B | B C B_2", "c.price - coalesce(b.price, b_3.price)"),
    ],
)
def test_a_column_without_a_variable_is_of_all_rows_of_the_match(measure: str, pattern: str, expected: str) -> None:
    one = translated(f"ORDER BY timestamp MEASURES {measure} AS m {NEXT} PATTERN ({pattern})")
    assert one.statement.splitlines()[-1] == f"RETURN {expected} AS m"


def test_rows_without_a_partition_are_neighbours_in_the_stream() -> None:
    inside = f"ORDER BY timestamp {NEXT} PATTERN (A B{{2}}) DEFINE A AS price > 1"
    one = translated(inside, within=None)
    assert one.statement.splitlines()[2:] == [
        "WHERE strict_contiguity { a.price > 1 }",
        "WITHIN 3 EVENTS",
        "OUTPUT PREFERRED",
    ]
    assert one.text.startswith("-- From MATCH_RECOGNIZE in q.sql, line 1, with the same matches.\nNAME")
    assert "\nWITHIN 2 hours" in translated(inside, within="2 hours").statement


@pytest.mark.parametrize(
    ("inside", "place", "message"),
    [
        ("PARTITION BY symbol, size PATTERN (A)", "size", "[{column: size, not_null: true}]"),
        ("PATTERN (A B) DEFINE A AS size > 2, B AS symbol > 3 AND size > 2", "symbol > 3", "cannot compare string"),
        ("MEASURES A.size AS x, SQRT(B.symbol) AS y PATTERN (A B)", "SQRT(B", "cannot apply sqrt to string"),
        ("PARTITION BY cost PATTERN (A)", "cost", "rows whose cost is NaN"),
        ("PATTERN (A (B C)+) DEFINE A AS price > 1", "+", "a quantifier can be said of one variable"),
        ("PATTERN (^ A)", "^", "begin and the end of a partition"),
        ("PATTERN (A B A)", "A)", "A stands twice"),
        ("PATTERN (A) DEFINE A AS price > PREV(price)", "PREV(price", "the row before may lie outside of the match"),
        (
            "PATTERN (A B) DEFINE A AS price > NEXT(price)",
            "NEXT(price",
            "put the condition on the variable that follows",
        ),
        ("PATTERN (A B) DEFINE A AS price > B.price", "price > B.price", "no row fits A here"),
        ("PATTERN (A B{2}) DEFINE B AS price > LAST(B.price, 1)", "price > LAST", "no row fits B here"),
        ("PATTERN (A B) DEFINE A AS price > LAST(A.price, 1)", "price > LAST", "no row fits A here"),
        ("PATTERN (A+ B? C) DEFINE C AS price > PREV(price, 1)", "PREV(price", "or be of several variables"),
        ("PATTERN (A+ B? C) DEFINE C AS price > B.price", "B.price", "a match may have no B"),
        ("PATTERN (A+ B* C) DEFINE C AS size > 1, B AS size = COUNT(B.symbol)", "COUNT(B.symbol", "rows so far"),
        ("PATTERN (A B) DEFINE B AS price > FINAL LAST(A.price)", "FINAL", "stands in MEASURES only"),
        ("MEASURES LAST(venue) AS s PATTERN (A+ B?)", "LAST(venue", "this row may be of several variables"),
        ("MEASURES COUNT(A.venue) AS n PATTERN (A)", "COUNT(A.venue", "COUNT(A.*) counts rows"),
        ("MEASURES MATCH_NUMBER() AS n PATTERN (A)", "MATCH_NUMBER", "matches have no number here"),
        ("MEASURES CLASSIFIER() AS c PATTERN (A B?)", "CLASSIFIER", "read it in the bindings"),
        ("MEASURES STDDEV(price) AS d PATTERN (A+ B+)", "STDDEV(price", "of several variables cannot be said"),
        ("PATTERN (A B) DEFINE B AS SUM(price) > 3", "SUM(price", "takes a column of one variable"),
        ("PATTERN (A{3}) DEFINE A AS price > LAST(A.price, 2)", "LAST(A.price", "its row before, LAST(B.price, 1)"),
        ("PATTERN (A B C) DEFINE C AS price > LAST(price, 2)", "LAST(price", "its row before, LAST(B.price, 1)"),
        ("PATTERN (A B C) DEFINE C AS price > PREV(price, 2)", "PREV(price", "is of the row before"),
        ("MEASURES FIRST(price, 1) AS x PATTERN (A B)", "FIRST(price", "the first and the last row can be named"),
        ("PATTERN (A* B?)", "PATTERN", "may match no row"),
        ("AFTER MATCH SKIP TO LAST B PATTERN (A B)", "AFTER", "SKIP TO LAST B cannot be said"),
        ("ALL ROWS PER MATCH PATTERN (A B)", "ALL", "write ONE ROW PER MATCH"),
        ("PATTERN (A {- B -})", "{-", "leave these signs out"),
        ("PATTERN (PERMUTE(A, B))", "PERMUTE", "write AND(…) by hand"),
        # the same words mean something else
        ("PATTERN (A B) DEFINE B AS price > size / 2", "size / 2", "write 1E0 * before it"),
        ("PATTERN (A B) DEFINE B AS 1.0 * price / size > 0.25", "1.0 * price / size", "write 1E0 * before it"),
        ("PATTERN (A B) DEFINE B AS cost > 1.1 AND price >= 1.1 * A.price", "1.1 * A.price", "write 1.1E0"),
        ("PATTERN (A) DEFINE A AS size = 1 OR price NOT BETWEEN NULL AND 3", "price NOT", "an end of this BETWEEN"),
        ("PATTERN (A B) DEFINE A AS price > 1, a AS price > 2", "a AS price > 2", "DEFINE names a twice"),
        ("PATTERN (A B) DEFINE A AS TRUE, B AS FALSE", "B AS FALSE", "no row fits B here: this is never true"),
        ("MEASURES NULL AS nothing PATTERN (A B)", "nothing", "this measure is always null"),
        ("PATTERN (A B) DEFINE B AS (price > 1) IS NULL", "price > 1", "price > 1 cannot be said"),
        ("MEASURES COUNT() AS n PATTERN (A X*? B)", "COUNT()", "an aggregate takes a column"),
        ("MEASURES MAX(A.price, 2) AS n PATTERN (A+)", "MAX(A.price, 2)", "an aggregate takes a column"),
        ("MEASURES SUM(A.symbol) AS n PATTERN (A)", "SUM(A.symbol)", "sum takes numbers"),
        ("PATTERN (A B) WITHIN INTERVAL '0' SECOND", "WITHIN", "the window must be positive"),
        ("PATTERN (A B) WITHIN INTERVAL '99999999999' DAY", "WITHIN", "longer than int64"),
        # the error of the statement is in another part than the first, which is longer
        ("PATTERN (A B) DEFINE A AS size + 1 + 2 + 3 + 4 + 5 > 6, B AS ABS(symbol) > 3", "ABS(symbol)", "apply abs"),
        ("PATTERN (A B) DEFINE B AS GREATEST(price, size) > 2", "GREATEST", "cannot be said in an expression"),
        ("PATTERN (A B) DEFINE B AS price BETWEEN SYMMETRIC 3 AND 1", "price BETWEEN", "cannot be said in a condition"),
        ("ORDER BY price PATTERN (A)", "price", "in the order of their timestamp"),
        ("ORDER BY timestamp, size PATTERN (A)", "size", "in the order of their arrival"),
        ("PATTERN (A) DEFINE A AS prize > 1", "prize", "no attribute 'prize'; did you mean 'price'?"),
        ("PATTERN (A) DEFINE A AS CASE WHEN price > 1 THEN TRUE END", "price > 1", "cannot be said in a condition"),
        ("PATTERN (A) SUBSET U = (A) DEFINE A AS price > 1", "SUBSET U", "SUBSET joins the rows"),
        ("ORDER BY timestamp DESC PATTERN (A)", "timestamp", "a descending order cannot be said"),
        ("MEASURES LAST(A.price, 2) AS x PATTERN (A{3})", "LAST(A.price", "the first and the last row can be named"),
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


def test_a_partition_is_refused_together_with_all_else() -> None:
    with pytest.raises(PatternError) as refused:
        translated(f"PARTITION BY size {NEXT} PATTERN (A+) DEFINE A AS prize > 1", within=None)
    for said in ("here each is alone", "no attribute 'prize'", "SQL sets no bound"):
        assert said in str(refused.value)


def test_a_window_that_is_none_is_told_of_the_option() -> None:
    for said in ("3", "nonsense"):
        with pytest.raises(InputError, match=f"--within {said}: expected a"):
            translated(f"PARTITION BY symbol {NEXT} PATTERN (A+)", within=said)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT * FROM (SELECT * FROM t WHERE size > 1) MATCH_RECOGNIZE (PATTERN (A))",
            "chosen or made before the matching",
        ),
        (
            "WITH s AS (SELECT * FROM t WHERE size > 1) SELECT * FROM s MATCH_RECOGNIZE (PATTERN (A))",
            "before the matching",
        ),
        (
            "WITH S AS (SELECT * FROM t WHERE size > 1) SELECT * FROM s MATCH_RECOGNIZE (PATTERN (A))",
            "before the matching",
        ),
        (
            "WITH r AS (SELECT * FROM t WHERE size > 1), s AS (SELECT * FROM r) "
            "SELECT * FROM s MATCH_RECOGNIZE (PATTERN (A))",
            "before the matching",
        ),
        (
            "WITH s (size, price) AS (SELECT price, size FROM t) SELECT * FROM s MATCH_RECOGNIZE (PATTERN (A))",
            "before the matching",
        ),
        ("SELECT * FROM t AS s (size, price) MATCH_RECOGNIZE (PATTERN (A))", "before the matching"),
        ("SELECT * FROM (SELECT * FROM t OFFSET 5) MATCH_RECOGNIZE (PATTERN (A))", "before the matching"),
        ("SELECT * FROM (SELECT * FROM t FETCH FIRST ROW ONLY) MATCH_RECOGNIZE (PATTERN (A))", "before the matching"),
        ("SELECT * FROM t TABLESAMPLE BERNOULLI (10) MATCH_RECOGNIZE (PATTERN (A))", "before the matching"),
        ("SELECT * FROM (VALUES (1, 2)) AS s (size, price) MATCH_RECOGNIZE (PATTERN (A))", "before the matching"),
        ("SELECT 'open", "a quote or a comment is not closed"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN ())", "an empty row pattern"),
        ("EXPLAIN SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))", "only queries can be read, not EXPLAIN"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS)", "something is missing here"),
        ("SELECT * FROM (SELECT price + 1 AS price FROM t) MATCH_RECOGNIZE (PATTERN (A))", "before the matching"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A)) AS m WHERE m.symbol = 'X'", "the query around"),
        ("SELECT m.price + 1 FROM t MATCH_RECOGNIZE (MEASURES A.price AS price PATTERN (A)) AS m", "the query around"),
        ("WITH m AS (SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))) SELECT count(*) FROM m", "the query around"),
        ("SELECT * FROM t MATCH_RECOGNIZE (MEASURES A.price AS p PATTERN (A)) AS m (x)", "the query around"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A)) TABLESAMPLE BERNOULLI (10)", "the query around"),
        ("SELECT 1", "no MATCH_RECOGNIZE in a query"),
        (f"SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS {'(' * 3000}price{')' * 3000} > 1)", "deep"),
        (f"SELECT * FROM t MATCH_RECOGNIZE (PATTERN ({'(' * 3000}A{')' * 3000}))", "deep"),
    ],
)
def test_texts_that_are_refused(sql: str, message: str) -> None:
    with pytest.raises((PatternError, InputError), match=message):
        translate_match_recognize(sql, SCHEMA, "q.sql", "1 day")


def test_all_that_stands_in_the_way_is_told_together() -> None:
    inside = "MEASURES MATCH_NUMBER() AS m PATTERN (A B+) DEFINE A AS size / 2 > 1, B AS MAX(price) > NEXT(price)"
    with pytest.raises(PatternError) as refused:
        translated(inside, within=None)
    messages = [one.message for one in (refused.value, *refused.value.others)]
    parts = ("--within '1 hour'", "a division", "an aggregate takes", "NEXT looks at", "matches have no number")
    assert [part in message for part, message in zip(parts, messages, strict=True)] == [True] * 5


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


def test_the_queries_of_the_page_give_what_stands_below_them() -> None:
    assert len(PAGE_QUERIES) == 6
    schema = cep.StreamSchema.load(CHECKOUT / "streams" / "generated_trades.yaml")
    for sql, below in PAGE_QUERIES:
        (one,) = translate_match_recognize(sql, schema, "my.sql", "1 minute")
        assert f"{one.statement}\n" == below


# -- beside DuckDB and Flink -------------------------------------------------------------------------------------------


def test_duckdb_finds_the_same() -> None:
    """The shapes of prices, where this DuckDB has the clause."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (timestamp BIGINT, price BIGINT)")
    for row in PRICES.split():
        connection.execute("INSERT INTO t VALUES (?, ?)", [int(one) for one in row.split(":")])
    for inside, expected in SHAPES:
        try:
            found = connection.execute(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY timestamp {inside})").fetchall()
        except duckdb.ParserException:
            pytest.skip(f"DuckDB {duckdb.__version__} has no MATCH_RECOGNIZE")
        assert sorted(map(list, found), key=repr) == sorted(expected, key=repr), inside


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
    """Queries of the page over the generated day.

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
        bound = [{one["variable"]: one["seq"] for one in row["bindings"]} for row in ours.to_pylist()]
        own = sorted([row[variable] for variable in asked[name]] for row in bound)
        assert len(own) > 50
        if name != "larger":
            assert own == sorted(theirs), name
            continue
        # Of some first rows Flink takes a later second one than the first that fits.
        assert [first for first, _ in own] == [first for first, _ in sorted(theirs)]
        later = [(one, other) for one, other in zip(own, sorted(theirs), strict=True) if one != other]
        assert len(later) < len(own) / 50 and all(one < other for one, other in later)
