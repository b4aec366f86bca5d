"""The lists of several Kleene variables of a clause, found one behind another by compiled code.

The first list is found behind the single variables. To the next one it matters only where the lists before begin and
end, if no event of theirs can be an element of it: order, window and keys say nothing else. So both ends of a list are
two single variables to the lists behind it, and each list is one behind single variables (`compiled_lists`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.fused.constraints import Reach
from cep_pipeline.detection.kleene.bindings import clause_over, kleene_order, skeleton_order
from cep_pipeline.detection.kleene.compiled_lists import LISTING, STATE_WORDS, ListsBehind, find_candidates, write_lists
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import Uses
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Element, Expression, Reference
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.blocks import ListBlock
from cep_pipeline.slices.order import may_be_one
from cep_pipeline.slices.views import clause_cache_of

_join_lists = NativeKernel(
    LISTING,
    "join_lists",
    (
        *("int64", "int32*", "int64*", "int32*", "int32*", "int32*", "int64"),
        *("int64*", "int32*", "int64", "int64*", "int32*", "int32*"),
    ),
)


@dataclass(frozen=True, eq=False)
class ListStep:
    """The lists of one Kleene variable behind what is bound before.

    Attributes
    ----------
    behind
        They stand behind the single variables, and behind both ends of each list before.
    numbers, own
        int32: the number of each variable that is bound before among all those bound then, and that of the list. Both
        are in pattern order.
    """

    behind: ListsBehind
    numbers: Array
    own: int

    @cached_property
    def numbers_at(self) -> int:
        """The address of the numbers."""
        return int(self.numbers.ctypes.data)


def lists_in_turn(pattern: Pattern, clause: Clause, order: tuple[str, ...], reach: Reach) -> tuple[ListStep, ...]:
    """The lists of the Kleene variables of a clause, in the order of a plan; none where they cannot be so found.

    They cannot where the first element of a later list would have to be bound like a single variable, or where it might
    be an event of an earlier list.
    """
    key = "lists in turn", order, pattern.ties, reach
    return clause_cache_of(clause).once(key, lambda: tuple(_steps(pattern, clause, order, reach)))


def _steps(pattern: Pattern, clause: Clause, order: tuple[str, ...], reach: Reach) -> list[ListStep]:
    singles, lists = skeleton_order(clause, order), kleene_order(clause, order)
    bound = set(singles)
    found: list[ListStep] = []
    for place, name in enumerate(lists):
        earlier, variable = lists[:place], clause.by_name[name]
        if any(may_be_one(pattern, clause, clause.by_name[other], variable) for other in earlier):
            return []
        part = clause if len(lists) == 1 else clause_over(clause, {*singles, name})
        if earlier:
            part = _behind_ends(clause, singles, earlier, name)
        behind = ListsBehind.of(pattern, part, (*singles, *(end for one in earlier for end in _ends_of(one))), reach)
        if earlier and behind.anchored:
            return []
        before = [one.name for one in clause.positive if one.name in bound]
        bound.add(name)
        after = [one.name for one in clause.positive if one.name in bound]
        numbers = np.array([after.index(one) for one in before], np.int32)
        found.append(ListStep(behind, numbers, after.index(name)))
    return found


def _ends_of(name: str) -> tuple[str, str]:
    """The variables that stand for the first and the last element of a list."""
    return f"{name}[1]", f"{name}[{name}.LEN]"


def _behind_ends(clause: Clause, singles: tuple[str, ...], earlier: tuple[str, ...], name: str) -> Clause:
    """The clause over one list, with the ends of earlier ones as single variables."""
    events: dict[str, tuple[str, ...]] = {one: (one,) for one in (*singles, name)}
    events |= {one: _ends_of(one) for one in earlier}
    positive: list[Variable] = []
    for variable in clause.positive:
        if variable.name in earlier:
            ends = _ends_of(variable.name)
            positive += [replace(variable, name=end, kleene=False, minimum=1, maximum=None) for end in ends]
        elif variable.name in events:
            positive.append(variable)
    precedence = {
        (before, behind)
        for one, other in clause.precedence
        if one in events and other in events
        for before in events[one]
        for behind in events[other]
    }
    conjuncts = tuple(one for conjunct in clause.conjuncts for one, _ in _over_ends(conjunct, events))
    return replace(
        clause,
        positive=tuple(positive),
        negated=(),
        negated_structures=(),
        precedence=frozenset(precedence),
        conjuncts=tuple(dict.fromkeys(conjuncts)),
    )


def _over_ends(conjunct: Conjunct, events: dict[str, tuple[str, ...]]) -> Iterator[tuple[Conjunct, bool]]:
    """The conditions on the ends of lists that a conjunct is or implies, and whether it is that condition."""
    if not conjunct.variables <= events.keys():
        return
    lists = [name for name in conjunct.variables if len(events[name]) > 1]
    if not lists:
        yield conjunct, True
        return
    kinds = Uses.of(conjunct).kinds
    if all(kinds[name] <= {Element.FIRST, Element.LAST} for name in lists):
        yield rewritten(conjunct, partial(_end, events=events)), True
    elif len(lists) == 1 and kinds[lists[0]] == {Element.EACH}:  # so the ends may have a key in common with others
        for end in events[lists[0]]:
            yield rewritten(conjunct, partial(_as_event, variable=lists[0], event=end)), False


def _end(node: Expression, events: dict[str, tuple[str, ...]]) -> Expression:
    if not isinstance(node, Reference) or len(events[node.variable]) == 1:
        return node
    first, last = events[node.variable]
    return _as_event(node, node.variable, first if node.element is Element.FIRST else last)


def _as_event(node: Expression, variable: str, event: str) -> Expression:
    if isinstance(node, Reference) and node.variable == variable:
        return replace(node, variable=event, element=Element.ONLY)
    return node


def conditions_left(clause: Clause, order: tuple[str, ...], steps: tuple[ListStep, ...]) -> tuple[Conjunct, ...]:
    """The conditions on lists that no step decides: whole matches are asked."""
    lists = kleene_order(clause, order)
    events: dict[str, tuple[str, ...]] = {one: (one,) for one in skeleton_order(clause, order)}
    decided = {limit for name in lists for limit in clause.by_name[name].limits}
    for name, step in zip(lists, steps, strict=True):
        events[name] = (name,)
        of = step.behind.conditions
        asked = {*of.leaf, *of.elements, *of.adjacent}
        for conjunct in clause.conjuncts:
            decided |= {conjunct for one, same in _over_ends(conjunct, events) if same and one in asked}
        events[name] = _ends_of(name)
    positive = {variable.name for variable in clause.positive}
    return tuple(
        conjunct
        for conjunct in clause.conjuncts
        if conjunct not in decided and conjunct.variables <= positive and not conjunct.variables.isdisjoint(lists)
    )


_ONE_LIST = np.full(1, -1, np.int64)
_ALONE = int(_ONE_LIST.ctypes.data), 1
"""The slots of a list without single variables: their address, and how many there are."""


class ListMemory:
    """Memory for the lists of one run after another, which are few.

    Parameters
    ----------
    partials, levels, words
        Most partial matches, variables bound by them, and words of followers.
    lists, elements
        Most matches, and events that they bind.

    Attributes
    ----------
    found_at, offsets_at
        The addresses where a search writes what it finds, and reads where to write it.
    sums
        The numbers of candidates of the last search, and of pairs of them.
    spans
        int32, shape (3, lists): of each list that was written last the partial match, and the places of its first and
        its last element among the candidates.
    """

    def __init__(self, partials: int, levels: int, words: int, lists: int, elements: int) -> None:
        self._singles = np.empty(partials * levels, np.int32)
        self._lows, self._widths = np.empty(partials, np.int32), np.empty(partials, np.int32)
        self._offsets, self._found = np.empty(partials, np.int64), np.empty(max(words, partials), np.int64)
        self._state, self.sums = np.zeros(STATE_WORDS, np.int64), np.zeros(2, np.int64)
        self.spans = np.empty((3, lists), np.int32)
        self.found_at, self.offsets_at = self._found.ctypes.data, self._offsets.ctypes.data
        of_candidates = self._singles, self._lows, self._widths, self._offsets, self.sums
        self._of_candidates = tuple(int(array.ctypes.data) for array in of_candidates)
        self._state_at, self._spans_at = self._state.ctypes.data, self.spans.ctypes.data
        self._size, self._words, self._lists, self._elements = 0, words, lists, elements
        # Matches so far, lists alone, and matches with these: offsets, rows and variables of each.
        self._blocks = [
            (np.empty(lists + 1, np.int64), np.empty(elements, np.int32), np.empty(elements, np.int32))
            for _ in range(3)
        ]
        self._addresses = [tuple(int(array.ctypes.data) for array in block) for block in self._blocks]

    def find_candidates(self, words: int, program: int, frame: int, singles: int, widest: int, most: int) -> bool:
        """Find the candidates behind partial matches; False where they are more than there is room for.

        Parameters
        ----------
        words, program, frame
            The addresses of the words of a search, of its program and of its frame.
        singles
            The number of variables that bind one event.
        widest, most
            Most candidates of one partial match, and pairs of candidates of all of them.
        """
        self._size = find_candidates.function(words, program, frame, widest, singles, *self._of_candidates)
        return 0 <= self._size <= self._words and int(self.sums[1]) <= most

    def numbers(self, partials: int) -> Array:
        """The number that a search has counted for each partial match."""
        return self._found[:partials]

    def write(self, step: ListStep, partials: int, rows: int, size: int, *, first: bool) -> int | None:
        """Write the matches with the lists whose followers a search has found.

        Parameters
        ----------
        step
            The lists.
        partials
            The number of partial matches.
        rows, size
            The address of the rows of all candidates, and how many there are.
        first
            Whether the partial matches bind single variables alone; otherwise they are those written last.

        Returns
        -------
        int or None
            How many matches there are; None where there is no room for all.
        """
        lists, to = step.behind, 0 if first else 1
        if lists.anchored:
            offsets = self._offsets[:partials]
            self._found[offsets[offsets >= 0]] = 1
        self._state[:3] = 0
        singles, lows, widths, offsets_at, _ = self._of_candidates
        slots = (lists.slots_at, len(lists.slots)) if first else _ALONE
        found = write_lists.function(
            *(partials, singles, self.found_at, self._size, offsets_at, lows, rows, size, *slots),
            *(*lists.lengths, widths, self._state_at, self._lists, self._elements),
            *(*self._addresses[to], self._spans_at),
        )
        if self._state[0] < partials:
            return None
        if not first:
            before, own, joined = self._addresses
            elements = _join_lists.function(
                *(found, self._spans_at, *before, step.numbers_at, step.own, *own[:2], self._elements, *joined)
            )
            if elements < 0:
                return None
            self._blocks.reverse()
            self._addresses.reverse()
        return found

    def block(self, clause: Clause, count: int) -> ListBlock:
        """The matches written last, of which there are so many."""
        offsets, rows, variables = self._blocks[0]
        elements = int(offsets[count])
        return ListBlock(clause, offsets[: count + 1].copy(), rows[:elements].copy(), variables[:elements].copy())
