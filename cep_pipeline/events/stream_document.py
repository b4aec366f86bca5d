"""The YAML form of a stream schema: what may stand in it, and how it becomes the fields of a `StreamSchema`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, ConfigDict, field_validator, model_validator

from cep_pipeline.documents import Document, checked, example_at, line_at, load_document, setting
from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import DAY, EVENT_TYPE, SEQ, TIMESTAMP
from cep_pipeline.events.quality import Quality
from cep_pipeline.events.readers import READERS
from cep_pipeline.events.source import (
    TYPE_OF_FILE,
    DerivedAttribute,
    SourceLayout,
    SourceSettings,
    TimestampSettings,
    type_of_all,
)
from cep_pipeline.events.timestamps import check_timezone
from cep_pipeline.foreign_text import did_you_mean, listed
from cep_pipeline.patterns.expressions import ValueType

Schema = TypeVar("Schema")

AttributeType = Literal["int64", "float64", "bool", "string"]


def _or_text(short: str, shape: Any) -> Any:
    """Accept plain text for a mapping whose setting `short` it is; `shape` is the type of both for the JSON Schema."""
    return BeforeValidator(
        lambda value: {short: value} if isinstance(value, str) else value, json_schema_input_type=shape
    )


def _either(*names: str) -> ConfigDict:
    """Exactly one of these settings is given, for the JSON Schema."""
    return ConfigDict(json_schema_extra={"oneOf": [{"required": [name]} for name in names]})


class AttributeSettings(Document):
    """An attribute in its long form, for a source column with another name."""

    type: AttributeType = setting("Type of the attribute.", example="float64")
    column: str | None = setting(
        "Name of the source column. Without it the column has the name of the attribute.", None, example="Temp (C)"
    )


class DiffSettings(Document):
    """The difference between the value of an event and the value before it of the same event type."""

    of: str = setting(
        "An `int64` or `float64` attribute: one that is read, or a `diff` that stands before this one.", example="price"
    )


class HistorySettings(Document):
    """The list of the last values of the same event type, oldest first; the event's own value is the last."""

    of: str = setting(
        "An `int64` or `float64` attribute: one that is read, or a `diff` that stands before this one.", example="price"
    )
    length: int = setting("Number of values in the list.", example=10, ge=1, le=10_000)


class DerivedSettings(Document):
    """A derived attribute: either `diff` or `history`."""

    model_config = _either("diff", "history")

    diff: DiffSettings | None = setting("A difference to the value before.", None, example={"of": "price"})
    history: HistorySettings | None = setting("A list of the last values.", None, example={"of": "price", "length": 10})

    @model_validator(mode="after")
    def _one_function(self) -> DerivedSettings:
        if (self.diff is None) == (self.history is None):
            raise ValueError("a derived attribute has either `diff: {of: …}` or `history: {of: …, length: …}`")
        return self


class StreamDocument(Document):
    """A stream schema: what the raw files of a stream look like, and what its events are."""

    model_config = ConfigDict(title="Stream schema")

    name: str = setting(
        "Name of the stream, as in `pipeline.yaml`: letters, digits and `_`. It names the folder and the "
        "namespace of the stream's tables.",
        example="cold_rooms",
    )
    timezone: str = setting(
        "Time zone of times without an offset, and of the stream's days: an IANA name.",
        "UTC",
        example="Europe/Copenhagen",
    )
    base_type: str | None = setting(
        "An event type that every event has besides its own, so that a pattern can ask for any event.",
        None,
        example="Trade",
    )
    type_attribute: str | None = setting(
        "The `string` or `int64` attribute whose value is the event's type. Without it the type is what "
        "stands for `{type}` in the path of the event's file, or else all events have the `base_type`; an attribute "
        "`event_type` is added that holds it.",
        None,
        example="symbol",
    )
    types: list[str] | None = setting(
        "All event types of the stream. With it, a pattern that names another type is refused; without it "
        "any type is accepted. It rejects no rows.",
        None,
        example=["SPY", "IBM"],
    )
    timestamp: Annotated[TimestampSettings, _or_text("column", str | TimestampSettings)] = setting(
        "The column with the time of an event. Plain text is the name of a column with `iso` times.",
        example={"column": "time", "format": "epoch_ms"},
    )
    attributes: dict[str, Annotated[AttributeSettings, _or_text("type", AttributeType | AttributeSettings)]] = setting(
        "The attributes that are read, each with its type. Names differ in more than case, do not begin with `_`, "
        "and are not `day`, `timestamp` or `seq`.",
        example={"symbol": "string", "price": "float64"},
    )
    derived: dict[str, DerivedSettings] = setting(
        "Attributes that are computed of others, per event type.",
        example={"change": {"diff": {"of": "price"}}},
        default_factory=dict,
    )
    key: list[str] = setting(
        "Attributes, or `timestamp`, that together identify an event of a day. A later row with the same key is "
        "rejected. Without a key there are no duplicates.",
        example=["room", "timestamp"],
        default_factory=list,
    )
    on_missing: Literal["error", "empty", "skip"] = setting(
        "How a day without files is treated: `error` fails, `empty` publishes the day without events, and "
        "`skip` does not publish it.",
        "error",
        example="skip",
    )
    source: SourceSettings = setting(
        "The layout of the raw files.", example={"format": "csv", "path": "{day:%Y-%m-%d}.csv"}
    )
    quality: Quality = setting(
        "What the data must fulfil.", Quality.model_construct(), example={"max_rejected_share": 0.05}
    )

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        return checked(check_timezone, value)

    @field_validator("types")
    @classmethod
    def _each_once(cls, types: list[str] | None) -> list[str] | None:
        for name, often in Counter(types or ()).items():
            if not name or often > 1:
                raise ValueError(f"each type has a name and is listed once ({name!r} is not)")
        return types


def load_stream(path: Path, make: Callable[..., Schema]) -> Schema:
    """Read and check the file of a stream schema, and make the schema with `make`: the constructor of `StreamSchema`.

    An InputError names the file and the line that breaks a rule, and says what to write.
    """
    document = load_document(path, StreamDocument, "stream schema")
    try:
        return schema_of(document, make)
    except _Misstated as fault:
        example = "" if "write " in str(fault) else example_at(StreamDocument, fault.location)
        raise InputError(f"{path}:{line_at(path, fault.location)}: {fault}{example}") from fault


class _Misstated(InputError):
    """A rule that the document breaks, and where in it."""

    def __init__(self, message: str, location: tuple[int | str, ...]) -> None:
        super().__init__(message)
        self.location = location


_DOTTED = re.compile(r"[a-z_]+(\.[a-z_]+)*")


@contextmanager
def _at(*location: int | str) -> Iterator[None]:
    """Say of an InputError in which part of the document its cause is, or in the setting with which its text begins."""
    try:
        yield
    except _Misstated:
        raise
    except InputError as error:
        named = _DOTTED.match(str(error))
        parts = tuple(named.group().split(".")) if named else ()
        raise _Misstated(str(error), parts if parts[: len(location)] == location else location) from error


def _check_names(document: StreamDocument) -> None:
    """All names must be columns of one table, which knows no case and has a column `day`."""
    owners: dict[str, str] = {}
    for part, name in [("attributes", one) for one in document.attributes] + [
        ("derived", one) for one in document.derived
    ]:
        folded, said = name.lower(), f"attribute {name!r}"
        with _at(part, name):
            if folded in (DAY, TIMESTAMP, SEQ) or name.startswith("_"):
                raise InputError(f"{said}: this name belongs to the engine; {_renamed(document, name)}")
            if folded in owners:
                raise InputError(
                    f"{said}: a name of {owners[folded]!r} too, and names differ in more than case; "
                    f"{_renamed(document, name)}"
                )
        owners[folded] = name


def _renamed(document: StreamDocument, name: str) -> str:
    """What to write for an attribute that needs another name: one that is read keeps its source column."""
    other = f"source_{name.strip('_').lower()}"
    if (settings := document.attributes.get(name)) is None:
        return f"write another name for it, for example `{other}`"
    return (
        "give it another name and name its source column beside the type: write for example "
        f"`{other}: {{type: {settings.type}, column: {settings.column or name}}}`"
    )


def schema_of(document: StreamDocument, make: Callable[..., Schema]) -> Schema:
    """Make the schema of a document; an InputError says what rule it breaks."""
    _check_names(document)
    attributes = {name: ValueType(settings.type) for name, settings in document.attributes.items()}
    derived: list[DerivedAttribute] = []
    for name, function in document.derived.items():
        with _at("derived", name):
            derived.append(_derived_of(name, function, attributes))
        attributes[name] = _type_of(derived[-1], attributes)
    for index, name in enumerate(document.key):
        with _at("key", index):
            if name in document.derived:
                raise InputError(f"key {name!r} is a derived attribute; a key is made of attributes that are read")
            added = [] if document.type_attribute else [EVENT_TYPE]
            _known(name, [*document.attributes, TIMESTAMP, *added], "key")
    type_attribute = document.type_attribute
    if type_attribute is None:
        attributes = {EVENT_TYPE: ValueType.STRING, **attributes}
        type_attribute = EVENT_TYPE
    else:
        _check_type_attribute(document, type_attribute, attributes)
    source = _source_of(document)
    _check_quality(document, attributes)
    with _at("name"):
        return make(
            name=document.name,
            base_type=document.base_type,
            type_attribute=type_attribute,
            attributes=attributes,
            types=None if document.types is None else tuple(document.types),
            key=tuple(document.key),
            on_missing=document.on_missing,
            timezone=document.timezone,
            source=source,
            derived=tuple(derived),
            quality=document.quality,
        )


def _check_type_attribute(document: StreamDocument, name: str, attributes: Mapping[str, ValueType]) -> None:
    with _at("type_attribute"):
        _known(name, list(document.attributes), "type_attribute")
        if attributes[name] not in (ValueType.STRING, ValueType.INT64):
            raise InputError(f"type_attribute {name!r} must be string or int64, not {attributes[name].value}")
    for index, path in enumerate(document.source.path):
        if TYPE_OF_FILE in path:
            with _at("source", "path", index):
                raise InputError(
                    f"path {path!r} tells the event type, and so does type_attribute; leave one of them out"
                )


def _column_of_type(document: StreamDocument) -> dict[str, str]:
    """The attribute `event_type` with what stands for its column, where the files have no column of the type."""
    if document.type_attribute is not None:
        return {}
    for name in (*document.attributes, *document.derived):
        if name.lower() == EVENT_TYPE:
            with _at("derived" if name in document.derived else "attributes", name):
                raise InputError(
                    f"attribute {name!r} has the name that is added where there is no type_attribute; write "
                    f"`type_attribute: {name}` if it holds the types; else {_renamed(document, name)}"
                )
    telling = [path for path in document.source.path if TYPE_OF_FILE in path]
    if telling and len(telling) < len(document.source.path):
        with _at("source", "path"):
            raise InputError("the types are told by {type} in some of the paths; write it in all of them")
    if telling:
        return {EVENT_TYPE: TYPE_OF_FILE}
    if document.base_type is None:
        text = next((name for name, its in document.attributes.items() if its.type == "string"), "symbol")
        raise InputError(
            f"no setting says what the types of the events are: write for example `type_attribute: {text}`, the "
            "attribute that holds the type; or {type} in source.path where the names of files tell it; or "
            "`base_type: Event`, the one type of all"
        )
    return {EVENT_TYPE: type_of_all(document.base_type)}


def _known(name: str, choices: list[str], what: str) -> None:
    if name not in choices:
        hint = did_you_mean(name, choices) or f"; there are: {listed(choices)}"
        raise InputError(f"{what} {name!r} is no attribute that is read{hint}")


def _source_of(document: StreamDocument) -> SourceLayout:
    with _at("source"):
        columns = {name: settings.column or name for name, settings in document.attributes.items()}
        source = SourceLayout(document.source, document.timestamp, {**_column_of_type(document), **columns})
        READERS[source.settings.format].check(source)
    return source


def _check_quality(document: StreamDocument, attributes: dict[str, ValueType]) -> None:
    for index, expected in enumerate(document.quality.expectations):
        with _at("quality", "expectations", index):
            _known(expected.column, list(document.attributes), "expectation on")
            if expected.has_bounds and not attributes[expected.column].is_number:
                raise InputError(f"expectation on {expected.column!r}: bounds are for int64 and float64 attributes")


def _derived_of(name: str, settings: DerivedSettings, attributes: dict[str, ValueType]) -> DerivedAttribute:
    function = settings.diff or settings.history
    assert function is not None
    kind = attributes.get(function.of)
    if kind is None or not kind.is_number:
        choices = listed([known for known, its in attributes.items() if its.is_number]) or "none"
        raise InputError(
            f"derived attribute {name!r}: {function.of!r} is no int64 or float64 attribute that stands before it; "
            f"there are: {choices}"
        )
    if settings.history is not None:
        return DerivedAttribute(name, "history", settings.history.of, settings.history.length)
    return DerivedAttribute(name, "diff", function.of)


def _type_of(derived: DerivedAttribute, attributes: dict[str, ValueType]) -> ValueType:
    return ValueType.FLOAT64_LIST if derived.function == "history" else attributes[derived.of]
