"""The `cep` command as a user meets it: called in this process, or as a process of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from cep_pipeline.cli import main
from tests.process_state import process_state_kept

CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Done:
    """A call that has ended: exit code, what it printed, and its messages."""

    code: int
    output: str
    errors: str

    @property
    def error(self) -> str:
        """The text of the message that ended the call, from its beginning."""
        assert "error: " in self.errors, f"no error in {self.errors!r}"
        return self.errors.partition("error: ")[2]


def cep(*arguments: str | Path, folder: Path) -> Done:
    """Call `cep` in this process, in a folder; an exception that it does not explain fails the test."""
    output, errors = io.StringIO(), io.StringIO()
    argv = ["cep", *(str(argument) for argument in arguments)]
    code = 0
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, {"COLUMNS": "200", "CEP_TRACEBACK": "1"}),
        chdir(folder),
        redirect_stdout(output),
        redirect_stderr(errors),
        process_state_kept(),
    ):
        try:
            main()
        except SystemExit as stop:
            assert stop.code is None or isinstance(stop.code, int)
            code = stop.code or 0
    assert "a fault of the program" not in errors.getvalue(), errors.getvalue()
    return Done(code, output.getvalue(), errors.getvalue())


def run_python(code: str, *arguments: str | Path, folder: Path, environment: Mapping[str, str] | None = None) -> Done:
    """Run Python code with the package on its path in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def cep_process(*arguments: str | Path, folder: Path, environment: Mapping[str, str] | None = None) -> Done:
    """Call `cep` as a process of its own."""
    return run_python("from cep_pipeline.cli import main; main()", *arguments, folder=folder, environment=environment)
