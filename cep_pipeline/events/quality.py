"""What the data of a day must fulfil, as a stream schema says it: the part `quality` of the document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, model_validator

from cep_pipeline.documents import Document, setting
from cep_pipeline.patterns.expressions import ValueType

Severity = Literal["critical", "warning"]
TOLD = {"description", "notes"}
"""Texts that Great Expectations keeps with its result."""

_BOUNDS: dict[str, Any] = {
    "anyOf": [
        *({"required": [name]} for name in ("above", "at_least", "below", "at_most")),
        {"required": ["not_null"], "properties": {"not_null": {"const": True}}},
    ],
    "not": {"anyOf": [{"required": ["above", "at_least"]}, {"required": ["below", "at_most"]}]},
}
"""The rules of an expectation that concern several settings, for the JSON Schema."""


class Expectation(Document):
    """A check of all values of one attribute. At least one of the bounds or `not_null: true` is given."""

    model_config = ConfigDict(json_schema_extra=_BOUNDS)

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


@cache
def expectation_forms() -> Mapping[str, Any]:
    """The JSON Schema of each expectation that Great Expectations has for pandas, as it ships them.

    Great Expectations itself, which takes seconds to import, is not imported.
    """
    found = find_spec("great_expectations")
    assert found is not None and found.submodule_search_locations
    folder = Path(found.submodule_search_locations[0], "expectations", "core", "schemas")
    forms = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("[A-Z]*.json"))]
    told = [(form["properties"]["metadata"]["properties"], form) for form in forms]
    return {
        said["expectation_type"]["const"]: form
        for said, form in told
        if "Pandas" in said["supported_data_sources"]["const"]
    }


class GreatExpectation(Document):
    """An expectation of Great Expectations, in its own words. It looks at the profile of the day, which has one row."""

    type: str = setting(
        "The expectation, by Great Expectations' name of it.",
        example="expect_column_values_to_be_between",
        json_schema_extra=lambda schema: schema.update(enum=list(expectation_forms())),
    )
    kwargs: dict[str, Any] = setting(
        "Its arguments. A column is one of the profile.", example={"column": "price_mean", "min_value": 1}
    )
    severity: Literal["critical", "warning", "info"] = setting(
        "What a failed check does: `critical` refuses the day, `warning` tells you, `info` only records it.",
        "critical",
        example="warning",
    )
    description: str | None = setting(
        "What it checks, in your words. Messages and Data Docs show it.", None, example="A normal price level"
    )
    notes: str | None = setting("Why it is there. Data Docs keep it.", None, example="Asked for by the desk in 2024")

    @property
    def described(self) -> dict[str, str]:
        """The description and the notes, where there are any."""
        return self.model_dump(include=TOLD, exclude_none=True)


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
    great_expectations: list[GreatExpectation] = setting(
        "Checks of the day as a whole, in Great Expectations' own words.",
        example=[{"type": "expect_column_values_to_be_between", "kwargs": {"column": "price_mean", "min_value": 1}}],
        default_factory=list,
    )
    row_count: RowCount = setting(
        "How many events a day should have.",
        RowCount.model_construct(),
        example={"at_least": 0.5, "at_most": 2},
    )


def profile_columns(attributes: Mapping[str, ValueType]) -> dict[str, str]:
    """Return the columns of the profile of a day, each with the attribute that it tells of; empty: the whole day."""
    columns = dict.fromkeys(("events", "rejected", "rejected_share"), "")
    for name, kind in attributes.items():
        columns[f"{name}_missing"] = name
        if kind is ValueType.FLOAT64:
            columns[f"{name}_nan"] = name
        if kind.is_number:
            columns |= {f"{name}_{what}": name for what in ("min", "max", "mean")}
    return columns
