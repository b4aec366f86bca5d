"""Limits of the work of one pattern: on its matches, its time, the space that its rows take, and the memory there is.

How many matches a pattern has depends on the data: a condition that is missing is enough for more of them than any disk
holds. So whoever finds the matches of many patterns gives each its limits. A pattern that reaches one is given up; the
others go on.

Kernels return after a bounded amount of work (the constants named `…_A_CALL`, or a full buffer), and whoever calls one
again asks `go_on` first. That is the place where time is looked at. Matches are counted as they are listed and written.

How many partial matches and elements of their lists are held at a time depends on the window, the rates, how events
follow each other, and the plan; nobody knows it beforehand. Their arrays double while kernels wait. Whoever doubles one
asks `ask_for` first: else the machine would run out of memory, and the process, which may be one of many on it, would
end without a word.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from cep_pipeline.errors import CepError, NoRoom
from cep_pipeline.storage import decimal_text

Kind = Literal["max_matches", "time_limit", "memory", "disk"]
"""The limits: those of the configuration; and what a machine has, which nobody needs to set."""
LOOK_S = 0.2
"""Seconds between two looks at the time."""

_watch: ContextVar[Callable[[], None] | None] = ContextVar("watch", default=None)


def go_on() -> None:
    """Ask whether the work of the current pattern may go on; called before each call of a kernel.

    Raises
    ------
    LimitReached
        A limit is reached.
    """
    watch = _watch.get()
    if watch is not None:
        watch()


@contextmanager
def watched(watch: Callable[[], None]) -> Iterator[None]:
    """Let `go_on` call this function within the block."""
    before = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(before)


class LimitReached(CepError):
    """A pattern, or patterns that are run together, reached a limit; whoever set it decides what follows.

    Parameters
    ----------
    pattern
        The pattern's name; empty where patterns are run together and any of them may be the cause.
    kind
        The limit.
    """

    def __init__(self, pattern: str, kind: Kind) -> None:
        self.pattern, self.kind = pattern, kind
        super().__init__(f"pattern {pattern!r} reached its limit ({kind})")

    def __reduce__(self) -> tuple[object, ...]:
        return LimitReached, (self.pattern, self.kind)


@contextmanager
def at_most_seconds(seconds: float, clock: Callable[[], float] | None = None) -> Iterator[None]:
    """Give up, as soon as a kernel returns, what takes longer by a clock (None: by the wall's): `LimitReached`."""
    clock = time.monotonic if clock is None else clock
    end = clock() + seconds

    def look() -> None:
        if clock() > end:
            raise LimitReached("", "time_limit")

    with watched(look):
        yield


@dataclass(frozen=True)
class Limits:
    """The limits of one pattern on one day; None: no limit.

    Attributes
    ----------
    max_matches
        Matches that are listed, before NON_OVERLAP and CONSUME decide about them.
    time_s
        Seconds of work on each slice of the day.
    max_bytes
        Bytes of rows, before they are compressed.
    """

    max_matches: int | None = None
    time_s: float | None = None
    max_bytes: int | None = None

    def named(self, kind: Kind) -> str:
        """A limit in words.

        Examples
        --------
        >>> Limits(max_matches=1000).named("max_matches"), Limits(time_s=60).named("time_limit")
        ('max_matches 1,000', 'time_limit 60 s')
        """
        match kind:
            case "max_matches":
                return f"max_matches {self.max_matches:,}"
            case "time_limit":
                return f"time_limit {self.time_s:g} s"
            case "disk":
                return f"a share of the free disk, {(self.max_bytes or 0) / 1e9:.2g} GB of rows"
            case "memory":
                return "the memory of the machine"


Then = Literal["count", "skip", "fail"]
"""Action when a pattern has reached a limit on a day, whose matches of it are then not published: count them; do
nothing; or fail the day."""


@dataclass(frozen=True)
class LimitedPattern:
    """A pattern whose matches of a day are not published, because it reached a limit.

    Attributes
    ----------
    limit
        The limit, as in `max_matches 1,000`.
    then
        What followed.
    matches, exact
        The number of its matches, before NON_OVERLAP and CONSUME; not exact: it has at least so many.
    """

    limit: str
    then: Then
    matches: int
    exact: bool = False

    def __str__(self) -> str:
        number = f"{Decimal(self.matches):,}"  # Python itself spells no more than 4,300 digits
        if len(number) > _MOST_DIGITS:
            number = f"about {Decimal(self.matches):.3e}"
        found = f"it has {number} matches" if self.exact else f"it has at least {number} matches"
        if not self.exact and not self.matches:
            found = "how many it has is not known"
        return f"stopped by its limit, {self.limit}: none of its matches is published, {found}"

    def to_json(self) -> dict[str, Any]:
        """The JSON form, read back by `from_json`."""
        return {**vars(self), "matches": decimal_text(self.matches)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> LimitedPattern:
        """Read the JSON form."""
        return cls(content["limit"], content["then"], int(Decimal(content["matches"])), content["exact"])


_MOST_DIGITS = 40


@dataclass
class Spent:
    """The matches, microseconds and bytes that one pattern has spent."""

    matches: int = 0
    time_us: int = 0
    size: int = 0

    def reached(self, limits: Limits) -> Kind | None:
        """The limit that is exceeded, None: none."""
        if limits.max_matches is not None and self.matches > limits.max_matches:
            return "max_matches"
        if limits.max_bytes is not None and self.size > limits.max_bytes:
            return "disk"
        if limits.time_s is not None and self.time_us > limits.time_s * 1e6:
            return "time_limit"
        return None


@dataclass
class SliceLimits:
    """The limits of patterns on one slice of a day, and what is spent of them.

    Attributes
    ----------
    limits
        Pattern name -> its limits. A pattern without any is not limited.
    """

    limits: Mapping[str, Limits]
    spent: dict[str, Spent] = field(default_factory=dict)
    _looked: float = 0.0

    def of(self, name: str) -> Spent:
        """Return the sum of what this slice has spent on a pattern."""
        return self.spent.setdefault(name, Spent())

    def most_matches(self, name: str) -> int | None:
        """The most matches of a pattern that may be listed; None: there is no such limit."""
        return self.limits[name].max_matches if name in self.limits else None

    def reached(self, name: str) -> Kind | None:
        """The limit that a pattern has reached."""
        return self.of(name).reached(self.limits[name]) if name in self.limits else None

    def added(self, name: str, matches: int, size: int) -> None:
        """Add matches that are about to be written.

        Raises
        ------
        LimitReached
            They are too many.
        """
        spent = self.of(name)
        spent.matches += matches
        spent.size += size
        if kind := self.reached(name):
            raise LimitReached(name, kind)

    @contextmanager
    def working_on(self, names: Sequence[str]) -> Iterator[None]:
        """Count the time of a block for these patterns, and look whether a limit is reached before and meanwhile.

        Patterns that are run together have the time of one: which of them takes it cannot be told.

        Raises
        ------
        LimitReached
            A limit is reached, of one pattern or of all together.
        """
        limited = [name for name in names if name in self.limits]
        if not limited:
            yield
            return
        begin = self._looked = time.monotonic()
        before = self.of(names[0]).time_us
        times = [self.limits[name].time_s for name in limited]
        together = max(math.inf if one is None else one for one in times) if len(names) > 1 else math.inf

        def tell() -> None:
            if len(names) == 1:
                self.of(names[0]).time_us = before + int((time.monotonic() - begin) * 1e6)

        def listen() -> None:
            for name in limited:
                if kind := self.reached(name):
                    raise LimitReached(name, kind)

        def look() -> None:
            now = time.monotonic()
            if now - self._looked > LOOK_S:
                self._looked = now
                tell()
                listen()
                if now - begin > together:
                    raise LimitReached("", "time_limit")

        listen()
        try:
            with watched(look):
                yield
        finally:
            tell()


# --- memory -----------------------------------------------------------------------------------------------------------

SMALL = 1 << 26
"""Bytes that are given without looking at how much memory there is."""
SPARE = 0.1
"""The share of the memory at hand that is left alone."""
MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")
"""Files in which Linux says how much memory there is, and how much a container may have, and has."""
OWN_GROUP = Path("/proc/self/cgroup")
"""The file in which it says in which group this process is."""
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
    """The bytes of memory at hand, on this machine and in its container; None where nobody says."""
    found = []
    try:
        lines = MEMINFO.read_text().splitlines()
        found += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        pass
    for folder in _groups():
        try:
            most = (folder / "memory.max").read_text().strip()
            if most != "max":
                kinds = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                # Cached files are given up on demand.
                cached = sum(int(kinds.get(kind, 0)) for kind in ("active_file", "inactive_file"))
                found.append(max(int(most) - int((folder / "memory.current").read_text()) + cached, 0))
        except OSError:
            continue
    return min(found, default=None)


def _groups() -> Iterator[Path]:
    """The folders that may say what a container may have.

    In a container the group is the root of what is seen; elsewhere the groups above count, too.
    """
    own = ""
    try:
        lines = (line.split(":", 2) for line in OWN_GROUP.read_text().splitlines())
        own = next((path.strip("/") for number, _, path in lines if number == "0"), "")
    except (OSError, ValueError):
        pass
    while own:
        yield GROUP / own
        own = own.rpartition("/")[0]
    yield GROUP
