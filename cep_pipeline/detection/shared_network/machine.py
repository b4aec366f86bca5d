"""What the kernel of shared networks works on, as pointers. Imported only where it is compiled."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at
from cep_pipeline.detection.instances.cells import Cells, cells_at
from cep_pipeline.detection.instances.rules import Rules
from cep_pipeline.detection.shared_network import codes as c


class Machine(NamedTuple):
    """A network, its instances, and how far the kernel is.

    Attributes
    ----------
    words
        All words, to which the nodes' and outputs' places of conditions, rules and matches point.
    registers
        By the names in `codes.py`.
    nodes, edges, outputs
        `codes.NODE_WORDS`, `EDGE_WORDS`, `OUTPUT_WORDS` words each.
    places, masks
        Places in the tuple under test, and the address of masks of them, uint8.
    ascent_starts, ascents
        Where each ascent begins, and their words (`evaluation_tree.ascents`).
    rows, leaf_starts, leaves
        Of each step its row, and the nodes of events that it fits: from `leaf_starts[step]` on.
    stores, rooms, tails, marks
        Of each node the address of its instances, how many have room, how many it holds, and how many before the event.
    counts, saved, stamps, touched
        Counts of each node, what they were before the event, the last attempt that touched it, and those touched.
    heads
        The newest instance of each node and key.
    frames
        What is still to be joined.
    bound, match
        The tuple under test by the places of the node's first sharer, and a match by those of its clause.
    alive, peaks
        Of each node its instances, and the most of them.
    dying, deaths
        Of each row the first of the deaths when it is reached, and all deaths.
    held
        Of each step the instances behind it.
    saved_outputs, output_stamps, touched_outputs
        What outputs held before the event, the last attempt that touched each, and those touched.
    tested
        int64[1]: how many conjuncts were tested.
    cells
        The elements of lists.
    """

    words: Any
    registers: Any
    nodes: Any
    edges: Any
    outputs: Any
    places: Any
    masks: Any
    ascent_starts: Any
    ascents: Any
    rows: Any
    leaf_starts: Any
    leaves: Any
    stores: Any
    rooms: Any
    tails: Any
    marks: Any
    counts: Any
    saved: Any
    stamps: Any
    touched: Any
    heads: Any
    frames: Any
    bound: Any
    match: Any
    alive: Any
    peaks: Any
    dying: Any
    deaths: Any
    held: Any
    saved_outputs: Any
    output_stamps: Any
    touched_outputs: Any
    tested: Any
    cells: Cells


class Ascending(NamedTuple):
    """Where ascents are, as the functions of the evaluation tree read them."""

    ascents: Any


class Tuple(NamedTuple):
    """The tuple under test, as they read it."""

    bound: Any


class View(NamedTuple):
    """What the evaluation tree's tests of order and distinctness read."""

    layout: Ascending
    rules: Rules
    cells: Cells
    stores: Tuple


class Buffered(NamedTuple):
    """Events and the tuple under test, as the search of the lazy automata reads them."""

    buffer: Any
    slots: Any


@njit(error_model="numpy")
def machine_at(words: Any) -> Machine:
    """The pointers in the words that `memory.py` writes, in the order of the attributes."""
    return Machine(
        words,
        int64_at(words[0]),
        int64_at(words[1]),
        int64_at(words[2]),
        int64_at(words[3]),
        int32_at(words[4]),
        words[5],
        int64_at(words[6]),
        int64_at(words[7]),
        int32_at(words[8]),
        int64_at(words[9]),
        int32_at(words[10]),
        int64_at(words[11]),
        int64_at(words[12]),
        int64_at(words[13]),
        int64_at(words[14]),
        int64_at(words[15]),
        int64_at(words[16]),
        int64_at(words[17]),
        int32_at(words[18]),
        int32_at(words[19]),
        int64_at(words[20]),
        int32_at(words[21]),
        int32_at(words[22]),
        int64_at(words[23]),
        int64_at(words[24]),
        int32_at(words[25]),
        int32_at(words[26]),
        int32_at(words[27]),
        int64_at(words[28]),
        int64_at(words[29]),
        int32_at(words[30]),
        int64_at(words[31]),
        cells_at(words, c.MACHINE_WORDS),
    )
