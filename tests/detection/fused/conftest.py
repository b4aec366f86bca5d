"""Every test of the kernel runs both ways: interpreted, and by code made of each shape."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cep_pipeline.detection.fused import kernel


@pytest.fixture(autouse=True, params=["interpreted", "own code"])
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    kernel.forget_shapes()
    if request.param == "own code":
        monkeypatch.setattr(kernel, "COMPILED_FROM", 0)
    yield request.param
    kernel.forget_shapes()
