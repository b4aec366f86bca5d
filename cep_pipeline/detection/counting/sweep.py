"""Matches counted by one sweep over the events, however many there are.

A sweep goes over the events once and keeps numbers of partial matches, by what they have bound: the states of an
automaton. An event multiplies the numbers by a small matrix, and what a window holds is the product of the matrices of
its events. So a count takes some steps an event; 10^12 matches cost what 10^6 cost.

| conditions that join variables | how | work for N events and S states |
| --- | --- | --- |
| none | a queue of two stacks of matrices (`count_states`) | N S^2 |
| one comparison | products of inverse matrices, in trees of sums (`count_joined`) | N S^2 log N |
| of neighbours, or with the first or last one | trees of sums behind each first event (`count_chain`) | N W log W |

W are the events of a window. All take equalities that all variables share. All take lists whose elements are chosen one
by one, the one behind first events such lists between the first and the last variable, and the first one any order of
the variables, and negations. Where values are compared, each order in which the variables of an AND may come is swept
by itself.

The states are the sets of variables that the order allows to be bound: n + 1 of a sequence of n, 2^n of an AND. A list
has a loop: each further event doubles the ways. A negated event ends the ways that it rejects. Nothing but sums and
products of numbers is asked of the first sweep, so that it works for other values than counts as well.

Numbers are exact at any size. They are kept modulo 2^64 where nothing within a window can exceed that, and otherwise
modulo as many primes as are needed to tell the number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.costs import LONG_LISTS, pays
from cep_pipeline.detection.counting.choice import (
    LANES,
    Joining,
    Sides,
    StateSpace,
    Sweep,
    WayBehind,
    counted_as_chain,
    joins_neighbours,
    of_elements,
    of_one_event,
    orders_of,
    states_of,
    sweep_of,
    ways_behind,
)
from cep_pipeline.detection.limits import ask_for, go_on
from cep_pipeline.detection.mechanisms import EVERYTHING
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import constants_hold, expression_values
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Ties
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.keys import agreement_codes, comparable
from cep_pipeline.slices.order import instants_of
from cep_pipeline.slices.ownership import Finality
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import count_before, group_rows, padded_copy
from cep_pipeline.slices.views import ANY_EVENT, View, clause_cache_of, leaf_view, times_of, without_name

MOST_BITS_OF_A_WORD = 64.0
"""Bits of the largest number that is kept in one word."""
MOST_BITS = 4096
"""Bits of the largest number that is put together of primes."""
MOST_ESTIMATED = 2.0**1000
"""Numbers below this are estimated in float64, to tell by how many primes they have to be counted."""
_KERNELS = "cep_pipeline.detection.counting.sweep_kernel"
_OF_STEPS = ("int64", "int64", "int64*", "int32*", "int32*", "uint8*")
"""The first arguments of most sweeps: `_head_of` gives them."""
_count_states = NativeKernel(
    _KERNELS,
    "count_states",
    (
        *(*_OF_STEPS, "int64", "int64*", *("int64",) * 4, *("int64*",) * 3),
        *("int64", "int64*", "int64", *("uint64*",) * 3),
    ),
)
_count_joined = NativeKernel(
    _KERNELS,
    "count_joined",
    (
        *(*_OF_STEPS, *("int64",) * 2, "int64*", *("int64",) * 4),
        *("int32*", "int32*", "int64", *("uint64*",) * 6),
    ),
)
_count_behind_anchors = NativeKernel(
    _KERNELS,
    "count_chain",
    (
        *(*("int64",) * 3, *("int64*",) * 3, *("int64",) * 2, "int32*", "int64", "int64*", *("int32*",) * 2),
        *("int64", *("int32*",) * 3, "int64", "uint64*", "int64*", "uint64*", "int64", *("uint64*",) * 3),
    ),
)
ANCHORED_AT_ONCE = 1 << 10
"""Events, at least, whose values are sorted together."""
MOST_TREE_BYTES = 1 << 28
"""Largest size of trees over the values in a window."""
_MERSENNE_BITS = 61
_MERSENNE = 2**_MERSENNE_BITS - 1
_GREATEST, _ROUNDED = 2**64 - 1, 2**64 - 2


Weights = Mapping[str, Array]
"""Variable -> a number for each event of the slice: int64, bool, or whole numbers of Python. Each element of a list has
its own."""
Run = Callable[[int, Weights], int]
"""A sweep, by a modulus and weights: the sum over all matches of the products of the weights of their events."""


@dataclass(frozen=True, eq=False)
class _Sweeping:
    """The sweep of a clause over the events of a slice.

    Attributes
    ----------
    most
        The most events of each variable in a window.
    bits
        The bits of the most matches that may end with one event.
    """

    of: ClauseSlice
    sweep: Sweep
    steps: Steps
    most: dict[str, int]

    @property
    def bits(self) -> float:
        lists = (one.kleene for one in self.of.clause.positive)
        orders = len(orders_of(self.of.clause)) if self.sweep.joining else 1
        return math.log2(orders) + sum(
            float(number) if is_list else math.log2(number) + 1e-9
            for number, is_list in zip(self.most.values(), lists, strict=True)
        )

    def bound(self, name: str) -> int:
        """The most events that a match binds to a variable."""
        return self.most[name] if self.of.clause.by_name[name].kleene else 1


def _sweeping(of: ClauseSlice, weights: Weights | None = None, *, always: bool = True) -> _Sweeping | int | None:
    """The sweep over a slice; 0 where there is no match, None where no sweep counts the matches, or none pays."""
    sweep = _sweep_over(of)
    if sweep is None:
        return None
    views = _views(of)
    if views is None:
        return 0
    if not (always or pays(of, sweep, views)):
        return None
    steps = _steps(of, sweep, views, weights or {})
    if steps is None:
        return None
    if sweep.backwards:
        steps = steps.mirrored()
    most = steps.most(of.clause)
    if not all(most.values()):
        return 0
    found = _Sweeping(of, sweep, steps, most)
    return None if found.bits > MOST_BITS else found


def count_swept(of: ClauseSlice, *, always: bool = False) -> int | None:
    """The number of matches of a clause that a slice owns; None where no sweep counts them, or none pays.

    Parameters
    ----------
    always
        Whether one need not pay.
    """
    found = _sweeping(of, always=always)
    return _count(found) if isinstance(found, _Sweeping) else found


def _count(found: _Sweeping) -> int | None:
    """The number of matches of a sweep; None where a window has too many events."""
    (_, clause, events, *_), joining, steps, bits = found.of, found.sweep.joining, found.steps, found.bits
    if joining and counted_as_chain(joining):
        return sum(_count_chain(order, clause, joining[0], steps, events, bits) for order in orders_of(clause))
    runner = _runner(found)
    if runner is None:
        return None

    def run(modulus: int) -> int:
        go_on()
        return runner.run(modulus, {})

    if bits < MOST_BITS_OF_A_WORD:  # what ends with an event, or lies behind one in a window, is told in one word
        return run(0)
    estimate = run(_ROUNDED) if joining and runner.only_adds else math.inf
    if estimate >= MOST_ESTIMATED:
        return _by_moduli(run, bits, steps)
    bits = math.log2(estimate + 1) + 0.01
    return run(0) if bits < MOST_BITS_OF_A_WORD else number_of(run, _moduli(), bits)


def swept(of: ClauseSlice, semiring: Sum | Greatest, weights: Weights) -> int | None:
    """Add up the products of the weights of the events of each match, in a semiring.

    Parameters
    ----------
    weights
        An event whose weight is 0 is bound in no match.

    Returns
    -------
    int or None
        The sum; 0 where there is no match. None where no sweep tells it, or where a number is too large.
    """
    found = _sweeping(of, weights)
    if not isinstance(found, _Sweeping):
        return found
    places = {one.name: place for place, one in enumerate(of.clause.positive)}
    some = {
        name: own
        for name, own in weights.items()
        if (own[found.steps.rows[found.steps.number(places[name]) > 0]] != 1).any()
    }
    return semiring.of(found, some)


@dataclass(frozen=True)
class Sum:
    """Whole numbers: the products of weights, added up over all matches; the count, where there are no weights.

    Attributes
    ----------
    added
        Numbers that are added up over the events of a match, and this sum is one more factor.
    before_each
        Is called before each sweep.

    Notes
    -----
    Where something is added, the sweep is in the expectation semiring (Eisner 2002, section 3): an event has the weight
    1 + e x, where e^2 = 0. Such numbers are the remainders modulo p^2, with e = p.
    """

    added: Weights = field(default_factory=dict)
    before_each: Callable[[], None] = go_on

    def of(self, found: _Sweeping, weights: Weights) -> int | None:
        """The sum over the matches of a sweep; None where a window has too many events, or a number is too large."""
        if not (weights or self.added):
            return _count(found)
        runner, rows = _runner(found), found.steps.rows
        if runner is None:
            return None
        bits = (
            found.bits
            + math.log2(len(rows))
            + sum(found.bound(name) * _widest(own[rows]).bit_length() for name, own in weights.items())
        )
        bits += sum(found.bound(name) * _widest(own[rows]) for name, own in self.added.items()).bit_length()
        if bits > MOST_BITS:
            return None
        offset, above, run = 1 << math.ceil(bits), math.ceil(bits) + 2.0, runner.run
        count = replace(self, added={}).of(found, weights) if self.added else 0
        if count is None:
            return None

        def remainder(prime: int) -> int:
            self.before_each()
            if not self.added:
                return (run(prime, {name: numbers % prime for name, numbers in weights.items()}) + offset) % prime
            modulus = prime**2
            own = {name: numbers % modulus for name, numbers in weights.items()}
            for name, numbers in self.added.items():
                own[name] = _product(own.get(name, 1), numbers % prime * prime + 1, modulus)
            return ((run(modulus, own) - count) % modulus // prime + offset) % prime

        return number_of(remainder, primes_below(2**15) if self.added else _moduli(), above) - offset

    def plus(self, one: int, other: int) -> int:
        """Put together what two sets of matches give."""
        return one + other


@dataclass(frozen=True)
class Greatest:
    """Ranks from 1 on: the greatest rank of an event of a match; 0 where there is no match.

    The least of some values is the greatest of ranks that fall as these rise.
    """

    def of(self, found: _Sweeping, weights: Weights) -> int | None:
        """The greatest rank in the matches of a sweep; None where that takes some numbers away."""
        runner = _runner(found)
        return None if runner is None or not runner.only_adds else runner.run(_GREATEST, weights)

    def plus(self, one: int, other: int) -> int:
        """Put together what two sets of matches give."""
        return max(one, other)


def _widest(numbers: Array) -> int:
    """The greatest size of some whole numbers."""
    return max(map(abs, numbers.tolist()), default=0)


def _product(one: Array | int, other: Array, modulus: int) -> Array:
    """int64: products by a modulus, exact at any size."""
    wide = other.astype(np.int64 if modulus < 2**31 else object)
    return np.asarray(one * wide % modulus, np.int64)


def _runner(found: _Sweeping) -> _Runner | None:
    """The sweep with weights; None where a window has too many events."""
    clause, joining, steps = found.of.clause, found.sweep.joining, found.steps
    if not joining:
        return _Runner(_states_swept(clause, found.sweep, steps), only_adds=True)
    behind = [
        _sweep_behind(ways_behind(order, joining), clause, joining, steps, found.of.events)
        for order in orders_of(clause)
    ]
    some = [one for one in behind if one is not None]

    def run(modulus: int, weights: Weights) -> int:
        parts = [one.run(modulus, weights) for one in some]
        return max(parts) if modulus == _GREATEST else sum(parts)

    return None if len(some) < len(behind) else _Runner(run, all(one.only_adds for one in some))


def has_long_lists(of: ClauseSlice) -> bool:
    """Return whether a sweep counts lists of compared neighbours of which a window may have more than `LONG_LISTS`."""
    sweep = _sweep_over(of)
    if sweep is None or not any(one.is_of_list for one in sweep.joining):
        return False
    views = _views(of)
    lists = [one.name for one in of.clause.positive if one.kleene]
    return views is not None and any(_may_be_long(of, views[name]) for name in lists)


def _may_be_long(of: ClauseSlice, view: View) -> bool:
    """Return whether some window has more than `LONG_LISTS` events of a view, whatever their keys."""
    if len(view) <= LONG_LISTS:
        return False
    width = of.pattern.window.time_us
    if width is None:
        return (of.pattern.window.events or 0) > LONG_LISTS
    times = times_of(of.events, view)
    return bool((times[LONG_LISTS:] - times[: len(times) - LONG_LISTS] <= width).any())


def _views(of: ClauseSlice) -> dict[str, View] | None:
    """The events of each variable; None where there is no match: one has none, or a condition on nothing is false."""
    _, clause, events, _, _ = of
    constants = [conjunct for conjunct in clause.conjuncts if not conjunct.variables]
    if constants and not constants_hold(constants, events):
        return None
    events.split(variable.event_type for variable in (*clause.positive, *clause.negated))
    views = {
        variable.name: leaf_view(events, variable.event_type, filters_of(clause, variable), of.earliest_row, of.end_row)
        for variable in (*clause.positive, *clause.negated)
    }
    if not all(len(views[variable.name]) for variable in clause.positive):
        return None
    return views


def _sweep_over(of: ClauseSlice) -> Sweep | None:
    """The sweep that counts the matches of a clause of a slice as `count_swept` is asked; None where none does."""
    pattern, clause, _, owned, finality = of
    kind = ("sweep", pattern.strategy)
    sweep = clause_cache_of(clause).once(kind, lambda: _events_of_one(of) or sweep_of(pattern, clause))
    if sweep is None or (finality is not Finality.LAST_EVENT and owned != EVERYTHING):
        return None
    return sweep


def _events_of_one(of: ClauseSlice) -> Sweep | None:
    """The sweep of one variable of which nothing is asked but conditions on each event alone; None: it is none such."""
    pattern, clause, *_ = of
    if len(clause.positive) > 1 or clause.negations or not pattern.strategy.forks:
        return None
    if clause.positive[0].kleene and clause.agree_on:
        return None  # a list of one event agrees with itself, whatever it has
    of_one = all(of_elements(clause, one) for one in clause.conjuncts if one.variables)
    return Sweep((), (), backwards=False) if of_one else None


def filters_of(clause: Clause, variable: Variable) -> tuple[Conjunct, ...]:
    """The conditions on one event of a variable, as `leaf_view` takes them."""

    def make() -> tuple[Conjunct, ...]:
        own = (one for one in clause.conjuncts if one.variables == {variable.name} and of_elements(clause, one))
        return tuple(without_name(rewritten(conjunct, of_one_event), variable.name) for conjunct in own)

    return clause_cache_of(clause).once(("filters of elements", variable.name), make)


@dataclass(frozen=True, eq=False)
class Steps:
    """The events of a sweep, key after key, in the order in which it goes over them.

    Attributes
    ----------
    starts
        int64, shape (groups + 1,): where the steps of each key begin.
    rows
        int32: the event of each step.
    fits
        int32: the variables whose event it may be, as bits: positive ones, then negated ones.
    lefts
        int32: the first step in the window that ends with each.
    counted
        uint8: whether the slice owns the matches that end with it.
    clock, width
        int64: the instant of each step, and the most by which those of a match differ.
    """

    starts: Array
    rows: Array
    fits: Array
    lefts: Array
    counted: Array
    clock: Array
    width: int

    def mirrored(self) -> Steps:
        """The same events from the last one to the first."""
        turned = (self.rows[::-1], self.fits[::-1], -self.clock[::-1], self.counted[::-1])
        return _in_windows(len(self.rows) - self.starts[::-1], *turned, self.width)

    def number(self, place: int) -> Array:
        """int64: 1 for each step whose event fits the variable of a place, else 0."""
        return (self.fits >> place & 1).astype(np.int64)

    def most(self, clause: Clause) -> dict[str, int]:
        """The most events of each variable in any window."""
        found = {}
        for place, one in enumerate(clause.positive):
            sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.number(place))))
            found[one.name] = int((sums[1:] - sums[self.lefts]).max(initial=0))
        return found


def _steps(of: ClauseSlice, sweep: Sweep, views: dict[str, View], weights: Weights) -> Steps | None:
    """The steps of a sweep; None where events of one timestamp, which are in no order, would have to be told apart."""
    pattern, clause, events, *_ = of
    fits: Array = np.zeros(of.end_row, np.int32)
    for place, variable in enumerate((*clause.positive, *clause.negated)):
        fits[views[variable.name].rows] |= np.int32(1 << place)
    for place, variable in enumerate(clause.positive):
        if variable.name in weights:
            fits &= ~((weights[variable.name][: of.end_row] == 0).astype(np.int32) << place)
    rows = np.flatnonzero(fits)
    if sweep.agree_on:
        codes, groups = agreement_codes(events, sweep.agree_on)
        rows = rows[codes[rows] >= 0]
        order, starts = group_rows(codes[rows], groups)
        rows = rows[order]
    else:  # an event that is a match by itself is in a window of its own
        by_itself = len(clause.positive) == 1 and not clause.positive[0].kleene
        starts = np.arange(len(rows) + 1) if by_itself else np.array([0, len(rows)], np.int64)
    fits = fits[rows]
    if pattern.ties is not Ties.ARRIVAL and (clause.precedence or clause.negated):
        times = events.timestamps[rows]
        same = times[1:] == times[:-1]
        same[starts[(starts > 0) & (starts < len(rows))] - 1] = False
        if same.any():
            return None
    instants = instants_of(pattern, events)
    counted = (rows >= of.first_row).astype(np.uint8)
    return _in_windows(starts, rows, fits, instants.of_row[rows], counted, instants.width)


def _head_of(steps: Steps, fits: Array) -> tuple[int | Array, ...]:
    """The first arguments of a sweep over steps: how many steps and keys there are, and arrays of them.

    Parameters
    ----------
    fits
        int32, shape (steps,): what the event of each step may be, in the numbers of the sweep.
    """
    return len(fits), len(steps.starts) - 1, steps.starts, steps.lefts, fits, steps.counted


def _in_windows(starts: Array, rows: Array, fits: Array, clock: Array, counted: Array, width: int) -> Steps:
    """Steps with the first one in the window that ends with each."""
    padded = padded_copy(clock, np.int64)
    starts = np.ascontiguousarray(starts, np.int64)
    lefts = count_before(padded, starts, padded, starts, -width) if len(rows) else np.zeros(0, np.int32)
    return Steps(
        starts,
        np.ascontiguousarray(rows, np.int32),
        np.ascontiguousarray(fits, np.int32),
        np.ascontiguousarray(lefts, np.int32),
        np.ascontiguousarray(counted),
        padded,
        width,
    )


def _states_swept(clause: Clause, sweep: Sweep, steps: Steps) -> Run:
    """The sweep over the states of a clause.

    It counts the matches modulo its modulus, or where that is 0, by as many bits as two words have.
    """
    space = states_of(clause, backwards=sweep.backwards)
    assert space is not None, "`sweep_of` has looked"
    kinds = np.flatnonzero(np.bincount(steps.fits, minlength=1))
    number = np.zeros(int(kinds[-1]) + 1, np.int32)
    number[kinds] = np.arange(len(kinds))
    offsets, operations = _operations(space, kinds.tolist())
    total = np.zeros(2, np.uint64)
    widest = int((np.arange(len(steps.lefts)) - steps.lefts).max(initial=0))
    size = len(space.states)
    ask_for(8 * size * widest, f"a window of {widest:,} events has a number for each state")
    front, matrices = np.empty((widest + 1, size), np.uint64), np.empty((2, size, size), np.uint64)
    head, places = _head_of(steps, number[steps.fits]), [one.name for one in clause.positive]

    def run(modulus: int, weights: Weights) -> int:
        of_steps = np.ones((len(steps.rows) if weights else 1, len(places)), np.int64)
        for name, own in weights.items():
            of_steps[:, places.index(name)] = own[steps.rows]
        _count_states(
            *head,
            int(bool(weights)),
            of_steps,
            len(clause.positive),
            size,
            len(kinds),
            widest,
            *offsets,
            len(operations),
            operations,
            modulus,
            front,
            matrices,
            total,
        )
        return _in_two_words(total)

    return run


def _operations(space: StateSpace, kinds: list[int]) -> tuple[tuple[Array, Array, Array], Array]:
    """The matrices of the kinds of events as operations on states, in the order in which each reads what was before.

    Returns
    -------
    offsets : tuple of three Arrays
        int64, shape (kinds + 1,): the operations of each kind, on numbers of ways that end in a state, on numbers of
        ways that begin with one, and those that end matches.
    operations : Array
        int64, shape (n, 4): variable, state that is left, state that is reached, 0. Where these states are the same it
        is multiplied: the lists that grow there, as bits, twice the state, and 0 where the event rejects what is there.
    """
    states = space.states
    place = {state: number for number, state in enumerate(states)}
    lists: tuple[list[list[tuple[int, int, int, int]]], ...] = ([], [], [])
    for kind in kinds:
        moves = [
            (variable, place[state], following)
            for state in states
            for variable, following in space.next_states(state, kind)
        ]
        inside = [
            (variable, source, place[following], 0) for variable, source, following in moves if following in place
        ]
        forward: list[tuple[int, int, int, int]] = []
        backward: list[tuple[int, int, int, int]] = []
        for state, bound in enumerate(states):
            grown = sum(1 << one for one in space.open_lists(bound, kind))
            kept = int(not space.rejects(bound, kind))
            scaled = [(grown, state, state, kept)] if grown or not kept else []
            backward += scaled + [move for move in inside if move[1] == state]
            forward = scaled + [move for move in inside if move[2] == state] + forward
        ends = [(variable, source, -1, 0) for variable, source, following in moves if following == space.full]
        if space.full in place:
            full = place[space.full]
            ends += [(variable, full, -1, 0) for variable in space.open_lists(space.full, kind)]
        for own, moved in zip(lists, (forward, backward, ends), strict=True):
            own.append(moved)
    offsets, every, begin = [], [], 0
    for own in lists:
        sizes = np.cumsum([0, *map(len, own)]) + begin
        offsets.append(sizes.astype(np.int64))
        every += [move for moved in own for move in moved]
        begin = len(every)
    operations = np.array(every or [(0, 0, 0, 0)], np.int64)
    return (offsets[0], offsets[1], offsets[2]), operations


def _count_chain(
    order: Sequence[Variable],
    clause: Clause,
    joining: Joining,
    steps: Steps,
    events: PreparedEvents,
    bits: float,
) -> int:
    """The number of matches whose events come in an order, by a sweep that tests one comparison."""
    fits = _places_in(order, clause, steps)
    loops = np.array([0, *(int(one.kleene) << place for place, one in enumerate(order))], np.int64)
    names = [variable.name for variable in order]
    at = sorted(names.index(name) for name in joining.variables)
    members = [np.flatnonzero(fits >> place & 1) for place in at]
    first, second, comparator = _compared(joining, [names[place] for place in at], members, steps, events)
    if not len(first.known) or not len(second.known):
        return 0
    places, ranges = np.full((2, len(fits)), -1, np.int32), np.zeros((2, len(fits), 2), np.int32)
    places[0, members[0]], places[1, members[1]] = first.places(), second.places()
    ranges[0, members[1]] = second.ranges_in(first.known, comparator)
    last = len(order) - 1
    if at[1] != last:
        ranges[1, members[0]] = first.ranges_in(second.known, comparator.mirror)
    states = len(order) + int(order[last].kleene)
    total = np.zeros(2, np.uint64)
    before, between, after = at[0] + 1, at[1] - at[0], max(states - 1 - at[1], 0)
    ask_for(32 * states * len(fits), f"{len(fits):,} events have some numbers each")
    left_tree = np.empty((len(first.known) + 1, before * between), np.uint64)
    right_tree = np.empty((len(second.known) + 1 if after else 1, max(between * after, 1)), np.uint64)
    kept = np.empty((len(fits), before + 2 * between + after), np.uint64)
    matrices = np.empty((4, states, states), np.uint64)
    vectors = np.empty((3, max(before * between, between * after, 1)), np.uint64)

    def run(modulus: int) -> int:
        go_on()
        _count_joined(
            *_head_of(steps, fits),
            len(order),
            states,
            loops,
            at[0],
            at[1],
            len(first.known),
            len(second.known),
            places,
            ranges,
            modulus,
            left_tree,
            right_tree,
            kept,
            matrices,
            vectors,
            total,
        )
        return _in_two_words(total)

    return run(_MERSENNE) if bits < _MERSENNE_BITS else _by_moduli(run, bits, steps)


def _places_in(order: Sequence[Variable], clause: Clause, steps: Steps) -> Array:
    """int32: how the event of each step fits the variables of an order, as bits."""
    fits: Array = np.zeros(len(steps.fits), np.int32)
    for place, variable in enumerate(order):
        fits |= (steps.fits >> clause.positive.index(variable) & 1) << place
    return fits


def _compared(
    joining: Joining,
    names: Sequence[str],
    members: Sequence[Array],
    steps: Steps,
    events: PreparedEvents,
) -> tuple[SortedValues, SortedValues, Comparator]:
    """The values of two variables that a condition compares, and the comparator between the first and the second one.

    Parameters
    ----------
    names, members
        The two variables, and the steps of each.

    Notes
    -----
    Where values are also equal, a value stands for the equal ones and, behind them, the one that is compared.
    """
    turned = names[0] != joining.variables[0]

    def columns(sides: Sides) -> list[Array]:
        own = zip(sides[::-1] if turned else sides, names, members, strict=True)
        return comparable(
            [
                expression_values(without_name(side, name), events, {ANY_EVENT: steps.rows[rows]})
                for side, name, rows in own
            ]
        )

    compared = [columns(sides) for sides in (*joining.equal, joining.sides)]
    comparator = joining.comparator.mirror if turned else joining.comparator
    if len(compared) == 1:
        one, other = compared[0]
        if comparator in (Comparator.GT, Comparator.GE):
            return SortedValues(-one), SortedValues(-other), comparator.mirror
        return SortedValues(one), SortedValues(other), comparator
    codes: Array = np.zeros(sum(map(len, members)))
    unknown, size, width = codes > 0, len(members[0]), 1
    for both in map(np.concatenate, compared):
        unknown |= np.isnan(both)
        distinct, own = np.unique(both, return_inverse=True)
        width = len(distinct)
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1) * float(width) + own.reshape(-1)
    codes[unknown] = np.nan
    return SortedValues(codes[:size], width), SortedValues(codes[size:], width), comparator


@dataclass(frozen=True)
class _Lanes:
    """The events behind which a sequence is counted.

    Attributes
    ----------
    steps
        The steps in the order in which events are bound.
    shared
        Whether an anchor stands for several events of its variable, whose windows end alike. Then that variable is
        bound behind it like the others, and nothing else may be compared with it.
    anchors, starts, untils, stops
        Of each anchor its step, and between which steps the variable lies that is bound first behind it, and the step
        before which the last one lies.
    """

    way: WayBehind
    steps: Steps
    shared: bool
    anchors: Array
    starts: Array
    untils: Array
    stops: Array

    @classmethod
    def of(cls, way: WayBehind, clause: Clause, joining: Sequence[Joining], steps: Steps) -> _Lanes:
        """The anchors of a sequence; as few as there may be."""
        steps = steps.mirrored() if way.from_last else steps
        first, last = (clause.positive.index(way.order[place]) for place in (0, -1))
        anchors = np.flatnonzero((steps.fits >> first & 1) * (steps.counted if way.from_last else 1))
        stops = np.searchsorted(steps.lefts, anchors, "right")
        if len(anchors) and joins_neighbours(way.order, joining):
            lasts = np.concatenate((np.zeros(1, np.int64), np.cumsum(steps.number(last))))[stops]
            groups = np.searchsorted(steps.starts, anchors, "right")
            ends = (lasts[1:] != lasts[:-1]) | (groups[1:] != groups[:-1])
            begins = np.flatnonzero(np.append(True, ends)[: len(anchors)])
            if way.beside_list or 2 * len(begins) <= len(anchors):
                behind = np.append(begins[1:], len(anchors)) - 1
                anchors, until = anchors[begins], anchors[behind] + 1
                return cls(way, steps, True, anchors, anchors - 1, until, stops[behind])
        return cls(way, steps, False, anchors, anchors, stops, stops)


class _Runner(NamedTuple):
    """A sweep with weights, and whether it only adds; behind first events its result by `_ROUNDED` is about right."""

    run: Run
    only_adds: bool


def _sweep_behind(
    ways: Iterable[WayBehind],
    clause: Clause,
    joining: Sequence[Joining],
    steps: Steps,
    events: PreparedEvents,
) -> _Runner | None:
    """A sweep over the matches whose events come in an order, behind each first event, or ahead of each last one.

    The window of a match is that of its anchor. Behind it, an event of the variable bound second begins one chain; an
    event of a later one goes on with all chains that end with an event of the variable before it which its comparison
    admits. Events whose windows end with the same event of the last variable have an anchor together. None where there
    is no way, or a window has too many events.
    """
    found = [_Lanes.of(way, clause, joining, steps) for way in ways]
    if not found:
        return None
    lanes = min(found, key=lambda one: len(one.anchors))
    way, steps, anchors, before = lanes.way, lanes.steps, lanes.anchors, int(lanes.shared)
    fits = _places_in(way.order, clause, steps) << before
    if way.last_in_time:
        fits &= ~((1 - steps.counted.astype(np.int32)) << way.last_in_time + before)
    joined = _joined_behind(lanes, fits, joining, events)
    joints = len(joined.places)
    span = max(int((lanes.stops - lanes.starts).max(initial=0)), ANCHORED_AT_ONCE)
    width = min(len(anchors), LANES)
    if joints * 16 * width * span > MOST_TREE_BYTES:
        return None
    lists = sum(1 << place for place, one in enumerate(way.order, start=before) if one.kleene)

    def run(modulus: int, weights: Weights) -> int:
        weighted = {place: one.name for place, one in enumerate(way.order, start=before) if one.name in weights}
        begin, total = 0, 0
        room, found = np.empty((2, width), np.uint64), np.zeros(2, np.uint64)
        factors = np.ones((len(way.order) + before, len(steps.rows)) if weighted else (1, 1), np.uint64)
        for place, name in weighted.items():
            factors[place] = weights[name][steps.rows]
        begins = factors[0, anchors] if weighted else np.ones(len(anchors), np.uint64)
        if modulus == _ROUNDED:
            begins = np.ones(len(anchors)).view(np.uint64)
        while begin < len(anchors):
            go_on()
            end = int(np.searchsorted(lanes.starts, lanes.starts[begin] + span))
            first, last = int(lanes.starts[begin]) + 1, int(lanes.stops[begin:end].max())
            own, idle = slice(first, max(last, first)), -(end - begin) % width
            here, may_follow, own_follow = (one[:, own].copy() for one in (joined.places, joined.ranges, joined.lists))
            size = 1
            for joint in range(joints):
                known = np.unique(here[joint])
                known = known[known >= 0]
                here[joint] = np.where(here[joint] < 0, -1, np.searchsorted(known, here[joint]))
                may_follow[joint] = np.searchsorted(known, may_follow[joint])
                if lists:
                    own_follow[joint] = np.searchsorted(known, own_follow[joint])
                size = max(size, len(known))
            _count_behind_anchors(
                max(last - first, 0),
                width,
                end - begin + idle,
                np.pad(lanes.starts[begin:end] - first, (0, idle), "edge"),
                np.pad(lanes.untils[begin:end] - first, (0, idle)),
                np.pad(lanes.stops[begin:end] - first, (0, idle)),
                len(way.order) + before,
                lists,
                fits[own],
                len(joined.tested),
                np.array([*joined.tested, 0], np.int64),
                np.pad(joined.anchors.take(anchors[begin:end], axis=1), ((0, 0), (0, idle)), constant_values=-1),
                np.ascontiguousarray(joined.passing[:, own]),
                size,
                here,
                may_follow,
                own_follow,
                modulus,
                np.empty((joints, size + 1, width), np.uint64),
                np.empty((joints, size + 1), np.int64),
                room,
                sum(1 << place for place in weighted if place),
                np.ascontiguousarray(factors[:, own]) if weighted else factors,
                np.pad(begins[begin:end], (0, idle)),
                found,
            )
            part = int(min(found.view(np.float64)[0], MOST_ESTIMATED)) if modulus == _ROUNDED else _in_two_words(found)
            total = max(total, part) if modulus == _GREATEST else total + part
            begin = end
        return total

    return _Runner(run, joined.only_adds)


@dataclass(frozen=True)
class _JoinedBehind:
    """The facts that the comparisons of a sequence tell of its events.

    Attributes
    ----------
    places, ranges
        For each two neighbours behind the first variable, and each event: where its value stands among those of the
        earlier one, and which of these it may follow. Where nothing joins them, all have the same value.
    lists
        For each variable behind the first one, and each event of it in a list: which values of elements it may follow.
    tested, anchors, passing
        The variable of each comparison with the first one; for each event where its value stands among those of the
        first one, and which of these pass. There is a row at least.
    """

    places: Array
    ranges: Array
    lists: Array
    tested: tuple[int, ...]
    anchors: Array
    passing: Array

    @property
    def only_adds(self) -> bool:
        """True where ranges begin with the first value, so that sums over them are differences of no others."""
        return not (self.ranges[..., 0].any() or self.lists[..., 0].any())


def _joined_behind(
    lanes: _Lanes,
    fits: Array,
    joining: Sequence[Joining],
    events: PreparedEvents,
) -> _JoinedBehind:
    names = [*[""][: int(lanes.shared)], *(variable.name for variable in lanes.way.order)]
    members = [np.flatnonzero(fits >> place & 1) for place in range(len(names))]
    joints, steps_of_all = len(names) - 2, len(fits)
    places = np.full((joints, steps_of_all), -1, np.int32)
    ranges, lists = np.zeros((2, joints, steps_of_all, 2), np.int32)
    lists[:, :, 1] = steps_of_all
    for joint in range(joints):
        places[joint, members[joint + 1]], ranges[joint, members[joint + 2], 1] = 0, 1
    tests: list[tuple[int, Array, Array]] = []
    pairs = {frozenset(each.variables) for each in joining}
    for each in joining:
        if each.is_of_list:
            place = names.index(each.variables[0])
            turned = each.turned() if lanes.way.from_last else each
            both = (each.variables, [members[place]] * 2)
            first, second, comparator = _compared(turned, *both, lanes.steps, events)
            lists[place - 1, members[place]] = second.ranges_in(first.known, comparator)
            if frozenset(names[place : place + 2]) not in pairs:
                # Any element ends the list, one that cannot be compared, too.
                standing = first.places()
                standing[standing < 0] = len(first.known)
                places[place - 1, members[place]] = standing
                ranges[place - 1, members[place + 1], 1] = len(first.known) + 1
            continue
        one, later = sorted(names.index(name) for name in each.variables)
        own = [members[one], members[later]]
        first, second, comparator = _compared(each, (names[one], names[later]), own, lanes.steps, events)
        standing, passing = np.full(steps_of_all, -1, np.int32), np.zeros((steps_of_all, 2), np.int32)
        standing[members[one]] = first.places()
        passing[members[later]] = second.ranges_in(first.known, comparator)
        if one:
            places[one - 1], ranges[one - 1] = standing, passing
        else:
            tests.append((later, standing, passing))
    nothing = np.zeros((1, steps_of_all), np.int32), np.zeros((1, steps_of_all, 2), np.int32)
    return _JoinedBehind(
        places,
        ranges,
        lists,
        tuple(later for later, _, _ in tests),
        np.stack([standing for _, standing, _ in tests]) if tests else nothing[0],
        np.stack([passing for _, _, passing in tests]) if tests else nothing[1],
    )


class SortedValues:
    """The values of some events in order: many are looked up in order in a fraction of the time.

    Parameters
    ----------
    width
        Values compare only if they are equal when they are divided by this, as whole numbers; None: always.
    """

    def __init__(self, values: Array, width: int | None = None) -> None:
        self._order, self._width = np.argsort(values), width
        self.known = values[self._order][: len(values) - int(np.isnan(values).sum())]

    def places(self) -> Array:
        """int32: for each event the place of the first value that equals its own; -1 where it has none."""
        begins = np.append(True, self.known[1:] != self.known[:-1])[: len(self.known)]
        return self._spread(np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0)), -1)

    def ranges_in(self, known: Array, comparator: Comparator) -> Array:
        """int32, shape (n, 2): for each event the range of sorted values v for which `v comparator own value` holds."""
        begins, stops = np.zeros(len(self.known), np.int64), np.full(len(self.known), len(known))
        if self._width is not None:
            alike = self.known // self._width * self._width
            begins, stops = np.searchsorted(known, alike), np.searchsorted(known, alike + self._width)
        below, above = comparator in (Comparator.LT, Comparator.LE), comparator in (Comparator.GT, Comparator.GE)
        if not below:
            begins = np.searchsorted(known, self.known, "right" if comparator is Comparator.GT else "left")
        if not above:
            stops = np.searchsorted(known, self.known, "left" if comparator is Comparator.LT else "right")
        ends = (begins, stops)
        return np.stack([self._spread(end, 0) for end in ends], axis=1)

    def _spread(self, numbers: Array, unknown: int) -> Array:
        found = np.full(len(self._order), unknown, np.int32)
        found[self._order[: len(numbers)]] = numbers
        return found


def number_of(remainder: Callable[[int], int], moduli: Iterable[int], bits: float) -> int:
    """The number below 2^bits whose remainders by some moduli are known, by the Chinese remainder theorem.

    No two of the moduli have a common divisor.
    """
    number, product = 0, 1
    for modulus in moduli:
        number += product * ((remainder(modulus) - number) * pow(product, -1, modulus) % modulus)
        product *= modulus
        if math.log2(product) > bits + 1:
            return number
    raise AssertionError("there are primes enough")


def _in_two_words(total: Array) -> int:
    """The number whose lower and upper 64 bits a kernel has written."""
    return (int(total[1]) << 64) + int(total[0])


def _by_moduli(run: Callable[[int], int], bits: float, steps: Steps) -> int:
    """The number of matches over some steps, each of which ends less than 2^bits; `run` counts them by a modulus."""
    return number_of(lambda modulus: run(modulus) % modulus, _moduli(), bits + math.log2(len(steps.rows)))


def _moduli() -> Iterator[int]:
    """The primes that the kernels of a sweep know: those first by which they divide without a division."""
    yield _MERSENNE
    yield from takewhile(lambda prime: prime > 2**54 - 2**10, primes_below(2**54))
    yield from primes_below(2**31)


def primes_below(most: int) -> Iterator[int]:
    """Primes from the largest one below `most`, an even number up to 2^64, on."""
    return (number for number in range(most - 1, most // 2, -2) if _is_prime(number))


@cache
def _is_prime(number: int) -> bool:
    """Return whether an odd number that is none of these witnesses is a prime, by Fermat's little theorem.

    That lets pass Carmichael numbers without small divisors, too; where moduli are looked for, there are none (tests).
    """
    return all(pow(witness, number - 1, number) == 1 for witness in (2, 3, 5, 7, 11, 13))
