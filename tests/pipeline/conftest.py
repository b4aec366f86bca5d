from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.project import Project, make_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Project:
    return make_project(tmp_path, spark)
