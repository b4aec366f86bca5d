"""Memory of detection is bounded by the slice and not by the number of its matches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

DETECT = """
import json, re, sys
from pathlib import Path
import cep_pipeline as cep
from cep_pipeline.detection.detect import detect_slice

events, pattern_text, expected = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
schema = cep.StreamSchema.from_dict(
    {"base_type": "Tick", "type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}}
)
rows = [{"timestamp": index, "kind": "AB"[index % 2], "x": index} for index in range(events)]
table = schema.table(rows)
written = batches = largest = 0

def peak_kb():
    # Of this program alone: what getrusage says also counts the process that it was forked from.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

def take(pattern, batch):
    global written, batches, largest
    written, batches, largest = written + batch.num_rows, batches + 1, max(largest, batch.num_rows)

def detect(text):
    patterns = cep.parse_patterns(text, schema)
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, table))
    return detect_slice(patterns, plan, table, (None, None), take)

detect("NAME warm PATTERN SEQ(A a, B b) WHERE a.x + 2 >= b.x WITHIN 1 hour")
written = 0
before = peak_kb()
result = detect("NAME many PATTERN " + pattern_text)
after = peak_kb()
assert written == result.matches["many"] == expected, (written, result.matches, expected)
print(json.dumps({"peak_kb": after - before, "batches": batches, "largest": largest}))
"""


def detect(events: int, pattern: str, expected: int) -> dict[str, int]:
    """Detect in a process of its own; peak growth of its memory in kB, and in what batches the matches came."""
    done = subprocess.run(
        [sys.executable, "-c", DETECT, str(events), pattern, str(expected)],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read where Linux tells it")
def test_memory_does_not_grow_with_the_number_of_matches() -> None:
    """The same events with 4 and with 40 million matches, which would take gigabytes if they were held at once."""
    pairs = 9_000  # A at 2i and B at 2j + 1 microseconds
    few = detect(2 * pairs, "SEQ(A a, B b) WITHIN 999 us", sum(min(500, pairs - i) for i in range(pairs)))
    many = detect(2 * pairs, "SEQ(A a, B b) WITHIN 1 second", pairs * (pairs + 1) // 2)
    assert few["peak_kb"] > 0
    assert many["batches"] > 8 * few["batches"]
    assert many["largest"] <= 2 * few["largest"]
    # A part that turns out to hold too many matches is given up when it has twice of what `few` holds at once.
    assert many["peak_kb"] < 3 * few["peak_kb"], (few, many)
