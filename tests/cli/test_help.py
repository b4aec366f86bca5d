"""Help: every command teaches itself, at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cep_pipeline.cli import COMMAND_GROUPS, COMMANDS
from tests.cli.command_line import cep, cep_process, run_python

HEAVY = ("great_expectations", "numba", "pandas", "pyiceberg", "pyspark", "sqlalchemy")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str, tmp_path: Path) -> None:
    done = cep(command, "--help", folder=tmp_path)
    assert (done.code, done.errors) == (0, "")
    assert f"cep {command}" in done.output.partition("Example")[2], "there is no example of the command"
    options = done.output.partition("Options:")[2]
    assert options and all(line.split(maxsplit=2)[1:] for line in options.splitlines() if line.startswith("  -"))


PRINTS_NO_TABLE = {"init", "generate", "help"}
"""Commands that print a line for each thing that they make, or a text to keep."""
PRINTS_A_DOCUMENT = {"schema", "bench", "experiment"}
"""Commands that print a JSON Schema, or a page of Markdown."""


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - PRINTS_NO_TABLE - PRINTS_A_DOCUMENT))
def test_every_command_that_prints_a_table_also_prints_json(command: str, tmp_path: Path) -> None:
    assert "--json " in cep(command, "--help", folder=tmp_path).output.partition("Options:")[2]


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ()])
def test_the_command_itself_lists_all_commands_and_a_first_session(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = cep_process(*arguments, folder=tmp_path)
    text = done.output + done.errors
    assert "Traceback" not in text
    assert all(f"  {command} " in text for command in COMMANDS)
    for line in ("cep init", "cep run", "cep matches", "cep help language", "Exit codes: 0 done, 2 wrong"):
        assert line in text


def test_the_list_of_commands_has_a_line_for_each_and_imports_none_of_them(tmp_path: Path) -> None:
    code = """
import sys
from cep_pipeline.cli import main
sys.argv = ["cep", "--help"]
try:
    main()
except SystemExit:
    pass
print("imported:", *(name for name in sys.modules))
"""
    done = run_python(code, folder=tmp_path, environment={"COLUMNS": "100"})
    shown, _, imported = done.output.partition("imported:")
    modules = {place.partition(":")[0] for place in COMMANDS.values()}
    assert modules & {*imported.split()} == set() and "numpy" not in imported.split()
    assert [
        re.sub(r"^  |  .*", "", line) for line in shown.partition("First steps:")[2].splitlines() if line[:2] == "  "
    ] == (list(COMMANDS))
    assert all(
        f"  {name:10}  {line}\n" in shown for group in COMMAND_GROUPS.values() for name, (_, line) in group.items()
    )


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = """
import sys
from cep_pipeline.cli import COMMANDS, main
for arguments in [[], *([command] for command in COMMANDS)]:
    sys.argv = ["cep", *arguments, "--help"]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, (arguments, stop.code)
print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}))
"""
    done = run_python(code, folder=tmp_path)
    assert done.code == 0, done.errors
    imported = done.output.rpartition("imported:")[2].split()
    assert "click" in imported
    assert [name for name in HEAVY if name in imported] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rum",), "No such command 'rum'. Did you mean 'run'?"),
        (("everything",), "No such command 'everything'."),
        (("run", "--dya", "2024-03-04"), "--day"),
        (("run", "--day", "4.3.2024"), "write it as 2013-10-07"),
        (("detect", "--schema", "x.yaml"), "--patterns"),
        (("detect",), "It needs --patterns, --schema, --events."),
        (("matches", "--limit", "0"), "--limit"),
        (("generate", "--stocks", "3"), "--stocks"),
        (("bench", "everything"), "detection"),
        (("maintain", "--stream", "trades"), "No such option '--stream'"),
    ],
)
def test_wrong_arguments_are_told_with_exit_code_2(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    done = cep(*arguments, folder=tmp_path)
    assert done.code == 2
    assert words in done.errors
    assert done.output == ""


def test_the_version_is_told(tmp_path: Path) -> None:
    done = cep("--version", folder=tmp_path)
    assert (done.code, done.output) == (0, "cep, version 0.1.0\n")


@pytest.mark.parametrize("command", ["bench", "experiment"])
def test_measuring_without_a_checkout_is_refused_with_what_to_do(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("cep_pipeline.cli._ROOT", tmp_path)
    done = cep(command, "lazy_nfa", "--full", folder=tmp_path)
    assert done.code == 2
    assert f"cep {command} runs from a checkout of the project" in done.errors
    assert "clone the project" in done.errors
