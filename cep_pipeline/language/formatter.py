"""Patterns back to text, in one canonical form: the same pattern always has the same text.

`parse_patterns(format_pattern(p), schema, params) == [p]`. The text is part of match ids and of stored plans, so that
a change of it here is a change of every id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256

from cep_pipeline.language.tokens import RESERVED
from cep_pipeline.patterns.conditions import (
    AllOf,
    AnyOf,
    Between,
    Comparison,
    Condition,
    Equivalence,
    Like,
    Membership,
    Not,
    NullTest,
    Truth,
    Value,
    expressions_of,
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
    walk,
)
from cep_pipeline.patterns.normal_form import split_condition
from cep_pipeline.patterns.pattern import (
    TIME_UNITS_US,
    Consume,
    Output,
    Pattern,
    ReturnItem,
    Strategy,
    Summary,
    SummaryAggregate,
    SummaryGroup,
    Ties,
    Window,
    with_composed,
)
from cep_pipeline.patterns.structure import Structure, structure_text

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_INDEX = {
    Element.ONLY: "",
    Element.EACH: "[]",
    Element.FIRST: "[1]",
    Element.CURRENT: "[i]",
    Element.PREVIOUS: "[i-1]",
}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}


def format_pattern(pattern: Pattern) -> str:
    """The whole statement, one clause a line, without the final `;`.

    Examples
    --------
    >>> from cep_pipeline.events.schema import StreamSchema
    >>> from cep_pipeline.language.parser import parse_patterns
    >>> schema = StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> text = "pattern seq(A a, not(B n), KL(C c)) where (a.x==1) and ((c.x<5)) within 120 seconds ties arrival"
    >>> print(format_pattern(parse_patterns(text, schema)[0]))
    NAME pattern_1
    PATTERN SEQ(A a, ~B n, C+ c[])
    WHERE a.x = 1
      AND c[].x < 5
    WITHIN 2 minutes
    """
    lines = [_statement(pattern)]
    if pattern.output is not Output.ALL:
        lines.append(f"OUTPUT {pattern.output.value}")
    if pattern.consume is not Consume.NONE:
        lines.append(f"CONSUME {pattern.consume.value}")
    if pattern.returns:
        lines.append(f"RETURN {', '.join(map(_return_item, pattern.returns))}")
    if pattern.summary is not None:
        lines.append(_summary(pattern.summary))
    return "\n".join(lines)


def pattern_version(pattern: Pattern) -> str:
    """Return 16 hex digits that change with the statement and the values of its parameters, not with a comment."""
    parameters = [
        [name, [repr(value) for value in bound] if isinstance(bound, tuple) else repr(bound)]
        for name, bound in pattern.parameters
    ]
    buckets = pattern.summary is not None and any(one.bucket_us is not None for one in pattern.summary.groups)
    zone = [pattern.timezone] if buckets or any(map(_reads_clock, _expressions_of(pattern))) else []
    composed = [pattern_version(one) for one in pattern.composes]
    said = [format_pattern(pattern), parameters, *zone, *([composed] if composed else [])]
    return sha256(repr(said).encode()).hexdigest()[:16]


def _expressions_of(pattern: Pattern) -> Iterator[Expression]:
    for conjunct in split_condition(pattern.condition)[0]:
        for atom in conjunct.atoms:
            yield from expressions_of(atom)
    yield from (item.expression for item in pattern.items)


def _reads_clock(expression: Expression) -> bool:
    return any(isinstance(node, Call) and node.zone is not None for node in walk(expression))


def match_text(pattern: Pattern) -> str:
    """The statement without its OUTPUT, CONSUME, RETURN and SUMMARIZE clauses: all that says what a match is.

    Before it stand the statements that it composes, whole, since OUTPUT, CONSUME and RETURN decide about their events.
    """
    *composed, own = with_composed([pattern])
    return ";\n".join([*map(format_pattern, composed), _statement(own)])


def _statement(pattern: Pattern) -> str:
    lines = [f"NAME {pattern.name}", f"PATTERN {format_structure(pattern.structure)}"]
    if pattern.condition is not None:
        lines.append(_where(pattern.condition, pattern.strategy))
    lines.append(f"WITHIN {format_window(pattern.window)}")
    if pattern.partition_by:
        lines.append(f"PARTITION BY {', '.join(pattern.partition_by)}")
    if pattern.ties is not Ties.ARRIVAL:
        lines.append(f"TIES {pattern.ties.value}")
    return "\n".join(lines)


def format_structure(structure: Structure) -> str:
    """SEQ, AND and OR over operands, in one line."""
    return structure_text(structure, format_type)


def format_type(name: str) -> str:
    """An event type, in double quotes where its name is no identifier or is reserved."""
    if _IDENTIFIER.fullmatch(name) and not (name.isascii() and name.upper() in RESERVED):
        return name
    return '"' + name.replace('"', '""') + '"'


def format_window(window: Window) -> str:
    """The window in its largest unit that gives a whole number."""
    if window.events is not None:
        return f"{window.events} EVENTS"
    size = window.time_us
    assert size is not None
    return _length_of_time(size)


def _length_of_time(size: int) -> str:
    unit = max((unit for unit, unit_us in TIME_UNITS_US.items() if size % unit_us == 0), key=TIME_UNITS_US.__getitem__)
    count = size // TIME_UNITS_US[unit]
    return f"{count} {unit}{'s' if count != 1 and unit not in ('us', 'ms') else ''}"


def format_literal(literal: Literal) -> str:
    """A constant, or the parameter that it was bound to."""
    return format_value(literal.value) if literal.parameter is None else f"${literal.parameter}"


def literal_in_words(literal: Literal) -> str:
    """A constant for people: a length of time in its largest unit. In the text of a pattern it is microseconds."""
    return _length_of_time(int(literal.value)) if literal.is_duration and literal.value else format_literal(literal)


def format_condition(condition: Condition, spell: Callable[[Literal], str] = format_literal) -> str:
    """A condition in one line, with no more parentheses than it needs; `spell` writes its constants."""
    said = partial(format_expression, spell=spell)
    match condition:
        case Comparison(comparator, left, right):
            return f"{said(left)} {comparator.value} {said(right)}"
        case Membership(expression, values, parameter, negated, names):
            return f"{said(expression)} {'NOT ' if negated else ''}IN {_members(values, parameter, names)}"
        case Between(expression, low, high, negated):
            return f"{said(expression)} {'NOT ' if negated else ''}BETWEEN {said(low)} AND {said(high)}"
        case NullTest(expression, negated):
            return f"{said(expression)} IS {'NOT ' if negated else ''}NULL"
        case Like(expression, text, negated):
            return f"{said(expression)} {'NOT ' if negated else ''}LIKE {format_value(text)}"
        case Truth(holds):
            return "TRUE" if holds else "NOT TRUE"
        case Not(operand):
            return f"NOT {_in_parentheses(spell, operand, AllOf, AnyOf)}"
        case AllOf(parts):
            return " AND ".join(_in_parentheses(spell, part, AllOf, AnyOf) for part in parts)
        case AnyOf(parts):
            return " OR ".join(_in_parentheses(spell, part, AnyOf) for part in parts)
        case Equivalence(attributes):
            return f"[{', '.join(attributes)}]"


def format_expression(expression: Expression, spell: Callable[[Literal], str] = format_literal) -> str:
    """An expression in one line, with no more parentheses than it needs; `spell` writes its constants."""
    said = partial(format_expression, spell=spell)
    match expression:
        case Literal():
            return spell(expression)
        case Reference(variable, attribute, element):
            index = f"[{variable}.LEN]" if element is Element.LAST else _INDEX[element]
            return f"{variable}{index}.{attribute}"
        case Length(variable):
            return f"{variable}.LEN"
        case Aggregate(function, variable, attribute, prefix):
            return f"{function}({variable}[{'..i-1' if prefix else ''}].{attribute})"
        case Call(function, arguments):
            return f"{function}({', '.join(map(said, arguments))})"
        case Negative(operand):
            text = said(operand)
            # `--` would begin a comment, and a minus before a number belongs to the number.
            tight = isinstance(operand, Arithmetic | Negative) or _is_number(operand)
            return f"-({text})" if tight else f"-{text}"
        case Arithmetic(operator, left, right):
            one, other = _operand(said, operator, left, is_right=False), _operand(said, operator, right, is_right=True)
            return f"{one} {operator} {other}"


def _members(values: tuple[Value, ...], parameter: str | None, names: tuple[str | None, ...]) -> str:
    """The set after IN."""
    if parameter is not None:
        return f"${parameter}"
    texts = [
        format_value(value) if name is None else f"${name}"
        for value, name in zip(values, names or (None,) * len(values), strict=True)
    ]
    return f"({', '.join(texts)})"


def format_aggregate(function: str, expression: Expression | None) -> str:
    """An aggregate of SUMMARIZE, without its name; only count has no expression."""
    return f"{function}({'*' if expression is None else format_expression(expression)})"


def format_group(expression: Expression | None, bucket_us: int | None) -> str:
    """A group of GROUP BY, without its name: an expression, or else a bucket of time."""
    if expression is not None:
        return format_expression(expression)
    assert bucket_us is not None
    return f"bucket({_length_of_time(bucket_us)})"


def format_value(value: Value) -> str:
    """A constant as a literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _operand(said: Callable[[Expression], str], operator: str, operand: Expression, *, is_right: bool) -> str:
    text = said(operand)
    if isinstance(operand, Arithmetic):
        inner, outer = _PRECEDENCE[operand.operator], _PRECEDENCE[operator]
        if inner < outer or (is_right and inner == outer):
            return f"({text})"
    # After a number, `% -` would be percent and a minus.
    return f"({text})" if is_right and operator == "%" and text.startswith("-") else text


def _is_number(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.type.is_number and expression.parameter is None


def _in_parentheses(spell: Callable[[Literal], str], condition: Condition, *kinds: type) -> str:
    text = format_condition(condition, spell)
    return f"({text})" if isinstance(condition, kinds) else text


def _where(condition: Condition, strategy: Strategy) -> str:
    parts = condition.operands if isinstance(condition, AllOf) else (condition,)
    inside = (AllOf, AnyOf) if len(parts) > 1 else (AllOf,)
    text = "\n  AND ".join(_in_parentheses(format_literal, part, *inside) for part in parts)
    return f"WHERE {text}" if strategy is Strategy.SKIP_TILL_ANY_MATCH else f"WHERE {strategy.value} {{ {text} }}"


def _return_item(item: ReturnItem) -> str:
    return _named(format_expression(item.expression), item)


def _summary(summary: Summary) -> str:
    aggregates = (_named(format_aggregate(one.function, one.expression), one) for one in summary.aggregates)
    groups = ", ".join(_named(format_group(one.expression, one.bucket_us), one) for one in summary.groups)
    return f"SUMMARIZE {', '.join(aggregates)}" + (f" GROUP BY {groups}" if groups else "")


def _named(text: str, column: ReturnItem | SummaryAggregate | SummaryGroup) -> str:
    return f"{text} AS {column.name}" if column.named else text
