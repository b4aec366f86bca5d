"""The `cep` command. Each sub-command is a module of this package, imported when it is called."""

from __future__ import annotations

import logging
import sys
import warnings
from importlib import import_module
from pathlib import Path

import click

from cep_pipeline import __version__
from cep_pipeline.errors import CepError, InputError
from cep_pipeline.signals import Terminated, end_in_order

COMMANDS = {
    "run": "cep_pipeline.cli.run:run",
    "detect": "cep_pipeline.cli.detect:detect",
    "expand": "cep_pipeline.cli.expand:expand",
    "plan": "cep_pipeline.cli.plan:plan",
    "explain": "cep_pipeline.cli.plan:explain",
    "statistics": "cep_pipeline.cli.statistics:statistics",
    "invariants": "cep_pipeline.cli.adaptation:invariants",
    "replan": "cep_pipeline.cli.adaptation:replan",
    "matches": "cep_pipeline.cli.tables:matches",
    "status": "cep_pipeline.cli.status:status",
    "maintain": "cep_pipeline.cli.tables:maintain",
    "verify": "cep_pipeline.cli.tables:verify",
    "relocate": "cep_pipeline.cli.tables:relocate",
    "backup": "cep_pipeline.cli.recovery:backup",
    "restore": "cep_pipeline.cli.recovery:restore",
    "rollback": "cep_pipeline.cli.recovery:rollback",
    "package": "cep_pipeline.cli.package:package",
    "forget": "cep_pipeline.cli.tables:forget",
    "generate": "cep_pipeline.cli.generate:generate",
    "schema": "cep_pipeline.cli.schema:schema",
    "bench": "benchmarks.command:bench",
    "experiment": "benchmarks.experiments.command:experiment",
    "help": "cep_pipeline.cli.help:help_command",
}
"""Command name -> module and function. The folder `benchmarks` is part of a checkout only, not of the package."""


def _import_benchmarks() -> bool:
    """Make the folder `benchmarks` of the checkout importable; False where the package was installed without one."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / "benchmarks" / "command.py").exists():
        return False
    if str(checkout) not in sys.path:
        sys.path.append(str(checkout))
    return True


def _command_of_a_checkout(name: str) -> click.Command:
    """The command `name` where there is no checkout: it says what to do."""

    def refuse(**_: object) -> None:
        raise InputError(
            f"cep {name} runs from a checkout of the project, which has the folder benchmarks; "
            "the installed package has not: clone the project and run .venv/bin/cep there"
        )

    arguments = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(
        name,
        callback=refuse,
        params=[arguments],
        short_help="(from a checkout of the project only)",
        help=f"cep {name} runs from a checkout of the project only.",
        context_settings={"ignore_unknown_options": True},
    )


class _LazyGroup(click.Group):
    """A group that imports a command's module only when the command (or its help line) is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, function = COMMANDS[cmd_name].split(":")
        if module.startswith("benchmarks.") and not _import_benchmarks():
            return _command_of_a_checkout(cmd_name)
        command = getattr(import_module(module), function)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="cep")
@click.option("-v", "--verbose", count=True, help="Log what is done to stderr; -vv also each slice and decision.")
def cli(verbose: int) -> None:
    """Find patterns of events in historical and daily data.

    \b
    A first session, on days of trades that are made for it:
      cep generate --out var/trades --days 3
      cep run --data var/trades
      cep matches
      cep status

    The pattern language has a page: cep help language.

    Every command explains itself with --help. Exit codes: 0 done, 2 wrong input or pattern, 3 data that failed
    validation, 4 busy (another run holds the same day), 130 stopped by Ctrl-C, 143 by SIGTERM, 1 anything else.
    """
    if verbose:
        show_log(logging.INFO if verbose == 1 else logging.DEBUG)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """A warning as a user reads it; the line of code that raised it says nothing to them."""
    if issubclass(category, UserWarning):
        click.echo(f"warning: {message}", err=True)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """False for the traceback with which the connection to Spark reports Ctrl-C: the last line says it well enough."""
    return record.exc_info is None or not isinstance(record.exc_info[1], KeyboardInterrupt)


class _ToStderr(logging.Handler):
    """Shows log records to the user, above a progress bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)


def tell_of_compiling() -> None:
    """Let the user know of kernels that are compiled for the first time on a machine: it may take a minute."""
    compiled = logging.getLogger("cep_pipeline.compiled")
    if not any(isinstance(handler, _ToStderr) for handler in compiled.handlers):
        compiled.addHandler(_ToStderr())
        compiled.setLevel(logging.INFO)


def show_log(level: int) -> None:
    """Show what the package logs, from this level on: one line a record, with time, level and logger."""
    handler = _ToStderr(level)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    handler.addFilter(lambda record: not record.name.startswith("cep_pipeline.compiled"))  # told in any case
    package = logging.getLogger("cep_pipeline")
    package.handlers = [one for one in package.handlers if not isinstance(one, _ToStderr)]
    package.addHandler(handler)
    package.setLevel(level)


def main() -> None:
    """Run the command line; an explained failure ends with its exit code and without a traceback."""
    end_in_order()
    warnings.showwarning = _show_warning
    logging.getLogger().addFilter(_is_no_interrupt)
    tell_of_compiling()
    try:
        cli(standalone_mode=False)
    except CepError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt) as stop:
        cause = stop.__cause__ if isinstance(stop, click.Abort) else stop
        terminated = isinstance(cause, Terminated)
        said = "terminated" if terminated else "interrupted"
        click.echo(f"{said}: nothing that was not finished has been published", err=True)
        sys.exit(Terminated.exit_code if terminated else 130)
    except BrokenPipeError:
        sys.exit(0)
