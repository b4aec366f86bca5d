"""The folder of what was compiled on this machine, which belongs to the user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def cache_folder() -> Path | None:
    """The folder, mode 0700, made where it is missing; None where there is no place for one, or another user has it."""
    try:
        root = os.environ.get("CEP_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(root).absolute() / "cep_pipeline" / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if folder.stat().st_uid == os.getuid() else None
    except (OSError, RuntimeError):  # a read-only or a full disk; a user without a home
        return None


def kept(key: str, make: Callable[[], bytes]) -> bytes:
    """Object code from the folder, made and kept now if there is none of the key; others see all of it or nothing."""
    folder = cache_folder()
    if folder is None:
        return make()
    file = folder / f"{key}.o"
    with suppress(OSError):
        return file.read_bytes()
    code = make()
    with suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
            part.write(code)
        Path(part.name).replace(file)
    return code
