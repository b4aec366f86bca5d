"""Room for what detection holds at a time: partial matches, and the elements of their lists.

How many there are depends on the window, the rates, how events follow each other, and the plan; nobody knows it
beforehand. Their arrays double while kernels wait. Whoever doubles one asks here first: else the machine would run out
of memory, and the process, which may be one of many on it, would end without a word.
"""

from __future__ import annotations

import resource
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
"""Files of Linux with the memory of the machine, and with the limit and the use of a container."""
OWN_GROUP, STATM = Path("/proc/self/cgroup"), Path("/proc/self/statm")
"""Files of Linux with the control group of this process and with its memory."""
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


@contextmanager
def explained() -> Iterator[None]:
    """Say what to do where memory is lacking that nobody has asked for."""
    try:
        yield
    except MemoryError as error:
        raise NoRoom(f"there is not enough memory: {error}; {ADVICE}") from error


ADVICE = (
    "read fewer events at a time, shorten WITHIN, add conditions, set a limit (--limit), or ask for output 'count' or "
    "'compressed'"
)


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
    """The bytes of memory at hand: on this machine, in its container, and for this process; None where nobody says."""
    found = []
    try:
        lines = MEMINFO.read_text().splitlines()
        found += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        pass
    for folder, limit, used, kept in _groups():
        try:
            most = (folder / limit).read_text().strip()
            if most != "max":
                found.append(max(int(most) - _used_bytes(folder, used, kept), 0))
        except OSError:
            continue
    most_of_process = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most_of_process != resource.RLIM_INFINITY:
        try:
            pages = int(STATM.read_text().split()[0])
        except OSError:
            pages = 0
        found.append(max(most_of_process - pages * resource.getpagesize(), 0))
    return min(found, default=None)


_VERSION_2 = "memory.max", "memory.current", ("active_file", "inactive_file")
_VERSION_1 = "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")


def _groups() -> Iterator[tuple[Path, str, str, tuple[str, ...]]]:
    """The folders that may say what a container may have, with the names of their files: of cgroups, version 2 and 1.

    In a container the group is the root of what is seen; elsewhere the groups above count, too.
    """
    own = ""
    try:
        lines = (line.split(":", 2) for line in OWN_GROUP.read_text().splitlines())
        own = next((path.strip("/") for number, _, path in lines if number == "0"), "")
    except (OSError, ValueError):
        pass
    while own:
        yield GROUP / own, *_VERSION_2
        own = own.rpartition("/")[0]
    yield GROUP, *_VERSION_2
    yield GROUP / "memory", *_VERSION_1


def _used_bytes(folder: Path, used: str, kept: tuple[str, ...]) -> int:
    """The bytes that a container uses, without cached files, which are given up on demand."""
    kinds = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    return int((folder / used).read_text()) - sum(int(kinds.get(kind, 0)) for kind in kept)
