"""The paths of a buffer: all at once in any order, or one after another in the page's order (language page, section 5).

The order is that of the flat list of seqs, variables in pattern order, which need not be the order of the stream. So
matches are found in a tree of prefixes of that list: a prefix says which events are bound to which variables, and one
pass over the buffer tells whether a path binds just those so far, and which events may come next. A prefix may be read
in several ways, by other variables; those are told apart where the lists of seqs are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.compressed.buffers import Listed, Paths
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import ranges

_useful_edges = NativeKernel(
    "cep_pipeline.detection.compressed.graph_kernels",
    "useful_edges",
    (
        *("int64", "int64", "int64*", "int64*", "int64*", "int64*", "int64", "int64*"),
        *("int64", "int64", "int64", "int64*", "uint8*", "uint8*", "uint8*"),
    ),
)


def all_paths(graphs: Sequence[Paths]) -> tuple[Listed, Array]:
    """The matches of some buffers, in no particular order.

    Returns
    -------
    Listed
        The elements of each match, in pattern order.
    Array
        The number of the buffer of each match.

    Notes
    -----
    All paths are followed backwards from their ends, one edge a step; what they have in common behind a node is held
    once.
    """
    shift = np.cumsum([0, *(graph.nodes for graph in graphs)])
    first = np.cumsum([0, *(len(graph.sources) for graph in graphs)])
    target = np.concatenate([graph.targets + by for graph, by in zip(graphs, shift[:-1], strict=True)]).astype(np.int64)
    source = np.concatenate([graph.sources + by for graph, by in zip(graphs, shift[:-1], strict=True)]).astype(np.int64)
    event = np.concatenate([graph.events for graph in graphs]).astype(np.int64)
    variable = np.concatenate([graph.variables for graph in graphs]).astype(np.int64)
    assert first[-1] == len(target)
    offsets = np.searchsorted(target, np.arange(shift[-1] + 1))
    root = np.zeros(int(shift[-1]), dtype=bool)
    root[shift[:-1]] = True
    node, link, owner = shift[1:] - 1, np.full(len(graphs), -1, np.int64), np.arange(len(graphs))
    entries: list[tuple[Array, Array, Array]] = []
    used = 0
    done: list[tuple[Array, Array]] = []
    while len(node):
        counts = offsets[node + 1] - offsets[node]
        edge = ranges(offsets[node], counts)
        link, owner = np.repeat(link, counts), np.repeat(owner, counts)
        binds = variable[edge] >= 0
        bound = edge[binds]
        entries.append((event[bound], variable[bound], link[binds]))
        link[binds] = np.arange(used, used + len(bound))
        used += len(bound)
        node = source[edge]
        complete = root[node]
        if complete.any():
            done.append((link[complete], owner[complete]))
            node, link, owner = node[~complete], link[~complete], owner[~complete]
    events, variables, following = (np.concatenate(column) for column in zip(*entries, strict=True))
    links = np.concatenate([links for links, _ in done])
    owners = np.concatenate([owners for _, owners in done])
    found: list[tuple[Array, Array]] = []
    match = np.arange(len(links))
    while len(links):
        found.append((match, links))
        links = following[links]
        match, links = match[links >= 0], links[links >= 0]
    matches = np.concatenate([part for part, _ in found])
    elements = np.concatenate([part for _, part in found])
    order = np.lexsort((events[elements], variables[elements], matches))
    elements = elements[order]
    sizes = np.bincount(matches, minlength=len(owners))
    listed = Listed(
        np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))),
        events[elements].astype(np.int32),
        variables[elements].astype(np.int16),
    )
    return listed, owners


@dataclass(frozen=True)
class _Reading:
    """One way to read a prefix: the variable of each event, of the latest one last."""

    events: tuple[int, ...]
    variables: tuple[int, ...]


class OrderedPaths:
    """The matches of one buffer in the page's order, found one by one.

    Parameters
    ----------
    paths
        The buffer's graph.
    seqs
        The seq of each of its events.

    Notes
    -----
    The time between two matches is that of a few passes over the graph for each element in which they differ.
    """

    def __init__(self, paths: Paths, seqs: Array) -> None:
        self._nodes = paths.nodes
        self._sources, self._targets, self._variables, self._events = (
            np.ascontiguousarray(part, np.int64)
            for part in (paths.sources, paths.targets, paths.variables, paths.events)
        )
        self._seqs = seqs.tolist()
        self._fixed = np.full(len(seqs), -1, np.int64)
        self._times = np.zeros(paths.nodes + len(seqs) + 1, np.int64)
        self._forward, self._backward = np.zeros(paths.nodes, np.uint8), np.zeros(paths.nodes, np.uint8)
        self._useful = np.zeros(len(self._sources), np.uint8)
        self._words = self._events << 16 | np.maximum(self._variables, 0)
        self._binding = self._variables >= 0

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The events of each match, and their variables."""
        return self._below([_Reading((), ())])

    def _below(self, readings: list[_Reading]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The matches that begin with a prefix; its readings are in the order of their variables."""
        stack = [iter([readings])]
        while stack:
            readings = next(stack[-1], [])
            if not readings:
                stack.pop()
                continue
            for reading in readings:
                if reading.events and self._passes(reading, exactly=True):
                    yield reading.events, reading.variables
            stack.append(iter(self._longer(readings)))

    def _longer(self, readings: list[_Reading]) -> list[list[_Reading]]:
        """The prefixes with one more event that have matches, by seq."""
        found: dict[int, list[_Reading]] = {}
        for reading in readings:
            if not self._passes(reading, exactly=False):
                continue
            current, latest = (reading.variables[-1], reading.events[-1]) if reading.events else (-1, -1)
            words = self._words[(self._useful != 0) & self._binding]
            for word in np.unique(words).tolist():
                event, variable = word >> 16, word & 0xFFFF
                if self._fixed[event] < 0 and (variable > current or (variable == current and event > latest)):
                    longer = _Reading((*reading.events, event), (*reading.variables, variable))
                    found.setdefault(event, []).append(longer)
        below = []
        for event in sorted(found, key=self._seqs.__getitem__):
            members = [reading for reading in found[event] if self._passes(reading, exactly=False)]
            if members:
                below.append(sorted(members, key=lambda reading: reading.variables))
        return below

    def _passes(self, reading: _Reading, *, exactly: bool) -> bool:
        """Whether a path binds what a reading says, and then perhaps more; marks the useful edges."""
        self._fixed.fill(-1)
        self._fixed[list(reading.events)] = reading.variables
        current, latest = (reading.variables[-1], reading.events[-1]) if reading.events else (-1, -1)
        found = _useful_edges(
            self._nodes,
            len(self._sources),
            self._sources,
            self._targets,
            self._variables,
            self._events,
            len(self._fixed),
            self._fixed,
            current,
            latest,
            int(exactly),
            self._times,
            self._forward,
            self._backward,
            self._useful,
        )
        return bool(found)
