"""The paths of a buffer in the page's order, where that is the order of the stream: of SEQ patterns, mostly.

Every node of a buffer leads to a match, so that a walk from its beginning, which tries the next events in order, never
turns back without having found one.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter

from cep_pipeline.detection.compressed.buffers import Paths
from cep_pipeline.expressions.columns import Array

Step = tuple[int, int, int]
"""An event, the variable that it is bound to, and the node behind."""
_Thread = tuple[int, tuple[int, ...]]
"""A node, and the variables on the way to it: the events on the way are those of all threads of a prefix."""


class StreamOrderedPaths:
    """The matches of one buffer one by one, by walks along the stream.

    Notes
    -----
    The time between two matches is that of the events in which they differ.
    """

    def __init__(self, binding: list[list[Step]], ignoring: list[int]) -> None:
        self._binding, self._ignoring = binding, ignoring

    @classmethod
    def of(cls, paths: Paths, seqs: Array) -> StreamOrderedPaths | None:
        """The walks of a buffer; None where the page's order is another one.

        Parameters
        ----------
        seqs
            The seq of each event.
        """
        if (seqs[1:] < seqs[:-1]).any():
            return None
        binding: list[list[Step]] = [[] for _ in range(paths.nodes)]
        ignoring = [-1] * paths.nodes
        greatest = [-1] * paths.nodes
        columns = (paths.sources, paths.targets, paths.events, paths.variables)
        for source, target, event, variable in zip(*(column.tolist() for column in columns), strict=True):
            if variable < 0:
                if ignoring[source] >= 0:
                    return None
                ignoring[source] = target
            elif variable < greatest[source]:
                return None  # a variable that stands before another one in the pattern has an event behind it
            else:
                binding[source].append((event, variable, target))
            greatest[target] = max(greatest[target], greatest[source], variable)
        for steps in binding:
            steps.sort()
        return cls(binding, ignoring)

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The events of each match, and their variables."""
        end = len(self._binding) - 1
        events: list[int] = []
        stack = [self._children([(0, ())])]
        while stack:
            child = next(stack[-1], None)
            if child is None:
                stack.pop()
                if events:
                    events.pop()
                continue
            event, threads = child
            events.append(event)
            complete = sorted(variables for node, variables in threads if node == end)
            for variables in complete:
                yield tuple(events), variables
            stack.append(self._children([thread for thread in threads if thread[0] != end]))

    def _children(self, threads: list[_Thread]) -> Iterator[tuple[int, list[_Thread]]]:
        """Each next event with the threads that bind it."""
        walks = [self._steps(node, variables) for node, variables in threads]
        steps = walks[0] if len(walks) == 1 else merge(*walks, key=itemgetter(0))
        for event, alike in groupby(steps, key=itemgetter(0)):
            yield event, [(node, variables) for _, node, variables in alike]

    def _steps(self, node: int, variables: tuple[int, ...]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """What a run at a node may bind next, in the order of the stream."""
        while node >= 0:
            for event, variable, target in self._binding[node]:
                yield event, target, (*variables, variable)
            node = self._ignoring[node]
