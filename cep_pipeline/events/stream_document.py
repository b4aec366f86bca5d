"""The YAML form of a stream schema: what may stand in it, and how it becomes the fields of a `StreamSchema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, model_validator

from cep_pipeline.documents import Document, example_at, line_at, load_document, setting
from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import EVENT_TYPE
from cep_pipeline.events.quality import Quality
from cep_pipeline.events.readers import READERS
from cep_pipeline.events.schema import Misstated, OnMissing, StreamSchema
from cep_pipeline.events.source import (
    TYPE_OF_FILE,
    DerivedAttribute,
    SourceLayout,
    SourceSettings,
    TimestampSettings,
    type_of_all,
)
from cep_pipeline.foreign_text import listed
from cep_pipeline.patterns.expressions import ValueType

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
    on_missing: OnMissing = setting(
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


def load_stream(path: Path) -> StreamSchema:
    """Read and check the file of a stream schema, and make the schema.

    An InputError names the file and the line that breaks a rule, and says what to write.
    """
    document = load_document(path, StreamDocument, "stream schema")
    try:
        return schema_of(document)
    except Misstated as fault:
        example = "" if "write " in str(fault) else example_at(StreamDocument, fault.location)
        raise InputError(f"{path}:{line_at(path, fault.location)}: {fault}{example}") from fault


def schema_of(document: StreamDocument) -> StreamSchema:
    """Make the schema of a document; the `Misstated` of a rule that is broken says where it is."""
    attributes = {name: ValueType(settings.type) for name, settings in document.attributes.items()}
    derived: list[DerivedAttribute] = []
    for name, function in document.derived.items():
        if name in attributes:
            said = f"attribute {name!r}: a name of {name!r} too; write another name for it"
            raise Misstated(said, ("derived", name))
        derived.append(_derived_of(name, function, attributes))
        attributes[name] = _type_of(derived[-1], attributes)
    columns = {name: settings.column or name for name, settings in document.attributes.items()}
    if document.type_attribute is None:
        columns = {EVENT_TYPE: _column_of_type(document), **columns}
        attributes = {EVENT_TYPE: ValueType.STRING, **attributes}
    source = SourceLayout(document.source, document.timestamp, columns)
    for index, path in enumerate(document.source.path):
        if document.type_attribute is not None and TYPE_OF_FILE in path:
            said = f"path {path!r} tells the event type, and so does type_attribute; leave one of them out"
            raise Misstated(said, ("source", "path", index))
    try:
        READERS[document.source.format].check(source)
    except InputError as error:
        raise Misstated(str(error), ("source", "columns")) from error
    return StreamSchema(
        name=document.name,
        base_type=document.base_type,
        type_attribute=document.type_attribute or EVENT_TYPE,
        attributes=attributes,
        types=None if document.types is None else tuple(document.types),
        key=tuple(document.key),
        on_missing=document.on_missing,
        timezone=document.timezone,
        source=source,
        derived=tuple(derived),
        quality=document.quality,
    )


def _column_of_type(document: StreamDocument) -> str:
    """What stands for the column of the attribute `event_type`, where the files have no column of the type."""
    for part in ("attributes", "derived"):
        if EVENT_TYPE in getattr(document, part):
            raise Misstated(
                f"attribute {EVENT_TYPE!r} has the name that is added where there is no type_attribute; write "
                f"`type_attribute: {EVENT_TYPE}` if it holds the types; else give it another name",
                (part, EVENT_TYPE),
            )
    telling = [path for path in document.source.path if TYPE_OF_FILE in path]
    if telling and len(telling) < len(document.source.path):
        said = "the types are told by {type} in some of the paths; write it in all of them"
        raise Misstated(said, ("source", "path"))
    if telling:
        return TYPE_OF_FILE
    if document.base_type is None:
        text = next((name for name, its in document.attributes.items() if its.type == "string"), "symbol")
        raise Misstated(
            f"no setting says what the types of the events are: write for example `type_attribute: {text}`, the "
            "attribute that holds the type; or {type} in source.path where the names of files tell it; or "
            "`base_type: Event`, the one type of all",
            ("source",),
        )
    return type_of_all(document.base_type)


def _derived_of(name: str, settings: DerivedSettings, attributes: dict[str, ValueType]) -> DerivedAttribute:
    function = settings.diff or settings.history
    assert function is not None
    kind = attributes.get(function.of)
    if kind is None or not kind.is_number:
        choices = listed([known for known, its in attributes.items() if its.is_number]) or "none"
        raise Misstated(
            f"derived attribute {name!r}: {function.of!r} is no int64 or float64 attribute that stands before it; "
            f"there are: {choices}",
            ("derived", name),
        )
    if settings.history is not None:
        return DerivedAttribute(name, "history", settings.history.of, settings.history.length)
    return DerivedAttribute(name, "diff", function.of)


def _type_of(derived: DerivedAttribute, attributes: dict[str, ValueType]) -> ValueType:
    return ValueType.FLOAT64_LIST if derived.function == "history" else attributes[derived.of]
