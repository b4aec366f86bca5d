"""`cep bench`: measure, beside peers, and end with a page of ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import rich.progress

from benchmarks.measure import Progress
from benchmarks.report import filled, machine, unpadded
from benchmarks.streams import Streams
from cep_pipeline.cli.options import check_folder
from cep_pipeline.cli.terminal import Terminal, say
from cep_pipeline.errors import InputError

COLUMNS = (
    *rich.progress.Progress.get_default_columns(),
    rich.progress.MofNCompleteColumn(),
    rich.progress.TimeElapsedColumn(),
)
BENCHMARKS = ("detection", "mechanisms", "crimes")
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
    "--draws", type=click.IntRange(min=1), default=100, show_default=True, help="Queries of each template of crimes."
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
    draws: int,
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
      crimes      templates of queries on places and times in a city of seven million events, drawn a hundred times
                  each, beside joins that were written for DuckDB; about a quarter of an hour

    All engines must find the same matches.

    \b
    Examples:
      cep bench
      cep bench --out docs/benchmarks.md
      cep bench detection --events 5000000 --repetitions 3 --out docs/benchmarks.md

    The machine is shared: quote the ratios, which come from runs that followed each other, not the seconds.
    """
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
            draws=draws,
        )
    say(text, nl=False)
    if out is not None:
        text = unpadded(text)
        before = out.read_text(encoding="utf-8") if names and out.exists() else ""
        same = before.split("\n")[0] == text.split("\n")[0]
        out.write_text(with_other_sections(before, text) if same else text, encoding="utf-8")


def make_page(
    names: Sequence[str],
    streams: Streams,
    progress: Progress,
    report: Callable[[str], None] = lambda _: None,
    *,
    events: int = 1_000_000,
    repetitions: int = 5,
    draws: int = 100,
) -> str:
    """Measure what is asked for, and write the page.

    The number of events is that of the stock stream for the columnar kernel; the draws are those of each template.
    """
    measures: Mapping[str, Callable[[], dict[str, str]]] = {
        "detection": lambda: _detection(events, repetitions, streams, progress),
        "mechanisms": lambda: _mechanisms(repetitions, streams, progress),
        "crimes": lambda: _crimes(draws, progress),
    }
    measured = {}
    for name in filter(names.__contains__, measures):
        report(f"measuring {name}")
        measured[name] = measures[name]()
    return filled("page.jinja", measured=measured, machine=machine(), repetitions=repetitions)


def with_other_sections(page: str, made: str) -> str:
    """A page of before, in which the sections that were made anew take their places, and those that are new the end."""
    _, *kept = page.split("\n## ")
    head, *sections = made.rstrip("\n").split("\n## ")
    headings = {section.split("\n")[0]: section for section in sections}
    kept = [headings.pop(section.split("\n")[0], section.rstrip("\n") + "\n") for section in kept]
    return "\n## ".join(section.rstrip("\n") + "\n" for section in (head, *kept, *headings.values()))


def _detection(events: int, repetitions: int, streams: Streams, progress: Progress) -> dict[str, str]:
    from benchmarks.detection import calls_table, compare_detection, compare_slow_peers, detection_table
    from benchmarks.flink_patterns import version
    from benchmarks.peers import missing_peers

    # The peers that take seconds come last, so that the others find the machine as it was.
    comparisons = compare_detection(events, repetitions, streams, progress)
    slower = compare_slow_peers(events, repetitions, streams, progress)
    return {
        "missing": missing_peers(),
        "traffic": streams.traffic.description,
        "kernel": detection_table(comparisons),
        "slower": detection_table(slower) if slower else "",
        "flink": version() or "",
        "calls": calls_table(comparisons),
    }


def _mechanisms(repetitions: int, streams: Streams, progress: Progress) -> dict[str, str]:
    from benchmarks.mechanisms import measure_mechanisms, mechanisms_table

    measured = measure_mechanisms(repetitions, streams, progress)
    return {"traffic": streams.traffic.description, "table": mechanisms_table(measured)}


def _crimes(draws: int, progress: Progress) -> dict[str, str]:
    from benchmarks.crimes import LIMIT_S, crimes_summary, crimes_table, measure_crimes, of_duckdb

    results = measure_crimes(draws, progress)
    told = {"draws": f"{draws:,}", "limit": f"{LIMIT_S:g}", "duckdb": of_duckdb()}
    return {**told, "summary": crimes_summary(results), "table": crimes_table(results)}


@contextmanager
def shown_progress(console: Terminal, what: str) -> Iterator[Progress]:
    """A bar in the terminal that shows how far a piece of work is."""
    with rich.progress.Progress(*COLUMNS, console=console, transient=True) as shown:
        task = shown.add_task(what, total=None)

        def begin(what: str, steps: int) -> None:
            shown.reset(task, total=max(steps, 1), description=what)

        yield Progress(begin, lambda: shown.advance(task))
