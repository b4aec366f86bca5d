"""Ids, seqs and times of matches in one pass. Imported only to compile the kernels; `match_ids.py` calls them."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit

word = np.uint64


@njit
def mixed(value: Any, factor: Any) -> Any:
    """Mix the bits of a word; different words stay different."""
    value ^= value >> word(32)
    value *= factor
    return value ^ (value >> word(29))


@njit
def stirred(a: Any, b: Any, factors: Any) -> Any:
    """Mix the two words of a state with each other; different states stay different."""
    b ^= mixed(a, factors[0])
    return a ^ mixed(b, factors[1]), b


@njit
def write_id(a: Any, b: Any, count: int, key: Any, factors: Any, bits: Any, ids: Any, match: int) -> None:
    """Finish the state of a match of `count` events, and write it as a UUID."""
    a, b = stirred(a ^ key[2], b ^ key[3] ^ word(count), factors)
    a, b = stirred(a, b, factors)
    ids[match, 0] = a & bits[0] | bits[1]
    ids[match, 1] = b & bits[2] | bits[3]


@njit
def inputs(
    events: int, seqs_at: Any, timestamps_at: Any, positions_at: Any, names: int, key_at: Any, constants_at: Any
) -> Any:
    """The arrays of events and variables, and the key, the factors and the bits of ids as tuples.

    These are read once: what a loop writes might be they, for all that the compiler knows.
    """
    return (
        carray(seqs_at, (events,)),
        carray(timestamps_at, (events,)),
        carray(positions_at, (names,)),
        (key_at[0], key_at[1], key_at[2], key_at[3]),
        (constants_at[0], constants_at[1]),
        (constants_at[2], constants_at[3], constants_at[4], constants_at[5]),
    )


TOGETHER = 256
"""Number of matches that are described together: their ids are computed side by side, and stay in the cache."""


@njit
def identify(width: int, stride: int, rows: Any, shift: Any, seqs: Any, identity: Any, outputs: Any) -> None:
    """Write the ids and the seqs of matches, for all of them one variable after another.

    Where there is a shift, an event's seq is its row and the shift. The seqs of a variable stand in `ends` meanwhile.
    """
    positions, key, factors, bits = identity
    ids, bound, _, ends = outputs
    for match in range(len(ids)):
        ids[match, 0], ids[match, 1] = key[0], key[1]
    for variable in range(width):
        position, of_variable = word(positions[variable]), rows[variable * stride :]
        for match in range(len(ids)):
            row = of_variable[match]
            ends[match] = seqs[word(row)] if shift is None else row + shift
        for match in range(len(ids)):
            bound[match * width + variable] = ends[match]
        for match in range(len(ids)):
            a, b = stirred(ids[match, 0] ^ word(ends[match]), ids[match, 1] ^ position, factors)
            ids[match, 0], ids[match, 1] = a, b
    for match in range(len(ids)):
        write_id(ids[match, 0], ids[match, 1], width, key, factors, bits, ids, match)


@njit
def find_times(width: int, stride: int, rows: Any, timestamps: Any, outputs: Any) -> None:
    """Write the times of the first and the last event of matches, which are looked up many at a time."""
    _, _, starts, ends = outputs
    for match in range(len(starts)):
        starts[match] = rows[match]
    for match in range(len(starts)):
        ends[match] = rows[match]
    for variable in range(1, width):
        of_variable = rows[variable * stride :]
        for match in range(len(starts)):
            starts[match] = min(starts[match], of_variable[match])
        for match in range(len(starts)):
            ends[match] = max(ends[match], of_variable[match])
    for match in range(len(starts)):
        starts[match] = timestamps[word(starts[match])]
    for match in range(len(starts)):
        ends[match] = timestamps[word(ends[match])]


def describe_single_events(
    matches: int,
    width: int,
    stride: int,
    rows_at: Any,
    consecutive: int,
    events: int,
    seqs_at: Any,
    timestamps_at: Any,
    positions_at: Any,
    key_at: Any,
    constants_at: Any,
    ids_at: Any,
    bound_at: Any,
    starts_at: Any,
    ends_at: Any,
) -> int:
    """Describe matches that bind one event to each of the same variables.

    Parameters
    ----------
    matches, width, stride
        Variable v of match m binds the event `rows[v * stride + m]`, v below `width`.
    rows
        int32.
    consecutive
        1 where the seq of each event is one above that of the event before: then seqs need not be looked up.
    events, seqs, timestamps
        The number of events, and of each its seq and its time.
    positions
        Each variable's position in the pattern.
    key
        uint64 (4,): that of the statement.
    constants
        uint64 (6,): two factors, and for each word of an id the bits that are kept and those that are set.
    ids, bound, starts, ends
        Written: uint64 (n, 2), the seqs as int64 (n * width,), and the times of first and last event.
    """
    rows = carray(rows_at, ((width - 1) * stride + matches,))
    seqs, timestamps, positions, key, factors, bits = inputs(
        events, seqs_at, timestamps_at, positions_at, width, key_at, constants_at
    )
    ids = carray(ids_at, (matches, 2))
    bound = carray(bound_at, (matches * width,))
    starts, ends = carray(starts_at, (matches,)), carray(ends_at, (matches,))
    identity = positions, key, factors, bits
    for begin in range(0, matches, TOGETHER):
        end = min(begin + TOGETHER, matches)
        outputs = ids[begin:end], bound[begin * width :], starts[begin:end], ends[begin:end]
        if consecutive:
            identify(width, stride, rows[begin:], seqs[0], seqs, identity, outputs)
        else:
            identify(width, stride, rows[begin:], None, seqs, identity, outputs)
        find_times(width, stride, rows[begin:], timestamps, outputs)
    return matches


def describe_lists(
    matches: int,
    offsets_at: Any,
    rows_at: Any,
    variables_at: Any,
    events: int,
    seqs_at: Any,
    timestamps_at: Any,
    positions_at: Any,
    names: int,
    key_at: Any,
    constants_at: Any,
    ids_at: Any,
    bound_at: Any,
    starts_at: Any,
    ends_at: Any,
) -> int:
    """Describe matches of any width; the parameters are those of `describe_single_events`, but for these.

    Parameters
    ----------
    offsets, rows, variables
        Match m binds the elements `offsets[m]` to `offsets[m + 1]`, at least one: int32 rows of events, and the number
        of the variable of each, below `names`.
    """
    offsets = carray(offsets_at, (matches + 1,))
    rows = carray(rows_at, (offsets[matches],))
    variables = carray(variables_at, (offsets[matches],))
    seqs, timestamps, positions, key, factors, bits = inputs(
        events, seqs_at, timestamps_at, positions_at, names, key_at, constants_at
    )
    ids = carray(ids_at, (matches, 2))
    bound = carray(bound_at, (offsets[matches],))
    starts = carray(starts_at, (matches,))
    ends = carray(ends_at, (matches,))
    for match in range(matches):
        a, b = key[0], key[1]
        first = last = rows[offsets[match]]
        for element in range(offsets[match], offsets[match + 1]):
            row = rows[element]
            first, last = min(first, row), max(last, row)
            seq = seqs[row]
            bound[element] = seq
            a, b = stirred(a ^ word(seq), b ^ word(positions[variables[element]]), factors)
        write_id(a, b, offsets[match + 1] - offsets[match], key, factors, bits, ids, match)
        starts[match] = timestamps[first]
        ends[match] = timestamps[last]
    return matches
