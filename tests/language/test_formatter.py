"""Canonical text: equal patterns have equal texts, texts give back their patterns, parentheses are where needed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.language.conditions import type_of_arithmetic, type_of_call
from cep_pipeline.language.formatter import (
    format_condition,
    format_expression,
    format_pattern,
    format_type,
    format_value,
    format_window,
    match_text,
    pattern_version,
)
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.conditions import (
    AllOf,
    AnyOf,
    Between,
    Comparator,
    Comparison,
    Condition,
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
from cep_pipeline.patterns.pattern import Window
from tests.language.schemas import SCHEMA, parse_one

INT, FLOAT = ValueType.INT64, ValueType.FLOAT64


def references(attribute: str, kind: ValueType) -> st.SearchStrategy[Expression]:
    kleene = [element for element in Element if element is not Element.ONLY]
    return st.one_of(
        st.just(Reference("a", attribute, Element.ONLY, kind)),
        st.sampled_from(kleene).map(lambda element: Reference("k", attribute, element, kind)),
    )


def arithmetic(operator: str, left: Expression, right: Expression) -> Expression:
    return Arithmetic(operator, left, right, type_of_arithmetic(operator, left.type, right.type))


leaves: st.SearchStrategy[Expression] = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda n: Literal(n, INT)),
    st.integers(-3, 3).map(lambda n: Literal(n, INT)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda n: Literal(n, FLOAT)),
    references("x", INT),
    references("y", FLOAT),
    references("LEN", INT),
    st.just(Length("k")),
    st.just(Aggregate("sum", "k", "x", True, INT)),
    st.just(Aggregate("last", "k", "y", False, FLOAT)),
    st.just(Aggregate("median", "k", "x", True, FLOAT)),
    st.just(Literal(7, INT, "seven")),
    st.just(Call("time_of_day", (Reference("a", "timestamp", Element.ONLY, INT),), INT, "UTC")),
)
numbers: st.SearchStrategy[Expression] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(arithmetic, st.sampled_from("+-*/%"), inner, inner),
        inner.map(lambda operand: Negative(operand, operand.type)),
        inner.map(lambda operand: Call("abs", (operand,), operand.type)),
        inner.map(lambda operand: Call("ln", (operand,), FLOAT)),
        st.builds(
            lambda one, other: Call("least", (one, other, one), type_of_call("least", (one.type, other.type))),
            inner,
            inner,
        ),
    ),
    max_leaves=8,
)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
atoms: st.SearchStrategy[Condition] = st.one_of(
    st.builds(Comparison, st.sampled_from(Comparator), numbers, numbers),
    st.builds(Between, numbers, numbers, numbers, st.booleans()),
    st.builds(
        lambda left, values, negated: Membership(left, tuple(values), None, negated),
        references("s", ValueType.STRING),
        st.lists(words, min_size=1, max_size=3),
        st.booleans(),
    ),
    st.builds(
        lambda left, values: Membership(left, tuple(values)),
        numbers,
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3),
    ),
    numbers.map(lambda left: Membership(left, (1, 2.5), "numbers", True)),
    numbers.map(lambda left: Membership(left, (3, 7), names=(None, "seven"))),
    st.builds(NullTest, numbers, st.booleans()),
    st.builds(Like, references("s", ValueType.STRING), words, st.booleans()),
    st.just(Truth()),
)


def combine(kind: type[AllOf] | type[AnyOf], parts: list[Condition]) -> Condition:
    flat: list[Condition] = []
    for part in parts:
        flat.extend(part.operands if isinstance(part, kind) else (part,))
    return kind(tuple(flat))


conditions: st.SearchStrategy[Condition] = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(Not), st.builds(combine, st.sampled_from([AllOf, AnyOf]), st.lists(inner, min_size=2, max_size=3))
    ),
    max_leaves=6,
)


def parsed(text: str) -> Condition:
    pattern = parse_one(f"PATTERN SEQ(A a, K+ k[]) WHERE {text} WITHIN 1 day", {"numbers": [1, 2.5], "seven": 7})
    assert pattern.condition is not None
    return pattern.condition


@settings(deadline=None)
@given(conditions)
def test_every_condition_is_parsed_from_its_text(condition: Condition) -> None:
    text = format_condition(condition)
    assert parsed(text) == condition
    assert format_condition(parsed(text)) == text


@settings(deadline=None)
@given(numbers)
def test_no_parenthesis_is_idle(expression: Expression) -> None:
    text = format_expression(expression)
    for start, end in grouping_parentheses(text):
        without = text[:start] + text[start + 1 : end] + text[end + 1 :]
        if text[:start].rstrip().endswith("%"):
            continue  # `% (-x)`, where the parentheses keep `%` from being percent
        try:
            found = parsed(f"{without} = 0")
        except ValueError:
            continue
        assert isinstance(found, Comparison)
        assert found.left != expression


def grouping_parentheses(text: str) -> list[tuple[int, int]]:
    """Offsets of the pairs of parentheses that are not those of a call."""
    open_at: list[int] = []
    pairs = []
    for offset, character in enumerate(text):
        if character == "(":
            open_at.append(offset)
        elif character == ")":
            start = open_at.pop()
            if start == 0 or not text[start - 1].isalnum():
                pairs.append((start, offset))
    return pairs


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((a.x+1))*2>(3)", "(a.x + 1) * 2 > 3"),
        ("a.x-(1-2)-3 <> 4", "a.x - (1 - 2) - 3 != 4"),
        ("a.x-(1*2) == 4", "a.x - 1 * 2 = 4"),
        ("a.x/(2*3) >= 80%", "a.x / (2 * 3) >= 0.8"),
        ("-(-(5)) < - -a.x", "-(-(5)) < -(-a.x)"),
        ("5 % (-3) = -5 % 3", "5 % (-3) = -5 % 3"),
        ("5 - -3 = 1e22", "5 - -3 = 1e+22"),
        ("not(a.x = 1)", "NOT a.x = 1"),
        ("not(a.x = 1 and a.y=2)", "NOT (a.x = 1 AND a.y = 2)"),
        ("not(a.x in (1,2.50,-3))", "NOT a.x IN (1, 2.5, -3)"),
        ("a.x NOT IN $numbers", "a.x NOT IN $numbers"),
        ("(a.x=1 and a.y=2) or (a.x=3)", "a.x = 1 AND a.y = 2 OR a.x = 3"),
        ("(a.x=1 or a.y=2) and ([id , s])", "(a.x = 1 OR a.y = 2) AND [id, s]"),
        ("a.x BETWEEN (1) and (2+3) or a.f=false", "a.x BETWEEN 1 AND 2 + 3 OR a.f = FALSE"),
        ("k.x > AVG( k[ .. i - 1 ].x )", "k[].x > avg(k[..i-1].x)"),
        ("k[ 1 ].x > k[k.len].x + k.len", "k[1].x > k[k.LEN].x + k.LEN"),
        ("a.s = 'it''s'", "a.s = 'it''s'"),
        ("1<a.x<=3 == k.LEN", "1 < a.x AND a.x <= 3 AND 3 = k.LEN"),
        ("NOT 1 < a.x <= 3", "NOT (1 < a.x AND a.x <= 3)"),
        ("a.x is NULL or a.y / 2 is not null", "a.x IS NULL OR a.y / 2 IS NOT NULL"),
        ("a.s like 'a%' and not a.s NOT LIKE 'it''s'", "a.s LIKE 'a%' AND NOT a.s NOT LIKE 'it''s'"),
        ("(a.x > 5 OR true) AND NOT (TRUE AND a.f = TRUE)", "(a.x > 5 OR TRUE) AND NOT (TRUE AND a.f = TRUE)"),
        ("a.x - $seven * -$seven = 10%$seven", "a.x - $seven * -$seven = 10 % $seven"),
        ("a.x IN ($seven, -7, 1 h)", "a.x IN ($seven, -7, 3600000000)"),
        ("a.x > -1.5 MS + 2 Minutes", "a.x > -1500 + 120000000"),
        ("a.x IN (TIMESTAMP '1970-01-01T00:00:01-01:00', time '00:01')", "a.x IN (3601000000, 60000000)"),
        (
            "day_of_week(a.timestamp)=1 AND Coalesce(a.f,TRUE)=TRUE",
            "day_of_week(a.timestamp) = 1 AND coalesce(a.f, TRUE) = TRUE",
        ),
        ("k.x > STDDEV( k[ .. i - 1 ].x )", "k[].x > stddev(k[..i-1].x)"),
    ],
)
def test_canonical_conditions(text: str, canonical: str) -> None:
    assert format_condition(parsed(text)) == canonical


def test_canonical_statement() -> None:
    pattern = parse_one(
        'pattern seq("A" a, not (B n), or("SEQ" s, kl("X.1" k))) where skip-till-next-match(a,k[]) '
        "{ (a.x=1 or a.y=2) and ([id]) } within 5400 seconds partition by id ties strict output non_overlap "
        "consume matched return a.x as p, a.x+1"
    )
    assert format_pattern(pattern) == (
        "NAME pattern_1\n"
        'PATTERN SEQ(A a, ~B n, OR("SEQ" s, "X.1"+ k[]))\n'
        "WHERE skip_till_next_match { (a.x = 1 OR a.y = 2)\n"
        "  AND [id] }\n"
        "WITHIN 90 minutes\n"
        "PARTITION BY id\n"
        "TIES STRICT\n"
        "OUTPUT NON_OVERLAP\n"
        "CONSUME MATCHED\n"
        "RETURN a.x AS p, a.x + 1"
    )
    assert match_text(pattern) == format_pattern(pattern).partition("\nOUTPUT")[0]


def test_match_text_does_not_depend_on_what_is_done_with_a_match() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.x IN $p WITHIN 3 EVENTS"
    plain = parse_one(text, {"p": [1]})
    extended = parse_one(f"{text} OUTPUT NON_OVERLAP CONSUME MATCHED RETURN a.x", {"p": [1]})
    assert match_text(plain) == match_text(extended) == format_pattern(plain)
    assert format_pattern(extended) != format_pattern(plain)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Window(events=1), "1 EVENTS"),
        (Window(time_us=1), "1 us"),
        (Window(time_us=1500), "1500 us"),
        (Window(time_us=2_000), "2 ms"),
        (Window(time_us=1_000_000), "1 second"),
        (Window(time_us=90_000_000), "90 seconds"),
        (Window(time_us=1_200_000_000), "20 minutes"),
        (Window(time_us=43_200_000_000), "12 hours"),
        (Window(time_us=172_800_000_000), "2 days"),
    ],
)
def test_windows(window: Window, text: str) -> None:
    assert format_window(window) == text
    assert parse_one(f"PATTERN A a WITHIN {text}").window == window


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6))
def test_every_type_can_be_written(name: str) -> None:
    pattern = parse_one(f"PATTERN {format_type(name)} a WITHIN 1 day")
    assert pattern.operands[0].event_type == name


def test_equivalence_alone_and_values() -> None:
    assert format_condition(Equivalence(("id", "from"))) == "[id, from]"
    assert [format_value(value) for value in (True, 1, 1.0, "o'clock", -0.0)] == [
        "TRUE",
        "1",
        "1.0",
        "'o''clock'",
        "-0.0",
    ]


def test_files_of_statements_that_compose_each_other() -> None:
    """What a statement composes is not part of its text, and is part of what tells its matches and versions."""
    pair = "NAME pair PATTERN SEQ(A a, B b) WITHIN 1 day RETURN a.x AS x"
    other = "NAME other PATTERN pair p WITHIN 1 day OUTPUT NON_OVERLAP"
    last = "NAME last PATTERN SEQ(other o, ~pair p, (pair | A)+ v[]) WHERE v[1].x > 1 WITHIN 1 day"
    parsed = parse_patterns(f"{pair}; {other}; {last}", SCHEMA)
    again = parse_patterns(";\n".join(map(format_pattern, parsed)), SCHEMA)
    assert again == parsed
    assert [[one.name for one in pattern.composes] for pattern in again] == [[], ["pair"], ["pair", "other"]]
    assert match_text(parsed[2]) == ";\n".join(map(format_pattern, parsed))
    for changed in (f"{pair}, b.x AS z; {other}; {last}", f"{pair}; {other.replace('1', '2')}; {last}"):
        one = parse_patterns(changed, SCHEMA)[2]
        assert format_pattern(one) == format_pattern(parsed[2])
        assert match_text(one) != match_text(parsed[2])
        assert pattern_version(one) != pattern_version(parsed[2])
