"""Lists that are counted by parts: as many matches as the oracle finds, whatever their conditions name."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.counting import sweep
from cep_pipeline.detection.counting.choice import parts_of_lists
from cep_pipeline.patterns.pattern import Ties
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

STRUCTURES = (
    "SEQ(A a, B+ v[], C c)",
    "SEQ(B+ v[], C c)",
    "SEQ(A a, B+ v[])",
    "SEQ(B a, B+ v[], B c)",
    "AND(A a, Ev+ v[])",
    "SEQ(A a, B{2,3} v[])",
    "OR(SEQ(A a, B+ v[]), SEQ(C c, A d))",
    "B+ v[]",
)
CONDITIONS = (
    "v[i].x > v[1].x",
    "v[i].y >= v[1].y",
    "v[i].x != 2",
    "v[v.LEN].x > v[1].x",
    "v[v.LEN].y < 3.5",
    "v[1].x <= 4",
    "v[].x >= v[1].x",
    "v[].x <= v[v.LEN].x",
    "v[i].x < v[v.LEN].x",
    "(v[i].x = 1 OR v[1].x > 2)",
    "v[i].s = v[1].s",
    "v[].f = TRUE",
    "v.LEN >= 2",
    "v.LEN < 4",
    "2 <= v.LEN",
    "v.LEN = 3",
    "v.LEN > 4 AND v.LEN < 3",
    "v[i].x > v[i-1].x",
    "v[i].x > v[i-1].x AND v[1].y < 3.5",
    "v[i].y <= v[i-1].x AND v[v.LEN].x > 1",
    "v[i].s = v[i-1].s AND v[i-1].x < v[i].x AND v[1].x < 9",
    "v[i].x - v[i-1].x > 1",
    "v[i].timestamp - v[i-1].timestamp < 2 seconds",
    "v[i].y * 0.5 - v[i-1].y <= v[i].x",
    "2 - v[i].y > v[i-1].y + 1 AND v[1].x >= 0",
    "v[v.LEN].y - v[1].y >= 0.5",
    "max(v[].x) < 5",
    "min(v[].y) >= 1",
    "2 <= min(v[].x)",
    "max(v[].y) > 4",
    "count(v[].x) < 4",
    "2 <= count(v[].y)",
    "count(v[].s) = 2",
    "count(v[].x) > 1 AND v.LEN < 4",
)
BEHIND_A = (
    "v[i].x != v[i-1].x AND v[1].x > a.x",
    "v[i].x >= v[i-1].y AND v[1].x > a.x",
    "v[i].x > a.x",
    "v[1].x > a.x",
    "v[v.LEN].x != a.x",
    "v[v.LEN].x > a.x",
    "v[].y > a.y",
    "max(v[].x) <= a.x",
    "min(v[].y) > a.y",
    "v[i].x + a.x > v[1].x",
    "v[1].y - a.x < 3",
    "1.5 < a.y + v[v.LEN].y AND v[i].x - v[i-1].x <= 2",
)
BEFORE_C = ("v[v.LEN].x < c.x", "v[1].x < c.x", "v[i].y <= c.y")


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), stream_rows=st.booleans().flatmap(lambda edges: rows(edges=edges)))
def test_counts_are_those_of_the_oracle(data: st.DataObject, stream_rows: list[Row]) -> None:
    structure = data.draw(st.sampled_from(STRUCTURES))
    pool = CONDITIONS
    if " a" in structure and not structure.startswith("OR"):
        pool += BEHIND_A
    if " c" in structure and not structure.startswith("OR"):
        pool += BEFORE_C
    conditions = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True))
    conditions += data.draw(st.sampled_from(([], [], ["[id]"])))
    window = data.draw(st.sampled_from(("3 seconds", "20 seconds", "5 EVENTS")))
    ties = data.draw(st.sampled_from(("", "", " TIES STRICT", " TIES ANY")))
    text = f"NAME p PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {window}{ties}"
    patterns = cep.parse_patterns(text, stream_schema())
    table = events_table(stream_rows)
    with patch.object(sweep, "pays", return_value=True) if data.draw(st.booleans()) else nullcontext():
        [counted] = cep.detect(patterns, table, output="count")["p"]["count"].to_pylist()
    assert int(counted) == len(evaluate(patterns, table))


@settings(max_examples=examples(200), deadline=None)
@given(
    data=st.data(),
    stream_rows=st.booleans().flatmap(lambda edges: rows(min_size=7, max_size=10, edges=edges, types=("B", "B", "A"))),
)
def test_adjacent_elements_and_ends_are_swept(data: st.DataObject, stream_rows: list[Row]) -> None:
    """Conditions on adjacent elements beside those on the ends of the list are swept in every part with a list."""
    structure = data.draw(
        st.sampled_from(("SEQ(A a, B+ v[], C c)", "SEQ(Ev a, Ev+ v[], Ev c)", "SEQ(A a, B+ v[], Ev c)"))
    )
    adjacent = st.sampled_from(
        (
            "v[i].x >= v[i-1].x",
            "v[i-1].y < v[i].x + 1",
            "v[i].s = v[i-1].s",
            "v[i].id = v[i-1].id AND v[i].x > v[i-1].y",
            "v[i].x <= v[i-1].x AND v[i].s = v[i-1].s",
            "v[i].x - v[i-1].x >= 1",
            "v[i-1].y - v[i].y < 0.3",
            "v[i].timestamp - v[i-1].timestamp <= 2 seconds AND v[i].id = v[i-1].id",
        )
    )
    ends = data.draw(
        st.lists(
            st.sampled_from(
                (
                    "v[1].x > a.x",
                    "v[1].x >= c.y",
                    "v[v.LEN].x <= c.x",
                    "v[v.LEN].y != 2",
                    "v[i].x < 6",
                    "v[1].id = a.id AND v[1].x > 0",
                    "a.x <= c.x AND v[1].x < 9",
                    "v[1].y - a.y * 3 > -20",
                    "c.x + v[v.LEN].x >= 3",
                    "a.x <= c.x",
                )
            ),
            max_size=2,
            unique=True,
        )
    )
    window = data.draw(st.sampled_from(("3 seconds", "1 day", "7 EVENTS")))
    text = f"NAME p PATTERN {structure} WHERE {' AND '.join((data.draw(adjacent), *ends))} WITHIN {window}"
    stream_rows[0]["kind"], stream_rows[-1]["kind"] = "A", "C"
    patterns, table = cep.parse_patterns(text, stream_schema()), events_table(stream_rows)
    bits = data.draw(st.sampled_from((64.0, -1.0)))  # numbers in a word, or put together of primes
    with patch.object(sweep, "pays", return_value=True), patch.object(sweep, "MOST_BITS_OF_A_WORD", bits):
        [counted] = cep.detect(patterns, table, output="count")["p"]["count"].to_pylist()
    assert int(counted) == len(evaluate(patterns, table))


TWO_LISTS = (
    "v[1].x < w[1].x",
    "v[v.LEN].x <= w[1].y",
    "v[v.LEN].x < w[w.LEN].x",
    "v[1].id = w[1].id",
    "v[1].y - w[w.LEN].y < 1",
    "v[i].x >= v[i-1].x",
    "w[i].s = w[i-1].s",
    "w[i].y - w[i-1].y < 2",
    "v[1].x >= 1",
    "w[w.LEN].y < 6",
    "v[].x < 7",
    "max(w[].y) < 8",
    "v.LEN <= 2",
    "v.LEN >= 3",
    "w.LEN = 2",
    "w.LEN >= 2 AND w.LEN < 4",
    "w[i].x > w[1].x",
)
AROUND = ("a.x <= v[1].x", "a.x < v[v.LEN].x", "a.x - w[1].x < 3", "w[w.LEN].x >= c.x", "v[1].x < c.x", "a.y <= c.y")


@settings(max_examples=examples(300), deadline=None)
@given(
    data=st.data(),
    stream_rows=st.booleans().flatmap(lambda edges: rows(min_size=4, max_size=9, edges=edges, types=("A", "B", "B"))),
)
def test_several_lists_are_counted_by_parts(data: st.DataObject, stream_rows: list[Row]) -> None:
    structures = ("SEQ(A a, B+ v[], Ev+ w[], Ev c)", "SEQ(A a, B+ v[], B+ w[])", "SEQ(Ev+ v[], B+ w[], Ev c)")
    structures += ("SEQ(B+ v[], B+ w[])", "SEQ(A+ u[], B+ v[], Ev+ w[])", "SEQ(A a, B{1,2} v[], Ev{2,} w[])")
    structure = data.draw(st.sampled_from(structures))
    pool = [one for one in TWO_LISTS + AROUND if all(f" {name}" in structure for name in "ac" if f"{name}." in one)]
    conditions = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True))
    conditions += data.draw(st.sampled_from(([], [], [], ["[id]"])))
    window = data.draw(st.sampled_from(("4 seconds", "1 day", "6 EVENTS")))
    text = f"NAME p PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {window}"
    patterns, table = cep.parse_patterns(text, stream_schema()), events_table(stream_rows)
    bits = data.draw(st.sampled_from((64.0, -1.0)))
    with patch.object(sweep, "MOST_BITS_OF_A_WORD", bits), patch.object(sweep, "_MERSENNE_BITS", bits - 3):
        [counted] = cep.detect(patterns, table, output="count")["p"]["count"].to_pylist()
    assert int(counted) == len(evaluate(patterns, table))


@settings(max_examples=examples(300), deadline=None)
@given(
    data=st.data(),
    stream_rows=st.booleans().flatmap(lambda edges: rows(min_size=5, max_size=9, edges=edges, types=("A", "B", "B"))),
)
def test_crossed_conditions_are_swept(data: st.DataObject, stream_rows: list[Row]) -> None:
    """Events between two that are compared are compared with the first or the last one only, or with none."""
    structures = ("SEQ(A a, B+ v[], Ev c)", "SEQ(Ev a, Ev+ v[], B c)", "SEQ(Ev a, B v, Ev w, Ev c)")
    structure = data.draw(st.sampled_from((*structures, "SEQ(Ev a, B v, Ev w, B z, Ev c)")))
    conditions = {
        True: (
            "v[1].x < c.x",
            "v[v.LEN].x >= a.x",
            "v[1].x <= v[v.LEN].x",
            "a.x - v[1].x < 2",
            "v[].y < 8",
            "a.y <= c.y",
        ),
        False: ("v.x < c.x", "w.x >= a.x", "v.x = c.x", "a.x <= v.x", "w.y > c.y", "a.y - c.y < 4", "v.y <= w.y"),
    }
    usual = conditions["v[]" in structure] + (("z.x > a.x", "v.x < z.x") if " z," in structure else ())
    chosen = data.draw(st.lists(st.sampled_from(usual), min_size=2, max_size=3, unique=True))
    chosen += data.draw(st.sampled_from(([], [], ["[id]"])))
    window = data.draw(st.sampled_from(("4 seconds", "1 day", "6 EVENTS")))
    text = f"NAME p PATTERN {structure} WHERE {' AND '.join(chosen)} WITHIN {window}"
    patterns, table = cep.parse_patterns(text, stream_schema()), events_table(stream_rows)
    with patch.object(sweep, "pays", return_value=True):
        [counted] = cep.detect(patterns, table, output="count")["p"]["count"].to_pylist()
    assert int(counted) == len(evaluate(patterns, table))


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("v[1].x < w[1].x", 4),
        ("v[v.LEN].x < w[1].x", 4),
        ("v[v.LEN].x < w[1].x AND a.x < v[1].x", 9),
        ("v[i].x > v[i-1].x AND v[1].x > a.x", 6),
        ("v[i].x > v[i-1].x", None),
        ("v[].x < w[].x", None),
        ("v[1].x < w[1].x AND v.LEN <= 3", 6),
        ("v[1].x < w[1].x AND v.LEN >= 2 AND w.LEN >= 3", 1),
        ("v[1].x < w[1].x AND v.LEN <= 40", None),
        ("v[].x < w[1].x", None),
        ("v[1].x < w[w.LEN].x AND v[v.LEN].x > a.x", None),
        ("sum(v[].x) < w[1].x", None),
    ],
)
def test_parts_of_two_lists(condition: str, parts: int | None) -> None:
    """Without lists, with one and with both, as far as sweeps count those."""
    text = f"PATTERN SEQ(A a, B+ v[], C+ w[]) WHERE {condition} WITHIN 1 second"
    [pattern] = cep.parse_patterns(text, stream_schema())
    [clause] = pattern.clauses
    found = parts_of_lists(pattern, clause)
    assert parts == (None if found is None else len(found))


def test_many_lists_beside_each_other() -> None:
    """Of 60 rising elements and 60 more the lists are counted whose beginnings are so far apart."""
    kinds = ["A", *["B"] * 60, *["C"] * 60]
    table = stream_schema().table([{"timestamp": t, "kind": kind, "x": t} for t, kind in enumerate(kinds)])
    text = "NAME p PATTERN SEQ(A a, B+ v[], C+ w[]) WHERE w[1].x - v[1].x > 70 WITHIN 1 day"
    [counted] = cep.detect(cep.parse_patterns(text, stream_schema()), table, output="count")["p"]["count"].to_pylist()
    expected = sum(
        2 ** (60 - first) * 2 ** (120 - other)
        for first in range(1, 61)
        for other in range(61, 121)
        if other - first > 70
    )
    assert int(counted) == expected


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("v[i].x > v[1].x", ["a v[first] c", "a v[first] v+ c"]),
        ("v[i].x > a.x", ["a v[first] c", "a v[first] v+ c"]),
        ("v[v.LEN].x > c.x", ["a v[last] c", "a v+ v[last] c"]),
        ("v[1].x < v[v.LEN].x", ["a v[first] c", "a v[first] v[last] c", "a v[first] v+ v[last] c"]),
        ("v[1].x < v[v.LEN].x AND v.LEN > 2", ["a v[first] v+ v[last] c"]),
        ("v[1].x < 3 AND v.LEN <= 1", ["a v[first] c"]),
        ("v.LEN >= 3", ["a v+ c"]),
        ("v.LEN < 1", []),
        ("v[].x > a.x", None),
        ("v[i].x > v[i-1].x", None),
        ("v[i].x > v[i-1].x AND v[1].x > a.x", ["a v[first] c", "a v[first] v[last] c", "a v[first] v+ v[last] c"]),
        ("v[i].x - v[i-1].x > 1 AND v[1].x > a.x", None),
        (
            "v[i].timestamp - v[i-1].timestamp < 1 ms AND v[1].x > a.x",
            ["a v[first] c", "a v[first] v[last] c", "a v[first] v+ v[last] c"],
        ),
        ("v[1].x < c.x AND v[v.LEN].x > a.x", ["a v[first] c", "a v[first] v[last] c", "a v[first] v+ v[last] c"]),
        ("v[i].x * v[i-1].x > 1 AND v[1].x > a.x", None),
        ("sum(v[].x) > 3 AND v[1].x > 1", None),
        ("v[].x > v[i].x", None),
        ("max(v[].x) < a.x", None),
    ],
)
def test_what_parts_bind(condition: str, parts: list[str] | None) -> None:
    text = f"PATTERN SEQ(A a, B+ v[], C c) WHERE {condition} WITHIN 1 second"
    [pattern] = cep.parse_patterns(text, stream_schema())
    [clause] = pattern.clauses
    found = parts_of_lists(pattern, clause)
    assert parts == (
        None if found is None else [" ".join(one.name + "+" * one.kleene for one in part.positive) for part in found]
    )
    assert parts_of_lists(replace(pattern, ties=Ties.STRICT), clause) is None


def test_more_lists_than_could_be_made() -> None:
    """Of 200 rising elements each sub-list that begins with its least has only greater ones behind."""
    kinds = ["A", *["B"] * 200, "C"]
    table = stream_schema().table([{"timestamp": t, "kind": kind, "x": t} for t, kind in enumerate(kinds)])
    text = "NAME p PATTERN SEQ(A a, B+ v[], C c) WHERE {} WITHIN 1 day"
    for condition, expected in (
        ("v[i].x > v[1].x", 2**200 - 1),
        ("v[v.LEN].x < v[1].x", 0),
        ("v[1].x <= v[v.LEN].x - 100", sum((200 - gap) * 2 ** (gap - 1) for gap in range(100, 200))),
        ("v[1].x < c.x AND v[v.LEN].x > a.x", 2**200 - 1),
        ("v[1].x < c.x - 101 AND v[v.LEN].x > a.x + 100", (2**99 - 1) * 2 * (2**100 - 1)),
    ):
        patterns = cep.parse_patterns(text.format(condition), stream_schema())
        [counted] = cep.detect(patterns, table, output="count")["p"]["count"].to_pylist()
        assert int(counted) == expected
