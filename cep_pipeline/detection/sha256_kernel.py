"""SHA-256 of the canonical JSON of many matches, sixteen at a time (FIPS 180-4).

Imported only where the kernel is compiled or tested; `match_ids.py` calls it.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit

# The loops over the lanes become vector instructions, on whatever processor there is.
LANES = 16
K = np.array(
    [
        *(0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5),
        *(0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174),
        *(0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA),
        *(0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967),
        *(0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85),
        *(0xA2BFE8A1, 0xA81A664B, 0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070),
        *(0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3),
        *(0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2),
    ],
    np.uint32,
)
INITIAL = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
"""The hash value H before the first block."""
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
PAIRS = np.frombuffer("".join(f"{number:02}" for number in range(100)).encode(), np.uint8)
EIGHT_DIGITS = np.uint64(10**8)
word = np.uint32


@njit(inline="always")
def rotate(x: Any, bits: int) -> Any:
    return word(word(x >> word(bits)) | word(x << word(32 - bits)))


@njit(inline="always")
def round_of(state: Any, a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, schedule: Any, t: int) -> None:
    """Step t on the working variables; instead of moving them, the next step names them one place on."""
    for lane in range(LANES):
        x, y = state[a, lane], state[e, lane]
        big_sigma_1 = word(rotate(y, 6) ^ rotate(y, 11) ^ rotate(y, 25))
        choice = word(word(y & state[f, lane]) ^ word(word(~y) & state[g, lane]))
        t1 = word(state[h, lane] + big_sigma_1 + choice + K[t] + schedule[t, lane])
        big_sigma_0 = word(rotate(x, 2) ^ rotate(x, 13) ^ rotate(x, 22))
        majority = word(word(x & state[b, lane]) ^ word(x & state[c, lane]) ^ word(state[b, lane] & state[c, lane]))
        state[d, lane] = word(state[d, lane] + t1)
        state[h, lane] = word(t1 + big_sigma_0 + majority)


@njit
def compress(state: Any, schedule: Any) -> None:
    """64 steps on the working variables `state` (8, LANES) with the block in `schedule[:16]` (64, LANES)."""
    for t in range(16, 64):
        for lane in range(LANES):
            x, y = schedule[t - 15, lane], schedule[t - 2, lane]
            sigma_0 = word(rotate(x, 7) ^ rotate(x, 18) ^ word(x >> word(3)))
            sigma_1 = word(rotate(y, 17) ^ rotate(y, 19) ^ word(y >> word(10)))
            schedule[t, lane] = word(schedule[t - 16, lane] + sigma_0 + schedule[t - 7, lane] + sigma_1)
    for eight in range(8):
        t = 8 * eight
        round_of(state, 0, 1, 2, 3, 4, 5, 6, 7, schedule, t)
        round_of(state, 7, 0, 1, 2, 3, 4, 5, 6, schedule, t + 1)
        round_of(state, 6, 7, 0, 1, 2, 3, 4, 5, schedule, t + 2)
        round_of(state, 5, 6, 7, 0, 1, 2, 3, 4, schedule, t + 3)
        round_of(state, 4, 5, 6, 7, 0, 1, 2, 3, schedule, t + 4)
        round_of(state, 3, 4, 5, 6, 7, 0, 1, 2, schedule, t + 5)
        round_of(state, 2, 3, 4, 5, 6, 7, 0, 1, schedule, t + 6)
        round_of(state, 1, 2, 3, 4, 5, 6, 7, 0, schedule, t + 7)


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


@njit(inline="always")
def swapped(value: Any) -> Any:
    """The four bytes in the opposite order: the hash reads the most significant first."""
    halves = word(word(value & word(0x00FF00FF)) << word(8)) | word(word(value >> word(8)) & word(0x00FF00FF))
    return word(word(halves << word(16)) | word(halves >> word(16)))


@njit
def hash_blocks(text_words: Any, most: int, schedule: Any, state: Any) -> None:
    """Hash the blocks of all lanes; a lane keeps its hash value after its last block (`state[16]` blocks)."""
    for block in range(most):
        for t in range(16):
            for lane in range(LANES):
                schedule[t, lane] = swapped(text_words[lane, 16 * block + t])
        for i in range(8):
            for lane in range(LANES):
                state[i, lane] = state[8 + i, lane]
        compress(state, schedule)
        for i in range(8):
            for lane in range(LANES):
                if word(block) < state[16, lane]:
                    state[8 + i, lane] = word(state[8 + i, lane] + state[i, lane])


@njit
def hash_prefix(prefix_words: Any, blocks: int, midstate: Any, schedule: Any, state: Any) -> None:
    """The hash value after the whole blocks of the prefix, which all matches have in common, into `midstate`."""
    for i in range(8):
        midstate[i] = word(INITIAL[i])
    for block in range(blocks):
        for t in range(16):
            value = swapped(prefix_words[16 * block + t])
            for lane in range(LANES):
                schedule[t, lane] = value
        for i in range(8):
            for lane in range(LANES):
                state[i, lane] = midstate[i]
        compress(state, schedule)
        for i in range(8):
            midstate[i] = word(midstate[i] + state[i, 0])


def hash_bindings(
    matches: int,
    offsets_at: Any,
    seqs_at: Any,
    variables_at: Any,
    tokens_at: Any,
    token_ends_at: Any,
    token_count: int,
    start: int,
    prefix_words_at: Any,
    prefix_blocks: int,
    midstate_at: Any,
    text_at: Any,
    words_at: Any,
    capacity: int,
    schedule_at: Any,
    state_at: Any,
    out_at: Any,
) -> int:
    """Hash `prefix + bindings + ]` for each match and write the first 32 hexadecimal digits.

    Parameters
    ----------
    matches
        Number of matches n.
    offsets, seqs, variables
        Match m binds the elements `offsets[m]` to `offsets[m + 1]`: seqs (int64) and the number of their variable.
    tokens, token_ends, token_count
        Variable v's text up to its seq, `,["v",`, is `tokens[token_ends[v]:token_ends[v + 1]]`.
    start, prefix_words, prefix_blocks
        The prefix has `prefix_blocks` blocks of 64 bytes (as uint32, least significant byte first), and `start` bytes.
    text, capacity
        uint8 (LANES, capacity): each row begins with these `start` bytes; capacity is a multiple of 64.
    words
        The same memory as uint32 (LANES, capacity / 4), least significant byte first.
    midstate, schedule, state
        uint32 scratch, (8,), (64, LANES) and (17, LANES).
    out
        uint8 (n, 32).
    """
    offsets = carray(offsets_at, (matches + 1,))
    seqs = carray(seqs_at, (offsets[matches],))
    variables = carray(variables_at, (offsets[matches],))
    token_ends = carray(token_ends_at, (token_count + 1,))
    tokens = carray(tokens_at, (token_ends[token_count],))
    midstate = carray(midstate_at, (8,))
    prefix_words = carray(prefix_words_at, (16 * prefix_blocks,))
    text = carray(text_at, (LANES, capacity))
    words = carray(words_at, (LANES, capacity // 4))
    schedule = carray(schedule_at, (64, LANES))
    state = carray(state_at, (17, LANES))  # 0 to 7 the working variables, 8 to 15 the hash value, 16 the blocks
    out = carray(out_at, (matches, 32))
    hash_prefix(prefix_words, prefix_blocks, midstate, schedule, state)
    for first in range(0, matches, LANES):
        count = min(LANES, matches - first)
        most = 0
        for lane in range(LANES):
            match = first + min(lane, count - 1)
            at = start
            for element in range(offsets[match], offsets[match + 1]):
                token = variables[element]
                skip = 1 if element == offsets[match] else 0
                for byte in range(token_ends[token] + skip, token_ends[token + 1]):
                    text[lane, at] = tokens[byte]
                    at += 1
                at = write_decimal(seqs[element], text[lane], at)
                text[lane, at] = 93
                at += 1
            text[lane, at] = 93
            text[lane, at + 1] = 93
            at += 2
            blocks = (at + 9 + 63) // 64
            bits = (64 * prefix_blocks + at) * 8
            text[lane, at] = 0x80
            for byte in range(at + 1, 64 * blocks - 8):
                text[lane, byte] = 0
            for byte in range(8):
                text[lane, 64 * blocks - 1 - byte] = np.uint8(bits >> (8 * byte))
            most = max(most, blocks)
            state[16, lane] = blocks
            for i in range(8):
                state[8 + i, lane] = midstate[i]
        hash_blocks(words, most, schedule, state)
        for lane in range(count):
            for i in range(4):
                value = state[8 + i, lane]
                for digit in range(8):
                    out[first + lane, 8 * i + digit] = HEX[(value >> word(28 - 4 * digit)) & word(15)]
    return matches
