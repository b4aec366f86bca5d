"""The rules over events for kernels. Imported only where kernels are compiled; `stream_rules.py` makes the arrays."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import int8_at, int32_at, int64_at, uint8_at
from cep_pipeline.detection.instances.cells import Cells, first_row_of, list_contains, row_of
from cep_pipeline.detection.instances.codes import EARLIER, LATER, MAY_SHARE
from cep_pipeline.detection.instances.evaluator import Code, group_holds


class Rules(NamedTuple):
    """The arrays of `stream_rules.StreamRules` as pointers.

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
    """

    floor: Any
    ceiling: Any
    reach: Any
    onset: Any
    keys: Any
    relations: Any
    candidates: Any
    counts: Any
    negated: Any
    kleene: Any
    agreeing: Any
    slots: Any
    positive: Any
    negations: Any
    size: Any


@njit(error_model="numpy")
def rules_at(words: Any, at: int) -> Rules:
    """The rules whose words (`StreamRules.kernel_words`) begin at `words[at]`."""
    return Rules(
        int32_at(words[at]),
        int32_at(words[at + 1]),
        int32_at(words[at + 2]),
        int32_at(words[at + 3]),
        int32_at(words[at + 4]),
        int8_at(words[at + 5]),
        int32_at(words[at + 6]),
        int32_at(words[at + 7]),
        int64_at(words[at + 8]),
        uint8_at(words[at + 9]),
        words[at + 10],
        words[at + 11],
        words[at + 12],
        words[at + 13],
        words[at + 14],
    )


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


@njit(error_model="numpy")
def is_before(rules: Rules, one: int, other: int) -> bool:
    """True if an event is before another one under the pattern's TIES."""
    return one < rules.reach[other] and one != other


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
                low = max(low, rules.onset[last_row(rules, cells, slots, base, other)])
            elif relation & LATER:
                high = min(high, rules.reach[first_row(rules, cells, slots, base, other)])
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
