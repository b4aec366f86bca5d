"""The page's order of matches: by the last event, then by the list of seqs, then by the variables' positions.

Rows of the events table are in stream order, so a match is ordered by integers. Relative to its last event, a match
spans few rows: its whole order mostly fits one 64-bit integer, and sorting the integers sorts the matches.

`OrderedMatches` are matches of single events; `OrderedLists` are matches of variable width, with Kleene variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Variable
from cep_pipeline.slices.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.slices.routines import room_for

ABSENT = np.int32(-1)
"""The number in place of a row where the form of the match has no such variable."""
_COUNTED = 6 << 11
"""Values that the digits of such a number have."""

_KERNELS = "cep_pipeline.detection.match_kernels"
_order_single_events = NativeKernel(
    _KERNELS,
    "order_single_events",
    ("int64", "int64", "int32*", *("int64*",) * 5, "int32*"),
)
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
    """Distinct matches of one pattern in the page's order.

    Attributes
    ----------
    forms
        The lists of variables that matches bind, in pattern order: one for each different clause.
    form
        Shape (n,): the index of each match's form, or None where there is one form only.
    rows
        int32, shape (k, n), k variables in the longest form: row numbers of the events, in the order of the form's
        variables, then `ABSENT`.
    """

    forms: tuple[tuple[Variable, ...], ...]
    form: Array | None
    rows: Array

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of all forms, each once."""
        return tuple(dict.fromkeys(variable.name for form in self.forms for variable in form))

    def between(self, start: int, stop: int) -> OrderedMatches:
        """The matches from `start` up to `stop`, without copying."""
        form = None if self.form is None else self.form[start:stop]
        return OrderedMatches(self.forms, form, self.rows[:, start:stop])

    def where(self, keep: Array) -> OrderedMatches:
        """The matches at which `keep` (bool, shape (n,)) is true."""
        return OrderedMatches(self.forms, None if self.form is None else self.form[keep], self.rows[:, keep])

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
        number = {name: index for index, name in enumerate(self.names)}
        if self.form is None:
            variables = np.array([number[variable.name] for variable in self.forms[0]], np.int32)
            offsets = np.arange(0, width * count + 1, max(width, 1), dtype=np.int64)
            return offsets, np.ascontiguousarray(self.rows.T).reshape(-1), np.tile(variables, count)
        numbers = np.full((len(self.forms), width), -1, np.int32)
        for index, form in enumerate(self.forms):
            numbers[index, : len(form)] = [number[variable.name] for variable in form]
        lengths = np.array([len(form) for form in self.forms], np.int64)[self.form]
        present = np.ascontiguousarray(self.rows.T).reshape(-1)
        keep = present != ABSENT
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        return offsets, present[keep], numbers[self.form].reshape(-1)[keep]

    def rows_of(self, variable: str) -> tuple[Array, Array | None]:
        """The events that a variable binds, and where it is bound at all (None: everywhere).

        Rows are 0 where the match's form has no such variable.
        """
        named = ([one.name for one in form] for form in self.forms)
        places = np.array([names.index(variable) if variable in names else -1 for names in named], np.int64)
        if self.form is None:
            rows: Array = self.rows[places[0]]
            return rows, None
        place = places[self.form]
        bound = place >= 0
        taken = np.take_along_axis(self.rows, np.maximum(place, 0)[np.newaxis], axis=0)[0]
        return np.where(bound, taken, 0), None if bound.all() else bound

    def first_rows(self) -> Array:
        """Each match's first event in the stream."""
        rows = self.rows
        if self.form is not None:
            rows = np.where(rows == ABSENT, np.int32(np.iinfo(np.int32).max), rows)
        first: Array = rows.min(axis=0)
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
        Blocks of one or more clauses of one pattern, at least one block. Where one is of variable width, the result
        is too.
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
    if len(fixed) < len(blocks):
        return order_lists(blocks, seqs)
    forms, form, rows = _joined(fixed)
    if form is None and ((seqs[1:] > seqs[:-1]).all() if growing is None else growing):
        near = _sorted_rows(rows)
        if near is not None:
            return OrderedMatches(forms, None, near)
    found = OrderedMatches(forms, form if len(forms) > 1 else None, rows)
    offsets, bound, variables = found.elements()
    position = {variable.name: variable.position for form in forms for variable in form}
    positions = np.array([position[name] for name in found.names], np.int32)[variables]
    order = _page_order(offsets, bound, _seq_order(bound, seqs), positions, distinct=True)
    if order is None:
        return found
    of_matches = None if found.form is None else found.form[order]
    return OrderedMatches(forms, of_matches, np.stack([row[order] for row in rows]))


def _joined(blocks: list[MatchBlock]) -> tuple[tuple[tuple[Variable, ...], ...], Array | None, Array]:
    """All blocks side by side, with the index of each match's form; None where all come from one clause."""
    clauses = {block.clause.index: block.clause for block in blocks}
    distinct = {clause.positive for clause in clauses.values()}
    forms = tuple(sorted(distinct, key=lambda variables: [variable.position for variable in variables]))
    if len(clauses) == 1:
        if len(blocks) == 1:
            return forms, None, blocks[0].rows
        rows = room_for(len(blocks[0].rows) * sum(map(len, blocks)), np.int32).reshape(len(blocks[0].rows), -1)
        return forms, None, np.concatenate([block.rows for block in blocks], axis=1, out=rows)
    width = max(map(len, forms))
    rows = np.full((width, sum(map(len, blocks))), ABSENT, np.int32)
    form = np.empty(rows.shape[1], np.int32)
    at = 0
    for block in blocks:
        rows[: len(block.rows), at : at + len(block)] = block.rows
        form[at : at + len(block)] = forms.index(block.clause.positive)
        at += len(block)
    return forms, form, rows


def _sorted_rows(rows: Array) -> Array | None:
    """The matches in order, if one integer holds a match."""
    width, count = rows.shape
    if count == 0 or width == 0:
        return rows
    rows = np.ascontiguousarray(rows)
    ordered = room_for(rows.size, np.int32).reshape(rows.shape)
    words, spare = room_for(count, np.int64), room_for(count, np.int64)
    numbers, counts = np.empty((2, width), np.int64), np.empty(_COUNTED, np.int64)
    found = _order_single_events(width, count, rows, *numbers, counts, words, spare, ordered)
    return None if found < 0 else ordered if found else rows


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
    return OrderedMatches((block.clause.positive,), None, block.rows)


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
    lists = [block if isinstance(block, ListBlock) else ListBlock.of(block) for block in blocks]
    position = {variable.name: variable.position for block in lists for variable in block.clause.positive}
    names = tuple(sorted(position, key=position.__getitem__))
    if len(lists) == 1:  # a clause has its variables in pattern order
        return in_order(OrderedLists(names, lists[0].offsets, lists[0].rows, lists[0].variables), seqs)
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
