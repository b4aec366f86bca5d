"""Validation of a day's events: the tasks that write them count, and Great Expectations judges the sums of the counts.

Great Expectations takes seconds to import: it is imported by the functions here, never with the module.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import date
from importlib.util import LazyLoader, find_spec, module_from_spec
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import DataError
from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.source import Expectation, Quality, Severity
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.guarded import without_collecting
from cep_pipeline.patterns.expressions import ValueType

_EXAMPLES = 3
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

    The document, which is kept with the run, is JSON: `success` (no critical expectation failed), `statistics`, and of
    each expectation its name, arguments, severity, success and what was observed. Failed critical expectations are
    `failures`, others `warnings`, as sentences for a person.
    """

    day: date
    document: Mapping[str, Any]
    failures: tuple[str, ...]
    warnings: tuple[str, ...]

    def require(self, stream: str) -> None:
        """Refuse the day if a critical expectation failed: FailedValidation names each with counts and examples."""
        if self.failures:
            raise FailedValidation(
                f"stream {stream!r}, day {self.day}: the events failed validation, nothing of the day is published:\n"
                + "\n".join(f"  {failure}" for failure in self.failures)
                + "\nCorrect the raw files, or change the expectations in the stream schema",
                self.document,
            )


class Bounds(NamedTuple):
    """The bounds that values of a column must keep; None is open."""

    column: str
    least: float | None
    most: float | None
    strict_least: bool
    strict_most: bool


@dataclass(frozen=True)
class Unexpected:
    """The number of values that are not as expected, and the first few of them."""

    count: int = 0
    examples: tuple[Any, ...] = ()

    def __add__(self, other: Unexpected) -> Unexpected:
        return Unexpected(self.count + other.count, (self.examples + other.examples)[:_EXAMPLES])


@dataclass(frozen=True)
class Figures:
    """Counts over some events of a day, from which Great Expectations can tell how the day is; they add up.

    `missing` has the number of nulls of each column and, as Great Expectations counts, of its NaNs; `nans` the NaNs of
    columns with bounds; `outside` the values that do not keep bounds, NaN and null not among them.
    """

    rows: int = 0
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    nans: Mapping[str, int] = field(default_factory=dict)
    outside: Mapping[Bounds, Unexpected] = field(default_factory=dict)

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.rows + other.rows,
            {**other.types, **self.types},
            _sums(self.missing, other.missing, 0),
            _sums(self.nans, other.nans, 0),
            _sums(self.outside, other.outside, Unexpected()),
        )


def _sums(one: Mapping[Any, Any], other: Mapping[Any, Any], nothing: Any) -> dict[Any, Any]:
    return {key: one.get(key, nothing) + other.get(key, nothing) for key in {**one, **other}}


def figures_of(events: pa.Table, schema: StreamSchema, day: date) -> Figures:
    """Return what the validation of a day needs to know of some of its events, in their order."""
    quality = schema.quality or Quality()
    columns = [TIMESTAMP, schema.type_attribute, *schema.key, *(e.column for e in quality.expectations)]
    values = {name: events.column(name) for name in dict.fromkeys(columns)}
    values[TIMESTAMP] = values[TIMESTAMP].cast(pa.timestamp("us")).cast(pa.int64())
    nans = {name: _nans(column) for name, column in values.items()}
    bounded = {expectation.column for expectation in quality.expectations if expectation.has_bounds}
    return Figures(
        events.num_rows,
        {name: column.type for name, column in values.items()},
        {name: column.null_count + nans[name] for name, column in values.items()},
        {name: nans[name] for name in values if name in bounded},
        {bounds: _outside(values[bounds.column], bounds) for bounds in _all_bounds(schema, quality, day)},
    )


def _nans(column: pa.ChunkedArray) -> int:
    return pc.sum(pc.is_nan(column)).as_py() or 0 if pa.types.is_floating(column.type) else 0


def _outside(column: pa.ChunkedArray, bounds: Bounds) -> Unexpected:
    """Return the values outside bounds; values that are no numbers are all outside."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        wrong = pc.is_valid(column)
    else:
        wrong = pa.chunked_array([pa.repeat(pa.scalar(False), len(column))])
        if bounds.least is not None:
            below = pc.less_equal if bounds.strict_least else pc.less
            wrong = pc.or_(wrong, below(column, pa.scalar(bounds.least)))
        if bounds.most is not None:
            above = pc.greater_equal if bounds.strict_most else pc.greater
            wrong = pc.or_(wrong, above(column, pa.scalar(bounds.most)))
        wrong = pc.fill_null(wrong, False)
    count = pc.sum(wrong).as_py() or 0
    examples = column.filter(wrong).slice(0, _EXAMPLES).to_pylist() if count else []
    return Unexpected(count, tuple(examples))


def _all_bounds(schema: StreamSchema, quality: Quality, day: date) -> list[Bounds]:
    begin, end = day_bounds(day, schema.timezone)
    declared = [_bounds(expectation) for expectation in quality.expectations if expectation.has_bounds]
    return [Bounds(TIMESTAMP, begin, end, False, True), *declared]


def _bounds(expectation: Expectation) -> Bounds:
    strict_least, strict_most = expectation.above is not None, expectation.below is not None
    return Bounds(
        expectation.column,
        expectation.above if strict_least else expectation.at_least,
        expectation.below if strict_most else expectation.at_most,
        strict_least,
        strict_most,
    )


def validate(
    figures: Figures, schema: StreamSchema, day: date, *, earlier_row_counts: Sequence[int] = ()
) -> Validation:
    """Validate the events of a day by their figures, whatever the outcome: `require` raises.

    The numbers of events of earlier published days have the latest last. Expected are, as critical: the keys
    (timestamp, event type, declared key) are there and of their types, and timestamps lie inside the day; then what the
    schema declares. A number of events outside the band around the median of earlier days is a warning. The tasks that
    write the events count, Great Expectations judges the sums of their counts: the result is the one that it gives for
    all events of the day as one batch.
    """
    quality = schema.quality or Quality()
    results: list[dict[str, Any]] = []
    if figures.rows:
        results += _judge(figures, schema, _row_expectations(schema, quality, day, figures))
    median = statistics.median(earlier_row_counts[-quality.row_count.days :]) if earlier_row_counts else None
    if median is not None:
        results += _judge(
            Figures(1, missing={_ROW_COUNT: 0}), schema, _row_count_expectation(quality, median, figures.rows)
        )
    failures = tuple(_sentence(r) for r in results if not r["success"] and r["severity"] == "critical")
    warnings = tuple(_sentence(r) for r in results if not r["success"] and r["severity"] != "critical")
    document = {
        "success": not failures,
        "day": day.isoformat(),
        "engine": f"great_expectations {_great_expectations().__version__}",
        "statistics": {
            "events": figures.rows,
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
    """Refuse, with a DataError, a day with a larger share of rejected rows than the schema's `max_rejected_share`.

    The examples are (file, line, reason).
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
    with nullcontext() if "great_expectations" in sys.modules else _needed_parts_only():
        import great_expectations

    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    return great_expectations


@contextmanager
def _needed_parts_only() -> Iterator[None]:
    """Import Great Expectations in half of the processor time, for the block: without what judging counts never needs.

    The tests of distributions in scipy.stats are loaded when one of them is asked for. PySpark, for an engine that is
    not used, is left out where this process has not loaded it. Nobody looks for garbage among thousands of new classes.
    """
    if "scipy.stats" not in sys.modules and (spec := find_spec("scipy.stats")) is not None and spec.loader is not None:
        spec.loader = LazyLoader(spec.loader)
        sys.modules["scipy.stats"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["scipy.stats"])
        sys.modules["scipy"].stats = sys.modules["scipy.stats"]  # type: ignore[attr-defined]
    left_out = "pyspark" not in sys.modules
    if left_out:
        sys.modules["pyspark"] = None  # type: ignore[assignment]
    try:
        with without_collecting():
            yield
    finally:
        if left_out:
            del sys.modules["pyspark"]


def _row_expectations(
    schema: StreamSchema, quality: Quality, day: date, figures: Figures
) -> list[tuple[Any, Unexpected]]:
    """Return what is expected of the rows, by column, and the values that are not so."""
    _great_expectations()
    import great_expectations.expectations as gxe

    found: list[tuple[Any, Unexpected]] = []

    def not_null(column: str, severity: Severity) -> None:
        expectation = gxe.ExpectColumnValuesToNotBeNull(column=column, severity=severity)
        missing = figures.missing[column]
        found.append((expectation, Unexpected(missing, (None,) * min(missing, _EXAMPLES))))

    def between(bounds: Bounds, severity: Severity) -> None:
        expectation = gxe.ExpectColumnValuesToBeBetween(
            column=bounds.column,
            min_value=bounds.least,
            max_value=bounds.most,
            strict_min=bounds.strict_least,
            strict_max=bounds.strict_most,
            severity=severity,
        )
        unexpected = figures.outside[bounds]
        if pa.types.is_integer(figures.types[bounds.column]) and figures.missing[bounds.column]:
            # A column of integers of which some are missing is one of floats to pandas.
            unexpected = Unexpected(unexpected.count, tuple(map(float, unexpected.examples)))
        found.append((expectation, unexpected))

    for column in dict.fromkeys([TIMESTAMP, schema.type_attribute, *schema.key]):
        kind = ValueType.INT64 if column == TIMESTAMP else schema.attributes[column]
        not_null(column, "critical")
        expectation = gxe.ExpectColumnValuesToBeOfType(column=column, type_=_PANDAS_TYPES[kind], severity="critical")
        found.append((expectation, _of_another_type(figures, column, kind)))
    between(_all_bounds(schema, quality, day)[0], "critical")
    for expected in quality.expectations:
        if expected.not_null:
            not_null(expected.column, expected.severity)
        if expected.has_bounds:
            between(_bounds(expected), expected.severity)
        if nans := figures.nans.get(expected.column, 0) if expected.has_bounds else 0:
            # To Great Expectations NaN is as missing as null; here it is a value, for which no bound can hold.
            column = f"{expected.column}{_IS_NAN}"
            expectation = gxe.ExpectColumnValuesToBeInSet(column=column, value_set=[False], severity=expected.severity)
            found.append((expectation, Unexpected(nans, (True,) * min(nans, _EXAMPLES))))
    columns = list(dict.fromkeys(expectation.column for expectation, _ in found))
    return sorted(found, key=lambda one: columns.index(one[0].column))


def _row_count_expectation(quality: Quality, median: float, rows: int) -> list[tuple[Any, Unexpected]]:
    import great_expectations.expectations as gxe

    least, most = quality.row_count.at_least * median, quality.row_count.at_most * median
    expectation = gxe.ExpectColumnValuesToBeBetween(
        column=_ROW_COUNT, min_value=least, max_value=most, severity="warning"
    )
    return [(expectation, Unexpected() if least <= rows <= most else Unexpected(1, (rows,)))]


_ROW_COUNT = "_events"
"""Column of the number of events; names of streams' attributes do not begin with `_`."""


def _judge(
    figures: Figures, schema: StreamSchema, expectations: Iterable[tuple[Any, Unexpected]]
) -> list[dict[str, Any]]:
    """Return what Great Expectations says of expectations, each with the values that are not as it expects."""
    from great_expectations.execution_engine import PandasExecutionEngine

    class Counted(PandasExecutionEngine):  # type: ignore[misc]
        """Answers with counts where the engine would look at rows."""

        unexpected = Unexpected()

        def resolve_metrics(self, metrics_to_resolve: Iterable[Any], *_: object, **__: object) -> dict[Any, Any]:
            return {metric.id: _metric(metric, figures, schema, self.unexpected) for metric in metrics_to_resolve}

    engine = Counted()
    results: dict[str, dict[str, Any]] = {}
    for expectation, unexpected in expectations:
        engine.unexpected = unexpected
        runtime = {"result_format": {"result_format": "SUMMARY", "partial_unexpected_count": _EXAMPLES}}
        needed = expectation.get_validation_dependencies(engine, runtime).get_metric_configurations()
        judged = expectation.metrics_validate(engine.resolve_metrics(needed), runtime, engine).to_json_dict()
        configuration, seen = judged["expectation_config"], judged["result"]
        arguments = {name: value for name, value in configuration["kwargs"].items() if value is not None}
        results[f"{configuration['type']} {sorted(arguments.items())} {configuration['severity']}"] = {
            "expectation": configuration["type"],
            "arguments": arguments,
            "severity": configuration["severity"],
            "success": bool(judged["success"]),
            "element_count": seen.get("element_count", 0),
            "unexpected_count": seen.get("unexpected_count", 0),
            "examples": seen.get("partial_unexpected_list", []),
            "observed": seen.get("observed_value"),
        }
    return list(results.values())


def _metric(metric: Any, figures: Figures, schema: StreamSchema, unexpected: Unexpected) -> Any:
    name: str = metric.metric_name
    if name == "table.row_count":
        return figures.rows
    if name == "table.column_types":
        return [{"name": column, "type": _pandas_type(figures, schema, column)} for column in figures.types]
    if name == "column_values.nonnull.unexpected_count":
        return figures.missing.get(metric.metric_domain_kwargs["column"], 0)
    if name.endswith(".unexpected_count"):
        return unexpected.count
    return list(unexpected.examples) if name.endswith(".unexpected_values") else None


def _pandas_type(figures: Figures, schema: StreamSchema, column: str) -> Any:
    """Return the type that pandas gives a column; nulls keep an integer or bool column from having its own."""
    import pandas as pd

    kind, missing = figures.types[column], figures.missing[column]
    if column != TIMESTAMP and schema.attributes[column] is ValueType.STRING:
        return pd.CategoricalDtype()
    if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and missing):
        return np.dtype("float64")
    if pa.types.is_integer(kind):
        return np.dtype("int64")
    return np.dtype("bool") if pa.types.is_boolean(kind) and not missing else np.dtype("object")


def _of_another_type(figures: Figures, column: str, kind: ValueType) -> Unexpected:
    """Return the values of a column that pandas holds as objects and that are of another type than expected."""
    held = figures.types[column]
    is_it = pa.types.is_boolean(held) if kind is ValueType.BOOL else kind is ValueType.STRING
    return Unexpected() if is_it else Unexpected(figures.rows - figures.missing[column])


_IS_NAN = " is NaN"
"""Ends the name of the column that says which values of another one are NaN."""


def _sentence(result: Mapping[str, Any]) -> str:
    if result["arguments"].get("column") == _ROW_COUNT:
        least, most = result["arguments"]["min_value"], result["arguments"]["max_value"]
        return f"the day has {result['examples'][0]:,} events; earlier days let expect {least:,.0f} to {most:,.0f}"
    arguments = {name: value for name, value in result["arguments"].items() if name != "column"}
    said = ", ".join(f"{name}={value}" for name, value in arguments.items())
    column = result["arguments"].get("column", "table")
    if column.endswith(_IS_NAN):
        return f"{column} for {result['unexpected_count']} of {result['element_count']} values, and has bounds"
    text = f"{column}: {result['expectation']}({said}) fails"
    if result["unexpected_count"]:
        text += f" for {result['unexpected_count']} of {result['element_count']} values"
    if result["examples"]:
        text += f", such as {', '.join(map(str, result['examples']))}"
    if result["observed"] is not None:
        text += f"; observed: {result['observed']}"
    return text
