"""Neighbours of a shared plan (MCEP [0111]-[0113], [0122]-[0126]), written in Numba. Imported to be compiled only.

A neighbour gives some members a subpattern in common: each of them gets the cheapest order that begins with one order
of it, or the cheapest tree that contains one tree of it, and, by chance, the subtrees that it shares already.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

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
from cep_pipeline.planning.multi_pattern.plans_around_kernel import (
    Plans,
    Room,
    complete_order,
    draft_order,
    draft_tree,
    put_join,
    tree_around,
)
from cep_pipeline.planning.multi_pattern.search_codes import (
    EMPTY_SHARE,
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
