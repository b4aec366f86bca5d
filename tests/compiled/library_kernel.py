"""A kernel that needs functions of the C library, for `test_native.py`."""

from __future__ import annotations

import math
from typing import Any

from numba import carray


def logarithms(number: int, values_at: Any, flags_at: Any) -> int:
    """Take logarithms, set all flags, and divide in a way that Numba knows an error for."""
    values, flags = carray(values_at, (number,)), carray(flags_at, (number,))
    for place in range(number):
        flags[place] = -1
    for place in range(number):
        values[place] = math.log(values[place])
    return number // len(values)
