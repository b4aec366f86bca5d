"""Complex event processing for historical and daily event data: patterns as queries, plans that follow the data.

Start with `StreamSchema.load`, `read` and `detect`, or with `open` for what is published. `help`
describes every name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cep_pipeline.errors import BusyError as BusyError
from cep_pipeline.errors import CepError as CepError
from cep_pipeline.errors import DataError as DataError
from cep_pipeline.errors import InputError as InputError
from cep_pipeline.errors import PatternError as PatternError
from cep_pipeline.errors import PlanError as PlanError
from cep_pipeline.errors import TooManyMatches as TooManyMatches
from cep_pipeline.errors import UnsupportedPattern as UnsupportedPattern
from cep_pipeline.lazy_names import VERSION, lazy_names

if TYPE_CHECKING:
    # The public names. `lazy_names` reads this block and imports a name when it is first used, so that a program that
    # only parses patterns does not wait for the detection kernels. A new public name is written here and in
    # docs/python.md.
    from cep_pipeline.adaptation.decisions import DECISION_FUNCTIONS as DECISION_FUNCTIONS
    from cep_pipeline.adaptation.decisions import decision_function as decision_function
    from cep_pipeline.adaptation.loop import AdaptiveDetection as AdaptiveDetection
    from cep_pipeline.adaptation.loop import ScannedDistance as ScannedDistance
    from cep_pipeline.adaptation.loop import detect_adaptively as detect_adaptively
    from cep_pipeline.adaptation.loop import scan_distance as scan_distance
    from cep_pipeline.adaptation.plan_loop import AdaptationReport as AdaptationReport
    from cep_pipeline.detection import MECHANISMS as MECHANISMS
    from cep_pipeline.detection.compressed.tables import expand as expand
    from cep_pipeline.detection.detect import detect as detect
    from cep_pipeline.detection.detect import detect_batches as detect_batches
    from cep_pipeline.detection.mechanisms import Metrics as Metrics
    from cep_pipeline.detection.results import Matches as Matches
    from cep_pipeline.events.event_files import read as read
    from cep_pipeline.events.schema import DataWarning as DataWarning
    from cep_pipeline.events.schema import StreamSchema as StreamSchema
    from cep_pipeline.language.formatter import format_pattern as format_pattern
    from cep_pipeline.language.parser import parse_patterns as parse_patterns
    from cep_pipeline.language.tokens import PatternWarning as PatternWarning
    from cep_pipeline.patterns.pattern import Pattern as Pattern
    from cep_pipeline.pipeline.opened import PublishedStream as PublishedStream
    from cep_pipeline.pipeline.opened import PublishedWarehouse as PublishedWarehouse
    from cep_pipeline.pipeline.opened import open as open
    from cep_pipeline.pipeline.published_diff import PublishedDiff as PublishedDiff
    from cep_pipeline.planning.clause_plans import ClausePlan as ClausePlan
    from cep_pipeline.planning.clause_plans import PatternPlan as PatternPlan
    from cep_pipeline.planning.costs import COSTS as COSTS
    from cep_pipeline.planning.make_plan import plan as plan
    from cep_pipeline.planning.planners import PLANNERS as PLANNERS
    from cep_pipeline.planning.plans import Plan as Plan
    from cep_pipeline.questions.composed_statistics import estimate_statistics as estimate_statistics
    from cep_pipeline.questions.match_checks import Explanation as Explanation
    from cep_pipeline.questions.match_checks import RuleCheck as RuleCheck
    from cep_pipeline.questions.match_checks import why as why
    from cep_pipeline.questions.near_misses import WhyNot as WhyNot
    from cep_pipeline.questions.near_misses import why_not as why_not
    from cep_pipeline.statistics.observed import NodeCounts as NodeCounts
    from cep_pipeline.statistics.snapshot import StatisticsSnapshot as StatisticsSnapshot

__version__ = VERSION

__getattr__, __dir__ = lazy_names(__name__)
