"""The version of the project, which `pyproject.toml` has too, and that of the ids of matches."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

VERSION = "0.1.0"
IDS_VERSION = 2
"""Version of what `match_id` is made of (`detection/match_ids.py`), which the warehouse records with each day."""


@cache
def code_digest() -> str:
    """A digest of the files of the package, by their names and times."""
    files = sorted((str(path), path.stat().st_mtime_ns) for path in Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(repr(files).encode()).hexdigest()
