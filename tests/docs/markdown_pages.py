"""The pages of the repository: their text without code, their headings, their links, and the commands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markdown.extensions.toc import slugify

CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Page:
    """A Markdown file of the repository."""

    file: Path

    @property
    def name(self) -> str:
        return self.file.relative_to(CHECKOUT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.file.read_text()

    @cached_property
    def blocks(self) -> list[tuple[str, str]]:
        """(language, code) of each block of code; language "" for an indented one."""
        fenced = [
            (language, "\n".join(line.removeprefix(indent) for line in code.splitlines()))
            for indent, language, code in re.findall(r"^( *)```([\w-]*)[^\n]*\n(.*?)^\1```$", self.text, re.M | re.S)
        ]
        rest = re.sub(r"^ *```.*?^ *```$", "", self.text, flags=re.M | re.S)
        indented = re.findall(r"(?:^|\n)\n((?: {4}[^\n]*\n)+)", rest)
        return fenced + [("", re.sub(r"^ {4}", "", code, flags=re.M)) for code in indented]

    @cached_property
    def prose(self) -> str:
        """The text without code."""
        return re.sub(r"`[^`\n]+`", "", re.sub(r"^ *```.*?^ *```$", "", self.text, flags=re.M | re.S))

    @cached_property
    def anchors(self) -> set[str]:
        """The names by which links reach the headings, as GitHub and the site make them."""
        without_code = re.sub(r"^ *```.*?^ *```$", "", self.text, flags=re.M | re.S)
        headings = re.findall(r"^#+ +(.+?) *$", without_code, re.M)
        found: set[str] = set()
        for heading in headings:
            slug = slugify(re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading), "-")
            number = 1
            while (name := slug if number == 1 else f"{slug}_{number - 1}") in found:
                number += 1
            found.add(name)
        return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', self.text))

    @cached_property
    def links(self) -> list[str]:
        """The targets of links and pictures, but those on the web."""
        targets = re.findall(r"\]\(([^()\s]+)\)", self.prose)
        return [target for target in targets if not re.match(r"[a-z]+:", target)]

    @cached_property
    def commands(self) -> list[str]:
        """The lines of a shell in its blocks: continued lines joined, prompt, comment and explanation left out."""
        lines: list[str] = []
        for language, code in self.blocks:
            if language in ("", "console", "bash", "sh", "shell", "text"):
                joined = re.sub(r"\\\n\s*", "", code)
                lines += [part.strip().removeprefix("$ ") for part in re.split(r"\n|; (?=cep )", joined)]
        return [re.split(r"\s{2,}|\s#\s", line)[0] for line in lines if re.match(r"(cep|make|airflow) ?", line)]


PAGES = {
    page.name: page for page in map(Page, [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))])
}
"""Every page, by its name in the repository."""
