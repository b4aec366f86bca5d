"""The connected parts of a graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Member = TypeVar("Member", int, str)


def connected_parts(members: Iterable[Member], edges: Iterable[tuple[Member, Member]]) -> list[tuple[Member, ...]]:
    """The parts of a graph that are connected, each in ascending order, those with the smallest members first.

    Examples
    --------
    >>> connected_parts("abcde", [("d", "a"), ("e", "d")])
    [('a', 'd', 'e'), ('b',), ('c',)]
    """
    above = {member: member for member in members}

    def top(member: Member) -> Member:
        while above[member] != member:
            above[member] = above[above[member]]
            member = above[member]
        return member

    for one, other in edges:
        above[top(one)] = top(other)
    found: dict[Member, list[Member]] = {}
    for member in above:
        found.setdefault(top(member), []).append(member)
    return sorted(tuple(sorted(part)) for part in found.values())
