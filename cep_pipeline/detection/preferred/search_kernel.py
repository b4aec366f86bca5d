"""The search for the preferred match of each first event under contiguity. Imported only where it is compiled.

Under contiguity the events of a match follow one another, so a match is known by the node of the tree of choices
(`search.ChoiceTree`) that each event goes to. The search is depth first: it tries what is preferred first, and
what it finds first is the preferred match. An event that no choice takes sends it back to the event before.

The events of the path are frames, the first one behind an empty frame of the root. A frame has the node of its event,
and how many of the node's choices have been tried. What lists have bound lies in cells, of which the newest goes when
the search goes back (`conditions/cells.py`).
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import reader_of
from cep_pipeline.detection.conditions.cells import Cells, append, cell_before, cells_at, drop_newest, length_of
from cep_pipeline.detection.conditions.evaluator import Code, code_at, group_holds
from cep_pipeline.detection.nfab.words import AGREEING, COMPARES_CLOCKS, PRUNING
from cep_pipeline.detection.preferred import words as at

search_at = reader_of(at.SearchArrays)
"""The search whose words begin at a place."""


@njit(error_model="numpy")
def holds(code: Code, cells: Cells, group: int, slots: Any) -> bool:
    """Test whether the conjuncts of a group hold on the path: the one place where conditions are compiled in."""
    return group < 0 or group_holds(code, cells, group, slots, 0)


def search(words: Any) -> int:
    """Search from each start on until the end, or until room is wanted; the code of `words.py` says which."""
    machine, code, cells = search_at(words, 0), code_at(words, at.SEARCH_CODE), cells_at(words, at.SEARCH_CELLS)
    control, slots, nodes, tried = machine.control, machine.slots, machine.frame_nodes, machine.frame_tried
    tree = machine.nodes
    depth, read = control[at.S_DEPTH], 0
    wanted = at.DONE
    while True:
        if read > at.EVENTS_A_CALL:
            wanted = at.PAUSED
            break
        if depth < 0:
            if control[at.S_NEXT] >= machine.number_of_starts:
                break
            control[at.S_NEXT] += 1
            control[at.S_STARTED] += 1
            depth = nodes[0] = tried[0] = 0
            cells.ends[0] = cells.ends[1] = 0
        if cells.ends[1] - cells.ends[0] > cells.mask:
            wanted = at.CELLS_FULL
            break
        first = machine.starts[control[at.S_NEXT] - 1]
        node = nodes[depth] * at.NODE_WORDS
        own = tree[node + at.N_SLOT]
        choice = tree[node + at.N_CHOICES] + tried[depth]
        if choice >= tree[node + at.N_END]:  # all are tried: back to the event before
            if depth > 0 and tree[node + at.N_MOST] > 0:
                slots[own] = cell_before(cells, slots[own])
                drop_newest(cells)
            depth -= 1
            continue
        chosen = machine.choices[choice]
        if chosen <= at.FINISHING:
            if control[at.S_MATCHES] == machine.out_matches or control[at.S_WRITTEN] + depth > machine.out_capacity:
                wanted = at.OUTPUT_FULL
                break
            tried[depth] += 1
            if holds(code, cells, tree[node + at.N_LEAVE], slots):
                write_path(words, depth, first, at.FINISHING - chosen)
                depth = -1
            continue
        tried[depth] += 1
        read += 1
        place = first + depth
        if depth > 0 and not is_read(words, first, place):
            continue
        row = machine.rows[place]
        if chosen == at.TAKING:
            if machine.fits[own * machine.size + place] == 0 or length_of(cells, slots[own]) >= tree[node + at.N_MOST]:
                continue
            slots[own] = append(cells, own, slots[own], row, row)
            if not holds(code, cells, tree[node + at.N_TAKE], slots):
                slots[own] = cell_before(cells, slots[own])
                drop_newest(cells)
                continue
            chosen = nodes[depth]
        else:
            following = chosen * at.NODE_WORDS
            slot = tree[following + at.N_SLOT]
            if machine.fits[slot * machine.size + place] == 0:
                continue
            if depth > 0 and machine.options & COMPARES_CLOCKS and machine.clocks[place] <= machine.clocks[place - 1]:
                continue
            if not holds(code, cells, tree[node + at.N_LEAVE], slots):
                continue
            is_list = tree[following + at.N_MOST] > 0
            slots[slot] = append(cells, slot, -1, row, row) if is_list else row
            if not holds(code, cells, tree[following + at.N_BEGIN], slots):
                if is_list:
                    drop_newest(cells)
                continue
        depth += 1
        nodes[depth] = chosen
        tried[depth] = 0
    control[at.S_DEPTH] = depth
    control[at.S_READ] += read
    return wanted


@njit(error_model="numpy")
def is_read(words: Any, first: int, place: int) -> bool:
    """Tell whether a path that begins at a place may go on with the event at another one."""
    machine = search_at(words, 0)
    if place >= machine.ends[first] or machine.rows[place] >= machine.end_row:
        return False
    if machine.instants[place] - machine.instants[first] > machine.width:
        return False
    if not machine.options & AGREEING:
        return True
    return machine.keys[first] >= 0 and machine.keys[first] == machine.keys[place]


@njit(error_model="numpy")
def write_path(words: Any, depth: int, first: int, clause: int) -> None:
    """Write the match that the path is, and pass over the starts that it holds where no other match may overlap it."""
    machine = search_at(words, 0)
    control, written = machine.control, machine.control[at.S_WRITTEN]
    for frame in range(depth):
        machine.out_rows[written + frame] = machine.rows[first + frame]
        machine.out_slots[written + frame] = machine.nodes[machine.frame_nodes[frame + 1] * at.NODE_WORDS + at.N_SLOT]
    machine.out_clauses[control[at.S_MATCHES]] = clause
    control[at.S_MATCHES] += 1
    control[at.S_WRITTEN] = written + depth
    machine.out_offsets[control[at.S_MATCHES]] = written + depth
    if machine.options & PRUNING:
        while control[at.S_NEXT] < machine.number_of_starts and machine.starts[control[at.S_NEXT]] < first + depth:
            control[at.S_NEXT] += 1
