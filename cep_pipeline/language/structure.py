"""The structure of a pattern: SEQ, AND and OR over event operands."""

from __future__ import annotations

from dataclasses import replace

from cep_pipeline.errors import PatternError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.foreign_text import did_you_mean, listed
from cep_pipeline.language.scope import Scope
from cep_pipeline.language.tokens import Cursor, Kind, Token
from cep_pipeline.patterns.expressions import Span
from cep_pipeline.patterns.structure import (
    Composite,
    EventOperand,
    EventType,
    Negation,
    Operator,
    Structure,
    type_alternatives,
)

MAX_NESTING = 32
"""Deepest nesting of SEQ, AND and OR; the outermost is 1."""

_DIGITS_OF_COUNT = 18
"""Digits of a number of events, so that it is an int64."""
_OPERATORS = tuple(operator.value for operator in Operator)


class StructureParser:
    """Reads a structure at a cursor, declaring its variables in a scope."""

    def __init__(self, cursor: Cursor, scope: Scope, schema: StreamSchema) -> None:
        self.cursor = cursor
        self.scope = scope
        self.schema = schema
        self.negating = False
        """Whether the cursor is inside of a negation."""

    def structure(self, depth: int = 1) -> Structure:
        """An operator with its operands, one operand, or the negation of either."""
        if self.cursor.at_symbol("~") or self.cursor.at_word("NOT"):
            return self._negation(depth)
        operator = self.cursor.accept_word(*_OPERATORS)
        if operator is None:
            return self._event_operand()
        if depth > MAX_NESTING:
            raise self.cursor.error(f"an operator is nested deeper than {MAX_NESTING}", operator.span)
        self.cursor.expect_symbol("(")
        operands = [self.structure(depth + 1)]
        while self.cursor.accept_symbol(","):
            operands.append(self.structure(depth + 1))
        hint = f"; parts of {operator.word} are separated by ','"
        if self.cursor.at_symbol("{"):
            hint = "; how many events stands behind their type, as in A{2,} v[]"
        elif self.cursor.at_symbol("?"):
            hint = "; a quantifier stands behind a type, as in A? v or A+? v[]: not behind a variable or KL( )"
        end = self.cursor.expect_symbol(")", hint)
        return Composite(Operator(operator.word), tuple(operands), Span(operator.span.start, end.span.end))

    def _negation(self, depth: int) -> EventOperand | Negation:
        start = self.cursor.advance()
        if self.negating:
            raise self._error("a negation stands inside of a negation; what is negated has none of its own", start)
        self.negating = True
        in_parentheses = not self._at_types_in_parentheses() and self.cursor.accept_symbol("(") is not None
        operand = self.structure(depth)
        if in_parentheses:
            self.cursor.expect_symbol(")")
        self.negating = False
        span = Span(start.span.start, self.cursor.previous.span.end)
        single = operand
        while isinstance(single, Composite) and len(single.operands) == 1:
            single = single.operands[0]
        if isinstance(single, EventOperand) and not single.kleene and not single.optional:
            return replace(single, span=span)
        return Negation(operand, span)

    def _event_operand(self) -> EventOperand:
        start = self.cursor.current
        of_paper = self.cursor.at_word("KLEENE") and self.cursor.ahead(1).text == "("
        if of_paper or self.cursor.at_word("KL"):
            self.cursor.advance()
            self.cursor.expect_symbol("(", "; Kleene closure is written KL(type variable) or type+ variable[]")
            if self.cursor.at_word("KL", "NOT", *_OPERATORS) or self.cursor.at_symbol("~"):
                raise self._error("KL takes a single event type, as in KL(type variable)", self.cursor.current)
            event_type, variable = self._types(), self._variable(alone=of_paper)
            self.cursor.expect_symbol(")", "; in KL( ) the variable has no []" if self.cursor.at_symbol("[") else "")
            return self._declare(start, event_type, variable, kleene=True)
        event_type = self._types()
        written = type_alternatives(event_type)
        if self.cursor.accept_symbol("?"):
            reluctant = self._reluctant()
            operand = self._declare(start, event_type, self._variable(), optional=True, reluctant=reluctant)
            if self.cursor.at_symbol("["):
                message = f"{written}? binds one event or none; a list that may be absent is {written}* v[]"
                raise self._error(message, self.cursor.current)
            return operand
        closure = self.cursor.accept_symbol("+", "*")
        if closure is None and not self.cursor.at_symbol("{"):
            return self._declare(start, event_type, self._variable())
        minimum, maximum, sign = (1, None, closure.text) if closure is not None else self._limits()
        reluctant = self._reluctant()
        variable = self._variable()
        self.cursor.expect_symbol("[", f"; a Kleene variable is declared with [], as in {written}{sign} v[]")
        self.cursor.expect_symbol("]")
        return self._declare(
            start,
            event_type,
            variable,
            kleene=True,
            minimum=minimum,
            maximum=maximum,
            optional=sign == "*",
            reluctant=reluctant,
        )

    def _reluctant(self) -> bool:
        """Read the `?` of a reluctant quantifier, which stands directly behind it."""
        if self.cursor.current.span.start != self.cursor.previous.span.end:
            return False
        mark = self.cursor.accept_symbol("?")
        if mark is not None:
            self.scope.reluctant.append(mark.span)
        return mark is not None

    def _limits(self) -> tuple[int, int | None, str]:
        """Read `{n}`, `{n,}` or `{n,m}`: the least and the greatest number of events, and the text."""
        self.cursor.expect_symbol("{")
        place = self.cursor.current
        minimum = self._count()
        if minimum < 1:
            hint = "; a variable that may be absent is written with ? or *, as in A? v or A* v[]"
            raise self._error(f"a list has at least 1 event, not 0{hint}", place)
        maximum: int | None = minimum
        text = f"{{{minimum}"
        if self.cursor.accept_symbol(","):
            text += ","
            maximum = None
            if not self.cursor.at_symbol("}"):
                place = self.cursor.current
                maximum = self._count()
                text += str(maximum)
                if maximum < minimum:
                    message = f"the greatest number of events, {maximum}, is less than the least, {minimum}"
                    raise self._error(message, place)
        self.cursor.expect_symbol("}", "; a number of events is written {2}, {2,} or {2,5}")
        return minimum, maximum, text + "}"

    def _count(self) -> int:
        token = self.cursor.current
        if token.kind is not Kind.NUMBER:
            raise self.cursor.unexpected("a number of events", "; it is written {2}, {2,} or {2,5}")
        if not token.text.isdigit():
            raise self._error("a number of events is a whole number, as in {2,5}", token)
        if len(token.text.lstrip("0")) > _DIGITS_OF_COUNT:
            raise self._error("this number of events is too large", token)
        return int(self.cursor.advance().text)

    def _at_types_in_parentheses(self) -> bool:
        """True at the `(` of `(A | B)`, and not at that of `(A v)` or `(SEQ(...))`."""
        names = (Kind.WORD, Kind.QUOTED)
        after = self.cursor.ahead(2)
        return (
            self.cursor.at_symbol("(")
            and self.cursor.ahead(1).kind in names
            and after.kind is Kind.SYMBOL
            and after.text in ("|", ")")
        )

    def _types(self) -> EventType:
        """One type, or the alternatives of `(A | B)`."""
        if not self.cursor.accept_symbol("("):
            return self._type().value
        names = {self._type().value: None}
        while self.cursor.accept_symbol("|"):
            names[self._type().value] = None
        self.cursor.expect_symbol(")", "; ( ) stand around the alternatives of a type, as in (A | B) v")
        return self._union(tuple(names))

    def _union(self, names: tuple[str, ...]) -> EventType:
        """The alternatives as one type: the base type has the events of all others, but no matches of statements."""
        if self.schema.base_type in names:
            names = (self.schema.base_type, *(name for name in names if name in self.scope.statements))
        return names[0] if len(names) == 1 else names

    def _type(self) -> Token:
        token = self.cursor.current
        if token.kind is Kind.QUOTED:
            self.cursor.advance()
            if not token.value:
                raise self._error("an event type has a name; it is not empty", token)
        elif token.kind is Kind.NUMBER:
            raise self.cursor.unexpected("an event type", "; a type that is no identifier is written in double quotes")
        elif token.kind is Kind.WORD and token.is_reserved and self.cursor.ahead(1).kind is Kind.WORD:
            raise self.cursor.unexpected(
                "an event type", f'; this word is reserved; a type of this name is "{token.text}"'
            )
        else:
            self.cursor.expect_name("an event type")
        if token.value in self.scope.statements:
            self._check_composed(token)
            return token
        types = self.schema.types
        if types is not None and token.value not in types and token.value != self.schema.base_type:
            known = [*types, *([self.schema.base_type] if self.schema.base_type else []), *self.scope.statements]
            hint = did_you_mean(token.value, known) or f"; the schema lists: {listed(known)}"
            raise self._error(f"unknown type {token.value!r}{hint}", token)
        return token

    def _check_composed(self, token: Token) -> None:
        """Refuse a statement that gives no matches to be composed."""
        statement = self.scope.statements[token.value]
        if statement is None:
            raise self._error(f"the statement {token.value!r} has an error itself, which comes first", token)
        if statement.summary is not None:
            raise self._error(f"{token.value!r} gives groups, not matches: it cannot be composed", token)

    def _variable(self, alone: bool = False) -> Token:
        """Read a variable; a type may stand `alone` in Kleene(GOOG), as in MCEP [0129]: it is its own variable."""
        if alone and self.cursor.at_symbol(")") and self.cursor.previous.kind is Kind.WORD:
            return self.cursor.previous
        hint = "; a type is followed by a variable, as in SEQ(A a, B b)"
        if self.cursor.at_symbol("?"):
            hint = "; a quantifier has one '?' directly behind it where it is reluctant, as in A+? v[] or A?? v"
        return self.cursor.expect_name("a variable", hint)

    def _declare(
        self,
        start: Token,
        event_type: EventType,
        variable: Token,
        *,
        kleene: bool = False,
        minimum: int = 1,
        maximum: int | None = None,
        optional: bool = False,
        reluctant: bool = False,
    ) -> EventOperand:
        operand = EventOperand(
            event_type,
            variable.value,
            kleene,
            self.negating,
            minimum,
            maximum,
            optional,
            reluctant,
            Span(start.span.start, self.cursor.previous.span.end),
        )
        self.scope.declare(variable, operand)
        return operand

    def _error(self, message: str, place: Token) -> PatternError:
        return self.cursor.error(message, place.span)
