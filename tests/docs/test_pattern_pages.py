"""Every pattern of the pages about the language runs, and finds what its page says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import CHECKOUT, cep
from tests.docs.pattern_pages import PAGES, Answers, Example, examples_of, remade

TEXTS = {name: page.read_text(encoding="utf-8") for name, page in PAGES.items()}
EXAMPLES = [pytest.param(one, id=f"{name}.md:{one.line}") for name, text in TEXTS.items() for one in examples_of(text)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return Answers(tmp_path_factory.mktemp("pages"))


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES)
def test_a_pattern_finds_what_its_page_says(example: Example, answers: Answers) -> None:
    remake = "`python -m tests.docs.pattern_pages` writes the results again"
    assert answers.result(example) == example.result, remake


def test_the_patterns_of_the_list_find_something_each() -> None:
    twenty = list(examples_of(TEXTS["patterns"]))
    assert len(twenty) == 20 == len({one.name for one in twenty} - {None})
    titles = re.findall(r"^### (\d+)\. ", TEXTS["patterns"], re.MULTILINE)
    assert titles == [str(number) for number in range(1, 21)]
    assert all(one.result[0].startswith("> Finds **") and "**0 match" not in one.result[0] for one in twenty)


def test_writing_results_changes_nothing_else(answers: Answers) -> None:
    page = (
        "# Page\n\n```sase\nPATTERN IBM i WITHIN 1 second\n```\n\ntext\n\n"
        "```csv\nsymbol,timestamp,price,size,exchange,suspicious\n"
        "IBM,2025-01-06 09:30:00.100,182.00,100,P,false\nIBM,2025-01-06 09:30:00.200,182.01,100,P,false\n```\n\n"
        "```sase\nPATTERN SEQ(IBM a, IBM b) WITHIN 1 second\n```\n\n> Finds **7 matches**.\n\n"
        "```sase\nPATTERN IBM i\n```\n\n```text\n```\n"
    )
    made = remade(page, answers)
    assert "```\n\n> Finds **11,556 matches**.\n\ntext" in made
    assert "> Finds **1 match**: a 1, b 2.\n\n```sase" in made
    assert made.endswith(
        "```text\nmy.sase:1:14: expected WITHIN but found the end of the text; every pattern has a window, "
        "as in WITHIN 10 seconds\n  PATTERN IBM i\n               ^\n```\n"
    )
    assert remade(made, answers) == made


def commands_of(text: str) -> Iterator[str]:
    """The lines of the fenced blocks named `sh`."""
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()


@pytest.mark.parametrize("name", TEXTS)
def test_the_commands_of_a_page_run_one_after_the_other(name: str, tmp_path: Path) -> None:
    (tmp_path / "streams").symlink_to(CHECKOUT / "streams")
    (tmp_path / "my.sase").write_text(next(examples_of(TEXTS[name])).text)
    if (query := re.search(r"^```sql\n(.*?)^```$", TEXTS[name], re.MULTILINE | re.DOTALL)) is not None:
        (tmp_path / "my.sql").write_text(query[1])
    commands = [shlex.split(line) for line in commands_of(TEXTS[name])]
    assert len(commands) >= 2
    for command, *arguments in commands:
        assert command == "cep"
        done = cep(*arguments, folder=tmp_path)
        assert done.code == 0, done.errors
