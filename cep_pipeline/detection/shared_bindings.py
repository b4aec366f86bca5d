"""Bindings that two clauses of one pattern share are one match, which one slice owns.

Inside one slice equal bindings meet and are told apart where matches are brought into order. Two clauses, though, may
make one binding final at different points: then the slice of the later point must leave it to the earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cep_pipeline.slices.blocks import Block, MatchBlock


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
