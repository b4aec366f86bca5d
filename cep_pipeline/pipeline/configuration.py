"""`pipeline.yaml`: the streams, their pattern sets, the warehouse and how detection is planned and run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, ConfigDict, field_validator

from cep_pipeline.documents import Document, checked_by, example_at, line_at, load_document, mapping, one_of, setting
from cep_pipeline.errors import CepError, InputError
from cep_pipeline.foreign_text import listed
from cep_pipeline.guarded import read_text, without_collecting
from cep_pipeline.planning.planners import BY_PLANNER
from cep_pipeline.storage import folder_name, reach_object_stores

if TYPE_CHECKING:
    from cep_pipeline.adaptation.decisions import DecisionFunction
    from cep_pipeline.detection.limits import Limits
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.language.scope import WrittenValues
    from cep_pipeline.patterns.pattern import Pattern, Window
    from cep_pipeline.warehouse.warehouse import Warehouse


_PLANNERS = "cep_pipeline.planning.planners"
_WORKLOAD = "cep_pipeline.planning.multi_pattern.workload"


class PlanningSettings(Document):
    """Settings of planning.

    Those of `planning:` are for pattern sets that do not have their own. The settings of searches are for planners that
    plan all patterns of a set together.
    """

    planner: Annotated[str | None, checked_by(f"{_PLANNERS}:check_planner")] = setting(
        "The planner: of each pattern by itself, or of all patterns of a set together. A pattern set without one "
        "takes that of `planning:`; without that it is `dp_left_deep`.",
        None,
        example="greedy",
        json_schema_extra=one_of(f"{_PLANNERS}:PLANNERS", f"{_PLANNERS}:MULTI_PATTERN_PLANNER_NAMES"),
    )
    cost: Annotated[str | None, checked_by("cep_pipeline.planning.costs:cost_named")] = setting(
        "The cost model of the planner. A pattern set without one takes that of `planning:`; without that each pattern "
        "is planned by the cost model of its mechanism.",
        None,
        example="throughput",
        json_schema_extra=one_of("cep_pipeline.planning.costs:COSTS"),
    )
    alpha: float | None = setting(
        "The weight of latency against the cost. A pattern set without one takes that of `planning:`; without that it "
        "is 0.",
        None,
        example=0.5,
        ge=0,
        allow_inf_nan=False,
    )
    neighbourhood: Annotated[str | None, checked_by(f"{_WORKLOAD}:Neighbourhood.of")] = setting(
        "The step of a local search: `edge` gives two patterns a part in common, `vertex:K` up to K.",
        None,
        example="vertex:4",
        json_schema_extra={"pattern": "^(edge|vertex:[0-9]+)$"},
    )
    sharing: Literal["prefix", "subexpression"] | None = setting(
        "The parts that patterns share: the beginnings of their orders, or subtrees of their trees.",
        None,
        example="prefix",
    )
    time_limit_s: float | None = setting(
        "A local search ends after this many seconds.", None, example=5, gt=0, allow_inf_nan=False
    )
    steps: int | None = setting(
        "A local search ends after this many steps. By steps and seed it gives the same plan each time.",
        None,
        example=100000,
        ge=1,
    )
    seed: int | None = setting("The seed of the random choices of a local search.", None, example=1, ge=0)

    @property
    def search(self) -> dict[str, Any]:
        """The options of planning together that are set, as `plan_workload` takes them."""
        return self.model_dump(include=set(_OF_SEARCHES), exclude_none=True)


_OF_SEARCHES = ("neighbourhood", "sharing", "time_limit_s", "steps", "seed")


ALL = "all"
_INVARIANT = "invariant"
_ELSE_ABOVE = "Those that are not given are those of the top level."


class AdaptationSettings(Document):
    """Settings of adaptation: what makes a plan be made again, and how the old plan and the new one are compared."""

    decision: str = setting(
        "What decides whether a plan is made again: a violated `invariant` of the plan, a number that has moved by "
        "a `constant_threshold`, every check (`unconditional`), or nothing (`static`).",
        _INVARIANT,
        json_schema_extra=one_of("cep_pipeline.adaptation.decisions:DECISION_FUNCTIONS"),
    )
    distance: Annotated[float | str, checked_by("cep_pipeline.adaptation.distance:distance_rule")] = setting(
        "For `invariant`: the share by which one side of an invariant must exceed the other before the invariant "
        "counts as violated. It is a number, or the name of a rule that sets it. 0.05 is above the error of the "
        "estimates: the ratio of two counts, each with an error of `epsilon` e = 0.02, is within 2 e / (1 - e), 4.1 %. "
        "With a larger `epsilon` take a larger distance.",
        0.05,
        json_schema_extra=one_of("cep_pipeline.adaptation.distance:DISTANCES", least=0),
    )
    k: int | str = setting(
        "For `invariant`: how many invariants of each step or join are checked, the tightest first. `planner`: as "
        "many as plans of the planner need: 3 of `dp_left_deep`, `dp_bushy` and shared plans, 2 of "
        "`zstream` and `zstream_ordered`, else 1.",
        BY_PLANNER,
        json_schema_extra=one_of(also=[BY_PLANNER, ALL], least=1),
    )
    threshold: float = setting(
        "For `constant_threshold`: the share by which a number must have moved. For `invariant`: the same, for "
        "patterns whose plans have no invariants.",
        0.5,
        gt=0,
        allow_inf_nan=False,
    )
    minimum_gain: float = setting(
        "A new plan becomes the current one only if it saves more than this share of the cost. With 0 any new plan "
        "does that costs less.",
        0.05,
        ge=0,
        lt=1,
    )

    @field_validator("decision")
    @classmethod
    def _known(cls, name: str) -> str:
        if name == _INVARIANT:  # which most have, and the module takes a while to import
            return name
        from cep_pipeline.adaptation.decisions import DECISION_FUNCTIONS

        if name not in DECISION_FUNCTIONS:
            raise ValueError(f"there is no decision function of this name; there are: {', '.join(DECISION_FUNCTIONS)}")
        return name

    @field_validator("k")
    @classmethod
    def _positive(cls, k: int | str) -> int | str:
        if k in (ALL, BY_PLANNER) or (isinstance(k, int) and k >= 1):
            return k
        raise ValueError(f"a block has one invariant or more: write 1, 2, …, {BY_PLANNER} or {ALL}")

    @property
    def most_invariants(self) -> int | str | None:
        """Invariants a block, as `invariants_of` takes them; None: all."""
        return None if self.k == ALL else self.k

    def function(self) -> DecisionFunction:
        """The decision function with those of the settings that it has."""
        from cep_pipeline.adaptation.decisions import decision_function

        settings = self.decisive()
        return decision_function(self.decision, **settings | ({"k": self.most_invariants} if "k" in settings else {}))

    def decisive(self) -> dict[str, Any]:
        """The settings that the decision function has, as they are written."""
        from cep_pipeline.adaptation.decisions import DECISION_FUNCTIONS

        has = inspect.signature(DECISION_FUNCTIONS[self.decision]).parameters
        return {name: value for name, value in self.model_dump().items() if name in has}


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: letters, digits and '_', not beginning with a digit")
    return name


_Name = Annotated[str, AfterValidator(_check_name)]


class LimitSettings(Document):
    """The limits of each pattern on a day. One that reaches a limit is stopped; the others have all their matches."""

    max_matches: int | None = setting(
        "The most matches of a pattern on a day, before NON_OVERLAP and CONSUME decide about them. With more none of "
        "them is published. `null`: no limit.",
        100_000_000,
        ge=0,
    )
    time_limit: Annotated[str | None, checked_by("cep_pipeline.patterns.pattern:parse_duration_us")] = setting(
        "The time that a pattern may take on each slice of a day. Patterns that share a plan are run by themselves "
        "once they have taken so much together. `null`: no limit.",
        "2 hours",
    )
    then: Literal["count", "skip", "fail"] = setting(
        "What follows when a pattern has reached a limit, of which nothing is published for the day then. `count`: "
        "its matches are counted, without being listed where that is possible. `skip`: nothing. `fail`: the day "
        "fails, and what was published stays.",
        "count",
    )

    @property
    def limits(self) -> Limits:
        """The limits, as detection takes them."""
        from cep_pipeline.detection.limits import Limits
        from cep_pipeline.patterns.pattern import parse_duration_us

        time_us = None if self.time_limit is None else parse_duration_us(self.time_limit)
        return Limits(self.max_matches, None if time_us is None else time_us / 1e6)


class PatternSetSettings(PlanningSettings):
    """A pattern file, and how its patterns are planned and run."""

    file: Path = setting(
        "The file with the patterns. A relative path is relative to the folder of `pipeline.yaml`.",
        example="patterns/alarms.sase",
    )
    parameters: dict[str, bool | int | float | str | list[int | float | bool | str]] = setting(
        "Values of the `$name` parameters in the patterns: one value, a list, text with commas between the values, "
        "or `@file` for a file with one value a line. After IN they are a set. Elsewhere a `$name` is one value: "
        "several make one pattern for each, with names such as `rise_size_300`.",
        example={"banks": ["BAC", "JPM"], "size": 300},
        default_factory=dict,
    )
    mechanism: Annotated[str | None, checked_by("cep_pipeline.pipeline.configuration:check_mechanism")] = setting(
        "The evaluation mechanism. Without it each pattern runs by the fastest one that can run it.",
        None,
        example="lazy_chain_nfa",
        json_schema_extra=one_of("cep_pipeline.detection:MECHANISMS"),
    )
    adaptation: AdaptationSettings = mapping(
        AdaptationSettings, f"Settings of adaptation for this pattern set. {_ELSE_ABOVE}", distance=0.1
    )
    limits: LimitSettings = mapping(
        LimitSettings, f"Limits of the patterns of this set. {_ELSE_ABOVE}", max_matches=1_000_000, then="skip"
    )


class StatisticsSettings(Document):
    """Settings of the estimation of arrival rates and selectivities."""

    window: Annotated[str, checked_by("cep_pipeline.pipeline.configuration:parse_window")] = setting(
        "The sliding window that statistics are of: a length of time in us, ms, seconds, minutes, hours or days.",
        "1 hour",
    )
    epsilon: float = setting(
        "The largest relative error of the counts in a window. Smaller takes more memory.",
        0.02,
        ge=0.001,
        le=0.5,
    )

    @property
    def length(self) -> Window:
        """The window's length."""
        return parse_window(self.window)


def parse_window(text: str) -> Window:
    """The window that a text says, a length of time; else an InputError.

    Examples
    --------
    >>> parse_window("20 minutes").time_us
    1200000000
    """
    from cep_pipeline.patterns.pattern import Window, parse_duration_us

    return Window(time_us=parse_duration_us(text))


_NAMES: dict[str, Any] = {"propertyNames": {"pattern": f"^{_NAME.pattern}$"}}


class StreamSettings(Document):
    """A stream: its schema, the folder of its raw files, and its pattern sets."""

    schema_file: Path = setting(
        "The stream schema. Its `name` is the name of the stream here.",
        example="streams/cold_rooms.yaml",
        alias="schema",
    )
    data: str = setting(
        "The folder of the raw files, or its address in an object store; `cep run --data` names another. A stream "
        "that reads an Iceberg table needs none.",
        "",
        example="data/cold_rooms",
    )
    pattern_sets: dict[_Name, PatternSetSettings] = setting(
        "The pattern sets by name. A name has letters, digits and `_`, and does not begin with a digit. A stream "
        "without pattern sets is ingested and validated only.",
        example={"alarms": {"file": "patterns/alarms.sase"}},
        default_factory=dict,
        json_schema_extra=_NAMES,
    )
    wait_hours: float = setting(
        "Under Airflow a day without a file waits so long after its end for one, and holds no slot "
        "meanwhile. Then `on_missing` of the stream schema counts.",
        0,
        ge=0,
        le=168,
    )
    task_timeout_hours: float = setting(
        "Under Airflow a task of the stream that takes longer is ended, and tried again.", 6, gt=0, le=168
    )
    statistics: StatisticsSettings = mapping(
        StatisticsSettings, f"Settings of statistics for this stream. {_ELSE_ABOVE}", window="5 minutes"
    )


_SECRET = re.compile(r"secret|access-key|account-key|token|credential|connection-string")


class WarehouseSettings(Document):
    """Location of the tables and of their catalog."""

    location: str = setting("A folder, or the address of a place in an object store.", "warehouse")
    catalog: str | None = setting(
        "Address of the catalog's database. Without it the catalog is the SQLite file `catalog.db` in the "
        "warehouse. It is required for an object store, and where several machines write.",
        None,
        example="postgresql+psycopg2://user:password@host:5432/cep",
    )
    properties: dict[str, str] = setting(
        "How object stores are reached, the warehouse's and those of raw data: properties as PyIceberg names them. "
        "Without `s3.endpoint` and `s3.region`, `AWS_ENDPOINT_URL` and `AWS_REGION` count. Credentials come from "
        "the environment or from a role, never from here.",
        example={"s3.endpoint": "http://minio:9000", "s3.region": "us-east-1"},
        default_factory=dict,
    )

    @field_validator("properties")
    @classmethod
    def _no_secrets(cls, properties: dict[str, str]) -> dict[str, str]:
        for name in properties:
            if _SECRET.search(name):
                raise ValueError(
                    f"{name} is a credential, which does not belong in a file that is shared: set it in the "
                    "environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, …), or give the machine a role"
                )
        return properties


class SparkSettings(Document):
    """Spark, on which the steps of a day run."""

    master: str = setting(
        "The Spark master: `local[N]`, `spark://HOST:PORT`, `k8s://URL` or `yarn`; `cep run --master` "
        "names another one.",
        "local[*]",
    )
    remote: str | None = setting(
        "The address of a Spark Connect server, in place of a master: the work is done on the server's master. The "
        "server must have the project installed. Raw files and the warehouse must be where its workers reach them.",
        None,
        example="sc://localhost:15002",
    )
    airflow: Literal["connect", "submit"] = setting(
        "How Airflow's tasks reach Spark. `connect`: by the session that the connection `spark_default` names, a Spark "
        "Connect server or a master. `submit`: each is a program of `spark_jobs` that is run by `spark-submit`, as for "
        "YARN and Kubernetes in cluster mode.",
        "connect",
    )
    properties: dict[str, str] = setting(
        "Further Spark properties. Values are text, so numbers are written in quotes.",
        example={"spark.driver.memory": "4g"},
        default_factory=dict,
    )


class AlertSettings(Document):
    """The people who are told of days that failed, are late, limited or stale."""

    notifier: str | None = setting(
        "A notifier of Airflow, by its full name. The DAGs call it; without one nobody is told, and what "
        "there is to tell stands in the records of the runs.",
        None,
        example="airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$",
    )
    arguments: dict[str, str | int | float | bool | list[str]] = setting(
        "Arguments of the notifier. In those that it takes as templates, `cep_alert` is the sentence that "
        "says what happened, beside all that Airflow knows of the task.",
        example={"to": "ops@example.com", "subject": "{{ cep_alert }}", "html_content": "{{ cep_alert }}"},
        default_factory=dict,
    )
    late_hours: float | None = setting(
        "A run of a day that has not ended so long after Airflow queued it is late: a deadline of Airflow "
        "then calls the notifier.",
        None,
        example=4,
        gt=0,
        le=168,
    )


class ChecksSettings(Document):
    """The pages about the data checks of each run."""

    folder: str | None = setting(
        "A local folder, in which Great Expectations writes the Data Docs of a day to `STREAM/RUN/DAY`. Without a "
        "folder there are none.",
        None,
        example="var/checks",
    )


class PipelineSettings(Document):
    """The pipeline's configuration: the streams, the warehouse, and how plans are made and run."""

    model_config = ConfigDict(title="Pipeline configuration")
    streams: dict[_Name, StreamSettings] = setting(
        "The streams by name, at least one. A command without `--stream` takes the first one. A name has letters, "
        "digits and `_`, and does not begin with a digit.",
        example={"cold_rooms": {"schema": "streams/cold_rooms.yaml", "data": "data/cold_rooms"}},
        min_length=1,
        json_schema_extra=_NAMES,
    )
    warehouse: WarehouseSettings = mapping(WarehouseSettings, "Where the tables are.", location="warehouse")
    statistics: StatisticsSettings = mapping(
        StatisticsSettings, "How statistics are estimated, for all streams.", window="20 minutes"
    )
    planning: PlanningSettings = mapping(
        PlanningSettings, "How plans are made, for all pattern sets.", planner="greedy"
    )
    adaptation: AdaptationSettings = mapping(
        AdaptationSettings, "When plans are made again, for all pattern sets.", decision="static"
    )
    limits: LimitSettings = mapping(
        LimitSettings,
        "Limits of each pattern on each day, so that one pattern cannot take the day of the others.",
        max_matches=1_000_000,
        time_limit="10 minutes",
        then="count",
    )
    spark: SparkSettings = mapping(SparkSettings, "The Spark application.", master="local[4]")
    alerts: AlertSettings = mapping(AlertSettings, "Who is told of what went wrong.", late_hours=4)
    checks: ChecksSettings = mapping(ChecksSettings, "The pages about data checks.", folder="var/checks")


@dataclass(frozen=True)
class PatternSet:
    """A parsed pattern set.

    `patterns` run over the events of the stream. Those that bind matches of other patterns are `composing`, in the
    order of the file: they run when these matches are known, and are planned then.

    `version` changes with any statement or parameter value; `search` has the options of planning its patterns together
    (`plan_workload`), none where the planner plans each by itself.
    """

    name: str
    file: Path
    patterns: tuple[Pattern, ...]
    version: str
    planner: str
    cost: str | None
    mechanism: str | None = None
    alpha: float = 0.0
    adaptation: AdaptationSettings = field(default_factory=AdaptationSettings)
    search: Mapping[str, Any] = field(default_factory=dict)
    limits: LimitSettings = field(default_factory=LimitSettings)
    composing: tuple[Pattern, ...] = ()

    @property
    def statements(self) -> tuple[Pattern, ...]:
        """All patterns, those that compose behind the others."""
        return (*self.patterns, *self.composing)

    @cached_property
    def pattern_versions(self) -> dict[str, str]:
        """Pattern -> its version, which changes with its statement and its parameter values."""
        from cep_pipeline.language.formatter import pattern_version

        return {pattern.name: pattern_version(pattern) for pattern in self.statements}


@dataclass(frozen=True)
class Stream:
    """A configured stream with its schema loaded and its paths resolved."""

    name: str
    schema: StreamSchema
    data: str
    pattern_sets: tuple[PatternSet, ...]
    statistics: StatisticsSettings = field(default_factory=StatisticsSettings)
    checks_folder: Path | None = None

    def pattern_set(self, name: str) -> PatternSet:
        """The pattern set of this name; `InputError` lists the known ones otherwise."""
        for pattern_set in self.pattern_sets:
            if pattern_set.name == name:
                return pattern_set
        known = listed([p.name for p in self.pattern_sets]) or "none"
        raise InputError(f"stream {self.name!r} has no pattern set {name!r}; it has: {known}")

    def chosen_sets(self, name: str | None) -> tuple[PatternSet, ...]:
        """The pattern set of this name alone; all of them where no name is given."""
        return (self.pattern_set(name),) if name else self.pattern_sets

    def pattern_named(self, pattern_set: str, name: str) -> Pattern | None:
        """The pattern of this name in a pattern set; None where it is not configured any more."""
        patterns = (one for own in self.pattern_sets if own.name == pattern_set for one in own.statements)
        return next((one for one in patterns if one.name == name), None)


def data_docs_folder(folder: Path | None, stream: str, run_id: str, day: date) -> Path | None:
    """The folder with Great Expectations' pages about a day of a run; None where none are kept."""
    return None if folder is None else folder / stream / folder_name(run_id) / day.isoformat()


def _resolved(folder: Path, location: str) -> str:
    """A path made absolute; the address of a place in an object store as it is."""
    return location if "://" in location else str((folder / location).resolve())


@dataclass(frozen=True)
class Configuration:
    """A read `pipeline.yaml`; relative paths in it are relative to its folder."""

    path: Path
    settings: PipelineSettings

    @classmethod
    def load(cls, path: str | Path) -> Configuration:
        """Read a `pipeline.yaml`; from here on this process reaches object stores as it says.

        An InputError names the file, and the line that breaks a rule.
        """
        path = Path(path)
        if not path.exists():
            raise InputError(
                f"{path}: no such pipeline configuration; go to the folder of your project, name the file with "
                "--config FILE, or make a project: cep init FOLDER"
            )
        settings = load_document(path, PipelineSettings, "pipeline configuration", variables=True)
        reach_object_stores(settings.warehouse.properties)
        return cls(path.resolve(), settings)

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def warehouse_location(self) -> str:
        return _resolved(self.folder, self.settings.warehouse.location)

    @property
    def checks_folder(self) -> Path | None:
        """The folder with the pages about data checks; None where none are kept."""
        return Path(_resolved(self.folder, self.settings.checks.folder)) if self.settings.checks.folder else None

    def open_warehouse(self) -> Warehouse:
        """Open the warehouse, which is made on first use."""
        from cep_pipeline.warehouse.warehouse import Warehouse

        return Warehouse.open(self.warehouse_location, self.settings.warehouse.catalog)

    def stream_names(self) -> tuple[str, ...]:
        return tuple(self.settings.streams)

    def stream_settings(self, name: str) -> StreamSettings:
        """Return the settings of a stream; where there is none of this name, an `InputError` lists the known ones."""
        settings = self.settings.streams.get(name)
        if settings is None:
            raise InputError(f"{self.path}: no stream {name!r}; configured are {listed(self.settings.streams)}")
        return settings

    def stream(self, name: str, *, data: str | Path | None = None) -> Stream:
        """Load a stream: its schema, and its pattern sets parsed and checked.

        `data` is a folder or address with the raw files, in place of the configured one.
        """
        settings = self.stream_settings(name)
        schema = self.stream_schema(name)
        if not (data or settings.data or schema.source_table):
            place = ("streams", name, "data")
            raise InputError(
                f"{self._at(*place[:2])}: data is missing, the folder of the raw files"
                f"{example_at(PipelineSettings, place)}"
            )
        sets = tuple(
            self._pattern_set(key, value, schema, ("streams", name, "pattern_sets", key))
            for key, value in settings.pattern_sets.items()
        )
        folder = _resolved(Path(), str(data)) if data else _resolved(self.folder, settings.data)
        own = _set_in(settings.statistics)
        statistics = self.settings.statistics.model_copy(update=own)
        return Stream(name, schema, folder, sets, statistics, self.checks_folder)

    def files_of(self, name: str) -> tuple[Path, ...]:
        """The files that `stream` reads: this one, the schema, the pattern files, and those of parameters."""
        settings = self.stream_settings(name)
        named = [settings.schema_file, *(one.file for one in settings.pattern_sets.values())]
        values = (value for one in settings.pattern_sets.values() for value in one.parameters.values())
        named += [Path(value[1:]) for value in values if isinstance(value, str) and value.startswith("@")]
        return (self.path, *(self.folder / file for file in named))

    def faults(self, streams: Iterable[str]) -> Iterator[tuple[str, CepError]]:
        """Yield the streams whose schema, or one of whose pattern sets, is wrong, each with the error of a file."""
        for name in streams:
            settings = self.stream_settings(name)
            try:
                schema = self.stream_schema(name)
            except CepError as error:
                yield name, error
                continue
            for key, value in settings.pattern_sets.items():
                try:
                    place = ("streams", name, "pattern_sets", key)
                    self._pattern_set(key, value, schema, place)
                except CepError as error:
                    yield name, error

    def stream_schema(self, name: str) -> StreamSchema:
        """Load the schema of a stream, and nothing else of it."""
        from cep_pipeline.events.schema import StreamSchema

        file = self._file(self.stream_settings(name).schema_file, "stream schema", ("streams", name, "schema"))
        schema = StreamSchema.load(file)
        if schema.name != name:
            raise InputError(
                f"{self._at('streams', name)}: the schema {file} is named {schema.name!r}, not {name!r}; the name is "
                f"the namespace of the stream's tables: write `{schema.name}:` here, or `name: {name}` in the schema"
            )
        return schema

    def _at(self, *place: str) -> str:
        """The file, line and name of a setting, for messages."""
        return f"{self.path}:{line_at(self.path, place)}: {'.'.join(place)}"

    def _file(self, named: Path, what: str, place: tuple[str, ...]) -> Path:
        """The path of a file that a setting names; InputError where there is none."""
        file = self.folder / named
        if not file.exists():
            raise InputError(
                f"{self._at(*place)}: {file}: no such {what}; give the path of an existing file"
                f"{example_at(PipelineSettings, place)}"
            )
        return file

    def missing_data(self, name: str) -> str | None:
        """A sentence that says so where the folder of a stream's raw files does not exist; of an object store none."""
        # A stream without the setting reads a table, as `stream` sees to: the folder is then that of the pipeline.
        folder = _resolved(self.folder, self.stream_settings(name).data)
        if "://" in folder or Path(folder).exists():
            return None
        return (
            f"{self._at('streams', name, 'data')}: there is no folder {folder} with the raw files, which `cep run` "
            "needs; make it, or name another one here or with --data FOLDER"
        )

    def _pattern_set(
        self,
        name: str,
        settings: PatternSetSettings,
        schema: StreamSchema,
        place: tuple[str, ...],
    ) -> PatternSet:
        from cep_pipeline.language.scope import WrittenValues
        from cep_pipeline.planning.planners import DEFAULT_PLANNER

        file = self._file(settings.file, "pattern file", (*place, "file"))
        parameters = {
            key: read_parameter(value, self.folder)
            if isinstance(value, str)
            else WrittenValues(value)
            if isinstance(value, list)
            else value
            for key, value in settings.parameters.items()
        }
        patterns = read_patterns(file, schema, parameters)
        planning = self.settings.planning
        planner, cost = settings.planner or planning.planner or DEFAULT_PLANNER, settings.cost or planning.cost
        alpha = next((one for one in (settings.alpha, planning.alpha) if one is not None), 0.0)
        try:
            search = search_settings(planner, cost, alpha, settings, planning)
        except InputError as error:
            raise InputError(f"{self.path}:{line_at(self.path, place)}: pattern set {name!r}: {error}") from error
        return PatternSet(
            name=name,
            file=file,
            patterns=tuple(pattern for pattern in patterns if not pattern.composes),
            version=version_of(patterns),
            planner=planner,
            cost=cost,
            mechanism=settings.mechanism,
            alpha=alpha,
            adaptation=self.settings.adaptation.model_copy(update=_set_in(settings.adaptation)),
            search=search,
            limits=self.settings.limits.model_copy(update=_set_in(settings.limits)),
            composing=tuple(pattern for pattern in patterns if pattern.composes),
        )


def check_mechanism(name: str) -> None:
    """Refuse a mechanism that there is not: an InputError. It is asked later whether it runs the patterns."""
    from cep_pipeline.detection.mechanisms import choose_mechanisms

    choose_mechanisms((), name)


def search_settings(
    planner: str, cost: str | None, alpha: float, settings: PlanningSettings, planning: PlanningSettings
) -> dict[str, Any]:
    """The options of planning a set's patterns together, {} where its planner plans each by itself.

    An InputError says that options are given for a planner that has none, or that patterns cannot be planned together
    by this cost model.
    """
    from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNER_NAMES

    if planner in MULTI_PATTERN_PLANNER_NAMES:
        from cep_pipeline.planning.multi_pattern.costs import shared_cost

        shared_cost(cost, alpha)
        return {**planning.search, **settings.search}
    if settings.search:
        raise InputError(
            f"{', '.join(settings.search)}: for planners of many patterns together, not for {planner!r}; write one of "
            f"these, for example `planner: {MULTI_PATTERN_PLANNER_NAMES[0]}`: {', '.join(MULTI_PATTERN_PLANNER_NAMES)}"
        )
    return {}


def _set_in(settings: Document) -> dict[str, Any]:
    """Return the settings that a user has written, without defaults."""
    return settings.model_dump(exclude_unset=True)


def read_patterns(file: Path, schema: StreamSchema, parameters: dict[str, Any]) -> tuple[Pattern, ...]:
    """Parse a pattern file; an InputError says that it cannot be read, or holds no statement."""
    from cep_pipeline.language.parser import parse_patterns

    text = read_text(file, "pattern file")
    with without_collecting():
        patterns = tuple(parse_patterns(text, schema, params=parameters, source=str(file)))
    if not patterns:
        raise InputError(f"{file}: no pattern in it; a statement begins with NAME or PATTERN")
    return patterns


def version_of(patterns: Sequence[Pattern]) -> str:
    """16 hexadecimal digits of what patterns say, whatever their file says besides."""
    from cep_pipeline.language.formatter import format_pattern

    said = [[format_pattern(one), [list(value) for value in one.parameters_as_json]] for one in patterns]
    return sha256(yaml.safe_dump(said).encode()).hexdigest()[:16]


def read_parameter(value: str, folder: Path) -> WrittenValues:
    """Values of a parameter written as text: `@file` has one a line, otherwise they are separated by commas.

    A value that reads as a number of the language, or as true or false, is one; quotes keep it a string.

    Examples
    --------
    >>> read_parameter("SPY, 'IBM', 3, 2.5, true, NAN, '7'", Path())
    ('SPY', 'IBM', 3, 2.5, True, 'NAN', '7')
    """
    from cep_pipeline.language.scope import WrittenValues

    if value.startswith("@"):
        file = folder / value[1:]
        parts = read_text(file, "parameter file").splitlines()
    else:
        parts = value.split(",")
    return WrittenValues(_parameter_value(part.strip()) for part in parts if part.strip())


_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _parameter_value(text: str) -> int | float | bool | str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        if len(text) > 400:
            raise InputError(f"a parameter is a number of {len(text):,} digits: write it in quotes if it is text")
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def patterns_of(pattern_sets: Sequence[PatternSet]) -> list[Pattern]:
    """The patterns of all sets."""
    return [pattern for pattern_set in pattern_sets for pattern in pattern_set.patterns]


def check_runnable(pattern_sets: Sequence[PatternSet]) -> None:
    """Refuse patterns that no mechanism runs, or not the one that the pattern set names, before anything is read.

    Raises
    ------
    UnsupportedPattern
        The pattern is named, and what is not run.
    InputError
        Days cannot publish a pattern's matches one after another.
    """
    from cep_pipeline.detection.mechanisms import choose_mechanisms
    from cep_pipeline.patterns.composing import plain_pattern
    from cep_pipeline.slices.ownership import not_by_day

    for pattern_set in pattern_sets:
        for pattern in pattern_set.statements:
            if why := not_by_day(pattern):
                raise InputError(
                    f"{pattern_set.file}: daily runs do not publish pattern {pattern.name!r}, which {why}; or find its "
                    "matches by cep detect"
                )
        choose_mechanisms(pattern_set.patterns, pattern_set.mechanism)
        choose_mechanisms([plain_pattern(one) for one in pattern_set.composing], pattern_set.mechanism)
