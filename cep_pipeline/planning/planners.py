"""The planners by name, one record each: `PLANNERS` of one pattern, `MULTI_PATTERN_PLANNERS` of many together.

To add a planner of one pattern, write its function in `planning/algorithms` and its record here: the commands' help,
comparisons of planners, plans for mechanisms without trees and checks of invariants follow the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any

from cep_pipeline.errors import InputError

BY_PLANNER = "planner"
"""The word in place of a number of invariants of each block that stands for the planner's own."""
DEFAULT_PLANNER = "dp_left_deep"
"""The planner that is taken where none is asked for."""

_algorithm = cache(resolve_name)
_LOCAL_SEARCH = "local search improves whole orders: none of its comparisons is of one block"
_KEPT = "the pattern's order is kept whatever the statistics"
_TOGETHER = "the plans of all patterns together decided, not a comparison of blocks"


@dataclass(frozen=True, slots=True)
class Planner:
    """A planner of one pattern, or of many together.

    Attributes
    ----------
    name, summary
        The name in configurations and commands, and a line for people.
    function
        Module and name of the algorithm, which is imported when it is first called.
    makes_trees
        It makes trees, which some mechanisms do not run.
    invariants_a_block
        So many of the comparisons of a block are invariants, the tightest ones, where nothing else is asked for. Behind
        the tightest one of dynamic programming another often comes out otherwise first: by one a block plans were
        0.9 % to 2.5 % dearer than those made anew at every check, by these numbers less than 0.1 %, but for orders on
        `lazy_chain_nfa` (0.6 %).
    compared_up_to
        It is not run merely for comparison with another planner on clauses of more variables (None: no limit). Up to
        this size it takes a few hundredths of a second.
    without_invariants_because
        The reason why its plans have no invariants; empty where they have.
    keeps_order
        Its plan is the same on any statistics.
    searches
        It is a local search over the plans of many patterns, which goes on for as long as it may.
    shares
        Its plans of many patterns share nodes.
    """

    name: str
    summary: str
    function: str
    makes_trees: bool = False
    invariants_a_block: int = 1
    compared_up_to: int | None = None
    without_invariants_because: str = ""
    keeps_order: bool = False
    searches: bool = False
    shares: bool = True

    def __call__(self, numbers: Any, by: Any) -> Any:
        """The `Ordering` or `TreeOrdering` of a clause by its `ClauseStatistics` and a `CostModel`.

        Of many patterns: the order or tree of each clause by a `Workload` and `SearchOptions`, and the number of steps
        of the search.
        """
        return _algorithm(self.function)(numbers, by)


_ALGORITHMS = "cep_pipeline.planning.algorithms"
PLANNERS: dict[str, Planner] = {
    planner.name: planner
    for planner in (
        Planner(
            "trivial",
            "the pattern's own order",
            f"{_ALGORITHMS}.heuristics:trivial_order",
            without_invariants_because=_KEPT,
            keeps_order=True,
        ),
        Planner(
            "event_frequency",
            "the rarest event first",
            f"{_ALGORITHMS}.heuristics:event_frequency_order",
        ),
        Planner(
            "greedy",
            "at each step the cheapest next variable",
            f"{_ALGORITHMS}.heuristics:greedy_order",
        ),
        Planner(
            "ii_random",
            "local search from random orders",
            f"{_ALGORITHMS}.heuristics:ii_random_order",
            compared_up_to=14,
            without_invariants_because=_LOCAL_SEARCH,
        ),
        Planner(
            "ii_greedy",
            "local search from the greedy order",
            f"{_ALGORITHMS}.heuristics:ii_greedy_order",
            compared_up_to=14,
            without_invariants_because=_LOCAL_SEARCH,
        ),
        Planner(
            "dp_left_deep",
            "the cheapest order, exactly",
            f"{_ALGORITHMS}.dynamic_programming:dp_left_deep_order",
            invariants_a_block=3,
            compared_up_to=16,
        ),
        Planner(
            "zstream",
            "the cheapest tree over the pattern's order",
            f"{_ALGORITHMS}.zstream:zstream_tree",
            makes_trees=True,
            invariants_a_block=2,
            compared_up_to=40,
        ),
        Planner(
            "zstream_ordered",
            "the cheapest tree over the greedy order",
            f"{_ALGORITHMS}.zstream:zstream_ordered_tree",
            makes_trees=True,
            invariants_a_block=2,
            compared_up_to=40,
        ),
        Planner(
            "dp_bushy",
            "the cheapest tree, exactly",
            f"{_ALGORITHMS}.dynamic_programming:dp_bushy_tree",
            makes_trees=True,
            invariants_a_block=3,
            compared_up_to=14,
        ),
    )
}

_SEARCH = "cep_pipeline.planning.multi_pattern.search_planners"
_BASELINES = "cep_pipeline.planning.multi_pattern.baselines"
MULTI_PATTERN_PLANNERS: dict[str, Planner] = {
    planner.name: planner
    for planner in (
        Planner(
            "simulated_annealing",
            "search for the cheapest shared plan by simulated annealing",
            f"{_SEARCH}:simulated_annealing",
            searches=True,
            without_invariants_because=_TOGETHER,
        ),
        Planner(
            "tabu",
            "search for it by tabu search",
            f"{_SEARCH}:tabu",
            searches=True,
            without_invariants_because=_TOGETHER,
        ),
        Planner(
            "none",
            "each pattern in its own order, nothing shared",
            f"{_BASELINES}:none",
            shares=False,
            without_invariants_because=_KEPT,
            keeps_order=True,
        ),
        Planner(
            "sharing",
            "each pattern in its own order, equal parts shared",
            f"{_BASELINES}:sharing",
            without_invariants_because=_KEPT,
            keeps_order=True,
        ),
        Planner(
            "reordering",
            "the greedy order of each pattern, nothing shared",
            f"{_BASELINES}:reordering",
            shares=False,
            without_invariants_because=_TOGETHER,
        ),
        Planner(
            "redundancy_ratio",
            "shared blocks chosen by their redundancy",
            f"{_BASELINES}:redundancy_ratio",
            without_invariants_because=_TOGETHER,
        ),
        Planner(
            "merge_decomposition",
            "shared blocks merged one after another",
            f"{_BASELINES}:merge_decomposition",
            without_invariants_because=_TOGETHER,
        ),
    )
}
"""The local searches, and the planners that they are measured against."""

MULTI_PATTERN_PLANNER_NAMES = tuple(MULTI_PATTERN_PLANNERS)
LOCAL_SEARCHES = frozenset(name for name, planner in MULTI_PATTERN_PLANNERS.items() if planner.searches)


def without_invariants_because(name: str) -> str:
    """The reason why the plans of a planner have no invariants; empty where they have, or the planner is unknown."""
    planner = PLANNERS.get(name) or MULTI_PATTERN_PLANNERS.get(name)
    return "" if planner is None else planner.without_invariants_because


def invariants_a_block(name: str, k: int | str | None) -> int | None:
    """The number of comparisons of a block that are invariants of a planner's plans (None: all), where k are asked for.

    Examples
    --------
    >>> invariants_a_block("dp_bushy", "planner"), invariants_a_block("dp_bushy", 1)
    (3, 1)
    """
    if not isinstance(k, str):
        return k
    return PLANNERS[name].invariants_a_block if name in PLANNERS else None


def keeps_order(name: str) -> bool:
    """True if a planner makes the same plan on any statistics, so that planning again changes nothing."""
    planner = PLANNERS.get(name) or MULTI_PATTERN_PLANNERS.get(name)
    return planner is not None and planner.keeps_order


def check_planner(name: str) -> None:
    """Refuse a name that is no planner's, of one pattern or of many; InputError lists the known ones."""
    if name not in MULTI_PATTERN_PLANNERS:
        planner_named(name)


def planner_named(name: str) -> Planner:
    """The planner of this name, of one pattern; InputError lists the known ones otherwise."""
    if name in MULTI_PATTERN_PLANNERS:
        raise InputError(f"planner {name!r} plans many patterns together; of one there are: {', '.join(PLANNERS)}")
    if name not in PLANNERS:
        known = ", ".join((*PLANNERS, *MULTI_PATTERN_PLANNERS))
        raise InputError(f"there is no planner {name!r}; there are: {known}")
    return PLANNERS[name]


def planners_text() -> str:
    """The planners as lines for people, for the help of commands.

    Examples
    --------
    >>> print(planners_text().split("Planners of trees")[0].strip())
    Planners of orders:
      trivial              the pattern's own order
      event_frequency      the rarest event first
      greedy               at each step the cheapest next variable
      ii_random            local search from random orders
      ii_greedy            local search from the greedy order
      dp_left_deep         the cheapest order, exactly
    """
    groups: dict[str, list[Planner]] = {
        "Planners of orders": [planner for planner in PLANNERS.values() if not planner.makes_trees],
        "Planners of trees": [planner for planner in PLANNERS.values() if planner.makes_trees],
        "Planners of all patterns together, so that they share work": [*MULTI_PATTERN_PLANNERS.values()],
    }
    lines = []
    for title, planners in groups.items():
        lines += [f"{title}:", *(f"  {planner.name:<20} {planner.summary}" for planner in planners)]
    return "\n".join(lines)
