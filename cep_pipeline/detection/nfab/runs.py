"""Deterministic runs of one clause over one slice: a run from each event that can begin it, many at a time.

`ClauseRuns` follows them with the kernel. Negated variables are applied to finished matches. `RunEvents` are the events
that these runs and those of the automaton read, one after another, and which variables each of them fits; `RunLives`
counts the runs that are alive at a time.

Under skip_till_next_match a run ignores whatever it cannot take, so it need not read what fits no variable. Under the
contiguity strategies it reads every event of its partition. Where the events of a match agree on attributes, a run
reads only those that agree with its first: the sequence is sorted by (key, stream order), and a run ends with its key.
Strict contiguity is the exception, because there events of other keys end a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.conditions.groups import ConditionGroups, Moment, conditions_of
from cep_pipeline.detection.conditions.program import KERNEL_SOURCES, CellRing, Program
from cep_pipeline.detection.kleene.growing import ListGrowth
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.automaton import is_chain
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block, MatchBlock
from cep_pipeline.slices.keys import agreeing_view, agreement_codes
from cep_pipeline.slices.order import (
    WindowInstants,
    clock_to_compare,
    earlier_is_before,
    instants_in_view,
    instants_of,
)
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import padded_copy
from cep_pipeline.slices.views import View, clause_cache_of, everything, may_match
from cep_pipeline.statistics.observed import NodeCounts


@dataclass(frozen=True, eq=False)
class RunEvents:
    """The events that the runs of one clause read.

    Attributes
    ----------
    view
        The events by place.
    fits
        uint8, shape (variables, places): whether an event has the variable's type and passes its own conditions.
    ends
        int64: the end of each place's group.
    keys
        int32: what events must agree on where groups do not say so; else of length 0.
    clocks, instants
        int64: the clock to compare (`slices.order.clock_to_compare`), and the instant (timestamp or position).
    options
        What of the flags of `words.py` follows from the pattern and these events.
    """

    view: View
    fits: Array
    ends: Array
    keys: Array
    clocks: Array
    instants: Array
    options: int

    def starts(self, of: ClauseSlice, beginning: Array) -> Array:
        """int32, ascending: the places of these events (bool by place) that a wanted match may begin with."""
        rows, first = self.view.rows, of.earliest_row
        if first > 0:
            beginning = beginning & (rows >= first)
        if of.end_row < len(of.events):
            beginning = beginning & (rows < of.end_row)
        return np.flatnonzero(beginning).astype(np.int32)


def sequence_of(
    pattern: Pattern, clause: Clause, events: PreparedEvents, fits_by_row: Array, *, alone: bool = False
) -> RunEvents:
    """The sequence for the runs of a clause.

    Parameters
    ----------
    fits_by_row
        uint8, shape (variables, events): which events fit which variables, the positive ones first.
    alone
        Whether one event may be a match, as it may where the clause has one variable: then those that agree with none
        are read, too.
    """
    fits = fits_by_row[: len(clause.positive)]
    skipping = pattern.strategy.skips
    grouped = bool(clause.agree_on) and not pattern.strategy.crosses_partitions
    view = everything(events)
    full = fits.view(np.bool_).all(axis=1)
    if skipping and not full.any():
        rows = padded_copy(np.flatnonzero(fits.any(axis=0)).astype(np.int32))
        conditions = frozenset(c for c in clause.conjuncts if len(c.variables) == 1)
        identity = ("fitting", tuple(variable for variable in clause.positive), conditions)
        view = View(identity, rows, np.array([0, len(rows)], np.int64))
    if grouped:
        read = view
        view = agreeing_view(pattern, clause.agree_on, view, events)
        if (alone or len(clause.positive) == 1) and len(view) < len(read):
            view = _with_lonely_events(view, read)
    ends = events.derive(("ends", view.identity), lambda: np.repeat(view.starts[1:], np.diff(view.starts)))
    keys = (
        np.empty(0, np.int32)
        if grouped or not clause.agree_on
        else agreement_codes(events, clause.agree_on)[0][view.rows]
    )
    if len(view) < len(events) or grouped:
        of_places = np.ones((len(fits), len(view)), np.uint8)
        for place in np.flatnonzero(~full):
            np.take(fits[place], view.rows, out=of_places[place], mode="clip")
        fits = of_places
    options = (
        at.CONTIGUOUS * (not skipping)
        | at.AGREEING * (len(keys) > 0)
        | at.COMPARES_CLOCKS * (is_chain(clause) and not earlier_is_before(pattern.ties))
    )
    clocks, instants = clock_to_compare(events, view, pattern.ties), instants_in_view(pattern, events, view)
    return RunEvents(view, np.ascontiguousarray(fits), ends, keys, clocks, instants, options)


def _with_lonely_events(view: View, read: View) -> View:
    """The view with the events that agree with none, each in a group of its own: it may be a match alone."""
    lonely = np.setdiff1d(read.rows, view.rows).astype(np.int32)
    rows = padded_copy(np.concatenate((view.rows, lonely)))
    starts = np.concatenate((view.starts, len(view) + 1 + np.arange(len(lonely), dtype=np.int64)))
    return View(("with lonely", view.identity), rows, starts)


class RunLives:
    """The number of runs alive, from the rows with which they begin, and with which they (or their windows) end."""

    def __init__(self) -> None:
        self._changes: list[tuple[Array, Array | int]] = []

    def add(self, rows: Array, more: Array | int) -> None:
        """Add at rows how many more runs are alive from each on; a row may come several times."""
        self._changes.append((rows, more))

    def peak(self, events: int) -> int:
        """The most runs that are alive between two events."""
        alive = np.zeros(events + 1, np.int32)
        for rows, more in self._changes:
            np.add.at(alive, rows, more)
        return int(np.cumsum(alive).max(initial=0))


RUNS_AT_ONCE = 1 << 17
"""Runs followed at once: their state is what is held beside the columns."""
MOST_NODES = 1 << 12
"""Sets of variables that are counted one by one."""

_follow = NativeKernel(
    "cep_pipeline.detection.nfab.kernel",
    "follow",
    (
        *(*["int64"] * 6, "int32*", *["int64*"] * 2, "int32*", "uint8*", "int32*"),
        *(*["int64*"] * 2, *["int32*"] * 4, "uint8*", "int64*", "int64"),
    ),
    (*KERNEL_SOURCES, "cep_pipeline.detection.nfab.words"),
)


class _Groups(NamedTuple):
    """The groups of conjuncts that become testable as variables are bound; int64: as `kernel.follow` has them."""

    groups: ConditionGroups
    tests: Array


def _groups_of(pattern: Pattern, clause: Clause) -> _Groups:
    groups, names = ConditionGroups(conditions_of(pattern, clause)), [variable.name for variable in clause.positive]
    conjuncts: list[int] = []
    completing: list[list[int]] = [[] for _ in names]
    if is_chain(clause):
        for place, name in enumerate(names[1:], 1):
            before = frozenset(names[:place])
            completing[place].append(len(conjuncts))
            conjuncts += groups.first_group(name, Moment(before, before)), 0
    else:
        for one in groups.conditions.tested:
            if one.conjunct.variables <= set(names):
                variables = [place for place, name in enumerate(names) if name in one.conjunct.variables]
                for variable in variables:
                    completing[variable].append(len(conjuncts))
                conjuncts += groups.group_of([one.conjunct]), len(variables), *variables
    starts = np.cumsum([len(names) + 1, *map(len, completing)])
    behind = int(starts[-1])
    return _Groups(
        groups, np.array([*starts, *(behind + place for own in completing for place in own), *conjuncts], np.int64)
    )


class ClauseRuns:
    """The runs of one clause over one slice.

    Parameters
    ----------
    of
        A clause over a slice: a chain or an AND of single events.
    lives
        Where `count` notes the runs' lives.

    Notes
    -----
    A run depends on nothing but the events from its first to its last, which are no more than the window apart: a slice
    that reads back the window follows just those runs that a longer one does.
    """

    def __init__(self, of: ClauseSlice, lives: RunLives) -> None:
        self.of = of
        self.pattern, self.clause, self.events, self.owned, _ = of
        self.end_row = of.end_row
        self.chain = is_chain(of.clause)
        self.evaluations = 0
        self.lives = lives
        self._ends: list[tuple[Array, Array]] = []
        variables = len(of.clause.positive)
        self._nodes = variables if self.chain else 1 << variables
        if not self.chain and self._nodes > MOST_NODES:
            self._nodes = 1
        self._counts = np.zeros((self._nodes, 2), np.int64)

    def __iter__(self) -> Iterator[Block]:
        if self.end_row == 0 or not may_match(self.pattern, self.clause, self.events):
            return
        beginning = self._sequence.fits[0] if self.chain else self._sequence.fits.max(axis=0)
        starts = self._sequence.starts(self.of, beginning.view(np.bool_))
        for first in range(0, len(starts), RUNS_AT_ONCE):
            go_on()
            found = self._follow(starts[first : first + RUNS_AT_ONCE])
            if self.owned != EVERYTHING:
                found = found[:, self._is_owned(found)]
            found = np.ascontiguousarray(found)
            if self.clause.negated:
                yield from self._unrejected.matches(found)
            elif found.shape[1]:
                yield MatchBlock(self.clause, found)
        self.evaluations += self._program.evaluations
        if self.clause.negated:
            self.evaluations += self._unrejected.evaluations

    def count(self, counters: Counters) -> None:
        """Add what happened at each state that binds events: a chain's prefixes, or an AND's sets."""
        for begun, ended in self._ends:
            self.lives.add(begun, 1)
            self.lives.add(ended, -1)
        names = [variable.name for variable in self.clause.positive]
        if self._nodes == 1 and len(names) > 1:
            return
        for node, (candidates, passes) in enumerate(self._counts.tolist()):
            bound = names[: node + 1] if self.chain else [name for i, name in enumerate(names) if node >> i & 1]
            if bound and (candidates or self.chain):
                created = passes if len(bound) < len(names) else 0
                counts = NodeCounts(self.pattern.name, self.clause.index, tuple(bound), candidates, passes, created)
                counters.count(counts)
        counters.condition_evaluations += self.evaluations

    def _follow(self, starts: Array) -> Array:
        """The matches of the runs from these places, int32 of shape (variables, n)."""
        sequence = self._sequence
        runs = len(starts)
        together = int(starts[-1]) - int(starts[0]) + 1 == runs  # all places: a slice, which costs less than a choice
        chosen = slice(int(starts[0]), int(starts[-1]) + 1) if together else starts
        ends = sequence.ends[chosen].astype(np.int32)
        if sequence.options & at.AGREEING:  # an event that lacks a key agrees with none
            alone = sequence.keys[starts] < 0
            ends[alone] = starts[alone] + 1
        variables, size = sequence.fits.shape
        slots, ended, states = np.empty((runs, variables), np.int32), np.empty(runs, np.int32), np.empty(runs, np.uint8)
        links = self._links if self.chain and not sequence.options & at.CONTIGUOUS else np.empty(0, np.int32)
        matches = _follow(
            *(runs, variables, size, sequence.options | at.CHAIN * self.chain, self._instants.width, self.end_row),
            *(sequence.view.rows, sequence.clocks, sequence.instants, sequence.keys, sequence.fits, links),
            *(self._words, self._grouped.tests, starts, ends, slots, ended, states, self._counts, self._nodes),
        )
        begun, expired = sequence.view.rows[chosen], np.flatnonzero(states == at.EXPIRED)
        if len(expired):
            ended[expired] = np.minimum(self._instants.end_row_within(begun[expired]), self.end_row)
        self._ends.append((begun, np.maximum(ended, begun, out=ended)))
        return slots[:matches].T

    def _is_owned(self, found: Array) -> Array:
        """Return whether the slice owns each match: the one in which it becomes final."""
        first, last = found.min(axis=0), found.max(axis=0)
        final = self.of.owns(first, last)
        return np.asarray(final & (last < self.end_row))

    # -- what the kernel reads ----------------------------------------------------------------------------------------

    @cached_property
    def _sequence(self) -> RunEvents:
        return sequence_of(self.pattern, self.clause, self.events, self._program.fits)

    @cached_property
    def _links(self) -> Array:
        """int32, shape (variables, places): the next place whose event fits the variable."""
        fits = self._sequence.fits
        if len(fits) == 1:
            return np.empty((1, 0), np.int32)
        size = fits.shape[1]
        following = np.where(fits != 0, np.arange(size, dtype=np.int32), np.int32(size))[:, ::-1]
        links = np.full(fits.shape, size, np.int32)
        links[:, :-1] = np.minimum.accumulate(following, axis=1)[:, ::-1][:, 1:]
        return links

    @cached_property
    def _instants(self) -> WindowInstants:
        return instants_of(self.pattern, self.events)

    @cached_property
    def _program(self) -> Program:
        return Program(self.pattern, self.clause, self.events, groups=self._grouped.groups)

    @cached_property
    def _unrejected(self) -> ListGrowth:
        """The matches that no event of a negated variable rejects: there is no list to be grown."""
        return ListGrowth(self.of, [variable.name for variable in self.clause.positive], ())

    @cached_property
    def _grouped(self) -> _Groups:
        key = "groups of runs", self.pattern.base_type
        return clause_cache_of(self.clause).once(key, lambda: _groups_of(self.pattern, self.clause))

    @cached_property
    def _words(self) -> Array:
        """The words of the program, and of a ring of cells without lists."""
        return np.array([*self._program.kernel_words(), *self._cells.kernel_words()], np.int64)

    @cached_property
    def _cells(self) -> CellRing:
        return self._program.ring(1)
