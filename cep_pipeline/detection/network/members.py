"""The parts of one clause of one pattern that a network needs, whatever its plan and whatever the events.

They are made once for each member: what a join of two of its partial matches looks at, and which events a variable
reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from weakref import WeakKeyDictionary

from cep_pipeline.detection.instances.condition_groups import ClauseConditions
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.planning.multi_pattern import Member
from cep_pipeline.slices.order import before_is_earlier, compared_with, earlier_is_before, may_be_one

MOST_SPLITS = 1 << 10
"""Splits of its variables into two sides that are kept of one member."""

_Split = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class EventsOf:
    """The key of a node's events: nodes with equal keys read and buffer them once.

    Attributes
    ----------
    event_type, filters
        The type, and the conjuncts that one event decides, over `ANY_EVENT`.
    agree_on
        The attributes that events agree on above the node, sorted.
    window
        What windows above it measure: time, or positions in partitions by these attributes.
    """

    event_type: EventType
    filters: frozenset[Conjunct]
    agree_on: tuple[str, ...]
    window: tuple[str, ...]


class Ascents:
    """The rules of order and distinctness of a clause; its positive variables are numbered in pattern order."""

    def __init__(self, pattern: Pattern, clause: Clause) -> None:
        self._pattern, self._clause = pattern, clause

    def may_come_last(self, variable: int, others: Sequence[int]) -> bool:
        """True if an event of the variable can come later in the stream than those of the others."""
        if not before_is_earlier(self._pattern.ties):
            return True
        name, positive = self._clause.positive[variable].name, self._clause.positive
        return not any((name, positive[other].name) in self._clause.precedence for other in others)

    def words(self, own: Sequence[int], others: Sequence[int], variable: int) -> list[int]:
        """The pairs that a join compares: of `own`, whose newest event is of `variable`, with `others`.

        First whether there can be any that came before (1 or 0). Then, each with its length before it: the own
        variables that bound the scan from below (some event of the other side comes after theirs) and from above (all
        come before theirs), the pairs whose order is tested, and those that must be told apart. A pair is two words.
        """
        before, positive = self._precedes, self._clause.positive
        lower = [x for x in own if any(before[x][y] for y in others)]
        upper = [x for x in own if all(before[y][x] for y in others)]
        both = (*own, *others)
        single = not positive[variable].kleene
        one_event = len(others) == 1 and not positive[others[0]].kleene
        needed = []
        for x, y in (*product(own, others), *product(others, own)):
            if not before[x][y] or any(before[x][z] and before[z][y] for z in both):
                continue
            if (x in own and one_event) or y in upper:
                continue
            if y == variable and single and earlier_is_before(self._pattern.ties):
                continue
            needed.append((x, y))
        distinct = [
            (x, y)
            for x, y in product(own, others)
            if not (x == variable and single) and may_be_one(self._pattern, self._clause, positive[x], positive[y])
        ]
        words = [int(self.may_come_last(variable, others))]
        for part in (lower, upper):
            words += [len(part), *part]
        for pairs in (needed, distinct):
            words += [len(pairs), *(word for pair in pairs for word in pair)]
        return words

    def order(self, variables: Sequence[int]) -> list[int]:
        """The words of a test of the order among some variables: 1, then the pairs that follow one another."""
        before = self._precedes
        pairs = [
            (x, y)
            for x, y in product(variables, repeat=2)
            if before[x][y] and not any(before[x][z] and before[z][y] for z in variables)
        ]
        return [1, len(pairs), *(word for pair in pairs for word in pair)]

    @cached_property
    def _precedes(self) -> tuple[tuple[bool, ...], ...]:
        """Return for each two positive variables True if the first one comes before the second."""
        names = [variable.name for variable in self._clause.positive]
        precedence = self._clause.precedence
        return tuple(tuple((one, other) in precedence for other in names) for one in names)


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
        self._pattern, self._clause = pattern, clause
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

    def rejecting_early(self, variable: Variable) -> frozenset[str] | None:
        """The positive variables with which events of a negated one can be asked for; None: only with all of them.

        With nothing before it or nothing after it the window of the whole match decides; under TIES ANY an event that
        comes later may still be before those that have been.
        """
        clause, name = self._clause, variable.name
        if not (before_is_earlier(self._pattern.ties) and clause.predecessors(name) and clause.successors(name)):
            return None
        compared = compared_with(self._pattern, clause, variable)
        return frozenset((*clause.next_before(name), *clause.next_behind(name), *compared))

    def may_come_last(self, name: str, others: Sequence[str]) -> bool:
        """True if an event of a variable can come later in the stream than those of others."""
        return self._ascents.may_come_last(self._numbers[name], [self._numbers[other] for other in others])

    def order(self, names: Sequence[str]) -> list[int]:
        """The words of a test of the order among some variables (`Ascents.order`)."""
        return self._ascents.order([self._numbers[name] for name in names])

    def ascents(self, own: tuple[str, ...], others: tuple[str, ...], *, listed: bool = False) -> list[list[int]]:
        """The pairs that a join compares, for each own variable that has the newest event (`Ascents.words`).

        Where events become elements of lists (`listed`), the kernel compares all pairs.
        """
        if listed:
            return [[int(self.may_come_last(name, others)), 0, 0, 0, 0] for name in own]
        known = self._words.get((own, others))
        if known is None:
            mine = [self._numbers[name] for name in own]
            rest = [self._numbers[name] for name in others]
            if len(self._words) >= MOST_SPLITS:
                self._words.clear()
            known = self._words[own, others] = [self._ascents.words(mine, rest, number) for number in mine]
        return known

    def search(self, own: tuple[str, ...], other: str) -> list[int]:
        """The same for a search of events that may be later than all that are bound."""
        number = self._numbers[other]
        return self._ascents.words([self._numbers[name] for name in own], [number], number)


_parts: WeakKeyDictionary[Member, MemberParts] = WeakKeyDictionary()


def parts_of(member: Member) -> MemberParts:
    """The parts of a member, kept as long as it."""
    known = _parts.get(member)
    if known is None:
        known = _parts[member] = MemberParts(member.pattern, member.clause)
    return known
