"""`--planner` and `--set`: planners of many patterns, what `cep plan` prints and writes of them, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import CHECKOUT, cep

SCHEMA = CHECKOUT / "streams" / "generated_trades.yaml"
PATTERNS = """
NAME rise PATTERN SEQ(SPY a, BAC b, AIG c) WHERE a.price < b.price WITHIN 5 seconds;
NAME fall PATTERN SEQ(SPY x, BAC y, IBM z) WHERE x.price < y.price WITHIN 9 seconds;
NAME pair PATTERN AND(BAC p, IBM q) WITHIN 9 seconds
"""


@pytest.fixture(scope="module")
def trades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated day of trades, and patterns with something in common."""
    folder = tmp_path_factory.mktemp("trades")
    made = cep("generate", "--days", "1", "--stocks", "4", "--events-per-day", "2000", "--out", "raw", folder=folder)
    assert made.code == 0
    (folder / "many.sase").write_text(PATTERNS, encoding="utf-8")
    return folder


def over_files(folder: Path) -> list[str | Path]:
    events = folder / "raw/2025-01-06/trades.csv.gz"
    return ["plan", "--patterns", folder / "many.sase", "--schema", SCHEMA, "--events", events]


def test_a_search_by_steps_is_the_same_each_time_and_says_what_is_shared(trades: Path) -> None:
    options = ["--planner", "tabu"]
    for setting in ("neighbourhood=vertex:2", "sharing=prefix", "steps=500", "seed=7"):
        options += ["--set", setting]
    made = [cep(*over_files(trades), *options, "--out", f"{run}.json", folder=trades) for run in "ab"]
    for done in made:
        assert done.code == 0, done.errors
        assert "sharing prefix: " in done.output and "found by tabu, neighbourhood vertex:2, seed 7" in done.output
    assert made[0].output == made[1].output
    plan = json.loads((trades / "a.json").read_text())
    assert plan["sharing"] == "prefix" and plan["workload"]["search"]["steps"] >= 500
    assert cep("explain", "--plan", "a.json", folder=trades).code == 0


def test_a_search_ends_in_time_and_shares_subexpressions_unless_orders_are_run(trades: Path) -> None:
    options = ["--planner", "simulated_annealing", "--set", "time_limit_s=0.2"]
    trees = cep(*over_files(trades), *options, folder=trades)
    assert trees.code == 0 and "sharing subexpression" in trees.output
    orders = cep(*over_files(trades), *options, "--mechanism", "lazy_chain_nfa", folder=trades)
    assert orders.code == 0 and "sharing prefix" in orders.output
    both = cep(
        *over_files(trades), *options, "--mechanism", "lazy_chain_nfa", "--set", "sharing=subexpression", folder=trades
    )
    assert both.code == 2 and "runs orders, and subexpressions are shared by trees" in both.error


@pytest.mark.parametrize(
    "options, message",
    [
        (["--planner", "greedy", "--set", "seed=1"], "seed: for planners of many patterns together, not for 'greedy'"),
        (["--set", "steps=none"], "--set steps=none: it should be a valid integer"),
        (["--set", "step=5"], "write it as NAME=VALUE; the settings are: alpha, cost, decision"),
        (["--planner", "tabu", "--compare"], "--compare shows planners of single patterns"),
        (["--planner", "tabu", "--set", "cost=latency"], "by the cost 'throughput'"),
        (["--planner", "tabu", "--set", "neighbourhood=star"], "there is no neighbourhood 'star'"),
        (["--planner", "spass"], "merge_decomposition"),
    ],
)
def test_what_does_not_go_together_is_refused(trades: Path, options: list[str], message: str) -> None:
    done = cep(*over_files(trades), *options, folder=trades)
    assert done.code == 2 and message in done.error
