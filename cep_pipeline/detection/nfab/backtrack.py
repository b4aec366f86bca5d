"""The backtrack algorithm (SIGMOD'08 section 5.2.3): one run at a time, the others postponed on a stack.

Where a run may go two ways it begins the next variable, and a copy that stays is postponed with the event at which that
happened. When the run has ended, the copy postponed last goes on from its event, and reads again what has been read.
When the stack is empty, the next event that can begin the pattern starts a run. The tree of runs is gone through depth
first; the basic algorithm goes through it breadth first, and reads every event once.

Where only non-overlapping matches are wanted, the one that ends first is kept of those that overlap, and which run
finds it is not known beforehand. So a match that was found does not end the search, but bounds it: the runs that were
postponed, and those that start up to there, read no event behind its last one. The next run starts behind the match.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.buffer import MADE, STACK_WORDS, forget_all
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
from cep_pipeline.detection.nfab.simultaneous import wanted_room, write_finished

WHOLE, STAYING = 0, 1
"""What is left of a postponed run: all it may do with its event, or all but beginning the next variable."""


@njit(error_model="numpy")
def backtrack(words: Any) -> int:
    """Read events until the end, or until room is wanted; the code says which."""
    machine, cells, _, buffer, versions, _ = parts_at(words)
    control = machine.control
    while True:
        if not write_finished(words):
            return at.OUTPUT_FULL
        run = control[at.SINGLE_RUN] - 1
        if run < 0:
            if control[at.POSTPONED] > 0:
                resume(words)
                continue
            if control[at.NEXT_START] >= machine.number_of_starts:
                return at.DONE
            control[at.PLACE] = machine.starts[control[at.NEXT_START]]
            if control[at.PLACE] >= control[at.MATCHED]:
                control[at.MATCHED] = 0
            control[at.GROUP_END] = machine.ends[control[at.PLACE]]
            forget_all(buffer)
            versions.ends[0] = versions.ends[1] = 0
            cells.ends[0] = cells.ends[1] = 0
        place = control[at.PLACE]
        wanted = wanted_room(words, 4, machine.instants[place] if run < 0 else machine.begun[run])
        if wanted != at.DONE:
            return wanted
        if run < 0:
            control[at.NEXT_START] += 1
            control[at.PLACE] = place + 1
            control[at.LEFT_TO_DO] = WHOLE
            finishes = control[at.FINISHES]
            run = start(words, place)
            control[at.SINGLE_RUN] = 1 + (arrived(words, run, 0, place) if run >= 0 else -1)
            _bound(words, place, finishes)
            continue
        if control[at.MATCHED] and place >= control[at.MATCHED]:
            end(words, run, machine.rows[control[at.MATCHED] - 1])
            control[at.SINGLE_RUN] = 0
            continue
        outside = place >= control[at.GROUP_END] or machine.rows[place] >= machine.end_row
        if outside or machine.instants[place] - machine.begun[run] > machine.width:
            expire(words, run)
            control[at.SINGLE_RUN] = 0
            continue
        control[at.READ] += 1
        if place < control[at.FURTHEST]:
            control[at.READ_AGAIN] += 1
        else:
            control[at.FURTHEST] = place + 1
        finishes = control[at.FINISHES]
        control[at.SINGLE_RUN] = 1 + read_by(words, run, place)
        _bound(words, place, finishes)


@njit(error_model="numpy")
def _bound(words: Any, place: int, finishes: int) -> None:
    """Where a run was finished with the event of a place, and that prunes others, none reads what comes behind it."""
    machine = machine_at(words)
    if machine.options & at.PRUNING and machine.control[at.FINISHES] > finishes:
        machine.control[at.MATCHED] = place + 1


@njit(error_model="numpy")
def read_by(words: Any, run: int, place: int) -> int:
    """Show an event to the run; the run that goes on, or -1."""
    machine = machine_at(words)
    control, size = machine.control, machine.size
    variable = machine.states[run]
    row = machine.rows[place]
    last = machine.variables - 1
    any_match = machine.options & at.ANY_MATCH != 0
    agreeing = agrees(words, run, place)
    may_begin = variable < last and control[at.LEFT_TO_DO] == WHOLE
    if may_begin and agreeing and machine.fits[(variable + 1) * size + place] != 0:
        copy = begin(words, run, variable + 1, place)
        if copy >= 0:
            if machine.kleene[variable] or any_match:
                postpone(words, run, place, STAYING)
            else:
                end(words, run, row)
            control[at.PLACE] = place + 1
            return arrived(words, copy, variable + 1, place)
    control[at.PLACE] = place + 1
    control[at.LEFT_TO_DO] = WHOLE
    if machine.kleene[variable] and agreeing and machine.fits[variable * size + place] != 0:
        copy = copy_of(words, run) if any_match else run
        if take(words, copy, run, variable, place):
            machine.states[copy] = variable
            if any_match:
                machine.change[row] += 1
                # The copy of this event is put back when the run that ignores it goes on.
                postpone(words, run, place + 1, WHOLE)
            if variable == last:
                finish(words, copy)
            return copy
        if any_match:
            release(words, copy)
    if machine.options & at.CONTIGUOUS:
        end(words, run, row)
        return -1
    return run


@njit(error_model="numpy")
def postpone(words: Any, run: int, place: int, left_to_do: int) -> None:
    """Put a run on the stack, with the event from which it will go on; what is made before that is let go of then."""
    machine, cells, _, buffer, versions, _ = parts_at(words)
    machine.hashes[run] = 2 * place + left_to_do
    kept = run * machine.vector_words
    machine.vectors[kept] = cells.ends[1]
    machine.vectors[kept + 1] = versions.ends[1]
    for state in range(machine.variables):
        machine.vectors[kept + 2 + state] = buffer.stacks[state * STACK_WORDS + MADE]
    machine.lists[machine.control[at.POSTPONED]] = run
    machine.control[at.POSTPONED] += 1


@njit(error_model="numpy")
def resume(words: Any) -> None:
    """Take the run that was postponed last from the stack."""
    machine, cells, _, buffer, versions, _ = parts_at(words)
    machine.control[at.POSTPONED] -= 1
    run = machine.lists[machine.control[at.POSTPONED]]
    machine.control[at.SINGLE_RUN] = 1 + run
    machine.control[at.PLACE] = machine.hashes[run] >> 1
    machine.control[at.LEFT_TO_DO] = machine.hashes[run] & 1
    kept = run * machine.vector_words
    cells.ends[1] = machine.vectors[kept]
    versions.ends[1] = machine.vectors[kept + 1]
    for state in range(machine.variables):
        buffer.stacks[state * STACK_WORDS + MADE] = machine.vectors[kept + 2 + state]


@njit(error_model="numpy")
def arrived(words: Any, run: int, variable: int, place: int) -> int:
    """The run that has begun a variable, or -1 if it is finished with that."""
    machine = machine_at(words)
    machine.states[run] = variable
    machine.control[at.LEFT_TO_DO] = WHOLE
    if variable == machine.variables - 1:
        finish(words, run)
        if not machine.kleene[variable]:
            end(words, run, machine.rows[place])
            return -1
    return run
