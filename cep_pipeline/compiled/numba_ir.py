"""Numba's compiler in a process of its own: it prints the LLVM IR of a kernel.

So Numba's memory, its settings and its import stay out of the process that wants the kernel. Numba optimizes nothing
here (`NUMBA_OPT=0`): the IR is optimized once, as a whole, when object code is made of it, and Numba is done sooner.

Numba would link every function that a kernel calls with all that this function calls, give it a wrapper for Python, and
make machine code of it. Nobody runs these functions by themselves. Here the functions are linked once, into the kernel,
and no machine code is made; this takes less than half the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from cep_pipeline.errors import CepError


def numba_ir(module: str, name: str, arguments: Sequence[str]) -> str:
    """The LLVM IR of a kernel; its function has the kernel's name.

    Parameters
    ----------
    module, name, arguments
        As those of `NativeKernel`.

    Raises
    ------
    CepError
        Numba does not compile it; the message ends with what Numba said.
    """
    environment = {**os.environ, "NUMBA_OPT": "0", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", __name__, module, name, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CepError(f"the kernel {name} of {module} does not compile: {done.stderr.strip()[-2000:]}")
    return done.stdout


def compiled_here(module: str, name: str, arguments: Sequence[str]) -> str:
    """The IR, compiled in this process, whose Numba compiles nothing else afterwards."""
    from numba import cfunc, types

    _link_only_kernels()
    source = getattr(import_module(module), name)
    signature = [
        types.CPointer(getattr(types, kind[:-1])) if kind.endswith("*") else getattr(types, kind) for kind in arguments
    ]
    compiled = cfunc(types.int64(*signature), error_model="numpy")(source)
    ir: str = compiled.inspect_llvm().replace(compiled.native_name, name)
    return ir


def _link_only_kernels() -> None:
    """Let this process's Numba collect the IR of functions, and link it when the IR of one of them is asked for."""
    from numba import _dynfunc
    from numba.core.codegen import CPUCodeLibrary
    from numba.core.registry import cpu_target

    class Collected(CPUCodeLibrary):  # type: ignore[misc]
        """The IR of a function and, apart from it, the libraries of the functions that it calls."""

        def add_linking_library(self, library: Any) -> None:
            self._linking_libraries.append(library)

        def finalize(self) -> None:
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            return 0

        def get_llvm_str(self) -> str:
            linked, left = {self}, self._linking_libraries[::-1]
            while left:
                library = left.pop()
                if library not in linked:
                    linked.add(library)
                    left.extend(reversed(library._linking_libraries))
                    self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._final_module.verify()
            return str(self._final_module)

    def not_executable(library: Any, description: Any, environment: Any) -> Any:
        """The object by which Numba would call a compiled function from Python; nobody does."""
        return _dynfunc.make_function(description.lookup_module(), description.qualname, "", 0, environment, (library,))

    context = cpu_target.target_context
    context.codegen()._library_class = Collected
    context.get_executable = not_executable
    context.create_cpython_wrapper = lambda *_, **__: None


if __name__ == "__main__":
    sys.stdout.write(compiled_here(sys.argv[1], sys.argv[2], sys.argv[3:]))
