"""Where what came before can be joined with what is new. Imported only where the kernel of networks is compiled."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at
from cep_pipeline.detection.evaluation_tree.finished import first_of, last_of
from cep_pipeline.detection.instances.rules import rules_at
from cep_pipeline.detection.lazy_nfa.automaton import first_at_least
from cep_pipeline.detection.shared_network import codes as c
from cep_pipeline.detection.shared_network.machine import Ascending, Tuple, View, machine_at


@njit(error_model="numpy")
def view_of(w: Any, rules: int) -> View:
    """The tuple under test as the evaluation tree's tests read it, with the rules at some place of the words."""
    m = machine_at(w)
    return View(Ascending(m.ascents), rules_at(w, rules), m.cells, Tuple(m.bound))


@njit(error_model="numpy")
def scan_bounds(w: Any, view: View, at: int, row: int) -> tuple[int, int, int]:
    """Between which rows the newest event lies of what can be joined with the tuple under test.

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
    lower, upper = view.rules.floor[row], row
    for place in range(at + 1, at + 1 + m.ascents[at]):
        lower = max(lower, view.rules.onset[last_of(view, m.ascents[place])])
    at += 1 + m.ascents[at]
    for place in range(at + 1, at + 1 + m.ascents[at]):
        upper = min(upper, view.rules.reach[first_of(view, m.ascents[place])])
    return lower, upper, at + 1 + m.ascents[at]


@njit(error_model="numpy")
def buffered(w: Any, events: int, lower: int, upper: int, row: int, key: int) -> tuple[int, int]:
    """The places of the events (of the key) that have been read, from one row on and before another.

    Parameters
    ----------
    events
        The node of the events.
    upper
        `row` at most.
    """
    m = machine_at(w)
    n = events * c.NODE_WORDS
    rows, own = int32_at(m.nodes[n + c.N_ROWS]), key if m.nodes[n + c.N_KEYS] != 0 else 0
    low = int64_at(m.nodes[n + c.N_STARTS])[own]
    high = low + int32_at(m.nodes[n + c.N_READ])[own]
    if low == high or rows[high - 1] < lower:
        return high, high
    low = first_at_least(rows, low, high, lower)
    if upper < row:
        high = first_at_least(rows, low, high, upper)
    return low, high
