"""Networks that are kept: a plan is run over slice after slice, and what it is made of has no part in events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cep_pipeline.detection.instances.condition_groups import ConditionGroups
from cep_pipeline.detection.instances.program import may_match
from cep_pipeline.detection.shared_network.member_parts import parts_of
from cep_pipeline.detection.shared_network.network import Network
from cep_pipeline.planning.multi_pattern import Member, MemberId, Sharing, share
from cep_pipeline.planning.trees import OrderOrTree
from cep_pipeline.slices.prepared import PreparedEvents

MOST_NODES = 1 << 14
"""Nodes of the networks that are kept; those that were not asked for longest go first."""


@dataclass(frozen=True, eq=False)
class PlannedNetwork:
    """The network of a plan, whatever the events.

    Attributes
    ----------
    members
        Those that may have matches.
    groups
        Of each the groups of conjuncts that nodes and negations test: all that there will ever be.
    """

    network: Network
    members: Mapping[MemberId, Member]
    groups: Mapping[MemberId, ConditionGroups]


@dataclass(frozen=True)
class _Asked:
    """What a network is asked for by. It is hashed once: there are many trees in it."""

    members: tuple[Member, ...]
    plans: tuple[OrderOrTree, ...]
    sharing: Sharing
    possible: tuple[bool, ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.members, self.plans, self.sharing, self.possible))

    def __hash__(self) -> int:
        return self._hash


class KeptNetworks:
    """The networks that were asked for last.

    Parameters
    ----------
    most_nodes
        Nodes that they have together, unless one has more by itself.
    """

    def __init__(self, most_nodes: int) -> None:
        self._most = most_nodes
        self._nodes = 0
        self._kept: OrderedDict[_Asked, PlannedNetwork] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def network(
        self, members: Sequence[Member], plans: Sequence[OrderOrTree], sharing: Sharing, events: PreparedEvents
    ) -> PlannedNetwork:
        """As `network_of`."""
        # A clause with a condition that never holds has no matches; shared nodes are not written in its variables.
        possible = tuple(may_match(parts_of(member).conditions, events) for member in members)
        orders = tuple(tuple(plan) if isinstance(plan, list) else plan for plan in plans)
        asked = _Asked(tuple(members), orders, sharing, possible)
        known = self._kept.get(asked)
        if known is not None:
            self._kept.move_to_end(asked)
            return known
        known = self._kept[asked] = _made(asked)
        self._nodes += len(known.network.nodes)
        while self._nodes > self._most and len(self._kept) > 1:
            self._nodes -= len(self._kept.popitem(last=False)[1].network.nodes)
        return known


_networks = KeptNetworks(MOST_NODES)


def network_of(
    members: Sequence[Member], plans: Sequence[OrderOrTree], sharing: Sharing, events: PreparedEvents
) -> PlannedNetwork:
    """The network of members by their orders or trees; the same again where it has been asked for before.

    Raises
    ------
    PlanError
        An order or a tree does not fit its member, or is not run where plans are shared so.
    """
    return _networks.network(members, plans, sharing, events)


def _made(asked: _Asked) -> PlannedNetwork:
    taken, sharing = [], asked.sharing
    for member, plan, may_have_matches in zip(asked.members, asked.plans, asked.possible, strict=True):
        if may_have_matches:
            taken.append((member, plan))
        else:
            share([member], [plan], sharing)  # only refuses a plan that does not fit
    shared = share([member for member, _ in taken], [plan for _, plan in taken], sharing)
    groups = {member.id: ConditionGroups(parts_of(member).conditions) for member, _ in taken}
    network = Network(shared, groups)
    for member, _ in taken:
        for variable in member.clause.negated:
            groups[member.id].rejecting_group(variable.name)
    return PlannedNetwork(network, {member.id: member for member, _ in taken}, groups)
