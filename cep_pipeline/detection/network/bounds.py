"""Where that lies with which the tuple under test can be joined. Imported only where kernels are compiled."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at
from cep_pipeline.detection.instances.cells import cell_before, length_of, list_contains, row_of
from cep_pipeline.detection.instances.rules import first_row, last_row, rules_at
from cep_pipeline.detection.instances.searching import first_at_least
from cep_pipeline.detection.network import codes as c
from cep_pipeline.detection.network.stores import View, machine_at


@njit(error_model="numpy")
def view_of(w: Any, rules: int) -> View:
    """The tuple under test, with the rules at some place of the words."""
    m = machine_at(w)
    return View(m.ascents, rules_at(w, rules), m.cells, m.bound)


@njit(error_model="numpy")
def first_of(view: View, variable: int) -> int:
    """The first row that the tuple under test binds to a variable."""
    return first_row(view.rules, view.cells, view.bound, 0, variable)


@njit(error_model="numpy")
def last_of(view: View, variable: int) -> int:
    """The last row that the tuple under test binds to a variable."""
    return last_row(view.rules, view.cells, view.bound, 0, variable)


@njit(error_model="numpy")
def in_order(view: View, at: int) -> bool:
    """True if the pairs at `ascents[at]` are in their order; its length comes first."""
    for pair in range(view.ascents[at]):
        one, other = view.ascents[at + 1 + 2 * pair], view.ascents[at + 2 + 2 * pair]
        if first_of(view, other) < view.rules.onset[last_of(view, one)]:
            return False
    return True


@njit(error_model="numpy")
def are_distinct(view: View, at: int) -> bool:
    """True if the pairs at `ascents[at]` have no event in common; its length comes first."""
    cells, bound = view.cells, view.bound
    for pair in range(view.ascents[at]):
        one, other = view.ascents[at + 1 + 2 * pair], view.ascents[at + 2 + 2 * pair]
        if view.rules.kleene[one] and view.rules.kleene[other]:
            cell = bound[one]
            for _ in range(length_of(cells, bound[one])):
                if list_contains(cells, bound[other], row_of(cells, cell)):
                    return False
                cell = cell_before(cells, cell)
        elif view.rules.kleene[one]:
            if list_contains(cells, bound[one], bound[other]):
                return False
        elif view.rules.kleene[other]:
            if list_contains(cells, bound[other], bound[one]):
                return False
        elif bound[one] == bound[other]:
            return False
    return True


@njit(error_model="numpy")
def scan_bounds(w: Any, view: View, at: int, row: int) -> tuple[int, int, int]:
    """Return bounds of the row of the newest event of the tuples that can be joined with the one under test.

    Parameters
    ----------
    at
        Where the words of the ascent are, behind the first.

    Returns
    -------
    (int, int, int)
        From which row on, before which row, and where the words of the pairs are whose order is tested.
    """
    m = machine_at(w)
    lower, upper = view.rules.floor[row], row + m.registers[c.REPLAYING]  # then the row has been read
    for place in range(at + 1, at + 1 + m.ascents[at]):
        lower = max(lower, view.rules.onset[last_of(view, m.ascents[place])])
    at += 1 + m.ascents[at]
    for place in range(at + 1, at + 1 + m.ascents[at]):
        upper = min(upper, view.rules.reach[first_of(view, m.ascents[place])])
    return lower, upper, at + 1 + m.ascents[at]


@njit(error_model="numpy")
def buffered(w: Any, events: int, lower: int, upper: int, key: int) -> tuple[int, int]:
    """The places of the events (of the key) of a node that have been read, from one row on and before another."""
    m = machine_at(w)
    n = events * c.NODE_WORDS
    rows, own = int32_at(m.nodes[n + c.N_ROWS]), key if m.nodes[n + c.N_KEYS] != 0 else 0
    low = int64_at(m.nodes[n + c.N_STARTS])[own]
    high = low + int32_at(m.nodes[n + c.N_READ])[own]
    if low == high or rows[high - 1] < lower:
        return high, high
    window = 1  # it holds few of all events
    while high - window > low and rows[high - window] >= lower:
        window *= 2
    low = first_at_least(rows, max(low, high - window), high, lower)
    if rows[high - 1] >= upper:
        high = first_at_least(rows, low, high, upper)
    return low, high


@njit(error_model="numpy")
def still_open(w: Any, events: int, row: int, key: int) -> tuple[int, int]:
    """The places of the events (of the key), up to a row, that can be in a match with those to come."""
    m = machine_at(w)
    n = events * c.NODE_WORDS
    rows, ceiling = int32_at(m.nodes[n + c.N_ROWS]), int32_at(m.nodes[n + c.N_CEILING])
    low, high = buffered(w, events, rules_at(w, m.nodes[n + c.N_RULES]).floor[row], row + 1, key)
    while low < high and ceiling[rows[low]] < m.rows[m.registers[c.STEP]]:
        low += 1
    return low, high


@njit(error_model="numpy")
def key_of(w: Any, events: int, row: int) -> int:
    """The key of an event of a node: 0 where events need not agree, -1 where it agrees with none."""
    m = machine_at(w)
    keys = m.nodes[events * c.NODE_WORDS + c.N_KEYS]
    return int32_at(keys)[row] if keys != 0 else 0
