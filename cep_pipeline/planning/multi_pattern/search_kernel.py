"""Local search over shared plans (MCEP [0111]-[0113], [0122]-[0126], [0164]-[0167]), written in Numba.

Imported to be compiled only. A step draws a neighbour and evaluates it.

A neighbour gives some members a subpattern in common: each of them gets the cheapest order that begins with one order
of it, or the cheapest tree that contains one tree of it, and, by chance, the subtrees that it shares already.

Of a neighbour the nodes of its members' old plans are dropped from the table and those of the new ones used; the
difference of cost is what the nodes that changed cost now and before. Nothing else is looked at, so that it takes as
long for a thousand patterns as for ten.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba import carray, njit

from cep_pipeline.compiled.pointers import float64_at, further, int64_at
from cep_pipeline.planning.multi_pattern import search_codes as codes
from cep_pipeline.planning.multi_pattern.node_table_kernel import (
    Canon,
    Members,
    Nodes,
    Terms,
    begin,
    clear,
    cost_of_all,
    difference,
    drop,
    mix,
    node_of,
    order_signatures,
    place_of,
    settle,
    tree_signatures,
    use,
)
from cep_pipeline.planning.multi_pattern.plans_around_kernel import (
    Plans,
    Room,
    complete_order,
    draft_order,
    draft_tree,
    put_join,
    tree_around,
)


class Groups(NamedTuple):
    """The common subpatterns: group g is the members that have it.

    Attributes
    ----------
    together, groups
        How many members a neighbour changes, at most; the number of groups.
    weights
        The sums of the groups' weights up to each one: how often it is drawn.
    entries_at, member, inside, slots
        Group g has the entries `entries_at[g]` to `entries_at[g + 1]`: a member, the variables that are the
        subpattern, as a set and in slots (shape entries, width): equal slots are equal variables.
    """

    together: int
    groups: int
    weights: Any
    entries_at: Any
    member: Any
    inside: Any
    slots: Any


@njit(error_model="numpy")
def draw(registers: Any) -> int:
    """63 random bits."""
    registers[codes.RANDOM] += -7046029254386353131
    return mix(registers[codes.RANDOM]) & 0x7FFFFFFFFFFFFFFF


@njit(error_model="numpy")
def draw_share(registers: Any) -> float:
    """A random number above 0 and below 1."""
    return ((draw(registers) >> 10) + 0.5) / 9007199254740992.0


@njit(error_model="numpy")
def draw_below(registers: Any, end: int) -> int:
    """A random number from 0 to end - 1."""
    return int(draw_share(registers) * end)


@njit(error_model="numpy")
def _draw_group(g: Groups, registers: Any) -> int:
    wanted = draw_share(registers) * g.weights[g.groups - 1]
    low, high = 0, g.groups - 1
    while low < high:
        middle = (low + high) // 2
        if g.weights[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return low


@njit(error_model="numpy")
def _draw_entries(g: Groups, group: int, room: Room, registers: Any) -> int:
    """Entries of a group with different members; returns how many."""
    begin, end = g.entries_at[group], g.entries_at[group + 1]
    wanted = min(g.together, end - begin)
    found, tries = 0, 0
    while found < wanted and tries < 16 * wanted:
        tries += 1
        entry = begin + draw_below(registers, end - begin)
        known = False
        for at in range(found):
            known = known or g.member[room.drawn[at]] == g.member[entry]
        if not known:
            room.drawn[found] = entry
            found += 1
    return found


@njit(error_model="numpy")
def _shares_already(g: Groups, plans: Plans, width: int, count: int, room: Room) -> bool:
    """True if the members drawn share the subpattern: their plans have one node of it."""
    common = -1
    for at in range(count):
        entry = room.drawn[at]
        base = g.member[entry] * width
        node = -2
        for place in range(plans.count[g.member[entry]]):
            if plans.sets[base + place] == g.inside[entry]:
                node = plans.nodes[base + place]
        if node == -2 or (common >= 0 and node != common):
            return False
        common = node
    return True


@njit(error_model="numpy")
def _mapped(g: Groups, width: int, inside: int, giver: int, taker: int) -> int:
    """A set of one entry's variables as another entry's."""
    mapped = 0
    for slot in range(width):
        place = g.slots[giver * width + slot]
        if place < 0:
            break
        if inside >> place & 1:
            mapped |= 1 << g.slots[taker * width + slot]
    return mapped


@njit(error_model="numpy")
def draw_neighbour(
    m: Members, g: Groups, trees: int, t: Nodes, plans: Plans, new: Plans, room: Room, c: Canon, registers: Any
) -> int:
    """Draw a neighbour: `room.chosen` are the members whose plans change, `new` has them in rows; returns how many."""
    count, empty = 0, False
    for _ in range(codes.MAX_REDRAWS):
        count = _draw_entries(g, _draw_group(g, registers), room, registers)
        empty = draw_below(registers, codes.EMPTY_SHARE) == 0
        if count > 1 and (empty or not _shares_already(g, plans, m.width, count, room)):
            break
    giver = room.drawn[0]
    for at in range(1, count):  # what is shared is alive as long as the largest window says
        if m.window[g.member[room.drawn[at]]] > m.window[g.member[giver]]:
            giver = room.drawn[at]
    inside = 0 if empty else g.inside[giver]
    draft = 0
    own = m.width * g.together  # the row behind those of the members
    if inside:
        member = g.member[giver]
        keep = draw_below(registers, 2) == 1
        sets, sides = further(new.sets, own), further(new.sides, own)
        if trees:
            draft = draft_tree(m, t, plans, member, inside, keep, room, sets, sides)
        else:
            draft = draft_order(m, t, plans, member, inside, keep, room, sets, sides)
    for at in range(count):
        entry = room.drawn[at]
        member = g.member[entry]
        room.chosen[at] = member
        base = at * m.width
        sets, sides = further(new.sets, base), further(new.sides, base)
        size = 0
        if trees:
            for node in range(draft):
                join = _mapped(g, m.width, new.sets[own + node], giver, entry)
                side = _mapped(g, m.width, new.sides[own + node], giver, entry)
                size = put_join(size, sets, sides, join, side)
            keep = draw_below(registers, 2) == 1
            taken = g.inside[entry] if inside else 0
            size = tree_around(m, t, plans, member, taken, keep, room, size, sets, sides)
            tree_signatures(m, member, size, sets, sides, further(new.signatures, base), c)
        else:
            reached = 0
            for step in range(draft):
                single = _mapped(g, m.width, 1 << new.sides[own + step], giver, entry)
                reached |= single
                sets[step], sides[step] = reached, place_of(single)
            size = complete_order(m, member, draft, sets, sides)
            order_signatures(m, member, size, sets, sides, c.ranks, further(new.signatures, base))
        new.count[at] = size
    return count


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
    if s.numbers[codes.TREES]:
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
    for member in range(s.numbers[codes.COUNT]):
        target.count[member] = source.count[member]
        for at in range(member * width, member * width + source.count[member]):
            target.sets[at], target.sides[at] = source.sets[at], source.sides[at]


@njit(error_model="numpy")
def _use(s: Search, t: Nodes, node: int, member: int, plans: Plans, at: int) -> None:
    """A member's plan uses a node for what its row says at a place: of an order the side is the step's variable."""
    side = plans.sides[at] if s.numbers[codes.TREES] else 1 << plans.sides[at]
    use(s.m, t, node, member, plans.sets[at], side)


@njit(error_model="numpy")
def start_table(s: Search) -> None:
    """The table, the cost and the hash of the plans that are there."""
    clear(s.m, s.t)
    begin(s.t)
    width, total = s.m.width, 0
    for member in range(s.numbers[codes.COUNT]):
        base, count = member * width, s.plans.count[member]
        _signatures(s, member, s.plans, base, count)
        for at in range(base, base + count):
            node = node_of(s.t, s.plans.signatures[at])
            _use(s, s.t, node, member, s.plans, at)
            s.plans.nodes[at] = node
        total ^= _plan_hash(s, member, s.plans, member)
    settle(s.t)
    s.registers[codes.PLAN_HASH] = total
    s.measures[codes.COST] = cost_of_all(s.t)


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
    if s.numbers[codes.FULL]:
        return _cost_again(s, count) - s.measures[codes.COST]
    return difference(s.t)


@njit(error_model="numpy")
def _cost_again(s: Search, changed: int) -> float:
    """The cost of a neighbour, computed anew from the plans of all members."""
    width = s.m.width
    clear(s.m, s.again)
    begin(s.again)
    for member in range(s.numbers[codes.COUNT]):
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
    s.registers[codes.PLAN_HASH] ^= hash_change(s, count)
    for at in range(count):
        member = s.room.chosen[at]
        s.plans.count[member] = s.new.count[at]
        for node in range(s.new.count[at]):
            target, source = member * width + node, at * width + node
            s.plans.sets[target], s.plans.sides[target] = s.new.sets[source], s.new.sides[source]
            s.plans.signatures[target] = s.new.signatures[source]
            s.plans.nodes[target] = s.new.nodes[source]
    s.registers[codes.ACCEPTED] += 1
    s.measures[codes.COST] += change
    if s.measures[codes.COST] < s.measures[codes.BEST] * (1.0 - 1e-12):
        s.measures[codes.BEST] = s.measures[codes.COST]
        s.registers[codes.IMPROVED_AT] = s.registers[codes.STEPS]
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
    return draw_neighbour(s.m, s.g, s.numbers[codes.TREES], s.t, s.plans, s.new, s.room, s.c, s.registers)


@njit(error_model="numpy")
def _probe(s: Search, steps: int) -> None:
    """Look at neighbours for the largest difference of cost among them."""
    for _ in range(steps):
        count = next_neighbour(s)
        change = apply_neighbour(s, count)
        s.measures[codes.LARGEST] = max(s.measures[codes.LARGEST], abs(change))
        undo_neighbour(s, count)
        s.registers[codes.STEPS] += 1


@njit(error_model="numpy")
def _anneal(s: Search, steps: int) -> None:
    """Simulated annealing: a dearer neighbour is taken with probability exp(-difference / threshold)."""
    cooling = s.numbers[codes.COOLING]
    for _ in range(steps):
        count = next_neighbour(s)
        change = apply_neighbour(s, count)
        s.registers[codes.STEPS] += 1
        if change <= 0.0 or change < -s.measures[codes.THRESHOLD] * math.log(draw_share(s.registers)):
            accept_neighbour(s, count, change)
        else:
            undo_neighbour(s, count)
        s.registers[codes.COUNTED] += 1
        if s.registers[codes.COUNTED] >= cooling:
            s.registers[codes.COUNTED] = 0
            s.measures[codes.THRESHOLD] *= s.measures[codes.FACTOR]


@njit(error_model="numpy")
def _is_tabu(s: Search, plan: int) -> bool:
    at = s.heads[plan & (s.numbers[codes.TABU_CHAINS] - 1)]
    while at >= 0 and s.hashes[at] != plan:
        at = s.following[at]
    return at >= 0


@njit(error_model="numpy")
def _remember(s: Search, plan: int) -> None:
    """Put a plan on the tabu list in place of the oldest one, if it is full."""
    at = s.registers[codes.TABU_NEXT]
    if s.registers[codes.TABU_COUNT] == s.numbers[codes.TABU_LENGTH]:
        chain = s.hashes[at] & (s.numbers[codes.TABU_CHAINS] - 1)
        if s.heads[chain] == at:
            s.heads[chain] = s.following[at]
        else:
            earlier = s.heads[chain]
            while s.following[earlier] != at:
                earlier = s.following[earlier]
            s.following[earlier] = s.following[at]
    else:
        s.registers[codes.TABU_COUNT] += 1
    chain = plan & (s.numbers[codes.TABU_CHAINS] - 1)
    s.hashes[at], s.following[at], s.heads[chain] = plan, s.heads[chain], at
    s.registers[codes.TABU_NEXT] = (at + 1) % s.numbers[codes.TABU_LENGTH]


@njit(error_model="numpy")
def _tabu(s: Search, steps: int) -> None:
    """Tabu search: of some neighbours that were not visited yet the cheapest is the next plan, dearer or not."""
    if s.registers[codes.TABU_COUNT] == 0:
        _remember(s, s.registers[codes.PLAN_HASH])
    done = 0
    while done < steps:
        least, chosen = math.inf, 0
        for _ in range(s.numbers[codes.NEIGHBOURS]):
            state = s.registers[codes.RANDOM]
            count = next_neighbour(s)
            change = apply_neighbour(s, count)
            if change < least and not _is_tabu(s, s.registers[codes.PLAN_HASH] ^ hash_change(s, count)):
                least, chosen = change, state
            undo_neighbour(s, count)
            done += 1
            s.registers[codes.STEPS] += 1
        if least < math.inf:
            state = s.registers[codes.RANDOM]
            s.registers[codes.RANDOM] = chosen  # the same neighbour once more
            count = next_neighbour(s)
            accept_neighbour(s, count, apply_neighbour(s, count))
            s.registers[codes.RANDOM] = state
            _remember(s, s.registers[codes.PLAN_HASH])


def search(words_at: Any) -> int:
    """Do the task that `numbers` names, by the addresses that `local_search.LocalSearch` writes."""
    words = carray(words_at, codes.ADDRESSES)
    n = int64_at(words[0])
    count, width, windows = n[codes.COUNT], n[codes.WIDTH], n[codes.WINDOWS]
    capacity, chains, together = n[codes.CAPACITY], n[codes.CHAINS], n[codes.TOGETHER]
    m = Members(
        width,
        windows,
        int64_at(words[3]),
        int64_at(words[4]),
        int64_at(words[5]),
        Terms(float64_at(words[6]), float64_at(words[7]), float64_at(words[8])),
        int64_at(words[9]),
        int64_at(words[10]),
        int64_at(words[11]),
        int64_at(words[12]),
        int64_at(words[13]),
        int64_at(words[14]),
        int64_at(words[15]),
        int64_at(words[16]),
        int64_at(words[17]),
        int64_at(words[18]),
    )
    g = Groups(
        together,
        n[codes.GROUPS],
        float64_at(words[19]),
        int64_at(words[20]),
        int64_at(words[21]),
        int64_at(words[22]),
        int64_at(words[23]),
    )
    drawn, canon, tabu = int64_at(words[31]), int64_at(words[33]), int64_at(words[34])
    items = further(drawn, 2 * together)
    s = Search(
        n,
        int64_at(words[1]),
        float64_at(words[2]),
        m,
        g,
        nodes_at(int64_at(words[24]), float64_at(words[25]), capacity, chains, windows),
        nodes_at(int64_at(words[26]), float64_at(words[27]), capacity, chains, windows),
        plans_at(int64_at(words[28]), count, width),
        plans_at(int64_at(words[29]), count, width),
        plans_at(int64_at(words[30]), together + 1, width),
        Room(
            drawn,
            further(drawn, together),
            items,
            further(items, width),
            float64_at(words[32]),
            further(items, width + n[codes.ROOM]),
        ),
        Canon(canon, further(canon, width), further(canon, 2 * width)),
        tabu,
        further(tabu, n[codes.TABU_CHAINS]),
        further(tabu, n[codes.TABU_CHAINS] + n[codes.TABU_LENGTH]),
    )
    if n[codes.TASK] == codes.START:
        start_table(s)
        s.measures[codes.BEST] = s.measures[codes.COST]
        copy_plans(s, s.plans, s.best)
    else:
        s.measures[codes.COST] = cost_of_all(s.t)  # sums of differences drift
        if n[codes.TASK] == codes.PROBE:
            _probe(s, n[codes.AMOUNT])
        elif n[codes.TASK] == codes.ANNEAL:
            _anneal(s, n[codes.AMOUNT])
        else:
            _tabu(s, n[codes.AMOUNT])
    return 0
