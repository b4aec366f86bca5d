"""Matches under skip_till_any_match: every binding that satisfies the rules (docs/language.md, section 3)."""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.patterns.structure import EventOperand
from tests.oracle.clauses import Rules
from tests.oracle.events import Event
from tests.oracle.values import Binding


def any_matches(rules: Rules) -> Iterator[Binding]:
    """All matches of a clause: bind the positive variables one by one, then ask the negated ones."""
    if rules.conditions_hold({}):
        for binding in _bind(rules, rules.clause.positive, {}):
            if not rules.is_rejected(binding):
                yield binding


def _bind(rules: Rules, operands: list[EventOperand], binding: Binding) -> Iterator[Binding]:
    if not operands:
        yield binding
        return
    operand, *others = operands
    candidates = [event for event in rules.events if rules.fits(operand, event, binding)]
    if operand.kleene:
        lists = _sub_lists(rules, operand, candidates, (), binding)
    else:
        lists = ((event,) for event in candidates)
    for events in lists:
        bound = {**binding, operand.variable: events}
        if rules.conditions_hold(bound):
            yield from _bind(rules, others, bound)


def _sub_lists(
    rules: Rules, operand: EventOperand, candidates: list[Event], prefix: tuple[Event, ...], binding: Binding
) -> Iterator[tuple[Event, ...]]:
    """Every non-empty sub-list of the candidates, without those that begin with a list that breaks a rule already."""
    for place, event in enumerate(candidates):
        events = (*prefix, event)
        if not rules.fits(operand, event, {operand.variable: prefix}):
            continue
        if rules.conditions_hold({**binding, operand.variable: events}, growing=operand.variable):
            yield events
            yield from _sub_lists(rules, operand, candidates[place + 1 :], events, binding)
