"""The schema of the language's tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.conditions import Value
from cep_pipeline.patterns.pattern import Pattern
from tests import streams

SCHEMA = StreamSchema.from_dict(
    {
        **streams.SCHEMA,
        "attributes": streams.SCHEMA["attributes"] | {"price": "float64", "from": "string", "LEN": "int64"},
    }
)


def parse_one(text: str, params: Mapping[str, Iterable[Value]] | None = None) -> Pattern:
    """The only statement of a text."""
    [pattern] = parse_patterns(text, SCHEMA, params)
    return pattern
