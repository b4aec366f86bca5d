"""A plan shape bound to arrays, and the loop that runs it and takes its output block by block.

There are two ways to run a shape. It is interpreted at first, and has code of its own once that pays. To make code of a
shape takes as long as to interpret some twenty million candidates, and to load code that somebody has made as long as a
million: a workload of a thousand patterns has hundreds of shapes, and most of them never get there. Both ways test the
same candidates in the same order and keep the same state, so that a run goes over from one to the other between two
blocks. Code is not made in a thread beside the interpreter: that takes more processor time, and answers no sooner where
every core has work (docs/mechanisms.md has the figures).
"""

from __future__ import annotations

import math
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from cep_pipeline.compiled import object_code
from cep_pipeline.compiled.ir_text import WIDTH
from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.compiled.shipped import source_of
from cep_pipeline.detection.fused.generator import ENTRY, NOT_FOUND, OUTPUT_PADDING, generate
from cep_pipeline.detection.fused.programs import (
    BUDGET,
    CAPACITY,
    COUNTERS,
    FINISHED,
    FIRST_OWNED,
    OUTER,
    SCRATCH,
    SCRATCH_STRIDE,
    STATE,
    ShapeProgram,
    argument_places,
    program_of,
)
from cep_pipeline.detection.fused.shape import Shape
from cep_pipeline.detection.limits import go_on
from cep_pipeline.expressions.columns import Array

MOST_LISTS = 1 << 60
"""Most lists that are counted as an int64: a sum up to this, and one more step, cannot overflow."""
_POOLED = 3
"""Blocks kept for use again: the reader of blocks still has the last one while the next one is made."""
_POOLED_BYTES = 1 << 24
"""Larger blocks are not kept."""
_UNUSED = 3
"""References to a block that is only in the pool: the pool's, that of the one who looks, and the argument of
`getrefcount`."""


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
        The first owned row; read where the shape has an `owned_slot`.
    """

    sizes: tuple[int, ...]
    rows: tuple[Array, ...]
    lows: Mapping[tuple[int, int], Array]
    highs: Mapping[tuple[int, int], Array]
    columns: tuple[Array, ...]
    constants: tuple[float, ...]
    first_owned: int = 0


def run_shape(
    shape: Shape,
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
    outer = arguments.sizes[0] if prefix is None else prefix.shape[1]
    if outer == 0 or 0 in arguments.sizes:
        return
    words = data_words(shape, arguments)
    words[FIRST_OWNED] = arguments.first_owned
    program, places = _known(shape)
    yield from run_words(
        running_shape(shape, program), words, places, arguments.sizes, block_rows, counters, prefix, output_rows
    )


def run_words(
    code: RunningShape,
    words: Array,
    places: Mapping[str, int],
    sizes: Sequence[int],
    block_rows: int,
    counters: Array,
    prefix: Array | None = None,
    output_rows: Sequence[int] | None = None,
) -> Iterator[Array]:
    """Run a shape like `run_shape`, on argument words that have their arrays, constants and first owned row.

    Parameters
    ----------
    code
        The shape that is run.
    words, places
        The argument words, and where each group of them begins (`argument_places`). Whoever reads the blocks keeps
        their arrays.
    sizes
        Rows of each level's view, none of them 0.
    """
    levels = len(sizes)
    state = np.zeros(1 + 2 * levels + 2, np.int64)
    stride = max(sizes) + 2 * WIDTH
    capacity = max(block_rows - WIDTH + 1, 1)  # a full block takes the rest of the chunk in which it filled
    words[STATE] = state.ctypes.data
    words[COUNTERS] = counters.ctypes.data
    words[CAPACITY] = capacity
    words[SCRATCH_STRIDE] = stride
    words[OUTER] = sizes[0] if prefix is None else prefix.shape[1]
    if prefix is not None:
        prefix = np.ascontiguousarray(prefix, np.int32)
        _point(words, places["prefix"], list(prefix))
    out = places["out"]
    scratch = _memory.scratch.free_block((stride * levels,))
    words[SCRATCH] = scratch.ctypes.data
    begun = False
    while not begun or state[0] != FINISHED:
        begun = True
        go_on()
        block = _memory.blocks.free_block((levels, capacity + WIDTH + OUTPUT_PADDING))
        address, step = block.ctypes.data, block.strides[0]
        for level, row in enumerate(output_rows or range(levels)):
            words[out + level] = address + row * step
        found = code.call(words)
        matches = block[:, :found] if 2 * found > capacity else block[:, :found].copy()  # lets go of a mostly empty one
        del block
        if found:
            for start in range(0, found, block_rows):
                yield matches[:, start : start + block_rows]
        del matches


def search_places(shape: Shape, arguments: Arguments, prefix: Array, program: ShapeProgram | None = None) -> Array:
    """Return for each row of the prefix the place that the shape's search finds, or -1.

    Parameters
    ----------
    prefix
        int32, shape (shape.prefix, n): places in the views.
    program
        As `running_shape` takes it.

    Returns
    -------
    Array
        int32, shape (n,).
    """
    found = np.full(prefix.shape[1], NOT_FOUND, np.int32)
    for begin in range(0, prefix.shape[1], SEARCHED_A_CALL):  # between two calls code may take over
        part = slice(begin, begin + SEARCHED_A_CALL)
        _search(shape, arguments, prefix[:, part], found[part], program=program)
    return found


def count_lists(shape: Shape, arguments: Arguments, prefix: Array) -> Array:
    """Count for each row of the prefix the shape's candidates, or its lists (-1: more than `MOST_LISTS`).

    Parameters
    ----------
    prefix
        int32, shape (shape.prefix, n): places in the views.

    Returns
    -------
    Array
        int64, shape (n,).
    """
    counted = np.zeros(prefix.shape[1], np.int64)
    _search(shape, arguments, prefix, counted)
    return counted


def followers(shape: Shape, arguments: Arguments, prefix: Array, offsets: Array, size: int) -> Array:
    """Find which candidates may follow which in a list, for each row of the prefix that has 1 to 64 of them.

    Parameters
    ----------
    prefix
        int32, shape (shape.prefix, n): places in the views.
    offsets, size
        int64, shape (n,): where the words of each row begin, one more than candidates; and the number of all words.

    Returns
    -------
    Array
        uint64, shape (size,): for each row the candidates that can be elements, then those that may follow each.
    """
    words = np.zeros(size, np.uint64)
    _search(shape, arguments, prefix, words, np.ascontiguousarray(offsets, np.int64))
    return words


def _search(
    shape: Shape, arguments: Arguments, prefix: Array, *found: Array, program: ShapeProgram | None = None
) -> None:
    if not prefix.shape[1] or arguments.sizes[-1] == 0:
        return
    prefix = np.ascontiguousarray(prefix, np.int32)
    known, places = _known(shape)
    words = data_words(shape, arguments)
    ending = np.empty(arguments.sizes[-1] + WIDTH, np.int64)  # the lists that end with each candidate
    words[OUTER] = prefix.shape[1]
    words[CAPACITY] = MOST_LISTS
    words[SCRATCH] = ending.ctypes.data
    _point(words, places["out"], found)
    _point(words, places["prefix"], list(prefix))
    running_shape(shape, program or known).call(words)


def data_words(shape: Shape, arguments: Arguments) -> Array:
    """The argument words with the addresses of rows, columns and bounds, and the constants."""
    _, places = _known(shape)
    words = np.zeros(places["end"], np.int64)
    _point(words, places["rows"], arguments.rows)
    _point(words, places["column"], arguments.columns)
    numbered = list(enumerate(shape.levels))
    _point(words, places["low"], [arguments.lows[level, i] for level, spec in numbered for i in spec.lows])
    _point(words, places["high"], [arguments.highs[level, i] for level, spec in numbered for i in spec.highs])
    first = places["constant"]
    words[first : first + shape.constants] = np.array(arguments.constants, np.float64).view(np.int64)
    return words


class _Pool:
    """Arrays of int32 that are used again once nobody refers to them: memory new from the system is slow to write."""

    def __init__(self) -> None:
        self._blocks: list[Array] = []

    def free_block(self, shape: tuple[int, ...]) -> Array:
        """A block of any content that nobody else refers to."""
        size = math.prod(shape)
        for place in range(len(self._blocks)):
            kept = self._blocks[place]
            if kept.size >= size and sys.getrefcount(kept) == _UNUSED:
                return kept[:size].reshape(shape)
            del kept
        block = np.empty(size, np.int32)
        if block.nbytes <= _POOLED_BYTES:
            self._blocks = [*self._blocks[-_POOLED + 1 :], block]
        return block.reshape(shape)


class _Memory(threading.local):
    """The memory of one thread, for the blocks that its runs write and for work."""

    def __init__(self) -> None:
        self.blocks, self.scratch = _Pool(), _Pool()


_memory = _Memory()


def _point(words: Array, place: int, arrays: tuple[Array, ...] | list[Array]) -> None:
    for offset, array in enumerate(arrays):
        words[place + offset] = array.ctypes.data


LOADED_FROM, COMPILED_FROM = 1 << 20, 1 << 24
"""Interpreted candidates of a shape, in all runs of this process, from which on its code is loaded if there is some,
and from which on it is made."""
CANDIDATES_A_CALL = 1 << 29
"""Candidates tested before a call of own code returns, block full or not, so that a run can be interrupted."""
SEARCHED_A_CALL = 1 << 12
"""Rows of a prefix behind which a call searches."""
MOST_SHAPES = 1 << 12
"""Shapes of which is remembered how much was interpreted; those not run for longest are forgotten."""

_FOLDER = "cep_pipeline.detection.fused"
_run_any = NativeKernel(
    f"{_FOLDER}.any_shape_kernel",
    "run_any",
    ("int64", "int64*", "int64"),
    (f"{_FOLDER}.programs", "cep_pipeline.compiled.pointers"),
)


class RunningShape:
    """One shape in this process.

    Attributes
    ----------
    interpreted
        Candidates that were tested without code of its own.
    """

    def __init__(self, shape: Shape, program: ShapeProgram) -> None:
        self.interpreted = 0
        self._shape, self._program = shape, program
        self._own: Callable[[int], int] | None = None
        self._looked = False

    def call(self, words: Array) -> int:
        """Run on the argument words; what the function returns."""
        own = self._own_code()
        if own is not None:
            words[BUDGET] = CANDIDATES_A_CALL
            return own(words.ctypes.data)
        frame = np.empty(self._program.frame_size, np.int64)
        words[BUDGET] = min(next_ for next_ in (LOADED_FROM, COMPILED_FROM) if next_ > self.interpreted)
        found = _run_any(words.ctypes.data, self._program.words, frame.ctypes.data)
        self.interpreted += int(frame[0]) + 1
        return found

    def _own_code(self) -> Callable[[int], int] | None:
        if self._own is None and self._pays():
            key = key_of(self._program)
            self._own = object_code.library_for(key, lambda: generate(self._shape)).function(ENTRY, 1)
        return self._own

    def _pays(self) -> bool:
        if not self._program.runs or _at_once or self.interpreted >= COMPILED_FROM:
            return True
        if self._looked or self.interpreted < LOADED_FROM:
            return False
        self._looked = True
        return object_code.is_at_hand(key_of(self._program))


@lru_cache(MOST_SHAPES)
def _known(shape: Shape) -> tuple[ShapeProgram, dict[str, int]]:
    """The program of a shape and its `argument_places`, which take as long to make as a short run."""
    return program_of(shape), argument_places(shape)


_shapes: OrderedDict[bytes, RunningShape] = OrderedDict()
_at_once = False


def running_shape(shape: Shape, program: ShapeProgram | None = None) -> RunningShape:
    """The one of an equal shape that this process has run before, or a new one.

    Parameters
    ----------
    program
        That of the shape, where it is at hand: to write it takes as long as a short run.
    """
    program = _known(shape)[0] if program is None else program
    known = _shapes.get(program.name)
    if known is None:
        known = _shapes[program.name] = RunningShape(shape, program)
        while len(_shapes) > MOST_SHAPES:
            _shapes.popitem(last=False)
    else:
        _shapes.move_to_end(program.name)
    return known


@contextmanager
def own_code() -> Iterator[None]:
    """Give every shape that is run inside code of its own, which it keeps: as a process does that has run for long."""
    global _at_once
    before, _at_once = _at_once, True
    try:
        yield
    finally:
        _at_once = before


def forget_shapes() -> None:
    """Begin as a new process does: nothing has been run, and no code is loaded."""
    _shapes.clear()


def key_of(program: ShapeProgram) -> str:
    """The key under which a shape's object code is kept."""
    return object_code.code_key("\0".join((_sources(), program.words.tobytes().hex())))


@cache
def _sources() -> str:
    """The modules that make code of shapes: code does not outlive a change of them."""
    names = ("generator", "shape", "programs")
    modules = (*(f"{_FOLDER}.{name}" for name in names), "cep_pipeline.compiled.ir_text")
    return "\0".join(map(source_of, modules))
