"""Patterns drawn over a stream: each event has to be above the one before by as much as makes a selectivity."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.experiments.adaptation.streams import COMPARED, FLAPPING, TIED, Floats, JobStream
from benchmarks.experiments.join_plans.patterns import variable_names
from cep_pipeline.detection.detect import detect
from cep_pipeline.errors import InputError
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

DRAWN_PAIRS = 20_000
"""Pairs of events by which it is said how far above the one before the next event has to be."""
SHARED_PAIRS = 40
"""Pairs of types that the patterns of a set begin with: that is what they share."""
SEQUENCES = 0.6
"""The share of sequences in a set; the others are conjunctions."""
TRIED = 2
"""Matches are counted in one of so many jobs."""
MOST_DRAWS = 20
"""Most patterns that are drawn, for each pattern of a set."""


class PatternDrawing:
    """Patterns of one stream. Two neighbours of the same types always have the same condition.

    Parameters
    ----------
    stream
        Its first job says how far numbers of its types are from each other.
    window_s
        Of all patterns.
    selectivities
        Between which those of conditions are drawn, evenly by their logarithms.
    seed
        Of all draws.
    """

    def __init__(self, stream: JobStream, window_s: int, selectivities: tuple[float, float], seed: int) -> None:
        self._stream, self._window_s, self._selectivities = stream, window_s, selectivities
        self._random = np.random.default_rng((seed, 7))
        self._least: dict[tuple[str, str, str], float] = {}
        self._values: dict[tuple[str, str], Floats] = {}

    def one(self, size: int, name: str = "p", types: tuple[str, ...] = (), kind: str = "SEQ") -> Pattern:
        """A pattern of so many events, the first ones of these types."""
        left = [one for one in self._stream.types if one not in types]
        types = (*types, *(str(one) for one in self._random.choice(left, size - len(types), replace=False)))
        names = variable_names(size)
        conditions = [
            f"{variables[1]}.{attribute} - {variables[0]}.{attribute} > {self._least_difference(*pair, attribute):.4g}"
            for place, (variables, pair) in enumerate(zip(pairwise(names), pairwise(types), strict=True))
            for attribute in [COMPARED[place % 2]]
        ]
        operands = ", ".join(f'"{of}" {variable}' for of, variable in zip(types, names, strict=True))
        text = f"NAME {name} PATTERN {kind}({operands}) WHERE {' AND '.join(conditions)} "
        (pattern,) = parse_patterns(f"{text}WITHIN {self._window_s} seconds", self._stream.schema)
        return pattern

    def many(self, number: int, sizes: tuple[int, ...]) -> list[Pattern]:
        """Draw `number` patterns of these sizes with few matches: together at most half as many as there are events."""
        some = pa.concat_tables(self._stream.jobs[::TRIED])
        pairs = [
            tuple(map(str, self._random.choice(self._stream.types, 2, replace=False))) for _ in range(SHARED_PAIRS)
        ]
        found: dict[str, Pattern] = {}
        for drawn in self._drawn(number, sizes, pairs):
            counts = detect(drawn, some, mechanism="fused", output="count")
            found |= {
                one.name: one
                for one in drawn
                if int(counts[one.name].column("count")[0].as_py()) <= some.num_rows / (2 * number)
            }
            if len(found) >= number:
                return [*found.values()][:number]
        raise InputError(f"no {number:,} patterns with few matches can be drawn over the {self._stream.name}")

    def _drawn(self, number: int, sizes: tuple[int, ...], pairs: list[tuple[str, ...]]) -> Iterator[list[Pattern]]:
        random = self._random
        for turn in range(MOST_DRAWS):
            yield [
                self.one(
                    int(random.choice(sizes)),
                    f"p{turn * number + place:04d}",
                    pairs[int(random.integers(len(pairs)))],
                    "SEQ" if random.random() < SEQUENCES else "AND",
                )
                for place in range(number)
            ]

    def _least_difference(self, one: str, other: str, attribute: str) -> float:
        if (one, other, attribute) not in self._least:
            least, most = self._selectivities
            share = least * (most / least) ** self._random.random()
            before, after = (self._random.choice(self._numbers(of, attribute), DRAWN_PAIRS) for of in (one, other))
            self._least[one, other, attribute] = float(np.quantile(after - before, 1 - share))
        return self._least[one, other, attribute]

    def _numbers(self, of: str, attribute: str) -> Floats:
        """The values of an attribute in the events of a type of the first job."""
        if (of, attribute) not in self._values:
            first = self._stream.jobs[0]
            own = first.filter(pc.equal(first.column("kind"), of))
            self._values[of, attribute] = own.column(attribute).to_numpy().astype(np.float64)
        return self._values[of, attribute]


def pattern_of_discrepancy(stream: JobStream, window_s: int) -> Pattern:
    """A pattern over the five types of `stretches_of_discrepancy`, any pair of them as selective as any other."""
    tied = ", ".join(f"{name} {name.lower()}" for name in TIED)
    text = (
        f"NAME p PATTERN AND(A a, D d, {tied}, {FLAPPING} f) WHERE a.x > d.x + 3.7 AND b.y > a.y + 3.7 AND "
        f"c.y > d.y + 3.7 AND c.x > b.x + 3.7 AND f.y > b.x + 3.7 WITHIN {window_s} seconds"
    )
    (pattern,) = parse_patterns(text, stream.schema)
    return pattern
