"""The version of the project, which `pyproject.toml` has too, and that of the ids of matches."""

from __future__ import annotations

VERSION = "0.1.0"
IDS_VERSION = 2
"""Version of what `match_id` is made of (`detection/match_ids.py`), which the warehouse records with each day."""
