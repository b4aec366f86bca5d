"""What each form of the grammar means, node by node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cep_pipeline.errors import PatternError
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.conditions import (
    AllOf,
    AnyOf,
    Between,
    Comparator,
    Comparison,
    Condition,
    Conjunct,
    Equivalence,
    Like,
    Membership,
    Not,
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
from cep_pipeline.patterns.pattern import Consume, Output, Pattern, Strategy, Ties, Window
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator
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
        ("1 S", Window(time_us=1_000_000)),
        ("2 sec", Window(time_us=2_000_000)),
        ("1 m", Window(time_us=60_000_000)),
        ("1.5min", Window(time_us=90_000_000)),
        ("1 h", Window(time_us=3_600_000_000)),
        ("7 d", Window(time_us=604_800_000_000)),
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


def test_a_parameter_outside_in_is_one_value() -> None:
    pattern = parse_one(
        "PATTERN A a WHERE a.x > $b AND a.s IN ($s, 'q') AND a.f = $yes WITHIN 1 day RETURN $b * 2",
        {"b": np.int64(3), "s": "p", "yes": True, "unused": 1},
    )
    assert pattern.parameters == (("b", 3), ("s", "p"), ("yes", True))
    assert type(pattern.parameters[0][1]) is int
    assert pattern.returns[0].name == "$b * 2"
    first, second, third = condition_of(pattern).operands
    assert first == Comparison(Comparator.GT, x("a"), Literal(3, INT, "b"))
    assert isinstance(second, Membership) and (second.values, second.names) == (("p", "q"), ("s", None))
    assert third == Comparison(
        Comparator.EQ, Reference("a", "f", Element.ONLY, ValueType.BOOL), Literal(True, ValueType.BOOL, "yes")
    )


def condition_of(pattern: Pattern) -> AllOf:
    assert isinstance(pattern.condition, AllOf)
    return pattern.condition


def test_chains_and_truth() -> None:
    one, x_of_a, three = Literal(1, INT), x("a"), Literal(3, INT)
    chain = AllOf((Comparison(Comparator.LT, one, x_of_a), Comparison(Comparator.LE, x_of_a, three)))
    assert condition("1 < a.x <= 3") == chain
    assert condition("NOT 1 < a.x <= 3") == Not(chain)
    assert condition("1 < a.x <= 3 AND TRUE") == AllOf((*chain.operands, Truth()))
    assert condition("(1 < a.x <= 3) OR NOT true") == AnyOf((chain, Not(Truth())))
    assert condition("a.f = TRUE") == Comparison(
        Comparator.EQ, Reference("a", "f", Element.ONLY, ValueType.BOOL), Literal(True, ValueType.BOOL)
    )


def test_what_true_leaves_of_the_conjuncts() -> None:
    pattern = parse_one("PATTERN A a WHERE (a.x > 5 OR TRUE) AND (a.x = 2 OR NOT TRUE) AND TRUE WITHIN 1 day")
    assert pattern.clauses[0].conjuncts == (Conjunct((Comparison(Comparator.EQ, x("a"), Literal(2, INT)),)),)
    never = parse_one("PATTERN A a WHERE NOT TRUE WITHIN 1 day")
    assert never.clauses[0].conjuncts == (Conjunct((Truth(False),)),)


def test_tests_of_null_and_of_texts() -> None:
    text = Reference("a", "s", Element.ONLY, TEXT)
    assert condition("a.x IS NULL") == NullTest(x("a"))
    assert condition("a.x + 1 is not null") == NullTest(Arithmetic("+", x("a"), Literal(1, INT), INT), True)
    assert condition("a.s LIKE 'a%_'") == Like(text, "a%_")
    assert condition("a.s NOT LIKE '50\\%'") == Like(text, "50\\%", True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 seconds", 5_000_000),
        ("-2 min", -120_000_000),
        ("0.5 ms", 500),
        ("0 us", 0),
        ("1 D", 86_400_000_000),
        ("TIME '09:30'", 34_200_000_000),
        ("time '23:59:59.000001'", 86_399_000_001),
        ("TIMESTAMP '2013-10-07'", 1381104000_000000),
        ("TIMESTAMP '2013-10-07 09:30'", 1381138200_000000),
        ("TIMESTAMP '2013-10-07T09:30:00.5-04:00'", 1381152600_500000),
        ("Timestamp '0001-01-01 00:00+10:00'", -62135596800_000000 - 36000_000000),
    ],
)
def test_times_are_microseconds(text: str, expected: int) -> None:
    in_new_york = replace(SCHEMA, timezone="America/New_York" if "T09:30" in text else "UTC")
    [pattern] = parse_patterns(f"PATTERN A a WHERE a.x = {text} AND a.x IN ({text}) WITHIN 1 s", in_new_york)
    compared, member = condition_of(pattern).operands
    assert isinstance(compared, Comparison) and isinstance(member, Membership)
    assert compared.right == Literal(expected, INT) and member.values == (expected,)


def test_local_times_of_a_zone() -> None:
    in_new_york = replace(SCHEMA, timezone="America/New_York")

    def read(text: str) -> Expression:
        [pattern] = parse_patterns(f"PATTERN A a WITHIN 1 s RETURN TIMESTAMP '{text}'", in_new_york)
        assert pattern.timezone == "America/New_York"
        return pattern.returns[0].expression

    assert read("2013-10-07 09:30:00") == Literal(1381152600_000000, INT)
    assert read("2013-11-03 01:30:00-04:00") == Literal(1383456600_000000, INT)
    assert read("2013-11-03 01:30:00-05:00") == Literal(1383460200_000000, INT)
    with pytest.raises(PatternError, match=r"does not exist in America/New_York.*'2013-03-10 03:30:00'"):
        read("2013-03-10 02:30:00")
    with pytest.raises(PatternError, match="add the offset: '2013-11-03 01:30:00-04:00' or '2013-11-03 01:30:00-05"):
        read("2013-11-03 01:30:00")
    [pattern] = parse_patterns("PATTERN A a WITHIN 1 s RETURN time_of_day(a.timestamp)", in_new_york)
    assert pattern.returns[0].expression == Call(
        "time_of_day", (Reference("a", "timestamp", Element.ONLY, INT),), INT, "America/New_York"
    )


def test_words_of_the_second_edition_stay_names() -> None:
    """Types, variables and attributes may be called like the new key words."""
    words = ("timestamp", "time", "like", "IS", "s", "least", "NULL", "min", "d")
    schema = replace(SCHEMA, attributes={**SCHEMA.attributes, **dict.fromkeys(words[1:], INT)})
    for word in words:
        text = f"PATTERN {word} {word} WHERE {word}.{word} > 1 AND {word}.{word} % {word}.{word} = 10 % {word}.{word}"
        [pattern] = parse_patterns(f"{text} WITHIN 1 s PARTITION BY {word}", schema)
        assert pattern.operands == (EventOperand(word, word),)


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
