"""Days whose raw files and tables lie in an object store give what the same days give in folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.day_work import LogObserver
from cep_pipeline.pipeline.run import PipelineRun, days_with_files, find_stale_days
from cep_pipeline.storage import open_filesystem, reach_object_stores
from tests.object_store import BUCKET, s3_server
from tests.pipeline.project import DAYS, PIPELINE, Project, published


@pytest.mark.long
def test_days_on_an_object_store_are_those_of_a_folder(project: Project, tmp_path: Path) -> None:
    project.run().run_days(DAYS)
    with s3_server() as properties:
        endpoint = properties["s3.endpoint"]
        path = tmp_path / "pipeline.yaml"
        path.write_text(
            PIPELINE.replace("data: raw", f"data: s3://{BUCKET}/raw")
            + f"warehouse:\n  location: s3://{BUCKET}/warehouse\n  catalog: sqlite:///{tmp_path}/catalog.db\n"
            + f"  properties: {{s3.endpoint: '{endpoint}'}}\n"
        )
        configuration = Configuration.load(path)
        try:
            # The workers of this session began without credentials in their environment.
            reach_object_stores(properties)
            filesystem, bucket = open_filesystem(f"s3://{BUCKET}")
            for file in sorted((tmp_path / "raw").iterdir()):
                with filesystem.open_output_stream(f"{bucket}/raw/{file.name}") as there:
                    there.write(file.read_bytes())
            stream = configuration.stream("ticks")
            tables = configuration.open_warehouse().stream(stream.schema)
            assert days_with_files(stream) == list(DAYS)
            run = PipelineRun(
                stream,
                tables,
                stream.pattern_sets,
                lambda: project.spark,
                LogObserver(),
            )
            outcome = run.run_days(DAYS)
            assert [one.events for one in outcome.days] == [6, 6, 4]
            assert published(tables) == published(project.tables())
            assert published(tables)["matches"]
            assert all(file.path.startswith(f"s3://{BUCKET}/warehouse/") for file in tables.events_files())
            assert find_stale_days(stream, tables) == []
        finally:
            reach_object_stores({})
