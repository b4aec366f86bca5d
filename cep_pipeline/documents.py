"""Documents that a user writes or hands over: YAML and JSON, checked against a model, with errors that name a place.

Behind them stands the reference of a document that a user writes: its JSON Schema, and tables of its settings in
Markdown. Both are made from the pydantic model of the document, whose fields have the descriptions and examples.
"""

from __future__ import annotations

import difflib
import json
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from typing_extensions import TypeAliasType

from cep_pipeline.errors import InputError, OtherVersion
from cep_pipeline.guarded import brief, read_yaml, values_of, without_collecting


class Document(BaseModel):
    """Base of all models of user-written documents: immutable, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_as_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `yes` where a number is asked for: it would count as 1."""
        if isinstance(value, bool):
            kinds = _kinds(cls.model_fields[str(info.field_name)].annotation)
            if bool not in kinds and (int in kinds or float in kinds):
                raise ValueError("this should be a number; YAML reads yes, no, on and off as true and false")
        return value


Model = TypeVar("Model", bound=BaseModel)
Setting = TypeVar("Setting")


def setting(description: str, default: Any = ..., *, example: Any = None, **rules: Any) -> Any:
    """Declare a setting of a document, required without a default, with the texts that references of settings show.

    A default is its own example, where no other one is given.
    """
    rules |= {} if default is ... else {"default": default}
    return Field(description=description, **{"examples": [default if example is None else example], **rules})


def mapping(model: type[BaseModel], description: str, **example: Any) -> Any:
    """Declare a setting that is a mapping of other settings; where it is not given, those have their defaults."""
    return setting(description, model.model_construct(), example=example)


def one_of(*registries: str, also: Sequence[str] = (), least: int | None = None) -> Callable[[dict[str, Any]], None]:
    """Make what adds to a setting's JSON Schema which texts the setting takes.

    They are in registries, named as `module:collection`, which are imported when the JSON Schema is made, so that
    reading a document imports nothing for it; and in `also`. `least` is the smallest number, where the setting may be
    one.
    """

    def add(schema: dict[str, Any]) -> None:
        for option in schema.get("anyOf", [schema]):
            if option.get("type") == "string":
                option["enum"] = [*chain.from_iterable(map(resolve_name, registries)), *also]
            elif least is not None:
                option["minimum"] = least

    return add


def checked(check: Callable[[Any], object], value: Setting) -> Setting:
    """Return the value of a setting that a check does not refuse; its InputError becomes a fault of the document.

    None, a setting that is not given, is not checked.
    """
    try:
        if value is not None:
            check(value)
    except InputError as error:
        raise ValueError(str(error)) from error
    return value


def checked_by(check: str) -> AfterValidator:
    """Make what checks a setting by a function, named as `module:function` and imported when it is used."""
    return AfterValidator(lambda value: checked(resolve_name(check), value))


def load_document(path: Path, model: type[Model], what: str, *, variables: bool = False) -> Model:
    """Read a YAML file into a model.

    `what` the file is stands in messages: "stream schema", "pipeline configuration". With `variables`,
    `${NAME:-DEFAULT}` and `${NAME}` in a value stand for a variable of the environment. An InputError lists the faults,
    of many the first ones, each with its line and what to do.
    """
    root = read_yaml(path, what)
    content = values_of(path, what, root, variables=variables)
    if not isinstance(content, dict):
        found = "empty" if content is None else f"a {type(content).__name__}"
        first = example_at(model, [next(iter(model.model_fields))])
        raise InputError(f"{path}:1: a {what} is a mapping of settings (name: value); this file is {found}{first}")
    try:
        return model.model_validate(content, context={"path": path})
    except ValidationError as error:
        faults: dict[tuple[str, str], list[str]] = {}
        listed = error.errors(include_url=False)
        told: set[str] = set()
        for place, message, example in (_describe(path, root, fault, model) for fault in listed[:_MOST_DESCRIBED]):
            fault, _, known = message.partition("; known are ")  # the settings that there are, said once
            said_of = faults.setdefault((place, example), [])  # of a setting of several types, one of each
            said_of.append(fault if known in told else message)
            told.add(known)
        said = [f"{place}: {'; or: '.join(messages)}{example}" for (place, example), messages in faults.items()]
        said += [f"{path}: … and {len(listed) - _MOST_DESCRIBED:,} more"] if len(listed) > _MOST_DESCRIBED else []
        raise InputError("\n".join(said)) from error


_MOST_DESCRIBED = 20
"""Faults of a document that an error describes: for each one its line is looked for, and what may have been meant."""


def _describe(path: Path, root: yaml.Node | None, fault: Any, model: type[BaseModel]) -> tuple[str, str, str]:
    """File, line and name of a setting, what is wrong with it, and an example of it."""
    location: tuple[int | str, ...] = fault["loc"]
    while location and fault["type"] not in ("missing", "extra_forbidden") and _IS_TYPE.fullmatch(str(location[-1])):
        location = location[:-1]
    line = line_of(root, location)
    name = ".".join(str(part) for part in location) or "document"
    message = _OF_TYPE.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))
    message = message.replace("Input should be", "this should be")
    example = example_at(model, location)
    if fault["type"] == "extra_forbidden":
        known = _settings_at(model, location[:-1])[1]
        close = difflib.get_close_matches(str(location[-1]), known, n=1)
        message = "unknown setting" + (f"; known are {', '.join(known)}" if known and not close else "")
        message += f"; did you mean {close[0]!r}?" if close else ""
        example = example_at(model, (*location[:-1], *close)) if close else ""
    elif fault["type"] == "missing":
        message = "this setting is required"
    elif "input" in fault:
        found = fault["input"]
        if isinstance(found, str | int | float | bool):
            message += ", in quotes" if fault["type"] == "string_type" else ""
            long = isinstance(found, int) and found.bit_length() > 10_000  # Python writes no more digits
            shown = "a number of thousands of digits" if long else repr(found)
            message += "" if isinstance(found, str) and shown in message else f" (found {shown})"
        elif found is None or fault["type"] in _OF_TYPE:
            message += (
                " (there is no value)" if found is None else f" (found {_NAMES.get(type(found), 'another value')})"
            )
    return f"{path}:{line}: {name}", message, example


_IS_TYPE = re.compile(r"str|int|float|bool|(list|dict)\[.*\]|\[key\]")
"""The end of a fault's place where a setting may have one of several types: the type that was tried.
Where the name of an entry is wrong, `[key]` stands there."""
_NAMES: dict[type, str] = {list: "a list", dict: "a mapping"}
_OF_TYPE = {
    kind: f"this should be {words}"
    for words, kinds in {
        "a mapping (name: value)": ("dict_type", "model_type"),
        "a list": ("list_type", "tuple_type"),
        "text": ("string_type", "path_type"),
        "a whole number": ("int_type", "int_parsing", "int_from_float"),
        "a number": ("float_type", "float_parsing"),
        "true or false": ("bool_type", "bool_parsing"),
    }.items()
    for kind in kinds
}
"""The text for a fault of a type, by pydantic's name for the fault."""


def example_at(model: type[BaseModel], location: Sequence[int | str]) -> str:
    """The end of a message about the setting at a location: its example, as the reference of the document has it."""
    setting, _ = _settings_at(model, location)
    if setting is None or not setting[1].examples:
        return ""
    return f"; write for example `{as_yaml({setting[0]: setting[1].examples[0]})}`"


def as_yaml(value: object) -> str:
    """A value as one line of YAML; a mapping of one setting without its braces."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
    text = text.removesuffix("\n").removesuffix("\n...")
    return text[1:-1] if isinstance(value, dict) and len(value) == 1 else text


def _settings_at(
    model: type[BaseModel], location: Sequence[int | str]
) -> tuple[tuple[str, FieldInfo] | None, list[str]]:
    """The setting that a location is in, and the settings that may stand there; None and [] where a model is silent."""
    annotation: Any = model
    inside: tuple[str, FieldInfo] | None = None
    for part in location:
        annotation = _inner(annotation)
        if _is_model(annotation):
            setting = _by_name(annotation).get(str(part))
            inside = None if setting is None else (str(part), setting)
            annotation = None if setting is None else setting.annotation
        else:  # an entry of a mapping or a list: the last argument of dict[str, X] and list[X]
            annotation = (get_args(annotation) or (None,))[-1]
    annotation = _inner(annotation)
    return inside, list(_by_name(annotation)) if _is_model(annotation) else []


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _by_name(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The settings of a model by the names that a document has for them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _kinds(annotation: Any) -> list[Any]:
    """The types that a setting may have, within `Annotated[…]`, in which its rules follow them, and `… | None`."""
    options = get_args(annotation) if get_origin(annotation) in (Union, UnionType, Annotated) else ()
    return [*chain.from_iterable(map(_kinds, options))] if options else [annotation]


def _inner(annotation: Any) -> Any:
    """The model (or mapping, or list) among them."""
    return next(kind for kind in _kinds(annotation) if kind is not type(None))


def line_at(path: Path, location: Sequence[int | str]) -> int:
    """Line, from 1, of a setting of a file that has been read; for faults that its model does not know."""
    return line_of(read_yaml(path, "document"), location)


def line_of(root: yaml.Node | None, location: Sequence[int | str]) -> int:
    """Line, from 1, of the deepest part of the location that stands in the document."""
    node, line = root, 1
    for part in location:
        following: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    line, following = key.start_mark.line + 1, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            following = node.value[part]
            line = following.start_mark.line + 1
        if following is None:
            break
        node = following
    return line


_JSON = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
"""The rules of JSON documents: fields have the names and the types that they should, and numbers are finite."""
_MOST_FAULTS = 5


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    alias: Any = TypeAliasType("Content", kind)  # a dataclass itself would take no rules
    return TypeAdapter(alias, config=_JSON)


def in_json(value: Any) -> Any:
    """A dataclass as JSON values, which `read_as` reads."""
    kind: Any = type(value)
    return _adapter(kind).dump_python(value, mode="json")


def read_as(kind: Any, content: object, verdict: str, source: str, advice: str) -> Any:
    """The value of a type, such as a dataclass, that JSON values stand for.

    Raises
    ------
    InputError
        They stand for none: the `verdict` ("no plan"), the `source` (a file or table), the first faults, each with its
        place, and the `advice`.
    """
    with reading(verdict, source, advice), without_collecting():
        return _adapter(kind).validate_json(json.dumps(content))


def check_form(kind: Any, content: object, verdict: str, source: str, advice: str) -> Any:
    """Return Python values as those of a type, or refuse them with an InputError as of `read_as`."""
    with reading(verdict, source, advice):
        return _adapter(kind).validate_python(content)


def check_version(content: object, version: int, what: str, source: str) -> None:
    """Refuse JSON that is no object (InputError) or of another version than this package writes (OtherVersion)."""
    if not isinstance(content, Mapping):
        raise InputError(f"{source}: a {what} is a JSON object, not {type(content).__name__}")
    found = content.get("version")
    if found != version:
        raise OtherVersion(
            f"{source}: a {what} of version {reprlib.repr(found)}; this package reads version {version}: make it again"
        )


@contextmanager
def reading(verdict: str, source: str, advice: str) -> Iterator[None]:
    """Turn the errors of reading JSON values into an InputError, as of `read_as`."""
    try:
        yield
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        said = "; ".join(f"{json_path(fault['loc'])}: {_of_json(fault)}" for fault in faults[:_MOST_FAULTS])
        more = f"; and {len(faults) - _MOST_FAULTS:,} more faults" if len(faults) > _MOST_FAULTS else ""
        raise InputError(f"{source}: {verdict}: {said}{more}; {advice}") from None
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{source}: {verdict}: {brief(error)}; {advice}") from error


def json_path(location: Sequence[int | str]) -> str:
    """A place in a JSON document.

    Examples
    --------
    >>> json_path(("patterns", 0, "alpha"))
    'patterns[0].alpha'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".") or "$"


def _of_json(fault: Any) -> str:
    kind = fault["type"]
    if kind == "missing":
        return "this is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "nothing of this name is known here"
    told = kind != "json_invalid" and isinstance(fault["input"], str | float | bool | None)
    found = reprlib.repr(fault["input"]) if told else ""
    return f"{str(fault['msg']).removeprefix('Value error, ')}{f' (found {found})' if found else ''}"


DIALECT = "https://json-schema.org/draft/2020-12/schema"
TOP_LEVEL = "document"
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
    found = [Part(TOP_LEVEL, schema)]
    seen: set[str] = set()
    for part in found:  # grows as it goes
        for name, setting in part.schema["properties"].items():
            path = name if part.name == TOP_LEVEL else f"{part.name}.{name}"
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
