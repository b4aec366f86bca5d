"""Questions that whole matches are asked: the matches of many patterns at once.

Most rules of a clause are decided while its events are bound. What is left is asked of whole matches: conditions on
whole lists, events of negated variables beside lists, and negated composites. A question takes some tens of vector
operations, however few matches there are. So patterns whose clauses differ in nothing that is asked, or in numbers that
conditions compare with alone, are asked together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cep_pipeline.detection.kleene.bindings import BindingRules, Bindings, rejected_by_events
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.negated_structures import (
    JoinedClause,
    rejected_by_bindings,
    rejected_by_structures,
    structure_checks,
)
from cep_pipeline.expressions.columns import Array, ColumnSource
from cep_pipeline.expressions.evaluate import WithNumbers
from cep_pipeline.expressions.lists import Lists, holds_over_lists, pieces
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Literal
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.rewriting import NUMBERS, without_numbers
from cep_pipeline.slices.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.slices.prepared import PreparedEvents

EVENTS_AT_ONCE = 1 << 18
"""Events of matches that are asked together, unless those of one pattern are more."""


@dataclass(frozen=True, eq=False)
class Questions:
    """The questions that whole matches of a clause are asked.

    Attributes
    ----------
    pattern, clause
        The clause of a pattern.
    conditions
        The conditions on whole lists.
    joined
        For each clause of its negated structures that clause beside its own, where the bindings are found like matches.
    """

    pattern: Pattern
    clause: Clause
    conditions: tuple[Conjunct, ...]
    joined: tuple[JoinedClause, ...] = ()

    @cached_property
    def key(self) -> Hashable:
        """Equal for questions that are asked together."""
        clause = self.clause
        bound = tuple((variable.name, variable.kleene) for variable in clause.positive)
        about = bound, self._lifted[0], tuple(one.type for one in self.numbers)
        if not (self.asks_of_events or clause.negated_structures):
            return about
        if not self.asks_of_events and self.joined:
            return about, self._of_pattern, tuple(one.alike for one in self.joined)
        return about, self.rules

    @property
    def rules(self) -> Hashable:
        """Equal for questions that ask alike of events."""
        clause, negated = self.clause, {variable.name for variable in self.clause.negated}
        rules = clause.positive, clause.negated, clause.precedence, clause.agree_on, clause.negated_structures
        asking = tuple(conjunct for conjunct in clause.conjuncts if not negated.isdisjoint(conjunct.variables))
        return rules, self._of_pattern, asking

    @property
    def _of_pattern(self) -> Hashable:
        pattern = self.pattern
        return pattern.window, pattern.ties, pattern.partition_by, pattern.type_attribute, pattern.base_type

    @property
    def asks_of_events(self) -> bool:
        """True if an event of a negated variable may reject a match: where all bind single events, none is left."""
        return bool(self.clause.negated) and any(variable.kleene for variable in self.clause.positive)

    @property
    def lifted(self) -> tuple[Conjunct, ...]:
        """The conditions with references to the numbers in their place."""
        return self._lifted[0]

    @property
    def numbers(self) -> tuple[Literal, ...]:
        """The numbers in the conditions."""
        return self._lifted[1]

    @cached_property
    def _lifted(self) -> tuple[tuple[Conjunct, ...], tuple[Literal, ...]]:
        return without_numbers(self.conditions)


class AskedRun(NamedTuple):
    """The questions that a run asks of its matches.

    Attributes
    ----------
    bindings
        All bindings of its negated structures, int32 rows for each of `questions.joined`; None: they are not found yet.
    """

    questions: Questions
    bindings: Sequence[Array] | None = None


def that_hold(
    asked: Sequence[AskedRun], blocks: Sequence[Block], events: PreparedEvents, *, counted: bool = False
) -> tuple[list[Block], list[int]]:
    """The matches that pass, and how many matches fulfil the conditions on lists.

    Parameters
    ----------
    asked
        Questions with one key.
    blocks
        Matches, one block for each of them, all of fixed width or all of variable width.
    counted
        Whether only the number of the matches that pass is wanted: then it is the second result, and the first one is
        as it was given.
    """
    found, fulfil = list(blocks), [0] * len(blocks)
    some = [place for place, block in enumerate(blocks) if len(block)]
    for start, stop in pieces(np.array([blocks[place].rows.size for place in some], np.int64), EVENTS_AT_ONCE):
        go_on()
        part = some[start:stop]
        own = [asked[place] for place in part], [blocks[place] for place in part]
        kept, counts = _that_hold(*own, events, counted=counted)
        for place, block, count in zip(part, kept, counts, strict=True):
            found[place], fulfil[place] = block, count
    return found, fulfil


def _that_hold(
    asked: Sequence[AskedRun], blocks: Sequence[Block], events: PreparedEvents, *, counted: bool
) -> tuple[Sequence[Block], list[int]]:
    of = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    together = _joined(blocks)
    first = asked[0].questions
    bound = events_of(together) if first.conditions or first.asks_of_events else {}
    keep = _fulfils([one.questions for one in asked], together, bound, of, events)
    fulfil = np.bincount(of[keep], minlength=len(blocks)).tolist()
    if first.asks_of_events and keep.any():
        places = np.flatnonzero(keep)
        found = Bindings(bound, together.first_rows(), together.last_rows()).take(places)
        keep[places] = ~rejected_by_events(BindingRules(first.pattern, first.clause, events), found)
    if first.clause.negated_structures and keep.any():
        left = ~_rejected(asked, together.take(keep), of if keep.all() else of[keep], events)
        if keep.all():
            keep = left
        else:
            keep[keep] = left
    counts = np.bincount(of[keep], minlength=len(blocks))
    if counted:
        return blocks, counts.tolist()
    if keep.all():
        return blocks, fulfil
    return _parted(together.take(keep), counts, [block.clause for block in blocks]), fulfil


def _fulfils(
    asked: Sequence[Questions], block: Block, bound: Mapping[str, Array | Lists], of: Array, events: PreparedEvents
) -> Array:
    """bool: the matches that fulfil the conditions on lists; `of` is the number of each match's questions."""
    keep = np.ones(len(block), np.bool_)
    source: ColumnSource = WithNumbers(events, [one.numbers for one in asked]) if asked[0].numbers else events
    for conjunct in asked[0].lifted:
        keep &= holds_over_lists(conjunct, source, {**bound, NUMBERS: of}, len(block))
    return keep


def _rejected(asked: Sequence[AskedRun], block: Block, of: Array, events: PreparedEvents) -> Array:
    """bool: the matches that a negated composite or list rejects; `of` is the number of each match's questions."""
    known = [number for number, one in enumerate(asked) if one.bindings is not None]
    if len(known) == len(asked):
        return _rejected_by_bindings(asked, block, of, events)
    rejected = np.zeros(len(block), np.bool_)
    some = np.isin(of, known)
    if some.any():
        own = np.searchsorted(known, of[some])
        rejected[some] = _rejected_by_bindings([asked[number] for number in known], block.take(some), own, events)
    alike: dict[Hashable, list[int]] = {}
    for number, one in enumerate(asked):
        if one.bindings is None:
            alike.setdefault(one.questions.rules, []).append(number)
    for members in alike.values():
        some = np.isin(of, members)
        if some.any():
            first = asked[members[0]].questions
            rejected[some] = rejected_by_structures(
                structure_checks(first.pattern, first.clause, events), block.take(some)
            )
    return rejected


def _rejected_by_bindings(asked: Sequence[AskedRun], block: Block, of: Array, events: PreparedEvents) -> Array:
    """The same where the bindings of all are found."""
    first, rejected = asked[0].questions, np.zeros(len(block), np.bool_)
    for place in range(len(first.joined)):
        joined = [one.questions.joined[place] for one in asked]
        bindings = [one.bindings[place] for one in asked if one.bindings is not None]
        rejected |= rejected_by_bindings(first.pattern, joined, bindings, block, of, events)
    return rejected


def events_of(block: Block) -> dict[str, Array | Lists]:
    """The event, or the list of events, that each variable binds in each match."""
    positive = block.clause.positive
    if isinstance(block, MatchBlock):
        return {variable.name: rows for variable, rows in zip(positive, block.rows, strict=True)}
    starts, ends = block.offsets[:-1], block.offsets[1:]
    behind = len(positive)
    bound: dict[str, Array | Lists] = {}
    for place, variable in enumerate(positive):
        behind -= 1
        if not variable.kleene:
            bound[variable.name] = block.rows[starts]
            starts = starts + 1
            continue
        if any(one.kleene for one in positive[place + 1 :]):
            lengths = np.add.reduceat(block.variables == place, block.offsets[:-1], dtype=np.int64)
        else:  # all that is left is single events
            lengths = ends - starts - behind
        bound[variable.name] = Lists(starts, lengths, block.rows)
        starts = starts + lengths
    return bound


def _joined(blocks: Sequence[Block]) -> Block:
    """The matches of blocks of one kind, one after another, as those of the first one's clause."""
    if len(blocks) == 1:
        return blocks[0]
    singles = [block for block in blocks if isinstance(block, MatchBlock)]
    if singles:
        return MatchBlock(singles[0].clause, np.concatenate([block.rows for block in singles], axis=1))
    lists = [block for block in blocks if isinstance(block, ListBlock)]
    before = np.cumsum([0, *(len(block.rows) for block in lists)])
    ends = np.concatenate([block.offsets[1:] for block in lists])
    offsets = np.append(0, ends + np.repeat(before[:-1], [len(block) for block in lists]))
    rows, variables = ([getattr(block, name) for block in lists] for name in ("rows", "variables"))
    return ListBlock(lists[0].clause, offsets, np.concatenate(rows), np.concatenate(variables))


def _parted(block: Block, counts: Array, clauses: Sequence[Clause]) -> list[Block]:
    """The first matches as those of one clause, the next ones as those of the next clause, and so on."""
    stops = np.cumsum(counts).tolist()
    spans = zip([0, *stops[:-1]], stops, clauses, strict=True)
    if isinstance(block, MatchBlock):
        return [MatchBlock(clause, block.rows[:, start:stop]) for start, stop, clause in spans]
    found: list[Block] = []
    for start, stop, clause in spans:
        first, end = int(block.offsets[start]), int(block.offsets[stop])
        offsets = block.offsets[start : stop + 1] - first
        found.append(ListBlock(clause, offsets, block.rows[first:end], block.variables[first:end]))
    return found
