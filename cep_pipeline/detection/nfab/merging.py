"""Merging of equivalent runs (SIGMOD'08 section 5.2.2). Imported only where kernels are compiled.

Runs in one state whose value vectors agree under the state's mask take the same events from now on. They become one
run, which goes on under the version number of one of them. A junction of the match buffer keeps the versions and the
starts of both, with which the way back goes on before it. The run starts when the youngest of them does, so that it
lives as long as one of them would; the way back leaves out those that have expired.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import int64_at
from cep_pipeline.detection.instances.cells import first_row_of, length_of, row_of
from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.buffer import join, label
from cep_pipeline.detection.nfab.machine import machine_at, parts_at, release


@njit(error_model="numpy")
def merge_state(words: Any, variable: int, place: int) -> None:
    """Merge the runs in the state of a variable, after some of them have changed with the event at a place.

    No two of them are equal that have not changed since they were compared.
    """
    machine, _, _, buffer, _, _ = parts_at(words)
    lists = variable * machine.capacity
    number = machine.list_sizes[variable]
    changed = False
    for index in range(number):
        run = machine.lists[lists + index]
        if machine.places[run] >= 0:
            machine.places[run] = -1
            changed |= instantiate(words, variable, run)
    if not changed:
        return
    mask = 15
    while mask < 2 * number:
        mask = 2 * mask + 1
    for slot in range(mask + 1):
        machine.table[slot] = -1
    kept = 0
    for index in range(number):
        run = machine.lists[lists + index]
        slot = machine.hashes[run] & mask
        other = machine.table[slot]
        while other >= 0 and not equivalent(words, variable, run, other):
            slot = (slot + 1) & mask
            other = machine.table[slot]
        if other < 0:
            machine.table[slot] = run
            machine.lists[lists + kept] = run
            kept += 1
            continue
        younger, elder = (run, other) if machine.begun[run] > machine.begun[other] else (other, run)
        junction = join(buffer, variable, machine.rows[place])
        _label(words, variable, junction, younger)
        _label(words, variable, junction + 1, elder)
        machine.events[other] = junction
        machine.lengths[other] = 0
        if machine.begun[run] > machine.begun[other]:
            machine.begun[other] = machine.begun[run]
            machine.firsts[other] = machine.firsts[run]
        machine.change[machine.rows[place]] -= 1
        machine.control[at.MERGED] += 1
        release(words, run)
    machine.list_sizes[variable] = kept


@njit(error_model="numpy")
def _label(words: Any, variable: int, pointer: int, run: int) -> None:
    """Keep the version, the start and the newest event of a merged run."""
    machine, _, _, buffer, _, _ = parts_at(words)
    start, event = machine.begun[run], machine.events[run]
    label(buffer, variable, pointer, machine.prefixes[run], machine.digits[run], event, start)


@njit(error_model="numpy")
def equivalent(words: Any, variable: int, one: int, other: int) -> bool:
    """Whether two runs in the state of a variable agree on all values that its mask selects."""
    machine = machine_at(words)
    if machine.hashes[one] != machine.hashes[other] or machine.run_keys[one] != machine.run_keys[other]:
        return False
    for number in range(machine.vector_starts[variable + 1] - machine.vector_starts[variable]):
        own = machine.vectors[one * machine.vector_words + number]
        if own != machine.vectors[other * machine.vector_words + number]:
            return False
    return True


@njit(error_model="numpy")
def instantiate(words: Any, variable: int, run: int) -> bool:
    """Compute the value vector of a run in the state of a variable, and its hash; whether it has changed."""
    machine, cells, _, _, _, _ = parts_at(words)
    changed = machine.states[run] != variable
    machine.states[run] = variable
    hashed = machine.run_keys[run]
    first = machine.vector_starts[variable]
    for number in range(first, machine.vector_starts[variable + 1]):
        word = at.VALUE_WORDS * number
        how, source = machine.vector[word], machine.vector[word + 2]
        slot = machine.slots[run * machine.stride + machine.vector[word + 1]]
        is_cell = machine.vector[word + 3] != 0
        if how == at.VALUE_OF_FIRST:
            value = int64_at(source)[first_row_of(cells, slot) if is_cell else slot]
        elif how == at.VALUE_OF_NEWEST:
            value = int64_at(source)[row_of(cells, slot) if is_cell else slot]
        elif how == at.LENGTH_OF_LIST:
            value = length_of(cells, slot)
        elif how == at.WHOLE_OF_CELL:
            value = cells.wholes[(slot & cells.mask) * cells.whole_words + source]
        elif how == at.SIGN_OF_CELL:
            value = 1 if cells.wholes[(slot & cells.mask) * cells.whole_words + source] > 0 else 0
        elif how == at.REAL_OF_CELL:
            value = machine.real_bits[(slot & cells.mask) * cells.real_words + source]
        else:
            value = slot
        kept = run * machine.vector_words + number - first
        changed |= machine.vectors[kept] != value
        machine.vectors[kept] = value
        hashed = (hashed ^ value) * 0x9E3779B97F4A7C1
        hashed ^= hashed >> 29
    machine.hashes[run] = hashed
    return changed
