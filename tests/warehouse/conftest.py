from __future__ import annotations

from pathlib import Path

import pytest

from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.published_days import Trades


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse.open(tmp_path / "warehouse")


@pytest.fixture
def tables(warehouse: Warehouse) -> StreamTables:
    return warehouse.stream(Trades())
