"""Numbers that the kernel and its driver agree on."""

from __future__ import annotations

CHAIN, CONTIGUOUS, COMPARES_CLOCKS, AGREEING = 1, 2, 4, 8
"""Options: a chain (else an AND); no event of the sequence may be skipped; an event must have a greater clock than the
one before it (`slices.order.clock_to_compare`); and keys must be equal."""

RUNNING, ACCEPTED, REJECTED, PENDING, MATCHED, KILLED, EXPIRED = range(7)
"""States of a run: it goes on, with the answer that its candidate is taken or not; it waits for that answer; or it has
ended with a match, by an event that it could not take, or because its window (or what there is to read) has ended."""

SLOT, CONSTANT, NEGATIVE, ABSOLUTE, ROOT, PLUS, MINUS, TIMES, DIVIDE = range(9)
