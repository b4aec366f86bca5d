"""Lists of Kleene variables in a network. Imported only where its kernel is compiled.

A node of lists holds, for each partial match of the node before it (or for none), lists of the events of its variable.
An event begins a list for each partial match, and goes on each list that there is; a partial match that is new makes
all lists of the events that came before it.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, uint8_at
from cep_pipeline.detection.instances.cells import append, drop_newest
from cep_pipeline.detection.instances.interpreter import code_at, group_holds
from cep_pipeline.detection.instances.rules import joins, rules_at
from cep_pipeline.detection.shared_network import codes as c
from cep_pipeline.detection.shared_network.machine import machine_at
from cep_pipeline.detection.shared_network.passing import passed
from cep_pipeline.detection.shared_network.searching import buffered, scan_bounds, view_of
from cep_pipeline.detection.shared_network.stores import cut, load, newest_before, next_older, push, touch


@njit(error_model="numpy")
def lengthen(w: Any, node: int, before: int, element: int, first: int, row: int, key: int) -> int:
    """Put an element behind the list that ends with a cell (-1: begin one), for what else the tuple under test has."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    code = code_at(w, m.nodes[n + c.N_CODE])
    variable, lists = m.nodes[n + c.N_VARIABLE], m.nodes[n + c.N_LISTS]
    m.counts[node * c.COUNTS + c.CANDIDATES] += 1
    cell = append(m.cells, m.nodes[n + c.N_EVENT_TYPE], before, element, row)
    if cell < 0:
        return c.CELLS_FULL
    m.bound[variable] = cell
    group = m.nodes[n + c.N_BEGINS] if before < 0 else m.nodes[n + c.N_GROWS]
    if not group_holds(code, m.cells, group, m.bound, 0):
        drop_newest(m.cells)
        return c.FINISHED
    first = min(first, element)
    if lists != node and not push(w, lists, first, row, key):
        return c.STORE_FULL
    if group_holds(code, m.cells, m.nodes[n + c.N_GROUP], m.bound, 0):
        status = passed(w, node, first, row, key)
        if status != c.FINISHED:
            return status
    # The lists of a root are held, too, for they may grow.
    if lists == node and m.nodes[n + c.N_EDGES] == m.nodes[n + c.N_EDGES_END] and not push(w, node, first, row, key):
        return c.STORE_FULL
    return c.FINISHED


@njit(error_model="numpy")
def take_element(w: Any, edge: int, row: int, key: int) -> int:
    """The event becomes an element of the lists that there are, and begins others."""
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    node = m.edges[e + c.E_PARENT]
    n = node * c.NODE_WORDS
    lists = m.nodes[n + c.N_LISTS]
    touch(w, node)
    touch(w, lists)
    made = m.tails[lists]
    status = _take_element(w, edge, row, key)
    if status == c.FINISHED and lists != node and m.nodes[lists * c.NODE_WORDS + c.N_STORED] == 0:
        cut(w, lists, made)
    return status


@njit(error_model="numpy")
def _take_element(w: Any, edge: int, row: int, key: int) -> int:
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    node, before = m.edges[e + c.E_PARENT], m.edges[e + c.E_SIBLING]
    n = node * c.NODE_WORDS
    rules = rules_at(w, m.nodes[n + c.N_RULES])
    lists, variable = m.nodes[n + c.N_LISTS], m.nodes[n + c.N_VARIABLE]
    if before < 0:
        status = lengthen(w, node, -1, row, row, row, key)
        if status != c.FINISHED:
            return status
    if rules.agreeing and key < 0:
        return c.FINISHED
    if m.ascents[m.ascent_starts[m.edges[e + c.E_ASCENTS]]] == 0:  # it comes too late for all lists
        return c.FINISHED
    mask = m.nodes[n + c.N_MASKS]
    places = m.nodes[n + c.N_PLACES]
    stride = c.SLOTS + m.nodes[n + c.N_WIDTH]
    number = newest_before(w, lists, row, row, key)
    while number >= 0:
        if int32_at(m.stores[lists])[number * stride + c.LAST] < rules.floor[row]:
            break
        first = load(w, lists, number, places)
        if joins(rules, m.cells, m.bound, 0, uint8_at(m.masks + mask + rules.slots), first, row - 1, variable, row):
            status = lengthen(w, node, m.bound[variable], row, first, row, key)
            if status != c.FINISHED:
                return status
        number = next_older(w, lists, number)
    if before < 0:
        return c.FINISHED
    return begin_lists(w, node, before, row, key)


@njit(error_model="numpy")
def begin_lists(w: Any, node: int, before: int, row: int, key: int) -> int:
    """Begin a list with the event for each partial match that came before it."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    rules = rules_at(w, m.nodes[n + c.N_RULES])
    variable, places, mask = m.nodes[n + c.N_VARIABLE], m.nodes[n + c.N_PLACES], m.nodes[n + c.N_MASKS]
    b = before * c.NODE_WORDS
    if m.nodes[b + c.N_KIND] == c.EVENTS:
        low, high = buffered(w, before, rules.floor[row], row, row, key)
        events = int32_at(m.nodes[b + c.N_ROWS])
        for place in range(low, high):
            first = events[place]
            m.bound[m.places[places]] = first
            if joins(rules, m.cells, m.bound, 0, uint8_at(m.masks + mask), first, first, variable, row):
                status = lengthen(w, node, -1, row, first, row, key)
                if status != c.FINISHED:
                    return status
        return c.FINISHED
    stride = c.SLOTS + m.nodes[b + c.N_WIDTH]
    number = newest_before(w, before, row, row, key)
    while number >= 0:
        if int32_at(m.stores[before])[number * stride + c.LAST] < rules.floor[row]:
            break
        first = load(w, before, number, places)
        if joins(rules, m.cells, m.bound, 0, uint8_at(m.masks + mask), first, row - 1, variable, row):
            status = lengthen(w, node, -1, row, first, row, key)
            if status != c.FINISHED:
                return status
        number = next_older(w, before, number)
    return c.FINISHED


@njit(error_model="numpy")
def make_lists(w: Any, own: int, edge: int, begin: int, end: int, slot: int, row: int, key: int) -> int:
    """Make all lists of the events that came before, for partial matches that are new."""
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    node, events = m.edges[e + c.E_PARENT], m.edges[e + c.E_SIBLING]
    n, o = node * c.NODE_WORDS, own * c.NODE_WORDS
    rules = rules_at(w, m.nodes[n + c.N_RULES])
    if rules.agreeing and key < 0:
        return c.FINISHED
    touch(w, node)
    lists, variable, places = m.nodes[n + c.N_LISTS], m.nodes[n + c.N_VARIABLE], m.nodes[n + c.N_PLACES]
    touch(w, lists)
    at = m.ascent_starts[m.edges[e + c.E_ASCENTS] + slot]
    if m.ascents[at] == 0:  # it comes too late for all lists
        return c.FINISHED
    view = view_of(w, m.nodes[n + c.N_RULES])
    mask = m.nodes[n + c.N_MASKS]
    rows = int32_at(m.nodes[events * c.NODE_WORDS + c.N_ROWS])
    stride = c.SLOTS + m.nodes[n + c.N_WIDTH]
    start = m.tails[lists]
    for number in range(begin, end):
        first = row
        if m.nodes[o + c.N_KIND] == c.EVENTS:
            m.bound[m.places[places]] = row
        else:
            first = load(w, own, number, places)
        if first < rules.floor[row]:
            continue
        lower, upper, _ = scan_bounds(w, view, at + 1, row)
        low, high = buffered(w, events, lower, upper, row, key)
        made = m.tails[lists]
        for place in range(low, high):
            element, newest = rows[place], m.tails[lists]
            if joins(rules, m.cells, m.bound, 0, uint8_at(m.masks + mask), first, row, variable, element):
                status = lengthen(w, node, -1, element, first, row, key)
                if status != c.FINISHED:
                    return status
            for growing in range(made, newest):
                words = int32_at(m.stores[lists])
                before = words[growing * stride + c.SLOTS + m.nodes[n + c.N_WIDTH] - 1]
                started = words[growing * stride + c.FIRST]
                m.bound[variable] = before
                if joins(
                    rules, m.cells, m.bound, 0, uint8_at(m.masks + mask + rules.slots), started, row, variable, element
                ):
                    status = lengthen(w, node, before, element, started, row, key)
                    if status != c.FINISHED:
                        return status
    if lists != node and m.nodes[lists * c.NODE_WORDS + c.N_STORED] == 0:
        cut(w, lists, start)
    return c.FINISHED
