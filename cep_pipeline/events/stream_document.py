"""The YAML form of a stream schema: what may stand in it; `events/schema.py` makes the schema of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, model_validator

from cep_pipeline.documents import Document, setting
from cep_pipeline.events.source import (
    SourceSettings,
    TimestampSettings,
)

Severity = Literal["critical", "warning"]
AttributeType = Literal["int64", "float64", "bool", "string"]


def _or_text(short: str, shape: Any) -> Any:
    """Accept plain text for a mapping whose setting `short` it is; `shape` is the type of both for the JSON Schema."""
    return BeforeValidator(
        lambda value: {short: value} if isinstance(value, str) else value, json_schema_input_type=shape
    )


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

    diff: DiffSettings | None = setting("A difference to the value before.", None, example={"of": "price"})
    history: HistorySettings | None = setting("A list of the last values.", None, example={"of": "price", "length": 10})

    @model_validator(mode="after")
    def _one_function(self) -> DerivedSettings:
        if (self.diff is None) == (self.history is None):
            raise ValueError("a derived attribute has either `diff: {of: …}` or `history: {of: …, length: …}`")
        return self


class Expectation(Document):
    """A check of all values of one attribute. At least one of the bounds or `not_null: true` is given."""

    column: str = setting("Name of the attribute. It is an attribute that is read, not a derived one.", example="price")
    above: float | None = setting(
        "Every value is greater than this number. Bounds are for `int64` and `float64`.", None, example=0
    )
    at_least: float | None = setting(
        "Every value is this number or greater. Not together with `above`.", None, example=-40
    )
    below: float | None = setting("Every value is less than this number.", None, example=1000)
    at_most: float | None = setting("Every value is this number or less. Not together with `below`.", None, example=40)
    not_null: bool = setting("Whether every event must have a value.", False, example=True)
    severity: Severity = setting(
        "What a failed check does: `critical` refuses the day, `warning` only records it.",
        "critical",
        example="warning",
    )

    @property
    def has_bounds(self) -> bool:
        """True if a number must not be too small or too large."""
        return any(bound is not None for bound in (self.above, self.at_least, self.below, self.at_most))

    @model_validator(mode="after")
    def _something(self) -> Expectation:
        if self.above is not None and self.at_least is not None:
            raise ValueError("give `above` or `at_least`, not both")
        if self.below is not None and self.at_most is not None:
            raise ValueError("give `below` or `at_most`, not both")
        if not self.not_null and not self.has_bounds:
            raise ValueError("an expectation has at least one of above, at_least, below, at_most, not_null: true")
        return self


class RowCount(Document):
    """The band of the number of events of a day, compared with earlier days. Outside the band there is a warning."""

    at_least: float = setting("The least share of the median.", 0.25, example=0.5, ge=0)
    at_most: float = setting("The largest multiple of the median.", 4.0, example=2, gt=0)
    days: int = setting("The median is of up to this many published days before.", 20, example=10, ge=1)

    @model_validator(mode="after")
    def _ascends(self) -> RowCount:
        if self.at_least > self.at_most:
            raise ValueError("at_least is greater than at_most")
        return self


class Quality(Document):
    """Requirements that the data of a day must fulfil."""

    max_rejected_share: float = setting(
        "The day is refused when a larger share of its rows is rejected.", 0.01, example=0.05, ge=0, le=1
    )
    expectations: list[Expectation] = setting(
        "Checks of the values of attributes.", example=[{"column": "price", "above": 0}], default_factory=list
    )
    row_count: RowCount = setting(
        "How many events a day should have.",
        RowCount.model_construct(),
        example={"at_least": 0.5, "at_most": 2},
    )


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
