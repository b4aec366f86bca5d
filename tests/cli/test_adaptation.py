"""`cep invariants` and `cep replan`: what they show, record and refuse."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.cli.command_line import cep
from tests.pipeline.drift import DRIFT_DAYS, DriftingStream, write_project
from tests.pipeline.test_adaptation import check
from tests.pipeline.test_violations import keep_the_plan


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> DriftingStream:
    """Two days with the plan that fits them, and two whose rates are others; nothing in it is changed."""
    folder = tmp_path_factory.mktemp("drifting")
    write_project(folder, "{k: 2}")
    drifting = DriftingStream(folder)
    drifting.publish(DRIFT_DAYS[:4])
    return drifting


@pytest.fixture
def own(tmp_path: Path) -> DriftingStream:
    write_project(tmp_path)
    drifting = DriftingStream(tmp_path)
    drifting.publish(DRIFT_DAYS[:3])
    return drifting


def test_invariants_are_shown_then_and_now(published: DriftingStream) -> None:
    done = cep("invariants", folder=published.folder)
    assert done.code == 0, done.errors
    head, verdict = done.output.splitlines()[:2]
    assert head.startswith("pattern set all, plan 1 (made 20") and head.endswith("on business day 2024-03-07")
    assert verdict.startswith("invariant: plan again: pattern rising, step 2: ")
    for column in (
        "chosen then",
        "rejected then",
        "chosen now",
        "rejected now",
        "may still grow",
        "verdict",
    ):
        assert column in done.output
    assert "closest to violation: pattern rising, step 3" in done.output
    assert published.tables.decisions() == [], "nothing is recorded"


def test_json_has_both_sides(published: DriftingStream) -> None:
    done = cep("invariants", "--pattern-set", "all", "--json", folder=published.folder)
    (shown,) = json.loads(done.output)
    assert shown["plan_version"] == 1 and shown["replan"] is True
    assert shown["settings"] == {"decision": "invariant", "distance": 0.05, "k": 2, "threshold": 0.5}
    for one in shown["invariants"]:
        assert one["then"][0] < one["then"][1]
        assert one["violated"] is (one["distance_to_violation"] < 0)
        assert one["distance_to_violation"] == pytest.approx(one["now"][1] - one["now"][0] + math.log(1.05))


def test_a_plan_without_invariants_says_what_is_checked_instead(own: DriftingStream) -> None:
    with (own.folder / "pipeline.yaml").open("a") as configuration:
        configuration.write("planning: {planner: ii_random}\n")
    assert cep("replan", "--force", folder=own.folder).code == 0
    shown = cep("invariants", folder=own.folder)
    assert "pattern rising has no invariants: local search" in shown.output
    assert "moved by" in shown.output and "0.0%" in shown.output


def test_a_check_records_a_decision_and_says_what_to_do(own: DriftingStream) -> None:
    done = cep("invariants", "--check", folder=own.folder)
    assert done.code == 0, done.errors
    assert done.output.startswith("all: replan: pattern rising, step 2")
    assert "cep replan --stream ticks --pattern-set all" in done.output
    again = cep("invariants", "--check", "--json", folder=own.folder)
    (decision,) = json.loads(again.output)
    assert decision["outcome"] == "no new data" and decision["plan_version"] == 1
    assert [one.outcome for one in own.tables.decisions("all")] == ["no new data", "replan"]


def test_a_violation_is_shown_with_what_came_of_it(own: DriftingStream) -> None:
    keep_the_plan(own, check(own).violation)
    (kept,) = (one for one in own.tables.decisions("all") if one.kind == "replanning")
    said = f"replanned {kept.decided_at:%Y-%m-%d %H:%M}, kept: "
    _, verdict, answered = cep("invariants", folder=own.folder).output.splitlines()[:3]
    assert verdict.startswith("invariant: keep the plan: pattern rising, step 2: ")
    assert answered.startswith(f"this has been dealt with: {said}")
    status = cep("status", folder=own.folder).output
    reasons = " ".join(line.split("│")[-2].strip() for line in status.splitlines() if "│" in line)
    assert reasons.count(said) == 1


def test_a_plan_is_made_compared_and_recorded(own: DriftingStream) -> None:
    dry = cep("replan", "--dry-run", folder=own.folder)
    assert dry.output.startswith("all: would be replaced: asked for by hand; by cost the new plan saves ")
    assert dry.output.endswith("current plan: 1\n")
    done = cep("replan", "--reason", "the rates have moved", folder=own.folder)
    assert done.code == 0, done.errors
    assert done.output.startswith("all: replaced: the rates have moved; by cost the new plan saves ")
    (row,) = [[cell.strip() for cell in line.split("│")] for line in done.output.splitlines() if "│ rising" in line]
    assert row[1:5] == ["rising", "c, b, a", "a, b, c", "dp_left_deep"]
    assert done.output.endswith("current plan: 2\n")
    kept = cep("replan", "--json", folder=own.folder)
    decision = json.loads(kept.output)
    assert (decision["outcome"], decision["reason"]) == (
        "kept",
        "asked for by hand; planning again gives the same plan",
    )
    other = cep("replan", "--dry-run", "--explain", folder=own.folder)
    assert "planner dp_left_deep" in other.output and "order a, b, c" in other.output
    explained = cep("explain", folder=own.folder)
    assert "version 2 (current)" in explained.output and "because: the rates have moved" in explained.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("invariants", "--pattern-set", "none"), "it has: all"),
        (("invariants", "--stream", "none"), "no stream 'none'"),
        (("replan", "--pattern-set", "none"), "it has: all"),
    ],
)
def test_wrong_input_is_told_with_exit_code_2(
    published: DriftingStream, arguments: tuple[str, ...], words: str
) -> None:
    done = cep(*arguments, folder=published.folder)
    assert done.code == 2
    assert words in done.error


def test_without_a_plan_there_is_nothing_to_show(tmp_path: Path) -> None:
    write_project(tmp_path)
    drifting = DriftingStream(tmp_path)
    drifting.publish_events(DRIFT_DAYS[0])
    done = cep("invariants", folder=tmp_path)
    assert done.code == 2
    assert "the pattern set has no plan yet" in done.error


def test_a_pattern_set_without_a_plan_keeps_none_of_the_others_from_being_shown(own: DriftingStream) -> None:
    configuration = (own.folder / "pipeline.yaml").read_text()
    two = configuration.replace("{file: all.sase}", "{file: all.sase}\n      more: {file: all.sase}")
    (own.folder / "pipeline.yaml").write_text(two)
    done = cep("invariants", folder=own.folder)
    assert done.code == 0 and "pattern set all, plan 1" in done.output
    assert "note: stream 'ticks', pattern set 'more': the pattern set has no plan yet" in done.errors
    assert cep("invariants", "--pattern-set", "more", folder=own.folder).code == 2


def test_status_tells_a_violation_until_a_replanning_has_answered_it(own: DriftingStream) -> None:
    def status(*arguments: str) -> str:
        done = cep("status", *arguments, folder=own.folder)
        assert done.code == 0, done.errors
        return done.output

    assert "decisions about plans" not in status()
    assert cep("invariants", "--check", folder=own.folder).code == 0
    pending = "it no longer fits, and no replanning has answered yet: pattern rising, step 2"
    assert pending in status()
    assert "plan again: cep replan --stream ticks --pattern-set all, or the DAG replanning_ticks" in status()
    assert cep("invariants", "--check", folder=own.folder).code == 0  # no new data: it still waits
    assert pending in status()
    answered = cep("replan", folder=own.folder)
    assert answered.output.startswith("all: replaced: pattern rising, step 2"), "that is the reason, if none is given"
    (decision, *_) = own.tables.decisions("all")
    assert decision.details["violation"] == own.tables.decisions("all")[1].details["violation"]["key"]
    shown = status()
    assert pending not in shown
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if "│ all " in line]
    assert [row[1:6] for row in rows] == [
        ["all", "2024-03-06", "replanning", "replaced", "1 → 2"],
        ["all", "2024-03-06", "invariant", "no new data", "1"],
        ["all", "2024-03-06", "invariant", "replan", "1"],
    ]
    assert "pattern rising, step 2" in rows[0][6] and "pattern rising, step 2" in rows[2][6]
    assert "1 → 2" in status("--decisions", "1") and "no new data" not in status("--decisions", "1")
    assert "decisions about plans" not in status("--decisions", "0")


def test_a_plan_of_another_format_is_said_and_ends_no_command(own: DriftingStream) -> None:
    current = own.tables.current_plan("all")
    assert current is not None
    older = {"version": 1, "patterns": [{"name": "rising"}]}
    with own.tables.plan_lease("all", run_id="older", wait_s=1) as lease:
        own.tables.record_plan(
            "all",
            older,
            lease=lease,
            explain="as it was",
            reason="long ago",
            pattern_set_version="older",
            in_place_of=current.version,
        )
    shown = cep("statistics", folder=own.folder)
    assert shown.code == 0, shown.errors
    assert "plan is of version 1 of the format: the next daily run makes a plan" in " ".join(shown.errors.split())
    assert "since plan 2" not in shown.output
    for command in ("status", "explain", "plan"):
        assert cep(command, folder=own.folder).code == 0
    checked = cep("invariants", "--check", folder=own.folder)
    assert "keep: the current plan is of version 1 of the format" in checked.output
    made = cep("replan", folder=own.folder)
    assert made.code == 0 and "current plan: 3" in made.output, made.errors
