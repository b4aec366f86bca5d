"""Blocks of matches, of fixed and of variable width: what a mechanism hands to everything behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause


@dataclass(frozen=True, eq=False)
class MatchBlock:
    """Matches of one clause whose positive variables each bind one event.

    Attributes
    ----------
    clause
        The clause that the matches satisfy.
    rows
        int32, shape (k, n): row i holds the events of the clause's i-th positive variable, in pattern order, as row
        indices into the events table; column m is one match. The matches of a block are in no particular order.
    """

    clause: Clause
    rows: Array

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.shape[0] != len(self.clause.positive) or self.rows.dtype != np.int32:
            raise ValueError(
                f"a block of clause {self.clause.index} needs int32 rows of shape ({len(self.clause.positive)}, n), "
                f"not {self.rows.dtype} of shape {self.rows.shape}"
            )

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    def take(self, keep: Array) -> MatchBlock:
        """The matches where `keep`, bool of shape (n,), is true."""
        return self if keep.all() else MatchBlock(self.clause, self.rows.take(keep.nonzero()[0], axis=1))

    def first_rows(self) -> Array:
        """The row of each match's first event."""
        return np.asarray(self.rows.min(axis=0)) if len(self) else np.zeros(0, np.int32)

    def last_rows(self) -> Array:
        """The row of each match's last event."""
        return np.asarray(self.rows.max(axis=0)) if len(self) else np.zeros(0, np.int32)

    def rows_of(self, variable: str) -> Array:
        """The events that `variable` binds, int32 of shape (n,)."""
        for position, positive in enumerate(self.clause.positive):
            if positive.name == variable:
                rows: Array = self.rows[position]
                return rows
        raise KeyError(variable)


@dataclass(frozen=True, eq=False)
class ListBlock:
    """Matches of one clause with Kleene variables, each of which binds a list of events.

    Attributes
    ----------
    clause
        The clause that the matches satisfy.
    offsets
        int64, shape (n + 1,): match m binds the elements from `offsets[m]` to `offsets[m + 1]`.
    rows, variables
        int32, shape (elements,): each element's row in the events table, and its variable as an index into
        `clause.positive`. Variables are in pattern order, the elements of one in stream order.
    """

    clause: Clause
    offsets: Array
    rows: Array
    variables: Array

    def __post_init__(self) -> None:
        if len(self.offsets) == 0 or int(self.offsets[-1]) != len(self.rows) or len(self.rows) != len(self.variables):
            raise ValueError(
                f"a block of clause {self.clause.index} needs offsets up to its {len(self.rows)} rows and as many "
                f"variables, not {len(self.variables)}"
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, keep: Array) -> ListBlock:
        """The matches where `keep`, bool of shape (n,), is true."""
        if keep.all():
            return self
        sizes = np.diff(self.offsets)
        elements = np.repeat(keep, sizes)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes[keep])))
        return ListBlock(self.clause, offsets, self.rows[elements], self.variables[elements])

    def first_rows(self) -> Array:
        """The row of each match's first event."""
        return np.asarray(np.minimum.reduceat(self.rows, self.offsets[:-1])) if len(self) else np.zeros(0, np.int32)

    def last_rows(self) -> Array:
        """The row of each match's last event."""
        return np.asarray(np.maximum.reduceat(self.rows, self.offsets[:-1])) if len(self) else np.zeros(0, np.int32)

    @classmethod
    def of(cls, block: MatchBlock) -> ListBlock:
        """Matches of fixed width in this form."""
        width, count = block.rows.shape
        offsets = np.arange(count + 1, dtype=np.int64) * width
        variables = np.tile(np.arange(width, dtype=np.int32), count)
        return cls(block.clause, offsets, np.ascontiguousarray(block.rows.T).reshape(-1), variables)


Block = MatchBlock | ListBlock


def without_earlier(run: Iterable[Block], others: Sequence[Iterable[Block]]) -> Iterator[Block]:
    """The blocks of a run without the bindings that other clauses match.

    Parameters
    ----------
    others
        Runs of clauses with the same positive variables over the same slice, as if their matches were final when those
        of this run are. Their matches are held.
    """
    known = {binding for other in others for block in other for binding in _bindings(block)}
    for block in run:
        if not known:
            yield block
            continue
        kept = np.array([binding not in known for binding in _bindings(block)], dtype=bool)
        if kept.any():
            yield block.take(kept)


def _bindings(block: Block) -> Iterator[bytes]:
    """Bytes that tell the matches of a block from others of the same positive variables."""
    if isinstance(block, MatchBlock):
        yield from (match.tobytes() for match in np.ascontiguousarray(block.rows.T))
        return
    for start, end in zip(block.offsets[:-1].tolist(), block.offsets[1:].tolist(), strict=True):
        yield block.rows[start:end].tobytes() + block.variables[start:end].tobytes()
