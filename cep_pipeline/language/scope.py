"""`Scope`: the names that an expression of one statement can use, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cep_pipeline.errors import PatternError
from cep_pipeline.language.source import PatternWarning, SourceText, did_you_mean, did_you_mean_of
from cep_pipeline.language.tokens import Token
from cep_pipeline.patterns.conditions import Value
from cep_pipeline.patterns.expressions import Span, ValueType
from cep_pipeline.patterns.structure import EventOperand, type_alternatives

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
        The caller's values of each `$name`.
    """

    source: SourceText
    attributes: Mapping[str, ValueType]
    parameters: Mapping[str, tuple[Value, ...]]
    variables: dict[str, EventOperand] = field(default_factory=dict)
    variable_spans: dict[str, Span] = field(default_factory=dict)
    used_parameters: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    warnings: list[PatternWarning] = field(default_factory=list)

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

    def variable(self, name: Token) -> EventOperand:
        """The operand that declares a variable."""
        operand = self.variables.get(name.value)
        if operand is None:
            hint = did_you_mean(name.value, self.variables)
            if not hint and name.value in self.attributes:
                hint = f"; an attribute is written with its variable, as in {next(iter(self.variables))}.{name.value}"
            raise self.source.error(f"unknown variable {name.value!r}{hint}", name.span)
        return operand

    def attribute(self, name: Token, operand: EventOperand | None = None) -> ValueType:
        """Type of an attribute (of the events of an operand)."""
        kind = self.attributes.get(name.value)
        if kind is None:
            raise self.unknown_attribute(name, operand)
        return kind

    def unknown_attribute(self, name: Token, operand: EventOperand | None = None) -> PatternError:
        of_type = f" of type {type_alternatives(operand.event_type)}" if operand is not None else ""
        hint = did_you_mean_of(name.value, self.attributes)
        return self.source.error(f"unknown attribute {name.value!r}{of_type}{hint}", name.span)

    def parameter(self, name: Token) -> tuple[Value, ...]:
        """Values of a parameter, which then counts as used."""
        values = self.parameters.get(name.value)
        if values is None:
            hint = did_you_mean(name.value, self.parameters) or (
                f"; give its values: --param {name.value}=A,B, or parameters of the pattern set in pipeline.yaml"
            )
            raise self.source.error(f"unbound parameter '${name.value}'{hint}", name.span)
        self.used_parameters[name.value] = values
        return values
