"""Clauses with Kleene variables: their single variables are bound first, then lists are grown behind these, or counted.

Lists are grown by compiled code. A list that breaks a condition which every longer list would break, too, is not grown:
`sum(v[].x) < 10` where no x is negative, `v.LEN = 3`, or `max(v[].x) <= a.x`. What a list is compared with is bound
before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from cep_pipeline.compiled.native import NativeKernel, address, words_of
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.conditions.codes import EARLIER, LATER, MAY_SHARE
from cep_pipeline.detection.conditions.groups import ConditionGroups, Moment, conditions_of, filters_of
from cep_pipeline.detection.conditions.program import KERNEL_SOURCES, EventRows, FoundMatches, Program, StreamRules
from cep_pipeline.detection.fused.clause import BLOCK_ROWS, KernelRun, clause_over, refuse_other_variables
from cep_pipeline.detection.fused.levels import LevelCount, count_levels, order_of
from cep_pipeline.detection.kleene import words as at
from cep_pipeline.detection.kleene.list_conditions import ListConditions, course_among, limit_in
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.planning.trees import OrderOrTree
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.ownership import reading
from cep_pipeline.slices.routines import room_for
from cep_pipeline.slices.views import clause_cache_of, may_match

ELEMENTS_AT_ONCE = 1 << 18
"""Events of matches that are written before they are handed on, unless one match has more."""
_grow_lists = NativeKernel(
    "cep_pipeline.detection.kleene.growing_kernel",
    "grow_lists",
    ("int64*", "int64*"),
    (*KERNEL_SOURCES, "cep_pipeline.detection.kleene.words"),
)


def has_kleene(clause: Clause) -> bool:
    """Return whether a variable of the clause binds a list."""
    return any(variable.kleene for variable in clause.positive)


class StagedRun:
    """One run of a clause with Kleene variables over a slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    of
        A clause of a pattern that the fused mechanism runs, over a slice.
    plan
        Names of the clause's positive variables in plan order, or a tree over them. The single variables are bound
        first, then the Kleene variables.

    Raises
    ------
    PlanError
        `plan` is not for the clause's positive variables.
    """

    def __init__(self, of: ClauseSlice, plan: OrderOrTree) -> None:
        order = order_of(plan)
        refuse_other_variables(of.pattern, of.clause, order)
        self.of = of
        of_lists = {variable.name for variable in of.clause.positive if variable.kleene}
        self.singles = tuple(name for name in order if name not in of_lists)
        self.lists = tuple(name for name in order if name in of_lists)
        self._counted = 0
        of.events.split(variable.event_type for variable in (*of.clause.positive, *of.clause.negated))

    @property
    def counts(self) -> tuple[LevelCount, ...]:
        """The candidates and passes of each variable in plan order, complete once the run is over."""
        found = [*self._skeleton.counts] if self.singles else []
        bound, evaluations = self.singles, self.growth.evaluations
        for name, (tried, passed) in zip(self.lists, self.growth.counts.tolist(), strict=True):
            bound = (*bound, name)
            found.append(LevelCount(bound, tried + self._counted, passed + self._counted, evaluations))
            evaluations = 0  # of all lists together
        return tuple(found)

    def count(self, counters: Counters) -> None:
        """Add the counts of the finished run."""
        count_levels(self.of.pattern, self.of.clause, self.counts, counters)

    def __iter__(self) -> Iterator[Block]:
        for bound in self._partial_matches():
            yield from self.growth.matches(bound)

    def counts_at_once(self) -> bool:
        """Return whether the matches can be counted without listing them."""
        return self.of.owned == EVERYTHING and self.growth.counts_at_once()

    def number(self) -> int | None:
        """The number of matches, where they are `counts_at_once`; None where there are too many for that."""
        total = 0
        for bound in self._partial_matches():
            counted = self.growth.counted(bound)
            if counted is None:
                return None
            total += counted
        self._counted = total
        return total

    @cached_property
    def growth(self) -> ListGrowth:
        """The growth of the lists behind the single variables."""
        names = [variable.name for variable in self.of.clause.positive]
        return ListGrowth(self.of, sorted(self.singles, key=names.index), self.lists)

    @cached_property
    def _skeleton(self) -> KernelRun:
        """The kernel's run over the skeleton of the clause: what is left without Kleene closure and negation.

        Its events may all lie before the slice.
        """
        pattern, clause, events, owned, _ = self.of
        skeleton, read = clause_over(clause, self.singles), reading(pattern, events, owned)
        return KernelRun(ClauseSlice(pattern, skeleton, events, read), self.singles)

    def _partial_matches(self) -> Iterator[Array]:
        """int32: the events of the single variables, in pattern order; without any, the first elements of lists."""
        pattern, clause, events, *_ = self.of
        if not may_match(pattern, clause, events) or not all(len(one.rows.rows) for one in self.growth.lists):
            return
        if self.singles:
            for block in self._skeleton:
                yield np.ascontiguousarray(block.rows)
            return
        rows = self.growth.lists[0].rows.rows
        for start in range(0, len(rows), BLOCK_ROWS):
            yield np.ascontiguousarray(rows[np.newaxis, start : start + BLOCK_ROWS])


@dataclass(eq=False)
class GrownList:
    """The lists of one Kleene variable over a slice.

    Attributes
    ----------
    bound
        The variables that are bound before it.
    rows
        The events that may be elements, by the conditions on one event alone.
    limits
        Of conditions on whole lists the parts that a longer list cannot make true again.
    """

    variable: Variable
    bound: frozenset[str]
    conditions: ListConditions
    rows: EventRows
    limits: dict[Conjunct, Conjunct] = field(default_factory=dict)


class ListGrowth:
    """The growth of the lists of a clause over one slice, behind partial matches of its single variables.

    Parameters
    ----------
    of
        A clause over a slice.
    singles, lists
        Its single and its Kleene variables in the order in which they are bound.

    Attributes
    ----------
    lists
        What is known of the lists of each Kleene variable.
    counts
        int64, shape (Kleene variables, 2): the lists that were tried, and that passed, so far.
    """

    def __init__(self, of: ClauseSlice, singles: Sequence[str], lists: Sequence[str]) -> None:
        self.of, self.singles = of, tuple(singles)
        pattern, clause, events, *_ = of
        self.lists: list[GrownList] = []
        self.counts = np.zeros((len(lists), 2), np.int64)
        bound = frozenset(singles)
        for name in lists:
            variable, conditions = clause.by_name[name], ListConditions.of(clause, name, bound)
            filters = filters_of(clause, name)
            rows = EventRows(events, variable.event_type, filters, clause.agree_on, of.earliest_row, of.end_row)
            own = GrownList(variable, bound, conditions, rows)
            course = partial(course_among, events, rows.rows)
            own.limits = {one: limit for one in conditions.whole if (limit := limit_in(one, name, course))}
            self.lists.append(own)
            bound |= {name}
        added = tuple(limit for own in self.lists for one, limit in own.limits.items() if limit != one)
        limited = clause
        if added:
            key = "limits of lists", added
            limited = clause_cache_of(clause).once(key, lambda: replace(clause, conjuncts=(*clause.conjuncts, *added)))
        groups = self._groups = ConditionGroups(conditions_of(pattern, limited))
        self._levels = np.zeros((max(len(lists), 1), at.LEVEL_WORDS), np.int64)
        slots = [groups.conditions.slots[name] for name in singles]
        begin = 0
        for number, own in enumerate(self.lists):
            self._levels[number] = self._level(own, slots)
            self._levels[number, at.L_STACK] = begin
            begin += len(own.rows.rows) + 2
        bounded = self._levels[: len(lists), [at.L_BEHIND, at.L_AHEAD]].astype(bool)
        ends = [one for one in clause.positive if not one.kleene or len(lists) > 1 or not bounded.any()]
        types = frozenset(
            one.event_type for one in (*(ends if not clause.negated else clause.positive), *clause.negated)
        )
        floored, capped = (types if clause.negated or not side.all() else frozenset() for side in bounded.T)
        for one in clause.negated:
            groups.rejecting_group(one.name)
        # No more is written of the conditions than what these groups ask.
        self._program = Program(pattern, limited, events, groups=groups)
        self._levels[-1, at.L_PLAIN] = bool(lists) and self._is_plain(self._levels[-1])
        self._rules = StreamRules(pattern, limited, events, self._program, floored, capped)
        self._single_slots = np.array([*slots, 0], np.int64)
        self._stacks = np.empty((3, begin), np.int32)
        self._ring = self._program.ring()
        self._slots = np.full(len(self._program.variables), -1, np.int32)
        self._registers = np.zeros(at.REGISTERS, np.int64)
        self._sizes, self._endings = np.zeros((2, max(begin, 1)), np.int64)

    @property
    def evaluations(self) -> int:
        """Tests of a conjunct on a list, or a match, so far, and of those on single events."""
        return self._program.evaluations + sum(own.rows.tested for own in self.lists)

    def _level(self, own: GrownList, slots: list[int]) -> list[int]:
        """The words of a variable; behind the slots of the single variables those come that its list is related to."""
        name, groups = own.variable.name, self._groups
        slots_of, relations = groups.conditions.slots, groups.conditions.relations
        slot, bound = slots_of[name], [slots_of[other] for other in own.bound]
        words = [0] * at.LEVEL_WORDS
        words[at.L_SLOT] = slot
        words[at.L_ROWS], words[at.L_STARTS] = address(own.rows.by_key), address(own.rows.starts)
        words[at.L_KEYS] = 0 if own.rows.keys is None else address(own.rows.keys)
        words[at.L_MINIMUM] = own.variable.minimum
        words[at.L_MAXIMUM] = own.variable.maximum or np.iinfo(np.int64).max
        for place, relation in ((at.L_BEFORE, EARLIER), (at.L_AFTER, LATER), (at.L_SHARING, MAY_SHARE)):
            words[place] = len(slots)
            slots += [other for other in bound if relations[other, slot] & relation]
        words[at.L_RELATED] = len(slots)
        if before_is_earlier(self.of.pattern.ties):
            words[at.L_BEHIND] = words[at.L_BEFORE] < words[at.L_AFTER]
            words[at.L_AHEAD] = words[at.L_AFTER] < words[at.L_SHARING]
        before, known = Moment(own.bound, own.bound), own.bound | {name}
        growing, left = Moment(known, own.bound), Moment(known, known)
        limits = own.limits.values()
        apart = {*own.conditions.elements, *own.variable.limits, *limits}
        found = (
            groups.group_of(own.conditions.elements),
            groups.group(growing, (before,), begun=name, without=apart, beside=limits),
            groups.group(growing, (growing,), grown=name, without=apart, beside=limits),
            groups.group(left, (growing,), without=apart),
        )
        for place, group in zip((at.L_ELEMENTS, at.L_BEGINS, at.L_GROWS, at.L_LEFT), found, strict=True):
            words[place] = -1 if groups.is_empty(group) else group
        words[at.L_PICKED] = words[at.L_ELEMENTS] >= 0 or words[at.L_SHARING] < words[at.L_RELATED]
        return words

    def _is_plain(self, words: Array) -> bool:
        """Return whether nothing asks for the cells of the last lists."""
        if words[at.L_BEGINS] >= 0 or words[at.L_LEFT] >= 0 or self.of.clause.negated:
            return False
        grows = int(words[at.L_GROWS])
        return grows < 0 or self._program.compares_neighbours(grows, self.lists[-1].variable.name)

    def _words(self, bound: Array, *, counting: bool = False) -> Array:
        """The words for a kernel, but for those of matches; nothing has been done with these partial matches."""
        self._registers[:] = 0
        self._registers[at.LEVEL] = -1
        last = self.of.clause.positive[-1]
        size = len(self.lists[0].rows.by_key) if counting else 0
        self._compared = room_for(2 * (size + 1), np.float64).reshape(2, -1)  # one more: that of a lone first element
        arrays = words_of(
            *(self._registers, bound.shape[1], bound, len(self.singles), self._single_slots),
            *(len(self.lists), self._levels, self._slots, *self._stacks),
            *(not last.kleene, counting, self._sizes, self._endings, size, *self._compared),
        )
        parts = arrays, self._ring.kernel_words(), self._program.kernel_words(), self._rules.kernel_words()
        words = np.zeros(at.NUMBER, np.int64)
        words[: at.FOUND] = [word for part in parts for word in part]
        return words

    def matches(self, bound: Array) -> Iterator[Block]:
        """The owned matches behind partial matches.

        Parameters
        ----------
        bound
            int32, shape (single variables, n): their events; of no single variables, shape (1, n), the first elements.
        """
        pattern, clause, events, owned, finality = self.of
        found = FoundMatches(pattern, clause, events, owned, finality, ELEMENTS_AT_ONCE)
        words = self._words(bound)
        wanted = at.PAUSED
        while wanted != at.DONE:
            words[at.FOUND :] = found.kernel_words()
            go_on()
            wanted = _grow_lists(words, self.counts)
            if wanted == at.CELLS_FULL:
                self._ring.grow()
                words[at.RING : at.CODE] = self._ring.kernel_words()
            elif wanted != at.PAUSED:
                empty = not len(found)
                block = found.drain()
                if block is not None:
                    yield block
                if empty and wanted == at.FOUND_FULL:
                    found.grow()

    def counts_at_once(self) -> bool:
        """Return whether the lists are counted without one being made.

        There is one Kleene variable, with conditions on elements and adjacent elements only. Lists of so many elements,
        of which each depends on the one before, are left to merged runs: they note how many.
        """
        if len(self.lists) != 1 or self.of.clause.negated:
            return False
        [own] = self.lists
        limited = bool(own.variable.limits and own.conditions.adjacent)
        return not (limited or own.conditions.growing or own.conditions.whole)

    def counted(self, bound: Array) -> int | None:
        """The number of lists behind partial matches, where `counts_at_once`; None where there are too many."""
        [own] = self.lists
        words = self._words(bound, counting=True)
        while (wanted := _grow_lists(words, self.counts)) == at.PAUSED:
            go_on()
        if wanted == at.TOO_MANY:
            return None
        used = int(self._registers[at.MOST]) + 1
        sizes, endings = self._sizes[:used], self._endings[:used]
        # Any that has so many candidates behind its first one has all fewer, too.
        sizes[1:] += endings[:0:-1].cumsum()[::-1]
        total = int(self._registers[at.TOTAL]) + subsets_of(own.variable, sizes)
        sizes[:] = endings[:] = 0
        return total


def subsets_of(variable: Variable, sizes: Array) -> int:
    """Count the lists that begin with the first of some candidates; `sizes` is how often there are so many."""
    least, most = variable.minimum - 1, None if variable.maximum is None else variable.maximum - 1
    return sum(int(sizes[size]) * choices_of(size - 1, least, most) for size in np.flatnonzero(sizes).tolist())


def choices_of(size: int, least: int, most: int | None) -> int:
    """Count the ways to choose at least and at most so many of some things.

    Examples
    --------
    >>> choices_of(5, 1, None), choices_of(5, 2, 3), choices_of(5, 0, 0), choices_of(1, 2, None)
    (31, 20, 1, 0)
    """
    if most is None or most >= size:
        return 2**size - choices_of(size, 0, least - 1) if 0 < least <= size else 2**size if least <= size else 0
    total, one = 0, 1
    for chosen in range(most + 1):
        if chosen >= least:
            total += one
        one = one * (size - chosen) // (chosen + 1)
    return total
