"""Memory and processor time of a process and all that it started: driver, JVM and workers of a run."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

EVERY_S = 0.5
"""Seconds between two looks."""
_PROC = Path("/proc")
_USER, _SYSTEM = 11, 12
"""Fields of /proc/PID/stat behind the name: clock ticks of the processor in user and kernel mode."""


def descendants(pid: int) -> list[int]:
    """A process and all that it started, directly or not, that are still there."""
    children: dict[int, list[int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended in the meantime
            children.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def held_kb(pid: int) -> int:
    """Return the memory of a process in kB; shared memory is divided by its users. 0 where it has ended."""
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def processor_s(pid: int) -> float:
    """Seconds of the processor that it has used so far, all its threads together; 0 where it has ended."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")


def told_here() -> bool:
    """Return whether this system tells what processes hold."""
    return (_PROC / "self" / "smaps_rollup").exists()


@dataclass
class Watched:
    """A process that is watched with all that it started, from entering the context to leaving it.

    `peak_kb` is the most memory that all held at once, and `processes` how many they were then; 0 where the system does
    not tell. `used_s` has of each process the seconds of the processor at the last look. `largest_kb` is the most
    memory that one process held: `driver`, the first of them; `jvm`; `worker`, each other process of Python. Linux
    alone tells. What is used between the last look at a process and its end is missing: half a second at most.
    """

    pid: int
    peak_kb: int = 0
    processes: int = 0
    used_s: dict[int, float] = field(default_factory=dict)
    largest_kb: dict[str, int] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)

    @property
    def processor_s(self) -> float:
        """Seconds of the processor of all processes together."""
        return sum(self.used_s.values())

    def look(self) -> None:
        """Look once."""
        pids = descendants(self.pid)
        held = {pid: held_kb(pid) for pid in pids}
        now_kb = sum(held.values())
        for pid, kb in held.items():
            kind = self._kind(pid)
            self.largest_kb[kind] = max(self.largest_kb.get(kind, 0), kb)
        if now_kb > self.peak_kb:
            self.peak_kb, self.processes = now_kb, len(pids)
        for pid in pids:
            self.used_s[pid] = max(self.used_s.get(pid, 0.0), processor_s(pid))

    def _kind(self, pid: int) -> str:
        if pid == self.pid:
            return "driver"
        try:
            return "jvm" if (_PROC / str(pid) / "comm").read_text().strip() == "java" else "worker"
        except OSError:
            return "worker"  # it has ended, and holds nothing

    def __enter__(self) -> Self:
        if told_here():
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        self.look()
        while not self._done.wait(EVERY_S):
            self.look()
