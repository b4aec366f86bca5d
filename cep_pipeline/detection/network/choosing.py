"""The choices of a lazy tree (DEBS'15 section 6): which variable an instance binds next. Imported only where compiled.

The paper takes the type with the fewest events in the input buffer, and so does `BY_COUNTER`. Else the events of a type
cost what testing them costs, and for each that is expected to pass, by the share that did of late, an instance with the
tests of the variable after it. Where all types are joined by equal conditions that is the rarest one; and a type that
no condition joins to what is bound, with each of whose events all others would be tested, is not taken for being
slightly rarer.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import int32_at
from cep_pipeline.detection.instances.codes import EARLIER, LATER
from cep_pipeline.detection.instances.rules import rules_at
from cep_pipeline.detection.network import codes as c
from cep_pipeline.detection.network.bounds import buffered, first_of, key_of, last_of, view_of
from cep_pipeline.detection.network.stores import View, cut, give_up, load, machine_at, push, touch


@njit(error_model="numpy")
def await_next(w: Any, node: int, made: int, row: int, key: int) -> int:
    """Let the instances of a node, from a number on, wait for the variable that is cheapest, unless none can come."""
    m = machine_at(w)
    r, n = m.registers, node * c.NODE_WORDS
    none_comes = key < 0 or (r[c.REPLAYING] and not m.nodes[n + c.N_OPEN])
    for number in range(m.tails[node] if none_comes else made, m.tails[node]):
        first = load(w, node, number, m.nodes[n + c.N_PLACES])
        variable = next_variable(w, node, row, key)
        waiting = m.choices[m.nodes[n + c.N_CHOICES] + variable * c.CHOICE_WORDS + c.H_NODE]
        if waiting < 0:
            r[c.SHORT_OF], r[c.CHOSEN] = node, variable
            return c.NEW_STATE
        touch(w, waiting)
        if not push(w, waiting, first, row, key):
            return c.STORE_FULL
    cut(w, node, made)
    return c.FINISHED


@njit(error_model="numpy")
def next_variable(w: Any, node: int, row: int, key: int) -> int:
    """The variable that the tuple under test binds next, in a state that misses some."""
    m = machine_at(w)
    r = m.registers
    variables, choices = r[c.VARIABLES], m.nodes[node * c.NODE_WORDS + c.N_CHOICES]
    last = m.nodes[node * c.NODE_WORDS + c.N_WIDTH] == variables - 1
    view = view_of(w, m.nodes[node * c.NODE_WORDS + c.N_RULES])
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
                since = max(since, rules.onset[last_of(view, other)])
            elif relation & LATER:
                upper = min(upper, rules.reach[first_of(view, other)])
    if upper > row + 1:  # those to come are as many as have come
        low, high = buffered(w, m.event_nodes[variable], lower, now, key)
        return high - low
    low, high = buffered(w, m.event_nodes[variable], since, min(upper, now), key)
    return high - low if high > low else -1


@njit(error_model="numpy")
def cost_of(w: Any, variable: int, share: int, linked: int) -> float:
    """What binding a variable costs, where so many events of each unbound one are expected; see above.

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
    """What is added to the cost of a Kleene variable."""
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
        if key_of(w, m.leaves[place], m.rows[step]) >= 0:
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
        give_up(w, row)
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
    """
    m = machine_at(w)
    variables, root = m.registers[c.VARIABLES], m.registers[c.ROOT]
    fits = root < 0
    for variable in range(variables):
        amount = m.amounts[m.event_nodes[variable]]
        for place in range(m.leaf_starts[step], m.leaf_starts[step + 1]):
            if m.leaves[place] == m.event_nodes[variable] and key_of(w, m.leaves[place], row) >= 0:
                amount += 1
                fits = fits or variable == root
        if amount == 0 and root < 0:
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
            m.expected[variables] += (own - least) / m.expected[root]
            if m.expected[variables] <= 0.5 * least:  # of a window that has begun, half is to be searched again
                return False
        else:
            best = root
    m.expected[variables] = 0.0
    m.registers[c.ROOT] = best
    return best != root
