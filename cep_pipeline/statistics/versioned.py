"""JSON documents with a version: those of another one are refused, and a digest tells them apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from cep_pipeline.errors import InputError


class OtherVersion(InputError):
    """A document that another version of this package wrote."""


def check_version(content: object, version: int, what: str, source: str) -> None:
    """Refuse JSON that is no object (InputError) or of another version than this package writes (OtherVersion)."""
    if not isinstance(content, Mapping):
        raise InputError(f"{source}: a {what} is a JSON object, not {type(content).__name__}")
    if content.get("version") != version:
        raise OtherVersion(
            f"{source}: a {what} of version {content.get('version')!r}; this package reads version {version}: "
            "make it again"
        )


def digest_of(content: object) -> str:
    """First 32 hexadecimal digits of the SHA-256 of canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return sha256(text.encode()).hexdigest()[:32]
