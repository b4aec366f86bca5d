"""What a network asks of a member whatever its plan and whatever the events: worked out once for each."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from cep_pipeline.detection.evaluation_tree.ascents import Ascents
from cep_pipeline.detection.instances.condition_groups import ClauseConditions
from cep_pipeline.detection.shared_network.events import EventsOf
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern import Member

MOST_SPLITS = 1 << 10
"""Splits of its variables into two sides that are kept of one member."""

_Split = tuple[tuple[str, ...], tuple[str, ...]]


class MemberParts:
    """One clause of one pattern.

    Attributes
    ----------
    conditions
        Its conjuncts.
    agree_on
        The attributes that its events agree on, sorted.
    """

    def __init__(self, pattern: Pattern, clause: Clause) -> None:
        self.conditions = ClauseConditions(pattern, clause)
        self.agree_on = tuple(sorted(set(clause.agree_on)))
        self._clause = clause
        self._ascents = Ascents(pattern, clause)
        self._numbers = {variable.name: n for n, variable in enumerate(clause.positive)}
        self._window = ("time",) if pattern.window.events is None else ("events", *sorted(set(pattern.partition_by)))
        self._events: dict[str, EventsOf] = {}
        self._words: dict[_Split, list[list[int]]] = {}

    def events_of(self, name: str) -> EventsOf:
        """The events that fit a variable."""
        if name not in self._events:
            event_type = self._clause.by_name[name].event_type
            filters = frozenset(self.conditions.filters(name))
            self._events[name] = EventsOf(event_type, filters, self.agree_on, self._window)
        return self._events[name]

    def may_come_last(self, name: str, others: Sequence[str]) -> bool:
        """Whether an event of a variable can come later in the stream than those of others."""
        return self._ascents.may_come_last(self._numbers[name], [self._numbers[other] for other in others])

    def ascents(self, own: tuple[str, ...], others: tuple[str, ...]) -> list[list[int]]:
        """What a join looks at where the newest event is that of each own variable (`Ascents.words`)."""
        known = self._words.get((own, others))
        if known is None:
            mine = [self._numbers[name] for name in own]
            rest = [self._numbers[name] for name in others]
            if len(self._words) >= MOST_SPLITS:
                self._words.clear()
            known = self._words[own, others] = [self._ascents.words(mine, rest, number) for number in mine]
        return known


_parts: WeakKeyDictionary[Member, MemberParts] = WeakKeyDictionary()


def parts_of(member: Member) -> MemberParts:
    """Of a member; kept as long as it."""
    known = _parts.get(member)
    if known is None:
        known = _parts[member] = MemberParts(member.pattern, member.clause)
    return known
