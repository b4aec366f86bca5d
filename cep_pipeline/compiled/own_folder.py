"""A folder that nobody but the user can write: object code that is found in it is run.

Another user who could write there once may have left files, links or a folder. So owners and modes are looked at on the
whole way from the root, files are opened without following links and looked at again when they are open, and a folder
that others could write is emptied.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import logging
import os
import pwd
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

logger = logging.getLogger(__name__)

SECRET_BYTES = 32
_WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_checked: dict[str, tuple[int, ...]] = {}
"""Folders that this process has checked, as they were then: nobody else can have changed what is in one since."""
_told: set[str] = set()
"""Warnings that this process has given."""


def own_folder(root: str, *names: str) -> Path | None:
    """Make the folder `names` below `root`, mode 0700, and check that only the user can have written in it.

    Returns
    -------
    Path or None
        None where there is no place for it, such as on a read-only disk, and, with a warning, where another user could
        replace it or owns it. A folder of the user in which others could write is emptied, with a warning.
    """
    whole = os.path.abspath("/".join((root, *names)))  # noqa: PTH100 - a Path costs more than the call
    try:
        seen = os.lstat(whole)
        if _checked.get(whole) == (seen.st_dev, seen.st_ino, seen.st_mode, seen.st_uid):
            return Path(whole)
    except OSError:
        pass  # it has to be made
    place = os.path.realpath(root)
    try:
        _make(place)
        refused = _changed_by(place)
        was_open = ""
        for name in names:  # from above: nobody can replace a folder once those above it are closed to others
            if refused:
                break
            place = f"{place}/{name}"
            with suppress(FileExistsError):
                os.mkdir(place, 0o700)  # noqa: PTH102 - a Path costs more than the call
            seen = os.lstat(place)
            if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
                refused = f"{place} is no folder of this user"
            elif seen.st_mode & _WRITTEN_BY_OTHERS:
                Path(place).chmod(0o700)
                was_open = was_open or place
        if refused:
            _warn(f"compiled code is not kept in {whole}: {refused}; CEP_CACHE_DIR may name another folder")
            return None
        if was_open:
            _empty(place)
            _warn(f"{whole} is emptied: others could write in {was_open}, and compiled code that is kept is run")
        if stat.S_IMODE(os.lstat(place).st_mode) != 0o700:
            with suppress(OSError):  # others may read it; on a read-only disk that stays so
                Path(place).chmod(0o700)
        seen = os.lstat(whole)
    except OSError:  # a read-only or a full disk
        return None
    _checked[whole] = (seen.st_dev, seen.st_ino, seen.st_mode, seen.st_uid)
    return Path(whole)


def _make(folder: str) -> None:
    """Make a folder, and those above it that are missing, for the user alone."""
    if not os.path.isdir(folder):  # noqa: PTH112 - a Path costs more than the call
        for place in (*reversed(Path(folder).parents), Path(folder)):
            place.mkdir(mode=0o700, exist_ok=True)


def _changed_by(folder: str) -> str:
    """Say who else could put another folder in the place of those in `folder`, a path without links; "": nobody.

    In a folder with the sticky bit, such as /tmp, nobody can rename what is another's.
    """
    place = folder
    while True:
        seen = os.lstat(place)
        if seen.st_uid not in (0, os.getuid()):
            return f"{place} belongs to another user"
        shared = seen.st_mode & _WRITTEN_BY_OTHERS and not seen.st_mode & stat.S_ISVTX
        if shared and (seen.st_mode & stat.S_IWOTH or not _has_nobody_else(seen.st_gid)):
            return f"others may write in {place}"
        above = os.path.dirname(place)  # noqa: PTH120 - a Path costs more than the call
        if above == place:
            return ""
        place = above


def _has_nobody_else(group: int) -> bool:
    """True for the group of their own that many systems give each user."""
    try:
        members, user = grp.getgrgid(group), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group == user.pw_gid and members.gr_name == user.pw_name and {*members.gr_mem} <= {user.pw_name}


def _empty(folder: str) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            Path(entry.path).unlink(missing_ok=True)


def read_file(path: Path, *, secret: bool = False) -> bytes | None:
    """Read a file of an own folder; None where there is none. One that another user made, or could change, is deleted.

    Parameters
    ----------
    secret
        The file is not to be read by others either.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EACCES, errno.ENXIO):  # a link, another's file, a socket
            discard(path)
        return None
    with os.fdopen(handle, "rb") as file:
        seen = os.fstat(handle)
        others = 0o077 if secret else _WRITTEN_BY_OTHERS
        own = stat.S_ISREG(seen.st_mode) and seen.st_uid == os.getuid() and seen.st_nlink == 1
        if own and not seen.st_mode & others:
            try:
                return file.read()
            except OSError:
                return None
    discard(path)
    return None


def discard(path: Path) -> None:
    """Delete a file, if that is possible."""
    with suppress(OSError):
        path.unlink()


def write_file(path: Path, data: bytes) -> bool:
    """Write a file of an own folder, mode 0600; readers see the whole file or none. False: it is not possible."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except OSError:
        discard(Path(name))
        return False
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process of the user at a time do something; without a place for the lock, several may."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    with os.fdopen(handle, "w"):
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            discard(path)


def read_secret(path: Path) -> bytes | None:
    """Read the secret kept in a file of an own folder, made on first use; None where none can be kept."""
    found = _whole(path)
    if found is None:
        with locked(path.with_suffix(".lock")):  # two processes begin at once: one makes it
            if _whole(path) is None:
                write_file(path, secrets.token_bytes(SECRET_BYTES))
        found = _whole(path)
    return found


def _whole(path: Path) -> bytes | None:
    found = read_file(path, secret=True)
    return found if found is not None and len(found) == SECRET_BYTES else None


def _warn(text: str) -> None:
    """Warn once a process."""
    if text not in _told:
        _told.add(text)
        logger.warning(text)
