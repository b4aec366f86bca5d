"""The conditions, rules, lists and matches of a clause over the events of a slice, as words for kernels.

Everything that one event decides is computed beforehand: which events fit a variable (`Program.fits`), and the columns
that conjuncts compare. The rest is words for `evaluator.py`, `rules.py` and `cells.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property, partial, reduce
from itertools import accumulate

import numpy as np

from cep_pipeline.compiled.native import address, words_of
from cep_pipeline.detection.conditions import codes
from cep_pipeline.detection.conditions.groups import ConditionGroups, conditions_of
from cep_pipeline.detection.conditions.writer import Accumulators, CommonTerms, ConjunctWriter
from cep_pipeline.detection.limits import ask_for
from cep_pipeline.detection.mechanisms import EVERYTHING, Owned
from cep_pipeline.errors import DataError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.slices.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.order import RULES, order_rows, partitions_of
from cep_pipeline.slices.ownership import Finality, owned_matches
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import group_rows, room_for
from cep_pipeline.slices.views import View, everything, holds_for_all, leaf_view, may_match, rows_below

KERNEL_SOURCES = (
    *(f"cep_pipeline.detection.conditions.{module}" for module in ("cells", "codes", "evaluator", "rules")),
    "cep_pipeline.compiled.pointers",
)
"""Modules that every kernel over instances takes functions or constants from (`NativeKernel.sources`)."""
MOST_CELLS = 2**31
"""A cell's number is the count of cells made before it, modulo this."""
LONGEST_WINDOW = 2**61


class Program:
    """The conjuncts of a clause over the events of a slice.

    Parameters
    ----------
    common
        What it has in common with other clauses that the same kernel runs; None: it is run alone.
    groups
        All groups that will be asked for, whatever the events: only what is in them is compiled. None: that is not
        known yet.

    Attributes
    ----------
    groups
        The groups of conjuncts that are tested together: a mechanism asks for them.
    variables, slots
        As in `ClauseConditions`.
    possible
        Whether a match is possible: the conjuncts without variables hold, and no others exclude each other.
    fits
        uint8, shape (variables, events): whether an event has the type of a variable and passes the conjuncts that one
        event decides.
    unary_evaluations
        How many tests of a conjunct on one event that took, for positive and for negated variables.
    accumulators
        What a cell of each Kleene variable sums up.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        events: PreparedEvents,
        common: CommonTerms | None = None,
        groups: ConditionGroups | None = None,
    ) -> None:
        self.pattern, self.clause, self.events = pattern, clause, events
        self.groups = ConditionGroups(conditions_of(pattern, clause)) if groups is None else groups
        conditions = self.groups.conditions
        self.variables, self.slots = conditions.variables, conditions.slots
        if common is None:
            common = CommonTerms(events, [atom for one in conditions.tested for atom in one.conjunct.atoms])
        self._common, self._writer = common, ConjunctWriter(events, conditions, common)
        # Of groups that are asked for later nothing is known: all conjuncts may be in them.
        for place in range(len(conditions.tested)) if groups is None else groups.places:
            self._writer.write(place)
        self._words = np.zeros(0, np.int64)
        self.unary_evaluations = 0

    @cached_property
    def possible(self) -> bool:
        return may_match(self.pattern, self.clause, self.events)

    @property
    def accumulators(self) -> Accumulators:
        return self._common.accumulators

    @property
    def evaluations(self) -> int:
        """Tests of a conjunct on an instance, so far."""
        return int(self._common.counts[0])

    @cached_property
    def fits(self) -> Array:
        fits = np.zeros((len(self.variables), len(self.events)), np.uint8)
        for slot, variable in enumerate(self.variables):
            filters = self.groups.conditions.filters(variable.name)
            typed = self.events.leaf_rows(variable.event_type)
            self.unary_evaluations += len(filters) * len(typed)
            if len(typed) < len(self.events):
                fits[slot, leaf_view(self.events, variable.event_type, filters, 0, len(self.events)).rows] = 1
                continue
            fits[slot] = 1
            for conjunct in filters:
                fits[slot] &= holds_for_all(self.events, conjunct).view(np.uint8)
        return fits

    def ring(self, size: int = 1 << 10) -> CellRing:
        """Room for the cells of the clause's lists, which kernels name by their slots."""
        return CellRing(self.accumulators, [variable.event_type for variable in self.variables], size)

    def compares_neighbours(self, group: int, variable: str) -> bool:
        """True if all that a group tests are columns of two neighbours of a variable's list, or of single variables."""
        slot, tests = self.slots[variable], next(tests for n, tests in enumerate(self.groups) if n == group)
        own = codes.NEWEST, codes.PREVIOUS
        return all(
            kind == codes.COMPARE_DIRECT
            and (hows & 7 in own if one == slot else hows & 7 == codes.SLOT)
            and (hows >> 3 in own if other == slot else hows >> 3 == codes.SLOT)
            for kind, _, _, one, _, other, hows, _ in (self._writer.item(*test) for test in tests)
        )

    def kernel_words(self) -> list[int]:
        """The `CODE_WORDS` words for a kernel, with all groups asked for so far; valid while the program lives."""
        writer = self._writer
        # The quick ones first.
        groups = [sorted((writer.item(*test) for test in tests), key=lambda item: item[0]) for tests in self.groups]
        choosers = max((len(one.choosers) for one in self.groups.conditions.tested), default=0)
        depth = len(writer.words) // codes.TERM_WORDS + 1  # no term is deeper than it has operations
        parts = (
            list(accumulate(map(len, groups), initial=0)),
            [word for items in groups for item in items for word in item],
            writer.words,
            [0] * writer.registers,
            [0] * choosers,
            [0] * depth,
            [0] * depth,
        )
        # They lie in one array: each costs more than what is in it.
        self._words = np.array([word for part in parts for word in part], np.int64)
        *begins, stack, unknown = accumulate((8 * len(part) for part in parts[:-1]), initial=address(self._words))
        return [*begins, stack, stack, unknown, address(self._common.counts)]


class CellRing:
    """The cells of the lists of one clause, or of all clauses that are run together: kernels fill them (`cells.py`).

    Parameters
    ----------
    accumulators, event_types
        What cells sum up, and the type of the elements of each list, by whose place kernels name it.
    size
        Cells that the ring holds, a power of two; it grows between calls of a kernel.
    """

    def __init__(self, accumulators: Accumulators, event_types: Sequence[EventType], size: int = 1 << 10) -> None:
        self.size = size
        self._ends = np.zeros(2, np.int64)
        self._links = np.zeros((size, codes.LINK_WORDS), np.int32)
        self._sums = np.zeros((size, accumulators.words), np.int64)
        entries = [list(accumulators.entries.get(name, {}).values()) for name in event_types]
        self._starts = np.cumsum([0, *map(len, entries)]).astype(np.int64)
        self._accumulators = np.array([word for own in entries for entry in own for word in entry], np.int64)

    def grow(self) -> None:
        """Double the ring; its words change.

        Raises
        ------
        DataError
            It cannot be doubled: cells are numbered by 31 bits; or there is no memory for that.
        """
        if 2 * self.size > MOST_CELLS:
            raise DataError(f"the lists within a window have more than {self.size:,} elements: shorten the window")
        ask_for(2 * (self._links.nbytes + self._sums.nbytes), f"the lists within a window have {self.size:,} elements")
        numbers = np.arange(self._ends[0], self._ends[1])
        old, new = numbers & (self.size - 1), numbers & (2 * self.size - 1)
        self.size *= 2
        self._links, self._sums = (_moved(values, old, new) for values in (self._links, self._sums))

    def rows(self, cell: int) -> list[int]:
        """The elements of the list that ends with a cell, in stream order."""
        found = []
        for _ in range(self._links[cell & (self.size - 1), codes.LIST_LENGTH]):
            links = self._links[cell & (self.size - 1)]
            found.append(int(links[codes.ROW]))
            cell = int(links[codes.BEFORE])
        return found[::-1]

    def kernel_words(self) -> list[int]:
        """The `RING_WORDS` words for a kernel; they change when the ring grows."""
        sizes = self.size - 1, self._sums.shape[1]
        return words_of(self._ends, self._links, self._sums, self._sums, *sizes, self._starts, self._accumulators)


def _moved(values: Array, old: Array, new: Array) -> Array:
    moved = np.zeros((2 * len(values), values.shape[1]), values.dtype)
    moved[new] = values[old]
    return moved


class EventRows:
    """The rows of the events that a variable may have, and the same by what they agree on.

    Parameters
    ----------
    event_type, filters, agree_on
        Their type, the conjuncts that one event decides (over `ANY_EVENT`), and the attributes that they agree on.
    begin, end
        The rows of the slice that are read.

    Attributes
    ----------
    rows
        int32: in stream order.
    by_key, starts
        int32: those that agree with others, sorted by (key, row); int64: where those of each key begin.
    read
        int32: how many of each key a kernel has read.
    keys
        int32: of each row of the slice its key, -1 where it agrees with none; None where events need not agree.
    different
        How many keys there are, 1 where events need not agree.
    tested
        How many tests of a conjunct on one event it took to find them.
    """

    def __init__(
        self,
        events: PreparedEvents,
        event_type: EventType,
        filters: Collection[Conjunct],
        agree_on: Sequence[str],
        begin: int,
        end: int,
    ) -> None:
        self.rows: Array = leaf_view(events, event_type, tuple(filters), begin, end).rows
        typed = events.leaf_rows(event_type)
        low, high = np.searchsorted(typed, (begin, end))
        self.typed = int(high - low)
        self.tested = len(filters) * len(typed)
        self.keys: Array | None = None
        self.different = 1
        self.by_key, self.starts = self.rows, np.array([0, len(self.rows)], np.int64)
        if agree_on:
            self.keys, different = agreement_codes(events, tuple(agree_on))
            self.different = max(different, 1)
            rows, own = self.rows, self.keys[self.rows]
            agreeing = own >= 0
            if not agreeing.all():
                rows, own = rows[agreeing], own[agreeing]
            order, self.starts = group_rows(own, self.different)
            self.by_key = rows[order]
        self.by_key = np.ascontiguousarray(self.by_key)
        self.read: Array = np.zeros(self.different, np.int32)


class StreamRules:
    """The rules of a clause over two events as arrays over a slice: window, order under TIES, agreement, negation.

    Every rule becomes a comparison of rows, whatever the window and the ties are. Make it before the program's words.

    Parameters
    ----------
    floored, capped
        The types of the events whose `floor` is asked for, and whose `ceiling` is; None: all events.

    Attributes
    ----------
    floor, ceiling
        int32, a row for each event: the first that is within the window of it as the last event of a match, and the
        last that is within the window of it as the first one.
    reach
        int32: an event is before this one if its row is below `reach` of it (and is not its own). Empty, like `onset`,
        where the order is that of rows.
    onset
        int32: an event is after this one if its row is at least `onset` of it (and is not its own).
    keys
        int32: equal where events agree on what the clause asks for, negative where one agrees with none; of length 0
        where nothing is asked.
    relations
        As in `ClauseConditions`.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        events: PreparedEvents,
        program: Program,
        floored: frozenset[EventType] | None = None,
        capped: frozenset[EventType] | None = None,
    ) -> None:
        self.pattern, self.clause, self.events, self.program = pattern, clause, events, program
        of, asked = ("window rows", pattern.window, pattern.partition_by), ((False, floored), (True, capped))
        window = (events.derive((*of, *one), partial(self._window, *one)) for one in asked)
        keys = agreement_codes(events, clause.agree_on)[0] if clause.agree_on else np.empty(0, np.int32)
        nothing = np.empty(0, np.int32)
        order = (nothing, nothing) if RULES[pattern.ties].by_rows else order_rows(events, pattern.ties)
        self.floor, self.ceiling, self.reach, self.onset, self.keys = map(np.ascontiguousarray, (*window, *order, keys))
        self.relations = program.groups.conditions.relations
        self._groups = {one.name: program.groups.rejecting_group(one.name) for one in clause.negated}
        self._kept: list[Array] = []

    def _window(self, ahead: bool, types: frozenset[EventType] | None) -> Array:
        """The `floor` of the events of some types, or ahead of them their `ceiling`."""
        events, window = self.events, self.pattern.window
        if types == frozenset():
            return np.empty(0, np.int32)
        if window.time_us is not None:
            width = min(window.time_us, LONGEST_WINDOW)
            delta_us = width + 1 if ahead else -width
            asked = [] if types is None else [events.leaf_rows(one) for one in types]
            if types is None or 2 * sum(map(len, asked)) > len(events):
                return rows_below(events, everything(events), delta_us) - np.int32(ahead)
            rows = np.sort(np.concatenate(asked)) if len(asked) > 1 else asked[0]
            view = View(events.number_of(("rows of types", types)), rows, np.array([0, len(rows)], np.int64))
            found = room_for(len(events), np.int32)
            found[rows] = rows_below(events, view, delta_us) - np.int32(ahead)
            return found
        assert window.events is not None
        partitions, rows, width = partitions_of(events, self.pattern.partition_by), events.every_row, window.events - 1
        if ahead:
            return np.minimum(partitions.rows_ahead(rows, width), len(events) - 1).astype(np.int32)
        return partitions.rows_back(rows, width).astype(np.int32)

    def _candidates(self, variable: Variable) -> tuple[Array, Array]:
        """The rows of the events that fit a variable, and for each row how many of them are below it."""
        events, filters = self.events, self.program.groups.conditions.filters(variable.name)
        leaf = leaf_view(events, variable.event_type, filters, 0, len(events))

        def count() -> Array:
            return np.searchsorted(leaf.rows, np.arange(len(events) + 1)).astype(np.int32)

        return leaf.rows, events.derive(("candidates below", leaf.identity), count)

    def kernel_words(self, negated: Collection[str] | None = None, bound: Collection[str] | None = None) -> list[int]:
        """The `RULES_WORDS` words for a kernel; valid while the rules and the program live.

        Parameters
        ----------
        negated
            The negated variables whose events reject a tuple; None: all.
        bound
            The positive variables that the tuple has bound; None: all.
        """
        clause, program, relations = self.clause, self.program, self.relations
        asked = [variable for variable in clause.negated if negated is None or variable.name in negated]
        candidates, counts, triples, begin = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], [], 0
        for variable in asked:
            rows, below = self._candidates(variable)
            triples += [program.slots[variable.name], self._groups[variable.name], begin]
            begin += len(rows)
            candidates.append(rows)
            counts.append(below)
        if bound is not None:
            relations = relations.copy()
            unbound = [program.slots[one.name] for one in clause.positive if one.name not in bound]
            relations[np.ix_(unbound, triples[::3])] = 0
        arrays = relations, np.concatenate(candidates), np.concatenate(counts), np.array(triples, np.int64)
        self._kept += arrays
        stream = self.floor, self.ceiling, self.reach, self.onset, self.keys
        sizes = len(program.variables), len(clause.positive), len(asked), len(self.events)
        by_rows = RULES[self.pattern.ties].by_rows
        return words_of(*stream, *arrays, program.groups.conditions.kleene, len(self.keys) > 0, *sizes, by_rows)


class FoundMatches:
    """The finished matches of one clause since the buffer was drained: kernels fill it between two calls (`rules.py`).

    Parameters
    ----------
    owned, finality
        The slice, and when the clause's matches are final: only the matches that the slice owns come out.
    elements
        Events of matches that the buffer holds; it grows where one event finishes more.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        events: PreparedEvents,
        owned: Owned,
        finality: Finality,
        elements: int = 1 << 18,
    ) -> None:
        self.pattern, self.clause, self.events = pattern, clause, events
        self.owned, self.finality = owned, finality
        self._lists = any(variable.kleene for variable in clause.positive)
        self._used = np.zeros(2, np.int64)
        self._allocate(max(elements, len(clause.positive)))

    def _allocate(self, elements: int) -> None:
        self.capacity = elements
        self._rows, of_lists = room_for(elements, np.int32), elements if self._lists else 0
        self._variables, self._offsets = room_for(of_lists, np.int32), room_for(of_lists + 1, np.int64)
        self._offsets[0] = 0

    def __len__(self) -> int:
        return int(self._used[0])

    def grow(self) -> None:
        """Double the drained buffer; its words change."""
        assert not len(self), "the buffer is drained first"
        self._allocate(2 * self.capacity)

    def drain(self) -> Block | None:
        """The matches that the slice owns, and an empty buffer; its words change."""
        matches, elements = self._used.tolist()
        self._used[:] = 0
        if not matches:
            return None
        rows, variables, offsets = self._rows[:elements], self._variables[:elements], self._offsets[: matches + 1]
        if not self._lists:
            rows = rows.reshape(matches, -1).T
            if self.owned != EVERYTHING:
                rows = rows[:, self._owned(reduce(np.minimum, rows), reduce(np.maximum, rows))]
            return MatchBlock(self.clause, np.array(rows, order="C")) if rows.shape[1] else None
        if 2 * elements < self.capacity:  # few are copied, many are handed on as they are
            rows, variables, offsets = rows.copy(), variables.copy(), offsets.copy()
        else:
            self._allocate(self.capacity)
        block = ListBlock(self.clause, offsets, rows, variables)
        if self.owned != EVERYTHING:
            block = block.take(self._owned(block.first_rows(), block.last_rows()))
        return block if len(block) else None

    def _owned(self, first: Array, last: Array) -> Array:
        return owned_matches(self.pattern, self.events, self.owned, self.finality, first, last)

    def kernel_words(self) -> list[int]:
        """The `FOUND_WORDS` words for a kernel; they change when the buffer grows."""
        return words_of(self._used, self._rows, self._variables, self._offsets[1:], self.capacity, self._lists)
