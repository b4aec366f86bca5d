"""`python -m benchmarks.peak_memory`: what a command and the processes that it starts hold together."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
HOLDING = "import time; held = bytearray(b'x' * 80_000_000); time.sleep(1.5)"
STARTING = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDING!r}]); sys.exit(3)"


@pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="this system does not tell what processes hold"
)
def test_memory_of_started_processes_counts_and_the_exit_code_is_the_commands() -> None:
    command = [sys.executable, "-m", "benchmarks.peak_memory", sys.executable, "-c", STARTING]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3
    told = re.fullmatch(r"at most ([0-9.]+) GB in (\d+) processes, [0-9.]+ s\n", done.stderr)
    assert told is not None, done.stderr
    assert 0.08 <= float(told[1]) < 1.0 and int(told[2]) == 2
