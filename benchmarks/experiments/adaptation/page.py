"""The page of `cep experiment adaptation`: findings, who is ahead, a table a part, and how it was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median

from benchmarks.charts import Axis, line_chart
from benchmarks.experiments.adaptation.experiment import (
    DAY_WINDOW_S,
    DEAR_WINDOW_S,
    DISCREPANCY_WINDOW_S,
    FREQUENCY_SIZE,
    FREQUENCY_WINDOW_S,
    REACH,
    SET_WINDOW_S,
)
from benchmarks.experiments.adaptation.figures import (
    INVARIANT,
    THRESHOLD,
    Case,
    Interval,
    Place,
    Tuned,
    all_seconds,
    cases_of,
    interval_of,
    lost_seconds,
    spread,
    tuned_cases,
)
from benchmarks.experiments.adaptation.findings import all_findings, share_range
from benchmarks.experiments.adaptation.jobs import MADE_COUNTS, SEARCH_STEPS
from benchmarks.experiments.adaptation.sizes import (
    DAYS,
    DEAR,
    DISCREPANCY,
    FREQUENCY,
    FULL,
    PRICED,
    STATIC,
    UNCONDITIONAL,
    Sizes,
    distance_name,
    threshold_name,
)
from benchmarks.experiments.adaptation.streams import BARS, CHANGE, FLAP, TRAFFIC
from benchmarks.experiments.cells import Row, number
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.findings import ratio_range
from benchmarks.experiments.page import Page, Picture, findings_page, made_by
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import format_seconds, times_as_fast

COMPARED = (STATIC, UNCONDITIONAL, THRESHOLD, INVARIANT)
TITLE = "The plan follows the data: invariants and other decisions to plan again"


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of the cells."""
    cases = cases_of(rows)
    tuned = tuned_cases(cases, sizes.thresholds, sizes.distances)
    ran = (
        "A plan is the best one for the statistics that it was made from. Later, a decision function says whether to "
        "plan again: never (static), always (unconditional), when a rate or selectivity has moved by a share t "
        "(constant threshold), or when a comparison that decided the plan comes out otherwise by more than a "
        "distance d (invariants). This page compares them where a plan is dear beside detection, as it is in daily "
        "jobs."
    )
    tables = [*_ahead(tuned), *_parameters(cases, sizes), *_parts(tuned, cases)]
    return findings_page(
        TITLE,
        made_by("adaptation", request.full, request.seed),
        ran,
        all_findings(tuned, sizes.distances),
        [_picture(cases, sizes)],
        tables,
        _measured(cases, sizes),
    )


def _ahead(tuned: Sequence[Tuned]) -> Iterator[str]:
    yield "## Who is ahead"
    found = {other: [of.ahead_of(INVARIANT, other) for of in tuned] for other in COMPARED[:3]}
    said = (
        f"{other}: {', '.join(f'{place} in {sum(one.place is place for one in found[other])}' for place in Place)}"
        for other in reversed(found)
    )
    yield f"Invariants beside each other decision function, in {len(tuned)} cases. Beside {'; '.join(said)}."
    yield (
        "The seconds of the other one as a multiple of those of invariants: the geometric mean over the repetitions "
        "with its interval of 95 %. *Ahead* and *behind* mean that all of the interval is, and the mean by 1 % or "
        "more. The last column counts only what is lost beside the best plans known: deciding, planning, switching, "
        "and worse plans."
    )
    lines = []
    for of in tuned:
        lost = str(of.ahead_of(INVARIANT, THRESHOLD, lost_seconds)) if of.case.has_regret else ""
        lines.append(
            [
                of.case.part,
                str(of.case),
                of.chosen,
                *(str(of.ahead_of(INVARIANT, other)) for other in reversed(found)),
                lost,
            ]
        )
    header = [
        "part",
        "case",
        "tuned elsewhere",
        *(f"beside {other}" for other in reversed(found)),
        "lost time, beside t",
    ]
    yield markdown_table(header, lines)


def _parameters(cases: Sequence[Case], sizes: Sizes) -> Iterator[str]:
    yield "## What is tried of t and d"
    names = {"t": [*map(threshold_name, sizes.thresholds)], "d": [*map(distance_name, sizes.distances)]}
    own = [case for case in cases if case.part != FREQUENCY]
    spreads = {which: [spread(case, of) for case in own] for which, of in names.items()}
    asked = {
        which: fmean(case.mean(of[-1], "alarms") / case.mean(UNCONDITIONAL, "alarms") for case in own)
        for which, of in names.items()
    }
    less = sum(of_d < of_t for of_t, of_d in zip(spreads["t"], spreads["d"], strict=True))
    yield (
        f"A wrong parameter costs: over the values of t all time varies by {ratio_range(spreads['t'])} times, "
        f"{times_as_fast(median(spreads['t']))} in the middle; over those of d by {ratio_range(spreads['d'])} times, "
        f"{times_as_fast(median(spreads['d']))} in the middle. It varies less with d in {less} of {len(own)} cases. "
        f"The largest t that was tried is the best one in {_largest_is_best(own, names['t'])} cases, the largest d in "
        f"{_largest_is_best(own, names['d'])}; with that t {asked['t']:.0%} of the decisions ask for a plan, with "
        f"that d {asked['d']:.0%}. The table has all time in the mean of the repetitions."
    )
    lines = []
    for case in own:
        seconds = [fmean(all_seconds(row, name) for row in case.rows) for of in names.values() for name in of]
        lines.append([case.part, str(case), *map(format_seconds, seconds)])
    header = ["part", "case", *(name.replace("=", " = ") for of in names.values() for name in of)]
    yield markdown_table(header, lines)


def _largest_is_best(cases: Sequence[Case], names: Sequence[str]) -> int:
    """Count the cases that take least time with the last of these decision functions."""
    means = ([fmean(all_seconds(row, name) for row in case.rows) for name in names] for case in cases)
    return sum(min(of) == of[-1] for of in means)


def _parts(tuned: Sequence[Tuned], cases: Sequence[Case]) -> Iterator[str]:
    for part, heading, said in (
        (DAYS, "## Days", _days_say),
        (DEAR, "## Dear planners", _dear_say),
        (DISCREPANCY, "## Discrepancy", _discrepancy_say),
    ):
        own = [of for of in tuned if of.case.part == part]
        if own:
            yield heading
            yield said(own)
            yield _table(own) if part != DISCREPANCY else _table_of_all([of.case for of in own])
    own_cases = [case for case in cases if case.part == FREQUENCY]
    if own_cases:
        yield "## Frequency"
        yield _frequency_says(own_cases)
        yield _frequency_table(own_cases)


HEADER = ["alarms", "switches", "deciding", "planning", "switching", "worse plans", "all time"]


def _line(of: Tuned, name: str) -> list[str]:
    counts = (f"{of.mean(name, figure):.1f}" for figure in ("alarms", "switches"))
    seconds = (format_seconds(of.mean(name, figure)) for figure in ("deciding", "planning", "switching", "regret"))
    return [*counts, *seconds, format_seconds(fmean(of.seconds(name, all_seconds)))]


def _table(own: Sequence[Tuned]) -> str:
    lines = [[str(of.case), name, *_line(of, name)] for of in own for name in COMPARED]
    return markdown_table(["case", "decision", *HEADER], lines)


def _table_of_all(own: Sequence[Case]) -> str:
    lines = [[str(case), name, *_line(Tuned(case, (), ()), name)] for case in own for name in case.names]
    return markdown_table(["case", "decision", *HEADER], lines)


def _days_say(own: Sequence[Tuned]) -> str:
    said = [
        f"Patterns over days, with one decision a day: {', '.join(_described(own))}. t and d are those that were best "
        f"on the other of the two streams. Means of {len(own[0].case.rows)} repetitions with other patterns."
    ]
    for of in own:
        planning, regret = (
            of.mean(UNCONDITIONAL, "planning") - of.mean(STATIC, "planning"),
            of.mean(STATIC, "regret") - of.mean(UNCONDITIONAL, "regret"),
        )
        pays = "pays" if regret > planning else "does not pay"
        saves = f"saves {format_seconds(regret)}" if regret > 0 else "saves nothing"
        said.append(
            f"- {of.case}: to plan anew every day takes {format_seconds(planning)} more than never, and {saves} of "
            f"detection, so it {pays}; invariants plan in "
            f"{of.mean(INVARIANT, 'alarms') / of.mean(UNCONDITIONAL, 'alarms'):.0%} of the decisions."
        )
    return "\n".join([said[0], "", *said[1:]])


def _described(own: Sequence[Tuned]) -> list[str]:
    return list(dict.fromkeys(str(row["stream is"]) for of in own for row in of.case.rows))


def _dear_say(own: Sequence[Tuned]) -> str:
    shares = [of.mean(UNCONDITIONAL, "planning") / fmean(of.seconds(UNCONDITIONAL, all_seconds)) for of in own]
    kept = [of.ahead_of(INVARIANT, UNCONDITIONAL) for of in own]
    fewer = [of.mean(UNCONDITIONAL, "planning") / of.mean(INVARIANT, "planning") for of in own]
    return (
        "One pattern of 9 or 12 events, or a set of patterns that is planned together, over trades that drift. "
        f"Planning takes {share_range(shares)} of the time of always planning anew. Invariants plan "
        f"for {ratio_range(fewer)} times less long, and take {ratio_range(1 / one.middle for one in kept)} times its "
        "time."
    )


def _discrepancy_say(own: Sequence[Tuned]) -> str:
    said = [
        f"One pattern of five types. The type that a good order has last flaps by {FLAP:g} times every other "
        f"decision, two types are nearly tied, and one changes by {CHANGE:g} times after a third of the stream, and "
        "back after the second: that is the one change that matters."
    ]
    for of in own:
        case = of.case
        tries = [name for name in case.names if name[:2] in ("t=", "d=")]
        best = {
            which: min(
                (name for name in tries if name.startswith(which)),
                key=lambda name: fmean(lost_seconds(row, name) for row in case.rows),
            )
            for which in ("t=", "d=")
        }
        t, d = best["t="], best["d="]
        lead = interval_of([lost_seconds(row, t) / lost_seconds(row, d) for row in case.rows])
        said.append(
            f"- {case}: with the t that loses least, {t[2:]}, {lead.times} times as much is lost as with the d that "
            f"loses least, {d[2:]}: the best d is {lead.place}. That t asks for {case.mean(t, 'alarms'):.0f} plans, "
            f"that d for {case.mean(d, 'alarms'):.0f}; worse plans lose {format_seconds(case.mean(t, 'regret'))} and "
            f"{format_seconds(case.mean(d, 'regret'))}."
        )
    return "\n".join([said[0], "", *said[1:]])


def _frequency_says(own: Sequence[Case]) -> str:
    spreads: dict[bool, list[float]] = {False: [], True: []}
    gains = []
    for case in own:
        names = [name for name in case.names if name != STATIC]
        for priced, found in spreads.items():
            found.append(spread(case, [name for name in names if name.endswith(PRICED) == priced]))
        free = [name for name in names if not name.endswith(PRICED)]
        gains += [
            interval_of([all_seconds(row, name) / all_seconds(row, f"{name}, {PRICED}") for row in case.rows])
            for name in free
        ]
    ahead, level, behind = (sum(one.place is place for one in gains) for place in Place)
    return (
        f"The product's own loop over a sequence of {FREQUENCY_SIZE} events. Where a switch is free, the decision "
        f"functions differ by {ratio_range(spreads[False])} times; where a switch must pay for itself, which is the "
        f"product's default, by {ratio_range(spreads[True])} times. With the price a decision function takes "
        f"{ratio_range(1 / one.middle for one in gains)} times the time that it takes without: ahead in {ahead}, "
        f"level in {level}, behind in {behind} of {len(gains)} comparisons."
    )


def _frequency_table(own: Sequence[Case]) -> str:
    lines = []
    for case in own:
        for name in case.names:
            beside = "" if name == STATIC else str(_over_static(case, name))
            counts = (f"{case.mean(name, figure):.1f}" for figure in ("alarms", "switches"))
            seconds = (format_seconds(case.mean(name, figure)) for figure in ("deciding", "planning", "detecting"))
            tries = f"{case.mean(name, 'tries'):,.0f}"
            lines.append([str(case), name, *counts, *seconds, tries, beside])
    header = ["case", "decision", "alarms", "switches", "deciding", "planning", "detecting", "tries"]
    return markdown_table([*header, "throughput beside static"], lines)


def _over_static(case: Case, name: str) -> Interval:
    return interval_of([all_seconds(row, STATIC) / all_seconds(row, name) for row in case.rows])


def _picture(cases: Sequence[Case], sizes: Sizes) -> Picture:
    points: list[Row] = []
    for case in cases:
        if case.part == FREQUENCY:
            continue
        for distance in sizes.distances:
            over = [
                all_seconds(row, distance_name(0.0)) / all_seconds(row, distance_name(distance)) for row in case.rows
            ]
            mean = math.exp(fmean(map(math.log, over)))
            points.append({"d": distance, "throughput": mean, "case": str(case), "part": case.part})
    shows = "Throughput against the minimal distance"
    svg = line_chart(points, Axis("d", "d"), Axis("throughput", "times that of d = 0"), "case", facet="part")
    return Picture("distance", shows, "Throughput against the minimal distance d (figure 6).", svg)


def _measured(cases: Sequence[Case], sizes: Sizes) -> Iterator[str]:
    rows = [row for case in cases for row in case.rows]
    shares = [number(row, "matches") / number(row, "events") for row in rows]
    streams = [str(row["stream is"]) for row in rows if "stream is" in row]
    twin = any("not there" in stream for stream in streams)
    counted = [row for row in rows if "try_ns" in row]
    yield (
        f"- Repetitions: {sizes.repetitions} of each cell, with other draws of stream and patterns; in the traffic, of "
        "patterns alone. Intervals are Student's t over the logarithms of quotients within a repetition."
    )
    yield (
        f"- Matches: {max(shares):.2f} an event at most in any cell, {median(shares):.3f} in the middle. All plans "
        "found as many, which was checked job by job."
    )
    if counted:
        tries = sorted(number(row, "try_ns") for row in counted)
        begin = sorted(number(row, "begin_us") for row in counted)
        yield (
            "- Time of detection, but for the part *frequency*, is counted work by a measured cost. A try, an event "
            f"that is tested on a partial match, costs {tries[0]:.0f} to {tries[-1]:.0f} ns by mechanism; making a "
            f"partial match counts as {MADE_COUNTS} tries; to begin with a pattern costs {begin[0] / 1e3:.1f} to "
            f"{begin[-1] / 1e3:.1f} ms. Deciding and planning are timed by the processor's clock. A plan that several "
            "decision functions come to is made once and run once, and its times count for each of them."
        )
    yield (
        "- Alarms are decisions to plan again, of all patterns or sets that have a plan of their own. *Worse plans* "
        "is the time of detection lost beside the best plans known for each job: those that any decision function "
        "had there, and those that were planned from the job itself. *Switching* is the time of beginning anew with "
        "a pattern; days begin anew in any case."
    )
    yield (
        f"- Days: patterns of 3 to 5 events in a window of {DAY_WINDOW_S[TRAFFIC]} s ({TRAFFIC}) and "
        f"{DAY_WINDOW_S[BARS]} s ({BARS}), 60 % sequences, the others conjunctions; each event is above the one "
        "before by as much as makes the condition's selectivity 0.01 to 0.1. Statistics are those of the day before. "
        f"The first day gives the first plan. Shared plans are searched for {SEARCH_STEPS:,} steps. "
        + ("The month of real traffic was not there, so its days are generated. " if twin else "")
        + "The real bars that come with the papers are of one day, so bars are generated."
    )
    yield (
        f"- Other jobs are stretches of one stream; statistics of dear planners reach back {REACH} of them. A match "
        f"lies within one job. Windows are {DEAR_WINDOW_S} s (dear planners; sets {SET_WINDOW_S} s), "
        f"{DISCREPANCY_WINDOW_S} s (discrepancy) and {FREQUENCY_WINDOW_S} s (frequency)."
    )
    yield (
        "- Planners: `dp_left_deep` and `greedy` plan for `lazy_chain_nfa`, `dp_bushy` and `zstream` for "
        "`evaluation_tree` by the cost of instances, `simulated_annealing` for `multitree`. Invariants are those "
        "that a planner's record says (K), violated where f1 > (1 + d) f2. A new plan is used where it costs less on "
        "the latest statistics."
    )
    if sizes is not FULL:
        yield (
            "- More of it: `cep experiment adaptation --full` also plans 300 patterns over a week and 1,000 over four "
            "days, and sets of up to 300 patterns over trades. It takes an hour or more."
        )
