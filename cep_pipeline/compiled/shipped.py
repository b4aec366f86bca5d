"""Compiled code of the kernels that is part of the package, so that no user waits for a compiler.

A file in the folder `shipped_code` holds the code of one kernel. Its first line is a JSON document: digests of the
sources that the code was made of and of each part, and who made it. Behind it stand the parts, compressed:

- object code for x86-64-v3, which nearly all servers and laptops of the last ten years run: loaded as it is;
- bitcode that LLVM has simplified and not yet fitted to a processor. For any other machine it becomes object code in a
  second at most, without Numba.

`scripts/compiled_kernels.py` writes the files. Code whose source has changed since is not run.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from cep_pipeline.compiled.object_code import LEVEL, bitcode_of, code_key, compile_bitcode, compile_ir, kept, runs_level

logger = logging.getLogger(__name__)

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
