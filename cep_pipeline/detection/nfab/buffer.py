"""The shared versioned match buffer of all runs (SIGMOD'08 section 5.1). Imported only where kernels are compiled.

Version numbers. A version number is `id_1.id_2...id_t`. A run that starts from the n-th start has the version n.0.
Where a run splits, the one that goes on with the event gets a new last digit 0, and the last digit of the one that
stays is increased. So no two runs ever have the same version. A run's version at some time is one that it, or a run
that it comes from, had before, if and only if all digits but the last of the earlier one are digits of the later, and
the earlier's last digit is not greater than the later's in that place: the paper's two forms of compatible numbers, put
together. Runs that come from one have their first digits in common, so digits are kept in a ring as a tree: a version
is the number of a *prefix* (all digits but the last) and the last digit; a prefix is a shorter prefix and one more
digit. Prefixes are numbered as they are made: a longer one has a higher number than each that it extends.

The buffer. It has a stack for each state. An event that runs select in a state stands in its stack once, whichever runs
select it, with a pointer of each of them to the event that this run selected before, labelled with the run's version
number. A run knows its newest event and its version. Its match is found by going back from there: of the pointers of an
event the one is followed whose version is compatible with the version of the pointer before. On a run's way no event is
twice in a stack, so there is one such pointer. The pointers of an event lie side by side in its stack, and the event is
named by the place of its first pointer. Runs are shown an event in the order in which their prefixes were made, so the
pointers of an event are sorted by prefix. A pointer is looked for first where the pointer before stood among those of
its own event, since runs mostly take the same events; then in steps that double, and by halves. A junction stands for
two runs that were merged (section 5.2.2): it has a pointer to the newest event of each, with the version and the start
that this run had. Stacks are rings that are pruned by the window (section 5.3): the places of pointers that no run
needs any more are used again.

The way back (`retrieve`) writes the matches of a finished run. At a junction it goes on twice: the events behind the
junction are the last ones of both matches.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at

PREFIX_WORDS = 3
SHORTER, PREFIX_DIGIT, PREFIX_ROW = range(PREFIX_WORDS)
"""int32 words of a prefix: the one that it extends (-1: none), its last digit, and the row of the event with which the
run of this prefix began."""
NUMBERS = 0x7FFFFFFF
"""Numbers of prefixes, and of starts, go round."""
HALF = 1 << 30


class Versions(NamedTuple):
    """The ring of prefixes as pointers.

    Attributes
    ----------
    ends
        int64[2]: how many prefixes were let go of, and made.
    prefixes
        int32: `PREFIX_WORDS` of each.
    mask
        The ring's size less 1.
    """

    ends: Any
    prefixes: Any
    mask: Any


@njit(error_model="numpy")
def versions_at(words: Any, at: int) -> Versions:
    """The versions whose words (`VersionNumbers.words`) begin at `words[at]`."""
    return Versions(int64_at(words[at]), int32_at(words[at + 1]), words[at + 2])


@njit(error_model="numpy")
def extended(versions: Versions, prefix: int, digit: int, row: int) -> int:
    """A new prefix: the digits of a version (prefix -1: a start's number alone). There must be room."""
    made = versions.ends[1]
    versions.ends[1] = made + 1
    words = (made & versions.mask) * PREFIX_WORDS
    versions.prefixes[words + SHORTER] = prefix
    versions.prefixes[words + PREFIX_DIGIT] = digit & NUMBERS
    versions.prefixes[words + PREFIX_ROW] = row
    return made & NUMBERS


@njit(error_model="numpy")
def shorter(versions: Versions, prefix: int) -> tuple[int, int]:
    """The version that a prefix is, as a shorter prefix and its last digit."""
    words = (prefix & versions.mask) * PREFIX_WORDS
    return versions.prefixes[words + SHORTER], versions.prefixes[words + PREFIX_DIGIT]


@njit(error_model="numpy")
def is_later(prefix: int, other: int) -> bool:
    """Tell whether a prefix was made after another one."""
    return prefix != other and ((prefix - other) & NUMBERS) < HALF


@njit(error_model="numpy")
def version_before(versions: Versions, prefix: int, digit: int, other: int) -> tuple[int, int]:
    """The version, or the newest that the run had before it, whose prefix was not made after another one."""
    while prefix >= 0 and is_later(prefix, other):
        prefix, digit = shorter(versions, prefix)
    return prefix, digit


@njit(error_model="numpy")
def is_compatible(versions: Versions, prefix: int, digit: int, earlier: int, earlier_digit: int) -> bool:
    """Tell whether the run of a version, or a run that it comes from, had an earlier version."""
    prefix, digit = version_before(versions, prefix, digit, earlier)
    return prefix == earlier and earlier_digit <= digit


@njit(error_model="numpy")
def prune_versions(versions: Versions, instants_of_rows: Any, earliest: int) -> None:
    """Let go of the prefixes of runs that began with events before an instant."""
    head, tail = versions.ends[0], versions.ends[1]
    while head < tail:
        row = versions.prefixes[(head & versions.mask) * PREFIX_WORDS + PREFIX_ROW]
        if instants_of_rows[row] >= earliest:
            break
        head += 1
    versions.ends[0] = head


POINTER_WORDS = 5
ROW, PREFIX, DIGIT, BEFORE, STATE = range(POINTER_WORDS)
"""int32 words of a pointer: the row of the event that it belongs to (-1 less the row with which runs were merged: a
junction), its version, the event that it points to (-1: to none) and the state of that."""
STACK_WORDS = 3
RELEASED, MADE, NEWEST = range(STACK_WORDS)
"""int64 words of a stack: how many pointers were let go of, and made, and where those of its newest event begin."""


class Buffer(NamedTuple):
    """The stacks as pointers.

    Attributes
    ----------
    stacks
        int64: `STACK_WORDS` of each.
    pointers
        int32 [states, size]: `POINTER_WORDS` of each.
    starts
        int64 [states, size]: of the pointers of junctions, the start of the run.
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
    """The place where the words of a pointer begin."""
    return (state * (buffer.mask + 1) + (pointer & buffer.mask)) * POINTER_WORDS


@njit(error_model="numpy")
def room(buffer: Buffer) -> int:
    """The number of pointers that can be made in each stack."""
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
) -> int:
    """An event that the run of a version selects in a state, behind another event (-1: as its first).

    There must be room in the stack.

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
    """Return the place among the pointers of an event of the one that is compatible with a version.

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


NEAR = 3
"""Pointers that are looked at before one is searched for."""


@njit(error_model="numpy", forceinline=True)
def followed_place(
    buffer: Buffer, versions: Versions, state: int, event: int, prefix: int, digit: int, guess: int
) -> int:
    """The same, for an event on the way of a run, mostly at a glance."""
    made = (buffer.stacks[state * STACK_WORDS + MADE] - event) & NUMBERS
    row = buffer.pointers[words_of(buffer, state, event) + ROW]
    for near in range(guess, min(guess + NEAR, made)):  # before some of the elder runs ended, there were more of them
        words = words_of(buffer, state, event + near)
        same = buffer.pointers[words + PREFIX] == prefix and buffer.pointers[words + ROW] == row
        if same and buffer.pointers[words + DIGIT] <= digit:
            return near
    return compatible_place(buffer, versions, state, event, prefix, digit, guess)


PENDING_WORDS = 5
"""int32 words of what waits for the way back: event, state, prefix, digit, and how many events lie behind it."""
PATH_WORDS = 2
"""int32 words of an event of the way: its row and its state."""


@njit(error_model="numpy")
def wait(pending: Any, top: int, event: int, state: int, prefix: int, digit: int, depth: int) -> None:
    """Put an event on top of those from which the way back of a version has still to be gone."""
    words = PENDING_WORDS * top
    pending[words] = event
    pending[words + 1] = state
    pending[words + 2] = prefix
    pending[words + 3] = digit
    pending[words + 4] = depth


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
        behind them are the first events of the path.
    path
        int32, `PATH_WORDS` each: room for the events of the way, newest first.
    rows, variables, most, at
        The elements of the matches, room for so many, and where to go on.
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
        prefix, digit, depth = pending[words + 2], pending[words + 3], pending[words + 4]
        begun, begun_state, begun_prefix, begun_digit, behind, kept = event, state, prefix, digit, depth, top
        place = 0
        while event >= 0:
            words = words_of(buffer, state, event)
            if buffer.pointers[words + ROW] < 0:
                other = words_of(buffer, state, event + 1)
                if buffer.starts[other // POINTER_WORDS] >= earliest:
                    elder, elder_digit = buffer.pointers[other + PREFIX], buffer.pointers[other + DIGIT]
                    wait(pending, top, buffer.pointers[other + BEFORE], state, elder, elder_digit, depth)
                    top += 1
            else:
                path[PATH_WORDS * depth] = buffer.pointers[words + ROW]
                path[PATH_WORDS * depth + 1] = state
                depth += 1
                place = followed_place(buffer, versions, state, event, prefix, digit, place)
                if place > 0:
                    words = words_of(buffer, state, event + place)
            prefix, digit = buffer.pointers[words + PREFIX], buffer.pointers[words + DIGIT]
            event, state = buffer.pointers[words + BEFORE], buffer.pointers[words + STATE]
        if at + depth > most:
            wait(pending, kept, begun, begun_state, begun_prefix, begun_digit, behind)
            top = kept + 1
            break
        for step in range(depth):
            rows[at + step] = path[PATH_WORDS * (depth - 1 - step)]
            variables[at + step] = path[PATH_WORDS * (depth - 1 - step) + 1]
        at += depth
        matches += 1
        offsets[matches] = at
    return top, at, matches
