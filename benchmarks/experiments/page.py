"""The page of an experiment: Markdown, with its charts as SVG files in a folder beside it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks.experiments.experiment import Figure, Row, rows_of
from benchmarks.experiments.findings import Finding, findings_table, reasons
from benchmarks.report import filled, machine, markdown_table, unpadded

if TYPE_CHECKING:
    from benchmarks.experiments.experiment import Request

T = TypeVar("T")


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
        path.write_text(unpadded(text), encoding="utf-8")


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
    module: str,
    sizes: object,
    request: Request,
    findings: Sequence[Finding],
    pictures: Sequence[Picture],
    **figures: object,
) -> Page:
    """A page in the order in which it is read: findings, pictures, reasons, tables, and how all was measured.

    Parameters
    ----------
    module, sizes, request
        The module of the experiment, whose words are in `words/NAME.jinja` and know the module as `own`; the extent;
        and how it was asked for.
    findings, pictures
        The findings, by their figures, and the charts.
    figures
        The figures and tables that the words ask for.
    """
    name = module.rpartition(".")[2]
    shown = [part for picture in pictures for part in (f"{{chart:{picture.name}}}", f"*{picture.caption}*")]
    text = filled(
        f"experiments/words/{name}.jinja",
        name=name,
        own=sys.modules[module],
        sizes=sizes,
        full=request.full,
        seed=request.seed,
        machine=machine(),
        findings=findings_table(findings),
        pictures="\n\n".join(shown),
        reasons="\n\n".join(reasons(findings)),
        **figures,
    )
    return Page(text, {one.name: (one.shows, one.svg) for one in pictures})


def table_across(rows: Sequence[Row], down: str, across: str, corner: str, cell: Callable[[Sequence[Row]], str]) -> str:
    """A table with the values of one figure down, those of another one across, and a text of the rows of both.

    Examples
    --------
    >>> rows = [{"n": n, "x": x, "cost": n * x} for n in (1, 2) for x in (0.1, 10.0)]
    >>> print(table_across(rows, "n", "x", "n by x", lambda own: f"{own[0]['cost']:g}"))
    | n by x | 0.1 | 10 |
    | ------ | --- | -- |
    | 1      | 0.1 | 10 |
    | 2      | 0.2 | 20 |
    """
    columns = dict.fromkeys(row[across] for row in rows)
    lines = []
    for name in dict.fromkeys(row[down] for row in rows):
        cells = [rows_of(rows, **{down: name, across: column}) for column in columns]
        lines.append([as_text(name), *(cell(own) if own else "" for own in cells)])
    return markdown_table([corner, *map(as_text, columns)], lines)


def columns_table(rows: Iterable[T], columns: Mapping[str, Callable[[T], str]]) -> str:
    """A table with a line for each row; a column is a heading and the text of a row under it.

    Examples
    --------
    >>> print(columns_table([1, 2], {"n": str, "square": lambda n: str(n * n)}))
    | n | square |
    | - | ------ |
    | 1 | 1      |
    | 2 | 4      |
    """
    return markdown_table([*columns], [[text(row) for text in columns.values()] for row in rows])


def as_text(figure: Figure) -> str:
    r"""A figure that identifies rows, as a page shows it: a star is not the beginning of emphasis.

    Examples
    --------
    >>> as_text("p3*s3"), as_text(0.5), as_text(20)
    ('p3\\*s3', '0.5', '20')
    """
    return f"{figure:g}" if isinstance(figure, float) else str(figure).replace("*", r"\*")


def zeros_not_drawn(rows: Iterable[Row], figure: str, series: str) -> str:
    """A sentence that names the series with zeros, which have no place on a logarithmic axis; empty without any.

    Examples
    --------
    >>> zeros_not_drawn([{"x": "one", "peak": 0}, {"x": "other", "peak": 7}], "peak", "x")
    ' A logarithmic axis has no zero, so points of one are missing.'
    """
    names = dict.fromkeys(str(row[series]) for row in rows if row.get(figure) == 0)
    return f" A logarithmic axis has no zero, so points of {', '.join(names)} are missing." if names else ""
