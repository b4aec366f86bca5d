"""The loop of join networks, written in Numba. Imported only where it is compiled; `run.py` calls it.

A step is an event that fits a variable of some pattern. It goes along the edges of the nodes whose events it is one of
(the list l_T of MCEP [0071]); what is new at a node is joined with what the other side of each edge has, and what
passes there is new at the node above. What the current event made is beyond the marks of the stores, so that it can be
taken back where there is no room for all of it.

A node of lists holds, for each partial match of the node before it (or for none), lists of the events of its variable.
An event begins a list for each partial match, and goes on each list that there is; a partial match that is new makes
all lists of the events that came before it.

A lazy tree chooses which variable an instance binds next (DEBS'15 section 6). The paper takes the type with the fewest
events in the input buffer, and so does `BY_COUNTER`. Else the events of a type cost what testing them costs, and for
each that is expected to pass, by the share that did of late, an instance with the tests of the variable after it. Where
all types are joined by equal conditions that is the rarest one; and a type that no condition joins to what is bound,
with each of whose events all others would be tested, is not taken for being slightly rarer.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at, uint8_at
from cep_pipeline.detection.conditions.cells import append, drop_newest, forget_cells
from cep_pipeline.detection.conditions.codes import EARLIER, LATER
from cep_pipeline.detection.conditions.evaluator import code_at, group_holds
from cep_pipeline.detection.conditions.rules import (
    add_match,
    first_passing,
    first_row,
    found_at,
    in_window,
    joins,
    last_row,
    onset_of,
    reach_of,
    rejected,
    rules_at,
)
from cep_pipeline.detection.network import codes as c
from cep_pipeline.detection.network import stores
from cep_pipeline.detection.network.stores import View, machine_at

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
    final = m.nodes[n + c.N_FINAL]
    for output in range(m.nodes[final * c.NODE_WORDS + c.N_OUTPUTS], m.nodes[final * c.NODE_WORDS + c.N_OUTPUTS_END]):
        if m.nodes[n + c.N_KIND] == c.STATE and not group_holds(
            code_at(w, m.nodes[n + c.N_CODE]), m.cells, m.nodes[n + c.N_GROUP], m.bound, 0
        ):
            break
        if not put_out(w, final, output, first, row):
            m.registers[c.SHORT_OF] = output
            return c.FOUND_FULL
    if m.nodes[n + c.N_CHOICES] >= 0:
        return await_next(w, node, first, row, key)
    goes_up = m.nodes[n + c.N_EDGES] < m.nodes[n + c.N_EDGES_END]
    if m.nodes[n + c.N_KIND] == c.STATE:
        goes_up = m.nodes[n + c.N_STORED] != 0
    if m.nodes[n + c.N_KIND] != c.EVENTS and goes_up and not stores.push(w, node, first, row, key):
        return c.STORE_FULL
    return c.FINISHED


@njit(error_model="numpy", forceinline=True)
def put_out(w: Any, node: int, output: int, first: int, row: int) -> bool:
    """Put the tuple under test out as a match of a member, if it is one; False where there is no room.

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
    own, places, slots = m.nodes[n + c.N_PLACES], m.outputs[o + c.O_PLACES], m.bound
    if places != own or rules.negations > 0:  # those of another member have other places, and negation needs more
        for slot in range(m.nodes[n + c.N_WIDTH]):
            m.match[m.places[places + slot]] = m.bound[m.places[own + slot]]
        slots = m.match
    if rules.negations > 0:
        code = code_at(m.words, m.outputs[o + c.O_CODE])
        if rejected(rules, code, m.cells, slots, 0, first, row):
            return True
    found = found_at(m.words, m.outputs[o + c.O_FOUND])
    r = m.registers
    if m.output_stamps[output] != r[c.EPOCH]:
        m.output_stamps[output] = r[c.EPOCH]
        m.touched_outputs[r[c.TOUCHED_OUTPUTS]] = output
        r[c.TOUCHED_OUTPUTS] += 1
        m.saved_outputs[2 * output] = found.used[0]
        m.saved_outputs[2 * output + 1] = found.used[1]
    return add_match(found, rules, m.cells, slots, -1, m.match, m.match, 0)


# --- lists of Kleene variables ---------------------------------------------------------------------------------------


@njit(error_model="numpy")
def lengthen(
    w: Any, node: int, events: int, variable: int, group: int, before: int, element: int, first: int, row: int, key: int
) -> int:
    """Put an element behind the list that ends with a cell (-1: begin one), for what else the tuple under test has."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    code, lists = code_at(w, m.nodes[n + c.N_CODE]), m.nodes[n + c.N_LISTS]
    m.counts[node * c.COUNTS + c.CANDIDATES] += 1
    cell = append(m.cells, m.nodes[events * c.NODE_WORDS + c.N_EVENT_TYPE], before, element, row)
    if cell < 0:
        return c.CELLS_FULL
    m.bound[variable] = cell
    if not group_holds(code, m.cells, group, m.bound, 0):
        drop_newest(m.cells)
        return c.FINISHED
    first = min(first, element)
    if m.nodes[n + c.N_KIND] == c.STATE:
        return passed(w, node, first, row, key)
    stores.touch(w, lists)
    if lists != node and not stores.push(w, lists, first, row, key):
        return c.STORE_FULL
    if group_holds(code, m.cells, m.nodes[n + c.N_GROUP], m.bound, 0):
        status = passed(w, node, first, row, key)
        if status != c.FINISHED:
            return status
    # The lists of a root are held, too, for they may grow.
    if (
        lists == node
        and m.nodes[n + c.N_EDGES] == m.nodes[n + c.N_EDGES_END]
        and not stores.push(w, node, first, row, key)
    ):
        return c.STORE_FULL
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
    width, begins, grows = m.nodes[n + c.N_WIDTH], m.nodes[n + c.N_BEGINS], m.nodes[n + c.N_GROWS]
    lists, mask, variable = (
        m.nodes[n + c.N_LISTS],
        m.nodes[n + c.N_MASKS],
        m.places[m.nodes[n + c.N_PLACES] + width - 1],
    )
    made = m.tails[lists]
    for place in range(low, high):
        element, newest = rows[place], m.tails[lists]
        if first < 0 or joins(rules, m.cells, m.bound, 0, uint8_at(m.masks + mask), first, row, variable, element):
            started = element if first < 0 else first
            status = lengthen(w, node, events, variable, begins, -1, element, started, row, key)
            if status != c.FINISHED:
                return status
        for growing in range(made, newest):
            at = growing * (c.SLOTS + width)
            words = int32_at(m.stores[lists])
            before, started = words[at + c.SLOTS + width - 1], words[at + c.FIRST]
            m.bound[variable] = before
            bound = uint8_at(m.masks + mask + rules.slots)
            if joins(rules, m.cells, m.bound, 0, bound, started, row, variable, element):
                status = lengthen(w, node, events, variable, grows, before, element, started, row, key)
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
    stores.touch(w, node)
    places = m.nodes[n + c.N_PLACES]
    at = m.ascent_starts[m.edges[e + c.E_ASCENTS] + slot]
    if m.ascents[at] == 0:  # it comes too late for all lists
        return c.FINISHED
    view = stores.view_of(w, m.nodes[n + c.N_RULES])
    for number in range(begin, end):
        first = row
        if m.nodes[o + c.N_KIND] == c.EVENTS:
            m.bound[m.places[places]] = row
        else:
            first = stores.load(w, own, number, places)
        if first < rules.floor[row]:
            continue
        lower, upper, _ = stores.scan_bounds(w, view, at + 1, row)
        low, high = stores.buffered(w, events, lower, upper, key)
        status = all_lists(w, node, events, low, high, first, row, key)
        if status != c.FINISHED:
            return status
    return c.FINISHED


# --- the choices of lazy trees ----------------------------------------------------------------------------------------


@njit(error_model="numpy")
def await_next(w: Any, node: int, first: int, row: int, key: int) -> int:
    """Let the tuple under test wait for the variable that is cheapest after a node, unless none can come."""
    m = machine_at(w)
    r, n = m.registers, node * c.NODE_WORDS
    m.counts[node * c.COUNTS + c.CREATED] += 1
    if key < 0 or (r[c.REPLAYING] and not m.nodes[n + c.N_OPEN]):
        return c.FINISHED
    variable = next_variable(w, node, row, key)
    waiting = m.choices[m.nodes[n + c.N_CHOICES] + variable * c.CHOICE_WORDS + c.H_NODE]
    if waiting < 0:
        r[c.SHORT_OF], r[c.CHOSEN] = node, variable
        return c.NEW_STATE
    stores.touch(w, waiting)
    return c.FINISHED if stores.push(w, waiting, first, row, key) else c.STORE_FULL


@njit(error_model="numpy")
def next_variable(w: Any, node: int, row: int, key: int) -> int:
    """The variable that the tuple under test binds next, in a state that misses some."""
    m = machine_at(w)
    r = m.registers
    variables, choices = r[c.VARIABLES], m.nodes[node * c.NODE_WORDS + c.N_CHOICES]
    last = m.nodes[node * c.NODE_WORDS + c.N_WIDTH] == variables - 1
    view = stores.view_of(w, m.nodes[node * c.NODE_WORDS + c.N_RULES])
    for variable in range(variables):
        m.expected[variable] = -1.0
        if m.choices[choices + variable * c.CHOICE_WORDS + c.H_NODE] == c.BOUND:
            continue
        if last:
            return variable
        if r[c.BY_COUNTER]:
            m.expected[variable] = m.amounts[m.event_nodes[variable]]
            continue
        amount = events_in_scope(w, view, choices, variable, row, key)
        if amount < 0:  # an event that is missing does not come any more
            return variable
        m.expected[variable] = amount
    best, least = -1, 0.0
    for variable in range(variables):
        if m.expected[variable] < 0.0:
            continue
        at = choices + variable * c.CHOICE_WORDS
        cost = cost_of(w, variable, m.choices[at + c.H_SHARE], m.choices[at + c.H_LINKED]) + lists_last(w, variable)
        if best < 0 or cost < least:
            best, least = variable, cost
    return best


@njit(error_model="numpy")
def events_in_scope(w: Any, view: View, choices: int, variable: int, row: int, key: int) -> int:
    """The number of a variable's events in the buffer for the tuple under test; -1: there is none, nor can one come."""
    m = machine_at(w)
    rules, now = view.rules, row + m.registers[c.REPLAYING]
    lower, upper = rules.floor[row], rules.size
    since = lower
    for other in range(m.registers[c.VARIABLES]):
        if m.choices[choices + other * c.CHOICE_WORDS + c.H_NODE] == c.BOUND:
            relation = rules.relations[other * rules.slots + variable]
            if relation & EARLIER:
                since = max(since, onset_of(rules, last_row(rules, view.cells, view.bound, 0, other)))
            elif relation & LATER:
                upper = min(upper, reach_of(rules, first_row(rules, view.cells, view.bound, 0, other)))
    if upper > row + 1:  # those to come are as many as have come
        low, high = stores.buffered(w, m.event_nodes[variable], lower, now, key)
        return high - low
    low, high = stores.buffered(w, m.event_nodes[variable], since, min(upper, now), key)
    return high - low if high > low else -1


@njit(error_model="numpy")
def cost_of(w: Any, variable: int, share: int, linked: int) -> float:
    """The cost of binding a variable, where so many events of each unbound one are expected; see above.

    Parameters
    ----------
    share, linked
        The share of its tests, and the variables that are joined to bound ones then.
    """
    m = machine_at(w)
    r = m.registers
    amount, following = m.expected[variable], -1.0
    if r[c.BY_COUNTER]:
        return amount
    for other in range(r[c.VARIABLES]):
        if other != variable and m.expected[other] >= 0.0:
            tests = m.expected[other] if linked >> other & 1 else 0.0
            following = tests if following < 0.0 else min(following, tests)
    return amount * share_passed(w, share) * (1.0 + max(following, 0.0)) + (amount if share > 0 else 0.0)


@njit(error_model="numpy")
def lists_last(w: Any, variable: int) -> float:
    """The number that is added to the cost of a Kleene variable."""
    m = machine_at(w)
    rules = rules_at(w, m.nodes[m.event_nodes[variable] * c.NODE_WORDS + c.N_RULES])
    return c.LISTS_LAST if rules.kleene[variable] else 0.0


@njit(error_model="numpy")
def share_passed(w: Any, share: int) -> float:
    """The share of events that held some conjuncts of late."""
    if share == 0:
        return 1.0
    shares = machine_at(w).shares
    common = (shares[1] + 1) / (shares[0] + 2)
    at = share * c.SHARE_WORDS
    return (shares[at + 1] + c.PRIOR * common) / (shares[at] + c.PRIOR)


@njit(error_model="numpy")
def note_tests(w: Any, node: int, tried: int, passed: int) -> None:
    """Count the tests of late; they are halved now and then, so that their share follows the stream."""
    m = machine_at(w)
    share = m.nodes[node * c.NODE_WORDS + c.N_SHARE]
    if share == 0:
        return
    for at in (0, share * c.SHARE_WORDS):
        m.shares[at] += tried
        m.shares[at + 1] += passed
        while m.shares[at] > c.RECENT:
            m.shares[at] >>= 1
            m.shares[at + 1] >>= 1


# --- the first variable ----------------------------------------------------------------------------------------------


@njit(error_model="numpy")
def count_events(w: Any, step: int, change: int) -> None:
    """The events of a step come into the buffer, or leave it."""
    m = machine_at(w)
    for place in range(m.leaf_starts[step], m.leaf_starts[step + 1]):
        if stores.key_of(w, m.leaves[place], m.rows[step]) >= 0:
            m.amounts[m.leaves[place]] += change


@njit(error_model="numpy")
def begin_event(w: Any, step: int, row: int) -> None:
    """An event arrives: others leave the buffer, and the counters say whether the first variable changes.

    Then all instances are given up, and the new one searches the buffer.
    """
    m = machine_at(w)
    r = m.registers
    ceiling = int32_at(m.nodes[m.leaves[0] * c.NODE_WORDS + c.N_CEILING])
    while ceiling[m.rows[r[c.OLDEST]]] < row:
        count_events(w, r[c.OLDEST], -1)
        r[c.OLDEST] += 1
    if changes_root(w, step, row):
        stores.give_up(w, row)
        r[c.REPLAYING] = 1


@njit(error_model="numpy")
def root_cost(w: Any, root: int) -> float:
    """The cost of a window's events if instances begin with one variable: tests, and instances made."""
    m = machine_at(w)
    variables, amount = m.registers[c.VARIABLES], m.expected[root]
    least = -1.0
    if m.registers[c.BY_COUNTER]:
        return amount
    m.expected[root] = -1.0
    for second in range(variables):
        if second != root:
            linked = 0
            for third in range(variables):
                joins = m.pairs[third * variables + root] + m.pairs[third * variables + second]
                linked |= (1 if joins > 0 else 0) << third
            cost = cost_of(w, second, m.pairs[root * variables + second], linked)
            least = cost if least < 0.0 else min(least, cost)
    m.expected[root] = amount
    return amount * (1.0 + max(least, 0.0))


@njit(error_model="numpy")
def changes_root(w: Any, step: int, row: int) -> bool:
    """Choose the first variable by the counters of the input buffer, with an event that arrives.

    There is none before all variables have events. Then it is the cheapest one: the rarest where conditions are alike.
    When another one gets cheaper, what each further event of the first variable costs too much is summed up, and it
    changes when that exceeds what the new one's search of the buffer costs: a change costs no more than it saves.
    To weigh tests costs as much as some of them, so that one event stands for those of a small part of the buffer.

    What a search of the buffer makes counts as if it ended with the newest event there. So under TIES ANY and STRICT
    the variable is chosen at once, and changes between two events of different times only: what comes then is after
    all that the search has made, or all of it is too early.
    """
    m = machine_at(w)
    variables, root = m.registers[c.VARIABLES], m.registers[c.ROOT]
    m.registers[c.ARRIVED] += 1
    if root >= 0 and m.registers[c.ARRIVED] <= (step - m.registers[c.OLDEST]) // c.WEIGHED:
        return False
    rules = rules_at(w, m.nodes[m.event_nodes[0] * c.NODE_WORDS + c.N_RULES])
    if step > 0 and m.rows[step - 1] >= min(reach_of(rules, row), onset_of(rules, row)):
        return False
    stands_for, m.registers[c.ARRIVED] = m.registers[c.ARRIVED], 0
    fits = root < 0
    for variable in range(variables):
        amount = m.amounts[m.event_nodes[variable]]
        for place in range(m.leaf_starts[step], m.leaf_starts[step + 1]):
            if m.leaves[place] == m.event_nodes[variable] and stores.key_of(w, m.leaves[place], row) >= 0:
                amount += 1
                fits = fits or variable == root
        if amount == 0 and root < 0 and rules.by_rows:
            return False
        m.expected[variable] = amount
    if not fits:
        return False
    best, least, own = -1, 0.0, 0.0
    for variable in range(variables):
        cost = root_cost(w, variable) + lists_last(w, variable)
        if variable == root:
            own = cost
        if best < 0 or cost < least:
            best, least = variable, cost
    if root >= 0:
        if own > least:
            m.expected[variables] += stands_for * (own - least) / m.expected[root]
            if m.expected[variables] <= 0.5 * least:  # of a window that has begun, half is to be searched again
                return False
        else:
            best = root
    m.expected[variables] = 0.0
    m.registers[c.ROOT] = best
    return best != root


# --- joins, and the loop over events ---------------------------------------------------------------------------------


@njit(error_model="numpy", forceinline=True)
def scan(
    w: Any, own: int, edge: int, events: bool, order: int, lower: int, upper: int, first: int, row: int, key: int
) -> int:
    """Join the tuple under test with what the other side has from before: events that are read, or instances.

    Parameters
    ----------
    events
        Whether the other side are events: it is known where this is compiled.
    order, lower, upper
        As `stores.scan_bounds` has found them.
    first
        The first row of the tuple under test.
    """
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    node, other = m.edges[e + c.E_PARENT], m.edges[e + c.E_SIBLING]
    group, mask = m.edges[e + c.E_GROUP], m.edges[e + c.E_MASK]
    n, o = node * c.NODE_WORDS, other * c.NODE_WORDS
    code, view = code_at(w, m.nodes[n + c.N_CODE]), stores.view_of(w, m.nodes[n + c.N_RULES])
    places = m.nodes[n + c.N_PLACES] + m.edges[e + c.E_OTHER]
    if m.nodes[n + c.N_KIND] == c.STATE:
        places = m.nodes[o + c.N_PLACES]
    listed = m.places[m.nodes[n + c.N_PLACES] + m.edges[e + c.E_OWN]]
    grows = mask >= 0 and uint8_at(m.masks + mask)[listed] != 0
    apart = order + 1 + 2 * m.ascents[order]
    plain = m.ascents[order] == 0 and m.ascents[apart] == 0
    linked, width = m.nodes[o + c.N_HEADS] >= 0, m.nodes[o + c.N_WIDTH]
    held, floor = int32_at(m.nodes[o + c.N_ROWS] if events else m.stores[other]), view.rules.floor[row]
    low, high, number = 0, 0, -1
    if events:
        low, high = stores.buffered(w, other, lower, upper, key)
    else:
        number = stores.newest_before(w, other, upper, row, key)
    if low == high and number < 0:
        return c.FINISHED
    stores.touch(w, node)
    candidates = passes = 0
    status = c.FINISHED
    while status == c.FINISHED:
        if events:
            if plain and mask < 0:
                passing = first_passing(held, m.bound, code, group, m.places[places], low, high)
                candidates += passing - low
                low = passing
            if low == high:
                break
            started = held[low]
            low += 1
            m.bound[m.places[places]] = started
        else:
            at = number * (c.SLOTS + width)
            if number < 0 or held[at + c.LAST] < lower:
                break
            started = held[at + c.FIRST]
            number = held[at + c.OLDER] if linked else number - 1
            if started < floor:
                continue
            for slot in range(width):
                m.bound[m.places[places + slot]] = held[at + c.SLOTS + slot]
        if mask >= 0:
            if joins(view.rules, m.cells, m.bound, 0, uint8_at(m.masks + mask), started, row - 1, listed, row):
                before = m.bound[listed] if grows else -1
                status = lengthen(w, node, own, listed, group, before, row, started, row, key)
        elif plain or (stores.in_order(view, order) and stores.are_distinct(view, apart)):
            candidates += 1
            if group_holds(code, m.cells, group, m.bound, 0):
                passes += 1
                status = passed(w, node, min(first, started), row, key)
    m.counts[node * c.COUNTS + c.CANDIDATES] += candidates
    note_tests(w, node, candidates, passes)
    return status


@njit(error_model="numpy")
def join(w: Any, own: int, edge: int, begin: int, end: int, slot: int, row: int, key: int) -> int:
    """Join instances that are new at a node with what the other side of an edge has from before."""
    m = machine_at(w)
    e = edge * c.EDGE_WORDS
    n = m.edges[e + c.E_PARENT] * c.NODE_WORDS
    at = m.ascent_starts[m.edges[e + c.E_ASCENTS] + slot]
    if m.ascents[at] == 0 or row < m.nodes[n + c.N_FROM]:
        return c.FINISHED
    view = stores.view_of(w, m.nodes[n + c.N_RULES])
    if view.rules.agreeing and key < 0:  # it agrees with no other event
        return c.FINISHED
    own_places = m.nodes[n + c.N_PLACES] + m.edges[e + c.E_OWN]
    single = m.nodes[own * c.NODE_WORDS + c.N_KIND] == c.EVENTS
    events = m.nodes[m.edges[e + c.E_SIBLING] * c.NODE_WORDS + c.N_KIND] == c.EVENTS
    for number in range(begin, end):
        first = row
        if single:
            m.bound[m.places[own_places]] = row
        else:
            first = stores.load(w, own, number, own_places)
        if first < view.rules.floor[row]:
            continue
        lower, upper, order = stores.scan_bounds(w, view, at + 1, row)
        if events:
            status = scan(w, own, edge, True, order, lower, upper, first, row, key)
        else:
            status = scan(w, own, edge, False, order, lower, upper, first, row, key)
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
    stores.touch(w, node)
    view = stores.view_of(w, m.nodes[n + c.N_RULES])
    order = m.ascent_starts[m.edges[e + c.E_ASCENTS] + slot] + 1
    for number in range(begin, end):
        first = stores.load(w, own, number, m.nodes[n + c.N_PLACES])
        if first < view.rules.floor[row]:
            continue
        m.counts[node * c.COUNTS + c.CANDIDATES] += 1
        if stores.in_order(view, order):
            status = passed(w, node, first, row, key)
            if status != c.FINISHED:
                return status
    return c.FINISHED


@njit(error_model="numpy")
def begin(w: Any, own: int, edge: int, row: int, key: int) -> int:
    """Begin instances or lists with an event; with those in the buffer where a lazy tree's first variable is new."""
    m = machine_at(w)
    r = m.registers
    node, group = m.edges[edge * c.EDGE_WORDS + c.E_PARENT], m.edges[edge * c.EDGE_WORDS + c.E_GROUP]
    n = node * c.NODE_WORDS
    stores.touch(w, node)
    code = code_at(w, m.nodes[n + c.N_CODE])
    variable = m.places[m.nodes[n + c.N_PLACES] + m.edges[edge * c.EDGE_WORDS + c.E_OWN]]
    listing = m.edges[edge * c.EDGE_WORDS + c.E_MASK] >= 0
    low, high = 0, 1
    if r[c.REPLAYING]:
        low, high = stores.still_open(w, own, row, key)
        if listing:
            return all_lists(w, node, own, low, high, -1, row, key)
    if listing:
        return lengthen(w, node, own, variable, group, -1, row, row, row, key)
    for place in range(low, high):
        event = int32_at(m.nodes[own * c.NODE_WORDS + c.N_ROWS])[place] if r[c.REPLAYING] else row
        m.bound[variable] = event
        m.counts[node * c.COUNTS + c.CANDIDATES] += 1
        if group_holds(code, m.cells, group, m.bound, 0):
            status = passed(w, node, event, row, key)
            if status != c.FINISHED:
                return status
    return c.FINISHED


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
    made, lists = m.tails[above], m.nodes[above * c.NODE_WORDS + c.N_LISTS]
    growing = m.tails[lists] if lists >= 0 else 0
    if role == c.SIDE:
        status = join(w, node, edge, begin_at, end, slot, row, key)
    elif role == c.TESTED:
        status = test_order(w, node, edge, begin_at, end, slot, row, key)
    elif role == c.BEGIN:
        status = begin(w, node, edge, row, key)
    else:
        status = make_lists(w, node, edge, begin_at, end, slot, row, key)
    if lists >= 0 and lists != above and m.nodes[lists * c.NODE_WORDS + c.N_STORED] == 0:
        stores.cut(w, lists, growing)
    choices = m.nodes[above * c.NODE_WORDS + c.N_CHOICES]
    if choices >= 0:
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
                stores.cut(w, node, begin)
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
        key = stores.key_of(w, node, row)
        if m.nodes[n + c.N_OUTPUTS] < m.nodes[n + c.N_OUTPUTS_END]:
            stores.touch(w, node)
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
        key = stores.key_of(w, node, row)
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
        made = stores.keep(w, row) if code == c.FINISHED else 0
        if code != c.FINISHED:
            stores.take_back(w, before)
            if code != c.STORE_FULL or not stores.compact(w, r[c.SHORT_OF], row):
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
