"""Buffers into which kernels write finished matches. Imported only by kernels; `found.py` owns the arrays."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at
from cep_pipeline.detection.instances.cells import Cells, cell_before, length_of, row_of
from cep_pipeline.detection.instances.rules import Rules


class Found(NamedTuple):
    """The buffer of `found.FoundMatches` as pointers.

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

    used: Any
    rows: Any
    variables: Any
    ends: Any
    capacity: Any
    lists: Any


@njit(error_model="numpy")
def found_at(words: Any, at: int) -> Found:
    """The buffer whose words (`FoundMatches.kernel_words`) begin at `words[at]`."""
    return Found(
        int64_at(words[at]),
        int32_at(words[at + 1]),
        int32_at(words[at + 2]),
        int64_at(words[at + 3]),
        words[at + 4],
        words[at + 5],
    )


@njit(error_model="numpy")
def add_match(found: Found, rules: Rules, cells: Cells, slots: Any, base: int) -> bool:
    """Add a match with the slots `slots[base:]`; False where the buffer is full."""
    begin = found.used[1]
    if not found.lists:
        end = begin + rules.positive
        if end > found.capacity:
            return False
        for slot in range(rules.positive):
            found.rows[begin + slot] = slots[base + slot]
    else:
        end = begin
        for slot in range(rules.positive):
            value = slots[base + slot]
            kleene = rules.kleene[slot]
            length = length_of(cells, value) if kleene else 1
            end += length
            if end > found.capacity:
                return False
            if not kleene:
                found.variables[end - 1] = slot
                found.rows[end - 1] = value
                continue
            for place in range(end - 1, end - 1 - length, -1):
                found.variables[place] = slot
                found.rows[place] = row_of(cells, value)
                value = cell_before(cells, value)
        found.ends[found.used[0]] = end
    found.used[0] += 1
    found.used[1] = end
    return True
