"""The words of the automaton's kernels: the places of addresses and numbers in the array that the driver hands over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cep_pipeline.compiled.native import address
from cep_pipeline.detection.conditions.codes import CODE_WORDS, LINK_WORDS, RING_WORDS, RULES_WORDS
from cep_pipeline.expressions.columns import Array

if TYPE_CHECKING:
    from cep_pipeline.compiled.pointers import Int32s, Int64s, Uint8s


class AutomatonArrays(NamedTuple):
    """The arrays that a kernel reads and writes; its words are in this order, as addresses and numbers.

    Attributes
    ----------
    control
        int64: the places below.
    variables, stride, options, width
        Number of variables of the chain and of slots of a run, the flags below, and the most by which instants differ.
    size, end_row
        Number of places of the sequence that runs read, and the row before which they end.
    starts, number_of_starts
        int32, ascending: the places of the events that can begin the pattern.
    rows, clocks, instants, keys
        Of each place its row, clock (`slices.order.clock_to_compare`), instant (timestamp or position) and the code of
        what events agree on; clocks and keys only where the options ask for them.
    instants_of_rows
        int64: the instants by row.
    fits
        uint8 [variables, places]: whether an event has the type of a variable and passes the conditions on it alone.
    ends
        int64: the end of each place's group.
    most
        int64: the greatest number of events of each Kleene variable; 0 for a variable of one event.
    groups
        int64 [variables, 3]: the groups of conjuncts of its begin edge, its take edge, and of leaving it (-1: none).
    slots, runs, run_words
        The pool of runs: int32, what each variable binds; int64, so many words of each, by the places below.
    free, capacity
        int32: the runs that are free; how many runs the pool has.
    lists, list_sizes
        int32 [variables, capacity]: the runs in the state of each variable; how many there are, then the place at which
        each list changed last.
    vector, vector_starts
        The columns of the value vector that runs in each variable's state are compared by, `VALUE_WORDS` words each,
        where those of each variable begin.
    table
        A table of runs by the hash of their value vectors. For backtracking: the stack of postponed runs.
    finished, finished_capacity
        int32: of each finished run its newest event in the buffer; room for so many.
    pending, path
        int32 for the way back through the buffer.
    out_rows, out_variables, out_capacity, out_offsets, out_matches
        The matches that are written: elements, room for so many, where each match ends, and room for so many.
    counts
        int64 [variables, 2]: candidates and passes.
    change, expired
        int32: by row, how many more runs live behind it; by the place of their first event, the runs that expired.
    """

    control: Int64s
    variables: int
    stride: int
    options: int
    width: int
    size: int
    end_row: int
    starts: Int32s
    number_of_starts: int
    rows: Int32s
    clocks: Int64s
    instants: Int64s
    instants_of_rows: Int64s
    keys: Int32s
    fits: Uint8s
    ends: Int64s
    most: Int64s
    groups: Int64s
    slots: Int32s
    runs: Int64s
    run_words: int
    free: Int32s
    capacity: int
    lists: Int32s
    list_sizes: Int64s
    vector: Int64s
    vector_starts: Int64s
    table: Int32s
    finished: Int32s
    finished_capacity: int
    pending: Int32s
    path: Int32s
    out_rows: Int32s
    out_variables: Int32s
    out_capacity: int
    out_offsets: Int64s
    out_matches: int
    counts: Int64s
    change: Int32s
    expired: Int32s


def set_words(words: Array, **values: Array | int) -> None:
    """Write words by their names: numbers, and the addresses of arrays."""
    for name, value in values.items():
        words[AutomatonArrays._fields.index(name)] = value if isinstance(value, int) else address(value)


CELLS = len(AutomatonArrays._fields)
CODE = CELLS + RING_WORDS
BUFFER = CODE + CODE_WORDS
RULES = BUFFER + RING_WORDS
NUMBER = RULES + RULES_WORDS
"""Places of the words of lists' cells, of the conditions, of the match buffer and of negation, and the number of all
words."""

R_EVENT, R_BEGUN, R_NEWEST, R_KEY, R_FIRST, R_PLACE, R_STATE, R_HASH, R_VALUES = range(9)
"""Words of a run: its newest event in the buffer, the instant of the first event, the clock of the newest, the code
that events agree on, the place of the first event, and that of the newest (-1 once the value vector has been computed
with it), the variable in whose state that was, the vector's hash, and from there on its values. For backtracking: the
variable bound last, the place from which a postponed run goes on, and how many cells and entries there were when it was
postponed."""

CONTIGUOUS, COMPARES_CLOCKS, AGREEING, CHAIN, ANY_MATCH, MERGING, NEGATION, MATCHING_ONLY, BACKTRACKING, PRUNING = (
    1 << bit for bit in range(10)
)
"""Options, in this order: no event may be skipped; a variable begins at a greater clock than that of the run's newest
event; keys must be equal; the variables bind events in their order; every event may be ignored; equivalent runs are
merged; finished matches may be rejected; matches are not constructed; runs are followed one at a time; a match ends all
other runs of its partition."""

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
    POSTPONED,
    FURTHEST,
    FINISHES,
    BOUND,
    MOST_ENTRIES,
    CONTROL_WORDS,
) = range(20)
"""Places in CONTROL: the next start, the place that is read and where its group ends; the free and the living runs; the
finished runs and how many of them are written, what of one waits on its stack, and the elements and matches written;
then the runs started and merged, and the events read by runs and read again by runs that were postponed. For
backtracking: the height of the stack, and the place that no run has read yet. Then how often a run was finished. Then,
for backtracking with pruning, the place behind the earliest event that has finished a run and behind which all runs are
pruned (0: none has). Last, the most entries that the buffer had when a kernel returned."""

DONE, OUTPUT_FULL, RUNS_FULL, CELLS_FULL, BUFFER_FULL, FINISHED_FULL, PAUSED = range(7)
"""Why a kernel returns; the last: a call has shown events to `RUNS_A_CALL` runs."""
RUNS_A_CALL = 1 << 22
"""Runs that an event was shown to after which a call returns, so that detection can be interrupted."""

STATE = LINK_WORDS - 1
"""The link word of an entry of the match buffer with the variable to which its event is bound."""
VALUE_WORDS = 4
VALUE_OF_FIRST, VALUE_OF_NEWEST, WHOLE_OF_SLOT, WORD_OF_CELL, SIGN_OF_CELL, LENGTH_OF_LIST = range(6)
"""A value of the vector: how it is got, of which variable, the address of a column or a word's place in cells, and
whether the slot is a cell."""

MATCHED, KILLED, EXPIRED = range(3)
"""Ends of a deterministic run: with a match; by an event that it could not take; because its window, or what there is
to read, has ended."""

CELLS_OF_RUNS = CODE_WORDS
"""Place of the words of the ring of cells in those of deterministic runs, behind those of the program."""
