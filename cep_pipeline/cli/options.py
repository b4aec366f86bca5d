"""Options that several commands share."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.table import Column

from cep_pipeline.cli.terminal import say
from cep_pipeline.errors import CepError, InputError

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern

Command = TypeVar("Command", bound=Callable[..., Any])


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


def align_right(columns: Iterable[Column]) -> None:
    """Let the numbers in some columns of a table stand below each other."""
    for column in columns:
        column.justify = "right"


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

configuration_options = with_options(
    click.option(
        "--config",
        "config",
        type=click.Path(path_type=Path),
        default=DEFAULT_CONFIG,
        show_default=True,
        help="Pipeline configuration.",
    ),
    click.option(
        "--stream",
        metavar="NAME",
        help="Stream of the configuration; the first one, or the only one that is published, if not given.",
    ),
)
"""`--config` and `--stream`."""


def pattern_file_options(*, required: bool) -> Callable[[Command], Command]:
    """`--patterns`, `--schema`, `--events` and `--param`: patterns over files, without a warehouse."""
    return with_options(
        click.option("--patterns", required=required, type=click.Path(path_type=Path), help="Pattern file."),
        click.option("--schema", required=required, type=click.Path(path_type=Path), help="Stream schema (YAML)."),
        click.option(
            "--events",
            required=required,
            multiple=True,
            type=click.Path(path_type=Path),
            help="Raw file of the schema's format, or Parquet file of published events; a folder or a pattern such as "
            "'data/*.csv' for all files in it; - for stdin. May be given several times.",
        ),
        click.option(
            "--param",
            "parameters",
            multiple=True,
            metavar="NAME=VALUES",
            help="Values of a $name: 'tech=AAPL,MSFT', or 'tech=@FILE' with one value a line.",
        ),
    )


def parse_parameters(parameters: tuple[str, ...]) -> dict[str, list[Any]]:
    """Values of `--param name=values`, by name."""
    from cep_pipeline.pipeline.configuration import read_parameter

    values: dict[str, list[Any]] = {}
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


def next_command(*words: object, **options: object) -> str:
    """Return a command that can be pasted into a shell.

    An option that is None, False or the default file of the configuration is left out.

    Examples
    --------
    >>> next_command("explain", stream="trades", pattern_set="big ones", config=Path("pipeline.yaml"), analyze=True)
    "cep explain --stream trades --pattern-set 'big ones' --analyze"
    """
    given: list[str] = []
    for name, value in options.items():
        if value is not None and value is not False and not (name == "config" and value == DEFAULT_CONFIG):
            given += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(["cep", *map(str, words), *given])


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
