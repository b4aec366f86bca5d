"""The compression of a histogram's buckets, written in Numba. Imported only where it is compiled."""

from __future__ import annotations

from typing import Any

from numba import carray

SUM, VARIANCE = 0, 1


def compress(
    size: int, kind: int, share_at: Any, first_at: Any, last_at: Any, count_at: Any, value_at: Any, square_at: Any
) -> int:
    """Merge neighbouring buckets, in place, wherever the error allows it; returns where the remaining ones begin.

    Buckets lie from old to new. `value` is the total of a bucket for sums and its mean for variances, `square` the sum
    of squared differences from the mean. Read from new to old, a bucket joins the one behind it if what they hold
    together is at most the share of all that is newer: then not knowing how much of it the window still covers is
    an error of that share at most, and remains so when newer values come.
    """
    share = carray(share_at, 1)[0]
    first, last = carray(first_at, size), carray(last_at, size)
    count = carray(count_at, size)
    value, square = carray(value_at, size), carray(square_at, size)
    place = size
    newer_count, newer_value, newer_square = 0.0, 0.0, 0.0
    for bucket in range(size - 1, -1, -1):
        if place < size:
            # Together with the bucket that was last written, which everything behind it is newer than.
            total = count[bucket] + count[place]
            if kind == SUM:
                together, squares = value[bucket] + value[place], 0.0
                joins = together <= share * newer_value
            else:
                apart = value[place] - value[bucket]
                together = value[bucket] + apart * count[place] / total
                squares = square[bucket] + square[place] + apart * apart * count[bucket] * count[place] / total
                joins = total <= share * newer_count
                if joins:
                    away = together - newer_value
                    grown = squares + away * away * total * newer_count / (total + newer_count)
                    joins = grown <= share * newer_square
            if joins:
                first[place] = min(first[bucket], first[place])
                last[place] = max(last[bucket], last[place])
                count[place], value[place], square[place] = total, together, squares
                continue
            if kind == SUM:
                newer_value += value[place]
            else:
                both = newer_count + count[place]
                away = value[place] - newer_value
                newer_square += square[place] + away * away * newer_count * count[place] / both
                newer_value += away * count[place] / both
                newer_count = both
        place -= 1
        first[place], last[place], count[place] = first[bucket], last[bucket], count[bucket]
        value[place], square[place] = value[bucket], square[bucket]
    return place
