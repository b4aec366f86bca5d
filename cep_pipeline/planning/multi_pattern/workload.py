"""The input of planners of many patterns: a `Workload` of members with their numbers, and the options of searches.

A `Neighbourhood` says how many members get a sub-pattern in common at once (MCEP [0111]-[0113]).
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from cep_pipeline.errors import InputError
from cep_pipeline.planning.algorithms.dynamic_programming import dp_bushy_tree, dp_left_deep_order
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import THROUGHPUT, CostModel
from cep_pipeline.planning.multi_pattern.costs import ln_cost
from cep_pipeline.planning.multi_pattern.local_plans import MAX_VARIABLES, LocalPlans, named_plan
from cep_pipeline.planning.multi_pattern.members import Member, MemberId, components
from cep_pipeline.planning.multi_pattern.shared_plan import SharedPlan, share
from cep_pipeline.planning.orderings import named_over
from cep_pipeline.planning.trees import OrderOrTree

MAX_TOGETHER = 64
"""Limit of the members that a neighbour of `vertex:k` changes."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A neighbourhood function.

    Attributes
    ----------
    name
        `edge`, or `vertex:k`.
    together
        How many members a neighbour changes: 2, or up to k.

    Notes
    -----
    N_edge draws an edge and one of its common subpatterns, each such pair as often as any other; N_vertex^k draws a
    member, a subpattern that it has in common with some other, and up to k - 1 others that have it.

    Examples
    --------
    >>> Neighbourhood.of("vertex:4")
    Neighbourhood(name='vertex:4', together=4)
    """

    name: str
    together: int

    @classmethod
    def of(cls, name: str) -> Neighbourhood:
        """The neighbourhood of this name.

        Raises
        ------
        InputError
            There is none.
        """
        if name == "edge":
            return cls(name, 2)
        kind, _, number = name.partition(":")
        if kind == "vertex" and number.isascii() and number.isdigit() and 2 <= int(number) <= MAX_TOGETHER:
            return cls(name, int(number))
        raise InputError(
            f"there is no neighbourhood {name!r}; there are: edge, and vertex:K with K from 2 to {MAX_TOGETHER}"
        )

    def weight(self, uses: int) -> float:
        """The weight with which a sub-pattern with this many uses is drawn."""
        return float(math.comb(uses, 2) if self.name == "edge" else uses)


Plans: TypeAlias = dict[MemberId, "OrderOrTree | str"]
"""The order or tree of each member."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The limits and settings of a local search.

    Attributes
    ----------
    neighbourhood
        What neighbours are.
    time_limit_s, steps
        It ends when this time has passed, or after so many steps, whichever comes first; None: no such limit, but not
        both.
    seed
        Of its random numbers: with a limit of steps alone it finds the same plan each time.
    begun
        When its time began, by the monotonic clock.
    idle_steps
        The search of patterns that are connected ends when so many of its steps have found nothing cheaper (MCEP
        [0167]), before its limits; None: it does not.
    """

    neighbourhood: Neighbourhood
    time_limit_s: float | None
    steps: int | None = None
    seed: int = 0
    begun: float = field(default_factory=time.monotonic)
    idle_steps: int | None = None

    def __post_init__(self) -> None:
        if self.time_limit_s is None and self.steps is None:
            raise InputError("a search ends: it has a limit of time or of steps")
        if self.time_limit_s is not None and not 0 < self.time_limit_s < math.inf:
            raise InputError(f"the time limit of a search is {self.time_limit_s} s: it is above 0")
        if self.steps is not None and self.steps < 1:
            raise InputError(f"a search of {self.steps} steps: it has 1 or more")
        if self.idle_steps is not None and self.idle_steps < 1:
            raise InputError(f"a search ends after {self.idle_steps} steps that find nothing cheaper: it is 1 or more")
        if self.seed < 0:
            raise InputError(f"the seed of a search is {self.seed}: it is 0 or more")


@dataclass(eq=False)
class Workload:
    """The input of planners of many patterns: the members, their statistics, and the costs of their nodes.

    Attributes
    ----------
    members, statistics
        All members, and the numbers of each.
    sharing
        What is shared.
    given
        Orders or trees from which a search begins.
    in_pattern_order
        Names of patterns that keep their order.
    model
        What plans cost by: one of `SHARED_COSTS`.
    """

    members: tuple[Member, ...]
    statistics: Mapping[MemberId, ClauseStatistics]
    sharing: Sharing
    given: Mapping[MemberId, OrderOrTree | str] = field(default_factory=dict)
    in_pattern_order: Collection[str] = ()
    model: CostModel = THROUGHPUT

    def keeps_order(self, member: Member) -> bool:
        """True if a member runs in the pattern's order only: it is asked to, or its strategy does."""
        pattern = member.pattern
        return pattern.name in self.in_pattern_order or not pattern.strategy.forks

    @property
    def trees(self) -> bool:
        """True if members are planned by trees."""
        return self.sharing != "prefix"

    @cached_property
    def by_id(self) -> dict[MemberId, Member]:
        """The members by their ids."""
        return {member.id: member for member in self.members}

    @cached_property
    def local(self) -> dict[MemberId, LocalPlans]:
        """The local plans of the members that are planned together.

        Others keep the pattern's order, or are planned alone as they have more than `MAX_VARIABLES` variables.
        """
        return {
            member.id: LocalPlans(self.statistics[member.id], self.model, self.trees)
            for member in self.members
            if not self.keeps_order(member) and len(member.names) <= MAX_VARIABLES
        }

    @cached_property
    def start(self) -> Plans:
        """The plans to start from: the cheapest plan of each member (MCEP [0115]), or the given ones of a component.

        Those are taken where they cost no more, by what their members share.
        """
        found = {member.id: self.cheapest(member) for member in self.members}
        for component in self.components:
            own = {member.id: found[member.id] for member in component}
            given = own | {name: self.given[name] for name in own if name in self.given}
            if self.ln_cost(given) <= self.ln_cost(own):
                found |= given
        return found

    def cheapest(self, member: Member) -> OrderOrTree | str:
        """The cheapest plan of a member by itself; the pattern's order where it is kept."""
        if self.keeps_order(member):
            return member.names
        local = self.local.get(member.id)
        if local is not None:
            return named_plan(local.cheapest(), member.names, trees=self.trees)
        found = (dp_bushy_tree if self.trees else dp_left_deep_order)(self.statistics[member.id], self.model)
        return named_over(found, member.names)

    @cached_property
    def components(self) -> list[tuple[Member, ...]]:
        """The members that are searched together: those of each component with two members or more."""
        together = [(member.id, member) for member in self.members if member.id in self.local]
        connected = components(self.local, together, 2 if self.trees else 1)
        return [tuple(self.by_id[name] for name in names) for names in connected if len(names) > 1]

    def shared(self, plans: Plans) -> SharedPlan:
        """The shared plan of all members, or of some."""
        some = [member for member in self.members if member.id in plans]
        return share(some, (plans[member.id] for member in some), self.sharing)

    def ln_cost(self, plans: Plans) -> float:
        """ln of what the plan of all members, or of some, costs."""
        return ln_cost(self.shared(plans), self.statistics, self.model)
