"""Daily runs of pattern sets on the mechanisms that run many patterns as one network, by one shared plan."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

import cep_pipeline as cep
import cep_pipeline.spark.detection
from cep_pipeline.errors import CepError
from cep_pipeline.planning import Plan
from tests.oracle import evaluate
from tests.pipeline.project import DAYS, MONDAY, PIPELINE, TUESDAY, WEDNESDAY, Project, published

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.warehouse.stream_tables import StreamTables

PATTERNS = """\
NAME rising   PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 3 hours;
NAME longer   PATTERN SEQ(A p, B q, C r, B s) WHERE p.x < q.x AND q.x < r.x WITHIN 5 hours;
NAME no_c     PATTERN SEQ(A a, ~C n, B b) WHERE a.x < b.x AND n.x > a.x WITHIN 4 hours RETURN b.x - a.x AS step;
NAME lists    PATTERN SEQ(A a, B+ many[], C c) WHERE a.x < c.x AND many[i].x > a.x WITHIN 2 hours;
NAME waiting  PATTERN SEQ(A a, B b, ~C c) WHERE a.x < b.x WITHIN 90 minutes OUTPUT NON_OVERLAP;
NAME both     PATTERN AND(B s, C t) WHERE s.x = t.x WITHIN 6 hours TIES ANY;
NAME counted  PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 4 EVENTS
"""
MECHANISMS = {
    "multi_pattern_nfa": "planner: tabu, sharing: prefix, steps: 300, seed: 2",
    "multitree": "planner: simulated_annealing, sharing: subexpression, steps: 300, seed: 2",
}


def write(project: Project, settings: str) -> None:
    """The patterns with these settings of their set, and ticks in the first and last hours of each day."""
    (project.folder / "all.sase").write_text(PATTERNS)
    (project.folder / "pipeline.yaml").write_text(PIPELINE.replace("file: all.sase", f"file: all.sase, {settings}"))
    for day in DAYS:
        random = Random(day.toordinal())
        minutes = sorted([*(random.randrange(6 * 60) for _ in range(24)), *random.sample(range(22 * 60, 24 * 60), 12)])
        rows = (f"{at // 60:02}:{at % 60:02}:00,{random.choice('ABC')},{random.randrange(8)}" for at in minutes)
        project.write_day(day, list(rows))


def found(tables: StreamTables) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """The published matches: pattern, and which event each variable binds."""
    rows = tables.read_matches("all").to_pylist()
    return sorted((row["pattern"], tuple((one["variable"], one["seq"]) for one in row["bindings"])) for row in rows)


def failing_after(detect: Callable[..., Any]) -> Callable[..., Any]:
    """The task that detects in a slice, but the first of a day fails when it has written its matches."""

    def work_and_fail(*arguments: Any) -> Any:
        result = detect(*arguments)
        if arguments[-2].number == 0:
            raise OSError("the worker is lost")
        return result

    return work_and_fail


@pytest.mark.long
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_network_finds_day_by_day_what_each_pattern_finds_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    write(project, f"{MECHANISMS[mechanism]}, mechanism: {mechanism}")
    project.run().run_days([MONDAY])
    with monkeypatch.context() as patch:
        patch.setattr(cep_pipeline.spark.detection, "_detect", failing_after(cep_pipeline.spark.detection._detect))
        with pytest.raises(CepError, match="the worker is lost"):
            project.run(run_id="failing").run_days([TUESDAY])
    tables = project.tables()
    assert {row["final_day"] for row in published(tables)["matches"]} <= {MONDAY}
    outcome = project.run(end_of_stream=True).run_days(DAYS)
    assert [(day.day, day.status) for day in outcome.days] == [
        (MONDAY, "fresh"),
        (TUESDAY, "done"),
        (WEDNESDAY, "done"),
    ]

    patterns = project.configuration.stream("ticks").pattern_set("all").patterns
    check_shared(tables, mechanism)
    check_alone(tables, patterns)
    project.run(redo=True, end_of_stream=True).run_days(DAYS[1:])
    check_alone(tables, patterns)
    project.run(warehouse="undisturbed", end_of_stream=True).run_days(DAYS)
    assert published(project.tables("undisturbed"))["matches"] == published(tables)["matches"]


def check_shared(tables: StreamTables, mechanism: str) -> None:
    """One plan of all patterns, whose shared nodes have several variables, runs on the mechanism that was named."""
    (record,) = tables.plans("all")
    plan = Plan.from_json(record.plan, "plan")
    assert plan.workload is not None
    of_several = [node.uses for node in plan.workload.shared if len(node.uses[0].variables) > 1]
    assert {"rising", "longer", "no_c"} <= {use.pattern for uses in of_several for use in uses}
    assert record.explain.count(f"runs on {mechanism}, as asked for") == len(plan.patterns)


def check_alone(tables: StreamTables, patterns: tuple[Pattern, ...]) -> None:
    """What is published is what the language's definition gives for each pattern, and the kernel's ids."""
    events = tables.read_events()
    alone = [match for pattern in patterns for match in evaluate([pattern], events)]
    assert found(tables) == sorted((match.pattern, match.bindings) for match in alone)
    assert {match.pattern for match in alone} == {pattern.name for pattern in patterns}
    fused = [cep.detect([pattern], events, mechanism="fused")[pattern.name] for pattern in patterns]
    ids = {match_id for table in fused for match_id in table["match_id"].to_pylist()}
    assert {row["match_id"] for row in published(tables)["matches"]} == ids
    over_midnight = [seqs for _, seqs in found(tables) if len({seq >> 40 for _, seq in seqs}) > 1]
    assert over_midnight, "no match reaches over midnight: the test tests nothing"
