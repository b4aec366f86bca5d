"""`cep status`: published days, what is stale, the current plans, decisions about them, and runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cep_pipeline.cli.options import configuration_options, counted, data_option, json_option
from cep_pipeline.cli.terminal import Terminal, next_command, output_console, say_json, styled, table_of
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import Stream
    from cep_pipeline.warehouse.records import Decision, RunRecord
    from cep_pipeline.warehouse.stream_tables import StreamTables


@click.command()
@configuration_options
@data_option
@click.option("--rejected", is_flag=True, help="Show the latest rejected rows with file, line and reason.")
@click.option("--runs", "run_limit", type=click.IntRange(min=0), default=10, show_default=True, help="Runs to show.")
@click.option(
    "--run",
    "run_id",
    metavar="RUN",
    help="Show one run: its days, steps and matches. RUN is an id, its beginning, or the short id.",
)
@click.option(
    "--decisions",
    "decision_limit",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="Decisions about plans to show.",
)
@json_option
def status(
    config: Path,
    stream: str | None,
    data: str | None,
    rejected: bool,
    run_limit: int,
    run_id: str | None,
    decision_limit: int,
    as_json: bool,
) -> None:
    """Show the published days, which of them are stale and why, the current plans, and the latest decisions and runs.

    Decisions are those of checks of the current plans (`cep invariants --check`, the DAGs invariant_check) and of
    replannings. A violation that no replanning has answered yet is told with the plan.

    \b
    Examples:
      cep status
      cep status --decisions 50 --runs 0              the course of checks and replannings
      cep status --stream us_equity_trades --data DIR --runs 50
      cep status --rejected                           rejected rows with file, line and reason
      cep status --run 8c030c                         one run
    """
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.warehouse.records import short_run_id

    configuration = Configuration.load(config)
    console = output_console()
    warehouse = configuration.open_warehouse()
    names = [stream] if stream else [name for name in configuration.stream_names() if name in warehouse.streams()]
    if run_id is not None and (names or as_json):
        found = _days_of_run(run_id, [run for name in names for run in warehouse.open_stream(name).runs()])
        if as_json:
            say_json({"run": run_id, "days": found})
        else:
            _print_run(console, found)
        return
    documents = []
    for name in names:
        loaded, tables = configuration.stream(name, data=data), warehouse.open_stream(name).pinned()
        documents.append(_document(loaded, tables, run_limit, decision_limit, rejected=rejected))
        if not as_json:
            _print_stream(console, loaded, tables, documents[-1])
    if as_json:
        say_json({"streams": documents})
        return
    if not names:
        begin = f"begin with `{next_command('run')}`"
        console.print(f"nothing is published yet in {configuration.warehouse_location}; {begin}", soft_wrap=True)
    for holder in warehouse.leases() if names else ():
        console.print(
            f"held: {holder.stream} {holder.unit} by run {short_run_id(holder.run_id)} on {holder.host} "
            f"(pid {holder.pid}) since {holder.acquired_at:%H:%M:%S}"
            f"{', and is dead: the next run takes it over' if holder.expired else ''}"
        )


def _document(
    stream: Stream, tables: StreamTables, run_limit: int, decision_limit: int, *, rejected: bool
) -> dict[str, Any]:
    """Return the content of `cep status` for a stream."""
    from cep_pipeline.pipeline.run import find_stale_days

    plans = filter(None, (tables.current_plan(pattern_set.name) for pattern_set in stream.pattern_sets))
    decided = ("decided_at", "pattern_set", "day", "kind", "outcome", "reason")
    ran = ("day", "status", "started_at", "seconds", "events", "rejected", "matches", "error")
    return {
        "stream": stream.name,
        "days": [_picked(one, "day", "events", "rejected") for one in tables.days()],
        "matches": [
            {
                "day": unit.final_day,
                "pattern_set": unit.pattern_set,
                "matches": unit.counts,
                "pending": unit.pending,
                "end_of_stream": unit.fingerprint.end_of_stream,
                "limited": {name: str(limited) for name, limited in unit.limited.items()},
            }
            for unit in tables.matches_days()
        ],
        "stale": [_picked(one, "day", "pattern_set", "reasons") for one in find_stale_days(stream, tables)],
        "plans": [_picked(plan, "pattern_set", "version", "created_at", "reason") for plan in plans],
        "decisions": [_picked(one, *decided) for one in tables.decisions()[:decision_limit]],
        "runs": [
            {"run": run.run_id, **_picked(run, *ran), "limited": run.details.get("limited", {})}
            for run in (tables.runs(run_limit) if run_limit else [])
        ],
        **({"rejected_rows": list(_rejected(tables))} if rejected else {}),
    }


def _picked(record: object, *names: str) -> dict[str, Any]:
    """Some fields of a record."""
    return {name: getattr(record, name) for name in names}


def _print_stream(console: Terminal, stream: Stream, tables: StreamTables, document: dict[str, Any]) -> None:
    from cep_pipeline.pipeline.violations import pending_violation

    _print_days(console, document)
    decisions = tables.decisions()
    for pattern_set in stream.pattern_sets:
        plan = tables.current_plan(pattern_set.name)
        if plan is not None:
            console.print(
                styled("plan of ", (pattern_set.name, "bold"), f": version {plan.version} of "),
                f"{plan.created_at:%Y-%m-%d %H:%M}, because: {plan.reason}",
                sep="",
            )
            again = next_command("replan", stream=stream.name, pattern_set=pattern_set.name)
            made_by = [planner for planner in plan.planners if planner != "trivial"]  # which some take in any case
            if made_by and pattern_set.planner not in made_by:
                console.print(
                    f"  made by {', '.join(made_by)}, and {pattern_set.planner} is configured: daily runs go by this "
                    f"plan until `{again}` finds a better one",
                    highlight=False,
                    soft_wrap=True,
                )
            own = [one for one in decisions if one.pattern_set == pattern_set.name]
            if violation := pending_violation(own, plan.version):
                waits = ("it no longer fits, and no replanning has answered yet", "bold red")
                console.print(styled("  ", waits, f": {violation.reason}"), soft_wrap=True)
                console.print(f"  plan again: {again}, or the DAG replanning_{stream.name}", soft_wrap=True)
    if document["decisions"]:
        _print_decisions(console, decisions, len(document["decisions"]))
    if "rejected_rows" in document:
        _print_rejected(console, document)
    if document["runs"]:
        _print_runs(console, document["runs"])


def _print_runs(console: Terminal, runs: Sequence[dict[str, Any]]) -> None:
    """Print a row for each run, short enough for a narrow terminal; below stands what went wrong."""
    from cep_pipeline.warehouse.records import short_run_id

    rows = (
        (
            short_run_id(run["run"]),
            run["day"],
            "limited" if run["limited"] else run["status"],
            f"{run['started_at']:%m-%d %H:%M}",
            run["seconds"],
            run["events"],
            run["rejected"] or None,
            sum(run["matches"].values()) if run["matches"] else None,
        )
        for run in runs
    )
    columns = ("run", "day", "status", "started (UTC)", "seconds", "events", "rejected", "matches")
    console.print(table_of(columns, rows, "runs", right=slice(4, 8), optional={"rejected"}))
    for run in runs:
        if said := run["error"].partition("\n")[0]:
            about = f" {run['day']}, run {short_run_id(run['run'])}: {said}"
            console.print(styled((run["status"], "bold red"), about), soft_wrap=True)


def _print_days(console: Terminal, document: dict[str, Any]) -> None:
    reasons: dict[date, list[str]] = {}
    for item in document["stale"]:
        about = f"{item['pattern_set']}: " if item["pattern_set"] else ""
        reasons.setdefault(item["day"], []).append(about + "; ".join(item["reasons"]))
    matched: dict[date, list[str]] = {}
    for unit in document["matches"]:
        pending = sum(unit["pending"].values())
        waits = f" ({pending:,} pending)" if pending else " (end of stream)" if unit["end_of_stream"] else ""
        text = f"{unit['pattern_set']} {sum(unit['matches'].values()):,}{waits}"
        matched.setdefault(unit["day"], []).append(text)
    rows = (
        (*one.values(), ", ".join(matched.get(one["day"], [])), "\n".join(reasons.get(one["day"], [])))
        for one in document["days"]
    )
    columns = ("day", "events", "rejected", "matches", "stale")
    console.print(table_of(columns, rows, f"stream {document['stream']}", right=slice(1, 3)))
    for unit in document["matches"]:
        for pattern, limited in unit["limited"].items():
            which = f": {unit['day']}: pattern {unit['pattern_set']}.{pattern} was {limited}"
            console.print(styled(("limited", "bold red"), which))
    if reasons:
        redo = next_command("run", stream=document["stream"], stale=True)
        console.print(f"{counted(len(reasons), 'stale day')}; `{redo}` redoes them", soft_wrap=True)


def _print_decisions(console: Terminal, decisions: Sequence[Decision], most: int) -> None:
    """Print the latest decisions; below a violation stands what answered it."""
    from cep_pipeline.pipeline.violations import answer_to

    rows = []
    for one in decisions[:most]:
        now = one.details.get("current")
        said = "\n".join(filter(None, (one.reason, answer_to(one, decisions))))
        plans = f"{one.plan_version or ''} → {now}" if now not in (None, one.plan_version) else one.plan_version
        rows.append((one.decided_at, one.pattern_set, one.day, one.kind, one.outcome, plans, said))
    columns = ("decided (UTC)", "pattern set", "day", "by", "outcome", "plan", "reason")
    console.print(table_of(columns, rows, "decisions about plans"))


REJECTED_SHOWN = 20


def _rejected(tables: StreamTables) -> Iterator[dict[str, Any]]:
    """The first rejected rows of the latest days that have any."""
    days = [published.day for published in tables.days() if published.rejected]
    read = partial(tables.read_quarantine, limit=REJECTED_SHOWN)
    rows = ({"day": day, **row} for day in reversed(days) for row in read(day, day).to_pylist())
    for row in islice(rows, REJECTED_SHOWN):
        yield {name: row[name] for name in ("day", "file", "line", "reason", "raw")}


def _print_rejected(console: Terminal, document: dict[str, Any]) -> None:
    rows = document["rejected_rows"]
    columns = ("day", "file", "line", "reason", "row")
    shown = ((row["day"], row["file"], str(row["line"] or ""), row["reason"], row["raw"]) for row in rows)
    console.print(table_of(columns, shown, "rejected rows") if rows else "no rejected rows")
    if sum(one["rejected"] for one in document["days"]) > len(rows):
        console.print(f"the first {REJECTED_SHOWN}; all are in the table quarantine")


def _days_of_run(asked: str, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The records of one run, day by day; it is asked for by its id, a beginning, the short id or its last word."""
    from cep_pipeline.warehouse.records import short_run_id

    ids = {run.run_id for run in runs}
    named = ids & {asked} or {
        one for one in ids if one.startswith(asked) or asked in (short_run_id(one), short_run_id(one).split()[-1])
    }
    if not named:
        raise InputError(f"no run {asked!r} is recorded; `cep status --runs 50` lists the latest")
    if len(named) > 1:
        shown = ", ".join(sorted(named)[:5])
        raise InputError(f"{asked!r} is the beginning of {len(named)} runs; write more of the id: {shown}")
    return sorted((run for run in runs if run.run_id in named), key=lambda run: run.day or date.min)


def _print_run(console: Terminal, found: Sequence[RunRecord]) -> None:
    """Print all that is recorded of one run, day by day."""
    for run in found:
        rows: list[tuple[object, ...]] = []
        for step in run.steps:
            counts = ", ".join(f"{name} {number:,}" for name, number in step.counts.items())
            rows.append((step.name, step.seconds, counts))
        rows += ((f"matches of {pattern}", None, number) for pattern, number in run.matches.items())
        title = f"run {run.run_id}, {run.day}: {run.status}"
        console.print(table_of(("step", "seconds", "counts"), rows, title, right=slice(1, 2)))
        for route, names in run.details.get("routes", {}).items():
            console.print(f"{route}: {names}", highlight=False)
        if run.error:
            console.print(f"error: {run.error}", highlight=False)
    for spark in dict.fromkeys(run.details["spark"] for run in found if "spark" in run.details):
        console.print(f"tasks ran on {spark}", highlight=False)
