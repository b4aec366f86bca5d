"""The page's order of matches: by the last event, then by the list of seqs, then by the variables' positions.

Rows of the events table are in stream order, so a match is ordered by integers. Relative to its last event, a match
spans few rows: its whole order mostly fits one 64-bit integer, and sorting the integers sorts the matches.

`OrderedMatches` are matches of the same single events; `OrderedLists` are matches of variable width.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.expressions.columns import Array
from cep_pipeline.slices.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.slices.routines import room_for

_AT_ONCE = 1 << 14
"""Matches that are written as integers in one go, while a processor's cache holds them."""

_KERNELS = "cep_pipeline.detection.match_kernels"
_take_lists = NativeKernel(
    _KERNELS,
    "take_lists",
    ("int64", "int64*", "int64*", "int32*", "int32*", "int64*", "int32*", "int32*"),
)
_are_in_order = NativeKernel(
    _KERNELS,
    "are_in_order",
    ("int64", "int64*", *("int32*",) * 3, "int64*"),
)
_order_lists = NativeKernel(
    _KERNELS,
    "order_lists",
    ("int64", "int64*", "int64*", "int32*", "int32*", "int64", "int64", *("int64*",) * 3, "int64"),
)


@dataclass(frozen=True, eq=False)
class OrderedMatches:
    """Distinct matches of single events in the page's order, of clauses that bind the same variables.

    Attributes
    ----------
    names
        The variables.
    rows
        int32, shape (variables, n): row numbers of the events.
    """

    names: tuple[str, ...]
    rows: Array

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    def between(self, start: int, stop: int) -> OrderedMatches:
        """The matches from `start` up to `stop`, without copying."""
        return OrderedMatches(self.names, self.rows[:, start:stop])

    def where(self, keep: Array) -> OrderedMatches:
        """The matches at which `keep` (bool, shape (n,)) is true."""
        return OrderedMatches(self.names, self.rows[:, keep])

    def elements(self) -> tuple[Array, Array, Array]:
        """All bindings one after another.

        Returns
        -------
        offsets
            int64, shape (n + 1,): match m has the elements from `offsets[m]` to `offsets[m + 1]`.
        rows, variables
            int32, shape (elements,): each element's event, and its variable as an index into `names`.
        """
        width, count = self.rows.shape
        offsets = np.arange(0, width * count + 1, max(width, 1), dtype=np.int64)
        variables = np.tile(np.arange(width, dtype=np.int32), count)
        return offsets, np.ascontiguousarray(self.rows.T).reshape(-1), variables

    def first_rows(self) -> Array:
        """Each match's first event in the stream."""
        first: Array = self.rows.min(axis=0)
        return first

    def last_rows(self) -> Array:
        """Each match's last event in the stream."""
        last: Array = self.rows.max(axis=0)
        return last


def order_matches(
    blocks: Iterable[Block], seqs: Array, *, growing: bool | None = None
) -> OrderedMatches | OrderedLists:
    """Bring all matches of a pattern over one slice into the page's order, equal bindings once.

    Parameters
    ----------
    blocks
        Blocks of one or more clauses of one pattern, at least one block. Where one is of variable width, or clauses
        bind different variables, the result is of variable width.
    seqs
        The seq of each event, int64, in stream order.
    growing
        Whether seqs grow with time; None: they are looked at.

    Notes
    -----
    Time O(n) where one integer holds a match, else that of `in_order`.
    """
    blocks = list(blocks)
    fixed = [block for block in blocks if not isinstance(block, ListBlock)]
    if len(fixed) < len(blocks) or len({block.clause.positive for block in fixed}) > 1:
        return order_lists(blocks, seqs)
    names, rows = tuple(variable.name for variable in fixed[0].clause.positive), _joined(fixed)
    if len({block.clause.index for block in fixed}) == 1 and (
        (seqs[1:] > seqs[:-1]).all() if growing is None else growing
    ):
        near = _sorted_rows(rows)
        if near is not None:
            return OrderedMatches(names, near)
    found = OrderedMatches(names, rows)
    offsets, bound, variables = found.elements()
    order = _page_order(offsets, bound, _seq_order(bound, seqs), variables, distinct=True)
    return found if order is None else OrderedMatches(names, np.stack([row[order] for row in rows]))


def _joined(blocks: list[MatchBlock]) -> Array:
    """The rows of all blocks side by side."""
    if len(blocks) == 1:
        return blocks[0].rows
    width = len(blocks[0].rows)
    rows = room_for(width * sum(map(len, blocks)), np.int32).reshape(width, -1)
    return np.concatenate([block.rows for block in blocks], axis=1, out=rows)


def _sorted_rows(rows: Array) -> Array | None:
    """The matches in order, if one integer holds a match: its last row, then the distance of each row from that."""
    count = rows.shape[1]
    if count == 0 or len(rows) == 0:
        return rows
    last = rows.max(axis=0)
    first, lows = int(last.min()), (rows - last).min(axis=1, keepdims=True)
    bits = [int(-low).bit_length() for low in lows.flat]
    if (int(last.max()) - first).bit_length() + sum(bits) > 63:
        return None
    sizes = np.array(bits, np.int64).reshape(-1, 1)
    shifts, masks = sum(bits) - np.cumsum(sizes, axis=0), (1 << sizes) - 1
    words, ordered = room_for(count, np.int64), room_for(rows.size, np.int32).reshape(rows.shape)
    parts = [slice(begin, begin + _AT_ONCE) for begin in range(0, count, _AT_ONCE)]
    for part in parts:
        apart = (rows[:, part] - (last[part] + lows)).astype(np.int64)
        words[part] = (last[part].astype(np.int64) - first << sum(bits)) + (apart << shifts).sum(axis=0)
    if (words[1:] >= words[:-1]).all():
        return rows
    words.sort()
    for part in parts:
        ends = (words[part] >> sum(bits)) + first
        ordered[:, part] = (words[part] >> shifts & masks) + (ends + lows)
    return ordered


@dataclass(frozen=True, eq=False)
class OrderedLists:
    """Distinct matches of one pattern of any width, in the page's order.

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

    @cached_property
    def _owners(self) -> Array:
        """int64, shape (elements,): the match of each element."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.offsets))

    def spans_of(self, variable: str) -> tuple[Array, Array]:
        """The spans of a variable's lists: their starts in `bound_rows`, int64, and their lengths, 0 if not bound."""
        number = self.names.index(variable)
        owner = self._owners
        lengths = np.bincount(owner[self.variables == number], minlength=len(self))
        ahead = np.bincount(owner[self.variables < number], minlength=len(self))
        return self.offsets[:-1] + ahead, lengths.astype(np.int64)

    def first_rows(self) -> Array:
        """Each match's first event in the stream."""
        return np.minimum.reduceat(self.bound_rows, self.offsets[:-1]) if len(self) else self.bound_rows[:0]

    def last_rows(self) -> Array:
        """Each match's last event in the stream."""
        return np.maximum.reduceat(self.bound_rows, self.offsets[:-1]) if len(self) else self.bound_rows[:0]


def as_found(block: Block) -> OrderedMatches | OrderedLists:
    """The matches of one block in the order in which they were found, where nobody asks for theirs."""
    if isinstance(block, ListBlock):
        names = tuple(variable.name for variable in block.clause.positive)
        return OrderedLists(names, block.offsets, block.rows, block.variables)
    return OrderedMatches(tuple(variable.name for variable in block.clause.positive), block.rows)


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
    The cost is that of `in_order`.
    """
    return in_order(joined_lists(blocks), seqs)


def joined_lists(blocks: Sequence[Block]) -> OrderedLists:
    """The matches of blocks of one pattern in one, block after block: in no order, and not distinct."""
    lists = [block if isinstance(block, ListBlock) else ListBlock.of(block) for block in blocks]
    position = {variable.name: variable.position for block in lists for variable in block.clause.positive}
    names = tuple(sorted(position, key=position.__getitem__))
    if len(lists) == 1:  # a clause has its variables in pattern order
        return OrderedLists(names, lists[0].offsets, lists[0].rows, lists[0].variables)
    numbers = [np.array([names.index(v.name) for v in block.clause.positive], np.int32) for block in lists]
    own = [
        block.variables if len(number) == len(names) else number[block.variables]
        for number, block in zip(numbers, lists, strict=True)
    ]
    size = sum(len(block.rows) for block in lists)
    variables = np.concatenate(own, out=room_for(size, np.int32))
    rows = np.concatenate([block.rows for block in lists], out=room_for(size, np.int32))
    before = np.cumsum([0, *(len(block.rows) for block in lists)]).tolist()
    ends = [block.offsets[1:] + shift for block, shift in zip(lists, before, strict=False)]
    offsets = np.concatenate([np.zeros(1, np.int64), *ends])
    return OrderedLists(names, offsets, rows, variables)


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
    Time O(n log m) comparisons of lists, where m matches end with the same event.
    """
    offsets, rows, variables = found.elements()
    order = _page_order(offsets, rows, _seq_order(rows, seqs), variables, distinct=True)
    return found if order is None else _taken(found, order)


def _seq_order(rows: Array, seqs: Array) -> Array:
    """Numbers of the events of rows that grow with seq."""
    if (seqs[1:] > seqs[:-1]).all():
        return rows
    place = np.empty(len(seqs), np.int32)
    place[np.argsort(seqs, kind="stable")] = np.arange(len(seqs), dtype=np.int32)
    numbers: Array = place[rows]
    return numbers


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
    ranks = np.unique(seqs, return_inverse=True)[1].reshape(-1).astype(np.int32)
    order = _page_order(offsets, ranks, ranks, variables)
    return np.arange(len(offsets) - 1) if order is None else order


def _page_order(offsets: Array, rows: Array, keys: Array, variables: Array, *, distinct: bool = False) -> Array | None:
    """The matches in order, or None where they are in order, and distinct, as they are.

    The events of `rows` grow with the stream, and the `keys` of them with seq.
    """
    count = len(offsets) - 1
    if count == 0:
        return None
    lasts, offsets = np.empty(count, np.int64), np.ascontiguousarray(offsets, np.int64)
    rows, *compared = _int32(rows, keys, variables)
    if _are_in_order(count, offsets, rows, *compared, lasts):
        return None
    first = int(lasts.min())
    counts = np.zeros(int(lasts.max()) - first + 2, np.int64)
    order, spare = np.empty((2, count), np.int64)
    kept = _order_lists(count, offsets, lasts, *compared, first, len(counts), counts, order, spare, int(distinct))
    return order[:kept]


def _int32(*arrays: Array) -> list[Array]:
    return [np.ascontiguousarray(one, np.int32) for one in arrays]


def _taken(lists: OrderedLists, order: Array) -> OrderedLists:
    count = len(order)
    given = (np.ascontiguousarray(lists.offsets, np.int64), *_int32(lists.bound_rows, lists.variables))
    elements = int(np.diff(given[0])[order].sum())
    offsets, rows, variables = np.empty(count + 1, np.int64), room_for(elements, np.int32), room_for(elements, np.int32)
    order = np.ascontiguousarray(order, np.int64)
    _take_lists(count, order, *given, offsets, rows, variables)
    return OrderedLists(lists.names, offsets, rows, variables)
