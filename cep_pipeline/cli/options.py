"""Options that several commands share.

At the end stand `--planner` and `--set`: settings of planning and adaptation, as `pipeline.yaml` has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cep_pipeline.cli.terminal import repeated, say
from cep_pipeline.errors import CepError, InputError

if TYPE_CHECKING:
    from cep_pipeline.language.scope import WrittenValues
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.pipeline.configuration import AdaptationSettings, PatternSet, PlanningSettings

Command = TypeVar("Command", bound=Callable[..., Any])
Settings = TypeVar("Settings", "PlanningSettings", "AdaptationSettings")


class Day(click.ParamType[date]):
    """A day, written YYYY-MM-DD."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        if isinstance(value, date):
            return value
        try:
            return date.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no day; write it as 2013-10-07", param, ctx)


def check_folder(path: Path) -> None:
    """Refuse a file whose folder is not there, before the work whose result it is to hold."""
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {path.parent}; make it, or name another file")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the failure to write a file into an InputError that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def counted(number: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "stale day"), counted(1200, "file")
    ('1 stale day', '1,200 files')
    """
    ending = "" if number == 1 else "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number:,} {noun}{ending}"


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of several; the help of a command shows the options in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


DEFAULT_CONFIG = Path("pipeline.yaml")
PATH = click.Path(path_type=Path)
"""The type of an option or argument that is a file or a folder."""


def repeat(option: str, value: object) -> None:
    """Let the next steps of the present command have an option that it was not given, but stands for what it took."""
    if value not in (None, (), DEFAULT_CONFIG):
        repeated()[option] = value


def repeated_option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """An option that the next steps of a command repeat (`complete`)."""

    def note(_: click.Context, __: click.Parameter, value: Any) -> Any:
        repeat(names[0], value)
        return value

    return click.option(*names, callback=note, **settings)


config_option = repeated_option(
    "--config", type=PATH, default=DEFAULT_CONFIG, show_default=True, help="Pipeline configuration."
)
"""`--config`, of a command that works on the whole warehouse."""

configuration_options = with_options(
    config_option,
    repeated_option(
        "--stream",
        metavar="NAME",
        help="Stream of the configuration; the first one, or the only one that is published, if not given.",
    ),
)
"""`--config` and `--stream`."""

pattern_set_option = repeated_option(
    "--pattern-set", metavar="NAME", help="Pattern set; the stream's first if not given."
)

data_option = repeated_option(
    "--data", metavar="PLACE", help="Folder or address with the raw files, if not the configured one."
)

days_options = with_options(
    click.option("--day", type=Day(), help="Only this day."),
    click.option("--from", "first", type=Day(), help="First day."),
    click.option("--to", "last", type=Day(), help="Last day, included."),
)
"""`--day`, or `--from` and `--to`: published days."""


def days_asked(day: date | None, first: date | None, last: date | None) -> tuple[date | None, date | None]:
    """The first and the last day that are asked for."""
    one_of_two({"--day": day}, {"--from": first, "--to": last})
    if first and last and last < first:
        raise InputError(f"the last day {last} is before the first day {first}")
    return (day, day) if day else (first, last)


def one_of_two(these: Mapping[str, object], others: Mapping[str, object]) -> None:
    """Refuse options that do not go together."""
    both = [next((name for name, value in options.items() if value), None) for options in (these, others)]
    if None not in both:
        raise InputError(f"{both[0]} and {both[1]} do not go together: give one of them")


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout, in place of tables and text."
)
"""`--json`, of every command that prints a table; `say_json` prints the document."""


parameter_option = click.option(
    "--param",
    "parameters",
    multiple=True,
    metavar="NAME=VALUES",
    help="Values of a $name: 'size=300', 'tech=AAPL,MSFT', or 'tech=@FILE' with one value a line. After IN they are a "
    "set. Elsewhere a $name is one value: several, as in 'size=100,300', make one pattern for each, such as "
    "rise_size_300.",
)


def pattern_file_options(*, required: bool) -> Callable[[Command], Command]:
    """`--patterns`, `--schema`, `--events` and `--param`: patterns over files, without a warehouse."""
    return with_options(
        click.option("--patterns", required=required, type=PATH, help="Pattern file."),
        click.option("--schema", required=required, type=PATH, help="Stream schema (YAML)."),
        click.option(
            "--events",
            required=required,
            multiple=True,
            type=PATH,
            help="Raw file of the schema's format, or Parquet file of published events; a folder or a pattern such as "
            "'data/*.csv' for all files in it; - for stdin. May be given several times.",
        ),
        parameter_option,
    )


def parse_parameters(parameters: tuple[str, ...]) -> dict[str, WrittenValues]:
    """Values of `--param name=values`, by name."""
    from cep_pipeline.pipeline.configuration import read_parameter

    values: dict[str, WrittenValues] = {}
    for text in parameters:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--param {text!r}: write it as name=value,value or name=@FILE")
        values[name.removeprefix("$")] = read_parameter(value, Path())
    return values


def note_unused_parameters(parameters: Mapping[str, Any], patterns: Iterable[Pattern]) -> None:
    """Tell which values of `--param` no pattern asks for: mostly a misspelt name."""
    asked = {name for pattern in patterns for name, _ in pattern.parameters}
    for name in parameters:
        if name not in asked:
            known = ", ".join(f"${other}" for other in sorted(asked)) or "none"
            say(f"note: --param {name}: no pattern asks for ${name}; asked for are: {known}", err=True)


@contextmanager
def naming_run(run_id: str) -> Iterator[None]:
    """Note the id of a run on an error that nothing explains, for its message."""
    try:
        yield
    except CepError:
        raise
    except Exception as error:
        error.add_note(f"run {run_id}")
        raise


# -- settings of planning and adaptation -------------------------------------------------------------------------------

planner_options = with_options(
    click.option(
        "--planner",
        metavar="NAME",
        help="Planner.  [default: that of the pattern set; over files dp_left_deep, for patterns worth planning]",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of planning, as pipeline.yaml has it: cost or alpha; for planners of many patterns "
        "neighbourhood, sharing, time_limit_s, steps or seed. As often as wanted.",
    ),
)
"""`--planner`, and the other settings of planning (`read_settings`)."""


def read_settings(given: tuple[str, ...], planner: str | None) -> tuple[PlanningSettings, AdaptationSettings]:
    """The settings that `--planner` and `--set` give, by the rules of `pipeline.yaml`; wrong ones are an InputError."""
    from cep_pipeline.pipeline.configuration import AdaptationSettings, PlanningSettings

    values: dict[str, Any] = {} if planner is None else {"planner": planner}
    known = {*PlanningSettings.model_fields, *AdaptationSettings.model_fields} - {"planner"}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise InputError(f"--set {text!r}: write it as NAME=VALUE; the settings are: {', '.join(sorted(known))}")
        values[name] = _number_or_text(value)
    return _checked(PlanningSettings, values), _checked(AdaptationSettings, values)


def _number_or_text(value: str) -> float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _checked(model: type[Settings], values: dict[str, Any]) -> Settings:
    """Return the values that are settings of a model."""
    from pydantic import ValidationError

    try:
        return model.model_validate({name: value for name, value in values.items() if name in model.model_fields})
    except ValidationError as error:
        fault = error.errors()[0]
        name, said = fault["loc"][0], fault["msg"].removeprefix("Value error, ").replace("Input should", "it should")
        option = "--planner" if name == "planner" else f"--set {name}={values[str(name)]}"
        raise InputError(f"{option}: {said}") from error


def planner_of(given: PlanningSettings, own: PatternSet | None = None) -> tuple[str, str | None, float, dict[str, Any]]:
    """The planner, its cost model, its weight of latency and its search: as given, else as those of a pattern set."""
    from cep_pipeline.pipeline.configuration import PlanningSettings, search_settings
    from cep_pipeline.planning.planners import DEFAULT_PLANNER

    planner = given.planner or (DEFAULT_PLANNER if own is None else own.planner)
    cost = given.cost or (None if own is None else own.cost)
    alpha = given.alpha if given.alpha is not None else 0.0 if own is None else own.alpha
    search = search_settings(planner, cost, alpha, given, PlanningSettings())
    return planner, cost, alpha, search if own is None else {**own.search, **search}


def following_settings(given: AdaptationSettings, every: str | None, *, adapt: bool) -> dict[str, Any]:
    """The settings of the loop that the options ask for; none where there is no `--adapt`.

    Options without `--adapt`, or settings that the decision function does not have, are an InputError.
    """
    from cep_pipeline.adaptation.decisions import decision_function

    asked = given.model_dump(exclude_unset=True)
    if not adapt:
        if asked or every:
            option = f"--set {next(iter(asked))}" if asked else "--every"
            raise InputError(f"{option} says how plans follow the stream: it goes with --adapt")
        return {}
    settings: dict[str, Any] = {"minimum_gain": asked.pop("minimum_gain", None)}
    if every is not None:
        of_events = re.fullmatch(r"([1-9][0-9]{0,17}) +events?", every.strip())
        settings |= {"every_events": int(of_events[1])} if of_events else {"every": every}
    if "k" in asked:
        asked["k"] = given.most_invariants
    return {**settings, "decision": decision_function(asked.pop("decision", "invariant"), **asked)}
