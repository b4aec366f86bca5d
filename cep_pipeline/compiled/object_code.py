"""Compile LLVM IR for this CPU, keep the object code, and load its functions."""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cep_pipeline.compiled.own_folder import discard, locked, own_folder, read_file, read_secret, write_file
from cep_pipeline.errors import InputError

_DIGEST_BYTES = 32
SECRET = "key"
"""The file in the cache folder with the secret that the files of object code are authenticated by."""
MOST_FILES = 8192
"""Files of object code kept in the cache folder; beyond, the older half goes."""


@dataclass(frozen=True)
class Target:
    """The target of object code, which runs only where all of this is equal."""

    package: str
    llvm: str
    triple: str
    cpu: str
    features: str


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
def host_target() -> Target:
    """The target of this process."""
    llvm = _llvm()
    try:
        package = version("cep-pipeline")
    except PackageNotFoundError:  # run from a checkout that is not installed
        package = "0"
    features = llvm.get_host_cpu_features().flatten()
    return Target(package, _llvm_version(), llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


def code_key(ir: str, target: Target | None = None) -> str:
    """Hash of the code and of everything else that its object code depends on."""
    target = target or host_target()
    text = "\0".join((ir, target.package, target.llvm, target.triple, target.cpu, target.features))
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


@lru_cache(maxsize=1024)
def library(ir: str) -> Library:
    """The loaded code of a module: from the cache folder, or compiled now."""
    return load(kept(code_key(ir), lambda: compile_ir(ir)))


def kept(key: str, make: Callable[[], bytes]) -> bytes:
    """Object code from the cache folder, made and kept now if there is none of the key."""
    code = read_cached(key)
    if code is None:
        code = make()
        write_cached(key, code)
    return code


def cache_folder() -> Path | None:
    """The user's own folder for object code; None where there is no such place, or others could change it."""
    root = os.environ.get("CEP_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    if not root:
        try:
            root = str(Path.home() / ".cache")
        except RuntimeError:  # no home: the code stays in memory
            return None
    return own_folder(root, "cep_pipeline", "kernels")


def _file(folder: Path, key: str) -> Path:
    """The file of a key; earlier versions kept code without an authentication code, in KEY.o."""
    return folder / f"{key}.mac.o"


def _authentication(secret: bytes, key: str, code: bytes | memoryview) -> bytes:
    """The keyed digest of code and of the key that it is kept under: only who knows the secret can make it."""
    made = hmac.new(secret, f"{key}\0".encode(), "sha256")
    made.update(code)
    return made.digest()


def read_cached(key: str) -> bytes | None:
    """Object code kept under a key; None where there is none. A file that this user did not write so is deleted."""
    folder = cache_folder()
    if folder is None:
        return None
    path = _file(folder, key)
    data = read_file(path)
    if data is None:
        return None
    secret = read_secret(folder / SECRET)
    if secret is None:
        return None
    if not hmac.compare_digest(_authentication(secret, key, memoryview(data)[_DIGEST_BYTES:]), data[:_DIGEST_BYTES]):
        discard(path)
        return None
    return data[_DIGEST_BYTES:]


def write_cached(key: str, code: bytes) -> None:
    """Keep object code; readers see the whole file or none. Without a usable folder nothing is kept."""
    folder = cache_folder()
    secret = None if folder is None else read_secret(folder / SECRET)
    if folder is None or secret is None:
        return
    if write_file(_file(folder, key), _authentication(secret, key, code) + code):
        _drop_oldest(folder)


@contextmanager
def compiling(key: str) -> Iterator[None]:
    """Let one process of the user at a time compile what is kept under a key; the others wait and find it kept."""
    folder = cache_folder()
    if folder is None:
        yield
        return
    with locked(folder / f"{key}.lock"):
        yield


def _drop_oldest(folder: Path) -> None:
    """Keep the folder from growing for ever."""
    files = [entry for entry in os.scandir(folder) if entry.name.endswith(".o")]
    if len(files) > MOST_FILES:
        for entry in sorted(files, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)[: len(files) // 2]:
            discard(Path(entry.path))


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


def _llvm_version() -> str:
    return ".".join(map(str, _llvm().llvm_version_info))


def _target_machine(level: str | None = None) -> Any:
    """Return the compiler for this machine, or for all processors of Linux that LLVM calls by the name of a level."""
    if level is None:
        target = host_target()
        triple, cpu, features = target.triple, target.cpu, target.features
    else:
        triple, cpu, features = _LEVEL_TRIPLE, level, ""
    return (
        _llvm()
        .Target.from_triple(triple)
        .create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic", codemodel="jitdefault")
    )
