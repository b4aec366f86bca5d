"""The compression of a histogram's buckets, written in Numba. Imported only where it is compiled."""

from __future__ import annotations

from typing import Any

from numba import carray


def compress(size: int, share_at: Any, first_at: Any, last_at: Any, value_at: Any, begin_at: Any) -> int:
    """Merge neighbouring buckets, in place, wherever the error allows it; returns where the remaining ones begin.

    Buckets lie from old to new; `begin` is the place of the first of those that were merged into one. Read from new to
    old, a bucket joins the one behind it if what they hold together is at most the share of all that is newer: then
    not knowing how much of it the window still covers is an error of that share at most, and remains so when newer
    values come.
    """
    share = carray(share_at, 1)[0]
    first, last = carray(first_at, size), carray(last_at, size)
    value, begin = carray(value_at, size), carray(begin_at, size)
    place = size
    newer = 0.0
    for bucket in range(size - 1, -1, -1):
        if place < size:
            # Together with the bucket that was last written, which everything behind it is newer than.
            together = value[bucket] + value[place]
            if together <= share * newer:
                first[place] = min(first[bucket], first[place])
                last[place] = max(last[bucket], last[place])
                value[place], begin[place] = together, begin[bucket]
                continue
            newer += value[place]
        place -= 1
        first[place], last[place] = first[bucket], last[bucket]
        value[place], begin[place] = value[bucket], begin[bucket]
    return place
