"""The automaton's arrays as its kernels see them, and the steps of one run: start, begin, take, finish, end.

This module is imported only where kernels are compiled. The arrays belong to `memory.py`. It writes their addresses
into one array of words, in the order of `words.AutomatonArrays`; `machine_at` turns the words into pointers.

A run is a row of the pool. It has the following state (SIGMOD'08, section 5.2.1):

- a slot for each variable: the row of its event, or the newest cell of its list, which has the running aggregates;
- its newest event in the match buffer, from which its match can be read backwards;
- the place and the instant of its first event;
- where runs are merged, the value vector by which two runs are compared.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import further, int32_at, int64_at, uint8_at
from cep_pipeline.detection.instances.cells import Cells, append, cells_at, drop_newest, length_of
from cep_pipeline.detection.instances.codes import LINK_WORDS
from cep_pipeline.detection.instances.interpreter import code_at, group_holds
from cep_pipeline.detection.instances.rules import Rules, rejected, rules_at
from cep_pipeline.detection.instances.terms import Code
from cep_pipeline.detection.nfab import words as at


@njit(error_model="numpy", forceinline=True)
def machine_at(words: Any) -> at.AutomatonArrays:
    """The machine of the words."""
    return at.AutomatonArrays(
        int64_at(words[0]),
        words[1],
        words[2],
        words[3],
        words[4],
        words[5],
        words[6],
        int32_at(words[7]),
        words[8],
        int32_at(words[9]),
        int64_at(words[10]),
        int64_at(words[11]),
        int64_at(words[12]),
        int32_at(words[13]),
        uint8_at(words[14]),
        int64_at(words[15]),
        int64_at(words[16]),
        int64_at(words[17]),
        int32_at(words[18]),
        int64_at(words[19]),
        words[20],
        int32_at(words[21]),
        words[22],
        int32_at(words[23]),
        int64_at(words[24]),
        int64_at(words[25]),
        int64_at(words[26]),
        int32_at(words[27]),
        int32_at(words[28]),
        words[29],
        int32_at(words[30]),
        int32_at(words[31]),
        int32_at(words[32]),
        int32_at(words[33]),
        words[34],
        int64_at(words[35]),
        words[36],
        int64_at(words[37]),
        int32_at(words[38]),
        int32_at(words[39]),
        int64_at(words[40]),
    )


@njit(error_model="numpy", forceinline=True)
def parts_at(words: Any) -> tuple[at.AutomatonArrays, Cells, Code, Cells, Rules]:
    """All parts behind the words: arrays, cells of lists, conditions, match buffer, and rules of negation."""
    return (
        machine_at(words),
        cells_at(words, at.CELLS),
        code_at(words, at.CODE),
        cells_at(words, at.BUFFER),
        rules_at(words, at.RULES),
    )


@njit(error_model="numpy", forceinline=True)
def run_at(machine: at.AutomatonArrays, run: int) -> Any:
    """The words of a run."""
    return further(machine.runs, run * machine.run_words)


@njit(error_model="numpy")
def allocate(words: Any) -> int:
    """Take a run from the pool, which must have one."""
    machine = machine_at(words)
    machine.control[at.FREE_RUNS] -= 1
    machine.control[at.ALIVE] += 1
    return machine.free[machine.control[at.FREE_RUNS]]


@njit(error_model="numpy")
def release(words: Any, run: int) -> None:
    """Give a run back to the pool."""
    machine = machine_at(words)
    machine.free[machine.control[at.FREE_RUNS]] = run
    machine.control[at.FREE_RUNS] += 1
    machine.control[at.ALIVE] -= 1


@njit(error_model="numpy")
def copy_of(words: Any, run: int) -> int:
    """Copy a run."""
    machine = machine_at(words)
    copy = allocate(words)
    for variable in range(machine.variables):
        machine.slots[copy * machine.stride + variable] = machine.slots[run * machine.stride + variable]
    for word in range(at.R_HASH):
        run_at(machine, copy)[word] = run_at(machine, run)[word]
    run_at(machine, copy)[at.R_STATE] = -1
    return copy


@njit(error_model="numpy")
def holds(words: Any, group: int, base: int) -> bool:
    """Test whether the conjuncts of a group hold on the run whose slots begin at `base`.

    This is the one place where conditions are compiled in: six of them took a compiler three times as long.
    """
    machine, cells, code, _, _ = parts_at(words)
    return group_holds(code, cells, group, machine.slots, base)


@njit(error_model="numpy")
def start(words: Any, place: int) -> int:
    """Start a run with the event at a place; returns -1 if the conditions on that event alone do not hold."""
    machine, cells, _, _, _ = parts_at(words)
    row = machine.rows[place]
    run = allocate(words)
    base = run * machine.stride
    machine.slots[base] = append(cells, 0, -1, row, row) if machine.most[0] else row
    machine.counts[0] += 1
    if machine.groups[0] >= 0 and not holds(words, machine.groups[0], base):
        if machine.most[0]:
            drop_newest(cells)
        release(words, run)
        return -1
    machine.counts[1] += 1
    machine.control[at.STARTED] += 1
    run_at(machine, run)[at.R_STATE] = -1
    run_at(machine, run)[at.R_EVENT] = -1
    run_at(machine, run)[at.R_BEGUN] = machine.instants[place]
    run_at(machine, run)[at.R_FIRST] = place
    run_at(machine, run)[at.R_KEY] = machine.keys[place] if machine.options & at.AGREEING else 0
    run_at(machine, run)[at.R_NEWEST] = 0
    _selected(words, run, 0, place)
    machine.change[row] += 1
    return run


@njit(error_model="numpy")
def agrees(words: Any, run: int, place: int) -> bool:
    """Test whether an event agrees with those of a run; true where the sequence is sorted so that all do."""
    machine = machine_at(words)
    if not machine.options & at.AGREEING:
        return True
    key = run_at(machine, run)[at.R_KEY]
    return key >= 0 and key == machine.keys[place]


@njit(error_model="numpy")
def begin(words: Any, run: int, variable: int, place: int) -> int:
    """Follow the begin edge: returns a copy of the run that binds the event to the next variable, or -1."""
    machine, cells, _, _, _ = parts_at(words)
    if machine.options & at.COMPARES_CLOCKS and machine.clocks[place] <= run_at(machine, run)[at.R_NEWEST]:
        return -1
    row = machine.rows[place]
    machine.counts[2 * variable] += 1
    left = machine.groups[3 * variable - 1]  # what is bound only now that the variable before is left
    if left >= 0 and not holds(words, left, run * machine.stride):
        return -1
    copy = copy_of(words, run)
    base = copy * machine.stride
    if machine.most[variable]:
        machine.slots[base + variable] = append(cells, variable, -1, row, row)
    else:
        machine.slots[base + variable] = row
    tested = machine.groups[3 * variable]
    if tested >= 0 and not holds(words, tested, base):
        if machine.most[variable]:
            drop_newest(cells)
        release(words, copy)
        return -1
    machine.counts[2 * variable + 1] += 1
    _selected(words, copy, variable, place)
    machine.change[row] += 1
    return copy


@njit(error_model="numpy")
def take(words: Any, run: int, variable: int, place: int) -> bool:
    """The take edge: add the event to the list of the run, if it may be."""
    machine, cells, _, _, _ = parts_at(words)
    row = machine.rows[place]
    base = run * machine.stride
    machine.counts[2 * variable] += 1
    before = machine.slots[base + variable]
    machine.slots[base + variable] = append(cells, variable, before, row, row)
    tested = machine.groups[3 * variable + 1]
    if tested >= 0 and not holds(words, tested, base):
        machine.slots[base + variable] = before
        drop_newest(cells)
        return False
    machine.counts[2 * variable + 1] += 1
    _selected(words, run, variable, place)
    return True


@njit(error_model="numpy")
def _selected(words: Any, run: int, variable: int, place: int) -> None:
    """Note in the buffer that a run binds an event to a variable."""
    machine, _, _, buffer, _ = parts_at(words)
    row = machine.rows[place]
    entry = append(buffer, 0, run_at(machine, run)[at.R_EVENT], row, row)
    buffer.links[(entry & buffer.mask) * LINK_WORDS + at.STATE] = variable
    run_at(machine, run)[at.R_EVENT] = entry
    run_at(machine, run)[at.R_PLACE] = place
    if machine.options & at.COMPARES_CLOCKS:
        run_at(machine, run)[at.R_NEWEST] = machine.clocks[place]


@njit(error_model="numpy")
def is_open(words: Any, run: int, variable: int) -> bool:
    """Tell whether the variable that a run has bound last is a list that is not full."""
    machine, cells, _, _, _ = parts_at(words)
    most = machine.most[variable]
    return most > 0 and length_of(cells, machine.slots[run * machine.stride + variable]) < most


@njit(error_model="numpy")
def goes_on(words: Any, run: int, variable: int, place: int) -> bool:
    """Finish a run that has bound an event to the last variable; tell whether it may bind more, or end it if not."""
    machine = machine_at(words)
    if variable == machine.variables - 1:
        finish(words, run)
        if not is_open(words, run, variable):
            end(words, run, machine.rows[place])
            return False
    return True


@njit(error_model="numpy")
def finish(words: Any, run: int) -> None:
    """Note the matches of a run that has bound all variables, if the last conditions hold and nothing rejects it."""
    machine, cells, code, _, rules = parts_at(words)
    left = machine.groups[3 * machine.variables - 1]
    if left >= 0 and not holds(words, left, run * machine.stride):
        return
    if machine.options & at.NEGATION:
        first, last = machine.rows[run_at(machine, run)[at.R_FIRST]], machine.rows[run_at(machine, run)[at.R_PLACE]]
        if rejected(rules, code, cells, machine.slots, run * machine.stride, first, last):
            return
    number = machine.control[at.FINISHED_RUNS]
    machine.finished[number] = run_at(machine, run)[at.R_EVENT]
    machine.control[at.FINISHED_RUNS] = number + 1
    machine.control[at.FINISHES] += 1


@njit(error_model="numpy")
def end(words: Any, run: int, row: int) -> None:
    """End a run with the event of a row."""
    machine = machine_at(words)
    machine.change[row] -= 1
    release(words, run)


@njit(error_model="numpy")
def expire(words: Any, run: int) -> None:
    """End a run because its window, or its partition, has ended."""
    machine = machine_at(words)
    machine.expired[run_at(machine, run)[at.R_FIRST]] += 1
    release(words, run)
