"""What a mechanism does not run is refused by name, and what none runs too."""

from __future__ import annotations

import pickle

import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.errors import UnsupportedPattern
from tests.streams import events_table, stream_schema

CHAIN = "NAME chain PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.x < b.x } WITHIN 5 us"


@pytest.mark.parametrize("mechanism", sorted(set(MECHANISMS) - {"nfab"}))
def test_other_strategies_are_refused_with_the_mechanism_and_the_pattern(mechanism: str) -> None:
    (pattern,) = cep.parse_patterns(CHAIN, stream_schema())
    said = f"pattern 'chain': mechanism '{mechanism}' does not run the strategy skip_till_next_match"
    with pytest.raises(UnsupportedPattern) as refused:
        MECHANISMS[mechanism].check(pattern)
    assert str(refused.value) == said == str(pickle.loads(pickle.dumps(refused.value)))
    MECHANISMS["nfab"].check(pattern)


@pytest.mark.parametrize("output", ["count", "compressed"])
def test_forms_of_output_that_no_mechanism_makes_name_none(output: str) -> None:
    patterns = cep.parse_patterns("NAME kept PATTERN SEQ(A a, B b) WITHIN 5 us OUTPUT NON_OVERLAP", stream_schema())
    with pytest.raises(UnsupportedPattern) as refused:
        cep.detect(patterns, events_table([]), output=output)
    assert (
        str(refused.value) == f"pattern 'kept': nothing runs output '{output}' with OUTPUT NON_OVERLAP; use 'verbose'"
    )
