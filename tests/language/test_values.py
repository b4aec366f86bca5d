"""Parameters of one value, chains, tests of null and of texts, and times: what the language reads of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cep_pipeline.errors import PatternError
from cep_pipeline.language.formatter import format_pattern, pattern_version
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.language.scope import WrittenValues
from cep_pipeline.patterns.conditions import (
    AllOf,
    AnyOf,
    Comparator,
    Comparison,
    Condition,
    Conjunct,
    Like,
    Membership,
    Not,
    NullTest,
    Truth,
)
from cep_pipeline.patterns.expressions import (
    Arithmetic,
    Call,
    Element,
    Expression,
    Literal,
    Reference,
    ValueType,
)
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.patterns.structure import EventOperand
from tests.language.schemas import SCHEMA, parse_one

INT, TEXT = ValueType.INT64, ValueType.STRING


def x(variable: str) -> Reference:
    return Reference(variable, "x", Element.ONLY, INT)


def condition(text: str) -> Condition:
    parsed = parse_one(f"PATTERN SEQ(A a, B b) WHERE {text} WITHIN 1 day").condition
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("text", "length_us"),
    [
        ("1 S", 1_000_000),
        ("2 sec", 2_000_000),
        ("1 m", 60_000_000),
        ("1.5min", 90_000_000),
        ("1 h", 3_600_000_000),
        ("7 d", 604_800_000_000),
    ],
)
def test_short_units_of_windows(text: str, length_us: int) -> None:
    assert parse_one(f"PATTERN A a WITHIN {text}").window == Window(time_us=length_us)


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


def test_values_written_as_text_are_a_set_or_one_value() -> None:
    text = (
        "NAME rise PATTERN SEQ(A a, B b) WHERE b.x - a.x > $size AND a.s = $sign WITHIN 1 day;"
        "PATTERN A a WHERE a.x IN $sizes WITHIN 1 day; PATTERN A a WHERE a.x IN $size WITHIN 1 day"
    )
    written = {"size": (100,), "sign": ("p",), "sizes": (100, -2.5, 100)}
    patterns = parse_patterns(text, SCHEMA, {name: WrittenValues(values) for name, values in written.items()})
    assert [(pattern.name, pattern.parameters) for pattern in patterns] == [
        ("rise", (("size", 100), ("sign", "p"))),
        ("pattern_2", (("sizes", (100, -2.5)),)),
        ("pattern_3", (("size", (100,)),)),
    ]
    assert len({pattern_version(pattern) for pattern in patterns}) == 3
    for pattern in patterns:
        assert parse_patterns(format_pattern(pattern), SCHEMA, dict(pattern.parameters)) == [pattern]


def test_a_parameter_has_one_use_in_a_statement() -> None:
    text = "PATTERN A a WHERE {} AND {} WITHIN 1 day"
    for uses in (("a.x = $n", "a.x IN $n"), ("a.x IN $n", "a.x = $n")):
        with pytest.raises(PatternError, match="give the two uses two names"):
            parse_patterns(text.format(*uses), SCHEMA, {"n": WrittenValues((1,))})
    for values in ((), (1.5, "1.5")):
        with pytest.raises(PatternError, match="one number, string or bool here"):
            parse_patterns("PATTERN A a WHERE a.x = $n WITHIN 1 day", SCHEMA, {"n": WrittenValues(values)})


def test_the_version_of_a_pattern_that_reads_the_clock_has_the_zone() -> None:
    def version(text: str, zone: str) -> str:
        return pattern_version(parse_patterns(text, replace(SCHEMA, timezone=zone))[0])

    read = "PATTERN A a WHERE time_of_day(a.timestamp) > TIME '09:30' WITHIN 1 s"
    assert version(read, "UTC") != version(read, "Asia/Tokyo")
    assert version("PATTERN A a WITHIN 1 s", "UTC") == version("PATTERN A a WITHIN 1 s", "Asia/Tokyo")
