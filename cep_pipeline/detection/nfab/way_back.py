"""The way back from finished runs through the match buffer, on which their matches are written.

What a match has in common with one that was written before is copied. Of a run that was never merged with another, a
match up to an event of it is always the same. Of a merged run, what lies between an event and the newest junction
before it is the same for all its matches, and is copied as a piece; before the junction the way goes on twice. The
events behind the junction are the last ones of both matches, so the second gets them from the first, which was written
just before.

Imported only where kernels are compiled.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.detection.nfab.buffer import (
    BEFORE,
    DIGIT,
    JUNCTION,
    JUNCTION_STATE,
    LENGTH,
    POINTER_WORDS,
    PREFIX,
    ROW,
    STATE,
    Buffer,
    followed_place,
    words_of,
)
from cep_pipeline.detection.nfab.versions import Versions

PENDING_WORDS = 5
"""int32 words of what waits for the way back: event, state, prefix, digit, and how many events lie behind it."""
PATH_WORDS = 3
"""int32 words of a part of the way: an event's row and state, or -1 less the place where a piece was written and its
length; and its pointer, the newest of a piece."""


@njit(error_model="numpy")
def wait(pending: Any, top: int, event: int, state: int, prefix: int, digit: int, depth: int) -> None:
    """Put an event on top of those from which the way back of a version has still to be gone."""
    words = PENDING_WORDS * top
    pending[words] = event
    pending[words + 1] = state
    pending[words + 2] = prefix
    pending[words + 3] = digit
    pending[words + 4] = depth


@njit(error_model="numpy", forceinline=True)
def copy_elements(values: Any, source: int, target: int, number: int) -> None:
    """Copy elements to a place behind them."""
    for element in range(number):
        values[target + element] = values[source + element]


@njit(error_model="numpy")
def retrieve(
    buffer: Buffer,
    versions: Versions,
    earliest: int,
    pending: Any,
    top: int,
    path: Any,
    rows: Any,
    variables: Any,
    most: int,
    at: int,
    handed_on: int,
    offsets: Any,
    matches: int,
    most_matches: int,
) -> tuple[int, int, int]:
    """Write the matches that wait on a stack, as far as there is room.

    Parameters
    ----------
    earliest
        Runs that began before this instant have expired.
    pending, top
        int32, `PENDING_WORDS` each, and their number: events from which the way back has still to be gone. What lies
        behind them are the last elements of the match written last.
    path
        int32, `PATH_WORDS` each: room for the parts of the way, newest first.
    rows, variables, most, at
        The elements of the matches, room for so many, and where to go on.
    handed_on
        How many elements were written before these.
    offsets, matches, most_matches
        Where each match ends, their number, and room for so many.

    Returns
    -------
    top, at, matches : int
        A top of 0: all are written.
    """
    while top > 0 and matches < most_matches:
        top -= 1
        words = PENDING_WORDS * top
        event, state = pending[words], pending[words + 1]
        prefix, digit, behind = pending[words + 2], pending[words + 3], pending[words + 4]
        begun, begun_state, begun_prefix, begun_digit = event, state, prefix, digit
        kept = top
        depth = behind
        parts = 0
        length = 0
        place = 0
        while event >= 0:
            words = words_of(buffer, state, event)
            if buffer.pointers[words + ROW] < 0:
                other = words_of(buffer, state, event + 1)
                if buffer.starts[other // POINTER_WORDS] >= earliest:
                    elder, elder_digit = buffer.pointers[other + PREFIX], buffer.pointers[other + DIGIT]
                    wait(pending, top, buffer.pointers[other + BEFORE], state, elder, elder_digit, depth)
                    top += 1
                event = buffer.pointers[words + BEFORE]
                prefix, digit = buffer.pointers[words + PREFIX], buffer.pointers[words + DIGIT]
                continue
            place = followed_place(buffer, versions, state, event, prefix, digit, place)
            words = words_of(buffer, state, event + place)
            length = buffer.pointers[words + LENGTH]
            if length > 0:
                break
            pointer = words // POINTER_WORDS
            written = buffer.starts[pointer] - handed_on
            path[PATH_WORDS * parts + 2] = pointer
            if written >= 0:  # another match has the same events from the junction up to here
                path[PATH_WORDS * parts] = -2 - written - length
                path[PATH_WORDS * parts + 1] = -length
                depth -= length
                event, state = buffer.pointers[words + JUNCTION], buffer.pointers[words + JUNCTION_STATE]
            else:
                path[PATH_WORDS * parts] = buffer.pointers[words + ROW]
                path[PATH_WORDS * parts + 1] = state
                depth += 1
                prefix, digit = buffer.pointers[words + PREFIX], buffer.pointers[words + DIGIT]
                event, state = buffer.pointers[words + BEFORE], buffer.pointers[words + STATE]
            parts += 1
        if at + depth + length > most:
            wait(pending, kept, begun, begun_state, begun_prefix, begun_digit, behind)
            top = kept + 1
            break
        write = at + length
        while event >= 0:
            place = followed_place(buffer, versions, state, event, prefix, digit, place)
            words = words_of(buffer, state, event + place)
            written = buffer.starts[words // POINTER_WORDS] - handed_on
            buffer.starts[words // POINTER_WORDS] = handed_on + write - 1
            if written >= 0:  # another match has the same events up to here
                source = written + 1 - buffer.pointers[words + LENGTH]
                copy_elements(rows, source, at, write - at)
                copy_elements(variables, source, at, write - at)
                break
            write -= 1
            rows[write] = buffer.pointers[words + ROW]
            variables[write] = state
            prefix, digit = buffer.pointers[words + PREFIX], buffer.pointers[words + DIGIT]
            event, state = buffer.pointers[words + BEFORE], buffer.pointers[words + STATE]
        write = at + length
        for part in range(parts - 1, -1, -1):
            number, first = 1, path[PATH_WORDS * part]
            if first >= 0:
                rows[write] = first
                variables[write] = path[PATH_WORDS * part + 1]
            else:
                number = path[PATH_WORDS * part + 1]
                copy_elements(rows, -1 - first, write, number)
                copy_elements(variables, -1 - first, write, number)
            write += number
            buffer.starts[path[PATH_WORDS * part + 2]] = handed_on + write - 1
        copy_elements(rows, at - behind, write, behind)
        copy_elements(variables, at - behind, write, behind)
        at = write + behind
        matches += 1
        offsets[matches] = at
    return top, at, matches
