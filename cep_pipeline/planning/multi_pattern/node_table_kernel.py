"""The nodes of a shared plan as a table of integers, written in Numba. Imported only where kernels are compiled.

A plan of many members has each node once, however many members use it. The table finds a node by its signature: a
number of 64 bits that is the same for equal nodes, whichever member they come from. `canonical.py` says which nodes are
equal, by texts; signatures are hashes of what the texts say.

For each node the table counts how many members use it in which window. The node costs what it costs a member with the
largest of these windows; it is costed in that window, as a condition passes another share of the pairs in each.

A step of the search is `begin`, then `use` and `drop` of nodes, then `difference` for what that does to the cost, and
`settle`.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.planning.multi_pattern.search_codes import MAX_SWAPS


class Terms(NamedTuple):
    """The costs of nodes, by sets of a member's variables (`costs.SetCosts`); each member's sets begin at a base.

    Attributes
    ----------
    nodes
        The cost of a set's partial matches.
    pairs, products
        Of the candidates of a join of L and R in S: `pairs[S] products[L] products[R]`. The product of the empty set is
        0: what stands alone, as the first variable of an order, is joined with nothing.
    """

    nodes: Any
    pairs: Any
    products: Any


class Members(NamedTuple):
    """The members of a component; rows of two-dimensional arrays are members.

    Attributes
    ----------
    width, windows
        Most variables of a member; number of different windows.
    sizes, window
        Variables of each member; the rank of its window among all, ascending.
    tables_at, terms, first, second
        Of member i, the set of variables s (by its bits) stands at `tables_at[i] + s`: what it costs in the member's
        own window; then, of trees: one side of the cheapest tree of s; of orders: the variable that the cheapest order
        of s binds last, and the one that the cheapest way on from s binds next.
    leaves, agreement
        By member and variable the leaf's hash; by member that of what all events of a node agree on.
    relations_at
        The relations of member i are those from `relations_at[i]` to `relations_at[i + 1]`.
    relation_sets, places_at, places, templates_at, templates
        Of each relation: its variables as a set and ascending, and the hash of what it says of them by the number of
        the permutation (as Lehmer codes count them) that their ranks are.
    """

    width: int
    windows: int
    sizes: Any
    window: Any
    tables_at: Any
    terms: Terms
    first: Any
    second: Any
    leaves: Any
    agreement: Any
    relations_at: Any
    relation_sets: Any
    places_at: Any
    places: Any
    templates_at: Any
    templates: Any


class Nodes(NamedTuple):
    """The table: chains of nodes by signature, and a list of free places.

    Attributes
    ----------
    chains, capacity
        The number of chains, a power of two, and of places for nodes.
    heads, following
        The first node of each chain and the one behind each node, -1: none. Free places are a chain, too.
    signature, uses, top, cost
        Of each node: its signature, how many nodes of single plans it stands for, the largest of their windows, and
        what it costs.
    windows, costs
        Of each node by window: how many of those nodes have the window, and what the node costs in it.
    stamp, before, touched
        Of a node that the current step changed: its number, and what the node cost before; the nodes that it changed.
    registers
        `FREE`, `STAMP`, `TOUCHED`.
    """

    chains: int
    capacity: int
    heads: Any
    following: Any
    signature: Any
    uses: Any
    windows: Any
    costs: Any
    top: Any
    cost: Any
    stamp: Any
    before: Any
    touched: Any
    registers: Any


FREE, STAMP, TOUCHED = 0, 1, 2


class Canon(NamedTuple):
    """Scratch memory for the slots of a tree's nodes.

    Attributes
    ----------
    stack, ranks
        Nodes to go through; by variable its slot.
    swaps
        By node the numbers of the joins below with two equal sides.
    """

    stack: Any
    ranks: Any
    swaps: Any


@njit(error_model="numpy")
def mix(number: int) -> int:
    """Hash a number to 64 bits, by the finalizer of splitmix64."""
    number = (number ^ ((number >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    number = (number ^ ((number >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return number ^ ((number >> 31) & 0x1FFFFFFFF)


@njit(error_model="numpy")
def place_of(single: int) -> int:
    """Return the variable of a set that has one variable."""
    place = 0
    while single > 1:
        single >>= 1
        place += 1
    return place


@njit(error_model="numpy")
def joined_cost(terms: Terms, base: int, inside: int, side: int) -> float:
    """Cost the join that makes a set from one side and the rest of it; the costs of these two are not in it."""
    return terms.nodes[base + inside] + candidates_cost(terms, base, inside, side)


@njit(error_model="numpy")
def candidates_cost(terms: Terms, base: int, inside: int, side: int) -> float:
    """Cost the test of the candidates of such a join."""
    pair = terms.pairs[base + inside]
    return pair * terms.products[base + side] * terms.products[base + (inside ^ side)] if pair > 0.0 else 0.0


@njit(error_model="numpy")
def relations_hash(m: Members, member: int, inside: int, ranks: Any) -> int:
    """Hash the relations among the variables of a set, by the ranks of the variables."""
    total = 0
    for relation in range(m.relations_at[member], m.relations_at[member + 1]):
        if m.relation_sets[relation] & ~inside:
            continue
        begin, end = m.places_at[relation], m.places_at[relation + 1]
        number, taken = 0, 0
        for one in range(begin, end):
            rank = ranks[m.places[one]]
            taken |= 1 << rank
            smaller = 0
            for other in range(one + 1, end):
                if ranks[m.places[other]] < rank:
                    smaller += 1
            number = number * (end - one) + smaller
        total += mix(m.templates[m.templates_at[relation] + number] ^ mix(taken))
    return total


@njit(error_model="numpy")
def order_signatures(m: Members, member: int, count: int, sets: Any, added: Any, ranks: Any, found: Any) -> None:
    """Find the signatures of an order's beginnings, with the set that each binds and the variable of its last step."""
    signature = 0
    for step in range(count):
        place = added[step]
        ranks[place] = step
        leaf = m.leaves[member * m.width + place]
        if step == 0:
            signature = leaf
        else:
            joined = relations_hash(m, member, sets[step], ranks) + m.agreement[member]
            signature = mix(mix(signature ^ 0x51ED270B) + leaf + mix(joined))
        found[step] = signature


@njit(error_model="numpy")
def _leaves_in_slots(
    m: Members, member: int, node: int, sets: Any, lefts: Any, signatures: Any, swapped: int, swaps: Any, c: Canon
) -> None:
    """Write the slots of a tree's variables: the side with the smaller signature first, equal sides as `swapped` says.

    `swaps` has by node the number of a join with two equal sides, -1 elsewhere.
    """
    depth, slot = 1, 0
    c.stack[0] = sets[node]
    while depth:
        depth -= 1
        inside = c.stack[depth]
        if inside & (inside - 1) == 0:
            c.ranks[place_of(inside)] = slot
            slot += 1
            continue
        at = _find(sets, node + 1, inside)
        left, right = lefts[at], inside ^ lefts[at]
        one, other = (
            _side(m, member, sets, node + 1, left, signatures),
            _side(m, member, sets, node + 1, right, signatures),
        )
        if one > other or (one == other and swapped >> swaps[at] & 1):
            left, right = right, left
        c.stack[depth] = right
        c.stack[depth + 1] = left
        depth += 2


@njit(error_model="numpy")
def _find(sets: Any, count: int, wanted: int) -> int:
    for at in range(count):
        if sets[at] == wanted:
            return at
    return -1


@njit(error_model="numpy")
def _side(m: Members, member: int, sets: Any, count: int, side: int, signatures: Any) -> int:
    if side & (side - 1) == 0:
        return m.leaves[member * m.width + place_of(side)]
    return signatures[_find(sets, count, side)]


@njit(error_model="numpy")
def tree_signatures(m: Members, member: int, count: int, sets: Any, lefts: Any, found: Any, c: Canon) -> None:
    """Find the signatures of a tree's joins, which are given by their sets in ascending order and one side of each.

    Where two sides of a join are equal, either may have the first slots: the least of all hashes counts, as it is the
    same for all trees that differ by that only.
    """
    equal = 0
    for node in range(count):
        inside, left = sets[node], lefts[node]
        right = inside ^ left
        one = _side(m, member, sets, node, left, found)
        other = _side(m, member, sets, node, right, found)
        below = 0
        if left & (left - 1):
            below |= c.swaps[m.width + _find(sets, node, left)]
        if right & (right - 1):
            below |= c.swaps[m.width + _find(sets, node, right)]
        c.swaps[node] = -1
        if one == other:
            c.swaps[node] = equal if equal < MAX_SWAPS else 62
            if equal < MAX_SWAPS:
                below |= 1 << equal
            equal += 1
        c.swaps[m.width + node] = below
        found[node] = 0
        least, swapped = 0, below
        while True:
            _leaves_in_slots(m, member, node, sets, lefts, found, swapped, c.swaps, c)
            joined = relations_hash(m, member, inside, c.ranks)
            if swapped == below or joined < least:
                least = joined
            if swapped == 0:
                break
            swapped = (swapped - 1) & below
        low, high = min(one, other), max(one, other)
        found[node] = mix(mix(low ^ 0x2545F491) + 3 * high + mix(least + m.agreement[member]))


@njit(error_model="numpy")
def clear(m: Members, t: Nodes) -> None:
    """Empty the table."""
    for at in range(t.chains):
        t.heads[at] = -1
    for at in range(t.capacity):
        t.following[at] = at + 1
        t.uses[at] = 0
        t.stamp[at] = 0
        t.cost[at] = 0.0
        t.top[at] = -1
    for at in range(t.capacity * m.windows):
        t.windows[at] = 0
    t.following[t.capacity - 1] = -1
    t.registers[FREE], t.registers[STAMP], t.registers[TOUCHED] = 0, 0, 0


@njit(error_model="numpy")
def begin(t: Nodes) -> None:
    """Begin a step, in which no node has changed yet."""
    t.registers[STAMP] += 1
    t.registers[TOUCHED] = 0


@njit(error_model="numpy")
def _touch(t: Nodes, node: int) -> None:
    if t.stamp[node] != t.registers[STAMP]:
        t.stamp[node] = t.registers[STAMP]
        t.before[node] = t.cost[node]
        t.touched[t.registers[TOUCHED]] = node
        t.registers[TOUCHED] += 1


@njit(error_model="numpy")
def node_of(t: Nodes, signature: int) -> int:
    """Find the node with a signature, or make it."""
    chain = signature & (t.chains - 1)
    node = t.heads[chain]
    while node >= 0 and t.signature[node] != signature:
        node = t.following[node]
    if node < 0:
        node = t.registers[FREE]
        t.registers[FREE] = t.following[node]
        t.following[node] = t.heads[chain]
        t.heads[chain] = node
        t.signature[node], t.uses[node], t.top[node], t.cost[node] = signature, 0, -1, 0.0
    return node


@njit(error_model="numpy")
def use(m: Members, t: Nodes, node: int, member: int, inside: int, side: int) -> None:
    """Note that a member's plan uses a node: it stands for a set of variables, joined from one side and the rest."""
    _touch(t, node)
    window = m.window[member]
    place = node * m.windows + window
    if t.windows[place] == 0:
        t.costs[place] = joined_cost(m.terms, m.tables_at[member], inside, side)
    t.windows[place] += 1
    t.uses[node] += 1
    if window > t.top[node]:
        t.top[node], t.cost[node] = window, t.costs[place]


@njit(error_model="numpy")
def drop(m: Members, t: Nodes, node: int, member: int) -> None:
    """Note that a member's plan no longer uses a node."""
    _touch(t, node)
    window = m.window[member]
    base = node * m.windows
    t.windows[base + window] -= 1
    t.uses[node] -= 1
    if window == t.top[node] and t.windows[base + window] == 0:
        while window >= 0 and t.windows[base + window] == 0:
            window -= 1
        t.top[node] = window
        t.cost[node] = t.costs[base + window] if window >= 0 else 0.0


@njit(error_model="numpy")
def difference(t: Nodes) -> float:
    """Sum up how the step changes the plan's cost. The sum is compensated, so that large costs hide no difference."""
    total, lost = 0.0, 0.0
    for at in range(t.registers[TOUCHED]):
        node = t.touched[at]
        for number in (t.cost[node], -t.before[node]):
            raised = total + number
            if abs(total) >= abs(number):
                lost += (total - raised) + number
            else:
                lost += (number - raised) + total
            total = raised
    return total + lost


@njit(error_model="numpy")
def settle(t: Nodes) -> None:
    """End a step, and forget the nodes that nobody uses any more."""
    for at in range(t.registers[TOUCHED]):
        node = t.touched[at]
        if t.uses[node]:
            continue
        chain = t.signature[node] & (t.chains - 1)
        if t.heads[chain] == node:
            t.heads[chain] = t.following[node]
        else:
            earlier = t.heads[chain]
            while t.following[earlier] != node:
                earlier = t.following[earlier]
            t.following[earlier] = t.following[node]
        t.following[node] = t.registers[FREE]
        t.registers[FREE] = node
    t.registers[TOUCHED] = 0


@njit(error_model="numpy")
def cost_of_all(t: Nodes) -> float:
    """Sum up the costs of all nodes, each counted once."""
    total = 0.0
    for node in range(t.capacity):
        if t.uses[node]:
            total += t.cost[node]
    return total
