"""`cep invariants`, `cep replan`: whether the current plan still fits the data, and what is done where it does not."""

from __future__ import annotations

import math
from pathlib import Path

import click
from rich.table import Table

from cep_pipeline.adaptation.invariants import describe
from cep_pipeline.cli.options import configuration_options, json_option, naming_run, pattern_set_option
from cep_pipeline.cli.sources import open_stream
from cep_pipeline.cli.statistics import figure
from cep_pipeline.cli.terminal import (
    ConsoleObserver,
    Terminal,
    next_command,
    output_console,
    say,
    say_json,
    styled,
    table_of,
    tell_notes,
)
from cep_pipeline.errors import InputError
from cep_pipeline.pipeline.plan_checks import InvariantReport
from cep_pipeline.planning.clause_plans import PatternPlan
from cep_pipeline.planning.clause_statistics import format_ln
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import written

MOST_SHOWN = 40
"""The most invariants, numbers or changed patterns that are shown: those that say most."""


@click.command()
@configuration_options
@click.option("--pattern-set", metavar="NAME", help="Only this pattern set; all of the stream if not given.")
@click.option("--check", is_flag=True, help="Record a decision for each pattern set, as the DAG invariant_check does.")
@json_option
def invariants(
    config: Path,
    stream: str | None,
    pattern_set: str | None,
    check: bool,
    as_json: bool,
) -> None:
    """Verify the current plans on fresh statistics: both sides of each invariant, then and now, and how near it is.

    A plan is the best one as long as the comparisons that built it come out as they did: those are its invariants.
    They are verified on the latest day that has events. Nothing is changed; with --check one decision a pattern set is
    recorded in the table `decisions`: replan, keep, or no new data since the last check. Of more than 40 invariants
    those are shown that are closest to their violation; --json has all of them.

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
    from cep_pipeline.pipeline.plan_checks import check_invariants, show_invariants
    from cep_pipeline.pipeline.run import new_run_id

    opened = open_stream(config, stream, pattern_set)
    run_id = new_run_id()
    with naming_run(run_id):
        if check:
            checks = check_invariants(opened.tables, opened.stream, opened.pattern_sets, run_id=run_id)
        else:
            shown, failed = [], []
            for wanted in opened.pattern_sets:
                try:
                    shown.append(show_invariants(opened.tables, opened.stream, wanted))
                except InputError as error:
                    failed.append(error)
            if failed and not shown:
                raise InputError("\n".join(map(str, failed)))
            tell_notes(map(str, failed))  # a set without a plan keeps none of the others from being shown
    if check:
        if as_json:
            say_json([one.decision for one in checks])
        for one in checks:
            decision = one.decision
            if not as_json:
                say(f"{decision.pattern_set}: {decision.outcome}: {decision.reason}")
            if one.violation is not None and not as_json:
                again = next_command("replan", stream=opened.stream.name, pattern_set=decision.pattern_set)
                say(f"  plan it again: {again}")
        return
    if as_json:
        say_json([one.to_json() for one in shown])
        return
    console = output_console()
    for of in shown:
        console.print(shown_headline(of), highlight=False)
        for table in (invariants_table(of), moved_table(of)):
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
    from cep_pipeline.pipeline.replanning import PlanRequest
    from cep_pipeline.pipeline.replanning import replan as plan_again
    from cep_pipeline.pipeline.run import new_run_id
    from cep_pipeline.pipeline.violations import pending_violation

    opened = open_stream(config, stream, pattern_set)
    name = opened.pattern_sets[0].name
    plan = None if reason else opened.tables.current_plan(name)
    violation = None if plan is None else pending_violation(opened.tables.decisions(name), plan.version)
    why = reason or ("asked for by hand" if violation is None else violation.reason)
    asked = PlanRequest(why, violation, force)
    run_id = new_run_id()
    with naming_run(run_id), ConsoleObserver(Terminal(stderr=True)) as observer, observer.step("planning"):
        done = plan_again(opened.tables, opened.stream, opened.pattern_sets[0], asked, run_id=run_id, dry_run=dry_run)
    tell_notes(done.notes)
    if as_json:
        say_json(done.decision)
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


def shown_headline(of: InvariantReport) -> str:
    """The headline of a plan: which plan, on which statistics, and the verdict of the decision function."""
    name, version = of.current.pattern_set.name, of.current.record.version
    decision = of.current.pattern_set.adaptation.decision
    says = "plan again" if of.verdict.replan and not of.answered else "keep the plan"
    answered = f"\nthis has been dealt with: {of.answered}" if of.answered else ""
    return (
        f"pattern set {name}, plan {version} (made {of.current.record.created_at:%Y-%m-%d %H:%M:%S}) on "
        f"{of.fresh.label}\n{decision}: {says}: {of.verdict.reason}{answered}"
    )


def invariants_table(of: InvariantReport) -> Table | None:
    """Invariants with both sides, when the plan was made and now; None where there are none.

    Of very many only those are shown that are closest to their violation, these first.
    """
    if not of.verifications:
        return None
    shown, title = of.verifications, None
    if len(shown) > MOST_SHOWN:
        shown, violated = of.nearest(MOST_SHOWN), sum(one.violated for one in shown)
        title = f"the {MOST_SHOWN} of {len(of.verifications):,} closest to violation, {violated:,} violated"
    patterns = of.current.pattern_set.patterns
    then_and_now = ("chosen then", "rejected then", "chosen now", "rejected now", "may still grow")
    rows = (
        (
            describe(one.invariant, patterns),
            format_ln(one.invariant.comparison.ln_chosen),
            format_ln(one.invariant.comparison.ln_rejected),
            format_ln(one.left),
            format_ln(one.right),
            grows_by(one.distance_to_violation),
            styled(("violated", "bold red")) if one.violated else "holds",
        )
        for one in shown
    )
    return table_of(("invariant", *then_and_now, "verdict"), rows, title, right=slice(1, 6))


def moved_table(of: InvariantReport) -> Table | None:
    """The numbers that are checked by a threshold, up to the one that moved too far; None where there are none.

    Those that have moved most come first, and of very many they are the only ones.
    """
    if not of.moved:
        return None
    shown = sorted(of.moved, key=lambda one: -one.relative)[:MOST_SHOWN]
    more = f"the {MOST_SHOWN} of {len(of.moved):,} numbers that have moved most"
    title = more if len(of.moved) > len(shown) else None
    rows = ((one.pattern, one.what, figure(one.before), figure(one.now), f"{one.relative:.1%}") for one in shown)
    return table_of(("pattern", "number", "then", "now", "moved by"), rows, title, right=slice(2, None))


def closest_line(of: InvariantReport) -> str:
    """The invariant that is closest to its violation, and the patterns that have none."""
    lines = [f"pattern {name} has no invariants: {why}" for name, why in of.without.items()]
    if not of.verifications:
        return "\n".join(lines) or "nothing of the plan was decided by statistics: it has no invariants"
    patterns = of.current.pattern_set.patterns
    closest = min(of.verifications, key=lambda one: one.distance_to_violation)
    state = "is violated" if closest.violated else f"may still grow by {grows_by(closest.distance_to_violation)}"
    lines.append(f"closest to violation: {describe(closest.invariant, patterns)}: it {state}")
    return "\n".join(lines)


def changes_table(before: Plan | None, made: Plan) -> Table | None:
    """The patterns that a new plan runs otherwise, with both orders or trees; None where there are none.

    Of many those that come first.
    """
    rows = []
    for plan in made.patterns:
        own = "" if before is None else _runs(before.for_pattern(plan.pattern))
        if own != _runs(plan):
            rows.append((plan.pattern, own, _runs(plan), plan.planner))
    more = f"the first {MOST_SHOWN} of {len(rows):,} patterns that run otherwise; --explain tells of the whole plan"
    columns = ("pattern", "runs now" if before is not None else "", "by the new plan", "planner")
    return table_of(columns, rows[:MOST_SHOWN], more if len(rows) > MOST_SHOWN else None) if rows else None


def _runs(plan: PatternPlan) -> str:
    return "; ".join(written(clause.order_or_tree) for clause in plan.clauses)


def grows_by(ln_distance: float) -> str:
    """The share by which the chosen side may grow beside the rejected one."""
    if ln_distance >= math.log(10):
        return "× " + format_ln(ln_distance)
    return f"{math.expm1(ln_distance):.1%}"
