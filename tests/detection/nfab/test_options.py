"""Options of NFA^b change what it costs, never what it finds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.mechanisms import EVERYTHING, RunCounts
from cep_pipeline.detection.nfab import automaton_runs
from cep_pipeline.errors import InputError
from tests.answers import comparable, from_tables
from tests.contracts.mechanisms import DRAWN
from tests.language_cases import stream
from tests.oracle import evaluate
from tests.pattern_strategies import Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

OPTIONS = MECHANISMS["nfab"].options
ANY_STATEMENT = st.sampled_from([replace(f, kleene=True) for f in DRAWN["nfab"]]).flatmap(statements)


@pytest.mark.parametrize("option", OPTIONS)
@settings(max_examples=examples(100), deadline=None)
@given(statement=ANY_STATEMENT, stream_rows=rows())
def test_an_option_changes_no_match(option: str, statement: Statement, stream_rows: list[Row]) -> None:
    pattern, table = statement.pattern, events_table(stream_rows)
    tables = cep.detect([pattern], table, mechanism="nfab", options=[option])
    assert comparable(from_tables([pattern], tables)) == comparable(evaluate([pattern], table))


@pytest.mark.parametrize("strategy", ["skip_till_next_match", "skip_till_any_match"])
@settings(max_examples=examples(60), deadline=None)
@given(events=st.lists(st.tuples(st.sampled_from("AAAB"), st.integers(0, 3)), max_size=14), room=st.integers(1, 40))
def test_matches_of_merged_runs_are_written_in_any_room(
    strategy: str, events: list[tuple[str, int]], room: int
) -> None:
    """What is copied from matches written before is there, however often the output is handed on."""
    iterator = "a[i].x >= a[i-1].x AND " if room % 2 else ""
    text = f"NAME p PATTERN SEQ(A+ a[], B b) WHERE {strategy} {{ {iterator}b.x > 0 }} WITHIN 9 seconds"
    [pattern] = cep.parse_patterns(text, stream_schema())
    table = events_table(stream("; ".join(f"{kind} {at} x={x}" for at, (kind, x) in enumerate(events))))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(automaton_runs, "ELEMENTS_AT_ONCE", room)
        tables = [cep.detect([pattern], table, mechanism="nfab", options=own) for own in ([], ["merge"])]
    for found in tables:
        assert comparable(from_tables([pattern], found)) == comparable(evaluate([pattern], table))


STRUCTURES = {
    "SEQ(A+ a[], B b)": "b.x > a[1].x",
    "SEQ(A a, B+ b[])": "b[i].x > a.x",
    "SEQ(A+ a[], B b, A c)": "c.x < b.x",
    "SEQ(A a, B b, A c)": "c.x > a.x",
    "SEQ(A a, B b)": "b.x >= a.x",
    "SEQ(A a, NOT(C n), B+ b[])": "n.x = a.x",
    "SEQ(A+ a[], B b, NOT(C n))": "n.x > b.x",
    "A a": "a.x > 1",
    "OR(SEQ(A+ a[], B b), SEQ(B d, A e))": "b.x > d.x",
}
STRATEGIES = ("skip_till_any_match", "skip_till_next_match", "partition_contiguity", "strict_contiguity")
AGREEMENTS = (("", ""), ("[s]", ""), ("", "PARTITION BY s"), ("[s]", "PARTITION BY s"), ("[f]", "PARTITION BY s"))


@pytest.mark.parametrize("options", [[], ["merge"], ["backtrack"]])
@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=examples(60), deadline=None)
@given(
    structure=st.sampled_from([*STRUCTURES]),
    agreement=st.sampled_from(AGREEMENTS),
    window=st.sampled_from(["9 seconds", "3 seconds", "5 EVENTS"]),
    consume=st.sampled_from(["", "CONSUME MATCHED"]),
    conditions=st.booleans(),
    events=st.lists(
        st.tuples(
            st.sampled_from("AAABBC"),
            st.integers(0, 1),
            st.integers(0, 3),
            st.sampled_from(["s=u", "s=v", "s=u f=true", "s=v f=false", "f=true"]),
        ),
        max_size=18,
    ),
)
def test_ending_runs_at_a_match_changes_no_non_overlapping_match(
    options: list[str],
    strategy: str,
    structure: str,
    agreement: tuple[str, str],
    window: str,
    consume: str,
    conditions: bool,
    events: list[tuple[str, int, int, str]],
) -> None:
    test, partition = agreement
    if structure.startswith("OR("):
        conditions = False
    where = " AND ".join(filter(None, [STRUCTURES[structure] if conditions else "", test])) or "1 = 1"
    text = (
        f"NAME p PATTERN {structure} WHERE {strategy} {{ {where} }} WITHIN {window} {partition} "
        f"OUTPUT NON_OVERLAP {consume}"
    )
    [pattern] = cep.parse_patterns(text, stream_schema())
    at, lines = 0, []
    for kind, later, x, others in events:
        at += later
        lines.append(f"{kind} {at} x={x} {others}")
    table = events_table(stream("; ".join(lines)))
    found = from_tables([pattern], cep.detect([pattern], table, mechanism="nfab", options=options))
    assert comparable(found) == comparable(evaluate([pattern], table))


@pytest.mark.parametrize("options", [[], ["merge"], ["backtrack"]])
@pytest.mark.parametrize(
    ("structure", "where", "elsewhere"),
    [
        ("SEQ(A+ a[], B b)", "[s] AND b.x > a[1].x", "A 1 s=v x=0; B 2 s=v x=1"),
        ("OR(SEQ(A+ a[], B b), SEQ(C c, C d))", "b.x > a[1].x", "C 1; C 2"),
    ],
)
def test_a_match_that_overlaps_one_of_other_runs_ends_none(
    options: list[str], structure: str, where: str, elsewhere: str
) -> None:
    text = f"NAME p PATTERN {structure} WHERE skip_till_next_match {{ {where} }} WITHIN 9 seconds OUTPUT NON_OVERLAP"
    [pattern] = cep.parse_patterns(text, stream_schema())
    table = events_table(stream(f"A 0 s=u x=0; {elsewhere}; A 3 s=u x=2; B 4 s=u x=1; B 5 s=u x=3"))
    found = cep.detect([pattern], table, mechanism="nfab", options=options)
    kept = [[part["seq"] for part in row] for row in found["p"].column("bindings").to_pylist()]
    assert kept == [[1, 2], [3, 5]]
    assert comparable(from_tables([pattern], found)) == comparable(evaluate([pattern], table))


def test_a_slice_hands_on_all_matches_for_output_to_choose_from() -> None:
    """Which of them are kept depends on what was kept before the slice."""
    text = "NAME p PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match {{ 1 = 1 }} WITHIN 9 seconds OUTPUT {}"
    table = events_table(stream("A 0; A 1; B 2; B 3"))
    for output in ("ALL", "NON_OVERLAP"):
        [pattern] = cep.parse_patterns(text.format(output), stream_schema())
        plan = cep.plan([pattern], cep.estimate_statistics([pattern], table), planner="trivial")
        result = detect_slice([pattern], plan, table, EVERYTHING, lambda *_: None, "nfab")
        assert result.matches == {"p": 4}


def test_a_match_ends_all_runs_that_it_overlaps() -> None:
    where = "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match {{ 1 = 1 }} WITHIN 99 seconds OUTPUT {}"
    events = "A 1; A 2; B 3; A 4; B 5; B 6; B 7; A 8; B 9"
    shown = {
        (output, *options): counts_of(where.format(output), events, *options).read
        for output in ("ALL", "NON_OVERLAP")
        for options in ([], ["backtrack"])
    }
    # Each run is followed up to the first B behind its start, instead of to the end of its window.
    assert shown["NON_OVERLAP",] == 3 + 1 + 1
    assert shown["ALL",] == 8 + 7 + 5 + 1
    assert shown["NON_OVERLAP", "backtrack"] < shown["ALL", "backtrack"]


def counts_of(text: str, events: str, *options: str) -> RunCounts:
    [pattern] = cep.parse_patterns(text, stream_schema())
    _, metrics = cep.detect([pattern], events_table(stream(events)), mechanism="nfab", metrics=True, options=options)
    return metrics.runs[pattern.name]


def test_runs_are_merged_when_all_that_matters_is_equal() -> None:
    text = "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match {{ {} }} WITHIN 9 seconds"
    events = "A 1 x=1; A 2 x=3; A 3 x=2; A 4 x=4; B 5 x=1"
    # With p1 all runs that have taken one event are equal.
    assert counts_of(text.format("1 = 1"), events, "merge").merged == 3
    # With p2 the price that was taken last decides: runs from 1, 2 and 3 meet in the event of 4.
    assert counts_of(text.format("a[i].x > a[i-1].x"), events, "merge").merged == 3
    # With the minimum the least price decides, whatever was taken last: the run from 1 has ignored the event of 2.
    least = text.format("a[i].x > min(a[..i-1].x)")
    assert counts_of(least, events, "merge").merged == 0
    assert counts_of(least, "A 1 x=1; A 2 x=1; A 3 x=2; B 4 x=1", "merge").merged == 1
    assert counts_of(text.format("1 = 1"), events).merged == 0


def test_merging_counts_exponentially_many_lists_with_one_run() -> None:
    text = "PATTERN SEQ(A+ a[], B b) WITHIN 99 seconds"
    events = "; ".join(f"A {second}" for second in range(12)) + "; B 50"
    merged, basic = counts_of(text, events, "merge"), counts_of(text, events)
    assert basic.selected == 2 * (2**12 - 1)  # each list, and each match
    assert merged.selected == 12 + 11 + 1


def test_an_expired_run_is_left_out_of_the_matches_of_a_merged_one() -> None:
    text = "NAME p PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match { 1 = 1 } WITHIN 4 seconds"
    [pattern] = cep.parse_patterns(text, stream_schema())
    table = events_table(stream("A 1; A 2; A 4; B 5; B 6; B 8; B 9"))
    tables = cep.detect([pattern], table, mechanism="nfab", options=["merge"])
    found = [[part["seq"] for part in row] for row in tables["p"].column("bindings").to_pylist()]
    assert found == [[0, 1, 2, 3], [1, 2, 3], [2, 3], [1, 2, 4], [2, 4], [2, 5]]


@pytest.mark.parametrize("option", [None, *OPTIONS])
def test_entries_that_the_window_has_left_are_used_again(option: str | None) -> None:
    text = "NAME p PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match { a[i].x >= a[1].x } WITHIN {} seconds"
    events = "; ".join(f"{'AAAAB'[at % 5]} {at} x={at * 7 % 11}" for at in range(4_000))
    options = [option] if option else []
    short, long = (counts_of(text.replace("{}", str(window)), events, *options) for window in (5, 60))
    assert short.selected > 8_000
    assert short.most_entries <= 4_096
    [pattern] = cep.parse_patterns(text.replace("{}", "60"), stream_schema())
    table = events_table(stream(events))
    expected = cep.detect([pattern], table, mechanism="nfab", output="count")
    found = cep.detect([pattern], table, mechanism="nfab", options=options)
    assert long.selected > 30_000
    assert found["p"].num_rows == int(expected["p"].column("count")[0].as_py())


def test_unknown_options_are_refused_by_name() -> None:
    [pattern] = cep.parse_patterns("PATTERN SEQ(A a, B b) WITHIN 1 second", stream_schema())
    table = events_table(stream("A 1"))
    with pytest.raises(InputError, match=r"nfab has no option 'fast'; it knows .*merge"):
        cep.detect([pattern], table, mechanism="nfab", options=["fast"])
    with pytest.raises(InputError, match="fused has no option 'merge'"):
        cep.detect([pattern], table, mechanism="fused", options=["merge"])
