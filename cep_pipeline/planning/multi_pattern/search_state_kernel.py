"""What a local search over shared plans has, and how it puts a neighbour in place, written in Numba.

Imported to be compiled only. Of a neighbour the nodes of its members' old plans are dropped from the table and those of
the new ones used; the difference of cost is what the nodes that changed cost now and before. Nothing else is looked at,
so that it takes as long for a thousand patterns as for ten.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import further
from cep_pipeline.planning.multi_pattern.neighbours_kernel import Groups, draw_neighbour
from cep_pipeline.planning.multi_pattern.node_table_kernel import (
    Canon,
    Members,
    Nodes,
    begin,
    clear,
    cost_of_all,
    difference,
    drop,
    mix,
    node_of,
    order_signatures,
    settle,
    tree_signatures,
    use,
)
from cep_pipeline.planning.multi_pattern.plans_around_kernel import Plans, Room
from cep_pipeline.planning.multi_pattern.search_codes import (
    ACCEPTED,
    BEST,
    COST,
    COUNT,
    FULL,
    IMPROVED_AT,
    PLAN_HASH,
    STEPS,
    TREES,
)


class Search(NamedTuple):
    """All that a search has: the members, the table, the plans now and the best ones, and room.

    Attributes
    ----------
    numbers, registers, measures
        Parameters, and the integers and costs that the search keeps (`search_codes`).
    m, g
        Members, and their common subpatterns.
    t, again
        The table of nodes, and another one to compute costs anew.
    plans, best, new
        The plans now, the best ones, and those of a neighbour.
    room, c
        Room for neighbours and for slots.
    heads, following, hashes
        The tabu list: chains of the hashes of plans by hash, and a ring.
    """

    numbers: Any
    registers: Any
    measures: Any
    m: Members
    g: Groups
    t: Nodes
    again: Nodes
    plans: Plans
    best: Plans
    new: Plans
    room: Room
    c: Canon
    heads: Any
    following: Any
    hashes: Any


@njit(error_model="numpy")
def nodes_at(words: Any, costs: Any, capacity: int, chains: int, windows: int) -> Nodes:
    rest = further(words, chains)
    return Nodes(
        chains,
        capacity,
        words,
        rest,
        further(rest, capacity),
        further(rest, 2 * capacity),
        further(rest, 6 * capacity),
        further(costs, 2 * capacity),
        further(rest, 3 * capacity),
        costs,
        further(rest, 4 * capacity),
        further(costs, capacity),
        further(rest, 5 * capacity),
        further(rest, (6 + windows) * capacity),
    )


@njit(error_model="numpy")
def plans_at(words: Any, rows: int, width: int) -> Plans:
    size = rows * width
    return Plans(
        words,
        further(words, rows),
        further(words, rows + size),
        further(words, rows + 2 * size),
        further(words, rows + 3 * size),
    )


@njit(error_model="numpy")
def _signatures(s: Search, member: int, plans: Plans, base: int, count: int) -> None:
    sets, sides, found = further(plans.sets, base), further(plans.sides, base), further(plans.signatures, base)
    if s.numbers[TREES]:
        tree_signatures(s.m, member, count, sets, sides, found, s.c)
    else:
        order_signatures(s.m, member, count, sets, sides, s.c.ranks, found)


@njit(error_model="numpy")
def _plan_hash(s: Search, member: int, plans: Plans, row: int) -> int:
    """A hash of one member's plan: by all of its nodes, the last one's signature."""
    count = plans.count[row]
    if count == 0:
        return 0
    return mix(plans.signatures[row * s.m.width + count - 1] ^ mix(member + 1))


@njit(error_model="numpy")
def copy_plans(s: Search, source: Plans, target: Plans) -> None:
    width = s.m.width
    for member in range(s.numbers[COUNT]):
        target.count[member] = source.count[member]
        for at in range(member * width, member * width + source.count[member]):
            target.sets[at], target.sides[at] = source.sets[at], source.sides[at]


@njit(error_model="numpy")
def _use(s: Search, t: Nodes, node: int, member: int, plans: Plans, at: int) -> None:
    """A member's plan uses a node for what its row says at a place: of an order the side is the step's variable."""
    side = plans.sides[at] if s.numbers[TREES] else 1 << plans.sides[at]
    use(s.m, t, node, member, plans.sets[at], side)


@njit(error_model="numpy")
def start_table(s: Search) -> None:
    """The table, the cost and the hash of the plans that are there."""
    clear(s.m, s.t)
    begin(s.t)
    width, total = s.m.width, 0
    for member in range(s.numbers[COUNT]):
        base, count = member * width, s.plans.count[member]
        _signatures(s, member, s.plans, base, count)
        for at in range(base, base + count):
            node = node_of(s.t, s.plans.signatures[at])
            _use(s, s.t, node, member, s.plans, at)
            s.plans.nodes[at] = node
        total ^= _plan_hash(s, member, s.plans, member)
    settle(s.t)
    s.registers[PLAN_HASH] = total
    s.measures[COST] = cost_of_all(s.t)


@njit(error_model="numpy")
def apply_neighbour(s: Search, count: int) -> float:
    """Put a neighbour's plans in the table in place of the old ones; returns the difference of cost."""
    width = s.m.width
    begin(s.t)
    for at in range(count):
        member = s.room.chosen[at]
        for node in range(at * width, at * width + s.new.count[at]):
            s.new.nodes[node] = node_of(s.t, s.new.signatures[node])
            _use(s, s.t, s.new.nodes[node], member, s.new, node)
        for node in range(member * width, member * width + s.plans.count[member]):
            drop(s.m, s.t, s.plans.nodes[node], member)
    if s.numbers[FULL]:
        return _cost_again(s, count) - s.measures[COST]
    return difference(s.t)


@njit(error_model="numpy")
def _cost_again(s: Search, changed: int) -> float:
    """The cost of a neighbour, computed anew from the plans of all members."""
    width = s.m.width
    clear(s.m, s.again)
    begin(s.again)
    for member in range(s.numbers[COUNT]):
        plans, row = s.plans, member
        for at in range(changed):
            if s.room.chosen[at] == member:
                plans, row = s.new, at
        base, count = row * width, plans.count[row]
        _signatures(s, member, plans, base, count)
        for at in range(base, base + count):
            _use(s, s.again, node_of(s.again, plans.signatures[at]), member, plans, at)
    return cost_of_all(s.again)


@njit(error_model="numpy")
def undo_neighbour(s: Search, count: int) -> None:
    width = s.m.width
    for at in range(count):
        member = s.room.chosen[at]
        for node in range(member * width, member * width + s.plans.count[member]):
            _use(s, s.t, s.plans.nodes[node], member, s.plans, node)
        for node in range(at * width, at * width + s.new.count[at]):
            drop(s.m, s.t, s.new.nodes[node], member)
    settle(s.t)


@njit(error_model="numpy")
def accept_neighbour(s: Search, count: int, change: float) -> None:
    width = s.m.width
    settle(s.t)
    s.registers[PLAN_HASH] ^= hash_change(s, count)
    for at in range(count):
        member = s.room.chosen[at]
        s.plans.count[member] = s.new.count[at]
        for node in range(s.new.count[at]):
            target, source = member * width + node, at * width + node
            s.plans.sets[target], s.plans.sides[target] = s.new.sets[source], s.new.sides[source]
            s.plans.signatures[target] = s.new.signatures[source]
            s.plans.nodes[target] = s.new.nodes[source]
    s.registers[ACCEPTED] += 1
    s.measures[COST] += change
    if s.measures[COST] < s.measures[BEST] * (1.0 - 1e-12):
        s.measures[BEST] = s.measures[COST]
        s.registers[IMPROVED_AT] = s.registers[STEPS]
        copy_plans(s, s.plans, s.best)


@njit(error_model="numpy")
def hash_change(s: Search, count: int) -> int:
    change = 0
    for at in range(count):
        member = s.room.chosen[at]
        change ^= _plan_hash(s, member, s.plans, member) ^ _plan_hash(s, member, s.new, at)
    return change


@njit(error_model="numpy")
def next_neighbour(s: Search) -> int:
    return draw_neighbour(s.m, s.g, s.numbers[TREES], s.t, s.plans, s.new, s.room, s.c, s.registers)
