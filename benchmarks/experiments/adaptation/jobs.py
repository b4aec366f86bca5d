"""Patterns over jobs that follow each other, with a decision between any two: what decision functions do, and its cost.

Nothing is run twice. A plan that several decision functions come to is made once, and run once over a job. Detection is
counted: its time is that of the counted work, by the cost of a unit that is measured once for a mechanism. So a busy
machine disturbs the time of planning and deciding only, which is of the processor and not of the wall.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

import pyarrow as pa

from benchmarks.experiments.adaptation.patterns import PatternDrawing
from benchmarks.experiments.adaptation.sizes import STATIC, UNCONDITIONAL
from benchmarks.experiments.adaptation.streams import stretches_of_trades
from benchmarks.experiments.cells import Figure
from benchmarks.measure import one_core
from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.decisions import DecisionFunction, Static
from cep_pipeline.adaptation.plan_makers import JointPlanMaker, PlanMaker, SinglePlanMaker, planned_together
from cep_pipeline.detection.planned import replanner_for
from cep_pipeline.errors import CepError
from cep_pipeline.guarded import without_collecting
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern.component_plans import components_of_patterns
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.replanning import runs_of
from cep_pipeline.planning.trees import written
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics

MAX_PAIRS = 4_096
"""Pairs that the statistics test a scope."""
SEARCH_STEPS = 20_000
"""Steps of a search for a shared plan."""
MADE_COUNTS = 2
"""Making a partial match is so many tries; a try is an event that is tested on a partial match."""
CALIBRATION_JOBS, CALIBRATION_EVENTS, CALIBRATION_SIZE, CALIBRATION_WINDOWS_S = 12, 2_000, 5, (20, 20, 200)
"""Sizes of the runs that tell the cost of a unit of work."""


@dataclass(frozen=True)
class PlannedBy:
    """A planner and the mechanism that runs its plans; `cost` where it is not that of the mechanism."""

    planner: str
    mechanism: str
    cost: str | None = None

    @property
    def together(self) -> bool:
        """True for a search over all patterns of a set."""
        return self.planner == "simulated_annealing"


Key = tuple[int, tuple[object, ...], int]
"""A part of the patterns, its plan as it is run, and a job."""


@dataclass(frozen=True)
class _Proposal:
    """The plan that planning again gives, its gain (None: it is the same plan), and the seconds that it took."""

    plan: Plan
    gain: float | None
    seconds: float


@dataclass(frozen=True)
class Ran:
    """The work of a plan over some events: tries, the matches of each pattern, and the seconds of this one run."""

    events: int
    tries: int
    matches: tuple[int, ...]
    seconds: float


@dataclass
class _Outcome:
    """The decisions of one decision function, and the plans of each part from job to job."""

    alarms: int = 0
    switches: int = 0
    deciding: float = 0.0
    planning: float = 0.0
    used: list[Key] = field(default_factory=list)


class JobSuccession:
    """Patterns over jobs; the first job only gives the statistics of the first plan.

    Parameters
    ----------
    patterns, jobs, by
        What is found, in what, and by which plans.
    reach
        Jobs that the statistics reach back.
    daily
        Whether each job is a run of its own, as a day is. If not, detection is begun anew where the plan is switched.
    seed
        Of the statistics and of searches.
    """

    def __init__(
        self,
        patterns: Sequence[Pattern],
        jobs: Sequence[pa.Table],
        by: PlannedBy,
        reach: int,
        *,
        daily: bool,
        seed: int,
    ) -> None:
        self._jobs, self._by, self._daily = jobs, by, daily
        self._snapshots = [
            estimate_statistics(
                patterns, pa.concat_tables(jobs[max(last + 1 - reach, 0) : last + 1]), seed=seed, max_pairs=MAX_PAIRS
            )
            for last in range(len(jobs))
        ]
        self._parts = [*_parts(patterns, by, seed)]
        self._proposals: dict[Key, _Proposal] = {}
        self._firsts: dict[int, _Proposal] = {}
        self._ran: dict[Key, Ran] = {}
        self._plans: dict[tuple[int, tuple[object, ...]], Plan] = {}

    def measure(self, decisions: Mapping[str, DecisionFunction]) -> dict[str, Figure]:
        """The figures of each decision function, by its name and a colon; `regret` beside the best plans known.

        The best plans of a job are those with the least work, among all that any decision function used, and those
        that are planned from the job itself.

        Raises
        ------
        CepError
            Two plans found different matches.
        """
        gc.collect()  # what earlier runs have left is not to be swept up in the middle of a plan
        with without_collecting(), one_core():
            cost = unit_costs(self._by)  # first, for it also loads what is loaded or compiled on first use
            outcomes = {name: self._decided(decision) for name, decision in decisions.items()}
            for number, (_part, _) in enumerate(self._parts):
                self._add_hindsight(number, outcomes[UNCONDITIONAL])
            for key in dict.fromkeys(key for one in outcomes.values() for key in one.used):
                self._run(key, self._parts[key[0]][0], self._plans[key[:2]])
        return self._figures(outcomes, cost)

    def _decided(self, decision: DecisionFunction) -> _Outcome:
        outcome = _Outcome()
        for number, (part, maker) in enumerate(self._parts):
            first = self._first(number, maker)
            outcome.planning += first.seconds
            plan = first.plan
            began = time.process_time()
            state = decision.begin(plan, part, self._snapshots[0])
            state = replace(state, asked=maker.questions)
            outcome.deciding += time.process_time() - began
            for job in range(1, len(self._jobs)):
                if job > 1:
                    snapshot = self._snapshots[job - 1]
                    began = time.process_time()
                    verdict = decision.decide(state, snapshot)
                    outcome.deciding += time.process_time() - began
                    if verdict.replan:
                        again = self._again(number, maker, plan, job - 1)
                        outcome.alarms += 1
                        outcome.planning += again.seconds
                        better = again.gain is not None and again.gain > 0.0
                        if better or again.gain is None:
                            plan = again.plan
                        outcome.switches += better
                        gained = again.gain if better and again.gain is not None else 0.0
                        began = time.process_time()
                        state = decision.replanned(state, verdict, plan, snapshot, gain=gained)
                        outcome.deciding += time.process_time() - began
                outcome.used.append(self._key(number, plan, job))
        return outcome

    def _first(self, number: int, maker: PlanMaker) -> _Proposal:
        if number not in self._firsts:
            began = time.process_time()
            plan = maker.first(self._snapshots[0])
            self._firsts[number] = _Proposal(plan, None, time.process_time() - began)
        return self._firsts[number]

    def _again(self, number: int, maker: PlanMaker, plan: Plan, job: int) -> _Proposal:
        key = self._key(number, plan, job)
        if key not in self._proposals:
            began = time.process_time()
            again = maker.again(plan, self._snapshots[job])
            made = again.write()
            self._proposals[key] = _Proposal(made, again.gain, time.process_time() - began)
        return self._proposals[key]

    def _add_hindsight(self, number: int, always: _Outcome) -> None:
        """Run over each job the plan that planning again always comes to from the job itself."""
        part, maker = self._parts[number]
        for key in [key for key in always.used if key[0] == number]:
            again = self._again(number, maker, self._plans[key[:2]], key[2])
            self._run(self._key(number, again.plan, key[2]), part, again.plan)

    def _key(self, number: int, plan: Plan, job: int) -> Key:
        runs = tuple(written(run) for one in self._parts[number][0] for run in runs_of(plan, one.name))
        self._plans.setdefault((number, (plan.sharing, *runs)), plan)
        return number, (plan.sharing, *runs), job

    def _run(self, key: Key, part: Sequence[Pattern], plan: Plan) -> None:
        if key not in self._ran:
            self._ran[key] = run_plan(part, self._jobs[key[2]], self._by, plan, self._snapshots[0])

    def _patterns_switched(self, of: _Outcome) -> tuple[int, int]:
        """Count how often a pattern has another plan than in the job before, and how often the same one."""
        switched = stays = 0
        for (number, one, job), (_, other, following) in pairwise(of.used):
            if following > job:
                patterns = len(self._parts[number][0])
                switched, stays = (switched + patterns, stays) if one != other else (switched, stays + patterns)
        return switched, stays

    def _figures(self, outcomes: Mapping[str, _Outcome], cost: UnitCosts) -> dict[str, Figure]:
        matches: dict[tuple[int, int], tuple[int, ...]] = {}
        for (number, _, job), ran in self._ran.items():
            if matches.setdefault((number, job), ran.matches) != ran.matches:
                raise CepError(
                    f"adaptation: plans by {self._by.planner} find {sum(ran.matches):,} and "
                    f"{sum(matches[number, job]):,} matches in one job; plans must not change what is found"
                )
        seconds = {key: cost.of(ran) for key, ran in self._ran.items()}
        best: dict[tuple[int, int], float] = {}
        for (number, _, job), took in seconds.items():
            best[number, job] = min(took, best.get((number, job), took))
        figures: dict[str, Figure] = {
            "patterns": sum(len(part) for part, _ in self._parts),
            "decisions": (len(self._jobs) - 2) * len(self._parts),
            "events": sum(job.num_rows for job in self._jobs[1:]),
            "matches": sum(sum(matches[number, job]) for number, job in best if job),
            "begin_us": 1e6 * cost.begin_s,
            "event_ns": 1e9 * cost.event_s,
            "try_ns": 1e9 * cost.try_s,
        }
        for name, of in outcomes.items():
            detecting = sum(seconds[key] for key in of.used)
            regret = detecting - sum(best.values())
            switched, stays = self._patterns_switched(of)
            if not self._daily:
                detecting -= cost.begin_s * stays
            figures |= {
                f"{name}:alarms": of.alarms,
                f"{name}:switches": of.switches,
                f"{name}:deciding": of.deciding if name != STATIC else 0.0,
                f"{name}:planning": of.planning,
                f"{name}:detecting": detecting,
                f"{name}:regret": regret,
                f"{name}:switching": 0.0 if self._daily else cost.begin_s * switched,
                f"{name}:tries": sum(self._ran[key].tries for key in of.used),
            }
        return figures


@dataclass(frozen=True)
class UnitCosts:
    """Seconds of a mechanism for beginning with a pattern, for an event, and for a try."""

    begin_s: float
    event_s: float
    try_s: float

    def of(self, ran: Ran) -> float:
        """The seconds of counted work."""
        return self.begin_s * len(ran.matches) + self.event_s * ran.events + self.try_s * ran.tries


@cache
def unit_costs(by: PlannedBy) -> UnitCosts:
    """The costs of a mechanism on this machine, by one pattern: few events; many; and many in long windows."""
    stream = stretches_of_trades(CALIBRATION_JOBS, CALIBRATION_EVENTS, seed=0)
    found = []
    for window_s, jobs in zip(CALIBRATION_WINDOWS_S, (1, CALIBRATION_JOBS, CALIBRATION_JOBS), strict=True):
        pattern = PatternDrawing(stream, window_s, (0.02, 0.02), seed=0).one(CALIBRATION_SIZE)
        events = pa.concat_tables(stream.jobs[:jobs])
        ((part, maker),) = _parts([pattern], by, 0)
        snapshot = estimate_statistics(part, events, max_pairs=MAX_PAIRS)
        plan = maker.first(snapshot)
        found.append(min((run_plan(part, events, by, plan, snapshot) for _ in range(5)), key=lambda ran: ran.seconds))
    few, many, dense = found
    try_s = max(dense.seconds - many.seconds, 0.0) / (dense.tries - many.tries)
    rest = [ran.seconds - try_s * ran.tries for ran in (few, many)]
    event_s = max(rest[1] - rest[0], 0.0) / (many.events - few.events)
    return UnitCosts(max(rest[0] - event_s * few.events, 0.0), event_s, try_s)


def run_plan(part: Sequence[Pattern], events: pa.Table, by: PlannedBy, plan: Plan, snapshot: StatisticsSnapshot) -> Ran:
    """Count the matches of patterns by a plan."""
    loop = AdaptiveDetection(mechanism=by.mechanism, decision=Static())
    began = time.process_time()
    tables, report = loop.detect(part, events, plan, snapshot, output="count")
    seconds = time.process_time() - began
    nodes = report.metrics.nodes
    matches = tuple(int(tables[one.name].column("count")[0].as_py()) for one in part)
    candidates, created = sum(one.candidates for one in nodes), sum(one.created for one in nodes)
    return Ran(events.num_rows, candidates + MADE_COUNTS * created, matches, seconds)


def _parts(patterns: Sequence[Pattern], by: PlannedBy, seed: int) -> Iterator[tuple[Sequence[Pattern], PlanMaker]]:
    """The patterns that follow one plan, and what makes it: as the product's loop takes them apart."""
    chosen = {pattern.name: by.mechanism for pattern in patterns}
    if not by.together:
        for pattern in patterns:
            yield [pattern], SinglePlanMaker(pattern, replanner_for(pattern, by.mechanism, by.planner, by.cost, 0.0))
        return
    together = planned_together(patterns, chosen, by.planner, by.cost, search={"steps": SEARCH_STEPS, "seed": seed})
    assert together is not None
    by_name = {pattern.name: pattern for pattern in patterns}
    for names in components_of_patterns(patterns, together.sharing):
        part = [by_name[name] for name in names]
        yield part, JointPlanMaker(part, chosen, together.of_part(len(part) / len(patterns)))
