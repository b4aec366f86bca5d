"""`pipeline.yaml`: the streams, their pattern sets, the warehouse and how detection is planned and run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import Field, field_validator

from cep_pipeline.documents import Document, line_at, load_document
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.adaptation.decisions import DecisionFunction
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.patterns.pattern import Pattern, Window


class SearchSettings(Document):
    """A planner, and what planners of many patterns together are asked for; others have no such settings.

    Attributes
    ----------
    planner
        A name of one pattern's planner or of many together; None: not said here.
    neighbourhood
        Of a local search: `edge`, or `vertex:K`.
    sharing
        What patterns share: beginnings of orders, or subtrees.
    time_limit_s, steps
        A local search ends after so many seconds or steps, whichever comes first.
    seed
        Of a local search's random choices.
    """

    planner: str | None = None
    neighbourhood: str | None = None
    sharing: Literal["prefix", "subexpression"] | None = None
    time_limit_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    steps: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=0)

    @field_validator("planner")
    @classmethod
    def _planner(cls, name: str | None) -> str | None:
        from cep_pipeline.planning.planners import check_planner

        if name is not None:
            try:
                check_planner(name)
            except InputError as error:
                raise ValueError(str(error)) from error
        return name

    @field_validator("neighbourhood")
    @classmethod
    def _neighbourhood(cls, name: str | None) -> str | None:
        from cep_pipeline.planning.multi_pattern.neighbourhoods import Neighbourhood

        if name is not None:
            try:
                Neighbourhood.of(name)
            except InputError as error:
                raise ValueError(str(error)) from error
        return name

    @property
    def search(self) -> dict[str, Any]:
        """The options of planning together that are set, as `plan_workload` takes them."""
        given = {name: getattr(self, name) for name in SearchSettings.model_fields if name != "planner"}
        return {name: value for name, value in given.items() if value is not None}


ALL = "all"


class AdaptationSettings(Document):
    """The rules by which a plan is made again.

    Attributes
    ----------
    decision
        A key of `adaptation.DECISION_FUNCTIONS`.
    distance
        Of `invariant`: a number, 0 or more, or a key of `adaptation.DISTANCES`.
    k
        Of `invariant`: so many invariants a block, the tightest ones; or all.
    threshold
        Of `constant_threshold`, and of `invariant` for patterns whose planners have no invariants: the share by which
        a number moves before the plan is made again.
    sample
        So many events of the latest day are run by the old plan and the new one to compare them; 0: they are compared
        by their costs alone.
    """

    decision: str = "invariant"
    distance: float | str = 0.0
    k: int | str = 1
    threshold: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    sample: int = Field(default=20_000, ge=0, le=10_000_000)

    @field_validator("decision")
    @classmethod
    def _known(cls, name: str) -> str:
        from cep_pipeline.adaptation import DECISION_FUNCTIONS

        if name not in DECISION_FUNCTIONS:
            raise ValueError(f"there is no decision function of this name; there are: {', '.join(DECISION_FUNCTIONS)}")
        return name

    @field_validator("distance")
    @classmethod
    def _distance(cls, setting: float | str) -> float | str:
        from cep_pipeline.adaptation import distance_rule

        try:
            distance_rule(setting)
        except InputError as error:
            raise ValueError(str(error)) from error
        return setting

    @field_validator("k")
    @classmethod
    def _positive(cls, k: int | str) -> int | str:
        if k == ALL or (isinstance(k, int) and k >= 1):
            return k
        raise ValueError(f"a block has one invariant or more: write 1, 2, … or {ALL}")

    @property
    def most_invariants(self) -> int | None:
        """Invariants a block; None: all."""
        return self.k if isinstance(self.k, int) else None

    def function(self) -> DecisionFunction:
        """The decision function with those of the settings that it has."""
        from cep_pipeline.adaptation import decision_function

        return decision_function(self.decision, **{**self.decisive(), **self._k()})

    def decisive(self) -> dict[str, Any]:
        """Return the settings that the decision function has, as they are written."""
        from cep_pipeline.adaptation import DECISION_FUNCTIONS

        has = inspect.signature(DECISION_FUNCTIONS[self.decision]).parameters
        return {name: value for name, value in self.model_dump().items() if name in has}

    def _k(self) -> dict[str, int | None]:
        return {"k": self.most_invariants} if "k" in self.decisive() else {}


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: letters, digits and '_', not beginning with a digit")
    return name


class PatternSetSettings(SearchSettings):
    """A pattern file, how it is planned and by which mechanism it runs (none: each pattern by the fastest).

    Parameters are lists of values, or `@file` with one value a line.
    """

    file: Path
    parameters: dict[str, str | list[int | float | bool | str]] = Field(default_factory=dict)
    cost: str | None = None
    alpha: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    mechanism: str | None = None
    adaptation: AdaptationSettings = AdaptationSettings()


class StatisticsSettings(Document):
    """The sliding window that statistics are of, and the largest relative error of the counts in it.

    The window is a length of time ("20 minutes") or a number of events ("50000 events"). Conditions count as dependent
    where their joint selectivity is off from the product of theirs by more than `dependent_factor`.
    """

    window: str = "1 hour"
    epsilon: float = Field(default=0.02, ge=0.001, le=0.5)
    dependent_factor: float = Field(default=2.0, gt=1, le=1e6)

    @field_validator("window")
    @classmethod
    def _window(cls, text: str) -> str:
        try:
            parse_window(text)
        except InputError as error:
            raise ValueError(str(error)) from error
        return text

    @property
    def length(self) -> Window:
        """The window's length."""
        return parse_window(self.window)


def parse_window(text: str) -> Window:
    """The window that a text says: a length of time, or a number of events.

    Raises
    ------
    InputError
        It says neither.

    Examples
    --------
    >>> parse_window("20 minutes").time_us, parse_window("50000 events").events
    (1200000000, 50000)
    """
    from cep_pipeline.patterns.pattern import Window
    from cep_pipeline.statistics.estimate import parse_duration_us

    if counted := _EVENTS.fullmatch(text.strip()):
        return Window(events=int(counted[1]))
    try:
        return Window(time_us=parse_duration_us(text))
    except InputError as error:
        raise InputError(f"{error}; or write a number of events, as in 50000 events") from error


_EVENTS = re.compile(r"([1-9][0-9]{0,17}) +events?")


class StreamSettings(Document):
    """A stream: its schema, the folder with its raw files, its pattern sets, its own statistics and adaptation."""

    schema_file: Path = Field(alias="schema")
    data: Path
    pattern_sets: dict[str, PatternSetSettings] = Field(default_factory=dict)
    statistics: StatisticsSettings = StatisticsSettings()
    adaptation: AdaptationSettings = AdaptationSettings()

    @field_validator("pattern_sets")
    @classmethod
    def _names(cls, sets: dict[str, PatternSetSettings]) -> dict[str, PatternSetSettings]:
        return {_check_name(name): settings for name, settings in sets.items()}


class WarehouseSettings(Document):
    """The place of the tables, and the catalog's database (none: a SQLite file in the warehouse)."""

    location: str = "warehouse"
    catalog: str | None = None


class PlanningSettings(SearchSettings):
    """Planner and cost of pattern sets that name none (no cost: that of each pattern's mechanism).

    What it says of planning together is for the pattern sets that are planned so.
    """

    cost: str | None = None
    alpha: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class SparkSettings(Document):
    """The Spark application: its master, the number of slices a core, and further Spark properties."""

    master: str = "local[*]"
    slices_per_core: int = Field(default=3, ge=1, le=64)
    properties: dict[str, str] = Field(default_factory=dict)


class PipelineSettings(Document):
    """The whole of `pipeline.yaml`."""

    streams: dict[str, StreamSettings]
    warehouse: WarehouseSettings = WarehouseSettings()
    statistics: StatisticsSettings = StatisticsSettings()
    planning: PlanningSettings = PlanningSettings()
    adaptation: AdaptationSettings = AdaptationSettings()
    spark: SparkSettings = SparkSettings()

    @field_validator("streams")
    @classmethod
    def _names(cls, streams: dict[str, StreamSettings]) -> dict[str, StreamSettings]:
        if not streams:
            raise ValueError("at least one stream is needed")
        return {_check_name(name): settings for name, settings in streams.items()}


@dataclass(frozen=True)
class PatternSet:
    """A parsed pattern set.

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


@dataclass(frozen=True)
class Stream:
    """A configured stream with its schema loaded and its paths resolved."""

    name: str
    schema: StreamSchema
    data: Path
    pattern_sets: tuple[PatternSet, ...]
    statistics: StatisticsSettings = field(default_factory=StatisticsSettings)

    def pattern_set(self, name: str) -> PatternSet:
        """The pattern set of this name; `InputError` lists the known ones otherwise."""
        for pattern_set in self.pattern_sets:
            if pattern_set.name == name:
                return pattern_set
        known = ", ".join(p.name for p in self.pattern_sets) or "none"
        raise InputError(f"stream {self.name!r} has no pattern set {name!r}; it has: {known}")


@dataclass(frozen=True)
class Configuration:
    """A read `pipeline.yaml`; relative paths in it are relative to its folder."""

    path: Path
    settings: PipelineSettings

    @classmethod
    def load(cls, path: str | Path) -> Configuration:
        path = Path(path)
        return cls(path.resolve(), load_document(path, PipelineSettings, "pipeline configuration"))

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def warehouse_location(self) -> str:
        location = self.settings.warehouse.location
        return location if "://" in location else str((self.folder / location).resolve())

    def stream_names(self) -> tuple[str, ...]:
        return tuple(self.settings.streams)

    def stream_settings(self, name: str) -> StreamSettings:
        """Return the settings of a stream; where there is none of this name, an `InputError` lists the known ones."""
        settings = self.settings.streams.get(name)
        if settings is None:
            raise InputError(f"{self.path}: no stream {name!r}; configured are {', '.join(self.settings.streams)}")
        return settings

    def stream(self, name: str, *, data: Path | None = None) -> Stream:
        """Load a stream: its schema, and its pattern sets parsed and checked.

        Parameters
        ----------
        name
            A stream of the configuration.
        data
            Folder with the raw files, in place of the configured one.

        Raises
        ------
        InputError, PatternError
            An unknown stream, a faulty schema or pattern file.
        """
        from cep_pipeline.events.schema import StreamSchema

        settings = self.stream_settings(name)
        schema = StreamSchema.load(self.folder / settings.schema_file)
        if schema.name != name:
            raise InputError(
                f"{self.folder / settings.schema_file}: the schema is named {schema.name!r}, but {self.path} lists it "
                f"as {name!r}; use one name, for it is the namespace of the stream's tables"
            )
        sets = tuple(
            self._pattern_set(key, value, schema, settings.adaptation, ("streams", name, "pattern_sets", key))
            for key, value in settings.pattern_sets.items()
        )
        folder = data.resolve() if data else (self.folder / settings.data).resolve()
        own = _set_in(settings.statistics)
        return Stream(name, schema, folder, sets, self.settings.statistics.model_copy(update=own))

    def _pattern_set(
        self,
        name: str,
        settings: PatternSetSettings,
        schema: StreamSchema,
        of_stream: AdaptationSettings,
        place: tuple[str, ...],
    ) -> PatternSet:
        from cep_pipeline.detection.choice import choose_mechanisms
        from cep_pipeline.language.formatter import format_pattern
        from cep_pipeline.planning.make_plan import DEFAULT_PLANNER

        file = self.folder / settings.file
        parameters = {
            key: read_parameter(value, self.folder) if isinstance(value, str) else value
            for key, value in settings.parameters.items()
        }
        patterns = read_patterns(file, schema, parameters)
        content = yaml.safe_dump([[format_pattern(p), [[k, list(v)] for k, v in p.parameters]] for p in patterns])
        planning = self.settings.planning
        planner, cost = settings.planner or planning.planner or DEFAULT_PLANNER, settings.cost or planning.cost
        alpha = planning.alpha if settings.alpha is None else settings.alpha
        try:
            search = _search(planner, cost, alpha, settings, planning)
            choose_mechanisms((), settings.mechanism)  # whether it runs the patterns is asked when they are to run
        except InputError as error:
            raise InputError(f"{self.path}:{line_at(self.path, place)}: pattern set {name!r}: {error}") from error
        return PatternSet(
            name=name,
            file=file,
            patterns=patterns,
            version=sha256(content.encode()).hexdigest()[:16],
            planner=planner,
            cost=cost,
            mechanism=settings.mechanism,
            alpha=alpha,
            adaptation=self.settings.adaptation.model_copy(
                update={**_set_in(of_stream), **_set_in(settings.adaptation)},
            ),
            search=search,
        )


def _search(
    planner: str, cost: str | None, alpha: float, settings: PatternSetSettings, planning: PlanningSettings
) -> dict[str, Any]:
    """The options of planning a set's patterns together, {} where its planner plans each by itself.

    Raises
    ------
    InputError
        There is no such planner or cost model; options are given for a planner that has none; or patterns cannot be
        planned together by this cost model.
    """
    from cep_pipeline.planning.costs import THROUGHPUT, cost_named
    from cep_pipeline.planning.multi_pattern.shared_costs import shared_cost
    from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNER_NAMES, check_planner

    check_planner(planner)
    cost_named(cost or THROUGHPUT.name)
    if planner in MULTI_PATTERN_PLANNER_NAMES:
        shared_cost(cost, alpha)
        return {**planning.search, **settings.search}
    if settings.search:
        raise InputError(
            f"{', '.join(settings.search)}: for planners of many patterns together, not for {planner!r}; these are: "
            f"{', '.join(MULTI_PATTERN_PLANNER_NAMES)}"
        )
    return {}


def _set_in(settings: Document) -> dict[str, Any]:
    """Return the settings that a user has written, without defaults."""
    return settings.model_dump(exclude_unset=True)


def read_patterns(file: Path, schema: StreamSchema, parameters: dict[str, Any]) -> tuple[Pattern, ...]:
    """Parse a pattern file.

    Raises
    ------
    InputError
        The file cannot be read, or holds no statement.
    PatternError
        A statement is wrong.
    """
    from cep_pipeline.language.parser import parse_patterns

    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{file}: no such pattern file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: the pattern file cannot be read: {error}") from error
    patterns = tuple(parse_patterns(text, schema, params=parameters, source=str(file)))
    if not patterns:
        raise InputError(f"{file}: no pattern in it; a statement begins with NAME or PATTERN")
    return patterns


def read_parameter(value: str, folder: Path) -> list[Any]:
    """Values of a parameter written as text: `@file` has one a line, otherwise they are separated by commas.

    A value that reads as a number of the language, or as true or false, is one; quotes keep it a string.

    Examples
    --------
    >>> read_parameter("SPY, 'IBM', 3, 2.5, true, NAN, '7'", Path())
    ['SPY', 'IBM', 3, 2.5, True, 'NAN', '7']
    """
    if value.startswith("@"):
        file = folder / value[1:]
        try:
            parts = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file}: the parameter file cannot be read: {error}") from error
    else:
        parts = value.split(",")
    return [_parameter_value(part.strip()) for part in parts if part.strip()]


_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _parameter_value(text: str) -> int | float | bool | str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def patterns_of(pattern_sets: Sequence[PatternSet]) -> list[Pattern]:
    """The patterns of all sets."""
    return [pattern for pattern_set in pattern_sets for pattern in pattern_set.patterns]
