"""Patterns that share a plan, through the product's own loop: static, or by a decision function, on any mechanism."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.experiments.cells import Figure
from benchmarks.experiments.multi_pattern.runs import MAX_PAIRS, MULTITREE
from benchmarks.experiments.multi_pattern.streams import WorkloadStream
from cep_pipeline.adaptation.decisions import DecisionFunction, Static
from cep_pipeline.adaptation.loop import AdaptiveDetection
from cep_pipeline.adaptation.report import AdaptationReport
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


@dataclass(frozen=True)
class LoopSettings:
    """The settings by which the loop decides.

    Attributes
    ----------
    every
        Events between two decisions.
    reach
        Events that the statistics reach back.
    steps
        Of all searches that one decision may lead to.
    minimum_gain
        The share of its cost that a new plan has to save.
    seed
        Of the searches, and of the pairs that the statistics test.
    """

    every: int
    reach: int
    steps: int
    minimum_gain: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class LoopRan:
    """The results of a run of the loop.

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
        """Return a row's figures. `seconds` are those of detection, with the networks made for each stretch."""
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
    settings: LoopSettings,
    decision: DecisionFunction | None = None,
    *,
    mechanism: str = MULTITREE,
) -> LoopRan:
    """Find the matches of patterns in a stream by a shared plan, and by those that follow it.

    Parameters
    ----------
    plan, known
        The first plan, and the statistics that it was made from.
    decision
        Asks for another plan; None: the first one stays.
    """
    loop = AdaptiveDetection(
        mechanism=mechanism,
        decision=Static() if decision is None else decision,
        every_events=settings.every,
        window=settings.reach,
        seed=settings.seed,
        max_pairs=MAX_PAIRS,
        minimum_gain=settings.minimum_gain,
        clock=time.process_time,
        search={"steps": settings.steps, "seed": settings.seed},
    )
    tables, report = loop.detect(patterns, stream.events, plan, known, output="count")
    return LoopRan({name: int(table.column("count")[0].as_py()) for name, table in tables.items()}, report)
