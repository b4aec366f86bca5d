"""Array kernels written in Numba and run as object code.

The package ships the code of its kernels (`shipped`), so that nobody waits for Numba, nor has it installed. A kernel
whose source was changed since is compiled by Numba when it is first used, and kept for all later processes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cep_pipeline.compiled.numba_ir import numba_ir, numba_version
from cep_pipeline.compiled.object_code import Library, code_key, compile_ir, kept, load
from cep_pipeline.compiled.shipped import read_shipped, source

Array = np.ndarray[Any, Any]

WIDTH = 16
"""Doubles that kernels compare at a time: columns need as many readable elements behind their end."""

logger = logging.getLogger(__name__)

_loading = threading.Lock()


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

    @property
    def source(self) -> str:
        """The digest of the kernel's source as it is now."""
        return source(self.module, self.sources, self.name, self.arguments)

    def _load(self) -> Callable[..., int]:
        present, shipped = self.source, read_shipped(self.module, self.name)
        code = shipped.object_code() if shipped and shipped.text == present else self._compiled(present)
        self._library = load(code)
        function: Callable[..., int] = self._library.function(self.name, len(self.arguments))
        return function

    def _compiled(self, present: str) -> bytes:
        """Object code of a kernel that nobody has shipped: kept from before, or compiled by Numba now."""

        def make() -> bytes:
            logger.info(
                "compiling %s.%s, which takes up to a minute; it is kept for later runs", self.module, self.name
            )
            return compile_ir(numba_ir(self.module, self.name, self.arguments))

        return kept(code_key(f"{present} {numba_version()}"), make)


def address(array: Array) -> int:
    """The address at which an array begins; it holds as long as somebody keeps the array."""
    return int(array.ctypes.data)


def words_of(*parts: Array | int) -> list[int]:
    """The words of a record for a kernel: the addresses of arrays, and numbers as they are."""
    return [address(part) if isinstance(part, np.ndarray) else int(part) for part in parts]
