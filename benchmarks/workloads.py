"""The workloads of the detection benchmarks, with the match counts that they must give."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.sase_stream import sase_schema
from benchmarks.stock_stream import stock_schema
from benchmarks.traffic_stream import traffic_schema
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

STOCK, SASE, TRAFFIC = "stock", "sase", "traffic"
"""The streams that workloads run over: `stock_stream`, `sase_stream` and `traffic_stream`."""
SCHEMAS: Mapping[str, Callable[[], StreamSchema]] = {STOCK: stock_schema, SASE: sase_schema, TRAFFIC: traffic_schema}
"""Stream -> what makes its schema."""


@dataclass(frozen=True)
class Workload:
    """One pattern or many over one stream, named as results are told apart by.

    `matches` has the number of matches of all statements together by the number of events, where it is known.
    """

    name: str
    text: str = field(repr=False)
    matches: Mapping[int, int]
    stream: str = STOCK

    def patterns(self) -> list[Pattern]:
        """The patterns, parsed."""
        return parse_patterns(self.text, SCHEMAS[self.stream](), source=self.name)


MANY_PATTERNS, MANY_WINDOW_MS = 100, 500


def draw_types(patterns: int = MANY_PATTERNS, seed: int = 7) -> list[tuple[int, ...]]:
    """The five types of each of W6's patterns, as indices into the tickers, all patterns different.

    The first two are one of ten ordered pairs, so that there is something to share; the others are drawn freely.
    """
    draw = random.Random(seed)
    types = list(range(20))
    pairs = [draw.sample(types, 2) for _ in range(10)]
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < patterns:
        pair = draw.choice(pairs)
        rest = draw.sample([one for one in types if one not in pair], 3)
        drawn[(*pair, *rest)] = None
    return list(drawn)


def _many_patterns() -> str:
    names = "abcde"
    rising = " AND ".join(f"{one}.diff < {other}.diff" for one, other in pairwise(names))
    statements = (
        f"NAME W6_{number} PATTERN SEQ("
        + ", ".join(f"S{code:02d} {name}" for code, name in zip(types, names, strict=True))
        + f") WHERE {rising} WITHIN {MANY_WINDOW_MS} ms"
        for number, types in enumerate(draw_types())
    )
    return ";\n".join(statements)


def _sase(name: str, strategy: str) -> str:
    return (
        f"NAME {name} PATTERN SEQ(Stock+ a[], Stock b) WHERE {strategy} {{ [symbol] AND a[1].price % 500 = 0 "
        "AND a[i].price > a[i-1].price AND b.volume < 150 } WITHIN 500 ms"
    )


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "W1",
            "NAME W1 PATTERN SEQ(S00 a, S07 b, S15 c) WHERE a.diff < b.diff AND b.diff < c.diff WITHIN 2000 ms",
            {10_000: 15_984, 100_000: 163_430, 1_000_000: 1_495_075, 5_000_000: 6_226_129},
        ),
        Workload(
            "W2",
            "NAME W2 PATTERN AND(S05 a, S08 b, S11 c, S14 d) WHERE a.diff < b.diff AND c.diff < d.diff WITHIN 500 ms",
            {10_000: 13_474, 100_000: 93_680, 1_000_000: 1_012_875, 5_000_000: 5_083_119},
        ),
        Workload(
            "W3",
            "NAME W3 PATTERN SEQ(S02 a, ~S12 b, S06 c, S13 d) "
            "WHERE a.diff < c.diff AND c.diff < d.diff AND b.diff < a.diff WITHIN 1500 ms",
            {10_000: 8_136, 100_000: 72_549, 1_000_000: 704_802, 5_000_000: 3_541_586},
        ),
        Workload(
            "W4",
            "NAME W4 PATTERN SEQ(S08 a, S10+ b[], S12 c) WHERE a.diff < c.diff WITHIN 700 ms",
            {10_000: 4_461, 100_000: 69_174, 1_000_000: 783_521, 5_000_000: 4_018_565},
        ),
        Workload(
            "W4b",
            "NAME W4b PATTERN SEQ(S08 a, S10+ b[], S12 c) WHERE a.diff < c.diff AND b[i].diff > b[i-1].diff "
            "WITHIN 1500 ms",
            {10_000: 18_023, 100_000: 179_332, 1_000_000: 2_191_633, 5_000_000: 10_802_299},
        ),
        Workload(
            "W5",
            _sase("W5", "partition_contiguity"),
            {10_000: 5, 100_000: 120, 1_000_000: 969},
            SASE,
        ),
        Workload(
            "W5n",
            _sase("W5n", "skip_till_next_match"),
            {10_000: 652, 100_000: 8_693, 1_000_000: 74_933},
            SASE,
        ),
        Workload(
            "W6",
            _many_patterns(),
            {10_000: 22_582, 100_000: 202_890, 1_000_000: 2_046_825, 5_000_000: 8_268_634},
        ),
        Workload(
            "W7",
            "NAME W7 PATTERN SEQ(Reading a, Reading b, Reading c) WHERE [report_id] "
            "AND a.avg_speed > b.avg_speed AND b.avg_speed > c.avg_speed WITHIN 900 seconds",
            {3_607_772: 742_325},
            TRAFFIC,
        ),
    )
}
"""Name -> workload."""
