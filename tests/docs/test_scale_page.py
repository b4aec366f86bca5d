"""The script that measures the page of scale, at a size of a moment."""

from __future__ import annotations

import os
from unittest import mock

import pytest

from scripts import scale_page


@pytest.mark.long
def test_a_size_has_a_figure_for_each_column() -> None:
    with mock.patch.dict(os.environ):
        row = dict(zip([*scale_page.COLUMNS, *scale_page.MEMORY], scale_page.measured(2, 500), strict=True))
    assert row["days"] == "2" and 400 < int(row["events a day"]) <= 500
    assert all(float(figure.replace(",", "")) > 0 for name, figure in row.items() if name != "matches")
