"""`cep help`: the pages of the manual, from a checkout and from an installed package."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cep_pipeline.cli.help import TOPICS, read_page, with_tables
from tests.cli.command_line import CHECKOUT, cep


def test_without_a_topic_the_topics_are_listed(tmp_path: Path) -> None:
    done = cep("help", folder=tmp_path)
    assert done.code == 0
    for topic, what in TOPICS.items():
        assert f"cep help {topic}" in done.output and what in done.output


@pytest.mark.parametrize("topic", TOPICS)
def test_a_page_goes_into_a_pipe_as_it_is_written(topic: str, tmp_path: Path) -> None:
    done = cep("help", topic, folder=tmp_path)
    page = (CHECKOUT / "docs" / f"{topic}.md").read_text(encoding="utf-8")
    assert (done.code, done.output) == (0, with_tables(page))


@pytest.mark.parametrize(
    ("topic", "row"), [("streams", "| `timezone` |"), ("pipeline_yaml", "| `epsilon` |"), ("tables", "| `bindings` |")]
)
def test_a_page_has_the_tables_that_its_commands_print(topic: str, row: str, tmp_path: Path) -> None:
    assert row in cep("help", topic, folder=tmp_path).output


def test_a_section_ends_before_the_next_one_of_its_rank(tmp_path: Path) -> None:
    ties = cep("help", "language", "3.2", folder=tmp_path).output
    assert ties.startswith("### 3.2 Ties\n") and "TIES STRICT" in ties and "### 3.3" not in ties
    meaning = cep("help", "language", "3.", folder=tmp_path).output
    assert ties in meaning and "### 3.7" in meaning and "## 4." not in meaning


def test_a_line_of_an_example_that_begins_with_a_hash_is_no_heading(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    page = "# Page\n\n## 1. One\n\n```text\n# 2 no heading\n```\n\nend\n\n## 2. Two\n"
    monkeypatch.setattr("cep_pipeline.cli.help.read_page", lambda topic: page)
    assert cep("help", "language", "1", folder=tmp_path).output == page[page.index("## 1.") : page.index("## 2.")]
    assert cep("help", "language", "2", folder=tmp_path).output == "## 2. Two\n"


def test_the_name_of_a_command_shows_its_help(tmp_path: Path) -> None:
    assert cep("help", "status", folder=tmp_path).output == cep("status", "--help", folder=tmp_path).output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["langage"], ["'langage'", "did you mean 'language'", "patterns"]),
        (["language", "9.9"], ["no section '9.9'", "3.5"]),
    ],
)
def test_what_is_not_there_is_told(arguments: list[str], words: list[str], tmp_path: Path) -> None:
    done = cep("help", *arguments, folder=tmp_path)
    assert (done.code, done.output) == (2, "")
    assert all(word in done.error for word in words)


def test_on_a_terminal_the_page_is_laid_out_in_a_pager(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho paged\ncat\n")
    pager.chmod(0o755)
    leader, follower = pty.openpty()
    code = "import sys; sys.argv = ['cep', 'help', 'language', '3.2']; from cep_pipeline.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PAGER": str(pager), "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([sys.executable, "-c", code], stdin=follower, stdout=follower, env=environment)
    os.close(follower)
    shown = b""
    while part := _read(leader):
        shown += part
    os.close(leader)
    assert process.wait(timeout=60) == 0
    text = shown.decode()
    assert text.startswith("paged") and "\x1b[" in text
    assert "3.2 Ties" in text and "### 3.2" not in text and "```" not in text


def _read(terminal: int) -> bytes:
    """Some of what stands on a terminal; nothing when its other end is closed."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def test_an_installed_package_has_the_pages(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "cep_pipeline").mkdir(parents=True)
    shutil.copy(CHECKOUT / "pyproject.toml", source)
    shutil.copy(CHECKOUT / "cep_pipeline" / "__init__.py", source / "cep_pipeline")
    (source / "cep_pipeline" / "docs").symlink_to((CHECKOUT / "cep_pipeline" / "docs").readlink())
    (source / "docs").mkdir()
    for topic in TOPICS:
        shutil.copy(CHECKOUT / "docs" / f"{topic}.md", source / "docs")
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        for topic in TOPICS:
            assert files.read(f"cep_pipeline/docs/{topic}.md").decode() == read_page(topic)
