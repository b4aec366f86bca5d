"""The page of `cep experiment adaptation`: findings, who is ahead, a table a part, and how it was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from benchmarks.experiments.adaptation.streams import CHANGE, FLAP
from benchmarks.experiments.cells import Row, number
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.findings import ratio_range
from benchmarks.experiments.page import Page, Picture, findings_page
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import format_seconds, times_as_fast

COMPARED = (STATIC, UNCONDITIONAL, THRESHOLD, INVARIANT)


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of the cells."""
    cases = cases_of(rows)
    tuned = tuned_cases(cases, sizes.thresholds, sizes.distances)
    days, dear, discrepancy = ([of for of in tuned if of.case.part == part] for part in (DAYS, DEAR, DISCREPANCY))
    frequency = [case for case in cases if case.part == FREQUENCY]
    timed = [case for case in cases if case.part != FREQUENCY]
    thresholds, distances = [*map(threshold_name, sizes.thresholds)], [*map(distance_name, sizes.distances)]
    by_t, by_d = ([spread(case, names) for case in timed] for names in (thresholds, distances))
    streams = dict.fromkeys(str(row["stream is"]) for row in rows if "stream is" in row)
    counted = [row for row in rows if "try_ns" in row]
    return findings_page(
        "adaptation",
        request,
        all_findings(tuned, sizes.distances),
        [_picture(cases, sizes)],
        tuned=tuned,
        ahead=_places(tuned),
        ahead_table=_ahead_table(tuned),
        of_t=_tried(timed, thresholds, by_t),
        of_d=_tried(timed, distances, by_d),
        less_with_d=sum(of_d < of_t for of_t, of_d in zip(by_t, by_d, strict=True)),
        timed=len(timed),
        parameters=_parameters(timed, [*thresholds, *distances]),
        days=days,
        streams=streams,
        day_says=_day_says,
        table=_table,
        dear=dear,
        dear_says=_dear_says(dear) if dear else {},
        discrepancy=discrepancy,
        discrepancy_says=_discrepancy_says,
        table_of_all=_table_of_all,
        flap=FLAP,
        change=CHANGE,
        frequency=frequency,
        frequency_size=FREQUENCY_SIZE,
        priced=_priced(frequency) if frequency else {},
        frequency_table=_frequency_table(frequency),
        sizes=sizes,
        is_full=sizes is FULL,
        shares=[number(row, "matches") / number(row, "events") for row in rows],
        median=median,
        tries=[number(row, "try_ns") for row in counted],
        begins=[number(row, "begin_us") / 1e3 for row in counted],
        made_counts=MADE_COUNTS,
        day_window_s=DAY_WINDOW_S,
        search_steps=SEARCH_STEPS,
        generated=any("not there" in stream for stream in streams),
        reach=REACH,
        windows_s={
            "dear": DEAR_WINDOW_S,
            "sets": SET_WINDOW_S,
            "discrepancy": DISCREPANCY_WINDOW_S,
            "frequency": FREQUENCY_WINDOW_S,
        },
    )


def _places(tuned: Sequence[Tuned]) -> str:
    """How often invariants are ahead, level and behind, beside each other decision function."""
    said = []
    for other in reversed(COMPARED[:3]):
        places = [of.ahead_of(INVARIANT, other).place for of in tuned]
        said.append(f"{other}: {', '.join(f'{place} in {places.count(place)}' for place in Place)}")
    return "; ".join(said)


def _ahead_table(tuned: Sequence[Tuned]) -> str:
    others = COMPARED[2::-1]
    lines = []
    for of in tuned:
        beside = [str(of.ahead_of(INVARIANT, other)) for other in others]
        lost = str(of.ahead_of(INVARIANT, THRESHOLD, lost_seconds)) if of.case.has_regret else ""
        lines.append([of.case.part, str(of.case), of.chosen, *beside, lost])
    beside = [f"beside {other}" for other in others]
    return markdown_table(["part", "case", "tuned elsewhere", *beside, "lost time, beside t"], lines)


def _tried(cases: Sequence[Case], names: Sequence[str], spreads: Sequence[float]) -> dict[str, object]:
    """The range of times over the values of a parameter, and what its largest value does."""
    asked = fmean(case.mean(names[-1], "alarms") / case.mean(UNCONDITIONAL, "alarms") for case in cases)
    return {
        "spreads": ratio_range(spreads),
        "middle": times_as_fast(median(spreads)),
        "largest": _largest_is_best(cases, names),
        "asked": f"{asked:.0%}",
    }


def _parameters(cases: Sequence[Case], names: Sequence[str]) -> str:
    lines = [[case.part, str(case), *(format_seconds(_all_time(case, name)) for name in names)] for case in cases]
    return markdown_table(["part", "case", *(name.replace("=", " = ") for name in names)], lines)


def _all_time(case: Case, name: str) -> float:
    """Seconds of a decision function, the mean of the repetitions."""
    return fmean(all_seconds(row, name) for row in case.rows)


def _largest_is_best(cases: Sequence[Case], names: Sequence[str]) -> int:
    """Count the cases that take least time with the last of these decision functions."""
    means = ([_all_time(case, name) for name in names] for case in cases)
    return sum(min(of) == of[-1] for of in means)


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


def _day_says(of: Tuned) -> str:
    planning = of.mean(UNCONDITIONAL, "planning") - of.mean(STATIC, "planning")
    regret = of.mean(STATIC, "regret") - of.mean(UNCONDITIONAL, "regret")
    pays = "pays" if regret > planning else "does not pay"
    saves = f"saves {format_seconds(regret)}" if regret > 0 else "saves nothing"
    asked = of.mean(INVARIANT, "alarms") / of.mean(UNCONDITIONAL, "alarms")
    return (
        f"- {of.case}: to plan anew every day takes {format_seconds(planning)} more than never, and {saves} of "
        f"detection, so it {pays}; invariants plan in {asked:.0%} of the decisions."
    )


def _dear_says(own: Sequence[Tuned]) -> dict[str, str]:
    shares = [of.mean(UNCONDITIONAL, "planning") / fmean(of.seconds(UNCONDITIONAL, all_seconds)) for of in own]
    return {
        "share": share_range(shares),
        "fewer": ratio_range(of.mean(UNCONDITIONAL, "planning") / of.mean(INVARIANT, "planning") for of in own),
        "time": ratio_range(1 / of.ahead_of(INVARIANT, UNCONDITIONAL).middle for of in own),
    }


def _discrepancy_says(of: Tuned) -> str:
    case = of.case
    t, d = (
        min(
            (name for name in case.names if name.startswith(which)),
            key=lambda name: fmean(lost_seconds(row, name) for row in case.rows),
        )
        for which in ("t=", "d=")
    )
    lead = interval_of([lost_seconds(row, t) / lost_seconds(row, d) for row in case.rows])
    return (
        f"- {case}: with the t that loses least, {t[2:]}, {lead.times} times as much is lost as with the d that "
        f"loses least, {d[2:]}: the best d is {lead.place}. That t asks for {case.mean(t, 'alarms'):.0f} plans, "
        f"that d for {case.mean(d, 'alarms'):.0f}; worse plans lose {format_seconds(case.mean(t, 'regret'))} and "
        f"{format_seconds(case.mean(d, 'regret'))}."
    )


def _priced(own: Sequence[Case]) -> dict[str, object]:
    """What a price of switches does to the times of decision functions."""
    spreads: dict[bool, list[float]] = {False: [], True: []}
    gains = []
    for case in own:
        names = [name for name in case.names if name != STATIC]
        for priced, found in spreads.items():
            found.append(spread(case, [name for name in names if name.endswith(PRICED) == priced]))
        gains += [
            interval_of([all_seconds(row, name) / all_seconds(row, f"{name}, {PRICED}") for row in case.rows])
            for name in names
            if not name.endswith(PRICED)
        ]
    return {
        "free": ratio_range(spreads[False]),
        "priced": ratio_range(spreads[True]),
        "times": ratio_range(1 / one.middle for one in gains),
        "all": len(gains),
        **{place.value: sum(one.place is place for one in gains) for place in Place},
    }


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
