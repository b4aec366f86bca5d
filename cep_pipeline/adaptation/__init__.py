"""The plan follows the data: invariants of plans, decision functions, minimal distances, and the loop.

    detect > estimate > decide > plan again > switch (acep-invariants patent, Algorithm 1)

| module | content |
| --- | --- |
| `loop` | `AdaptiveDetection`: its settings, and a run of the loop over one stream |
| `plan_loop` | the patterns that follow one plan, and the report of a run |
| `plan_makers` | the maker of their plans, and what another one gains |
| `event_stream` | reading the stream, and statistics of its latest events |
| `plan_switch`, `loop_outputs` | switching plans without losing matches, output |
| `decisions` | decision functions: static, unconditional, constant threshold, invariants; checks against thresholds |
| `invariants` | the comparisons that have to come out as they did for a plan to stay the best one, and their check |
| `distance` | minimal distances of invariants; `loop` has how one is chosen on a stream |
"""

from typing import TYPE_CHECKING

from cep_pipeline.lazy_names import lazy_names

if TYPE_CHECKING:  # the names of the package, each imported when it is first used
    from cep_pipeline.adaptation.decisions import DECISION_FUNCTIONS as DECISION_FUNCTIONS
    from cep_pipeline.adaptation.decisions import DecisionState as DecisionState
    from cep_pipeline.adaptation.decisions import Verdict as Verdict
    from cep_pipeline.adaptation.decisions import decision_function as decision_function
    from cep_pipeline.adaptation.distance import DISTANCES as DISTANCES
    from cep_pipeline.adaptation.distance import Distances as Distances
    from cep_pipeline.adaptation.distance import distance_rule as distance_rule
    from cep_pipeline.adaptation.invariants import Invariant as Invariant
    from cep_pipeline.adaptation.invariants import Verification as Verification
    from cep_pipeline.adaptation.invariants import invariants_of as invariants_of
    from cep_pipeline.adaptation.invariants import without_invariants as without_invariants
    from cep_pipeline.adaptation.loop import AdaptiveDetection as AdaptiveDetection
    from cep_pipeline.adaptation.loop import ScannedDistance as ScannedDistance
    from cep_pipeline.adaptation.loop import detect_adaptively as detect_adaptively
    from cep_pipeline.adaptation.loop import scan_distance as scan_distance
    from cep_pipeline.adaptation.plan_loop import AdaptationReport as AdaptationReport
    from cep_pipeline.adaptation.plan_loop import Check as Check
    from cep_pipeline.adaptation.plan_loop import PlanSwitch as PlanSwitch
    from cep_pipeline.adaptation.plan_loop import Seconds as Seconds
    from cep_pipeline.adaptation.plan_makers import gain as gain
    from cep_pipeline.adaptation.plan_makers import ln_cost_on as ln_cost_on

__getattr__, __dir__ = lazy_names(__name__)
