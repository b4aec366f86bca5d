"""A slice in parts: the same matches in the same order, and never more at once than the limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS, clause_runs
from cep_pipeline.detection.clause_runs import JointRun, count_blocks
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Mechanism
from cep_pipeline.errors import TooManyMatches
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block, ListBlock
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.observed import NodeCounts
from tests.streams import events_table, stream_schema

ROWS = [{"timestamp": 10 * (i // 2), "kind": "AB"[i % 3 % 2], "x": i * 7 % 10} for i in range(60)]


def patterns_of(text: str) -> list[Any]:
    return cep.parse_patterns(text, stream_schema())


PATTERNS = [
    "PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 90 us",
    "PATTERN SEQ(A a, A b, B c) WITHIN 60 us TIES ANY",
    "PATTERN B b WITHIN 1 second",
]


@pytest.mark.parametrize("text", PATTERNS)
@pytest.mark.parametrize("limit", [1, 2, 7, 40, 10_000])
def test_parts_follow_each_other_in_order(text: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = patterns_of(text)
    events = events_table(ROWS)
    unlimited = clause_runs.MATCHES_AT_ONCE
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, events))
    whole, counted = cep.detect(patterns, events, plan=plan, metrics=True)
    assert whole["pattern_1"].num_rows >= 20
    for owned in (EVERYTHING, ((90, 0), (200, 41))):
        found: dict[int, list[str]] = {}
        for at_once in (unlimited, limit):
            monkeypatch.setattr(clause_runs, "MATCHES_AT_ONCE", at_once)
            ids: list[str] = []
            result = detect_slice(
                patterns, plan, events, owned, lambda _, batch, ids=ids: ids.extend(batch["match_id"].to_pylist())
            )
            assert result.matches == {"pattern_1": len(ids)}
            found[at_once] = ids
            if owned == EVERYTHING:
                assert ids == whole["pattern_1"].column("match_id").to_pylist()
                passes = [node.passes for node in result.metrics.nodes]
                assert passes[-1] == counted.nodes[-1].passes
        assert found[limit] == found[unlimited]


def parts_of_one(
    pattern: Pattern,
    mechanism: Mechanism,
    order: list[str],
    events: PreparedEvents,
    counters: Counters,
    limit: int | None = None,
) -> Iterator[list[Block]]:
    """The matches of one pattern of one clause, part after part."""
    for [blocks] in JointRun([pattern], mechanism, [[order]], events, EVERYTHING, counters, [None]).parts(limit):
        yield blocks


@pytest.mark.parametrize("limit", [1, 5, 40])
def test_a_part_holds_no_more_than_the_limit_unless_it_is_one_event(limit: int) -> None:
    (pattern,) = patterns_of("PATTERN SEQ(A a, B b) WITHIN 90 us")
    events = PreparedEvents(events_table(ROWS), type_attribute="kind", base_type="Ev")
    sizes = []
    for blocks in parts_of_one(pattern, MECHANISMS["fused"], ["a", "b"], events, Counters(), limit):
        sizes.append(sum(map(len, blocks)))
        ends = {row for block in blocks for row in block.rows.max(axis=0).tolist()}
        assert sizes[-1] <= limit or len(ends) == 1
    assert len(sizes) > 1


def bound(blocks: list[Any]) -> list[list[int]]:
    """The rows of each match."""
    lists = [block if isinstance(block, ListBlock) else ListBlock.of(block) for block in blocks]
    return [rows.tolist() for block in lists for rows in np.split(block.rows, block.offsets[1:-1]) if len(block)]


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree", "eager_nfa"])
@pytest.mark.parametrize("limit", [3, 50])
def test_patterns_that_are_run_together_have_their_parts_in_order(mechanism: str, limit: int) -> None:
    patterns = patterns_of(
        "NAME one PATTERN SEQ(A a, B b) WITHIN 90 us; NAME two PATTERN SEQ(A a, B b, A c) WITHIN 70 us"
    )
    events = PreparedEvents(events_table(ROWS), type_attribute="kind", base_type="Ev")
    orders = [[["a", "b"]], [["a", "b", "c"]]]

    def run(counters: Counters, *most: int | None) -> JointRun:
        return JointRun(patterns, MECHANISMS[mechanism], orders, events, EVERYTHING, counters, most)

    [whole] = run(Counters(), None, None).parts()
    parts_of = list(run(Counters(), None, None).parts(limit))
    assert len(parts_of) > 2
    for number in range(2):
        assert [match for part in parts_of for match in bound(part[number])] == bound(whole[number])
    with pytest.raises(TooManyMatches):
        list(run(Counters(), None, 30).parts(limit))
    counts, counters = [len(bound(own)) for own in whole], Counters()
    assert run(counters, None, None).count() == counts
    listing = Counters()
    list(run(listing, None, None).parts())
    assert counters.metrics({}) == listing.metrics({})
    with pytest.raises(TooManyMatches):
        run(Counters(), None, 30).count()


@pytest.mark.parametrize("text", ["SEQ(A a, B b)", "SEQ(A a, ~A n, B b)", "OR(SEQ(A a, B b), SEQ(A c, A d))"])
def test_matches_are_counted_as_they_are_listed(text: str) -> None:
    (pattern,) = patterns_of(f"PATTERN {text} WITHIN 90 us")
    events = PreparedEvents(events_table(ROWS), type_attribute="kind", base_type="Ev")
    orders = [[one.name for one in clause.positive] for clause in pattern.clauses]
    run = JointRun([pattern], MECHANISMS["fused"], [orders], events, EVERYTHING, Counters(), [None])
    listed = sum(count_blocks(blocks, events) for [blocks] in run.parts(5))
    assert run.count() == [listed]
    assert listed


def test_parts_leave_nothing_behind_in_the_prepared_events() -> None:
    (pattern,) = patterns_of("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 90 us")
    events = PreparedEvents(events_table(ROWS), type_attribute="kind", base_type="Ev")
    derived = []
    for limit in (10_000, 1):  # whole, then event by event
        found = parts_of_one(pattern, MECHANISMS["fused"], ["a", "b"], events, Counters(), limit)
        assert sum(len(block) for blocks in found for block in blocks) > 50
        derived.append(len(events._derived))
    assert derived[0] == derived[1] > 0


def test_counts_of_parts_add_up_and_of_peaks_the_highest_stays() -> None:
    one, other = Counters(peak_instances=3, condition_evaluations=5), Counters(peak_instances=2, events_buffered=4)
    one.count(NodeCounts("p", 0, ("a",), 10, 4, 2))
    other.count(NodeCounts("p", 0, ("a",), 1, 1, 1))
    other.count(NodeCounts("p", 0, ("a", "b"), 6, 2))
    one.add(other)
    metrics = one.metrics({"p": "fused"})
    assert metrics.nodes == (NodeCounts("p", 0, ("a",), 11, 5, 3), NodeCounts("p", 0, ("a", "b"), 6, 2))
    assert (metrics.peak_instances, metrics.events_buffered, metrics.condition_evaluations) == (3, 4, 5)
    one.count_peak(6)
    assert one.peak_instances == one.metrics({}).peak_instances == 6
