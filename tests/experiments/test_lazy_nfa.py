"""`cep experiment lazy_nfa` at the size of a moment, and its findings on figures made up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest

from benchmarks.experiments import lazy_nfa as findings
from benchmarks.experiments.experiment import Request, Row, run_experiment
from benchmarks.experiments.findings import Finding, Verdict, findings_of
from benchmarks.experiments.lazy_nfa import (
    CHAINS,
    CHANGING,
    CONTENDERS,
    EAGER,
    EXPERIMENT,
    FREQUENCY,
    FREQUENT,
    HISTORY,
    INPUT,
    OWN_TREE,
    PHASES,
    RARE,
    SEQUENCES,
    SMALL,
    TREE,
    Contender,
    Sizes,
    TreeNfa,
    changing_trades,
    measure,
    read_trades,
    steps_of,
    summed,
    write_page,
)
from benchmarks.measure import Progress
from cep_pipeline.errors import CepError
from tests.cli.command_line import cep

pytestmark = pytest.mark.long


SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
TINY = Sizes(1, 300, (0.1, 1.0), 2, (0.5, 1.0), 600, 200, 100, input_share=0.5, changing_share=0.1)


def test_generated_trades_have_histories_and_the_wanted_share() -> None:
    trades = read_trades(None, 1, 2_000, seed=3)
    assert "generated" in trades.description
    assert set(trades.events["symbol"].to_pylist()) == {*FREQUENT, RARE}
    lengths = pc.list_value_length(trades.events["history"]).to_pylist()
    assert max(lengths) == HISTORY and trades.events["history"][-1].as_py()[-1] == trades.events["price"][-1].as_py()
    for share in (0.05, 1.0):
        events = trades.with_rare(share, seed=1)
        counts = {entry["values"]: entry["counts"] for entry in events["symbol"].value_counts().to_pylist()}
        assert counts[RARE] == round(share * (counts[FREQUENT[0]] + counts[FREQUENT[1]]) / 2)
        assert events["seq"].to_pylist() == sorted(events["seq"].to_pylist())
    with pytest.raises(ValueError, match="are wanted of"):
        trades.with_rare(50.0, seed=1)


def test_real_trades_are_read_where_they_are() -> None:
    if not (SHARED / "us_equity_trades").is_dir():
        pytest.skip("../shared/data is not there")
    trades = read_trades(SHARED, 1, 1_000, seed=1)
    assert trades.description.startswith("real trades of AIG, IBM and SPY")
    assert 1_000 <= sum(symbol != RARE for symbol in trades.events["symbol"].to_pylist()) <= 1_001


def test_the_rare_stock_changes_after_every_phase() -> None:
    events = changing_trades(9_000, 3_000, 0.02, seed=1)
    for phase, rare in enumerate(PHASES):
        part = events.slice(3_000 * phase, 3_000)
        counts = {entry["values"]: entry["counts"] for entry in part["symbol"].value_counts().to_pylist()}
        assert counts[rare] < 0.05 * min(count for stock, count in counts.items() if stock != rare)


def test_what_is_done_at_the_first_events_does_not_depend_on_how_many_follow() -> None:
    """A stream whose last events match nothing costs as much as one without them, but for those events."""
    stream = changing_trades(TINY.changing, TINY.phase, TINY.changing_share, 1)
    quiet = stream.slice(0, 400)
    for contender in CONTENDERS:
        short, long = (measure(contender, "abc", events) for events in (quiet, stream))
        for name in ("computations", "evaluations", "matches", "peak_instances"):
            assert short[name] <= long[name], (contender, name)  # type: ignore[operator]


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.order)
def test_the_papers_tree_computes_what_a_chain_does_where_its_choice_is_fixed(chain: Contender, sequence: str) -> None:
    class Fixed(TreeNfa):
        def counters(self, bound: Mapping[str, int]) -> dict[str, int]:
            return {letter: place for place, letter in enumerate(chain.order, 1) if letter not in bound}

    events = changing_trades(2_000, 700, 0.3, 3)
    mine, theirs = Fixed(sequence, events).run(), measure(chain, sequence, events)
    assert {name: mine[name] for name in ("matches", "computations", "evaluations")}.items() <= theirs.items()
    assert TreeNfa(sequence, events).run()["matches"] == mine["matches"] > 0


def test_steps_are_differences() -> None:
    rows = [
        {"contender": name, "events": events, "matches": 0, "computations": cost, "evaluations": 2 * cost}
        for events, costs in ((100, (5, 7)), (200, (25, 8)))
        for name, cost in zip(("one", "other"), costs, strict=True)
    ]
    steps = [(row["contender"], row["first"], row["last"], row["computations"]) for row in steps_of(rows)]
    assert steps == [("one", 0, 100, 5), ("other", 0, 100, 7), ("one", 100, 200, 20), ("other", 100, 200, 1)]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    kept: list[Row] = []
    for cell in EXPERIMENT.cells(Request(sizes=TINY)):
        kept.append({**cell.key, **cell.run()})
    return kept


def test_every_contender_has_every_cell(rows: list[Row]) -> None:
    there = [contender.name for contender in CONTENDERS]
    assert len(rows) == len(there) * (3 * 2 * 2 + 2 + 6)
    assert any(row["matches"] for row in rows)
    for row in rows:
        assert row["contender"] in there
        assert row["peak_instances"] is not None and row["computations"] is not None


def test_the_page_has_its_tables_charts_and_findings(tmp_path: Path) -> None:
    page = run_experiment(EXPERIMENT, Request(sizes=TINY, data=None), None, Progress())
    assert set(page.charts) == {"computations", "instances", "changing"}
    page.write(tmp_path / "lazy_nfa.md")
    text = (tmp_path / "lazy_nfa.md").read_text()
    assert "{chart" not in text
    for name in page.charts:
        assert f"](lazy_nfa/{name}.svg)" in text and (tmp_path / "lazy_nfa" / f"{name}.svg").is_file()
    assert text.count("| eager NFA ") == 3 + 3 + 1 + 2 + 1
    assert "Of 10 findings of the paper " in text
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings[:3] == ["## Findings", "## Pictures", "## Why"] and headings[-1] == "## How it was measured"


def test_different_matches_are_refused(rows: list[Row]) -> None:
    wrong = [*rows, {**rows[0], "contender": "another", "matches": int(rows[0]["matches"] or 0) + 1}]
    with pytest.raises(CepError, match="another finds"):
        write_page(wrong, TINY, Request())


def test_figures_of_all_draws_become_one(rows: list[Row]) -> None:
    whole = summed(rows)
    assert len(whole) == len(rows) - len([row for row in rows if row.get("draw") == 1])
    wanted = {"part": FREQUENCY, "sequence": "abc", "share": 0.1, "contender": EAGER.name}
    parts = [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]
    (one,) = (row for row in whole if all(row.get(name) == value for name, value in wanted.items()))
    assert len(parts) == 2
    assert one["computations"] == sum(part["computations"] for part in parts)  # type: ignore[misc]
    assert one["peak_instances"] == max(part["peak_instances"] for part in parts)  # type: ignore[type-var]


def test_the_page_is_the_same_whether_cells_were_kept_or_just_measured(rows: list[Row]) -> None:
    """Rows that were kept on disk have their figures in another order than those just measured."""
    kept = [dict(sorted(row.items())) for row in rows]
    mixed = [kept[place] if place % 3 == 1 else row for place, row in enumerate(rows)]
    assert summed(mixed) == summed(kept) == summed(rows)
    pages = [write_page(some, TINY, Request()) for some in (rows, kept, mixed)]
    assert pages[0] == pages[1] == pages[2]


def test_the_caption_names_contenders_that_a_logarithmic_axis_cannot_show(rows: list[Row]) -> None:
    drawn = [{**row, "peak_instances": 3} for row in rows]
    none = [{**row, "peak_instances": 0} if row["contender"] == "chain cab" else row for row in drawn]
    for some, caption in (
        (drawn, "*Figure 9, for f_c = 0.5: lower is better.*\n"),
        (none, " better. A logarithmic axis has no zero, so points of chain cab are missing.*\n"),
    ):
        assert caption in write_page(some, TINY, Request()).text


def paper_rows() -> Iterator[Row]:
    """Figures of the paper's shape."""
    for sequence in SEQUENCES:
        for share in (0.001, 0.1, 1.0):
            for contender in CONTENDERS:
                cost = 1e6 * share if contender.order[:1] == "c" else 1e6
                if contender in (TREE, OWN_TREE):
                    cost = (0.9e6 if contender == TREE else 0.5e6) * share
                if contender == EAGER:
                    cost = 1.1e6 * (share if sequence == "cba" else 1.0)
                yield {
                    "part": FREQUENCY,
                    "sequence": sequence,
                    "share": share,
                    "contender": contender.name,
                    "computations": cost,
                }
    for contender in CONTENDERS:
        peak = 100 if contender == TREE or contender.order[:1] == "c" else 5_000
        yield {"part": INPUT, "part_of_input": 1.0, "contender": contender.name, "peak_instances": peak}
    total = dict.fromkeys(CONTENDERS, 0.0)
    for last in (100, 200, 300):
        rare = "cab"[last // 100 - 1]
        for contender in CONTENDERS:
            total[contender] += 1_000 if contender == TREE or contender.order[:1] == rare else 50_000
            figures = {"events": last, "matches": 0, "computations": total[contender], "evaluations": 0}
            yield {"part": CHANGING, "up_to": last, "contender": contender.name, **figures}


def changed(part: str, contender: str, figure: str, factor: float) -> list[Row]:
    """The paper's figures, but for one contender in one part."""
    return [
        {**row, figure: factor * row[figure]}  # type: ignore[operator]
        if (row["part"], row["contender"]) == (part, contender)
        else row
        for row in paper_rows()
    ]


def test_all_findings_hold_on_figures_of_the_papers_shape() -> None:
    found = findings_of(findings.__name__, list(paper_rows()))
    assert [finding.verdict for finding in found] == [Verdict.SURPASSED] + [Verdict.HOLDS] * 9
    assert found[0].ours == "1,100 times less for f_c = 0.001"
    assert found[2].reason.endswith("The tree NFA by expected tests has 0.500 times.")
    assert found[6].ours == "100, and the eager NFA 5,000" and found[7].ours == "100, and the chain 100"
    assert found[5].ours == "1,000 times fewer than for a, b, c (f_c = 0.001)"
    assert all(len(finding.claim) <= 90 and len(finding.ours) <= 60 for finding in found)


@pytest.mark.parametrize(
    ("rows", "finding"),
    [
        (changed(FREQUENCY, "chain cab", "computations", 500), findings.chains_beat_eager),
        (changed(FREQUENCY, "chain bac", "computations", 0.001), findings.other_chains_are_like_eager),
        (changed(FREQUENCY, TREE.name, "computations", 1.5), findings.tree_is_as_good_as_the_best_chain),
        (changed(FREQUENCY, TREE.name, "computations", 1.5), findings.tree_is_as_good_for_every_sequence),
        (changed(INPUT, "chain cba", "peak_instances", 20), findings.lazy_needs_fewer_instances),
        (changed(INPUT, TREE.name, "peak_instances", 4), findings.tree_needs_as_few_instances),
        (changed(CHANGING, TREE.name, "computations", 1.5), findings.tree_is_flat),
        (changed(CHANGING, "chain cab", "computations", 0), findings.chains_are_not_flat),
    ],
)
def test_a_finding_differs_where_the_figures_do(rows: list[Row], finding: Callable[[list[Row]], Finding]) -> None:
    assert finding(rows).verdict is Verdict.DIFFERS


def test_the_default_is_smaller_than_the_papers_extent() -> None:
    small, full = (EXPERIMENT.cells(Request(full=full)) for full in (False, True))
    assert len(small) < len(full)
    assert SMALL.phase == 100_000


def test_the_command_writes_a_page_and_says_what_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.experiments import lazy_nfa

    monkeypatch.setattr(lazy_nfa, "EXPERIMENT", replace(EXPERIMENT, small=TINY))
    arguments = ("experiment", "lazy_nfa", "--data", "nowhere", "--out", "page.md")
    done = cep(*arguments, folder=tmp_path)
    assert done.code == 0, done.errors
    page = (tmp_path / "page.md").read_text()
    assert "`cep experiment lazy_nfa --seed 1`" in page and "generated trades" in page
    assert done.output.startswith("Of 10 findings of the paper ") and done.output.endswith("written to page.md\n")
    assert len([line for line in done.output.splitlines() if re.match(r" +\d+\. [a-z ]+: ", line)]) == 10
    kept = (tmp_path / "page.cells.jsonl").stat().st_mtime_ns
    again = cep(*arguments, folder=tmp_path)
    assert "measurements of an earlier run" in again.errors
    assert (tmp_path / "page.cells.jsonl").stat().st_mtime_ns == kept
    assert (tmp_path / "page.md").read_text() == page


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    done = cep("experiment", "lazy_nfa", "--out", "none/page.md", folder=tmp_path)
    assert done.code == 2 and "there is no folder none" in done.errors
    done = cep("experiment", "eager", folder=tmp_path)
    assert done.code == 2 and "lazy_nfa" in done.errors
