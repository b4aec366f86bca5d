"""`cep matches` shows published matches: each in a line, or with its events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click
import pyarrow as pa
from rich.table import Table

from cep_pipeline.cli.options import (
    Day,
    configuration_options,
    counted,
    json_option,
    next_command,
    pattern_set_option,
)
from cep_pipeline.cli.sources import chosen_set, chosen_stream
from cep_pipeline.cli.tables import check_output_file, write_table
from cep_pipeline.cli.terminal import output_console, say_json
from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import SEQ, SEQ_PER_DAY, TIMESTAMP
from cep_pipeline.storage import rows_of

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.warehouse.records import PublishedMatches
    from cep_pipeline.warehouse.stream_tables import StreamTables


@click.command()
@configuration_options
@pattern_set_option
@click.option("--pattern", metavar="NAME", help="Only this pattern.")
@click.option("--day", type=Day(), help="Only matches that became final on this day.")
@click.option("--from", "first", type=Day(), help="First day.")
@click.option("--to", "last", type=Day(), help="Last day, included.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Matches to show of each pattern."
)
@click.option("--count", is_flag=True, help="Numbers of matches by day and pattern, in place of the matches.")
@click.option("--events", is_flag=True, help="Show the events of each match, with what its pattern reads of them.")
@click.option("--utc", is_flag=True, help="Show times in UTC, in place of the time zone of the stream.")
@json_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write all of them (no limit) to a .parquet, .csv or .json file; with --events a row for each event.",
)
def matches(
    config: Path,
    stream: str | None,
    pattern_set: str | None,
    pattern: str | None,
    day: date | None,
    first: date | None,
    last: date | None,
    limit: int,
    count: bool,
    events: bool,
    utc: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Show published matches of each pattern, in the order of their last events.

    \b
    Examples:
      cep matches                                     the first 20 of each pattern
      cep matches --stream us_equity_trades --day 2013-10-07 --pattern v_reversal
      cep matches --events --limit 3                  the events of the first three matches of each pattern
      cep matches --count
      cep matches --out matches.csv
      cep matches --events --out events.parquet       their events, a row each, for any other program
    """
    from cep_pipeline.pipeline.configuration import Configuration

    if out:
        check_output_file(out)
    if out and (as_json or count):
        raise InputError("--out writes the matches to a file; leave --json and --count out")
    if count and events:
        raise InputError("--count shows numbers, and --events shows events; give one of them")
    configuration = Configuration.load(config)
    name = chosen_stream(configuration, stream)
    sets = tuple(configuration.stream_settings(name).pattern_sets)
    pattern_set = chosen_set(name, sets, pattern_set)
    tables = configuration.open_warehouse().open_stream(name).pinned(("matches", "events") if events else ("matches",))
    units = tables.matches_days()
    _check_name("pattern set", pattern_set, {*sets, *(unit.pattern_set for unit in units)})
    if pattern is not None:
        _check_name(
            "pattern", pattern, {key for unit in units if unit.pattern_set == pattern_set for key in unit.counts}
        )
    first, last = (day, day) if day else (first, last)
    counts = list(_counts(units, pattern_set, pattern, first, last))
    heading = {"stream": name, "pattern_set": pattern_set}
    if count:
        if as_json:
            listed = [{"day": final.isoformat(), "pattern": of, "matches": number} for final, of, number in counts]
            say_json({**heading, "counts": listed})
            return
        shown = Table("day", "pattern", "matches", title=f"{name}: matches of pattern set {pattern_set}")
        shown.columns[2].justify = "right"
        for final, of, number in counts:
            shown.add_row(final.isoformat(), of, f"{number:,}")
        output_console().print(shown)
        return
    read = _attributes_read(configuration, name, pattern_set) if events else {}
    if out:
        found = tables.read_matches(pattern_set, first, last, pattern=pattern)
        written, what = (tables.read_match_events(found), "event") if events else (found, "match")
        write_table(written, out)
        output_console().print(f"{counted(written.num_rows, what)} written to {out}")
        return
    found = tables.first_matches(pattern_set, first, last, each=limit, pattern=pattern)
    zone = "UTC" if utc else configuration.stream_schema(name).timezone
    of_match = _events_by_match(tables, found, read) if events else {}
    totals: dict[str, int] = {}
    for _, of, number in counts:
        totals[of] = totals.get(of, 0) + number
    if as_json:
        moment = _iso_in(zone)
        rows = [_as_json(row, moment, of_match.get(row["match_id"])) for row in rows_of(found)]
        say_json({**heading, "timezone": zone, "totals": totals, "matches": rows})
        return
    console = output_console()
    if not found.num_rows:
        shows = next_command("status", stream=name)
        console.print(f"no matches; `{shows}` shows which days are published", soft_wrap=True)
        return
    if events:
        for shown in _event_tables(found, of_match, totals, _local_in(zone), zone):
            console.print(shown)
    else:
        console.print(_match_table(found, _local_in(zone), zone))
        console.print("an event is its variable and its position in its day; --events shows it, --out FILE writes ids")
    if any(number > limit for number in totals.values()):
        console.print(f"at most {counted(limit, 'match')} of each pattern: --limit N shows more, --count says how many")


def _counts(
    units: Iterable[PublishedMatches], pattern_set: str, pattern: str | None, first: date | None, last: date | None
) -> Iterator[tuple[date, str, int]]:
    """Day, pattern and number of matches of what is asked for."""
    for unit in units:
        within = (first is None or first <= unit.final_day) and (last is None or unit.final_day <= last)
        if unit.pattern_set == pattern_set and within:
            for name, number in unit.counts.items():
                if pattern in (None, name):
                    yield unit.final_day, name, number


def _check_name(what: str, name: str, known: set[str]) -> None:
    """Refuse a name under which nothing is published, rather than answer that it has no matches."""
    if known and name not in known:
        raise InputError(
            f"no matches of a {what} {name!r} are published; there are those of: {', '.join(sorted(known))}"
        )


def _attributes_read(configuration: Configuration, stream: str, pattern_set: str) -> Mapping[str, tuple[str, ...]]:
    """Pattern -> the attributes that it reads, the event type first; of patterns that are configured now."""
    from cep_pipeline.slices.events_input import columns_of

    if pattern_set not in configuration.stream_settings(stream).pattern_sets:
        return {}
    patterns = configuration.stream(stream).pattern_set(pattern_set).patterns
    return {one.name: tuple(name for name in columns_of(one) if name not in (TIMESTAMP, SEQ)) for one in patterns}


def _events_by_match(
    tables: StreamTables, found: pa.Table, read: Mapping[str, Sequence[str]]
) -> dict[str, list[dict[str, Any]]]:
    """Match id -> its events: variable, timestamp, seq, and the attributes that the pattern reads (else all)."""
    known = all(name in read for name in found.column("pattern").unique().to_pylist())
    there = set(tables.events_schema.names)
    wanted = sorted({name for names in read.values() for name in names} & there) if known else None
    rows = rows_of(tables.read_match_events(found, wanted))
    events: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        of, match_id = row.pop("pattern"), row.pop("match_id")
        fixed = {name: row.pop(name) for name in ("variable", TIMESTAMP, SEQ)}
        attributes = {name: row[name] for name in read[of] if name in row} if of in read else row
        events.setdefault(match_id, []).append({**fixed, "attributes": attributes})
    return events


def _match_table(found: pa.Table, local: Callable[[datetime], str], zone: str) -> Table:
    shown = Table("pattern", f"from ({zone})", "to", "events of the day", "returns")
    for row in rows_of(found):
        start, end = local(row["start_ts"]), local(row["end_ts"])
        shown.add_row(
            row["pattern"],
            start,
            end.partition(" ")[2] if start[:10] == end[:10] else end,
            ", ".join(_binding(binding, row["final_day"]) for binding in row["bindings"]),
            _returns(row["returns"]),
        )
    return shown


def _event_tables(
    found: pa.Table,
    events: Mapping[str, Sequence[Mapping[str, Any]]],
    totals: Mapping[str, int],
    local: Callable[[datetime], str],
    zone: str,
) -> Iterator[Table]:
    """A table for each pattern, in which lines stand between the matches."""
    for pattern, of_pattern in groupby(rows_of(found), key=lambda row: row["pattern"]):
        rows = list(of_pattern)
        names = [*events[rows[0]["match_id"]][0]["attributes"]]
        returned = ["returns"] if any(row["returns"] for row in rows) else []
        title = f"{pattern}: {len(rows):,} of {counted(totals[pattern], 'match')}"
        shown = Table("match", "variable", f"time ({zone})", *names, *returned, title=title)
        for number, row in enumerate(rows, 1):
            for place, event in enumerate(events[row["match_id"]]):
                shown.add_row(
                    "" if place else str(number),
                    event["variable"],
                    "" if event[TIMESTAMP] is None else local(event[TIMESTAMP]),
                    *(_cell(event["attributes"][name]) for name in names),
                    *(["" if place else _returns(row["returns"])] if returned else []),
                )
            shown.add_section()
        yield shown


def _cell(value: Any) -> str:
    """A value of an attribute; a list shows its last values, the latest of them last."""
    if isinstance(value, list):
        return f"[{'…, ' if len(value) > 3 else ''}{', '.join(map(_cell, value[-3:]))}]"
    return "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def _as_json(row: Mapping[str, Any], moment: Callable[[datetime], str], events: Any) -> dict[str, Any]:
    shown = {
        "pattern": row["pattern"],
        "match_id": row["match_id"],
        "final_day": row["final_day"].isoformat(),
        "start": moment(row["start_ts"]),
        "end": moment(row["end_ts"]),
        "bindings": row["bindings"],
        "returns": json.loads(row["returns"]) if row["returns"] else {},
    }
    if events is not None:
        shown["events"] = [
            {
                "variable": event["variable"],
                "timestamp": None if event[TIMESTAMP] is None else moment(event[TIMESTAMP]),
                "seq": event[SEQ],
                "attributes": event["attributes"],
            }
            for event in events
        ]
    return shown


def _iso_in(zone: str) -> Callable[[datetime], str]:
    """Write instants in ISO 8601 with their offset."""
    of = ZoneInfo(zone)
    return lambda instant: instant.astimezone(of).isoformat()


def _local_in(zone: str) -> Callable[[datetime], str]:
    """Write instants as the clocks of a zone show them, with the offset where a clock shows the same time twice."""
    of = ZoneInfo(zone)

    def local(instant: datetime) -> str:
        there = instant.astimezone(of)
        text = there.replace(tzinfo=None).isoformat(" ", "microseconds" if there.microsecond % 1000 else "milliseconds")
        twice = there.replace(fold=0).utcoffset() != there.replace(fold=1).utcoffset()
        return f"{text} ({there:%z})" if twice else text

    return local


def _binding(binding: dict[str, Any], final_day: date) -> str:
    """A variable and the position of its event in its day, which is named where it is not the match's."""
    ordinal, position = divmod(binding["seq"], SEQ_PER_DAY)
    day = "" if ordinal == final_day.toordinal() else f"{date.fromordinal(ordinal)}/"
    return f"{binding['variable']} {day}{position}"


def _returns(text: str | None) -> str:
    return ", ".join(f"{name} = {value}" for name, value in json.loads(text).items()) if text else ""
