"""The YAML form of a stream schema: what may stand in it, and how it becomes the fields of a `StreamSchema`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BeforeValidator, Field, model_validator

from cep_pipeline.documents import Document, line_of, load_document
from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import SEQ, TIMESTAMP
from cep_pipeline.events.raw_files import PathTemplate
from cep_pipeline.events.readers import READERS
from cep_pipeline.events.source import DerivedAttribute, Expectation, Quality, RowCount, SourceLayout
from cep_pipeline.events.timestamps import check_format, check_timezone
from cep_pipeline.patterns.expressions import ValueType

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal[tuple(READERS)]

Schema = TypeVar("Schema")


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

    format: Format
    path: Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
    header: bool = True
    columns: list[str] = Field(default_factory=list)
    delimiter: str = ","
    quote: str = '"'


class ExpectationSettings(Document):
    """A rule for the values of a column."""

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
    """The rules by which a day is refused or warned of."""

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


def load_stream(path: Path, make: Callable[..., Schema]) -> Schema:
    """Read and check the file of a stream schema, and make the schema with `make`: the constructor of `StreamSchema`.

    Raises
    ------
    InputError
        The file is missing, is no YAML, or breaks a rule; the message names file and line.
    """
    document = load_document(path, StreamDocument, "stream schema")
    try:
        return _schema_of(document, make)
    except _Misstated as fault:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        raise InputError(f"{path}:{line_of(root, fault.location)}: {fault}") from fault


class _Misstated(InputError):
    """A rule that the document breaks, and where in it."""

    def __init__(self, message: str, location: tuple[int | str, ...]) -> None:
        super().__init__(message)
        self.location = location


@contextmanager
def _at(*location: int | str) -> Iterator[None]:
    """Say of an InputError in which part of the document its cause is."""
    try:
        yield
    except _Misstated:
        raise
    except InputError as error:
        raise _Misstated(str(error), location) from error


def _check_names(document: StreamDocument) -> None:
    """Names must be columns of a table too, which knows no case and has a column `day`."""
    folded: dict[str, str] = {}
    for part, names in (("attributes", document.attributes), ("derived", document.derived)):
        for name in names:
            with _at(part, name):
                if name.lower() in ("day", TIMESTAMP, SEQ) or name.startswith("_"):
                    raise InputError(
                        f"attribute {name!r}: this name belongs to the engine; give the attribute another name and "
                        f"name its source column beside the type: source_{name.strip('_')}: {{type: …, column: {name}}}"
                    )
                other = folded.setdefault(name.lower(), name)
                if other != name:
                    raise InputError(f"attributes {other!r} and {name!r} differ in case only; rename one of them")


def _schema_of(document: StreamDocument, make: Callable[..., Schema]) -> Schema:
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
            _known(name, [*document.attributes, TIMESTAMP], "key")
    with _at("type_attribute"):
        _known(document.type_attribute, list(document.attributes), "type_attribute")
        if attributes[document.type_attribute] not in (ValueType.STRING, ValueType.INT64):
            kind = attributes[document.type_attribute].value
            raise InputError(f"type_attribute {document.type_attribute!r} must be string or int64, not {kind}")
    with _at("timezone"):
        check_timezone(document.timezone)
    source, quality = _source_of(document), _quality_of(document, attributes)
    with _at("name"):
        return make(
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


def _known(name: str, choices: list[str], what: str) -> None:
    if name not in choices:
        close = get_close_matches(name, choices, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(choices)}"
        raise InputError(f"{what} {name!r} is no attribute that is read; {hint}")


def _source_of(document: StreamDocument) -> SourceLayout:
    with _at("source", "path"):
        paths = tuple(PathTemplate(text) for text in document.source.path)
    with _at("timestamp", "format"):
        check_format(document.timestamp.format)
    with _at("source"):
        source = SourceLayout(
            format=document.source.format,
            paths=paths,
            timestamp_column=document.timestamp.column,
            timestamp_format=document.timestamp.format,
            columns={name: settings.column or name for name, settings in document.attributes.items()},
            header=document.source.header,
            names=tuple(document.source.columns),
            delimiter=document.source.delimiter,
            quote=document.source.quote,
        )
        READERS[source.format].check(source)
    return source


def _quality_of(document: StreamDocument, attributes: dict[str, ValueType]) -> Quality:
    settings = document.quality
    expectations = []
    for index, expected in enumerate(settings.expectations):
        with _at("quality", "expectations", index):
            _known(expected.column, list(document.attributes), "expectation on")
            expectation = Expectation(**expected.model_dump())
            if expectation.has_bounds and not attributes[expected.column].is_number:
                raise InputError(f"expectation on {expected.column!r}: bounds are for int64 and float64 attributes")
            expectations.append(expectation)
    with _at("quality", "row_count"):
        if settings.row_count.at_least > settings.row_count.at_most:
            raise InputError("quality.row_count: at_least is greater than at_most")
    return Quality(settings.max_rejected_share, tuple(expectations), RowCount(**settings.row_count.model_dump()))


def _derived_of(name: str, settings: DerivedSettings, attributes: dict[str, ValueType]) -> DerivedAttribute:
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
        return DerivedAttribute(name, "history", settings.history.of, settings.history.length)
    return DerivedAttribute(name, "diff", function.of)


def _type_of(derived: DerivedAttribute, attributes: dict[str, ValueType]) -> ValueType:
    return ValueType.FLOAT64_LIST if derived.function == "history" else attributes[derived.of]
