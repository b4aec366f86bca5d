"""The workloads of the detection benchmarks over the stock stream, with the match counts that they must give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.patterns.pattern import Pattern


@dataclass(frozen=True)
class Workload:
    """A pattern, and number of events -> number of matches in the benchmark stream."""

    name: str
    text: str
    matches: Mapping[int, int]

    def pattern(self) -> Pattern:
        """The pattern, parsed."""
        from cep_pipeline.language.parser import parse_patterns

        return parse_patterns(self.text, stock_schema(), source=self.name)[0]


def stock_schema() -> StreamSchema:
    """Schema of the benchmark stream."""
    from cep_pipeline.events.schema import StreamSchema

    attributes = {"ticker": "string", "price": "float64", "diff": "float64", "volume": "int64"}
    return StreamSchema.from_dict(
        {"base_type": "Stock", "type_attribute": "ticker", "attributes": attributes}, name="stock"
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
    )
}
"""Name -> workload; those of the language's later parts join as their mechanisms do."""
