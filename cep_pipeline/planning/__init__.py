"""Plans: what they are, what they cost, and the algorithms that find them."""

from cep_pipeline.planning.clause_plans import ClausePlan, PatternPlan
from cep_pipeline.planning.costs import COSTS
from cep_pipeline.planning.make_plan import plan, plan_by_strategy
from cep_pipeline.planning.planners import PLANNERS
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.planning.trees import Join

__all__ = ["COSTS", "PLANNERS", "ClausePlan", "Join", "PatternPlan", "Plan", "plan", "plan_by_strategy", "validate"]
