"""`cep plan`, `cep explain`: what detection is planned by, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cep_pipeline.cli.options import (
    PATH,
    Day,
    configuration_options,
    json_option,
    one_of_two,
    pattern_file_options,
    pattern_set_option,
    planner_of,
    planner_options,
    read_settings,
    writing,
)
from cep_pipeline.cli.sources import (
    Asked,
    OpenedStream,
    read_plan,
)
from cep_pipeline.cli.terminal import (
    Terminal,
    complete,
    format_seconds,
    next_command,
    output_console,
    plain_value,
    say,
    say_json,
    table_of,
)
from cep_pipeline.errors import InputError
from cep_pipeline.foreign_text import listed
from cep_pipeline.planning.costs import COSTS
from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNER_NAMES, planners_text

if TYPE_CHECKING:
    from cep_pipeline.detection.mechanisms import Metrics
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.pipeline.configuration import PatternSet
    from cep_pipeline.planning import Plan
    from cep_pipeline.statistics import StatisticsSnapshot
    from cep_pipeline.warehouse.records import PlanRecord

CHOSEN = "▶"


@click.command()
@configuration_options
@pattern_file_options(required=False)
@pattern_set_option
@click.option("--day", type=Day(), help="Published day; the latest with statistics if not given.")
@planner_options
@click.option("--mechanism", metavar="NAME", help="Plan for this mechanism.  [default: the fastest for each pattern]")
@click.option("--out", type=PATH, help="Write the plan to this JSON file, for `cep detect --plan`.")
@click.option("--compare", is_flag=True, help="Show all planners side by side instead.")
@json_option
def plan(
    planner: str | None,
    settings: tuple[str, ...],
    mechanism: str | None,
    out: Path | None,
    compare: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a plan by the statistics of files or of a published day, and print it; the current plan stays as it is.

    Of a published day without --planner it is planned as the pattern set is configured.

    With --compare a table for each pattern shows what every planner makes of it: the order or tree, its expected cost,
    and how long planning took. The plan that would be made without --compare is marked. `cep explain --analyze` shows
    how a plan does over events.

    {planners}

    \b
    Examples:
      cep plan --patterns patterns/us_equity_trades.sase --schema streams/us_equity_trades.yaml \\
               --events 2013-10-07/trades.csv.gz --planner greedy --out plan.json
      cep plan --stream us_equity_trades --planner simulated_annealing --set sharing=subexpression --set time_limit_s=5
      cep plan --compare --stream us_equity_trades --day 2013-10-07 --mechanism evaluation_tree
    """
    from cep_pipeline.detection import MECHANISMS
    from cep_pipeline.detection.mechanisms import choose_mechanisms
    from cep_pipeline.detection.planned import plan_for
    from cep_pipeline.questions.explained_mechanisms import explained_choice

    planning, _ = read_settings(settings, planner)  # wrong ones are told before anything is read
    one_of_two({"--out": out}, {"--compare": compare})
    if compare and planner in MULTI_PATTERN_PLANNER_NAMES:
        raise InputError(f"--compare shows planners of single patterns; {planner} plans all patterns together")
    asked = Asked(**options)
    opened = None if asked.over_files else asked.open()
    own = None if opened is None or planner is not None or compare else opened.pattern_sets[0]
    by, cost, alpha, search = planner_of(planning, own)
    patterns, snapshot = _of_files(asked) if opened is None else _of_day(opened, asked.day)
    mechanism = mechanism or (None if own is None else own.mechanism)
    chosen = choose_mechanisms(patterns, mechanism)
    if compare:
        _show_comparisons(patterns, snapshot, chosen, by, cost, alpha, as_json)
        return
    with Terminal(stderr=True).status("planning"):
        made = plan_for(patterns, snapshot, chosen, by, cost, alpha, **search)
    if as_json:
        say_json({"plan": made.to_json(), "mechanisms": chosen})
    else:
        reasons = explained_choice(patterns, mechanism)
        say(complete(made.explain(reasons)))
    for pattern in patterns:
        made_by = made.for_pattern(pattern.name).planner
        if planner not in (None, made_by):
            what = "only the pattern's order" if made_by == "trivial" else "orders only"
            say(
                f"note: pattern {pattern.name!r} is planned by {made_by}, not by {planner}: {chosen[pattern.name]} "
                f"runs {what}",
                err=True,
            )
        describe = MECHANISMS[chosen[pattern.name]].describe
        if describe is not None and not as_json:
            say(f"pattern {pattern.name}:\n{describe(pattern)}")
    if out is not None:
        with writing(out):
            out.write_text(json.dumps(made.to_json(), indent=1) + "\n", encoding="utf-8")
        say(f"written to {out}", err=True)


plan.help = cleandoc(str(plan.help)).replace(
    "{planners}", f"\b\nPlanners\n{planners_text()}\n\nCost models: {', '.join(COSTS)}."
)


def _of_files(asked: Asked) -> tuple[tuple[Pattern, ...], StatisticsSnapshot]:
    """The patterns over files, and their statistics of these files."""
    from cep_pipeline.questions.composed_statistics import estimate_statistics

    _, parsed, loaded = asked.read()
    return parsed, estimate_statistics(parsed, loaded.events)


def _of_day(opened: OpenedStream, day: date | None) -> tuple[tuple[Pattern, ...], StatisticsSnapshot]:
    """The patterns of a set, and their statistics of a day, the latest that has some if none is given."""
    from cep_pipeline.pipeline.statistics import no_statistics_of
    from cep_pipeline.statistics import StatisticsSnapshot

    pattern_set = opened.pattern_sets[0]
    days = [record.day for record in opened.tables.days() if day in (None, record.day)]
    for one in reversed(days):
        content = opened.tables.read_statistics(pattern_set.name, one)
        if content is not None:
            return pattern_set.patterns, StatisticsSnapshot.from_json(content, f"statistics of {one}")
    raise no_statistics_of(opened.stream, pattern_set, f"of {day}" if day else "of any day")


@click.command()
@configuration_options
@pattern_file_options(required=False)
@pattern_set_option
@click.option("--version", type=click.IntRange(min=1), help="A recorded version; the current one if not given.")
@click.option("--plan", "plan_file", type=PATH, help="A plan file, in place of a recorded plan.")
@click.option("--analyze", is_flag=True, help="Detect in --events by the plan, and print beside it what happened.")
@click.option("--mechanism", metavar="NAME", help="What detects.  [default: the fastest that runs each pattern]")
@click.option(
    "--pattern", "only", multiple=True, metavar="NAME", help="Only this pattern, in full; as often as wanted."
)
@json_option
def explain(
    version: int | None,
    plan_file: Path | None,
    analyze: bool,
    mechanism: str | None,
    only: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Print a plan: its order or tree, expected partial matches, rates and selectivities a node, cost, and why it won.

    With --analyze it runs over events, and what was estimated wrongly by more than 10 times is marked. Of more than 20
    patterns it is printed what they do together, and a list of them; --pattern shows one of them, and --json has all.
    `cep help glossary` says what a leaf, a selectivity and an invariant are.

    \b
    Examples:
      cep explain                                       the current plan of the first stream
      cep explain --stream us_equity_trades --version 1
      cep explain --plan plan.json
      cep explain --pattern leaders --pattern laggards  two patterns of many
      cep explain --analyze --patterns patterns/us_equity_trades.sase --schema streams/us_equity_trades.yaml \\
                  --events 2013-10-07/trades.csv.gz     of a plan by the statistics of these events, or --plan
    """
    asked = Asked(**options)
    if analyze:
        if not asked.over_files:
            raise InputError("--analyze runs over files: it needs --patterns, --schema and --events")
        made, metrics, number = _analyzed(asked, plan_file, mechanism)
        if as_json:
            say_json({"plan": _some_of(made, only), "events": number, "detection": _counts(metrics, only)})
        else:
            from cep_pipeline.planning.plans import explain_analyzed

            say(complete(explain_analyzed(made, metrics, number, only or None)))
    elif asked.over_files or mechanism:
        raise InputError("--patterns, --schema, --events and --mechanism are for --analyze; `cep plan` makes a plan")
    elif plan_file is not None:
        given = read_plan(plan_file)
        if as_json:
            say_json({"plan": _some_of(given, only)})
        else:
            say(complete(given.explain(patterns=only or None)))
    else:
        _explain_recorded(asked, version, only, as_json)


def _some_of(made: Plan, only: tuple[str, ...]) -> dict[str, Any]:
    """A plan for `--json`, all of it or some of its patterns."""
    wanted = {made.for_pattern(name).pattern for name in only}
    content = made.to_json()
    return {**content, "patterns": [one for one in content["patterns"] if not wanted or one["pattern"] in wanted]}


def _counts(metrics: Metrics, only: tuple[str, ...]) -> dict[str, Any]:
    """The counts of detection for `--json`: in all, and at each node of some patterns or all."""
    from cep_pipeline.statistics.terms import format_conjunct

    nodes = []
    for node in metrics.nodes:
        if not only or node.pattern in only:
            tested = None if node.tested is None else list(map(format_conjunct, node.tested))
            nodes.append({**plain_value(replace(node, tested=None)), "tested": tested})
    routes = {name: list(map(str, taken)) for name, taken in metrics.routes.items() if not only or name in only}
    return {**plain_value(replace(metrics, nodes=(), routes={})), "nodes": nodes, "routes": routes}


def _analyzed(asked: Asked, plan_file: Path | None, mechanism: str | None) -> tuple[Plan, Metrics, int]:
    """A plan, what was counted when it ran over events, and the number of these events."""
    from cep_pipeline.detection.detect import detect
    from cep_pipeline.detection.mechanisms import choose_mechanisms
    from cep_pipeline.detection.output_policy import has_output_policy
    from cep_pipeline.detection.planned import plan_for
    from cep_pipeline.planning.plans import validate
    from cep_pipeline.questions.composed_statistics import estimate_statistics

    _, parsed, loaded = asked.read()
    chosen = choose_mechanisms(parsed, mechanism)
    made = read_plan(plan_file) if plan_file else plan_for(parsed, estimate_statistics(parsed, loaded.events), chosen)
    validate(made, parsed)
    with Terminal(stderr=True).status("detecting"):
        chosen_among = any(has_output_policy(one) and not one.output.is_preferred for one in parsed)
        output = "verbose" if chosen_among or any(one.composes for one in parsed) else "count"
        _, metrics = detect(parsed, loaded.events, plan=made, mechanism=mechanism, output=output, metrics=True)
    return made, metrics, loaded.events.num_rows


def _explain_recorded(asked: Asked, version: int | None, only: tuple[str, ...], as_json: bool) -> None:
    """Print a recorded plan of a pattern set, the current one if no version is given."""
    from cep_pipeline.planning import Plan

    opened = asked.open()
    pattern_set, name = opened.pattern_sets[0], opened.stream.name
    recorded, current = opened.tables.plans(pattern_set.name), opened.tables.current_plan(pattern_set.name)
    record = current if version is None else next((one for one in recorded if one.version == version), None)
    if record is None:
        of = f"pattern set {pattern_set.name!r} of stream {name!r}"
        if version is None:
            raise InputError(f"{of} has no plan yet; `{next_command('run', stream=name)}` makes one")
        known = listed([one.version for one in reversed(recorded)]) or "none"
        raise InputError(f"{of} has no plan {version}; it has: {known}")
    is_current = current is not None and current.version == record.version
    if as_json:
        plan = Plan.from_json(record.plan, f"plan {record.version} of {pattern_set.name}")
        made = {"version": record.version, "current": is_current, "created_at": record.created_at}
        made |= {"plan": _some_of(plan, only)}
        shown = {"stream": name, "pattern_set": pattern_set.name, "run": record.run_id, "reason": record.reason}
        say_json({**shown, **made})
        return
    text = _in_full(pattern_set, record, only) if only else record.explain
    say(
        f"version {record.version}{' (current)' if is_current else ''} of pattern set {pattern_set.name}, "
        f"made {record.created_at:%Y-%m-%d %H:%M:%S} by run {record.run_id}\nbecause: {record.reason}\n"
    )
    say(complete(text))


def _in_full(pattern_set: PatternSet, record: PlanRecord, only: tuple[str, ...]) -> str:
    """Some patterns of a recorded plan, and what runs them as long as they are the configured ones."""
    from cep_pipeline.planning import Plan
    from cep_pipeline.questions.explained_mechanisms import explained_choice

    plan = Plan.from_json(record.plan, f"plan {record.version} of {pattern_set.name}")
    if record.pattern_set_version != pattern_set.version:
        return plan.explain(patterns=only)
    patterns, mechanism = pattern_set.patterns, pattern_set.mechanism
    return plan.explain(explained_choice(patterns, mechanism), only)


def _show_comparisons(
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    mechanisms: Mapping[str, str],
    planner: str,
    cost: str | None,
    alpha: float,
    as_json: bool,
) -> None:
    """Let all planners plan each pattern, and print tables or JSON of what they make."""
    from cep_pipeline.detection import MECHANISMS
    from cep_pipeline.detection.planned import plan_for, plan_refusal
    from cep_pipeline.planning.clause_statistics import format_ln
    from cep_pipeline.planning.costs import cost_named
    from cep_pipeline.planning.make_plan import compare_planners
    from cep_pipeline.planning.planned_clauses import default_cost

    documents = []
    for pattern in patterns:
        mechanism = mechanisms[pattern.name]
        model = cost_named(cost or default_cost(pattern, on_kernel=MECHANISMS[mechanism].is_columnar))
        chosen = plan_for([pattern], snapshot, {pattern.name: mechanism}, planner, cost, alpha).patterns[0].planner
        planned = compare_planners(pattern, snapshot, None, model.name, alpha)
        refused = {one.planner: plan_refusal(mechanism, pattern, one.orders) for one in planned}
        if as_json:
            found = [{**plain_value(one), "plan": one.text, "not_run": refused[one.planner]} for one in planned]
            document = {"pattern": pattern.name, "mechanism": mechanism, "chosen": chosen, "planners": found}
            documents.append({**document, "cost_model": model.name, "unit": model.unit})
            continue
        rows = []
        for one in planned:
            said = refused[one.planner] or "; ".join(one.notes)
            name = f"{CHOSEN if one.planner == chosen else ' '} {one.planner}"
            rows.append((name, one.text, format_ln(one.ln_cost), format_seconds(one.seconds), said))
        title = f"pattern {pattern.name} on {mechanism}, costs by {model.name} ({model.unit})"
        columns = ("planner", "order or tree", "cost", "planning", "")
        caption = f"{CHOSEN} is what the pattern is planned by"
        output_console().print(table_of(columns, rows, title, right=slice(2, 4), caption=caption))
        if model.name == "throughput" and any(one.text.startswith("(") for one in planned):
            say("The cost of a tree counts what its leaves hold too, that of an order does not (JQPG 4.1, 4.2).")
    if as_json:
        say_json(documents)
