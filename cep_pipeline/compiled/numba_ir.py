"""Numba's compiler in a process of its own: it prints the LLVM IR of a kernel.

So Numba's memory, its settings and its import stay out of the process that wants the kernel. Numba optimizes nothing
here (`NUMBA_OPT=0`): the IR is optimized once, as a whole, when object code is made of it, and Numba is done sooner.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from cep_pipeline.errors import CepError

_RAISING = re.compile(r"^declare ((?:[^@\n]*)@(?:NRT_|Py|numba_)\w+\([^)\n]*\)).*$", re.MULTILINE)
_ERRORS = re.compile(r"^(@PyExc_\w+) = external global i8.*$", re.MULTILINE)


def numba_ir(module: str, name: str, arguments: Sequence[str]) -> str:
    """The LLVM IR of a kernel, which needs no Python; its one function to call has the kernel's name.

    Parameters
    ----------
    module, name, arguments
        As those of `NativeKernel`.

    Raises
    ------
    CepError
        Numba does not compile it; the message ends with what Numba said. Or there is no Numba.
    """
    if not numba_version():
        raise CepError(
            f"there is no compiled code of the kernel {name} of {module} as it is now, and no Numba to make it: "
            "install the package anew, or change its sources in a checkout, where `make setup` installs Numba"
        )
    environment = {**os.environ, "NUMBA_OPT": "0", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", __name__, module, name, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CepError(f"the kernel {name} of {module} does not compile: {done.stderr.strip()[-2000:]}")
    return _without_interpreter(_as_one_function(done.stdout, name))


def numba_version() -> str:
    """Return the version of Numba; "" where there is none."""
    try:
        return version("numba")
    except PackageNotFoundError:
        return ""


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


def compiled_here(module: str, name: str, arguments: Sequence[str]) -> str:
    """The IR, compiled in this process, whose Numba compiles nothing else afterwards."""
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
