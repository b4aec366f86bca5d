"""`cep diff`: what published days would gain and lose by changed patterns, before anything is published."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import click

from cep_pipeline.cli.options import (
    configuration_options,
    days_asked,
    days_options,
    json_option,
    next_command,
    repeated_option,
)
from cep_pipeline.cli.progress import ConsoleObserver
from cep_pipeline.cli.sources import chosen_stream
from cep_pipeline.cli.terminal import Terminal, output_console, say_json, table_of


@click.command()
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@configuration_options
@repeated_option("--pattern-set", metavar="NAME", help="Only this pattern set.")
@days_options
@click.option(
    "--examples",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Matches of each pattern to show: so many that are gained, that are lost, and that have other values.",
)
@json_option
def diff(
    config: Path,
    stream: str | None,
    pattern_set: str | None,
    day: date | None,
    first: date | None,
    last: date | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Show what published days would gain and lose by the patterns as they are now, before anything is published.

    You have edited a pattern file. `cep run --stale` would detect its days again and replace their matches. This
    command detects the patterns whose text has changed in the same way, and compares. No table changes. It takes about
    as long as the run.

    A match is told by the events that it binds. A match of the same events stays; where RETURN says something else of
    it, it has other values. Where variables have new names, the events alone are compared, in the order of the pattern.
    Matches that bind other matches are compared by the events inside, and rows of SUMMARIZE by their groups.

    For a match that is lost you see the rule of the new pattern that its events break, and for one that is gained the
    rule of the old pattern that they broke. A pattern that reaches a limit publishes nothing of that day, here as in a
    run.

    \b
    Examples:
      cep diff                                        all changed patterns, all published days
      cep diff v_reversal --from 2013-10-07 --to 2013-10-08
      cep diff --examples 0                           only the numbers
      cep diff --json > change.json                   for a program
      cep run --stale                                 publish the change
    """
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.pipeline.opened import PublishedStream

    first, last = days_asked(day, first, last)
    configuration = Configuration.load(config)
    name = chosen_stream(configuration, stream)
    published = PublishedStream(configuration.open_warehouse().open_stream(name), configuration)
    with ConsoleObserver(Terminal(stderr=True)) as observer:
        found = published.diff(pattern_set, first=first, last=last, observer=observer, **asked)
    if as_json:
        say_json(found)
        return
    console = output_console()
    for title, columns, rows in found.tables() if found.days else ():
        numbers = slice(3, 8) if "published" in columns else slice(0)
        console.print(table_of(columns, rows, title, right=numbers, optional={"limited", "match", "why"}))
    console.print(found.summary(), soft_wrap=True)
    if found.days:
        publish = next_command("run", stream=name, stale=True)
        console.print(f"nothing has been published; `{publish}` publishes the change", soft_wrap=True)
