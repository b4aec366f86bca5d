"""Every page and every section that code or pages cite exists.

A citation is written `docs/language.md`, or `docs/language.md, section 3.5`, or `docs/language.md, sections 3.1 to 3.5
and 4`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.cli.command_line import CHECKOUT

NUMBER = r"\d+(?:\.\d+)*"
# In a comment the next line begins with a #.
BLANK = r"[\s#]+"
CITATION = re.compile(
    rf"\bdocs/(?P<page>[a-z][\w/-]*\.md)(?:,{BLANK}sections?{BLANK}"
    rf"(?P<sections>{NUMBER}(?:(?:,|{BLANK}(?:to|and)){BLANK}{NUMBER})*))?"
)
CODE_PAGES = ("adaptation", "architecture", "internals", "mechanisms", "papers", "planning")
"""Pages that say where in the code a thing is."""
HEADING = re.compile(r"^#{1,6} (?P<title>.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def tracked(*patterns: str) -> list[Path]:
    """Files of the checkout that git knows, or that are new and not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [CHECKOUT / name for name in names if (CHECKOUT / name).is_file()]


@cache
def headings(page: Path) -> tuple[str, ...]:
    return tuple(found["title"] for found in HEADING.finditer(FENCED.sub("", page.read_text(encoding="utf-8"))))


def sections(page: Path) -> set[str]:
    """Numbers of the page's headings."""
    numbers = (re.match(rf"({NUMBER})\.? ", title) for title in headings(page))
    return {found.group(1) for found in numbers if found}


def missing(text: str) -> Iterator[str]:
    """Citations of pages or sections that do not exist."""
    for citation in CITATION.finditer(text):
        page = CHECKOUT / "docs" / citation["page"]
        wanted = set(re.findall(NUMBER, citation["sections"] or ""))
        if not page.is_file() or not wanted <= sections(page):
            yield citation.group()


def test_what_is_missing_is_found() -> None:
    assert not list(missing("docs/language.md, sections 3.1 to 3.5,\n    # 4 and 5.2; docs/language.md, in 99 places"))
    absent = "docs/" + "no_such_page.md"
    assert list(missing(f"({absent})")) == [absent]
    assert list(missing("docs/language.md, section 3.99 and")) == ["docs/language.md, section 3.99"]
    assert len(list(missing("docs/language.md, sections 3 and\n# 77"))) == 1


@pytest.mark.parametrize("kind", ["*.py", "*.md"])
def test_every_cited_page_and_section_exists(kind: str) -> None:
    cited = 0
    for file in tracked(kind):
        text = file.read_text(encoding="utf-8")
        cited += len(CITATION.findall(text))
        if file != Path(__file__):
            assert list(missing(text)) == [], file
    assert cited > 0


def test_a_section_is_cited_after_its_page() -> None:
    for file in tracked("*.py", "*.md"):
        text = file.read_text(encoding="utf-8")
        assert re.search(rf"\bsections? {NUMBER}{BLANK}of{BLANK}(the{BLANK})?docs/", text) is None, file
        if file.suffix == ".py" and file != Path(__file__):
            assert re.search(rf"\blanguage{BLANK}page(, section|'s)", text) is None, file


@pytest.mark.parametrize("page", ["CONTRIBUTING", *(f"docs/{name}" for name in CODE_PAGES)])
def test_files_that_a_page_about_the_code_names_exist(page: str) -> None:
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", (CHECKOUT / f"{page}.md").read_text(encoding="utf-8"))
    assert named
    roots = [CHECKOUT, CHECKOUT / "cep_pipeline", CHECKOUT / "cep_pipeline" / "detection"]
    own = [name for name in named if not name.startswith(("var/", "dist/", ".."))]
    assert [name for name in own if not any((root / name).exists() for root in roots)] == []
