"""Matches under skip_till_next_match and the contiguities: runs over the stream (docs/language.md, section 4)."""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.patterns.pattern import Strategy
from cep_pipeline.patterns.structure import EventOperand
from tests.oracle.clauses import Rules
from tests.oracle.events import Event, partition_key
from tests.oracle.values import Binding


def run_matches(rules: Rules) -> Iterator[Binding]:
    """All matches of a clause: one run from each event that can begin the pattern.

    A copy of a run is its binding; the positive variables are bound as far as the copy has come.
    """
    if not rules.conditions_hold({}):
        return
    read = _read_chain if is_chain(rules) else _read_unordered
    for start in rules.events:
        copies, _ = read(rules, {}, start)
        yield from _finished(rules, copies)
        for event in rules.events[start.place + 1 :]:
            if not is_read(rules, start, event):
                continue
            binding, ignoring = [], []
            for copy in copies:
                bound, ignores = read(rules, copy, event)
                binding.extend(bound)
                if ignores and rules.pattern.strategy is Strategy.SKIP_TILL_NEXT_MATCH:
                    ignoring.append(copy)
            yield from _finished(rules, binding)
            copies = [*binding, *ignoring]


def _finished(rules: Rules, copies: list[Binding]) -> Iterator[Binding]:
    """Those copies that are a match now: all is bound, all conjuncts hold, and no negated variable rejects it."""
    everything = rules.clause.positive
    for copy in copies:
        is_complete = len(copy) == len(everything) and all(may_leave(copy, operand) for operand in everything)
        if is_complete and rules.conditions_hold(copy) and not rules.is_rejected(copy):
            yield copy


def may_leave(copy: Binding, operand: EventOperand) -> bool:
    """Whether a variable has as many events as its quantifier asks for."""
    return len(copy[operand.variable]) >= operand.minimum


def may_take(copy: Binding, operand: EventOperand) -> bool:
    """Whether a variable takes one more event."""
    return operand.kleene and (operand.maximum is None or len(copy[operand.variable]) < operand.maximum)


def is_read(rules: Rules, start: Event, event: Event) -> bool:
    """Whether a run reads an event at all: under partition contiguity it does not see other partitions."""
    if rules.pattern.strategy is not Strategy.PARTITION_CONTIGUITY or not rules.clause.agree_on:
        return True
    key = partition_key(start, rules.clause.agree_on)
    return key is not None and key == partition_key(event, rules.clause.agree_on)


def is_chain(rules: Rules) -> bool:
    """Whether the positive variables are totally ordered; otherwise the clause is one AND of single events."""
    names = [operand.variable for operand in rules.clause.positive]
    ordered = [(a, b) for a in names for b in names if (a, b) in rules.clause.order]
    if len(ordered) == len(names) * (len(names) - 1) // 2:
        return True
    assert not ordered and not any(operand.kleene for operand in rules.clause.positive), "refused by section 4"
    return False


def _read_chain(rules: Rules, copy: Binding, event: Event) -> tuple[list[Binding], bool]:
    """The copies that bind the event, and whether a copy goes on without it (a chain of variables).

    The event may begin the next variable (the copy that leaves), be taken into the Kleene variable of the state
    (the copy that stays), or be ignored by the copy that cannot take it. In a list that is full no copy stays.
    """
    chain = sorted(rules.clause.positive, key=lambda operand: len(rules.clause.before(operand.variable)))
    current = chain[len(copy) - 1] if copy else None
    following = chain[len(copy)] if len(copy) < len(chain) else None
    begun = _bind(rules, copy, following, event) if following and (not current or may_leave(copy, current)) else []
    stays = current is not None and may_take(copy, current)
    taken = _bind(rules, copy, current, event) if current and stays else []
    return [*begun, *taken], not taken if stays else not begun


def _read_unordered(rules: Rules, copy: Binding, event: Event) -> tuple[list[Binding], bool]:
    """The same for an AND of single events: the first unbound variable that the event fits must take it."""
    for operand in rules.clause.positive:
        if operand.variable not in copy:
            bound = _bind(rules, copy, operand, event)
            if bound:
                return bound, False
    return [], True


def _bind(rules: Rules, copy: Binding, operand: EventOperand, event: Event) -> list[Binding]:
    """The copy with the event bound to (or added to) a variable, if the rules allow it now."""
    if not rules.fits(operand, event, copy):
        return []
    bound = {**copy, operand.variable: (*copy.get(operand.variable, ()), event)}
    growing = operand.variable if operand.kleene else None
    return [bound] if rules.conditions_hold(bound, growing) else []
