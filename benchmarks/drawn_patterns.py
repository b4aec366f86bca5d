"""Pattern files of many patterns, drawn by a seed: as in MCEP [0128]-[0132], over the events of a stream at hand.

A pattern is a SEQ or an AND of some events, compares about half of them by pairs, and asks each event to be one of the
rare ones: so that over all of a stream it has few matches, which no plan saves. A fifth has NOT or KL; KL only of types
of which few rare events are ever in one window, as their lists double with each. Where there are more types than a
pattern has events, its first two types are one of a hundred pairs: that is what patterns share.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import InputError

SEQUENCES = 0.6
"""Share of SEQ among the patterns; the others are AND."""
SPECIAL = 0.2
"""Share of patterns with NOT or KL."""
PAIRS = 100
"""Number of pairs of types with which patterns begin."""
MOST_LISTED = 6
"""Rare events in a window, of a type under KL."""
MOST_DRAWS = 100
"""Draws for a pattern that is not there yet."""


@dataclass(frozen=True)
class Rare:
    """A condition (`>` or `<`) on one event that at most a share of all events fulfils."""

    attribute: str
    sign: str
    share: float

    def of(self, events: pa.Table) -> str:
        """The condition without its variable, such as `size > 4800`."""
        return f"{self.attribute} {self.sign} {self._limit(events):.10g}"

    def holds(self, events: pa.Table) -> npt.NDArray[np.bool_]:
        """Return for each event True if it fulfils the condition."""
        values, limit = events.column(self.attribute), float(f"{self._limit(events):.10g}")
        fulfilled = pc.greater(values, limit) if self.sign == ">" else pc.less(values, limit)
        found: npt.NDArray[np.bool_] = fulfilled.fill_null(False).to_numpy()
        return found

    def _limit(self, events: pa.Table) -> float:
        values = events.column(self.attribute).drop_null().to_numpy()
        return float(np.quantile(values, 1 - self.share if self.sign == ">" else self.share, method="nearest"))


@dataclass(frozen=True)
class Drawing:
    """The rules by which patterns are drawn.

    Two events are compared by attributes of `compared`; each event has a condition of `rare`. All numbers of events in
    `sizes` are as often.
    """

    compared: tuple[str, ...]
    rare: tuple[Rare, ...]
    sizes: tuple[int, ...]
    window_s: int


def draw_statements(drawing: Drawing, type_attribute: str, events: pa.Table, number: int, seed: int) -> str:
    """The text of a pattern file of so many patterns, no two of them alike, named p0000, p0001, ….

    Each type that occurs among the events is as likely as every other. The first patterns are the same however many
    there are. Where there are not as many to be drawn, that is an InputError.
    """
    names = pc.unique(events.column(type_attribute)).drop_null().cast(pa.string()).to_pylist()
    types = sorted(names)
    rare = [one.of(events) for one in drawing.rare]
    listed = types_with_few(drawing, type_attribute, events)
    draw = random.Random(seed)
    pairs = [draw.sample(types, 2) for _ in range(PAIRS)] if len(types) > max(drawing.sizes) else []
    drawn: dict[str, None] = {}
    for _ in range(number):
        for _ in range(MOST_DRAWS):
            pattern = _draw(draw, drawing, types, pairs, rare, listed)
            if pattern not in drawn:
                drawn[pattern] = None
                break
        else:
            raise InputError(f"no {number:,} patterns can be drawn of {len(types)} event types: only {len(drawn):,}")
    return ";\n".join(f"NAME p{place:04d} {pattern}" for place, pattern in enumerate(drawn)) + "\n"


def types_with_few(drawing: Drawing, type_attribute: str, events: pa.Table) -> frozenset[str]:
    """The types of which at most `MOST_LISTED` rare events are in one window."""
    fulfilled = np.logical_or.reduce([one.holds(events) for one in drawing.rare])
    some = events.filter(pa.array(fulfilled))
    codes = some.column(type_attribute).cast(pa.string()).combine_chunks().dictionary_encode()
    times = some.column("timestamp").cast(pa.int64()).to_numpy()
    few = set(pc.unique(events.column(type_attribute)).drop_null().cast(pa.string()).to_pylist())
    indices = codes.indices.to_numpy()
    order = np.argsort(indices, kind="stable")
    ends = np.searchsorted(indices[order], np.arange(len(codes.dictionary) + 1))
    for place, name in enumerate(codes.dictionary.to_pylist()):
        own = times[order[ends[place] : ends[place + 1]]]
        last = np.searchsorted(own, own + drawing.window_s * 1_000_000, side="right")
        if (last - np.arange(len(own))).max() > MOST_LISTED:
            few.discard(name)
    return frozenset(few)


def _draw(
    draw: random.Random,
    drawing: Drawing,
    types: Sequence[str],
    pairs: Sequence[Sequence[str]],
    rare: Sequence[str],
    listed: Collection[str],
) -> str:
    size = draw.choice(drawing.sizes)
    if pairs:
        first = draw.choice(pairs)
        chosen = [*first, *draw.sample([name for name in types if name not in first], size - 2)]
    elif size <= len(types):
        chosen = draw.sample(types, size)
    else:
        chosen = [draw.choice(types) for _ in range(size)]
    operator = "SEQ" if draw.random() < SEQUENCES else "AND"
    special = draw.choice(("NOT", "KL")) if draw.random() < SPECIAL and size > 2 else ""
    place = draw.randrange(1, size - 1) if special else -1
    if special == "KL" and chosen[place] not in listed:
        special = "NOT"
    if special == "NOT":
        operator = "SEQ"
    names = [f"v{number}" for number in range(size)]
    operands = [f'"{name}" {variable}' for name, variable in zip(chosen, names, strict=True)]
    if special:
        operands[place] = f"{special}({operands[place]})"
    single = [variable for number, variable in enumerate(names) if number != place]
    candidates = [(one, other) for number, one in enumerate(single) for other in single[number + 1 :]]
    conditions = []
    for one, other in draw.sample(candidates, min(max(size // 2, 1), len(candidates))):
        attribute = draw.choice(drawing.compared)
        conditions.append(f"{one}.{attribute} {draw.choice('<>')} {other}.{attribute}")
    for variable in names:
        element = f"{variable}[i]" if special == "KL" and variable == names[place] else variable
        conditions.append(f"{element}.{draw.choice(rare)}")
    return (
        f"PATTERN {operator}({', '.join(operands)}) WHERE {' AND '.join(conditions)} WITHIN {drawing.window_s} seconds"
    )
