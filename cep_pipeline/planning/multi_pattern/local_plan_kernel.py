"""The cheapest local plans of one member, written in Numba. Imported only where kernels are compiled.

Sets of variables are integers by their bits; `nodes`, `pairs` and `products` have what each set costs (`Terms`).
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any

from cep_pipeline.planning.multi_pattern.node_table_kernel import Terms, candidates_cost, joined_cost
from cep_pipeline.planning.multi_pattern.plans_around_kernel import Room, join_items


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
