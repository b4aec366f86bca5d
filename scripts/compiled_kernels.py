"""The compiled code of the kernels that the package ships: made anew where it is not that of the sources.

    python scripts/compiled_kernels.py           make what is stale, and remove what no kernel has any more
    python scripts/compiled_kernels.py --check   say what is stale, and fail if anything is
    python scripts/compiled_kernels.py --all     make all of it

A kernel is compiled anew where the text of its module, that of a module that it takes functions from, or the version of
a compiler has changed; that takes ten seconds to a minute.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cep_pipeline.cli.terminal import say  # noqa: E402
from cep_pipeline.compiled.native import FOLDER, NativeKernel, file_of, pack, read_shipped  # noqa: E402
from cep_pipeline.compiled.numba_ir import numba_ir  # noqa: E402


def kernels() -> list[NativeKernel]:
    """All kernels of the package, found in the modules that make some."""
    found = {}
    for file in sorted(ROOT.glob("cep_pipeline/**/*.py")):
        if "NativeKernel(" in file.read_text(encoding="utf-8"):
            module = import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
            for value in vars(module).values():
                for one in value if isinstance(value, tuple | list) else [value]:
                    if isinstance(one, NativeKernel):
                        found[file_of(one.module, one.name)] = one
    return [found[file] for file in sorted(found)]


def made_by() -> str:
    """The versions of the compilers."""
    return ", ".join(f"{name} {version(name)}" for name in ("numba", "llvmlite"))


def is_stale(kernel: NativeKernel) -> bool:
    """Return True if a kernel's file is not made of its source by these compilers."""
    shipped = read_shipped(kernel.module, kernel.name)
    return shipped is None or shipped.made_by != made_by() or shipped.text != kernel.source


def make(kernel: NativeKernel) -> str:
    """Make the file of a kernel, and tell of it."""
    begun = time.monotonic()
    code = pack(numba_ir(kernel.module, kernel.name, kernel.arguments), kernel.source, made_by())
    file_of(kernel.module, kernel.name).write_bytes(code.to_bytes())
    return f"{kernel.module}.{kernel.name}: compiled in {time.monotonic() - begun:.0f} s"


def main() -> int:
    """Make or check; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where anything is stale")
    parser.add_argument("--all", action="store_true", help="make the code of all kernels")
    options = parser.parse_args()
    present = kernels()
    changed = present if options.all else list(filter(is_stale, present))
    orphans = {*FOLDER.glob("*")} - {file_of(one.module, one.name) for one in present}
    if options.check:
        for kernel in changed:
            say(f"{kernel.module}.{kernel.name}: its compiled code is not that of its source")
        for file in sorted(orphans):
            say(f"{file.name}: there is no such kernel")
        if changed or orphans:
            say("run: .venv/bin/python scripts/compiled_kernels.py")
            return 1
        return 0
    FOLDER.mkdir(exist_ok=True)
    for file in orphans:
        file.unlink()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for told in pool.map(make, changed):
            say(told)
    size = sum(file.stat().st_size for file in FOLDER.glob("*"))
    say(f"{len(present)} kernels, {len(changed)} of them made now; {size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
