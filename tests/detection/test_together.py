"""Patterns that a mechanism runs together: the tables, counts and parts that each pattern has alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS, clause_runs
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.mechanisms import Counters, Mechanism, Orders, Owned
from cep_pipeline.errors import TooManyMatches
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import events_table, stream_schema

ROWS = [{"timestamp": 10 * (i // 2), "kind": "AB"[i % 3 % 2], "x": i * 7 % 10} for i in range(60)]
TEXT = """
NAME pair PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 90 us;
NAME late PATTERN SEQ(A a, NOT(B b)) WITHIN 3 us;
NAME lists PATTERN SEQ(A a, B+ b[]) WITHIN 40 us;
NAME kept PATTERN SEQ(A a, B b) WITHIN 50 us OUTPUT NON_OVERLAP;
NAME either PATTERN OR(SEQ(A a, B b), AND(A a2, A b2)) WITHIN 40 us
"""
RUNS: list[list[str]] = []


def find_many(
    patterns: Sequence[Pattern], orders: Sequence[Orders], events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[tuple[int, Block]]:
    """One pattern's blocks between those of the others."""
    RUNS.append([pattern.name for pattern in patterns])
    found = [
        [(number, block) for block in MECHANISMS["lazy_chain_nfa"].find(pattern, own, events, owned, counters)]
        for number, (pattern, own) in enumerate(zip(patterns, orders, strict=True))
    ]
    for pair in chain.from_iterable(zip_longest(*found)):
        if pair is not None:
            yield pair


@pytest.fixture(autouse=True)
def _together(monkeypatch: pytest.MonkeyPatch) -> None:
    RUNS.clear()
    together = Mechanism("together", MECHANISMS["lazy_chain_nfa"].find, find_many=find_many, always_shares=True)
    monkeypatch.setitem(MECHANISMS.places, "together", together)


def patterns_of(text: str = TEXT) -> list[Pattern]:
    return cep.parse_patterns(text, stream_schema())


@pytest.mark.parametrize("at_once", [clause_runs.MATCHES_AT_ONCE, 10])
def test_tables_and_counts_are_those_of_each_pattern_alone(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clause_runs, "MATCHES_AT_ONCE", at_once)
    patterns, events = patterns_of(), events_table(ROWS)
    for output in ("verbose", "count"):
        chosen = [p for p in patterns if p.name != "kept"] if output == "count" else patterns
        tables = cep.detect(chosen, events, mechanism="together", output=output)
        assert list(tables) == [pattern.name for pattern in chosen]
        for pattern in chosen:
            [alone] = cep.detect([pattern], events, mechanism="lazy_chain_nfa", output=output).values()
            assert alone.num_rows
            assert tables[pattern.name].equals(alone)
    assert RUNS[0] == ["pair", "lists", "kept", "either"]  # what waits for later events is found by itself
    if at_once == 10:  # the others in parts
        assert RUNS.count(RUNS[0]) > 2
    else:
        assert RUNS[1:] == [["pair", "either"]]  # lists are counted without being made


@pytest.mark.parametrize("at_once", [clause_runs.MATCHES_AT_ONCE, 10])
@pytest.mark.parametrize("limit", [None, 5000])
def test_batches_of_patterns_come_from_one_run(
    at_once: int, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In turns, those of each as in its table; lists that need not be made are read from buffers afterwards."""
    patterns, events = patterns_of(), events_table(ROWS)
    tables = cep.detect(patterns, events, mechanism="together")
    RUNS.clear()
    monkeypatch.setattr(clause_runs, "MATCHES_AT_ONCE", at_once)
    found: dict[str, list[str]] = {pattern.name: [] for pattern in patterns}
    names = []
    for name, batch in cep.detect_batches(patterns, events, mechanism="together", limit=limit):
        found[name] += batch.column("match_id").to_pylist()
        names.append(name)
    assert found == {name: table.column("match_id").to_pylist() for name, table in tables.items()}
    listed = ["pair", "kept", "either"] if limit is None else ["pair", "lists", "kept", "either"]
    assert listed in RUNS and all(len(run) > 1 for run in RUNS)
    if at_once == 10:  # in turns
        assert names.index("either") < len(names) - 1 - names[::-1].index("pair")
    else:  # what waits for later events comes by itself
        assert [*dict.fromkeys(names)] == [*listed, *(["lists"] if limit is None else []), "late"]
        assert len(RUNS) == (1 if limit is None else 2)  # and once to count them
    with pytest.raises(TooManyMatches, match="pair"):
        next(iter(cep.detect_batches(patterns, events, mechanism="together", limit=10)))


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree"])
def test_batches_of_a_network_come_from_one_run(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, events = patterns_of(), events_table(ROWS)
    tables = cep.detect(patterns, events, mechanism=mechanism)
    runs, of = [], MECHANISMS[mechanism]

    def counted(patterns: Sequence[Pattern], *others: Any) -> Iterator[tuple[int, Block]]:
        runs.append(len(patterns))
        assert of.find_many is not None
        yield from of.find_many(patterns, *others)

    monkeypatch.setitem(MECHANISMS.places, mechanism, replace(of, find_many=counted))
    found: dict[str, list[str]] = {pattern.name: [] for pattern in patterns}
    for name, batch in cep.detect_batches(patterns, events, mechanism=mechanism):
        found[name] += batch.column("match_id").to_pylist()
    assert found == {name: table.column("match_id").to_pylist() for name, table in tables.items()}
    assert runs == [3]


SUMS = """
NAME sums PATTERN SEQ(A a, B+ b[]) WHERE sum(b[].x) > 3 * a.x WITHIN 40 us;
NAME pair PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 90 us;
NAME means PATTERN SEQ(A+ a[], B b) WHERE avg(a[].x) < b.x WITHIN 50 us
"""


@pytest.mark.parametrize("at_once", [clause_runs.MATCHES_AT_ONCE, 10])
def test_what_is_listed_to_be_compressed_is_found_in_one_run(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clause_runs, "MATCHES_AT_ONCE", at_once)
    patterns, events = patterns_of(SUMS), events_table(ROWS)
    tables = cep.detect(patterns, events, mechanism="together", output="compressed")
    assert list(tables) == ["sums", "pair", "means"]
    for pattern in patterns:
        [alone] = cep.detect([pattern], events, mechanism="lazy_chain_nfa", output="compressed").values()
        assert alone.num_rows
        assert tables[pattern.name].equals(alone)
    assert {tuple(run) for run in RUNS} == {("sums", "means")}


def test_patterns_that_are_run_one_by_one_are_done_one_by_one() -> None:
    patterns, events = patterns_of(), events_table(ROWS)
    done: list[tuple[int, int]] = []
    cep.detect(patterns, events, limit=1_000, progress=lambda *at: done.append(at))  # none is found at once
    assert done == [(number, len(patterns)) for number in range(1, len(patterns) + 1)]
    done.clear()
    cep.detect(patterns, events, mechanism="together", progress=lambda *at: done.append(at))
    assert done == [(len(patterns) - 1, len(patterns)), (len(patterns), len(patterns))]  # one waits for later events


@pytest.mark.parametrize("at_once", [clause_runs.MATCHES_AT_ONCE, 10])
def test_slices_own_what_each_pattern_owns_alone(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clause_runs, "MATCHES_AT_ONCE", at_once)
    patterns, events = patterns_of(), events_table(ROWS)
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, events))

    def ids(chosen: Sequence[Pattern], mechanism: str, **options: Any) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {pattern.name: [] for pattern in chosen}
        result = detect_slice(
            chosen,
            plan,
            events,
            ((90, 0), (200, 41)),
            lambda pattern, batch: found[pattern.name].extend(batch["match_id"].to_pylist()),
            mechanism,
            **options,
        )
        written = {name: number for name, number in result.matches.items() if name not in options.get("counted", ())}
        assert written == {name: len(own) for name, own in found.items() if name in written}
        assert all(result.matches.values())
        return found

    together = ids(patterns, "together")
    for pattern in patterns:
        assert ids([pattern], "lazy_chain_nfa") == {pattern.name: together[pattern.name]}
    assert ids(patterns, "together", counted=["pair"])["pair"] == []


@pytest.mark.parametrize("output", ["verbose", "count"])
def test_a_limit_holds_for_each_pattern(output: str) -> None:
    patterns, events = patterns_of(TEXT.replace("NAME kept", "NAME few").replace("OUTPUT NON_OVERLAP", "")), ROWS
    table = events_table(events)
    tables = cep.detect(patterns, table, mechanism="together")
    most = max(found.num_rows for found in tables.values())
    for name, found in tables.items():
        if found.num_rows == most:
            largest = name
    limited = cep.detect(patterns, table, mechanism="together", limit=most)
    assert all(limited[name].equals(tables[name]) for name in tables)
    if output == "verbose":
        with pytest.raises(TooManyMatches, match=rf"{largest}.*{most:,}"):
            cep.detect(patterns, table, mechanism="together", limit=most - 1)
    else:  # single events, and lists without sums, are counted whatever the limit is
        counts = cep.detect(patterns, table, mechanism="together", output="count", limit=0)
        assert {name: int(found["count"][0].as_py()) for name, found in counts.items()} == {
            name: found.num_rows for name, found in tables.items()
        }
