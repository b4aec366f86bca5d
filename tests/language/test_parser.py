"""What each form of the grammar means, node by node."""

from __future__ import annotations

import numpy as np
import pytest

from cep_pipeline.errors import PatternError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.formatter import format_type
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.conditions import (
    AllOf,
    AnyOf,
    Between,
    Comparator,
    Comparison,
    Condition,
    Equivalence,
    Membership,
    Not,
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
from cep_pipeline.patterns.pattern import Consume, Output, Strategy, Ties, Window
from cep_pipeline.patterns.structure import Composite, EventOperand, Negation, Operator, structure_text
from tests.language.schemas import SCHEMA, parse_one

INT, FLOAT, TEXT = ValueType.INT64, ValueType.FLOAT64, ValueType.STRING


def x(variable: str, element: Element = Element.ONLY) -> Reference:
    return Reference(variable, "x", element, INT)


def condition(text: str, structure: str = "SEQ(A a, B b)") -> Condition:
    parsed = parse_one(f"PATTERN {structure} WHERE {text} WITHIN 1 day", {"set": [3, 1, 3], "none": []}).condition
    assert parsed is not None
    return parsed


def value(text: str, structure: str = "SEQ(A a, K+ k[])") -> Expression:
    parsed = condition(f"{text} = 0", structure)
    assert isinstance(parsed, Comparison)
    return parsed.left


def number(text: str) -> int | float:
    literal = value(text, "A a")
    assert isinstance(literal, Literal)
    assert (literal.type is INT) == isinstance(literal.value, int)
    assert not isinstance(literal.value, str)
    return literal.value


def test_empty_statements_are_nothing_and_do_not_count() -> None:
    assert parse_patterns("", SCHEMA) == []
    assert parse_patterns("\ufeff;", SCHEMA) == []
    assert parse_patterns(" ;;\n-- only a comment\n; /* ; */", SCHEMA) == []
    names = [
        p.name
        for p in parse_patterns(
            ";PATTERN A a WITHIN 1 us;; NAME q PATTERN A a WITHIN 1 us; PATTERN A a WITHIN 1 us", SCHEMA
        )
    ]
    assert names == ["pattern_1", "q", "pattern_3"]


def test_every_clause() -> None:
    pattern = parse_one(
        "name Q pattern seq(A a, not B n, not(B m), ~(B o), A+ k[], kl(B l)) where Skip_Till-Next-Match(a, n, k[], l)"
        " { a.x = 1 } within 1 Day partition by id, from, id ties strict output non_overlap consume matched"
        " return a.x as first_x, a.x"
    )
    assert (pattern.name, pattern.named) == ("Q", True)
    assert pattern.structure == Composite(
        Operator.SEQ,
        (
            EventOperand("A", "a"),
            EventOperand("B", "n", negated=True),
            EventOperand("B", "m", negated=True),
            EventOperand("B", "o", negated=True),
            EventOperand("A", "k", kleene=True),
            EventOperand("B", "l", kleene=True),
        ),
    )
    assert pattern.strategy is Strategy.SKIP_TILL_NEXT_MATCH
    assert pattern.window == Window(time_us=86_400_000_000)
    assert pattern.partition_by == ("id", "from")
    assert (pattern.ties, pattern.output, pattern.consume) == (Ties.STRICT, Output.NON_OVERLAP, Consume.MATCHED)
    assert [(item.name, item.expression, item.named) for item in pattern.returns] == [
        ("first_x", x("a"), True),
        ("a.x", x("a"), False),
    ]
    assert (pattern.stream, pattern.type_attribute, pattern.base_type) == ("stream", "kind", "Ev")
    assert dict(pattern.attributes) == SCHEMA.attributes


def test_words_are_reserved_only_where_the_page_says() -> None:
    pattern = parse_one(
        "PATTERN SEQ(events events, ms LEN, i i, avg+ avg[], ~skip_till_any_match arrival)"
        " WHERE events.from = LEN.from AND avg[avg.LEN].x = i.x AND avg(avg[..i-1].x) > 1 AND avg.len > 1"
        " AND arrival.x = 1 WITHIN 3 events RETURN i.x AS within"
    )
    assert [operand.variable for operand in pattern.operands] == ["events", "LEN", "i", "avg", "arrival"]
    statements = (
        "NAME kl PATTERN A a WITHIN 1 us; NAME pattern PATTERN A a WITHIN 1 us; NAME True PATTERN A a WITHIN 1 us"
    )
    assert [pattern.name for pattern in parse_patterns(statements, SCHEMA)] == ["kl", "pattern", "True"]
    assert condition("[from, LEN]") == Equivalence(("from", "LEN"))
    assert condition("strict_contiguity.x = 1", "A strict_contiguity") == Comparison(
        Comparator.EQ, x("strict_contiguity"), Literal(1, INT)
    )


def test_quoted_types() -> None:
    pattern = parse_one('PATTERN SEQ("BRK.B" b, "158324" s, "say ""hi""" t, "SEQ" q, "Plain" p) WITHIN 1 day')
    assert [operand.event_type for operand in pattern.operands] == ["BRK.B", "158324", 'say "hi"', "SEQ", "Plain"]


def operand(text: str) -> EventOperand | Composite | Negation:
    """What stands between A a and Z z in a SEQ."""
    structure = parse_one(f"PATTERN SEQ(A a, {text}, Z z) WITHIN 1 day").structure
    assert isinstance(structure, Composite)
    return structure.operands[1]


@pytest.mark.parametrize(
    ("text", "expected", "canonical"),
    [
        ("(A | B) v", EventOperand(("A", "B"), "v"), "(A | B) v"),
        ("(B | A | B) v", EventOperand(("B", "A"), "v"), "(B | A) v"),
        ("(A|A) v", EventOperand("A", "v"), "A v"),
        ("(A) v", EventOperand("A", "v"), "A v"),
        ('(A | "in")+ v[]', EventOperand(("A", "in"), "v", kleene=True), '(A | "in")+ v[]'),
        ("KL((A | B) v)", EventOperand(("A", "B"), "v", kleene=True), "(A | B)+ v[]"),
        ("~(A | B) v", EventOperand(("A", "B"), "v", negated=True), "~(A | B) v"),
        ("~(A) v", EventOperand("A", "v", negated=True), "~A v"),
        ("~(A v)", EventOperand("A", "v", negated=True), "~A v"),
        ("NOT((A | B) v)", EventOperand(("A", "B"), "v", negated=True), "~(A | B) v"),
        ("A? v", EventOperand("A", "v", optional=True), "A? v"),
        ("(A | B)? v", EventOperand(("A", "B"), "v", optional=True), "(A | B)? v"),
        ("A* v[]", EventOperand("A", "v", kleene=True, optional=True), "A* v[]"),
        ("A{2} v[]", EventOperand("A", "v", True, minimum=2, maximum=2), "A{2} v[]"),
        ("A{ 2 , } v[]", EventOperand("A", "v", True, minimum=2), "A{2,} v[]"),
        ("A{2,5} v[]", EventOperand("A", "v", True, minimum=2, maximum=5), "A{2,5} v[]"),
        ("A{1,} v[]", EventOperand("A", "v", True), "A+ v[]"),
        ("A{1} v[]", EventOperand("A", "v", True, minimum=1, maximum=1), "A{1} v[]"),
        ("~SEQ(B b)", EventOperand("B", "b", negated=True), "~B b"),
        ("NOT(AND(OR(B b)))", EventOperand("B", "b", negated=True), "~B b"),
    ],
)
def test_operands(text: str, expected: EventOperand, canonical: str) -> None:
    assert operand(text) == expected
    assert structure_text(expected, format_type) == canonical
    assert operand(canonical) == expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("not (and (B b, (C|D)? c))", "~AND(B b, (C | D)? c)"),
        ("~K+ k[]", "~K+ k[]"),
        ("NOT(K{2,3} k[])", "~K{2,3} k[]"),
        ("~KL((A | B) k)", "~(A | B)+ k[]"),
        ("~(SEQ(B b, OR(C c, D* d[]), E e))", "~SEQ(B b, OR(C c, D* d[]), E e)"),
    ],
)
def test_negations(text: str, canonical: str) -> None:
    negation = operand(text)
    assert isinstance(negation, Negation)
    assert structure_text(negation) == canonical
    assert operand(canonical) == negation


def test_the_base_type_beside_another_is_the_base_type() -> None:
    [pattern] = parse_patterns(
        "PATTERN SEQ((SPY | Trade)+ v[], (SPY | QQQ) w) WITHIN 1 day",
        StreamSchema.from_dict(
            {"base_type": "Trade", "type_attribute": "symbol", "attributes": {"symbol": "string", "price": "float64"}}
        ),
    )
    assert [operand.event_type for operand in pattern.operands] == ["Trade", ("SPY", "QQQ")]


def test_a_negated_operand_counts_as_one_clause_and_has_its_own() -> None:
    many = ", ".join(f"OR({', '.join(f'B b{part}_{choice}' for choice in range(8))})" for part in range(4))
    assert len(parse_one(f"PATTERN SEQ(A a, ~AND({many})) WITHIN 1 day").clauses) == 1
    with pytest.raises(PatternError, match="what is negated has more than 4,096 clauses"):
        parse_one(f"PATTERN SEQ(A a, ~AND({many}, B? b)) WITHIN 1 day")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 us", Window(time_us=7)),
        ("1.5 ms", Window(time_us=1500)),
        ("2.5 seconds", Window(time_us=2_500_000)),
        (".5 seconds", Window(time_us=500_000)),
        ("1 SECOND", Window(time_us=1_000_000)),
        ("0.1 minute", Window(time_us=6_000_000)),
        ("1e-6 seconds", Window(time_us=1)),
        ("12hours", Window(time_us=43_200_000_000)),
        ("1 EVENTS", Window(events=1)),
        ("100 Events", Window(events=100)),
        ("9223372036854775807 us", Window(time_us=2**63 - 1)),
    ],
)
def test_windows(text: str, expected: Window) -> None:
    assert parse_one(f"PATTERN A a WITHIN {text}").window == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("007", 7),
        ("1.0", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.5E-2", 0.015),
        ("80%", 0.8),
        ("57.3%", 0.573),
        ("1e2%", 1.0),
        ("0.07%", 0.0007),
        ("-5", -5),
        ("-50%", -0.5),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1e-400", 0.0),
    ],
)
def test_numbers(text: str, expected: float) -> None:
    found = number(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("5 % 3", "%"),
        ("5 %3", "%"),
        ("5%a.x", "%"),
        ("5 % (3)", "%"),
        ("5 % abs(3)", "%"),
        ("5% + 3", "+"),
        ("5% - 3", "-"),
        ("5% * a.x", "*"),
        ("5%% 3", "%"),
        ("a.x % -3", "%"),
    ],
)
def test_percent_or_modulo(text: str, operator: str) -> None:
    parsed = value(text, "A a")
    assert isinstance(parsed, Arithmetic)
    assert parsed.operator == operator
    left = parsed.left
    if isinstance(left, Literal):
        assert left.value == (0.05 if operator != "%" or "%%" in text else 5)


def test_a_keyword_after_percent_is_no_name() -> None:
    assert condition("a.x < 80% AND b.x = 1") == AllOf(
        (
            Comparison(Comparator.LT, x("a"), Literal(0.8, FLOAT)),
            Comparison(Comparator.EQ, x("b"), Literal(1, INT)),
        )
    )
    assert isinstance(condition("50% NOT BETWEEN 1 AND 2"), Between)
    assert condition("a.y IN (50%, -5%)") == Membership(Reference("a", "y", Element.ONLY, FLOAT), (0.5, -0.05))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k.x", x("k", Element.EACH)),
        ("k[].x", x("k", Element.EACH)),
        ("k[1].x", x("k", Element.FIRST)),
        ("k[i].x", x("k", Element.CURRENT)),
        ("k[i - 1].x", x("k", Element.PREVIOUS)),
        ("k[k.LEN].x", x("k", Element.LAST)),
        ("k[k.len].x", x("k", Element.LAST)),
        ("k.LEN", Length("k")),
        ("k.Len", Length("k")),
        ("k[].LEN", Reference("k", "LEN", Element.EACH, INT)),
        ("a.LEN", Reference("a", "LEN", Element.ONLY, INT)),
        ("a.timestamp", Reference("a", "timestamp", Element.ONLY, INT)),
        ("a.seq", Reference("a", "seq", Element.ONLY, INT)),
        ("AVG(k[].x)", Aggregate("avg", "k", "x", False, FLOAT)),
        ("sum(k[].x)", Aggregate("sum", "k", "x", False, INT)),
        ("sum(k[..i-1].y)", Aggregate("sum", "k", "y", True, FLOAT)),
        ("count(k[].s)", Aggregate("count", "k", "s", False, INT)),
        ("abs(a.x)", Call("abs", (x("a"),), INT)),
        ("sqrt(a.x)", Call("sqrt", (x("a"),), FLOAT)),
        ("- a.x", Negative(x("a"), INT)),
        ("a.x + 1", Arithmetic("+", x("a"), Literal(1, INT), INT)),
        ("a.x + 1.0", Arithmetic("+", x("a"), Literal(1.0, FLOAT), FLOAT)),
        ("a.x / 2", Arithmetic("/", x("a"), Literal(2, INT), FLOAT)),
        ("a.x % 2", Arithmetic("%", x("a"), Literal(2, INT), INT)),
        (
            "1 - 2 - a.x * 3",
            Arithmetic(
                "-",
                Arithmetic("-", Literal(1, INT), Literal(2, INT), INT),
                Arithmetic("*", x("a"), Literal(3, INT), INT),
                INT,
            ),
        ),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_values(text: str, expected: Expression) -> None:
    assert value(text) == expected


def test_lists_compare_by_corr_and_first_of_lists() -> None:
    parsed = condition("corr(first(k[].h), a.h) > -0.2", "SEQ(A a, K+ k[])")
    assert isinstance(parsed, Comparison)
    assert parsed.left == Call(
        "corr",
        (
            Aggregate("first", "k", "h", False, ValueType.FLOAT64_LIST),
            Reference("a", "h", Element.ONLY, ValueType.FLOAT64_LIST),
        ),
        FLOAT,
    )


def test_precedence_of_conditions() -> None:
    one, two, three = (Comparison(Comparator.EQ, x("a"), Literal(n, INT)) for n in (1, 2, 3))
    assert condition("a.x = 1 OR a.x = 2 AND NOT a.x = 3") == AnyOf((one, AllOf((two, Not(three)))))
    assert condition("(a.x = 1 OR a.x = 2) AND (a.x = 3)") == AllOf((AnyOf((one, two)), three))
    assert condition("a.x = 1 AND (a.x = 2 AND a.x = 3)") == AllOf((one, two, three))
    assert condition("((a.x)) = ((1))") == one
    assert condition("NOT NOT a.x = 1") == Not(Not(one))


def test_between_in_and_strings() -> None:
    assert condition("a.x NOT BETWEEN b.x - 1 AND 5 AND a.x = 1") == AllOf(
        (
            Between(x("a"), Arithmetic("-", x("b"), Literal(1, INT), INT), Literal(5, INT), True),
            Comparison(Comparator.EQ, x("a"), Literal(1, INT)),
        )
    )
    assert condition("a.x NOT IN (1, -2, 2.5)") == Membership(x("a"), (1, -2, 2.5), None, True)
    assert condition("a.x IN $set") == Membership(x("a"), (3, 1, 3), "set")
    assert condition("a.x NOT IN $none") == Membership(x("a"), (), "none", True)
    assert condition("a.s = 'it''s -- no /* comment'") == Comparison(
        Comparator.EQ, Reference("a", "s", Element.ONLY, TEXT), Literal("it's -- no /* comment", TEXT)
    )


def test_spellings_of_comparisons() -> None:
    found = [condition(f"a.x {spelling} 1") for spelling in ("=", "==", "!=", "<>", "<", "<=", ">", ">=")]
    assert [part.comparator.value for part in found if isinstance(part, Comparison)] == [
        "=", "=", "!=", "!=", "<", "<=", ">", ">=",
    ]  # fmt: skip


def test_parameters_are_those_used_as_plain_values() -> None:
    pattern = parse_one(
        "PATTERN A a WHERE a.x IN $b AND a.s IN $a AND a.x NOT IN $b WITHIN 1 day",
        {"a": {"q", "p"}, "b": np.array([2, 1]), "unused": [True]},
    )
    assert pattern.parameters == (("b", (2, 1)), ("a", ("p", "q")))
    assert all(type(v) is int for v in pattern.parameters[0][1])


def test_two_negated_variables_may_stand_under_one_or() -> None:
    pattern = parse_one("PATTERN SEQ(A a, ~B n, ~B m) WHERE a.x = 1 OR (n.x = 1 AND a.x = m.x) WITHIN 1 day")
    assert [conjunct.variables for conjunct in pattern.clauses[0].conjuncts] == [{"a", "n"}, {"a", "m"}]


def test_names_of_return_items() -> None:
    pattern = parse_one(
        "PATTERN SEQ(A a, K+ k[]) WITHIN 1 day RETURN a.x, a.x, (a.x), k.LEN AS n, a.y AS n, a.x+a.y * 2, 1 AS n_2"
    )
    assert [item.name for item in pattern.returns] == [
        "a.x", "a.x_2", "a.x_3", "n", "n_2", "a.x + a.y * 2", "n_2_2",
    ]  # fmt: skip


def test_ties_any_where_nothing_is_ordered_runs_under_every_strategy() -> None:
    text = "PATTERN OR(AND(A a, B b), K+ k[]) WHERE strict_contiguity { 1 = 1 } WITHIN 1 day TIES ANY"
    assert parse_one(text).ties is Ties.ANY


def test_strategies_take_nested_chains() -> None:
    structure = "SEQ(SEQ(A a, ~B n), OR(AND(K+ k[]), C c), AND(SEQ(D d, E e)))"
    text = f"PATTERN {structure} WHERE skip_till_next_match {{ 1 = 1 }} WITHIN 1 day"
    assert len(parse_one(text).clauses) == 2


def test_a_file_of_a_thousand_statements() -> None:
    statement = (
        "PATTERN SEQ(A a{0}, K+ k[], B b) WHERE a{0}.x > b.x AND k[i].y > avg(k[..i-1].y) WITHIN 1 day RETURN b.x;\n"
    )
    patterns = parse_patterns("".join(statement.format(n) for n in range(1000)), SCHEMA)
    assert [pattern.name for pattern in patterns] == [f"pattern_{n}" for n in range(1, 1001)]


def test_patterns_are_values() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE [id] AND a.x < b.x WITHIN 1 day RETURN a.x"
    spaced = text.replace(" ", "  \n ")
    assert parse_one(text) == parse_one(spaced)
    assert hash(parse_one(text)) == hash(parse_one(spaced))
    assert parse_one(text) != parse_one(text.replace("<", "<="))


def test_notations_of_the_papers_are_read() -> None:
    """MCEP [0129] writes Kleene(T), where the type is its own variable; ACEP and DEBS'15 write the signs of logic."""
    papers = "PATTERN SEQ(A a, ¬(B b), Kleene(C)) WHERE a.x ≤ 1 ∧ (a.x ≠ 2 ∨ b.x ∈ (3, 4)) ∧ C[i].x ≥ 5 WITHIN 1 day"
    ours = "PATTERN SEQ(A a, ~B b, C+ C[]) WHERE a.x <= 1 AND (a.x != 2 OR b.x IN (3, 4)) AND C[i].x >= 5 WITHIN 1 day"
    read, expected = parse_one(papers), parse_one(ours)
    assert (read.structure, read.condition) == (expected.structure, expected.condition)
    assert structure_text(parse_one("PATTERN Kleene kleene WITHIN 1 day").structure) == "Kleene kleene"
    for text in ("SEQ(A, B b)", "KL(A)", "A"):
        with pytest.raises(PatternError, match="expected a variable"):
            parse_one(f"PATTERN {text} WITHIN 1 day")
