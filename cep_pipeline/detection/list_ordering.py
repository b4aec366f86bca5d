"""The page's order of matches of variable width: by the last event, the list of seqs, the variables' positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.slices.blocks import Block, ListBlock

_KEY_BITS = 32


@dataclass(frozen=True, eq=False)
class OrderedLists:
    """Distinct matches of one pattern with Kleene variables, in the page's order.

    Attributes
    ----------
    names
        The variables of all clauses with matches, in pattern order.
    offsets
        int64, shape (n + 1,): match m binds the elements from `offsets[m]` to `offsets[m + 1]`.
    bound_rows, variables
        int32, shape (elements,): each element's event, and its variable as an index into `names`.
    """

    names: tuple[str, ...]
    offsets: Array
    bound_rows: Array
    variables: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def between(self, start: int, stop: int) -> OrderedLists:
        """The matches from `start` up to `stop`."""
        part = slice(int(self.offsets[start]), int(self.offsets[stop]))
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        return OrderedLists(self.names, offsets, self.bound_rows[part], self.variables[part])

    def where(self, keep: Array) -> OrderedLists:
        """The matches at which `keep` (bool, shape (n,)) is true."""
        return _taken(self, np.flatnonzero(keep))

    def elements(self) -> tuple[Array, Array, Array]:
        """All bindings one after another: offsets, rows and variables, as the attributes describe them."""
        return self.offsets, self.bound_rows, self.variables

    def spans_of(self, variable: str) -> tuple[Array, Array]:
        """Where the list of a variable stands: its starts in `bound_rows`, int64, and its lengths, 0 if not bound."""
        number = self.names.index(variable)
        owner = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.offsets))
        lengths = np.bincount(owner[self.variables == number], minlength=len(self))
        ahead = np.bincount(owner[self.variables < number], minlength=len(self))
        return self.offsets[:-1] + ahead, lengths.astype(np.int64)

    def first_rows(self) -> Array:
        """Each match's first event in the stream."""
        return np.minimum.reduceat(self.bound_rows, self.offsets[:-1]) if len(self) else self.bound_rows[:0]

    def last_rows(self) -> Array:
        """Each match's last event in the stream."""
        return np.maximum.reduceat(self.bound_rows, self.offsets[:-1]) if len(self) else self.bound_rows[:0]


def order_lists(blocks: Sequence[Block], seqs: Array) -> OrderedLists:
    """Bring all matches of a pattern over one slice into the page's order, equal bindings once.

    Parameters
    ----------
    blocks
        Blocks of one or more clauses of one pattern.
    seqs
        The seq of each event, int64, in stream order.

    Notes
    -----
    As `in_order`.
    """
    lists = [block if isinstance(block, ListBlock) else ListBlock.of(block) for block in blocks]
    position = {variable.name: variable.position for block in lists for variable in block.clause.positive}
    names = tuple(sorted(position, key=position.__getitem__))
    numbers = [np.array([names.index(v.name) for v in block.clause.positive], np.int32) for block in lists]
    variables = np.concatenate([number[block.variables] for number, block in zip(numbers, lists, strict=True)])
    rows = np.concatenate([block.rows for block in lists])
    lengths = np.concatenate([np.diff(block.offsets) for block in lists])
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return in_order(OrderedLists(names, offsets, rows, variables), seqs)


def in_order(found: OrderedLists, seqs: Array) -> OrderedLists:
    """Matches in any order brought into the page's order, equal ones once.

    Parameters
    ----------
    found
        Matches of one pattern; their `names` are in pattern order.
    seqs
        The seq of each event, int64, in stream order.

    Notes
    -----
    Matches that agree on all elements so far are told apart by their next one: the time is that of one sort for each
    length that such matches have.
    """
    offsets, rows, variables = found.elements()
    place = np.empty(len(seqs), np.int64)
    place[np.argsort(seqs, kind="stable")] = np.arange(len(seqs))
    order, group = _page_order(offsets, found.last_rows().astype(np.int64), place[rows], variables)
    kept = np.ones(len(order), dtype=bool)
    kept[1:] = group[order][1:] != group[order][:-1]
    return _taken(found, order[kept])


def page_order(offsets: Array, seqs: Array, variables: Array) -> Array:
    """The order in which matches stand on the page, where seq grows with the stream.

    Parameters
    ----------
    offsets
        int64, shape (n + 1,): match m has the elements from `offsets[m]` to `offsets[m + 1]`.
    seqs, variables
        int64, shape (elements,): the seq of each element, and the position of its variable in the pattern.

    Returns
    -------
    Array
        int64, shape (n,): the matches' numbers, in order.
    """
    if len(offsets) < 2:
        return np.zeros(0, np.int64)
    ranks = np.unique(seqs, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return _page_order(offsets, np.maximum.reduceat(ranks, offsets[:-1]), ranks, variables)[0]


def _page_order(offsets: Array, last: Array, ranks: Array, variables: Array) -> tuple[Array, Array]:
    """The matches in order, and for each the number of matches before its like."""
    group = np.zeros(len(offsets) - 1, np.int64)
    tied = _refine(group, np.arange(len(group)), last)
    for keys in (ranks, variables):
        tied = _refine_by_elements(group, tied, keys, offsets)
    return np.argsort(group, kind="stable"), group


def _refine(group: Array, members: Array, key: Array) -> Array:
    """Order the members of each group by a key; a group's number is the number of matches before it.

    Returns
    -------
    Array
        The members that are still in a group with others.
    """
    word = (group[members] << _KEY_BITS) | key
    order = np.argsort(word, kind="stable")
    word, members = word[order], members[order]
    begins = np.ones(len(word), dtype=bool)
    begins[1:] = word[1:] != word[:-1]
    old = group[members]
    first_of_old = np.ones(len(word), dtype=bool)
    first_of_old[1:] = old[1:] != old[:-1]
    at = np.arange(len(word))
    run = np.maximum.accumulate(np.where(begins, at, 0))
    old_run = np.maximum.accumulate(np.where(first_of_old, at, 0))
    group[members] = old + run - old_run
    alone = begins.copy()
    alone[:-1] &= begins[1:]
    tied: Array = members[~alone]
    return tied


def _refine_by_elements(group: Array, members: Array, keys: Array, offsets: Array) -> Array:
    """Order the members of each group by their lists of keys, a list before the longer ones that begin with it."""
    finished = []
    step = 0
    while len(members):
        at = offsets[members] + step
        present = at < offsets[members + 1]
        key = np.zeros(len(members), np.int64)
        key[present] = keys[at[present]] + 1
        members = _refine(group, members, key)
        ended = offsets[members] + step >= offsets[members + 1]
        finished.append(members[ended])
        members = members[~ended]
        step += 1
    return np.concatenate([members, *finished])


def _taken(lists: OrderedLists, order: Array) -> OrderedLists:
    lengths = np.diff(lists.offsets)[order]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    elements = np.repeat(lists.offsets[order] - offsets[:-1], lengths) + np.arange(int(offsets[-1]))
    return OrderedLists(lists.names, offsets, lists.bound_rows[elements], lists.variables[elements])
