"""`cep bench promises` on small streams: every job gives its peer's number, and one that does not is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measure import Measurement, Progress
from benchmarks.promises import measure_promises, promises, promises_table
from cep_pipeline.errors import CepError


@pytest.mark.long
def test_every_job_gives_the_number_of_its_peer(tmp_path: Path) -> None:
    chosen = promises(tmp_path, 0.005)
    measured = measure_promises(chosen, 1, Progress())
    assert [one for one, _ in measured] == chosen
    assert sum(found.matches > 0 for _, found in measured) >= len(chosen) - 1
    table = promises_table(measured)
    assert all(one.job in table for one in chosen)


def test_a_peer_that_gives_another_number_is_refused(tmp_path: Path) -> None:
    one = promises(tmp_path, 0.001)[0]
    ours, _ = one.prepare()
    wrong = replace(one, prepare=lambda: (ours, lambda: Measurement(0.1, 7)))
    with pytest.raises(CepError, match="NumPy, searchsorted finds 7 matches"):
        measure_promises([wrong], 1, Progress())
