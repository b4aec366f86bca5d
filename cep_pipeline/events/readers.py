"""The columns of a source against those that a schema reads."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from cep_pipeline.errors import InputError


def find_columns(path: str, present: Sequence[str], listed: Sequence[str]) -> None:
    """Check that a file has every column that the schema reads, each once; their order is free.

    Raises
    ------
    InputError
        One is missing or there twice; the message names the file, the column, and what is there.
    """
    for column in listed:
        if present.count(column) > 1:
            raise InputError(
                f"{path}: column {column!r} is there {present.count(column)} times; a column is named once"
            )
        if column not in present:
            close = get_close_matches(column, present, n=1) or [n for n in present if n.lower() == column.lower()]
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise InputError(
                f"{path}: column {column!r} is missing; the file has: {', '.join(map(repr, present))}{hint} "
                "If the delivery has changed, name the new column in the stream schema"
            )
