"""`cep detect --adapt`: its settings, and the summary of decisions and switches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cep_pipeline.cli.options import counted
from cep_pipeline.cli.terminal import Terminal, plain_value, table_of
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.adaptation import AdaptationReport, Check
    from cep_pipeline.pipeline.configuration import AdaptationSettings

SWITCHES_SHOWN = 20
ORDERS_SHOWN = 6
"""The most orders or trees of a plan that are shown."""


def following_settings(given: AdaptationSettings, every: str | None, *, adapt: bool) -> dict[str, Any]:
    """The settings of the loop that the options ask for; none where there is no `--adapt`.

    Options without `--adapt`, or settings that the decision function does not have, are an InputError.
    """
    from cep_pipeline.adaptation import decision_function

    asked = given.model_dump(exclude_unset=True)
    if not adapt:
        if asked or every:
            option = f"--set {next(iter(asked))}" if asked else "--every"
            raise InputError(f"{option} says how plans follow the stream: it goes with --adapt")
        return {}
    settings: dict[str, Any] = {"minimum_gain": asked.pop("minimum_gain", None)}
    if every is not None:
        of_events = re.fullmatch(r"([1-9][0-9]{0,17}) +events?", every.strip())
        settings |= {"every_events": int(of_events[1])} if of_events else {"every": every}
    if "k" in asked:
        asked["k"] = given.most_invariants
    return {**settings, "decision": decision_function(asked.pop("decision", "invariant"), **asked)}


def adaptation_document(report: AdaptationReport) -> dict[str, Any]:
    """The decisions, the switches and the seconds of a report, for `--json`."""
    return {
        "decided": report.decided,
        "checks": report.checks,
        "switches": report.switches,
        "together": report.together,
        "overhead": report.overhead,
        "seconds": {**plain_value(report.total), "estimating": report.seconds_estimating},
    }


def print_report(console: Terminal, report: AdaptationReport) -> None:
    """The decisions by pattern, the switches with their reasons, and what deciding took."""
    if report.decided:
        rows = []
        decided = set(report.decided)
        checks_of: dict[str, list[Check]] = {name: [] for name in report.seconds}
        for check in report.checks:
            checks_of[check.pattern].append(check)
        for name, checks in checks_of.items():
            replanned, deployed = sum(check.replanned for check in checks), sum(check.deployed for check in checks)
            made = (f"{len(checks):,}", f"{replanned:,}", f"{deployed:,}")
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


def _shortened(orders: str) -> str:
    """The first orders or trees of a plan of many patterns."""
    shown = orders.split("; ")
    more = len(shown) - ORDERS_SHOWN
    return orders if more <= 0 else f"{'; '.join(shown[:ORDERS_SHOWN])}; and {more:,} more"


def _print_switches(console: Terminal, report: AdaptationReport) -> None:
    rows = (
        (
            _named(switch.patterns),
            f"{datetime.fromtimestamp(switch.t0[0] / 1e6, UTC):%Y-%m-%d %H:%M:%S}",
            f"{switch.row:,}",
            _shortened(switch.orders),
            f"{switch.gain:.1%}",
            switch.reason,
        )
        for switch in report.switches[:SWITCHES_SHOWN]
    )
    columns = ("pattern", "from (UTC)", "event", "to the plan", "saves", "because")
    console.print(table_of(columns, rows, "switches", right=slice(2, 5, 2)))
    if len(report.switches) > SWITCHES_SHOWN:
        console.print(f"the first {SWITCHES_SHOWN} of {counted(len(report.switches), 'switch')}")
