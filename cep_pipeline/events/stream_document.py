"""The YAML form of a stream schema: what may stand in it, and how it becomes a `StreamSchema`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, model_validator

from cep_pipeline.documents import Document, load_document
from cep_pipeline.errors import InputError
from cep_pipeline.events.paths import PathTemplate
from cep_pipeline.events.schema import SEQ, TIMESTAMP, StreamSchema, attribute_type
from cep_pipeline.events.source import Derived, Expectation, Quality, RowCount, Source
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.warehouse.fingerprints import digest_of


def _as_mapping(short: str) -> Any:
    """Accept plain text for a mapping whose setting `short` it is."""
    return BeforeValidator(lambda value: {short: value} if isinstance(value, str) else value)


class TimestampSettings(Document):
    """Column of the timestamp, and how it is written."""

    column: str
    format: str = "iso"


class AttributeSettings(Document):
    """Type of an attribute, and the source column that it is read from (none: the one of its name)."""

    type: Literal["int64", "float64", "bool", "string"]
    column: str | None = None


class DiffSettings(Document):
    of: str


class HistorySettings(Document):
    of: str
    length: int = Field(ge=1, le=10_000)


class DerivedSettings(Document):
    """One derived attribute: `diff: {of: …}` or `history: {of: …, length: …}`."""

    diff: DiffSettings | None = None
    history: HistorySettings | None = None

    @model_validator(mode="after")
    def _one_function(self) -> DerivedSettings:
        if (self.diff is None) == (self.history is None):
            raise ValueError("a derived attribute has either `diff: {of: …}` or `history: {of: …, length: …}`")
        return self


class SourceSettings(Document):
    """Layout of the raw files."""

    format: Literal["csv", "parquet"]
    path: Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
    header: bool = True
    columns: list[str] = Field(default_factory=list)
    delimiter: str = ","
    quote: str = '"'


class ExpectationSettings(Document):
    """What the values of a column must be."""

    column: str
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    not_null: bool = False
    severity: Literal["critical", "warning"] = "critical"

    @model_validator(mode="after")
    def _something(self) -> ExpectationSettings:
        if self.above is not None and self.at_least is not None:
            raise ValueError("give `above` or `at_least`, not both")
        if self.below is not None and self.at_most is not None:
            raise ValueError("give `below` or `at_most`, not both")
        if not self.not_null and all(v is None for v in (self.above, self.at_least, self.below, self.at_most)):
            raise ValueError("an expectation has at least one of above, at_least, below, at_most, not_null: true")
        return self


class RowCountSettings(Document):
    """Band of the number of events, in multiples of the median of earlier days."""

    at_least: float = Field(default=0.25, ge=0)
    at_most: float = Field(default=4.0, gt=0)
    days: int = Field(default=20, ge=1)


class QualitySettings(Document):
    """When a day is refused or warned of."""

    max_rejected_share: float = Field(default=0.01, ge=0, le=1)
    expectations: list[ExpectationSettings] = Field(default_factory=list)
    row_count: RowCountSettings = RowCountSettings()


class StreamDocument(Document):
    """The whole of a stream schema's file."""

    name: str
    timezone: str = "UTC"
    base_type: str | None = None
    type_attribute: str
    types: list[str] | None = None
    timestamp: Annotated[TimestampSettings, _as_mapping("column")]
    attributes: dict[str, Annotated[AttributeSettings, _as_mapping("type")]]
    derived: dict[str, DerivedSettings] = Field(default_factory=dict)
    key: list[str] = Field(default_factory=list)
    on_missing: Literal["error", "empty", "skip"] = "error"
    source: SourceSettings
    quality: QualitySettings = QualitySettings()


def load_stream(path: Path) -> StreamSchema:
    """Read and check a stream schema; see `StreamSchema.load`."""
    document = load_document(path, StreamDocument, "stream schema")
    try:
        return _schema_of(document)
    except InputError as error:
        raise InputError(f"{path}:{_line_of(path, str(error))}: {error}") from error


def schema_digest(schema: StreamSchema) -> str:
    """Digest of the parts of a schema that events follow from; bounds of quality and missing days are none of them."""
    source = schema.source
    return digest_of(
        {
            "timezone": schema.timezone,
            "type_attribute": schema.type_attribute,
            "attributes": {name: kind.value for name, kind in schema.attributes.items()},
            "key": list(schema.key),
            "derived": [asdict(derived) for derived in schema.derived],
            "source": None if source is None else asdict(source),
        }
    )


def _check_names(names: Iterable[str]) -> None:
    """Names must be columns of a table too, which knows no case and has a column `day`."""
    folded: dict[str, str] = {}
    for name in names:
        if name.lower() in ("day", TIMESTAMP, SEQ) or name.startswith("_"):
            raise InputError(
                f"attribute {name!r}: this name belongs to the engine; give the attribute another name and name its "
                f"source column beside the type: source_{name.strip('_')}: {{type: …, column: {name}}}"
            )
        other = folded.setdefault(name.lower(), name)
        if other != name:
            raise InputError(f"attributes {other!r} and {name!r} differ in case only; rename one of them")


def _schema_of(document: StreamDocument) -> StreamSchema:
    _check_names([*document.attributes, *document.derived])
    attributes = {
        name: attribute_type(settings.type, where=f"attribute {name!r}")
        for name, settings in document.attributes.items()
    }
    derived: list[Derived] = []
    for name, function in document.derived.items():
        derived.append(_derived_of(name, function, attributes, derived))
        attributes[name] = _type_of(derived[-1], attributes)
    source = Source(
        format=document.source.format,
        paths=tuple(PathTemplate(text) for text in document.source.path),
        timestamp_column=document.timestamp.column,
        timestamp_format=document.timestamp.format,
        columns={name: settings.column or name for name, settings in document.attributes.items()},
        header=document.source.header,
        names=tuple(document.source.columns),
        delimiter=document.source.delimiter,
        quote=document.source.quote,
    )
    raw = {name for name in attributes if name not in document.derived}
    for name in document.key:
        if name in document.derived:
            raise InputError(f"key {name!r} is a derived attribute; a key is made of attributes that are read")
    quality = Quality(
        max_rejected_share=document.quality.max_rejected_share,
        expectations=tuple(_expectation_of(e, attributes, raw) for e in document.quality.expectations),
        row_count=RowCount(**document.quality.row_count.model_dump()),
    )
    if quality.row_count.at_least > quality.row_count.at_most:
        raise InputError("quality.row_count: at_least is greater than at_most")
    return StreamSchema(
        name=document.name,
        base_type=document.base_type,
        type_attribute=document.type_attribute,
        attributes=attributes,
        types=None if document.types is None else tuple(document.types),
        key=tuple(document.key),
        on_missing=document.on_missing,
        timezone=document.timezone,
        source=source,
        derived=tuple(derived),
        quality=quality,
    )


def _derived_of(
    name: str, settings: DerivedSettings, attributes: dict[str, ValueType], earlier: list[Derived]
) -> Derived:
    if name in attributes:
        raise InputError(f"derived attribute {name!r} has the name of another attribute")
    function = settings.diff or settings.history
    assert function is not None
    kind = attributes.get(function.of)
    if kind is None or not kind.is_number:
        choices = ", ".join(known for known, its in attributes.items() if its.is_number) or "none"
        raise InputError(
            f"derived attribute {name!r}: {function.of!r} is no int64 or float64 attribute that stands before it; "
            f"there are: {choices}"
        )
    if settings.history is not None:
        return Derived(name, "history", settings.history.of, settings.history.length)
    return Derived(name, "diff", function.of)


def _type_of(derived: Derived, attributes: dict[str, ValueType]) -> ValueType:
    return ValueType.FLOAT64_LIST if derived.function == "history" else attributes[derived.of]


def _expectation_of(settings: ExpectationSettings, attributes: dict[str, ValueType], raw: set[str]) -> Expectation:
    expectation = Expectation(**settings.model_dump())
    if settings.column == TIMESTAMP:
        raise InputError("expectation on 'timestamp': that it is there and inside the day is always expected")
    if settings.column not in raw:
        raise InputError(
            f"expectation on {settings.column!r}: no attribute that is read; there are: {', '.join(sorted(raw))}"
        )
    if expectation.has_bounds and not attributes[settings.column].is_number:
        raise InputError(f"expectation on {settings.column!r}: bounds are for int64 and float64 attributes")
    return expectation


def _line_of(path: Path, message: str) -> int:
    """The first line whose key or value the message quotes, so that the error points into the file."""
    root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    scalars: list[tuple[int, str]] = []

    def collect(node: yaml.Node) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                collect(key)
                collect(value)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                collect(item)
        elif isinstance(node, yaml.ScalarNode):
            scalars.append((node.start_mark.line + 1, str(node.value)))

    if root is not None:
        collect(root)
    quoted = [(message.find(repr(text)), line) for line, text in scalars if repr(text) in message]
    if quoted:
        return min(quoted)[1]
    named = [line for line, text in scalars if message.startswith(text) or f" {text} " in f" {message} "]
    return named[0] if named else 1
