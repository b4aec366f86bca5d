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


@dataclass(frozen=True, slots=True)
class EventOperand:
    """`type variable`, negated or under Kleene closure."""

    event_type: str
    variable: str
    kleene: bool = False
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)

    def __post_init__(self) -> None:
        if self.kleene and self.negated:
            raise ValueError(f"variable {self.variable!r}: Kleene closure cannot be negated")


@dataclass(frozen=True, slots=True)
class Composite:
    """`operator(operands)`."""

    operator: Operator
    operands: tuple[Structure, ...]
    span: Span = field(default=NOWHERE, compare=False)

    def __post_init__(self) -> None:
        if not self.operands:
            raise ValueError(f"{self.operator.value} needs an operand")


Structure = EventOperand | Composite


def event_operands(structure: Structure) -> Iterator[EventOperand]:
    """All event operands of a structure, in the order they are written."""
    if isinstance(structure, EventOperand):
        yield structure
    else:
        for operand in structure.operands:
            yield from event_operands(operand)


def structure_text(structure: Structure, type_text: Callable[[str], str] = str) -> str:
    """SEQ, AND and OR over operands in one line, as the language writes them; `type_text` spells an event type."""
    if isinstance(structure, Composite):
        operands = ", ".join(structure_text(operand, type_text) for operand in structure.operands)
        return f"{structure.operator.value}({operands})"
    event_type = type_text(structure.event_type)
    if structure.kleene:
        return f"{event_type}+ {structure.variable}[]"
    return f"{'~' if structure.negated else ''}{event_type} {structure.variable}"
