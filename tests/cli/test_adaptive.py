"""`cep detect --adapt`: the same file as without, and what was decided."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.command_line import Done, cep

SCHEMA = (
    "{name: ticks, type_attribute: kind, timestamp: {column: time, format: epoch_us}, "
    "attributes: {kind: string, x: int64}, source: {format: csv, path: x.csv}}"
)
PATTERNS = (
    "NAME rising PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 3 seconds; "
    "NAME follows PATTERN SEQ(A a, C c) WHERE strict_contiguity(a, c) { a.x <= c.x } WITHIN 3 seconds"
)
OVER = ("--patterns", "p.sase", "--schema", "s.yaml", "--events", "x.csv")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two events a second for ten minutes; which kind is rare changes three times."""
    folder, chance = tmp_path_factory.mktemp("adapt"), random.Random(5)
    lines = ["time,kind,x"]
    for at in range(1200):
        weights = [6, 6, 6]
        weights[at // 300 % 3] = 1
        lines.append(f"{at * 500_000},{chance.choices('ABC', weights)[0]},{chance.randrange(9)}")
    (folder / "x.csv").write_text("\n".join(lines))
    (folder / "s.yaml").write_text(SCHEMA)
    (folder / "p.sase").write_text(PATTERNS)
    return folder


EVERY_100 = ("--every", "100 events", "--set", "minimum_gain=0")
"""Which plans are used does not depend on the clock then."""


def detect(folder: Path, *arguments: str) -> Done:
    return cep("detect", *OVER, *arguments, folder=folder)


@pytest.mark.parametrize("output", ["verbose", "count"])
def test_the_matches_are_the_same_and_the_switches_are_told(folder: Path, output: str) -> None:
    ending = "csv" if output == "verbose" else "parquet"
    assert detect(folder, "--output", output, "--out", f"one.{ending}").code == 0
    done = detect(folder, "--output", output, "--out", f"other.{ending}", "--adapt", *EVERY_100)
    assert done.code == 0, done.errors
    written = [(folder / f"{name}.{ending}").read_bytes() for name in ("one", "other")]
    assert written[0] == written[1] and len(written[0]) > 500
    rows = [line.split("│")[1:-1] for line in done.errors.splitlines() if line.startswith("│ rising")]
    counts, decisions, first, *_ = ([cell.strip() for cell in row] for row in rows)
    assert int(counts[1].replace(",", "")) > 50
    assert int(decisions[1]) == 10 and 10 >= int(decisions[2]) >= int(decisions[3]) >= 2
    seconds, row = divmod(int(first[2]), 2)
    assert row == 0 and first[1] == f"1970-01-01 00:{seconds // 60:02}:{seconds % 60:02}"
    assert "rather than" in first[5] and "exceeds" in first[5]
    assert "it has one plan" in done.errors
    assert "deciding and planning: " in done.errors


@pytest.mark.parametrize("many", [True, False])
def test_matches_of_files_in_any_order_are_the_same(tmp_path: Path, many: bool) -> None:
    number, ending = 900_000, "csv" if many else "parquet"
    rows = np.arange(number)
    kinds = np.array(["A", "B", "C", "other"])[np.where(rows % 150 < 3, (rows // 150 + rows) % 3, 3)]
    table = pa.table(
        {
            "timestamp": pa.array(rows * 1_000_000, pa.timestamp("us", "UTC")),
            "seq": rows,
            "kind": kinds,
            "x": rows * 7 % 11,
        }
    )
    for place in (1, 0):
        pq.write_table(table.slice(place * number // 2, number // 2), tmp_path / f"{1 - place}.parquet")
    texts = [PATTERNS.replace("3 seconds", "6 minutes"), "NAME pair PATTERN SEQ(A a, B b, C c) WITHIN 2 minutes"]
    (tmp_path / "p.sase").write_text(texts[0] if many else texts[1])
    (tmp_path / "s.yaml").write_text(SCHEMA)
    over = ("detect", *OVER[:4], "--events", "0.parquet", "--events", "1.parquet")
    assert cep(*over, "--out", f"one.{ending}", folder=tmp_path).code == 0
    adapting = ("--adapt", "--every", "20000 events")
    done = cep(*over, *adapting, "--out", f"other.{ending}", folder=tmp_path)
    assert done.code == 0, done.errors
    one, other = (tmp_path / f"{name}.{ending}" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes() if many else pq.read_table(one) == pq.read_table(other)
    assert one.stat().st_size > 10_000
    assert {path.name for path in tmp_path.iterdir()} == {
        *("0.parquet", "1.parquet", "p.sase", "s.yaml"),
        *(f"{name}.{ending}" for name in ("one", "other")),
    }


def test_a_decision_function_with_its_settings(folder: Path) -> None:
    for settings, said in (
        (("--set", "decision=static"), "nothing was decided"),
        (("--set", "decision=unconditional", "--every", "1 minute"), "planning again is unconditional"),
        (("--set", "decision=constant_threshold", "--set", "threshold=0.4", "--every", "1 minute"), "40.0% or more"),
        (("--set", "distance=meta_adaptive", "--set", "k=all", "--every", "1 minute"), "exceeds"),
        (("--set", "distance=5", "--every", "1 minute"), "decisions about plans"),
        ((), "no decision was due: --every 'N events'"),
    ):
        done = detect(folder, "--adapt", *settings, "--out", "found.parquet")
        assert done.code == 0, done.errors
        assert said in done.errors


def test_the_first_plan_may_be_a_file(folder: Path) -> None:
    """One that never fits: without a decision it stays, by decisions it is left."""
    assert cep("plan", *OVER, "--planner", "trivial", "--out", "plan.json", folder=folder).code == 0
    given = ("--adapt", "--plan", "plan.json", *EVERY_100, "--out", "found.parquet")
    stays = detect(folder, *given, "--set", "decision=constant_threshold", "--set", "threshold=1000000")
    left = detect(folder, *given, "--set", "decision=unconditional")
    for done, switches in ((stays, False), (left, True)):
        assert done.code == 0, done.errors
        assert ("to the plan" in done.errors) is switches
    (folder / "q.sase").write_text(PATTERNS.replace("rising", "falling"))
    other = detect(folder, *given[:3], "--patterns", "q.sase", "--out", "found.parquet")
    assert other.code == 2 and "falling" in other.error


@pytest.mark.long
def test_patterns_that_are_planned_together(folder: Path) -> None:
    """The same file, and switches of all that may share work, whose plans are searched."""
    text = (
        PATTERNS.replace("follows", "next")
        + "; "
        + PATTERNS.split(";", maxsplit=1)[0].replace("rising", "slow").replace("3", "4")
    )
    (folder / "t.sase").write_text(text)
    over = ("--patterns", "t.sase", *OVER[2:])
    searched = ("--planner", "simulated_annealing", "--set", "steps=2000", "--set", "seed=3")
    assert cep("detect", *over, *searched, "--out", "one.csv", folder=folder).code == 0
    for name, sharing in (("other", ()), ("third", ("--set", "sharing=prefix"))):
        done = cep(
            "detect",
            *over,
            *searched,
            *sharing,
            "--adapt",
            "--every",
            "100 events",
            "--out",
            f"{name}.csv",
            folder=folder,
        )
        assert done.code == 0, done.errors
        assert (folder / f"{name}.csv").read_bytes() == (folder / "one.csv").read_bytes()
        assert "rising and 1 other" in done.errors and "to the plan" in done.errors
    assert cep("plan", *over, *searched, "--out", "shared.json", folder=folder).code == 0
    done = cep(
        "detect", *over, "--plan", "shared.json", "--adapt", "--every", "100 events", "--out", "more.csv", folder=folder
    )
    assert done.code == 0, done.errors
    assert "rising and 1 other" in done.errors
    assert (folder / "more.csv").read_bytes() == (folder / "one.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--every", "100 events"), "--every says how plans follow the stream: it goes with --adapt"),
        (("--adapt", "--every", "often"), "'often' is no length of time"),
        (("--set", "distance=1"), "--set distance says how plans follow the stream: it goes with --adapt"),
        (
            ("--adapt", "--set", "window=200"),
            "write it as NAME=VALUE; the settings are: alpha, cost, decision, distance",
        ),
        (
            ("--adapt", "--set", "decision=never"),
            "--set decision=never: there is no decision function of this name; there are: static",
        ),
        (("--adapt", "--set", "decision=static", "--set", "k=2"), "the decision function 'static' has no 'k'"),
        (("--adapt", "--set", "k=0"), "--set k=0: a block has one invariant or more"),
        (("--adapt", "--set", "distance=far"), "there is no distance 'far'; there are: a number"),
        (
            ("--adapt", "--set", "decision=static", "--set", "distance=2"),
            "the decision function 'static' has no 'distance'",
        ),
        (("--adapt", "--set", "distance=-1"), "a minimal distance is a finite number"),
        (
            ("--adapt", "--set", "decision=constant_threshold", "--set", "threshold=0"),
            "--set threshold=0: it should be greater than 0",
        ),
        (("--adapt", "--set", "steps=9"), "steps: for planners of many patterns together, not for 'dp_left_deep'"),
        (
            ("--plan", "plan.json", "--planner", "tabu", "--set", "steps=9"),
            "--plan gives the plan: leave --planner and its settings out",
        ),
        (("--adapt", "--planner", "tabu", "--set", "cost=kernel"), "are planned together by the cost 'throughput'"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_read(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = detect(folder, *arguments, "--out", "refused.parquet")
    assert done.code == 2
    assert message in done.error
    assert not (folder / "refused.parquet").exists()
