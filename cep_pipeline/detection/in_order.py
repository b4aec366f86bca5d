"""Matches that come in the order of their last events, in parts as they come: nothing is given up and found again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep_pipeline.errors import CepError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block, MatchBlock
from cep_pipeline.slices.extent import waits_for_later_events


def comes_in_order(pattern: Pattern) -> bool:
    """Whether mechanisms that go event by event find the matches of a pattern in the order of their last events.

    They go clause after clause, those that keep apart what has to agree key after key, and what waits is known late.
    """
    [clause, *others] = pattern.clauses
    return not others and not clause.agree_on and not waits_for_later_events(pattern)


class OrderedMatches:
    """The matches of one pattern, as they come, of which those of the latest last event may not be all yet."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._blocks: list[Block] = []
        self._lasts: list[Array] = []
        self._latest = -1
        self.held = 0

    def add(self, block: Block) -> None:
        """Take the next ones.

        Raises
        ------
        CepError
            They come before those that have come.
        """
        lasts = _last_rows(block)
        if len(lasts) and (lasts[0] < self._latest or bool((np.diff(lasts) < 0).any())):
            raise CepError(f"pattern {self._pattern.name!r}: matches do not come in the order of their last events")
        if len(lasts):
            self._blocks.append(block)
            self._lasts.append(lasts)
            self._latest = int(lasts[-1])
            self.held += len(block)

    def parts(self, limit: int, *, ended: bool) -> Iterator[list[Block]]:
        """Let go of those that are complete, in parts of at most so many matches unless more end with one event.

        Parameters
        ----------
        ended
            Whether no more come: then all are complete.
        """
        if not self.held or (not ended and self._lasts[0][0] == self._latest):
            return
        lasts = np.concatenate(self._lasts)
        complete = len(lasts) if ended else int(np.searchsorted(lasts, self._latest))
        first = 0
        while first < complete:
            stop = complete
            if complete - first > limit:
                stop = int(np.searchsorted(lasts, lasts[first + limit]))
                if stop == first:
                    stop = int(np.searchsorted(lasts, lasts[first], side="right"))
            yield self._take(stop - first)
            first = stop

    def _take(self, matches: int) -> list[Block]:
        """The first so many."""
        taken: list[Block] = []
        self.held -= matches
        while matches:
            block, lasts = self._blocks[0], self._lasts[0]
            if len(block) <= matches:
                taken.append(block)
                matches -= len(block)
                del self._blocks[0], self._lasts[0]
                continue
            first = np.arange(len(block)) < matches
            taken.append(block.take(first))
            self._blocks[0], self._lasts[0] = block.take(~first), lasts[matches:]
            matches = 0
        return taken


def _last_rows(block: Block) -> Array:
    """The row of each match's last event."""
    if isinstance(block, MatchBlock):
        return np.asarray(block.rows.max(axis=0)) if len(block) else np.zeros(0, np.int32)
    return np.asarray(np.maximum.reduceat(block.rows, block.offsets[:-1])) if len(block) else np.zeros(0, np.int32)
