"""Options of NFA^b change what it costs, never what it finds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanism import RunCounts
from cep_pipeline.detection.nfab import memory
from cep_pipeline.errors import InputError
from tests.answers import comparable, from_tables
from tests.contracts.mechanisms import DRAWN, parsed
from tests.language_cases import stream
from tests.oracle import evaluate
from tests.pattern_strategies import Statement, statements
from tests.streams import Row, events_table, rows, stream_schema

OPTIONS = MECHANISMS["nfab"].options
ANY_STATEMENT = st.sampled_from([replace(f, kleene=True) for f in DRAWN["nfab"]]).flatmap(statements)


@pytest.mark.parametrize("option", OPTIONS)
@settings(max_examples=100, deadline=None)
@given(statement=ANY_STATEMENT, stream_rows=rows())
def test_an_option_changes_no_match(option: str, statement: Statement, stream_rows: list[Row]) -> None:
    pattern, table = parsed(statement), events_table(stream_rows)
    tables = cep.detect([pattern], table, mechanism="nfab", options=[option])
    assert comparable(from_tables([pattern], tables)) == comparable(evaluate([pattern], table))


@pytest.mark.parametrize("strategy", ["skip_till_next_match", "skip_till_any_match"])
@settings(max_examples=60, deadline=None)
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
        patched.setattr(memory, "ELEMENTS_AT_ONCE", room)
        tables = [cep.detect([pattern], table, mechanism="nfab", options=own) for own in ([], ["merge"])]
    for found in tables:
        assert comparable(from_tables([pattern], found)) == comparable(evaluate([pattern], table))


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


def test_unknown_options_are_refused_by_name() -> None:
    [pattern] = cep.parse_patterns("PATTERN SEQ(A a, B b) WITHIN 1 second", stream_schema())
    table = events_table(stream("A 1"))
    with pytest.raises(InputError, match=r"nfab has no option 'fast'; it knows .*merge"):
        cep.detect([pattern], table, mechanism="nfab", options=["fast"])
    with pytest.raises(InputError, match="fused has no option 'merge'"):
        cep.detect([pattern], table, mechanism="fused", options=["merge"])
