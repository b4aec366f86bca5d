"""Array kernels written in Numba and run as cached object code.

Numba compiles a kernel once for a machine; what it made is kept as object code and loaded in milliseconds, so that a
worker pays for Numba's import and compiler only where no process of the user has done so before.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cep_pipeline.compiled.numba_ir import numba_ir
from cep_pipeline.compiled.object_code import (
    Library,
    code_key,
    compile_ir,
    compiling,
    load,
    read_cached,
    write_cached,
)

Array = np.ndarray[Any, Any]

logger = logging.getLogger(__name__)

TOLD_AFTER_S = 2.0
"""A kernel that takes longer to compile is told of, so that nobody wonders what a first run waits for."""

_loading = threading.Lock()
_RAISING = re.compile(r"^declare ((?:[^@\n]*)@(?:NRT_|Py|numba_)\w+\([^)\n]*\)).*$", re.MULTILINE)
_ERRORS = re.compile(r"^(@PyExc_\w+) = external global i8.*$", re.MULTILINE)


@dataclass
class NativeKernel:
    """A function over int64s and arrays, compiled from a module on first use; its result is an int64.

    Attributes
    ----------
    module, name
        The module that defines the kernel, and the kernel's name there: a plain function that Numba's `cfunc` accepts.
        It is imported only to compile.
    arguments
        The type of each argument: `"int64"`, or for the first element of an array its dtype and a star, `"uint8*"`.
    sources
        The other modules that the kernel takes functions or constants from: compiled code does not outlive a change of
        them.
    """

    module: str
    name: str
    arguments: tuple[str, ...]
    sources: tuple[str, ...] = ()
    _function: Callable[..., int] | None = field(default=None, init=False, repr=False)
    _library: Library | None = field(default=None, init=False, repr=False)
    _dtypes: tuple[np.dtype[Any] | None, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        # To write a dtype's name takes longer than most kernels do: dtypes are compared.
        self._dtypes = tuple(np.dtype(kind[:-1]) if kind.endswith("*") else None for kind in self.arguments)

    def __call__(self, *arguments: int | Array) -> int:
        function = self.function
        values = []
        for argument, dtype in zip(arguments, self._dtypes, strict=True):
            if isinstance(argument, int):
                values.append(argument)
                continue
            if argument.dtype != dtype or not argument.flags.c_contiguous:
                raise TypeError(f"kernel {self.name} takes a contiguous {dtype}*, not {argument.dtype}")
            values.append(argument.ctypes.data)
        return function(*values)

    @property
    def function(self) -> Callable[..., int]:
        """The compiled function, over int64s and the addresses of arrays, whose types are the caller's matter."""
        if self._function is None:
            with _loading:
                if self._function is None:
                    self._function = self._load()
        return self._function

    def compile(self) -> None:
        """Compile it, or load what was compiled before, without a call."""
        _ = self.function

    def _load(self) -> Callable[..., int]:
        key = self._key()
        code = read_cached(key)
        if code is None:
            with self._told(), compiling(key):  # it takes seconds: another process may be at it, or have done it
                code = read_cached(key)
                if code is None:
                    ir = numba_ir(self.module, self.name, self.arguments)
                    code = compile_ir(_without_interpreter(_as_one_function(ir, self.name)))
                    write_cached(key, code)
        self._library = load(code)
        function: Callable[..., int] = self._library.function(self.name, len(self.arguments))
        return function

    @contextmanager
    def _told(self) -> Iterator[None]:
        text = "compiling %s.%s for this machine, which takes up to a minute; it is kept for all later runs"
        timer = threading.Timer(TOLD_AFTER_S, logger.info, (text, self.module, self.name))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _key(self) -> str:
        sources = [source_of(module) for module in (self.module, *self.sources)]
        return code_key("\0".join((*sources, source_of(__name__), self.name, *self.arguments, version("numba"))))


def _without_interpreter(ir: str) -> str:
    """The IR with its ways to raise Python errors, which kernels never do, as traps.

    Left as they are they name functions of the interpreter and of Numba, which a process that loads the code may not
    have; one name that is not found leaves others behind it without an address.
    """
    ir = _RAISING.sub(r"define internal \1 {\n  call void @llvm.trap()\n  unreachable\n}", ir)
    ir = _ERRORS.sub(r"\1 = internal global i8 0", ir)
    return ir if "declare void @llvm.trap()" in ir else f"{ir}\ndeclare void @llvm.trap()\n"


def _as_one_function(ir: str, name: str) -> str:
    """The IR in which only the kernel can be called from outside.

    The optimizer then drops arguments and results of the other functions that nobody needs, and the functions
    themselves where they are inlined. Kernels with many functions run up to a third faster.
    """
    return re.sub(rf"^define (?:linkonce_odr )?(?!.*@{name}\()", "define internal ", ir, flags=re.MULTILINE)


def source_of(module: str) -> str:
    """The text of a module, which is not imported."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")
