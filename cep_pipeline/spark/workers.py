"""The project on the machines of Spark workers: the check of what they run, and what is said of troubles with them.

Each worker must have the project and its libraries in the versions of the driver: by an image, or by an installation.
This module imports the standard library only, since a worker runs it before anything else.
"""

from __future__ import annotations

import hashlib
import re
import socket
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cep_pipeline.errors import CepError
from cep_pipeline.version import VERSION

PROJECT = "cep-pipeline"
COMPARED = ("numpy", "pandas", "pyarrow", "llvmlite")
"""Libraries that must have the driver's version: answers and shipped object code depend on them."""
_SOURCES = Path(__file__).resolve().parents[1]


Installation = Mapping[str, str | None]
"""What a process runs -> its version, None where it is missing."""


@cache
def installation() -> Installation:
    """Return what this process runs: the project with a digest of its sources, so that two checkouts are told apart."""
    digest = hashlib.sha256()
    for folder in (_SOURCES, _SOURCES.parent / "spark_jobs"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(_SOURCES.parent)}\0".encode() + path.read_bytes())
    python, project = ".".join(map(str, sys.version_info[:2])), f"{VERSION} ({digest.hexdigest()[:8]})"
    return {"Python": python, PROJECT: project, **{name: _version(name) for name in COMPARED}}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_worker(driver: Installation | None) -> None:
    """Compare this worker with the driver; None: both are of one installation.

    Raises
    ------
    CepError
        It runs another Python, another version of the project or of a library.
    """
    own = installation()
    different = [
        f"it has {name} {own.get(name) or 'not at all'}, not {wanted}"
        for name, wanted in (driver or {}).items()
        if own.get(name) != wanted
    ]
    if different:
        raise CepError(f"the Spark worker on {_here()} differs from the driver: {'; '.join(different)}. {ADVICE}")


def library_is_missing(error: ImportError) -> CepError:
    """Make the error of a worker that cannot load what tasks use: it is not there, or there is no memory for it."""
    trouble = trouble_with_workers(str(error))
    return CepError(trouble or f"the Spark worker on {_here()} cannot load a library: {error}. {ADVICE}")


def _here() -> str:
    return f"{socket.gethostname()} ({sys.executable})"


ADVICE = "Install on each worker what the driver has, or run driver and workers from one image"
_MEMORY = "give the workers fewer cores or more memory, and Spark a larger {}"
_TROUBLES = {
    r"No module named '?(cep_pipeline)\b": f"a Spark worker's Python has not the project. {ADVICE}",
    r'Cannot run program "([^"]+)".*No such file': "a Spark worker has no Python at {}; set PYSPARK_PYTHON",
    # A limit of address space shows wherever memory is asked for next: when a library is loaded, or at an allocation.
    r"((?<!except )MemoryError|Cannot allocate memory|failed to map segment|Could not find/load shared object file|"
    r"can't start new thread|malloc of size \d+ failed)": "a Spark worker ran out of memory ({}); "
    + _MEMORY.format("spark.executor.pyspark.memory"),
    r"(exit code:? 137|exit status:? 137|exited with code 137|Python worker exited unexpectedly|OOMKilled|"
    r"killed by YARN for exceeding)": "a Spark worker was killed, most likely since its machine ran out of memory "
    "({}); " + _MEMORY.format("spark.executor.memoryOverhead"),
    r"(ExecutorLostFailure|Master removed our application|executor exited caused)": "Spark lost its workers ({}); see "
    "their logs, and whether their machines are up",
}


def trouble_with_workers(text: str) -> str | None:
    """Say in a sentence what is wrong with a worker, where a text of Spark shows one of the known troubles.

    Examples
    --------
    >>> trouble_with_workers("ModuleNotFoundError: No module named 'cep_pipeline'").split('.')[0]
    "a Spark worker's Python has not the project"
    """
    for form, sentence in _TROUBLES.items():
        if found := re.search(form, text):
            return sentence.format(found[1])
    return None
