"""The page of `cep experiment adaptation`: tables and charts of the cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments.adaptation.figures import (
    COMPARED,
    INVARIANT,
    THRESHOLD,
    Best,
    best_of,
    by_decision,
    chosen_by,
    compared_rows,
    mean_gain,
    number,
    of_part,
    rows_of,
)
from benchmarks.experiments.adaptation.findings import all_findings
from benchmarks.experiments.adaptation.frequency import frequency_table, frequency_text
from benchmarks.experiments.adaptation.patterns import (
    INTERVALS_A_WINDOW,
    LISTS_OF_TREES_S,
    MADE_COUNTS,
    MOST_BYTES,
    MOST_OF_FIRST,
    OF_SELECTIVITIES,
    SEQUENCE,
    SETS,
    WORK_A_MATCH,
)
from benchmarks.experiments.adaptation.prediction import REACHES
from benchmarks.experiments.adaptation.prediction_tables import errors_table, predictions_table, predictions_text
from benchmarks.experiments.adaptation.reasons import estimating_text, per_try_text, reasons_text
from benchmarks.experiments.adaptation.sizes import (
    AVERAGE,
    CHANGES,
    COMPARISON,
    CONTENDERS,
    FREQUENCY,
    META,
    OF_THE_PATENT,
    OTHER_K,
    STATIC,
    UNCONDITIONAL,
    Contender,
    Sizes,
    distance_name,
    threshold_name,
)
from benchmarks.experiments.adaptation.streams import ALIKE, LONGEST_S, PERMUTED, REPORTS, SKEWED, STOCKS, TRAFFIC
from benchmarks.experiments.cells import Row
from benchmarks.experiments.experiment import Request
from benchmarks.experiments.findings import findings_text
from benchmarks.experiments.page import Page
from benchmarks.report import machine, markdown_table
from cep_pipeline.band_charts import PALETTE
from cep_pipeline.cli.figures import count_per_s, times_as_fast

STYLES = {
    STATIC: Style("#79818c", True),
    UNCONDITIONAL: Style(PALETTE[0]),
    THRESHOLD: Style(PALETTE[3]),
    INVARIANT: Style(PALETTE[2]),
}
OTHERS = {AVERAGE: "average relative difference", META: "meta-adaptive", OTHER_K: "the other K"}
Text = Callable[[Row], str]


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request, descriptions: Mapping[str, str]) -> Page:
    """The page of finished cells; that all decision functions found the same was checked in each of them."""
    often = by_decision(of_part(rows, FREQUENCY))
    rows = [row for row in rows if row["part"] != FREQUENCY]
    apart = by_decision(rows)
    best = {(stream, contender.name): best_of(apart, stream, contender, sizes) for stream, contender in _cases(apart)}
    compared, changes = (compared_rows(of_part(apart, part), best) for part in (COMPARISON, CHANGES))
    parts = [
        "# The plan follows the data: invariants and other decisions to plan again",
        f"Made by `cep experiment adaptation{' --full' if request.full else ''} --seed {request.seed}` on {machine()}.",
        _WHAT.format(
            stocks=descriptions[STOCKS],
            traffic=descriptions[TRAFFIC],
            checks=_by_stream(sizes.checks),
            fraction=INTERVALS_A_WINDOW,
            reports=REPORTS,
            reaches=_listed(REACHES),
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
        ),
        "## What the patent found, and what we find",
        "By the two mechanisms of the patent; where `fused` was run too, it stands beside them below.",
        findings_text(all_findings(apart, best, sizes)),
        "### Why they are no further apart",
        reasons_text(_of_the_patent(of_part(apart)), _of_the_patent(compared), sizes),
        "## Throughput against the minimal distance (figure 6)",
        "Sequences, by their number of events.",
        "{chart:distance}",
        "The same as the throughput of d = 0, the geometric mean over the sequences:",
        _distance_table(apart, sizes),
        "## The decision functions side by side (figures 7 and 8)",
        "By the t and the d that gained most over the sequences of the stream and planner:",
        _best_table(best),
        _at_the_edge(best, sizes),
        "Throughput, events a second:",
        _table(compared, lambda row: count_per_s(number(row, "throughput"))),
        "Gain over the static plan:",
        "{chart:gain}",
        _table(compared, lambda row: times_as_fast(number(row, "gain"))),
        f"How often it was planned again, of {_checks(compared)} decisions, and new plans in use:",
        _table(compared, _replannings),
        "Share of the time spent deciding and planning:",
        _table(compared, lambda row: f"{number(row, 'overhead'):.1%}"),
        "How many times fewer events were tried on partial matches than by the static plan, which is what plans alone "
        "make of it:",
        _table(compared, lambda row: times_as_fast(number(row, "less_work"))),
        per_try_text(compared),
        estimating_text(compared),
        "## Where the distance comes from",
        "The average relative difference of the first plan's tightest comparisons, one a block, and of all of them, "
        "beside the best distance. The patent compares the two values, and finds them 87 % to 92 % alike in the "
        "traffic; a distance is there for the throughput, though, and whoever does not scan asks what is lost by that: "
        "so the finding above is judged by the throughput, with the values beside it. Then the gains over the static "
        "plan, in the geometric mean over the sequences, with distances that nobody has to try, and with the other K "
        "(all comparisons for greedy, the tightest for the others) at d = 0.",
        _average_table(apart, best, sizes),
        _rules_table(apart, best),
        "## Dynamic input: rates permuted every so many events",
        f"A sequence of {sizes.phase_size} events over generated trades; which stock has which rate is drawn anew "
        "after every so many of them. Throughput; then the gain over the static plan, and replannings with new plans.",
        _change_table(changes, lambda row: count_per_s(number(row, "throughput"))),
        _change_table(changes, lambda row: times_as_fast(number(row, "gain"))),
        _change_table(changes, _replannings),
        "## How often it is decided",
        frequency_text(often, sizes),
        frequency_table(often, sizes),
        "## What statistics say of the events that follow",
        "By how much the mean of the last intervals misses a rate or selectivity of the events that a plan made then "
        "runs over, of the next interval and the window behind it: the factor, in the geometric mean over the numbers "
        "of all patterns. An earlier form of this experiment asked for those of the next interval's pairs, whose "
        "earlier events may be of the window before: these are more alike, and let statistics reach back less far "
        "than plans need it.",
        errors_table(rows),
        predictions_text(apart),
        predictions_table(apart),
        "## The patterns' windows",
        _shortened(rows),
        _windows_table(rows),
    ]
    return Page("\n\n".join(parts) + "\n", _charts(apart, compared, sizes))


_WHAT = """\
A plan is the best one for the statistics that it was made from. After every interval a decision function looks at \
fresh statistics and says whether to plan again: never (static), always (unconditional), when any rate or \
selectivity has moved by a share t (constant threshold), or when one of the comparisons that decided the plan comes \
out otherwise by more than the minimal distance d (invariants: the tightest comparison of each block, K = 1, for \
greedy; all of them for dynamic programming, where the patent says that one alone makes false negatives and \
recommends a greater K; what the other K gives stands beside). Another plan is put in use where it costs less on \
these statistics, as in the patent's algorithm 1; partial matches of the old one go on by it. All find as many \
matches, which is checked run by run.

Stocks: {stocks}; their rates, and the means of their numbers, move by little and often. Traffic: {traffic}. A look \
at a road that finds vehicles is an event, and its type the class of the road, by how often vehicles are found \
there: rates differ by a factor of ten by day and of hundreds by night, stay for hours, and change by as much in the \
morning and in the evening. The first plan is one of the night. Single roads, as in the patent, report twelve times \
an hour at most: detection over them is no work beside a check. Five sets of patterns: sequences, sequences with a \
negated event, conjunctions, sequences with an event under KL, and disjunctions of three sequences (KL in the traffic \
by greedy alone: a tree has all lists of a class as a leaf); types are drawn with seed {seed}, and by how much a \
number of an event has to be above that of the one before: as much as makes the selectivity {alike} in the stocks, \
and one between {skewed} in the traffic, for patterns of {of_size} events and more, and for smaller ones such that all \
conditions together select as much; half of that in conjunctions, whose pairs come in either order. `greedy` plans \
for `lazy_chain_nfa` by the throughput cost, `zstream` for `evaluation_tree` by the cost of instances, which counts \
tries too, and beside them `dp_left_deep` for `fused`.

The patent decides "during every iteration" of its loop, many times while a window passes, and the old plan works on \
for a window beside the new one: where plans are switched faster than windows pass, several are at work at a time. So \
the time between two decisions is here a fixed part of the pattern's window, one of {fraction}. With two, hardly more \
than one old plan would be at work at a time; with twice as many, windows that make enough work between two decisions \
are in the traffic as long as the morning's change of rates itself, which no plan could then follow. Roads report \
every 300 s: between two decisions about them there are {reports} reports at least. An earlier form of this \
experiment had intervals of up to six windows, in which a switch cost next to nothing, and no decision function could \
be far ahead of another.

Detection is to be about as much work between any two decisions in all cells: a window is the longest under which \
plans of the time make no more than {work:,.0f} tries of an event on a partial match between two decisions, in the \
mean ({made} for making one; {of_matches} for a match, by which no run finds more of them than detection holds at \
once), and the first plan no more than {of_first} times as many; at most stocks and permuted {longest_stocks:,} s, \
traffic {longest_traffic:,} s, and {lists} s where a tree holds lists; and a shorter one where a plan of the stream \
holds more than {most_held:,} MiB of partial matches at a time. So many decisions are taken: {checks}, after \
as many intervals as the statistics reach over, of which the first plan is made, for all decision functions alike, \
the static plan too. Statistics are those of the last {reaches} intervals: the number whose mean misses by least the \
numbers of the events that a plan then runs over, those of the next interval and the window behind it. It is found for \
each cell on the very stream, by how well statistics tell what follows and not by what comes of a plan, and is the \
same for all decision functions. The static plan is run over the whole stream at \
once; where a plan is replaced, detection runs over the stretch in which matches begin by it, and the window behind.

Throughput is events a second of detecting, deciding and planning, by the processor's time; keeping statistics, \
which all but the static plan need alike, is told apart. What is decided does not depend on what is found: decisions \
are timed with caches that were swept in between, as detection would, and detection once for all decision functions \
that switched to the same plans at the same events. Tried with equal budgets: t of {thresholds}; d of {distances}. \
An invariant f1 < f2 is violated if f1 > (1 + d) f2: the patent prints the factor on the other side, (1 + d) f1 < \
f2, which would make invariants the stricter the greater d is, against its own prose, in which d is the least \
difference that counts as a violation."""


def _of_the_patent(rows: Iterable[Row]) -> list[Row]:
    """The rows of the two mechanisms of the patent."""
    names = {contender.name for contender in OF_THE_PATENT}
    return [row for row in rows if row["contender"] in names]


def _by_stream(values: Mapping[str, int]) -> str:
    return ", ".join(f"{stream} {number:,}" for stream, number in values.items())


def _listed(values: Iterable[float]) -> str:
    texts = [f"{value:g}" for value in values]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _charts(rows: Sequence[Row], compared: Sequence[Row], sizes: Sizes) -> dict[str, tuple[str, str]]:
    tried = {distance_name(distance): distance for distance in sizes.distances}
    by_distance = [
        {**row, "d": tried[str(row["decision"])], "events of the pattern": f"{row['size']} events", "case": _case(row)}
        for row in rows_of(of_part(rows), set=SEQUENCE)
        if row["decision"] in tried
    ]
    gains = [{**row, "case": _case(row)} for row in rows_of(compared, set=SEQUENCE)]
    return {
        "distance": (
            "Throughput against the minimal distance",
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
        "gain": (
            "Gain over the static plan against the number of events of the sequence",
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
    }


def _case(row: Row) -> str:
    return f"{row['stream']}, {row['contender']}"


def _cases(rows: Iterable[Row]) -> list[tuple[str, Contender]]:
    there = {(row["stream"], row["contender"]) for row in rows}
    return [(s, c) for s, c in product((STOCKS, TRAFFIC, PERMUTED), CONTENDERS) if (s, c.name) in there]


def _distance_table(rows: Sequence[Row], sizes: Sizes) -> str:
    lines = []
    for stream, contender in _cases(of_part(rows)):
        own = chosen_by(rows, stream, contender)
        basic = mean_gain(own, distance_name(0.0)) if 0.0 in sizes.distances else 1.0
        gains = [times_as_fast(mean_gain(own, distance_name(distance)) / basic) for distance in sizes.distances]
        lines.append([stream, contender.name, *gains])
    return markdown_table(["stream", "planner", *(f"d = {distance:g}" for distance in sizes.distances)], lines)


def _best_table(best: Mapping[tuple[str, str], Best]) -> str:
    lines = [[*case, f"{of.threshold:g}", f"{of.distance:g}"] for case, of in best.items()]
    return markdown_table(["stream", "planner", "t", "d"], lines)


def _at_the_edge(best: Mapping[tuple[str, str], Best], sizes: Sizes) -> str:
    """How far what was tried of t and d bounds what is compared."""
    edges = (
        sum(of.threshold in (min(sizes.thresholds), max(sizes.thresholds)) for of in best.values()),
        sum(of.distance == max(sizes.distances) for of in best.values()),
    )
    return (
        f"The best t is the least or the greatest that was tried in {edges[0]} of {len(best)} cases, the best d the "
        f"greatest in {edges[1]}. The two scales are not alike: a great t hardly ever plans again, and is then as good "
        "as the static plan; no d up to 0.5, as far as the patent goes, is that."
    )


def _table(rows: Sequence[Row], text: Text) -> str:
    """Streams, planners and decision functions down; sequences by size, and then the other sets, across."""
    columns = sorted(
        {(SETS.index(str(row["set"])), int(number(row, "size"))) for row in rows},
    )
    lines = []
    for stream, contender in _cases(rows):
        for decision in COMPARED:
            own = rows_of(rows, stream=stream, contender=contender.name, decision=decision)
            texts = {(SETS.index(str(row["set"])), int(number(row, "size"))): text(row) for row in own}
            lines.append([stream, contender.name, decision, *(texts.get(column, "") for column in columns)])
    header = [f"{SETS[kind]} {size}" for kind, size in columns]
    return markdown_table(["stream", "planner", "decision", *header], lines)


def _change_table(rows: Sequence[Row], text: Text) -> str:
    phases = list(dict.fromkeys(row["phase"] for row in rows))
    lines = []
    for _, contender in _cases(rows):
        for decision in COMPARED:
            own = {row["phase"]: row for row in rows_of(rows, contender=contender.name, decision=decision)}
            lines.append([contender.name, decision, *(text(own[phase]) for phase in phases)])
    return markdown_table(["planner", "decision", *(f"every {phase:,} events" for phase in phases)], lines)


def _replannings(row: Row) -> str:
    return f"{row['planned']}, {row['switches']} new"


def _checks(rows: Sequence[Row]) -> str:
    counts = sorted({int(number(row, "checks")) for row in rows if row["decision"] != STATIC})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _average_table(rows: Sequence[Row], best: Mapping[tuple[str, str], Best], sizes: Sizes) -> str:
    lines = []
    for stream, contender in _cases(of_part(rows)):
        own = rows_of(chosen_by(rows, stream, contender), decision=AVERAGE)
        values = {row["size"]: f"{number(row, 'average_d'):.3g}, {number(row, 'average_d_of_all'):.3g}" for row in own}
        texts = [values.get(size, "") for size in sizes.sequences]
        lines.append([stream, contender.name, f"{best[stream, contender.name].distance:g}", *texts])
    header = [f"{size} events" for size in sizes.sequences]
    return markdown_table(["stream", "planner", "best d", *header], lines)


def _rules_table(rows: Sequence[Row], best: Mapping[tuple[str, str], Best]) -> str:
    lines = []
    for stream, contender in _cases(rows):
        own, of = chosen_by(rows, stream, contender), best[stream, contender.name]
        names = (threshold_name(of.threshold), distance_name(of.distance), *OTHERS)
        lines.append([stream, contender.name, *(times_as_fast(mean_gain(own, name)) for name in names)])
    return markdown_table(["stream", "planner", "best t", "best d", *OTHERS.values()], lines)


def _shortened(rows: Sequence[Row]) -> str:
    """How many windows are shorter than their work alone would have them."""
    held = sum(number(row, "shortened") > 0 for row in rows)
    return f"Because a plan held too much, {held} of {len(rows)} windows are shorter than their work would have them."


def _windows_table(rows: Sequence[Row]) -> str:
    lines = []
    seen: dict[tuple[str, ...], Row] = {}
    for row in rows:
        kind = str(row["set"]) if "set" in row else f"permuted every {row['phase']:,}"
        seen.setdefault((str(row["stream"]), kind, str(row["size"]), str(row["contender"])), row)
    for (stream, kind, size, contender), row in seen.items():
        texts = (f"{row[name]:,}" for name in ("window_s", "interval_s", "reach", "events_read", f"{STATIC}:matches"))
        lines.append([stream, kind, size, contender, *texts])
    return markdown_table(
        ["stream", "set", "size", "planner", "window (s)", "decided every (s)", "reach", "events", "matches"], lines
    )
