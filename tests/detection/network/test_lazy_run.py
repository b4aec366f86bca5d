"""Runs of the lazy automata where memory is short, on many events and long lists, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, permutations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.conditions.program import CellRing
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.detection.network import memory, run
from cep_pipeline.errors import PlanError, UnsupportedPattern
from cep_pipeline.slices.blocks import ListBlock, MatchBlock
from cep_pipeline.slices.prepared import PreparedEvents
from tests.answers import comparable, from_tables
from tests.contracts.mechanisms import drawn
from tests.oracle import evaluate
from tests.streams import SECOND, Row, events_table, rows, stream_schema
from tests.thoroughness import examples

LAZY = ("lazy_chain_nfa", "lazy_tree_nfa")


def bindings(mechanism: str, text: str, rows: list[Row], order: str = "") -> list[bytes]:
    """All matches as sorted bytes, so that blocks of any size compare."""
    [pattern] = cep.parse_patterns(text, stream_schema())
    events = PreparedEvents(events_table(rows), type_attribute="kind", base_type="Ev")
    orders = [tuple(order) or tuple(v.name for v in clause.positive) for clause in pattern.clauses]
    found = []
    for block in MECHANISMS[mechanism].find(pattern, orders, events, EVERYTHING, Counters()):
        lists = ListBlock.of(block) if isinstance(block, MatchBlock) else block
        for start, end in zip(lists.offsets[:-1], lists.offsets[1:], strict=True):
            found.append(lists.rows[start:end].tobytes() + lists.variables[start:end].tobytes())
    assert len(found) == len(set(found))
    return sorted(found)


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Memory that must grow at every occasion."""
    monkeypatch.setattr(memory, "CellRing", lambda *of: CellRing(*of, size=2))
    monkeypatch.setattr(memory, "ROOM", 1)
    monkeypatch.setattr(run, "FIRST_FOUND_ALONE", 1)
    yield


def random_rows(events: int, seed: int, kinds: str = "ABC", step_s: float = 0.5) -> list[Row]:
    generator = np.random.default_rng(seed)
    times = np.cumsum(generator.integers(0, 3, events) * step_s)
    return [
        {
            "timestamp": round(float(time) * SECOND),
            "kind": kinds[generator.integers(len(kinds))],
            "x": int(generator.integers(100)),
            "id": int(generator.integers(4)),
        }
        for time in times
    ]


STATEMENTS = (
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 8 seconds",
    "PATTERN AND(A a, B b, A c) WHERE a.x < c.x WITHIN 6 seconds TIES ANY",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x AND a.x < c.x WITHIN 9 seconds",
    "PATTERN AND(A+ a[], B b) WHERE a[i].x > a[i-1].x AND sum(a[].x) < 2 * b.x WITHIN 5 seconds",
    "PATTERN SEQ(A a, NOT(C n), B b) WHERE n.x < a.x WITHIN 30 EVENTS PARTITION BY id",
    "PATTERN SEQ(A a, B+ b[]) WHERE b[i].x > avg(b[..i-1].x) WITHIN 12 EVENTS PARTITION BY id TIES STRICT",
)


@pytest.mark.parametrize("mechanism", LAZY)
@pytest.mark.parametrize("text", STATEMENTS)
def test_memory_grows_wherever_it_is_short(mechanism: str, text: str, little_room: None) -> None:
    rows = random_rows(250, seed=len(text))
    expected = bindings("fused", text, rows)
    assert len(expected) > 20
    names = "".join(v.name for v in cep.parse_patterns(text, stream_schema())[0].clauses[0].positive)
    for order in permutations(names):
        assert bindings(mechanism, text, rows, "".join(order)) == expected


@pytest.mark.parametrize("mechanism", LAZY)
def test_many_events(mechanism: str) -> None:
    """Windows that end, instances and cells that are let go of, rates that change, roots that are searched again."""
    rows = random_rows(3000, 1, "AABBBC") + [
        {**row, "timestamp": row["timestamp"] + 5000 * SECOND} for row in random_rows(3000, 2, "ABBCCC")
    ]
    for text in STATEMENTS:
        assert bindings(mechanism, text, rows) == bindings("fused", text, rows)


@pytest.mark.parametrize("mechanism", LAZY)
@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_long_lists(mechanism: str, order: str) -> None:
    """Lists that are longer than the first stack of searches, wherever they stand in the order."""
    rows = [{"timestamp": second * SECOND, "kind": "B", "x": second} for second in range(1, 151)]
    rows = [{"timestamp": 0, "kind": "A", "x": 0}, *rows, {"timestamp": 151 * SECOND, "kind": "C", "x": 0}]
    text = "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x = b[i-1].x + 1 AND b.LEN > 60 WITHIN 1 hour"
    assert len(bindings(mechanism, text, rows, order)) == sum(151 - length for length in range(61, 151))


@pytest.mark.parametrize("mechanism", LAZY)
def test_other_strategies_are_refused_by_name(mechanism: str) -> None:
    text = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.x < b.x } WITHIN 1 hour"
    patterns = cep.parse_patterns(text, stream_schema())
    with pytest.raises(UnsupportedPattern, match=f"{mechanism}.*skip_till_next_match") as refusal:
        cep.detect(patterns, events_table([]), mechanism=mechanism)
    assert refusal.value.mechanism == mechanism


def test_more_variables_than_a_set_has_bits_are_refused_by_the_tree() -> None:
    text = "PATTERN AND({}) WITHIN 1 hour"
    schema = stream_schema()
    [fits] = cep.parse_patterns(text.format(", ".join(f"A a{number}" for number in range(62))), schema)
    MECHANISMS["lazy_tree_nfa"].check(fits)
    [exceeds] = cep.parse_patterns(text.format(", ".join(f"A a{number}" for number in range(63))), schema)
    with pytest.raises(UnsupportedPattern, match="63 variables"):
        MECHANISMS["lazy_tree_nfa"].check(exceeds)
    MECHANISMS["lazy_chain_nfa"].check(exceeds)


def test_an_order_of_other_variables_is_refused() -> None:
    with pytest.raises(PlanError, match=r"binds a, b, its order or tree a, c: .*; plan the pattern again"):
        bindings("lazy_chain_nfa", "PATTERN SEQ(A a, B b) WITHIN 1 hour", random_rows(3, 1), "ac")


def test_the_tree_takes_no_order_of_a_plan() -> None:
    rows = random_rows(200, 4)
    expected = bindings("fused", STATEMENTS[0], rows)
    assert {tuple(bindings("lazy_tree_nfa", STATEMENTS[0], rows, order)) for order in ("abc", "cba")} == {
        tuple(expected)
    }


@pytest.mark.parametrize("structure", ["SEQ(Ev a, B b, C c)", "AND(Ev a, SEQ(B b, C c))", "SEQ(Ev+ a[], B b, C c)"])
def test_a_new_root_tells_the_newest_event_in_the_buffer_apart(structure: str) -> None:
    """The root is chosen when the C comes: it begins with the newest B of the buffer, which is no A before itself."""
    rows: list[Row] = [{"timestamp": second * SECOND, "kind": kind} for second, kind in enumerate("ABC")]
    text = f"PATTERN {structure} WITHIN 1 hour"
    assert bindings("lazy_tree_nfa", text, rows) == bindings("fused", text, rows) != []


TIED = (
    "SEQ(A a, AND(B b, C c))",
    "SEQ(AND(B a, A b), C c)",
    "AND(A+ a[], SEQ(B b, C c))",
    "SEQ(B a, A c)",
    "SEQ(A a, B? b, C c)",
    "SEQ(A a, ~B n, C c)",
    "SEQ(A a, A b, B c)",
)


@settings(max_examples=examples(500), deadline=None)
@given(
    structure=st.sampled_from(TIED),
    ties=st.sampled_from(["ANY", "STRICT"]),
    options=st.sampled_from([(), ("smallest_counter",)]),
    events=st.lists(st.tuples(st.integers(0, 1), st.sampled_from("ABC")), min_size=2, max_size=9),
    window=st.sampled_from(["2 us", "9 seconds"]),
)
@example("SEQ(A a, AND(B b, C c))", "STRICT", (), [(0, "A"), (1, "B"), (0, "C")], "9 seconds")
@example("AND(A+ a[], SEQ(B b, C c))", "STRICT", (), [(0, "B"), (1, "A"), (0, "C")], "9 seconds")
@example("SEQ(B a, A c)", "ANY", ("smallest_counter",), [(0, "A"), (0, "B"), (1, "B"), (0, "B")], "9 seconds")
@example("SEQ(A a, B? b, C c)", "STRICT", (), [(0, "A"), (1, "C"), (0, "B"), (1, "C"), (1, "C")], "2 us")
def test_a_new_root_is_before_and_after_what_it_may_be(
    structure: str, ties: str, options: tuple[str, ...], events: list[tuple[int, str]], window: str
) -> None:
    """Of events of one time some are read when the root is chosen, and others are not."""
    times = accumulate(later for later, _ in events)
    table = events_table([{"timestamp": then, "kind": kind} for then, (_, kind) in zip(times, events, strict=True)])
    [pattern] = cep.parse_patterns(f"PATTERN {structure} WITHIN {window} TIES {ties}", stream_schema())
    found = cep.detect([pattern], table, mechanism="lazy_tree_nfa", options=options)
    assert comparable(from_tables([pattern], found)) == comparable(evaluate([pattern], table))


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_the_rule_of_the_paper_changes_no_answer(data: st.DataObject, stream_rows: list[Row]) -> None:
    pattern, table = drawn(data, "lazy_tree_nfa").pattern, events_table(stream_rows)
    found = cep.detect([pattern], table, mechanism="lazy_tree_nfa", options=["smallest_counter"])
    assert comparable(from_tables([pattern], found)) == comparable(evaluate([pattern], table))


def test_the_smallest_counter_is_bound_next_whatever_the_conditions() -> None:
    """Hardly any pair of A and B passes, and no condition is on C, which is slightly rarer than B."""
    text = "PATTERN AND(A a, B b, C c) WHERE a.x < b.x - 90 WITHIN 20 seconds"
    [pattern] = cep.parse_patterns(text, stream_schema())
    events = events_table(random_rows(600, 5, "A" + 5 * "BC" + "B"))
    counted = {}
    for options in ((), ("smallest_counter",)):
        found, metrics = cep.detect([pattern], events, mechanism="lazy_tree_nfa", options=options, metrics=True)
        counted[options] = (
            found[pattern.name].num_rows,
            {n.node[1] for n in metrics.nodes if len(n.node) == 2 and n.created},
        )
    assert counted[()][0] == counted["smallest_counter",][0] > 0
    assert "c" in counted["smallest_counter",][1]
