"""The values that make up a pattern: immutable, checked when they are made, equal by meaning and not by place."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import pytest

from cep_pipeline.patterns.conditions import Comparator, Comparison, Membership, expressions_of, negate
from cep_pipeline.patterns.expressions import Element, Literal, Reference, Span, ValueType, variables_of, walk
from cep_pipeline.patterns.pattern import Pattern, ReturnItem, Strategy, Window, remembered
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator
from tests.language.schemas import parse_one

ONE = Literal(1, ValueType.INT64)
A = EventOperand("A", "a")
DAY = Window(events=5)


@pytest.mark.parametrize(("time_us", "events"), [(None, None), (1, 1), (0, None), (-1, None), (None, 0), (None, -3)])
def test_windows_are_positive_and_of_one_kind(time_us: int | None, events: int | None) -> None:
    with pytest.raises(ValueError, match="window"):
        Window(time_us=time_us, events=events)


def test_patterns_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="a list has no 3 to 2 events"):
        EventOperand("A", "a", kleene=True, minimum=3, maximum=2)
    with pytest.raises(ValueError, match="only a list has a number of events"):
        EventOperand("A", "a", minimum=2)
    with pytest.raises(ValueError, match="SEQ needs an operand"):
        Composite(Operator.SEQ, ())
    with pytest.raises(ValueError, match="stands twice"):
        Pattern("p", Composite(Operator.SEQ, (A, A)), DAY)
    with pytest.raises(ValueError, match="no positive variable"):
        Pattern("p", EventOperand("A", "a", negated=True), DAY)
    with pytest.raises(ValueError, match="two columns"):
        Pattern("p", A, DAY, returns=(ReturnItem(ONE, "n"), ReturnItem(ONE, "n")))


def test_places_take_no_part_in_equality() -> None:
    assert EventOperand("A", "a", span=Span(3, 6)) == A
    assert hash(Literal(1, ValueType.INT64, span=Span(3, 4))) == hash(ONE)
    assert Literal(1.0, ValueType.FLOAT64) != ONE


def test_patterns_are_immutable_and_travel_between_processes() -> None:
    pattern = parse_one(
        "PATTERN SEQ(A a, K+ k[], ~N n) WHERE [id] AND (a.x IN $p OR k[i].y > avg(k[..i-1].y)) WITHIN 2 hours "
        "RETURN a.x",
        {"p": [1, 2]},
    )
    with pytest.raises(FrozenInstanceError):
        pattern.name = "other"  # type: ignore[misc]
    assert pattern.clauses
    again = pickle.loads(pickle.dumps(pattern))
    assert again == pattern
    assert hash(again) == hash(pattern)
    assert again.clauses == pattern.clauses


@pytest.mark.parametrize("comparator", Comparator)
def test_negation_and_mirror_of_comparators(comparator: Comparator) -> None:
    holds = {
        Comparator.EQ: lambda a, b: a == b,
        Comparator.NE: lambda a, b: a != b,
        Comparator.LT: lambda a, b: a < b,
        Comparator.LE: lambda a, b: a <= b,
        Comparator.GT: lambda a, b: a > b,
        Comparator.GE: lambda a, b: a >= b,
    }
    for a, b in [(1, 2), (2, 1), (1, 1)]:
        assert holds[comparator](a, b) == (not holds[comparator.negation](a, b))
        assert holds[comparator](a, b) == holds[comparator.mirror](b, a)


def test_negated_atoms_differ_in_nothing_else() -> None:
    reference = Reference("a", "x", Element.ONLY, ValueType.INT64)
    membership = Membership(reference, (1, 2), "p")
    assert negate(membership) == Membership(reference, (1, 2), "p", True)
    assert negate(negate(membership)) == membership
    less = Comparison(Comparator.LT, reference, ONE)
    assert negate(less) == Comparison(Comparator.GE, reference, ONE)
    assert expressions_of(less) == (reference, ONE)


def test_walk_and_variables() -> None:
    condition = parse_one("PATTERN SEQ(A a, K+ k[]) WHERE abs(a.x - k.LEN) * -sum(k[].x) > 1 WITHIN 1 day").condition
    assert isinstance(condition, Comparison)
    assert variables_of(condition.left) == {"a", "k"}
    assert [type(node).__name__ for node in walk(condition.left)] == [
        "Arithmetic", "Call", "Arithmetic", "Reference", "Length", "Negative", "Aggregate",
    ]  # fmt: skip
    assert variables_of(ONE) == frozenset()


def test_what_is_made_of_a_pattern_is_made_once_an_object_and_not_kept_for_ever() -> None:
    asked: list[int] = []

    @remembered(2)
    def name_of(pattern: Pattern) -> str:
        """The name."""
        asked.append(id(pattern))
        return pattern.name

    patterns = [parse_one("PATTERN SEQ(A a, B b) WITHIN 5 events") for _ in range(3)]  # equal, and three objects
    for pattern in (*patterns[:2], *patterns[:2]):
        assert name_of(pattern) == pattern.name
    assert asked == [id(pattern) for pattern in patterns[:2]]
    assert name_of(patterns[2]) == patterns[2].name
    assert name_of(patterns[0]) == patterns[0].name  # the first one was forgotten
    assert asked == [id(pattern) for pattern in (*patterns, patterns[0])]


@pytest.mark.parametrize(("forks", "skips", "crosses"), [(False, True, True), (True, False, False)])
def test_a_strategy_that_no_run_supports_is_refused(forks: bool, skips: bool, crosses: bool) -> None:
    with pytest.raises(ValueError, match="no run supports the flags of skip_more"):
        Strategy._new_member_(Strategy, "skip_more", forks, skips, crosses)
