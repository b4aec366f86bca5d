"""The user's cache folder for compiled kernels: object code only, private to the user, keyed by what made it.

An entry is the object code behind its own digest, so that a file cut short by a full disk is compiled anew and never
run. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

FOLDER_VARIABLE = "CEP_CACHE_DIR"
"""Environment variable that names another folder."""


def cache_folder() -> Path | None:
    """The folder, made with mode 0700 where it is missing.

    Returns
    -------
    Path or None
        None where no private folder can be had (a read-only home, a folder that others could write to): then nothing
        is cached, because code from it would be run.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    folder = Path(named) if named else Path(base) / "cep_pipeline" / "kernels"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return None
    private = status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077
    return folder if private else None


def cached_object(key: str, compile_object: Callable[[], bytes]) -> bytes:
    """The object code of `key`, compiled and kept where it is not in the folder yet.

    Parameters
    ----------
    key
        Hexadecimal digest of everything that determines the code: its source, the compiler, processor and features.
    compile_object
        Makes the object code.
    """
    folder = cache_folder()
    if folder is None:
        return compile_object()
    entry = folder / f"{key}.o"
    try:
        content = entry.read_bytes()
    except OSError:
        content = b""
    digest, code = content[:32], content[32:]
    if code and hashlib.sha256(code).digest() == digest:
        return code
    code = compile_object()
    _store(entry, hashlib.sha256(code).digest() + code)
    return code


def _store(entry: Path, content: bytes) -> None:
    """Put a whole entry in place; without room for it, the next process compiles again."""
    partial = ""
    try:
        handle, partial = tempfile.mkstemp(dir=entry.parent, suffix=".partial")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(partial).replace(entry)
    except OSError:
        if partial:
            Path(partial).unlink(missing_ok=True)
