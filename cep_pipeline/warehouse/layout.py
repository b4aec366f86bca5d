"""The tables of a stream: their columns, partitions and sort orders, and the rows of those that hold records.

Every table is an Apache Iceberg table in the namespace of its stream, at `<warehouse>/<stream>/<table>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import DAY, QUARANTINE_SCHEMA
from cep_pipeline.guarded import without_collecting
from cep_pipeline.storage import canonical_json
from cep_pipeline.warehouse.records import Decision, PlanRecord, RunRecord, RunStep, StatisticsRecord

FORMAT_VERSION = 3
"""Version of everything in a warehouse that Iceberg does not define: the tables here and those of the database."""
SCRATCH = "scratch"
"""Folder of a warehouse for what runs write on the way; not a stream."""

SUMMARIES = "summaries"
"""The table of what SUMMARIZE puts together, which is made when a stream has the first such rows."""
OF_PATTERN_SETS = ("matches", SUMMARIES)
"""Tables whose units are the days of a pattern set."""
UNIT_TABLES = ("events", "quarantine", *OF_PATTERN_SETS)
"""Tables whose units have records in the catalog's database."""

UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")

BINDINGS = pa.list_(pa.struct([("variable", pa.string()), ("seq", pa.int64())]))
COMPOSED = pa.list_(pa.struct([("variable", pa.string()), ("match_id", pa.string())]))
"""The ids inside are text: neither pyiceberg nor Spark reads lists of UUIDs in all cases."""


_COLUMNS: Mapping[str, Mapping[str, tuple[pa.DataType, str]]] = {
    "matches": {
        "pattern_set": (pa.string(), "Name of the pattern set."),
        "final_day": (pa.date32(), "Day on which the match became final: usually the day of its last event."),
        "pattern": (pa.string(), "Name of the pattern."),
        "pattern_version": (
            pa.string(),
            "Version of the pattern set: it changes with any statement or parameter of the set.",
        ),
        "match_id": (
            pa.uuid(),
            "Id of the match: the same events and the same statement give the same id in every run.",
        ),
        "start_ts": (UTC_MICROSECONDS, "Time of the first event of the match."),
        "end_ts": (UTC_MICROSECONDS, "Time of the last event of the match."),
        "bindings": (
            BINDINGS,
            "Events of the match: the variable of the pattern and the `seq` of the event, in the order of the "
            "variables in the pattern. A Kleene variable has an element for each of its events.",
        ),
        "composed": (
            COMPOSED,
            "Matches of other patterns among the events of the match: the variable and the `match_id` as text, in the "
            "order of the bindings, which have the `seq` of their last event. Null where the pattern composes none, "
            "and in days that were published before patterns could.",
        ),
        "returns": (pa.string(), "Values of the RETURN clause as a JSON object; null where the pattern has none."),
    },
    "summaries": {
        "pattern_set": (pa.string(), "Name of the pattern set."),
        "final_day": (pa.date32(), "Day on which the matches became final that the row is made of."),
        "pattern": (pa.string(), "Name of the pattern, which has SUMMARIZE."),
        "pattern_version": (
            pa.string(),
            "Version of the pattern set: it changes with any statement or parameter of the set.",
        ),
        "groups": (
            pa.string(),
            "Values of GROUP BY as a JSON object, by the names of its columns; {} without GROUP BY.",
        ),
        "aggregates": (
            pa.string(),
            "Values of the aggregates over the matches of the day, as a JSON object. count and sums of int64 are text.",
        ),
        "partial": (
            pa.string(),
            "What the rows of several days are put together from, as JSON: `groups`, the values of GROUP BY in their "
            "order; `matches`, their number; and in `states`, by the names of the aggregates, the number of `values` "
            "and their exact `total`, as decimal text, or the least or greatest `value`.",
        ),
    },
    "statistics": {
        "pattern_set": (pa.string(), "Name of the pattern set."),
        DAY: (pa.date32(), "Day that the statistics are of."),
        "run_id": (pa.string(), "Id of the run that wrote the row last."),
        "recorded_at": (UTC_MICROSECONDS, "Time at which the row was written."),
        "snapshot": (pa.string(), "Arrival rates and selectivities from which plans are made, as JSON."),
        "state": (pa.string(), "What the statistics of the next day go on from, as JSON."),
        "basis": (
            pa.string(),
            "What the statistics were made from, as JSON: window, error bound, digests of events and patterns.",
        ),
        "observed": (pa.string(), "What detection counted on the day, as JSON; null before detection."),
    },
    "plans": {
        "pattern_set": (pa.string(), "Name of the pattern set."),
        "version": (pa.int64(), "Version of the plan, from 1 within the pattern set."),
        "plan": (pa.string(), "The plan, as JSON."),
        "explain": (pa.string(), "The plan as `cep explain` prints it."),
        "reason": (pa.string(), "Why the plan was made."),
        "pattern_set_version": (pa.string(), "Version of the pattern set for which the plan was made."),
        "run_id": (pa.string(), "Id of the run that made the plan."),
        "created_at": (UTC_MICROSECONDS, "Time at which the plan was made."),
        "statistics": (pa.string(), "The statistics from which the plan was made, as JSON."),
        "statements": (pa.string(), "Statement and parameters of each pattern for which the plan was made, as JSON."),
    },
    "decisions": {
        "pattern_set": (pa.string(), "Name of the pattern set."),
        "kind": (
            pa.string(),
            "Name of the decision function that decided, or `replanning` for the outcome of a replanning.",
        ),
        "outcome": (pa.string(), "What was decided, such as `replan` or `keep`."),
        "reason": (pa.string(), "Why, as a sentence."),
        "decided_at": (UTC_MICROSECONDS, "Time of the decision."),
        DAY: (pa.date32(), "Day whose statistics were looked at; null for a replanning."),
        "plan_version": (pa.int64(), "Version of the plan that was current."),
        "run_id": (pa.string(), "Id of the run that decided."),
        "details": (pa.string(), "The violated invariant, measured values and the like, as JSON."),
    },
    "runs": {
        "run_id": (
            pa.string(),
            "Id of the run. A run has one row when it starts and one when it ends, for each of its days.",
        ),
        DAY: (pa.date32(), "Day of the stream."),
        "status": (pa.string(), "`running`, `succeeded`, `failed`, `interrupted` or `abandoned`."),
        "started_at": (UTC_MICROSECONDS, "Time at which the run began."),
        "finished_at": (UTC_MICROSECONDS, "Time at which the run was done with the day; null while it runs."),
        "recorded_at": (UTC_MICROSECONDS, "Time at which the row was written: the latest row of a run and day counts."),
        "events": (pa.int64(), "Events published; null where the run did not come that far."),
        "rejected": (pa.int64(), "Rows rejected; null where the run did not come that far."),
        "steps": (pa.string(), "Steps done, as a JSON list of `name`, `seconds`, `counts` and `began_s` (Unix time)."),
        "matches": (pa.string(), "Numbers of matches by `pattern set.pattern`, as JSON."),
        "plans": (pa.string(), "Versions of the plans that were used, by pattern set, as JSON."),
        "validation": (pa.string(), "Result of the data checks, as JSON."),
        "error": (pa.string(), "What went wrong in a run that did not succeed; else empty."),
        "details": (
            pa.string(),
            "Matches that wait for later events, the end of the stream, and `routes`, how matches were found, as JSON.",
        ),
    },
}
"""Table -> column -> its type, and its meaning for a person.

A row of `matches` is that of docs/language.md, section 5.2, with `returns` as JSON text, and what it was published
under. A row of another table is a record of `records`.
"""


def _schema(table: str) -> pa.Schema:
    return pa.schema([(name, kind) for name, (kind, _) in _COLUMNS[table].items()])


MATCHES_SCHEMA = _schema("matches")


def without_composed(columns: pa.Schema) -> pa.Schema:
    """Return the columns of a file of matches of patterns that compose none; readers add a column of nulls."""
    return columns.remove(columns.get_field_index("composed"))


REPEATING_IN_MATCHES = ("pattern_set", "final_day", "pattern", "pattern_version", "bindings.list.element.variable")
"""Columns of matches that gain from a dictionary; ids and seqs do not."""

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "events": {
        "timestamp": "Time of the event.",
        "seq": "Position of the event in the stream: it grows with time, and no two events of a stream share one. It "
        "is the number of the day (1 for 0001-01-01) times 2^40, plus the position in the day, from 0.",
        DAY: "Day of the event in the time zone of the stream.",
    },
    "quarantine": {
        DAY: "Day of the row; the first day of its file where the row itself does not say its day.",
        "file": "Raw file, relative to the data folder.",
        "line": "Line of the file on which the row begins, from 1; in a Parquet file the number of the row, from 1.",
        "reason": "Why the row is rejected; several reasons are separated by semicolons.",
        "raw": "Text of the row; for a Parquet file and for a repeated key its values as JSON.",
    },
    **{table: {name: meaning for name, (_, meaning) in columns.items()} for table, columns in _COLUMNS.items()},
}
"""Table -> column -> its meaning, for a person; attributes of events are described by the stream schema."""


@dataclass(frozen=True)
class TableLayout:
    """Columns, identity partitions and sort order of one table."""

    name: str
    schema: pa.Schema
    partitions: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()

    def meaning(self, column: str) -> str | None:
        """Return the meaning of a column, None for an attribute of events."""
        return MEANINGS[self.name].get(column)


def table_layouts(events_schema: pa.Schema) -> dict[str, TableLayout]:
    """Return table name -> layout of all tables of a stream with such events (`events_columns`)."""
    layouts = (
        TableLayout("events", events_schema, (DAY,), ("timestamp", "seq")),
        TableLayout("quarantine", QUARANTINE_SCHEMA, (DAY,)),
        TableLayout("statistics", _schema("statistics"), ("pattern_set", DAY)),
        TableLayout("plans", _schema("plans")),
        TableLayout("decisions", _schema("decisions")),
        TableLayout("matches", MATCHES_SCHEMA, ("pattern_set", "final_day"), ("pattern",)),
        TableLayout(SUMMARIES, _schema(SUMMARIES), ("pattern_set", "final_day"), ("pattern",)),
        TableLayout("runs", _schema("runs")),
    )
    return {layout.name: layout for layout in layouts}


_STREAM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def check_stream_name(name: str) -> str:
    """Return a stream's name if it can be a namespace and a folder, else raise an InputError."""
    if name == SCRATCH:
        raise InputError(f"stream name {name!r}: the warehouse has a folder of this name; choose another name")
    if not _STREAM_NAME.fullmatch(name):
        raise InputError(f"stream name {name!r}: only letters, digits, '_' and '-', not beginning with a digit or '-'")
    return name


def day_column(table: str) -> str:
    """The column of a table by days that says the day of a row."""
    return "final_day" if table in OF_PATTERN_SETS else DAY


Row = dict[str, Any]


def row_of(record: RunRecord | PlanRecord | Decision | StatisticsRecord) -> Row:
    """Return the row of a record; its mappings and lists are JSON texts there."""
    return {name: _text(value) for name, value in vars(record).items()}


def _text(value: Any) -> Any:
    if isinstance(value, Mapping):
        return canonical_json(dict(value))
    if isinstance(value, tuple | list):
        return canonical_json([vars(one) if isinstance(one, RunStep) else one for one in value])
    return value


def run_record(row: Mapping[str, Any]) -> RunRecord:
    """Return the run record of a row."""
    content = _parsed(row, "steps", "matches", "plans", "validation", "details")
    steps = tuple(RunStep(**step) for step in content["steps"])
    del content["recorded_at"]
    return RunRecord(**{**content, "steps": steps, "error": row["error"] or ""})


def plan_record(row: Mapping[str, Any]) -> PlanRecord:
    """Return the plan record of a row."""
    content = _parsed(row, "plan", "statistics", "statements")
    return PlanRecord(**{**content, "statements": content["statements"] or {}})


def decision_record(row: Mapping[str, Any]) -> Decision:
    """Return the decision of a row."""
    return Decision(**_parsed(row, "details"))


def statistics_record(row: Mapping[str, Any]) -> StatisticsRecord:
    """Return the record of a row."""
    content = _parsed(row, "snapshot", "basis", "observed")
    return StatisticsRecord(**{**content, "basis": content["basis"] or {}})


def _parsed(row: Mapping[str, Any], *columns: str) -> Row:
    """Return a row in which the JSON texts of these columns are read; a null stays one."""
    with without_collecting():  # a plan of a thousand patterns is some hundred thousand values
        return {**row, **{name: json.loads(row[name]) for name in columns if row[name] is not None}}
