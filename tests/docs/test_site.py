"""The pages that are made from the code are up to date, and the site is built of all pages, complete in itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import cep_pipeline as cep
from cep_pipeline.cli import COMMANDS
from tests.docs.markdown_pages import CHECKOUT, PAGES


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=CHECKOUT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_examples_of_the_hooks_hold() -> None:
    command = [sys.executable, "-m", "doctest", "scripts/site_pages.py"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


@pytest.mark.long
def test_the_site_explains_every_command_and_every_public_name(site: Path) -> None:
    commands, python = ((site / name).read_text() for name in ("commands.html", "python.html"))
    assert sorted(re.findall(r'<h3 id="cep-([a-z-]+)"', commands)) == sorted(COMMANDS)
    names = [name for name in dir(cep) if name != "__version__"]
    assert sorted(re.findall(r'<h3 id="cep_pipeline\.(\w+)"', python)) == sorted(names)
    assert "Examples:" in python and "InputError" in python


@pytest.mark.long
def test_every_page_is_in_the_navigation_and_in_the_site(site: Path) -> None:
    for name in PAGES:
        page = name.removeprefix("docs/") if name.startswith("docs/") else name.lower().replace("readme", "index")
        assert (site / page).with_suffix(".html").exists(), name


@pytest.mark.long
def test_the_site_fetches_nothing_from_a_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)="([^"]+)"', page.read_text())
        assert loaded
        assert [one for one in loaded if re.match(r"(https?:)?//", one)] == [], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text()), style.name


@pytest.mark.long
def test_the_search_finds_the_pages_without_a_server(site: Path) -> None:
    text = (site / "search" / "search_index.js").read_text()
    index = json.loads(text.removeprefix("var __index = "))
    found = {entry["location"] for entry in index["docs"]}
    assert "operations.html#leases" in found
    assert (site / "site" / "iframe-worker.js").exists()
    assert "site/iframe-worker.js" in (site / "index.html").read_text()


def test_the_navigation_names_each_page_once() -> None:
    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        parts = entry.values() if isinstance(entry, dict) else entry
        assert not isinstance(parts, str)
        return [page for part in parts for page in pages(part)]  # type: ignore[attr-defined]

    named = pages(yaml.safe_load((CHECKOUT / "mkdocs.yml").read_text())["nav"])
    assert len(named) == len(set(named))
