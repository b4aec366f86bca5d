"""Numba's compiler in a process of its own: it prints the LLVM IR of a kernel.

So Numba's memory, its settings and its import stay out of the process that wants the kernel. Numba optimizes nothing
here (`NUMBA_OPT=0`): the IR is optimized once, as a whole, when object code is made of it, and Numba is done sooner.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module

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
    """The IR, compiled in this process."""
    from numba import cfunc, types

    source = getattr(import_module(module), name)
    signature = [
        types.CPointer(getattr(types, kind[:-1])) if kind.endswith("*") else getattr(types, kind) for kind in arguments
    ]
    compiled = cfunc(types.int64(*signature), error_model="numpy")(source)
    ir: str = compiled.inspect_llvm().replace(compiled.native_name, name)
    return ir


if __name__ == "__main__":
    sys.stdout.write(compiled_here(sys.argv[1], sys.argv[2], sys.argv[3:]))
