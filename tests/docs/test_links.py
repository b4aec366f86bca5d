"""Links between the pages, and to files of the repository, lead somewhere."""

from __future__ import annotations

import pytest

from tests.docs.markdown_pages import CHECKOUT, PAGES, Page


@pytest.mark.parametrize("name", PAGES)
def test_every_link_of_a_page_resolves(name: str) -> None:
    page = PAGES[name]
    broken = []
    for link in page.links:
        path, _, anchor = link.partition("#")
        file = (page.file.parent / path).resolve() if path else page.file
        if not file.exists() or not file.is_relative_to(CHECKOUT) or (anchor and anchor not in Page(file).anchors):
            broken.append(link)
    assert broken == []


def test_the_reader_of_links_finds_what_is_there_and_what_is_not() -> None:
    operations = PAGES["docs/operations.md"]
    assert "#leases" in operations.links and "leases" in operations.anchors
    assert "commands.md" in operations.links
    assert "../CHANGELOG.md" in operations.links


def test_readme_leads_to_every_page_or_to_the_benchmarks_that_lead_to_it() -> None:
    linked = {link.partition("#")[0] for link in PAGES["README.md"].links}
    linked |= {f"docs/{link}" for link in PAGES["docs/benchmarks.md"].links}
    assert "docs/benchmarks.md" in linked
    assert {name for name in PAGES if name not in linked} == {"README.md"}
