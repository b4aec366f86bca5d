"""Patterns that share a plan, through the product's own loop: static, or by a decision function, on any mechanism."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cep_pipeline.adaptation.decisions import DecisionFunction, Static
from cep_pipeline.adaptation.loop import AdaptiveDetection
from cep_pipeline.adaptation.report import AdaptationReport
from cep_pipeline.experiments.cells import Figure
from cep_pipeline.experiments.multi_pattern_runs import MULTITREE
from cep_pipeline.experiments.multi_pattern_streams import WorkloadStream
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

MOST_PAIRS = 1_000
"""Pairs that the statistics test a scope between two decisions."""


@dataclass(frozen=True)
class LoopRan:
    """What a run of the loop gave.

    Attributes
    ----------
    matches
        Pattern name -> how many.
    report
        What was decided, and where the seconds of the processor went.
    """

    matches: Mapping[str, int]
    report: AdaptationReport

    def figures(self, name: str) -> dict[str, Figure]:
        """For a row: `seconds` are those of detection, with the making of networks for each stretch of a plan."""
        total, nodes = self.report.total, self.report.metrics.nodes
        return {
            f"{name}:seconds": total.detecting,
            f"{name}:deciding": total.deciding,
            f"{name}:planning": total.planning,
            f"{name}:estimating": self.report.seconds_estimating,
            f"{name}:candidates": sum(node.candidates for node in nodes),
            f"{name}:created": sum(node.created for node in nodes),
            f"{name}:checks": len(self.report.checks),
            f"{name}:planned": self.report.replannings,
            f"{name}:switches": len(self.report.switches),
        }


def run_loop(
    stream: WorkloadStream,
    patterns: Sequence[Pattern],
    plan: Plan,
    known: StatisticsSnapshot,
    decision: DecisionFunction | None = None,
    *,
    every: int,
    steps: int,
    seed: int = 0,
    mechanism: str = MULTITREE,
    minimum_gain: float = 0.0,
) -> LoopRan:
    """Find the matches of patterns in a stream by a shared plan, and by those that follow it.

    Parameters
    ----------
    plan, known
        The first plan, and the statistics that it was made from.
    decision
        Asks for another plan; None: the first one stays.
    every
        Events between two decisions, each of which is about the statistics of the events since the last one.
    steps
        Of all searches that one decision may lead to.
    minimum_gain
        The share of the cost that a new plan has to save.
    """
    loop = AdaptiveDetection(
        mechanism=mechanism,
        decision=Static() if decision is None else decision,
        every_events=every,
        window=every,
        seed=seed,
        max_pairs=MOST_PAIRS,
        minimum_gain=minimum_gain,
        clock=time.process_time,
        search={"steps": steps, "seed": seed},
    )
    tables, report = loop.detect(patterns, stream.events, plan, known, output="count")
    return LoopRan({name: int(table.column("count")[0].as_py()) for name, table in tables.items()}, report)
