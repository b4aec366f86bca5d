"""The cheapest local plans of one member, written in Numba. Imported only where kernels are compiled.

Sets of variables are integers by their bits; `costs` has what the partial matches of each set cost.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any

from cep_pipeline.planning.multi_pattern.plans_around_kernel import Room, join_items


def fill_trees(size: int, costs: Any, best: Any, sides: Any) -> int:
    """Of each set the cost of the joins of its cheapest tree, and one side of that: O(3^n)."""
    for some in range(1, 1 << size):
        low = some & -some
        rest = some ^ low
        best[some], sides[some] = 0.0, 0
        if rest == 0:
            continue
        least = math.inf
        side = rest
        while side:
            cost = best[side] + best[some ^ side]
            if cost < least:
                least, sides[some] = cost, side
            side = (side - 1) & rest
        best[some] = least + costs[some]
    return 0


def fill_orders(size: int, costs: Any, best: Any, lasts: Any, nexts: Any) -> int:
    """Of each set the variable that its cheapest order binds last, and that the cheapest way on binds next: O(n 2^n).

    `best` is what the way on from a set costs.
    """
    best[0] = 0.0
    for some in range(1, 1 << size):
        least = math.inf
        for place in range(size):
            if some >> place & 1 and best[some ^ (1 << place)] < least:
                least, lasts[some] = best[some ^ (1 << place)], place
        best[some] = least + costs[some]
    whole = (1 << size) - 1
    best[whole] = 0.0
    for some in range(whole - 1, -1, -1):
        least = math.inf
        for place in range(size):
            if some >> place & 1 == 0:
                further = some | 1 << place
                if best[further] + costs[further] < least:
                    least, nexts[some] = best[further] + costs[further], place
        best[some] = least
    return 0


def join(items: int, parts: Any, costs: Any, best: Any, unions: Any, choice: Any, sets: Any, sides: Any) -> int:
    """Join items, sets of variables, by the cheapest tree: its joins' sets, ascending, and one side of each."""
    return join_items(costs, 0, items, Room(parts, parts, parts, unions, best, choice), 0, sets, sides)
