"""The matches that OUTPUT and CONSUME keep. Imported only to compile the kernel; `output_policy.py` calls it."""

from __future__ import annotations

from typing import Any

from numba import carray


def keep_matches(
    count: int,
    first_at: Any,
    last_at: Any,
    partitions_at: Any,
    ends_at: Any,
    partition_count: int,
    offsets_at: Any,
    events_at: Any,
    used_at: Any,
    event_count: int,
    non_overlap: int,
    consume: int,
    keep_at: Any,
) -> int:
    """Mark the kept matches in `keep_at`; update the last kept event of each partition and the used events.

    Returns the number of matches that are kept.
    """
    first = carray(first_at, count)
    last = carray(last_at, count)
    partitions = carray(partitions_at, count)
    ends = carray(ends_at, partition_count)
    offsets = carray(offsets_at, count + 1)
    events = carray(events_at, offsets[count])
    used = carray(used_at, event_count)
    keep = carray(keep_at, count)
    kept = 0
    for match in range(count):
        partition = partitions[match]
        if non_overlap and first[match] <= ends[partition]:
            continue
        if consume:
            free = True
            for element in range(offsets[match], offsets[match + 1]):
                if used[events[element]]:
                    free = False
                    break
            if not free:
                continue
            for element in range(offsets[match], offsets[match + 1]):
                used[events[element]] = 1
        ends[partition] = last[match]
        keep[match] = 1
        kept += 1
    return kept
