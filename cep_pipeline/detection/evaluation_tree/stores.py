"""The instances that the nodes hold. Imported only where the tree's kernel is compiled.

Each store is sorted by the newest rows of its instances, since an instance is made at its last event; where events must
agree, the instances of each key are linked, too. What has expired stays until room is needed.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.detection.evaluation_tree.codes import (
    ALIVE,
    COUNTS,
    CREATED,
    EXPIRES,
    KEY,
    LAST,
    MADE,
    OLDER,
    SHORT_OF,
    SLOTS,
    STEP,
)
from cep_pipeline.detection.evaluation_tree.machine import Machine, Stores


@njit(error_model="numpy")
def stride_of(machine: Machine, store: int) -> int:
    """Words of an instance of a store."""
    layout = machine.layout
    if store >= layout.nodes:
        return SLOTS + 1
    return SLOTS + layout.member_starts[store + 1] - layout.member_starts[store]


@njit(error_model="numpy")
def is_linked(machine: Machine, store: int) -> bool:
    """Whether instances of a store are found through their keys."""
    return machine.rules.agreeing and (store >= machine.layout.nodes or machine.layout.stored[store] != 0)


@njit(error_model="numpy")
def push(machine: Machine, store: int, expires: int, row: int, key: int) -> bool:
    """Hold the tuple under test, as far as the store's variables go; False where the store is full."""
    layout, stores = machine.layout, machine.stores
    number = stores.tails[store]
    if number >= stores.sizes[store]:
        machine.waiting.progress[SHORT_OF] = store
        return False
    at = stores.bases[store] + number * stride_of(machine, store)
    words = stores.words
    words[at + EXPIRES] = expires
    words[at + LAST] = row
    words[at + KEY] = key
    if is_linked(machine, store):
        head = store * stores.different + key
        words[at + OLDER] = stores.newest[head]
        stores.newest[head] = number
    stores.tails[store] = number + 1
    if store >= layout.nodes:
        words[at + SLOTS] = stores.bound[store - layout.nodes]
        return True
    begin = layout.member_starts[store]
    for place in range(layout.member_starts[store + 1] - begin):
        words[at + SLOTS + place] = stores.bound[layout.members[begin + place]]
    return True


@njit(error_model="numpy")
def load(machine: Machine, store: int, number: int) -> None:
    """Put the slots of an instance into the tuple under test."""
    layout, stores = machine.layout, machine.stores
    at = stores.bases[store] + number * stride_of(machine, store) + SLOTS
    if store >= layout.nodes:
        stores.bound[store - layout.nodes] = stores.words[at]
        return
    begin = layout.member_starts[store]
    for place in range(layout.member_starts[store + 1] - begin):
        stores.bound[layout.members[begin + place]] = stores.words[at + place]


@njit(error_model="numpy")
def newest_before(machine: Machine, store: int, upper: int, row: int, key: int) -> int:
    """The newest instance (of the key) whose last row is below `upper`, which is `row` at most; -1 if there is none."""
    stores = machine.stores
    base, stride = stores.bases[store] + LAST, stride_of(machine, store)
    if machine.rules.agreeing:
        number = stores.newest[store * stores.different + key]
        while number >= 0 and stores.words[base + number * stride] >= upper:
            number = stores.words[base + number * stride + OLDER - LAST]
        return number
    low, high = 0, stores.marks[store]
    if upper >= row:
        return high - 1
    while low < high:
        middle = (low + high) >> 1
        if stores.words[base + middle * stride] < upper:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(error_model="numpy")
def compact(machine: Machine, store: int, step: int) -> bool:
    """Drop the expired instances of a store; whether at least half of it is free then."""
    stores = machine.stores
    base, stride = stores.bases[store], stride_of(machine, store)
    words = stores.words
    linked = is_linked(machine, store)
    if linked:
        for number in range(stores.tails[store]):
            stores.newest[store * stores.different + words[base + number * stride + KEY]] = -1
    kept, before = 0, stores.tails[store]
    for number in range(before):
        at, to = base + number * stride, base + kept * stride
        if words[at + EXPIRES] <= step:
            continue
        if to != at:
            for word in range(stride):
                words[to + word] = words[at + word]
        if linked:
            head = store * stores.different + words[to + KEY]
            words[to + OLDER] = stores.newest[head]
            stores.newest[head] = kept
        kept += 1
    stores.tails[store] = kept
    return before > kept and 2 * kept <= stores.sizes[store]


@njit(error_model="numpy")
def count_made(stores: Stores, progress: Any, node: int, made: int) -> None:
    """Count instances that are held at a node from now on."""
    stores.counts[node * COUNTS + CREATED] += made
    stores.alive[node] += made
    stores.peaks[node] = max(stores.peaks[node], stores.alive[node])
    progress[ALIVE] += made


@njit(error_model="numpy")
def keep(machine: Machine) -> None:
    """Count what the current event made as held, until it expires."""
    layout, stream, stores = machine.layout, machine.stream, machine.stores
    progress = machine.waiting.progress
    for store in range(layout.nodes + layout.variables):
        if store < layout.variables and machine.rules.kleene[store]:
            continue  # its lists are counted, complete or not
        node = store - layout.nodes if store >= layout.nodes else store
        made = stores.tails[store] - stores.marks[store]
        base, stride = stores.bases[store] + EXPIRES, stride_of(machine, store)
        for number in range(stores.marks[store], stores.tails[store]):
            stores.deaths[node * (stream.steps + 1) + stores.words[base + number * stride]] += 1
        if made:
            count_made(stores, progress, node, made)
    if progress[MADE]:
        count_made(stores, progress, layout.nodes - 1, progress[MADE])
    stores.held[progress[STEP]] = progress[ALIVE]
