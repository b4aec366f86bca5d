"""The normal form: clauses with their partial order, conjuncts, and which conjunct constrains which clause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.patterns.conditions import (
    AllOf,
    AnyOf,
    Atom,
    Between,
    Comparator,
    Comparison,
    Condition,
    Equivalence,
    Membership,
    Not,
)
from cep_pipeline.patterns.expressions import Element, Literal, Reference, ValueType
from cep_pipeline.patterns.normal_form import (
    MAX_CLAUSES,
    MAX_CONJUNCTS,
    NormalFormTooLarge,
    count_clauses,
    normalize,
    split_condition,
)
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator, Structure
from tests.language.schemas import parse_one

INT = ValueType.INT64


def clauses_of(structure: str, where: str = "") -> list[tuple[str, str]]:
    """Each clause as its variables (negated ones in upper case) and its order."""
    pattern = parse_one(f"PATTERN {structure} {where} WITHIN 1 day")
    assert [clause.index for clause in pattern.clauses] == list(range(len(pattern.clauses)))
    return [
        (
            "".join([v.name for v in clause.positive] + [v.name.upper() for v in clause.negated]),
            " ".join(sorted(a + b for a, b in clause.precedence)),
        )
        for clause in pattern.clauses
    ]


@pytest.mark.parametrize(
    ("structure", "expected"),
    [
        ("A a", [("a", "")]),
        ("SEQ(A a)", [("a", "")]),
        ("SEQ(A a, B b, C c)", [("abc", "ab ac bc")]),
        ("AND(A a, B b, C c)", [("abc", "")]),
        ("OR(A a, B b, C c)", [("a", ""), ("b", ""), ("c", "")]),
        ("SEQ(A a, ~B n, C c)", [("acN", "ac an nc")]),
        ("AND(A a, ~B n, C c)", [("acN", "")]),
        ("SEQ(AND(A a, B b), C c)", [("abc", "ac bc")]),
        ("AND(SEQ(A a, B b), C c)", [("abc", "ab")]),
        ("SEQ(A a, SEQ(~N n, B b), C c)", [("abcN", "ab ac an bc nb nc")]),
        ("SEQ(A a, AND(B b, ~N n), C c)", [("abcN", "ab ac an bc nc")]),
        ("SEQ(A a, OR(~N n, ~M m), B b)", [("abN", "ab an nb"), ("abM", "ab am mb")]),
        ("SEQ(A a, OR(B b, SEQ(C c, D d)), E e)", [("abe", "ab ae be"), ("acde", "ac ad ae cd ce de")]),
        ("AND(OR(A a, B b), OR(C c, D d))", [("ac", ""), ("ad", ""), ("bc", ""), ("bd", "")]),
        ("AND(A a, ~B n, OR(C c, D d))", [("acN", ""), ("adN", "")]),
        ("OR(SEQ(A a, B b), OR(C c, AND(D d, E e)))", [("ab", "ab"), ("c", ""), ("de", "")]),
        (
            "SEQ(OR(A a, ~N n), OR(~M m, B b), C c)",
            [("acM", "ac am mc"), ("abc", "ab ac bc"), ("cNM", "mc nc nm"), ("bcN", "bc nb nc")],
        ),
    ],
)
def test_clauses(structure: str, expected: list[tuple[str, str]]) -> None:
    assert clauses_of(structure) == expected


def test_variables_carry_what_the_operand_says() -> None:
    [_, clause] = parse_one("PATTERN SEQ(OR(A a, K+ k[]), ~N n, B b) WITHIN 1 day").clauses
    assert [(v.name, v.event_type, v.kleene, v.negated, v.position) for v in (*clause.positive, *clause.negated)] == [
        ("k", "K", True, False, 1),
        ("b", "B", False, False, 3),
        ("n", "N", False, True, 2),
    ]
    assert clause.by_name["n"] == clause.negated[0]
    assert clause.predecessors("n") == (clause.by_name["k"],)
    assert clause.successors("n") == (clause.by_name["b"],)
    assert clause.predecessors("k") == ()


def test_clauses_of_a_pattern_are_made_once() -> None:
    pattern = parse_one("PATTERN OR(A a, B b) WITHIN 1 day")
    assert pattern.clauses is pattern.clauses
    assert pattern.clauses == normalize(pattern.structure, pattern.condition, pattern.partition_by)


def test_each_conjunct_constrains_the_clauses_that_have_all_its_variables() -> None:
    where = "WHERE [id] AND a.x = 1 AND a.x < b.x AND (c.x = 1 OR a.y > 0) AND 1 = 1 AND NOT (b.x = 2 OR c.x = 3)"
    pattern = parse_one(f"PATTERN SEQ(A a, OR(B b, C c)) {where} WITHIN 1 day PARTITION BY s, id")
    [with_b, with_c] = [[sorted(c.variables) for c in clause.conjuncts] for clause in pattern.clauses]
    assert with_b == [["a"], ["a", "b"], [], ["b"]]
    assert with_c == [["a"], ["a", "c"], [], ["c"]]
    for clause in pattern.clauses:
        assert clause.equivalences == ("id",)
        assert clause.partition_by == ("s", "id")
        assert clause.agree_on == ("s", "id")


# --- structures ----------------------------------------------------------------------------------------------


def _structures(depth: int) -> st.SearchStrategy[Structure]:
    leaf: st.SearchStrategy[Structure] = st.just(EventOperand("A", "?"))
    if depth == 0:
        return leaf
    inner = _structures(depth - 1)
    parts = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(leaf, st.builds(Composite, st.sampled_from(Operator), parts))


def _named(structure: Structure, names: Iterator[int]) -> Structure:
    if isinstance(structure, EventOperand):
        return EventOperand("A", f"v{next(names)}")
    return Composite(structure.operator, tuple(_named(operand, names) for operand in structure.operands))


Way = tuple[tuple[Operator, int], ...]
"""The way down to a variable: the operator and the operand taken at each level."""


def _paths(structure: Structure, path: Way = ()) -> Iterator[tuple[str, Way]]:
    """Each variable with its way."""
    if isinstance(structure, EventOperand):
        yield structure.variable, path
        return
    for index, operand in enumerate(structure.operands):
        yield from _paths(operand, (*path, (structure.operator, index)))


def _meet(one: Way, other: Way) -> tuple[Operator, int]:
    """The operator at which two ways part, and -1 or 1 as the first goes left or right of the other there."""
    for (operator, here), (_, there) in zip(one, other, strict=False):
        if here != there:
            return operator, -1 if here < there else 1
    raise AssertionError("two variables part somewhere")


@settings(deadline=None)
@given(_structures(3).map(lambda structure: _named(structure, iter(range(1000)))))
def test_clauses_by_where_ways_part(structure: Structure) -> None:
    count = count_clauses(structure)
    if count > 64:
        return
    clauses = normalize(structure)
    ways = dict(_paths(structure))
    assert len(clauses) == count
    for clause in clauses:
        names = [variable.name for variable in clause.positive]
        for a, b in product(names, names):
            operator, side = _meet(ways[a], ways[b]) if a != b else (None, 0)
            assert operator is not Operator.OR
            assert ((a, b) in clause.precedence) == (operator is Operator.SEQ and side < 0)
        # Nothing is left out: any other variable parts from one of the clause at an OR.
        for other in set(ways) - set(names):
            assert any(_meet(ways[other], ways[name])[0] is Operator.OR for name in names)
    assert len({frozenset(v.name for v in clause.positive) for clause in clauses}) == count


def test_too_many_clauses_are_refused_before_they_are_built() -> None:
    ors = tuple(Composite(Operator.OR, (EventOperand("A", f"a{n}"), EventOperand("B", f"b{n}"))) for n in range(10_000))
    structure = Composite(Operator.AND, ors)
    assert count_clauses(structure) == 2**10_000
    with pytest.raises(NormalFormTooLarge, match="more than 4,096 clauses"):
        normalize(structure)
    assert len(normalize(Composite(Operator.AND, ors[:12]))) == MAX_CLAUSES


# --- conditions ----------------------------------------------------------------------------------------------


def atom(number: int) -> Atom:
    """One of a few atoms that differ."""
    left = Reference("a", f"x{number}", Element.ONLY, INT)
    one = Literal(1, INT)
    return (Comparison(Comparator.LT, left, one), Membership(left, (1, 2)), Between(left, one, one))[number % 3]


ATOMS = tuple(atom(number) for number in range(5))

conditions: st.SearchStrategy[Condition] = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: AllOf(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
    ),
    max_leaves=8,
)

Truth = bool | None


def _truth(condition: Condition, given_truth: Mapping[str, Truth]) -> Truth:
    """Three-valued truth as in SQL, straight from the condition; an atom's truth goes by its attribute."""
    match condition:
        case Not(operand):
            truth = _truth(operand, given_truth)
            return None if truth is None else not truth
        case AllOf(parts):
            truths = [_truth(part, given_truth) for part in parts]
            return False if False in truths else (None if None in truths else True)
        case AnyOf(parts):
            truths = [_truth(part, given_truth) for part in parts]
            return True if True in truths else (None if None in truths else False)
        case Equivalence():
            raise AssertionError("no equivalence here")
        case _:
            return _truth_of_atom(condition, given_truth)


def _truth_of_atom(atom: Atom, given_truth: Mapping[str, Truth]) -> Truth:
    reference = atom.left if isinstance(atom, Comparison) else atom.expression
    assert isinstance(reference, Reference)
    truth = given_truth[reference.attribute]
    negated = atom.comparator is Comparator.GE if isinstance(atom, Comparison) else atom.negated
    return None if truth is None else truth != negated


@settings(deadline=None)
@given(conditions, st.lists(st.sampled_from([True, False, None]), min_size=5, max_size=5))
def test_conjuncts_hold_exactly_where_the_condition_is_true(condition: Condition, truths: list[Truth]) -> None:
    given_truth = {f"x{number}": truth for number, truth in enumerate(truths)}
    conjuncts, attributes = split_condition(condition)
    assert attributes == ()
    found = all(any(_truth_of_atom(a, given_truth) is True for a in conjunct.atoms) for conjunct in conjuncts)
    assert found == (_truth(condition, given_truth) is True)
    assert len(set(conjuncts)) == len(conjuncts)
    assert all(len(set(conjunct.atoms)) == len(conjunct.atoms) for conjunct in conjuncts)


def test_equivalence_tests_are_gathered_and_nothing_else_is_rewritten() -> None:
    one, two, three = ATOMS[:3]
    condition = AllOf((Equivalence(("id",)), one, AllOf((Equivalence(("s", "id")), AnyOf((two, AllOf((one, three))))))))
    conjuncts, attributes = split_condition(condition)
    assert attributes == ("id", "s")
    assert [conjunct.atoms for conjunct in conjuncts] == [(one,), (two, one), (two, three)]
    assert split_condition(None) == ((), ())
    # A tautology stays, with the unknown that it can be.
    [tautology], _ = split_condition(AnyOf((one, Not(one))))
    assert len(tautology.atoms) == 2
    with pytest.raises(ValueError, match="equivalence test stands under OR or NOT"):
        split_condition(Not(Equivalence(("id",))))


def test_too_many_conjuncts_are_refused_before_they_are_built() -> None:
    pair = AllOf((ATOMS[0], ATOMS[1]))
    with pytest.raises(NormalFormTooLarge, match="conjunctive normal form"):
        split_condition(AnyOf((pair,) * 10_000))
    with pytest.raises(NormalFormTooLarge, match="conjunctive normal form"):
        split_condition(Not(AnyOf((Not(pair),) * (MAX_CONJUNCTS + 1))))
