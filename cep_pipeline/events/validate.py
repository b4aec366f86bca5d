"""Validation of a day's events by Great Expectations.

1. Ingestion counts over the events what the day asks for (`asked_figures`).
2. The counts are the profile of the day, a data frame of one row: `events`, `price_missing`, `price_outside` and so on.
3. A checkpoint runs a suite over the profile: what every stream needs, and what its schema declares.
4. The result is kept with the run, as a document, and as Data Docs beside its log.

Great Expectations takes seconds to import: it is imported by the functions here, never with the module.
"""

from __future__ import annotations

import logging
import os
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from cep_pipeline.errors import DataError
from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.stream_document import Expectation, Quality
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.guarded import without_collecting
from cep_pipeline.patterns.expressions import ValueType

_EXAMPLES = 3

logger = logging.getLogger(__name__)


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


@dataclass(frozen=True)
class Unexpected:
    """The number of values that are not as expected, and the first few of them."""

    count: int = 0
    examples: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Figures:
    """Counts over the events of a day, of which the profile of the day is made.

    `missing` has the number of nulls and NaNs of each column that is looked at, `nans` that of the NaNs alone of
    columns of floats; `outside` has the values that do not keep bounds, NaN and null not among them.
    """

    rows: int
    missing: Mapping[str, int]
    nans: Mapping[str, int]
    outside: Mapping[Expectation, Unexpected]


def asked_figures(schema: StreamSchema, day: date) -> Figures:
    """Return the figures that the validation of a day needs, as they are of a day without events."""
    quality = schema.quality or Quality()
    columns = [TIMESTAMP, schema.type_attribute, *schema.key, *(e.column for e in quality.expectations)]
    return Figures(
        rows=0,
        missing=dict.fromkeys(columns, 0),
        nans={name: 0 for name in columns if schema.attributes.get(name) is ValueType.FLOAT64},
        outside=dict.fromkeys(_all_bounds(schema, quality, day), Unexpected()),
    )


def _all_bounds(schema: StreamSchema, quality: Quality, day: date) -> list[Expectation]:
    begin, end = day_bounds(day, schema.timezone)
    of_day = Expectation.model_construct(column=TIMESTAMP, at_least=begin, below=end)
    return [of_day, *(expectation for expectation in quality.expectations if expectation.has_bounds)]


def validate(
    figures: Figures,
    schema: StreamSchema,
    day: date,
    *,
    rejected: int = 0,
    rejected_examples: Sequence[tuple[str, int, str]] = (),
    earlier_row_counts: Sequence[int] = (),
    data_docs: Path | None = None,
) -> Validation:
    """Validate the events of a day by their figures, whatever the outcome: `require` raises.

    Expected are, as critical: the keys (timestamp, event type, declared key) are there, timestamps lie inside the day,
    and no larger share of rows is rejected than the schema allows; then what the schema declares. A number of events
    outside the band around the median of earlier days is a warning.

    Parameters
    ----------
    figures
        Those of `asked_figures`, counted over all events of the day.
    rejected
        Number of rejected rows.
    rejected_examples
        File, line and reason of some of them, which are shown where there are too many.
    earlier_row_counts
        Numbers of events of earlier published days, the latest last.
    data_docs
        A folder for the pages of Great Expectations about the result; what was in it is removed.
    """
    quality = schema.quality or Quality()
    suite = _rule_checks(figures, schema, quality, day)
    counted = {check.column: check.unexpected.count for check in suite}
    share = rejected / (figures.rows + rejected) if rejected else 0.0
    profile: dict[str, Any] = {"events": figures.rows, "rejected": rejected, "rejected_share": share, **counted}
    median = statistics.median(earlier_row_counts[-quality.row_count.days :]) if earlier_row_counts else None
    suite += _day_checks(quality, profile, median, rejected_examples)
    try:
        results = _run_checkpoint(suite, profile, schema.name, day, data_docs)
    except OSError as error:
        logger.warning("the Data Docs of %s are not kept: %s", day, error)
        results = _run_checkpoint(suite, profile, schema.name, day, None)
    failed = [check for result, check in zip(results, suite, strict=True) if not result["success"]]
    failures = tuple(check.sentence for check in failed if check.severity == "critical")
    warnings = tuple(check.sentence for check in failed if check.severity == "warning")
    document = {
        "success": not failures,
        "day": day.isoformat(),
        "engine": f"great_expectations {_great_expectations().__version__}",
        "statistics": {
            "events": figures.rows,
            "evaluated_expectations": len(results),
            "successful_expectations": len(results) - len(failed),
            "median_of_earlier_days": median,
        },
        "profile": profile,
        "results": results,
    }
    return Validation(day, document, failures, warnings)


def start_import() -> Future[Any]:
    """Begin to import Great Expectations in the background; the result is there when it is imported."""
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="import-great-expectations")
    done = executor.submit(_great_expectations)
    executor.shutdown(wait=False)
    return done


def _great_expectations() -> Any:
    log = logging.getLogger("great_expectations")
    log.setLevel(logging.WARNING)  # it tells of its own functions while it is imported
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with without_collecting():
        import great_expectations

    log.setLevel(logging.WARNING)
    return great_expectations


# -- the suite ---------------------------------------------------------------------------------------------------------


class _Check(NamedTuple):
    """An expectation of the suite: a figure of the profile lies between two numbers.

    `sentence` tells a person that it failed, and `description` what it asks. `unexpected` are the values for which it
    failed, of so many `values`.
    """

    column: str
    severity: str
    sentence: str
    description: str
    unexpected: Unexpected
    values: int
    most: float = 0
    least: float | None = None


def _rule_checks(figures: Figures, schema: StreamSchema, quality: Quality, day: date) -> list[_Check]:
    """Expect that no value breaks a rule: a column of the profile has the number of those that do."""
    checks: list[_Check] = []

    def add(column: str, said: str, unexpected: Unexpected, severity: str, zone: ZoneInfo | None = None) -> None:
        names = [check.column for check in checks]
        free = next(name for name in (column, *(f"{column}_{n}" for n in range(2, 1_000))) if name not in names)
        count, examples = unexpected.count, unexpected.examples
        told = [datetime.fromtimestamp(one / 1e6, zone).replace(tzinfo=None) for one in examples] if zone else examples
        shown = f", such as {', '.join(map(str, told))}" if {*examples} - {None} else ""
        sentence = f"{said}: {count:,} of {figures.rows:,} values are not{shown}"
        checks.append(_Check(free, severity, sentence, said, unexpected, figures.rows))

    def not_null(column: str, severity: str) -> None:
        missing = figures.missing[column]
        seen = Unexpected(missing, (None,) * min(missing, _EXAMPLES))
        add(f"{column}_missing", f"{column} must be there", seen, severity)

    for column in dict.fromkeys([TIMESTAMP, schema.type_attribute, *schema.key]):
        not_null(column, "critical")
    said, seen = f"timestamp must be on {day}, {schema.timezone}", figures.outside[_all_bounds(schema, quality, day)[0]]
    add("timestamp_outside", said, seen, "critical", ZoneInfo(schema.timezone))
    for expected in quality.expectations:
        if expected.not_null:
            not_null(expected.column, expected.severity)
        if expected.has_bounds:
            said, seen = f"{expected.column} must be {expected.bounds}", figures.outside[expected]
            add(f"{expected.column}_outside", said, seen, expected.severity)
        if expected.has_bounds and expected.column in figures.nans:
            said, seen = f"{expected.column} must be a number", Unexpected(figures.nans[expected.column])
            add(f"{expected.column}_nan", said, seen, expected.severity)
    return checks


def _day_checks(
    quality: Quality, profile: Mapping[str, Any], median: float | None, examples: Sequence[tuple[str, int, str]]
) -> Iterator[_Check]:
    """Expect a small share of rejected rows, and about as many events as earlier days have."""
    rejected, share, limit = profile["rejected"], profile["rejected_share"], quality.max_rejected_share
    rows = rejected + profile["events"]
    shown = "".join(f"\n    {file}:{line}: {reason}" for file, line, reason in examples)
    more = f"\n    … and {rejected - len(examples)} more" if examples and rejected > len(examples) else ""
    sentence = (
        f"{rejected} of {rows} rows are rejected ({share:.2%}), more than max_rejected_share "
        f"({limit:.2%}) allows; correct the files or the schema, or raise quality.max_rejected_share in it{shown}{more}"
    )
    asked = f"at most {limit:.2%} of the rows may be rejected"
    yield _Check("rejected_share", "critical", sentence, asked, Unexpected(rejected), rows, limit)
    if median is not None:
        least, most = quality.row_count.at_least * median, quality.row_count.at_most * median
        sentence = f"the day has {profile['events']:,} events; earlier days let expect {least:,.0f} to {most:,.0f}"
        asked = f"the day must have {least:,.0f} to {most:,.0f} events, as earlier days let expect"
        yield _Check("events", "warning", sentence, asked, Unexpected(), profile["events"], most, least)


# -- the profile and its checkpoint ------------------------------------------------------------------------------------


def _run_checkpoint(
    suite: Sequence[_Check], profile: Mapping[str, Any], stream: str, day: date, data_docs: Path | None
) -> list[dict[str, Any]]:
    """Run a checkpoint over the profile of a day, and return what it says of each expectation, in their order."""
    import pandas as pd

    gx = _great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    asset = context.data_sources.add_pandas(stream).add_dataframe_asset(day.isoformat())
    batch = asset.add_batch_definition_whole_dataframe("profile")
    expectations = [
        gx.expectations.ExpectColumnMaxToBeBetween(
            column=one.column,
            min_value=one.least,
            max_value=one.most,
            severity=one.severity,
            description=one.description,
            meta={"place": place},
        )
        for place, one in enumerate(suite)
    ]
    made = context.suites.add(gx.ExpectationSuite(stream, expectations=expectations))
    validation = context.validation_definitions.add(gx.ValidationDefinition(name=stream, data=batch, suite=made))
    actions = [] if data_docs is None else [_update_data_docs(context, data_docs)]
    checkpoint = gx.Checkpoint(name=stream, validation_definitions=[validation], actions=actions)
    frame = pd.DataFrame([profile])
    outcome = context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": frame})
    if data_docs is not None:
        shutil.rmtree(data_docs / "static", ignore_errors=True)  # 4 MB of pictures and fonts that the pages do without
    (result,) = outcome.run_results.values()
    by_place = {one.expectation_config.meta["place"]: one.to_json_dict() for one in result.results}
    return [_entry(check, by_place[place]) for place, check in enumerate(suite)]


def _update_data_docs(context: Any, folder: Path) -> Any:
    """Let the Data Docs of a context lie in a folder, and return the action that writes them."""
    from great_expectations.checkpoint import UpdateDataDocsAction

    shutil.rmtree(folder, ignore_errors=True)
    backend = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.absolute())}
    site: dict[str, Any] = {"class_name": "SiteBuilder", "show_how_to_buttons": False, "store_backend": backend}
    site["site_index_builder"] = {"class_name": "DefaultSiteIndexBuilder"}
    context.update_data_docs_site("local_site", site)
    return UpdateDataDocsAction(name="data_docs", site_names=["local_site"])


def _entry(check: _Check, judged: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the result document has of an expectation."""
    arguments = {"column": check.column, "min_value": check.least, "max_value": check.most}
    return {
        "expectation": judged["expectation_config"]["type"],
        "arguments": {name: value for name, value in arguments.items() if value is not None},
        "description": check.description,
        "severity": check.severity,
        "success": bool(judged["success"]),
        "element_count": check.values,
        "unexpected_count": check.unexpected.count,
        "examples": list(check.unexpected.examples),
        "observed": judged["result"].get("observed_value"),
    }
