"""Vectorized evaluation equals the literal one of the oracle, value by value, with every operator and edge value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.expressions.columns import Column, TableColumns
from cep_pipeline.expressions.evaluate import atom_holds, conjunct_holds, expression_values
from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparator,
    Comparison,
    Conjunct,
    Like,
    Membership,
    NullTest,
    Truth,
)
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Call,
    Element,
    Expression,
    Length,
    Literal,
    Negative,
    Reference,
    ValueType,
)
from tests.oracle.events import Event
from tests.oracle.values import Choice, truth_of, value_of
from tests.streams import EDGE_FLOATS, EDGE_INTEGERS, events_table, floats, histories, integers
from tests.thoroughness import examples

INT, FLOAT, BOOL, STRING, LIST = (
    ValueType.INT64,
    ValueType.FLOAT64,
    ValueType.BOOL,
    ValueType.STRING,
    ValueType.FLOAT64_LIST,
)
TEXTS = ("", "a", "b", "ab", "é", "z", "Z", "\U0001f600", "\uffff")
LIKES = ("", "%", "_", "a%", "%b", "_%b", r"\%", "a\\", "é", "\U0001f600%", "z.", "%%")
CHOICES = ("least", "greatest", "coalesce")
ATTRIBUTES = {"x": INT, "id": INT, "y": FLOAT, "f": BOOL, "s": STRING, "kind": STRING, "h": LIST}
VARIABLES = ("a", "b")


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    texts = st.one_of(st.none(), st.sampled_from(TEXTS))
    row = st.fixed_dictionaries(
        {
            "timestamp": st.just(0),
            "kind": texts,
            "id": integers(),
            "x": integers(),
            "y": floats(),
            "s": texts,
            "f": st.one_of(st.none(), st.booleans()),
            "h": histories(),
        }
    )
    return st.lists(row, min_size=1, max_size=6)


def references(kind: ValueType) -> st.SearchStrategy[Expression]:
    names = [name for name, of in ATTRIBUTES.items() if of is kind]
    return st.builds(
        Reference, st.sampled_from(VARIABLES), st.sampled_from(names), st.just(Element.ONLY), st.just(kind)
    )


def literals(kind: ValueType) -> st.SearchStrategy[Expression]:
    values: st.SearchStrategy[Any] = {
        INT: st.one_of(st.integers(-3, 9), st.sampled_from(EDGE_INTEGERS)),
        FLOAT: st.one_of(st.sampled_from((0.5, -1.25, 3.0)), st.sampled_from(EDGE_FLOATS)),
        BOOL: st.booleans(),
        STRING: st.sampled_from((*TEXTS, "absent")),
    }[kind]
    return st.builds(Literal, values, st.just(kind))


def correlations() -> st.SearchStrategy[Expression]:
    lists = st.builds(Reference, st.sampled_from(VARIABLES), st.just("h"), st.just(Element.ONLY), st.just(LIST))
    return st.tuples(lists, lists).map(lambda pair: Call("corr", pair, FLOAT))


def numbers() -> st.SearchStrategy[Expression]:
    leaves = st.one_of(references(INT), references(FLOAT), literals(INT), literals(FLOAT))
    return st.recursive(leaves, _compound, max_leaves=5)


def _compound(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def joined(operator: str, left: Expression, right: Expression) -> Expression:
        whole = left.type is right.type is INT and operator != "/"
        return Arithmetic(operator, left, right, INT if whole else FLOAT)

    def chosen(function: str, arguments: list[Expression]) -> Expression:
        whole = all(argument.type is INT for argument in arguments)
        return Call(function, tuple(arguments), INT if whole else FLOAT)

    def called(function: str, operand: Expression) -> Expression:
        return Call(function, (operand,), operand.type if function == "abs" else FLOAT)

    return st.one_of(
        st.builds(joined, st.sampled_from("+-*/%"), inner, inner),
        st.builds(called, st.sampled_from(("abs", "sqrt", "ln")), inner),
        st.builds(chosen, st.sampled_from(CHOICES), st.lists(inner, min_size=1, max_size=3)),
        inner.map(lambda operand: Negative(operand, operand.type)),
        clocks(inner.filter(lambda operand: operand.type is INT)),
    )


def clocks(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def read(function: str, operand: Expression, zone: str) -> Expression:
        return Call(function, (operand,), INT, zone)

    instants = st.integers(-(10**15), 10**16).map(lambda instant: Literal(instant, INT))
    zones = st.sampled_from(("UTC", "America/New_York", "Asia/Kathmandu"))
    return st.builds(read, st.sampled_from(("time_of_day", "day_of_week")), st.one_of(inner, instants), zones)


def choices_of(kind: ValueType, functions: tuple[str, ...]) -> st.SearchStrategy[Expression]:
    """Values of strings or bools."""
    leaves = st.one_of(references(kind), literals(kind))
    arguments = st.lists(leaves, min_size=1, max_size=3).map(tuple)
    return st.one_of(leaves, st.builds(Call, st.sampled_from(functions), arguments, st.just(kind)))


def atoms() -> st.SearchStrategy[Atom]:
    def of(kind: ValueType, expressions: st.SearchStrategy[Expression]) -> st.SearchStrategy[Atom]:
        comparators = [Comparator.EQ, Comparator.NE] if kind is BOOL else list(Comparator)
        listed: list[Any] = {
            INT: [*EDGE_INTEGERS, *EDGE_FLOATS, 0, 1, 2.0, 0.5],
            BOOL: [True, False],
            STRING: [*TEXTS, "absent"],
        }[kind]
        values = st.lists(st.sampled_from(listed), min_size=1, max_size=4).map(tuple)
        choices: list[st.SearchStrategy[Any]] = [
            st.builds(Comparison, st.sampled_from(comparators), expressions, expressions),
            st.builds(Membership, expressions, values, negated=st.booleans()),
        ]
        choices.append(st.builds(NullTest, expressions, st.booleans()))
        if kind is STRING:
            choices.append(st.builds(Like, expressions, st.sampled_from(LIKES), st.booleans()))
        if kind is not BOOL:
            choices.append(st.builds(Between, expressions, expressions, expressions, negated=st.booleans()))
        return st.one_of(choices)

    return st.one_of(
        of(INT, numbers()),
        of(STRING, choices_of(STRING, CHOICES)),
        of(BOOL, choices_of(BOOL, ("coalesce",))),
        st.builds(NullTest, references(LIST), st.booleans()),
        st.builds(Truth, st.booleans()),
    )


@st.composite
def bindings(draw: st.DrawFn) -> tuple[TableColumns, dict[str, np.ndarray], list[dict[str, tuple[Event, ...]]]]:
    """A table, n bindings of the variables as row numbers, and the same ones as the oracle's."""
    drawn = draw(rows())
    table = events_table([{**row, "timestamp": index} for index, row in enumerate(drawn)])
    count = draw(st.integers(1, 6))
    places = st.lists(st.integers(0, len(drawn) - 1), min_size=count, max_size=count)
    chosen = {name: draw(places) for name in VARIABLES}
    events = [
        Event(index, index, index, frozenset(), {**row, "timestamp": index, "seq": index}, index)
        for index, row in enumerate(drawn)
    ]
    oracle = [{name: (events[chosen[name][i]],) for name in VARIABLES} for i in range(count)]
    return TableColumns(table), {name: np.array(rows, np.int32) for name, rows in chosen.items()}, oracle


def value_at(column: Column, index: int) -> Any:
    if column.valid is not None and not column.valid[index]:
        return None
    value = column.values[index].item()
    return value if column.dictionary is None else column.dictionary[value]


@settings(max_examples=examples(600))
@given(bindings(), numbers())
def test_numbers_equal_the_oracle(drawn: Any, expression: Expression) -> None:
    source, places, oracle = drawn
    column = expression_values(expression, source, places)
    assert column.type is expression.type
    for index, binding in enumerate(oracle):
        expected = value_of(expression, binding, Choice())
        found = value_at(column, index)
        if isinstance(expected, float) and math.isnan(expected):
            assert isinstance(found, float)
            assert math.isnan(found)
        else:
            assert found == expected
            assert type(found) is type(expected)


@settings(max_examples=examples(600))
@given(bindings(), st.lists(atoms(), min_size=1, max_size=3))
def test_conjuncts_equal_the_oracle(drawn: Any, chosen: list[Atom]) -> None:
    source, places, oracle = drawn
    found = conjunct_holds(Conjunct(tuple(chosen)), source, places)
    expected = [any(truth_of(atom, binding, Choice()) is True for atom in chosen) for binding in oracle]
    assert found.tolist() == expected


@settings(max_examples=examples(300))
@given(bindings(), correlations())
def test_correlation_equals_the_oracle(drawn: Any, expression: Expression) -> None:
    source, places, oracle = drawn
    column = expression_values(expression, source, places)
    for index, binding in enumerate(oracle):
        found = value_at(column, index)
        lists = [binding[argument.variable][0].attributes["h"] for argument in expression.arguments]  # type: ignore
        if any(part is None or not all(v is not None and abs(v) < 1e15 for v in part) for part in lists):
            continue  # the textbook formula of the oracle loses such magnitudes
        expected = value_of(expression, binding, Choice())
        assert (found is None) == (expected is None)
        if expected is not None:
            assert found == pytest.approx(expected, abs=1e-9)


def evaluate_lists(x: list[Any] | None, y: list[Any] | None) -> float | None:
    table = events_table([{"timestamp": 0, "h": x}, {"timestamp": 1, "h": y}])
    call = Call("corr", tuple(Reference(v, "h", Element.ONLY, LIST) for v in VARIABLES), FLOAT)
    places = {"a": np.array([0]), "b": np.array([1])}
    return value_at(expression_values(call, TableColumns(table), places), 0)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1.0, 2.0], [1.0, 2.0, 3.0]),
        ([1.0], [2.0]),
        ([], []),
        ([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]),
        ([1.0, None], [1.0, 2.0]),
        ([1.0, math.nan], [1.0, 2.0]),
        ([1.0, math.inf], [1.0, 2.0]),
        (None, [1.0, 2.0]),
    ],
)
def test_undefined_correlations_are_null(x: list[Any] | None, y: list[Any]) -> None:
    assert evaluate_lists(x, y) is None
    assert evaluate_lists(y, x) is None


@given(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=8).filter(lambda x: len(set(x)) > 1))
def test_a_list_correlates_with_itself_exactly(x: list[float]) -> None:
    found = evaluate_lists(x, x)
    assert found in (1.0, None)  # null only where the elements differ by less than the rounding of their mean
    if max(x) - min(x) > 1e-6 * max(map(abs, x)):
        assert found == 1.0


def test_correlation_neither_overflows_nor_cancels() -> None:
    assert evaluate_lists([1e300, 2e300, 3e300], [1.0, 2.0, 3.0]) == pytest.approx(1.0)
    assert evaluate_lists([1e-200, 2e-200, 4e-200], [1.0, 2.0, 4.0]) == pytest.approx(1.0)
    assert evaluate_lists([1e9 + 1, 1e9 + 2, 1e9 + 4], [-1.0, -2.0, -4.0]) == pytest.approx(-1.0)


def test_a_value_does_not_depend_on_the_bindings_beside_it() -> None:
    rng = np.random.default_rng(5)
    table = events_table([{"timestamp": i, "h": rng.normal(size=7).tolist()} for i in range(40)])
    call = Call("corr", tuple(Reference(v, "h", Element.ONLY, LIST) for v in VARIABLES), FLOAT)
    pairs = {"a": rng.integers(0, 40, 500), "b": rng.integers(0, 40, 500)}
    together = expression_values(call, TableColumns(table), pairs).values
    alone = [
        expression_values(call, TableColumns(table), {v: rows[i : i + 1] for v, rows in pairs.items()}).values[0]
        for i in range(500)
    ]
    assert together.tolist() == alone


def test_an_atom_without_variables_is_one_truth() -> None:
    table = TableColumns(events_table([]))
    constant = Comparison(Comparator.LT, Literal(1, INT), Literal(2.5, FLOAT))
    assert atom_holds(constant, table, {}).tolist() == [True]
    assert conjunct_holds(Conjunct((constant,)), table, {"a": np.zeros(3, np.int32)}).tolist() == [True] * 3
    assert conjunct_holds(Conjunct((constant,)), table, {"a": np.zeros(0, np.int32)}).tolist() == []


def test_a_null_constant_makes_every_value_null() -> None:
    table = TableColumns(events_table([{"timestamp": i, "x": i} for i in range(3)]))
    undefined = Arithmetic("/", Literal(1, INT), Literal(0, INT), FLOAT)
    total = Arithmetic("+", Reference("a", "x", Element.ONLY, INT), undefined, FLOAT)
    column = expression_values(total, table, {"a": np.arange(3)})
    assert column.valid is not None
    assert column.valid.tolist() == [False] * 3
    holds = Comparison(Comparator.NE, total, Literal(0, INT))
    assert conjunct_holds(Conjunct((holds,)), table, {"a": np.arange(3)}).tolist() == [False] * 3


def test_no_bindings_give_no_values() -> None:
    table = TableColumns(events_table([]))
    none = {"a": np.zeros(0, np.int32), "b": np.zeros(0, np.int32)}
    product = Arithmetic("*", Reference("a", "x", Element.ONLY, INT), Literal(2, INT), INT)
    assert len(expression_values(product, table, none)) == 0
    assert len(expression_values(Literal("x", STRING), table, none)) == 0


@pytest.mark.parametrize(
    "expression",
    [
        Reference("a", "x", Element.FIRST, INT),
        Length("a"),
        Aggregate("sum", "a", "x", False, INT),
        Call("corr", (Reference("a", "h", Element.LAST, LIST), Reference("a", "h", Element.LAST, LIST)), FLOAT),
    ],
    ids=["first", "length", "sum", "corr"],
)
def test_kleene_variables_are_refused_by_name(expression: Expression) -> None:
    table = TableColumns(events_table([{"timestamp": 0}]))
    with pytest.raises(TypeError, match=r"Kleene variable \('a'\)"):
        expression_values(expression, table, {"a": np.zeros(1, np.int32)})


def test_like_is_of_the_whole_string_and_reads_backslashes() -> None:
    texts = ["50%_", "50x_", r"50\%_", "a\nb", ""]
    table = TableColumns(events_table([{"timestamp": i, "s": text} for i, text in enumerate(texts)]))

    def alike(text: str) -> list[str]:
        atom = Like(Reference("a", "s", Element.ONLY, STRING), text)
        holds = conjunct_holds(Conjunct((atom,)), table, {"a": np.arange(len(texts))})
        return [one for one, held in zip(texts, holds, strict=True) if held]

    assert alike(r"50\%\_") == ["50%_"]
    assert alike(r"50\\\%\_") == [r"50\%_"]
    assert alike(r"50\x%") == []
    assert alike("a_b") == ["a\nb"]
    assert alike("") == [""]


def test_the_local_clock_is_known_in_the_years_1_to_9999() -> None:
    first, end = -62_135_596_800_000_000, 253_402_300_800_000_000
    instants = [first - 1, first, first + 5 * 3_600_000_000, end - 1, end]
    table = TableColumns(events_table([{"timestamp": i, "x": instant} for i, instant in enumerate(instants)]))

    def read(function: str, zone: str) -> list[Any]:
        call = Call(function, (Reference("a", "x", Element.ONLY, INT),), INT, zone)
        column = expression_values(call, table, {"a": np.arange(len(instants))})
        return [value_at(column, index) for index in range(len(instants))]

    assert read("day_of_week", "UTC") == [None, 1, 1, 5, None]
    assert read("time_of_day", "UTC") == [None, 0, 5 * 3_600_000_000, 86_399_999_999, None]
    assert read("day_of_week", "America/New_York") == [None, None, 1, 5, None]
    assert read("day_of_week", "Asia/Kathmandu") == [None, 1, 1, None, None]
