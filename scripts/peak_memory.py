"""Run a command and print the most memory that it and all processes it started held at once: driver, JVM and workers.

    python scripts/peak_memory.py cep run --stream us_equity_trades --day 2013-10-07

What processes share is counted once (proportional set size, which Linux tells); looked at every half second.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

EVERY_S = 0.5


def descendants(pid: int) -> list[int]:
    """A process and all that it started, directly or not, that are still there."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
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
    """Its share of the memory that it holds, in kB; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def main(command: list[str]) -> int:
    """Run it; its exit code."""
    if not command:
        sys.stderr.write(f"{__doc__}")
        return 2
    began, peak_kb, processes = time.monotonic(), 0, 0
    with subprocess.Popen(command) as running:
        while running.poll() is None:
            pids = descendants(running.pid)
            now_kb = sum(map(held_kb, pids))
            if now_kb > peak_kb:
                peak_kb, processes = now_kb, len(pids)
            time.sleep(EVERY_S)
    seconds = time.monotonic() - began
    sys.stderr.write(f"at most {peak_kb / 1e6:.2f} GB in {processes} processes, {seconds:.1f} s\n")
    return running.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
