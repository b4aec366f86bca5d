"""What the data of a day must fulfil, as a stream schema says it: the part `quality` of the document."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from cep_pipeline.documents import Document, setting

Severity = Literal["critical", "warning"]


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
