"""Short runs of many patterns over one slice in one go.

A run by itself costs a pattern some tenths of a millisecond, however few events there are. The words of a plain run
(`levels.RunLayout`) are known before any event is, but for the addresses of arrays. So the words of all patterns stand
side by side, and are kept. Over a slice every leaf, range and column is made once, whichever patterns ask for it, all
addresses are written in one step, and the kernel is called for one pattern after another.

A run has stages. Each binds some levels, and asks the partial matches what its tests do not decide: whether an event of
a negated variable rejects them, which is searched for, or a conjunct that is not compiled. Behind the last stage lists
are found or counted (`kleene.compiled_lists`). What only whole matches decide, those of all patterns are asked together
(`questions`).

Only runs that are soon over are finished here. Those that have many candidates or matches, or whose leaves are large,
are left to `clause.KernelRun`, which can stop and go on, and beside which the cost of a call is small.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from operator import is_
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from cep_pipeline.compiled.ir_text import WIDTH
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.fused.clause import KernelRun, deciding_rows, final_rows, last_variable, rows_back
from cep_pipeline.detection.fused.constraints import BoundUnit, RemadeColumn, clock_values, sorted_like
from cep_pipeline.detection.fused.generator import MOST_FOLLOWERS, OUTPUT_PADDING
from cep_pipeline.detection.fused.kernel import MOST_LISTS, running_shape
from cep_pipeline.detection.fused.levels import (
    KnownLayout,
    LevelCount,
    Range,
    RunLayout,
    StageLayout,
    Tally,
    WordLayout,
    count_levels,
    known_layout,
    order_of,
    reach_of,
)
from cep_pipeline.detection.fused.programs import (
    BUDGET,
    CAPACITY,
    COUNTERS,
    FINISHED,
    FIRST_OWNED,
    OUTER,
    SCRATCH,
    SCRATCH_STRIDE,
    STATE,
)
from cep_pipeline.detection.fused.questions import AskedRun, Questions, that_hold
from cep_pipeline.detection.kleene.bindings import has_kleene
from cep_pipeline.detection.kleene.compiled_lists import (
    CompiledLists,
    ListMemory,
    ListsBehind,
    ListStep,
    asks_lists,
    conditions_left,
    has_one_list,
    lists_in_turn,
)
from cep_pipeline.detection.kleene.extension import course_among, limit_in, possible_course
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, FoundAtOnce, Orders, Owned
from cep_pipeline.detection.negated_structures import JoinedClause, joined_clauses
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.composing import EVENT_TYPE
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy, Ties, Window
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.slices.blocks import Block, MatchBlock
from cep_pipeline.slices.keys import leaf_by, leaves_by
from cep_pipeline.slices.ownership import Finality, finality_of, reading
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import write_counts_before
from cep_pipeline.slices.views import (
    CLOCK_LIMIT,
    MOST_CLAUSES,
    EventLeaf,
    ManyLeaves,
    View,
    filters_of,
    groups_of_view,
    implied_by,
    leaf_of,
    times_are_plain,
    view_of_leaf,
)

MOST_EVENTS = 1 << 13
"""Events of a leaf up to which a run is tried here."""
MOST_CANDIDATES, MOST_MATCHES = 1 << 17, 1 << 12
"""A run that has more of them is left to a run by itself."""
MOST_SEARCHED = 1 << 20
"""Events that may have to be read in a search for those that reject, up to which it is made here."""
LEFT_OUT = 16
"""Number of slices for which a run is not tried again after it had too much to do."""
MOST_RUNS = 1 << 13
"""Runs whose words are kept, of all sets of patterns; the sets not run for longest go first."""

MOST_LIST_EVENTS, MOST_WORDS = 1 << 15, 1 << 16
"""Events of the lists of a run, and words of the followers of their candidates, up to which lists are written here."""

ENDS = 2
"""The block of partial matches with the ends of lists, behind the two of the stages in turn."""

T = TypeVar("T", bound=Hashable)
M = TypeVar("M")


class _Reach(NamedTuple):
    """The rows of a slice in which the events of a run lie.

    Attributes
    ----------
    finality
        They decide what is owned by this finality.
    reads
        Whether they are all rows that the slice reads, as those of the events behind which lists are looked for.
    whole
        Whether they are all rows there are, as those of the bindings of negated structures.
    window, ties, partition_by, partitioned
        What says how far a window reaches back.
    """

    finality: Finality
    reads: bool
    window: Window
    ties: Ties
    partition_by: tuple[str, ...]
    partitioned: bool
    whole: bool = False

    def rows(self, pattern: Pattern, events: PreparedEvents, owned: Owned) -> tuple[int, int]:
        """Rows [first, end), of a pattern that has this reach."""
        return deciding_rows(pattern, events, self.owned(pattern, events, owned), self.finality)

    def owned(self, pattern: Pattern, events: PreparedEvents, owned: Owned) -> Owned:
        """The part of the stream that decides of them what is final."""
        if self.whole:
            return EVERYTHING
        return reading(pattern, events, owned) if self.reads else owned


class _Leaf(NamedTuple):
    """Events that a variable may bind.

    Attributes
    ----------
    reach, back
        The number of the reach in whose rows the events lie, or up to so many windows before.
    key
        The attributes by which the events are sorted.
    """

    leaf: EventLeaf
    reach: int
    back: int
    key: tuple[str, ...] | None


class _Clock(NamedTuple):
    """The values of a leaf's events that bounds compare."""

    leaf: int
    unit: BoundUnit
    partition_by: tuple[str, ...]


class _Ends(NamedTuple):
    """The ends of the ranges of a level by a bound, for each event of an earlier level.

    Attributes
    ----------
    earlier, later
        Both levels by their clocks; the earlier one is sorted like the later one.
    view
        The leaf of the earlier level as it is visited.
    """

    earlier: int
    later: int
    delta: int
    view: int


class _Numbered(Generic[T]):
    """Different things by the order in which they come."""

    def __init__(self) -> None:
        self.things: list[T] = []
        self._numbers: dict[T, int] = {}

    def number_of(self, thing: T) -> int:
        number = self._numbers.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


class _Groups:
    """Groups of numbers: the numbers of some groups, and the extremes of values where no group is empty."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self._numbers = np.array([number for group in groups for number in group], np.int64)
        self._sizes = np.array([*map(len, groups)], np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes

    def of(self, chosen: Array, count: int) -> Array:
        """bool, shape (count,): the numbers in the chosen groups, of all below a count."""
        found = np.zeros(count, np.bool_)
        found[self._numbers[np.repeat(chosen, self._sizes)]] = True
        return found

    def least(self, values: Array) -> list[int]:
        """The least value of each group."""
        return self._extremes(np.minimum, values)

    def most(self, values: Array) -> list[int]:
        """The greatest value of each group."""
        return self._extremes(np.maximum, values)

    def _extremes(self, choose: np.ufunc, values: Array) -> list[int]:
        found: list[int] = choose.reduceat(values[self._numbers], self._starts).tolist() if len(self._starts) else []
        return found


class _AtOnce(NamedTuple, Generic[M]):
    """Columns, clocks or sorted leaves that are made at once, of leaves that are found together.

    Attributes
    ----------
    of
        What is made.
    key
        The attributes by which the leaves are sorted; None: in stream order.
    groups, numbers
        int64: the leaves among those with this key, ascending, and the number of what is made of each.
    """

    of: M
    key: tuple[str, ...] | None
    groups: Array
    numbers: Array


class _PairsByKey(Generic[T]):
    """Leaves found together, of which something is to be made at once, by what that is and by their key."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[T, tuple[str, ...] | None], list[tuple[int, int]]] = {}

    def add(self, what: T, key: tuple[str, ...] | None, group: int, number: int) -> None:
        """Add a leaf, and the number of what is made of it."""
        self._pairs.setdefault((what, key), []).append((group, number))

    def at_once(self, of: Callable[[int], M]) -> list[_AtOnce[M]]:
        """Return what is made at once; `of` says what something is by its number."""
        made = []
        for (_, key), pairs in self._pairs.items():
            groups, numbers = np.array(sorted(pairs), np.int64).T
            made.append(_AtOnce(of(pairs[0][1]), key, groups, numbers))
        return made


@dataclass(eq=False)
class _Part:
    """One shape that a run calls.

    Attributes
    ----------
    layout
        The layout of its words.
    leaves
        The numbers of the leaves by level, and of those of negated variables behind them.
    ends, columns
        The numbers of the ends of its ranges, and of its columns and other arrays.
    start
        Where its words begin.
    """

    layout: WordLayout
    leaves: tuple[int, ...]
    ends: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    start: int = 0

    @cached_property
    def program_at(self) -> int:
        """The address of its program."""
        return int(self.layout.program.words.ctypes.data)


@dataclass(eq=False)
class _Stage:
    """A part of a run.

    Attributes
    ----------
    layout
        The layout of the stage.
    part, searches
        The shape that binds its levels, and those of the searches for events that reject.
    state
        Where its state begins.
    """

    layout: StageLayout
    part: _Part | None
    searches: tuple[_Part, ...]
    state: int = 0


@dataclass(eq=False)
class _Run:
    """One run of a clause.

    Attributes
    ----------
    bound, order
        The clause over the variables that bind one event, and their order.
    reach
        The number of its reach.
    by_view
        Whether its views say what is owned, so that nothing is asked about rows.
    leaves, negated
        The numbers of the leaves by level, and of those of the negated variables.
    known, lists
        The layout of the runs of the clause in this order, and the lists behind it, if it has some.
    questions
        What its matches are asked; None: nothing.
    bindings
        The runs that find the bindings of its negated structures, one for each of `questions.joined`.
    layout, stages, searches
        That layout and its stages, and the searches for lists; none as long as nothing is known.
    number
        Its place among all runs.
    counters
        Where its counters begin.
    resting
        The number of slices over which it is not tried.
    """

    pattern: Pattern
    clause: Clause
    bound: Clause
    order: tuple[str, ...]
    finality: Finality
    reach: int
    by_view: bool
    leaves: tuple[int, ...]
    negated: tuple[int, ...]
    known: KnownLayout
    lists: tuple[ListStep, ...]
    questions: Questions | None
    bindings: tuple[_Run, ...] = ()
    layout: RunLayout | None = None
    stages: tuple[_Stage, ...] = ()
    searches: tuple[_Part, ...] = ()
    made: tuple[object, ...] = ()
    number: int = 0
    counters: int = 0
    resting: int = 0

    @cached_property
    def makes_lists(self) -> bool:
        """True if lists are made to be asked or to be continued."""
        return _lists_are_made(self.clause)

    @cached_property
    def limited(self) -> tuple[Conjunct, ...]:
        """The conditions on whole lists that may forbid the first list to grow, by the values of some events."""
        conditions = () if self.questions is None else self.questions.conditions
        name = self.lists[0].behind.variable.name if conditions else ""
        return tuple(one for one in conditions if limit_in(one, name, possible_course))

    @cached_property
    def tests_alone(self) -> tuple[int, ...]:
        """The number of conditions on the variable of each level alone."""
        return tuple(len(filters_of(self.bound, name)) for name in self.order)

    @cached_property
    def takes_all(self) -> bool:
        """True if every event of its one variable is a match."""
        final = self.stages[-1]
        return final.part is None and not final.layout.asks and not self.lists

    @property
    def is_known(self) -> bool:
        """True if nothing of it is still to be learnt."""
        return bool(self.stages) and len(self.searches) == len(self.lists)

    @property
    def is_to_be_learnt(self) -> bool:
        """True if the next slice may tell its layout, or that of its lists where nobody else looks for that."""
        return not self.known.looked or (self.learns_lists and not all(one.behind.looked for one in self.lists))

    @property
    def learns_lists(self) -> bool:
        """True if runs by themselves do not look for the layout of its lists."""
        return len(self.lists) > 1 or (bool(self.lists) and self.questions is not None)

    @property
    def is_current(self) -> bool:
        """False if something has been learnt since this was made."""
        of_lists = not self.lists or all(map(is_, self.made, _made(self.lists)))
        return of_lists and self.layout is self.known.layout

    @cached_property
    def parts(self) -> list[_Part]:
        """All shapes."""
        of_stages = (part for one in self.stages for part in (one.part, *one.searches))
        return [part for part in (*of_stages, *self.searches) if part is not None]


def _made(lists: Sequence[ListStep]) -> tuple[object, ...]:
    """All that is known of the searches for lists."""
    return tuple(one.behind.made for one in lists)


class PlainRuns:
    """The plain runs of patterns in some orders, over slices that all begin at the start of the stream, or none does.

    Parameters
    ----------
    patterns, orders
        Of all patterns; those whose runs are not plain are left out.
    from_start
        Whether the slices have no look-back.
    counted
        Whether only the numbers of matches are wanted, as far as these are known without the matches.
    """

    def __init__(
        self, patterns: Sequence[Pattern], orders: Sequence[Orders], *, from_start: bool, counted: bool
    ) -> None:
        self.patterns, self.from_start = tuple(patterns), from_start
        self.reaches: _Numbered[_Reach] = _Numbered()
        self.reaching: list[Pattern] = []  # a pattern with each reach
        self.leaves: _Numbered[_Leaf] = _Numbered()
        self.clocks: _Numbered[_Clock] = _Numbered()
        self.ends: _Numbered[_Ends] = _Numbered()
        self.columns: _Numbered[tuple[Hashable, tuple[int, ...]]] = _Numbered()
        self.remade: list[RemadeColumn] = []
        self.runs: list[list[_Run]] = []  # those of the clauses of each pattern; none where one of them is not plain
        self.counted: list[bool] = []
        alike: dict[tuple[bool, Hashable], list[_Run]] = {}
        for pattern, plans in zip(patterns, orders, strict=True):
            # A binding of several clauses is one match, and what negated structures and whole lists reject is listed.
            ordered = _plain_orders(pattern, plans)
            shared = len({one.positive for one in pattern.clauses}) < len(pattern.clauses)
            asked = any(one.negated_structures or _lists_are_made(one) for one, _ in ordered)
            self.counted.append(counted and not shared and not asked)
            self.runs.append([self._run(pattern, *one, listing=not self.counted[-1]) for one in ordered])
            for run in self.runs[-1]:
                if run.questions is not None:
                    alike.setdefault((counted and not shared, run.questions.key), []).append(run)
        every = list(chain.from_iterable(self.runs))
        every += [bindings for run in every for bindings in run.bindings]
        for number, run in enumerate(every):
            run.number = number
        # Whether the matches that pass are only counted, and the runs that ask alike.
        self.asked_together = [(only_counted, runs) for (only_counted, _), runs in alike.items()]
        self.every = every
        self.of_levels = _Groups([run.leaves for run in every])
        self.of_all = _Groups(
            [(*run.leaves, *run.negated, *(leaf for part in run.parts for leaf in part.leaves)) for run in every]
        )
        self._lay_out([run for run in every if run.is_known])
        self._find_together(every)

    def _run(
        self, pattern: Pattern, clause: Clause, order: tuple[str, ...], *, listing: bool, whole: bool = False
    ) -> _Run:
        finality, lists, bound = finality_of(pattern, clause), _lists_of(pattern, clause, order), clause
        questions = _questions(pattern, clause, order, lists)
        bindings: tuple[_Run, ...] = ()
        if questions is not None and questions.joined:
            clauses = [one.bindings for one in questions.joined if one.bindings is not None]
            bindings = tuple(
                self._run(pattern, one, tuple(variable.name for variable in one.positive), listing=True, whole=True)
                for one in clauses
            )
        if lists:
            bound, order = lists[0].behind.bound_clause, lists[0].behind.bound_order
        # Events behind which lists are looked for may all come before the slice.
        last, decides = last_variable(pattern, bound), Finality.LAST_EVENT if lists else finality
        at_end = decides is Finality.WINDOW_END
        from_start = self.from_start or whole
        by_view = from_start or at_end or last is not None
        known = known_layout(pattern, bound, order, (by_view, bool(lists)))
        layout = known.layout
        keys = layout.keys if layout is not None else (None,) * len(order)
        window = pattern.window, pattern.ties, pattern.partition_by, bool(clause.partition_by)
        reach = self.reaches.number_of(_Reach(decides, bool(lists), *window, whole))
        if reach == len(self.reaching):
            self.reaching.append(pattern)

        def number_of(leaf: EventLeaf, back: int, key: tuple[str, ...] | None = None) -> int:
            return self.leaves.number_of(_Leaf(leaf, reach, 0 if from_start else back, key))

        leaves = tuple(
            number_of(leaf_of(bound, name), 0 if at_end or name == last else 1, key)
            for name, key in zip(order, keys, strict=True)
        )
        negated = tuple(number_of(leaf_of(bound, variable.name), 2) for variable in bound.negated)
        run = _Run(
            pattern, clause, bound, order, finality, reach, by_view, leaves, negated, known, lists, questions, bindings
        )
        if layout is None:
            return run
        run.layout, run.stages = layout, tuple(self._stage(run, stage) for stage in layout.stages)
        run.made, run.searches = _made(lists), tuple(self._searches(run, listing=listing))
        return run

    def _searches(self, run: _Run, *, listing: bool) -> Iterator[_Part]:
        """The searches for lists, up to the first one that is not known."""
        levels: list[tuple[int, tuple[str, ...] | None]] = []  # the leaf and the key of each
        for place, step in enumerate(run.lists):
            lists, layout = step.behind, run.layout
            assert layout is not None
            if not place:
                levels = list(zip(run.leaves, layout.keys, strict=True))
            search = lists.layout([key for _, key in levels], listing=listing)
            if search is None:
                return
            first = self.leaves.things[levels[-1][0]] if lists.anchored else _Leaf(lists.leaf, run.reach, 0, None)
            key = search.keys[-1]
            own = self.leaves.number_of(first._replace(key=key))
            leaves = [leaf for leaf, _ in levels]
            yield _Part(search, (*leaves, *[own] * (len(search.keys) - len(leaves))))
            levels = [*levels[: len(lists.singles)], *[(own, key)] * 2]

    def _stage(self, run: _Run, stage: StageLayout) -> _Stage:
        leaves = *run.leaves, *run.negated
        searches = []
        for one in stage.searches:
            rejecting = self.leaves.things[run.negated[one.negated]]._replace(key=one.layout.keys[-1])
            of_levels = (run.leaves[level] for level in one.depends)
            searches.append(_Part(one.layout, (*of_levels, self.leaves.number_of(rejecting))))
        return _Stage(stage, None if stage.layout is None else _Part(stage.layout, leaves), tuple(searches))

    def _lay_out(self, runs: Sequence[_Run]) -> None:
        """Put the words of runs side by side, and note which address is written where over a slice."""
        at = counters = 0
        words: list[tuple[int, int, int]] = []  # the place of a word, and what it is the address of
        rows: list[tuple[int, int, int]] = []  # the place of a word, and the block and its row that it points to
        states: list[int] = [0]
        stages: list[tuple[_Run, _Stage, _Part]] = []
        rejecting: list[_Part] = []
        for run in runs:
            run.counters, counters = counters, counters + 2 * len(run.order)
            for part in run.parts:
                part.start = at
                at += part.layout.places["end"]
                words += self._words_of(part)
            for number, stage in enumerate(run.stages):
                block, before = number % 2, 1 - number % 2
                if stage.part is not None:
                    stages.append((run, stage, stage.part))
                    layout, start = stage.part.layout, stage.part.start
                    levels = stage.layout.last + 1
                    out, prefix = start + layout.places["out"], start + layout.places["prefix"]
                    own = layout.output_rows or range(levels)
                    rows += [(out + level, block, row) for level, row in enumerate(own)]
                    if number:
                        rows += [(prefix + level, before, level) for level in range(layout.shape.prefix)]
                    stage.state = states[-1]
                    states.append(states[-1] + 2 * levels + 3)
                for one, search in zip(stage.layout.searches, stage.searches, strict=True):
                    rejecting.append(search)
                    prefix = search.start + search.layout.places["prefix"]
                    rows += [(prefix + place, block, level) for place, level in enumerate(one.depends)]
            for number, search in enumerate(run.searches):
                prefix = search.start + search.layout.places["prefix"]
                block = ENDS if number else 1 - len(run.stages) % 2
                rows += [(prefix + level, block, level) for level in range(search.layout.shape.prefix)]
        for leaf in [*self.leaves.things]:
            if leaf.key is not None and leaf.leaf.filters:  # they are found in stream order, and then sorted
                self.leaves.number_of(leaf._replace(key=None))
        firsts = np.cumsum([0, len(self.leaves.things), len(self.ends.things)])
        places, kinds, numbers = np.array(words, np.int64).reshape(-1, 3).T
        self.addressed, self.address_of = places, firsts[kinds] + numbers
        self.in_blocks, self.blocks, self.rows_of_blocks = np.array(rows, np.int64).reshape(-1, 3).T
        self.starts = np.array([part.start for *_, part in stages], np.int64)
        self.states = np.array([stage.state for _, stage, _ in stages], np.int64)
        self.counters = np.array([run.counters for run, *_ in stages], np.int64)
        self.outermost = np.array([run.leaves[0] for run, *_ in stages], np.int64)
        self.reach_of_stage = np.array([run.reach for run, *_ in stages], np.int64)
        self.rejecting = np.array([part.start + part.layout.places["out"] for part in rejecting], np.int64)
        lists = [search for run in runs for search in run.searches]
        self.lists = np.array([part.start + part.layout.places["out"] for part in lists], np.int64)
        parts = [part for run in runs for part in run.parts]
        self.every_start = np.array([part.start for part in parts], np.int64)
        self.numbers = states[-1], counters
        self.most_levels = max((max(len(run.order), _levels_of(run)) for run in runs), default=0)
        self.frame_size = max((part.layout.program.frame_size for part in parts), default=0)
        self.words = np.concatenate([np.zeros(0, np.int64), *(part.layout.first_words() for part in parts)])
        self.words[self.every_start + CAPACITY] = MOST_LISTS
        self.words[self.starts + CAPACITY] = MOST_MATCHES
        self.words[self.starts + BUDGET] = MOST_CANDIDATES

    def _words_of(self, part: _Part) -> Iterator[tuple[int, int, int]]:
        """The places of the words of a shape, and of what each is the address: a leaf, ends or an array."""
        layout, start = part.layout, part.start
        for place, leaf in enumerate(part.leaves[: len(layout.keys)], start=layout.places["rows"]):
            yield start + place, 0, leaf
        part.ends = tuple(self._ends(one, layout, part.leaves) for one in layout.ranges)
        for one, number in zip(layout.ranges, part.ends, strict=True):
            yield start + one.word, 1, number
        arrays = [*enumerate(layout.columns, start=layout.places["column"]), *layout.others]
        part.columns = tuple(self._column(again, part.leaves) for _, again in arrays)
        for (word, _), number in zip(arrays, part.columns, strict=True):
            yield start + word, 2, number

    def _ends(self, one: Range, layout: WordLayout, leaves: Sequence[int]) -> int:
        bound, (earlier, later) = one.bound, (leaves[one.bound.earlier], leaves[one.level])
        alike = self.leaves.number_of(self.leaves.things[earlier]._replace(key=layout.keys[one.level]))
        first, second = (_Clock(leaf, bound.clock, bound.partition_by) for leaf in (alike, later))
        clocks = self.clocks
        return self.ends.number_of(_Ends(clocks.number_of(first), clocks.number_of(second), bound.delta, earlier))

    def _column(self, again: RemadeColumn, leaves: Sequence[int]) -> int:
        number = self.columns.number_of((again.key, tuple(leaves[level] for level in again.levels)))
        if number == len(self.remade):
            self.remade.append(again)
        return number

    def _find_together(self, runs: Sequence[_Run]) -> None:
        """Note which leaves are found together, and which columns and clocks are made at once."""
        leaves = self.leaves.things
        filtered = [number for number, one in enumerate(leaves) if one.key is None and one.leaf.filters]
        self.together = ManyLeaves([leaves[number].leaf for number in filtered])
        self.found_together = np.array(filtered, np.int64)[self.together.order]
        among: _Numbered[tuple[EventType, int, int]] = _Numbered()
        of_found = (leaves[number] for number in self.found_together.tolist())
        self.among_of = [among.number_of((one.leaf.event_type, one.reach, one.back)) for one in of_found]
        self.among = among.things
        group_of = {number: group for group, number in enumerate(self.found_together.tolist())}
        base_of = {leaves[number]: group for number, group in group_of.items()}
        of_leaf = [base_of.get(leaf._replace(key=None)) for leaf in leaves]
        of_runs = ([*run.leaves, *run.negated, *(leaf for part in run.parts for leaf in part.leaves)] for run in runs)
        self.of_groups = _Groups([[g for leaf in own if (g := of_leaf[leaf]) is not None] for own in of_runs])
        keyed = _PairsByKey[None]()
        for number, one in enumerate(leaves):
            if one.key is not None and (group := of_leaf[number]) is not None:
                keyed.add(None, one.key, group, number)
        self.sorted_at_once = keyed.at_once(lambda _: None)
        for sorted_leaves in self.sorted_at_once:
            group_of |= {number: group for group, number in enumerate(sorted_leaves.numbers.tolist())}
        columns = _PairsByKey[Hashable]()
        for number, ((key, of_levels), again) in enumerate(zip(self.columns.things, self.remade, strict=True)):
            if again.of_each and of_levels[0] in group_of:
                columns.add(key, leaves[of_levels[0]].key, group_of[of_levels[0]], number)
        self.columns_at_once = columns.at_once(lambda number: self.remade[number])
        clocks = _PairsByKey[Hashable]()
        for number, clock in enumerate(self.clocks.things):
            if clock.leaf in group_of:
                unit = clock.unit, clock.partition_by
                clocks.add(unit, leaves[clock.leaf].key, group_of[clock.leaf], number)
        self.clocks_at_once = clocks.at_once(lambda number: self.clocks.things[number])
        of_clocks = np.array([clock.leaf for clock in self.clocks.things], np.int64)
        narrow = np.array([clock.unit is BoundUnit.ROW for clock in self.clocks.things], np.bool_)
        ends = np.array([(one.earlier, one.later, one.delta, one.view) for one in self.ends.things], np.int64)
        self.earlier, self.later, self.deltas, viewed = ends.reshape(-1, 4).T
        self.earlier_leaves, self.later_leaves = of_clocks[self.earlier], of_clocks[self.later]
        self.narrow, self.sorted_alike = narrow[self.earlier], self.earlier_leaves == viewed
        self.of_columns = _Groups([[number for part in run.parts for number in part.columns] for run in runs])
        self.of_ends = _Groups([[number for part in run.parts for number in part.ends] for run in runs])

    @property
    def complete(self) -> bool:
        """False if a run has been laid out, or laid out anew, since these were put together."""
        return all(run.is_current for run in self.every)

    def over(self, events: PreparedEvents, owned: Owned, counters: Counters) -> list[FoundAtOnce | None] | None:
        """The owned matches of each pattern; None for those that are left to runs by themselves.

        None in place of all where something has been learnt of the runs, so that they are to be put together anew. Runs
        are left to themselves, too, where the counters want what is counted there alone.
        """
        found: list[FoundAtOnce | None] = [None] * len(self.patterns)
        first_row, end_row = events.rows_in(owned)
        if first_row >= end_row or not times_are_plain(events):
            return found
        of_slice = _Slice(self, events, owned)
        learnt = [of_slice.learn(run) for run in self.every if run.is_to_be_learnt]
        if any(learnt):
            return None
        begun = [place for place, runs in enumerate(self.runs) if runs and all(map(of_slice.begin, runs))]
        if counters.wanted:
            begun = [
                place for place in begun if all(of_slice.counts_as_alone(run, counters) for run in self.runs[place])
            ]
        runs = [run for place in begun for run in self.runs[place]]
        runs += [one for run in runs if all(map(of_slice.begin, run.bindings)) for one in run.bindings]
        lacking = of_slice.make_columns(runs)
        if lacking:
            begun = [place for place in begun if lacking.isdisjoint(run.number for run in self.runs[place])]
        of_slice.write_words([run for run in runs if run.number not in lacking])
        ended: dict[int, list[FoundAtOnce]] = {}
        for place in begun:
            of_clauses = [of_slice.found(run, counted=self.counted[place]) for run in self.runs[place]]
            known = [one for one in of_clauses if one is not None]
            if len(known) == len(of_clauses):
                ended[place] = known
        of_runs = {
            run.number: one
            for place, known in (ended if self.asked_together else {}).items()
            for run, one in zip(self.runs[place], known, strict=True)
        }
        for only_counted, runs in self.asked_together:
            of_slice.ask([run for run in runs if run.number in of_runs], of_runs, counted=only_counted)
        for place, known in ended.items():
            known = [of_runs.get(run.number, one) for run, one in zip(self.runs[place], known, strict=True)]
            found[place] = known[0] if len(known) == 1 else _of_clauses(known)
        return found


def _of_clauses(found: Sequence[FoundAtOnce]) -> FoundAtOnce:
    """The matches of all clauses of a pattern."""
    blocks, count = [block for one in found for block in one.blocks], partial(_count_all, found)
    numbers = [one.number for one in found if one.number is not None]
    return FoundAtOnce([], count, sum(numbers) + sum(map(len, blocks))) if numbers else FoundAtOnce(blocks, count)


def _count_all(found: Sequence[FoundAtOnce], counters: Counters) -> None:
    for one in found:
        one.count(counters)


class _Slice:
    """The plain runs over one slice: the arrays that are made of its events, and the words of all runs."""

    def __init__(self, of: PlainRuns, events: PreparedEvents, owned: Owned) -> None:
        self._of, self._events, self._owned = of, events, owned
        self._reached: list[tuple[int, int] | None] = [None] * len(of.reaches.things)
        self._parts: dict[tuple[int, int], tuple[int, int]] = {}
        self._views: dict[int, View] = {}
        self._kept: list[Array] = []
        self._find_leaves()
        self._empty = [not least for least in of.of_levels.least(self._wholes)]
        self._fits = [
            least > 0 and most <= MOST_EVENTS
            for least, most in zip(of.of_levels.least(self._sizes), of.of_all.most(self._sizes), strict=True)
        ]
        self._columns, self._clocks = (np.zeros(len(one.things), np.int64) for one in (of.columns, of.clocks))
        self._lists_made: dict[int, _MadeLists] = {}  # by the number of the run

    def _find_leaves(self) -> None:
        """Find the events of all leaves: where the rows of each lie, and the starts of their groups."""
        of, leaves = self._of, self._of.leaves.things
        # How many events a leaf has, of the rows that it reaches to and in stream order; the numbers of its groups.
        self._sizes, self._wholes, self._groups, self._rows_at, self._starts_at = np.zeros((5, len(leaves)), np.int64)
        self._together: dict[tuple[str, ...] | None, View] = {}  # leaves that are found together, by their key
        self._first_of = np.full(len(leaves), -1, np.int64)
        among = [self._rows_among(*one) for one in of.among]
        # Those that only resting runs ask for are found by these.
        resting = np.array([run.resting > 0 for run in of.every], np.bool_)
        wanted = of.of_groups.of(~resting, len(of.among_of))
        # Large leaves are found by themselves, as they are for runs by themselves.
        if wanted.any() and max(map(len, among)) <= MOST_EVENTS:
            own = [among[number][: None if asked else 0] for number, asked in zip(of.among_of, wanted, strict=True)]
            every = of.together.view(self._events, own, (self._owned, wanted.tobytes()))
            sizes = np.diff(every.starts)
            self._place(of.found_together, every, np.column_stack((np.zeros_like(sizes), sizes)), sizes, None)
            for _, key, groups, numbers in of.sorted_at_once:
                assert key is not None
                by_key = leaves_by(self._events, groups_of_view(self._events, every, groups), key)
                if by_key is not None:
                    self._place(numbers, *by_key, sizes[groups], key)
        for number in np.flatnonzero(self._first_of < 0).tolist():
            view = self._view(number)
            self._sizes[number], self._wholes[number] = len(view), len(view.in_stream_order)
            self._groups[number] = len(view.starts) - 1
            self._rows_at[number], self._starts_at[number] = view.rows.ctypes.data, view.starts.ctypes.data

    def _place(self, numbers: Array, view: View, starts: Array, wholes: Array, key: tuple[str, ...] | None) -> None:
        """Note where the rows of leaves lie that are the groups of a view; `starts` has those of each leaf's groups."""
        self._together[key] = view
        self._kept += [view.rows, starts]
        self._first_of[numbers] = firsts = view.starts[:-1]
        self._sizes[numbers], self._wholes[numbers] = np.diff(view.starts), wholes
        self._groups[numbers] = starts.shape[1] - 1
        self._rows_at[numbers] = view.rows.ctypes.data + view.rows.itemsize * firsts
        self._starts_at[numbers] = starts.ctypes.data + starts.strides[0] * np.arange(len(numbers))

    def _rows_among(self, event_type: EventType, reach: int, back: int) -> Array:
        """The rows of a type in the rows that a leaf reaches to."""
        rows, (begin, end) = self._events.leaf_rows(event_type), self._rows_back(reach, back)
        if begin > 0 or end < len(self._events):
            rows = rows[slice(*rows.searchsorted((begin, end)))]
        return rows

    def _rows_of_leaf(self, number: int) -> Array:
        """The rows of the events of a leaf."""
        first = int(self._first_of[number])
        if first < 0:
            return self._view(number).rows
        return self._together[self._of.leaves.things[number].key].rows[first : first + int(self._sizes[number])]

    def learn(self, run: _Run) -> bool:
        """Find the layout of a run; False where the slice does not tell it."""
        if self._empty[run.number] or not self._fits[run.number] or not run.is_to_be_learnt:
            return False
        learnt = False
        if not run.known.looked:
            levels = self._alone(run).searching_levels()
            # In a slice that begins within the first instant of its events a run alone may ask nothing about rows.
            if levels is not None and (run.lists or (levels.planned.first_owned is None) is run.by_view):
                run.known.learn(levels)
            learnt = run.known.layout is not None
        owned = reading(run.pattern, self._events, self._owned)
        for lists in (step.behind for step in run.lists if run.learns_lists and not step.behind.looked):
            CompiledLists(run.pattern, lists.clause, lists.singles, self._events, owned)
            learnt |= lists.looked
        return learnt

    def _alone(self, run: _Run) -> KernelRun:
        """The run by itself, without lists."""
        reach = self._of.reaches.things[run.reach]
        owned = reach.owned(run.pattern, self._events, self._owned)
        of = run.pattern, run.bound, run.order, self._events, owned
        return KernelRun(*of, finality=reach.finality, as_places=reach.reads)

    def begin(self, run: _Run) -> bool:
        """Return False where a run is left to a run by itself."""
        if run.resting:
            run.resting -= 1
            return False
        if self._empty[run.number]:
            return True
        return run.is_known and self._fits[run.number]

    def counts_as_alone(self, run: _Run, counters: Counters) -> bool:
        """False if a run by itself would count other nodes, or other tests where somebody reads their number.

        Runs by themselves give up lists that a condition forbids to grow, do not begin where a list has no events, and
        do not bind first elements like single variables.
        """
        if self._empty[run.number] or not run.makes_lists:
            return True
        conditions, first = () if run.questions is None else run.questions.conditions, run.lists[0].behind
        if counters.evaluated or (conditions and len(run.lists) > 1) or (first.anchored and first.singles):
            return False
        begin, end = self._rows_of(run.reach)
        leaves = [view_of_leaf(self._events, step.behind.leaf, begin, end).rows for step in run.lists]
        if not all(map(len, leaves)):
            return False
        if not run.limited:
            return not first.conditions.growing or not conditions
        course = partial(course_among, self._events, leaves[0])
        limits = (limit_in(conjunct, first.variable.name, course) for conjunct in run.limited)
        return not first.conditions.growing and not any(limits)

    def make_columns(self, runs: Sequence[_Run]) -> set[int]:
        """Make the arrays of runs; the numbers of those whose values do not fit into floating-point numbers."""
        of = self._of
        wanted = of.of_columns.of(self._chosen(runs), len(self._columns))
        for again, key, groups, numbers in of.columns_at_once:
            if key in self._together and wanted[numbers].any():
                view = groups_of_view(self._events, self._together[key], groups)
                values = again.values(self._events, view)
                if values is not None:
                    self._columns[numbers] = values.ctypes.data + values.itemsize * view.starts[:-1]
                    self._kept.append(values)
                    wanted[numbers] = False
        lacking: set[int] = set()
        for number in np.flatnonzero(wanted).tolist():
            values = of.remade[number].values(self._events, *map(self._view, of.columns.things[number][1]))
            if values is None:
                lacking.add(number)
            else:
                self._columns[number] = values.ctypes.data
                self._kept.append(values)
        if not lacking:
            return lacking
        return {run.number for run in runs for part in run.parts if not lacking.isdisjoint(part.columns)}

    def _chosen(self, runs: Sequence[_Run]) -> Array:
        """bool: which of all runs are among these and have events at each level."""
        chosen = np.zeros(len(self._empty), np.bool_)
        chosen[[run.number for run in runs]] = True
        chosen[self._empty] = False
        return chosen

    def _view(self, number: int) -> View:
        """The view of a leaf."""
        view = self._views.get(number)
        if view is None:
            leaf = self._of.leaves.things[number]
            view = view_of_leaf(self._events, leaf.leaf, *self._rows_back(leaf.reach, leaf.back))
            view = self._views[number] = view if leaf.key is None else leaf_by(self._events, view, leaf.key)
        return view

    def _rows_back(self, reach: int, back: int) -> tuple[int, int]:
        """Rows [first, end) that a leaf reaches to."""
        part = self._parts.get((reach, back))
        if part is None:
            begin, end = self._rows_of(reach)
            if back:
                of = self._of.reaches.things[reach]
                begin = rows_back(self._events, of.window, of.partitioned, begin, back)
            part = self._parts[reach, back] = begin, end
        return part

    def _rows_of(self, number: int) -> tuple[int, int]:
        rows = self._reached[number]
        if rows is None:
            reach, pattern = self._of.reaches.things[number], self._of.reaching[number]
            rows = self._reached[number] = reach.rows(pattern, self._events, self._owned)
        return rows

    def write_words(self, runs: Sequence[_Run]) -> None:
        """Make the ranges of runs, and write all addresses into the words."""
        of, chosen = self._of, self._chosen(runs)
        self._written = {run.number for run in runs}
        self._state, self._counts = np.zeros(of.numbers[0], np.int64), np.zeros(of.numbers[1], np.int64)
        if not chosen.any():
            return
        ends = self._write_ends(of.of_ends.of(chosen, len(of.ends.things)))
        addresses = np.concatenate((self._rows_at, ends, self._columns))
        stride = min(int(self._sizes.max()), MOST_EVENTS) + 2 * WIDTH
        self._blocks = np.empty((ENDS + 1, of.most_levels, MOST_MATCHES + WIDTH + OUTPUT_PADDING), np.int32)
        self._scratch = np.empty(stride * max(of.most_levels, 2), np.int32)
        self._frame = np.empty(of.frame_size, np.int64)
        words, starts = of.words.copy(), of.starts
        words[of.addressed] = addresses[of.address_of]
        of_block, of_row, _ = self._blocks.strides
        words[of.in_blocks] = self._blocks.ctypes.data + of.blocks * of_block + of.rows_of_blocks * of_row
        words[starts + STATE] = self._state.ctypes.data + 8 * of.states
        words[starts + COUNTERS] = self._counts.ctypes.data + 8 * of.counters
        words[starts + OUTER] = self._sizes[of.outermost]
        words[of.every_start + SCRATCH] = self._scratch.ctypes.data
        words[starts + SCRATCH_STRIDE] = stride
        # Views say what is owned of those that wait for the end of a window.
        firsts = np.array([self._rows_of(reach)[0] for reach in range(len(self._reached))], np.int64)
        words[starts + FIRST_OWNED] = firsts[of.reach_of_stage]
        self._words, self._words_at, self._frame_at = words, words.ctypes.data, self._frame.ctypes.data
        if len(of.rejecting):
            self._rejecting = np.empty(MOST_MATCHES + WIDTH, np.int32)
            words[of.rejecting] = self._rejecting.ctypes.data
        if len(of.lists):
            self._lists = ListMemory(MOST_MATCHES + WIDTH, of.most_levels, MOST_WORDS, MOST_MATCHES, MOST_LIST_EVENTS)
            words[of.lists], words[of.lists + 1] = self._lists.found_at, self._lists.offsets_at

    def _write_ends(self, wanted: Array) -> Array:
        """The addresses of the ends of ranges, 0 for those that are not wanted."""
        of, numbers = self._of, np.flatnonzero(wanted)
        self._make_clocks(numbers)
        leaves = of.earlier_leaves[numbers]
        places = np.concatenate((np.zeros(1, np.int64), np.cumsum(self._sizes[leaves])))
        self._ends = np.empty(int(places[-1]), np.int32)
        addresses = np.zeros(len(wanted), np.int64)
        addresses[numbers] = outs = self._ends.ctypes.data + self._ends.itemsize * places[:-1]
        points, values = (self._clocks[of_side[numbers]] for of_side in (of.earlier, of.later))
        starts, value_starts = self._starts_at[leaves], self._starts_at[of.later_leaves[numbers]]
        merges = np.column_stack((points, starts, values, value_starts, self._groups[leaves], of.deltas[numbers], outs))
        narrow = of.narrow[numbers]
        write_counts_before(4, merges[narrow])
        write_counts_before(8, merges[~narrow])
        for place in np.flatnonzero(~of.sorted_alike[numbers]).tolist():
            one, ends = of.ends.things[int(numbers[place])], self._ends[places[place] : places[place + 1]]
            self._kept.append(sorted_like(self._view(one.view), self._view(int(leaves[place])), ends))
            addresses[numbers[place]] = self._kept[-1].ctypes.data
        return addresses

    def _make_clocks(self, ends: Array) -> None:
        """Make what the bounds of some ends of ranges compare."""
        of = self._of
        for (_, unit, partition_by), key, groups, numbers in of.clocks_at_once:
            if key in self._together:
                view = self._together[key]
                values = clock_values(self._events, view, unit, partition_by)
                self._kept.append(values)
                self._clocks[numbers] = values.ctypes.data + values.itemsize * view.starts[groups]
        wanted = np.zeros(len(self._clocks), np.bool_)
        wanted[of.earlier[ends]] = wanted[of.later[ends]] = True
        for number in np.flatnonzero(wanted & (self._clocks == 0)).tolist():
            leaf, unit, partition_by = of.clocks.things[number]
            values = clock_values(self._events, self._view(leaf), unit, partition_by)
            self._kept.append(values)
            self._clocks[number] = values.ctypes.data

    def ask(self, runs: Sequence[_Run], found: dict[int, FoundAtOnce], *, counted: bool) -> None:
        """Take out of what runs that ask alike have found the matches that do not pass, or are not owned.

        Parameters
        ----------
        found
            What each run has found, by its number.
        counted
            Whether only the number of matches is wanted.
        """
        some = [(run, found[run.number]) for run in runs if found[run.number].blocks]
        asked = [AskedRun(run.questions, self._bindings(run)) for run, _ in some if run.questions is not None]
        blocks = [one.blocks[0] for _, one in some]
        counted = counted and self._owned == EVERYTHING
        kept, numbers = that_hold(asked, blocks, self._events, counted=counted)
        for (run, one), block, number in zip(some, kept, numbers, strict=True):
            if counted:
                found[run.number] = FoundAtOnce([], one.count, number)
                continue
            if run.number in self._lists_made:
                self._lists_made[run.number].passed = number
                block = self._owned_lists(run, block)
            one.blocks[:] = [block] if len(block) else []

    def _bindings(self, run: _Run) -> list[Array] | None:
        """The bindings of a run's negated structures, one after another; None where they are not to be found here."""
        found: list[Array] = []
        for one in run.bindings:
            rows = self._rows_found(one) if one.number in self._written else None
            if rows is None:
                return None
            found.append(rows)
        return found if found else None

    def found(self, run: _Run, *, counted: bool) -> FoundAtOnce | None:
        """The matches of a run that has begun, or their number; None where it does not come to an end.

        They are still to be asked what the run asks of whole matches.
        """
        go_on()
        count, waits = partial(self._count, run), run.finality is Finality.WINDOW_END
        if self._empty[run.number]:
            return FoundAtOnce([], count, 0 if counted else None)
        if run.lists or (counted and not waits):
            number = self._bound(run)
            if number is None:
                return None
            if run.lists and number:
                return self._found_lists(run, number, counted=counted)
            return FoundAtOnce([], count, number if counted else None)
        rows = self._rows_found(run)
        if rows is None:
            return None
        if rows.size and waits:
            rows = final_rows(run.pattern, self._events, self._owned, run.finality, rows, self._counts_of(run))
        if counted:
            return FoundAtOnce([], count, rows.shape[1])
        return FoundAtOnce([MatchBlock(run.clause, rows)] if rows.size else [], count)

    def _rows_found(self, run: _Run) -> Array | None:
        """The matches of a run of single events, int32, shape (variables, n); None where it does not come to an end."""
        if self._empty[run.number]:
            return np.empty((len(run.order), 0), np.int32)
        if run.takes_all:
            return self._rows_of_leaf(run.leaves[0])[np.newaxis].copy()
        found = self._bound(run)
        return None if found is None else self._as_rows(run, found)

    def _bound(self, run: _Run) -> int | None:
        """Bind all levels of a run, stage after stage; the number of matches in the last block, or None if too many."""
        found = int(self._sizes[run.leaves[0]]) if run.takes_all else self._bound_now(run)
        if found is None:
            run.resting = LEFT_OUT
        return found

    def _bound_now(self, run: _Run) -> int | None:
        found = 0
        for number, stage in enumerate(run.stages):
            if stage.part is None:
                found = int(self._sizes[run.leaves[0]])
                if found > MOST_MATCHES:
                    return None
                self._blocks[0, 0, :found] = np.arange(found, dtype=np.int32)
            else:
                start, layout = stage.part.start, stage.part.layout
                if number:
                    if not found:
                        return 0
                    self._words[start + OUTER] = found
                code = running_shape(layout.shape, layout.program)
                found = code.call_at(self._words_at + 8 * start, self._frame, self._frame_at)
                if self._state[stage.state] != FINISHED:
                    return None
            if found and stage.layout.asks:
                block = self._blocks[number % 2]
                kept = self._accepted(run, stage, block, found)
                if kept is None:
                    return None
                if len(kept) < found:
                    self._counts_of(run)[stage.layout.last, 1] -= found - len(kept)
                    levels, found = stage.layout.last + 1, len(kept)
                    block[:levels, :found] = block[:levels, kept]
        return found

    def _accepted(self, run: _Run, stage: _Stage, block: Array, found: int) -> Array | None:
        """The places of the partial matches of a block that pass what a stage asks; None where that takes long."""
        accepted: Array | None = None
        for conjunct in stage.layout.residual:
            levels = ((name, run.order.index(name)) for name in conjunct.variables)
            rows = {name: self._rows_of_leaf(run.leaves[level])[block[level, :found]] for name, level in levels}
            held = conjunct_holds(conjunct, self._events, rows)
            accepted = held if accepted is None else accepted & held
        for search in stage.searches:
            if found * int(self._sizes[search.leaves[-1]]) > MOST_SEARCHED:
                return None
            self._words[search.start + OUTER] = found
            code = running_shape(search.layout.shape, search.layout.program)
            code.call_at(self._words_at + 8 * search.start, self._frame, self._frame_at)
            held = self._rejecting[:found] < 0
            accepted = held if accepted is None else accepted & held
        assert accepted is not None
        kept: Array = accepted.nonzero()[0]
        return kept

    def _as_rows(self, run: _Run, found: int) -> Array:
        """The matches in the last block as rows in pattern order."""
        final, block = run.stages[-1], self._blocks[1 - len(run.stages) % 2]
        if final.part is not None and final.part.layout.output_rows is not None:
            whole: Array = block[: len(run.order), :found].copy()
            return whole
        assert run.layout is not None
        rows = np.empty((len(run.order), found), np.int32)
        for level, row in enumerate(run.layout.output_rows):
            self._rows_of_leaf(run.leaves[level]).take(block[level, :found], out=rows[row], mode="clip")
        return rows

    def _found_lists(self, run: _Run, count: int, *, counted: bool) -> FoundAtOnce | None:
        """The matches of a run with lists behind so many partial matches in the block, or their number."""
        memory, made = self._lists, _MadeLists()
        for place, (step, search) in enumerate(zip(run.lists, run.searches, strict=True)):
            if place:
                self._bind_ends(run, place, count)
            if not self._followers(step.behind, search, count, MOST_EVENTS if counted else MOST_FOLLOWERS):
                run.resting = LEFT_OUT
                return None
            if counted:
                number = step.behind.number_of(memory.numbers(count))
                if number is None:
                    run.resting = LEFT_OUT
                    return None
                return FoundAtOnce([], partial(self._count, run), number)
            own = search.leaves[-1]
            of_rows = int(self._rows_at[own]), int(self._sizes[own])
            written = memory.write(step, count, *of_rows, first=not place)
            if written is None:
                run.resting = LEFT_OUT
                return None
            count = written
            candidates, pairs = memory.sums.tolist()
            made.steps.append((count, candidates, pairs))
            if not count:
                break
        self._lists_made[run.number] = made
        made.passed = count
        block: Block | None = memory.block(run.clause, count) if count else None
        if block is not None and run.questions is None:
            block = self._owned_lists(run, block)
        return FoundAtOnce([block] if block is not None and len(block) else [], partial(self._count, run))

    def _owned_lists(self, run: _Run, block: Block) -> Block:
        """The matches with lists that the slice owns: events behind which lists are looked for say nothing of it."""
        if self._owned == EVERYTHING or not len(block):
            return block
        of = ClauseSlice(run.pattern, run.clause, self._events, self._owned, run.finality)
        return block.take(of.owns(block.first_rows(), block.last_rows()))

    def _followers(self, lists: ListsBehind, search: _Part, count: int, widest: int) -> bool:
        """Search for lists behind so many partial matches; False where there are too many candidates."""
        self._words[search.start + OUTER] = count
        words_at = self._words_at + 8 * search.start
        fits = count <= MOST_MATCHES + WIDTH and self._lists.find_candidates(
            words_at, search.program_at, self._frame_at, len(lists.singles), widest, MOST_CANDIDATES
        )
        if fits:
            layout = search.layout
            running_shape(layout.shape, layout.program).call_at(words_at, self._frame, self._frame_at)
        return fits

    def _bind_ends(self, run: _Run, place: int, count: int) -> None:
        """Bind the ends of the lists that have been written to levels of their own, for the list at a place."""
        before = len(run.lists[place - 1].behind.singles)
        block = self._blocks[ENDS if place > 1 else 1 - len(run.stages) % 2]
        ends, spans = self._blocks[ENDS], self._lists.spans[:, :count]
        ends[:before, :count] = block[:before, spans[0]]
        ends[before : before + 2, :count] = spans[1:]

    def _count(self, run: _Run, counters: Counters) -> None:
        counters.later.append(partial(self._count_now, run))

    def _counts_of(self, run: _Run) -> Array:
        return self._counts[run.counters : run.counters + 2 * len(run.order)].reshape(-1, 2)

    def _count_now(self, run: _Run, counters: Counters) -> None:
        """Add the counts of a run that is over, as runs by themselves do."""
        order, empty = run.order, self._empty[run.number]
        layout = None if empty else run.layout
        alone = [self._tested_alone(number, tests) for number, tests in zip(run.leaves, run.tests_alone, strict=True)]
        counts = self._counts_of(run).copy() if layout is not None else np.zeros((len(order), 2), np.int64)
        if not empty:
            counts[0] += self._wholes[run.leaves[0]]
        tested, decided = ((), ()) if layout is None else (layout.tested, layout.decided)
        found = Tally(order, counts, tested, decided, alone).counts()
        if run.lists:
            found = (*found[: len(run.lists[0].behind.singles)], *self._lists_counted(run))
        count_levels(run.pattern, run.clause, found, counters)

    def _tested_alone(self, number: int, tests: int) -> tuple[int, Callable[[], int]] | None:
        """The tests of each event of a leaf, and of how many, as `Tally` has them."""
        if not tests:
            return None
        leaf = self._of.leaves.things[number]
        return tests, lambda: len(self._rows_among(leaf.leaf.event_type, leaf.reach, leaf.back))

    def _lists_counted(self, run: _Run) -> Iterator[LevelCount]:
        """The counts of the lists of a run."""
        made = self._lists_made.get(run.number, _MadeLists())
        of = ClauseSlice(run.pattern, run.clause, self._events, self._owned, run.finality)
        bound = run.lists[0].behind.singles
        for place, step in enumerate(run.lists):
            lists, *sums = made.steps[place] if place < len(made.steps) else (0, 0, 0)
            passed = made.passed if place == len(run.lists) - 1 else lists
            bound = (*bound, step.behind.variable.name)
            yield replace(step.behind.count(of, lists, passed, *sums), bound=bound)


@dataclass(eq=False)
class _MadeLists:
    """The numbers of lists that a run has made.

    Attributes
    ----------
    steps
        For each of its Kleene variables the lists, their candidates, and pairs of these; none behind one without lists.
    passed
        The matches that fulfil the conditions on lists.
    """

    steps: list[tuple[int, int, int]] = field(default_factory=list)
    passed: int = 0


def _levels_of(run: _Run) -> int:
    """The most levels that a search for lists of a run stands behind."""
    return max((search.layout.shape.prefix for search in run.searches), default=0)


def _lists_of(pattern: Pattern, clause: Clause, order: tuple[str, ...]) -> tuple[ListStep, ...]:
    """The lists of a clause; none where it has none, or they are not found in turn."""
    return lists_in_turn(pattern, clause, order, reach_of(pattern.window, clause)) if has_kleene(clause) else ()


def _questions(
    pattern: Pattern, clause: Clause, order: tuple[str, ...], lists: tuple[ListStep, ...]
) -> Questions | None:
    """The questions that whole matches of a clause are asked; None: there are none."""
    conditions, joined = conditions_left(clause, order, lists) if lists else (), tuple(joined_clauses(pattern, clause))
    questions = Questions(
        pattern, clause, conditions, joined if all(_has_plain_bindings(pattern, one) for one in joined) else ()
    )
    asks = questions.conditions or questions.asks_of_events or clause.negated_structures
    return questions if asks else None


def _has_plain_bindings(pattern: Pattern, joined: JoinedClause) -> bool:
    """True if the bindings of a clause of a negated structure are found by a plain run."""
    found = joined.bindings
    return (
        found is not None
        and all(one.variables for one in found.conjuncts)
        and not implied_by(found, pattern.window, pattern.ties).contradiction
    )


def _lists_are_made(clause: Clause) -> bool:
    """True if lists are made to be asked or to be continued, so that other work is counted than in runs alone."""
    return has_kleene(clause) and (not has_one_list(clause) or asks_lists(clause))


def _plain_orders(pattern: Pattern, plans: Orders) -> list[tuple[Clause, tuple[str, ...]]]:
    """Each clause of a pattern with the order of its run; none where one of the runs cannot be plain."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return []
    if (
        pattern.type_attribute == EVENT_TYPE
        or max(pattern.window.time_us or 0, pattern.window.events or 0) >= CLOCK_LIMIT
    ):
        return []
    final = {(clause.positive, finality_of(pattern, clause)) for clause in pattern.clauses}
    if len(final) > len({positive for positive, _ in final}):  # a binding is final where it is by one of the clauses
        return []
    found = []
    for clause, plan in zip(pattern.clauses, plans, strict=True):
        order = order_of(plan)
        if order is None or sorted(order) != sorted(variable.name for variable in clause.positive):
            return []
        if any(variable.kleene for variable in clause.negated):
            return []
        if has_kleene(clause) and not _lists_of(pattern, clause, order):
            return []
        if implied_by(clause, pattern.window, pattern.ties).contradiction:
            return []
        if not all(conjunct.variables for conjunct in clause.conjuncts):
            return []
        found.append((clause, order))
    return found


_lock = threading.Lock()
_known: OrderedDict[Hashable, PlainRuns] = OrderedDict()


def _plain_runs(patterns: Sequence[Pattern], orders: Sequence[Orders], *, from_start: bool, counted: bool) -> PlainRuns:
    """The runs of these very patterns, put together once."""
    key = tuple(map(id, patterns)), tuple(map(tuple, orders)), from_start, counted
    with _lock:
        known = _known.get(key)  # it holds the patterns, so that no others can have their ids
        if known is not None and known.complete:
            _known.move_to_end(key)
            return known
    made = PlainRuns(patterns, orders, from_start=from_start, counted=counted)
    with _lock:
        _known[key] = made
        _known.move_to_end(key)
        kept = sum(len(one.patterns) for one in _known.values())
        while kept > MOST_RUNS and len(_known) > 1:
            _, oldest = _known.popitem(last=False)
            kept -= len(oldest.patterns)
    return made


def _parts_of(patterns: Sequence[Pattern]) -> Iterator[slice]:
    """Parts of so few clauses that what is learnt of them is remembered until they are run."""
    begin = clauses = 0
    for place, pattern in enumerate(patterns):
        clauses += len(pattern.clauses)
        if clauses > _MOST_TOGETHER and place > begin:
            yield slice(begin, place)
            begin, clauses = place, len(pattern.clauses)
    yield slice(begin, len(patterns))


_MOST_TOGETHER = MOST_CLAUSES // 4
_MOST_ROUNDS = 10
"""Times that runs are put together anew, at most: what is learnt of too many clauses is forgotten again."""


def find_at_once(
    patterns: Sequence[Pattern],
    orders: Sequence[Orders],
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
    *,
    counted: bool = False,
) -> list[FoundAtOnce | None]:
    """Find the matches of the patterns whose runs are plain and short (`mechanisms.FinderAtOnce`)."""
    at_all = counted and not counters.wanted
    from_start = events.rows_in(owned)[0] == 0
    found: list[FoundAtOnce | None] = []
    for some in _parts_of(patterns):
        part, rounds = None, 0
        while part is None and rounds < _MOST_ROUNDS:
            runs = _plain_runs(patterns[some], orders[some], from_start=from_start, counted=at_all)
            part, rounds = runs.over(events, owned, counters), rounds + 1
        found += [None] * len(patterns[some]) if part is None else part
    if counters.wanted and counted:  # lists that are only counted have other counts here
        found = [None if any(map(has_kleene, one.clauses)) else own for one, own in zip(patterns, found, strict=True)]
    return found
