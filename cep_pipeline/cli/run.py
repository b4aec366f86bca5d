"""`cep run`: raw files to matches, for days of a stream; `cep diff`: what a run by changed patterns would change."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cep_pipeline.cli.options import (
    Day,
    configuration_options,
    counted,
    data_option,
    days_asked,
    days_options,
    json_option,
    naming_run,
    one_of_two,
    repeated_option,
)
from cep_pipeline.cli.sources import chosen_stream
from cep_pipeline.cli.terminal import (
    ConsoleObserver,
    Terminal,
    next_command,
    output_console,
    plain_value,
    say_json,
    styled,
    table_of,
)
from cep_pipeline.errors import InputError
from cep_pipeline.pipeline.day import OPTIONS

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import Configuration, PatternSet, Stream
    from cep_pipeline.pipeline.run import DayOutcome, RunOutcome
    from cep_pipeline.spark.session import SparkSession

MOST_LISTED = 40
"""Patterns of a set that a summary lists one by one."""


@click.command()
@configuration_options
@data_option
@click.option("--day", "days", type=Day(), multiple=True, help="A day to run; may be given several times.")
@click.option("--from", "first", type=Day(), help="First day of a range; without it the first that has a file.")
@click.option(
    "--to",
    "last",
    type=Day(),
    help="Last day, included; without it the last that has a file.",
)
@repeated_option("--pattern-set", "set_names", multiple=True, metavar="NAME", help="Only this pattern set.")
@click.option("--steps", metavar="STEP,...", help=f"Of {', '.join(OPTIONS)}; all if not given.")
@click.option("--stale", is_flag=True, help="Redo the days whose inputs have changed since, until none is left.")
@click.option("--redo", is_flag=True, help="Also do days again that have nothing to do.")
@click.option(
    "--end-of-stream",
    is_flag=True,
    help="The stream ends with the last day: publish the matches that wait for later ones.",
)
@click.option("--master", metavar="URL", help="The Spark master: local[4], spark://HOST:PORT, ….")
@click.option("--remote", metavar="URL", help="A Spark Connect server, sc://HOST:PORT, in place of a master.")
@click.option("--run-id", help="Id to record the run under; made from the time if not given.")
@json_option
def run(
    config: Path,
    stream: str | None,
    data: str | None,
    days: tuple[date, ...],
    first: date | None,
    last: date | None,
    set_names: tuple[str, ...],
    steps: str | None,
    stale: bool,
    redo: bool,
    end_of_stream: bool,
    master: str | None,
    remote: str | None,
    run_id: str | None,
    as_json: bool,
) -> None:
    """Take days of a stream from raw files to matches: ingest, validate, estimate statistics, plan, detect, publish.

    Without days, all days that the raw files hold. A day that is done and whose inputs have not changed is left alone:
    the same command resumes a run that was interrupted. Where patterns have changed, their pattern set is detected
    again, and no other; --redo does all days anew.

    The stream is taken to go on after the last day. Matches that later events may still reject are pending: the run of
    the day in which they become final publishes them. --end-of-stream publishes them now.

    A pattern that reaches a limit of pipeline.yaml (`limits:`) is stopped. None of its matches of the day is published,
    and all else is; the exit code is 5.

    The work is done on Spark: on the cores of this machine, or where `spark: master:` or `spark: remote:` of
    pipeline.yaml says. The tables are the same wherever it runs.

    \b
    Examples:
      cep run                                          all days of the first stream
      cep run --stream us_equity_trades --data DIR --from 2013-10-07 --to 2013-10-09
      cep run --steps detect --pattern-set market      a changed pattern set over events that are there
      cep run --stale                                  what has changed since
      cep run --end-of-stream                          no day will follow: publish what waits for one
      cep run --json > done.json                       the summary for a program, as one document
    """
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.pipeline.run import PipelineRun, days_between, days_with_files, new_run_id

    configuration = Configuration.load(config)
    named = chosen_stream(configuration, stream) if stale else stream or configuration.stream_names()[0]
    chosen = configuration.stream(named, data=data)
    pattern_sets = [chosen.pattern_set(name) for name in set_names] or list(chosen.pattern_sets)
    wanted = sorted(days)
    missing = None if data or wanted or stale else configuration.missing_data(named)
    if missing is not None and not (first and last):  # the days are those of the files
        raise InputError(f"{missing} (`cep generate` makes days of trades to begin with)")
    one_of_two({"--day": wanted}, {"--from": first, "--to": last})
    if first or last:
        if first and last:
            wanted = days_between(first, last)
        else:
            wanted = [one for one in days_with_files(chosen) if (first or one) <= one <= (last or one)]
            if not wanted:
                raise InputError(f"{chosen.data}: no raw file of a day {f'from {first} on' if first else f'to {last}'}")
    if not wanted and not stale:
        wanted = days_with_files(chosen)
    tables = configuration.open_warehouse().stream(chosen.schema)
    console = Terminal(stderr=True)
    own_id = run_id or new_run_id()
    with naming_run(own_id), ConsoleObserver(console) as observer:
        settings = configuration.settings.spark

        @cache
        def spark() -> SparkSession:
            from cep_pipeline.spark.session import spark_session

            with observer.step("start Spark"):
                return spark_session(
                    master or settings.master,
                    remote=remote or (None if master else settings.remote),
                    app_name=f"cep run {chosen.name}",
                    properties=settings.properties,
                )

        pipeline_run = PipelineRun(
            chosen,
            tables,
            pattern_sets,
            spark,
            observer,
            frozenset(part.strip() for part in steps.split(",")) if steps else frozenset(OPTIONS),
            redo,
            own_id,
            end_of_stream=end_of_stream,
        )
        outcome = pipeline_run.run_stale(wanted or None) if stale else pipeline_run.run_days(wanted)
    if as_json:
        say_json(_summary(configuration, chosen, pattern_sets, outcome))
    else:
        _print_summary(configuration, chosen, pattern_sets, outcome)
    if any(day.limited for day in outcome.days):
        sys.exit(LIMITED_EXIT_CODE)


LIMITED_EXIT_CODE = 5
"""Exit code of a run that is done, but for patterns that were stopped by a limit."""


def _print_summary(
    configuration: Configuration, stream: Stream, pattern_sets: list[PatternSet], outcome: RunOutcome
) -> None:
    console = output_console()
    done = [day for day in outcome.days if day.status != "fresh"]
    fresh = len(outcome.days) - len(done)
    console.rule(f"stream {stream.name}, run {outcome.run_id}")
    if done:
        rows: list[tuple[object, ...]] = []
        for day in done:
            found, waiting = (
                sum(number for by_pattern in sets.values() for number in by_pattern.values())
                for sets in (day.matches, day.pending)
            )
            pending = "end of stream" if day.end_of_stream else waiting or None
            steps = ", ".join(f"{step.name} {step.seconds:.1f}" for step in day.steps)
            events = "skipped" if day.status == "skipped" else day.events
            rows.append((day.day, events, day.rejected, found if day.matches else None, pending, steps))
        columns = ("day", "events", "rejected", "matches", "pending", "steps (seconds)")
        console.print(table_of(columns, rows, right=slice(1, -1), optional={"pending"}))
        for day in done:
            for name, what in day.limited.items():
                console.print(styled(("limited", "bold red"), f": {day.day}: pattern {name} was {what}"))
    for pattern_set in pattern_sets:
        plan = outcome.plans.get(pattern_set.name)
        if plan is not None:
            explain = next_command("explain", stream=stream.name, pattern_set=pattern_set.name)
            why = f"because: {plan.reason}" if plan.run_id == outcome.run_id else "as before"
            console.print(f"plan {plan.version} of {pattern_set.name}, {why}; `{explain}` shows it", soft_wrap=True)
        totals = _totals(pattern_set, done)
        if any(pattern_set.name in day.matches for day in done):
            waits = outcome.pending.get(pattern_set.name, {})
            summarized = {pattern.name for pattern in pattern_set.statements if pattern.summary is not None}
            listed = most_of(totals)
            of_patterns = [
                (name, "summarized" if name in summarized else totals[name], waits.get(name)) for name in listed
            ]
            rest = [number for name, number in totals.items() if name not in listed]
            caption = f"and {counted(len(rest), 'pattern')} with {sum(rest):,} matches together" if rest else None
            title = f"matches of {pattern_set.name}"
            names = ("pattern", "matches", "pending")
            console.print(
                table_of(names, of_patterns, title, right=slice(1, None), optional={"pending"}, caption=caption)
            )
            if summarized:
                shows = next_command("matches", "--summaries", stream=stream.name, pattern_set=pattern_set.name)
                console.print(f"the rows of SUMMARIZE: `{shows}`", soft_wrap=True)
    if any(outcome.pending.values()):
        console.print(
            "pending: not final before later events, or behind such matches; the run of the day in which they become "
            "final publishes them (--end-of-stream: this one)"
        )
    if fresh:
        console.print(f"nothing to do for {counted(fresh, 'day')} (--redo does them again)")
    tables = configuration.warehouse_location
    tables = tables if "://" in tables else os.path.relpath(tables)
    worked = f" on {outcome.spark}" if outcome.spark else ""
    console.print(f"all of it took {outcome.seconds:.1f} s{worked}; tables in {tables}", soft_wrap=True)
    one_set = pattern_sets[0].name if len(stream.pattern_sets) > 1 and pattern_sets else None
    matches = next_command("matches", stream=stream.name, pattern_set=one_set)
    console.print(
        f"look at the matches: {matches}    at the days: {next_command('status', stream=stream.name)}", soft_wrap=True
    )


def _summary(
    configuration: Configuration, stream: Stream, pattern_sets: list[PatternSet], outcome: RunOutcome
) -> dict[str, Any]:
    """The document of `--json`: the days, and of each pattern set its plan and its matches."""
    sets = []
    for pattern_set in pattern_sets:
        plan = outcome.plans.get(pattern_set.name)
        sets.append(
            {
                "pattern_set": pattern_set.name,
                "plan": plan and {name: getattr(plan, name) for name in ("version", "created_at", "reason")},
                "matches": _totals(pattern_set, outcome.days),
                "pending": outcome.pending.get(pattern_set.name, {}),
            }
        )
    return {
        "stream": stream.name,
        "run": outcome.run_id,
        "warehouse": configuration.warehouse_location,
        "days": [plain_value(day) for day in outcome.days],
        "pattern_sets": sets,
        "seconds": outcome.seconds,
        "spark": outcome.spark,
    }


def _totals(pattern_set: PatternSet, days: Iterable[DayOutcome]) -> dict[str, int]:
    """Pattern -> its matches of all days together."""
    totals = {pattern.name: 0 for pattern in pattern_set.statements}
    for day in days:
        for name, number in day.matches.get(pattern_set.name, {}).items():
            totals[name] += number
    return totals


def most_of(totals: Mapping[str, int]) -> list[str]:
    """The patterns that a summary lists: all, or of many those with the most matches, in their order.

    Examples
    --------
    >>> len(most_of({f"p{number}": number for number in range(100)})), most_of({"few": 1, "none": 0})
    (40, ['few', 'none'])
    """
    most = set(sorted(totals, key=lambda name: -totals[name])[:MOST_LISTED])
    return [name for name in totals if name in most]


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
