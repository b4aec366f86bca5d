"""Validation of a day's events with Great Expectations, in one pass over them.

Great Expectations takes seconds to import: it is imported by the functions here, never with the module.
"""

from __future__ import annotations

import functools
import logging
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import DataError
from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.source import Expectation, Quality
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.patterns.expressions import ValueType

if TYPE_CHECKING:
    import pandas as pd

_PANDAS_TYPES = {
    ValueType.INT64: "int64",
    ValueType.FLOAT64: "float64",
    ValueType.BOOL: "bool",
    ValueType.STRING: "CategoricalDtypeType",
}


class FailedValidation(DataError):
    """A critical expectation failed; `document` is the validation's result document, to be kept with the run."""

    def __init__(self, message: str, document: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.document = document

    def __reduce__(self) -> tuple[Any, ...]:
        return FailedValidation, (str(self), self.document)


@dataclass(frozen=True)
class Validation:
    """The outcome of validating a day.

    Parameters
    ----------
    day
        The day.
    document
        JSON: `success` (no critical expectation failed), `statistics`, and of each expectation its name, arguments,
        severity, success and what was observed. Kept with the run.
    failures, warnings
        Sentences for a person: failed critical expectations, and failed others.
    """

    day: date
    document: Mapping[str, Any]
    failures: tuple[str, ...]
    warnings: tuple[str, ...]

    def require(self, stream: str) -> None:
        """Refuse the day if a critical expectation failed.

        Raises
        ------
        FailedValidation
            Naming each failed expectation with counts and examples.
        """
        if self.failures:
            raise FailedValidation(
                f"stream {stream!r}, day {self.day}: the events failed validation, nothing of the day is published:\n"
                + "\n".join(f"  {failure}" for failure in self.failures)
                + "\nCorrect the raw files, or change the expectations in the stream schema",
                self.document,
            )


def validated_columns(schema: StreamSchema) -> list[str]:
    """The columns that validation looks at."""
    quality = schema.quality or Quality()
    return list(
        dict.fromkeys([TIMESTAMP, schema.type_attribute, *schema.key, *(e.column for e in quality.expectations)])
    )


def validate(
    batches: Iterable[pa.Table], schema: StreamSchema, day: date, *, earlier_row_counts: Sequence[int] = ()
) -> Validation:
    """Validate the events of a day.

    Parameters
    ----------
    batches
        The day's events in parts, each with `validated_columns`; each part is looked at once.
    earlier_row_counts
        Numbers of events of earlier published days, the latest last.

    Returns
    -------
    Validation
        Whatever its outcome: `require` raises.

    Notes
    -----
    Expected are, as critical: the keys (timestamp, event type, declared key) are there and of their types, and
    timestamps lie inside the day; then what the schema declares. A number of events outside the band around the median
    of earlier days is a warning. Every part is one Great Expectations batch, validated by one suite in one pass; counts
    of the parts are added.
    """
    quality = schema.quality or Quality()
    tally = _Tally()
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if batch.num_rows:
            frame = _frame(batch, schema, quality)
            tally.add(_validate_batch(frame, _row_expectations(schema, quality, day, set(frame.columns))))
    median = statistics.median(earlier_row_counts[-quality.row_count.days :]) if earlier_row_counts else None
    if median is not None:
        import pandas as pd

        tally.add(_validate_batch(pd.DataFrame({_ROW_COUNT: [rows]}), [_row_count_expectation(quality, median)]))
    results = tally.results()
    failures = tuple(_sentence(r) for r in results if not r["success"] and r["severity"] == "critical")
    warnings = tuple(_sentence(r) for r in results if not r["success"] and r["severity"] != "critical")
    document = {
        "success": not failures,
        "day": day.isoformat(),
        "engine": f"great_expectations {_great_expectations().__version__}",
        "statistics": {
            "events": rows,
            "evaluated_expectations": len(results),
            "successful_expectations": sum(result["success"] for result in results),
            "median_of_earlier_days": median,
        },
        "results": results,
    }
    return Validation(day, document, failures, warnings)


def check_rejected_share(
    schema: StreamSchema, day: date, accepted: int, rejected: int, examples: Sequence[tuple[str, int, str]]
) -> None:
    """Refuse a day with too many rejected rows.

    Parameters
    ----------
    examples
        (file, line, reason) of some of them.

    Raises
    ------
    DataError
        The share is above the schema's `max_rejected_share`.
    """
    limit = (schema.quality or Quality()).max_rejected_share
    total = accepted + rejected
    if not rejected or rejected <= limit * total:
        return
    shown = "\n".join(f"  {file}:{line}: {reason}" for file, line, reason in examples)
    more = f"\n  … and {rejected - len(examples)} more" if rejected > len(examples) else ""
    raise DataError(
        f"stream {schema.name!r}, day {day}: {rejected} of {total} rows are rejected ({rejected / total:.2%}), more "
        f"than max_rejected_share ({limit:.2%}) allows; nothing of the day is published:\n{shown}{more}\n"
        "Correct the raw files or the stream schema, or raise quality.max_rejected_share in it"
    )


def start_import() -> Future[Any]:
    """Begin to import Great Expectations in the background; the result is there when it is imported."""
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="import-great-expectations")
    done = executor.submit(_great_expectations)
    executor.shutdown(wait=False)
    return done


def _great_expectations() -> Any:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations

    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    return great_expectations


def _row_expectations(schema: StreamSchema, quality: Quality, day: date, columns: set[str]) -> list[Any]:
    _great_expectations()
    import great_expectations.expectations as gxe

    begin, end = day_bounds(day, schema.timezone)
    expectations: list[Any] = []
    for column in dict.fromkeys([TIMESTAMP, schema.type_attribute, *schema.key]):
        kind = ValueType.INT64 if column == TIMESTAMP else schema.attributes[column]
        expectations.append(gxe.ExpectColumnValuesToNotBeNull(column=column, severity="critical"))
        expectations.append(
            gxe.ExpectColumnValuesToBeOfType(column=column, type_=_PANDAS_TYPES[kind], severity="critical")
        )
    expectations.append(
        gxe.ExpectColumnValuesToBeBetween(
            column=TIMESTAMP, min_value=begin, max_value=end, strict_max=True, severity="critical"
        )
    )
    for declared in quality.expectations:
        expectations.extend(_declared(declared))
        if _nan_column(declared) in columns:
            expectations.append(
                gxe.ExpectColumnValuesToBeInSet(
                    column=_nan_column(declared), value_set=[False], severity=declared.severity
                )
            )
    return expectations


def _declared(expectation: Expectation) -> list[Any]:
    import great_expectations.expectations as gxe

    made: list[Any] = []
    if expectation.not_null:
        made.append(gxe.ExpectColumnValuesToNotBeNull(column=expectation.column, severity=expectation.severity))
    if expectation.has_bounds:
        strict_min, strict_max = expectation.above is not None, expectation.below is not None
        made.append(
            gxe.ExpectColumnValuesToBeBetween(
                column=expectation.column,
                min_value=expectation.above if strict_min else expectation.at_least,
                max_value=expectation.below if strict_max else expectation.at_most,
                strict_min=strict_min,
                strict_max=strict_max,
                severity=expectation.severity,
            )
        )
    return made


def _row_count_expectation(quality: Quality, median: float) -> Any:
    import great_expectations.expectations as gxe

    return gxe.ExpectColumnValuesToBeBetween(
        column=_ROW_COUNT,
        min_value=quality.row_count.at_least * median,
        max_value=quality.row_count.at_most * median,
        severity="warning",
    )


def _validate_batch(frame: pd.DataFrame, expectations: list[Any]) -> list[dict[str, Any]]:
    batch = _batch_definition().get_batch({"dataframe": frame})
    suite = _great_expectations().ExpectationSuite(name="events", expectations=expectations)
    outcome = batch.validate(suite, result_format={"result_format": "SUMMARY", "partial_unexpected_count": 3})
    results: list[dict[str, Any]] = outcome.to_json_dict()["results"]
    for result in results:
        if result["exception_info"].get("raised_exception"):
            raise DataError(
                f"validation could not be carried out: {result['expectation_config']['type']}: "
                f"{result['exception_info'].get('exception_message')}"
            )
    return results


@functools.cache
def _batch_definition() -> Any:
    """One for the process: making a context takes longer than validating a small day."""
    context = _great_expectations().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    asset = context.data_sources.add_pandas(name="events").add_dataframe_asset(name="day")
    return asset.add_batch_definition_whole_dataframe("part")


_ROW_COUNT = "_events"
"""Column of the number of events; names of streams' attributes do not begin with `_`."""


class _Tally:
    """Results of expectations, added up over the parts of a day."""

    def __init__(self) -> None:
        self._results: dict[str, dict[str, Any]] = {}

    def add(self, results: Iterable[Mapping[str, Any]]) -> None:
        for result in results:
            configuration = result["expectation_config"]
            arguments = {k: v for k, v in configuration["kwargs"].items() if k != "batch_id" and v is not None}
            key = f"{configuration['type']} {sorted(arguments.items())} {configuration['severity']}"
            total = self._results.setdefault(
                key,
                {
                    "expectation": configuration["type"],
                    "arguments": arguments,
                    "severity": configuration["severity"],
                    "success": True,
                    "element_count": 0,
                    "unexpected_count": 0,
                    "examples": [],
                    "observed": None,
                },
            )
            seen = result["result"]
            total["success"] = total["success"] and bool(result["success"])
            total["element_count"] += seen.get("element_count", 0)
            total["unexpected_count"] += seen.get("unexpected_count", 0)
            total["examples"] = (total["examples"] + seen.get("partial_unexpected_list", []))[:3]
            total["observed"] = seen.get("observed_value", total["observed"])

    def results(self) -> list[dict[str, Any]]:
        return list(self._results.values())


def _sentence(result: Mapping[str, Any]) -> str:
    if result["arguments"].get("column") == _ROW_COUNT:
        least, most = result["arguments"]["min_value"], result["arguments"]["max_value"]
        return f"the day has {result['examples'][0]:,} events; earlier days let expect {least:,.0f} to {most:,.0f}"
    arguments = {name: value for name, value in result["arguments"].items() if name != "column"}
    said = ", ".join(f"{name}={value}" for name, value in arguments.items())
    text = f"{result['arguments'].get('column', 'table')}: {result['expectation']}({said}) fails"
    if result["unexpected_count"]:
        text += f" for {result['unexpected_count']} of {result['element_count']} values"
    if result["examples"]:
        text += f", such as {', '.join(map(str, result['examples']))}"
    if result["observed"] is not None:
        text += f"; observed: {result['observed']}"
    return text


def _frame(batch: pa.Table, schema: StreamSchema, quality: Quality) -> pd.DataFrame:
    """The validated columns as pandas; nulls keep an integer or bool column from having its type, and so are seen."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in validated_columns(schema):
        column = batch.column(name)
        if name == TIMESTAMP:
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
        elif schema.attributes[name] is ValueType.STRING:
            column = column.dictionary_encode().unify_dictionaries()
        columns[name] = column.to_pandas()
    # To Great Expectations NaN is as missing as null; here it is a value, for which no bound can hold.
    for declared in quality.expectations:
        if declared.has_bounds and schema.attributes[declared.column] is ValueType.FLOAT64:
            not_a_number = pc.fill_null(pc.is_nan(batch.column(declared.column)), False)
            if pc.any(not_a_number).as_py():
                columns[_nan_column(declared)] = not_a_number.to_pandas()
    return pd.DataFrame(columns)


def _nan_column(expectation: Expectation) -> str:
    return f"{expectation.column} is NaN"
