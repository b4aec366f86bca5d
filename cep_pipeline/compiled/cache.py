"""The folder of what was compiled on this machine, which only the user can read and write.

What lies there is run. So nothing is taken from a file that another user made or could have changed: the owner and the
mode of the file that is open are looked at, and links are not followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

_DIGEST_BYTES = 32
_ENDING = ".sum.o"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
MOST_FILES = 8192
"""Files of object code that are kept; beyond, the older half goes."""


def cache_folder() -> Path | None:
    """The folder, mode 0700, made where it is missing; None where there is no place for one, or another user has it."""
    try:
        root = os.environ.get("CEP_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(root).absolute() / "cep_pipeline" / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = folder.lstat()
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
            return None
        if stat.S_IMODE(seen.st_mode) != 0o700:
            folder.chmod(0o700)
    except (OSError, RuntimeError):  # a read-only or a full disk; a user without a home
        return None
    return folder


def read_cached(key: str) -> bytes | None:
    """What is kept under a key; None where there is nothing whole that this user alone has written."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        handle = os.open(folder / f"{key}{_ENDING}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            seen = os.fstat(handle)
            own = stat.S_ISREG(seen.st_mode) and seen.st_uid == os.getuid() and seen.st_nlink == 1
            data = file.read() if own and not seen.st_mode & _OTHERS_WRITE else b""
    except OSError:
        return None
    content = data[_DIGEST_BYTES:]
    return content if data[:_DIGEST_BYTES] == _digest(key, content) else None


def write_cached(key: str, content: bytes) -> None:
    """Keep something under a key; readers see the whole file or none. Where there is no folder nothing is kept."""
    folder = cache_folder()
    if folder is None:
        return
    with suppress(OSError):
        handle, name = tempfile.mkstemp(".o", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(_digest(key, content) + content)
        Path(name).replace(folder / f"{key}{_ENDING}")
        _drop_oldest(folder)


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + content).digest()


def _drop_oldest(folder: Path) -> None:
    """Keep the folder from growing for ever."""
    files = list(folder.glob("*.o"))
    if len(files) > MOST_FILES:
        for file in sorted(files, key=lambda one: one.lstat().st_mtime)[: len(files) // 2]:
            file.unlink()
