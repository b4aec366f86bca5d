"""Bindings as JSON text, padded for the hash. Imported only where the kernel is compiled; `match_ids.py` calls it."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit

PAIRS = np.frombuffer("".join(f"{number:02}" for number in range(100)).encode(), np.uint8)
EIGHT_DIGITS = np.uint64(10**8)
word = np.uint32


@njit
def write_digits(number: Any, digits: int, text: Any, at: int) -> None:
    """Write the last `digits` decimal digits of a number below 10**8 at `text[at:]`."""
    place = at + digits
    while place - at >= 2:
        place -= 2
        quotient = word(number // word(100))
        pair = word(number - quotient * word(100)) * word(2)
        text[place] = PAIRS[pair]
        text[place + 1] = PAIRS[pair + word(1)]
        number = quotient
    if place > at:
        text[at] = np.uint8(word(48) + number % word(10))


@njit
def write_decimal(value: Any, text: Any, at: int) -> int:
    """Write an int64 in decimal at `text[at:]`; returns the place behind it."""
    rest = np.uint64(value)
    if value < 0:
        text[at] = 45
        at += 1
        rest = np.uint64(~rest + np.uint64(1))
    digits, bound = 1, np.uint64(10)
    while digits < 19 and rest >= bound:
        digits += 1
        bound *= np.uint64(10)
    # Eight digits at a time: the parts do not wait for each other.
    middle = rest // EIGHT_DIGITS
    high = middle // EIGHT_DIGITS
    if digits > 16:
        write_digits(word(high), digits - 16, text, at)
        write_digits(word(middle - high * EIGHT_DIGITS), 8, text, at + digits - 16)
        write_digits(word(rest - middle * EIGHT_DIGITS), 8, text, at + digits - 8)
    elif digits > 8:
        write_digits(word(middle), digits - 8, text, at)
        write_digits(word(rest - middle * EIGHT_DIGITS), 8, text, at + digits - 8)
    else:
        write_digits(word(rest), digits, text, at)
    return at + digits


def write_bindings(
    matches: int,
    offsets_at: Any,
    seqs_at: Any,
    variables_at: Any,
    tokens_at: Any,
    token_ends_at: Any,
    token_count: int,
    start: int,
    bytes_before: int,
    text_at: Any,
    capacity: int,
    blocks_at: Any,
) -> int:
    """Write the end of each match's JSON and the padding of its hash.

    Parameters
    ----------
    matches
        Number of matches n.
    offsets, seqs, variables
        Match m binds the elements `offsets[m]` to `offsets[m + 1]`: seqs (int64) and the number of their variable.
    tokens, token_ends, token_count
        Variable v's text up to its seq, `,["v",`, is `tokens[token_ends[v]:token_ends[v + 1]]`.
    start, bytes_before
        The text of each match begins at `text[m, start]`, and all that is hashed before its row has so many bytes.
    text, capacity
        uint8 (n, capacity).
    blocks
        int32 (n,): written, the number of blocks of 64 bytes.
    """
    offsets = carray(offsets_at, (matches + 1,))
    seqs = carray(seqs_at, (offsets[matches],))
    variables = carray(variables_at, (offsets[matches],))
    token_ends = carray(token_ends_at, (token_count + 1,))
    tokens = carray(tokens_at, (token_ends[token_count],))
    rows = carray(text_at, (matches, capacity))
    blocks = carray(blocks_at, (matches,))
    for match in range(matches):
        text = rows[match]
        at = start
        for element in range(offsets[match], offsets[match + 1]):
            token = variables[element]
            skip = 1 if element == offsets[match] else 0
            for byte in range(token_ends[token] + skip, token_ends[token + 1]):
                text[at] = tokens[byte]
                at += 1
            at = write_decimal(seqs[element], text, at)
            text[at] = 93
            at += 1
        text[at] = 93
        text[at + 1] = 93
        at += 2
        blocks[match] = (at + 9 + 63) // 64
        end = 64 * blocks[match]
        text[at] = 0x80
        for byte in range(at + 1, end - 8):
            text[byte] = 0
        bits = (bytes_before + at) * 8
        for byte in range(8):
            text[end - 1 - byte] = np.uint8(bits >> (8 * byte))
    return matches
