"""References to the events of variables: `v.attr`, `v[i-1].attr`, `v.LEN`, and aggregates over `v[]`."""

from __future__ import annotations

from cep_pipeline.errors import PatternError
from cep_pipeline.language.scope import Scope
from cep_pipeline.language.tokens import Cursor, Kind, Token
from cep_pipeline.language.typing_rules import PREFIX_AGGREGATES, TypeMismatch, type_of_aggregate
from cep_pipeline.patterns.expressions import Aggregate, Element, Expression, Length, Reference, Span
from cep_pipeline.patterns.structure import EventOperand

LENGTH = "LEN"
"""After a dot: the length of a Kleene variable, even where the stream has an attribute of this name
(which is then written `v[].LEN`)."""


def parse_reference(cursor: Cursor, scope: Scope) -> Expression:
    """Read `v.attr`, `v[…].attr` or `v.LEN`.

    Raises
    ------
    PatternError
        An unknown variable or attribute, or an index on a variable that is no Kleene variable.
    """
    name = cursor.advance()
    operand = scope.variable(name)
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
    if attribute.value not in scope.attributes and attribute.word == LENGTH and not operand.kleene:
        raise cursor.error(f"{name.value!r} is no Kleene variable: it has no length", name.span)
    kind = scope.attribute(attribute, operand)
    return Reference(name.value, attribute.value, element, kind, Span(name.span.start, attribute.span.end))


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
        raise cursor.error(f"aggregate over {variable.value!r}, which is no Kleene variable", variable.span)
    cursor.expect_symbol("[", form)
    prefix = cursor.at_symbol("..")
    if prefix:
        if name not in PREFIX_AGGREGATES:
            message = f"{name} is not defined over v[..i-1]; those are {', '.join(PREFIX_AGGREGATES)}"
            raise cursor.error(message, function.span)
        cursor.advance()
        _expect_previous(cursor)
    cursor.expect_symbol("]", form)
    cursor.expect_symbol(".", form)
    attribute = cursor.expect_attribute()
    kind = scope.attribute(attribute, operand)
    end = cursor.expect_symbol(")")
    try:
        result = type_of_aggregate(name, kind)
    except TypeMismatch as mismatch:
        raise cursor.error(mismatch.reason, function.span) from None
    span = Span(function.span.start, end.span.end)
    return Aggregate(name, variable.value, attribute.value, prefix, result, span)


def _is_length(cursor: Cursor, scope: Scope, operand: EventOperand) -> bool:
    """True where `v.` is followed by LEN, and not by an attribute that is spelled `len`."""
    token = cursor.current
    if not operand.kleene or token.word != LENGTH:
        return False
    return token.text == LENGTH or token.text not in scope.attributes


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
    raise _unknown_index(cursor, variable)


def _unknown_index(cursor: Cursor, variable: Token) -> PatternError:
    v = variable.value
    return cursor.unexpected("an index", f"; the elements are {v}[1], {v}[i], {v}[i-1], {v}[{v}.LEN] and {v}[]")


def _expect_previous(cursor: Cursor) -> None:
    if cursor.current.text != "i":
        raise cursor.unexpected("i-1")
    cursor.advance()
    _expect_minus_one(cursor)


def _expect_minus_one(cursor: Cursor) -> None:
    cursor.expect_symbol("-")
    if cursor.current.text != "1":
        raise cursor.unexpected("1", "; only the element before, v[i-1], can be named")
    cursor.advance()
