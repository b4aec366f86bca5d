"""The structure of a pattern: operators over event operands, nested freely (docs/language.md, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from cep_pipeline.patterns.expressions import NOWHERE, Span


class Operator(Enum):
    """A structural operator over operands."""

    SEQ = "SEQ"
    AND = "AND"
    OR = "OR"


EventType = str | tuple[str, ...]
"""The type of a variable: the name of one, or of several as in `(A | B) v`, as written and each once."""


@dataclass(frozen=True, slots=True)
class EventOperand:
    """`type variable`, negated, optional, or a list of events.

    Attributes
    ----------
    event_type
        The type, or its alternatives.
    variable
        The name.
    kleene
        Whether the variable binds a list: `A+ v[]`, `A* v[]`, `A{n,m} v[]`, `KL(A v)`.
    negated
        Whether the variable has no event in a match: `~A v`, and every variable inside of a `Negation`.
    minimum, maximum
        Least and greatest number of events in a list; no maximum is None.
    optional
        Whether the pattern also matches without the variable: `A? v`, `A* v[]`.
    reluctant
        Whether OUTPUT PREFERRED prefers few events, or none: `A?? v`, `A+? v[]`, `A*? v[]`, `A{n,m}? v[]`.
    """

    event_type: EventType
    variable: str
    kleene: bool = False
    negated: bool = False
    minimum: int = 1
    maximum: int | None = None
    optional: bool = False
    reluctant: bool = False
    span: Span = field(default=NOWHERE, compare=False)

    def __post_init__(self) -> None:
        limited = self.minimum != 1 or self.maximum is not None
        if self.minimum < 1 or (self.maximum is not None and self.maximum < self.minimum):
            raise ValueError(f"variable {self.variable!r}: a list has no {self.minimum} to {self.maximum} events")
        if limited and not self.kleene:
            raise ValueError(f"variable {self.variable!r}: only a list has a number of events")
        if self.reluctant and not (self.kleene or self.optional):
            raise ValueError(f"variable {self.variable!r}: a single event has no quantifier that is reluctant")

    @property
    def types(self) -> tuple[str, ...]:
        """The alternatives of the type; mostly one."""
        return types_of(self.event_type)


@dataclass(frozen=True, slots=True)
class Composite:
    """`operator(operands)`."""

    operator: Operator
    operands: tuple[Structure, ...]
    span: Span = field(default=NOWHERE, compare=False)

    def __post_init__(self) -> None:
        if not self.operands:
            raise ValueError(f"{self.operator.value} needs an operand")


@dataclass(frozen=True, slots=True)
class Negation:
    """`~` before a composite or a list, as in `~SEQ(B b, C c)` or `~K+ k[]` (SIGMOD'08 section 3.1).

    A single event that must not occur is a negated `EventOperand` instead.
    """

    operand: Structure
    span: Span = field(default=NOWHERE, compare=False)

    def __post_init__(self) -> None:
        if not all(operand.negated for operand in event_operands(self.operand)):
            raise ValueError("the variables of a negation are negated")


Structure = EventOperand | Composite | Negation


def event_operands(structure: Structure) -> Iterator[EventOperand]:
    """All event operands of a structure, in the order they are written."""
    if isinstance(structure, EventOperand):
        yield structure
    elif isinstance(structure, Negation):
        yield from event_operands(structure.operand)
    else:
        for operand in structure.operands:
            yield from event_operands(operand)


def structure_text(structure: Structure, type_text: Callable[[str], str] = str, *, inside: bool = False) -> str:
    """SEQ, AND and OR over operands in one line, as the language writes them; `type_text` spells an event type.

    The variables `inside` of a negation have no `~`, which stands before it.
    """
    if isinstance(structure, Composite):
        operands = ", ".join(structure_text(operand, type_text, inside=inside) for operand in structure.operands)
        return f"{structure.operator.value}({operands})"
    if isinstance(structure, Negation):
        return f"~{structure_text(structure.operand, type_text, inside=True)}"
    return f"{'~' if structure.negated and not inside else ''}{_operand_text(structure, type_text)}"


def _operand_text(operand: EventOperand, type_text: Callable[[str], str]) -> str:
    types = type_alternatives(operand.event_type, type_text)
    return f"{types}{_quantifier(operand)}{'?' if operand.reluctant else ''} {operand.variable}{'[]' * operand.kleene}"


def _quantifier(operand: EventOperand) -> str:
    if not operand.kleene:
        return "?" if operand.optional else ""
    if operand.optional:
        return "*"
    if operand.minimum == 1 and operand.maximum is None:
        return "+"
    if operand.minimum == operand.maximum:
        return f"{{{operand.minimum}}}"
    return f"{{{operand.minimum},{'' if operand.maximum is None else operand.maximum}}}"


def types_of(event_type: EventType) -> tuple[str, ...]:
    """The names that a type stands for: one, or those of its alternatives."""
    return (event_type,) if isinstance(event_type, str) else event_type


def may_share_events(one: EventType, other: EventType, base_type: str | None) -> bool:
    """Return whether an event may be of both types; every event has the base type.

    Examples
    --------
    >>> may_share_events(("A", "B"), "B", None), may_share_events("A", "B", None), may_share_events("A", "B", "B")
    (True, False, True)
    """
    types = types_of(one), types_of(other)
    return any(base_type in names for names in types) or not set(types[0]).isdisjoint(types[1])


def type_alternatives(event_type: EventType, type_text: Callable[[str], str] = str) -> str:
    """A type, or `(A | B)` of several."""
    if isinstance(event_type, str):
        return type_text(event_type)
    return f"({' | '.join(map(type_text, event_type))})"
