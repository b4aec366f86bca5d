"""The argument of a generated function: an array of 64-bit words, mostly addresses, and where each of them stands."""

from __future__ import annotations

from cep_pipeline.detection.fused.shape import Shape

# Places of the argument words before the arrays.
STATE, COUNTERS, CAPACITY, BUDGET, OUTER, SCRATCH, SCRATCH_STRIDE, FIRST_OWNED, HEADER = range(9)

FINISHED, INSIDE, BETWEEN = 0, 1, 2
"""First word of the state: nothing left (or not begun: then all state is 0), stopped inside, stopped between two
iterations of the outermost loop."""


def argument_places(shape: Shape) -> dict[str, int]:
    """First word of each group of arrays among the argument words, and `end`, their number.

    `rows`, `out` and `prefix` have one array a level; `low` and `high` one for each bound, in the order of the levels;
    then the columns and the constants.
    """
    levels = len(shape.levels)
    lows = sum(len(level.lows) for level in shape.levels)
    highs = sum(len(level.highs) for level in shape.levels)
    places = {}
    place = HEADER
    for name, size in (
        ("rows", levels),
        ("out", levels),
        ("prefix", levels),
        ("low", lows),
        ("high", highs),
        ("column", shape.slots),
        ("constant", shape.constants),
    ):
        places[name] = place
        place += size
    places["end"] = place
    return places
