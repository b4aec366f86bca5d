"""`cep generate`: seeded days of trades in the vendor's raw layout."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress

from cep_pipeline.cli.options import GENERATED, PATH, Day, counted
from cep_pipeline.cli.terminal import Terminal

FIRST_DAY = date(2025, 1, 6)


@click.command()
@click.option(
    "--out",
    type=PATH,
    default=GENERATED,
    show_default=True,
    help="Folder; a day becomes DATE/trades.csv.gz in it.",
)
@click.option("--from", "first", type=Day(), default=FIRST_DAY, show_default=True, help="First day.")
@click.option("--days", type=click.IntRange(1, 3660), default=3, show_default=True, help="Trading days to make.")
@click.option(
    "--stocks",
    type=click.IntRange(4, 2100),
    default=8,
    show_default=True,
    help="SPY, BAC, AIG, IBM, then S0004, S0005, ...",
)
@click.option(
    "--events-per-day",
    type=click.IntRange(min=1),
    default=150_000,
    show_default=True,
    help="The session ends after about so many trades.",
)
@click.option("--full", is_flag=True, help="Whole sessions, without a limit of events.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Another seed, another market.")
@click.option("--missing-only", is_flag=True, help="Leave days alone that are there already.")
def generate(
    out: Path, first: date, days: int, events_per_day: int, full: bool, missing_only: bool, **market: Any
) -> None:
    """Make days of a trading stream, in the raw layout in which a vendor delivers them.

    Prices walk together (market, sector, stock), trading is busiest at the opening and the close, rates drift from day
    to day, and weekends have no file. The same settings give the same bytes.

    \b
    Examples:
      cep generate                                            three days for a first `cep run`
      cep generate --stocks 200 --days 5 --full --out stocks  the stream of the papers' experiments
    """
    from cep_pipeline.generate import FILE_NAME, GeneratedDay, generate_days, is_trading_day

    wanted: list[date] = []
    day = first
    while len(wanted) < days:
        if is_trading_day(day):
            wanted.append(day)
        day += timedelta(days=1)
    missing = [day for day in wanted if not (missing_only and (out / day.isoformat() / FILE_NAME).exists())]
    console = Terminal(stderr=True)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("making days of trades", total=len(missing))

        def done(made: GeneratedDay) -> None:
            progress.advance(task)
            console.print(f"{made.day}: {made.events:,} trades in {made.path}")

        generate_days(out, missing, events_per_day=None if full else events_per_day, progress=done, **market)
    if len(missing) < len(wanted):
        console.print(f"there already: {counted(len(wanted) - len(missing), 'day')}")
