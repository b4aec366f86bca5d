"""Compile LLVM IR for this CPU, and load the functions of object code."""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cep_pipeline.errors import InputError
from cep_pipeline.lazy_names import VERSION


def cache_folder() -> Path | None:
    """The folder, mode 0700, made where it is missing; None where there is no place for one, or another user has it."""
    try:
        root = os.environ.get("CEP_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(root).absolute() / "cep_pipeline" / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if folder.stat().st_uid == os.getuid() else None
    except (OSError, RuntimeError):  # a read-only or a full disk; a user without a home
        return None


def kept(key: str, make: Callable[[], bytes]) -> bytes:
    """Object code from the folder, made and kept now if there is none of the key; others see all of it or nothing."""
    folder = cache_folder()
    if folder is None:
        return make()
    file = folder / f"{key}.o"
    with suppress(OSError):
        return file.read_bytes()
    code = make()
    with suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
            part.write(code)
        Path(part.name).replace(file)
    return code


@dataclass(frozen=True, eq=False)
class Library:
    """Loaded object code."""

    engine: Any
    """Owner of the code's memory: the addresses are valid while it lives."""

    def function(self, name: str, arguments: int) -> Any:
        """The function `name`, which takes that many 64-bit words and returns one; it runs without the GIL."""
        address = self.engine.get_function_address(name)
        if not address:
            raise KeyError(name)
        function: Any = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)(address)
        function.library = self  # whoever has the function keeps its code in memory
        return function


@cache
def host_target() -> tuple[str, str, str]:
    """Platform, processor and processor features: object code of this process runs only where they are equal."""
    llvm = _llvm()
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def code_key(ir: str) -> str:
    """Hash of the code and of everything else that its object code depends on."""
    text = "\0".join((ir, VERSION, str(_llvm().llvm_version_info), *host_target()))
    return hashlib.sha256(text.encode()).hexdigest()


LEVEL = "x86-64-v3"
"""The processors that shipped code is made for: those with AVX2, of Linux."""
_LEVEL_TRIPLE = "x86_64-unknown-linux-gnu"
_LEVEL_FEATURES = (
    *("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt"),
    *("sahf", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"),
)


@cache
def runs_level() -> bool:
    """Return True if this machine runs code that was made for `LEVEL`."""
    llvm = _llvm()
    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
    return triple.startswith("x86_64") and "linux" in triple and all(map(features.get, _LEVEL_FEATURES))


def compile_ir(ir: str, level: str | None = None) -> bytes:
    """Object code of a module for this CPU, or for all of a level."""
    module = _llvm().parse_assembly(ir)
    module.verify()
    return _compiled(module, _target_machine(level))


def bitcode_of(ir: str) -> bytes:
    """Bitcode of a module that any machine can make object code of: simplified, and fitted to no processor.

    That takes a third of the time that the module as it was would take, and the half of its room.
    """
    module = _llvm().parse_assembly(ir)
    module.verify()
    _optimize(module, _target_machine("x86-64"), fitted=False)
    bitcode: bytes = module.as_bitcode()
    return bitcode


def compile_bitcode(bitcode: bytes) -> bytes:
    """Object code for this CPU of what `bitcode_of` made on another."""
    module = _llvm().parse_bitcode(bitcode)
    machine = _target_machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    return _compiled(module, machine)


def _compiled(module: Any, machine: Any) -> bytes:
    _optimize(module, machine)
    code: bytes = machine.emit_object(module)
    return code


def _optimize(module: Any, machine: Any, *, fitted: bool = True) -> None:
    """Optimize a module; `fitted` says whether to use the vectors and the registers of the machine's processor."""
    llvm = _llvm()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    if not fitted:
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_unrolling = options.loop_interleaving = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)


def load(code: bytes) -> Library:
    """Make object code of this target callable."""
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), llvm.Target.from_default_triple().create_target_machine()
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Library(engine)


LIBRARY_FUNCTIONS = ("memset", "memcpy", "memmove", "sqrt", "log", "fmod")
"""Functions of the C library that compiled code may call: loaded code finds none by itself."""


@cache
def _llvm() -> Any:
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise InputError("compiled kernels need llvmlite: install the package with its dependencies") from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    process = ctypes.CDLL(None)
    for name in LIBRARY_FUNCTIONS:
        llvm.add_symbol(name, ctypes.cast(getattr(process, name), ctypes.c_void_p).value)
    return llvm


def _target_machine(level: str | None = None) -> Any:
    """Return the compiler for this machine, or for all processors of Linux that LLVM calls by the name of a level."""
    triple, cpu, features = host_target() if level is None else (_LEVEL_TRIPLE, level, "")
    return (
        _llvm()
        .Target.from_triple(triple)
        .create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic", codemodel="jitdefault")
    )
