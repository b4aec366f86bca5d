"""A member's cheapest plans around given parts (A of MCEP [0107]-[0109], [0122]-[0124]), written in Numba.

Imported only where kernels are compiled. Sets of variables are integers by their bits; `nodes`, `pairs` and `products`
have what each set costs (`Terms`).
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.planning.multi_pattern.node_table_kernel import (
    Members,
    Nodes,
    Terms,
    candidates_cost,
    joined_cost,
    place_of,
)
from cep_pipeline.planning.multi_pattern.search_codes import MAX_ITEMS


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
def _size(some: int) -> int:
    count = 0
    while some:
        count += 1
        some &= some - 1
    return count


@njit(error_model="numpy")
def put_join(count: int, sets: Any, sides: Any, inside: int, side: int) -> int:
    """Put a join among those of a tree, which ascend."""
    at = count
    while at and sets[at - 1] > inside:
        sets[at], sides[at] = sets[at - 1], sides[at - 1]
        at -= 1
    sets[at], sides[at] = inside, side
    return count + 1


@njit(error_model="numpy")
def join_items(terms: Terms, base: int, items: int, room: Room, count: int, sets: Any, sides: Any) -> int:
    """Join items, sets of a member's variables, by the cheapest tree; returns the number of joins."""
    if items > MAX_ITEMS:
        return _join_greedily(terms, base, items, room, count, sets, sides)
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
            cost = room.best[side] + room.best[some ^ side] + candidates_cost(terms, base, union, room.unions[side])
            if cost < best:
                best, choice = cost, side
            side = (side - 1) & rest
        room.best[some] = best + terms.nodes[base + union]
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
        count = put_join(count, sets, sides, room.unions[some], room.unions[side])
        room.items[depth], room.items[depth + 1] = side, some ^ side
        depth += 2
    return count


@njit(error_model="numpy")
def _join_greedily(terms: Terms, base: int, items: int, room: Room, count: int, sets: Any, sides: Any) -> int:
    while items > 1:
        least, one, other = math.inf, 0, 1
        for left in range(items):
            for right in range(left + 1, items):
                joined = room.items[left] | room.items[right]
                cost = joined_cost(terms, base, joined, room.items[left])
                if cost < least:
                    least, one, other = cost, left, right
        joined = room.items[one] | room.items[other]
        count = put_join(count, sets, sides, joined, room.items[one])
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
        count = put_join(count, sets, sides, some, side)
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
            count = put_join(count, sets, sides, plans.sets[row + at], plans.sides[row + at])
    return items, count, covered


@njit(error_model="numpy")
def tree_around(
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
    return join_items(m.terms, m.tables_at[member], items, room, count, sets, sides)


@njit(error_model="numpy")
def draft_tree(
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
    return join_items(m.terms, m.tables_at[member], items, room, count, sets, sides)


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
                added = 1 << room.items[item]
                cost = room.best[missing ^ (1 << item)] + joined_cost(m.terms, base, reached | added, added)
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
def draft_order(
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
def complete_order(m: Members, member: int, count: int, sets: Any, sides: Any) -> int:
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


def fill_trees(size: int, nodes: Any, pairs: Any, products: Any, best: Any, sides: Any) -> int:
    """Fill in, for each set, the cost of the joins of its cheapest tree and one side of that: O(3^n)."""
    terms = Terms(nodes, pairs, products)
    for some in range(1, 1 << size):
        low = some & -some
        rest = some ^ low
        best[some], sides[some] = 0.0, 0
        if rest == 0:
            continue
        least = math.inf
        side = rest
        while side:
            cost = best[side] + best[some ^ side] + candidates_cost(terms, 0, some, side)
            if cost < least:
                least, sides[some] = cost, side
            side = (side - 1) & rest
        best[some] = least + nodes[some]
    return 0


def fill_orders(size: int, nodes: Any, pairs: Any, products: Any, best: Any, lasts: Any, nexts: Any) -> int:
    """Fill in, for each set, the variables that its cheapest order binds last and next: O(n 2^n).

    `best` is what the way on from a set costs.
    """
    terms = Terms(nodes, pairs, products)
    best[0] = 0.0
    for some in range(1, 1 << size):
        least = math.inf
        for place in range(size):
            if some >> place & 1:
                cost = best[some ^ (1 << place)] + candidates_cost(terms, 0, some, 1 << place)
                if cost < least:
                    least, lasts[some] = cost, place
        best[some] = least + nodes[some]
    whole = (1 << size) - 1
    best[whole] = 0.0
    for some in range(whole - 1, -1, -1):
        least = math.inf
        for place in range(size):
            if some >> place & 1 == 0:
                further = some | 1 << place
                cost = best[further] + joined_cost(terms, 0, further, 1 << place)
                if cost < least:
                    least, nexts[some] = cost, place
        best[some] = least
    return 0


def join(
    items: int,
    parts: Any,
    nodes: Any,
    pairs: Any,
    products: Any,
    best: Any,
    unions: Any,
    choice: Any,
    sets: Any,
    sides: Any,
) -> int:
    """Join items, sets of variables, by the cheapest tree: its joins' sets, ascending, and one side of each."""
    terms = Terms(nodes, pairs, products)
    return join_items(terms, 0, items, Room(parts, parts, parts, unions, best, choice), 0, sets, sides)
