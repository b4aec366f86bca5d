"""The page of an experiment: Markdown, with its charts as SVG files in a folder beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.experiments.cells import Row
from benchmarks.experiments.findings import Finding, findings_table, reasons
from benchmarks.report import machine


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


@dataclass(frozen=True)
class Picture:
    """A chart of a page.

    Attributes
    ----------
    name
        The name of its file, without the ending.
    shows
        The title, which stands in its place where it cannot be seen.
    caption
        The line below it: how to read it.
    svg
        The chart.
    """

    name: str
    shows: str
    caption: str
    svg: str


def findings_page(
    title: str,
    made_by: str,
    ran: str,
    findings: Sequence[Finding],
    pictures: Sequence[Picture],
    tables: Iterable[str],
    measured: Iterable[str],
) -> Page:
    """A page in the order in which it is read: findings, pictures, reasons, tables, and how all was measured.

    Parameters
    ----------
    title, made_by, ran
        The heading, the line of the command, and a paragraph that says what was run.
    findings, pictures
        The findings, by their figures, and the charts.
    tables
        Headings, sentences and tables of the figures.
    measured
        Paragraphs that say how it was measured.
    """
    shown = [part for picture in pictures for part in (f"{{chart:{picture.name}}}", f"*{picture.caption}*")]
    parts = [f"# {title}", made_by, ran, "## Findings", findings_table(findings), "## Pictures", *shown]
    parts += ["## Why", *reasons(findings), *tables, "## How it was measured", *measured]
    return Page("\n\n".join(parts) + "\n", {one.name: (one.shows, one.svg) for one in pictures})


def made_by(name: str, full: bool, seed: int) -> str:
    """The line that says which command made a page, and on which machine."""
    return f"Made by `cep experiment {name}{' --full' if full else ''} --seed {seed}` on {machine()}."


def zeros_not_drawn(rows: Iterable[Row], figure: str, series: str) -> str:
    """A sentence that names the series with zeros, which have no place on a logarithmic axis; empty without any.

    Examples
    --------
    >>> zeros_not_drawn([{"x": "one", "peak": 0}, {"x": "other", "peak": 7}], "peak", "x")
    ' A logarithmic axis has no zero, so points of one are missing.'
    """
    names = dict.fromkeys(str(row[series]) for row in rows if row.get(figure) == 0)
    return f" A logarithmic axis has no zero, so points of {', '.join(names)} are missing." if names else ""
