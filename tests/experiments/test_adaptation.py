"""`cep experiment adaptation` at the size of a moment; its figures and findings by rows that are written here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.experiments.adaptation import experiment as adaptation
from benchmarks.experiments.adaptation import jobs
from benchmarks.experiments.adaptation.experiment import EXPERIMENT, MECHANISMS
from benchmarks.experiments.adaptation.figures import (
    INVARIANT,
    THRESHOLD,
    Place,
    Tuned,
    all_seconds,
    cases_of,
    interval_of,
    lost_seconds,
    spread,
    tuned_cases,
)
from benchmarks.experiments.adaptation.findings import all_findings
from benchmarks.experiments.adaptation.jobs import JobSuccession, unit_costs
from benchmarks.experiments.adaptation.patterns import PatternDrawing
from benchmarks.experiments.adaptation.sizes import (
    DAYS,
    DEAR,
    DISCREPANCY,
    FREQUENCY,
    FULL,
    OWN,
    PRICED,
    SMALL,
    STATIC,
    TOGETHER,
    UNCONDITIONAL,
    DaysCase,
    DearCase,
    Sizes,
    decisions_of,
)
from benchmarks.experiments.adaptation.streams import (
    BARS,
    CHANGE,
    FLAP,
    TRAFFIC,
    JobStream,
    days_of_bars,
    days_of_traffic,
    stretches_of_discrepancy,
    stretches_of_trades,
)
from benchmarks.experiments.cells import Row, number
from benchmarks.experiments.experiment import Request, store_beside
from benchmarks.experiments.findings import Verdict
from cep_pipeline.errors import CepError
from cep_pipeline.patterns.pattern import Pattern
from tests.cli.command_line import cep

TINY = Sizes(
    2,
    (0.1, 3.0),
    (0.0, 1.0),
    (DaysCase(OWN, 2, 3), DaysCase(TOGETHER, 2, 3)),
    (DearCase(OWN, 4, 3, 300), DearCase(TOGETHER, 2, 3, 300)),
    3,
    30,
    ((4, 2),),
    ((0.1,), (0.0,)),
)
REAL = Path(__file__).parents[3] / "shared" / "data"


COSTS = jobs.UnitCosts(1e-3, 1e-7, 1e-8)


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "unit_costs", lambda by: COSTS)
        yield [{**cell.key, **cell.run()} for cell in EXPERIMENT.plan(Request(sizes=TINY)).cells]


def of_kind(stream: JobStream, kind: str) -> list[int]:
    return [int(pc.sum(pc.equal(job.column("kind"), kind)).as_py() or 0) for job in stream.jobs]


def test_in_the_stream_of_discrepancy_one_type_flaps_and_one_changes_in_the_middle() -> None:
    stream = stretches_of_discrepancy(9, 2_000, seed=3)
    flapping, changing, steady = (of_kind(stream, kind) for kind in "FDA")
    assert np.mean([flapping[job] for job in (2, 3, 6, 7)]) > 0.9 * FLAP * np.mean([flapping[job] for job in (0, 1, 4)])
    assert np.mean(changing[3:6]) > 0.8 * CHANGE * np.mean(changing[:3] + changing[6:])
    assert max(steady) < 1.3 * min(steady)
    times = stream.events.column("timestamp").cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()


def test_generated_days_follow_the_seed_and_have_weekends() -> None:
    traffic = days_of_traffic(None, 7, 1)
    events = [job.num_rows for job in traffic.jobs]
    assert max(events[1:3]) < min(events[0], *events[3:]) and "not there" in traffic.description
    one, other, again = (days_of_bars.__wrapped__(2, seed) for seed in (1, 2, 1))
    assert one.events.equals(again.events) and not one.events.equals(other.events)
    assert stretches_of_trades(3, 200, 1).jobs[2].num_rows == 200


@pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/data")
def test_days_of_the_real_month_are_days() -> None:
    stream = days_of_traffic(REAL, 2, 1)
    first, second = (job.column("timestamp").cast(pa.int64()).to_numpy() for job in stream.jobs)
    assert first[-1] - first[0] < 86_400_000_000 <= second[-1] - first[0]
    assert len(stream.types) == 20 and "not there" not in stream.description


def test_patterns_that_begin_alike_share_conditions_and_have_few_matches() -> None:
    stream = days_of_bars(3, 1)
    drawing = PatternDrawing(stream, 1_800, (0.01, 0.1), seed=1)
    one, other = (drawing.one(size, f"p{size}", ("T01", "T02")) for size in (3, 4))
    first = [re.sub(r"Span\(.*?\)", "", str(pattern.clauses[0].conjuncts[0])) for pattern in (one, other)]
    assert first[0] == first[1]
    patterns = drawing.many(5, (3, 4))
    assert [len(pattern.operands) in (3, 4) for pattern in patterns] == [True] * 5
    assert len({pattern.name for pattern in patterns}) == 5


def test_every_cell_has_fewer_matches_than_events_and_all_its_figures(rows: list[Row]) -> None:
    assert {row["part"] for row in rows} == {DAYS, DEAR, DISCREPANCY, FREQUENCY}
    for row in rows:
        assert number(row, "matches") < number(row, "events")
        assert number(row, f"{STATIC}:alarms") == number(row, f"{STATIC}:switches") == 0
        assert number(row, f"{UNCONDITIONAL}:planning") >= 0 < number(row, f"{STATIC}:detecting")
    for row in (row for row in rows if row["part"] != FREQUENCY):
        assert number(row, f"{UNCONDITIONAL}:alarms") == number(row, "decisions")
        names = dict.fromkeys(name.partition(":")[0] for name in row if ":" in name)
        assert min(number(row, f"{name}:regret") for name in names) >= -1e-12
        assert (row["part"] == DAYS) <= all(number(row, f"{name}:switching") == 0 for name in names)


def test_a_switch_that_has_to_pay_is_not_made_more_often(rows: list[Row]) -> None:
    for row in (row for row in rows if row["part"] == FREQUENCY):
        assert number(row, f"{UNCONDITIONAL}, {PRICED}:switches") <= number(row, f"{UNCONDITIONAL}:switches")


def test_planning_always_follows_a_stream_that_turns_round_and_a_static_plan_loses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "unit_costs", lambda by: COSTS)
    stream = stretches_of_trades(1, 300, 1)
    times = np.arange(600, dtype=np.int64) * 100_000
    turned = []
    for job in range(6):
        rare, frequent = ("T00", "T01") if job < 2 else ("T01", "T00")
        kinds = [rare if place % 20 == 0 else "T02" if place % 3 == 1 else frequent for place in range(600)]
        columns = {
            "timestamp": pa.array(times + job * 60_000_000).cast(pa.timestamp("us", tz="UTC")),
            "seq": pa.array(np.arange(600, dtype=np.int64)),
            "kind": pa.array(kinds),
            **dict.fromkeys(("x", "y"), pa.array(np.random.default_rng(job).normal(0, 1, 600))),
        }
        turned.append(pa.table(columns))
    pattern = PatternDrawing(stream, 20, (0.1, 0.1), seed=1).one(3, types=("T00", "T01", "T02"))
    succession = JobSuccession([pattern], turned, MECHANISMS["greedy"], 1, daily=True, seed=1)
    figures = succession.measure(decisions_of((0.5,), (0.0,)))
    assert figures["decisions"] == 4
    assert figures[f"{UNCONDITIONAL}:alarms"] == 4 and figures[f"{UNCONDITIONAL}:switches"] == 1
    assert figures["t=0.5:alarms"] == figures["d=0:alarms"] == 1
    assert number(figures, f"{STATIC}:tries") > 1.2 * number(figures, "d=0:tries")
    assert number(figures, f"{STATIC}:regret") > number(figures, "d=0:regret") > 0


def test_plans_that_find_different_matches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stretches_of_trades(4, 300, 1)
    pattern = PatternDrawing(stream, 20, (0.1, 0.1), seed=1).one(3)
    ran: list[int] = []

    def other_matches(*arguments: object) -> jobs.Ran:
        ran.append(1)
        return replace(found(*arguments), matches=(len(ran),))  # type: ignore[arg-type]

    found = jobs.run_plan
    monkeypatch.setattr(jobs, "unit_costs", lambda by: COSTS)
    monkeypatch.setattr(jobs, "run_plan", other_matches)
    succession = JobSuccession([pattern], stream.jobs, MECHANISMS["greedy"], 1, daily=True, seed=1)
    orders = iter(range(100))
    monkeypatch.setattr(jobs, "written", lambda run: next(orders))  # as if each plan was another one
    with pytest.raises(CepError, match="plans must not change what is found"):
        succession.measure(decisions_of((0.1,), (0.0,)))


def test_work_is_counted_and_costed() -> None:
    costs = jobs.UnitCosts(2.0, 0.1, 0.5)
    assert costs.of(jobs.Ran(10, 4, (1, 0, 5), 99.0)) == 3 * 2.0 + 1.0 + 2.0


def test_the_costs_of_units_are_those_that_runs_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_known_costs(part: Sequence[Pattern], events: pa.Table, *_: object) -> jobs.Ran:
        tries = events.num_rows * int(part[0].window.time_us or 0) // 1_000_000
        return jobs.Ran(events.num_rows, tries, (0,), 2.0 + 0.1 * events.num_rows + 0.5 * tries)

    monkeypatch.setattr(jobs, "run_plan", of_known_costs)
    monkeypatch.setattr(jobs, "CALIBRATION_EVENTS", 50)
    found = unit_costs.__wrapped__(MECHANISMS["greedy"])
    assert (found.begin_s, found.event_s, found.try_s) == pytest.approx((2.0, 0.1, 0.5))


SECONDS: Mapping[str, float] = {STATIC: 3.0, UNCONDITIONAL: 4.0, "t=0.1": 3.9, "t=3": 2.0, "d=0": 2.5, "d=1": 1.0}


def made(part: str, planner: str, stream: str = "", **others: float | Sequence[float]) -> list[Row]:
    """Five rows of a case with these seconds of detection; others replace them, the same or one a repetition."""
    found = []
    for place in range(5):
        row: dict[str, str | float | int] = {"part": part, "planner": planner, "repetition": place, "size": 9}
        row |= {"stream": stream, "stream is": "days"} if stream else {"a window": 16} if part == FREQUENCY else {}
        row |= {"events": 1_000, "matches": 10, "decisions": 8}
        names = dict(SECONDS)
        if part == FREQUENCY:
            names |= {f"{name}, {PRICED}": 1.1 for name in SECONDS if name != STATIC}
        elif part != DAYS:
            names |= {"average": 1.05, "meta": 2.0}
        for name, seconds in names.items():
            given = others.get(name, seconds)
            alarms = {STATIC: 0, UNCONDITIONAL: 8, "d=1": 1, "t=3": 2}.get(name, 5)
            row |= {f"{name}:alarms": alarms, f"{name}:switches": min(alarms, 3), f"{name}:tries": 100}
            row |= {f"{name}:detecting": given if isinstance(given, float | int) else given[place]}
            row |= {f"{name}:deciding": 0.0, f"{name}:planning": 0.001 * alarms}
            if part != FREQUENCY:
                row |= {f"{name}:regret": seconds / 4, f"{name}:switching": 0.0}
        found.append(row)
    return found


def of_the_patents_shape(**others: float | Sequence[float]) -> list[Row]:
    greedy = {"d=0": 2.5, "d=1": 1.2}
    return [
        *made(DAYS, OWN, TRAFFIC, **({"t=3": 7.0, "t=0.1": 7.5} | others)),
        *made(DAYS, OWN, BARS, **others),
        *made(DEAR, "dp_bushy", **others),
        *made(FREQUENCY, "greedy", **(greedy | others)),
        *made(FREQUENCY, "zstream", **others),
    ]


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    tuned = tuned_cases(cases_of(rows), (0.1, 3.0), (0.0, 1.0))
    return [finding.verdict for finding in all_findings(tuned, (0.0, 1.0))]


def test_all_findings_hold_on_figures_of_the_patents_shape() -> None:
    assert verdicts(of_the_patents_shape()) == [Verdict.HOLDS] * 9


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"d=0": 1.1}, {1: Verdict.DIFFERS}),
        ({"d=1": 2.2, "d=0": 2.2}, {2: Verdict.DIFFERS, 3: Verdict.DIFFERS, 4: Verdict.DIFFERS}),
        ({"d=1": (1.0, 9.0, 1.0, 0.2, 1.0)}, {2: Verdict.DIFFERS, 4: Verdict.UNDECIDED}),
        ({UNCONDITIONAL: 2.0}, {7: Verdict.DIFFERS}),
        ({UNCONDITIONAL: (1.0, 9.0, 2.0, 5.0, 3.0)}, {7: Verdict.UNDECIDED}),
        ({"average": 4.0}, {9: Verdict.DIFFERS}),
    ],
)
def test_a_finding_fails_where_the_figures_do(
    others: dict[str, float | tuple[float, ...]], expected: dict[int, Verdict]
) -> None:
    found = verdicts(of_the_patents_shape(**others))
    assert {place: found[place - 1] for place in expected} == expected


def test_parameters_are_those_that_were_best_on_other_data() -> None:
    rows = [*made(DAYS, OWN, TRAFFIC, **{"t=0.1": 0.5}), *made(DAYS, OWN, BARS), *made(DEAR, OWN)]
    traffic, bars, dear = tuned_cases(cases_of(rows), (0.1, 3.0), (0.0, 1.0))
    assert (set(traffic.thresholds), set(bars.thresholds)) == ({"t=3"}, {"t=0.1"})
    assert traffic.seconds(THRESHOLD, all_seconds) == [pytest.approx(2.002)] * 5
    # One repetition alone would have chosen otherwise: it is judged by what the other four say.
    odd = made(DEAR, OWN, **{"d=0": (0.1, 2.5, 2.5, 2.5, 2.5)})
    (one,) = tuned_cases(cases_of(odd), (0.1, 3.0), (0.0, 1.0))
    assert one.distances == ("d=1",) * 5 == dear.distances
    assert one.name_of(INVARIANT, 0) == "d=1" and one.name_of(STATIC, 0) == STATIC


def test_an_interval_says_who_is_ahead() -> None:
    assert interval_of([1.2, 1.3, 1.25]).place is Place.AHEAD
    assert interval_of([0.8, 0.7, 0.75]).place is Place.BEHIND
    assert interval_of([0.5, 2.0, 1.0]).place is Place.LEVEL
    assert interval_of([5.0]).place is Place.LEVEL, "one repetition decides nothing"
    # The logarithms are 1, 2 and 3: Student's t of two degrees of freedom is 4.303.
    found = interval_of([np.exp(1.0), np.exp(2.0), np.exp(3.0)])
    assert np.log([found.low, found.middle, found.high]) == pytest.approx([2 - 4.303 / 3**0.5, 2, 2 + 4.303 / 3**0.5])


def test_the_spread_of_parameters_and_what_is_lost() -> None:
    (case,) = cases_of(made(DEAR, OWN))
    assert spread(case, ["t=0.1", "t=3", "t=9"]) == pytest.approx(3.905 / 2.002)
    assert lost_seconds(case.rows[0], "t=3") == pytest.approx(0.5 + 0.002)
    assert Tuned(case, (), ()).ahead_of(UNCONDITIONAL, STATIC).place is Place.BEHIND


def test_as_many_distances_as_thresholds_are_tried_and_the_patent_has_more() -> None:
    with pytest.raises(ValueError, match="as many distances"):
        replace(TINY, thresholds=(0.1,))
    with pytest.raises(ValueError, match="are among those"):
        replace(TINY, few=((0.5,), (0.0,)))
    assert max(case.patterns for case in FULL.days) == 1_000 and SMALL.repetitions == FULL.repetitions == 5


def test_the_command_goes_on_where_it_was_writes_a_page_and_says_what_holds(
    rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptation, "SMALL", TINY)
    request = Request(data=Path("nowhere"))
    store = store_beside(tmp_path / "page.md", EXPERIMENT, request)
    for cell, row in zip(EXPERIMENT.plan(request).cells[1:], rows[1:], strict=True):
        store.keep(cell, row)
    arguments = ("experiment", "adaptation", "--data", "nowhere", "--out", "page.md")
    done = cep(*arguments, folder=tmp_path)
    assert done.code == 0, done.errors
    page = (tmp_path / "page.md").read_text()
    assert "`cep experiment adaptation --seed 1`" in page and "The month of real traffic was not there" in page
    assert done.output.startswith("Of 9 findings of the paper ") and done.output.endswith("written to page.md\n")
    headings = ["Who is ahead", "What is tried of t and d", "Days", "Dear planners", "Discrepancy", "Frequency"]
    assert re.findall(r"^## (.*)$", page, re.MULTILINE)[3:-1] == headings
    assert (tmp_path / "page" / "distance.svg").is_file() and "{" not in page
    again = cep(*arguments, folder=tmp_path)
    assert "measurements of an earlier run" in again.errors
    assert (tmp_path / "page.md").read_text() == page
