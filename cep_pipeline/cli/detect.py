"""`cep detect`: patterns over files, without a warehouse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table

from cep_pipeline.cli.files import STDOUT, check_output_file, write_matches
from cep_pipeline.cli.options import (
    PATH,
    counted,
    following_settings,
    json_option,
    pattern_file_options,
    planner_of,
    planner_options,
    read_settings,
)
from cep_pipeline.cli.sources import event_paths, patterns_over_files, read_plan
from cep_pipeline.cli.terminal import ConsoleObserver, Terminal, output_console, plain_value, say_json, table_of
from cep_pipeline.errors import DataError, InputError

if TYPE_CHECKING:
    from cep_pipeline.adaptation.plan_loop import AdaptationReport, Check
    from cep_pipeline.events.event_files import LoadedEvents
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.planning import Plan

SWITCHES_SHOWN = 20
"""The most switches of plans that are shown."""
SHOWN_PATTERNS, SHOWN_EVENTS = 5, 20
"""Patterns whose first matches are shown, and events of one match: a list may have thousands."""


@click.command()
@pattern_file_options(required=True)
@click.option("--mechanism", metavar="NAME", help="Evaluation mechanism; the fastest that runs a pattern if not given.")
@planner_options
@click.option("--plan", "plan_file", type=PATH, help="A plan that `cep plan --out` wrote.")
@click.option(
    "--output",
    type=click.Choice(["verbose", "count"]),
    default="verbose",
    show_default=True,
    help="A row for each match, or their number.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Most matches of a pattern to list; with more nothing is written, and their number is told.",
)
@click.option(
    "--lines", is_flag=True, help="Write beside each event of a match in which file and on which line it stands."
)
@click.option(
    "--show",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    metavar="N",
    help="Matches of each pattern to show with their events; 0 shows none.",
)
@click.option(
    "--adapt",
    is_flag=True,
    help="Let the plan follow the statistics of the stream; the matches are the same. --set takes decision, distance, "
    "k, threshold and minimum_gain too.",
)
@click.option(
    "--every",
    metavar="LENGTH",
    help="Of --adapt: time or events between decisions, such as '10 minutes'.  [default: 20000 events]",
)
@click.option(
    "--out",
    type=PATH,
    help="File to write: .parquet, .csv or .json; - is CSV on stdout. Without it matches are counted and shown.",
)
@json_option
def detect(
    patterns: Path,
    schema: Path,
    events: tuple[Path, ...],
    parameters: tuple[str, ...],
    mechanism: str | None,
    planner: str | None,
    settings: tuple[str, ...],
    plan_file: Path | None,
    output: str,
    limit: int | None,
    lines: bool,
    show: int,
    adapt: bool,
    every: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Find all matches of patterns in files of events, show the first ones, and write all of them to a file.

    The matches are the same whatever the mechanism, the planner and the plan; they decide how long it takes. Without
    these options the fastest are chosen.

    With --adapt the plan follows the stream. Every so many events, or so much time, a decision function looks at the
    statistics of the latest events. Where it asks for another plan, and that one is cheaper, it takes over. A summary
    says what was decided and why.

    A planner of many patterns together (simulated_annealing, tabu, …) lets them share work.

    \b
    Examples:
      cep detect --patterns patterns/us_equity_trades.sase --schema streams/us_equity_trades.yaml \\
                 --events 2013-10-07/trades.csv.gz      count and show them; --out matches.parquet keeps them
      cep detect … --events data/ --events 'more/2025-*.csv' --out matches.csv      all files in it, those that fit
      zcat trades.csv.gz | cep detect … --events - --out - | head
      cep detect … --lines --out matches.csv          which line of which file each event of a match is
      cep detect … --show 10 --out matches.csv        show the first ten matches of each pattern with their events
      cep detect … --limit 1000000                    stop before listing more than that, and say how many there are
      cep detect … --output count                     exact, however many: lists are not made to be counted
      cep detect … --adapt --every '10 minutes'       decide every ten minutes of the stream, by the plan's invariants
      cep detect … --planner simulated_annealing --set steps=100000      plan all patterns together, so that they share
    """
    from cep_pipeline.detection.detect import DetectionRun, check_output
    from cep_pipeline.detection.mechanisms import choose_mechanisms
    from cep_pipeline.planning.plans import validate

    check_output_file(out)
    if as_json and out == STDOUT:
        raise InputError("--json prints the summary on stdout: let --out name a file")
    planning, adaptation = read_settings(settings, planner)
    by, cost, alpha, searching = planner_of(planning)
    following = following_settings(adaptation, every, adapt=adapt)
    if plan_file and planning.model_fields_set and not adapt:
        raise InputError("--plan gives the plan: leave --planner and its settings out")
    stream, parsed = patterns_over_files(patterns, schema, parameters)
    _check_form(output, out, lines, parsed)
    paths = event_paths(events, stream)
    check_output(output, parsed)
    chosen = choose_mechanisms(parsed, mechanism)
    given = read_plan(plan_file) if plan_file else None
    if given is not None:
        validate(given, parsed)
    console = output_console(stderr=True)
    loop = None
    if adapt:
        from cep_pipeline.adaptation.loop import AdaptiveDetection
        from cep_pipeline.adaptation.plan_makers import planned_together

        planned_together(parsed, chosen, by, cost, alpha, searching, given)
        loop = AdaptiveDetection(by, cost, alpha, mechanism, search=searching, **following)
    loaded, read_s = _read(console, stream, paths, parsed, places=lines)
    begin = time.perf_counter()
    plan, report = given, None
    plan_over: Callable[..., Plan] | None = None
    if planning.model_fields_set and loop is None:  # otherwise detection plans what is worth planning
        plan_over = partial(_plan_over, {"planner": by, "cost": cost, "alpha": alpha, **searching})
        with console.status("planning"):
            plan = plan_over([pattern for pattern in parsed if not pattern.composes], loaded.events, chosen)
    planned = time.perf_counter()
    with ConsoleObserver(console) as observer, observer.step("detecting") as told:
        if loop is not None:
            tables, report = loop.detect(parsed, loaded.events, plan, output=output, limit=limit)
        else:
            search = DetectionRun(plan, mechanism, output, limit, (), told, make_plan=plan_over)
            tables = search.matches(parsed, loaded.events)
    seconds = {"read": read_s, "plan": planned - begin, "detect": time.perf_counter() - planned}
    counts = write_matches(out, output, tables, loaded.places)
    if as_json:
        found = {"events": loaded.events.num_rows, "rejected": loaded.rejected, "matches": counts}
        found |= {} if report is None else {"adaptation": _adaptation_document(report)}
        say_json({**found, "out": out, "seconds": seconds})
        return
    _print_counts(console, loaded, counts, parsed if output == "verbose" else ())
    if report is not None:
        _print_report(console, report)
    if output == "verbose" and out != STDOUT and show:
        for first in _first_matches(parsed, tables, loaded, show, stream.timezone):
            console.print(first)
    took = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    written = f"written to {'stdout' if out == STDOUT else out}" if out else "--out FILE writes the matches"
    console.print(f"{took}; {written}")


def _plan_over(
    settings: Mapping[str, Any], patterns: Sequence[Pattern], events: pa.Table, chosen: Mapping[str, str]
) -> Plan:
    """Plan what composes others, once these are detected and its events are known."""
    from cep_pipeline.detection.planned import plan_for
    from cep_pipeline.statistics import estimate_statistics

    return plan_for(patterns, estimate_statistics(patterns, events), chosen, compare=False, **settings)


def _first_matches(
    patterns: Sequence[Pattern], tables: Mapping[str, pa.Table], loaded: LoadedEvents, most: int, timezone: str
) -> Iterator[Table]:
    """Tables with the events of the first matches of each pattern, as `cep matches --events` shows published ones.

    Of a pattern with SUMMARIZE its rows are shown, behind the others.
    """
    from cep_pipeline.cli.files import with_json_returns
    from cep_pipeline.cli.matches import event_tables, events_by_match, local_in, summary_table
    from cep_pipeline.detection.matches import COMPOSING_PATTERNS
    from cep_pipeline.detection.results import attributes_read, match_events, opened

    listed = [pattern for pattern in patterns if pattern.summary is None]
    found = [pattern for pattern in listed if tables[pattern.name].num_rows][:SHOWN_PATTERNS]
    for pattern in found:
        batch = tables[pattern.name].slice(0, most).combine_chunks().to_batches()[0]
        matches = opened(pa.Table.from_batches([with_json_returns(batch, COMPOSING_PATTERNS)]), [*tables.values()])
        seqs = pc.unique(pc.list_flatten(matches.column("bindings").combine_chunks()).field("seq"))
        own = loaded.events.filter(pc.is_in(loaded.events.column("seq"), value_set=seqs))
        read = attributes_read(pattern)
        events = events_by_match(match_events(matches, own, read), {pattern.name: read})
        for name, rows in events.items():
            if loaded.places is not None:
                for row, file, line in zip(
                    rows, *loaded.places.of(pa.array([one["seq"] for one in rows])), strict=True
                ):
                    row["attributes"]["file and line"] = f"{file}:{line}"
            if len(rows) > SHOWN_EVENTS:
                more = {"variable": f"… {len(rows) - SHOWN_EVENTS:,} more", "timestamp": None}
                events[name] = [*rows[:SHOWN_EVENTS], {**more, "attributes": dict.fromkeys(rows[0]["attributes"])}]
        yield from event_tables(
            matches, events, {pattern.name: tables[pattern.name].num_rows}, local_in(timezone), timezone
        )
    for pattern in patterns:
        if pattern.summary is not None:
            yield summary_table(pattern.name, tables[pattern.name].drop_columns("pattern"), timezone)


def _read(
    console: Terminal, stream: StreamSchema, paths: Sequence[Path], patterns: Sequence[Pattern], *, places: bool
) -> tuple[LoadedEvents, float]:
    """Read files of events, tell what is strange about them, and return them with the seconds that reading took."""
    from cep_pipeline.events.event_files import load_events
    from cep_pipeline.language.doubts import doubts_about
    from cep_pipeline.patterns.pattern import with_composed
    from cep_pipeline.slices.events_input import columns_needed

    with console.status("reading events"):
        begin = time.perf_counter()
        loaded = load_events(stream, paths, places=places, columns=columns_needed(with_composed(patterns)))
        read_s = time.perf_counter() - begin
    for note in loaded.notes:
        console.note(note)
    if loaded.rejected and not loaded.events.num_rows:
        raise DataError(
            f"no event is left: {counted(loaded.rejected, 'row')} rejected, for the reasons that the notes above give; "
            "correct the files or the stream schema"
        )
    names = pc.unique(loaded.events.column(stream.type_attribute)).to_pylist()
    types = {None if name is None else str(name) for name in names}
    for text in doubts_about(patterns, types, loaded.events):
        console.print(f"warning: {text}", highlight=False, markup=False)
    return loaded, read_s


def _print_counts(
    console: Terminal, loaded: LoadedEvents, counts: Mapping[str, int], patterns: Sequence[Pattern]
) -> None:
    """Print the number of events, and of matches of each pattern, or of rows where one of `patterns` has SUMMARIZE."""
    from cep_pipeline.foreign_text import grouped

    console.print(f"{counted(loaded.events.num_rows, 'event')}, {counted(loaded.rejected, 'row')} rejected")
    of_rows = {pattern.name for pattern in patterns if pattern.summary is not None}
    rows = ((name, grouped(n) + (" rows" if name in of_rows else "")) for name, n in counts.items())
    console.print(table_of(("pattern", "matches"), rows, right=slice(1, 2)))


def _check_form(output: str, out: Path | None, lines: bool, patterns: Sequence[Pattern]) -> None:
    """Refuse a form of output in a file that cannot hold it."""
    if lines and out is None:
        raise InputError("--lines stand beside the events in the file: name one with --out")
    if lines and output != "verbose":
        raise InputError(f"--lines stand beside the events of a match: --output {output} lists none; leave one out")
    summarized = [pattern.name for pattern in patterns if pattern.summary is not None]
    if lines and summarized:
        raise InputError(f"--lines stand beside the events of a match: {summarized[0]!r} has SUMMARIZE and gives none")


def _adaptation_document(report: AdaptationReport) -> dict[str, Any]:
    """The decisions, the switches and the seconds of a report, for `--json`."""
    return {
        "decided": report.decided,
        "checks": report.checks,
        "switches": report.switches,
        "together": report.together,
        "overhead": report.overhead,
        "seconds": {**plain_value(report.total), "estimating": report.seconds_estimating},
    }


def _print_report(console: Terminal, report: AdaptationReport) -> None:
    """The decisions by pattern, the switches with their reasons, and what deciding took."""
    if report.decided:
        rows = []
        decided = set(report.decided)
        checks_of: dict[str, list[Check]] = {name: [] for name in report.seconds}
        for check in report.checks:
            checks_of[check.pattern].append(check)
        for name, checks in checks_of.items():
            replanned, deployed = sum(check.replanned for check in checks), sum(check.deployed for check in checks)
            made = (len(checks), replanned, deployed)
            follow = report.together.get(name, (name,))
            one_plan = "they have one plan" if len(follow) > 1 else "it has one plan"
            rows.append((_named(follow), *((one_plan, "", "") if decided.isdisjoint(follow) else made)))
        columns = ("pattern", "decisions", "planned again", "switches")
        console.print(table_of(columns, rows, "decisions about plans", right=slice(1, None)))
    else:
        console.print("nothing was decided: the plans are static, or each pattern has one only")
    if report.switches:
        _print_switches(console, report)
    elif report.decided and not report.checks:
        console.print("no decision was due: --every 'N events', or a length of time, asks for more of them")
    total = report.total
    console.print(
        f"statistics {report.seconds_estimating:.2f} s, decisions {total.deciding:.2f} s, plans {total.planning:.2f} s"
        f" (deciding and planning: {report.overhead:.1%} of all), detection {total.detecting:.2f} s"
    )


def _named(patterns: Sequence[str]) -> str:
    """The patterns that follow one plan."""
    others = len(patterns) - 1
    return patterns[0] if not others else f"{patterns[0]} and {counted(others, 'other')}"


def _print_switches(console: Terminal, report: AdaptationReport) -> None:
    rows = []
    for switch in report.switches[:SWITCHES_SHOWN]:
        begins = datetime.fromtimestamp(switch.t0[0] / 1e6, UTC)
        named, saves = _named(switch.patterns), f"{switch.gain:.1%}"
        rows.append((named, begins, switch.row, switch.orders, saves, switch.reason))
    columns = ("pattern", "from (UTC)", "event", "to the plan", "saves", "because")
    console.print(table_of(columns, rows, "switches", right=slice(2, 5, 2)))
    if len(report.switches) > SWITCHES_SHOWN:
        console.print(f"the first {SWITCHES_SHOWN} of {counted(len(report.switches), 'switch')}")
