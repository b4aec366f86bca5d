"""`cep matches` shows what is published: matches, each in a line or with its events, and groups of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click
import pyarrow as pa
from rich.table import Table

from cep_pipeline.cli.files import check_output_file, write_table
from cep_pipeline.cli.options import (
    PATH,
    check_folder,
    configuration_options,
    counted,
    days_asked,
    days_options,
    json_option,
    one_of_two,
    pattern_set_option,
    writing,
)
from cep_pipeline.cli.sources import chosen_set, chosen_stream
from cep_pipeline.cli.terminal import (
    Terminal,
    next_command,
    output_console,
    plain_value,
    say,
    say_json,
    styled,
    table_of,
)
from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.columns import SEQ, TIMESTAMP
from cep_pipeline.events.event_words import local_time, value_in_words
from cep_pipeline.foreign_text import listed

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.warehouse.records import PublishedMatches
    from cep_pipeline.warehouse.stream_tables import StreamTables

MOST_OF_PATTERN = 3
"""Matches of one of many patterns that are shown."""


MOST_EVENTS = 10
"""Events of one match that are shown."""
SHOWN_ROWS = 100
"""Rows of a pattern that are shown."""


@click.command()
@configuration_options
@pattern_set_option
@click.option("--pattern", metavar="NAME", help="Only this pattern.")
@days_options
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Matches to show of each pattern.  [default: 20; 3 where there are more than three patterns]",
)
@click.option("--count", is_flag=True, help="Numbers of matches by day and pattern, in place of the matches.")
@click.option("--summaries", is_flag=True, help="Rows of patterns with SUMMARIZE, of all these days put together.")
@click.option("--events", is_flag=True, help="Show the events of each match, with what its pattern reads of them.")
@click.option(
    "--match", "match_id", metavar="ID", help="Only the match of this id; its first digits, from four on, do."
)
@click.option(
    "--chart",
    type=PATH,
    help="Draw a match on the series of its events to this .html, .svg or .png file: --match ID, or the first one.",
)
@click.option(
    "--attribute",
    metavar="NAME",
    help="Attribute of numbers that matches are drawn over.  [default: the first one that the pattern reads]",
)
@json_option
@click.option(
    "--out",
    type=PATH,
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
    limit: int | None,
    count: bool,
    summaries: bool,
    events: bool,
    match_id: str | None,
    chart: Path | None,
    attribute: str | None,
    as_json: bool,
    out: Path | None,
) -> None:
    """Show published matches of each pattern, day by day as they became final, or the rows of patterns with SUMMARIZE.

    With --summaries the rows of several days are put together exactly: they are those of one run over all these days.

    \b
    Examples:
      cep matches                                     the first ones of each pattern
      cep matches --stream us_equity_trades --day 2013-10-07 --pattern v_reversal
      cep matches --events --limit 3                  the events of the first three matches of each pattern
      cep matches --pattern v_reversal --chart match.html         draw the first match, for a browser
      cep matches --match 0b51e2… --chart match.png --attribute size
      cep matches --count
      cep matches --summaries --from 2013-10-07 --to 2013-10-11 --pattern spreads
      cep matches --out matches.csv
      cep matches --events --out events.parquet       their events, a row each, for any other program
    """
    from cep_pipeline.charts import check_chart_file
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.warehouse.units import is_within

    one_match = {"--match": match_id, "--chart": chart}
    one_of_two({"--summaries": summaries}, {"--count": count, "--events": events, **one_match})
    one_of_two({"--out": out}, {"--json": as_json, "--count": count, **one_match})
    one_of_two({"--count": count}, {"--events": events, **one_match})
    check_output_file(out)
    if chart:
        check_chart_file(chart)
        check_folder(chart)
    configuration = Configuration.load(config)
    name = chosen_stream(configuration, stream)
    sets = tuple(configuration.stream_settings(name).pattern_sets)
    pattern_set = chosen_set(name, sets, pattern_set)
    pinned = ("summaries",) if summaries else ("matches",) if count else ("matches", "events")
    tables = configuration.open_warehouse().open_stream(name).pinned(pinned)
    first, last = days_asked(day, first, last)
    if summaries:
        _show_summaries(configuration, tables, pattern_set, pattern, (first, last), as_json=as_json, out=out)
        return
    units = tables.matches_days()
    _check_name("pattern set", pattern_set, {*sets, *(unit.pattern_set for unit in units)})
    if pattern is not None:
        _check_name(
            "pattern", pattern, {key for unit in units if unit.pattern_set == pattern_set for key in unit.counts}
        )
    of_set = [unit for unit in units if unit.pattern_set == pattern_set and is_within(unit.final_day, first, last)]
    counts, limited = list(_counts(of_set, pattern)), list(_limited(of_set, pattern))
    if limit is None:
        limit = 20 if as_json or len({of for _, of, _ in counts}) <= MOST_OF_PATTERN else MOST_OF_PATTERN
    heading = {"stream": name, "pattern_set": pattern_set}
    if count:
        _show_counts(heading, counts, limited, as_json)
        return
    if out:
        _write_matches(tables, tables.read_matches(pattern_set, first, last, pattern=pattern), out, events=events)
        return
    if match_id is None:
        found = tables.first_matches(pattern_set, first, last, each=limit, pattern=pattern)
    else:
        found = _match_of(match_id, tables, pattern_set, {final: None for final, _, number in counts if number})
    plain = not (events or chart or as_json)
    patterns = _patterns(configuration, name, pattern_set, strict=not plain) if events or chart or plain else {}
    of_match = _events_by_match(tables, found, patterns) if events or plain else {}
    schema = configuration.stream_schema(name)
    zone = schema.timezone
    if chart:
        said = _draw(
            tables, found, chart, patterns, attribute, limited, type_attribute=schema.type_attribute, timezone=zone
        )
        say(said, err=as_json)
        if not (events or as_json):
            return
    totals = {of: sum(number for _, other, number in counts if other == of) for _, of, _ in counts}
    if as_json:
        of, rows = ZoneInfo(zone), found.to_pylist()
        told = [_as_json(row, lambda at: at.astimezone(of).isoformat(), of_match.get(row["match_id"])) for row in rows]
        say_json({**heading, "timezone": zone, "totals": totals, "limited": limited, "matches": told})
        return
    _tell_limited(console := output_console(), limited)
    if not found.num_rows:
        shows = next_command("status", stream=name)
        console.print(f"no matches; `{shows}` shows which days are published", soft_wrap=True)
        return
    for shown in event_tables(found, of_match, totals, local_in(zone), zone) if events else ():
        console.print(shown)
    if not events:
        console.print(_match_table(found, of_match, zone, schema.type_attribute))
        if first == last and match_id is None:  # the numbers are those of all days, or of one
            chosen = {"stream": name, "pattern_set": pattern_set if len(sets) > 1 else None}
            shows = next_command("why", found["pattern"][0].as_py(), 1, **chosen, day=first)
            console.print(f"`{shows}` explains a match, by its pattern and its number", soft_wrap=True)
    if match_id is None and any(number > limit for number in totals.values()):
        console.print(f"at most {counted(limit, 'match')} of each pattern: --limit N shows more, --count says how many")


def _limited(units: Iterable[PublishedMatches], pattern: str | None) -> Iterator[str]:
    """Say to a person which patterns a limit has stopped, and what to do."""
    for unit in units:
        for name, what in unit.limited.items():
            if pattern in (None, name):
                advice = "give it more conditions or a shorter WITHIN, raise the limit (`limits` in pipeline.yaml)"
                number = "or ask for its number alone: `cep detect --output count`"
                yield f"{unit.final_day}: pattern {unit.pattern_set}.{name} was {what}; {advice}, {number}"


def _tell_limited(console: Terminal, limited: Iterable[str]) -> None:
    for one in limited:
        console.print(styled(("limited", "bold red"), f": {one}"), soft_wrap=True)


def _show_counts(
    heading: Mapping[str, str], counts: Sequence[tuple[date, str, int]], limited: Sequence[str], as_json: bool
) -> None:
    if as_json:
        listed = [{"day": final.isoformat(), "pattern": of, "matches": number} for final, of, number in counts]
        say_json({**heading, "counts": listed, "limited": limited})
        return
    _tell_limited(output_console(), limited)
    title = f"{heading['stream']}: matches of pattern set {heading['pattern_set']}"
    rows = ((final.isoformat(), of, f"{number:,}") for final, of, number in counts)
    output_console().print(table_of(("day", "pattern", "matches"), rows, title, right=slice(2, 3)))


def _counts(units: Iterable[PublishedMatches], pattern: str | None) -> Iterator[tuple[date, str, int]]:
    """Day, pattern and number of matches of what is asked for."""
    for unit in units:
        for name, number in unit.counts.items():
            if pattern in (None, name):
                yield unit.final_day, name, number


def _check_name(what: str, name: str, known: set[str]) -> None:
    """Refuse a name under which nothing is published, rather than answer that it has no matches."""
    if known and name not in known:
        raise InputError(
            f"no matches of a {what} {name!r} are published; there are those of: {', '.join(sorted(known))}"
        )


def _patterns(
    configuration: Configuration, stream: str, pattern_set: str, *, strict: bool = True
) -> Mapping[str, Pattern]:
    """The patterns of a set that are configured now, by name; unless `strict`, none where a pattern file is wrong."""
    if pattern_set not in configuration.stream_settings(stream).pattern_sets:
        return {}
    try:
        return {one.name: one for one in configuration.stream(stream).pattern_set(pattern_set).statements}
    except CepError:
        if strict:
            raise
        return {}


def _match_of(match_id: str, tables: StreamTables, pattern_set: str, days: Iterable[date]) -> pa.Table:
    """The match of an id on one of some days, as a table of one row."""
    from cep_pipeline.warehouse.match_pages import match_row

    found = match_row(tables, pattern_set, days, match_id)
    if found is None:
        raise InputError(f"no match {match_id!r} is among the chosen ones; `cep matches` shows how their ids begin")
    return found


def _write_matches(tables: StreamTables, found: pa.Table, out: Path, *, events: bool) -> None:
    """Write matches to a file, or a row for each of their events."""
    if found["composed"].null_count == found.num_rows:
        found = found.drop_columns("composed")
    written, what = (tables.read_match_events(found), "event") if events else (found, "match")
    write_table(written, out)
    output_console().print(f"{counted(written.num_rows, what)} written to {out}")


def _draw(
    tables: StreamTables,
    found: pa.Table,
    path: Path,
    patterns: Mapping[str, Pattern],
    attribute: str | None,
    limited: Sequence[str],
    **stream: str,
) -> str:
    """Draw the first of some matches over an attribute into a file, and say so."""
    from cep_pipeline.warehouse.match_pages import draw_published

    if not found.num_rows:
        raise InputError(f"there is no match to draw: {limited[0] if limited else 'none fits the choice'}")
    [match] = found.slice(0, 1).to_pylist()
    drawing = draw_published(tables, match, attribute, pattern=patterns.get(match["pattern"]), **stream)
    with writing(path):
        drawing.save(path)
    return f"match {match['match_id']} of {match['pattern']} is drawn in {path}"


def _events_by_match(
    tables: StreamTables, found: pa.Table, patterns: Mapping[str, Pattern]
) -> dict[str, list[dict[str, Any]]]:
    """Match id -> its events: variable, timestamp, seq, and the attributes that the pattern reads (else all)."""
    from cep_pipeline.detection.results import attributes_read

    read = {name: attributes_read(pattern) for name, pattern in patterns.items()}
    known = all(name in read for name in found.column("pattern").unique().to_pylist())
    there = set(tables.events_schema.names)
    wanted = sorted({name for names in read.values() for name in names} & there) if known else None
    return events_by_match(tables.read_match_events(found, wanted), read)


def events_by_match(rows: pa.Table, read: Mapping[str, Sequence[str]]) -> dict[str, list[dict[str, Any]]]:
    """Match id -> its events, from the rows of `match_events`, with the attributes that patterns read (else all)."""
    events: dict[str, list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        of, match_id = row.pop("pattern"), row.pop("match_id")
        fixed = {name: row.pop(name) for name in _FIXED}
        attributes = {name: row[name] for name in read[of] if name in row} if of in read else row
        events.setdefault(match_id, []).append({**fixed, "attributes": attributes})
    return events


def _match_table(
    found: pa.Table, events: Mapping[str, Sequence[Mapping[str, Any]]], zone: str, type_attribute: str | None
) -> Table:
    """A row for each match, with the times of its events and what its pattern reads of them."""
    from cep_pipeline.events.event_words import events_in_words
    from cep_pipeline.storage import SHORT_ID

    rows, numbers = [], Counter[str]()
    for row in found.to_pylist():
        numbers[row["pattern"]] += 1
        bound = [{**{name: one[name] for name in _FIXED}, **one["attributes"]} for one in events[row["match_id"]]]
        more = [f"… {len(bound) - MOST_EVENTS:,} more"] * (len(bound) > MOST_EVENTS)
        told = "\n".join([*events_in_words(bound[:MOST_EVENTS], zone, type_attribute), *more])
        number, match_id = str(numbers[row["pattern"]]), str(row["match_id"])[:SHORT_ID]
        rows.append((row["pattern"], number, match_id, told, _returns(row["returns"])))
    columns = ("pattern", "no.", "match", f"events ({zone})", "returns")
    return table_of(columns, rows, right=slice(1, 2), optional={"returns"})


_FIXED = ("variable", TIMESTAMP, SEQ)


def event_tables(
    found: pa.Table,
    events: Mapping[str, Sequence[Mapping[str, Any]]],
    totals: Mapping[str, int],
    local: Callable[[datetime], str],
    zone: str,
) -> Iterator[Table]:
    """A table for each pattern, in which lines stand between the matches."""
    for pattern, of_pattern in groupby(found.to_pylist(), key=lambda row: row["pattern"]):
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
                    *(cell(event["attributes"][name], local) for name in names),
                    *(["" if place else _returns(row["returns"])] if returned else []),
                )
            shown.add_section()
        yield shown


def cell(value: Any, local: Callable[[datetime], str] = str) -> str:
    """A value of an attribute, a time as it is written there; a list shows its last values, the latest of them last."""
    if isinstance(value, datetime):
        return local(value)
    return "" if value is None else value_in_words(value)


def _as_json(row: Mapping[str, Any], moment: Callable[[datetime], str], events: Any) -> dict[str, Any]:
    composed = [{**one, "match_id": str(one["match_id"])} for one in row.get("composed") or ()]
    return {
        "pattern": row["pattern"],
        "match_id": str(row["match_id"]),
        "final_day": row["final_day"],
        "start": moment(row["start_ts"]),
        "end": moment(row["end_ts"]),
        "bindings": row["bindings"],
        **({"composed": composed} if composed else {}),
        "returns": json.loads(row["returns"]) if row["returns"] else {},
        **({} if events is None else {"events": [{**one, TIMESTAMP: moment(one[TIMESTAMP])} for one in events]}),
    }


def local_in(zone: str) -> Callable[[datetime], str]:
    """Write instants as the clocks of a zone show them, with the offset where a clock shows the same time twice."""
    of = ZoneInfo(zone)

    def local(instant: datetime) -> str:
        text, there = local_time(instant, zone), instant.astimezone(of)
        twice = there.replace(fold=0).utcoffset() != there.replace(fold=1).utcoffset()
        return f"{text} ({there:%z})" if twice else text

    return local


def _returns(text: str | None) -> str:
    values = json.loads(text) if text else {}
    return ", ".join(f"{name} = {'null' if value is None else cell(value)}" for name, value in values.items())


def _show_summaries(
    configuration: Configuration,
    tables: StreamTables,
    pattern_set: str,
    pattern: str | None,
    days: tuple[date | None, date | None],
    *,
    as_json: bool,
    out: Path | None,
) -> None:
    """Show or write the rows of patterns with SUMMARIZE."""
    name = tables.name
    known = [one for one in _patterns(configuration, name, pattern_set).values() if one.summary is not None]
    chosen = [one for one in known if pattern in (None, one.name)]
    if not chosen:
        asked = "no pattern" if pattern is None or not known else f"no pattern {pattern!r}"
        there = f"; there are: {listed([one.name for one in known])}" if known else ": `cep matches` shows its matches"
        raise InputError(f"pattern set {pattern_set!r} has {asked} with SUMMARIZE{there}")
    if out and len(chosen) > 1:
        raise InputError(f"--out writes the rows of one pattern; name one: --pattern {chosen[0].name}")
    found = {one.name: tables.summary_of(pattern_set, one, *days).table().drop_columns("pattern") for one in chosen}
    if out:
        [rows] = found.values()
        write_table(rows, out)
        output_console().print(f"{counted(rows.num_rows, 'row')} written to {out}")
    elif as_json:
        shown = {of: plain_value(rows.to_pylist()) for of, rows in found.items()}
        say_json({"stream": name, "pattern_set": pattern_set, "summaries": shown})
    else:
        zone = configuration.stream_schema(name).timezone
        for of, rows in found.items():
            output_console().print(summary_table(of, rows, zone))


def summary_table(name: str, rows: pa.Table, zone: str) -> Table:
    """The rows of a pattern, the first ones of very many, with times in a zone."""
    more = f", the first {SHOWN_ROWS} of {rows.num_rows:,}" if rows.num_rows > SHOWN_ROWS else ""
    local = local_in(zone)
    shown = ([cell(value, local) for value in row.values()] for row in rows.slice(0, SHOWN_ROWS).to_pylist())
    return table_of(rows.column_names, shown, f"{name}{more}")
