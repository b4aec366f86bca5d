"""Search the components of a workload one after another, within one limit of time and steps (MCEP [0098])."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from cep_pipeline.planning.multi_pattern.local_search import LocalSearch, PositionPlan
from cep_pipeline.planning.multi_pattern.members import Member
from cep_pipeline.planning.multi_pattern.search_problem import SearchProblem
from cep_pipeline.planning.multi_pattern.workload import (
    Plans,
    SearchOptions,
    SearchProgress,
    Workload,
    named_order,
    named_tree,
)
from cep_pipeline.planning.numbers.logarithms import ln_sum
from cep_pipeline.planning.trees import Join, OrderOrTree, PositionTree, as_tree, tree_of_positions

CHUNK = 1000
"""Steps between two looks at the clock; the same number always, as the kernel adds costs up anew between them."""
SLOW_CHUNK = 50
"""The same where each step computes all costs anew."""
TOLD_EVERY_S = 0.05
"""Progress is told no more often."""


@dataclass
class Budget:
    """The steps that the search of one component may take.

    Attributes
    ----------
    steps
        Those that are left; None: no limit.
    seconds
        Those that it has from now on; None: no limit.
    chunk
        Most steps at once.
    tell
        Is called between them.
    """

    steps: int | None
    seconds: float | None
    chunk: int
    tell: Callable[[], None]
    begun: float = field(default_factory=time.monotonic)
    _given: int = field(default=0, init=False)

    @property
    def used(self) -> float:
        """How much of it is used, from 0 to 1: of the steps or of the seconds, of which there is less left."""
        shares = [0.0]
        if self.steps is not None:
            shares.append(self._given / max(self._given + self.steps, 1))
        if self.seconds is not None:
            shares.append((time.monotonic() - self.begun) / self.seconds if self.seconds > 0 else 1.0)
        return min(max(shares), 1.0)

    def take(self) -> int:
        """The steps to take next; 0: the search ends."""
        self.tell()
        if self.seconds is not None and time.monotonic() - self.begun >= self.seconds:
            return 0
        if self.steps is None:
            return self.chunk
        taken = min(self.steps, self.chunk)
        self.steps -= taken
        self._given += taken
        return taken


MetaHeuristic: TypeAlias = Callable[[LocalSearch, Budget], None]
"""Search until the budget is used."""


def search_components(workload: Workload, options: SearchOptions, search_by: MetaHeuristic) -> tuple[Plans, int]:
    """The best plans that a meta-heuristic finds, and the steps that it took.

    Notes
    -----
    Steps and time are shared out by the number of members; time counts from when the workload was given. Members that
    have nothing in common with others keep the plans that they start from.
    """
    components = workload.components
    searches = [search_of(workload, options, number) for number in range(len(components))]
    begun = options.begun
    progress = _Progress(workload, options, searches)
    left = sum(map(len, components))
    steps = options.steps
    for component, search in zip(components, searches, strict=True):
        share = len(component) / left
        seconds = None
        if options.time_limit_s is not None:
            seconds = max(options.time_limit_s - (time.monotonic() - begun), 0.0) * share
        own = None if steps is None else max(math.ceil(steps * share), 0)
        chunk = SLOW_CHUNK if options.recompute else CHUNK
        search_by(search, Budget(own, seconds, chunk, progress.tell))
        steps = None if steps is None else steps - search.steps
        left -= len(component)
    progress.tell(last=True)
    plans = dict(workload.start)
    for component, search in zip(components, searches, strict=True):
        for member, plan in zip(component, search.best(), strict=True):
            plans[member.id] = named_plan(plan, member, trees=workload.trees)
    # The kernel takes the numbers of the first of several sharers; where those of others differ, it may be wrong.
    if workload.ln_cost(plans) > workload.ln_cost(workload.start):
        plans = dict(workload.start)
    return plans, sum(search.steps for search in searches)


def search_of(workload: Workload, options: SearchOptions, number: int) -> LocalSearch:
    """The search of one component, at its start."""
    component = workload.components[number]
    problem = SearchProblem.of(component, workload.local, workload.graph, trees=workload.trees)
    seed = int(np.random.SeedSequence([options.seed, number]).generate_state(1)[0])
    start = [_positions(workload.start[member.id], member, trees=workload.trees) for member in component]
    return LocalSearch(problem, options.neighbourhood, seed, start, recompute=options.recompute)


class _Progress:
    """Tells what all components together have come to."""

    def __init__(self, workload: Workload, options: SearchOptions, searches: Sequence[LocalSearch]) -> None:
        self._options, self._searches, self._begun = options, searches, options.begun
        self._told = -math.inf
        if options.progress is not None:
            searched = {member.id for component in workload.components for member in component}
            self._ln_rest = workload.ln_cost_apart_from(searched)

    def tell(self, *, last: bool = False) -> None:
        now = time.monotonic()
        options = self._options
        if options.progress is None or (now - self._told < TOLD_EVERY_S and not last):
            return
        self._told = now
        steps = sum(search.steps for search in self._searches)
        shares = [float(last)]
        if options.time_limit_s is not None:
            shares.append((now - self._begun) / options.time_limit_s)
        if options.steps is not None:
            shares.append(steps / options.steps)
        ln_cost = ln_sum([self._ln_rest, *(search.ln_best for search in self._searches)])
        options.progress(SearchProgress(now - self._begun, steps, ln_cost, min(max(shares), 1.0)))


def _positions(plan: OrderOrTree | str, member: Member, *, trees: bool) -> PositionPlan:
    names = member.names
    if trees:
        return tree_of_positions(plan if isinstance(plan, str | Join) else as_tree(plan), names)
    assert not isinstance(plan, str | Join)
    return tuple(names.index(name) for name in plan)


def named_plan(plan: PositionPlan, member: Member, *, trees: bool) -> OrderOrTree | str:
    """A plan over places as one over the member's variables."""
    if trees:
        tree: PositionTree = plan  # type: ignore[assignment]
        return named_tree(tree, member.names)
    return named_order(plan, member.names)  # type: ignore[arg-type]
