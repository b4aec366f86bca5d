"""`cep invariants`, `cep replan`: whether the current plan still fits the data, and what is done where it does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cep_pipeline.cli.options import (
    complete,
    configuration_options,
    json_option,
    naming_run,
    next_command,
    pattern_set_option,
)
from cep_pipeline.cli.progress import ConsoleObserver
from cep_pipeline.cli.sources import open_stream
from cep_pipeline.cli.terminal import Terminal, output_console, say, say_json
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.pipeline.violations import Violation
    from cep_pipeline.warehouse.records import Decision
    from cep_pipeline.warehouse.stream_tables import StreamTables


@click.command()
@configuration_options
@click.option("--pattern-set", metavar="NAME", help="Only this pattern set; all of the stream if not given.")
@click.option("--check", is_flag=True, help="Record a decision for each pattern set, as the DAG invariant_check does.")
@click.option("--all", "show_all", is_flag=True, help="All invariants and numbers, however many there are.")
@json_option
def invariants(
    config: Path,
    stream: str | None,
    pattern_set: str | None,
    check: bool,
    show_all: bool,
    as_json: bool,
) -> None:
    """Verify the current plans on fresh statistics: both sides of each invariant, then and now, and how near it is.

    A plan is the best one as long as the comparisons that built it come out as they did: those are its invariants.
    They are verified on the latest day that has events. Nothing is changed; with --check one decision a pattern set is
    recorded in the table `decisions`: replan, keep, or no new data since the last check. Of more than 40 invariants
    those are shown that are closest to their violation; --all and --json have all of them.

    A plan of all patterns together is checked by the invariants of the local plans inside it, and by those of what its
    patterns share; a violation names the patterns that it concerns, and `cep replan` plans those again with what is
    connected with them. Patterns whose planners have no invariants are checked by the threshold.

    \b
    Examples:
      cep invariants
      cep invariants --stream us_equity_trades --pattern-set market
      cep invariants --check
      cep invariants --json
    """
    from cep_pipeline.cli.adaptation_view import (
        MOST_SHOWN,
        closest_line,
        invariants_table,
        moved_table,
        shown_headline,
    )
    from cep_pipeline.pipeline.plan_checks import check_invariants, show_invariants
    from cep_pipeline.pipeline.run import new_run_id

    opened = open_stream(config, stream, pattern_set)
    run_id = new_run_id()
    with naming_run(run_id):
        if check:
            checks = check_invariants(opened.tables, opened.stream, opened.pattern_sets, run_id=run_id)
        else:
            shown, failed = [], []
            most = None if show_all or as_json else MOST_SHOWN
            for wanted in opened.pattern_sets:
                try:
                    shown.append(show_invariants(opened.tables, opened.stream, wanted))
                except InputError as error:
                    failed.append(error)
            if failed and not shown:
                raise InputError("\n".join(map(str, failed)))
            _tell(tuple(map(str, failed)))  # a set without a plan keeps none of the others from being shown
    if check:
        found = [_decision_json(one.decision) for one in checks]
        if as_json:
            say_json(found)
        for one in checks:
            if not as_json:
                say(f"{one.decision.pattern_set}: {one.decision.outcome}: {one.decision.reason}")
                if one.violation is not None:
                    say(
                        "  plan it again: "
                        + next_command("replan", stream=opened.stream.name, pattern_set=one.decision.pattern_set)
                    )
        return
    if as_json:
        say_json([one.to_json() for one in shown])
        return
    console = output_console()
    for of in shown:
        console.print(shown_headline(of), highlight=False)
        for table in (invariants_table(of, most), moved_table(of, most)):
            if table is not None:
                console.print(table)
        console.print(closest_line(of), highlight=False)


@click.command()
@configuration_options
@pattern_set_option
@click.option("--reason", help="Why, for the record.  [default: the violation that no replanning has answered yet]")
@click.option("--force", is_flag=True, help="Make the new plan current even if it is not better.")
@click.option("--dry-run", is_flag=True, help="Make and compare, and record nothing.")
@click.option("--explain", is_flag=True, help="Print the whole plan, as `cep explain` does.")
@json_option
def replan(
    config: Path,
    stream: str | None,
    pattern_set: str | None,
    reason: str | None,
    force: bool,
    dry_run: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Make a plan by fresh statistics, compare it with the current one, and make it the current one if it is better.

    Better is what costs less by the statistics of the latest day. Plan and decision are recorded with the reason; the
    next day runs on the current plan. A plan that was recorded before becomes current again, rather than a new version.
    Without `--reason` it answers the violation that the last check found (`cep status` shows it).

    A search of all patterns together goes on from the current plan; where a violation concerns some of them, only what
    is connected with these is planned again, and all others keep their plan.

    \b
    Examples:
      cep replan --dry-run
      cep replan --pattern-set market --reason 'earnings season begins'
      cep replan --force                 after a change of the planner in pipeline.yaml, even if it is not better
    """
    from cep_pipeline.cli.adaptation_view import changes_table
    from cep_pipeline.pipeline.replanning import PlanRequest
    from cep_pipeline.pipeline.replanning import replan as plan_again
    from cep_pipeline.pipeline.run import new_run_id

    opened = open_stream(config, stream, pattern_set)
    violation = None if reason else _pending(opened.tables, opened.pattern_sets[0].name)
    why = reason or ("asked for by hand" if violation is None else violation.reason)
    asked = PlanRequest(why, violation, force)
    run_id = new_run_id()
    with naming_run(run_id), ConsoleObserver(Terminal(stderr=True)) as observer, observer.step("planning"):
        done = plan_again(opened.tables, opened.stream, opened.pattern_sets[0], asked, run_id=run_id, dry_run=dry_run)
    _tell(done.notes)
    if as_json:
        say_json(_decision_json(done.decision))
        return
    version = done.current.version if done.current is not None else "none"
    recorded = "would be " if dry_run else ""
    say(f"{done.decision.pattern_set}: {recorded}{done.decision.outcome}: {done.decision.reason}")
    if done.made is not None:
        changes = changes_table(done.before, done.made)
        if explain:
            say(done.made.explain())
        elif changes is not None:
            output_console().print(changes)
    say(f"current plan: {version}")


def _pending(tables: StreamTables, pattern_set: str) -> Violation | None:
    """The violation of the current plan that waits for a replanning."""
    from cep_pipeline.pipeline.violations import pending_violation

    plan = tables.current_plan(pattern_set)
    return None if plan is None else pending_violation(tables.decisions(pattern_set), plan.version)


def _decision_json(decision: Decision) -> dict[str, Any]:
    day = decision.day.isoformat() if decision.day is not None else None
    return {**vars(decision), "decided_at": decision.decided_at.isoformat(), "day": day}


def _tell(notes: tuple[str, ...]) -> None:
    for note in notes:
        say(f"note: {complete(note)}", err=True)
