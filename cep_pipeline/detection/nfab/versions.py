"""Dewey version numbers of runs (SIGMOD'08 section 5.1). Imported only where kernels are compiled.

A version number is `id_1.id_2...id_t`. A run that starts from the n-th start has the version n.0. Where a run splits,
the one that goes on with the event gets a new last digit 0, and the last digit of the one that stays is increased. So
no two runs ever have the same version, and a run's version at some time is one that it, or a run that it comes from,
had before, if and only if all digits but the last of the earlier one are digits of the later, and the earlier's last
digit is not greater than the later's in that place: the paper's two forms of compatible numbers, put together.

Runs that come from one have their first digits in common, so digits are kept in a ring as a tree: a version is the
number of a *prefix* (all digits but the last) and the last digit; a prefix is a shorter prefix and one more digit.
Prefixes are numbered as they are made: a longer one has a higher number than each that it extends.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at

PREFIX_WORDS = 3
SHORTER, DIGIT, ROW = range(PREFIX_WORDS)
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
    versions.prefixes[words + DIGIT] = digit & NUMBERS
    versions.prefixes[words + ROW] = row
    return made & NUMBERS


@njit(error_model="numpy")
def shorter(versions: Versions, prefix: int) -> tuple[int, int]:
    """The version that a prefix is, as a shorter prefix and its last digit."""
    words = (prefix & versions.mask) * PREFIX_WORDS
    return versions.prefixes[words + SHORTER], versions.prefixes[words + DIGIT]


@njit(error_model="numpy")
def is_later(prefix: int, other: int) -> bool:
    """Whether a prefix was made after another one."""
    return prefix != other and ((prefix - other) & NUMBERS) < HALF


@njit(error_model="numpy")
def version_before(versions: Versions, prefix: int, digit: int, other: int) -> tuple[int, int]:
    """The version, or the newest that the run had before it, whose prefix was not made after another one."""
    while prefix >= 0 and is_later(prefix, other):
        prefix, digit = shorter(versions, prefix)
    return prefix, digit


@njit(error_model="numpy")
def is_compatible(versions: Versions, prefix: int, digit: int, earlier: int, earlier_digit: int) -> bool:
    """Whether an earlier version is one that the run of a version, or a run that it comes from, had."""
    prefix, digit = version_before(versions, prefix, digit, earlier)
    return prefix == earlier and earlier_digit <= digit


@njit(error_model="numpy")
def prune_versions(versions: Versions, instants_of_rows: Any, earliest: int) -> None:
    """Let go of the prefixes of runs that began with events before an instant."""
    head, tail = versions.ends[0], versions.ends[1]
    while head < tail:
        row = versions.prefixes[(head & versions.mask) * PREFIX_WORDS + ROW]
        if instants_of_rows[row] >= earliest:
            break
        head += 1
    versions.ends[0] = head
