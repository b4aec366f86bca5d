"""Hooks of the site's build (`mkdocs.yml`): the pages at the top of the checkout, and links that hold in both places.

The pages are written as files of the repository, whose links are relative to the file. Three of them lie above `docs/`:
they become pages of the site, and so does the notebook. A link to any other file above `docs/`, such as a schema, is
text in the site.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File, Files
from notebook import page as page_of

from cep_pipeline.cli import COMMAND_GROUPS, cli
from cep_pipeline.cli.help import with_tables

ROOT_PAGES = {
    "README.md": "index.md",
    **{f"{name.upper()}.md": f"{name}.md" for name in ("contributing", "changelog", "security", "code_of_conduct")},
}
"""Page at the top of the checkout -> its name in the site."""
MEASUREMENTS = (
    "experiments/",
    "benchmarks.md",
    "scale.md",
)
"""Beginnings of the names of pages that report measurements."""
_IN_REPOSITORY = {name: page for page, name in ROOT_PAGES.items()}
_LINK = re.compile(r"(!?)\[((?:[^\[\]\n]|\[[^\]\n]*\])*)\]\(([^()\s]+)\)")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.M | re.S)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages at the top of the checkout, and the notebook as a page."""
    root = Path(config["config_file_path"]).parent
    notebook = json.loads((root / "docs" / "notebook.ipynb").read_text())
    files.append(File.generated(config, "notebook.md", content=page_of(notebook)))
    for page, name in ROOT_PAGES.items():
        if (root / page).exists():
            files.append(File.generated(config, name, content=(root / page).read_text()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Fill in what is made from the code, and point links at pages of the site; the search finds measurements last."""
    if page.file.src_uri == "commands.md":
        markdown = markdown.replace("<!-- all commands -->", command_reference())
    if page.file.src_uri.startswith(MEASUREMENTS):
        page.meta["search"] = {"boost": 0.2}
    return with_site_links(with_tables(markdown), page.file.src_uri)


def command_reference() -> str:
    """The help text of each command, by groups of commands, as Markdown."""
    context = click.Context(cli, info_name="cep", max_content_width=100)
    parts = []
    for heading, names in COMMAND_GROUPS.items():
        parts.append(f"## {heading}")
        for name in names:
            command = cli.get_command(context, name)
            assert command is not None
            own = click.Context(command, info_name=name, parent=context)
            parts.append(f"### {own.command_path}\n\n```text\n{command.get_help(own)}\n```")
    return "\n\n".join(parts)


def with_site_links(markdown: str, name: str) -> str:
    """The text of the site's page `name` with its links rewritten; code is left as it is.

    Examples
    --------
    >>> with_site_links("See [tables](docs/tables.md#days) and [a schema](streams/a.yaml), `[x](y)`.", "index.md")
    'See [tables](tables.md#days) and a schema, `[x](y)`.'
    >>> with_site_links("[how](../../CONTRIBUTING.md) ![p](nfab/p.svg) [web](https://a.org)", "experiments/nfab.md")
    '[how](../contributing.md) ![p](nfab/p.svg) [web](https://a.org)'
    """
    folder = posixpath.dirname(_IN_REPOSITORY.get(name, f"docs/{name}"))

    def rewritten(link: re.Match[str]) -> str:
        image, text, target = link.groups()
        path, hash_, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return link.group()
        file = posixpath.normpath(posixpath.join(folder, path))
        in_site = ROOT_PAGES.get(file, file.removeprefix("docs/") if file.startswith("docs/") else "")
        if not in_site:
            return text
        in_site = in_site.replace(".ipynb", ".md")
        return f"{image}[{text}]({posixpath.relpath(in_site, posixpath.dirname(name) or '.')}{hash_}{anchor})"

    parts = _CODE.split(markdown)
    return "".join(part if number % 2 else _LINK.sub(rewritten, part) for number, part in enumerate(parts))
