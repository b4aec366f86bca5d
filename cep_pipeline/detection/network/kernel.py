"""The loop of join networks, written in Numba. Imported only where it is compiled; `run.py` calls it.

A step is an event that fits a variable of some pattern. It goes along the edges of the nodes whose events it is one of
(the list l_T of MCEP [0071]); what is new at a node is joined with what the other side of each edge has, and what
passes there is new at the node above. What the current event made is beyond the marks of the stores, so that it can be
taken back where there is no room for all of it.

A node of lists holds, for each partial match of the node before it (or for none), lists of the events of its variable.
An event begins a list for each partial match, and goes on each list that there is; a partial match that is new makes
all lists of the events that came before it.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at, uint8_at
from cep_pipeline.detection.instances.cells import append, drop_newest, forget_cells
from cep_pipeline.detection.instances.finished import add_match, found_at
from cep_pipeline.detection.instances.interpreter import code_at, group_holds
from cep_pipeline.detection.instances.rules import in_window, joins, last_row, rejected, rules_at
from cep_pipeline.detection.instances.searching import first_passing
from cep_pipeline.detection.network import codes as c
from cep_pipeline.detection.network.bounds import (
    are_distinct,
    buffered,
    in_order,
    key_of,
    scan_bounds,
    still_open,
    view_of,
)
from cep_pipeline.detection.network.choosing import await_next, begin_event, count_events, note_tests
from cep_pipeline.detection.network.stores import (
    bury,
    compact,
    cut,
    instances_made,
    keep,
    load,
    machine_at,
    newest_before,
    next_older,
    push,
    take_back,
    touch,
)

# --- what becomes of a tuple that passes at a node -------------------------------------------------------------------


@njit(error_model="numpy")
def passed(w: Any, node: int, first: int, row: int, key: int) -> int:
    """The tuple under test has passed at a node: put it out for those whose root it is, hold it for those above."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    m.counts[node * c.COUNTS + c.PASSES] += 1
    if m.nodes[n + c.N_REJECTS]:
        rules, code = rules_at(w, m.nodes[n + c.N_RULES]), code_at(w, m.nodes[n + c.N_CODE])
        if rejected(rules, code, m.cells, m.bound, 0, first, row):
            return c.FINISHED
    if not put_all_out(w, m.nodes[n + c.N_FINAL], m.bound, 0, first, row):
        return c.FOUND_FULL
    goes_up = m.nodes[n + c.N_EDGES] < m.nodes[n + c.N_EDGES_END] or m.nodes[n + c.N_CHOICES] >= 0
    if m.nodes[n + c.N_KIND] != c.EVENTS and goes_up:
        return c.FINISHED if push(w, node, first, row, key) else c.STORE_FULL
    return c.FINISHED


@njit(error_model="numpy", forceinline=True)
def put_all_out(w: Any, node: int, slots: Any, base: int, first: int, row: int) -> bool:
    """Put a tuple, `slots[base:]`, out for all whose root a node is; False where there is no room."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    for output in range(m.nodes[n + c.N_OUTPUTS], m.nodes[n + c.N_OUTPUTS_END]):
        if not put_out(w, node, output, slots, base, first, row):
            m.registers[c.SHORT_OF] = output
            return False
    return True


@njit(error_model="numpy", forceinline=True)
def put_out(w: Any, node: int, output: int, slots: Any, base: int, first: int, row: int) -> bool:
    """Put a tuple out as a match of a member, if it is one; False where there is no room.

    It leaves what is shared here: the member's own window is asked, and the events that would reject it.
    """
    m = machine_at(w)
    o = output * c.OUTPUT_WORDS
    if row < m.outputs[o + c.O_FROM] or m.registers[c.REPLAYING]:
        return True
    rules = rules_at(m.words, m.outputs[o + c.O_RULES])
    if not in_window(rules, first, row):
        return True
    n = node * c.NODE_WORDS
    own, places = m.nodes[n + c.N_PLACES], m.outputs[o + c.O_PLACES]
    if places != own or rules.negations > 0:  # those of another member have other places, and negation needs more
        for slot in range(m.nodes[n + c.N_WIDTH]):
            m.match[m.places[places + slot]] = slots[base + m.places[own + slot]]
        slots, base = m.match, 0
    if rules.negations > 0:
        code = code_at(m.words, m.outputs[o + c.O_CODE])
        if rejected(rules, code, m.cells, slots, base, first, row):
            return True
    found = found_at(m.words, m.outputs[o + c.O_FOUND])
    r = m.registers
    if m.output_stamps[output] != r[c.EPOCH]:
        m.output_stamps[output] = r[c.EPOCH]
        m.touched_outputs[r[c.TOUCHED_OUTPUTS]] = output
        r[c.TOUCHED_OUTPUTS] += 1
        m.saved_outputs[2 * output] = found.used[0]
        m.saved_outputs[2 * output + 1] = found.used[1]
    return add_match(found, rules, m.cells, slots, base)


# --- lists of Kleene variables ---------------------------------------------------------------------------------------


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
def take_element(w: Any, own: int, edge: int, row: int, key: int) -> int:
    """The event becomes an element of the lists that there are, and begins others."""
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    node = m.edges[e + c.E_PARENT]
    n = node * c.NODE_WORDS
    lists = m.nodes[n + c.N_LISTS]
    touch(w, node)
    touch(w, lists)
    made = m.tails[lists]
    status = _take_element(w, own, edge, row, key)
    if status == c.FINISHED and lists != node and m.nodes[lists * c.NODE_WORDS + c.N_STORED] == 0:
        cut(w, lists, made)
    return status


@njit(error_model="numpy")
def _take_element(w: Any, own: int, edge: int, row: int, key: int) -> int:
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    node, before = m.edges[e + c.E_PARENT], m.edges[e + c.E_SIBLING]
    n = node * c.NODE_WORDS
    rules = rules_at(w, m.nodes[n + c.N_RULES])
    lists, variable = m.nodes[n + c.N_LISTS], m.nodes[n + c.N_VARIABLE]
    r = m.registers
    if before < 0 and (r[c.ROOT] == c.ANY or r[c.ROOT] == m.edges[e + c.E_OTHER]):
        if r[c.REPLAYING]:
            low, high = still_open(w, own, row, key)
            return all_lists(w, node, own, low, high, -1, row, key)
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
    alone = m.nodes[n + c.N_WIDTH] == 1
    number = newest_before(w, lists, row, row, key)
    while number >= 0:
        if int32_at(m.stores[lists])[number * stride + c.LAST] < rules.floor[row]:
            break
        first = load(w, lists, number, places)
        if alone:  # a list by itself, which the newest event comes after
            fits = first >= rules.floor[row]
        else:
            bound = uint8_at(m.masks + mask + rules.slots)
            fits = joins(rules, m.cells, m.bound, 0, bound, first, row - 1, variable, row)
        if fits:
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
        low, high = buffered(w, before, rules.floor[row], row, key)
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
def all_lists(w: Any, node: int, events: int, low: int, high: int, first: int, row: int, key: int) -> int:
    """Make all lists of the events at these places of a node, for what else the tuple under test has.

    Parameters
    ----------
    first
        The first row of that; -1 where it has nothing else.
    """
    m = machine_at(w)
    n = node * c.NODE_WORDS
    rules, rows = rules_at(w, m.nodes[n + c.N_RULES]), int32_at(m.nodes[events * c.NODE_WORDS + c.N_ROWS])
    lists, variable, mask = m.nodes[n + c.N_LISTS], m.nodes[n + c.N_VARIABLE], m.nodes[n + c.N_MASKS]
    width = m.nodes[n + c.N_WIDTH]
    made = m.tails[lists]
    for place in range(low, high):
        element, newest = rows[place], m.tails[lists]
        if first < 0 or joins(rules, m.cells, m.bound, 0, uint8_at(m.masks + mask), first, row, variable, element):
            status = lengthen(w, node, -1, element, element if first < 0 else first, row, key)
            if status != c.FINISHED:
                return status
        for growing in range(made, newest):
            at = growing * (c.SLOTS + width)
            words = int32_at(m.stores[lists])
            before, started = words[at + c.SLOTS + width - 1], words[at + c.FIRST]
            m.bound[variable] = before
            bound = uint8_at(m.masks + mask + rules.slots)
            if joins(rules, m.cells, m.bound, 0, bound, started, row, variable, element):
                status = lengthen(w, node, before, element, started, row, key)
                if status != c.FINISHED:
                    return status
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
    lists, places = m.nodes[n + c.N_LISTS], m.nodes[n + c.N_PLACES]
    touch(w, lists)
    at = m.ascent_starts[m.edges[e + c.E_ASCENTS] + slot]
    if m.ascents[at] == 0:  # it comes too late for all lists
        return c.FINISHED
    view = view_of(w, m.nodes[n + c.N_RULES])
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
        low, high = buffered(w, events, lower, upper, key)
        status = all_lists(w, node, events, low, high, first, row, key)
        if status != c.FINISHED:
            return status
    if lists != node and m.nodes[lists * c.NODE_WORDS + c.N_STORED] == 0:
        cut(w, lists, start)
    return c.FINISHED


# --- joins, and the loop over events ---------------------------------------------------------------------------------


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
    candidates = passes = 0
    status = c.FINISHED
    while low < high:
        if plain:
            passing = first_passing(rows, m.bound, code, group, variable, low, high)
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
                passes += 1
                status = passed(w, node, min(first, event), row, key)
                if status != c.FINISHED:
                    break
    m.counts[node * c.COUNTS + c.CANDIDATES] += candidates
    note_tests(w, node, candidates, passes)
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
    candidates = passes = 0
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
                    passes += 1
                    status = passed(w, node, min(first, started), row, key)
                    if status != c.FINISHED:
                        break
        number = instances[at + c.OLDER] if linked else number - 1
    m.counts[node * c.COUNTS + c.CANDIDATES] += candidates
    note_tests(w, node, candidates, passes)
    return status


@njit(error_model="numpy")
def join(w: Any, own: int, edge: int, begin: int, end: int, slot: int, row: int, key: int) -> int:
    """Join instances that are new at a node with what the other side of an edge has from before."""
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    node, other = m.edges[e + c.E_PARENT], m.edges[e + c.E_SIBLING]
    n, o = node * c.NODE_WORDS, own * c.NODE_WORDS
    events = m.nodes[other * c.NODE_WORDS + c.N_KIND] == c.EVENTS
    at = m.ascent_starts[m.edges[e + c.E_ASCENTS] + slot]
    if m.ascents[at] == 0 or row < m.nodes[n + c.N_FROM]:
        return c.FINISHED
    view = view_of(w, m.nodes[n + c.N_RULES])
    if view.rules.agreeing and key < 0:  # it agrees with no other event
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
            low, high = buffered(w, other, lower, upper, key)
            if low < high:
                status = search_events(w, node, places, order, low, high, first, other, row, key)
        else:
            status = scan_store(w, node, places, order, lower, upper, first, other, row, key)
        if status != c.FINISHED:
            return status
    return c.FINISHED


@njit(error_model="numpy")
def test_order(w: Any, own: int, edge: int, begin: int, end: int, slot: int, row: int, key: int) -> int:
    """Let those of the new instances of a node pass at the node above that are in its order."""
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    node = m.edges[e + c.E_PARENT]
    n = node * c.NODE_WORDS
    if row < m.nodes[n + c.N_FROM]:
        return c.FINISHED
    touch(w, node)
    view = view_of(w, m.nodes[n + c.N_RULES])
    order = m.ascent_starts[m.edges[e + c.E_ASCENTS] + slot] + 1
    for number in range(begin, end):
        first = load(w, own, number, m.nodes[n + c.N_PLACES])
        if first < view.rules.floor[row]:
            continue
        m.counts[node * c.COUNTS + c.CANDIDATES] += 1
        if in_order(view, order):
            status = passed(w, node, first, row, key)
            if status != c.FINISHED:
                return status
    return c.FINISHED


@njit(error_model="numpy")
def begin(w: Any, own: int, edge: int, row: int, key: int) -> int:
    """Begin a lazy tree's instance with an event of its first variable; with those in the buffer if that is new."""
    m = machine_at(w)
    r = m.registers
    node = m.edges[edge * c.EDGE_WORDS + c.E_PARENT]
    n = node * c.NODE_WORDS
    touch(w, node)
    code = code_at(w, m.nodes[n + c.N_CODE])
    low, high = 0, 1
    if r[c.REPLAYING]:
        low, high = still_open(w, own, row, key)
    for place in range(low, high):
        event = int32_at(m.nodes[own * c.NODE_WORDS + c.N_ROWS])[place] if r[c.REPLAYING] else row
        m.bound[m.places[m.nodes[n + c.N_PLACES]]] = event
        m.counts[node * c.COUNTS + c.CANDIDATES] += 1
        if group_holds(code, m.cells, m.nodes[n + c.N_GROUP], m.bound, 0):
            status = passed(w, node, event, row, key)
            if status != c.FINISHED:
                return status
    return c.FINISHED


@njit(error_model="numpy")
def arrive(w: Any, own: int, edge: int, row: int, key: int) -> int:
    """Try an event on every instance of a state, or on the one that has bound nothing, where they lie."""
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    node, source, group = m.edges[e + c.E_PARENT], m.edges[e + c.E_SIBLING], m.edges[e + c.E_GROUP]
    n, s = node * c.NODE_WORDS, source * c.NODE_WORDS
    variable, width = m.edges[e + c.E_OWN], m.nodes[n + c.N_WIDTH]
    code, rules = code_at(w, m.nodes[n + c.N_CODE]), rules_at(w, m.nodes[n + c.N_RULES])
    listing = rules.kleene[variable] != 0
    slots, number, linked, floor = m.bound, 0, False, 0
    if source >= 0:
        if m.marks[source] == 0 or (rules.agreeing and key < 0):  # it agrees with no other event
            return c.FINISHED
        slots, number = int32_at(m.stores[source]), newest_before(w, source, row, row, key)
        linked, floor = m.nodes[s + c.N_HEADS] >= 0, rules.floor[row]
    touch(w, node)
    latest = m.ascent_starts[m.edges[e + c.E_ASCENTS]] + 1
    stored, final = m.nodes[n + c.N_STORED] != 0, m.nodes[n + c.N_OUTPUTS] < m.nodes[n + c.N_OUTPUTS_END]
    complete = m.nodes[n + c.N_GROUP]
    held, heads, kept = int32_at(m.stores[node]), m.nodes[n + c.N_HEADS], m.tails[node]
    at = base = candidates = passes = 0
    first = row
    status = c.FINISHED
    while number >= 0 and status == c.FINISHED:
        if source >= 0:
            at = number * (c.SLOTS + width)
            base, first = at + c.SLOTS, slots[at + c.FIRST]
            if slots[at + c.LAST] < floor:
                break
            number = slots[at + c.OLDER] if linked else number - 1
        else:
            number = -1
        comes_after = first >= floor
        for place in range(latest + 1, latest + 1 + m.ascents[latest]):
            comes_after &= last_row(rules, m.cells, slots, base, m.ascents[place]) < rules.reach[row]
        if not comes_after:
            continue
        candidates += 1
        before, event = slots[base + variable], row
        if listing:
            event = append(
                m.cells, m.nodes[own * c.NODE_WORDS + c.N_EVENT_TYPE], before if source == node else -1, row, row
            )
            if event < 0:
                status = c.CELLS_FULL
                break
        slots[base + variable] = event
        if group_holds(code, m.cells, group, slots, base):
            passes += 1
            if stored and kept == m.rooms[node]:
                m.registers[c.SHORT_OF] = node
                status = c.STORE_FULL
            elif stored:
                to = kept * (c.SLOTS + width)
                held[to + c.FIRST], held[to + c.LAST], held[to + c.KEY] = first, row, key
                if heads >= 0 and key >= 0:
                    held[to + c.OLDER] = m.heads[heads + key]
                    m.heads[heads + key] = kept
                for slot in range(width):
                    held[to + c.SLOTS + slot] = slots[base + slot]
                kept += 1
            is_match = final and status == c.FINISHED and group_holds(code, m.cells, complete, slots, base)
            if is_match and not put_all_out(w, node, slots, base, first, row):
                status = c.FOUND_FULL
        elif listing:
            drop_newest(m.cells)
        slots[base + variable] = before
    counts = node * c.COUNTS
    m.counts[counts + c.CANDIDATES] += candidates
    m.counts[counts + c.PASSES] += passes
    m.counts[counts + c.CREATED] += kept - m.tails[node]
    m.tails[node] = kept
    return status


@njit(error_model="numpy")
def go_along(w: Any, node: int, edge: int, begin_at: int, end: int, slot: int, row: int, key: int) -> int:
    """Join new instances of a node along one of its edges; what that makes is to be joined next."""
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    above, role = m.edges[e + c.E_PARENT], m.edges[e + c.E_ROLE]
    if (
        m.registers[c.REPLAYING]
        and m.nodes[node * c.NODE_WORDS + c.N_KIND] == c.EVENTS
        and m.edges[e + c.E_SIBLING] >= 0
    ):
        return c.FINISHED  # only the first variable's events are taken again
    made = m.tails[above]
    if role == c.SIDE:
        status = join(w, node, edge, begin_at, end, slot, row, key)
    elif role == c.ELEMENT:
        status = take_element(w, node, edge, row, key)
    elif role == c.TESTED:
        status = test_order(w, node, edge, begin_at, end, slot, row, key)
    elif role == c.ARRIVAL:
        status = arrive(w, node, edge, row, key)
    elif role == c.BEGIN:
        status = begin(w, node, edge, row, key)
    else:
        status = make_lists(w, node, edge, begin_at, end, slot, row, key)
    choices = m.nodes[above * c.NODE_WORDS + c.N_CHOICES]
    if choices >= 0 and status == c.FINISHED:
        status = await_next(w, above, made, row, key)
        for variable in range(m.registers[c.VARIABLES]):
            waiting = m.choices[choices + variable * c.CHOICE_WORDS + c.H_NODE]
            if waiting >= 0 and m.tails[waiting] > m.done[waiting]:
                join_next(w, waiting, m.done[waiting], m.tails[waiting], 0)
                m.done[waiting] = m.tails[waiting]
    elif m.tails[above] > made:
        join_next(w, above, made, m.tails[above], m.edges[e + c.E_OWN] + slot)
    return status


@njit(error_model="numpy")
def join_next(w: Any, node: int, begin_at: int, end: int, slot: int) -> None:
    """Let new instances of a node go along its edges, before all others that are to do so."""
    m = machine_at(w)
    r = m.registers
    at = r[c.DEPTH] * c.FRAME_WORDS
    m.frames[at + c.F_NODE] = node
    m.frames[at + c.F_BEGIN] = begin_at
    m.frames[at + c.F_END] = end
    m.frames[at + c.F_EDGE] = m.nodes[node * c.NODE_WORDS + c.N_EDGES]
    m.frames[at + c.F_SLOT] = slot
    r[c.DEPTH] += 1


@njit(error_model="numpy", forceinline=True)
def meets(w: Any, edge: int, row: int, key: int) -> bool:
    """False if what is new has nothing to meet along an edge: nothing is held there, or all of it is too old."""
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    role, other = m.edges[e + c.E_ROLE], m.edges[e + c.E_SIBLING] * c.NODE_WORDS
    if role == c.BEGIN:
        return m.edges[e + c.E_OTHER] == m.registers[c.ROOT]
    if role != c.SIDE or m.nodes[other + c.N_KIND] == c.EVENTS or key < 0:
        return True
    heads = m.nodes[other + c.N_HEADS]
    newest = m.heads[heads + key] if heads >= 0 else m.marks[m.edges[e + c.E_SIBLING]] - 1
    if newest < 0:
        return False
    last = int32_at(m.stores[m.edges[e + c.E_SIBLING]])[newest * (c.SLOTS + m.nodes[other + c.N_WIDTH]) + c.LAST]
    return last >= rules_at(w, m.nodes[m.edges[e + c.E_PARENT] * c.NODE_WORDS + c.N_RULES]).floor[row]


@njit(error_model="numpy")
def climb(w: Any, row: int, key: int) -> int:
    """Go along the edges of what is new, and of what that makes, until nothing is new."""
    m = machine_at(w)
    r = m.registers
    while r[c.DEPTH] > 0:
        at = (r[c.DEPTH] - 1) * c.FRAME_WORDS
        node, begin, edge = m.frames[at + c.F_NODE], m.frames[at + c.F_BEGIN], m.frames[at + c.F_EDGE]
        n = node * c.NODE_WORDS
        if edge == m.nodes[n + c.N_EDGES_END]:
            if m.nodes[n + c.N_STORED] == 0:
                cut(w, node, begin)
            r[c.DEPTH] -= 1
            continue
        m.frames[at + c.F_EDGE] = edge + 1
        if not meets(w, edge, row, key):
            continue
        status = go_along(w, node, edge, begin, m.frames[at + c.F_END], m.frames[at + c.F_SLOT], row, key)
        if status != c.FINISHED:
            return status
    return c.FINISHED


@njit(error_model="numpy")
def take(w: Any, step: int, row: int) -> int:
    """Let an event into every node whose events it is one of."""
    m = machine_at(w)
    m.registers[c.DEPTH] = 0
    for place in range(m.leaf_starts[step], m.leaf_starts[step + 1]):
        node = m.leaves[place]
        n = node * c.NODE_WORDS
        key = key_of(w, node, row)
        if m.nodes[n + c.N_OUTPUTS] < m.nodes[n + c.N_OUTPUTS_END]:
            touch(w, node)
            m.bound[m.places[m.nodes[n + c.N_PLACES]]] = row
            status = passed(w, node, row, row, key)
            if status != c.FINISHED:
                return status
        join_next(w, node, 0, 1, 0)
        status = climb(w, row, key)
        if status != c.FINISHED:
            return status
    return c.FINISHED


@njit(error_model="numpy")
def read(w: Any, step: int, row: int) -> None:
    """The event has been dealt with: later ones find it among the events of its nodes."""
    m = machine_at(w)
    for place in range(m.leaf_starts[step], m.leaf_starts[step + 1]):
        node = m.leaves[place]
        key = key_of(w, node, row)
        if key >= 0:
            int32_at(m.nodes[node * c.NODE_WORDS + c.N_READ])[key] += 1


@njit(error_model="numpy")
def replay(w: Any) -> int:
    """Begin instances with the events in the buffer that the first variable of a lazy tree may have, if that is new."""
    m = machine_at(w)
    m.registers[c.DEPTH] = 0
    for key in range(m.registers[c.KEYS]):
        row = -1  # the newest event with the key
        for variable in range(m.registers[c.VARIABLES]):
            of = m.event_nodes[variable] * c.NODE_WORDS
            read = int32_at(m.nodes[of + c.N_READ])[key]
            if read > 0:
                row = max(row, int32_at(m.nodes[of + c.N_ROWS])[int64_at(m.nodes[of + c.N_STARTS])[key] + read - 1])
        if row >= 0:
            join_next(w, m.event_nodes[m.registers[c.ROOT]], 0, 1, 0)
            status = climb(w, row, key)
            if status != c.FINISHED:
                return status
    return c.FINISHED


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
        r[c.ROW] = m.rows[step]
        row = r[c.ROW]  # as wide as all numbers: functions are compiled once
        bury(w, row)
        if r[c.LISTING]:
            forget_cells(m.cells, row, m.list_ceiling)
            r[c.CELLS_MADE] = m.cells.ends[1]
        if r[c.ROOT] != c.ANY and r[c.BEGUN] == step:
            r[c.BEGUN] = step + 1
            begin_event(w, step, row)
        r[c.EPOCH] += 1
        r[c.TOUCHED], r[c.TOUCHED_OUTPUTS] = 0, 0
        before = m.tested[0]
        code = replay(w) if r[c.REPLAYING] else take(w, step, row)
        made = instances_made(w)
        if code == c.FINISHED and made > 0 and not keep(w, row, made):
            code = c.DEATHS_FULL
        if code != c.FINISHED:
            take_back(w, before)
            if code != c.STORE_FULL or not compact(w, r[c.SHORT_OF], row):
                return int(code)
            continue
        if r[c.LISTING] and made == 0:  # its lists are part of no instance
            m.cells.ends[1] = r[c.CELLS_MADE]
        if r[c.REPLAYING]:
            r[c.REPLAYING] = 0
            continue
        read(w, step, row)
        if r[c.ROOT] != c.ANY:
            count_events(w, step, 1)
        r[c.STEP] = step + 1
        if m.tested[0] - tested > c.TESTS_A_CALL:
            return c.GO_ON
    return c.FINISHED
