"""A plan shape bound to arrays, and the loop that runs it and takes its output block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cep_pipeline.compiled.native import WIDTH, NativeKernel
from cep_pipeline.detection.fused.programs import (
    BUDGET,
    CAPACITY,
    COUNTERS,
    FINISHED,
    FIRST_OWNED,
    OUTER,
    STATE,
    Shape,
    ShapeProgram,
    argument_places,
    program_of,
)
from cep_pipeline.detection.limits import go_on
from cep_pipeline.expressions.columns import Array
from cep_pipeline.slices.routines import room_for

OUTPUT_PADDING = 3 * WIDTH
"""Elements that the kernel may write behind the block's capacity."""


@dataclass(frozen=True, eq=False)
class Arguments:
    """The data of one run of a shape.

    Attributes
    ----------
    sizes
        Rows of each level's view.
    rows
        int32, each level's view.
    lows, highs
        (level, earlier level) -> int32, one for each row of the earlier level's view.
    columns, constants
        By slot (float64, padded) and by number.
    first_owned
        The first owned row; read where the shape is `owned`.
    """

    sizes: tuple[int, ...]
    rows: tuple[Array, ...]
    lows: Mapping[tuple[int, int], Array]
    highs: Mapping[tuple[int, int], Array]
    columns: tuple[Array, ...]
    constants: tuple[float, ...]
    first_owned: int = 0


class Stage(NamedTuple):
    """A shape, its program, and where each group of its argument words begins (`argument_places`)."""

    shape: Shape
    program: ShapeProgram
    places: Mapping[str, int]


MOST_SHAPES = 1 << 12
"""Shapes whose programs are remembered."""


@lru_cache(MOST_SHAPES)
def stage_of(shape: Shape) -> Stage:
    """A shape with its program, which takes as long to make as a short run."""
    return Stage(shape, program_of(shape), argument_places(shape))


def run_stage(
    stage: Stage,
    arguments: Arguments,
    block_rows: int,
    counters: Array,
    prefix: Array | None = None,
    output_rows: Sequence[int] | None = None,
) -> Iterator[Array]:
    """All (partial) matches of a shape, at most `block_rows` at a time.

    Parameters
    ----------
    counters
        int64, shape (levels, 2): candidates and passes of each level behind the prefix are added.
    prefix
        int32, shape (shape.prefix, n): partial matches to extend, as places in the views; None where the shape's
        prefix is 1.
    output_rows
        For each level its row in the output; None for plan order.

    Yields
    ------
    Array
        int32, shape (levels, n): rows, or places in the views. The reader may keep it.
    """
    if 0 in arguments.sizes or (prefix is not None and not prefix.shape[1]):
        return
    words, program, places, sizes = _data_words(stage, arguments), stage.program, stage.places, arguments.sizes
    words[FIRST_OWNED] = arguments.first_owned
    levels = len(sizes)
    frame, state = _frame(program, levels)
    capacity = max(block_rows - WIDTH + 1, 1)  # a full block takes the rest of the chunk in which it filled
    words[COUNTERS] = counters.ctypes.data
    words[CAPACITY] = capacity
    words[OUTER] = sizes[0] if prefix is None else prefix.shape[1]
    if prefix is not None:
        prefix = np.ascontiguousarray(prefix, np.int32)
        _point(words, places["prefix"], list(prefix))
    out = places["out"]
    while state[0] != FINISHED:
        go_on()
        block = room_for(levels * (capacity + WIDTH + OUTPUT_PADDING), np.int32).reshape(levels, -1)
        address, step = block.ctypes.data, block.strides[0]
        for level, row in enumerate(output_rows or range(levels)):
            words[out + level] = address + row * step
        found = _call(program, words, frame)
        matches = block[:, :found] if 2 * found > capacity else block[:, :found].copy()  # lets go of a mostly empty one
        for start in range(0, found, block_rows):
            yield matches[:, start : start + block_rows]


def search_places(shape: Shape, arguments: Arguments, prefix: Array) -> Array:
    """Return for each row of the prefix the place that the shape's search finds, or -1.

    Parameters
    ----------
    prefix
        int32, shape (shape.prefix, n): places in the views.

    Returns
    -------
    Array
        int32, shape (n,).
    """
    found = np.full(prefix.shape[1], -1, np.int32)
    if not prefix.shape[1] or arguments.sizes[-1] == 0:
        return found
    prefix = np.ascontiguousarray(prefix, np.int32)
    stage = stage_of(shape)
    program, places, words = stage.program, stage.places, _data_words(stage, arguments)
    words[OUTER], words[CAPACITY] = prefix.shape[1], 1
    _point(words, places["out"], [found])
    _point(words, places["prefix"], list(prefix))
    frame, state = _frame(program, len(arguments.sizes))
    while state[0] != FINISHED:
        _call(program, words, frame)
    return found


def _data_words(stage: Stage, arguments: Arguments) -> Array:
    """The argument words with the addresses of rows, columns and bounds, and the constants."""
    shape, _, places = stage
    words = np.zeros(places["end"], np.int64)
    _point(words, places["rows"], arguments.rows)
    _point(words, places["column"], arguments.columns)
    numbered = list(enumerate(shape.levels))
    _point(words, places["low"], [arguments.lows[level, i] for level, spec in numbered for i in spec.lows])
    _point(words, places["high"], [arguments.highs[level, i] for level, spec in numbered for i in spec.highs])
    first = places["constant"]
    words[first : first + shape.constants] = np.array(arguments.constants, np.float64).view(np.int64)
    return words


def _point(words: Array, place: int, arrays: tuple[Array, ...] | list[Array]) -> None:
    for offset, array in enumerate(arrays):
        words[place + offset] = array.ctypes.data


CANDIDATES_A_CALL = 1 << 27
"""Candidates tested before a call returns, block full or not, so that a run can be interrupted."""

_FOLDER = "cep_pipeline.detection.fused"
_join = NativeKernel(
    f"{_FOLDER}.join_kernel",
    "join",
    ("int64", "int64*", "int64"),
    (f"{_FOLDER}.programs", "cep_pipeline.detection.conditions.codes", "cep_pipeline.compiled.pointers"),
)


def _frame(program: ShapeProgram, levels: int) -> tuple[Array, Array]:
    """Memory for a run to work in, int64, and the part of it that says how far it is: nothing has begun."""
    frame = room_for(program.frame_size, np.int64)
    begin = program.words[STATE]
    state = frame[begin : begin + 2 + 2 * levels]
    state[:] = 0
    return frame, state


def _call(program: ShapeProgram, words: Array, frame: Array) -> int:
    """Go on with a program on argument words; what the kernel returns."""
    words[BUDGET] = CANDIDATES_A_CALL
    return _join(words.ctypes.data, program.words, frame.ctypes.data)
