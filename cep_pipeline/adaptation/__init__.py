"""The plan follows the data: invariants of plans, decision functions, minimal distances, forecasts, and the loop."""

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
