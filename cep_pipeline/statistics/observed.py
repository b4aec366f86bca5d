"""The observations of detection: candidates and passes of plan nodes, and the last events of matches.

They cost nothing to count. The output profiler says which event of a reported match mostly comes last (JQPG section
6.1): the latency of a plan depends on that, and a conjunction does not say it. Its counts are published with the day,
and the next day's plans go by them, where latency counts (`Observed.profiles_of`).

Differs from the paper, which keeps the most frequent orders of all events: of these the cost model asks for the last
event only, and many rare orders may end with the same variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern


@dataclass(frozen=True)
class OutputProfile:
    """The last events of the matches of the clauses of a pattern that bind the same variables.

    Attributes
    ----------
    pattern, variables
        Name of the pattern, and the positive variables in pattern order.
    last
        For each variable, in how many matches its event is the last.
    """

    pattern: str
    variables: tuple[str, ...]
    last: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.last) != len(self.variables) or any(count < 0 for count in self.last):
            raise ValueError(f"profile of {self.pattern!r}: each variable is the last one of so many matches")

    @property
    def matches(self) -> int:
        """The number of matches that were looked at."""
        return sum(self.last)

    @property
    def likely_last(self) -> str | None:
        """The variable that is the last one most often, of equals the pattern's last one; None without a match."""
        if not self.matches:
            return None
        return self.variables[max(range(len(self.last)), key=lambda position: (self.last[position], position))]

    def last_share(self, variable: str) -> float:
        """Share of the matches in which the variable's event is the last."""
        return self.last[self.variables.index(variable)] / max(self.matches, 1)


class OutputProfiler:
    """Counts the last events of matches as they are reported.

    Parameters
    ----------
    patterns
        Those whose matches it is shown. What the structure puts in order is not counted: only clauses are looked at
        where it leaves open which event comes last.
    """

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._profiles: list[OutputProfile] = []
        self._patterns: dict[str, list[tuple[str, ...]]] = {}
        for pattern in patterns:
            if any(map(is_open, pattern.clauses)):
                self._patterns[pattern.name] = sorted({_names(one) for one in pattern.clauses if is_open(one)})

    def add_rows(self, pattern: str, matches: pa.RecordBatch | pa.Table) -> None:
        """Count the matches of a pattern as rows of a table, by their column `bindings`."""
        if not matches.num_rows or pattern not in self._patterns:
            return
        bindings = matches.column("bindings")
        for chunk in bindings.chunks if isinstance(bindings, pa.ChunkedArray) else [bindings]:
            if len(chunk):
                self._add_bindings(pattern, chunk)

    def _add_bindings(self, pattern: str, bindings: pa.ListArray) -> None:
        elements = bindings.flatten()
        encoded = elements.field("variable").dictionary_encode()
        names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        seqs, offsets = elements.field("seq").to_numpy(), bindings.offsets.to_numpy()
        begins = offsets[:-1] - offsets[0]
        # Each match binds an event once: one of its elements has the highest seq.
        last = codes[seqs == np.repeat(np.maximum.reduceat(seqs, begins), np.diff(offsets))]
        bound = np.zeros((len(bindings), len(names)), bool)
        bound[np.repeat(np.arange(len(bindings)), np.diff(offsets)), codes] = True
        for own in self._patterns[pattern]:
            binds = [name in own for name in names]
            if sum(binds) == len(own):
                counts = np.bincount(last[(bound == binds).all(axis=1)], minlength=len(names))
                self._profiles.append(OutputProfile(pattern, own, tuple(int(counts[names.index(one)]) for one in own)))

    def profiles(self) -> tuple[OutputProfile, ...]:
        """The profiles of clauses with at least one match."""
        return tuple(profile for profile in merge_profiles(self._profiles) if profile.matches)


def merge_profiles(profiles: Iterable[OutputProfile]) -> tuple[OutputProfile, ...]:
    """The profiles of slices or days together, one for each pattern and its variables."""
    merged: dict[tuple[str, tuple[str, ...]], tuple[int, ...]] = {}
    for one in profiles:
        before = merged.get((one.pattern, one.variables), (0,) * len(one.variables))
        merged[one.pattern, one.variables] = tuple(map(sum, zip(before, one.last, strict=True)))
    return tuple(OutputProfile(*names, last) for names, last in merged.items())


def is_open(clause: Clause) -> bool:
    """True where the structure leaves open which variable's event comes last."""
    names = _names(clause)
    return not any(all(other == name or (other, name) in clause.precedence for other in names) for name in names)


def _names(clause: Clause) -> tuple[str, ...]:
    return tuple(variable.name for variable in clause.positive)


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """The counts of one node of a plan.

    Attributes
    ----------
    pattern, clause, node
        The pattern's name, the index of the clause, and the variables bound at the node, in plan order.
    candidates
        Tuples of events in order and window that the conditions were tested on.
    passes
        Those for which they held.
    created
        Partial matches stored; a kernel that stores none counts 0.
    tested
        The conjuncts that alone decided which candidates pass; all others over the node's variables held of each
        candidate. None where something else decided too (order, window, a negated variable, which slice owns a match),
        or not the same conjuncts each time: passes / candidates is then no share of conjuncts.
    shared_with
        Where patterns are run together, the other places of their plans that this node stands for, each as pattern,
        clause and variables in the order of `node`: what happened there is counted here, once.
    """

    pattern: str
    clause: int
    node: tuple[str, ...]
    candidates: int
    passes: int
    created: int = 0
    tested: tuple[Conjunct, ...] | None = field(default=None, compare=False)
    shared_with: tuple[tuple[str, int, tuple[str, ...]], ...] = ()

    def plus(self, other: NodeCounts) -> NodeCounts:
        """Add the counts of the node over another part of the stream."""
        return NodeCounts(
            self.pattern,
            self.clause,
            self.node,
            self.candidates + other.candidates,
            self.passes + other.passes,
            self.created + other.created,
            self._tested_with(other),
            tuple(dict.fromkeys((*self.shared_with, *other.shared_with))),
        )

    def _tested_with(self, other: NodeCounts) -> tuple[Conjunct, ...] | None:
        """The conjuncts that decided about the candidates of both; where one has none, those of the other."""
        if self.candidates and other.candidates:
            return self.tested if self.tested == other.tested else None
        return self.tested if self.candidates else other.tested


VERSION = 2
"""Version of the JSON form."""


@dataclass(frozen=True)
class Observed:
    """The observations of a day's detection: the last events of its matches."""

    profiles: tuple[OutputProfile, ...]

    def __bool__(self) -> bool:
        return bool(self.profiles)

    def profiles_of(self, patterns: Iterable[Pattern]) -> tuple[OutputProfile, ...]:
        """The output profiles of clauses of these patterns."""
        names = {(one.name, tuple(v.name for v in clause.positive)) for one in patterns for clause in one.clauses}
        return tuple(profile for profile in self.profiles if (profile.pattern, profile.variables) in names)

    def to_json(self) -> dict[str, Any]:
        """The observations as JSON values, with their version."""
        from cep_pipeline.documents import in_json

        return {"version": VERSION, **in_json(self)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "what detection observed") -> Observed:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            `content` is of another version, or something else; `source` names it in the message.
        """
        from cep_pipeline.documents import check_version, read_as

        check_version(content, VERSION, what := "record of what detection observed", source)
        # Earlier records have the counts of plan nodes as well.
        own = {name: value for name, value in content.items() if name not in ("version", "observations")}
        found: Observed = read_as(cls, own, f"no {what}", source, "detect the day again")
        return found
