"""Matches counted by a sweep over the events: the same numbers as the matches that are found, at any size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from math import comb, isqrt, prod
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.counting import sweep, sweep_kernel
from cep_pipeline.detection.counting.choice import sweep_of
from cep_pipeline.detection.detect import count_slice
from cep_pipeline.detection.fused import mechanism as fused
from cep_pipeline.detection.mechanisms import EVERYTHING, Owned
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

STRUCTURES = [
    "SEQ(A a, B b)",
    "SEQ(A a, B b, A c)",
    "SEQ(Ev a, Ev b, Ev c)",
    "SEQ(Ev a, Ev b, A c, Ev d)",
    "AND(A a, B b)",
    "AND(A a, Ev b, B c)",
    "SEQ(AND(A a, B b), Ev c)",
    "SEQ(Ev a, AND(Ev b, B c), A d)",
    "OR(SEQ(A a, B b), AND(A c, Ev d))",
    "SEQ(A a, ~Ev n, B b)",
    "SEQ(A a, ~B n, Ev b, A c)",
    "SEQ(~A n, Ev b, B c)",
    "SEQ(Ev a, B b, ~A n)",
    "AND(SEQ(~A n, B b), Ev c)",
    "SEQ(A a, ~A n, B b, ~Ev m)",
    "SEQ(Ev a, ~B n, Ev b, Ev c, ~A m, Ev d)",
    "SEQ(~A n, Ev a, Ev b, Ev c)",
    "SEQ(Ev a, OR(~A n, ~B m), Ev b)",
    "SEQ(OR(~A n, SEQ(~B m, ~A l)), Ev a, OR(~A k, ~B j), Ev b)",
    "SEQ(Ev a, ~B n, B b, ~A m, Ev c, ~A l)",
    "SEQ(A a, ~A n, B b, Ev+ v[])",
    "SEQ(A a, Ev+ v[], B b)",
    "SEQ(Ev+ v[], B b)",
    "SEQ(A a, Ev+ v[])",
    "SEQ(A a, B+ v[], Ev+ w[])",
    "SEQ(A a, Ev b, Ev+ v[], Ev c, B d)",
    "SEQ(Ev a, B+ v[], Ev b, Ev+ w[], Ev c)",
    "AND(A a, B+ v[])",
    "SEQ(A a, Ev+ v[], ~B n)",
    "SEQ(Ev+ v[], ~A n, Ev b)",
]
CONDITIONS = [
    "a.x < b.x",
    "b.x >= c.x",
    "a.x < b.x AND b.x < c.x",
    "a.x >= b.x AND c.y < b.x",
    "a.x <= b.x AND a.x > c.x",
    "a.x = c.x AND c.x > b.x",
    "a.x + 1 > c.y",
    "a.x <= d.x",
    "a.x < b.x AND b.y >= c.x",
    "a.x < b.x AND c.y <= d.x",
    "a.x <= b.x AND b.x < c.x AND c.x < d.y",
    "a.y != 3 AND a.x < b.y AND b.x <= c.x AND a.x > c.y",
    "b.x > a.y AND c.x = b.x",
    "d.x > a.x AND d.y >= b.x",
    "d.x > c.x AND d.y = a.x",
    "a.x = b.x",
    "c.s = a.s",
    "[id]",
    "[s]",
    "a.id = b.id AND b.id = c.id",
    "a.x < b.x AND a.y = b.y",
    "a.x < b.x AND a.y <= b.y",
    "b.x < c.x AND b.y > c.y",
    "a.s = c.s AND a.x >= c.y AND c.id = a.id",
    "a.id = b.id",
    "v.x > 1",
    "n.x > 1",
    "b.x > 0",
    "1 = 2",
]


def variables_in(text: str) -> set[str]:
    return set(re.findall(r"\b([a-dmnvw])\b(?=[\[,)])", text))


@st.composite
def texts(draw: st.DrawFn) -> str:
    structure = draw(st.sampled_from(STRUCTURES))
    usable = [one for one in CONDITIONS if set(re.findall(r"\b([a-dnv])\.", one)) <= variables_in(structure)]
    condition = " AND ".join(draw(st.lists(st.sampled_from(usable), max_size=2, unique=True)))
    window = draw(st.sampled_from(["1 second", "2 seconds", "3 seconds", "1 day", "3 EVENTS", "6 EVENTS"]))
    text = f"PATTERN {structure} {condition and f'WHERE {condition}'} WITHIN {window}"
    text += draw(st.sampled_from(["", "", " PARTITION BY s"]))
    return text + f" TIES {draw(st.sampled_from(['ARRIVAL', 'ARRIVAL', 'STRICT', 'ANY']))}"


@contextmanager
def sweeping() -> Iterator[None]:
    """Sweep wherever that can be done, however few candidates there are."""
    with patch.object(sweep, "pays", return_value=True):
        yield


def parsed(text: str) -> Pattern:
    [pattern] = cep.parse_patterns(text, stream_schema())
    return pattern


def counted(text: str, table: object) -> int:
    [row] = cep.detect([parsed(text)], table, output="count")["pattern_1"].to_pylist()
    return int(row["count"])


@settings(max_examples=examples(250), deadline=None)
@given(text=texts(), stream_rows=rows(max_size=9))
def test_swept_counts_are_the_oracles(text: str, stream_rows: list[Row]) -> None:
    table = events_table(stream_rows)
    with sweeping():
        assert counted(text, table) == len(evaluate([parsed(text)], table))


@settings(max_examples=examples(80), deadline=None)
@given(text=texts(), stream_rows=rows(max_size=9))
def test_large_moduli_count_what_words_count(text: str, stream_rows: list[Row]) -> None:
    """Numbers put together of primes, as they are where a word does not hold them."""
    table, pattern = events_table(stream_rows), parsed(text)
    with sweeping(), patch.object(sweep, "MOST_BITS_OF_A_WORD", -1.0):
        assert counted(text, table) == len(evaluate([pattern], table))


def test_products_are_those_of_the_ring() -> None:
    """Products of the least and the greatest numbers, too, by all primes that need no division and some more."""
    moduli = list(islice(sweep._moduli(), 34))
    assert len(set(moduli)) == 34
    assert moduli[0] > moduli[1] > 2**54 - 2**10 > 2**31 > moduli[-1]
    draw = np.random.default_rng(1)
    for modulus in moduli:
        some = [0, 1, 2, modulus // 2, modulus - 2, modulus - 1, *draw.integers(0, modulus, 20).tolist()]
        for one in some:
            for other in some:
                product = sweep_kernel.times(np.uint64(one), np.uint64(other), np.uint64(modulus))
                assert int(product) == one * other % modulus


def whole_slice(pattern: Pattern, table: pa.Table) -> tuple[ClauseSlice, PreparedEvents]:
    events = PreparedEvents(table, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    return ClauseSlice(pattern, pattern.clauses[0], events, EVERYTHING), events


@settings(max_examples=examples(400), deadline=None)
@given(text=texts(), stream_rows=rows(min_size=4, max_size=9), data=st.data())
def test_semirings_give_what_listed_matches_give(text: str, stream_rows: list[Row], data: st.DataObject) -> None:
    """Sums of products of weights, however large, of what events add, and the greatest rank of an event."""
    pattern, table = parsed(text), events_table(stream_rows)
    if len(pattern.clauses) != 1:
        return
    of, events = whole_slice(pattern, table)
    single = [one.name for one in of.clause.positive if not one.kleene]
    names = data.draw(st.lists(st.sampled_from(single), max_size=3, unique=True)) if single else []
    whole = st.one_of(st.integers(-3, 3), st.integers(-(10**30), 10**30))
    drawn = {name: [data.draw(whole) for _ in stream_rows] for name in names}
    ranks = {name: [data.draw(st.integers(0, 4)) for _ in stream_rows] for name in names}
    matches = [
        {name: [seq for one, seq in match.bindings if one == name] for name, _ in match.bindings}
        for match in evaluate([pattern], table)
    ]
    row_of = {seq: row for row, seq in enumerate(events.seqs.tolist())}

    def of_match(weights: dict[str, list[int]], match: dict[str, list[int]]) -> list[int]:
        return [weights[name][row_of[match[name][0]]] for name in names]

    weights = {name: np.array(own, object) for name, own in drawn.items()}
    total = sweep.swept(of, sweep.Sum(), weights)
    assert total is None or total == sum(prod(of_match(drawn, match)) for match in matches)
    added = data.draw(st.sampled_from(of.clause.positive)).name
    numbers = [data.draw(whole) for _ in stream_rows]
    added_up = sweep.swept(of, sweep.Sum({added: np.array(numbers, object)}), weights)
    assert added_up is None or added_up == sum(
        prod(of_match(drawn, match)) * sum(numbers[row_of[seq]] for seq in match[added]) for match in matches
    )
    greatest = sweep.swept(of, sweep.Greatest(), {name: np.array(own) for name, own in ranks.items()})
    found = [max(own, default=1) for match in matches if all(own := of_match(ranks, match))]
    assert greatest is None or greatest == max(found, default=0)
    if names and sweep_of(pattern, of.clause) is not None and "TIES ARRIVAL" in text:
        event(f"told: {total is not None}, {greatest is not None}")


@settings(max_examples=examples(100), deadline=None)
@given(text=texts(), stream_rows=rows(max_size=9), data=st.data())
def test_slices_add_up_to_the_stream(text: str, stream_rows: list[Row], data: st.DataObject) -> None:
    pattern, table = parsed(text), events_table(stream_rows)
    plan = cep.plan([pattern], cep.estimate_statistics([pattern], table))
    cut = data.draw(st.integers(0, len(stream_rows)))
    point = (stream_rows[cut]["timestamp"], stream_rows[cut]["seq"]) if cut < len(stream_rows) else None
    parts: list[tuple[Owned, list[Row]]] = [((None, None), stream_rows)]
    if point is not None:
        parts = [((None, point), stream_rows[:cut]), ((point, None), stream_rows)]
    found = 0
    with sweeping():
        for owned, read in parts:
            number, exact = count_slice(pattern, plan, events_table(read), owned, seconds=60)
            assert exact
            found += number
    assert found == len(evaluate([pattern], table))


def stream(kinds: str) -> list[Row]:
    return [{"timestamp": place, "kind": kind, "x": place, "id": place % 2} for place, kind in enumerate(kinds)]


RISING = "a.x < b.x AND b.x < c.x AND c.x < d.x"
MORE = ", ".join(f"A {name}" for name in "efghijklmn")
BLOCKS = "A" * 40 + "B" * 40 + "C" * 40


@pytest.mark.parametrize(
    ("text", "kinds", "expected"),
    [
        ("SEQ(A a, B b, C c) WITHIN 1 day", BLOCKS, 40**3),
        ("SEQ(A a, B b) WITHIN 10 us", BLOCKS, sum(range(1, 11))),
        ("SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 1 day", BLOCKS, 40**3),
        ("SEQ(A a, B b, C c) WHERE a.x > b.x WITHIN 1 day", BLOCKS, 0),
        ("SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 1 day", BLOCKS, 40**3),
        ("SEQ(A a, A b, A c) WHERE a.x < c.x AND b.x < c.x WITHIN 1 day", "A" * 600, comb(600, 3)),
        ("SEQ(A a, A b, A c) WHERE a.x < b.x AND a.x < c.x WITHIN 10 us", "A" * 600, 590 * 45 + comb(10, 3)),
        ("SEQ(A a, B b) WHERE [id] WITHIN 1 day", BLOCKS, 2 * 20 * 20),
        ("AND(A a, B b, C c) WITHIN 1 day", BLOCKS[::-1], 40**3),
        ("SEQ(A a, ~B n, C c) WITHIN 1 day", BLOCKS, 0),
        ("SEQ(A a, ~B n, C c) WITHIN 1 day", "AAC" * 100, sum(2 * k for k in range(1, 101))),
        ("SEQ(A a, B+ v[], C c) WITHIN 1 day", BLOCKS, 40 * 40 * (2**40 - 1)),
        ("SEQ(A a, A b, A c, A d, A e, A f, A g, A h) WITHIN 1 day", "A" * 600, comb(600, 8)),
        ("SEQ(A a, A b, A c, A d, A e, A f, A g, A h) WHERE a.x < d.x WITHIN 1 day", "A" * 600, comb(600, 8)),
        ("SEQ(A a, B+ v[], C c) WHERE a.x < c.x WITHIN 1 day", "A" + "B" * 300 + "C", 2**300 - 1),
        (f"SEQ(A a, A b, A c, A d) WHERE {RISING} WITHIN 1 day", "A" * 600, comb(600, 4)),
        (f"SEQ(A a, A b, A c, A d) WHERE {RISING} WITHIN 10 us", "A" * 600, 590 * comb(10, 3) + comb(10, 4)),
        (
            f"SEQ(A a, A b, A c, A d) WHERE {RISING} AND d.x < a.x + 9 WITHIN 1 day",
            "A" * 600,
            592 * comb(8, 3) + comb(8, 4),
        ),
        (f"SEQ(A a, A b, A c, A d, {MORE}) WHERE {RISING} WITHIN 1 day", "A" * 300, comb(300, 14)),
        ("SEQ(A a, B+ v[], C c) WITHIN 1 day", "AAA" + "B" * 300 + "C", 3 * (2**300 - 1)),
    ],
)
def test_matches_are_not_found(text: str, kinds: str, expected: int) -> None:
    table = stream_schema().table(stream(kinds))
    with sweeping(), patch.object(fused, "start", side_effect=AssertionError("matches are found")):
        assert counted(f"PATTERN {text}", table) == expected


def test_counts_of_nodes_are_there_for_who_wants_them() -> None:
    pattern, table = parsed("PATTERN SEQ(A a, B b, C c) WITHIN 1 day"), stream_schema().table(stream(BLOCKS))
    with sweeping():
        tables, metrics = cep.detect([pattern], table, output="count", metrics=True)
    assert [node.passes for node in metrics.nodes][-1] == int(tables["pattern_1"]["count"][0].as_py()) == 40**3


def test_primes_are_primes() -> None:
    for most, number in ((100, 10), (2**15, 1000), (2**31, 20)):
        found = list(islice(sweep.primes_below(most), number))
        odd = range(most - 1, found[-1] - 1, -2)
        assert found == [one for one in odd if all(one % divisor for divisor in range(3, isqrt(one) + 1, 2))]


@pytest.mark.parametrize("values", [[], [np.nan], [np.nan, np.nan], [2.0, np.nan, 1.0, 2.0]])
def test_events_without_a_value_have_no_place(values: list[float]) -> None:
    known = sorted(value for value in values if value == value)
    expected = [known.index(value) if value == value else -1 for value in values]
    assert sweep.SortedValues(np.array(values, np.float64)).places().tolist() == expected


STARS = {
    "SEQ(A a, B+ v[], Ev c)": (
        "v[i].x > v[1].x",
        "v[].y <= v[v.LEN].y",
        "v[].x > a.x",
        "v[].y < c.y",
        "v[].x > a.x + 2",
    ),
    "SEQ(Ev a, Ev+ v[])": (
        "v[i].x >= v[1].x",
        "v[].x < a.x",
        "v[i].x + v[1].x > 3",
        "v[i].x < v[1].x AND v[i].s = v[1].s",
    ),
    "SEQ(Ev+ v[], Ev b, Ev c)": ("v[].x > b.x", "v[].x >= b.x AND v[].y < b.x", "v[].y - c.y < 1"),
    "SEQ(Ev a, Ev b, B+ v[], Ev+ w[])": (
        "v[].x > b.x",
        "v[].x >= b.x AND w[].y < b.x",
        "v[].x < w[1].x",
        "w[].y > b.x",
    ),
    "SEQ(A a, Ev+ v[], Ev b, Ev c, Ev d)": ("b.x < c.x AND b.x <= d.y", "d.x > c.x AND d.x > b.y AND d.x >= a.x"),
    "SEQ(Ev a, B b, Ev c, Ev d)": (
        "b.x < c.x AND b.x >= d.x",
        "c.y > a.x AND c.y <= b.y",
        "b.y < c.y AND b.y - d.x > 0",
    ),
}
"""Structures, with conditions that join one single variable with all events of others."""


BY_EVENT = {
    "SEQ(A a, B+ v[], Ev c)": (
        "v[i].x > v[1].x AND v[1].x > a.x",
        "v[].x > a.x AND v[].y < c.y",
        "v[].x > a.x AND v[].y < a.y",
    ),
    "SEQ(Ev a, Ev b, B+ v[], Ev c)": (
        "v[].x > b.x AND a.y <= b.y",
        "a.x < c.x AND v[].x - b.y < 2",
        "v[].x > a.x AND b.x < c.x",
    ),
    "SEQ(A a, B+ v[], Ev+ w[], Ev c)": (
        "v[1].x < w[1].x AND v[v.LEN].x > w[w.LEN].x",
        "v[].x > a.x AND w[].x < c.x",
        "v[].x != 2 AND v[].s = a.s AND w[].y > v[1].y",
    ),
    "SEQ(B+ v[], Ev+ w[])": (
        "v[1].x < w[1].x AND v[v.LEN].x > w[w.LEN].x",
        "v[1].y >= w[w.LEN].y AND v[v.LEN].x < w[1].x",
    ),
}
"""Structures with lists, with conditions that leave one comparison, or a star, beside those of one variable."""


@pytest.mark.parametrize("swept", [STARS, BY_EVENT], ids=["stars", "by event"])
@settings(max_examples=examples(300), deadline=None)
@given(data=st.data(), stream_rows=st.booleans().flatmap(lambda edges: rows(min_size=5, max_size=9, edges=edges)))
def test_comparisons_with_one_variable_are_counted(
    swept: dict[str, tuple[str, ...]], data: st.DataObject, stream_rows: list[Row]
) -> None:
    """Each element of a list, and single variables, are compared with one event before them, or behind them."""
    structure = data.draw(st.sampled_from(sorted(swept)))
    conditions = data.draw(st.lists(st.sampled_from(swept[structure]), min_size=1, max_size=2, unique=True))
    conditions += data.draw(st.sampled_from(([], [], ["[id]"], ["[s]"])))
    window = data.draw(st.sampled_from(("3 seconds", "1 day", "6 EVENTS")))
    pattern = parsed(f"PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {window}")
    table, bits = events_table(stream_rows), data.draw(st.sampled_from((61, -1)))
    cut = data.draw(st.integers(0, len(stream_rows)))
    point = (stream_rows[cut]["timestamp"], stream_rows[cut]["seq"]) if cut < len(stream_rows) else None
    plan = cep.plan([pattern], cep.estimate_statistics([pattern], table))
    expected = len(evaluate([pattern], table))
    with (
        sweeping(),
        patch.object(sweep, "_MERSENNE_BITS", bits),
        patch.object(sweep, "MOST_BITS_OF_A_WORD", bits + 3.0),
    ):
        [row] = cep.detect([pattern], table, output="count")["pattern_1"].to_pylist()
        assert int(row["count"]) == expected
        if point is not None:
            before, _ = count_slice(pattern, plan, events_table(stream_rows[:cut]), (None, point), seconds=60)
            behind, _ = count_slice(pattern, plan, table, (point, None), seconds=60)
            assert before + behind == expected


@pytest.mark.parametrize(
    ("text", "is_swept"),
    [
        ("SEQ(A a, B+ v[], C c) WHERE v[].x > a.x", True),
        ("SEQ(A a, B+ v[], C c) WHERE v[].x > a.x AND c.x > a.x", True),
        ("SEQ(A a, B+ v[], C c) WHERE v[].x > a.x AND v[].y < a.y", True),
        ("SEQ(A a, B+ v[], C c) WHERE v[].x > a.x AND v[].k = a.k", True),
        ("SEQ(A a, B+ v[], C c) WHERE v[].x < c.x AND v[i].x > v[i-1].x", True),
        ("SEQ(A a, ~B n, B b, A+ v[], C c) WHERE v[].x > a.x", False),
        ("SEQ(A a, B+ v[], C c) WHERE v[].x > a.x AND v[].x < c.x", False),
        ("SEQ(A a, B b, C+ v[]) WHERE v[].x > b.x", False),
        ("SEQ(A a, B b, C+ v[], A d) WHERE v[].x > b.x", False),
        ("SEQ(A a, B+ v[], C+ w[]) WHERE v[].x < w[].x", False),
        ("AND(A a, B+ v[]) WHERE v[].x > a.x", False),
        ("SEQ(A a, B b, C c, A d) WHERE a.x < b.x AND a.x < c.x AND a.x > d.x", True),
        ("SEQ(A a, B b, C c, A d, B e) WHERE b.x < c.x AND b.x < d.x AND b.x < e.x", False),
    ],
)
def test_elements_are_compared_with_the_first_or_the_last_event(text: str, *, is_swept: bool) -> None:
    """All other variables that are compared follow each other."""
    pattern = parsed(f"PATTERN {text.replace('.k', '.id')} WITHIN 1 day")
    [clause] = pattern.clauses
    assert (sweep_of(pattern, clause) is not None) == is_swept


def test_lists_above_their_first_element_are_not_found() -> None:
    """Of rising elements each list is above its first one; of falling ones, none but single ones."""
    text = "PATTERN SEQ(A a, B+ v[], C c) WHERE v[i].x {} v[1].x WITHIN 1 day"
    table = stream_schema().table(stream("AA" + "B" * 300 + "CCC"))
    assert counted(text.format(">"), table) == 6 * (2**300 - 1)
    assert counted(text.format("<"), table) == 6 * 300
    assert counted(text.format(">=").replace("day", "EVENTS").replace("1 ", "101 "), table) == 0
