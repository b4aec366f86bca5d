"""What the detection-adaptation loop holds: events, and matches that wait, no more than somebody asks for."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline import detect_adaptively
from cep_pipeline.adaptation.decisions import Unconditional
from cep_pipeline.adaptation.loop import AdaptiveDetection
from cep_pipeline.adaptation.loop_outputs import NumberOutput
from cep_pipeline.detection import clause_runs
from cep_pipeline.slices.blocks import Block
from tests.adaptation.test_loop import ABC, ORDERED, SECOND, drifting, in_parts, patterns_of
from tests.streams import events_table


def number_of(output: pa.Table) -> int:
    return int(output.column("count")[0].as_py())


PLUS = {"one": " b", "many": "+ b[]"}
LONG = 4000
FORMS = [
    (ABC, "verbose"),
    (ABC + " OUTPUT NON_OVERLAP CONSUME MATCHED", "verbose"),
    ("PATTERN SEQ(A a, B b) WITHIN 5 EVENTS CONSUME MATCHED", "verbose"),
    ("PATTERN SEQ(~B n, A a, C c) WHERE a.x < c.x WITHIN 3 seconds", "verbose"),
    (ABC, "count"),
    ("PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x WITHIN 3 seconds", "count"),
    ("PATTERN SEQ(A a, B+ b[], ~C c) WITHIN 2 seconds", "count"),
    ("PATTERN SEQ(~C c, A a, B+ b[]) WITHIN 3 EVENTS", "count"),
    ("PATTERN SEQ(~C m, A a, B+ b[], ~C c) WITHIN 2 seconds TIES ANY", "count"),
    (ORDERED, "verbose"),
]


@pytest.mark.parametrize(("text", "output"), FORMS)
def test_what_nothing_asks_for_is_let_go_of(text: str, output: str) -> None:
    """The output comes while the stream does, and what is held does not grow with it."""
    patterns, events = patterns_of(text), drifting(LONG, changes=8)
    read, held, came = 0, [], []

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in in_parts(events, 20):
            read += batch.num_rows
            yield batch

    run = AdaptiveDetection(decision=Unconditional(), every_events=40, detect_events=100).begin(
        patterns, source(), output=output
    )
    batches = []
    for _, batch in run.batches():
        batches.append(batch)
        came.append(read)
        held.append(run.events_held)
    found = pa.Table.from_batches(batches, run.schemas[patterns[0].name])
    expected = cep.detect(patterns, events, output=output)[patterns[0].name]
    assert found == expected and expected.num_rows
    # Detection runs over 32 windows of some seven events at a time, and half of what is held is let go of at once.
    assert max(run.most_events_held, *held) < 800
    assert run.report().events == LONG
    if output != "count":
        assert min(came) < 400 and len(set(came)) > 8
        assert max(batch.num_rows for batch in batches) < expected.num_rows / 5


TIED = [
    ("PATTERN SEQ(A a, ~C n, B b) WITHIN 2 EVENTS TIES ANY", "verbose"),
    ("PATTERN SEQ(A a, ~C n, B+ b[]) WITHIN 2 EVENTS TIES ANY", "count"),
]


@pytest.mark.parametrize(("text", "output"), TIED)
def test_what_may_reject_at_one_instant_with_the_first_event_is_not_let_go_of(text: str, output: str) -> None:
    """A stretch begins between C and A, of one instant: it asks for C, which no window of its events holds."""
    stream = [(at, "X") for at in range(38)] + [(38, "C"), (38, "A"), (40, "B"), *((at, "X") for at in range(41, 45))]
    events = events_table([{"timestamp": at * SECOND, "kind": kind} for at, kind in [*stream, (80, "X")]])
    patterns = patterns_of(text)
    found, _ = AdaptiveDetection(decision=Unconditional(), every="40 seconds", detect_events=1).detect(
        patterns, in_parts(events, 1), output=output
    )
    [expected], [table] = (one.values() for one in (cep.detect(patterns, events, output=output), found))
    assert table == expected
    assert number_of(table) == 0 if output == "count" else table.num_rows == 0


def test_windows_that_count_in_partitions_hold_the_stream() -> None:
    """The next event of a partition may come at any time: that one pattern is answered at the end."""
    texts = [f"NAME {name} PATTERN SEQ(A a, B{plus}) WITHIN 3 EVENTS PARTITION BY s" for name, plus in PLUS.items()]
    patterns, events = patterns_of(*texts), drifting(600)
    for output in ("verbose", "count"):
        run = AdaptiveDetection(decision=Unconditional(), every_events=40, detect_events=60).begin(
            patterns, in_parts(events, 20), output=output
        )
        found: dict[str, list[pa.RecordBatch]] = {pattern.name: [] for pattern in patterns}
        for name, batch in run.batches():
            found[name].append(batch)
        assert run.most_events_held == 600
        for name, expected in cep.detect(patterns, events, output=output).items():
            own = pa.Table.from_batches(found[name], run.schemas[name])
            assert own == expected and expected.num_rows


@pytest.mark.parametrize("mechanism", ["lazy_chain_nfa", "evaluation_tree", "fused"])
@pytest.mark.parametrize("structure", ["SEQ(A a, B b, C c)", "OR(SEQ(A a, B b), SEQ(C c, B d))"])
def test_matches_that_are_counted_are_not_held_all_at_once(
    mechanism: str, structure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patterns, events = patterns_of(f"NAME many PATTERN {structure} WITHIN 60 seconds"), drifting()
    expected = number_of(cep.detect(patterns, events, output="count")["many"])
    monkeypatch.setattr(clause_runs, "MATCHES_AT_ONCE", 100)
    taken: list[int] = []

    def take(self: NumberOutput, blocks: list[Block]) -> None:
        taken.append(sum(map(len, blocks)))
        counted(self, blocks)

    counted = NumberOutput.take
    monkeypatch.setattr(NumberOutput, "take", take)
    tables, _ = detect_adaptively(
        patterns, events, mechanism=mechanism, output="count", every_events=100, decision=Unconditional()
    )
    assert number_of(tables["many"]) == expected == sum(taken)
    assert max(taken) < expected / 50
