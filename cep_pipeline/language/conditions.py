"""Expressions and conditions: one Pratt parser for both, so that `(` needs no look-ahead.

A sub-text is parsed to an expression or to a condition; each operator then says which of the two it needs. References
to the events of variables, `v.attr`, `v[i-1].attr`, `v.LEN`, and aggregates over `v[]` are read by functions of their
own, which stand at the end. The rules of types (docs/language.md, section 3.4) stand first: every rule returns a type,
or raises the reason why there is none. The parser knows the place, the rules know the types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from cep_pipeline.errors import PatternError
from cep_pipeline.foreign_text import did_you_mean
from cep_pipeline.language.scope import Scope
from cep_pipeline.language.tokens import Cursor, Kind, NoTime, Token, did_you_mean_of, length_us, time_us, timestamp_us
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
    Value,
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
    Span,
    ValueType,
    operands,
)
from cep_pipeline.patterns.pattern import UNIT_WORDS_US
from cep_pipeline.patterns.structure import EventOperand

AGGREGATES = ("avg", "sum", "min", "max", "stddev", "median", "count", "first", "last")
"""Aggregates over all elements of a Kleene variable."""
PREFIX_AGGREGATES = ("avg", "sum", "min", "max", "stddev", "median", "count")
"""Aggregates over the elements before `v[i]`."""
FUNCTIONS = {
    "abs": 1,
    "sqrt": 1,
    "ln": 1,
    "corr": 2,
    "time_of_day": 1,
    "day_of_week": 1,
    "least": None,
    "greatest": None,
    "coalesce": None,
}
"""Functions of values, with their number of arguments; None is any number of them from one on."""
CLOCK_FUNCTIONS = ("time_of_day", "day_of_week")
"""Functions that read the local clock of the stream."""
_AFTER_VALUE = ("IS", "LIKE", "SUMMARIZE", "GROUP")
"""Words that are not reserved and stand behind a number."""
_AFTER_CONDITION = ("WITHIN", "AND", "OR")
"""Reserved words that may be meant where a number is followed by a word that is no unit."""

_NAMES = {
    ValueType.INT64: "int",
    ValueType.FLOAT64: "float",
    ValueType.BOOL: "bool",
    ValueType.STRING: "string",
    ValueType.FLOAT64_LIST: "list",
}


class TypeMismatch(Exception):
    """Why an operation has no type for its operands; the parser adds the place and makes it a PatternError."""


def type_name(kind: ValueType) -> str:
    """The type's name in messages."""
    return _NAMES[kind]


def type_of_value(value: Value) -> ValueType:
    """The type of a constant."""
    if isinstance(value, bool):
        return ValueType.BOOL
    if isinstance(value, int):
        return ValueType.INT64
    return ValueType.FLOAT64 if isinstance(value, float) else ValueType.STRING


def type_of_negative(operand: ValueType) -> ValueType:
    """The type of `-operand`; TypeMismatch unless the operand is a number."""
    if not operand.is_number:
        raise TypeMismatch(f"cannot apply '-' to {type_name(operand)}")
    return operand


def type_of_arithmetic(operator: str, left: ValueType, right: ValueType) -> ValueType:
    """int64 of two int64 but for `/`, else float64."""
    if not (left.is_number and right.is_number):
        raise TypeMismatch(f"cannot apply '{operator}' to {type_name(left)} and {type_name(right)}")
    if operator != "/" and left is right is ValueType.INT64:
        return ValueType.INT64
    return ValueType.FLOAT64


def type_of_call(function: str, arguments: Sequence[ValueType]) -> ValueType:
    """Type of a function of arguments of these types."""
    expected = FUNCTIONS[function]
    if expected is None:
        return _type_of_choice(function, arguments)
    if len(arguments) != expected:
        plural = "" if expected == 1 else "s"
        raise TypeMismatch(f"{function} takes {expected} argument{plural}, {len(arguments)} given")
    for kind in arguments:
        if function in CLOCK_FUNCTIONS:
            if kind is not ValueType.INT64:
                raise TypeMismatch(f"{function} takes an int, microseconds since the epoch, not {type_name(kind)}")
            return ValueType.INT64
        if function == "corr" and kind is not ValueType.FLOAT64_LIST:
            raise TypeMismatch(f"corr takes two list attributes, not {type_name(kind)}")
        if function != "corr" and not kind.is_number:
            raise TypeMismatch(f"cannot apply {function} to {type_name(kind)}")
    return arguments[0] if function == "abs" else ValueType.FLOAT64


def _type_of_choice(function: str, arguments: Sequence[ValueType]) -> ValueType:
    """Type of `least`, `greatest` or `coalesce`, which give one of their arguments."""
    if not arguments:
        raise TypeMismatch(f"{function} takes at least 1 argument, 0 given")
    first = arguments[0]
    for kind in arguments:
        if kind is ValueType.FLOAT64_LIST or (kind is ValueType.BOOL and function != "coalesce"):
            raise TypeMismatch(f"cannot apply {function} to {type_name(kind)}")
        if kind is not first and not (kind.is_number and first.is_number):
            raise TypeMismatch(f"cannot apply {function} to {type_name(first)} and {type_name(kind)}")
    return first if all(kind is first for kind in arguments) else ValueType.FLOAT64


def type_of_aggregate(function: str, attribute: ValueType) -> ValueType:
    """Type of an aggregate over an attribute of this type."""
    if function == "count":
        return ValueType.INT64
    if function in ("sum", "avg", "stddev", "median") and not attribute.is_number:
        raise TypeMismatch(f"cannot apply {function} to {type_name(attribute)}: it needs numbers")
    if function in ("min", "max") and attribute in (ValueType.BOOL, ValueType.FLOAT64_LIST):
        raise TypeMismatch(f"cannot apply {function} to {type_name(attribute)}: its values have no order")
    return ValueType.FLOAT64 if function in ("avg", "stddev", "median") else attribute


def check_comparable(comparator: Comparator, left: ValueType, right: ValueType) -> None:
    """Numbers compare with numbers, strings with strings, bools by = and != only, lists never."""
    if ValueType.FLOAT64_LIST in (left, right) or not (left is right or (left.is_number and right.is_number)):
        raise TypeMismatch(f"cannot compare {type_name(left)} with {type_name(right)}")
    if left is ValueType.BOOL and comparator not in (Comparator.EQ, Comparator.NE):
        raise TypeMismatch(f"bools compare only by = and !=, not by {comparator.value}")


MAX_DEPTH = 100
"""Deepest nesting of parentheses, NOT, minus, calls and operators in a condition or an expression."""

INT64_MAX = 2**63 - 1

# Binding powers, from loosest to tightest.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY = range(1, 8)

_COMPARATORS = {comparator.value: comparator for comparator in Comparator} | {"==": Comparator.EQ, "<>": Comparator.NE}

_Combination = TypeVar("_Combination", AllOf, AnyOf)
_Result = TypeVar("_Result")


class ConditionParser:
    """Reads conditions and expressions at a cursor, resolving names in a scope."""

    def __init__(self, cursor: Cursor, scope: Scope) -> None:
        self.cursor = cursor
        self.scope = scope
        self._depth = 0

    def condition(self) -> Condition:
        """A condition, whose equivalence tests stand as conjuncts of their own."""
        condition = self._as_condition(self._parse(_OR))
        nested = _equivalence_inside(condition)
        if nested is not None:
            raise self._error("an equivalence test is a conjunct of its own; it cannot stand under OR or NOT", nested)
        return condition

    def expression(self) -> Expression:
        """An expression with a value, as RETURN takes it."""
        start = self.cursor.current
        expression = self._as_value(self._parse(_OR), "RETURN", start)
        self._check_depth(expression)
        return expression

    # The Pratt loop.

    def _parse(self, power: int) -> Expression | Condition:
        """Everything from here on whose operators bind at least as tightly as `power`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"this is nested deeper than {MAX_DEPTH}; simplify it", self.cursor.current.span)
        left = self._prefix()
        while True:
            token = self.cursor.current
            if power <= _OR and token.word == "OR":
                left = self._combine(AnyOf, "OR", left, _AND)
            elif power <= _AND and token.word == "AND":
                left = self._combine(AllOf, "AND", left, _NOT)
            elif power <= _COMPARISON and token.kind is Kind.SYMBOL and token.text in _COMPARATORS:
                left = self._comparison(left)
            elif power <= _COMPARISON and token.word in ("IN", "BETWEEN", "NOT", "LIKE"):
                left = self._membership_between_or_like(left)
            elif power <= _COMPARISON and token.word == "IS":
                left = self._null_test(left)
            elif power <= _SUM and self.cursor.at_symbol("+", "-"):
                left = self._arithmetic(left, _PRODUCT)
            elif power <= _PRODUCT and self.cursor.at_symbol("*", "/", "%"):
                left = self._arithmetic(left, _UNARY)
            else:
                self._depth -= 1
                return left

    def _prefix(self) -> Expression | Condition:
        token = self.cursor.current
        if token.kind is Kind.NUMBER:
            return self._number(token.span)
        if token.kind is Kind.STRING:
            self.cursor.advance()
            return Literal(token.value, ValueType.STRING, span=token.span)
        if token.word in ("TRUE", "FALSE"):
            self.cursor.advance()
            return Literal(token.word == "TRUE", ValueType.BOOL, span=token.span)
        if token.word == "NOT":
            self.cursor.advance()
            operand = self._as_condition(self._parse(_NOT))
            return Not(operand, Span(token.span.start, self.cursor.previous.span.end))
        if self.cursor.accept_symbol("-"):
            return self._negative(token)
        if self.cursor.accept_symbol("("):
            inner = self._parse(_OR)
            self.cursor.expect_symbol(")")
            return inner
        if self.cursor.at_symbol("["):
            return self._equivalence()
        if token.kind is Kind.WORD and not token.is_reserved:
            if self.cursor.ahead(1).text == "(":
                return self._call()
            if token.word in ("TIMESTAMP", "TIME") and self.cursor.ahead(1).kind in (Kind.STRING, Kind.QUOTED):
                return self._time(token)
            if token.word == "NULL" and token.value not in self.scope.variables:
                raise self._error("a value is compared with null by IS NULL or IS NOT NULL", token)
            return parse_reference(self.cursor, self.scope)
        if token.kind is Kind.PARAMETER:
            self.cursor.advance()
            value = self.scope.scalar(token)
            return Literal(value, type_of_value(value), token.value, token.span)
        if token.kind is Kind.QUOTED:
            raise self._quoted(token)
        raise self.cursor.unexpected("a condition or a value")

    # Operators.

    def _combine(
        self, combination: type[_Combination], word: str, first: Expression | Condition, power: int
    ) -> Condition:
        """`first AND second AND …` as one flat node; a parenthesized operand of the same kind is flattened too."""
        parts = [self._as_condition(first)]
        while self.cursor.accept_word(word):
            parts.append(self._as_condition(self._parse(power)))
        flat: list[Condition] = []
        for part in parts:
            flat.extend(part.operands if isinstance(part, combination) else (part,))
        return combination(tuple(flat), Span(flat[0].span.start, flat[-1].span.end))

    def _comparison(self, left: Expression | Condition) -> Condition:
        """`first < second`, or a chain `first < second < …`: all comparisons of neighbours."""
        operator = self.cursor.current
        low = self._as_value(left, f"'{operator.text}'", operator)
        links: list[Condition] = []
        while self.cursor.at_symbol(*_COMPARATORS):
            operator = self.cursor.advance()
            comparator = _COMPARATORS[operator.text]
            high = self._operand(_SUM, operator)
            self._check_comparable(comparator, low, high, operator)
            links.append(Comparison(comparator, low, high, Span(low.span.start, high.span.end)))
            low = high
        if len(links) == 1:
            return links[0]
        return AllOf(tuple(links), Span(links[0].span.start, links[-1].span.end))

    def _null_test(self, left: Expression | Condition) -> Condition:
        operator = self.cursor.advance()
        tested = self._as_value(left, "IS", operator)
        self._check_depth(tested)
        negated = self.cursor.accept_word("NOT") is not None
        end = self.cursor.expect_word("NULL")
        return NullTest(tested, negated, Span(tested.span.start, end.span.end))

    def _membership_between_or_like(self, left: Expression | Condition) -> Condition:
        negated = self.cursor.accept_word("NOT") is not None
        operator = self.cursor.expect_word("IN", "BETWEEN", "LIKE")
        tested = self._as_value(left, operator.word, operator)
        self._check_depth(tested)
        if operator.word == "LIKE":
            return self._like(tested, operator, negated=negated)
        if operator.word == "BETWEEN":
            low = self._operand(_SUM, operator)
            self.cursor.expect_word("AND")
            high = self._operand(_SUM, operator)
            self._check_comparable(Comparator.GE, tested, low, operator)
            self._check_comparable(Comparator.LE, tested, high, operator)
            return Between(tested, low, high, negated, Span(tested.span.start, high.span.end))
        if self.cursor.current.kind is not Kind.PARAMETER:
            values, names = self._values(tested)
            return Membership(
                tested,
                values,
                negated=negated,
                names=names,
                span=Span(tested.span.start, self.cursor.previous.span.end),
            )
        token = self.cursor.advance()
        values = self.scope.parameter(token)
        for value in values:
            self._check_member(tested, value, token.span)
        return Membership(tested, values, token.value, negated, span=Span(tested.span.start, token.span.end))

    def _like(self, tested: Expression, operator: Token, *, negated: bool) -> Condition:
        if tested.type is not ValueType.STRING:
            raise self._error(f"LIKE compares strings, not {type_name(tested.type)}", operator)
        token = self.cursor.current
        if token.kind is Kind.QUOTED:
            raise self._quoted(token)
        if token.kind is not Kind.STRING:
            raise self._error(f"LIKE takes a text in single quotes, such as 'a%', not {token}", token)
        self.cursor.advance()
        return Like(tested, token.value, negated, Span(tested.span.start, token.span.end))

    def _values(self, tested: Expression) -> tuple[tuple[Value, ...], tuple[str | None, ...]]:
        """The values of a list after IN, and the names of the parameters among them (none: empty)."""
        self.cursor.expect_symbol("(", "; IN takes a list of values in ( ), or a $parameter")
        values: list[Value] = []
        names: list[str | None] = []
        while True:
            token = self.cursor.current
            if token.kind is Kind.QUOTED:
                raise self._quoted(token)
            if (
                token.kind not in (Kind.NUMBER, Kind.STRING, Kind.PARAMETER)
                and token.word not in ("TRUE", "FALSE", "TIMESTAMP", "TIME")
                and token.text != "-"
            ):
                raise self.cursor.unexpected("a number, a string, TRUE or FALSE")
            literal = self._prefix()
            if not isinstance(literal, Literal):
                raise self._error("the list of IN has constants only", literal.span)
            self._check_member(tested, literal.value, literal.span)
            values.append(literal.value)
            names.append(literal.parameter)
            if not self.cursor.accept_symbol(","):
                self.cursor.expect_symbol(")")
                return tuple(values), tuple(names) if any(names) else ()

    def _arithmetic(self, left: Expression | Condition, power: int) -> Expression:
        operator = self.cursor.advance()
        first = self._as_value(left, f"'{operator.text}'", operator)
        second = self._operand(power, operator)
        kind = self._by_rule(operator, type_of_arithmetic, operator.text, first.type, second.type)
        return Arithmetic(operator.text, first, second, kind, Span(first.span.start, second.span.end))

    def _negative(self, minus: Token) -> Expression:
        if self.cursor.current.kind is Kind.NUMBER:
            return self._number(Span(minus.span.start, self.cursor.current.span.end), negative=True)
        operand = self._operand(_UNARY, minus)
        kind = self._by_rule(minus, type_of_negative, operand.type)
        return Negative(operand, kind, Span(minus.span.start, operand.span.end))

    # Primaries.

    def _number(self, span: Span, *, negative: bool = False) -> Literal:
        """A number literal with its sign, so that the smallest int64 can be written, or a length of time."""
        token = self.cursor.advance()
        unit = self.cursor.current
        if unit.kind is Kind.WORD and not unit.is_reserved and unit.word not in _AFTER_VALUE:
            return self._length_of_time(token, Span(span.start, unit.span.end), negative=negative)
        sign = "-" if negative else ""
        percent = self._accept_percent()
        if percent is not None:
            span = Span(span.start, percent.span.end)
        if percent is None and token.text.isdigit():
            digits = token.text.lstrip("0") or "0"
            limit = INT64_MAX + negative
            if len(digits) > len(str(limit)) or int(digits) > limit:
                raise self._error("this number is outside the range of int64; write it with a decimal point", span)
            return Literal(int(sign + digits), ValueType.INT64, span=span)
        # A percentage moves the exponent in the text: 57.3% is then exactly the float64 nearest to 0.573.
        mantissa, _, exponent = token.text.lower().partition("e")
        if len(exponent) > 6:
            raise self._error("the exponent of this number is out of range", span)
        value = float(f"{sign}{mantissa}e{int(exponent or 0) - (2 if percent is not None else 0)}")
        if value in (float("inf"), float("-inf")):
            raise self._error("this number is outside the range of float64", span)
        return Literal(value, ValueType.FLOAT64, span=span)

    def _length_of_time(self, number: Token, span: Span, *, negative: bool) -> Literal:
        """A number of microseconds, written as a number and a unit."""
        unit = self.cursor.current
        if unit.text.lower() not in UNIT_WORDS_US:
            units = "us, ms, seconds, minutes, hours, days, or s, sec, m, min, h, d"
            hint = (
                did_you_mean(unit.text, [*UNIT_WORDS_US, *_AFTER_CONDITION])
                or f"; a length of time is written with {units}"
            )
            raise self._error(f"unknown unit {unit.text!r}{hint}", unit)
        self.cursor.advance()
        try:
            length = length_us(number.text, unit.text) * (-1 if negative else 1)
        except NoTime as error:
            raise self._error(str(error), number) from None
        if length.denominator != 1:
            raise self._error("a length of time is a whole number of microseconds", span)
        if not -INT64_MAX - 1 <= length <= INT64_MAX:
            raise self._error("this length of time is longer than int64 can hold in microseconds", span)
        return Literal(int(length), ValueType.INT64, span=span, is_duration=True)

    def _time(self, word: Token) -> Literal:
        """`TIMESTAMP 'text'` or `TIME 'text'`: a number of microseconds."""
        self.cursor.advance()
        text = self.cursor.advance()
        if text.kind is Kind.QUOTED:
            raise self._quoted(text)
        try:
            value = time_us(text.value) if word.word == "TIME" else timestamp_us(text.value, self.scope.timezone)
        except NoTime as error:
            raise self._error(str(error), text) from None
        return Literal(value, ValueType.INT64, span=Span(word.span.start, text.span.end))

    def _accept_percent(self) -> Token | None:
        """Read a `%` that is percent: it is modulo if a number, a string, a name, a parameter or `(` follows."""
        if not self.cursor.at_symbol("%"):
            return None
        follower = self.cursor.ahead(1)
        is_name = follower.kind is Kind.QUOTED or (follower.kind is Kind.WORD and not follower.is_reserved)
        if is_name or follower.kind in (Kind.NUMBER, Kind.STRING, Kind.PARAMETER) or follower.text == "(":
            return None
        return self.cursor.advance()

    def _call(self) -> Expression:
        name = self.cursor.advance()
        function = name.word.lower()
        if function in AGGREGATES:
            return parse_aggregate(self.cursor, self.scope, name)
        if function not in FUNCTIONS:
            hint = did_you_mean_of(name.value, [*FUNCTIONS, *AGGREGATES])
            raise self._error(f"unknown function {name.value!r}{hint}", name)
        self.cursor.expect_symbol("(")
        arguments: list[Expression] = []
        if not self.cursor.at_symbol(")"):
            arguments.append(self._operand(_OR, name))
            while self.cursor.accept_symbol(","):
                arguments.append(self._operand(_OR, name))
        end = self.cursor.expect_symbol(")")
        kind = self._by_rule(name, type_of_call, function, [argument.type for argument in arguments])
        zone = self.scope.timezone if function in CLOCK_FUNCTIONS else None
        return Call(function, tuple(arguments), kind, zone, Span(name.span.start, end.span.end))

    def _equivalence(self) -> Equivalence:
        start = self.cursor.advance()
        attributes: list[str] = []
        while True:
            name = self.cursor.expect_attribute()
            self.scope.agreed_attribute(name)
            attributes.append(name.value)
            if not self.cursor.accept_symbol(","):
                end = self.cursor.expect_symbol("]")
                return Equivalence(tuple(attributes), Span(start.span.start, end.span.end))

    # Checks.

    def _operand(self, power: int, operator: Token) -> Expression:
        return self._as_value(self._parse(power), f"'{operator.text}'", operator)

    def _as_value(self, node: Expression | Condition, user: str, place: Token) -> Expression:
        if isinstance(node, Expression):
            return node
        raise self._error(f"{user} needs a value here, not a condition", place)

    def _as_condition(self, node: Expression | Condition) -> Condition:
        if not isinstance(node, Expression):
            return node
        hint = "; a bool is tested with = TRUE" if node.type is ValueType.BOOL else ""
        if isinstance(node, Literal) and node.type is ValueType.BOOL and node.parameter is None:
            if node.value:
                return Truth(span=node.span)
            hint = "; what never holds is written NOT TRUE"
        raise self.cursor.unexpected("a comparison (= != < <= > >= IN BETWEEN LIKE IS)", hint)

    def _check_comparable(self, comparator: Comparator, left: Expression, right: Expression, operator: Token) -> None:
        self._check_depth(left)
        self._check_depth(right)
        try:
            check_comparable(comparator, left.type, right.type)
        except TypeMismatch as mismatch:
            values = (one.value for one in (left, right) if isinstance(one, Literal))
            hint = next((_unquoted(value) for value in values if isinstance(value, str)), "")
            raise self._error(f"{mismatch}{hint}", operator) from None

    def _by_rule(self, place: Token, rule: Callable[..., _Result], *operands: object) -> _Result:
        """Apply a rule of types; the error for a mismatch names the place."""
        try:
            return rule(*operands)
        except TypeMismatch as mismatch:
            raise self._error(str(mismatch), place) from None

    def _check_member(self, tested: Expression, value: Value, span: Span) -> None:
        try:
            check_comparable(Comparator.EQ, tested.type, type_of_value(value))
        except TypeMismatch:
            kind = type_name(type_of_value(value))
            raise self._error(f"cannot compare {type_name(tested.type)} with {kind} {value!r}", span) from None

    def _check_depth(self, expression: Expression) -> None:
        """Refuse an expression too deep for recursive readers: `a + b + c + …` is a tree as deep as it is long."""
        level: list[Expression] = [expression]
        for _ in range(MAX_DEPTH):
            level = [operand for node in level for operand in operands(node)]
            if not level:
                return
        raise self._error(f"this expression is nested deeper than {MAX_DEPTH}; simplify it", expression.span)

    def _quoted(self, token: Token) -> PatternError:
        return self._error(f"{token.text} is the name of a type; text is written in single quotes", token)

    def _error(self, message: str, place: Token | Span) -> PatternError:
        return self.cursor.error(message, place.span if isinstance(place, Token) else place)


def _equivalence_inside(condition: Condition, *, allowed: bool = True) -> Span | None:
    """Place of an equivalence test that is no conjunct of its own."""
    match condition:
        case Equivalence():
            return None if allowed else condition.span
        case Not(operand):
            return _equivalence_inside(operand, allowed=False)
        case AllOf(parts) | AnyOf(parts):
            inside = allowed and isinstance(condition, AllOf)
            found = (_equivalence_inside(part, allowed=inside) for part in parts)
            return next((span for span in found if span is not None), None)
        case _:
            return None


LENGTH = "LEN"
"""The word after a dot for the length of a Kleene variable. An attribute of this name is written `v[].LEN`."""


def parse_reference(cursor: Cursor, scope: Scope) -> Expression:
    """Read `v.attr`, `v[…].attr` or `v.LEN`.

    Raises
    ------
    PatternError
        An unknown variable or attribute, or an index on a variable that is no Kleene variable.
    """
    name = cursor.advance()
    operand = scope.variable(name, stands_alone=not (cursor.at_symbol(".") or cursor.at_symbol("[")))
    element = Element.EACH if operand.kleene else Element.ONLY
    if cursor.at_symbol("["):
        if not operand.kleene:
            message = f"{name.value!r} is no Kleene variable: it has no elements {name.value}[..]"
            raise cursor.error(message, name.span)
        cursor.advance()
        element = _parse_element(cursor, name)
        cursor.expect_symbol("]")
        cursor.expect_symbol(".", "; an element is read by its attribute, as in v[i].attr")
    else:
        cursor.expect_symbol(".", f"; a variable is read by its attribute, as in {name.value}.attr")
        if _is_length(cursor, scope, operand):
            end = cursor.advance()
            return Length(name.value, Span(name.span.start, end.span.end))
    attribute = cursor.expect_attribute()
    if attribute.word == LENGTH and not operand.kleene and attribute.value not in scope.attributes_of(operand):
        raise cursor.error(f"{name.value!r} is no Kleene variable: it has no length", name.span)
    kind = scope.attribute(attribute, operand)
    return Reference(name.value, attribute.value, element, kind, Span(name.span.start, attribute.span.end))


def _unquoted(text: str) -> str:
    """A hint where a text that is compared with a number looks like a number or a moment."""
    if re.fullmatch(r"[-+]?\d+(\.\d*)?", text):
        return "; a number has no quotes around it"
    return f"; a moment is written TIMESTAMP '{text}'" if re.match(r"\d{4}-\d\d-\d\d", text) else ""


def parse_aggregate(cursor: Cursor, scope: Scope, function: Token) -> Aggregate:
    """Read `(v[].attr)` or `(v[..i-1].attr)` after the name of an aggregate."""
    name = function.word.lower()
    form = f"; {name!r} is an aggregate: its argument is written v[].attr or v[..i-1].attr"
    cursor.expect_symbol("(")
    if cursor.current.kind is not Kind.WORD:
        raise cursor.unexpected("a variable", form)
    variable = cursor.expect_name("a variable")
    operand = scope.variable(variable)
    if not operand.kleene:
        said = f"{name!r} is an aggregate over a list of events, and {variable.value!r} is a single event"
        raise cursor.error(said, variable.span)
    cursor.expect_symbol("[", form)
    prefix = cursor.at_symbol("..")
    if prefix:
        if name not in PREFIX_AGGREGATES:
            message = f"{name} is not defined over v[..i-1]; those are {', '.join(PREFIX_AGGREGATES)}"
            raise cursor.error(message, function.span)
        cursor.advance()
        if cursor.current.text != "i":
            raise cursor.unexpected("i-1")
        cursor.advance()
        _expect_minus_one(cursor)
    cursor.expect_symbol("]", form)
    cursor.expect_symbol(".", form)
    attribute = cursor.expect_attribute()
    kind = scope.attribute(attribute, operand)
    end = cursor.expect_symbol(")")
    try:
        result = type_of_aggregate(name, kind)
    except TypeMismatch as mismatch:
        raise cursor.error(str(mismatch), function.span) from None
    span = Span(function.span.start, end.span.end)
    return Aggregate(name, variable.value, attribute.value, prefix, result, span)


def _is_length(cursor: Cursor, scope: Scope, operand: EventOperand) -> bool:
    """True where `v.` is followed by LEN, and not by an attribute that is spelled `len`."""
    token = cursor.current
    if not operand.kleene or token.word != LENGTH:
        return False
    return token.text == LENGTH or token.text not in scope.attributes_of(operand)


def _parse_element(cursor: Cursor, variable: Token) -> Element:
    """Parse the text between `[` and `]`."""
    token = cursor.current
    if token.text == "]":
        return Element.EACH
    if token.text == "1":
        cursor.advance()
        return Element.FIRST
    if token.kind is Kind.WORD and cursor.ahead(1).text == ".":
        cursor.advance()
        if token.value != variable.value:
            message = f"the last element of {variable.value} is {variable.value}[{variable.value}.LEN]"
            raise cursor.error(message, token.span)
        cursor.advance()
        cursor.expect_word(LENGTH)
        return Element.LAST
    if token.text == "i":
        cursor.advance()
        if not cursor.at_symbol("-"):
            return Element.CURRENT
        _expect_minus_one(cursor)
        return Element.PREVIOUS
    if token.text == "..":
        raise cursor.error("v[..i-1] stands only inside an aggregate, as in avg(v[..i-1].attr)", token.span)
    v = variable.value
    raise cursor.unexpected("an index", f"; the elements are {v}[1], {v}[i], {v}[i-1], {v}[{v}.LEN] and {v}[]")


def _expect_minus_one(cursor: Cursor) -> None:
    cursor.expect_symbol("-")
    if cursor.current.text != "1":
        raise cursor.unexpected("1", "; only the element before, v[i-1], can be named")
    cursor.advance()
