"""Array kernels written in Numba and run as object code.

The package ships the code of its kernels, so that nobody waits for Numba, nor has it installed. A kernel whose source
was changed since is compiled by Numba when it is first used, and kept for all later processes.

A file in the folder `shipped_code` holds the code of one kernel. Its first line is a JSON document: digests of the
sources that the code was made of and of each part, and who made it. Behind it stand the parts, compressed:

- object code for x86-64-v3, which nearly all servers and laptops of the last ten years run: loaded as it is;
- bitcode that LLVM has simplified and not yet fitted to a processor. For any other machine it becomes object code in a
  second at most, without Numba.

`scripts/compiled_kernels.py` writes the files.
"""

from __future__ import annotations

import json
import logging
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cep_pipeline.compiled.numba_ir import numba_ir, numba_version
from cep_pipeline.compiled.object_code import (
    LEVEL,
    Library,
    bitcode_of,
    code_key,
    compile_bitcode,
    compile_ir,
    kept,
    load,
    runs_level,
)

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


# -- the code that the package ships -----------------------------------------------------------------------------------

FOLDER = Path(__file__).with_name("shipped_code")
MAKER = "cep_pipeline.compiled.numba_ir"
"""The module that makes IR of a kernel's source: a change of it may change the code."""
_BITCODE = "bitcode"
_PACKAGE = "cep_pipeline."


def source(module: str, sources: Sequence[str], name: str, arguments: Sequence[str]) -> str:
    """Return the digest of the source of a kernel as it is now; the parameters are those of `NativeKernel`."""
    texts = *map(source_of, (module, *sources, MAKER)), name, *arguments
    return sha256("\0".join(texts).encode()).hexdigest()


def source_of(module: str) -> str:
    """The text of a module, which is not imported."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


@dataclass(frozen=True)
class ShippedCode:
    """The code of one kernel.

    Attributes
    ----------
    text
        Digest of the source that it was made of.
    made_by
        The versions of the compilers that made it.
    parts
        The bytes of each part, compressed.
    """

    text: str
    made_by: str
    parts: Mapping[str, bytes]

    def object_code(self) -> bytes:
        """Return object code for this machine; zlib.error where the part that it needs is damaged."""
        if runs_level():
            return zlib.decompress(self.parts[LEVEL])
        bitcode = zlib.decompress(self.parts[_BITCODE])
        return kept(code_key(sha256(bitcode).hexdigest()), lambda: compile_bitcode(bitcode))

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        places = {name: [len(part), sha256(part).hexdigest()] for name, part in self.parts.items()}
        head = {"text": self.text, "made_by": self.made_by, "parts": places}
        return json.dumps(head).encode() + b"\n" + b"".join(self.parts.values())


def pack(ir: str, present: str, made_by: str) -> ShippedCode:
    """Make the code of a kernel of its IR."""
    made = {LEVEL: compile_ir(ir, LEVEL), _BITCODE: bitcode_of(ir)}
    parts = {name: zlib.compress(part, 9) for name, part in made.items()}
    return ShippedCode(present, made_by, parts)


def file_of(module: str, name: str) -> Path:
    """Return the file of a kernel of this package."""
    return FOLDER / f"{module.removeprefix(_PACKAGE)}.{name}.kernel"


def read_shipped(module: str, name: str) -> ShippedCode | None:
    """Read the code of a kernel; None where the package has none that can be read."""
    if not module.startswith(_PACKAGE):
        return None
    file = file_of(module, name)
    try:
        head, _, body = file.read_bytes().partition(b"\n")
        said = json.loads(head)
        parts, at = {}, 0
        for part, (length, _) in said["parts"].items():
            parts[part] = body[at : at + length]
            at += length
        return ShippedCode(said["text"], said["made_by"], parts)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        logger.warning("%s is damaged: install the package anew", file)
        return None
