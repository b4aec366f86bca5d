"""Numbers of events of lists, optional variables and alternatives of types: their meaning, and what they cost."""

from __future__ import annotations

from math import comb
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.nfab.automaton import describe
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern
from tests.streams import SECOND, Row, events_table, rows, stream_schema
from tests.thoroughness import examples


def parsed(text: str, name: str = "p") -> Pattern:
    [pattern] = cep.parse_patterns(f"NAME {name} PATTERN {text}", stream_schema())
    return pattern


def letters(kinds: str, **columns: list[Any]) -> pa.Table:
    """An event for each letter, which is its type, a second after the one before."""
    stream_rows = [
        {"timestamp": place * SECOND, "seq": place, "kind": kind, **{name: own[place] for name, own in columns.items()}}
        for place, kind in enumerate(kinds)
    ]
    return events_table(stream_rows)


def found(text: str, events: pa.Table, **options: Any) -> list[list[tuple[str, int]]]:
    table = cep.detect([parsed(text)], events, **options)["p"]
    return [[(one["variable"], one["seq"]) for one in bindings] for bindings in table["bindings"].to_pylist()]


def written(text: str, events: pa.Table, **options: Any) -> list[str]:
    """Each match as its events, such as `a0 k2 k3`."""
    return [" ".join(f"{variable}{seq}" for variable, seq in match) for match in found(text, events, **options)]


def count(text: str, events: pa.Table) -> int:
    return int(cep.detect([parsed(text)], events, output="count")["p"]["count"][0].as_py())


def on_each_mechanism(text: str, events: pa.Table) -> dict[str, list[list[tuple[str, int]]]]:
    answers = {}
    for mechanism in MECHANISMS:
        try:
            answers[mechanism] = found(text, events, mechanism=mechanism)
        except UnsupportedPattern as refusal:
            assert refusal.mechanism == mechanism
    return answers


STRUCTURES = (
    "{list}",
    "SEQ(A a, {list}, B b)",
    "SEQ({list}, B b)",
    "SEQ(A a, {list})",
    "AND(A a, {list})",
    "SEQ(C+ c[], {list})",
)
CONDITIONS = ("", "k[i].x > k[i-1].x", "sum(k[].x) > 3", "k[].x > 1", "k[1].x < k[k.LEN].x", "[id]")
LIMITS = ((1, 1), (2, 2), (1, 2), (2, 3), (3, None), (2, None), (4, 6))


@settings(max_examples=examples(120), deadline=None)
@given(
    structure=st.sampled_from(STRUCTURES),
    condition=st.sampled_from(CONDITIONS),
    limits=st.sampled_from(LIMITS),
    window=st.sampled_from(["4 seconds", "9 seconds", "6 EVENTS"]),
    mechanism=st.sampled_from([*MECHANISMS, None]),
    stream_rows=rows(max_size=11, types=("A", "B", "C", "X.1", "X.1")),
)
def test_a_number_of_events_is_a_condition_on_the_length(
    structure: str,
    condition: str,
    limits: tuple[int, int | None],
    window: str,
    mechanism: str | None,
    stream_rows: list[Row],
) -> None:
    least, most = limits
    of_length = [f"k.LEN >= {least}", *([f"k.LEN <= {most}"] if most is not None else [])]
    conditions = [condition] if condition else []
    number = f"{{{least},{'' if most is None else most}}}"
    where = f" WHERE {condition}" if condition else ""
    short = f'{structure.format(list=f"""(C | "X.1"){number} k[]""")}{where} WITHIN {window}'
    long = structure.format(list='(C | "X.1")+ k[]')
    long = f"{long} WHERE {' AND '.join([*conditions, *of_length])} WITHIN {window}"
    table = events_table(stream_rows)
    expected = found(long, table)
    try:
        assert found(short, table, mechanism=mechanism) == expected
    except UnsupportedPattern as refusal:
        assert refusal.mechanism == mechanism
    assert count(short, table) == len(expected)
    compressed = cep.detect([parsed(short)], table, output="compressed")["p"]
    assert sum(map(int, compressed["count"].to_pylist())) == len(expected)


@settings(max_examples=examples(60), deadline=None)
@given(
    outer=st.sampled_from([("SEQ(", ")"), ("AND(", ")"), ("SEQ(~X v, ", ")")]),
    list_=st.booleans(),
    condition=st.sampled_from(["", "a.x <= c.x", "[id]"]),
    stream_rows=rows(max_size=9, types=("A", "B", "C")),
)
def test_an_optional_variable_is_an_or_of_both(
    outer: tuple[str, str], list_: bool, condition: str, stream_rows: list[Row]
) -> None:
    table = events_table(stream_rows)
    where = f" WHERE {condition}" if condition else ""
    begin, end = outer
    optional, required = ("B* b[]", "B+ b[]") if list_ else ("B? b", "B b")
    both = found(f"{begin}A a, {optional}, C c{end}{where} WITHIN 6 seconds", table)
    parts = [found(f"{begin}A a, {part}C c{end}{where} WITHIN 6 seconds", table) for part in (f"{required}, ", "")]
    assert sorted(both) == sorted([*parts[0], *parts[1]])
    assert count(f"{begin}A a, {optional}, C c{end}{where} WITHIN 6 seconds", table) == len(both)


@pytest.mark.parametrize(
    ("text", "kinds", "expected"),
    [
        # A run ignores the third C, which it cannot take; under a contiguity that ends it.
        ("SEQ(A a, C{1,2} c[], B b) WHERE skip_till_next_match { a.seq >= 0 }", "ACCCB", ["a0 c1 c2 b4"]),
        ("SEQ(A a, C{1,2} c[], B b) WHERE strict_contiguity { a.seq >= 0 }", "ACCCBACCB", ["a5 c6 c7 b8"]),
        # A B before the second C cannot begin b.
        ("SEQ(A a, C{2,} c[], B b) WHERE skip_till_next_match { a.seq >= 0 }", "ACBCB", ["a0 c1 c3 b4"]),
        ("SEQ(A a, C{2,} c[], B b) WHERE partition_contiguity { a.seq >= 0 }", "ACBCB", []),
        # The last variable is reported from the second C on, and no further than the third.
        ("SEQ(A a, C{2,3} c[]) WHERE skip_till_next_match { a.seq >= 0 }", "ACCCC", ["a0 c1 c2", "a0 c1 c2 c3"]),
        # The first variable is full after one event, and another run begins with the next.
        ("SEQ(C{1} c[], B b) WHERE skip_till_next_match { b.seq >= 0 }", "CCB", ["c0 b2", "c1 b2"]),
        # A list that is full is left with the next event that begins b, like single variables: there is no copy.
        ("SEQ(C{2} c[], B b) WHERE skip_till_next_match { b.seq >= 0 }", "CCBB", ["c0 c1 b2"]),
        ("SEQ(C{2} c[], B b) WHERE skip_till_next_match { b.seq > 2 }", "CCBB", ["c0 c1 b3"]),
        ("SEQ(C{2} c[], B b) WHERE skip_till_next_match { last(c[].seq) > 1 }", "CCBCB", ["c1 c3 b4"]),
        ("SEQ(C{2} c[], B b) WHERE skip_till_next_match { c[i].seq > c[i-1].seq + 1 }", "CACBB", ["c0 c2 b3"]),
        ("SEQ(A{1} a[], C{2} c[], B{1} b[]) WHERE skip_till_next_match { TRUE }", "ACCCBB", ["a0 c1 c2 b4"]),
        # One that is not full, or has no greatest number, leaves a copy.
        ("SEQ(C{1,2} c[], B b) WHERE skip_till_next_match { TRUE }", "CBCBB", ["c0 b1", "c0 c2 b3", "c2 b3", "c2 b4"]),
        ("SEQ(C{2,} c[], B b) WHERE skip_till_next_match { TRUE }", "CCBB", ["c0 c1 b2", "c0 c1 b3"]),
        # What may begin next differs by clause: with the optional variable, and without it.
        ("SEQ(C{2} c[], A? a, B b) WHERE skip_till_next_match { TRUE }", "CCBABB", ["c0 c1 b2", "c0 c1 a3 b4"]),
        ("SEQ(C{2} c[], A* a[]) WHERE skip_till_next_match { TRUE }", "CCAA", ["c0 c1", "c0 c1 a2", "c0 c1 a2 a3"]),
        (
            "OR(SEQ(C{2} c[], B b), SEQ(C d, B e)) WHERE skip_till_next_match { TRUE }",
            "CCBB",
            ["c0 c1 b2", "d0 e2", "d1 e2"],
        ),
        # A negation is asked of the match that the run finds, which does not look for another one.
        ("SEQ(C{2} c[], ~A n, B b) WHERE skip_till_next_match { TRUE }", "CCABB", []),
        # The copy that leaves c goes on although the list may still grow.
        ("SEQ(C{1,2} c[], (B | C) b) WHERE skip_till_next_match { b.seq >= 0 }", "CCC", ["c0 b1", "c0 c1 b2", "c1 b2"]),
        # An event that d can take must be taken, in the clause with d; the clause without it has runs of its own.
        ("SEQ(A a, C? c, B b) WHERE skip_till_next_match { a.seq >= 0 }", "ACB", ["a0 b2", "a0 c1 b2"]),
        ("SEQ(A a, C* c[], B b) WHERE strict_contiguity { a.seq >= 0 }", "ACBAB", ["a0 c1 b2", "a3 b4"]),
        # A condition on LEN is tested when c is left, with all three taken.
        ("SEQ(A a, C+ c[], B b) WHERE skip_till_next_match { c.LEN <= 2 }", "ACCCB", []),
    ],
)
def test_runs(text: str, kinds: str, expected: list[str]) -> None:
    events = letters(kinds)
    for options in ((), ("merge",), ("backtrack",)):
        assert sorted(written(f"{text} WITHIN 1 minute", events, mechanism="nfab", options=options)) == sorted(expected)


@settings(max_examples=examples(120), deadline=None)
@given(
    lists=st.lists(st.tuples(st.sampled_from(["A", "B", "(A | B)"]), st.integers(1, 3)), min_size=1, max_size=3),
    rising=st.sets(st.integers(0, 2)),
    strategy=st.sampled_from(["skip_till_next_match", "skip_till_next_match", "partition_contiguity"]),
    stream_rows=rows(min_size=6, edges=False, types=("A", "B")),
)
def test_runs_of_lists_of_n_events_are_those_of_n_variables(
    lists: list[tuple[str, int]], rising: set[int], strategy: str, stream_rows: list[Row]
) -> None:
    short, long = [], []
    short_conditions, long_conditions = ["TRUE"], ["TRUE"]
    for place, (types, number) in enumerate(lists):
        short.append(f"{types}{{{number}}} k{place}[]")
        long += [f"{types} k{place}_{element}" for element in range(number)]
        if place in rising:
            short_conditions.append(f"k{place}[i].x > k{place}[i-1].x")
            long_conditions += [f"k{place}_{later}.x > k{place}_{later - 1}.x" for later in range(1, number)]
    events = events_table(stream_rows)
    of_lists, of_variables = (
        [
            [seq for _, seq in match]
            for match in found(
                f"SEQ({', '.join(operands)}) WHERE {strategy} {{ {' AND '.join(conditions)} }} WITHIN 1 day", events
            )
        ]
        for operands, conditions in ((short, short_conditions), (long, long_conditions))
    )
    assert of_lists == of_variables


@settings(max_examples=examples(40), deadline=None)
@given(
    first=st.sampled_from(["A{1,2}", "A{2}", "(A | C)+", "A{2,}"]),
    second=st.sampled_from(["B b", "(B | C){2,3} b[]", "B{1,2} b[]"]),
    strategy=st.sampled_from(["skip_till_next_match", "skip_till_any_match", "partition_contiguity"]),
    stream_rows=rows(max_size=12, edges=False, types=("A", "B", "C")),
)
def test_merged_and_postponed_runs_count_their_events(
    first: str, second: str, strategy: str, stream_rows: list[Row]
) -> None:
    text = f"SEQ({first} a[], {second}) WHERE {strategy} {{ a[].x > 0 }} WITHIN 6 seconds"
    table = events_table(stream_rows)
    expected = found(text, table)
    for option in ("merge", "backtrack"):
        assert found(text, table, mechanism="nfab", options=(option,)) == expected


def test_longer_lists_than_wanted_are_never_tried() -> None:
    """All sub-lists of 40 events would be 2**40."""
    answers = on_each_mechanism("SEQ(A a, C{2} c[]) WITHIN 1 minute", letters("A" + "C" * 40))
    assert set(answers) == set(MECHANISMS)
    assert all(len(answer) == comb(40, 2) for answer in answers.values())
    # Nor are beginnings that cannot become long enough, where lists are made at once.
    assert len(found("SEQ(A a, C{39,} c[]) WITHIN 1 minute", letters("A" + "C" * 40))) == 41


def test_lists_are_counted_without_being_listed() -> None:
    events = letters("A" + "C" * 300 + "B")
    within = "WITHIN 1 day"
    assert count(f"SEQ(A a, C{{3,5}} c[], B b) {within}", events) == sum(comb(300, size) for size in (3, 4, 5))
    assert count(f"SEQ(A a, C{{3,}} c[], B b) {within}", events) == 2**300 - sum(comb(300, size) for size in range(3))
    assert count(f"C{{2,299}} c[] {within}", events) == 2**300 - 302
    assert count(f"SEQ(A a, C* c[], B b) {within}", events) == 2**300
    ascending = letters("A" + "C" * 60 + "B", x=[*range(62)])
    rising = "WHERE c[i].x > c[i-1].x"
    for limits, sizes in (("2,3", (2, 3)), ("40", (40,)), ("40,", range(40, 61)), ("1,60", range(1, 61)), ("61", ())):
        expected = sum(comb(60, size) for size in sizes)
        assert count(f"SEQ(A a, C{{{limits}}} c[], B b) {rising} {within}", ascending) == expected
        assert count(f"C{{{limits}}} c[] {rising} {within}", ascending) == expected
    compressed = cep.detect([parsed(f"SEQ(A a, C{{2,3}} c[], C{{2}} d[]) {within}")], ascending, output="compressed")
    # Four or five of 60 events, of which the last two are d.
    assert sum(map(int, compressed["p"]["count"].to_pylist())) == comb(60, 4) + comb(60, 5)


def test_absent_variables_in_return() -> None:
    columns = "b.x AS x, c.LEN AS n, c.LEN + 1 AS n1, count(c[].x) AS k, sum(c[].x) AS s, c[1].x AS f, a.x + b.x AS t"
    table = cep.detect(
        [parsed(f"SEQ(A a, B? b, C* c[]) WITHIN 1 day RETURN {columns}")], letters("ABC", x=[1, 2, None])
    )["p"]
    values = table.drop_columns(["pattern", "match_id", "start_ts", "end_ts"]).to_pylist()
    shown = [("".join(one["variable"] for one in row.pop("bindings")), *row.values()) for row in values]
    assert shown == [
        ("a", None, 0, 1, 0, None, None, None),
        ("ab", 2, 0, 1, 0, None, None, 3),
        ("abc", 2, 1, 2, 0, None, None, 3),
        ("ac", None, 1, 2, 0, None, None, None),
    ]
    # Where no match has the list at all, and its matches are not written as lists.
    [row] = cep.detect([parsed("SEQ(A a, C* c[]) WITHIN 1 day RETURN c.LEN AS n")], letters("A"))["p"].to_pylist()
    assert row["n"] == 0


def test_a_list_of_another_branch_is_null_unless_it_is_optional() -> None:
    events = letters("AB")
    for quantifier, expected in (("+", None), ("*", 0)):
        text = f"OR(SEQ(C{quantifier} c[], A a), B b) WITHIN 1 day RETURN c.LEN AS n"
        assert cep.detect([parsed(text)], events)["p"]["n"].to_pylist()[-1] == expected


def test_equal_clauses_count_once() -> None:
    """Both ways to leave out a variable of the OR give the same clause."""
    text = "SEQ(OR(A? a, B? b), C c) WITHIN 1 day"
    events = letters("ABC")
    assert sorted(written(text, events)) == ["a0 c2", "b1 c2", "c2"]
    assert count(text, events) == 3
    compressed = cep.detect([parsed(text)], events, output="compressed")["p"]
    assert cep.expand(compressed).read_all().num_rows == 3


def test_alternatives_of_types() -> None:
    events = letters("ABCAX")
    assert written("SEQ((A | B) v, C c) WITHIN 1 day", events) == ["v0 c2", "v1 c2"]
    assert written("SEQ(A a, ~(B | C) n, (A | X) v) WITHIN 1 day", events) == ["a3 v4"]
    assert written("AND((A | B) v, (B | C) w) WITHIN 1 day", events) == written(
        "AND(Ev v, Ev w) WHERE v.kind IN ('A', 'B') AND w.kind IN ('B', 'C') WITHIN 1 day", events
    )
    for answer in on_each_mechanism("AND((A | B) v, (B | A) w, (C | Ev) c) WITHIN 1 day", letters("ABC")).values():
        assert len(answer) == 2  # the C is neither v nor w


def test_an_automaton_says_where_lists_are_full() -> None:
    text = "SEQ(A a, (B | C){2,3} k[], A b) WHERE skip_till_next_match { a.x < 3 } WITHIN 1 second"
    shown = describe(parsed(text))
    takes, proceeds = "k[i] is (B | C) AND k.LEN <= 3", "k.LEN >= 2 AND b is A"
    assert f"take    -> k[i]   {takes}" in shown
    assert f"proceed -> b      {proceeds}" in shown
    assert f"ignore  -> k[i]   NOT ({takes}) AND NOT (k.LEN = 3 AND {proceeds}) AND within 1 second" in shown
    assert "NOT (k.LEN = 3" not in describe(parsed(text.replace("next", "any")))


def test_why_knows_numbers_of_events() -> None:
    pattern = parsed("SEQ(A a, C{2,3} c[], B? b) WITHIN 1 minute")
    events = letters("ACCCCB")
    assert cep.why(pattern, events, {"a": 0, "c": [1, 2], "b": 5}).is_match
    assert cep.why(pattern, events, {"a": 0, "c": [1, 2]}).is_match
    short = cep.why(pattern, events, {"a": 0, "c": [1]})
    assert [(one.rule, one.text, one.seen) for one in short.failed] == [("condition", "c.LEN >= 2", "1 >= 2")]
    assert cep.why_not(pattern, events, {"b": 5}).matches.matches == comb(4, 2) + comb(4, 3)
    not_all = cep.why_not(pattern, events)
    assert not_all.matches.matches == 2 * (comb(4, 2) + comb(4, 3))
    without = {one.text: one.without.matches for one in not_all.left_out}
    assert without["c.LEN >= 2"] == 2 * (4 + comb(4, 2) + comb(4, 3))
    assert without["c.LEN <= 3"] == 2 * (comb(4, 2) + comb(4, 3) + 1)
    assert [one.count.matches for one in not_all.reached if one.part == 0] == [1, 10, 10]


def test_why_knows_that_a_full_list_is_left() -> None:
    events = letters("CCBB")
    pattern = parsed("SEQ(C{2} c[], B b) WHERE skip_till_next_match { TRUE } WITHIN 1 minute")
    assert cep.why(pattern, events, {"c": [0, 1], "b": 2}).is_match
    second = cep.why(pattern, events, {"c": [0, 1], "b": 3})
    assert [(one.rule, one.seen) for one in second.failed] == [
        ("strategy", "the run takes b = B at 1970-01-01 00:00:02.000 instead")
    ]
    without = {one.text: one.without.matches for one in cep.why_not(pattern, events).left_out}
    assert without.items() >= {"c.LEN >= 2": 3, "c.LEN <= 2": 2, "skip_till_next_match": 2}.items()


def test_a_plan_expects_lists_of_so_many_events() -> None:
    events = letters("ACCB" * 50)
    pattern = parsed("SEQ(A a, C{2} c[], B b) WITHIN 40 seconds")
    unlimited = parsed("SEQ(A a, C+ c[], B b) WITHIN 40 seconds")
    expected = []
    for one in (pattern, unlimited):
        plan = cep.plan([one], cep.estimate_statistics([one], events), planner="trivial")
        [clause] = plan.for_pattern("p").clauses
        assert not any("LEN" in tested.condition for tested in clause.steps[1].conditions)
        expected.append(clause.steps[1].ln_partial_matches)
    assert expected[0] < expected[1] - 2
