"""Local search over the shared plans of one component (MCEP [0100]-[0115], [0122]-[0126], [0164]-[0167]).

A neighbour gives some members a sub-pattern in common: each of them gets the cheapest order that begins with one order
of it, or the cheapest tree that contains one tree of it, and, by chance, the subtrees that it shares already. It is
evaluated by the nodes that its members have no more, and those that they have instead: nothing else is looked at, so
that a step takes as long for a thousand patterns as for ten.

A node costs what it costs in the largest window of its users, as a condition passes another share of the pairs in each.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from random import Random

from cep_pipeline.planning.clause_statistics import mask_of
from cep_pipeline.planning.multi_pattern.local_plans import MOST_PLANS, LocalPlans, variables_of
from cep_pipeline.planning.multi_pattern.members import Member, MemberId, Use, common_subpatterns
from cep_pipeline.planning.multi_pattern.workload import Neighbourhood
from cep_pipeline.planning.orderings import joins_of
from cep_pipeline.planning.trees import PositionTree, placed, positions_of

EMPTY_SHARE = 16
"""One of so many neighbours shares nothing new: existing shares are kept or dropped by chance."""
MAX_REDRAWS = 8
"""Most times that a neighbour is drawn again because its members share that subpattern already."""

Moves = Mapping[int, PositionTree]
"""A neighbour: the plans that some members get, by their places."""


class LocalSearch:
    """A search from the cheapest local plans on, or from given ones. A step is a neighbour that is evaluated ([0114]).

    Parameters
    ----------
    members
        Two members or more that share something.
    local
        Their local plans.
    neighbourhood
        What neighbours are.
    seed
        Of the random numbers.
    start
        A plan for each member.
    trees
        Whether plans are trees, or else orders.

    Attributes
    ----------
    plans, best
        The plan of each member now, and in the best plan that was found.
    steps, accepted
        Neighbours evaluated, and those that became the plan.
    threshold
        That of simulated annealing, in the search's own unit.
    """

    def __init__(
        self,
        members: Sequence[Member],
        local: Mapping[MemberId, LocalPlans],
        neighbourhood: Neighbourhood,
        seed: int,
        start: Sequence[PositionTree],
    ) -> None:
        self._windows_of = [member.window for member in members]
        self.members, self._local = members, [local[member.id] for member in members]
        self.trees = self._local[0].trees
        self._ln_scale = max(plans.ln_least for plans in self._local)
        self._costs = [plans.costs(self._ln_scale) for plans in self._local]
        self._together = neighbourhood.together
        self._groups = common_subpatterns(members, 2 if self.trees else 1)
        self._weights = [*accumulate(neighbourhood.weight(len(uses)) for uses in self._groups)]
        self._random = Random(seed)
        self._nodes: list[dict[PositionTree, dict[int, str]]] = [{} for _ in members]
        self._cost_in: dict[tuple[str, int], float] = {}
        self.plans, self.best = list(start), list(start)
        self.steps, self.accepted, self.threshold = 0, 0, 0.0
        self._tabu: dict[int, None] = {}
        self._begin()
        self._cheapest = self._cost

    @property
    def ln_cost(self) -> float:
        """ln of what the plan now costs, without the leaves of trees, which are the same whatever the trees."""
        return math.log(self._cost) + self._ln_scale if self._cost > 0 else -math.inf

    @property
    def ln_best(self) -> float:
        """ln of what the best plan costs that was found."""
        return math.log(self._cheapest) + self._ln_scale if self._cheapest > 0 else -math.inf

    # -- the searches ----------------------------------------------------------------------------------------------

    def probe(self, neighbours: int) -> float:
        """The largest difference of cost among some neighbours of the plan, which stays as it is."""
        self.steps += neighbours
        return max(abs(self._difference(self._neighbour())) for _ in range(neighbours))

    def anneal(self, steps: int) -> None:
        """Simulated annealing ([0165]): a dearer neighbour is taken with probability exp(-difference / threshold)."""
        for _ in range(steps):
            moves = self._neighbour()
            change = self._difference(moves)
            self.steps += 1
            if change <= 0.0 or change < -self.threshold * math.log(1.0 - self._random.random()):
                self._accept(moves, change)

    def tabu(self, neighbours: int, remembered: int) -> None:
        """A move of tabu search ([0166]): the cheapest of some neighbours that were not visited yet, dearer or not."""
        least, chosen = math.inf, dict[int, PositionTree]()
        for _ in range(neighbours):
            moves = self._neighbour()
            change = self._difference(moves)
            if change < least and self._hash_after(moves) not in self._tabu:
                least, chosen = change, moves
        self.steps += neighbours
        if chosen:
            self._accept(chosen, least)
        self._tabu[self._hash_after({})] = None
        if len(self._tabu) > remembered:
            del self._tabu[next(iter(self._tabu))]

    def restart(self) -> None:
        """Go on from the best plan."""
        self.plans = list(self.best)
        self._begin()

    # -- neighbours ------------------------------------------------------------------------------------------------

    def _neighbour(self) -> dict[int, PositionTree]:
        """Draw a neighbour."""
        uses, empty = self._draw(), False
        for _ in range(MAX_REDRAWS):
            empty = self._random.random() * EMPTY_SHARE < 1
            if len(uses) > 1 and (empty or not self._share_already(uses)):
                break
            uses = self._draw()
        # What is shared is alive as long as the largest window says.
        giver = max(uses, key=lambda use: self._windows_of[use.member])
        draft = None if empty else self._draft(giver)
        found = {}
        for use in uses:
            own: tuple[PositionTree, ...] = ()
            if draft is not None:
                own = (placed(draft, dict(zip(giver.slots, use.slots, strict=True))),)
            if self.trees and self._random.random() < 0.5:
                apart = 0 if empty else use.inside
                own += tuple(self._shared_below(use.member, self.plans[use.member], apart))
            found[use.member] = self._local[use.member].cheapest(own)
        return found

    def _draw(self) -> list[Use]:
        """Uses of a sub-pattern by different members, as many as a neighbour changes."""
        uses = self._groups[bisect(self._weights, self._random.random() * self._weights[-1])]
        wanted, found = min(self._together, len(uses)), dict[int, Use]()
        for _ in range(16 * wanted):
            use = uses[int(self._random.random() * len(uses))]
            found.setdefault(use.member, use)
            if len(found) == wanted:
                break
        return [*found.values()]

    def _share_already(self, uses: Iterable[Use]) -> bool:
        """True if the plans of members have one node of a sub-pattern."""
        keys = {self._nodes_of(use.member, self.plans[use.member]).get(use.inside) for use in uses}
        return len(keys) == 1 and None not in keys

    def _draft(self, giver: Use) -> PositionTree:
        """The giver's plan of the sub-pattern: the cheapest one, or the cheapest with what it shares of it already."""
        kept: list[PositionTree] = []
        if self._random.random() < 0.5:
            kept = self._shared_below(giver.member, self.plans[giver.member], ~giver.inside, proper=giver.inside)
        return self._local[giver.member].cheapest(kept, giver.inside)

    def _shared_below(
        self, member: int, tree: PositionTree, apart: int, proper: int | None = None
    ) -> list[PositionTree]:
        """The largest subtrees of a member's tree that others have, too, without some variables."""
        if isinstance(tree, int):
            return []
        inside = variables_of(tree)
        if not inside & apart and inside != proper:
            key = self._nodes_of(member, self.plans[member])[inside]
            if sum(self._windows[key].values()) > 1:
                return [tree]
        return [found for side in tree for found in self._shared_below(member, side, apart, proper)]

    # -- costs -----------------------------------------------------------------------------------------------------

    def _nodes_of(self, member: int, plan: PositionTree) -> dict[int, str]:
        """The nodes of a member's plan: the key of each by its variables."""
        found = self._nodes[member].get(plan)
        if found is None:
            if len(self._nodes[member]) >= MOST_PLANS:
                self._nodes[member].clear()
            forms, costs = self.members[member].forms, self._costs[member]
            found = self._nodes[member][plan] = {}
            if self.trees:
                joins = [*joins_of(plan)]
                keys = [(variables_of(one), variables_of(one[0]), forms.position_key(one)) for one in joins]
            else:
                order = positions_of(plan)
                beginnings = [order[:length] for length in range(1, len(order) + 1)]
                keys = [(mask_of(one), 1 << one[-1], forms.order_key(one)) for one in beginnings]
            for inside, side, key in keys:
                found[inside] = key
                self._cost_in.setdefault((key, self._windows_of[member]), costs.joined(inside, side))
        return found

    def _begin(self) -> None:
        """The windows of each node's users, and the cost of all nodes."""
        self._windows: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for member, plan in enumerate(self.plans):
            window = self._windows_of[member]
            for key in self._nodes_of(member, plan).values():
                self._windows[key][window] = self._windows[key].get(window, 0) + 1
        self._cost = self._cost_anew({})

    def _cost_anew(self, moves: Moves) -> float:
        """The cost of all nodes of the plan, or of a neighbour, each counted once."""
        widest: dict[str, int] = {}
        for member, plan in enumerate(self.plans):
            window = self._windows_of[member]
            for key in self._nodes_of(member, moves.get(member, plan)).values():
                widest[key] = max(widest.get(key, 0), window)
        return math.fsum(self._cost_in[node] for node in widest.items())

    def _changes(self, moves: Moves) -> dict[str, dict[int, int]]:
        """The number of users that nodes win or lose by a neighbour, by windows."""
        changes: dict[str, dict[int, int]] = {}
        for member, plan in moves.items():
            window, now = self._windows_of[member], self.plans[member]
            for number, nodes in ((1, self._nodes_of(member, plan)), (-1, self._nodes_of(member, now))):
                for key in nodes.values() if plan is not now else ():
                    of_key = changes.setdefault(key, {})
                    of_key[window] = of_key.get(window, 0) + number
        return changes

    def _difference(self, moves: Moves) -> float:
        """The difference that a neighbour makes to the cost."""
        terms = []
        for key, changes in self._changes(moves).items():
            if not any(changes.values()):
                continue
            known = self._windows[key]
            after = [window for window in {**known, **changes} if known.get(window, 0) + changes.get(window, 0)]
            before, then = max(known, default=None), max(after, default=None)
            if before != then:
                terms += [0.0 if then is None else self._cost_in[key, then]]
                terms += [0.0 if before is None else -self._cost_in[key, before]]
        return math.fsum(terms)

    def _accept(self, moves: Moves, change: float) -> None:
        for key, changes in self._changes(moves).items():
            known = self._windows[key]
            for window, number in changes.items():
                known[window] = known.get(window, 0) + number
                if not known[window]:
                    del known[window]
            if not known:
                del self._windows[key]
        for member, plan in moves.items():
            self.plans[member] = plan
        self.accepted += 1
        self._cost += change
        if self._cost < self._cheapest * (1.0 - 1e-12):
            self._cheapest, self.best = self._cost, list(self.plans)

    def _hash_after(self, moves: Moves) -> int:
        return hash(tuple(moves.get(member, plan) for member, plan in enumerate(self.plans)))
