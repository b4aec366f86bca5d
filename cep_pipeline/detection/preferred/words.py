"""The words of the kernels that find preferred matches: the places of addresses and numbers in an array of words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cep_pipeline.detection.conditions.codes import RING_WORDS

if TYPE_CHECKING:
    from cep_pipeline.compiled.pointers import Int32s, Int64s, Uint8s


class SearchArrays(NamedTuple):
    """The arrays of the search for preferred matches; its words are in this order, as addresses and numbers.

    Attributes
    ----------
    control
        int64: the places below.
    options, width, size, end_row, starts, number_of_starts, rows, clocks, instants, keys, fits, ends
        As in `nfab.words.AutomatonArrays`, the options too; `fits` by the slots of the tree's variables.
    nodes, choices
        int64: `NODE_WORDS` of each node of the tree, the first one the root; int32: the choices of the nodes, one
        after another: the number of a node, `TAKING`, or `FINISHING` less the number of a clause.
    slots
        int32: what each variable binds on the path.
    frame_nodes, frame_tried
        int32: of each event of the path its node, and how many choices of it have been tried.
    out_rows, out_slots, out_capacity, out_offsets, out_clauses, out_matches
        The matches that are written: elements, room for so many; where each match ends, its clause, and room for so
        many.
    """

    control: Int64s
    options: int
    width: int
    size: int
    end_row: int
    starts: Int32s
    number_of_starts: int
    rows: Int32s
    clocks: Int64s
    instants: Int64s
    keys: Int32s
    fits: Uint8s
    ends: Int64s
    nodes: Int64s
    choices: Int32s
    slots: Int32s
    frame_nodes: Int32s
    frame_tried: Int32s
    out_rows: Int32s
    out_slots: Int32s
    out_capacity: int
    out_offsets: Int64s
    out_clauses: Int32s
    out_matches: int


SEARCH_CELLS = len(SearchArrays._fields)
SEARCH_CODE = SEARCH_CELLS + RING_WORDS
"""Places of the words of lists' cells and of the conditions behind those of the search."""

N_SLOT, N_MOST, N_BEGIN, N_TAKE, N_LEAVE, N_CHOICES, N_END, NODE_WORDS = range(8)
"""Words of a node: the slot of its variable, the greatest number of events (0: a single one), the groups of conjuncts
of its first event, of each further one, and of leaving it (-1: none), and where its choices begin and end."""
TAKING, FINISHING = -1, -2
"""Choices: one more event for the list; the match is finished, by the clause whose number is subtracted."""

S_NEXT, S_DEPTH, S_STARTED, S_READ, S_MATCHES, S_WRITTEN, SEARCH_WORDS = range(7)
"""Places in the control of the search: the next start, the frames of the path (-1: none), the starts and events so far,
and the matches and elements written."""

DONE, CELLS_FULL, OUTPUT_FULL, PAUSED = range(4)
"""Why a kernel returns; the last: a call has read `EVENTS_A_CALL` events."""
EVENTS_A_CALL = 1 << 22
"""Events that a call reads at most, so that detection can be interrupted."""


class SweepArrays(NamedTuple):
    """The arrays of the sweep for preferred matches; its words are in this order, as addresses and numbers.

    Attributes
    ----------
    control
        int64: the places below.
    variables, options, width, size, end_row, starts, number_of_starts, rows, clocks, instants, fits, ends
        The number of variables of the chain; the rest as in `nfab.words.AutomatonArrays`, the options too.
    steps
        int64: `STEP_WORDS` of each variable.
    slots
        int32: what each variable binds while conditions are tested.
    further, leaves, capacity
        int32 and uint8 [variables, capacity]: for each variable and each event behind the start, as the newest element
        of the variable, how many more elements its list may get (-1: with none of them the rest of the chain can be
        bound), and whether the rest can be bound behind it. There is room for so many events behind a start.
    out_rows, out_slots, out_capacity, out_offsets, out_matches
        The matches that are written: elements, room for so many, where each match ends, and room for so many.
    """

    control: Int64s
    variables: int
    options: int
    width: int
    size: int
    end_row: int
    starts: Int32s
    number_of_starts: int
    rows: Int32s
    clocks: Int64s
    instants: Int64s
    fits: Uint8s
    ends: Int64s
    steps: Int64s
    slots: Int32s
    further: Int32s
    leaves: Uint8s
    capacity: int
    out_rows: Int32s
    out_slots: Int32s
    out_capacity: int
    out_offsets: Int64s
    out_matches: int


SWEEP_CELLS = len(SweepArrays._fields)
SWEEP_CODE = SWEEP_CELLS + RING_WORDS
"""Places of the words of lists' cells and of the conditions behind those of the sweep."""

W_LEAST, W_MOST, W_RELUCTANT, W_ELEMENT, W_PAIR, W_ENTRY, W_LEAVE, W_CROSSES, STEP_WORDS = range(9)
"""Words of a variable: the least and the greatest number of events of its list (0: a single one), whether it is
reluctant; the groups of conjuncts of one element, of two neighbours, of its first event, and of its last one (-1:
none); whether those of its first event read the last one of the variable before."""
WINDOW_FULL = 4
"""Why a kernel returns, too: more events lie in the window of a start than there is room for."""
