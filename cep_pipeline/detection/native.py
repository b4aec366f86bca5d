"""Array kernels written in Numba and run as cached object code.

Numba compiles a kernel once for a machine; what it made is kept as object code (`caches.py`) and loaded by llvmlite in
milliseconds, so that a worker pays for Numba's import and compiler only when no other process of the user has.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cep_pipeline.detection.caches import cached_object
from cep_pipeline.detection.columns import Array

_loading = threading.Lock()
_engines: list[Any] = []
"""Engines own the loaded code, which must live as long as the process."""


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
    """

    module: str
    name: str
    arguments: tuple[str, ...]
    _function: Callable[..., int] | None = field(default=None, init=False, repr=False)

    def __call__(self, *arguments: int | Array) -> int:
        if self._function is None:
            with _loading:
                if self._function is None:
                    self._function = self._load()
        values = []
        for argument, kind in zip(arguments, self.arguments, strict=True):
            if isinstance(argument, int):
                values.append(argument)
                continue
            if f"{argument.dtype}*" != kind or not argument.flags.c_contiguous:
                raise TypeError(f"kernel {self.name} takes a contiguous {kind}, not {argument.dtype}")
            values.append(argument.ctypes.data)
        return self._function(*values)

    def _load(self) -> Callable[..., int]:
        code = cached_object(self._key(), self._compile)
        engine = _engine()
        import llvmlite.binding as llvm

        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        _engines.append(engine)
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(self.arguments))
        return prototype(engine.get_function_address(self.name))

    def _key(self) -> str:
        import llvmlite.binding as llvm

        spec = find_spec(self.module)
        assert spec is not None
        assert spec.origin is not None
        parts = (
            self.name,
            *self.arguments,
            version("numba"),
            version("llvmlite"),
            llvm.get_process_triple(),
            llvm.get_host_cpu_name(),
            llvm.get_host_cpu_features().flatten(),
        )
        digest = hashlib.sha256("\0".join(parts).encode())
        digest.update(Path(spec.origin).read_bytes())
        digest.update(Path(__file__).read_bytes())
        return digest.hexdigest()

    def _compile(self) -> bytes:
        import llvmlite.binding as llvm
        from numba import cfunc, types

        source = getattr(import_module(self.module), self.name)
        signature = [
            types.CPointer(getattr(types, kind[:-1])) if kind.endswith("*") else getattr(types, kind)
            for kind in self.arguments
        ]
        compiled = cfunc(types.int64(*signature), error_model="numpy")(source)
        text = compiled.inspect_llvm().replace(compiled.native_name, self.name)
        optimized = llvm.parse_assembly(text)
        code: bytes = _target_machine().emit_object(optimized)
        return code


def _target_machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="jitdefault",
    )


def _engine() -> Any:
    import llvmlite.binding as llvm

    machine = _target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
