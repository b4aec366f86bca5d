"""Negated composites and lists: the finished matches that no binding of one rejects (docs/language.md, section 3.5).

Mechanisms find matches as if a clause had no negated structure, and what they find comes through here before anything
is done with it. A match is rejected where a binding of all variables of the structure exists; the search ends with the
first one. Matches that ask the same question, such as all that begin with one event, ask it once where they are many:
the binding that ends first rejects all of them that go on beyond its end.

A variable's candidates lie in stream order, key after key where events of a match agree on something. So those between
two events are found by a binary search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection import negation_words as at
from cep_pipeline.detection.conditions.codes import CODE_WORDS, EARLIER, LATER, MAY_SHARE, RING_WORDS
from cep_pipeline.detection.conditions.groups import ClauseConditions, ConditionGroups, Moment, filters_of
from cep_pipeline.detection.conditions.program import KERNEL_SOURCES, CellRing, Program
from cep_pipeline.detection.kleene.list_conditions import course_among, limit_in, possible_course
from cep_pipeline.detection.limits import go_on
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import Uses
from cep_pipeline.patterns.conditions import Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import Aggregate, Element, Length, variables_of
from cep_pipeline.patterns.normal_form import Clause, NegatedStructure, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block, MatchBlock
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.order import StreamOrder, before_is_earlier, instants_of, order_rows
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import group_rows
from cep_pipeline.slices.views import clock_of, leaf_view

EVENTS_A_CALL = 1 << 24
"""Candidates that are looked at before a call returns, so that a search can be interrupted."""
MOST_SUMMED = 2.0**62
"""Sums of int64 up to it are no null."""
NO_LIMIT = 1 << 62
"""The most events of a list that has no most."""
FIRST_STACK, FIRST_CELLS = 1 << 8, 1 << 8
"""Events that a search may have bound at a time, and elements of lists, that there is room for at first."""
_NO_CELLS: Array = np.zeros(2, np.int64)
"""The ends of a ring of cells where nothing binds a list."""

_search_negated = NativeKernel(
    "cep_pipeline.detection.negation_kernel",
    "search_negated",
    ("int64*",),
    (
        *KERNEL_SOURCES,
        "cep_pipeline.detection.negation_words",
    ),
)


def unrejected_by_structures(
    pattern: Pattern, clause: Clause, events: PreparedEvents, found: Iterable[Block]
) -> Iterable[Block]:
    """The matches of a clause that no negated structure rejects.

    Parameters
    ----------
    found
        Matches of the clause as if it had no negated structures.
    """
    return _unrejected(pattern, clause, events, found) if clause.negated_structures else found


def _unrejected(pattern: Pattern, clause: Clause, events: PreparedEvents, found: Iterable[Block]) -> Iterator[Block]:
    checks: list[StructureCheck] = []
    for block in found:
        checks = checks or structure_checks(pattern, clause, events)
        kept = block.take(~rejected_by_structures(checks, block))
        if len(kept):
            yield kept


def rejected_by_structures(checks: Sequence[StructureCheck], block: Block) -> Array:
    """bool, shape (n,): the matches of a clause that a binding of one of its negated structures rejects."""
    rejected = np.zeros(len(block), np.bool_)
    for check in checks:
        left = np.flatnonzero(~rejected)
        if len(left):
            rejected[left] = check.rejected(_Matches.of(block.take(~rejected)))
    return rejected


def structure_checks(pattern: Pattern, clause: Clause, events: PreparedEvents) -> list[StructureCheck]:
    """A check for each clause of each negated structure of a clause."""
    return [
        StructureCheck(pattern, clause, structure, negated, events)
        for structure in clause.negated_structures
        for negated in structure.clauses
    ]


class _Matches:
    """Matches of a clause: variable v of match m has `rows[begins[k] : begins[k + 1]]`, k being `m * width + v`.

    Parameters
    ----------
    width
        Number of positive variables.
    begins, rows
        int64 and int32.
    """

    def __init__(self, width: int, begins: Array, rows: Array) -> None:
        self.width, self.begins, self.rows = width, begins, rows

    @classmethod
    def of(cls, block: Block) -> _Matches:
        width = len(block.clause.positive)
        if isinstance(block, MatchBlock):
            return cls.of_events(block.rows)
        owner = np.repeat(np.arange(len(block), dtype=np.int64), np.diff(block.offsets))
        sizes = np.bincount(owner * width + block.variables, minlength=len(block) * width)
        return cls(width, np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))), np.ascontiguousarray(block.rows))

    @classmethod
    def of_events(cls, rows: Array) -> _Matches:
        """Matches of variables that bind one event each, whose rows are int32, shape (width, n)."""
        return cls(len(rows), np.arange(rows.size + 1, dtype=np.int64), np.ascontiguousarray(rows.T).reshape(-1))

    def __len__(self) -> int:
        return (len(self.begins) - 1) // self.width

    def first_of(self, place: int) -> Array:
        """The first row of a variable in each match."""
        return np.asarray(self.rows[self.begins[place : -1 : self.width]])

    def last_of(self, place: int) -> Array:
        """The last row of a variable in each match."""
        return np.asarray(self.rows[self.begins[place + 1 :: self.width] - 1])

    def first_events(self) -> Array:
        """The first row of each variable, shape (width, n)."""
        return np.stack([self.first_of(place) for place in range(self.width)])

    def last(self) -> Array:
        """The last row of each match."""
        return reduce(np.maximum, (self.last_of(place) for place in range(self.width)))


class StructureCheck:
    """One clause of a negated structure, which rejects matches of the clause that the structure stands in.

    Attributes
    ----------
    joined
        The clause with the variables of both; the negated structure's own come behind.
    groups, slots, relations
        As in `conditions.groups`, with all groups that a search tests.
    needed
        uint8: the positive variables whose events a search looks at.
    after, before
        The places of the positive variables that the structure comes behind, and before.
    """

    def __init__(
        self, pattern: Pattern, clause: Clause, structure: NegatedStructure, negated: Clause, events: PreparedEvents
    ) -> None:
        self.pattern, self.clause, self.negated, self.events = pattern, clause, negated, events
        self.joined = joined_clause(clause, structure, negated)
        self._views = {
            one.name: leaf_view(events, one.event_type, filters_of(self.joined, one.name), 0, len(events))
            for one in negated.positive
        }
        limits = {variable.name: self._limits_of(variable) for variable in negated.positive if variable.kleene}
        implied = (limit for own in limits.values() for limit in own)
        self.joined = replace(self.joined, conjuncts=tuple(dict.fromkeys((*self.joined.conjuncts, *implied))))
        conditions = ClauseConditions(pattern, self.joined)
        self.groups, self.slots, self.relations = ConditionGroups(conditions), conditions.slots, conditions.relations
        self.needed = self._needed_slots()
        self.after, self.before = (
            [clause.positive.index(variable) for variable in side]
            for side in (clause.predecessors(structure.name), clause.successors(structure.name))
        )
        self._order = StreamOrder(clock_of(events), pattern.ties)
        self._window = instants_of(pattern, events)
        self._codes = agreement_codes(events, clause.agree_on) if clause.agree_on else None
        self._levels, shares = self._written_levels(limits)
        self._kept = [
            np.array([*shares, 0], np.int64),
            np.ascontiguousarray(conditions.kleene),
            np.ascontiguousarray(conditions.relations),
            self.needed,
        ]
        self._words: Array | None = None
        self._program: Program | None = None
        self._ring: CellRing | None = None
        self._stack: Array = np.zeros(FIRST_STACK * at.ENTRY_WORDS, np.int64)

    @property
    def may_reject(self) -> bool:
        """True if there are as many events as a binding takes."""
        return all(len(self._views[one.name]) >= one.minimum for one in self.negated.positive)

    def rejected(self, matches: _Matches) -> Array:
        """bool: the matches that a binding rejects.

        Of matches whose searches differ in their ends alone one asks for all.
        """
        if not self.may_reject or not len(matches):
            return np.zeros(len(matches), np.bool_)
        low, high = self._between(matches)
        if any(self.needed[slot] for slot, one in enumerate(self.clause.positive) if one.kleene):
            return np.asarray(self._first_ends(matches, low, high, high) < high)
        events = matches.first_events()
        _, first, asked = np.unique(self._questions(events, low), return_index=True, return_inverse=True)
        highest, least = np.zeros(len(first), high.dtype), np.full(len(first), len(self.events), high.dtype)
        np.maximum.at(highest, asked, high)
        np.minimum.at(least, asked, high)
        ends = self._first_ends(_Matches.of_events(events[:, first]), low[first], highest, least)
        return np.asarray(ends[asked] < high)

    def binding(self, rows: Mapping[str, Array]) -> dict[str, list[int]] | None:
        """The rows of a binding that rejects a match, by variable; None where none does.

        Parameters
        ----------
        rows
            The rows of the events of the match, ascending, by variable.
        """
        bound = [rows[variable.name] for variable in self.clause.positive]
        begins = np.cumsum([0, *map(len, bound)])
        match = _Matches(len(bound), begins.astype(np.int64), np.concatenate(bound).astype(np.int32))
        low, high = self._between(match)
        if not self.may_reject or self._first_ends(match, low, high, high)[0] >= high[0]:
            return None
        values = {one: int(self._values[self.slots[one.name]]) for one in self.negated.positive}
        ring = self._ring
        return {one.name: ring.rows(cell) if ring and one.kleene else [cell] for one, cell in values.items()}

    # --- which matches ask for what ---------------------------------------------------------------------------------

    def _between(self, matches: _Matches) -> tuple[Array, Array]:
        """The rows from which, and before which, the events of a binding lie."""
        after = [self._order.rows_after(matches.last_of(place)) for place in self.after]
        before = [self._order.rows_ahead(matches.first_of(place)) for place in self.before]
        low = reduce(np.maximum, after) if after else self._window.first_row_within(matches.last())
        high = reduce(np.minimum, before) if before else self._window.end_row_within(matches.first_events().min(axis=0))
        return low, high

    def _questions(self, events: Array, low: Array) -> Array:
        """int64: equal for matches whose searches are the same but for their ends, by the first events of variables."""
        size = len(self.events) + 1
        columns = [events[slot] for slot in np.flatnonzero(self.needed).tolist()]
        if self._codes is not None:
            columns.append(self._codes[0][events[0]] + 1)
        if not self.after or not self.needed[self.after].all():  # otherwise the events say where the search begins
            columns.append(low)
        key: Array = columns[0].astype(np.int64)
        for column in columns[1:]:
            if int(key.max()) >= NO_LIMIT // size:
                _, key = np.unique(key, return_inverse=True)
            key = key * size + column
        return key

    # --- searching --------------------------------------------------------------------------------------------------

    def _first_ends(self, matches: _Matches, low: Array, high: Array, enough: Array) -> Array:
        """The row at which the first binding of each match ends, between the rows; the number of events where none is.

        Parameters
        ----------
        enough
            A binding that ends before this row need not be the first one.
        """
        words = self._search_words()
        asked = np.empty((4, len(low)), np.int32)
        asked[0], asked[1], asked[2], asked[3] = low, high, enough, len(self.events)
        address, size = asked.ctypes.data, asked.strides[0]
        words[at.LOWS], words[at.HIGHS], words[at.ENOUGH] = address, address + size, address + 2 * size
        words[at.FOUND] = address + 3 * size
        begins, rows = matches.begins, matches.rows
        words[at.BEGINS], words[at.ROWS] = begins.ctypes.data, rows.ctypes.data
        words[at.QUERIES], words[at.QUERY], words[at.DEPTH] = len(low), 0, at.NOT_BEGUN
        result = at.GO_ON
        while result != at.FINISHED:
            go_on()
            words[at.BUDGET] = EVENTS_A_CALL
            words[at.STACK], words[at.STACK_ROOM] = self._stack.ctypes.data, len(self._stack) // at.ENTRY_WORDS
            if self._ring is not None:
                words[-RING_WORDS:] = self._ring.kernel_words()
            result = _search_negated(words)
            if result == at.RING_FULL:
                assert self._ring is not None
                self._ring.grow()
            elif result == at.STACK_FULL:
                self._stack = np.concatenate((self._stack, np.zeros_like(self._stack)))
        found: Array = asked[3]
        return found

    def _search_words(self) -> Array:
        """The words of a search, but for what it is asked."""
        if self._words is not None:
            return self._words
        levels, joined = self._levels, self.joined
        for place, variable in enumerate(self.negated.positive):
            rows, starts, codes = self._candidates(variable)
            self._kept += [rows, starts, codes]
            levels[place, at.LEVEL_ROWS], levels[place, at.GROUP_STARTS] = rows.ctypes.data, starts.ctypes.data
            levels[place, at.CODES] = codes.ctypes.data if len(codes) else 0
            if variable.kleene:
                levels[place, at.ONCE] &= self._grows_true(variable, self._conjuncts_on(variable))
        self._values = np.zeros(len(self.slots) + 1, np.int32)
        reach, onset = map(np.ascontiguousarray, order_rows(self.events, self.pattern.ties))
        words = np.zeros(at.PROGRAM + CODE_WORDS + RING_WORDS, np.int64)
        places = at.SHARES, at.KLEENE, at.RELATIONS, at.NEEDED, at.LEVEL_TABLE, at.SLOTS, at.ONSET, at.REACH
        arrays = *self._kept[:4], levels, self._values, onset, reach
        for word, array in zip(places, arrays, strict=True):
            words[word] = array.ctypes.data
        self._kept += arrays
        words[at.LEVELS] = len(self.negated.positive)
        words[at.POSITIVE], words[at.ALL_SLOTS] = len(self.clause.positive), len(joined.positive)
        words[at.PROGRAM + CODE_WORDS] = _NO_CELLS.ctypes.data
        has_lists = any(variable.kleene for variable in joined.positive)
        if has_lists or self.groups.places:
            program = self._program = Program(self.pattern, joined, self.events, groups=self.groups)
            words[at.PROGRAM : at.PROGRAM + CODE_WORDS] = program.kernel_words()
            self._ring = program.ring(FIRST_CELLS) if has_lists else None
        self._words = words
        return words

    def _limits_of(self, variable: Variable) -> tuple[Conjunct, ...]:
        """The conditions on a list that a longer list cannot make true again."""
        bound, own = {one.name for one in self.joined.positive}, self._conjuncts_on(variable)
        lists = {one.name for one in self.negated.positive if one.kleene} - {variable.name}
        single = (one for one in own if lists.isdisjoint(one.variables) and one.variables <= bound)
        rows = self._views[variable.name].rows
        limits = (limit_in(one, variable.name, partial(course_among, self.events, rows)) for one in single)
        return tuple(limit for limit in limits if limit is not None and self._is_of_earlier(limit, variable))

    def _is_of_earlier(self, conjunct: Conjunct, variable: Variable) -> bool:
        """True if a condition mentions no variable of the structure that is bound behind a variable."""
        names = [one.name for one in self.negated.positive]
        return conjunct.variables.isdisjoint(names[names.index(variable.name) + 1 :])

    def _grows_true(self, variable: Variable, conjuncts: Sequence[Conjunct]) -> bool:
        """True if, where a list fulfils its conditions, so do all events that may be its elements, up to its last."""
        whole = [one for one in conjuncts if Uses.of(one).kinds[variable.name] != {Element.EACH}]
        return (variable.maximum is None or not whole) and all(self._stays_true(one, variable) for one in whole)

    def _stays_true(self, conjunct: Conjunct, variable: Variable) -> bool:
        match conjunct.atoms:
            case (Comparison(comparator, left, right),):
                sides = ((left, comparator, right), (right, comparator.mirror, left))
            case _:
                return False
        for side, compared, other in sides:
            before_another = isinstance(side, Aggregate) and side.prefix
            if not isinstance(side, Length | Aggregate) or variable.name in variables_of(other) or before_another:
                continue
            never_falls, never_rises = possible_course(side)
            if isinstance(side, Aggregate) and side.function != "count":
                column, rows = self.events.column(side.attribute), self._views[variable.name].rows
                values = column.values[rows] if column.valid is None else column.values[rows][column.valid[rows]]
                if column.type.is_number and not np.abs(values.astype(np.float64)).sum() < MOST_SUMMED:
                    return False  # a NaN, or more than an integer holds
                if side.function == "sum":
                    never_falls, never_rises = not (values < 0).any(), not (values > 0).any()
            return (never_falls and compared in (Comparator.GT, Comparator.GE)) or (
                never_rises and compared in (Comparator.LT, Comparator.LE)
            )
        return False

    def _candidates(self, variable: Variable) -> tuple[Array, Array, Array]:
        """The candidates of a variable of the structure, key after key, and the key that each event asks for.

        Returns
        -------
        rows, starts : Array
            int32 and int64: the candidates, and where each key begins.
        codes : Array
            int32, for each event of the slice the key of those that it agrees with, or -1; empty: there is one key.
        """
        rows = np.ascontiguousarray(self._views[variable.name].rows)
        if self._codes is None:
            return rows, np.array([0, len(rows)], np.int64), np.empty(0, np.int32)
        codes, groups = self._codes
        present = np.flatnonzero(codes[rows] >= 0)
        order, starts = group_rows(codes[rows[present]], groups)
        rows = np.ascontiguousarray(rows[present[order]])
        return rows, np.ascontiguousarray(starts), np.ascontiguousarray(codes, np.int32)

    # --- the clause of both --------------------------------------------------------------------------------

    def _needed_slots(self) -> Array:
        mentioned = frozenset(name for conjunct in self.joined.conjuncts for name in conjunct.variables)
        needed = np.zeros(len(self.joined.positive), np.uint8)
        for slot, variable in enumerate(self.clause.positive):
            shares = any(self.may_be_one(slot, self.slots[one.name]) for one in self.negated.positive)
            needed[slot] = variable.name in mentioned or shares
        return needed

    def may_be_one(self, one: int, other: int) -> bool:
        """True if the variables of two slots may have the same event."""
        relation = int(self.relations[one, other])
        ordered = bool(relation & (EARLIER | LATER)) and before_is_earlier(self.pattern.ties)
        return bool(relation & MAY_SHARE) and not ordered

    def _written_levels(self, limits: Mapping[str, tuple[Conjunct, ...]]) -> tuple[Array, list[int]]:
        """The words of each variable of the structure, in its order, and the slots whose events it may not take."""
        groups, bound = self.groups, frozenset(variable.name for variable in self.clause.positive)
        before = Moment(bound, bound)
        levels: list[list[int]] = []
        shares: list[int] = []
        for place, variable in enumerate(self.negated.positive):
            name, slot = variable.name, self.slots[variable.name]
            begin = len(shares)
            shares += [other for other in range(len(bound) + place) if self.may_be_one(other, slot)]
            own = [groups.first_group(name, before), -1, -1, -1]
            complete = Moment(before.bound | {name}, before.complete | {name})
            if variable.kleene:
                growing = Moment(complete.bound, before.complete)
                own[1:] = [
                    groups.element_group(name, growing),
                    groups.left_group(growing, (name,)),
                    groups.group_of(limits[name]),
                ]
            levels.append(
                [
                    *(slot, int(variable.kleene), variable.minimum, variable.maximum or NO_LIMIT),
                    *(-1 if group < 0 or groups.is_empty(group) else group for group in own),
                    *(0, 0, 0, len(self.joined.positive), begin, len(shares), int(self._once(place))),
                ]
            )
            before = complete
        return np.array(levels, np.int64), shares

    def _once(self, place: int) -> bool:
        """True if the first event that fits a variable leaves as much to the variables behind it as any later one.

        Of a list: all events that fit, up to one, as any list that ends with that one; if it grows true, besides.
        """
        variable, behind = self.negated.positive[place], self.negated.positive[place + 1 :]
        names = {one.name for one in behind}
        if any(not names.isdisjoint(one.variables) for one in self._conjuncts_on(variable)):
            return False
        slot = self.slots[variable.name]
        for one in behind:
            other = self.slots[one.name]
            if self.relations[slot, other] & LATER or self.may_be_one(slot, other):
                return False
        return True

    def _conjuncts_on(self, variable: Variable) -> list[Conjunct]:
        """The conjuncts that mention a variable."""
        return [conjunct for conjunct in self.joined.conjuncts if variable.name in conjunct.variables]


def joined_clause(clause: Clause, structure: NegatedStructure, negated: Clause) -> Clause:
    """A clause that binds the variables of a negated structure beside its own, with their order and conditions."""
    around = {(v.name, one.name) for v in clause.predecessors(structure.name) for one in negated.positive}
    behind = {(one.name, v.name) for v in clause.successors(structure.name) for one in negated.positive}
    names = {variable.name for variable in clause.positive}
    limits = {limit for variable in negated.positive for limit in variable.limits}  # the search counts events itself
    within = {pair for pair in clause.precedence if names.issuperset(pair)}
    return replace(
        clause,
        positive=(*clause.positive, *negated.positive),
        negated=(),
        precedence=frozenset(within | around | behind | negated.precedence),
        conjuncts=tuple(conjunct for conjunct in negated.conjuncts if conjunct not in limits),
        negated_structures=(),
    )
