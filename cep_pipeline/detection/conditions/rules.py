"""The rules over events for kernels, searches of events in stream order, and memory for finished matches.

Imported only where kernels are compiled; `program.py` makes the arrays.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import Int8s, Int32s, Int64s, Uint8s, float64_at, reader_of
from cep_pipeline.detection.conditions.cells import Cells, cell_before, first_row_of, length_of, list_contains, row_of
from cep_pipeline.detection.conditions.codes import (
    COMPARE_SLOTS,
    EARLIER,
    EQUAL,
    GREATER,
    ITEM_WORDS,
    LATER,
    LESS,
    MAY_SHARE,
)
from cep_pipeline.detection.conditions.evaluator import Code, compare, group_holds


class Rules(NamedTuple):
    """The arrays of `program.StreamRules` as pointers.

    Attributes
    ----------
    floor, ceiling, reach, onset, keys, relations
        As there.
    candidates, counts, negated
        Rows of the negated variables' candidates, how many of each lie below each row (`size + 1` counts a variable),
        and for each variable its slot, its group and where its candidates begin.
    kleene
        uint8: whether a slot is of a Kleene variable.
    agreeing
        Whether `keys` must be equal.
    slots, positive, negations, size
        Numbers of slots, of positive and of negated variables, and of events.
    by_rows
        Whether an event is before those of later rows and no others: `reach` and `onset` are not written then.
    """

    floor: Int32s
    ceiling: Int32s
    reach: Int32s
    onset: Int32s
    keys: Int32s
    relations: Int8s
    candidates: Int32s
    counts: Int32s
    negated: Int64s
    kleene: Uint8s
    agreeing: int
    slots: int
    positive: int
    negations: int
    size: int
    by_rows: int


rules_at = reader_of(Rules)
"""The rules whose words (`StreamRules.kernel_words`) begin at a place."""


@njit(error_model="numpy")
def first_row(rules: Rules, cells: Cells, slots: Any, base: int, slot: int) -> int:
    """The first event of a bound variable."""
    value = slots[base + slot]
    return first_row_of(cells, value) if rules.kleene[slot] else value


@njit(error_model="numpy")
def last_row(rules: Rules, cells: Cells, slots: Any, base: int, slot: int) -> int:
    """The last event of a bound variable."""
    value = slots[base + slot]
    return row_of(cells, value) if rules.kleene[slot] else value


@njit(error_model="numpy")
def in_window(rules: Rules, first: int, last: int) -> bool:
    """True if an event is within the window of a later one (of the same partition)."""
    return first >= rules.floor[last]


@njit(error_model="numpy")
def agree(rules: Rules, one: int, other: int) -> bool:
    """True if two events agree on what the clause asks for."""
    return not rules.agreeing or (rules.keys[one] >= 0 and rules.keys[one] == rules.keys[other])


@njit(error_model="numpy", forceinline=True)
def reach_of(rules: Rules, row: int) -> int:
    """The row below which events are before this one."""
    return row if rules.by_rows else rules.reach[row]


@njit(error_model="numpy", forceinline=True)
def onset_of(rules: Rules, row: int) -> int:
    """The row from which events are after this one."""
    return row + 1 if rules.by_rows else rules.onset[row]


@njit(error_model="numpy")
def is_before(rules: Rules, one: int, other: int) -> bool:
    """True if an event is before another one under the pattern's TIES."""
    return one < reach_of(rules, other) and one != other


@njit(error_model="numpy")
def joins(
    rules: Rules, cells: Cells, slots: Any, base: int, bound: Any, first: int, last: int, slot: int, row: int
) -> bool:
    """True if an event obeys, as the event of a variable, all rules over two events with those of an instance.

    Parameters
    ----------
    bound
        uint8: which slots the instance has bound (from `bound[0]`).
    first, last
        The first and the last row of the instance.
    slot
        The variable. If it is a Kleene variable that is bound already, the event must be behind its newest element.
    """
    if rules.floor[max(last, row)] > min(first, row) or not agree(rules, first, row):
        return False
    for other in range(rules.positive):
        if not bound[other]:
            continue
        if other == slot:
            if row <= last_row(rules, cells, slots, base, other):
                return False
            continue
        relation = rules.relations[other * rules.slots + slot]
        if relation & EARLIER and not is_before(rules, last_row(rules, cells, slots, base, other), row):
            return False
        if relation & LATER and not is_before(rules, row, first_row(rules, cells, slots, base, other)):
            return False
        if relation & MAY_SHARE and contains(rules, cells, slots, base, other, row):
            return False
    return True


@njit(error_model="numpy")
def contains(rules: Rules, cells: Cells, slots: Any, base: int, slot: int, row: int) -> bool:
    """True if a bound variable has an event."""
    value = slots[base + slot]
    return list_contains(cells, value, row) if rules.kleene[slot] else value == row


@njit(error_model="numpy")
def rejected(rules: Rules, code: Code, cells: Cells, slots: Any, base: int, first: int, last: int) -> bool:
    """True if an event of a negated variable rejects a complete match (docs/language.md, section 3.5).

    Parameters
    ----------
    slots
        The match's slots, with room for those of the negated variables, which are overwritten.
    first, last
        The first and the last row of the match.
    """
    for number in range(rules.negations):
        slot, group, candidates = (
            rules.negated[3 * number],
            rules.negated[3 * number + 1],
            rules.negated[3 * number + 2],
        )
        low, high = -1, rules.size
        for other in range(rules.positive):
            relation = rules.relations[other * rules.slots + slot]
            if relation & EARLIER:
                low = max(low, onset_of(rules, last_row(rules, cells, slots, base, other)))
            elif relation & LATER:
                high = min(high, reach_of(rules, first_row(rules, cells, slots, base, other)))
        if low < 0:
            low = rules.floor[last]
        if high == rules.size and not _has_later(rules, slot):
            high = rules.ceiling[first] + 1
        counts = number * (rules.size + 1)
        end = candidates + rules.counts[counts + high]
        for place in range(candidates + rules.counts[counts + low], end):
            row = rules.candidates[place]
            if not agree(rules, first, row) or _is_in_match(rules, cells, slots, base, slot, row):
                continue
            slots[base + slot] = row
            if group_holds(code, cells, group, slots, base):
                return True
    return False


@njit(error_model="numpy")
def _has_later(rules: Rules, slot: int) -> bool:
    """True if a positive variable comes after a negated one."""
    for other in range(rules.positive):  # noqa: SIM110 (Numba has no any)
        if rules.relations[other * rules.slots + slot] & LATER:
            return True
    return False


@njit(error_model="numpy")
def _is_in_match(rules: Rules, cells: Cells, slots: Any, base: int, slot: int, row: int) -> bool:
    for other in range(rules.positive):
        if rules.relations[other * rules.slots + slot] & MAY_SHARE and contains(rules, cells, slots, base, other, row):
            return True
    return False


@njit(error_model="numpy")
def first_at_least(rows: Any, low: int, high: int, row: int) -> int:
    """The first place in [low, high) of ascending rows whose row is at least `row`, or `high`."""
    while low < high:
        middle = (low + high) >> 1
        if rows[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


@njit(error_model="numpy")
def bound_side(items: Any, at: int, variable: int, slots: Any, base: int) -> tuple[int, int, float]:
    """The item at `items[at]`, one of `COMPARE_SLOTS`, as a comparison of a variable's column with what is bound.

    Returned are the comparator, the address of the column, and the value of the bound side.
    """
    if items[at + 3] == variable:
        return items[at + 1], items[at + 2], float64_at(items[at + 4])[slots[base + items[at + 5]]]
    mirrored = items[at + 1] ^ 2 if items[at + 1] < EQUAL else items[at + 1]
    return mirrored, items[at + 4], float64_at(items[at + 2])[slots[base + items[at + 3]]]


@njit(error_model="numpy")
def first_passing(rows: Any, slots: Any, code: Code, group: int, variable: int, place: int, end: int) -> int:
    """The first place from `place` on whose event holds the first conjunct of a group, if that compares two columns.

    The side of the bound variable is read once for all events.
    """
    items, at = code.items, code.groups[group] * ITEM_WORDS
    if code.groups[group] == code.groups[group + 1] or items[at] != COMPARE_SLOTS:
        return place
    comparator, own, value = bound_side(items, at, variable, slots, 0)
    column = float64_at(own)
    begin = place
    if comparator == LESS:
        while place < end and not column[rows[place]] < value:
            place += 1
    elif comparator == GREATER:
        while place < end and not column[rows[place]] > value:
            place += 1
    else:
        while place < end and not compare(comparator, column[rows[place]], value):
            place += 1
    code.counts[0] += place - begin
    return place


class Found(NamedTuple):
    """The buffer of `program.FoundMatches` as pointers.

    Attributes
    ----------
    used
        int64[2]: matches and elements in the buffer.
    rows, variables, ends
        Of each element its row and its slot, and of each match where its elements end; the latter two for lists only.
    capacity
        Elements that it holds.
    lists
        Whether the clause has lists.
    """

    used: Int64s
    rows: Int32s
    variables: Int32s
    ends: Int64s
    capacity: int
    lists: int


found_at = reader_of(Found)
"""The buffer whose words (`FoundMatches.kernel_words`) begin at a place."""


@njit(error_model="numpy")
def add_match(
    found: Found, rules: Rules, cells: Cells, slots: Any, plain: int, candidates: Int32s, places: Int32s, depth: int
) -> bool:
    """Add a match with these slots; False where the buffer is full.

    The list of the variable `plain` (-1: of none) has no cells: it is so many candidates, before these `places`.
    """
    begin = found.used[1]
    if not found.lists:
        end = begin + rules.positive
        if end > found.capacity:
            return False
        for slot in range(rules.positive):
            found.rows[begin + slot] = slots[slot]
    else:
        end = begin
        for slot in range(rules.positive):
            value, kleene = slots[slot], rules.kleene[slot]
            length = depth if slot == plain else length_of(cells, value) if kleene else 1
            first, end = end, end + length
            if end > found.capacity:
                return False
            for place in range(first, end):
                found.variables[place] = slot
            if slot == plain:
                for place in range(length):
                    found.rows[first + place] = candidates[places[place] - 1]
            elif kleene:
                for place in range(end - 1, first - 1, -1):
                    found.rows[place] = row_of(cells, value)
                    value = cell_before(cells, value)
            else:
                found.rows[first] = value
        found.ends[found.used[0]] = end
    found.used[0] += 1
    found.used[1] = end
    return True
