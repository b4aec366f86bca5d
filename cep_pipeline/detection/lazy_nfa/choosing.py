"""How the tree automaton chooses what is bound next, by the counters of its input buffer (DEBS'15 section 6).

Imported only where the kernel is compiled.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from numba import njit

from cep_pipeline.detection.instances.cells import Cells
from cep_pipeline.detection.instances.rules import Rules
from cep_pipeline.detection.lazy_nfa import codes as c
from cep_pipeline.detection.lazy_nfa.automaton import Automaton, first_at_least, scope_end, scope_start


@njit(error_model="numpy")
def next_variable(a: Automaton, rules: Rules, cells: Cells, state: int, first: int, last: int) -> int:
    """The variable that the instance at hand binds after a state; -1 where the state's children are still to be made.

    The paper takes the type with the fewest events in the input buffer. Here its events cost what testing them costs,
    and for each that is expected to pass, by the share that did of late, an instance with the tests of the variable
    after it. Where all types are joined by equal conditions that is the rarest one; and a type that no condition joins
    to what is bound, with each of whose events all others would be tested, is not taken for being slightly rarer. Lists
    come last, since there are more of them than of events.
    """
    r = a.registers
    variables = r[c.VARIABLES]
    bound = a.states[state * c.STATE_WORDS + c.S_BOUND]
    only, missing = -1, 0
    for variable in range(variables):
        if bound >> variable & 1 == 0:
            only = variable
            missing += 1
    if missing == 1:
        return only if a.children[state * variables + only] >= 0 else -1
    for variable in range(variables):
        if bound >> variable & 1 == 0:
            child = a.children[state * variables + variable]
            if child < 0:
                return -1
            amount = events_in_scope(a, rules, cells, child, variable, first, last)
            if amount < 0:  # an event that is missing does not come any more
                return variable
            a.expected[variable] = amount
    best, least, best_is_list = -1, 0.0, False
    for variable in range(variables):
        if bound >> variable & 1:
            continue
        target = a.children[state * variables + variable] * c.STATE_WORDS
        share = a.states[target + c.S_SHARE]
        joined = a.states[target + c.S_LINKED]
        following = -1.0
        for other in range(variables):
            if other != variable and bound >> other & 1 == 0:
                tests = a.expected[other] if joined >> other & 1 else 0.0
                following = tests if following < 0.0 else min(following, tests)
        amount = a.expected[variable]
        cost = amount * share_passed(a, share) * (1.0 + following) + (amount if share > 0 else 0.0)
        is_list = r[c.KLEENE] >> variable & 1 != 0
        if best < 0 or (best_is_list and not is_list) or (is_list == best_is_list and cost < least):
            best, least, best_is_list = variable, cost, is_list
    return best


@njit(error_model="numpy")
def share_passed(a: Automaton, share: int) -> float:
    """The share of events that held some conjuncts of late."""
    if share == 0:
        return 1.0
    common = (a.shares[1] + 1) / (a.shares[0] + 2)
    at = share * c.SHARE_WORDS
    return (a.shares[at + 1] + c.PRIOR * common) / (a.shares[at] + c.PRIOR)


@njit(error_model="numpy")
def note_tests(a: Automaton, target: int, tried: int, passed: int) -> None:
    """Count tests of late for a tree; they are halved now and then, so that their share follows the stream."""
    share = a.states[target * c.STATE_WORDS + c.S_SHARE]
    if share == 0 or not a.registers[c.ADAPTIVE]:
        return
    for at in (0, share * c.SHARE_WORDS):
        a.shares[at] += tried
        a.shares[at + 1] += passed
        while a.shares[at] > c.RECENT:
            a.shares[at] >>= 1
            a.shares[at + 1] >>= 1


@njit(error_model="numpy")
def events_in_scope(a: Automaton, rules: Rules, cells: Cells, target: int, variable: int, first: int, last: int) -> int:
    """How many events the input buffer has for a variable; -1 where there are none and none can come."""
    r = a.registers
    at = variable * r[c.KEYS] + r[c.KEY]
    low, high = a.heads[at], a.tails[at]
    until = scope_end(a, rules, cells, target, first)
    if until > r[c.NOW] + 1:
        return high - low
    low = first_at_least(a.buffer, low, high, scope_start(a, rules, cells, target, last))
    high = first_at_least(a.buffer, low, high, until)
    return high - low if high > low else -1


@njit(error_model="numpy")
def root_cost(a: Automaton, root: int) -> float:
    """What the events of a window cost if instances begin with one variable: tests, and instances made."""
    variables = a.registers[c.VARIABLES]
    least = -1.0
    for second in range(variables):
        if second == root:
            continue
        following = -1.0
        for third in range(variables):
            if third != root and third != second:
                joins = a.pairs[third * variables + root] + a.pairs[third * variables + second]
                tests = a.expected[third] if joins > 0 else 0.0
                following = tests if following < 0.0 else min(following, tests)
        share = a.pairs[root * variables + second]
        amount = a.expected[second]
        cost = amount * share_passed(a, share) * (1.0 + max(following, 0.0)) + (amount if share > 0 else 0.0)
        least = cost if least < 0.0 else min(least, cost)
    return a.expected[root] * (1.0 + max(least, 0.0))


@njit(error_model="numpy")
def changes_root(a: Automaton, fits: int) -> bool:
    """Choose the variable of the root by the counters of the input buffer, with an event that arrives.

    There is none before all variables have events. Then it is the cheapest one: the rarest where conditions are alike.
    When another one gets cheaper, what each further event of the root's variable costs too much is summed up, and the
    root changes when that exceeds what the new one's search of the buffer costs: a change costs no more than it saves.
    """
    r = a.registers
    variables, root = r[c.VARIABLES], r[c.ROOT]
    if root >= 0 and fits >> root & 1 == 0:
        return False
    for variable in range(variables):
        amount = a.amounts[variable] + (fits >> variable & 1)
        if amount == 0 and root < 0:
            return False
        a.expected[variable] = amount
    best, least, best_is_list = -1, 0.0, False
    for variable in range(variables):
        cost = root_cost(a, variable)
        is_list = r[c.KLEENE] >> variable & 1 != 0
        if best < 0 or (best_is_list and not is_list) or (is_list == best_is_list and cost < least):
            best, least, best_is_list = variable, cost, is_list
    if root >= 0:
        own = root_cost(a, root)
        if best == root or own <= least:
            a.expected[variables] = 0.0
            return False
        a.expected[variables] += (own - least) / a.expected[root]
        if a.expected[variables] <= 0.5 * least:  # of a window that has begun, half is to be searched again
            return False
    a.expected[variables] = 0.0
    r[c.ROOT] = best
    return True
