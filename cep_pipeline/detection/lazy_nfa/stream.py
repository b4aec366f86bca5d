"""The events that a lazy automaton reads, and the input buffer that it keeps them in."""

from __future__ import annotations

import numpy as np

from cep_pipeline.detection.instances import Program, StreamRules
from cep_pipeline.expressions.columns import Array
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.routines import group_rows


class LazyStream:
    """The events of a slice that fit a positive variable of a clause.

    Parameters
    ----------
    program
        The clause, compiled over the events.
    begin, end
        The rows of the events that are read.

    Attributes
    ----------
    rows, keys
        int32: of each event in stream order its row, and the number of what it agrees with others on.
    fits
        int64: the set of variables that it fits, as bits.
    groups
        How many keys there are.
    buffer
        int32: the rows of the events that fit each variable, sorted by (variable, key, row). What has been read and is
        still in the window of the events to come is the input buffer: of each variable and key a run of places.
    starts
        int32, shape (variables * groups,): where the rows of each variable and key begin.
    """

    def __init__(self, program: Program, begin: int, end: int) -> None:
        width = len(program.clause.positive)
        codes, self.groups = _agreement(program, begin, end)
        known = None if codes is None else codes >= 0
        sets = np.zeros(max(end - begin, 0), np.int64)
        leaves: list[Array] = []
        starts: list[Array] = []
        for slot in range(width):
            own = program.fits[slot, begin:end] != 0
            if known is not None:
                own &= known
            sets |= own.astype(np.int64) << slot
            rows = np.flatnonzero(own).astype(np.int32)
            of_key = np.zeros(1, np.int64)
            if codes is not None:
                order, bounds = group_rows(codes[rows], self.groups)
                rows, of_key = rows[order], bounds[:-1]
            starts.append(of_key + sum(len(leaf) for leaf in leaves))
            leaves.append(rows + np.int32(begin))
        places = np.flatnonzero(sets)
        self.rows: Array = (places + begin).astype(np.int32)
        self.fits: Array = sets[places]
        self.keys: Array = np.zeros(len(places), np.int32) if codes is None else codes[places]
        self.buffer: Array = np.concatenate(leaves)
        self.starts: Array = np.concatenate(starts).astype(np.int32)

    def buffered(self, rules: StreamRules, root: int) -> Array:
        """int32, shape (events + 2,): events that enter the input buffer at each row, less those that leave it there.

        Parameters
        ----------
        root
            The variable whose events are taken when they come, and so are not stored; -1 where there is none.
        """
        kept = self.rows if root < 0 else self.rows[(self.fits & ~np.int64(1 << root)) != 0]
        size = len(rules.events) + 2
        entering = np.bincount(kept, minlength=size)
        leaving = np.bincount(rules.ceiling[kept] + 1, minlength=size)
        return (entering - leaving).astype(np.int32)


def _agreement(program: Program, begin: int, end: int) -> tuple[Array | None, int]:
    """int32: a number for what each event agrees with others on, -1 where it is in no match; and how many there are."""
    clause, events = program.clause, program.events
    if not clause.agree_on or (len(clause.positive) == 1 and not clause.positive[0].kleene):
        return None, 1
    codes, groups = agreement_codes(events, clause.agree_on)
    codes = codes[begin:end]
    alone = np.flatnonzero(codes < 0)
    if len(clause.positive) == 1 and len(alone):  # an event that agrees with none may be a list of its own
        codes = codes.copy()
        codes[alone] = groups + np.arange(len(alone), dtype=np.int32)
        groups += len(alone)
    return codes, max(groups, 1)
