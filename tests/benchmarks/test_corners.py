"""`cep bench corners` on small streams: every job gives its peer's number, and one that does not is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.corners import corners, corners_table, measure_corners
from benchmarks.measure import Measurement, Progress
from benchmarks.streams import Streams
from cep_pipeline.errors import CepError

OF_PROCESSES = ("the first `cep detect`", "every later `cep detect`", "`cep run`")


def test_every_job_in_this_process_gives_the_number_of_its_peer(tmp_path: Path) -> None:
    every = [one for one in corners(Streams(), tmp_path, 0.002) if not one.job.startswith(OF_PROCESSES)]
    chosen = list({one.job: one for one in every}.values())  # one size of each: so short, all are alike
    measured = measure_corners(chosen, 1, Progress())
    assert len(measured) > 15
    assert sum(found.matches > 0 for _, found in measured) > 12
    table = corners_table(measured)
    assert all(corner.job in table for corner, _ in measured)


def test_a_peer_that_gives_another_number_is_refused(tmp_path: Path) -> None:
    corner = next(one for one in corners(Streams(), tmp_path, 0.001) if one.job.startswith("count a pair"))
    prepared = corner.prepare()
    assert prepared is not None
    wrong = replace(corner, prepare=lambda: (prepared[0], lambda: Measurement(0.1, 7)))
    with pytest.raises(CepError, match="NumPy, searchsorted finds 7 matches"):
        measure_corners([wrong], 1, Progress())
