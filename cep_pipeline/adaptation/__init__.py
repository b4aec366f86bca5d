"""The plan follows the data: invariants of plans, decision functions, minimal distances, forecasts, and the loop.

    detect > estimate > decide > plan again > switch (acep-invariants patent, Algorithm 1)

| module | content |
| --- | --- |
| `loop` | `AdaptiveDetection`: its settings, and a run of the loop over one stream |
| `plan_loop`, `plan_makers` | the patterns that follow one plan, and the maker of their plans |
| `event_stream`, `plan_switch`, `loop_outputs` | reading the stream, switching plans without losing matches, output |
| `recent_statistics` | statistics of the latest events |
| `decisions` | decision functions: static, unconditional, constant threshold, invariants |
| `invariants` | the comparisons that have to come out as they did for a plan to stay the best one |
| `verification` | the check of invariants on fresh statistics: its definition |
| `compiled_check` | the same check by one compiled call, for plans that a compiled search has found |
| `thresholds` | the check of numbers against a threshold |
| `lazy_sequence` | sequences of invariants and checks that are made when somebody asks |
| `distance`, `scanning` | minimal distances of invariants, and how one is chosen on a stream |
| `plan_quality` | the cost of a plan on other statistics, and the gain of another one |
| `forecast`, `report` | trends of invariants, and the report of a run |
"""

from cep_pipeline.adaptation.decisions import DECISION_FUNCTIONS, DecisionState, Verdict, decision_function
from cep_pipeline.adaptation.distance import DISTANCES, Distances, distance_rule
from cep_pipeline.adaptation.forecast import Trend, forecast
from cep_pipeline.adaptation.invariants import Invariant, invariants_of, without_invariants
from cep_pipeline.adaptation.loop import AdaptiveDetection, detect_adaptively
from cep_pipeline.adaptation.plan_quality import gain, ln_cost_on
from cep_pipeline.adaptation.report import AdaptationReport, Check, PlanSwitch, Seconds
from cep_pipeline.adaptation.scanning import ScannedDistance, scan_distance
from cep_pipeline.adaptation.verification import Verification, verify

__all__ = [
    "DECISION_FUNCTIONS",
    "DISTANCES",
    "AdaptationReport",
    "AdaptiveDetection",
    "Check",
    "DecisionState",
    "Distances",
    "Invariant",
    "PlanSwitch",
    "ScannedDistance",
    "Seconds",
    "Trend",
    "Verdict",
    "Verification",
    "decision_function",
    "detect_adaptively",
    "distance_rule",
    "forecast",
    "gain",
    "invariants_of",
    "ln_cost_on",
    "scan_distance",
    "verify",
    "without_invariants",
]
