"""The basic algorithm (SIGMOD'08 section 5.2.1): all runs of a partition at once, event by event.

Runs stand in lists by the variable that they bound last. An event is shown to the lists from the last state to the
first, so that no run sees it twice; a list whose variable and next variable it does not fit is passed over where events
may be skipped. While no run lives, events are passed over up to the next one that can begin the pattern. Where only
non-overlapping matches are wanted, a match ends all other runs of its partition.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.detection.instances.codes import LINK_WORDS as CELL_WORDS
from cep_pipeline.detection.instances.codes import ROW as CELL_ROW
from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.buffer import forget_all, prune, room
from cep_pipeline.detection.nfab.machine import (
    agrees,
    begin,
    copy_of,
    end,
    expire,
    finish,
    machine_at,
    parts_at,
    release,
    start,
    take,
)
from cep_pipeline.detection.nfab.merging import merge_state
from cep_pipeline.detection.nfab.versions import prune_versions
from cep_pipeline.detection.nfab.way_back import retrieve, wait

LEAST_FREED = 4
"""Pruning has to leave one in so many places of a ring free."""


@njit(error_model="numpy")
def advance_all(words: Any) -> int:
    """Read events until the end, or until room is wanted; the code says which."""
    machine, cells, _, buffer, versions, _ = parts_at(words)
    control = machine.control
    sure = 0  # there is room of all kinds for so many
    while True:
        if control[at.FINISHED_RUNS] + control[at.TOP] > 0 and not write_finished(words):
            return at.OUTPUT_FULL
        place = control[at.PLACE]
        if control[at.ALIVE] > 0 and (place >= control[at.GROUP_END] or machine.rows[place] >= machine.end_row):
            drop_all(words)
        if control[at.ALIVE] == 0:
            if control[at.NEXT_START] >= machine.number_of_starts:
                return at.DONE
            place = machine.starts[control[at.NEXT_START]]
            control[at.PLACE] = place
            control[at.GROUP_END] = machine.ends[place]
            forget_all(buffer)
            versions.ends[0] = versions.ends[1] = 0
            cells.ends[0] = cells.ends[1] = 0
        most = 2 * control[at.ALIVE] + 2
        if sure < 2 * most:
            wanted = wanted_room(words, most, machine.instants[place] - machine.width)
            if wanted != at.DONE:
                return wanted
            sure = sure_room(words)
        sure -= 2 * most
        finishes = control[at.FINISHES]
        read(words, place)
        control[at.PLACE] = place + 1
        if machine.options & at.PRUNING and control[at.FINISHES] > finishes:
            prune_runs(words, machine.rows[place])


@njit(error_model="numpy")
def wanted_room(words: Any, most: int, earliest: int) -> int:
    """What there is too little room of to make so many runs, their cells, pointers and versions; DONE: of nothing.

    Where pruning frees little of a ring, it grows: one that the window just fits in would be pruned with every event.
    """
    machine, cells, _, buffer, versions, _ = parts_at(words)
    if machine.control[at.FREE_RUNS] < most:
        return at.RUNS_FULL
    if machine.finished_capacity - machine.control[at.FINISHED_RUNS] < most:
        return at.FINISHED_FULL
    if room(buffer) < 2 * most:
        prune(buffer, machine.instants_of_rows, earliest)
        if room(buffer) < max(2 * most, (buffer.mask + 1) // LEAST_FREED):
            return at.BUFFER_FULL
    if versions.mask + 1 - (versions.ends[1] - versions.ends[0]) < most:
        prune_versions(versions, machine.instants_of_rows, earliest)
        if versions.mask + 1 - (versions.ends[1] - versions.ends[0]) < max(most, (versions.mask + 1) // LEAST_FREED):
            return at.VERSIONS_FULL
    if cells.mask + 1 - (cells.ends[1] - cells.ends[0]) < most:
        prune_cells(words, earliest)
        if cells.mask + 1 - (cells.ends[1] - cells.ends[0]) < max(most, (cells.mask + 1) // LEAST_FREED):
            return at.CELLS_FULL
    return at.DONE


@njit(error_model="numpy")
def sure_room(words: Any) -> int:
    """How much room there is of each kind, before anything is pruned."""
    machine, cells, _, buffer, versions, _ = parts_at(words)
    least = min(machine.control[at.FREE_RUNS], machine.finished_capacity - machine.control[at.FINISHED_RUNS])
    least = min(least, cells.mask + 1 - (cells.ends[1] - cells.ends[0]))
    return min(least, room(buffer), versions.mask + 1 - (versions.ends[1] - versions.ends[0]))


@njit(error_model="numpy")
def prune_cells(words: Any, earliest: int) -> None:
    """Let go of the cells of events before an instant."""
    machine, cells, _, _, _, _ = parts_at(words)
    head, tail = cells.ends[0], cells.ends[1]
    while head < tail:
        row = cells.links[(head & cells.mask) * CELL_WORDS + CELL_ROW]
        if machine.instants_of_rows[row] >= earliest:
            break
        head += 1
    cells.ends[0] = head


@njit(error_model="numpy")
def write_finished(words: Any) -> bool:
    """Write the matches of the finished runs; False where the output is full before all are written."""
    machine, _, _, buffer, versions, _ = parts_at(words)
    control = machine.control
    if machine.options & at.MATCHING_ONLY:
        control[at.FINISHED_RUNS] = 0
    while control[at.WRITTEN_RUNS] < control[at.FINISHED_RUNS] or control[at.TOP] > 0:
        if control[at.TOP] == 0:
            run = at.FINISHED_WORDS * control[at.WRITTEN_RUNS]
            event, prefix, digit = machine.finished[run], machine.finished[run + 1], machine.finished[run + 2]
            wait(machine.pending, 0, event, machine.variables - 1, prefix, digit, 0)
            control[at.TOP] = 1
            control[at.WRITTEN_RUNS] += 1
        top, written, matches = retrieve(
            buffer,
            versions,
            machine.instants[control[at.PLACE] - 1] - machine.width,
            machine.pending,
            control[at.TOP],
            machine.path,
            machine.out_rows,
            machine.out_variables,
            machine.out_capacity,
            control[at.WRITTEN],
            control[at.HANDED_ON],
            machine.out_offsets,
            control[at.MATCHES],
            machine.out_matches,
        )
        control[at.TOP] = top
        control[at.WRITTEN] = written
        control[at.MATCHES] = matches
        if top > 0:
            return False
    control[at.WRITTEN_RUNS] = 0
    control[at.FINISHED_RUNS] = 0
    return True


@njit(error_model="numpy")
def drop_all(words: Any) -> None:
    """End all runs: their partition, or what there is to read, has ended."""
    machine = machine_at(words)
    for variable in range(machine.variables):
        for index in range(machine.list_sizes[variable]):
            expire(words, machine.lists[variable * machine.capacity + index])
        machine.list_sizes[variable] = 0


@njit(error_model="numpy")
def prune_runs(words: Any, row: int) -> None:
    """End all runs with the event that has finished a match: what else they find would overlap it (section 5.2.1)."""
    machine = machine_at(words)
    for variable in range(machine.variables):
        for index in range(machine.list_sizes[variable]):
            end(words, machine.lists[variable * machine.capacity + index], row)
        machine.list_sizes[variable] = 0


@njit(error_model="numpy", forceinline=True)
def read(words: Any, place: int) -> None:
    """Show an event to all runs, and start one with it."""
    machine = machine_at(words)
    control, size = machine.control, machine.size
    last = machine.variables - 1
    for variable in range(last, -1, -1):
        if machine.list_sizes[variable] == 0:
            continue
        takes = machine.kleene[variable] and machine.fits[variable * size + place] != 0
        begins = variable < last and machine.fits[(variable + 1) * size + place] != 0
        if takes or begins or machine.options & at.CONTIGUOUS:
            _show(words, variable, place, takes, begins)
    if control[at.NEXT_START] < machine.number_of_starts and machine.starts[control[at.NEXT_START]] == place:
        control[at.NEXT_START] += 1
        run = start(words, place)
        if run >= 0:
            _arrive(words, run, 0, place)
    if machine.options & at.MERGING:
        for variable in range(machine.variables):
            if machine.list_sizes[variable] > 1 and machine.list_sizes[machine.variables + variable] == place:
                merge_state(words, variable, place)


@njit(error_model="numpy", forceinline=True)
def _show(words: Any, variable: int, place: int, takes: bool, begins: bool) -> None:
    """Show an event to the runs in the state of a variable: they begin the next one, take it, ignore it, or end."""
    machine = machine_at(words)
    lists = variable * machine.capacity
    number = machine.list_sizes[variable]
    earliest = machine.instants[place] - machine.width
    row = machine.rows[place]
    any_match = machine.options & at.ANY_MATCH != 0
    contiguous = machine.options & at.CONTIGUOUS != 0
    stays_behind = machine.kleene[variable] or any_match
    made = 0
    kept = 0
    machine.control[at.READ] += number
    for index in range(number):
        run = machine.lists[lists + index]
        if machine.begun[run] < earliest:
            expire(words, run)
            continue
        agreeing = agrees(words, run, place)
        left = False
        if begins and agreeing:
            copy = begin(words, run, variable + 1, place)
            if copy >= 0:
                left = True
                _arrive(words, copy, variable + 1, place)
        bound = False
        if takes and agreeing:
            if any_match:
                copy = copy_of(words, run)
                if take(words, copy, run, variable, place):
                    machine.change[row] += 1
                    machine.list_sizes[machine.variables + variable] = place
                    if variable == machine.variables - 1:
                        finish(words, copy)
                    machine.lists[lists + number + made] = copy
                    made += 1
                else:
                    release(words, copy)
            else:
                bound = take(words, run, run, variable, place)
                if bound:
                    machine.list_sizes[machine.variables + variable] = place
                    if variable == machine.variables - 1:
                        finish(words, run)
        if bound or (not contiguous and (stays_behind or not left)):
            machine.lists[lists + kept] = run
            kept += 1
        else:
            end(words, run, row)
    for index in range(made):
        machine.lists[lists + kept + index] = machine.lists[lists + number + index]
    machine.list_sizes[variable] = kept + made


@njit(error_model="numpy")
def _arrive(words: Any, run: int, variable: int, place: int) -> None:
    """A run has begun a variable: it joins the list of that state, or is finished."""
    machine = machine_at(words)
    if variable == machine.variables - 1:
        finish(words, run)
        if not machine.kleene[variable]:
            end(words, run, machine.rows[place])
            return
    size = machine.list_sizes[variable]
    machine.lists[variable * machine.capacity + size] = run
    machine.list_sizes[variable] = size + 1
    machine.list_sizes[machine.variables + variable] = place
