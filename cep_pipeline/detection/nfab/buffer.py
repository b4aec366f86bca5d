"""The shared versioned match buffer of all runs (SIGMOD'08 section 5.1). Imported only where kernels are compiled.

The buffer has a stack for each state. An event that runs select in a state stands in its stack once, whichever runs
select it, with a pointer of each of them to the event that this run selected before, labelled with the run's version
number (`versions`). A run knows its newest event and its version. Its match is found by going back from there: of the
pointers of an event the one is followed whose version is compatible with the version of the pointer before. On a
run's way no event is twice in a stack, so there is one such pointer.

The pointers of an event lie side by side in its stack, and the event is named by the place of its first pointer. Runs
are shown an event in the order in which their prefixes were made, so the pointers of an event are sorted by prefix. A
pointer is looked for first where the pointer before stood among those of its own event, since runs mostly take the same
events; then in steps that double, and by halves.

A junction stands for two runs that were merged (section 5.2.2): it has a pointer to the newest event of each, with
the version and the start that this run had. Stacks are rings that are pruned by the window (section 5.3): the places of
pointers that no run needs any more are used again.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at
from cep_pipeline.detection.nfab.versions import Versions, is_compatible, is_later, version_before

POINTER_WORDS = 8
ROW, PREFIX, DIGIT, BEFORE, STATE, LENGTH, JUNCTION, JUNCTION_STATE = range(POINTER_WORDS)
"""int32 words of a pointer: the row of the event that it belongs to (-1 less the row with which runs were merged: a
junction), its version, the event that it points to (-1: to none) and the state of that, and how many events a match has
up to here; where runs were merged on the way, less than 0: how many there are since the newest junction, which is named
by the last two words."""
STACK_WORDS = 3
RELEASED, MADE, NEWEST = range(STACK_WORDS)
"""int64 words of a stack: how many pointers were let go of, and made, and where those of its newest event begin."""
NUMBERS = 0x7FFFFFFF
"""Numbers of pointers go round."""


class Buffer(NamedTuple):
    """The stacks as pointers.

    Attributes
    ----------
    stacks
        int64: `STACK_WORDS` of each.
    pointers
        int32 [states, size]: `POINTER_WORDS` of each.
    starts
        int64 [states, size]: of the pointers of junctions, the start of the run; of others where, of all elements
        written so far, the one for it stands in a match that was written with it (-1: in none). As many elements as
        its length says end there: a whole match up to it, or what lies between it and the junction.
    mask
        The size of a stack less 1.
    states
        How many stacks there are.
    """

    stacks: Any
    pointers: Any
    starts: Any
    mask: Any
    states: Any


@njit(error_model="numpy")
def buffer_at(words: Any, at: int) -> Buffer:
    """The buffer whose words (`MatchBuffer.words`) begin at `words[at]`."""
    return Buffer(int64_at(words[at]), int32_at(words[at + 1]), int64_at(words[at + 2]), words[at + 3], words[at + 4])


@njit(error_model="numpy", forceinline=True)
def words_of(buffer: Buffer, state: int, pointer: int) -> int:
    """Where the words of a pointer begin."""
    return (state * (buffer.mask + 1) + (pointer & buffer.mask)) * POINTER_WORDS


@njit(error_model="numpy")
def room(buffer: Buffer) -> int:
    """How many pointers can be made in each stack."""
    most = 0
    for state in range(buffer.states):
        stack = state * STACK_WORDS
        most = max(most, buffer.stacks[stack + MADE] - buffer.stacks[stack + RELEASED])
    return buffer.mask + 1 - most


@njit(error_model="numpy")
def select(
    buffer: Buffer,
    state: int,
    row: int,
    prefix: int,
    digit: int,
    before: int,
    state_before: int,
    length: int,
    junction: int,
    junction_state: int,
) -> int:
    """An event that the run of a version selects in a state, behind another event (-1: as its first).

    There must be room in the stack. The junction matters only where the length is less than 0.

    Returns
    -------
    int
        The event, for the run to point to.
    """
    stack = state * STACK_WORDS
    made = buffer.stacks[stack + MADE]
    buffer.stacks[stack + MADE] = made + 1
    newest = made
    if made > buffer.stacks[stack + RELEASED] and buffer.pointers[words_of(buffer, state, made - 1) + ROW] == row:
        newest = buffer.stacks[stack + NEWEST]
    buffer.stacks[stack + NEWEST] = newest
    words = words_of(buffer, state, made)
    buffer.pointers[words + ROW] = row
    buffer.pointers[words + PREFIX] = prefix
    buffer.pointers[words + DIGIT] = digit
    buffer.pointers[words + BEFORE] = before
    buffer.pointers[words + STATE] = state_before
    buffer.pointers[words + LENGTH] = length
    if length < 0:
        buffer.pointers[words + JUNCTION] = junction
        buffer.pointers[words + JUNCTION_STATE] = junction_state
    buffer.starts[words // POINTER_WORDS] = -1
    return newest & NUMBERS


@njit(error_model="numpy")
def join(buffer: Buffer, state: int, row: int) -> int:
    """A new junction in the stack of a state, whose two pointers are written with `label`. There must be room."""
    stack = state * STACK_WORDS
    made = buffer.stacks[stack + MADE]
    buffer.stacks[stack + MADE] = made + 2
    for place in range(2):
        buffer.pointers[words_of(buffer, state, made + place) + ROW] = -1 - row
    return made & NUMBERS


@njit(error_model="numpy")
def label(buffer: Buffer, state: int, pointer: int, prefix: int, digit: int, before: int, start: int) -> None:
    """A junction's pointer to the newest event of a run, with the run's version and start."""
    words = words_of(buffer, state, pointer)
    buffer.pointers[words + PREFIX] = prefix
    buffer.pointers[words + DIGIT] = digit
    buffer.pointers[words + BEFORE] = before
    buffer.pointers[words + STATE] = state
    buffer.starts[words // POINTER_WORDS] = start


@njit(error_model="numpy")
def prune(buffer: Buffer, instants_of_rows: Any, earliest: int) -> None:
    """Let go of all events before an instant: no run that lives has them in its window."""
    for state in range(buffer.states):
        stack = state * STACK_WORDS
        head, tail = buffer.stacks[stack + RELEASED], buffer.stacks[stack + MADE]
        while head < tail:
            row = buffer.pointers[words_of(buffer, state, head) + ROW]
            if instants_of_rows[row if row >= 0 else -1 - row] >= earliest:
                break
            head += 1
        buffer.stacks[stack + RELEASED] = head


@njit(error_model="numpy")
def forget_all(buffer: Buffer) -> None:
    """Let go of all events: no run lives. The places at hand, which were used last, are used next."""
    for state in range(buffer.states):
        stack = state * STACK_WORDS
        buffer.stacks[stack + RELEASED] = 0
        buffer.stacks[stack + MADE] = 0


@njit(error_model="numpy")
def compatible_place(
    buffer: Buffer, versions: Versions, state: int, event: int, prefix: int, digit: int, guess: int
) -> int:
    """Behind how many pointers of an event the one stands that is compatible with a version.

    Parameters
    ----------
    guess
        Where to look first.

    Returns
    -------
    int
        -1 where none is compatible: the run of the version did not select the event.
    """
    row = buffer.pointers[words_of(buffer, state, event) + ROW]
    end = (buffer.stacks[state * STACK_WORDS + MADE] - event) & NUMBERS
    place = guess
    while prefix >= 0:
        place = _last_not_later(buffer, state, event, row, end, prefix, place)
        if place < 0:
            return -1
        words = words_of(buffer, state, event + place)
        own, own_digit = buffer.pointers[words + PREFIX], buffer.pointers[words + DIGIT]
        if is_compatible(versions, prefix, digit, own, own_digit):
            return place
        prefix, digit = version_before(versions, prefix, digit, own)
        if prefix == own:
            return -1
    return -1


@njit(error_model="numpy")
def _last_not_later(buffer: Buffer, state: int, event: int, row: int, end: int, prefix: int, guess: int) -> int:
    """The place of the last pointer of an event whose prefix was not made after another one; -1: there is none."""
    low, high = -1, end  # the place is at least `low`, and before `high`
    place, step = min(guess, end - 1), 1
    while low + 1 < high:
        words = words_of(buffer, state, event + place)
        if buffer.pointers[words + ROW] == row and not is_later(buffer.pointers[words + PREFIX], prefix):
            low = place
            place = min(place + step, high - 1) if high == end else (low + high) // 2
        else:
            high = place
            place = max(place - step, low + 1) if low < 0 else (low + high) // 2
        step *= 2
    return low


@njit(error_model="numpy", forceinline=True)
def followed_place(
    buffer: Buffer, versions: Versions, state: int, event: int, prefix: int, digit: int, guess: int
) -> int:
    """The same, for an event on the way of a run, mostly at a glance."""
    words = words_of(buffer, state, event + guess)
    if buffer.pointers[words + PREFIX] == prefix and buffer.pointers[words + DIGIT] <= digit:
        if guess == 0:
            return 0
        made = (buffer.stacks[state * STACK_WORDS + MADE] - event) & NUMBERS
        if guess < made and buffer.pointers[words + ROW] == buffer.pointers[words_of(buffer, state, event) + ROW]:
            return guess
    return compatible_place(buffer, versions, state, event, prefix, digit, guess)
