"""The structure of a pattern: SEQ, AND and OR over event operands."""

from __future__ import annotations

from collections.abc import Sequence

from cep_pipeline.errors import PatternError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.scope import Scope
from cep_pipeline.language.source import did_you_mean
from cep_pipeline.language.tokens import Cursor, Kind, Token
from cep_pipeline.patterns.expressions import Span
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator, Structure

MAX_NESTING = 32
"""Deepest nesting of SEQ, AND and OR; the outermost is 1."""

_OPERATORS = tuple(operator.value for operator in Operator)


class StructureParser:
    """Reads a structure at a cursor, declaring its variables in a scope."""

    def __init__(self, cursor: Cursor, scope: Scope, schema: StreamSchema) -> None:
        self.cursor = cursor
        self.scope = scope
        self.schema = schema

    def structure(self, depth: int = 1) -> Structure:
        """An operator with its operands, or one operand."""
        operator = self.cursor.accept_word(*_OPERATORS)
        if operator is None:
            return self._event_operand()
        if depth > MAX_NESTING:
            raise self.cursor.error(f"an operator is nested deeper than {MAX_NESTING}", operator.span)
        self.cursor.expect_symbol("(")
        operands = [self.structure(depth + 1)]
        while self.cursor.accept_symbol(","):
            operands.append(self.structure(depth + 1))
        end = self.cursor.expect_symbol(")")
        return Composite(Operator(operator.word), tuple(operands), Span(operator.span.start, end.span.end))

    def _event_operand(self) -> EventOperand:
        start = self.cursor.current
        if self._accept_negation():
            if self.cursor.accept_symbol("("):
                event_type, variable = self._negated()
                self.cursor.expect_symbol(")")
            else:
                event_type, variable = self._negated()
            return self._declare(start, event_type, variable, negated=True)
        if self.cursor.accept_word("KL"):
            self.cursor.expect_symbol("(", "; Kleene closure is written KL(type variable) or type+ variable[]")
            if self.cursor.at_word("KL", "NOT", *_OPERATORS) or self.cursor.at_symbol("~"):
                raise self._error("KL takes a single event type, as in KL(type variable)", self.cursor.current)
            event_type, variable = self._type(), self._variable()
            self.cursor.expect_symbol(")", "; in KL( ) the variable has no []" if self.cursor.at_symbol("[") else "")
            return self._declare(start, event_type, variable, kleene=True)
        event_type = self._type()
        if not self.cursor.accept_symbol("+"):
            return self._declare(start, event_type, self._variable())
        variable = self._variable()
        self.cursor.expect_symbol("[", f"; a Kleene variable is declared with [], as in {event_type.text}+ v[]")
        self.cursor.expect_symbol("]")
        return self._declare(start, event_type, variable, kleene=True)

    def _accept_negation(self) -> bool:
        return self.cursor.accept_symbol("~") is not None or self.cursor.accept_word("NOT") is not None

    def _negated(self) -> tuple[Token, Token]:
        token = self.cursor.current
        if self.cursor.at_word("KL", *_OPERATORS):
            raise self._error("negation of a composite: only a single event type can be negated", token)
        if self.cursor.at_word("NOT") or self.cursor.at_symbol("~"):
            raise self._error("negation of a negation: only a single event type can be negated", token)
        event_type = self._type()
        if self.cursor.at_symbol("+"):
            message = "negation of Kleene closure: only a single event type can be negated"
            raise self._error(message, self.cursor.current)
        return event_type, self._variable()

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
            hint = did_you_mean(token.value, known) or f"; the schema lists: {_some(known)}"
            raise self._error(f"unknown type {token.value!r}{hint}", token)
        return token

    def _check_composed(self, token: Token) -> None:
        """Refuse a statement that gives no matches to be composed."""
        statement = self.scope.statements[token.value]
        if statement is None:
            raise self._error(f"the statement {token.value!r} has an error itself, which comes first", token)
        if statement.summary is not None:
            raise self._error(f"{token.value!r} gives groups, not matches: it cannot be composed", token)

    def _variable(self) -> Token:
        return self.cursor.expect_name("a variable")

    def _declare(
        self, start: Token, event_type: Token, variable: Token, *, kleene: bool = False, negated: bool = False
    ) -> EventOperand:
        span = Span(start.span.start, self.cursor.previous.span.end)
        operand = EventOperand(event_type.value, variable.value, kleene, negated, span=span)
        self.scope.declare(variable, operand)
        return operand

    def _error(self, message: str, place: Token) -> PatternError:
        return self.cursor.error(message, place.span)


def _some(names: Sequence[str]) -> str:
    """The first names of a list that may be long."""
    return ", ".join(names[:_NAMES_SHOWN]) + (
        f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    )


_NAMES_SHOWN = 8
