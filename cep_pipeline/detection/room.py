"""Room for what detection holds at a time: partial matches, and the elements of their lists.

How many there are depends on the window, the rates, how events follow each other, and the plan; nobody knows it
beforehand. Their arrays double while kernels wait. Whoever doubles one asks here first: else the machine would run out
of memory, and the process, which may be one of many on it, would end without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from cep_pipeline.errors import NoRoom

SMALL = 1 << 26
"""Bytes that are given without looking at how much memory there is."""
SPARE = 0.1
"""The share of the memory at hand that is left alone."""
MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")
"""Where Linux says how much memory there is, and how much a container may have, and has."""
_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Hold no more than so many bytes of one kind at a time, whatever memory there is."""
    before = _most.set(size)
    try:
        yield
    finally:
        _most.reset(before)


@contextmanager
def named(pattern: str) -> Iterator[None]:
    """Say of which pattern it is, where there is no room."""
    try:
        yield
    except NoRoom as error:
        raise NoRoom(f"pattern {pattern!r}: {error}") from error


def ask_for(size: int, held: str) -> None:
    """Ask for so many bytes in place of half as many.

    Parameters
    ----------
    size
        Bytes of the arrays that are to be made.
    held
        What the old ones hold, with its number, such as "the automaton holds 1,024 partial matches within a window".

    Raises
    ------
    NoRoom
        There is no memory for that.
    """
    most = _most.get()
    if most is None:
        if size <= SMALL:
            return
        available = available_bytes()
        most = None if available is None else int(available * (1 - SPARE))
    if most is not None and size > most:
        raise NoRoom(
            f"{held}, and there is no memory for as many again ({size / 1e9:.1f} GB): shorten the window, add "
            "conditions, plan from newer statistics, or use mechanism 'fused', which stores none of single events"
        )


def available_bytes() -> int | None:
    """The bytes of memory at hand on this machine, or in its container; None where nobody says."""
    found = []
    try:
        lines = MEMINFO.read_text().splitlines()
        found += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        pass
    try:
        limit = (GROUP / "memory.max").read_text().strip()
        if limit != "max":
            found.append(max(int(limit) - _used_bytes(), 0))
    except OSError:
        pass
    return min(found, default=None)


def _used_bytes() -> int:
    """The bytes that a container uses, without cached files, which are given up on demand."""
    kinds = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
    kept = sum(int(kinds.get(kind, 0)) for kind in ("active_file", "inactive_file"))
    return int((GROUP / "memory.current").read_text()) - kept
