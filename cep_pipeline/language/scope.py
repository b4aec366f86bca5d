"""`Scope`: the names that an expression of one statement can use, and what they mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cep_pipeline.errors import PatternError
from cep_pipeline.foreign_text import did_you_mean
from cep_pipeline.language.tokens import PatternWarning, SourceText, Token, did_you_mean_of
from cep_pipeline.patterns.conditions import Value
from cep_pipeline.patterns.expressions import Aggregate, Expression, Reference, Span, ValueType
from cep_pipeline.patterns.pattern import Pattern, shared_attributes
from cep_pipeline.patterns.structure import EventOperand, type_alternatives

Bound = tuple[Value, ...] | Value
"""The value of a `$name`: a set of values, or one value."""


class WrittenValues(tuple[Value, ...]):
    """Values that a user wrote as text: after IN they are a set, elsewhere a single one of them is that value."""


MAX_VARIABLES = 256
"""Variables of a pattern."""


@dataclass
class Scope:
    """Variables of the statement being parsed, attributes of its stream, values of the caller's parameters.

    Parameters
    ----------
    source
        The text, for errors.
    attributes
        Type of everything that can be referenced, `timestamp` and `seq` too.
    parameters
        What the caller binds each `$name` to.
    timezone
        The zone of the stream's local time.
    statements
        The earlier statements of the file by the names that are types here; None is one that has an error itself.
    times
        The attributes of the stream that are times.
    """

    source: SourceText
    attributes: Mapping[str, ValueType]
    parameters: Mapping[str, Bound]
    timezone: str = "UTC"
    statements: Mapping[str, Pattern | None] = field(default_factory=dict)
    times: Collection[str] = ()
    variables: dict[str, EventOperand] = field(default_factory=dict)
    variable_spans: dict[str, Span] = field(default_factory=dict)
    used_parameters: dict[str, Bound] = field(default_factory=dict)
    warnings: list[PatternWarning] = field(default_factory=list)
    reluctant: list[Span] = field(default_factory=list)
    """The places of the `?` of reluctant quantifiers."""

    def declare(self, name: Token, operand: EventOperand) -> None:
        """Add a variable; a second one of the same name is refused, and so are more than there may be."""
        if len(self.variables) == MAX_VARIABLES:
            raise self.source.error(
                f"a pattern has at most {MAX_VARIABLES} variables; write several patterns, or a Kleene variable for "
                "events of one type",
                name.span,
            )
        if name.value in self.variables:
            raise self.source.error(f"duplicate variable {name.value!r}", name.span)
        self.variables[name.value] = operand
        self.variable_spans[name.value] = name.span

    def variable(self, name: Token, *, stands_alone: bool = False) -> EventOperand:
        """The operand that declares a variable; a word that stands alone may have been meant as text."""
        operand = self.variables.get(name.value)
        if operand is None:
            hint = did_you_mean(name.value, self.variables)
            if not hint and name.value in self.attributes:
                hint = f"; an attribute is written with its variable, as in {next(iter(self.variables))}.{name.value}"
            elif stands_alone:
                hint += f"; text is written in single quotes, as in '{name.value}'"
            raise self.source.error(f"unknown variable {name.value!r}{hint}", name.span)
        return operand

    @property
    def composed(self) -> tuple[Pattern, ...]:
        """The earlier statements that are types of variables, in the order of the file."""
        named = {name for operand in self.variables.values() for name in operand.types} & self.statements.keys()
        if not named:
            return ()
        return tuple(one for name, one in self.statements.items() if one is not None and name in named)

    def attributes_of(self, operand: EventOperand) -> Mapping[str, ValueType]:
        """The attributes of the events that a variable binds: those that all of its types have with one type."""
        sources = (self.statements.get(name) for name in operand.types)
        return shared_attributes([self.attributes if one is None else one.match_attributes for one in sources])

    def attribute(self, name: Token, operand: EventOperand) -> ValueType:
        """Type of an attribute of the events of an operand."""
        attributes = self.attributes_of(operand)
        kind = attributes.get(name.value)
        if kind is None:
            hint = did_you_mean_of(name.value, attributes)
            of_type = type_alternatives(operand.event_type)
            raise self.source.error(f"unknown attribute {name.value!r} of type {of_type}{hint}", name.span)
        return kind

    def is_time(self, expression: Expression | None) -> bool:
        """True for an attribute that is a time, of one event or the first, last, least or greatest of a list."""
        of_one = isinstance(expression, Aggregate) and expression.function in ("first", "last", "min", "max")
        if not (of_one or isinstance(expression, Reference)):
            return False
        assert isinstance(expression, Aggregate | Reference)
        sources = (self.statements.get(name) for name in self.variables[expression.variable].types)
        times = (self.times if one is None else [item.name for item in one.returns if item.is_time] for one in sources)
        return all(expression.attribute in own for own in times)

    def agreed_attribute(self, name: Token) -> None:
        """Refuse an attribute on which events cannot agree, as one of the variables lacks it or it is a list."""
        if not self.composed:
            kinds = {self.attributes.get(name.value)}
            if None in kinds:
                hint = did_you_mean_of(name.value, self.attributes)
                raise self.source.error(f"unknown attribute {name.value!r}{hint}", name.span)
        else:
            kinds = {self.attribute(name, operand) for operand in self.variables.values()}
        if ValueType.FLOAT64_LIST in kinds:
            raise self.source.error(f"attribute {name.value!r} is a list; lists are never compared", name.span)
        if len(kinds) > 1 and not all(kind is not None and kind.is_number for kind in kinds):
            raise self.source.error(
                f"the variables have different types of {name.value!r}: they never agree", name.span
            )

    def parameter(self, name: Token) -> tuple[Value, ...]:
        """Values of a parameter directly after IN, which then counts as used."""
        values = self._bound(name)
        if not isinstance(values, tuple):
            raise self.source.error(
                f"parameter '${name.value}' is bound to one value, {values!r}; IN takes a set of them: bind a list, or "
                f"write IN (${name.value})",
                name.span,
            )
        plain = tuple(values)
        if self.used_parameters.setdefault(name.value, plain) != plain:
            raise self._both_uses(name)
        return plain

    def scalar(self, name: Token) -> Value:
        """The one value of a parameter that stands in an expression, which then counts as used."""
        value = self._bound(name)
        if isinstance(value, WrittenValues) and len(value) == 1:
            value = value[0]
        if isinstance(value, tuple):
            raise self.source.error(
                f"parameter '${name.value}' must be bound to one number, string or bool here, not to a set; a set "
                f"stands directly after IN, as in v.attr IN ${name.value}",
                name.span,
            )
        if isinstance(self.used_parameters.setdefault(name.value, value), tuple):
            raise self._both_uses(name)
        return value

    def _both_uses(self, name: Token) -> PatternError:
        return self.source.error(
            f"parameter '${name.value}' is a set after IN and one value elsewhere in this statement; give the two uses "
            "two names",
            name.span,
        )

    def _bound(self, name: Token) -> Bound:
        bound = self.parameters.get(name.value)
        if bound is None:
            hint = did_you_mean(name.value, self.parameters) or (
                f"; give its values: --param {name.value}=A,B, or parameters of the pattern set in pipeline.yaml"
            )
            raise self.source.error(f"unbound parameter '${name.value}'{hint}", name.span)
        return bound
