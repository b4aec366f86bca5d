from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.cli.command_line import cep
from tests.pipeline.project import Project, make_project, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.cli.command_line import Done


@pytest.fixture(scope="session")
def published_project(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Project, Done]:
    """A project whose three days `cep run` has published, and what that call printed; one a process."""
    project = make_project(tmp_path_factory.mktemp("project"), spark)
    done = cep("run", "--master", "local[2]", folder=project.folder)
    assert done.code == 0, done.errors
    return project, done


@pytest.fixture
def project(published_project: tuple[Project, Done]) -> Iterator[Project]:
    """The published project; whatever a test does to its files, what is published must be as it was."""
    project, _ = published_project
    before = published(project.tables())
    yield project
    make_project(project.folder, project.spark)
    assert published(project.tables()) == before
