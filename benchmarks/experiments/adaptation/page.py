"""The page of `cep experiment adaptation`: findings, pictures, reasons, tables, and how it was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments.adaptation import tables
from benchmarks.experiments.adaptation.figures import (
    INVARIANT,
    THRESHOLD,
    best_of,
    by_decision,
    compared_rows,
    noise_of,
    number,
    of_part,
    rows_of,
)
from benchmarks.experiments.adaptation.findings import all_findings
from benchmarks.experiments.adaptation.patterns import (
    INTERVALS_A_WINDOW,
    LISTS_OF_TREES_S,
    MADE_COUNTS,
    MOST_BYTES,
    MOST_OF_FIRST,
    OF_SELECTIVITIES,
    PAIRS_A_CHECK,
    SEQUENCE,
    WORK_A_MATCH,
)
from benchmarks.experiments.adaptation.prediction import REACHES
from benchmarks.experiments.adaptation.sizes import (
    CHANGES,
    COMPARISON,
    FREQUENCY,
    OF_THE_PATENT,
    SAME,
    STATIC,
    UNCONDITIONAL,
    Sizes,
    distance_name,
)
from benchmarks.experiments.adaptation.streams import ALIKE, LONGEST_S, REPORTS, SKEWED, STOCKS, TRAFFIC
from benchmarks.experiments.cells import Row
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.page import Page, Picture, findings_page, made_by
from cep_pipeline.match_chart import PALETTE

STYLES = {
    STATIC: Style("#79818c", True),
    UNCONDITIONAL: Style(PALETTE[0]),
    THRESHOLD: Style(PALETTE[3]),
    INVARIANT: Style(PALETTE[2]),
}


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request, descriptions: Mapping[str, str]) -> Page:
    """The page of finished cells; that all decision functions found the same was checked in each of them."""
    often = by_decision(of_part(rows, FREQUENCY))
    rows = [row for row in rows if row["part"] != FREQUENCY]
    apart = by_decision(rows)
    best = {
        (stream, contender.name): best_of(apart, stream, contender, sizes) for stream, contender in tables.cases(apart)
    }
    compared, changes = (compared_rows(of_part(apart, part), best) for part in (COMPARISON, CHANGES))
    tried, of_patent = (_of_the_patent(of) for of in (of_part(apart), compared))
    findings = all_findings(apart, best, sizes)
    sections = {
        "Who is ahead": (
            "The quotient of two figures for each pattern. A pattern counts as ahead or behind where the quotient is "
            "further from 1 than the noise of the clock, or than 2 % by tries. A try is an event that is tested on a "
            "partial match. The two mechanisms of the patent alone.",
            tables.leads_table(of_patent, tried, sizes),
        ),
        "What there is to gain": (
            "Times fewer tries than by the static plan. The plans in hindsight are chosen by the events that they then "
            "run over, switches paid for; nobody has them beforehand. They cost least by the cost model, which may be "
            "wrong, so some of them save less than others that were tried.",
            tables.room_table(of_patent, tried),
        ),
        "Decision functions that come to the same plans": (
            "Patterns in which a decision function made exactly as many tries as planning anew at every decision.",
            tables.alike_table(tried, sizes),
        ),
        "Replannings": (
            "Sums over the patterns of the two mechanisms of the patent.",
            tables.replannings_table(of_patent),
        ),
        "What deciding and planning cost": (
            "A check and a plan by invariants, with cold caches; and shares of the time of a run. Keeping statistics, "
            f"{PAIRS_A_CHECK:,} pairs of events tested a condition between two decisions, is not part of any other "
            "figure on this page: all decision functions but the static plan need it alike.",
            tables.costs_table(compared),
        ),
        "Gains of the planners": (
            "Quotients in the geometric mean over all patterns of both streams.",
            tables.planners_table(compared),
        ),
        "What new plans promise": (
            "Planning anew at every decision, as a multiple of the first plan: times less cost on the statistics that "
            "a plan was chosen by, times less on those of the events that it then ran over, and times fewer tries that "
            "were measured. Then the price of a switch, as a share of a window's work, and the time of a try. Gains of "
            "throughput are not those of tries alone: where plans are switched, detection runs over shorter pieces, "
            "each of which reads one window more.",
            tables.promises_table(compared),
        ),
        "Throughput against the distance (figure 6)": (
            "As a multiple of the throughput of d = 0, in the geometric mean over the sequences.",
            tables.distance_table(of_part(apart), sizes),
        ),
        "Where the distance comes from": (
            "First the gains over the static plan, in the geometric mean over the sequences: by the t and d that "
            "gained most, by two rules that choose d without trying, and by the other K at d = 0. Then the average "
            "relative difference by itself: that of the first plan's tightest comparisons, and that of all of them.",
            tables.rules_table(apart, best),
            tables.average_table(of_part(apart), best, sizes),
        ),
        "Pattern by pattern (figures 7 and 8)": (
            "Gain over the static plan, plans put in use, and times fewer tries than the static plan: planning always, "
            "by the best t, by the best d; and the tries saved by the plans that are best in hindsight.",
            tables.cells_table(compared),
        ),
        "Rates permuted every so many events": (
            f"A sequence of {sizes.phase_size} events over generated trades. Which stock has which rate is drawn anew "
            "after every so many events. Columns as above.",
            tables.cells_table(changes),
        ),
        "How often it is decided": (
            f"A sequence and a conjunction of {sizes.frequency_size} events over the stocks, in windows as above. Only "
            "the number of decisions while a window passes is changed; statistics reach back over one window. Gains "
            "over the static plan, with the best t and d of each pattern. The more often it is decided, the more often "
            "plans follow noise, and the more of them are at work at a time.",
            tables.frequency_table(often, sizes),
        ),
        "What statistics say of the events that follow": (
            "The factor by which the mean of the last intervals misses a rate or selectivity of the events that a plan "
            "then runs over, in the geometric mean.",
            tables.errors_table(rows),
        ),
        "Windows": (
            "Windows are chosen so that all patterns are about as much work (see below).",
            tables.windows_table(rows),
        ),
    }
    return findings_page(
        "The plan follows the data: invariants and other decisions to plan again",
        made_by("adaptation", request.full, request.seed),
        _WHAT,
        findings,
        _pictures(apart, compared, sizes),
        [part for heading, texts in sections.items() for part in (f"## {heading}", *texts)],
        (_how(rows, tried, sizes, request, descriptions),),
    )


_WHAT = """\
A plan is the best one for the statistics that it was made from. After every interval a decision function says whether \
to plan again: never (static), always (unconditional), when a rate or selectivity has moved by a share t (constant \
threshold), or when a comparison that decided the plan comes out otherwise by more than a distance d (invariants). The \
four ran over generated stocks that drift and over road traffic, with equal budgets to find t and d. The findings are \
those of the two mechanisms of the patent; `fused` stands beside them in the tables."""

_HOW = """\
- Throughput is events a second of detecting, deciding and planning, by the processor's time.
- Noise: {noise}
- Same matches: all decision functions found as many matches, which was checked run by run.
- Decisions and detection are timed apart. What is decided does not depend on what is found. So decisions are timed \
with caches swept in between, as detection would sweep them. Detection is timed once for all decision functions that \
switched to the same plans at the same events.
- Planners: `greedy` plans for `lazy_chain_nfa` by the throughput cost, `zstream` for `evaluation_tree` by the cost of \
instances, `dp_left_deep` for `fused`. A new plan is used where it costs less on the latest statistics (the patent's \
algorithm 1). Partial matches of the old plan go on by it for a window.
- Invariants: the tightest comparison of each block for greedy (K = 1), all comparisons for dynamic programming, where \
the patent advises against K = 1. An invariant f1 < f2 is violated if f1 > (1 + d) f2. The patent prints the factor on \
the other side, (1 + d) f1 < f2; that would make invariants stricter as d grows, against its own text.
- Tried: t of {thresholds}; d of {distances}. The t and d that gained most over the sequences of a stream and planner \
are compared.
- Stocks: {stocks}. Rates and means of the numbers move by little, and often.
- Traffic: {traffic}. A look at a road that finds vehicles is an event. Its type is the class of the road, by how \
often vehicles are found there. Rates of classes differ by ten times by day and by hundreds by night, and change in \
the morning and in the evening. The first plan is one of the night. Single roads, the patent's types, report twelve \
times an hour at most, which is too little work to measure.
- Patterns: sequences, sequences with a negated event, conjunctions, sequences with an event under KL (traffic: by \
greedy alone), and disjunctions of three sequences. Types are drawn with seed {seed}. A number of each event has to be \
above that of the one before by as much as makes the selectivity {alike} in the stocks and one between {skewed} in the \
traffic, for {of_size} events and more. Shorter patterns are stricter, so that all conditions together select as much. \
Conjunctions have half of it.
- Decisions: {fraction} while a window passes, and {checks} in all. Reports of roads come every 300 s, so there are \
{reports} of them between two decisions at least. The patent decides in every iteration of its loop. With two \
decisions a window hardly more than one old plan would be at work; with eight the windows would be as long as the \
morning's change itself.
- Windows are the longest under which plans of the time make no more than {work:,.0f} tries between two decisions in \
the mean. Making a partial match counts as {made} tries, a match as {of_matches}. The first plan may make {of_first} \
times as many. Windows are {longest_stocks:,} s at most in stocks, {longest_traffic:,} s in the traffic, {lists} s \
where a tree holds lists. They are shorter where a plan holds more than {most_held:,} MiB ({shortened}).
- Statistics are the means of the last {reaches} intervals. For each pattern the number is taken that misses the \
events a plan then runs over by least: those of the next interval and the window behind it. It is the same for all \
decision functions.
- More of it: `cep experiment adaptation --full` measures patterns of 3 to 8 events in all sets and eleven values of t \
and d. It takes hours."""


def _how(
    rows: Sequence[Row], tried: Sequence[Row], sizes: Sizes, request: Request, descriptions: Mapping[str, str]
) -> str:
    shortened = sum(number(row, "shortened") > 0 for row in rows)
    return _HOW.format(
        noise=_noise_text(noise_of(tried, sizes), sizes),
        stocks=descriptions[STOCKS],
        traffic=descriptions[TRAFFIC],
        checks=", ".join(f"{checks:,} in {stream}" for stream, checks in sizes.checks.items()),
        fraction=INTERVALS_A_WINDOW,
        reports=REPORTS,
        reaches=_listed(REACHES, "or"),
        of_size=OF_SELECTIVITIES,
        of_first=MOST_OF_FIRST,
        longest_stocks=LONGEST_S[STOCKS],
        longest_traffic=LONGEST_S[TRAFFIC],
        lists=LISTS_OF_TREES_S,
        most_held=MOST_BYTES >> 20,
        thresholds=_listed(sizes.thresholds),
        distances=_listed(sizes.distances),
        work=sizes.work,
        made=MADE_COUNTS,
        of_matches=WORK_A_MATCH,
        alike=f"{ALIKE[0]:g}",
        skewed=_listed(SKEWED),
        seed=request.seed,
        shortened=f"{shortened} of {len(rows)}",
    )


def _noise_text(noise: float, sizes: Sizes) -> str:
    if math.isinf(noise):
        return "each run was timed once, so nothing is known of it, and no finding about times has a verdict."
    return (
        f"each run was timed until two times were within {SAME:.0%} of each other, {sizes.repetitions} times at most, "
        f"and the least time counts. The two least times of a run differ by a factor of {noise:.3f} in the middle. A "
        "quotient of times that is within this factor of its bound decides nothing. Numbers of tries and of "
        "replannings are the same in each run of the command, and have no noise."
    )


def _of_the_patent(rows: Iterable[Row]) -> list[Row]:
    """The rows of the two mechanisms of the patent."""
    names = {contender.name for contender in OF_THE_PATENT}
    return [row for row in rows if row["contender"] in names]


def _listed(values: Iterable[float], last: str = "and") -> str:
    texts = [f"{value:g}" for value in values]
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def _pictures(rows: Sequence[Row], compared: Sequence[Row], sizes: Sizes) -> list[Picture]:
    tried = {distance_name(distance): distance for distance in sizes.distances}
    by_distance = [
        {**row, "d": tried[str(row["decision"])], "events of the pattern": f"{row['size']} events", "case": _case(row)}
        for row in rows_of(of_part(rows), set=SEQUENCE)
        if row["decision"] in tried
    ]
    gains = [{**row, "case": _case(row)} for row in rows_of(compared, set=SEQUENCE)]
    return [
        Picture(
            "distance",
            "Throughput against the minimal distance",
            "Throughput against the minimal distance d, for sequences (figure 6).",
            line_chart(
                by_distance,
                Axis("d", "d"),
                Axis("throughput", "events a second", log=True),
                "events of the pattern",
                facet="case",
                width=200,
                height=180,
            ),
        ),
        Picture(
            "gain",
            "Gain over the static plan against the number of events of the sequence",
            "Gain over the static plan against the length of the sequence (figures 7 and 8).",
            line_chart(
                gains,
                Axis("size", "events of the sequence"),
                Axis("gain", "times the static plan's throughput", log=True),
                "decision",
                styles=STYLES,
                facet="case",
                width=200,
                height=180,
            ),
        ),
    ]


def _case(row: Row) -> str:
    return f"{row['stream']}, {row['contender']}"
