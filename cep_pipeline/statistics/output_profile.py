"""The output profiler: which event of a reported match mostly comes last (JQPG section 6.1).

The latency of a plan depends on which event comes last, and a conjunction does not say which. The profiler looks at the
matches that are reported and counts which variable's event ends them, so that the latency cost model can go by it.

Differs from the paper, which keeps the most frequent orders of all events: of these the cost model asks for the last
event only, and many rare orders may end with the same variable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

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
