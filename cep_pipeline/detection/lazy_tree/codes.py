"""Numbers that the kernel of the lazy tree automaton and its driver agree on."""

from __future__ import annotations

GOING_ON, FINISHED, OUTPUT_FULL, NEW_STATE, POOL_FULL, STACK_FULL, CELLS_FULL, PAUSED = range(8)
"""Results of a step of the kernel; all but the first end the call: no event is left, the matches must be taken away,
a state is reached for the first time, the pool of instances, the stack or the ring of cells must grow, or the call has
taken `STEPS_A_CALL` steps."""
STEPS_A_CALL = 1 << 23
"""Steps after which a call returns, so that a run can be interrupted."""

ARRIVAL, REPLAY, TAKING, WAITING, GROWING = range(5)
"""Ways to handle an event: it arrives; a new root variable searches the input buffer; and for each variable that the
event fits, it begins an instance, is taken by those that wait for the variable, and by those with a list of it."""

AUTOMATON_WORDS = 21
"""Addresses by which the kernel finds an automaton (`kernel.automaton_at`)."""

ENTRY_WORDS = 6
"""int32 words of a stored instance."""
E_NEXT, E_STATE, E_FIRST, E_LAST, E_SINCE, E_UNTIL = range(ENTRY_WORDS)
"""The instance behind it in its list, its state, the first and the last row of its events, and the rows from which
and before which the event lies that it waits for."""
NO_STATE = -1
"""The state of an instance that is in no list any more; its place in the pool is free after the next sweep."""

FRAME_WORDS = 8
"""int64 words of one search of the input buffer."""
F_TARGET, F_PLACE, F_END, F_FIRST, F_LAST, F_TAIL, F_MARK, F_COUNTED = range(FRAME_WORDS)
"""The state that is reached, the places in the buffer from which and before which events are tried, the first and the
last row of the instance that searches, the newest cell of the list that is made longer (-1: none is), the number of
cells when the search began, and whether the instance lives by this search alone."""

STATE_WORDS = 9
"""int64 words of a state."""
S_BOUND, S_NEWEST, S_BEGINS, S_GROWS, S_LEAVES, S_DISTINCT, S_LINKED, S_LISTS, S_SHARE = range(STATE_WORDS)
"""The set of bound variables; the one bound last; the groups of conjuncts for the first element of a list of the one
bound last, for a later one, and for its event or its whole list; the bound variables whose events an event of it must
be told from; the unbound variables that a conjunct joins to bound ones; whether a bound one is a list; and where the
share of events is counted that pass (0: no conjunct is tested)."""
SHARE_WORDS = 2
"""int64: tests of late and passes among them; the first share is that of all conjuncts together."""

COUNT_WORDS = 5
"""int64 counts of a state."""
C_TRIED, C_PASSED, C_CREATED, C_HELD, C_MOST_HELD = range(COUNT_WORDS)
"""Tuples tested, and those that held; instances made, those stored now, and at most."""

RECENT = 4096
"""Tests after which those of late are halved, so that the share that passed follows the stream."""
NO_ROW = 2**31 - 1
"""Greater than every row."""

PRIOR = 8.0
"""Tests with the average share of all conjuncts that are added to those of one conjunct, which may be few."""
REGISTERS = 34
(
    VARIABLES,
    KEYS,
    PLACES,
    KLEENE,
    ALL_BOUND,
    EVEN_WINDOW,
    OUTPUT_FROM,
    POOL_ROOM,
    STACK_ROOM,
    DEPTH,
    PLACE,
    PHASE,
    TAKEN,
    CURSOR,
    PREVIOUS,
    PENDING,
    PENDING_STATE,
    PENDING_FIRST,
    PENDING_LAST,
    ROW,
    NOW,
    KEY,
    ROOT,
    REPLAY_KEY,
    KEPT,
    USED,
    MADE,
    SWEEP_AT,
    LIVE,
    LIVE_ROW,
    SEARCHING,
    PEAK,
    OLDEST,
    BY_COUNTER,
) = range(REGISTERS)
"""The registers: the numbers of a run (of variables, keys and events read; sets of variables are bits), the room that
there is, where the kernel is, what it counts of instances and cells, and whether the smallest counter is bound next."""
