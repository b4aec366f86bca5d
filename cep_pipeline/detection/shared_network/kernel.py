"""The loop of shared networks, written in Numba. Imported only where it is compiled; `run.py` calls it.

A step is an event that fits a variable of some pattern. It goes along the edges of the nodes whose events it is one of
(the list l_T of MCEP [0071]); what is new at a node is joined with what the other side of each edge has, and what
passes there is new at the node above. What the current event made is beyond the marks of the stores, so that it can be
taken back where there is no room for all of it.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import int32_at
from cep_pipeline.detection.evaluation_tree.kernel import are_distinct, in_order
from cep_pipeline.detection.instances.cells import forget_cells
from cep_pipeline.detection.instances.interpreter import code_at, group_holds
from cep_pipeline.detection.lazy_nfa.steps import first_passing
from cep_pipeline.detection.shared_network import codes as c
from cep_pipeline.detection.shared_network.lists import make_lists, take_element
from cep_pipeline.detection.shared_network.machine import Buffered, machine_at
from cep_pipeline.detection.shared_network.passing import passed
from cep_pipeline.detection.shared_network.searching import buffered, scan_bounds, view_of
from cep_pipeline.detection.shared_network.stores import (
    bury,
    compact,
    cut,
    holds_more,
    keep,
    load,
    newest_before,
    take_back,
    touch,
)


@njit(error_model="numpy")
def search_events(
    w: Any, node: int, places: int, order: int, low: int, high: int, first: int, events: int, row: int, key: int
) -> int:
    """Join the tuple under test with events that came before it, at these places among those of a node."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    code, view = code_at(w, m.nodes[n + c.N_CODE]), view_of(w, m.nodes[n + c.N_RULES])
    rows, variable = int32_at(m.nodes[events * c.NODE_WORDS + c.N_ROWS]), m.places[places]
    group = m.nodes[n + c.N_GROUP]
    apart = order + 1 + 2 * m.ascents[order]
    plain = m.ascents[order] == 0 and m.ascents[apart] == 0
    candidates = 0
    status = c.FINISHED
    while low < high:
        if plain:
            passing = first_passing(Buffered(rows, m.bound), code, group, variable, low, high)
            candidates += passing - low
            low = passing
            if low == high:
                break
        event = rows[low]
        low += 1
        m.bound[variable] = event
        if plain or (in_order(view, order) and are_distinct(view, apart)):
            candidates += 1
            if group_holds(code, m.cells, group, m.bound, 0):
                status = passed(w, node, min(first, event), row, key)
                if status != c.FINISHED:
                    break
    m.counts[node * c.COUNTS + c.CANDIDATES] += candidates
    return status


@njit(error_model="numpy")
def scan_store(
    w: Any, node: int, places: int, order: int, lower: int, upper: int, first: int, other: int, row: int, key: int
) -> int:
    """Join the tuple under test with instances of another node that were made before."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    code, view = code_at(w, m.nodes[n + c.N_CODE]), view_of(w, m.nodes[n + c.N_RULES])
    group = m.nodes[n + c.N_GROUP]
    apart = order + 1 + 2 * m.ascents[order]
    plain = m.ascents[order] == 0 and m.ascents[apart] == 0
    width = m.nodes[other * c.NODE_WORDS + c.N_WIDTH]
    stride = c.SLOTS + width
    linked = m.nodes[other * c.NODE_WORDS + c.N_HEADS] >= 0
    instances = int32_at(m.stores[other])
    floor = view.rules.floor[row]
    candidates = 0
    status = c.FINISHED
    number = newest_before(w, other, upper, row, key)
    while number >= 0:
        at = number * stride
        if instances[at + c.LAST] < lower:
            break
        started = instances[at + c.FIRST]
        if started >= floor:
            for slot in range(width):
                m.bound[m.places[places + slot]] = instances[at + c.SLOTS + slot]
            if plain or (in_order(view, order) and are_distinct(view, apart)):
                candidates += 1
                if group_holds(code, m.cells, group, m.bound, 0):
                    status = passed(w, node, min(first, started), row, key)
                    if status != c.FINISHED:
                        break
        number = instances[at + c.OLDER] if linked else number - 1
    m.counts[node * c.COUNTS + c.CANDIDATES] += candidates
    return status


@njit(error_model="numpy")
def join(w: Any, own: int, edge: int, begin: int, end: int, slot: int, row: int, key: int) -> int:
    """Join instances that are new at a node with what the other side of an edge has from before."""
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    node, other = m.edges[e + c.E_PARENT], m.edges[e + c.E_SIBLING]
    n, o = node * c.NODE_WORDS, own * c.NODE_WORDS
    events = m.nodes[other * c.NODE_WORDS + c.N_KIND] == c.EVENTS
    if not events and m.marks[other] == 0:
        return c.FINISHED
    at = m.ascent_starts[m.edges[e + c.E_ASCENTS] + slot]
    if m.ascents[at] == 0 or row < m.nodes[n + c.N_FROM]:
        return c.FINISHED
    view = view_of(w, m.nodes[n + c.N_RULES])
    if view.rules.agreeing and key < 0:  # it agrees with no other event
        return c.FINISHED
    if not events:
        newest = (m.marks[other] - 1) * (c.SLOTS + m.nodes[other * c.NODE_WORDS + c.N_WIDTH])
        if int32_at(m.stores[other])[newest + c.LAST] < view.rules.floor[row]:  # all are too old
            return c.FINISHED
    touch(w, node)
    own_places = m.nodes[n + c.N_PLACES] + m.edges[e + c.E_OWN]
    places = m.nodes[n + c.N_PLACES] + m.edges[e + c.E_OTHER]
    single = m.nodes[o + c.N_KIND] == c.EVENTS
    for number in range(begin, end):
        first = row
        if single:
            m.bound[m.places[own_places]] = row
        else:
            first = load(w, own, number, own_places)
        if first < view.rules.floor[row]:
            continue
        lower, upper, order = scan_bounds(w, view, at + 1, row)
        status = c.FINISHED
        if events:
            low, high = buffered(w, other, lower, upper, row, key)
            if low < high:
                status = search_events(w, node, places, order, low, high, first, other, row, key)
        else:
            status = scan_store(w, node, places, order, lower, upper, first, other, row, key)
        if status != c.FINISHED:
            return status
    return c.FINISHED


@njit(error_model="numpy")
def push_frame(w: Any, node: int, begin: int, end: int, slot: int) -> None:
    """New instances of a node are to be joined along its edges."""
    m = machine_at(w)
    r = m.registers
    at = r[c.DEPTH] * c.FRAME_WORDS
    m.frames[at + c.F_NODE] = node
    m.frames[at + c.F_BEGIN] = begin
    m.frames[at + c.F_END] = end
    m.frames[at + c.F_EDGE] = m.nodes[node * c.NODE_WORDS + c.N_EDGES]
    m.frames[at + c.F_SLOT] = slot
    r[c.DEPTH] += 1


@njit(error_model="numpy")
def climb(w: Any, row: int, key: int) -> int:
    """Go along the edges of what is new, and of what that makes, until nothing is new."""
    m = machine_at(w)
    r = m.registers
    while r[c.DEPTH] > 0:
        at = (r[c.DEPTH] - 1) * c.FRAME_WORDS
        node, begin, end = m.frames[at + c.F_NODE], m.frames[at + c.F_BEGIN], m.frames[at + c.F_END]
        edge, slot = m.frames[at + c.F_EDGE], m.frames[at + c.F_SLOT]
        n = node * c.NODE_WORDS
        if edge == m.nodes[n + c.N_EDGES_END]:
            if m.nodes[n + c.N_STORED] == 0 and m.nodes[n + c.N_KIND] != c.EVENTS:
                cut(w, node, begin)
            r[c.DEPTH] -= 1
            continue
        m.frames[at + c.F_EDGE] = edge + 1
        e = edge * c.EDGE_WORDS
        above, role = m.edges[e + c.E_PARENT], m.edges[e + c.E_ROLE]
        made = m.tails[above]
        if role == c.SIDE:
            status = join(w, node, edge, begin, end, slot, row, key)
        elif role == c.ELEMENT:
            status = take_element(w, edge, row, key)
        else:
            status = make_lists(w, node, edge, begin, end, slot, row, key)
        if status != c.FINISHED:
            return status
        if m.tails[above] > made:
            push_frame(w, above, made, m.tails[above], m.edges[e + c.E_OWN] + slot)
    return c.FINISHED


@njit(error_model="numpy")
def take(w: Any, step: int, row: int) -> int:
    """Let an event into every node whose events it is one of."""
    m = machine_at(w)
    m.registers[c.DEPTH] = 0
    for place in range(m.leaf_starts[step], m.leaf_starts[step + 1]):
        node = m.leaves[place]
        n = node * c.NODE_WORDS
        key = int32_at(m.nodes[n + c.N_KEYS])[row] if m.nodes[n + c.N_KEYS] != 0 else 0
        if m.nodes[n + c.N_OUTPUTS] < m.nodes[n + c.N_OUTPUTS_END]:
            touch(w, node)
            m.bound[m.places[m.nodes[n + c.N_PLACES]]] = row
            status = passed(w, node, row, row, key)
            if status != c.FINISHED:
                return status
        push_frame(w, node, 0, 1, 0)
        status = climb(w, row, key)
        if status != c.FINISHED:
            return status
    return c.FINISHED


@njit(error_model="numpy")
def read(w: Any, step: int, row: int) -> None:
    """The event has been dealt with: later ones find it among the events of its nodes."""
    m = machine_at(w)
    for place in range(m.leaf_starts[step], m.leaf_starts[step + 1]):
        n = m.leaves[place] * c.NODE_WORDS
        if m.nodes[n + c.N_KEYS] == 0:
            int32_at(m.nodes[n + c.N_READ])[0] += 1
        else:
            key = int32_at(m.nodes[n + c.N_KEYS])[row]
            if key >= 0:
                int32_at(m.nodes[n + c.N_READ])[key] += 1


def run_network(words: Any) -> int:
    """Read events until all are read or there is no room; then call it again with more room.

    Parameters
    ----------
    words
        int64: what `machine_at` reads. Matches may be taken away between calls.

    Returns
    -------
    int
        A code of `codes.py`; what is full is in the register `SHORT_OF`.
    """
    w = words
    m = machine_at(w)
    r = m.registers
    tested = m.tested[0]
    while r[c.STEP] < r[c.STEPS]:
        step = r[c.STEP]
        row = m.rows[step]
        bury(w, row)
        if r[c.LISTING]:
            forget_cells(m.cells, row, int32_at(m.words[c.LIST_CEILING]))
            r[c.CELLS_MADE] = m.cells.ends[1]
        r[c.EPOCH] += 1
        r[c.TOUCHED], r[c.TOUCHED_OUTPUTS] = 0, 0
        before = m.tested[0]
        code = take(w, step, row)
        held = holds_more(w)
        if code == c.FINISHED and not keep(w):
            code = c.DEATHS_FULL
        if code != c.FINISHED:
            take_back(w, before)
            if code != c.STORE_FULL or not compact(w, r[c.SHORT_OF], row):
                return int(code)
            continue
        if r[c.LISTING] and not held:  # its lists are part of no instance
            m.cells.ends[1] = r[c.CELLS_MADE]
        read(w, step, row)
        m.held[step] = r[c.ALIVE]
        r[c.STEP] = step + 1
        if m.tested[0] - tested > c.TESTS_A_CALL:
            return c.GO_ON
    return c.FINISHED
