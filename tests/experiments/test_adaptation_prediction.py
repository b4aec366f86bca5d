"""What `cep experiment adaptation` says of plans and the events that follow them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.experiments.adaptation_patterns import (
    SEQUENCE,
    fitted_pattern,
)
from cep_pipeline.experiments.adaptation_prediction import REACHES, prediction, saved
from cep_pipeline.experiments.adaptation_prediction_tables import rank_correlation
from cep_pipeline.experiments.adaptation_streams import (
    permuted_rates,
)


def permuted_loop(every_us: int) -> AdaptiveDetection:
    return AdaptiveDetection(planner="greedy", mechanism="lazy_chain_nfa", every=f"{every_us} us")


def test_predictions_follow_the_stream() -> None:
    steady, changing = (permuted_rates(20_000, phase, seed=1) for phase in (20_000, 700))
    found, costs = [], []
    for stream in (steady, changing):
        fitted = fitted_pattern(stream, SEQUENCE, 5, 1, 100_000.0, 30)
        loop = permuted_loop(50_000_000)
        found.append(prediction(loop, fitted.pattern, stream.events))
        reaching = replace(loop, window=f"{found[-1].reach * 50_000_000} us")
        costs.append(saved(reaching, fitted.pattern, stream.events, found[-1]))
    assert set(found[0].error) == set(REACHES)
    assert found[0].error[8] < found[0].error[1] < found[1].error[1]
    for told in found:
        assert told.error[told.reach] == min(told.error.values())
    assert costs[0][1] == pytest.approx(1.0, abs=0.2)
    assert costs[1][0] > 1.0


def test_ranks_are_correlated() -> None:
    assert rank_correlation([1, 2, 3], [10, 200, 201]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1, 1, 1], [3, 2, 1]) == 0.0
