"""Run a command and print the most memory that it and all processes it started held at once: driver, JVM and workers.

    python -m benchmarks.peak_memory cep run --stream us_equity_trades --day 2013-10-07

What processes share is counted once (proportional set size, which Linux tells); looked at every half second.
"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.processes import Watched


def main(command: list[str]) -> int:
    """Run it; its exit code."""
    if not command:
        sys.stderr.write(f"{__doc__}")
        return 2
    began = time.monotonic()
    with subprocess.Popen(command) as running, Watched(running.pid) as watched:
        running.wait()
    seconds = time.monotonic() - began
    sys.stderr.write(f"at most {watched.peak_kb / 1e6:.2f} GB in {watched.processes} processes, {seconds:.1f} s\n")
    return running.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
