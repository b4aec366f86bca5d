"""The words of the automaton's kernels: the places of addresses and numbers in the array that the driver hands over."""

from __future__ import annotations

from cep_pipeline.detection.instances.codes import CODE_WORDS, RING_WORDS, RULES_WORDS

(
    CONTROL,
    VARIABLES,
    STRIDE,
    OPTIONS,
    WIDTH,
    SIZE,
    END_ROW,
    STARTS,
    NUMBER_OF_STARTS,
    ROWS,
    CLOCKS,
    INSTANTS,
    INSTANTS_OF_ROWS,
    KEYS,
    FITS,
    ENDS,
    MOST,
    GROUPS,
    SLOTS,
    RUNS,
    RUN_WORDS,
    FREE,
    CAPACITY,
    LISTS,
    LIST_SIZES,
    VECTOR,
    VECTOR_STARTS,
    TABLE,
    FINISHED,
    FINISHED_CAPACITY,
    PENDING,
    PATH,
    OUT_ROWS,
    OUT_VARIABLES,
    OUT_CAPACITY,
    OUT_OFFSETS,
    OUT_MATCHES,
    COUNTS,
    CHANGE,
    EXPIRED,
) = range(40)
"""The words of the machine.

CONTROL
    int64: the places below.
VARIABLES, STRIDE, OPTIONS, WIDTH
    Number of variables of the chain and of slots of a run, the flags below, and the most by which instants differ.
SIZE, END_ROW
    Number of places of the sequence that runs read, and the row before which they end.
STARTS, NUMBER_OF_STARTS
    int32, ascending: the places of the events that can begin the pattern.
ROWS, CLOCKS, INSTANTS, KEYS
    Of each place its row, clock (`slices.order.clock_to_compare`), instant (timestamp or position) and the code of what
    events agree on; clocks and keys only where the options ask for them.
INSTANTS_OF_ROWS
    int64: the instants by row.
FITS
    uint8 [variables, places]: whether an event has the type of a variable and passes the conditions on it alone.
ENDS
    int64: the end of each place's group.
MOST
    int64: the greatest number of events of each Kleene variable; 0 for a variable of one event.
GROUPS
    int64 [variables, 3]: the groups of conjuncts of its begin edge, its take edge, and of leaving it (-1: none).
SLOTS, RUNS, RUN_WORDS
    The pool of runs: int32, what each variable binds; int64, so many words of each, by the places below.
FREE, CAPACITY
    int32: the runs that are free; how many runs the pool has.
LISTS, LIST_SIZES
    int32 [variables, capacity]: the runs in the state of each variable; how many there are, then the place at which
    each list changed last. For backtracking: the stack of postponed runs.
VECTOR, VECTOR_STARTS
    The columns of the value vector that runs in each variable's state are compared by, `VALUE_WORDS` words each, where
    those of each variable begin.
TABLE
    A table of runs by the hash of their value vectors.
FINISHED, FINISHED_CAPACITY
    int32 of each finished run, `FINISHED_WORDS`: its newest event in the buffer, and its version; room for so many.
PENDING, PATH
    int32 for the way back through the buffer.
OUT_ROWS, OUT_VARIABLES, OUT_CAPACITY, OUT_OFFSETS, OUT_MATCHES
    The matches that are written: elements, room for so many, where each match ends, and room for so many.
COUNTS
    int64 [variables, 2]: candidates and passes.
CHANGE, EXPIRED
    int32: by row, how many more runs live behind it; by the place of their first event, the runs that expired.
"""
CELLS = EXPIRED + 1
CODE = CELLS + RING_WORDS
BUFFER = CODE + CODE_WORDS
VERSIONS = BUFFER + 5
RULES = VERSIONS + 3
NUMBER = RULES + RULES_WORDS
"""Places of the words of lists' cells, of the conditions, of the match buffer, of version numbers and of negation, and
the number of all words."""

R_EVENT, R_PREFIX, R_DIGIT, R_BEGUN, R_NEWEST, R_KEY, R_FIRST, R_PLACE, R_STATE, R_HASH, R_VALUES = range(11)
"""Words of a run: its newest event in the buffer, its version, the instant of the first event, the clock of the newest,
the code that events agree on, the place of the first event, and that of the newest (-1 once the value vector has been
computed with it), the variable in whose state that was, the vector's hash, and from there on its values. For
backtracking: the variable bound last, twice the place from which a postponed run goes on, plus 1 where it only stays,
and the sizes of all rings when it was postponed."""

CONTIGUOUS, COMPARES_CLOCKS, AGREEING, ANY_MATCH, MERGING, NEGATION, MATCHING_ONLY, BACKTRACKING, PRUNING = (
    1 << bit for bit in range(9)
)
"""Options, in this order: no event may be skipped; a variable begins at a greater clock than that of the run's newest
event; keys must be equal; every event may be ignored; equivalent runs are merged; finished matches may be rejected;
matches are not constructed; runs are followed one at a time; a match ends all other runs of its partition."""

(
    NEXT_START,
    PLACE,
    GROUP_END,
    FREE_RUNS,
    ALIVE,
    FINISHED_RUNS,
    WRITTEN_RUNS,
    TOP,
    WRITTEN,
    MATCHES,
    STARTED,
    MERGED,
    READ,
    READ_AGAIN,
    SINGLE_RUN,
    POSTPONED,
    LEFT_TO_DO,
    FURTHEST,
    FINISHES,
    MATCHED,
    CONTROL_WORDS,
) = range(21)
"""Places in CONTROL: the next start, the place that is read and where its group ends; the free and the living runs; the
finished runs and how many of them are written, what of one waits on its stack, and the elements and matches written;
then the runs started and merged, and the events read by runs and read again by runs that were postponed. For
backtracking: the single run (1 more than its number) and what is left for it to do, the height of the stack, and the
place that no run has read yet. Then how often a run was finished. Last, for backtracking with pruning, the place behind
the earliest event that has finished a run and behind which all runs are pruned (0: none has)."""

DONE, OUTPUT_FULL, RUNS_FULL, CELLS_FULL, BUFFER_FULL, VERSIONS_FULL, FINISHED_FULL, PAUSED = range(8)
"""Why a kernel returns; the last: a call has shown events to `RUNS_A_CALL` runs."""
RUNS_A_CALL = 1 << 22
"""Runs that an event was shown to after which a call returns, so that detection can be interrupted."""

FINISHED_WORDS = 3
VALUE_WORDS = 4
VALUE_OF_FIRST, VALUE_OF_NEWEST, WHOLE_OF_SLOT, WORD_OF_CELL, SIGN_OF_CELL, LENGTH_OF_LIST = range(6)
"""A value of the vector: how it is got, of which variable, the address of a column or a word's place in cells, and
whether the slot is a cell."""
