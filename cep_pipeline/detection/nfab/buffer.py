"""The shared match buffer of all runs (SIGMOD'08 section 5.1). Imported only where kernels are compiled.

An entry is an event that some run selected at a state, with its predecessor pointer; all runs that come from the one
that made it share it. The paper tells the pointers of an event apart by version numbers, and looks on the way
back for the one compatible with the run's; here a pointer names its compatible predecessor itself, so that the way back
needs no search: the version number is the path of splits that leads to the pointer.

A junction stands for two runs that were merged (section 5.2.2): it has two predecessors, each with the start of its
youngest run. Entries live in a ring that is pruned by the window (section 5.3): what is older is overwritten.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.detection.instances.pointers import int32_at, int64_at

LINK_WORDS = 5
ROW, VARIABLE, BEFORE, OTHER, LENGTH = range(LINK_WORDS)
"""int32 words of an entry: the event's row (-1: a junction), its variable, the predecessors (-1: none), and how many
events a match has up to here (0: its matches differ)."""
INSTANT_WORDS = 3
BORN, YOUNGEST, ELDER = range(INSTANT_WORDS)
"""int64 words: when it was made, the start of its youngest run, and of a junction's other predecessor."""
NUMBERS = 0x7FFFFFFF
"""Numbers of entries go round."""


class Buffer(NamedTuple):
    """The ring as pointers.

    Attributes
    ----------
    ends
        int64[2]: how many entries were let go of, and made.
    links, instants
        int32 and int64 of each entry.
    mask
        The ring's size less 1.
    """

    ends: Any
    links: Any
    instants: Any
    mask: Any


@njit(error_model="numpy")
def buffer_at(words: Any, at: int) -> Buffer:
    """The buffer whose words (`MatchBuffer.words`) begin at `words[at]`."""
    return Buffer(int64_at(words[at]), int32_at(words[at + 1]), int64_at(words[at + 2]), words[at + 3])


@njit(error_model="numpy")
def room(buffer: Buffer) -> int:
    """How many entries can be made."""
    return buffer.mask + 1 - (buffer.ends[1] - buffer.ends[0])


@njit(error_model="numpy")
def select(buffer: Buffer, row: int, variable: int, before: int, now: int, start: int) -> int:
    """A new entry: an event that a run selects behind `before` (-1: as its first). There must be room."""
    made = buffer.ends[1]
    buffer.ends[1] = made + 1
    place = made & buffer.mask
    links, instants = place * LINK_WORDS, place * INSTANT_WORDS
    buffer.links[links + ROW] = row
    buffer.links[links + VARIABLE] = variable
    buffer.links[links + BEFORE] = before
    buffer.links[links + OTHER] = -1
    if before < 0:
        buffer.links[links + LENGTH] = 1
    else:
        length = buffer.links[(before & buffer.mask) * LINK_WORDS + LENGTH]
        buffer.links[links + LENGTH] = length + 1 if length > 0 else 0
    buffer.instants[instants + BORN] = now
    buffer.instants[instants + YOUNGEST] = start
    return made & NUMBERS


@njit(error_model="numpy")
def join(buffer: Buffer, one: int, other: int, one_start: int, other_start: int, now: int) -> int:
    """A new junction of the newest entries of two runs. There must be room."""
    made = buffer.ends[1]
    buffer.ends[1] = made + 1
    place = made & buffer.mask
    links, instants = place * LINK_WORDS, place * INSTANT_WORDS
    younger = one_start >= other_start
    buffer.links[links + ROW] = -1
    buffer.links[links + VARIABLE] = -1
    buffer.links[links + BEFORE] = one if younger else other
    buffer.links[links + OTHER] = other if younger else one
    buffer.links[links + LENGTH] = 0
    buffer.instants[instants + BORN] = now
    buffer.instants[instants + YOUNGEST] = one_start if younger else other_start
    buffer.instants[instants + ELDER] = other_start if younger else one_start
    return made & NUMBERS


@njit(error_model="numpy")
def prune(buffer: Buffer, earliest: int) -> None:
    """Let go of all entries made before an instant: no run that lives has them in its window."""
    head, tail = buffer.ends[0], buffer.ends[1]
    while head < tail and buffer.instants[(head & buffer.mask) * INSTANT_WORDS + BORN] < earliest:
        head += 1
    buffer.ends[0] = head


@njit(error_model="numpy")
def forget_all(buffer: Buffer) -> None:
    """Let go of all entries: no run lives."""
    buffer.ends[0] = buffer.ends[1]


@njit(error_model="numpy")
def retrieve(
    buffer: Buffer,
    earliest: int,
    pending: Any,
    top: int,
    path: Any,
    rows: Any,
    variables: Any,
    most: int,
    at: int,
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
        int32 pairs and their number: an entry from which the way back has still to be gone, and how many events of the
        match lie behind it on `path`.
    path
        int32 pairs of row and variable, newest first.
    rows, variables, most, at
        The elements of the matches, room for so many, and where to go on.
    offsets, matches, most_matches
        Where each match ends, their number, and room for so many.

    Returns
    -------
    top, at, matches : int
        A top of 0: all are written.
    """
    while top > 0:
        if matches == most_matches:
            break
        entry = pending[2 * top - 2]
        depth = pending[2 * top - 1]
        top -= 1
        begun, begun_depth, kept = entry, depth, top
        length = 0
        while entry >= 0:
            place = entry & buffer.mask
            links = place * LINK_WORDS
            if buffer.links[links + ROW] < 0:
                if buffer.instants[place * INSTANT_WORDS + ELDER] >= earliest:
                    pending[2 * top] = buffer.links[links + OTHER]
                    pending[2 * top + 1] = depth
                    top += 1
                entry = buffer.links[links + BEFORE]
                continue
            length = buffer.links[links + LENGTH]
            if length > 0:
                break
            path[2 * depth] = buffer.links[links + ROW]
            path[2 * depth + 1] = buffer.links[links + VARIABLE]
            depth += 1
            entry = buffer.links[links + BEFORE]
        if at + depth + length > most:
            pending[2 * kept] = begun
            pending[2 * kept + 1] = begun_depth
            top = kept + 1
            break
        write = at + length
        while entry >= 0:
            write -= 1
            links = (entry & buffer.mask) * LINK_WORDS
            rows[write] = buffer.links[links + ROW]
            variables[write] = buffer.links[links + VARIABLE]
            entry = buffer.links[links + BEFORE]
        write = at + length
        for place in range(depth - 1, -1, -1):
            rows[write] = path[2 * place]
            variables[write] = path[2 * place + 1]
            write += 1
        at = write
        matches += 1
        offsets[matches] = at
    return top, at, matches
