"""Every test of the kernel runs both ways: interpreted, and by code made of each shape."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cep_pipeline.detection.fused import tiers


@pytest.fixture(autouse=True, params=["interpreted", "own code"])
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    tiers.forget_shapes()
    if request.param == "own code":
        monkeypatch.setattr(tiers, "COMPILED_FROM", 0)
    yield request.param
    tiers.forget_shapes()
