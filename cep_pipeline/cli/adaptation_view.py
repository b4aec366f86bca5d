"""The output of `cep invariants`: the invariants of a plan as a table, and the one that is closest to its violation."""

from __future__ import annotations

import math

from rich.table import Table

from cep_pipeline.adaptation.invariants import describe
from cep_pipeline.cli.statistics import figure
from cep_pipeline.cli.terminal import styled, table_of
from cep_pipeline.pipeline.invariant_report import InvariantReport
from cep_pipeline.planning.clause_plans import PatternPlan
from cep_pipeline.planning.numbers.logarithms import format_ln
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import written

MOST_SHOWN = 40
"""The most invariants, numbers or changed patterns that are shown: those that say most."""


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


def invariants_table(of: InvariantReport, most: int | None = MOST_SHOWN) -> Table | None:
    """Invariants with both sides, when the plan was made and now; None where there are none.

    Of more than `most` only those are shown that are closest to their violation, these first.
    """
    if not of.verifications:
        return None
    shown, title = list(of.verifications), None
    if most is not None and len(shown) > most:
        shown = sorted(shown, key=lambda one: one.distance_to_violation)[:most]
        violated = sum(one.violated for one in of.verifications)
        title = (
            f"the {most} of {len(of.verifications):,} invariants that are closest to violation, {violated:,} violated"
        )
    patterns = of.current.pattern_set.patterns
    then_and_now = ("chosen then", "rejected then", "chosen now", "rejected now", "may still grow")
    rows = (
        (
            describe(one.invariant, patterns),
            format_ln(one.invariant.comparison.ln_chosen),
            format_ln(one.invariant.comparison.ln_rejected),
            format_ln(one.left),
            format_ln(one.right),
            _share(one.distance_to_violation),
            styled(("violated", "bold red")) if one.violated else "holds",
        )
        for one in shown
    )
    return table_of(("invariant", *then_and_now, "verdict"), rows, title, right=slice(1, 6))


def moved_table(of: InvariantReport, most: int | None = MOST_SHOWN) -> Table | None:
    """The numbers that are checked by a threshold, up to the one that moved too far; None where there are none.

    Of more than `most` only those are shown that have moved most, these first.
    """
    if not of.moved:
        return None
    shown, title = list(of.moved), None
    if most is not None and len(shown) > most:
        shown = sorted(shown, key=lambda one: -one.relative)[:most]
        title = f"the {most} of {len(of.moved):,} numbers that have moved most"
    rows = ((one.pattern, one.what, figure(one.before), figure(one.now), f"{one.relative:.1%}") for one in shown)
    return table_of(("pattern", "number", "then", "now", "moved by"), rows, title, right=slice(2, None))


def closest_line(of: InvariantReport) -> str:
    """The invariant that is closest to its violation, and the patterns that have none."""
    lines = [f"pattern {name} has no invariants: {why}" for name, why in of.without.items()]
    if not of.verifications:
        return "\n".join(lines) or "nothing of the plan was decided by statistics: it has no invariants"
    patterns = of.current.pattern_set.patterns
    closest = min(of.verifications, key=lambda one: one.distance_to_violation)
    state = "is violated" if closest.violated else f"may still grow by {_share(closest.distance_to_violation)}"
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


def _share(ln_distance: float) -> str:
    """The share by which the chosen side may grow beside the rejected one."""
    if ln_distance >= math.log(10):
        return "× " + format_ln(ln_distance)
    return f"{math.expm1(ln_distance):.1%}"
