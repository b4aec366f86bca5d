"""The two ways to run a shape: interpreted at first, and by code of its own once that pays.

To make code of a shape takes as long as to interpret some twenty million candidates, to load code that somebody has
made as long as a million: a workload of a thousand patterns has hundreds of shapes, and most of them never get there.
Both ways test the same candidates in the same order and keep the same state, so that a run goes over from one to the
other between two blocks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from cep_pipeline.compiled import object_code
from cep_pipeline.compiled.native import NativeKernel, source_of
from cep_pipeline.detection.fused.generator import ENTRY, generate
from cep_pipeline.detection.fused.programs import ShapeProgram, program_of
from cep_pipeline.detection.fused.shape import Shape
from cep_pipeline.detection.fused.words import BUDGET
from cep_pipeline.expressions.columns import Array

LOADED_FROM, COMPILED_FROM = 1 << 20, 1 << 24
"""Interpreted candidates of a shape, in all runs of this process, from which on its code is loaded if there is some,
and from which on it is made."""
CANDIDATES_A_CALL = 1 << 31
"""Candidates tested before a call of own code returns, block full or not, so that a run can be interrupted."""
MOST_SHAPES = 1 << 12
"""Shapes of which is remembered how much was interpreted; those not run for longest are forgotten."""

_FOLDER = "cep_pipeline.detection.fused"
_run_any = NativeKernel(
    f"{_FOLDER}.any_shape_kernel",
    "run_any",
    ("int64", "int64*", "int64"),
    (f"{_FOLDER}.programs", f"{_FOLDER}.words", "cep_pipeline.compiled.pointers"),
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


_shapes: OrderedDict[bytes, RunningShape] = OrderedDict()
_at_once = False


def running_shape(shape: Shape, program: ShapeProgram | None = None) -> RunningShape:
    """The one of an equal shape that this process has run before, or a new one.

    Parameters
    ----------
    program
        That of the shape, where it is at hand: to write it takes as long as a short run.
    """
    program = program_of(shape) if program is None else program
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
    names = ("generator", "shape", "words", "programs")
    modules = (*(f"{_FOLDER}.{name}" for name in names), "cep_pipeline.compiled.ir_text")
    return "\0".join(map(source_of, modules))


def compile_shapes(shapes: Iterable[Shape]) -> dict[str, bytes]:
    """Object code of plan shapes for this CPU by its key, for tasks to `object_code.adopt`."""
    codes = {}
    for shape in shapes:
        key = key_of(program_of(shape))
        codes[key] = object_code.code_for(key, lambda shape=shape: generate(shape))  # type: ignore[misc]
    return codes
