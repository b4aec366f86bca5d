"""The types of the events in a file, as its Parquet footer names them: a file that is copied keeps them.

Whoever writes a file of events anew calls `footer_of` for the rows that it writes.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.lazy_names import late_module

pc = late_module("pyarrow.compute")

FOOTER_KEY = "cep.type_spells"
"""Key in the metadata of a Parquet file."""
VERSION = 2
"""Version of the text form. Version 1 also said when each type occurs, which nobody reads any more."""
MOST_TYPES = 4096
"""A file with more types does not name them."""


def footer_of(events: pa.Table, type_attribute: str) -> dict[str, str]:
    """Return the metadata that a Parquet file with exactly these events is written with.

    Examples
    --------
    >>> events = pa.table({"kind": ["A", "B", None, "A"]})
    >>> footer = {key.encode(): text.encode() for key, text in footer_of(events, "kind").items()}
    >>> sorted(types_in_footer(footer, "kind"), key=str), type_attribute_in(footer)
    (['A', 'B', None], 'kind')
    """
    if not events.num_rows:
        return {}
    column = events[type_attribute]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found = pc.unique(column).to_pylist()
    types = [None if one is None else str(one) for one in found] if len(found) <= MOST_TYPES else []
    document = {"version": VERSION, "type_attribute": type_attribute, "types": types}
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return {FOOTER_KEY: base64.b64encode(zlib.compress(text.encode())).decode()}


def types_in_footer(
    footer: Mapping[bytes, bytes] | None, type_attribute: str, renamed: Mapping[str, str] = MappingProxyType({})
) -> frozenset[str | None] | None:
    """Return the types that the metadata of a file names, None for events without one; None where it does not.

    `renamed` has the attributes that are named otherwise in the file: attribute -> its name there. Damaged metadata is
    an InputError.
    """
    found = _in_footer(footer)
    if found.get("type_attribute") != renamed.get(type_attribute, type_attribute) or not found["types"]:
        return None
    return frozenset(found["types"])


def type_attribute_in(footer: Mapping[bytes, bytes] | None) -> str | None:
    """Return the type attribute that the metadata of a file names; None for a file without one."""
    return _in_footer(footer).get("type_attribute")


def _in_footer(footer: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    text = (footer or {}).get(FOOTER_KEY.encode())
    if text is None:
        return {}
    try:
        document = json.loads(zlib.decompress(base64.b64decode(text)))
        return {name: document[name] for name in ("type_attribute", "types")} if document["version"] <= VERSION else {}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, zlib.error) as error:
        raise InputError(
            f"the summary of event types in a data file is damaged: {error!r}; `cep verify` finds the file"
        ) from error
