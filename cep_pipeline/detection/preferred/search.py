"""The preferred matches of a pattern under contiguity, found by a search that goes back where it must.

All clauses are searched together. They are a tree: a node for each variable that may follow those before it, with the
choices that there are behind it, the preferred one first (`ChoiceTree`). So no match is found that another one with its
first event is preferred to, and long lists cost what they are long. The search is the kernel's (`kernels.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from cep_pipeline.compiled.native import NativeKernel, words_of
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.conditions.groups import ConditionGroups, Moment, conditions_of
from cep_pipeline.detection.conditions.program import KERNEL_SOURCES, Program
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import EVERYTHING, PRUNE, Counters, Owned, RunCounts
from cep_pipeline.detection.nfab.automaton import is_chain
from cep_pipeline.detection.nfab.runs import sequence_of
from cep_pipeline.detection.nfab.words import PRUNING
from cep_pipeline.detection.preferred import words as at
from cep_pipeline.detection.preferred.walk import choices_of
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause, normalize
from cep_pipeline.patterns.pattern import Consume, Pattern, once_a_pattern
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator, Structure
from cep_pipeline.slices.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.slices.order import instants_of
from cep_pipeline.slices.ownership import Finality
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import may_match

_search = NativeKernel(
    "cep_pipeline.detection.preferred.kernels",
    "search",
    ("int64*",),
    sources=(*KERNEL_SOURCES, "cep_pipeline.detection.preferred.words", "cep_pipeline.detection.nfab.words"),
)
ELEMENTS_AT_ONCE = 1 << 18
"""Events of matches that are written before they are handed on."""


def is_searched(pattern: Pattern) -> bool:
    """Return whether the preferred matches of a pattern are found by a search: of lists, or of several clauses."""
    if not pattern.output.is_preferred or pattern.strategy.skips or any(one.negated for one in pattern.operands):
        return False
    return all(map(is_chain, pattern.clauses)) and (
        len(pattern.clauses) > 1 or any(one.kleene for one in pattern.operands)
    )


@dataclass
class _Node:
    """A node of the tree: the variables up to its own, and the choices behind it, as `words.SearchArrays` has them."""

    path: tuple[str, ...] = ()
    following: dict[str, int] = field(default_factory=dict)
    choices: list[int] = field(default_factory=list)


class ChoiceTree:
    """The clauses of a pattern as a tree, with the choices behind each variable in the order in which they are tried.

    A choice is one more event for a list, the next variable, or the end of the match. That a list takes one more stands
    before all others, and behind them if its quantifier is reluctant. The others stand in the order in which the walk
    through PATTERN prefers the clauses that they lead to. Clauses of the same variables have the same matches: of them
    the preferred one is in the tree.

    Attributes
    ----------
    clause
        A clause with the variables and conjuncts of all, one variable behind the other.
    groups
        The groups of conjuncts that the nodes ask for.
    nodes, choices
        The words of the kernel: int64, shape (nodes, NODE_WORDS), the first one the root; int32.
    first
        The slots of the variables that a match may begin with.
    """

    def __init__(self, pattern: Pattern) -> None:
        bound = tuple(replace(one, optional=False, reluctant=False) for one in pattern.operands)
        [self.clause] = normalize(Composite(Operator.SEQ, bound), pattern.condition, pattern.partition_by)
        self.groups = ConditionGroups(conditions_of(pattern, self.clause))
        tree = [_Node()]
        self._reluctant = {one.variable for one in pattern.operands if one.reluctant}
        for clause in _from_preferred(pattern):
            node = tree[0]
            for variable in clause.positive:
                if variable.name not in node.following:
                    node.following[variable.name] = len(tree)
                    node.choices.append(len(tree))
                    tree.append(_Node((*node.path, variable.name)))
                node = tree[node.following[variable.name]]
            if not any(choice <= at.FINISHING for choice in node.choices):
                node.choices.append(at.FINISHING - clause.index)
        words, choices = [], list[int]()
        for node in tree:
            own = self._choices(node)
            words.append([*self._words(node.path), len(choices), len(choices) + len(own)])
            choices += own
        self.nodes, self.choices = np.array(words, np.int64), np.array(choices, np.int32)
        self.first = [self.groups.conditions.slots[name] for name in tree[0].following]

    def _choices(self, node: _Node) -> list[int]:
        if not node.path or not self.clause.by_name[node.path[-1]].kleene:
            return node.choices
        reluctant = node.path[-1] in self._reluctant
        return [*node.choices, at.TAKING] if reluctant else [at.TAKING, *node.choices]

    def _words(self, path: tuple[str, ...]) -> list[int]:
        """The words of a node but for its choices."""
        if not path:
            return [0, 0, -1, -1, -1]
        *before, name = path
        groups, variable = self.groups, self.clause.by_name[name]
        known = Moment(frozenset(before), frozenset(before))
        asked = [groups.first_group(name, known), -1, -1]
        if variable.kleene:
            growing = Moment(frozenset(path), known.complete)
            asked[1:] = groups.element_group(name, growing), groups.left_group(growing, (name,))
        asked = [-1 if group >= 0 and groups.is_empty(group) else group for group in asked]
        most = (variable.maximum or np.iinfo(np.int64).max) if variable.kleene else 0
        return [groups.conditions.slots[name], most, *asked]


tree_of = once_a_pattern(ChoiceTree)
"""The tree of a pattern, made once."""


def _from_preferred(pattern: Pattern) -> list[Clause]:
    """The clauses of a pattern, the preferred ones first."""
    chosen = choices_of(pattern)

    def met(structure: Structure, clause: Clause) -> Iterator[int]:
        if isinstance(structure, EventOperand):
            if structure.optional:
                yield int((structure.variable in clause.by_name) == structure.reluctant)
        elif isinstance(structure, Composite) and structure.operator is Operator.OR:
            place = chosen[clause.index][id(structure)]
            yield place
            yield from met(structure.operands[place], clause)
        elif isinstance(structure, Composite):
            for operand in structure.operands:
                yield from met(operand, clause)

    return sorted(pattern.clauses, key=lambda clause: list(met(pattern.structure, clause)))


class PreferredSearch:
    """The preferred matches of a pattern over one slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    pattern, events, owned
        A pattern for which `is_searched` is true, and the slice.
    options
        With `PRUNE` the starts that a match holds are passed over, where no match that overlaps it would be kept.
    """

    def __init__(self, pattern: Pattern, events: PreparedEvents, owned: Owned, options: frozenset[str]) -> None:
        self.pattern, self.events, self.owned, self.tree = pattern, events, owned, tree_of(pattern)
        self.of = ClauseSlice(pattern, self.tree.clause, events, owned, Finality.WINDOW_END)
        self.program = Program(pattern, self.tree.clause, events, groups=self.tree.groups)
        self.control = np.zeros(at.SEARCH_WORDS, np.int64)
        self.control[at.S_DEPTH] = -1
        self.prunes = PRUNE in options and owned == EVERYTHING and pattern.output.is_apart
        self.prunes &= pattern.consume is Consume.NONE and set(self.tree.clause.agree_on) == set(pattern.partition_by)

    def __iter__(self) -> Iterator[Block]:
        if not any(may_match(self.pattern, clause, self.events) for clause in self.pattern.clauses):
            return
        alone = any(len(clause.positive) == 1 for clause in self.pattern.clauses)
        sequence = sequence_of(self.pattern, self.tree.clause, self.events, self.program.fits, alone=alone)
        beginning = sequence.fits[self.tree.first].max(axis=0).view(np.bool_)
        starts = sequence.starts(self.of, beginning)
        places = len(sequence.view)
        slots, frames = np.zeros(len(self.tree.clause.positive), np.int32), np.zeros((2, places + 2), np.int32)
        program, ring, capacity = self.program.kernel_words(), self.program.ring(), ELEMENTS_AT_ONCE
        wanted = at.CELLS_FULL
        while wanted != at.DONE:
            out_rows, out_slots = np.empty((2, capacity), np.int32)
            out_offsets, out_clauses = np.zeros(capacity + 1, np.int64), np.empty(capacity, np.int32)
            machine = at.SearchArrays(
                control=self.control,
                options=sequence.options | PRUNING * self.prunes,
                width=instants_of(self.pattern, self.events).width,
                size=places,
                end_row=self.of.end_row,
                starts=starts,
                number_of_starts=len(starts),
                rows=sequence.view.rows,
                clocks=sequence.clocks,
                instants=sequence.instants,
                keys=sequence.keys,
                fits=sequence.fits,
                ends=sequence.ends,
                nodes=self.tree.nodes,
                choices=self.tree.choices,
                slots=slots,
                frame_nodes=frames[0],
                frame_tried=frames[1],
                out_rows=out_rows,
                out_slots=out_slots,
                out_capacity=capacity,
                out_offsets=out_offsets,
                out_clauses=out_clauses,
                out_matches=capacity,
            )
            go_on()
            wanted = _search(np.array([*words_of(*machine), *ring.kernel_words(), *program], np.int64))
            matches, written = self.control[at.S_MATCHES :].tolist()
            if wanted == at.CELLS_FULL:
                ring.grow()
            elif wanted == at.OUTPUT_FULL and not matches:
                capacity *= 2
            yield from self._blocks(out_offsets[: matches + 1], out_rows[:written], out_slots[:written], out_clauses)
            self.control[at.S_MATCHES :] = 0

    def count(self, counters: Counters) -> None:
        """Add what the search did."""
        counters.condition_evaluations += self.program.evaluations + self.program.unary_evaluations
        started, read = self.control[[at.S_STARTED, at.S_READ]].tolist()
        counters.count_runs(self.pattern.name, RunCounts(started=started, read=read))

    def _blocks(self, offsets: Array, rows: Array, slots: Array, clauses: Array) -> Iterator[Block]:
        """The matches that the slice owns, clause by clause."""
        of_matches, slots_of = clauses[: len(offsets) - 1], self.tree.groups.conditions.slots
        found = ListBlock(self.tree.clause, offsets, rows, slots)
        for number in np.unique(of_matches):
            clause, own = self.pattern.clauses[number], found.take(of_matches == number)
            if self.owned != EVERYTHING:
                own = own.take(self.of.owns(own.first_rows(), own.last_rows()))
            if not any(variable.kleene for variable in clause.positive):
                yield MatchBlock(clause, np.ascontiguousarray(own.rows.reshape(-1, len(clause.positive)).T))
                continue
            places = np.zeros(len(slots_of), np.int32)
            places[[slots_of[variable.name] for variable in clause.positive]] = np.arange(len(clause.positive))
            yield ListBlock(clause, own.offsets, own.rows, places[own.variables])
