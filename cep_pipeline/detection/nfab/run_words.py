"""Numbers that the kernel of deterministic runs and its driver agree on."""

from __future__ import annotations

from cep_pipeline.detection.instances.codes import CODE_WORDS

CONTIGUOUS, COMPARES_CLOCKS, AGREEING, CHAIN = 1, 2, 4, 8
"""Options: no event of the sequence may be skipped; an event must have a greater clock than the one before it
(`slices.order.clock_to_compare`); keys must be equal; and the variables bind events in their order."""

MATCHED, KILLED, EXPIRED = range(3)
"""Ends of a run: with a match; by an event that it could not take; because its window, or what there is to read, has
ended."""

CELLS = CODE_WORDS
"""Place of the words of the ring of cells, behind those of the program (`instances`)."""
