"""What lazy evaluation is for: few tests and few instances, by the examples and findings of DEBS'15."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import SECOND, Row, events_table, stream_schema

RISING = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 4 hours"


def event(kind: str, second: float, x: int) -> Row:
    return {"timestamp": round(second * SECOND), "kind": kind, "x": x, "id": 0}


def run(mechanism: str, order: str, text: str, rows: list[Row]) -> tuple[int, Counters]:
    """The number of matches, and what was counted."""
    [pattern] = cep.parse_patterns(text, stream_schema())
    events = PreparedEvents(events_table(rows), type_attribute="kind", base_type="Ev")
    counters = Counters()
    blocks = MECHANISMS[mechanism].find(pattern, [tuple(order)], events, EVERYTHING, counters)
    return sum(map(len, blocks)), counters


@pytest.fixture(scope="module")
def hundreds() -> list[Row]:
    """Section 4: a hundred a, then a hundred b of which one is below the only c."""
    rows = [event("A", number, number) for number in range(100)]
    rows += [event("B", 100 + number, 150 if number == 40 else 500 + number) for number in range(100)]
    return [*rows, event("C", 200, 201)]


def test_example_of_section_4(hundreds: list[Row]) -> None:
    """100 tests of b.x < c.x and 100 of a.x < b.x, and a single partial match at a time; the eager NFA makes 10,000."""
    matches, eager = run("eager_nfa", "abc", RISING, hundreds)
    assert matches == 100
    assert eager.condition_evaluations >= 10_000
    for mechanism, order in (("lazy_chain_nfa", "cba"), ("lazy_tree_nfa", "abc")):
        found, counters = run(mechanism, order, RISING, hundreds)
        assert found == 100
        assert counters.condition_evaluations == 200
        assert counters.peak_instances <= 2
        assert eager.peak_instances >= 10_000
    assert run("lazy_chain_nfa", "abc", RISING, hundreds)[1].condition_evaluations == eager.condition_evaluations


def test_buffered_events_are_those_that_later_ones_take(hundreds: list[Row]) -> None:
    assert run("lazy_chain_nfa", "cba", RISING, hundreds)[1].events_buffered == 200
    assert run("lazy_chain_nfa", "abc", RISING, hundreds)[1].events_buffered == 0  # nothing to come meets a b or the c
    short = RISING.replace("4 hours", "9 seconds")
    assert run("lazy_chain_nfa", "cba", short, hundreds)[1].events_buffered == 10


def test_nodes_are_the_states_with_their_counts(hundreds: list[Row]) -> None:
    """A c is met by no later event: it is joined when it comes, and not held."""
    _, counters = run("lazy_chain_nfa", "cba", RISING, hundreds)
    nodes = {node.node: (node.candidates, node.passes, node.created) for node in counters.nodes.values()}
    assert nodes == {("c",): (1, 1, 0), ("c", "b"): (100, 1, 1), ("c", "b", "a"): (100, 100, 0)}


def test_each_partial_match_is_made_once_in_every_order() -> None:
    generator = np.random.default_rng(5)
    rows = [event("ABC"[generator.integers(3)], number, 0) for number in range(60)]
    for order in permutations("abc"):
        matches, counters = run("lazy_chain_nfa", "".join(order), "PATTERN AND(A a, B b, C c) WITHIN 1 hour", rows)
        amounts = {name: sum(row["kind"] == name.upper() for row in rows) for name in "abc"}
        nodes = {node.node: node for node in counters.nodes.values()}
        assert nodes[order[:1]].created == amounts[order[0]]
        assert nodes[order[:2]].created == nodes[order[:2]].passes == amounts[order[0]] * amounts[order[1]]
        assert matches == nodes[order].passes == amounts["a"] * amounts["b"] * amounts["c"]


def test_the_tree_does_nothing_while_a_type_is_missing() -> None:
    """Section 6: no evaluation before all counters are greater than zero."""
    rows = [event("AB"[number % 2], number, number) for number in range(200)]
    _, counters = run("lazy_tree_nfa", "abc", RISING, rows)
    assert counters.condition_evaluations == counters.peak_instances == 0
    assert not counters.nodes
    assert counters.events_buffered == 200
    assert run("lazy_chain_nfa", "abc", RISING, rows)[1].condition_evaluations > 1000


def changing(phases: str, events: int = 3000) -> list[Row]:
    """Of each phase one type is rare, one event in fifty."""
    generator = np.random.default_rng(9)
    rows: list[Row] = []
    for rare in phases:
        frequent = [kind for kind in "ABC" if kind != rare]
        for _ in range(events):
            kind = rare if generator.random() < 0.02 else frequent[generator.integers(2)]
            rows.append(event(kind, 0.1 * len(rows), int(generator.integers(1000))))
    return rows


@pytest.mark.parametrize("structure", ["SEQ(A a, B b, C c)", "SEQ(C c, A a, B b)", "AND(A a, B b, C c)"])
def test_the_tree_follows_the_rarest_type(structure: str) -> None:
    """Figure 10: below every chain, whose best order is another one in each phase."""
    text = f"PATTERN {structure} WHERE abs(a.x - b.x) < 60 AND abs(b.x - c.x) < 60 WITHIN 8 seconds"
    rows = changing("CAB")
    matches, tree = run("lazy_tree_nfa", "abc", text, rows)
    assert matches == run("fused", "abc", text, rows)[0] > 50
    chains = [run("lazy_chain_nfa", "".join(order), text, rows) for order in permutations("abc")]
    assert {found for found, _ in chains} == {matches}
    assert tree.condition_evaluations < 0.75 * min(counters.condition_evaluations for _, counters in chains)


@pytest.mark.parametrize("rare", "ABC")
def test_the_tree_is_as_good_as_the_best_chain(rare: str) -> None:
    """Figures 7 and 8, with the rare type first, in the middle and last."""
    text = "PATTERN SEQ(A a, B b, C c) WHERE abs(a.x - b.x) < 60 AND abs(b.x - c.x) < 60 WITHIN 8 seconds"
    rows = changing(rare)
    tree = run("lazy_tree_nfa", "abc", text, rows)[1]
    chains = [run("lazy_chain_nfa", "".join(order), text, rows)[1] for order in permutations("abc")]
    best, worst = (pick(chain.condition_evaluations for chain in chains) for pick in (min, max))
    assert tree.condition_evaluations < 1.1 * best
    assert worst > 5 * best
