"""Types of a file in its footer: those of earlier versions are read, and what cannot be read is said."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pyarrow as pa
import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.events.type_footer import FOOTER_KEY, MOST_TYPES, footer_of, type_attribute_in, types_in_footer


def footer(document: Any) -> dict[bytes, bytes]:
    return {FOOTER_KEY.encode(): base64.b64encode(zlib.compress(json.dumps(document).encode()))}


def test_a_footer_of_the_first_version_names_its_types() -> None:
    first = {
        "version": 1,
        "type_attribute": "kind",
        "types": ["A", None],
        "hashed": 0,
        "kind": [0, 1],
        "events": [2, 1],
    }
    assert types_in_footer(footer(first), "kind") == {"A", None}
    assert types_in_footer(footer(first), "sort", {"sort": "kind"}) == {"A", None}
    assert types_in_footer(footer({**first, "types": [], "hashed": 64}), "kind") is None
    assert types_in_footer(footer({**first, "version": 3}), "kind") is None


def test_many_types_are_not_named() -> None:
    for number in (MOST_TYPES, MOST_TYPES + 1):
        events = pa.table({"kind": [f"T{place}" for place in range(number)]})
        text = {key.encode(): one.encode() for key, one in footer_of(events, "kind").items()}
        types = types_in_footer(text, "kind")
        assert type_attribute_in(text) == "kind"
        assert (types is None) is (number > MOST_TYPES) and (types is None or len(types) == number)
    assert footer_of(events.slice(0, 0), "kind") == {} and types_in_footer({}, "kind") is None


def test_a_damaged_footer_is_said() -> None:
    for damaged in ({FOOTER_KEY.encode(): b"%"}, footer([1]), footer({"version": 1})):
        with pytest.raises(InputError, match="`cep verify` finds the file"):
            types_in_footer(damaged, "kind")
