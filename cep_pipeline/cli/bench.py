"""`cep bench`: measure, beside peers, and end with a table of ratios."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

BENCHMARKS = ("detection", "ingestion")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(BENCHMARKS))
@click.option(
    "--events",
    multiple=True,
    type=click.Choice(["10000", "100000", "1000000", "5000000"]),
    help="Length of the detection stream; may be given several times.  [default: 1000000 and 5000000]",
)
@click.option(
    "--repetitions", type=click.IntRange(min=1), default=7, show_default=True, help="Counted runs of each engine."
)
@click.option("--master", default="local[4]", show_default=True, help="Spark master of the ingestion benchmark.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the result to this Markdown file.")
def bench(names: tuple[str, ...], events: tuple[str, ...], repetitions: int, master: str, out: Path | None) -> None:
    """Measure speed, side by side with peers in one run; without NAMES all benchmarks.

    \b
      detection   the kernel on W1, W2 and W3, one core, preparation included, beside scalar C++ (where a compiler is)
                  and DuckDB's bucketed join (where duckdb is installed); all must find the same matches
      ingestion   generated raw days to published events, start-up and imports aside

    \b
    Examples:
      cep bench
      cep bench detection --events 1000000 --repetitions 3 --out benchmarks.md

    The machine is shared: quote the ratios, which come from runs that followed each other, not the seconds.
    """
    from cep_pipeline.benchmarks.report import machine

    console = Console(stderr=True)
    sections = [
        f"# Benchmarks\n\nMade by `cep bench` on {machine()}. Medians of {repetitions} runs of each engine in turn; "
        "spread = (max - min) / median; ratios are medians of the ratios of runs that followed each other."
    ]
    chosen = names or BENCHMARKS
    if "detection" in chosen:
        from cep_pipeline.benchmarks.detection import compare_detection, detection_table

        comparisons = [
            comparison
            for length in events or ("1000000", "5000000")
            for comparison in compare_detection(int(length), repetitions, console.print)
        ]
        sections.append("## Detection: one core, preparation included\n\n" + detection_table(comparisons))
    if "ingestion" in chosen:
        from cep_pipeline.benchmarks.ingestion import ingestion_table, measure_ingestion

        sections.append(
            "## Ingestion: raw files to published events\n\n"
            + ingestion_table(measure_ingestion(master, repetitions, console.print))
        )
    text = "\n\n".join(sections) + "\n"
    click.echo(text)
    if out is not None:
        out.write_text(text, encoding="utf-8")
