"""Neighbours of a shared plan (MCEP [0111]-[0113], [0122]-[0126]), written in Numba. Imported to be compiled only.

A neighbour gives some members a subpattern in common: each of them gets the cheapest order that begins with one order
of it, or the cheapest tree that contains one tree of it, and, by chance, the subtrees that it shares already.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import further
from cep_pipeline.planning.multi_pattern.node_table_kernel import (
    Canon,
    Members,
    Nodes,
    mix,
    order_signatures,
    place_of,
    tree_signatures,
)
from cep_pipeline.planning.multi_pattern.search_codes import (
    EMPTY_SHARE,
    MAX_ITEMS,
    MAX_REDRAWS,
    RANDOM,
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


class Plans(NamedTuple):
    """Plans by member, in rows.

    Attributes
    ----------
    count, sets, sides
        The nodes: of trees the joins' sets, ascending, and one side of each; of orders the beginnings' sets, and the
        variable of each step.
    signatures, nodes
        Of each node its signature and its place in the table.
    """

    count: Any
    sets: Any
    sides: Any
    signatures: Any
    nodes: Any


class Room(NamedTuple):
    """Room for one neighbour.

    Attributes
    ----------
    drawn, chosen
        Entries and their members.
    items, unions, best, choice
        Dynamic programming over items: sets of variables, and by set of items its variables, cost and one side.
    """

    drawn: Any
    chosen: Any
    items: Any
    unions: Any
    best: Any
    choice: Any


@njit(error_model="numpy")
def draw(registers: Any) -> int:
    """63 random bits."""
    registers[RANDOM] += -7046029254386353131
    return mix(registers[RANDOM]) & 0x7FFFFFFFFFFFFFFF


@njit(error_model="numpy")
def draw_share(registers: Any) -> float:
    """A random number above 0 and below 1."""
    return ((draw(registers) >> 10) + 0.5) / 9007199254740992.0


@njit(error_model="numpy")
def draw_below(registers: Any, end: int) -> int:
    """A random number from 0 to end - 1."""
    return int(draw_share(registers) * end)


@njit(error_model="numpy")
def _size(some: int) -> int:
    count = 0
    while some:
        count += 1
        some &= some - 1
    return count


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
    """Whether the members drawn share the subpattern: their plans have one node of it."""
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
def _put(count: int, sets: Any, sides: Any, inside: int, side: int) -> int:
    """Put a join among those of a tree, which ascend."""
    at = count
    while at and sets[at - 1] > inside:
        sets[at], sides[at] = sets[at - 1], sides[at - 1]
        at -= 1
    sets[at], sides[at] = inside, side
    return count + 1


@njit(error_model="numpy")
def join_items(costs: Any, base: int, items: int, room: Room, count: int, sets: Any, sides: Any) -> int:
    """Join items, sets of a member's variables, by the cheapest tree; returns the number of joins."""
    if items > MAX_ITEMS:
        return _join_greedily(costs, base, items, room, count, sets, sides)
    for some in range(1, 1 << items):
        low = some & -some
        rest = some ^ low
        if rest == 0:
            room.unions[some] = room.items[place_of(some)]
            room.best[some] = 0.0
            continue
        union = room.unions[rest] | room.unions[low]
        room.unions[some] = union
        best, choice = math.inf, 0
        side = rest
        while side:
            cost = room.best[side] + room.best[some ^ side]
            if cost < best:
                best, choice = cost, side
            side = (side - 1) & rest
        room.best[some] = best + costs[base + union]
        room.choice[some] = choice
    # The joins from the root on; `items` is room for those that wait.
    depth = 1
    room.items[0] = (1 << items) - 1
    while depth:
        depth -= 1
        some = room.items[depth]
        if some & (some - 1) == 0:
            continue
        side = room.choice[some]
        count = _put(count, sets, sides, room.unions[some], room.unions[side])
        room.items[depth], room.items[depth + 1] = side, some ^ side
        depth += 2
    return count


@njit(error_model="numpy")
def _join_greedily(costs: Any, base: int, items: int, room: Room, count: int, sets: Any, sides: Any) -> int:
    while items > 1:
        least, one, other = math.inf, 0, 1
        for left in range(items):
            for right in range(left + 1, items):
                cost = costs[base + (room.items[left] | room.items[right])]
                if cost < least:
                    least, one, other = cost, left, right
        joined = room.items[one] | room.items[other]
        count = _put(count, sets, sides, joined, room.items[one])
        items -= 1
        room.items[one], room.items[other] = joined, room.items[items]
    return count


@njit(error_model="numpy")
def _best_tree(m: Members, member: int, inside: int, room: Room, count: int, sets: Any, sides: Any) -> int:
    """Put the joins of the cheapest tree of a set."""
    depth = 1
    room.items[0] = inside
    while depth:
        depth -= 1
        some = room.items[depth]
        if some & (some - 1) == 0:
            continue
        side = m.first[m.tables_at[member] + some]
        count = _put(count, sets, sides, some, side)
        room.items[depth], room.items[depth + 1] = side, some ^ side
        depth += 2
    return count


@njit(error_model="numpy")
def _keep_shared(
    t: Nodes,
    plans: Plans,
    member: int,
    width: int,
    kept_inside: int,
    apart_from: int,
    room: Room,
    items: int,
    count: int,
    sets: Any,
    sides: Any,
) -> tuple[int, int, int]:
    """Take over the largest shared subtrees of a member's tree inside a set and apart from another.

    Returns the numbers of items and joins, and the variables of the subtrees.
    """
    covered, below = 0, 0
    row, size = member * width, plans.count[member]
    for at in range(size - 1, -1, -1):  # what is above comes first
        inside = plans.sets[row + at]
        if inside & covered:
            below |= 1 << at
            continue
        if inside & apart_from or inside & ~kept_inside or inside == kept_inside:
            continue
        if t.uses[plans.nodes[row + at]] > 1:
            covered |= inside
            below |= 1 << at
            room.items[items] = inside
            items += 1
    for at in range(size):
        if below >> at & 1:
            count = _put(count, sets, sides, plans.sets[row + at], plans.sides[row + at])
    return items, count, covered


@njit(error_model="numpy")
def _tree_around(
    m: Members,
    t: Nodes,
    plans: Plans,
    member: int,
    inside: int,
    keep: bool,
    room: Room,
    count: int,
    sets: Any,
    sides: Any,
) -> int:
    """Put the joins of the cheapest tree that contains a given one, whose joins are there, of the set `inside`."""
    whole = (1 << m.sizes[member]) - 1
    items, covered = 0, inside
    if inside:
        room.items[0] = inside
        items = 1
    if keep:
        items, count, kept = _keep_shared(t, plans, member, m.width, whole, inside, room, items, count, sets, sides)
        covered |= kept
    if items == 0:
        return _best_tree(m, member, whole, room, count, sets, sides)
    for place in range(m.sizes[member]):
        if covered >> place & 1 == 0:
            room.items[items] = 1 << place
            items += 1
    return join_items(m.costs, m.tables_at[member], items, room, count, sets, sides)


@njit(error_model="numpy")
def _draft_tree(
    m: Members, t: Nodes, plans: Plans, member: int, inside: int, keep: bool, room: Room, sets: Any, sides: Any
) -> int:
    """The giver's tree of the subpattern: the cheapest one, or the cheapest with what it shares of it already."""
    if not keep:
        return _best_tree(m, member, inside, room, 0, sets, sides)
    items, count, covered = _keep_shared(t, plans, member, m.width, inside, 0, room, 0, 0, sets, sides)
    if items == 0:
        return _best_tree(m, member, inside, room, 0, sets, sides)
    for place in range(m.sizes[member]):
        if (inside & ~covered) >> place & 1:
            room.items[items] = 1 << place
            items += 1
    return join_items(m.costs, m.tables_at[member], items, room, count, sets, sides)


@njit(error_model="numpy")
def _order_between(m: Members, member: int, inside: int, bound: int, room: Room, sets: Any, sides: Any) -> int:
    """The steps of the cheapest order of a set that binds a part of it first; that part's steps are there.

    Of the variables that are left the cheapest way is found from the end on: `best` is by what is left.
    """
    count = _size(bound)
    left = inside & ~bound
    items = 0
    while left >> items:
        items += 1
    free = 0
    for place in range(items):
        if left >> place & 1:
            room.items[free] = place
            free += 1
    base = m.tables_at[member]
    room.best[0] = 0.0
    for missing in range(1, 1 << free):
        reached = inside
        for item in range(free):
            if missing >> item & 1:
                reached ^= 1 << room.items[item]
        best, choice = math.inf, 0
        for item in range(free):
            if missing >> item & 1:
                cost = room.best[missing ^ (1 << item)] + m.costs[base + (reached | 1 << room.items[item])]
                if cost < best:
                    best, choice = cost, item
        room.best[missing], room.choice[missing] = best, choice
    missing, reached = (1 << free) - 1, bound
    while missing:
        item = room.choice[missing]
        reached |= 1 << room.items[item]
        sets[count], sides[count] = reached, room.items[item]
        count += 1
        missing ^= 1 << item
    return count


@njit(error_model="numpy")
def _draft_order(
    m: Members, t: Nodes, plans: Plans, member: int, inside: int, keep: bool, room: Room, sets: Any, sides: Any
) -> int:
    """The giver's order of the subpattern: the cheapest one, or the cheapest after what it shares of it already."""
    bound, base = 0, member * m.width
    if keep:
        for step in range(plans.count[member]):
            reached = plans.sets[base + step]
            if reached & ~inside or t.uses[plans.nodes[base + step]] < 2:
                break
            sets[step], sides[step] = reached, plans.sides[base + step]
            bound = reached
    if bound and _size(inside & ~bound) <= MAX_ITEMS:
        return _order_between(m, member, inside, bound, room, sets, sides)
    count, some = _size(inside), inside
    for step in range(count - 1, -1, -1):
        place = m.first[m.tables_at[member] + some]
        sets[step], sides[step] = some, place
        some ^= 1 << place
    return count


@njit(error_model="numpy")
def _complete_order(m: Members, member: int, count: int, sets: Any, sides: Any) -> int:
    """The cheapest way on from the beginning of an order."""
    reached = sets[count - 1] if count else 0
    if count == 0:  # the cheapest order of all has a table of its own
        count = m.sizes[member]
        reached = (1 << count) - 1
        for step in range(count - 1, -1, -1):
            place = m.first[m.tables_at[member] + reached]
            sets[step], sides[step] = reached, place
            reached ^= 1 << place
        return count
    while count < m.sizes[member]:
        place = m.second[m.tables_at[member] + reached]
        reached |= 1 << place
        sets[count], sides[count] = reached, place
        count += 1
    return count


@njit(error_model="numpy")
def draw_neighbour(
    m: Members, g: Groups, trees: int, t: Nodes, plans: Plans, new: Plans, room: Room, c: Canon, registers: Any
) -> int:
    """Draw a neighbour: `room.chosen` are the members whose plans change, `new` has them in rows; returns how many."""
    count, empty = 0, False
    for _ in range(MAX_REDRAWS):
        count = _draw_entries(g, _draw_group(g, registers), room, registers)
        empty = draw_below(registers, EMPTY_SHARE) == 0
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
            draft = _draft_tree(m, t, plans, member, inside, keep, room, sets, sides)
        else:
            draft = _draft_order(m, t, plans, member, inside, keep, room, sets, sides)
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
                size = _put(size, sets, sides, join, side)
            keep = draw_below(registers, 2) == 1
            taken = g.inside[entry] if inside else 0
            size = _tree_around(m, t, plans, member, taken, keep, room, size, sets, sides)
            tree_signatures(m, member, size, sets, sides, further(new.signatures, base), c)
        else:
            reached = 0
            for step in range(draft):
                single = _mapped(g, m.width, 1 << new.sides[own + step], giver, entry)
                reached |= single
                sets[step], sides[step] = reached, place_of(single)
            size = _complete_order(m, member, draft, sets, sides)
            order_signatures(m, member, size, sets, sides, c.ranks, further(new.signatures, base))
        new.count[at] = size
    return count
