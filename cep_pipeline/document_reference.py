"""The reference of a document that a user writes: its JSON Schema, and tables of its settings in Markdown.

Both are made from the pydantic model of the document. The descriptions and examples stand in the model's fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from cep_pipeline.documents import as_yaml
from cep_pipeline.errors import InputError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
WHOLE = "document"
"""The part that holds the settings of the top level."""

Schema = Mapping[str, Any]


class _AsWritten(GenerateJsonSchema):
    """Keeps settings and examples in the order in which the model has them, and makes up no titles."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Make the JSON Schema of a document, for editors and for other checks outside of this package."""
    schema = model.model_json_schema(schema_generator=_AsWritten)
    if "$defs" in schema:  # by name: pydantic's order depends on which models were used before
        schema["$defs"] = dict(sorted(schema["$defs"].items()))
        for definition in schema["$defs"].values():
            definition.pop("title", None)
    return {"$schema": DIALECT, **schema}


@dataclass(frozen=True)
class Part:
    """The settings of one mapping of a document.

    Its name is the way to it from the top level, such as `source` or `quality.expectations`; NAME stands for a name
    that the user chooses.
    """

    name: str
    schema: Schema

    @property
    def anchor(self) -> str:
        """The anchor of a heading that is the part's name in backticks."""
        return self.name.replace(".", "").lower()


def parts_of(schema: Schema) -> list[Part]:
    """The parts of a document: the top level, then the mappings in it, each once, outer ones first."""
    found = [Part(WHOLE, schema)]
    seen: set[str] = set()
    for part in found:  # grows as it goes
        for name, setting in part.schema["properties"].items():
            path = name if part.name == WHOLE else f"{part.name}.{name}"
            for reference, inner in _mappings(setting, path):
                if reference not in seen:
                    seen.add(reference)
                    found.append(Part(inner, _resolve(schema, reference)))
    return found


def settings_table(schema: Schema, part: str) -> str:
    """Make the Markdown table of the settings of a part, the required ones first."""
    parts = {one.name: one for one in parts_of(schema)}
    if part not in parts:
        raise InputError(f"there is no part {part!r}; there are: {', '.join(parts)}")
    anchors = {id(one.schema): one.anchor for one in parts.values()}
    chosen = parts[part].schema
    required = chosen.get("required", ())
    rows = [
        (
            f"`{name}`",
            _kind(schema, setting, anchors),
            "required" if name in required else _default(setting),
            _meaning(schema, setting),
            f"`{as_yaml({name: setting['examples'][0]})}`",
        )
        for name, setting in sorted(chosen["properties"].items(), key=lambda item: item[0] not in required)
    ]
    return markdown_table(("setting", "type", "default", "meaning", "example"), rows)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Make a table in Markdown.

    Examples
    --------
    >>> print(markdown_table(("a", "b"), [("1", "x|y")]))
    | a | b |
    | --- | --- |
    | 1 | x\\|y |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _resolve(root: Schema, reference: str) -> Schema:
    resolved: Schema = root["$defs"][reference.removeprefix("#/$defs/")]
    return resolved


def _mappings(setting: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Each mapping in a setting, by reference, and the way to it."""
    if "$ref" in setting:
        yield setting["$ref"], path
    for option in setting.get("anyOf", ()):
        yield from _mappings(option, path)
    if "items" in setting:
        yield from _mappings(setting["items"], path)
    if isinstance(setting.get("additionalProperties"), Mapping):
        yield from _mappings(setting["additionalProperties"], f"{path}.NAME")


def _meaning(root: Schema, setting: Schema) -> str:
    """A setting's description; pydantic leaves it out where it is that of the mapping."""
    text: str = (setting if "description" in setting else _resolve(root, setting["$ref"]))["description"]
    return text


def _kind(root: Schema, setting: Schema, anchors: Mapping[int, str]) -> str:
    """A setting's type in words."""
    if "$ref" in setting:
        return f"[mapping](#{anchors[id(_resolve(root, setting['$ref']))]})"
    if "anyOf" in setting:
        options = [_kind(root, option, anchors) for option in setting["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(options))
    if "enum" in setting:
        names = setting["enum"]
        return " or ".join(f"`{one}`" for one in names) if len(names) <= _MOST_LISTED else f"one of {len(names)} names"
    if setting["type"] == "array":
        return f"list of {_kind(root, setting['items'], anchors)}"
    if setting["type"] == "object":
        of_names = setting["additionalProperties"]
        return f"names, each with {'a value' if of_names is True else _kind(root, of_names, anchors)}"
    bounds = (f", {words} {setting[bound]:,}" for bound, words in _BOUNDS.items() if bound in setting)
    return _WORDS[setting["type"]] + "".join(bounds)


_MOST_LISTED = 30
_WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
_BOUNDS = {"exclusiveMinimum": "above", "minimum": "at least", "maximum": "at most"}


def _default(setting: Schema) -> str:
    default = setting.get("default")
    if default is None or default in ({}, []) or isinstance(default, Mapping):
        return ""
    return f"`{as_yaml(default)}`"
