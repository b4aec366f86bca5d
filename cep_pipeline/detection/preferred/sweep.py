"""The preferred matches of a sequence under skip_till_any_match, found without listing any others.

A list of n candidates has 2^n - 1 forms, of which PREFERRED keeps one for each first event. Where each condition reads
the first event of the match, one other event, two that follow one another in it, or a number of events, a sweep over
the window of each start knows that one (`kernels.py`). Of other clauses all matches are listed and compared
(`walk.py`), and so are pairs of events: no other way takes less time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep_pipeline.compiled.native import NativeKernel, words_of
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.conditions.groups import ConditionGroups, TestedConjunct, conditions_of
from cep_pipeline.detection.conditions.program import KERNEL_SOURCES, Program
from cep_pipeline.detection.costs import FEWEST_SINGLES
from cep_pipeline.detection.limits import ask_for, go_on
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.detection.nfab.automaton import is_chain
from cep_pipeline.detection.nfab.runs import sequence_of
from cep_pipeline.detection.preferred import words as at
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Between, Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import Element, Length, Literal
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.slices.order import before_is_earlier, instants_of
from cep_pipeline.slices.views import clause_cache_of, may_match

_sweep = NativeKernel(
    "cep_pipeline.detection.preferred.kernels",
    "sweep",
    ("int64*",),
    sources=(*KERNEL_SOURCES, "cep_pipeline.detection.preferred.words", "cep_pipeline.detection.nfab.words"),
)
ELEMENTS_AT_ONCE = 1 << 18
"""Events of matches that are written before they are handed on."""
EVENTS_AT_FIRST = 1 << 10
"""Events of a window that there is room for at first."""
_READ_AT_ENDS = {
    at.W_ELEMENT: frozenset({Element.EACH}),
    at.W_PAIR: frozenset({Element.CURRENT, Element.PREVIOUS}),
    at.W_ENTRY: frozenset({Element.ONLY, Element.FIRST}),
    at.W_LEAVE: frozenset({Element.LAST}),
}
"""What a conjunct of each group reads of the last variable that it mentions."""


_ANY_NUMBER = np.iinfo(np.int64).max


def bounds_in(conjunct: Conjunct) -> tuple[str, int, int] | None:
    """The list of which a conjunct bounds the number of events, with the least and the greatest number; None: of none.

    Examples
    --------
    >>> from cep_pipeline.patterns.expressions import ValueType
    >>> three = Literal(3, ValueType.INT64)
    >>> bounds_in(Conjunct((Comparison(Comparator.GT, three, Length("v")),)))
    ('v', 1, 2)
    """
    match conjunct.atoms:
        case (Between(Length() as length, Literal(int() as low), Literal(int() as high), False),):
            return length.variable, max(low, 1), high
        case (Comparison(comparator, Length() as length, Literal(int() as number)),):
            pass
        case (Comparison(mirrored, Literal(int() as number), Length() as length),):
            comparator = mirrored.mirror
        case _:
            return None
    low = {Comparator.GE: number, Comparator.GT: number + 1, Comparator.EQ: number}.get(comparator, 1)
    high = {Comparator.LE: number, Comparator.LT: number - 1, Comparator.EQ: number}.get(comparator, _ANY_NUMBER)
    return None if comparator is Comparator.NE else (length.variable, max(low, 1), high)


class Steps:
    """The conjuncts of a chain by the step of a sweep that tests them.

    Attributes
    ----------
    groups
        The groups of conjuncts.
    words
        int64, shape (variables, STEP_WORDS): the words of the kernel; None where a sweep does not know all conjuncts.
    """

    def __init__(self, pattern: Pattern, clause: Clause) -> None:
        self.groups = ConditionGroups(conditions_of(pattern, clause))
        self._places = {variable.name: place for place, variable in enumerate(clause.positive)}
        reluctant = {one.variable for one in pattern.operands if one.reluctant}
        found: dict[tuple[int, int], list[TestedConjunct]] = {}
        numbers = {one.name: [(1, _ANY_NUMBER)] for one in clause.positive}
        self.words: Array | None = None
        for tested in self.groups.conditions.tested:
            bounds = bounds_in(tested.conjunct)
            if bounds is not None:
                numbers[bounds[0]].append(bounds[1:])
                continue
            step = self._step(tested)
            if step is None:
                return
            found.setdefault(step, []).append(tested)
        words = np.full((len(clause.positive), at.STEP_WORDS), -1, np.int64)
        for place, variable in enumerate(clause.positive):
            least = min(max(low for low, _ in numbers[variable.name]), _ANY_NUMBER)
            most = min(high for _, high in numbers[variable.name])
            if most < 1:  # no list has so few; a greatest number of 0 is that of a single event
                least, most = 2, 1
            words[place, : at.W_ELEMENT] = least, most if variable.kleene else 0, variable.name in reluctant
            entering = found.get((place, at.W_ENTRY), ())
            words[place, at.W_CROSSES] = any(self._crosses(one, place) for one in entering)
            if (place, at.W_PAIR) in found and (most < _ANY_NUMBER or variable.name in reluctant):
                return
        for (place, group), own in found.items():
            words[place, group] = self.groups.group_of([tested.conjunct for tested in own])
        self.words = words

    def _step(self, tested: TestedConjunct) -> tuple[int, int] | None:
        """The variable and the group with which a conjunct is tested; None: by no sweep."""
        places = sorted(map(self._places.__getitem__, tested.conjunct.variables))
        kinds = {self._places[name]: kind for name, kind in tested.uses.kinds.items()}
        place = places[-1]
        groups = [group for group, read in _READ_AT_ENDS.items() if kinds[place] <= read]
        if not groups and place == 0 and kinds[0] <= {Element.FIRST, Element.LAST}:
            groups = [at.W_LEAVE]
        for other in places[:-1]:
            known = {Element.ONLY, Element.FIRST} if other == 0 else set[Element]()
            if groups == [at.W_ENTRY] and other == place - 1:
                known |= {Element.ONLY, Element.LAST}
            if not kinds[other] <= known:
                return None
        return (place, groups[0]) if groups else None

    def _crosses(self, tested: TestedConjunct, place: int) -> bool:
        """Return whether a conjunct of the first event of a variable reads the last one of the variable before it."""
        before = next((name for name, other in self._places.items() if other == place - 1), "")
        kinds = tested.uses.kinds.get(before, frozenset())
        return bool(kinds) and (place > 1 or Element.LAST in kinds)


def steps_of(pattern: Pattern, clause: Clause) -> Steps | None:
    """The steps of the sweep over a clause; None where its preferred matches are found by listing all."""
    if not pattern.output.is_preferred or not pattern.strategy.forks or not before_is_earlier(pattern.ties):
        return None
    few = len(clause.positive) < FEWEST_SINGLES and not any(variable.kleene for variable in clause.positive)
    if few or clause.negations or not is_chain(clause):
        return None
    key = "steps of a sweep", pattern.base_type, tuple(one.variable for one in pattern.operands if one.reluctant)
    steps = clause_cache_of(clause).once(key, lambda: Steps(pattern, clause))
    return None if steps.words is None else steps


class PreferredSweep:
    """The preferred matches of one clause over one slice: iterate over it once for its blocks of matches.

    Of other clauses of the pattern there may be a match that is preferred to one of these.

    Parameters
    ----------
    of
        The clause over the slice.
    steps
        What `steps_of` gives for it.
    """

    def __init__(self, of: ClauseSlice, steps: Steps) -> None:
        self.of, self.steps = of, steps
        self.program = Program(of.pattern, of.clause, of.events, groups=steps.groups)

    def __iter__(self) -> Iterator[Block]:
        pattern, clause, events, owned, _ = self.of
        if not may_match(pattern, clause, events):
            return
        sequence = sequence_of(pattern, clause, events, self.program.fits)
        starts = sequence.starts(self.of, sequence.fits[0].view(np.bool_))
        control, slots = np.zeros(at.SEARCH_WORDS, np.int64), np.zeros(len(clause.positive), np.int32)
        ring, program = self.program.ring(), self.program.kernel_words()
        room, capacity, wanted = EVENTS_AT_FIRST, ELEMENTS_AT_ONCE, at.WINDOW_FULL
        while wanted != at.DONE:
            if wanted == at.WINDOW_FULL:
                ask_for(8 * len(slots) * room, f"a window has more than {room // 2:,} events of the pattern")
                further, leaves = np.empty((len(slots), room), np.int32), np.empty((len(slots), room), np.uint8)
            out_rows, out_slots = np.empty((2, capacity), np.int32)
            out_offsets = np.zeros(capacity + 1, np.int64)
            machine = at.SweepArrays(
                control=control,
                variables=len(slots),
                options=sequence.options,
                width=instants_of(pattern, events).width,
                size=len(sequence.view),
                end_row=self.of.end_row,
                starts=starts,
                number_of_starts=len(starts),
                rows=sequence.view.rows,
                clocks=sequence.clocks,
                instants=sequence.instants,
                fits=sequence.fits,
                ends=sequence.ends,
                steps=self.steps.words,
                slots=slots,
                further=further,
                leaves=leaves,
                capacity=room,
                out_rows=out_rows,
                out_slots=out_slots,
                out_capacity=capacity,
                out_offsets=out_offsets,
                out_matches=capacity,
            )
            go_on()
            wanted = _sweep(np.array([*words_of(*machine), *ring.kernel_words(), *program], np.int64))
            matches, written = control[at.S_MATCHES : at.SEARCH_WORDS].tolist()
            if wanted == at.WINDOW_FULL:
                room *= 2
            elif wanted == at.OUTPUT_FULL and not matches:
                capacity *= 2
            control[at.S_MATCHES :] = 0
            if matches:
                block: Block = ListBlock(clause, out_offsets[: matches + 1], out_rows[:written], out_slots[:written])
                if not any(variable.kleene for variable in clause.positive):
                    block = MatchBlock(clause, np.ascontiguousarray(block.rows.reshape(matches, -1).T))
                yield block if owned == EVERYTHING else block.take(self.of.owns(block.first_rows(), block.last_rows()))

    def count(self, counters: Counters) -> None:
        """Add what the sweep did."""
        counters.condition_evaluations += self.program.evaluations + self.program.unary_evaluations
