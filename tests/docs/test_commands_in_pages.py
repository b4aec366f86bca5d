"""The commands and the Python in the pages are those that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

import cep_pipeline as cep
from cep_pipeline.cli import cli
from tests.cli.command_line import cep as call
from tests.docs.markdown_pages import CHECKOUT, PAGES

WITH_COMMANDS = [name for name, page in PAGES.items() if page.commands]


def parse(command: str) -> None:
    """Have click read a command line, with all its options, without running it.

    Raises
    ------
    click.ClickException
        There is no such command or option, or a value does not fit.
    """
    words = shlex.split(command)
    context = cli.make_context("cep", words[1:])
    name, subcommand, rest = cli.resolve_command(context, [*context._protected_args, *context.args])
    assert subcommand is not None
    if not {"…", "..."} & set(rest):
        subcommand.make_context(name, rest, parent=context)
        return
    known = {option for parameter in subcommand.params for option in parameter.opts}  # a part of a command
    for word in rest:
        if word.startswith("--") and word not in known:
            raise click.NoSuchOption(word)


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_the_commands_of_a_page_are_read_by_the_command_line(name: str) -> None:
    for command in PAGES[name].commands:
        if command.startswith("cep ") and not re.search(r"--help|--version|\||>|\[OPTIONS\]", command):
            try:
                parse(command)
            except click.ClickException as error:
                pytest.fail(f"{command}: {error.format_message()}")


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_the_targets_of_make_in_a_page_are_there(name: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.M))
    named = [command.split()[1] for command in PAGES[name].commands if command.startswith("make ")]
    assert [target for target in named if target not in targets] == []


def test_an_option_that_there_is_not_is_found() -> None:
    with pytest.raises(click.ClickException, match="No such option"):
        parse("cep run --dya 2025-01-06")
    with pytest.raises(click.ClickException, match="No such option"):
        parse("cep detect --mekanism fused …")
    with pytest.raises(click.ClickException, match="Missing"):
        parse("cep detect --mechanism fused")
    assert "cep run --from 2025-03-04 --to 2025-03-05" in PAGES["README.md"].commands


def test_readme_is_short() -> None:
    assert len(PAGES["README.md"].text.encode()) < 10_000


def test_readme_s_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = [code for language, code in PAGES["README.md"].blocks if language == "python"]
    exec(code, {})
    printed = capsys.readouterr().out
    assert "order s, i" in printed
    assert "'bindings': [{'variable': 's', 'seq': 0}, {'variable': 'i', 'seq': 1}]" in printed


def test_readme_s_pattern_parses() -> None:
    [text] = [code for language, code in PAGES["README.md"].blocks if language == "sql"]
    [pattern] = cep.parse_patterns(text, cep.StreamSchema.load(CHECKOUT / "streams" / "generated_trades.yaml"))
    assert pattern.name == "v_reversal"


def test_readme_s_first_detection_runs(tmp_path: Path) -> None:
    """The steps of "Your own data", to the letter, up to those that start Spark."""
    lines = [
        f"2025-03-{4 + row // 60:02d} {row // 60:02d}:{row % 60:02d}:00,{'north' if row % 2 else 'south'},{row % 7}"
        for row in range(120)
    ]
    (tmp_path / "readings.csv").write_text("\n".join(["time,sensor,temperature", *lines]))
    init, check, detect = (
        next(one for one in PAGES["README.md"].commands if one.startswith(f"cep {name}"))
        for name in ("init mine", "check", "detect")
    )
    for command, folder in ((init, tmp_path), (check, tmp_path / "mine"), (detect, tmp_path / "mine")):
        done = call(*shlex.split(command)[1:], folder=folder)
        assert done.code == 0, done.errors
    [header, *rows] = (tmp_path / "mine" / "matches.csv").read_text().splitlines()
    assert '"match_id"' in header and rows


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "docs/operations.md"])
def test_names_of_the_package_in_a_page_exist(name: str) -> None:
    named = set(re.findall(r"\bcep\.([A-Za-z_]\w*)", PAGES[name].text))
    assert [one for one in named if one not in dir(cep)] == []
