"""The findings of `cep experiment adaptation` on figures made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.experiments.adaptation import findings
from benchmarks.experiments.adaptation.figures import (
    INVARIANT,
    THRESHOLD,
    Best,
    best_of,
    by_decision,
    chosen_by,
    compared_rows,
    lead,
    of_part,
)
from benchmarks.experiments.adaptation.frequency import frequency_table, frequency_text
from benchmarks.experiments.adaptation.patterns import (
    NEGATION,
    SEQUENCE,
)
from benchmarks.experiments.adaptation.reasons import reasons_text
from benchmarks.experiments.adaptation.sizes import (
    AVERAGE,
    CHAIN,
    COMPARISON,
    CONTENDERS,
    FREQUENCY,
    FUSED,
    META,
    OF_THE_PATENT,
    STATIC,
    TREE,
    UNCONDITIONAL,
    distance_name,
    threshold_name,
)
from benchmarks.experiments.adaptation.streams import (
    STOCKS,
    TRAFFIC,
)
from benchmarks.experiments.cells import Figure, Row
from tests.experiments.adaptation_sizes import CHECKS, TINY


def paper_rows(better: float = 1.0, **changed: Figure) -> Iterator[Row]:
    """Cells of the patent's shape, some figures of all of them changed; better: factor on the time of invariants."""
    for stream in (STOCKS, TRAFFIC):
        for contender in OF_THE_PATENT:
            for kind, size in [(SEQUENCE, 6), (SEQUENCE, 8), (NEGATION, 5)]:
                lead = better * ((7.0 if contender is TREE else 6.5) if stream == TRAFFIC else 1.5)
                times = {
                    STATIC: 8.0,
                    UNCONDITIONAL: 9.0,
                    threshold_name(0.1): 4.0,
                    threshold_name(2.0): 5.0,
                    distance_name(0.0): 9.0,
                    distance_name(0.5): 4.0 / (lead * (1.1 if contender is TREE else 1.0)),
                    AVERAGE: 4.0 / lead,
                    META: 4.0,
                }
                planned = {STATIC: 0, UNCONDITIONAL: 20, threshold_name(0.1): 9, distance_name(0.5): 4}
                row: dict[str, Figure] = {"part": COMPARISON, "stream": stream, "set": kind, "size": size}
                row |= {"contender": contender.name, "events_read": 1_000, "average_d": 0.52, "average_d_of_all": 9.0}
                row |= {"reach": 2, "by_latest": 1.3, "by_next": 1.2, "switch_price": 0.25}
                row |= {"hindsight_candidates": 2000, "hindsight_switches": 1}
                for name, seconds in times.items():
                    figures: dict[str, Figure] = {"detecting": seconds, "deciding": 0.001, "planning": 0.001}
                    figures |= {"estimating": 0.1, "candidates": 1000 * seconds, "matches": 5, "spread": 0.01}
                    again = planned.get(name, 10)
                    figures |= {"checks": 0 if name == STATIC else 20, "planned": again, "switches": again / 2}
                    row |= {f"{name}:{figure}": value for figure, value in figures.items()}
                yield {**row, **changed}


def findings_of(rows: list[Row]) -> list[bool | None]:
    apart = by_decision(rows)
    cases = [(stream, contender) for stream in (STOCKS, TRAFFIC) for contender in OF_THE_PATENT]
    best = {(stream, contender.name): best_of(apart, stream, contender, TINY) for stream, contender in cases}
    assert set(best.values()) == {Best(0.1, 0.5)}
    return [finding.holds for finding in findings.all_findings(apart, best, TINY)]


def test_all_findings_hold_on_figures_of_the_patents_shape() -> None:
    assert findings_of([*paper_rows()]) == [True] * 9


@pytest.mark.parametrize(
    ("rows", "failing"),
    [
        ([*paper_rows(better=0.6)], {1, 2, 3}),
        ([*paper_rows(better=0.7)], {2, 3}),
        ([*paper_rows(**{"d=0.5:planned": 10})], {4}),
        ([*paper_rows(**{"d=0.5:planning": 0.03})], {5}),
        ([*paper_rows(**{"unconditional:detecting": 7.0})], {6}),
        ([*paper_rows(**{f"{AVERAGE}:detecting": 1.2})], {8}),
        ([*paper_rows(**{"d=0:detecting": 1.0, "d=0.5:detecting": 0.9})], {0, 2, 7}),
    ],
)
def test_a_finding_fails_where_the_figures_do(rows: list[Row], failing: set[int]) -> None:
    assert {place for place, holds in enumerate(findings_of(rows)) if not holds} == failing


def test_fewer_replannings_are_fewer_in_each_stream() -> None:
    """Those of the traffic are many, and would hide that in the stocks it is the other way round."""
    rows = [
        row | ({"d=0.5:planned": 10, "d=0.5:switches": 5} if row["stream"] == STOCKS else {}) for row in paper_rows()
    ]
    found = findings_of([row | ({"t=0.1:planned": 18} if row["stream"] == TRAFFIC else {}) for row in rows])
    assert [place for place, holds in enumerate(found) if not holds] == [4]


def test_a_finding_that_fails_says_why_with_figures() -> None:
    rows = by_decision([*paper_rows(better=0.6)])
    best = {(stream, one.name): Best(0.1, 0.5) for stream in (STOCKS, TRAFFIC) for one in OF_THE_PATENT}
    texts = [one.text for one in findings.all_findings(rows, best, TINY) if one.holds is False]
    assert len(texts) == 3
    for text in texts:
        assert "times fewer" in text and "in hindsight, 1.0 switches in the mean, have 4.00 times fewer" in text


def test_what_two_runs_of_one_differ_by_is_no_lead() -> None:
    rows = by_decision([*paper_rows(better=0.6)])
    best = {(stream, one.name): Best(0.1, 0.5) for stream in (STOCKS, TRAFFIC) for one in OF_THE_PATENT}
    compared = compared_rows(rows, best)
    clear, unclear = (
        lead([{**row, "spread": spread} for row in compared], INVARIANT, THRESHOLD) for spread in (0.01, 0.2)
    )
    assert (clear.ahead, clear.behind) == (6, 3)
    assert (unclear.ahead, unclear.behind) == (6, 0) and unclear.mean == clear.mean
    by_tries = lead(compared, INVARIANT, THRESHOLD, "less_work")
    assert (by_tries.ahead, by_tries.behind) == (6, 3)


def test_reasons_are_said_in_figures() -> None:
    rows = by_decision([*paper_rows()])
    best = {(stream, one.name): Best(0.1, 0.5) for stream in (STOCKS, TRAFFIC) for one in OF_THE_PATENT}
    text = reasons_text(rows, compared_rows(rows, best), replace(TINY, repetitions=3))
    assert "those of t=0.1 in 0" in text and "A check takes 50 µs" in text
    assert "these plans cost 1.30 times less" in text and "ran over 1.20 times, and measured 0.889 times" in text
    assert "25% to 25% of its work in a window, 25% in the middle" in text
    assert "within 2% of each other, 3 times at most" in text and "1.0% apart in the middle, 1% at most" in text
    assert "timed once" in reasons_text(rows, compared_rows(rows, best), TINY)


def test_a_finding_about_the_best_says_what_it_is_where_each_pattern_has_its_own() -> None:
    rows = by_decision([*paper_rows(better=0.6)])
    # In negations another t is the best one: the one that is chosen by the sequences is not half as good.
    spoiled = [{**row, "gain": 4.0} if (row["set"], row["decision"]) == (NEGATION, "t=2") else row for row in rows]
    best = {(stream, one.name): Best(0.1, 0.5) for stream in (STOCKS, TRAFFIC) for one in OF_THE_PATENT}
    text = findings.all_findings(spoiled, best, TINY)[1].text
    assert "Where each pattern has its own best of both, invariants are ahead in 6 cells and behind in 4: 0.450" in text


def test_the_best_is_chosen_by_sequences_alone() -> None:
    rows = by_decision([*paper_rows()])
    spoiled = [{**row, "gain": 100.0} if (row["set"], row["decision"]) == (NEGATION, "t=2") else row for row in rows]
    assert best_of(spoiled, STOCKS, CHAIN, TINY) == Best(0.1, 0.5)
    compared = compared_rows(of_part(rows), {(s, c.name): Best(2.0, 0.0) for s in CHECKS for c in CONTENDERS})
    assert {row["seconds"] for row in compared if row["decision"] == "constant threshold"} == {5.002}
    assert {row["contender"] for row in compared} == {CHAIN.name, TREE.name} != {FUSED.name}


def test_the_table_of_frequencies_has_the_best_of_each_pattern() -> None:
    times = {STATIC: 8.0, UNCONDITIONAL: 16.0, "t=0.1": 4.0, "t=2": 5.0, "d=0": 6.0, "d=0.5": 2.0}
    rows: list[Row] = []
    for a_window, slower in ((2, 1.0), (8, 0.5)):
        row: dict[str, Figure] = {"part": FREQUENCY, "stream": STOCKS, "set": SEQUENCE, "size": 3}
        row |= {"contender": CHAIN.name, "a window": a_window, "events_read": 1_000}
        for name, seconds in times.items():
            figures = {"detecting": seconds * (1 if name == STATIC else slower), "deciding": 0.0, "planning": 0.0}
            row |= {f"{name}:{what}": of for what, of in {**figures, "candidates": 9, "switches": 3}.items()}
        rows.append(row)
    apart = by_decision(rows)
    lines = frequency_table(apart, TINY).splitlines()[2:]
    found = [[cell.strip() for cell in line.strip("|").split("|")][2:7] for line in lines]
    assert found == [["2", "0.500", "2.00", "1.33", "4.00"], ["8", "1.00", "4.00", "2.67", "8.00"]]
    text = frequency_text(apart, TINY)
    assert "of 8 decisions a window, planning unconditionally has 1.00 times" in text and "of 2 0.500 times" in text
    assert "The best distance has 3.00 times the throughput of d = 0, and 3.00 times" in text
    # Of other parts nothing is chosen by them.
    assert chosen_by(apart, STOCKS, CHAIN) == []
