"""Plans: how the patterns of a stream are run, what that costs, and the algorithms that find the cheapest way.

    snapshot of statistics > numbers of a clause > planner (a search by a cost model) > order or tree > Plan > explain

| module | content |
| --- | --- |
| `make_plan` | `plan`: from patterns and statistics to a `Plan`; planning again and again, and by all planners |
| `planned_clauses` | the plan of a clause, made of the order or tree that a planner found, with expected numbers |
| `plans`, `clause_plans` | the plan as data, with its JSON form and its text for people |
| `trees`, `orderings` | trees and orders, what they cost, and the comparisons that decided them |
| `planners` | one record a planner; a new planner is added there |
| `algorithms/` | the planners, the search behind the exact ones, and what is taken beyond its budget |
| `costs` | cost models |
| `clause_statistics`, `clause_questions` | the numbers of a clause, and the questions to a snapshot that they answer |
| `multi_pattern/` | plans of many patterns that share work |
"""

from typing import TYPE_CHECKING

from cep_pipeline.lazy_names import lazy_names

if TYPE_CHECKING:  # the names of the package, each imported when it is first used
    from cep_pipeline.planning.clause_plans import ClausePlan as ClausePlan
    from cep_pipeline.planning.clause_plans import PatternPlan as PatternPlan
    from cep_pipeline.planning.costs import COSTS as COSTS
    from cep_pipeline.planning.make_plan import plan as plan
    from cep_pipeline.planning.planners import PLANNERS as PLANNERS
    from cep_pipeline.planning.plans import Plan as Plan
    from cep_pipeline.planning.plans import validate as validate
    from cep_pipeline.planning.trees import Join as Join

__getattr__, __dir__ = lazy_names(__name__)
