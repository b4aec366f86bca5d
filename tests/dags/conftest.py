"""Airflow for tests: a home and a database of its own, set before anything imports Airflow."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Environment of an Airflow without a database, for what only reads DAG files."""
    assert "airflow" not in sys.modules, "Airflow reads its environment when it is imported; import it in tests only"
    home = tmp_path_factory.mktemp("airflow")
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(CHECKOUT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(CHECKOUT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret for tests only, of a length that suffices for a signature of HS512",
        "AIRFLOW__API__BASE_URL": "http://testserver",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "ada:viewer,root:admin",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}',
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        for folder in ("dags", "plugins"):
            patch.syspath_prepend(str(CHECKOUT / folder))
        yield home


@pytest.fixture(scope="session")
def dags(airflow_home: Path) -> dict[str, Any]:
    """The DAGs of the checkout by their ids."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(CHECKOUT / "dags"), bundle_name="dags-folder")
    assert bag.import_errors == {}
    return dict(bag.dags)


@pytest.fixture(scope="session")
def airflow_database(airflow_home: Path) -> Path:
    """The same with a migrated database."""
    from airflow.utils.db import initdb

    initdb()
    logging.getLogger("py4j").setLevel(logging.WARNING)  # Airflow's settings let all loggers tell what they do
    return airflow_home
