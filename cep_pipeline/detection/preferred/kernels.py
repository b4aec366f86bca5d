"""The search and the sweep for preferred matches. Imported only where they are compiled.

The search (`search.py`) is for contiguity, where the events of a match follow one another, so that a match is known by
the node of the tree of choices that each event goes to. It is depth first: it tries what is preferred first, and what
it finds first is the preferred match. An event that no choice takes sends it back to the event before. The events of
the path are frames, the first one behind an empty frame of the root. A frame has the node of its event, and how many of
the node's choices have been tried. What lists have bound lies in cells, of which the newest goes when the search goes
back (`conditions/cells.py`).

The sweep (`sweep.py`) is for skip_till_any_match. For each start it goes back over the events of the window, from the
last variable of the chain to the first. Of each event, as the newest element of a variable, it notes how many more
elements the list may get at most (`further`), and whether the rest of the chain can be bound behind it (`leaves`). Then
the match is read off from the start on: of each list the length that is preferred, and of the elements that allow it
the earliest. Where no condition compares neighbours of a list, all but its first and its last element may be left out.
So every length up to the greatest is one that a list may have, and the sweep takes a step for each variable and event.
Else it compares each event with all behind it.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import further as behind
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


machine_at = reader_of(at.SweepArrays)
"""The sweep whose words begin at a place."""


@njit(error_model="numpy", forceinline=True)
def step(machine: at.SweepArrays, variable: int, word: int) -> int:
    """A word of a variable."""
    return machine.steps[variable * at.STEP_WORDS + word]


@njit(error_model="numpy")
def start_holds(words: Any, group: int) -> bool:
    """Test a group on the first event of a match, which the first variable has bound."""
    machine, cells = machine_at(words, 0), cells_at(words, at.SWEEP_CELLS)
    return holds(code_at(words, at.SWEEP_CODE), cells, group, machine.slots)


@njit(error_model="numpy")
def bind(words: Any, variable: int, place: int, before: int) -> None:
    """Let a variable bind the event of a place, behind an element of its list (-1: none)."""
    machine, cells = machine_at(words, 0), cells_at(words, at.SWEEP_CELLS)
    row = machine.rows[place]
    if step(machine, variable, at.W_MOST) > 0:
        row = append(cells, variable, before, row, row)
    machine.slots[variable] = row


@njit(error_model="numpy")
def passes(words: Any, variable: int, group: int, place: int, second: int) -> bool:
    """Test a group on an event of a variable, or on two neighbours of its list (-1: there is no second one).

    Before the first variable's event stands that of the start, which it keeps when the test is over.
    """
    if group < 0:
        return True
    machine, cells = machine_at(words, 0), cells_at(words, at.SWEEP_CELLS)
    kept, made = machine.slots[variable], cells.ends[1]
    bind(words, variable, place, kept if variable == 0 and second < 0 else -1)
    if second >= 0:
        bind(words, variable, second, machine.slots[variable])
    found = holds(code_at(words, at.SWEEP_CODE), cells, group, machine.slots)
    machine.slots[variable] = kept
    cells.ends[1] = made
    return found


@njit(error_model="numpy")
def enters(words: Any, variable: int, first: int, before: int, place: int) -> bool:
    """Test whether a variable may begin with an event, behind the last one of the variable before it."""
    machine, cells = machine_at(words, 0), cells_at(words, at.SWEEP_CELLS)
    if machine.options & COMPARES_CLOCKS and machine.clocks[place] <= machine.clocks[before]:
        return False
    group = step(machine, variable, at.W_ENTRY)
    if group < 0:
        return True
    kept, made = machine.slots[variable - 1], cells.ends[1]
    if before != first:
        bind(words, variable - 1, before, kept if variable == 1 else -1)
    found = passes(words, variable, group, place, -1)
    machine.slots[variable - 1] = kept
    cells.ends[1] = made
    return found


@njit(error_model="numpy")
def length_from(machine: at.SweepArrays, variable: int, event: int) -> int:
    """The length that a list with a first element has where the rest can be bound; 0 if it cannot."""
    longest = machine.further[variable * machine.capacity + event] + 1
    least, most = step(machine, variable, at.W_LEAST), step(machine, variable, at.W_MOST)
    if longest <= 0 or most == 0:
        return longest
    alone = machine.leaves[variable * machine.capacity + event] != 0
    length = min(longest, most)
    if step(machine, variable, at.W_RELUCTANT) != 0:
        length = min(length, 1 if least == 1 and alone else max(least, 2))
    return length if length >= least and (length > 1 or alone) else 0


@njit(error_model="numpy")
def go_back(words: Any, first: int, reach: int) -> None:
    """Note of all events of a window what may follow them, from the last variable to the first."""
    machine = machine_at(words, 0)
    last = machine.variables - 1
    latest = -1  # the latest event with which the next variable may begin
    for variable in range(last, -1, -1):
        further, leaves = behind(machine.further, variable * machine.capacity), machine.leaves
        pair, crosses = (
            step(machine, variable, at.W_PAIR),
            variable < last and step(machine, variable + 1, at.W_CROSSES),
        )
        is_list = step(machine, variable, at.W_MOST) > 0
        longest, begins = -1, -1
        for event in range(reach - 1 if is_list or variable > 0 else 0, -1, -1):
            further[event] = -1
            leaves[variable * machine.capacity + event] = 0
            place = first + event
            if event == 0 and variable > 0:
                break
            if event > 0 and (
                machine.fits[variable * machine.size + place] == 0
                or not passes(words, variable, step(machine, variable, at.W_ELEMENT), place, -1)
            ):
                continue
            leaving = variable == last
            if crosses:
                for other in range(event + 1, reach):
                    if length_from(machine, variable + 1, other) > 0 and enters(
                        words, variable + 1, first, place, first + other
                    ):
                        leaving = True
                        break
            elif not leaving and latest > event:
                leaving = enters(words, variable + 1, first, place, first + latest)
            group = step(machine, variable, at.W_LEAVE)
            if leaving and group >= 0:
                leaving = passes(words, variable, group, place, -1) if event > 0 else start_holds(words, group)
            leaves[variable * machine.capacity + event] = leaving
            further[event] = max(longest, 0 if leaving else -1)
            if pair >= 0:
                for other in range(event + 1, reach):
                    if further[other] + 1 > max(further[event], 0) and passes(
                        words, variable, pair, place, first + other
                    ):
                        further[event] = further[other] + 1
            elif is_list and further[event] >= 0:
                longest = max(longest, further[event] + 1)
            if begins < 0 and variable > 0 and length_from(machine, variable, event) > 0:
                entry = step(machine, variable, at.W_ENTRY)
                if step(machine, variable, at.W_CROSSES) != 0 or passes(words, variable, entry, place, -1):
                    begins = event
        latest = begins


@njit(error_model="numpy")
def read_off(words: Any, first: int, reach: int) -> None:
    """Write the preferred match of a start that has one."""
    machine = machine_at(words, 0)
    control = machine.control
    written = control[at.S_WRITTEN]
    event, remaining = 0, length_from(machine, 0, 0) - 1
    for variable in range(machine.variables):
        further, leaves = behind(machine.further, variable * machine.capacity), machine.leaves
        pair = step(machine, variable, at.W_PAIR)
        if variable > 0:
            chosen, length = -1, 0
            for other in range(event + 1, reach):
                found = length_from(machine, variable, other)
                better = found < length if step(machine, variable, at.W_RELUCTANT) != 0 else found > length
                if (
                    found > 0
                    and (chosen < 0 or better)
                    and enters(words, variable, first, first + event, first + other)
                ):
                    chosen, length = other, found
                    if step(machine, variable, at.W_MOST) == 0:
                        break
            event, remaining = chosen, length - 1
        machine.out_rows[written] = machine.rows[first + event]
        machine.out_slots[written] = variable
        written += 1
        other = event
        while remaining > 0:
            other += 1
            if further[other] < remaining - 1:
                continue
            if remaining == 1 and leaves[variable * machine.capacity + other] == 0:
                continue
            if pair >= 0 and not passes(words, variable, pair, first + event, first + other):
                continue
            event, remaining = other, remaining - 1
            machine.out_rows[written] = machine.rows[first + event]
            machine.out_slots[written] = variable
            written += 1
    control[at.S_WRITTEN] = written
    control[at.S_MATCHES] += 1
    machine.out_offsets[control[at.S_MATCHES]] = written


def sweep(words: Any) -> int:
    """Sweep over the window of each start until the last one, or until room is wanted; the code says which."""
    machine, cells = machine_at(words, 0), cells_at(words, at.SWEEP_CELLS)
    control = machine.control
    read = 0
    while control[at.S_NEXT] < machine.number_of_starts:
        if read > at.EVENTS_A_CALL:
            return at.PAUSED
        first = machine.starts[control[at.S_NEXT]]
        end = first + 1
        while (
            end < machine.ends[first]
            and machine.rows[end] < machine.end_row
            and machine.instants[end] - machine.instants[first] <= machine.width
        ):
            end += 1
        reach = end - first
        if reach > machine.capacity:
            return at.WINDOW_FULL
        if control[at.S_WRITTEN] + reach > machine.out_capacity or control[at.S_MATCHES] == machine.out_matches:
            return at.OUTPUT_FULL
        control[at.S_NEXT] += 1
        read += reach * machine.variables
        cells.ends[0] = cells.ends[1] = 0
        bind(words, 0, first, -1)
        entry = step(machine, 0, at.W_ENTRY)
        if start_holds(words, entry):
            go_back(words, first, reach)
            if length_from(machine, 0, 0) > 0:
                read_off(words, first, reach)
    return at.DONE
