"""The page of an experiment: Markdown, with its charts as SVG files in a folder beside it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Page:
    """A page that is not written yet.

    Attributes
    ----------
    text
        Markdown; a chart stands in it as `{chart:NAME}` in a line of its own.
    charts
        Name -> (what it shows, SVG).
    """

    text: str
    charts: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the page and, into the folder of the same name, its charts; charts of earlier pages are removed."""
        folder = path.with_suffix("")
        if folder.is_dir():
            for old in folder.glob("*.svg"):
                old.unlink()
        text = self.text
        for name, (shows, svg) in self.charts.items():
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
            text = text.replace(f"{{chart:{name}}}", f"![{shows}]({folder.name}/{name}.svg)")
        if folder.is_dir() and not any(folder.iterdir()):
            shutil.rmtree(folder)
        path.write_text(text, encoding="utf-8")
