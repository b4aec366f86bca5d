"""The NFA^b of a clause: states, edges and formulas by the six steps, and the values that merging compares."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.automaton import Move, Value, compile_automaton, describe, value_vector
from cep_pipeline.patterns.pattern import Pattern

STOCKS = cep.StreamSchema.from_dict(
    {
        "base_type": "Stock",
        "type_attribute": "symbol",
        "attributes": {"symbol": "string", "price": "int64", "volume": "int64"},
    }
)


def parsed(text: str) -> Pattern:
    [pattern] = cep.parse_patterns(text, STOCKS)
    return pattern


QUERY_3 = """
    PATTERN SEQ(Stock+ a[], Stock b)
    WHERE skip_till_next_match(a[], b) { [symbol] AND a[1].volume > 1000
          AND a[i].price > avg(a[..i-1].price) AND b.volume < 80% * a[a.LEN].volume }
    WITHIN 1 hour
"""


def test_query_3_of_the_paper() -> None:
    """Figure 2 of SIGMOD'08, with the types and the equivalence test written out."""
    takes = "a[i] is Stock AND a[i].symbol = a[1].symbol AND a[i].price > avg(a[..i-1].price)"
    begins = "b is Stock AND b.symbol = a[1].symbol AND b.volume < 0.8 * a[a.LEN].volume"
    assert describe(parsed(QUERY_3)).splitlines() == [
        "NFA^b of clause 0, skip_till_next_match",
        "  state a[1]",
        "    begin   -> a[i]   a[1] is Stock AND a[1].volume > 1000",
        "  state a[i]",
        f"    take    -> a[i]   {takes} AND within 1 hour",
        f"    proceed -> b      {begins} AND within 1 hour",
        f"    ignore  -> a[i]   NOT ({takes}) AND within 1 hour",
        "  state b",
        f"    begin   -> F      {begins} AND within 1 hour",
        f"    ignore  -> b      NOT ({begins}) AND within 1 hour",
        "  state F",
    ]


@pytest.mark.parametrize(
    ("strategy", "formula"),
    [
        ("strict_contiguity", ("False", "within 2 seconds")),
        ("partition_contiguity", ("NOT [symbol]", "within 2 seconds")),
        ("skip_till_any_match", ("within 2 seconds",)),
    ],
)
def test_the_strategy_decides_what_is_ignored(strategy: str, formula: tuple[str, ...]) -> None:
    pattern = parsed(f"PATTERN SEQ(Stock a, Stock b) WHERE {strategy} {{ [symbol] }} WITHIN 2 seconds")
    edge = compile_automaton(pattern, pattern.clauses[0]).states[1].edge(Move.IGNORE)
    assert edge is not None
    assert edge.formula == formula


def test_conditions_over_a_whole_list_stand_on_the_edge_that_leaves_it() -> None:
    pattern = parsed("PATTERN SEQ(Stock+ a[], Stock+ b[]) WHERE a.LEN > 2 AND sum(b[].price) > 9 WITHIN 9 seconds")
    states = {state.name: state for state in compile_automaton(pattern, pattern.clauses[0]).states}
    leaving_a, leaving_b = states["a[i]"].edge(Move.PROCEED), states["b[i]"].edge(Move.PROCEED)
    assert leaving_a is not None
    assert leaving_b is not None
    assert leaving_a.formula == ("a.LEN > 2", "b[1] is Stock", "within 9 seconds")
    assert leaving_b.formula == ("sum(b[].price) > 9", "within 9 seconds")


def relevant(condition: str, state: int, structure: str = "SEQ(Stock+ a[], Stock b, Stock c)") -> set[Value]:
    pattern = parsed(f"PATTERN {structure} WHERE {condition} WITHIN 9 seconds")
    return set(value_vector(pattern, pattern.clauses[0])[state])


def test_values_matter_as_long_as_an_edge_reads_them() -> None:
    price = "price"
    assert relevant("a[1].price > 3 AND b.price > 3", 0) == set()
    assert relevant("a[i].price > a[i-1].price", 0) == {Value(0, at.VALUE_OF_NEWEST, price)}
    assert relevant("a[i].price > a[i-1].price", 1) == set()
    assert relevant("a[i].price > min(a[..i-1].price)", 0) == {Value(0, at.WORD_OF_CELL, price, "min")}
    first = {Value(0, at.VALUE_OF_FIRST, price)}
    assert relevant("c.price > a[1].price", 0) == relevant("c.price > a[1].price", 1) == first
    assert relevant("c.price > a[1].price", 2) == set()
    assert relevant("a.LEN < 5", 0) == {Value(0, at.LENGTH_OF_LIST)}


def test_conditions_on_every_element_of_a_list_that_was_left_need_the_list() -> None:
    assert relevant("c.price > a[].price", 1) == {Value(0, at.WHOLE_OF_SLOT)}
    assert relevant("a[].price > a[i].price", 0) == {Value(0, at.WHOLE_OF_SLOT)}
