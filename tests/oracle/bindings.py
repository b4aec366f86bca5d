"""Every way to bind variables to events, one variable after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from cep_pipeline.patterns.structure import EventOperand
from tests.oracle.events import Event
from tests.oracle.values import Binding


class Binder(Protocol):
    """The rules that a binding must obey; a binding that breaks one is given up."""

    @property
    def events(self) -> Sequence[Event]:
        """The events to choose from, in stream order."""

    def fits(self, operand: EventOperand, event: Event, binding: Binding) -> bool:
        """Whether a variable may take an event beside the events that are bound."""

    def conditions_hold(self, binding: Binding, growing: str | None = None) -> bool:
        """Whether the conditions hold as far as variables are bound; the list of one may still grow."""


def bindings_of(binder: Binder, operands: Sequence[EventOperand], binding: Binding | None = None) -> Iterator[Binding]:
    """All bindings of the variables that obey the rules."""
    binding = binding or {}
    if not operands:
        yield binding
        return
    operand, *others = operands
    candidates = [event for event in binder.events if binder.fits(operand, event, binding)]
    if operand.kleene:
        lists = _sub_lists(binder, operand, candidates, (), binding)
    else:
        lists = ((event,) for event in candidates)
    for events in lists:
        bound = {**binding, operand.variable: events}
        if binder.conditions_hold(bound):
            yield from bindings_of(binder, others, bound)


def _sub_lists(
    binder: Binder, operand: EventOperand, candidates: list[Event], prefix: tuple[Event, ...], binding: Binding
) -> Iterator[tuple[Event, ...]]:
    """Every sub-list within the quantifier, without those that begin with a list that breaks a rule already."""
    if len(prefix) == operand.maximum:
        return
    for place, event in enumerate(candidates):
        events = (*prefix, event)
        if not binder.fits(operand, event, {operand.variable: prefix}):
            continue
        if binder.conditions_hold({**binding, operand.variable: events}, growing=operand.variable):
            if len(events) >= operand.minimum:
                yield events
            yield from _sub_lists(binder, operand, candidates[place + 1 :], events, binding)
