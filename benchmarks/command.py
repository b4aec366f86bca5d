"""`cep bench`: measure, beside peers, and end with a page of ratios."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from cep_pipeline.cli.options import check_folder
from cep_pipeline.cli.terminal import Terminal, say
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from benchmarks import measure

COLUMNS = (
    SpinnerColumn(),
    TextColumn("{task.description}", markup=False),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)
BENCHMARKS = ("detection", "mechanisms")
"""The benchmarks, in the order of the page."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(BENCHMARKS))
@click.option(
    "--events",
    type=click.Choice(["10000", "100000", "1000000", "5000000"]),
    default="1000000",
    show_default=True,
    help="Length of the stock stream for the columnar kernel.",
)
@click.option(
    "--repetitions", type=click.IntRange(min=1), default=5, show_default=True, help="Counted runs of each engine."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("../shared/data"),
    show_default=True,
    help="Folder with aarhus_traffic/2014-08.parquet; where it is missing, W7 runs over generated readings.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Also write the result to this Markdown file. Of a page that is there, sections of other NAMES stay.",
)
def bench(
    names: tuple[str, ...],
    events: str,
    repetitions: int,
    data: Path,
    out: Path | None,
) -> None:
    """Measure speed, side by side with peers in one run; without NAMES all benchmarks, in some minutes.

    \b
      detection   the columnar kernel on W1-W4b, W6 (100 patterns) and W7 (traffic), one core, preparation included,
                  beside the peers that are installed, in processes of their own: scalar C++ (where a compiler is),
                  DuckDB, and Flink CEP, with W5 (where CEP_BENCH_FLINK names the folder of its
                  jars and a JDK is; the page says how to have them); and what a user's call takes, from a file to
                  written matches, listing and counting. A million events take about ten minutes
      mechanisms  the mechanisms that read event by event on the workloads that they run, W5 and W5n of SASE among them

    All engines must find the same matches.

    \b
    Examples:
      cep bench
      cep bench --out docs/benchmarks.md
      cep bench detection --events 5000000 --repetitions 3 --out docs/benchmarks.md

    The machine is shared: quote the ratios, which come from runs that followed each other, not the seconds.
    """
    from benchmarks.page import make_page, with_other_sections
    from benchmarks.report import unpadded
    from benchmarks.streams import Streams

    if out is not None:
        if out.suffix != ".md":
            raise InputError(f"{out}: the page is Markdown: name it .md")
        check_folder(out)
    console = Terminal(stderr=True)
    with shown_progress(console, "starting") as progress:
        text = make_page(
            names or BENCHMARKS,
            Streams(data),
            progress,
            console.print,
            events=int(events),
            repetitions=repetitions,
        )
    say(text, nl=False)
    if out is not None:
        text = unpadded(text)
        before = out.read_text(encoding="utf-8") if names and out.exists() else ""
        same = before.split("\n")[0] == text.split("\n")[0]
        out.write_text(with_other_sections(before, text) if same else text, encoding="utf-8")


@contextmanager
def shown_progress(console: Terminal, what: str) -> Iterator[measure.Progress]:
    """A bar in the terminal that shows how far a piece of work is."""
    from benchmarks import measure

    with Progress(*COLUMNS, console=console, transient=True) as shown:
        task = shown.add_task(what, total=None)

        def begin(what: str, steps: int) -> None:
            shown.reset(task, total=max(steps, 1), description=what)

        yield measure.Progress(begin, lambda: shown.advance(task))
